//! Snapshots that cannot be written, that take long, and whose state is broken.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_runtime::{sleep, timeout};
use openraft::storage::EntryResponder;

use super::cluster::{
    LONG, agree, all, applied, cut_off, fill_sessions, heal, leader, simulated, simulation, stop, trio,
};
use super::forming::until;
use super::gate::Gate;
use super::*;
use crate::store::fake::Operation as DiskOperation;

fn is_of_snapshot(operation: &DiskOperation) -> bool {
    let name = match operation {
        DiskOperation::Create(name) | DiskOperation::Write(name) | DiskOperation::Sync(name) => name,
        DiskOperation::Rename(name) | DiskOperation::Remove(name) => name,
        DiskOperation::SyncFolder => return false,
    };
    name.starts_with("snapshot-")
}

/// The name of the newest finished snapshot. A file with another ending is unfinished, and is never read.
fn snapshot_of(disk: &FakeDisk) -> Option<String> {
    disk.names().into_iter().rfind(|name| name.starts_with("snapshot-") && name.ends_with(".baton"))
}

/// Proposes sessions, from number `from` on, until `said` receives a message. Returns the next number and the message.
async fn fill_until<T>(node: &Node, from: u64, said: &mpsc::Receiver<T>) -> (u64, T) {
    for session in from..from + 10_000 {
        node.propose(open_session(session)).await.unwrap();
        match said.try_recv() {
            Ok(said) => return (session + 1, said),
            Err(_) => sleep(MOMENT).await,
        }
    }
    panic!("nothing was said")
}

#[test]
fn a_snapshot_that_fails_is_tried_again_and_the_log_is_kept() {
    simulated(async || {
        for no_snapshot_before in [true, false] {
            let disk = FakeDisk::default();
            let (warn, warned) = hook();
            // The pause is so long that only a growing log can cause another attempt.
            let pause = Pause { first: Duration::from_secs(3600), max: Duration::from_secs(3600) };
            let options = Options { warn, snapshot_pause: pause, ..options() };
            let node = Node::open(Arc::new(disk.clone()), options).await.unwrap();
            leads(&node).await;
            let mut next = 1;
            if !no_snapshot_before {
                while snapshot_of(&disk).is_none() {
                    node.propose(open_session(next)).await.unwrap();
                    next += 1;
                }
            }
            let failing = Arc::new(AtomicBool::new(true));
            let (asked, (saved, is_saved)) = (failing.clone(), mpsc::channel());
            disk.before_each(move |_, operation| match operation {
                operation if is_of_snapshot(operation) && asked.load(Ordering::SeqCst) => {
                    Err(io::ErrorKind::StorageFull.into())
                }
                DiskOperation::Rename(name) if name.starts_with("snapshot-") => {
                    saved.send(()).map_err(io::Error::other)
                }
                _ => Ok(()),
            });
            let before = snapshot_of(&disk);
            for _ in 0..3 {
                let (after, warning) = fill_until(&node, next, &warned).await;
                next = after;
                let says =
                    "a snapshot cannot be written (no storage space); the server keeps the log and will try again";
                assert_eq!(warning, says);
                assert_eq!(snapshot_of(&disk), before, "the one before it is kept");
            }
            // A server that starts on this disk finds everything.
            let found = everything(&disk.copy()).await.unwrap();
            let (purged, first) = (found.1.map_or(0, |id| id.index + 1), found.2.first().unwrap().log_id.index);
            assert_eq!(first, purged, "nothing is missing between what is purged and what is there");
            assert!(found.3 >= found.1, "and nothing is purged that is in no snapshot");

            failing.store(false, Ordering::SeqCst);
            fill_until(&node, next, &is_saved).await;
            node.shutdown().await;
            assert!(snapshot_of(&disk) > before, "{before:?} {:?}", snapshot_of(&disk));
            let node = start(&disk).await;
            assert!(node.state().counts().sessions as u64 >= next - 1);
            node.shutdown().await;
        }
    });
}

