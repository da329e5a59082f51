//! Entries behind a snapshot, which are read from disk.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use tokio::time::timeout;

use super::gate::{At, Gate, NEVER};
use super::*;

/// A log of 60 entries in two terms and many segments, with a snapshot of the first 50. Returns all entries.
async fn filled(disk: &(impl Disk + Clone + 'static), options: Options) -> (Parts, Vec<LogEntry>) {
    let mut parts = Parts::open(Arc::new(disk.clone()), options).unwrap();
    fill(&mut parts.log, &mut parts.machine, 0..30).await;
    let entries = append(&mut parts.log, Vote::new(2, 1), 30..50).await;
    parts.machine.apply(futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))))).await.unwrap();
    append(&mut parts.log, Vote::new(2, 1), 50..60).await;
    parts.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let entries = read(&mut parts.log, 0..60).await;
    assert_eq!(entries.len(), 60);
    (parts, entries)
}

async fn read(log: &mut LogStore, range: Range<u64>) -> Vec<LogEntry> {
    log.get_log_reader().await.try_get_log_entries(range).await.unwrap()
}

async fn in_memory(log: &mut LogStore) -> u64 {
    log.get_log_reader().await.image().first_in_memory()
}

#[tokio::test]
async fn entries_behind_a_snapshot_leave_the_memory_and_are_read_from_disk() {
    let disk = FakeDisk::default();
    let (Parts { mut log, evictor, .. }, entries) = filled(&disk, options()).await;
    assert_eq!(in_memory(&mut log).await, 0);
    evictor.evict(49).await;
    assert_eq!(in_memory(&mut log).await, 50);
    assert_eq!(read(&mut log, 0..60).await, entries);
    assert_eq!(read(&mut log, 17..53).await, entries[17..53]);

    // As for a follower that has almost nothing.
    let mut reader = log.get_log_reader().await;
    let mut sent = Vec::new();
    while sent.len() < 57 {
        let part = reader.limited_get_log_entries(3 + sent.len() as u64, 60).await.unwrap();
        assert!(!part.is_empty() && part.len() < 30, "one segment at a time");
        sent.extend(part);
    }
    assert_eq!(sent, entries[3..]);

    // After a start, nothing of it comes into memory.
    drop((log, reader, evictor));
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(in_memory(&mut log).await, 50);
    assert_eq!(read(&mut log, 0..60).await, entries);
    assert_eq!(log.get_log_state().await.unwrap().last_log_id, Some(LogId::new_term_index(2, 59)));

    // What is purged is gone, in memory or on disk.
    log.purge(LogId::new_term_index(1, 20)).await.unwrap();
    assert_eq!(read(&mut log, 0..60).await, entries[21..]);
    let purged = log.get_log_reader().await.limited_get_log_entries(20, 60).await.unwrap();
    assert_eq!(purged, [], "openraft sends a snapshot then");
    log.purge(LogId::new_term_index(2, 55)).await.unwrap();
    assert_eq!(read(&mut log, 0..60).await, entries[56..]);
}

#[tokio::test]
async fn entries_that_replace_others_are_read_and_not_the_replaced_ones() {
    let disk = FakeDisk::default();
    let (Parts { mut log, evictor, .. }, mut entries) = filled(&disk, options()).await;
    entries.extend(append_uncommitted(&mut log, 2, 60..80).await);
    evictor.evict(75).await;
    // Another leader replaces entries, of which some are on disk only.
    log.truncate_after(Some(LogId::new_term_index(2, 69))).await.unwrap();
    entries.truncate(70);
    assert_eq!(read(&mut log, 0..80).await, entries);
    entries.extend(append(&mut log, Vote::new(3, 1), 70..78).await);
    for _ in 0..2 {
        evictor.evict(74).await;
        assert_eq!(in_memory(&mut log).await, 75);
        assert_eq!(read(&mut log, 0..80).await, entries);
    }
    drop((log, evictor));
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(read(&mut log, 0..80).await, entries);
}

