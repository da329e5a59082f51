//! The writer thread of the log, while syncs hang, fail and lose power.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::task::Poll;
use std::time::Duration;

use futures::poll;
use openraft::{Raft, ReadPolicy};
use tokio::sync::oneshot::Receiver;
use tokio::time::timeout;

use super::*;

use crate::raft::node::config;
use crate::store::fake::{Inner, Operation as DiskOperation};

/// Longer than any wait in these tests.
const LONG: Duration = Duration::from_secs(20);

type Durable = Receiver<io::Result<()>>;

/// Holds back syncs of the log: reports the start of each one to the test, and ends it with the test's result.
struct Gate {
    begun: mpsc::Receiver<()>,
    ends: mpsc::Sender<io::Result<()>>,
    frames: Arc<AtomicUsize>,
}

impl Gate {
    /// Calls `before` at each sync of the log on this disk, and then holds the sync back. Dropping the gate lets all
    /// syncs pass.
    fn hold(disk: &FakeDisk, mut before: impl FnMut(&Inner) + Send + 'static) -> Gate {
        let ((begin, begun), (ends, end)) = (mpsc::channel(), mpsc::channel());
        let frames = Arc::new(AtomicUsize::new(0));
        let count = frames.clone();
        disk.before_each(move |inner, operation| match operation {
            DiskOperation::Write(name) if name.starts_with("log-") => {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            DiskOperation::Sync(name) if name.starts_with("log-") => {
                before(inner);
                // The send fails once the gate is dropped.
                let _ = begin.send(());
                match end.recv_timeout(LONG) {
                    Ok(result) => result,
                    Err(RecvTimeoutError::Disconnected) => Ok(()),
                    Err(RecvTimeoutError::Timeout) => Err(io::Error::other("the test waits for something else")),
                }
            }
            _ => Ok(()),
        });
        Gate { begun, ends, frames }
    }

    fn begun(&self) {
        self.begun.recv_timeout(LONG).unwrap();
    }

    fn end(&self, result: io::Result<()>) {
        self.ends.send(result).unwrap();
    }
}

/// Segments that are long enough for all frames of a test.
fn long_segments() -> Options {
    Options { segment_bytes: 1 << 20, ..options() }
}

fn entry(index: u64) -> LogEntry {
    LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index).into())
}

/// Appends an entry, without waiting until it is durable. The returned receiver gets the result.
async fn hand_over(log: &mut LogStore, entry: LogEntry) -> Durable {
    let (done, durable) = TypeConfig::oneshot();
    log.append([entry], IOFlushed::signal(done)).await.unwrap();
    durable
}

async fn hand_over_all(log: &mut LogStore, indices: Range<u64>) -> Vec<Durable> {
    let mut waiting = Vec::new();
    for index in indices {
        waiting.push(hand_over(log, entry(index)).await);
    }
    waiting
}

fn is_durable(durable: &mut Durable) -> bool {
    matches!(durable.try_recv(), Ok(Ok(())))
}

fn take<T>(shared: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *shared.lock().unwrap())
}

async fn indices(disk: &FakeDisk) -> Vec<u64> {
    everything(disk).await.unwrap().2.iter().map(|entry| entry.log_id.index).collect()
}

#[tokio::test]
async fn appends_return_while_a_sync_hangs_and_become_one_frame_with_one_sync() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), long_segments()).unwrap();
    let gate = Gate::hold(&disk, |_| {});
    let mut first = hand_over(&mut log, entry(0)).await;
    gate.begun();
    let mut others = hand_over_all(&mut log, 1..100).await;
    assert_eq!(log.get_log_reader().await.try_get_log_entries(..).await.unwrap().len(), 100, "readable at once");
    assert!(!is_durable(&mut first));
    gate.end(Ok(()));
    gate.begun();
    first.await.unwrap().unwrap();
    assert!(others.iter_mut().all(|durable| durable.try_recv().is_err()), "not synced yet");
    gate.end(Ok(()));
    for durable in others {
        durable.await.unwrap().unwrap();
    }
    assert_eq!(gate.frames.load(Ordering::SeqCst), 2, "frames");
    assert!(gate.begun.try_recv().is_err(), "no third sync");
    drop((gate, log));
    assert_eq!(indices(&disk.after_power_cut(0)).await, Vec::from_iter(0..100));
}