#[test]
fn a_snapshot_that_failed_is_tried_again_after_a_pause_though_nothing_is_proposed() {
    simulated(async || {
        let disk = FakeDisk::default();
        let (warn, warned) = hook();
        let pause = Pause { first: Duration::from_millis(1), max: Duration::from_millis(4) };
        let node =
            Node::open(Arc::new(disk.clone()), Options { warn, snapshot_pause: pause, ..options() }).await.unwrap();
        leads(&node).await;
        let failures = Arc::new(AtomicU64::new(0));
        let (count, (saved, is_saved)) = (failures.clone(), tokio::sync::oneshot::channel());
        let mut saved = Some(saved);
        disk.before_each(move |_, operation| match operation {
            DiskOperation::Create(name)
                if name.starts_with("snapshot-") && count.fetch_add(1, Ordering::SeqCst) < 5 =>
            {
                Err(io::ErrorKind::StorageFull.into())
            }
            DiskOperation::Rename(name) if name.starts_with("snapshot-") => {
                saved.take().map_or(Ok(()), |saved| saved.send(()).map_err(|()| io::Error::other("nobody waits")))
            }
            _ => Ok(()),
        });
        fill_until(&node, 1, &warned).await;
        timeout(LONG, is_saved).await.expect("it is tried again").unwrap();
        assert_eq!(failures.load(Ordering::SeqCst), 6);
        node.shutdown().await;
        assert!(snapshot_of(&disk).is_some());
    });
}

