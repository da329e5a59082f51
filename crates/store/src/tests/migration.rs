//! Folders of the version before, which must be rewritten, and folders of newer versions.

use super::super::frame::{Kind, encode_frame, encode_segment, frame_bytes};
use super::super::{VERSION, line, snapshot};
use super::*;

/// The same snapshot as of this version.
fn with_version(mut bytes: Vec<u8>, version: u8) -> Vec<u8> {
    for start in [0, bytes.len() / 2] {
        bytes[start + 7] = b'0' + version;
        let crc = crc32c::crc32c(&bytes[start..start + 28]).to_le_bytes();
        bytes[start + 28..start + 32].copy_from_slice(&crc);
    }
    bytes
}

/// A snapshot of version 2: one chunk.
fn old_snapshot(chunk: Vec<u8>) -> Vec<u8> {
    let disk = FakeDisk::default();
    snapshot::write(&*disk.create("snapshot", 0).unwrap(), &mut give(vec![chunk])).unwrap();
    with_version(disk.read("snapshot").unwrap(), 2)
}

/// A folder of version 2, with a snapshot and several segments. Its numbers are 6 to 40.
fn version_2() -> FakeDisk {
    version_2_with(SEGMENT_BYTES, &[])
}

/// The same with segments of another length, and with `more` as the last payload, of version 2.
fn version_2_with(segment_bytes: usize, more: &[u8]) -> FakeDisk {
    let disk = FakeDisk::default();
    disk.put("FORMAT", line::encode("baton data format 2").into_bytes());
    let identity = format!("baton cluster {:016x} node {:016}", IDENTITY.cluster, IDENTITY.node);
    disk.put("IDENTITY", line::encode(&identity).repeat(2).into_bytes());
    disk.put("snapshot-00000000000000000015.baton", old_snapshot(chunks(15).concat()));
    // A leftover that is never read.
    disk.put("snapshot-00000000000000000003.baton", old_snapshot(b"another".to_vec()));
    let mut payloads: Vec<Vec<u8>> = (6..=40).map(|number| payload(number)[1..].to_vec()).collect();
    payloads.extend((!more.is_empty()).then(|| more.to_vec()));
    let mut rest = &payloads[..];
    let mut first = 41;
    while !rest.is_empty() {
        let nonce = first * 1000;
        let mut bytes = encode_segment(2, segment_bytes as u32, first, nonce);
        let mut sequence = first;
        let mut add = |bytes: &mut Vec<u8>, kind, payload: &[u8]| {
            bytes.extend(encode_frame(kind, sequence, nonce, payload));
            sequence += 1;
        };
        add(&mut bytes, Kind::Frame, &head(5)[1..]);
        while let Some(payload) = rest.first() {
            if bytes.len() + frame_bytes(payload.len()) + 64 > segment_bytes {
                add(&mut bytes, Kind::Seal, &[]);
                break;
            }
            add(&mut bytes, Kind::Frame, payload);
            rest = &rest[1..];
        }
        bytes.resize(segment_bytes, 0);
        disk.put(&format!("log-{first:020}.baton"), bytes);
        first = sequence;
    }
    assert!(disk.names().len() > 8, "{:?}", disk.names());
    disk
}

/// Of the folders of version 2.
const IDENTITY: Identity = Identity { cluster: 7, node: 9 };

fn check(found: &Everything) {
    assert_eq!(found.numbers, Numbers { released: 5, last: 40 });
    assert_eq!(found.snapshot, Some((15, chunks(15))));
    assert_eq!(found.identity, IDENTITY);
}

fn logs(disk: &FakeDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("log-")).collect()
}

