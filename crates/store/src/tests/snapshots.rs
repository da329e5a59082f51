//! Snapshots: two copies, the newest counts, and a failed write leaves none.

use super::super::remarks::Remarks;
use super::super::{Files, Snapshots};
use super::*;

fn snapshots(disk: &FakeDisk) -> Snapshots {
    Snapshots::new(Arc::new(disk.clone()), Files::default(), Remarks::default())
}

fn name(index: u64) -> String {
    format!("snapshot-{index:020}.baton")
}

/// Chunks that take several blocks. One chunk is longer than a block.
fn large() -> Chunks {
    [10, 5000, 0, 4096, 1, 3000].iter().enumerate().map(|(i, length)| vec![i as u8 + 1; *length]).collect()
}

#[test]
fn the_newest_snapshot_counts_whenever_the_power_is_cut() {
    let disk = FakeDisk::default();
    let saved = Arc::new(AtomicUsize::new(0));
    let cuts = cut_before_each(&disk, &saved, 12);
    for index in 1..=4 {
        snapshots(&disk).save(index, &mut give(chunks(index))).unwrap();
        saved.store(index as usize, Ordering::SeqCst);
    }
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 400, "{}", cuts.len());
    for (saved, disk) in cuts {
        match snapshots(&disk).newest().unwrap() {
            Some((index, found)) => {
                assert!(index as usize >= saved);
                assert_eq!(found, chunks(index));
            }
            None => assert_eq!(saved, 0),
        }
    }
}

#[test]
fn any_damaged_byte_and_any_damaged_block_is_healed() {
    for (chunks, blocks) in [(vec![], 2), (chunks(7), 2), (large(), 6)] {
        let disk = FakeDisk::default();
        snapshots(&disk).save(7, &mut give(chunks.clone())).unwrap();
        let good = disk.read(&name(7)).unwrap();
        assert_eq!(good.len(), blocks * 4096);
        let check = |bad: Vec<u8>, what: &dyn std::fmt::Display| {
            disk.put(&name(7), bad.clone());
            assert_eq!(snapshots(&disk).read(7).unwrap(), chunks, "{what}");
            assert_eq!(disk.read(&name(7)).unwrap(), bad, "a reader does not write");
            assert_eq!(snapshots(&disk).newest().unwrap(), Some((7, chunks.clone())), "{what}");
            // The nonce is new, but both copies are undamaged again, unless only the zeros after them were damaged.
            let now = disk.read(&name(7)).unwrap();
            assert!(now[..4096 * blocks / 2] == now[4096 * blocks / 2..] || now == bad, "{what}");
        };
        for at in (0..good.len()).filter(|at| good[*at] != 0 || at % 401 == 0).step_by(if blocks > 2 { 29 } else { 1 })
        {
            let mut bad = good.clone();
            bad[at] ^= [0x01, 0x10, 0xff][at % 3];
            check(bad, &format!("byte {at}"));
        }
        for block in 0..blocks {
            for fill in [0, 0xff] {
                let mut bad = good.clone();
                bad[block * 4096..(block + 1) * 4096].fill(fill);
                check(bad, &format!("block {block}"));
            }
        }
    }
}

/// A snapshot is read again when it is sent to another node.
#[test]
fn a_damaged_byte_of_a_snapshot_in_use_is_told_once() {
    let (disk, remarks) = (FakeDisk::default(), Remarks::default());
    let snapshots = Snapshots::new(Arc::new(disk.clone()), Files::default(), remarks.clone());
    snapshots.save(7, &mut give(large())).unwrap();
    let read = || snapshots.stream(7).unwrap().map(Result::unwrap).collect::<Chunks>();
    assert_eq!((read(), remarks.untold()), (large(), vec![]));
    let mut bytes = disk.read(&name(7)).unwrap();
    bytes[5000] ^= 1;
    disk.put(&name(7), bytes);
    let damage = format!("{} is damaged at byte 5000, and was read from its second copy", name(7));
    for _ in 0..2 {
        assert_eq!(read(), large());
        assert_eq!(remarks.untold(), [format!("{damage}: the disk may be failing, so check it")]);
    }
}

#[test]
fn what_is_damaged_twice_or_has_another_length_is_refused_even_if_an_older_one_is_there() {
    let disk = FakeDisk::default();
    snapshots(&disk).save(1, &mut give(chunks(1))).unwrap();
    let old = disk.read(&name(1)).unwrap();
    snapshots(&disk).save(2, &mut give(large())).unwrap();
    disk.put(&name(1), old);
    assert_eq!(snapshots(&disk).newest().unwrap(), Some((2, large())));
    let good = disk.read(&name(2)).unwrap();
    let half = good.len() / 2;
    for at in (0..half).filter(|at| good[*at] != 0).step_by(5) {
        let mut bad = good.clone();
        bad[at] ^= 0x01;
        bad[half + at] ^= 0x80;
        disk.put(&name(2), bad);
        assert!(matches!(snapshots(&disk).newest(), Err(OpenError::Damaged { .. })), "byte {at}, twice");
    }
    for length in (0..good.len()).step_by(97).chain([good.len() - 1, good.len() + 1, good.len() + 2, half]) {
        let mut bad = good.clone();
        bad.resize(length, 0);
        disk.put(&name(2), bad);
        assert!(matches!(snapshots(&disk).newest(), Err(OpenError::Damaged { .. })), "{length} bytes");
    }
}