#[tokio::test]
async fn a_vote_and_a_truncation_wait_for_the_disk_after_all_that_was_queued_before() {
    for what in ["vote", "truncation"] {
        let disk = FakeDisk::default();
        let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(disk.clone()), long_segments()).unwrap();
        fill(&mut log, &mut machine, 0..10).await;
        let gate = Gate::hold(&disk, |_| {});
        let mut waiting = vec![hand_over(&mut log, entry(10)).await];
        gate.begun();
        waiting.extend(hand_over_all(&mut log, 11..15).await);
        {
            let id = |index| LogId::new_term_index(1, index);
            let written = async {
                match what {
                    "vote" => log.save_vote(&Vote::new(7, 1)).await,
                    _ => log.truncate_after(Some(id(12))).await,
                }
            };
            let mut written = std::pin::pin!(written);
            assert!(poll!(written.as_mut()).is_pending(), "{what}: it blocks nobody");
            gate.end(Ok(()));
            gate.begun();
            assert!(poll!(written.as_mut()).is_pending(), "{what}: before its sync");
            gate.end(Ok(()));
            written.await.unwrap();
        }
        let found = everything(&disk.after_power_cut(0)).await.unwrap();
        for mut durable in waiting {
            assert!(is_durable(&mut durable), "{what}");
        }
        let (vote, kept) = match what {
            "vote" => (Vote::new(7, 1), 0..15),
            _ => (Vote::new(1, 1), 0..13),
        };
        assert_eq!(found.0, Some(vote), "{what}");
        assert!(found.2.iter().map(|entry| entry.log_id.index).eq(kept), "{what}");
        drop(gate);
    }
}

/// Raft's core waits in a purge, and must answer heartbeats meanwhile.
#[tokio::test]
async fn a_purge_does_not_wait_for_the_disk_and_may_be_lost() {
    let disk = FakeDisk::default();
    let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(disk.clone()), long_segments()).unwrap();
    fill(&mut log, &mut machine, 0..10).await;
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let cuts: Arc<Mutex<Vec<FakeDisk>>> = Arc::default();
    let before_each_sync = cuts.clone();
    let gate = Gate::hold(&disk, move |inner| before_each_sync.lock().unwrap().push(inner.after_power_cut(0)));
    let first = hand_over(&mut log, entry(10)).await;
    gate.begun();
    timeout(LONG, log.purge(LogId::new_term_index(1, 5))).await.unwrap().unwrap();
    let last = hand_over(&mut log, entry(11)).await;
    gate.end(Ok(()));
    first.await.unwrap().unwrap();
    gate.begun();
    let cut = take(&cuts).pop().unwrap();
    assert_eq!(indices(&cut).await, Vec::from_iter(0..11), "the purge is lost");
    gate.end(Ok(()));
    last.await.unwrap().unwrap();
    assert_eq!(indices(&disk.after_power_cut(0)).await, Vec::from_iter(6..12));
    drop(gate);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_that_was_queued_is_acknowledged_or_written() {
    let disk = FakeDisk::default();
    let (fatal, said) = hook();
    let parts = Parts::open(Arc::new(disk.clone()), Options { fatal, ..long_segments() }).unwrap();
    let Parts { mut log, .. } = parts;
    let gate = Gate::hold(&disk, |_| {});
    let mut waiting = hand_over_all(&mut log, 0..1).await;
    gate.begun();
    waiting.extend(hand_over_all(&mut log, 1..20).await);
    {
        let vote = Vote::new(9, 1);
        let mut voted = std::pin::pin!(log.save_vote(&vote));
        assert!(poll!(voted.as_mut()).is_pending());
        gate.end(Err(io::Error::from_raw_os_error(5)));
        voted.await.unwrap_err();
    }
    for durable in waiting {
        durable.await.unwrap().unwrap_err();
    }
    let why = said.recv().unwrap();
    assert!(why.starts_with("the log cannot be written (Input/output error"), "{why}");
    let (done, durable) = TypeConfig::oneshot();
    log.append([entry(20)], IOFlushed::signal(done)).await.unwrap_err();
    durable.await.unwrap().unwrap_err();
    log.purge(LogId::new_term_index(1, 3)).await.unwrap_err();
    assert!(said.try_recv().is_err(), "said once");
    assert_eq!(gate.frames.load(Ordering::SeqCst), 1, "frames");
}

#[tokio::test]
async fn a_power_cut_spares_what_was_acknowledged_whatever_is_queued_or_unsynced() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), long_segments()).unwrap();
    append(&mut log, Vote::new(1, 1), 0..3).await;
    let cuts: Arc<Mutex<Vec<FakeDisk>>> = Arc::default();
    let taken = cuts.clone();
    let gate =
        Gate::hold(&disk, move |inner| taken.lock().unwrap().extend((0..40).map(|seed| inner.after_power_cut(seed))));
    let unsynced = hand_over(&mut log, entry(3)).await;
    gate.begun();
    let queued = hand_over_all(&mut log, 4..8).await;
    for cut in take(&cuts) {
        let found = indices(&cut).await;
        assert!(found == [0, 1, 2] || found == [0, 1, 2, 3], "{found:?}");
    }
    gate.end(Ok(()));
    gate.begun();
    unsynced.await.unwrap().unwrap();
    for cut in take(&cuts) {
        let found = indices(&cut).await;
        assert!(found == [0, 1, 2, 3] || found == Vec::from_iter(0..8), "{found:?}");
    }
    gate.end(Ok(()));
    for durable in queued {
        durable.await.unwrap().unwrap();
    }
}

