//! A node in a group of one.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use openraft::errors::RPCError;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::VoteRequest;

use super::cluster::{LONG, simulated};
use super::*;

use crate::raft::group::Metrics;
use crate::raft::types::Payload;
use crate::store::fake::{Operation as DiskOperation, Random};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_proposed_during_a_sync_is_written_with_one_sync() {
    let disk = FakeDisk::default();
    let options = Options { segment_bytes: 1 << 20, snapshot_after_bytes: 1 << 20, ..options() };
    let node = Node::open(Arc::new(disk.clone()), options).await.unwrap();
    leads(&node).await;
    let (enter, entered) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = syncs.clone();
    disk.before_each(move |_, operation| {
        if let DiskOperation::Sync(_) = operation
            && counted.fetch_add(1, Ordering::SeqCst) == 0
        {
            enter.send(()).unwrap();
            gate.recv().map_err(io::Error::other)?;
        }
        Ok(())
    });
    let mut pending = vec![node.propose(open_session(1))];
    entered.recv().unwrap();
    for session in 2..=100 {
        pending.push(node.propose(open_session(session)));
    }
    go_on.send(()).unwrap();
    for pending in pending {
        pending.await.unwrap();
    }
    assert_eq!(syncs.load(Ordering::SeqCst), 2, "for 100 entries");
    node.shutdown().await;
}

#[tokio::test]
async fn a_group_of_one_leads_applies_and_answers_in_order() {
    let disk = FakeDisk::default();
    let seen: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
    let log = seen.clone();
    let on_apply: OnApply =
        Box::new(move |_, applied, _| log.lock().unwrap().push((applied.index, applied.outcome.effects.len())));
    let node = Node::open(Arc::new(disk.clone()), Options { on_apply, ..options() }).await.unwrap();
    assert_eq!(leads(&node).await, 1);
    let mut pending = Vec::new();
    for session in 1..=20 {
        pending.push(node.propose(open_session(session)));
        pending.push(node.propose(acquire(session, 1, "lock")));
    }
    let mut indices = Vec::new();
    for pending in pending {
        let applied = pending.await.unwrap();
        assert_eq!(applied.term, 1);
        indices.push((applied.index, applied.outcome.effects.len()));
    }
    // Entries 0 and 1 are the membership and the blank entry of a new leader. Entry 2 is `Lead`.
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], (2, 0));
    assert_eq!(seen[1..], indices);
    assert!(indices.is_sorted());
    node.read_index().await.unwrap();
    assert_eq!(node.state().counts().sessions, 20);
    let status = node.status();
    assert_eq!((status.role, status.term, status.applied), (Role::Leader, 1, indices[39].0));
    node.shutdown().await;
}

#[tokio::test]
async fn a_node_that_starts_again_leads_in_a_new_term_with_the_same_state() {
    let disk = FakeDisk::default();
    let mut before = State::default();
    for round in 1..=5_u64 {
        let node = start(&disk).await;
        assert_eq!(leads(&node).await, round);
        // Only the term differs: the node has proposed `Lead` with it.
        let now = node.state();
        let lead = sessions::Command::Lead { term: round }.into();
        before.apply(1, now.now_ms(), &lead, &mut Outcome::default());
        assert_eq!(now, before);
        for session in 0..40 {
            node.propose(open_session(round * 1000 + session)).await.unwrap();
            node.propose(acquire(round * 1000 + session, 1, &format!("lock {session}"))).await.unwrap();
        }
        before = node.state();
        node.shutdown().await;
    }
    let snapshots = disk.names().iter().filter(|name| name.starts_with("snapshot-")).count();
    assert_eq!(snapshots, 1, "{:?}", disk.names());
}

#[test]
fn a_node_that_is_dropped_in_the_midst_of_it_starts_again_with_what_was_applied() {
    let mut disk = FakeDisk::default();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut sessions = 0;
    for round in 0..10_u64 {
        let running = runtime();
        let node = running.block_on(start(&disk));
        assert!(node.state().counts().sessions >= sessions, "round {round}");
        let proposed = running.block_on(async {
            let mut proposed = Vec::new();
            for session in 0..100 {
                proposed.push(node.propose(open_session(1 + round * 1000 + session)));
            }
            // The test waits for only half of the answers.
            for pending in proposed.drain(..50) {
                pending.await.unwrap();
            }
            proposed
        });
        sessions = node.state().counts().sessions;
        assert!(sessions >= 50 * (round as usize + 1));
        // The runtime ends without a shutdown of the node: all tasks vanish at once.
        drop(running);
        drop((node, proposed));
        // A thread of the old node may still write a snapshot. The threads of a process that has ended do not.
        disk = disk.copy();
    }
}

#[tokio::test]
async fn the_log_is_purged_after_a_snapshot() {
    let disk = FakeDisk::default();
    let node = start(&disk).await;
    for session in 1..=3000 {
        node.propose(open_session(session)).await.unwrap();
        let close = request(session, 1, Operation::Close);
        node.propose(close).await.unwrap();
    }
    let status = node.status();
    assert!(status.applied > 6000);
    node.shutdown().await;
    let (_, purged, entries, applied, _) = everything(&disk).await.unwrap();
    assert!(purged.unwrap().index > 1000, "{purged:?}");
    assert!(applied >= purged);
    assert!(entries.len() < 5000, "{}", entries.len());
}

fn state_after<'a>(entries: impl IntoIterator<Item = (&'a u64, &'a Entry)>) -> State {
    let mut state = State::default();
    let mut outcome = Outcome::default();
    for (&index, entry) in entries {
        entry.commands.iter().for_each(|command| state.apply(index, entry.now_ms, command, &mut outcome));
    }
    state
}