#[test]
fn the_first_start_migrates_everything_and_the_next_nothing() {
    let disk = version_2();
    let before = logs(&disk);
    let found = everything(&disk).unwrap();
    check(&found);
    assert_eq!(logs(&disk), before, "the frames have the same numbers");
    for name in before {
        let bytes = disk.read(&name).unwrap();
        assert!(bytes.starts_with(b"BAT4"));
        // Payloads are longer now, and so are some segments.
        assert!((SEGMENT_BYTES..SEGMENT_BYTES + 30).contains(&bytes.len()), "{}", bytes.len());
    }
    assert!(disk.read("snapshot-00000000000000000015.baton").unwrap().starts_with(b"BATSNAP4"));
    // Version 2 reports this as newer, not as damaged.
    assert_eq!(disk.read("FORMAT").unwrap(), b"baton data format 4 8f7918bb\n");
    assert_eq!(disk.read("WRITER").unwrap(), format!("baton {}\n", env!("CARGO_PKG_VERSION")).as_bytes());

    let operations = operations(&disk);
    assert_eq!(everything(&disk).unwrap(), found);
    assert!(!operations.lock().unwrap().iter().any(|operation| matches!(operation, Operation::Rename(_))));
    disk.ask_no_more();
}

/// Its files have the current layout. So only FORMAT says the new version, and an older release refuses the folder.
#[test]
fn files_that_need_no_rewriting_stay_as_they_are() {
    let (disk, found) = filled();
    disk.put("FORMAT", line::encode("baton data format 2").into_bytes());
    for name in logs(&disk) {
        let mut bytes = disk.read(&name).unwrap();
        let (first, length) = (name[4..24].parse().unwrap(), bytes.len() as u32);
        let header = encode_segment(2, length, first, number(&bytes[16..24]));
        bytes[..header.len()].copy_from_slice(&header);
        disk.put(&name, bytes);
    }
    let operations = operations(&disk);
    assert_eq!(everything_by(&disk, &KeepsAll, &mut Vec::new()).unwrap(), found);
    let renamed = |operation: &Operation| matches!(operation, Operation::Rename(name) if name != "FORMAT");
    assert!(!operations.lock().unwrap().iter().any(renamed), "no segment and no snapshot is replaced");
    disk.ask_no_more();
    assert!(disk.read("FORMAT").unwrap().starts_with(b"baton data format 4"));
    assert!(disk.read(&logs(&disk)[0]).unwrap().starts_with(b"BAT2"));
    let store = Store::open(Arc::new(disk.clone()), &KeepsAll).unwrap();
    let mut journal = Journal::open(&store, SEGMENT_BYTES, |_| Ok(None)).unwrap();
    work(&mut journal, 35..=60, &AtomicUsize::new(0)).unwrap();
    assert!(disk.read(&logs(&disk).pop().unwrap()).unwrap().starts_with(b"BAT4"), "a new segment has the new version");
    assert_eq!(everything_by(&disk, &KeepsAll, &mut Vec::new()).unwrap().numbers.last, 60);
}

#[test]
fn whoever_starts_the_server_is_told_that_there_is_no_way_back_once() {
    let disk = version_2();
    let remarks = || Store::open(Arc::new(disk.clone()), &FromTwo).unwrap().remarks();
    let migrated = "the data folder had data format 2 and now has 4: the version that wrote it cannot open it any more";
    // The folder is not complete before its log is open. If a start ends before that, the next start shows the remark
    // again.
    assert_eq!((remarks(), remarks()), (vec![migrated.to_owned()], vec![migrated.to_owned()]));
    everything(&disk).unwrap();
    assert_eq!(remarks(), Vec::<String>::new());
}

#[test]
fn a_migrated_log_goes_on_however_full_its_last_segment_is() {
    let mut tight = 0;
    for segment_bytes in (480..=600).step_by(2) {
        let disk = version_2_with(segment_bytes, &[]);
        let (mut journal, numbers) = open(&disk).unwrap();
        assert_eq!(numbers.last, 40);
        tight += usize::from(disk.read(&logs(&disk).pop().unwrap()).unwrap().len() > segment_bytes);
        work(&mut journal, 41..=50, &AtomicUsize::new(0)).unwrap();
        assert_eq!(open(&disk).unwrap().1.last, 50);
    }
    assert!(tight > 0, "some are so full that they had to grow");
}

