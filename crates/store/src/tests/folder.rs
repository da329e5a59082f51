//! The folder as a whole: damage to any file, its identity, and files that are removed while it is in use.

use std::io;

use super::super::{DiskFile, Files, Folder};
use super::*;

#[test]
fn any_damaged_byte_is_healed_or_the_start_is_refused() {
    let (disk, expected) = filled();
    let (mut healed, mut refused) = (0, 0);
    for (name, bytes) in contents(&disk) {
        // Only a few bytes of long stretches of zeros.
        for at in (0..bytes.len()).filter(|at| bytes[*at] != 0 || bytes.len() < 4096 || at % 401 == 0) {
            let pattern = [0x01, 0x10, 0xff][at % 3];
            let mut bad = bytes.clone();
            bad[at] ^= pattern;
            let damaged = disk.copy();
            damaged.put(&name, bad.clone());
            let mut remarks = Vec::new();
            match everything_with(&damaged, &mut remarks) {
                Ok(found) => {
                    assert_eq!(found, expected, "{name}, byte {at} xor {pattern:#x}");
                    healed += 1;
                    // The start heals the disk, too, because the other copy may be damaged next. Zeros are not used. A
                    // rewritten snapshot has another nonce.
                    let now = damaged.read(&name).unwrap();
                    let anew = name.starts_with("snapshot-") && now != bad;
                    assert!(now == bytes || anew || bytes[at] == 0, "{name}, byte {at}");
                    let has_copies = !["SYNCED", "WRITER"].contains(&&*name);
                    let warning = format!(
                        "{name} was damaged at byte {at}, and is repaired from its second copy: the disk may be failing, so \
                         check it"
                    );
                    let expected = if now != bad && has_copies { vec![warning] } else { Vec::new() };
                    assert_eq!(remarks, expected);
                }
                Err(OpenError::Damaged { file, .. }) => {
                    assert_eq!((&*file, &*name), ("FORMAT", "FORMAT"));
                    refused += 1;
                }
                Err(other) => panic!("{name}, byte {at} xor {pattern:#x}: {other}"),
            }
        }
    }
    assert!(healed > 2_000 && refused < 50, "{healed} healed, {refused} refused");
}

#[test]
fn a_file_that_is_cut_short_longer_or_gone_is_noticed_or_healed() {
    let (disk, expected) = filled();
    // The content of these files is also stored elsewhere, or they contain it twice.
    let spare = ["WRITER", "SYNCED", "IDENTITY"];
    for (name, bytes) in contents(&disk) {
        let step = [1, 5, 61][usize::from(bytes.len() > 200) + usize::from(bytes.len() > 4096)];
        for length in (0..bytes.len()).step_by(step).chain([bytes.len() + 1]) {
            let mut cut = bytes.clone();
            cut.resize(length, 0);
            let damaged = disk.copy();
            damaged.put(&name, cut);
            match everything(&damaged) {
                Ok(found) => {
                    assert!(spare.contains(&&*name), "{name} with {length} bytes");
                    assert_eq!(found, expected, "{name} with {length} bytes");
                    assert_eq!(damaged.read(&name).unwrap(), bytes, "{name} with {length} bytes");
                }
                Err(error) => assert!(!["WRITER", "SYNCED"].contains(&&*name), "{name} with {length} bytes: {error}"),
            }
        }
        let gone = disk.copy();
        gone.remove(&name).unwrap();
        let released = disk.names().into_iter().find(|name| name.starts_with("log-")).unwrap();
        match everything(&gone) {
            // The reader of the log notices a missing snapshot. A missing oldest segment is noticed by the reader of
            // its numbers; here they are released.
            Ok(found) if name.starts_with("snapshot-") => {
                assert_eq!(found, Everything { snapshot: None, ..expected.clone() })
            }
            Ok(found) if name == released => assert_eq!(found, expected),
            Ok(found) => {
                assert_eq!((found, ["WRITER", "SYNCED"].contains(&&*name)), (expected.clone(), true), "{name}")
            }
            Err(OpenError::Missing { .. }) => {}
            Err(other) => panic!("without {name}: {other}"),
        }
    }
}

#[test]
fn a_folder_keeps_its_identity_from_the_first_moment_on() {
    let disk = FakeDisk::default();
    let done = Arc::new(AtomicUsize::new(0));
    let cuts = cut_before_each(&disk, &done, 8);
    let identity = everything(&disk).unwrap().identity;
    assert!(identity.cluster != 0 && (1..1 << 53).contains(&identity.node), "{identity:?}");
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 100);
    let mut kept = 0;
    for (_, disk) in cuts {
        let there = disk.names().contains(&"IDENTITY".to_owned());
        assert!(there || !disk.names().iter().any(|name| name.starts_with("log-") && name.ends_with(".baton")));
        let found = everything(&disk).unwrap().identity;
        assert!(!there || found == identity);
        kept += usize::from(there);
        assert_eq!(everything(&disk.after_power_cut(0)).unwrap().identity, found);
    }
    assert!(kept > 50, "{kept}");
    let another = everything(&FakeDisk::default()).unwrap().identity;
    assert!(another.cluster != identity.cluster && another.node != identity.node);
}

