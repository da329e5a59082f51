//! Reading a journal that is in use.

use std::sync::Mutex;

use super::*;
use crate::Archive;

/// A journal with these marks, each in a payload of its own that also says how often a mark was written.
fn written(disk: &FakeDisk, marks: impl IntoIterator<Item = u64>) -> Journal {
    written_by(&Store::open(Arc::new(disk.clone()), &FromTwo).unwrap(), marks)
}

fn written_by(store: &Store, marks: impl IntoIterator<Item = u64>) -> Journal {
    let mut journal = Journal::open(store, SEGMENT_BYTES, |_| Ok(None)).unwrap();
    for (count, mark) in marks.into_iter().enumerate() {
        journal.append(&text(mark, count), Some(Marks::of(mark)), Vec::new).unwrap();
    }
    journal
}

fn text(mark: u64, count: usize) -> Vec<u8> {
    format!("mark {mark} of payload {count}, {}", "x".repeat(40)).into_bytes()
}

/// The last payload with this mark in the segment that has it.
fn find(archive: &Archive, mark: u64) -> Option<Vec<u8>> {
    let payloads = archive.read(mark).unwrap()?;
    let begins = format!("mark {mark} ");
    payloads.iter().filter(|payload| payload.starts_with(begins.as_bytes())).last().map(<[u8]>::to_vec)
}

#[test]
fn the_newest_payload_of_every_mark_is_found() {
    let disk = FakeDisk::default();
    // The marks from 10 on are written again, and those from 12 on once more.
    let marks: Vec<u64> = (1..=30).chain(10..=20).chain(12..=13).collect();
    let journal = written(&disk, marks.clone());
    assert!(disk.names().iter().filter(|name| name.starts_with("log-")).count() > 10);
    let reopened = || {
        let store = Store::open(Arc::new(disk.clone()), &FromTwo).unwrap();
        let mark = |payload: &[u8]| std::str::from_utf8(payload).ok()?.split(' ').nth(1)?.parse().ok();
        Journal::open(&store, SEGMENT_BYTES, |payload| Ok(mark(payload).map(Marks::of))).unwrap().archive()
    };
    for archive in [journal.archive(), reopened()] {
        for mark in 1..=13 {
            let count = marks.iter().rposition(|written| *written == mark).unwrap();
            assert_eq!(find(&archive, mark), Some(text(mark, count)));
        }
        assert!((14..=31).all(|mark| find(&archive, mark).is_none()), "replaced by 12 and 13");
    }
}

#[test]
fn what_is_released_is_not_found() {
    let disk = FakeDisk::default();
    let mut journal = written(&disk, 1..=30);
    let archive = journal.archive();
    let removal = journal.release(20);
    assert!(find(&archive, 1).is_none() && find(&archive, 21).is_some());
    removal.run().unwrap();
    assert!(find(&archive, 1).is_none() && find(&archive, 21).is_some());
}

#[test]
fn a_damaged_byte_is_healed_and_told_once_and_two_damaged_copies_are_an_error() {
    let disk = FakeDisk::default();
    let store = Store::open(Arc::new(disk.clone()), &FromTwo).unwrap();
    let journal = written_by(&store, 1..=30);
    let told = Arc::<Mutex<Vec<String>>>::default();
    let tells = told.clone();
    store.tell_remarks(Arc::new(move |sentence| tells.lock().unwrap().push(sentence.to_owned())));
    let archive = journal.archive();
    let name = disk.names().into_iter().find(|name| name.starts_with("log-")).unwrap();
    let sound = disk.read(&name).unwrap();
    let copies: Vec<usize> = sound.windows(7).enumerate().filter(|(_, at)| *at == b"mark 1 ").map(|at| at.0).collect();
    assert_eq!(copies.len(), 2);
    let mut bytes = sound;
    for (copy, at) in copies.into_iter().enumerate() {
        bytes[at + 5] = b'7';
        disk.open(&name).unwrap().write_at(&bytes, 0).unwrap();
        match copy {
            0 => {
                assert_eq!([find(&archive, 1), find(&archive, 1)], [Some(text(1, 0)), Some(text(1, 0))]);
                let damage = format!("{name} is damaged at byte {}, and was read from its second copy", at + 5);
                assert_eq!(*told.lock().unwrap(), [format!("{damage}: the disk may be failing, so check it")]);
            }
            _ => {
                let error = archive.read(1).err().unwrap();
                assert!(matches!(&error, OpenError::Damaged { file, .. } if *file == name), "{error}");
            }
        }
    }
    // The last frame of the log: nothing valid follows, and yet it was synced.
    let last = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let zeros = disk.read(&last).unwrap().iter().rposition(|byte| *byte != 0).unwrap() - 150;
    disk.open(&last).unwrap().write_at(&[0; 150], zeros as u64).unwrap();
    assert!(matches!(archive.read(30), Err(OpenError::Damaged { .. })));
}