/// Bursts of appends and votes, short segments, and a power cut before each operation of the disk.
#[tokio::test]
async fn bursts_survive_a_power_cut_at_any_operation() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let waiting: Arc<Mutex<Vec<Durable>>> = Arc::default();
    let cuts: Arc<Mutex<Vec<(usize, FakeDisk)>>> = Arc::default();
    let (asked, taken) = (waiting.clone(), cuts.clone());
    let mut acknowledged = 0;
    disk.before_each(move |inner, _| {
        while asked.lock().unwrap().get_mut(acknowledged).is_some_and(is_durable) {
            acknowledged += 1;
        }
        let seed = taken.lock().unwrap().len() as u64;
        taken.lock().unwrap().push((acknowledged, inner.after_power_cut(seed % 7)));
        Ok(())
    });
    let mut next = 0;
    for burst in 1..20 {
        for index in next..next + burst {
            let (done, durable) = TypeConfig::oneshot();
            // Pushed before the append can be acknowledged, so that the hook of the disk counts it.
            waiting.lock().unwrap().push(durable);
            log.append([entry(index)], IOFlushed::signal(done)).await.unwrap();
        }
        next += burst;
        if burst % 3 == 0 {
            log.save_vote(&Vote::new(burst, 1)).await.unwrap();
        }
    }
    drop(log);
    disk.ask_no_more();
    assert_eq!(indices(&disk).await, Vec::from_iter(0..next));
    let cuts = take(&cuts);
    assert!(cuts.len() > 20, "{} power cuts", cuts.len());
    for (acknowledged, cut) in cuts {
        let found = indices(&cut).await;
        assert!(found.len() >= acknowledged, "{} of {acknowledged}", found.len());
        assert!(found.iter().copied().eq(0..found.len() as u64), "{found:?}");
    }
}

#[tokio::test]
async fn what_is_queued_is_written_before_the_log_is_gone() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let waiting = hand_over_all(&mut log, 0..200).await;
    drop(log);
    for mut durable in waiting {
        assert!(is_durable(&mut durable));
    }
    assert_eq!(indices(&disk.after_power_cut(0)).await, Vec::from_iter(0..200));
}

#[tokio::test]
async fn frames_of_what_is_queued_stay_bounded() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let large =
        |index| LogEntry::new_normal(LogId::new_term_index(1, index), open_labelled(1, "x".repeat(300 << 10)).into());
    let gate = Gate::hold(&disk, |_| {});
    let mut waiting = vec![hand_over(&mut log, large(0)).await];
    gate.begun();
    for index in 1..12 {
        waiting.push(hand_over(&mut log, large(index)).await);
    }
    drop(gate);
    for durable in waiting {
        durable.await.unwrap().unwrap();
    }
    drop(log);
    disk.ask_no_more();
    // Each frame here fills a segment of its own, which contains the frame twice.
    let longest = disk.names().iter().map(|name| disk.read(name).unwrap().len()).max().unwrap();
    assert!(((900 << 11)..(1025 << 11)).contains(&longest), "{longest} bytes");
    assert_eq!(indices(&disk).await, Vec::from_iter(0..12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openraft_answers_while_a_sync_hangs() {
    let disk = FakeDisk::default();
    // `alone` stays false, so the node writes like a member of a larger group.
    let Parts { identity, log, machine, .. } = Parts::open(Arc::new(disk.clone()), long_segments()).unwrap();
    let raft =
        Raft::new(identity.node, Arc::new(config(Timing::default())), nobody(identity), log, machine).await.unwrap();
    raft.initialize(BTreeMap::from([(identity.node, NodeRecord::default())])).await.unwrap();
    raft.wait(Some(LONG)).current_leader(identity.node, "it leads").await.unwrap();
    raft.client_write(open_session(1).into()).await.unwrap();
    let gate = Gate::hold(&disk, |_| {});
    let mut applied = Box::pin(raft.client_write(open_session(2).into()));
    assert!(poll!(applied.as_mut()).is_pending());
    gate.begun();
    timeout(LONG, raft.ensure_linearizable(ReadPolicy::ReadIndex)).await.unwrap().unwrap();
    gate.end(Ok(()));
    timeout(LONG, applied).await.unwrap().unwrap();
    raft.shutdown().await.unwrap();
}

/// A disk that hangs must not fill the memory.
#[tokio::test]
async fn an_append_waits_when_64_mib_wait_for_the_disk() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let large =
        |index| LogEntry::new_normal(LogId::new_term_index(1, index), open_labelled(1, "x".repeat(4 << 20)).into());
    let (gate, backlog) = (Gate::hold(&disk, |_| {}), log.backlog());
    let mut waiting = vec![hand_over(&mut log, large(0)).await];
    gate.begun();
    while waiting.len() < 20 {
        let mut append = Box::pin(hand_over(&mut log, large(waiting.len() as u64)));
        match poll!(&mut append) {
            Poll::Ready(durable) => waiting.push(durable),
            Poll::Pending => {
                assert_eq!(waiting.len(), 15, "each takes a little more than 4 MiB");
                assert!((60 << 20..=64 << 20).contains(&backlog.bytes()), "{} bytes wait", backlog.bytes());
                drop(gate);
                append.await.await.unwrap().unwrap();
                break;
            }
        }
    }
    assert!(waiting.len() < 20, "appends of 80 MiB wait for the disk");
    for durable in waiting {
        durable.await.unwrap().unwrap();
    }
    assert_eq!(backlog.bytes(), 0);
}