#[tokio::test]
async fn a_snapshot_may_fail_at_any_operation() {
    for fail_at in 0.. {
        let disk = FakeDisk::default();
        let (warn, warned) = hook();
        let Parts { mut log, mut machine, .. } =
            Parts::open(Arc::new(disk.clone()), Options { warn, ..options() }).unwrap();
        fill(&mut log, &mut machine, 0..8).await;
        let first = machine.get_snapshot_builder().await.build_snapshot().await.unwrap().meta;
        fill(&mut log, &mut machine, 8..12).await;
        let expected = everything(&disk.copy()).await.unwrap();

        let mut left = fail_at;
        disk.before_each(move |_, _| {
            left -= 1;
            if left < 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        let built = machine.get_snapshot_builder().await.build_snapshot().await.unwrap().meta;
        disk.ask_no_more();
        if warned.try_recv().is_err() {
            assert!(fail_at > 4, "a snapshot takes more operations than {fail_at}");
            assert_eq!(built.last_log_id.map(|id| id.index), Some(11));
            return;
        }
        assert_eq!(built, first, "openraft is given the snapshot that it has, and purges nothing");
        let current = machine.get_current_snapshot().await.unwrap().unwrap();
        assert_eq!(current.meta, first);
        for seed in 0..4 {
            let found = everything(&disk.after_power_cut(seed)).await.unwrap();
            assert_eq!((found.0, found.1, &found.2), (expected.0, expected.1, &expected.2), "operation {fail_at}");
            assert!(found.3 >= first.last_log_id, "operation {fail_at}");
        }
        let again = machine.get_snapshot_builder().await.build_snapshot().await.unwrap().meta;
        assert_eq!(again.last_log_id.map(|id| id.index), Some(11), "operation {fail_at}");
        assert_eq!(everything(&disk.after_power_cut(0)).await.unwrap().3, again.last_log_id, "operation {fail_at}");
    }
}

#[tokio::test]
async fn a_snapshot_stops_nobody_and_holds_what_was_applied_when_it_began() {
    let disk = FakeDisk::default();
    let ((entered, is_entered), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate::of_snapshots(disk.clone(), entered, gate);
    let node = Node::open(Arc::new(gate), options()).await.unwrap();
    leads(&node).await;
    let (next, ()) = fill_until(&node, 1, &is_entered).await;
    // The snapshot has begun. It goes on only after all these entries are applied and checked.
    for session in next..next + 100 {
        node.propose(open_session(session)).await.unwrap();
        assert_eq!(node.state().counts().sessions as u64, session);
    }
    let sessions = node.state().counts().sessions;
    // Lets all further snapshots pass.
    (0..100).for_each(|_| go_on.send(()).unwrap());
    node.shutdown().await;
    let (.., applied, state) = everything(&disk).await.unwrap();
    assert!(applied.is_some());
    assert!(state.counts().sessions <= sessions);
    let node = start(&disk).await;
    assert_eq!(node.state().counts().sessions, sessions);
    node.shutdown().await;
}

#[tokio::test]
async fn a_panic_while_the_state_is_encoded_is_fatal() {
    let ((entered, _is_entered), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate::of_snapshots(FakeDisk::default(), entered, gate);
    let (fatal, why) = hook();
    let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(gate), Options { fatal, ..options() }).unwrap();
    fill(&mut log, &mut machine, 0..3).await;
    drop(go_on);
    assert!(machine.get_snapshot_builder().await.build_snapshot().await.is_err(), "openraft goes no further");
    let why = why.try_recv().unwrap();
    assert!(why.starts_with("the replicated state is inconsistent: the test lets it go on"), "{why}");
}

fn item(index: u64) -> io::Result<EntryResponder<TypeConfig>> {
    Ok((LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index).into()), None))
}

#[tokio::test]
async fn a_panic_of_the_state_is_fatal_and_nothing_follows_from_it() {
    let (fatal, why) = hook();
    let applied: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = applied.clone();
    let on_apply: OnApply = Box::new(move |_, applied, _| log.lock().unwrap().push(applied.index));
    let options = Options { fatal, on_apply, ..options() };
    let Parts { mut machine, .. } = Parts::open(Arc::new(FakeDisk::default()), options).unwrap();
    machine.apply = |state, index, now_ms, command, outcome| {
        assert!(index < 3, "entry {index} finds a broken index");
        state.apply(index, now_ms, command, outcome);
    };
    let error = machine.apply(futures::stream::iter((1..6).map(item))).await.unwrap_err();
    let says = "the replicated state is inconsistent: entry 3 finds a broken index; the server answers nothing more";
    assert_eq!((why.try_recv().unwrap().as_str(), error.to_string().as_str()), (says, says));
    assert_eq!(*applied.lock().unwrap(), [1, 2]);
    machine.apply = State::apply;
    let error = machine.apply(futures::stream::iter((6..9).map(item))).await.unwrap_err();
    assert_eq!(error.to_string(), "the replicated state is inconsistent; nothing more is applied");
    assert_eq!(*applied.lock().unwrap(), [1, 2]);
    assert!(why.try_recv().is_err(), "said once");
}

/// While the snapshot is written, the log still has the entries that it replaces. The next leader has others in their place.
#[test]
fn a_node_follows_a_new_leader_while_a_snapshot_replaces_entries_that_were_not_committed() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..40).await;
        agree(&all(&nodes), 39).await;
        let old = leader(&all(&nodes)).await;
        let others = [&nodes[(old + 1) % 3], &nodes[(old + 2) % 3]];
        cut_off(&seats, old);
        // They are in the middle of the log, where the next leader looks first.
        let mut never_committed = Vec::new();
        for session in 1000..1020 {
            never_committed.push(nodes[old].propose(open_session(session)));
        }
        let index = fill_sessions(&others, 40..80).await;
        applied(&others, index).await;
        let (lead, next) = match leader(&others).await {
            0 => (others[0], others[1]),
            _ => (others[1], others[0]),
        };
        // Only this leader needs a snapshot for the old one. The next leader still has its log.
        lead.raft.trigger().snapshot().await.unwrap();
        let at_least = move |at: Option<LogId>| at.is_some_and(|at| at.index >= index);
        let wait = || lead.raft.wait(Some(LONG));
        wait().metrics(move |metrics| at_least(metrics.snapshot), "a snapshot").await.unwrap();
        lead.raft.trigger().purge_log(index).await.unwrap();
        wait().metrics(move |metrics| at_least(metrics.purged), "purged").await.unwrap();
        simulation().set_large_writes(seats[old].host, Duration::from_secs(20));
        heal();
        let installs = || nodes[old].status().commit >= index && nodes[old].applied().unwrap().index < index;
        until("a snapshot is being installed", async || installs()).await;
        lead.transfer(next.id()).await.unwrap();
        fill_sessions(&others, 80..90).await;
        assert!(installs(), "otherwise the test shows nothing");
        agree(&all(&nodes), 89).await;
        drop(never_committed);
        stop(nodes).await;
    });
}