#[test]
fn a_damaged_line_of_the_identity_is_healed_and_two_are_refused() {
    let (disk, expected) = filled();
    let text = String::from_utf8(disk.read("IDENTITY").unwrap()).unwrap();
    let line = format!("baton cluster {:016x} node {:016} ", expected.identity.cluster, expected.identity.node);
    assert!(text.starts_with(&line) && text.len() == 2 * (line.len() + 9), "{text}");
    let half = text.len() / 2;
    for at in 0..half {
        let mut bad = text.clone().into_bytes();
        bad[at] ^= 1;
        bad[half + (at * 7) % half] ^= 1;
        disk.put("IDENTITY", bad);
        let error = everything(&disk).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == "IDENTITY"), "{error}");
    }
    // The server never writes two different valid lines.
    let other = everything(&FakeDisk::default()).map(|_| filled().0.read("IDENTITY").unwrap()).unwrap();
    disk.put("IDENTITY", [text.as_bytes()[..half].to_vec(), other[half..].to_vec()].concat());
    assert!(matches!(everything(&disk), Err(OpenError::Damaged { .. })));
    disk.remove("IDENTITY").unwrap();
    assert_eq!(everything(&disk).unwrap_err().to_string(), "the file IDENTITY of the data folder is missing");
}

#[test]
fn a_start_writes_no_new_file_so_that_it_works_on_a_full_disk() {
    let (disk, expected) = filled();
    let operations = operations(&disk);
    assert_eq!(everything(&disk).unwrap(), expected);
    let operations = operations.lock().unwrap();
    assert!(operations.iter().all(|operation| !matches!(operation, Operation::Create(_))), "{operations:?}");
}

#[test]
fn it_is_told_if_nobody_knows_how_far_the_log_was_synced() {
    let unknown =
        "SYNCED was missing or unreadable in the data folder: a loss of the last entries would not have been noticed";
    let (disk, expected) = filled();
    let remarks = || Store::open(Arc::new(disk.clone()), &FromTwo).unwrap().remarks();
    assert_eq!(remarks(), Vec::<String>::new());
    disk.put("SYNCED", vec![0; 8192]);
    assert_eq!(remarks(), [unknown]);
    disk.remove("SYNCED").unwrap();
    assert_eq!(remarks(), [unknown]);
    assert_eq!(everything(&disk).unwrap(), expected);
    assert_eq!(remarks(), Vec::<String>::new());
    // A new folder has no remarks yet.
    assert!(Store::open(Arc::new(FakeDisk::default()), &FromTwo).unwrap().remarks().is_empty());
}

fn running(disk: Arc<dyn Disk>) -> (Store, Journal) {
    let store = Store::open(disk, &FromTwo).unwrap();
    let mut journal = Journal::open(&store, SEGMENT_BYTES, |_| Ok(None)).unwrap();
    work(&mut journal, 1..=34, &AtomicUsize::new(0)).unwrap();
    store.snapshots().save(15, &mut give(chunks(15))).unwrap();
    (store, journal)
}

#[test]
fn a_file_that_is_removed_or_changed_under_a_running_server_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Folder::open(folder.path()).unwrap());
    let (made, _journal) = running(disk.clone());
    // One store that created the files, and one that found them.
    let found = Store::open(disk.clone(), &FromTwo).unwrap();
    Journal::open(&found, SEGMENT_BYTES, |_| Ok(None)).unwrap();
    let mut names = disk.list().unwrap();
    names.retain(|name| name != "LOCK" && name != "WRITER");
    assert!(names.len() > 7, "{names:?}");
    for files in [made.files(), found.files()] {
        assert_eq!(files.missing(&*disk).unwrap(), None);
        for name in &names {
            let (path, away) = (folder.path().join(name), folder.path().join("away"));
            std::fs::rename(&path, &away).unwrap();
            let gone = format!("{name} was removed while the server ran");
            assert_eq!(files.missing(&*disk).unwrap(), Some(gone));
            std::fs::rename(&away, &path).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(3).unwrap();
            let changed = format!("{name} has 3 bytes and should have {length}: it was changed while the server ran");
            assert_eq!(files.missing(&*disk).unwrap(), Some(changed));
            file.set_len(length).unwrap();
            assert_eq!(files.missing(&*disk).unwrap(), None);
        }
    }
}

/// A disk that checks that all required files exist, before and after each change of names.
struct Watched {
    disk: FakeDisk,
    files: Mutex<Files>,
    looks: AtomicUsize,
}

impl Watched {
    fn look<T>(&self, operation: impl FnOnce(&FakeDisk) -> T) -> T {
        let look = || assert_eq!(self.files.lock().unwrap().missing(&self.disk).unwrap(), None);
        look();
        let result = operation(&self.disk);
        look();
        self.looks.fetch_add(1, Ordering::SeqCst);
        result
    }
}

impl Disk for Watched {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk.read(name)
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        self.look(|disk| disk.create(name, length))
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        self.disk.length(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.look(|disk| disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.look(|disk| disk.remove(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.look(|disk| disk.sync_folder())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn is_there(&self) -> bool {
        self.disk.is_there()
    }
}

#[test]
fn files_that_come_and_go_in_the_course_of_work_are_not_missed() {
    let watched = Watched { disk: FakeDisk::default(), files: Mutex::default(), looks: AtomicUsize::new(0) };
    let watched = Arc::new(watched);
    let (store, mut journal) = running(watched.clone());
    *watched.files.lock().unwrap() = store.files();
    for number in 35..=100 {
        work(&mut journal, number..=number, &AtomicUsize::new(0)).unwrap();
        if number % 3 == 0 {
            // Saves the same snapshot again with another length, or a newer one.
            let chunk = vec![1; (number as usize % 9) * 1000];
            store.snapshots().save(number / 6, &mut give(vec![chunk])).unwrap();
        }
    }
    assert!(watched.looks.load(Ordering::SeqCst) > 200);
}