#[tokio::test]
async fn a_power_cut_under_load_loses_nothing_that_was_applied() {
    let mut random = Random(5);
    let mut disk = FakeDisk::default();
    // Every entry that was ever applied, by its index.
    let mut history: BTreeMap<u64, Entry> = BTreeMap::new();
    for round in 0..40 {
        let applied: Arc<Mutex<BTreeMap<u64, Entry>>> = Arc::default();
        let log = applied.clone();
        let on_apply: OnApply = Box::new(move |entry, applied, _| {
            log.lock().unwrap().insert(applied.index, entry.clone());
        });
        let node = Node::open(Arc::new(disk.clone()), Options { on_apply, ..options() }).await.unwrap();
        leads(&node).await;
        // The node applies all entries after the snapshot again, unchanged.
        for (index, entry) in applied.lock().unwrap().iter() {
            assert_eq!(history.entry(*index).or_insert_with(|| entry.clone()), entry, "round {round}, index {index}");
        }
        assert_eq!(node.state(), state_after(&history), "round {round}");

        let mut pending = Vec::new();
        for session in 0..20 + random.below(60) as u64 {
            let session = 1 + round * 1000 + session;
            pending.push(node.propose(open_session(session)));
            pending.push(node.propose(acquire(session, 1, &format!("lock {}", random.below(9)))));
        }
        // The power fails after a random number of answers. Every entry that was applied by then must survive, answered
        // or not.
        let mut answered = Vec::new();
        for pending in pending.into_iter().take(random.below(40)) {
            answered.push(pending.await.unwrap().index);
        }
        let known = applied.lock().unwrap().clone();
        let seed = random.draw() * u64::from(random.below(4) != 0);
        disk = disk.after_power_cut(seed);
        assert!(answered.iter().all(|index| known.contains_key(index)), "an answer comes after on_apply");
        history.extend(known);
        node.shutdown().await;
    }
    assert!(disk.names().iter().any(|name| name.starts_with("snapshot-")), "{:?}", disk.names());
}

#[tokio::test]
async fn a_node_without_an_address_is_not_reached_and_pre_vote_says_so_too() {
    let mut peer = nobody(Identity { cluster: 1, node: 1 }).new_client(7, &NodeRecord::default()).await;
    let option = || RPCOption::new(std::time::Duration::from_secs(1));
    let request = || VoteRequest::new(Vote::new(2, 1), None);
    for refused in [peer.vote(request(), option()).await, peer.pre_vote(request(), option()).await] {
        let Err(RPCError::Unreachable(error)) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("the record of the node has no address for other nodes"), "{error}");
    }
}

#[tokio::test]
async fn a_folder_is_free_when_shutdown_returns() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let disk = crate::store::Folder::open(folder.path()).unwrap();
        let node = Node::open(Arc::new(disk), options()).await.unwrap();
        leads(&node).await;
        assert!(matches!(crate::store::Folder::open(folder.path()), Err(OpenError::InUse)));
        assert!(node.free_bytes().unwrap() > 0);
        node.shutdown().await;
    }
}

#[test]
fn a_file_that_is_removed_under_a_running_node_is_noticed() {
    simulated(async || {
        let disk = FakeDisk::default();
        let node = start(&disk).await;
        let mut session = 0;
        while !disk.names().iter().any(|name| name.starts_with("snapshot-")) {
            session += 1;
            node.propose(open_session(session)).await.unwrap();
            assert_eq!(node.missing(), None);
        }
        // The next start has nothing to purge.
        let purged = |metrics: &Metrics| metrics.snapshot.is_some() && metrics.purged == metrics.snapshot;
        node.raft.wait(Some(LONG)).metrics(purged, "purged").await.unwrap();
        node.shutdown().await;
        // No snapshot is made, so that the node itself removes no files.
        let options = Options { snapshot_after_bytes: u64::MAX, ..options() };
        let node = Node::open(Arc::new(disk.clone()), options).await.unwrap();
        leads(&node).await;
        assert_eq!(node.missing(), None);
        let names = disk.names();
        for name in names.iter().filter(|name| name.ends_with(".baton")) {
            let bytes = disk.read(name).unwrap();
            disk.remove(name).unwrap();
            assert_eq!(node.missing(), Some(format!("{name} was removed while the server ran")));
            disk.put(name, bytes);
            assert_eq!(node.missing(), None);
        }
        assert!(names.len() > 5, "{names:?}");
        node.shutdown().await;
    });
}

#[tokio::test]
async fn a_folder_that_is_removed_under_a_running_node_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let disk = crate::store::Folder::open(&path).unwrap();
    let node = Node::open(Arc::new(disk), options()).await.unwrap();
    leads(&node).await;
    assert_eq!(node.missing(), None);
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(node.missing().as_deref(), Some("it was removed or replaced while the server ran"));
    node.shutdown().await;
}

#[tokio::test]
async fn a_new_group_knows_its_node_by_its_record_and_the_id_of_the_folder() {
    let disk = FakeDisk::default();
    let (name, peer_address, client_address) = ("a".to_owned(), "a:1".to_owned(), "a:2".to_owned());
    let record = NodeRecord { name, peer_address, client_address };
    let mut ids = Vec::new();
    for options in [Options { record: record.clone(), ..options() }, options()] {
        let node = Node::open(Arc::new(disk.clone()), options).await.unwrap();
        leads(&node).await;
        ids.push(node.status().node);
        node.shutdown().await;
    }
    let parts = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let Parts { identity, mut log, .. } = parts;
    assert_eq!(ids, [identity.node; 2]);
    let first = log.get_log_reader().await.try_get_log_entries(0..1).await.unwrap().remove(0);
    let Payload::Membership(membership) = first.payload else { panic!("{first:?}") };
    assert_eq!(membership.nodes().collect::<Vec<_>>(), [(&identity.node, &record)]);
}