#[tokio::test]
async fn entries_that_are_not_synced_stay_in_memory() {
    let disk = FakeDisk::default();
    let (Parts { mut log, evictor, .. }, entries) = filled(&disk, options()).await;
    // The disk does nothing from now on.
    let (_hang, hangs) = mpsc::channel::<()>();
    disk.before_each(move |_, _| {
        let _ = hangs.recv();
        Ok(())
    });
    let more = LogEntry::new_normal(LogId::new_term_index(2, 60), open_session(60).into());
    log.append([more], IOFlushed::Noop).await.unwrap();
    evictor.evict(60).await;
    assert_eq!(in_memory(&mut log).await, 60);
    drop(_hang);
    assert_eq!(read(&mut log, 0..60).await, entries);
}

#[tokio::test]
async fn a_damaged_old_entry_is_healed_from_its_copy_or_left_to_a_snapshot() {
    let disk = FakeDisk::default();
    let ((fatal, said), (warn, warned)) = (hook(), hook());
    let (Parts { mut log, evictor, .. }, entries) = filled(&disk, Options { fatal, warn, ..options() }).await;
    evictor.evict(49).await;
    let label = b"session 7";
    let is_it = |bytes: &[u8]| bytes.windows(label.len()).position(|at| at == label);
    let name =
        disk.names().into_iter().find(|name| name.starts_with("log-") && is_it(&disk.read(name).unwrap()).is_some());
    let name = name.unwrap();
    for copy in 0..2 {
        let mut bytes = disk.read(&name).unwrap();
        let at = is_it(&bytes).unwrap();
        bytes[at] ^= 1;
        disk.open(&name).unwrap().write_at(&bytes, 0).unwrap();
        let mut reader = log.get_log_reader().await;
        let found = reader.limited_get_log_entries(7, 60).await;
        if copy == 0 {
            assert_eq!(found.unwrap()[0], entries[7]);
            let warning = warned.try_recv().unwrap();
            let expected = format!("{name} is damaged at byte ");
            assert!(warning.starts_with(&expected) && warning.contains("was read from its second copy"), "{warning}");
            continue;
        }
        assert_eq!(found.unwrap(), []);
        let warning = warned.try_recv().unwrap();
        assert!(warning.starts_with("entries 7 to "), "{warning}");
        assert!(warning.contains(&format!("of the log cannot be read again ({name} is damaged at byte ")), "{warning}");
        assert_eq!(reader.limited_get_log_entries(7, 60).await.unwrap(), []);
        assert!(warned.try_recv().is_err() && said.try_recv().is_err(), "said once, and the node goes on");
        // A caller that needs the entries itself cannot go on.
        reader.try_get_log_entries(7..60).await.unwrap_err();
        let why = said.try_recv().unwrap();
        let expected = format!("entry 7 of the log cannot be read again: {name} is damaged at byte ");
        assert!(why.starts_with(&expected), "{why}");
    }
}

/// `begin` begins a read that waits at the gate, and forgets it. Then all parts of the node are dropped. The folder
/// must count as used until the read ends.
async fn is_in_use_until_read(file: &'static str, begin: impl AsyncFnOnce(&mut LogStore, &mut Machine)) {
    let ((entered, is_entered), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let (is_closed, go_on_at) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(gate)));
    let disk = FakeDisk::default();
    let gate = Gate { disk, at: At::Open, file, is_closed: is_closed.clone(), entered, go_on: go_on_at };
    let mut parts = filled(&gate, options()).await.0;
    parts.evictor.evict(49).await;
    is_closed.store(true, Ordering::SeqCst);
    begin(&mut parts.log, &mut parts.machine).await;
    is_entered.recv_timeout(NEVER).unwrap();
    let mut gone = parts.gone;
    drop((parts.log, parts.history, parts.machine, parts.evictor, parts.alive));
    assert!(gone.recv().now_or_never().is_none(), "the folder is in use");
    go_on.send(()).unwrap();
    assert_eq!(timeout(NEVER, gone.recv()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stops_only_after_the_last_read_of_its_log_and_snapshots() {
    is_in_use_until_read("log-", async |log, _| {
        let mut reader = log.get_log_reader().await;
        // Polled once, and dropped: the read goes on.
        assert!(reader.limited_get_log_entries(7, 60).now_or_never().is_none());
    })
    .await;
    is_in_use_until_read("snapshot-", async |_, machine| {
        let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
        drop(tokio::task::spawn_blocking(move || snapshot.snapshot.open().map(drop)));
    })
    .await;
}
