//! The journal, and the file SYNCED.

use super::*;

#[test]
fn a_power_cut_at_any_operation_loses_nothing_acknowledged() {
    let disk = FakeDisk::default();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let cuts = cut_before_each(&disk, &acknowledged, 5);
    let (mut journal, _) = open(&disk).unwrap();
    work(&mut journal, 1..=60, &acknowledged).unwrap();
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert!(cuts.len() > 1000, "{}", cuts.len());
    for (i, (acknowledged, disk)) in cuts.into_iter().enumerate() {
        let (mut journal, numbers) = open(&disk).unwrap_or_else(|e| panic!("cut {i}: {e}"));
        assert!(numbers.last >= acknowledged as u64, "cut {i}: {acknowledged} acknowledged, {numbers:?}");
        let mut remarks = Vec::new();
        everything_with(&disk.copy(), &mut remarks).unwrap();
        assert!(remarks.iter().all(|remark| !remark.contains("damaged")), "cut {i} is no damage: {remarks:?}");
        // The journal goes on from there. A second power cut, right after the start, loses nothing that was shown.
        let (_, again) = open(&disk.after_power_cut(0)).unwrap();
        assert_eq!(again.last, numbers.last, "cut {i}");
        work(&mut journal, numbers.last + 1..=numbers.last + 3, &AtomicUsize::new(0)).unwrap();
        drop(journal);
        assert_eq!(open(&disk).unwrap().1.last, numbers.last + 3, "cut {i}");
    }
}

#[test]
fn a_failed_write_or_sync_is_told_and_nothing_acknowledged_is_lost() {
    for fail_at in 0.. {
        let disk = FakeDisk::default();
        fail_after(&disk, fail_at);
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
        // The process starts again and finds the bytes that it wrote before the sync failed. They count from then on,
        // so they must survive a power cut, too.
        disk.ask_no_more();
        let (mut journal, shown) = open(&disk).unwrap();
        let (_, kept) = open(&disk.after_power_cut(0)).unwrap();
        assert_eq!(shown, kept, "operation {fail_at}");
        // First a short payload, which fits where the failed one did not. Then more, which need another segment.
        journal.append(&head(shown.released), None, || head(shown.released)).unwrap();
        assert_eq!(open(&disk.after_power_cut(0)).unwrap().1, shown, "operation {fail_at}");
        for (from, to) in [(1, 1), (2, 12)] {
            work(&mut journal, shown.last + from..=shown.last + to, &acknowledged).unwrap();
            let (_, kept) = open(&disk.after_power_cut(0)).unwrap();
            assert_eq!(kept.last, shown.last + to, "operation {fail_at}");
        }
    }
}

#[test]
fn each_append_is_one_write_and_one_sync_and_one_write_that_is_not_synced() {
    let disk = FakeDisk::default();
    let store = Store::open(Arc::new(disk.clone()), &FromTwo).unwrap();
    let mut journal = Journal::open(&store, 1 << 20, |_| Ok(None)).unwrap();
    let operations = operations(&disk);
    journal.append(b"one", Some(Marks::of(1)), Vec::new).unwrap();
    let name = disk.names().into_iter().find(|name| name.starts_with("log-")).unwrap();
    assert_eq!(
        *operations.lock().unwrap(),
        [
            Operation::Write(format!("{name}.tmp")),
            Operation::Sync(format!("{name}.tmp")),
            Operation::Write("SYNCED".into())
        ]
    );
}

/// A folder whose process was killed after it had acknowledged all numbers up to `last`.
fn killed(segment_bytes: usize, last: u64) -> FakeDisk {
    let disk = FakeDisk::default();
    let store = Store::open(Arc::new(disk.clone()), &FromTwo).unwrap();
    let mut journal = Journal::open(&store, segment_bytes, |_| Ok(None)).unwrap();
    work(&mut journal, 1..=last, &AtomicUsize::new(0)).unwrap();
    disk
}

/// Fills a range of the last segment with zeros. Returns whether the folder is refused; if not, nothing is lost.
fn refuses_zeros(disk: &FakeDisk, last: u64, zeros: std::ops::Range<usize>) -> bool {
    let damaged = disk.copy();
    let name = damaged.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let mut bytes = damaged.read(&name).unwrap();
    bytes[zeros.clone()].fill(0);
    damaged.put(&name, bytes);
    match open(&damaged) {
        Ok((_, numbers)) => {
            assert_eq!(numbers.last, last, "{zeros:?}");
            false
        }
        Err(OpenError::Missing { what }) => {
            assert!(what.contains("was synced"), "{what}");
            true
        }
        Err(OpenError::Damaged { .. }) => true,
        Err(other) => panic!("{zeros:?}: {other}"),
    }
}

