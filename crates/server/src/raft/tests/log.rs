//! The log and the state machine on a disk that loses unsynced data, tears writes and fails.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;
use crate::format::FromOlder;
use crate::store::fake::Operation as DiskOperation;
use crate::store::{Journal, Store};

#[tokio::test]
async fn any_damaged_byte_of_a_data_folder_is_healed_or_the_start_is_refused() {
    let disk = filled().await;
    let expected = everything(&disk).await.unwrap();
    assert_eq!((expected.2.len(), expected.3.map(|id| id.index)), (11, Some(11)));
    assert!(disk.names().len() >= 5, "{:?}", disk.names());
    let (mut healed, mut refused) = (0, 0);
    for name in disk.names() {
        let bytes = disk.read(&name).unwrap();
        for at in 0..bytes.len() {
            let damaged = disk.copy();
            let mut bad = bytes.clone();
            bad[at] ^= [0x01, 0x10, 0xff][at % 3];
            damaged.put(&name, bad);
            match everything(&damaged).await {
                Ok(found) => {
                    assert!(found == expected, "{name}, byte {at}");
                    healed += 1;
                }
                Err(OpenError::Damaged { file, .. }) => {
                    assert!(name == file || file.starts_with("snapshot"), "{name}, byte {at}: {file}");
                    refused += 1;
                }
                Err(other) => panic!("{name}, byte {at}: {other}"),
            }
        }
    }
    // Only damage to the few bytes of FORMAT is refused.
    assert!(healed > 3_000 && refused < 100, "{healed} healed, {refused} refused");
}