#[test]
fn a_power_cut_at_any_operation_of_a_migration_loses_nothing() {
    let disk = version_2();
    let done = Arc::new(AtomicUsize::new(0));
    let cuts = cut_before_each(&disk, &done, 5);
    everything(&disk).unwrap();
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 300, "{}", cuts.len());
    let mut mixed = 0;
    for (i, (_, disk)) in cuts.into_iter().enumerate() {
        let format = disk.read("FORMAT").unwrap();
        let new = logs(&disk).iter().filter(|name| disk.read(name).unwrap().starts_with(b"BAT4")).count();
        mixed += usize::from(new > 0 && new < logs(&disk).len());
        let identity = disk.read("IDENTITY").ok();
        if format.starts_with(b"baton data format 4") {
            let snapshot = disk.read("snapshot-00000000000000000015.baton").unwrap();
            assert!(new == logs(&disk).len() && identity.is_some() && snapshot.starts_with(b"BATSNAP4"), "cut {i}");
        }
        let found = everything(&disk).unwrap_or_else(|e| panic!("cut {i}: {e}"));
        check(&found);
        assert!(identity.is_none_or(|identity| disk.read("IDENTITY").unwrap() == identity), "cut {i}");
        assert_eq!(everything(&disk.after_power_cut(0)).unwrap(), found, "cut {i}");
        let (mut journal, _) = open(&disk).unwrap();
        work(&mut journal, 41..=43, &AtomicUsize::new(0)).unwrap();
        assert_eq!(open(&disk).unwrap().1.last, 43, "cut {i}");
    }
    assert!(mixed > 50, "{mixed} folders of both versions");
}

#[test]
fn a_migration_that_fails_at_any_operation_goes_on_at_the_next_start() {
    for fail_at in 0.. {
        let disk = version_2();
        fail_after(&disk, fail_at);
        let found = everything(&disk);
        disk.ask_no_more();
        check(&everything(&disk.after_power_cut(fail_at as u64)).unwrap());
        check(&everything(&disk).unwrap());
        if found.is_ok() {
            assert!(fail_at > 40, "{fail_at}");
            return;
        }
    }
}

#[test]
fn files_of_version_2_in_a_folder_of_version_4_are_migrated_too() {
    let disk = version_2();
    let old = contents(&disk);
    let found = everything(&disk).unwrap();
    for (name, bytes) in old.into_iter().filter(|(name, _)| name != "FORMAT") {
        let mixed = disk.copy();
        mixed.put(&name, bytes);
        assert_eq!(everything(&mixed).unwrap(), found, "{name}");
    }
}

#[test]
fn a_torn_write_at_the_end_of_a_log_of_version_2_is_no_damage() {
    let disk = version_2();
    let name = logs(&disk).pop().unwrap();
    let mut bytes = disk.read(&name).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 60..].fill(0);
    disk.put(&name, bytes);
    let found = everything(&disk).unwrap();
    assert_eq!(found.numbers.last, 39);
    assert_eq!(everything(&disk).unwrap(), found);
}

#[test]
fn a_first_start_of_version_2_that_was_interrupted_goes_on_as_version_4() {
    let disk = FakeDisk::default();
    let mut bytes = encode_segment(2, SEGMENT_BYTES as u32, 1, 9);
    bytes.extend(encode_frame(Kind::Frame, 1, 9, &[]));
    bytes.resize(SEGMENT_BYTES, 0);
    disk.put("log-00000000000000000001.baton", bytes);
    assert_eq!(everything(&disk).unwrap().numbers, Numbers::default());
    assert!(disk.read("log-00000000000000000001.baton").unwrap().starts_with(b"BAT4"));
    // The start refuses the folder if it contains any data.
    for extra in ["log-00000000000000000003.baton", "snapshot-00000000000000000015.baton"] {
        let disk = version_2();
        disk.remove("FORMAT").unwrap();
        for name in disk.names().into_iter().filter(|name| name != extra && !name.contains("041")) {
            disk.remove(&name).unwrap();
        }
        let error = everything(&disk).unwrap_err().to_string();
        assert!(error.starts_with("the data folder holds data, but its file FORMAT is missing"), "{error}");
    }
}

/// A refused folder must stay unchanged, so that another version can still read it.
fn refused_untouched(disk: &FakeDisk) -> OpenError {
    let before = contents(disk);
    let error = everything(disk).unwrap_err();
    assert!(contents(disk) == before, "{error}: {:?}", disk.names());
    error
}