#[test]
fn the_end_of_a_log_that_is_overwritten_is_noticed() {
    // The last segment has many frames, only a few, or only its head.
    for (segment_bytes, last) in
        [(1 << 16, 60), (1 << 16, 1), (SEGMENT_BYTES, 33), (SEGMENT_BYTES, 34), (SEGMENT_BYTES, 35)]
    {
        let disk = killed(segment_bytes, last);
        let name = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
        let bytes = disk.read(&name).unwrap();
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let mut refused = 0;
        for start in (0..written).step_by(if written > 2000 { 7 } else { 1 }) {
            refused += usize::from(refuses_zeros(&disk, last, start..bytes.len()));
        }
        // Not refused: damage to the second copy of the last payload, and to bytes that are zero anyway.
        assert!(refused > 50, "{refused} refused of {written}");
        for length in [512, 4096, 8192] {
            assert!(refuses_zeros(&disk, last, written.saturating_sub(length)..written), "{length} bytes");
            let block = (written - 1) / length * length;
            let refused = refuses_zeros(&disk, last, block..bytes.len().min(block + length));
            assert!(refused || written - block < 50, "the block of {length} bytes at {block} of {written}");
        }
    }
}

#[test]
fn a_log_whose_end_is_overwritten_is_refused_with_the_numbers_of_its_frames() {
    let disk = killed(1 << 16, 3);
    let name = disk.names().into_iter().find(|name| name.starts_with("log-")).unwrap();
    let mut bytes = disk.read(&name).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // Frame 1 is the head, so this is frame 4.
    let frame = super::super::frame::frame_bytes(payload(3).len());
    bytes[end - frame..end].fill(0);
    disk.put(&name, bytes);
    assert_eq!(
        open(&disk).err().unwrap().to_string(),
        "the log ends with frame 3, but frame 4 was synced: the later frames were overwritten, or the log is an older \
         copy"
    );
    // The folder is refused again: the first attempt wrote nothing that hides the damage.
    assert!(open(&disk).is_err());
}

#[test]
fn a_mark_that_is_torn_or_gone_is_no_error_and_is_written_anew() {
    let disk = killed(SEGMENT_BYTES, 25);
    let sound = disk.read("SYNCED").unwrap();
    for bad in [None, Some(vec![]), Some(vec![0; sound.len()]), Some(vec![0xff; 100]), Some(vec![7; 20_000])] {
        let damaged = disk.copy();
        match bad {
            Some(bytes) => damaged.put("SYNCED", bytes),
            None => damaged.remove("SYNCED").unwrap(),
        }
        assert_eq!(open(&damaged).unwrap().1.last, 25);
        let now = damaged.after_power_cut(0).read("SYNCED").unwrap();
        assert_eq!((now.len(), &now[..50]), (sound.len(), &now[4096..4146]));
        assert!(now.starts_with(b"baton log synced up to frame 000000000000000000"));
    }
    // One place is enough to notice the loss. The place that was written before the last one is one frame behind.
    let mut noticed = Vec::new();
    for place in [0, 4096] {
        let damaged = disk.copy();
        let mut mark = sound.clone();
        mark[place..place + 10].fill(0);
        damaged.put("SYNCED", mark);
        let name = damaged.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
        let mut bytes = damaged.read(&name).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes[end - 100..end].fill(0);
        damaged.put(&name, bytes);
        noticed.push(open(&damaged).is_err());
    }
    noticed.sort();
    assert_eq!(noticed, [false, true]);
}

#[test]
fn after_a_power_cut_the_mark_is_at_most_one_segment_old() {
    let disk = FakeDisk::default();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let (mut journal, _) = open(&disk).unwrap();
    work(&mut journal, 1..=40, &acknowledged).unwrap();
    let cut = disk.after_power_cut(0);
    let mark = cut.read("SYNCED").unwrap();
    let place = |start: usize| std::str::from_utf8(&mark[start + 29..start + 49]).unwrap().parse::<u64>().unwrap();
    let mark = place(0).max(place(4096));
    let name = cut.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    assert_eq!(name, format!("log-{mark:020}.baton"), "the first frame of the last segment");
}
