//! The store on a disk that loses unsynced data, tears writes and fails: helpers for all tests.

mod archive;
mod folder;
mod journal;
mod migration;
mod snapshots;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::fake::{FakeDisk, Operation};
use super::{Chunks, Disk, Identity, Journal, Marks, OpenError, Store, Unreadable, Upgrade};

const SEGMENT_BYTES: usize = 512;

/// The numbers in the payloads, in order, from the first that is not released. A head says which numbers are released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    released: u64,
    last: u64,
}

impl Numbers {
    fn visit(&mut self, payload: &[u8]) -> Result<Option<Marks>, Unreadable> {
        let Some((version, payload)) = payload.split_first() else { return Ok(None) };
        match (version, payload) {
            (3, [b'h', released @ ..]) => {
                self.released = self.released.max(number(released));
                self.last = self.last.max(self.released);
                Ok(None)
            }
            (3, payload) => {
                let number = number(&payload[..8]);
                if self.last != 0 && number != self.last + 1 && self.last != self.released {
                    return Err(Unreadable::Malformed(format!("{number} follows {}", self.last)));
                }
                assert_eq!(payload, &self::payload(number)[1..]);
                self.last = number;
                Ok(Some(Marks::of(number)))
            }
            (4.., _) => Err(Unreadable::Newer { version: (*version).into() }),
            _ => Err(Unreadable::Malformed(format!("version {version}"))),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// A payload of version 3 begins with the byte 3. One of version 2 is the same without this byte.
fn payload(number: u64) -> Vec<u8> {
    let mut payload = [&[3], &number.to_le_bytes()[..]].concat();
    payload.resize(9 + (number as usize * 7) % 50, number as u8);
    payload
}

fn head(released: u64) -> Vec<u8> {
    [&b"\x03h"[..], &released.to_le_bytes()].concat()
}

/// The chunks of a snapshot. In version 2, one chunk contains all of them.
fn chunks(index: u64) -> Chunks {
    vec![b"snapshot ".to_vec(), Vec::new(), payload(index)]
}

fn give(chunks: Chunks) -> impl Iterator<Item = std::io::Result<Vec<u8>>> {
    chunks.into_iter().map(Ok)
}

/// Rewrites the files of the version before the current one.
struct FromTwo;

impl Upgrade for FromTwo {
    fn rewrites_before(&self) -> u32 {
        3
    }

    fn frame(&self, version: u32, payload: &[u8]) -> Result<Vec<u8>, Unreadable> {
        assert_eq!(version, 2);
        match payload {
            [] => Ok(Vec::new()),
            b"from version 7" => Err(Unreadable::Newer { version: 7 }),
            b"from nobody" => Err(Unreadable::Malformed("it makes no sense".into())),
            payload => Ok([&[3], payload].concat()),
        }
    }

    fn snapshot(&self, version: u32, chunks: Chunks) -> Result<Chunks, Unreadable> {
        assert_eq!((version, chunks.len()), (2, 1));
        let malformed = || Unreadable::Malformed("it is no snapshot".into());
        let rest = chunks[0].strip_prefix(b"snapshot ").ok_or_else(malformed)?;
        Ok(vec![b"snapshot ".to_vec(), Vec::new(), rest.to_vec()])
    }
}

/// Rewrites no file.
struct KeepsAll;

impl Upgrade for KeepsAll {
    fn rewrites_before(&self) -> u32 {
        2
    }

    fn frame(&self, version: u32, _: &[u8]) -> Result<Vec<u8>, Unreadable> {
        panic!("a frame of version {version} is rewritten")
    }

    fn snapshot(&self, version: u32, _: Chunks) -> Result<Chunks, Unreadable> {
        panic!("a snapshot of version {version} is rewritten")
    }
}

fn open(disk: &FakeDisk) -> Result<(Journal, Numbers), OpenError> {
    let mut numbers = Numbers::default();
    let store = Store::open(Arc::new(disk.clone()), &FromTwo)?;
    let journal = Journal::open(&store, SEGMENT_BYTES, |payload| numbers.visit(payload))?;
    Ok((journal, numbers))
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Everything {
    identity: Identity,
    snapshot: Option<(u64, Chunks)>,
    numbers: Numbers,
}

fn everything(disk: &FakeDisk) -> Result<Everything, OpenError> {
    everything_by(disk, &FromTwo, &mut Vec::new())
}

fn everything_with(disk: &FakeDisk, remarks: &mut Vec<String>) -> Result<Everything, OpenError> {
    everything_by(disk, &FromTwo, remarks)
}

fn everything_by(disk: &FakeDisk, upgrade: &dyn Upgrade, remarks: &mut Vec<String>) -> Result<Everything, OpenError> {
    let mut numbers = Numbers::default();
    let store = Store::open(Arc::new(disk.clone()), upgrade)?;
    let snapshot = store.snapshots().newest()?;
    Journal::open(&store, SEGMENT_BYTES, |payload| numbers.visit(payload))?;
    *remarks = store.remarks();
    Ok(Everything { identity: store.identity(), snapshot, numbers })
}

/// Appends `numbers` and releases all but the last few. Stores the last durable number in `acknowledged`.
fn work(journal: &mut Journal, numbers: RangeInclusive<u64>, acknowledged: &AtomicUsize) -> std::io::Result<()> {
    for number in numbers {
        journal.append(&payload(number), Some(Marks::of(number)), || head(number.saturating_sub(20)))?;
        acknowledged.store(number as usize, Ordering::SeqCst);
        if number % 10 == 0 {
            let released = number.saturating_sub(15);
            journal.append(&head(released), None, || head(released))?;
            journal.release(released).run()?;
        }
    }
    Ok(())
}

/// A folder with several segments and a snapshot.
fn filled() -> (FakeDisk, Everything) {
    let disk = FakeDisk::default();
    let store = Store::open(Arc::new(disk.clone()), &FromTwo).unwrap();
    let mut journal = Journal::open(&store, SEGMENT_BYTES, |_| Ok(None)).unwrap();
    work(&mut journal, 1..=34, &AtomicUsize::new(0)).unwrap();
    store.snapshots().save(15, &mut give(chunks(15))).unwrap();
    let found = everything(&disk).unwrap();
    assert!(disk.names().len() > 7, "several segments: {:?}", disk.names());
    (disk, found)
}

/// Disks after a power cut before each operation, with the progress of the test at that time.
type Cuts = Arc<Mutex<Vec<(usize, FakeDisk)>>>;

fn cut_before_each(disk: &FakeDisk, progress: &Arc<AtomicUsize>, seeds: u64) -> Cuts {
    let cuts = Cuts::default();
    let (seen, progress) = (cuts.clone(), progress.clone());
    disk.before_each(move |inner, _| {
        let cut = |seed| (progress.load(Ordering::SeqCst), inner.after_power_cut(seed));
        seen.lock().unwrap().extend((0..seeds).map(cut));
        Ok(())
    });
    cuts
}

/// From now on, this many operations succeed, and all others fail.
fn fail_after(disk: &FakeDisk, operations: usize) {
    let mut left = operations;
    disk.before_each(move |_, _| match left {
        0 => Err(std::io::ErrorKind::StorageFull.into()),
        _ => {
            left -= 1;
            Ok(())
        }
    });
}

/// Keeps a list of all operations from now on.
fn operations(disk: &FakeDisk) -> Arc<Mutex<Vec<Operation>>> {
    let operations = Arc::new(Mutex::new(Vec::new()));
    let seen = operations.clone();
    disk.before_each(move |_, operation| {
        seen.lock().unwrap().push(operation.clone());
        Ok(())
    });
    operations
}

fn contents(disk: &FakeDisk) -> Vec<(String, Vec<u8>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.read(&name).unwrap())).collect()
}