#[test]
fn what_cannot_be_migrated_is_refused_before_anything_is_changed() {
    let why = refused_untouched(&version_2_with(SEGMENT_BYTES, b"from nobody"));
    assert!(matches!(&why, OpenError::Damaged { what, .. } if what == "it makes no sense"), "{why}");
    let why = refused_untouched(&version_2_with(SEGMENT_BYTES, b"from version 7"));
    assert!(matches!(why, OpenError::Newer { found: 7, writer: None }), "{why}");

    // A segment in the middle, and both copies of the snapshot.
    for name in [logs(&version_2())[3].clone(), "snapshot-00000000000000000015.baton".to_owned()] {
        let disk = version_2();
        let mut bytes = disk.read(&name).unwrap();
        let at = if name.starts_with("log-") { bytes.len() / 2 - 20 } else { 40 };
        bytes[at..].fill(0xaa);
        disk.put(&name, bytes);
        let why = refused_untouched(&disk).to_string();
        assert!(
            why.starts_with(if name.starts_with("log-") { "frame 53 of the log is missing" } else { &name }),
            "{why}"
        );
    }
}

#[test]
fn any_damaged_byte_of_version_2_is_healed_or_refused() {
    let disk = version_2();
    let (mut healed, mut refused) = (0, 0);
    for (name, bytes) in contents(&disk) {
        for at in (0..bytes.len()).filter(|at| bytes[*at] != 0).step_by(11) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x11;
            let damaged = disk.copy();
            damaged.put(&name, bad);
            match everything(&damaged) {
                Ok(found) => {
                    check(&found);
                    healed += 1;
                }
                Err(OpenError::Damaged { file, .. }) => {
                    assert!(file == name && name == "FORMAT", "{name}, byte {at}: only FORMAT has one copy");
                    refused += 1;
                }
                Err(other) => panic!("{name}, byte {at}: {other}"),
            }
        }
    }
    assert!(healed > 200 && refused > 2, "{healed} healed, {refused} refused");
}

#[test]
fn what_a_newer_version_wrote_is_refused_by_its_name_and_is_not_called_damaged() {
    let sentence = |found: u32| {
        format!(
            "it has data format {found}, written by baton 9.8.7; this is baton {}, which reads formats 2 to 4: start it with \
             baton 9.8.7 or a newer version, or restore a backup that this version wrote",
            env!("CARGO_PKG_VERSION")
        )
    };
    for disk in [filled().0, version_2()] {
        disk.put("WRITER", b"baton 9.8.7\n".to_vec());
        // First the whole folder is newer; then only files of it, as after an interrupted migration by a newer version.
        let newer = disk.copy();
        newer.put("FORMAT", line::encode("baton data format 5").into_bytes());
        assert_eq!(refused_untouched(&newer).to_string(), sentence(5));

        for (i, name) in logs(&disk).into_iter().enumerate() {
            let newer = disk.copy();
            let mut bytes = newer.read(&name).unwrap();
            let first = name[4..24].parse().unwrap();
            let header = encode_segment(5, bytes.len() as u32, first, number(&bytes[16..24]));
            bytes[..64].copy_from_slice(&header);
            newer.put(&name, bytes);
            assert_eq!(refused_untouched(&newer).to_string(), sentence(5), "segment {i}");
        }

        let newer = disk.copy();
        let name = "snapshot-00000000000000000015.baton";
        newer.put(name, with_version(filled().0.read(name).unwrap(), 5));
        assert_eq!(refused_untouched(&newer).to_string(), sentence(5));
    }

    // The folder's version is known, but a payload in it is of an unknown version.
    let disk = FakeDisk::default();
    let (mut journal, _) = open(&disk).unwrap();
    journal.append(&[5, 1, 2], None, Vec::new).unwrap();
    disk.put("WRITER", b"baton 9.8.7\n".to_vec());
    assert_eq!(refused_untouched(&disk).to_string(), sentence(5));
    assert_eq!(VERSION, 4);
}