#[tokio::test]
async fn a_missing_file_is_noticed() {
    let disk = filled().await;
    // The server never reads WRITER. It can do without SYNCED, a second record of where the log ends.
    for name in disk.names().into_iter().filter(|name| name != "WRITER" && name != "SYNCED") {
        let gone = disk.copy();
        gone.remove(&name).unwrap();
        match everything(&gone).await {
            Err(OpenError::Missing { .. }) => {}
            Err(other) => panic!("without {name}: {other}"),
            Ok(_) => panic!("without {name} of {:?}, nothing was noticed", disk.names()),
        }
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_before_the_sync_that_covers_it() {
    let disk = FakeDisk::default();
    let Parts { mut log, alone, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let waiting: Arc<Mutex<Option<oneshot::Receiver<io::Result<()>>>>> = Arc::default();
    let (syncs, written) = (Arc::new(AtomicUsize::new(0)), waiting.clone());
    let counted = syncs.clone();
    disk.before_each(move |_, operation| {
        if let (DiskOperation::Sync(_), Some(durable)) = (operation, written.lock().unwrap().as_mut()) {
            assert!(durable.try_recv().is_err(), "acknowledged before its sync");
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    for index in 0..50 {
        // Odd entries are synced inline, even ones by the writer thread.
        alone.store(index % 2 == 1, Ordering::Relaxed);
        let before = syncs.load(Ordering::SeqCst);
        let (done, durable) = TypeConfig::oneshot();
        *waiting.lock().unwrap() = Some(durable);
        let entry = LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index).into());
        log.append([entry], IOFlushed::signal(done)).await.unwrap();
        // The test must not hold the lock while it waits: the disk's hook locks `waiting`, too.
        let synced = async {
            while syncs.load(Ordering::SeqCst) == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), synced)
            .await
            .unwrap_or_else(|_| panic!("entry {index}: no sync"));
        let durable = waiting.lock().unwrap().take().unwrap();
        durable.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_large_append_is_cut_into_frames() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let large = open_labelled(1, "x".repeat(300 << 10));
    let entry = |index| LogEntry::new_normal(LogId::new_term_index(1, index), large.clone().into());
    let entries: Vec<LogEntry> = (0..10).map(entry).collect();
    let (done, durable) = TypeConfig::oneshot();
    log.append(entries.clone(), IOFlushed::signal(done)).await.unwrap();
    durable.await.unwrap().unwrap();
    drop(log);
    assert!(disk.names().iter().all(|name| disk.read(name).unwrap().len() < 4 << 20), "a frame is written twice");
    assert_eq!(everything(&disk).await.unwrap().2, entries);
}

#[tokio::test]
async fn a_failed_sync_is_fatal_and_nobody_is_told_that_it_is_durable() {
    for is_alone in [false, true] {
        let disk = FakeDisk::default();
        let (fatal, said) = hook();
        let parts = Parts::open(Arc::new(disk.clone()), Options { fatal, ..options() }).unwrap();
        let Parts { mut log, alone, .. } = parts;
        alone.store(is_alone, Ordering::Relaxed);
        disk.before_each(|_, operation| match operation {
            DiskOperation::Sync(_) => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        });
        for index in 0..3 {
            let (done, durable) = TypeConfig::oneshot();
            let entry = LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index).into());
            let appended = log.append([entry], IOFlushed::signal(done)).await;
            assert!(!is_alone || appended.is_err(), "append {index} is inline");
            assert!(durable.await.unwrap().is_err(), "append {index}");
        }
        let why = said.recv().unwrap();
        assert!(why.starts_with("the log cannot be written (Input/output error"), "{why}");
        assert!(said.try_recv().is_err(), "said once");
        assert!(log.save_vote(&Vote::new(9, 1)).await.is_err());
    }
}

#[tokio::test]
async fn files_of_what_is_purged_go_in_order_and_one_that_cannot_is_fatal() {
    let disk = FakeDisk::default();
    let (fatal, said) = hook();
    let parts = Parts::open(Arc::new(disk.clone()), Options { fatal, ..options() }).unwrap();
    let Parts { mut log, mut machine, .. } = parts;
    fill(&mut log, &mut machine, 0..60).await;
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let segments = || disk.names().into_iter().filter(|name| name.starts_with("log-")).collect::<Vec<_>>();
    let before = segments();
    assert!(before.len() > 10, "{before:?}");
    let removed = Arc::new(AtomicUsize::new(0));
    let (count, order) = (removed.clone(), before.clone());
    disk.before_each(move |_, operation| match operation {
        DiskOperation::Remove(name) => {
            let at = count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(*name, order[at]);
            if at == 5 { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }
        _ => Ok(()),
    });
    // Each purge removes more files, and returns before the files of the one before are removed.
    for index in [5, 10, 12, 50] {
        log.purge(LogId::new_term_index(1, index)).await.unwrap();
    }
    let why = said.recv().unwrap();
    assert!(why.starts_with("a file of the log cannot be removed (Input/output error"), "{why}");
    while log.save_vote(&Vote::new(9, 1)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    drop((log, machine));
    assert_eq!((removed.load(Ordering::SeqCst), &segments()[..1]), (6, &before[5..6]), "no other was removed");
    disk.before_each(|_, _| Ok(()));
    let (_, purged, entries, ..) = everything(&disk).await.unwrap();
    assert_eq!((purged.map(|id| id.index), entries.len()), (Some(50), 9));
}

#[tokio::test]
async fn a_newer_record_or_snapshot_is_refused_with_a_sentence() {
    let newer = [5, 2, 0xff, 0xff];
    for in_log in [true, false] {
        let disk = filled().await;
        let store = Store::open(Arc::new(disk.clone()), &FromOlder).unwrap();
        let mut journal = Journal::open(&store, 1024, |_| Ok(None)).unwrap();
        if in_log {
            journal.append(&newer, None, Vec::new).unwrap();
        } else {
            store.snapshots().save(1000, &mut [Ok(newer.to_vec())].into_iter()).unwrap();
        }
        drop((journal, store));
        let before = disk.copy();
        let error = everything(&disk).await.unwrap_err();
        assert!(matches!(error, OpenError::Newer { found: 5, .. }), "{error}");
        assert!(error.to_string().starts_with("it has data format 5, written by "), "{error}");
        assert!(error.to_string().contains("start it with"), "{error}");
        assert!(disk.names().iter().all(|name| disk.read(name).unwrap() == before.read(name).unwrap()), "untouched");
    }
}
