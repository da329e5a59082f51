//! The journal and the snapshots on a disk that forgets, tears and fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::fake::{FakeDisk, Operation};
use super::{Files, Journal, OpenError, Snapshots, Store, Unreadable, Upgrade};

const SEGMENT_BYTES: usize = 512;

/// What a reader of the journal would make of its payloads: numbers in order, from the first that is not released. A head
/// says up to where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    released: u64,
    last: u64,
}

impl Numbers {
    fn visit(&mut self, payload: &[u8]) -> Result<Option<u64>, String> {
        match payload {
            [] => Ok(None),
            [b'h', released @ ..] => {
                self.released = self.released.max(number(released));
                self.last = self.last.max(self.released);
                Ok(None)
            }
            payload => {
                let number = number(&payload[..8]);
                if self.last != 0 && number != self.last + 1 && self.last != self.released {
                    return Err(format!("{number} follows {}", self.last));
                }
                self.last = number;
                Ok(Some(number))
            }
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn payload(number: u64) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(8 + (number as usize * 7) % 50, number as u8);
    payload
}

fn head(released: u64) -> Vec<u8> {
    [&b"h"[..], &released.to_le_bytes()].concat()
}

struct Tagged;

impl Upgrade for Tagged {
    fn frame(&self, _: u32, payload: &[u8]) -> Result<Vec<u8>, Unreadable> {
        Ok(payload.to_vec())
    }

    fn snapshot(&self, _: u32, chunks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Unreadable> {
        Ok(chunks)
    }
}

fn open(disk: &FakeDisk) -> Result<(Journal, Numbers), OpenError> {
    let mut numbers = Numbers::default();
    let store = Store::open(Arc::new(disk.clone()), &Tagged)?;
    let journal =
        Journal::open(&store, SEGMENT_BYTES, |payload| numbers.visit(payload).map_err(Unreadable::Malformed))?;
    Ok((journal, numbers))
}

/// Appends `numbers` and releases all but the last few. Counts in `acknowledged` what is durable.
fn work(
    journal: &mut Journal,
    numbers: std::ops::RangeInclusive<u64>,
    acknowledged: &AtomicUsize,
) -> std::io::Result<()> {
    for number in numbers {
        journal.append(&payload(number), Some(number), || head(number.saturating_sub(20)))?;
        acknowledged.store(number as usize, Ordering::SeqCst);
        if number % 10 == 0 {
            let released = number.saturating_sub(15);
            journal.append(&head(released), None, || head(released))?;
            journal.release(released)?;
        }
    }
    Ok(())
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_acknowledged() {
    let disk = FakeDisk::default();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let (seen, count) = (cuts.clone(), acknowledged.clone());
    disk.before_each(move |inner, _| {
        for seed in 0..12 {
            seen.lock().unwrap().push((count.load(Ordering::SeqCst) as u64, inner.after_power_cut(seed)));
        }
        Ok(())
    });
    let (mut journal, _) = open(&disk).unwrap();
    work(&mut journal, 1..=60, &acknowledged).unwrap();
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 2000, "{}", cuts.len());
    for (i, (acknowledged, disk)) in cuts.into_iter().enumerate() {
        let (mut journal, numbers) = open(&disk).unwrap_or_else(|e| panic!("cut {i}: {e}"));
        assert!(numbers.last >= acknowledged, "cut {i}: {acknowledged} acknowledged, {numbers:?}");
        // It goes on from there, and a second power cut, right after the start, takes nothing back that was shown.
        let (_, again) = open(&disk.after_power_cut(0)).unwrap();
        assert_eq!(again.last, numbers.last, "cut {i}");
        work(&mut journal, numbers.last + 1..=numbers.last + 3, &AtomicUsize::new(0)).unwrap();
        drop(journal);
        assert_eq!(open(&disk).unwrap().1.last, numbers.last + 3, "cut {i}");
    }
}

fn filled() -> (FakeDisk, Numbers) {
    let disk = FakeDisk::default();
    let (mut journal, _) = open(&disk).unwrap();
    work(&mut journal, 1..=34, &AtomicUsize::new(0)).unwrap();
    drop(journal);
    let numbers = open(&disk).unwrap().1;
    assert!(disk.names().len() > 4, "several segments: {:?}", disk.names());
    (disk, numbers)
}

#[test]
fn any_damaged_byte_is_healed_or_the_start_is_refused() {
    let (disk, expected) = filled();
    let (mut healed, mut refused) = (0, 0);
    for name in disk.names() {
        let bytes = super::Disk::read(&disk, &name).unwrap();
        for at in 0..bytes.len() {
            for pattern in [0x01, 0x10, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= pattern;
                let damaged = disk.copy();
                damaged.put(&name, bad);
                match open(&damaged) {
                    Ok((_, numbers)) => {
                        assert_eq!(numbers, expected, "{name}, byte {at} xor {pattern:#x}");
                        healed += 1;
                        // Healed on the disk, too: what was damaged once may be damaged again, in the other copy.
                        let now = super::Disk::read(&damaged, &name).unwrap();
                        assert!(now == bytes || now[at] != bytes[at] && bytes[at] == 0, "{name}, byte {at}");
                    }
                    Err(OpenError::Damaged { .. }) => refused += 1,
                    Err(other) => panic!("{name}, byte {at} xor {pattern:#x}: {other}"),
                }
            }
        }
    }
    // All but the few bytes of FORMAT.
    assert!(healed > 6_000 && refused < 150, "{healed} healed, {refused} refused");
}

#[test]
fn a_file_that_is_cut_short_longer_or_gone_is_noticed() {
    let (disk, expected) = filled();
    for name in disk.names() {
        let bytes = super::Disk::read(&disk, &name).unwrap();
        for length in (0..bytes.len()).chain([bytes.len() + 1]) {
            let mut cut = bytes.clone();
            cut.resize(length, 0);
            let damaged = disk.copy();
            damaged.put(&name, cut);
            assert!(open(&damaged).is_err(), "{name} with {length} bytes");
        }
        let gone = disk.copy();
        super::Disk::remove(&gone, &name).unwrap();
        match open(&gone) {
            // The oldest segment's numbers are judged by who reads them: here they are released.
            Ok((_, numbers)) => assert_eq!((numbers, &name), (expected.clone(), &disk.names()[1])),
            Err(OpenError::Missing { .. }) => {}
            Err(other) => panic!("without {name}: {other}"),
        }
    }
}

#[test]
fn a_failed_write_or_sync_is_told_and_nothing_acknowledged_is_lost() {
    for fail_at in 0.. {
        let disk = FakeDisk::default();
        let mut left = fail_at;
        disk.before_each(move |_, _| {
            left -= 1;
            if left < 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        let acknowledged = AtomicUsize::new(0);
        let opened = open(&disk);
        let done = opened.is_ok_and(|(mut journal, _)| work(&mut journal, 1..=30, &acknowledged).is_ok());
        if done {
            assert!(fail_at > 100, "the whole work takes more operations than {fail_at}");
            return;
        }
        for seed in 0..4 {
            let (_, numbers) = open(&disk.after_power_cut(seed)).unwrap();
            assert!(numbers.last >= acknowledged.load(Ordering::SeqCst) as u64, "operation {fail_at}, seed {seed}");
        }
        // The process starts again and finds what it had written before the sync failed. That counts from then on, so it
        // must be there after a power cut, too.
        disk.ask_no_more();
        let (mut journal, shown) = open(&disk).unwrap();
        let (_, kept) = open(&disk.after_power_cut(0)).unwrap();
        assert_eq!(shown, kept, "operation {fail_at}");
        // Little, which stays in the last segment, and more, which takes another one.
        for (from, to) in [(1, 1), (2, 12)] {
            work(&mut journal, shown.last + from..=shown.last + to, &acknowledged).unwrap();
            let (_, kept) = open(&disk.after_power_cut(0)).unwrap();
            assert_eq!(kept.last, shown.last + to, "operation {fail_at}");
        }
    }
}

#[test]
fn each_append_is_one_write_and_one_sync() {
    let disk = FakeDisk::default();
    let store = Store::open(Arc::new(disk.clone()), &Tagged).unwrap();
    let mut journal = Journal::open(&store, 1 << 20, |_| Ok(None)).unwrap();
    let operations = Arc::new(Mutex::new(Vec::new()));
    let seen = operations.clone();
    disk.before_each(move |_, operation| {
        seen.lock().unwrap().push(operation.clone());
        Ok(())
    });
    journal.append(b"one", Some(1), Vec::new).unwrap();
    let name = disk.names()[1].clone();
    assert_eq!(
        *operations.lock().unwrap(),
        [Operation::Write(format!("{name}.tmp")), Operation::Sync(format!("{name}.tmp"))]
    );
}

#[test]
fn the_newest_snapshot_counts_whenever_the_power_is_cut() {
    let disk = FakeDisk::default();
    let saved = Arc::new(AtomicUsize::new(0));
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let (seen, count) = (cuts.clone(), saved.clone());
    disk.before_each(move |inner, _| {
        (0..12).for_each(|seed| seen.lock().unwrap().push((count.load(Ordering::SeqCst), inner.after_power_cut(seed))));
        Ok(())
    });
    let snapshots = Snapshots::new(Arc::new(disk.clone()), Files::default());
    for index in 1..=4 {
        snapshots.save(index, &mut [b"snapshot ".to_vec(), payload(index)].into_iter().map(Ok)).unwrap();
        saved.store(index as usize, Ordering::SeqCst);
    }
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 200);
    for (saved, disk) in cuts {
        match Snapshots::new(Arc::new(disk), Files::default()).newest().unwrap() {
            Some((index, bytes)) => {
                assert!(index as usize >= saved);
                assert_eq!(bytes, [b"snapshot ".to_vec(), payload(index)]);
            }
            None => assert_eq!(saved, 0),
        }
    }
}

#[test]
fn a_damaged_snapshot_is_refused_even_if_an_older_one_is_there() {
    let disk = FakeDisk::default();
    let snapshots = Snapshots::new(Arc::new(disk.clone()), Files::default());
    snapshots.save(1, &mut [b"old".to_vec()].into_iter().map(Ok)).unwrap();
    let old = super::Disk::read(&disk, &disk.names()[0]).unwrap();
    snapshots.save(2, &mut [b"new ".to_vec(), b"state".to_vec()].into_iter().map(Ok)).unwrap();
    disk.put("snapshot-00000000000000000001.baton", old);
    let name = disk.names()[1].clone();
    assert_eq!(snapshots.newest().unwrap(), Some((2, vec![b"new ".to_vec(), b"state".to_vec()])));
    let bytes = super::Disk::read(&disk, &name).unwrap();
    for at in 0..bytes.len() {
        for pattern in [0x01, 0x10, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= pattern;
            disk.put(&name, bad);
            assert!(matches!(snapshots.newest(), Err(OpenError::Damaged { .. })), "byte {at}");
        }
        disk.put(&name, bytes[..at].to_vec());
        assert!(matches!(snapshots.newest(), Err(OpenError::Damaged { .. })), "{at} bytes");
    }
}