#[test]
fn a_chunk_of_another_snapshot_is_none_of_this_one() {
    let disk = FakeDisk::default();
    let [one, other] = [1, 2].map(|byte| {
        let chunks: Chunks = (0..9).map(|_| vec![byte; 1000]).collect();
        snapshots(&disk).save(byte.into(), &mut give(chunks)).unwrap();
        disk.read(&name(byte.into())).unwrap()
    });
    // The disk lost a write, so an old chunk is there, which is valid by itself.
    let half = other.len() / 2;
    let mut bad = other.clone();
    let mut lose = |at: usize| {
        let chunk = at + 32 + 4 * 1024..at + 32 + 5 * 1024;
        bad[chunk.clone()].copy_from_slice(&one[chunk]);
        disk.put(&name(2), bad.clone());
    };
    lose(half);
    assert_eq!(snapshots(&disk).read(2).unwrap(), vec![vec![2; 1000]; 9]);
    lose(0);
    assert!(matches!(snapshots(&disk).read(2), Err(OpenError::Damaged { .. })));
}

#[test]
fn a_snapshot_that_cannot_be_written_is_discarded_and_tried_again() {
    for fail_at in 0.. {
        let disk = FakeDisk::default();
        snapshots(&disk).save(1, &mut give(chunks(1))).unwrap();
        // Either all later operations fail, or only this one.
        for only in [false, true] {
            let disk = disk.copy();
            let renamed = Arc::new(AtomicUsize::new(0));
            let (seen, mut left) = (renamed.clone(), fail_at as i64);
            disk.before_each(move |_, operation| {
                left -= 1;
                if left == -1 || left < 0 && !only {
                    return Err(std::io::ErrorKind::StorageFull.into());
                }
                seen.fetch_add(usize::from(matches!(operation, Operation::Rename(_))), Ordering::SeqCst);
                Ok(())
            });
            let saved = snapshots(&disk).save(2, &mut give(large()));
            disk.ask_no_more();
            let renamed = renamed.load(Ordering::SeqCst) == 1;
            let newest = snapshots(&disk).newest().unwrap();
            match renamed {
                // The snapshot is complete, so a start may read it, but its writer must not rely on it.
                true => assert_eq!(newest, Some((2, large())), "operation {fail_at}"),
                false => assert_eq!(newest, Some((1, chunks(1))), "operation {fail_at}"),
            }
            for seed in 0..4 {
                let found = snapshots(&disk.after_power_cut(seed)).newest().unwrap();
                let expected = [(1, chunks(1)), (2, large())];
                assert!(expected[usize::from(saved.is_ok())..].contains(&found.unwrap()), "operation {fail_at}");
            }
            if only && saved.is_err() {
                assert!(
                    disk.names().iter().all(|name| !name.ends_with(".tmp")),
                    "operation {fail_at}: {:?}",
                    disk.names()
                );
            }
            snapshots(&disk).save(3, &mut give(chunks(3))).unwrap();
            assert_eq!(snapshots(&disk).newest().unwrap(), Some((3, chunks(3))));
            let left_over = disk.names().into_iter().filter(|name| !name.ends_with(".tmp")).collect::<Vec<_>>();
            assert_eq!(left_over, [name(3)]);
            if saved.is_ok() && !only {
                assert!(fail_at > 10, "a snapshot takes more operations than {fail_at}");
                return;
            }
        }
    }
}

#[test]
fn a_producer_that_fails_leaves_no_snapshot_and_no_file() {
    let disk = FakeDisk::default();
    snapshots(&disk).save(1, &mut give(chunks(1))).unwrap();
    let failing = [Ok(b"one".to_vec()), Err(std::io::Error::other("the table is gone"))];
    let error = snapshots(&disk).save(2, &mut failing.into_iter()).unwrap_err();
    assert_eq!(error.to_string(), "the table is gone");
    assert_eq!(disk.names(), [name(1)]);
}

#[test]
fn a_temporary_file_is_never_read_and_removed_at_the_start() {
    let (disk, expected) = filled();
    disk.put(&format!("{}.tmp", name(99)), disk.read(&name(15)).unwrap());
    assert_eq!(everything(&disk).unwrap(), expected);
    assert!(disk.names().iter().all(|name| !name.ends_with(".tmp")));
}

#[test]
fn a_snapshot_that_is_older_than_the_newest_changes_nothing() {
    let disk = FakeDisk::default();
    snapshots(&disk).save(5, &mut give(chunks(5))).unwrap();
    snapshots(&disk).save(4, &mut give(chunks(4))).unwrap();
    assert_eq!(disk.names(), [name(5)]);
}
