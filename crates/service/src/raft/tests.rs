//! The log, the state machine and the node, on a disk in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use openraft::entry::RaftEntry;
use openraft::errors::RPCError;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::VoteRequest;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::{BasicNode, RaftLogReader, RaftSnapshotBuilder, StorageError};
use tokio::sync::oneshot;

use super::log_store::LogStore;
use super::machine::Machine;
use super::network::NoPeers;
use super::node::Parts;
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use super::*;
use crate::store::fake::{FakeDisk, Operation as DiskOperation, Random};
use crate::store::{Disk, OpenError};
use crate::table::{Command, Effect, Entry, Mode, Operation, OwnerId, SessionId, Table};

fn options() -> Options {
    // A test that does not expect it must not go on.
    let fatal: Fatal = Arc::new(|why| panic!("{why}"));
    Options { segment_bytes: 1024, snapshot_after_bytes: 4096, fatal, ..Options::default() }
}

fn entry_of(command: Command) -> Entry {
    Entry { now_ms: 1000, commands: vec![command] }
}

fn open_session(session: u64) -> Entry {
    let (label, host) = (format!("session {session}"), "here".to_owned());
    entry_of(Command::Open { session: SessionId(session), ttl_ms: 10_000, label, host, pid: 7, resume: false })
}

fn request(session: u64, number: u64, operation: Operation) -> Entry {
    let (session, seen, missing) = (SessionId(session), number - 1, Vec::new());
    entry_of(Command::Request { session, number, seen, missing, operation })
}

fn acquire(session: u64, number: u64, lock: &str) -> Entry {
    let (lock, owner) = (lock.to_owned(), OwnerId(session));
    request(
        session,
        number,
        Operation::Acquire { lock, mode: Mode::Exclusive, owner, timeout_ms: None, lock_delay_ms: 0 },
    )
}

async fn leads(node: &Node) -> u64 {
    let mut leadership = node.leadership();
    let now = leadership.wait_for(|now| matches!(now, Leadership::Leads { .. })).await.unwrap();
    match *now {
        Leadership::Leads { term } => term,
        Leadership::DoesNotLead { .. } => unreachable!("waited for"),
    }
}

async fn start(disk: &FakeDisk) -> Node {
    let node = Node::open(Arc::new(disk.clone()), options()).await.unwrap();
    leads(&node).await;
    node
}

struct FakeBuilder;

impl StoreBuilder<TypeConfig, LogStore, Machine> for FakeBuilder {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<TypeConfig>> {
        let parts = Parts::open(Arc::new(FakeDisk::default()), options()).unwrap();
        Ok(((), parts.log, parts.machine))
    }
}

#[tokio::test]
async fn openraft_s_own_suite_passes() {
    Suite::<TypeConfig, LogStore, Machine, FakeBuilder, ()>::test_all(FakeBuilder).await.unwrap();
}

/// The log as openraft sees it, and the state machine.
type Everything = (Option<Vote>, Option<LogId>, Vec<LogEntry>, Option<LogId>, Table);

async fn everything(disk: &FakeDisk) -> Result<Everything, OpenError> {
    let Parts { mut log, shared, .. } = Parts::open(Arc::new(disk.clone()), options())?;
    let (applied, table) = {
        let state = shared.read();
        (state.applied, state.table.clone())
    };
    let purged = log.get_log_state().await.unwrap().last_purged_log_id;
    let mut reader = log.get_log_reader().await;
    let entries = reader.try_get_log_entries(..).await.unwrap();
    Ok((reader.read_vote().await.unwrap(), purged, entries, applied, table))
}

/// A folder with votes, several segments, a snapshot and a purged log.
async fn filled() -> FakeDisk {
    let disk = FakeDisk::default();
    let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let mut append = async |from: u64, to: u64, vote: Vote| {
        log.save_vote(&vote).await.unwrap();
        for index in from..to {
            let entry = LogEntry::new_normal(LogId::new_term_index(vote.leader_id.term, index), open_session(index));
            let (done, durable) = TypeConfig::oneshot();
            log.append([entry.clone()], IOFlushed::signal(done)).await.unwrap();
            durable.await.unwrap().unwrap();
            log.save_committed(Some(entry.log_id())).await.unwrap();
        }
        log.get_log_reader().await.try_get_log_entries(from..to).await.unwrap()
    };
    let applied = append(0, 12, Vote::new(1, 1)).await;
    append(12, 20, Vote::new(2, 1)).await;
    machine.apply(futures::stream::iter(applied.into_iter().map(|entry| Ok((entry, None))))).await.unwrap();
    let last = machine.get_snapshot_builder().await.build_snapshot().await.unwrap().meta.last_log_id.unwrap();
    log.purge(LogId::new_term_index(last.leader_id.term, last.index - 3)).await.unwrap();
    log.save_vote(&Vote::new(3, 1)).await.unwrap();
    drop((log, machine));
    disk
}

#[tokio::test]
async fn any_damaged_byte_of_a_data_folder_is_healed_or_the_start_is_refused() {
    let disk = filled().await;
    let expected = everything(&disk).await.unwrap();
    assert_eq!((expected.2.len(), expected.3.map(|id| id.index)), (11, Some(11)));
    assert!(disk.names().len() >= 5, "{:?}", disk.names());
    let (mut healed, mut refused) = (0, 0);
    for name in disk.names() {
        let bytes = disk.read(&name).unwrap();
        // Of long stretches of zeros, a few.
        for at in (0..bytes.len()).filter(|at| bytes[*at] != 0 || bytes.len() < 4096 || at % 401 == 0) {
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
    assert!(healed > 3_000 && refused < 50, "{healed} healed, {refused} refused");
}

#[tokio::test]
async fn a_missing_file_is_noticed() {
    let disk = filled().await;
    // Two files say nothing that must be known: they are made anew.
    for name in disk.names().into_iter().filter(|name| name != "SYNCED" && name != "WRITER") {
        let gone = disk.copy();
        gone.remove(&name).unwrap();
        let error = everything(&gone).await.unwrap_err();
        assert!(matches!(error, OpenError::Missing { .. }), "without {name}: {error}");
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_before_the_sync_that_covers_it() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
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
        let before = syncs.load(Ordering::SeqCst);
        let (done, durable) = TypeConfig::oneshot();
        *waiting.lock().unwrap() = Some(durable);
        let entry = LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index));
        log.append([entry], IOFlushed::signal(done)).await.unwrap();
        assert!(syncs.load(Ordering::SeqCst) > before, "entry {index}");
        let durable = waiting.lock().unwrap().take().unwrap();
        durable.await.unwrap().unwrap();
    }
}

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
    let mut pending = vec![node.propose(open_session(1)).await.unwrap()];
    entered.recv().unwrap();
    for session in 2..=100 {
        pending.push(node.propose(open_session(session)).await.unwrap());
    }
    go_on.send(()).unwrap();
    for pending in pending {
        pending.await.unwrap();
    }
    assert_eq!(syncs.load(Ordering::SeqCst), 2, "for 100 entries");
    node.shutdown().await;
}

#[tokio::test]
async fn a_large_append_is_cut_into_frames() {
    let disk = FakeDisk::default();
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let label = "x".repeat(300 << 10);
    let large = Command::Open { session: SessionId(1), ttl_ms: 1, label, host: String::new(), pid: 1, resume: false };
    let entry = |index| LogEntry::new_normal(LogId::new_term_index(1, index), entry_of(large.clone()));
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
    let disk = FakeDisk::default();
    let (say, said) = mpsc::channel();
    let say = Mutex::new(say);
    let fatal: Fatal = Arc::new(move |why| say.lock().unwrap().send(why.to_owned()).unwrap());
    let Parts { mut log, .. } = Parts::open(Arc::new(disk.clone()), Options { fatal, ..options() }).unwrap();
    disk.before_each(|_, operation| match operation {
        DiskOperation::Sync(_) => Err(io::Error::from_raw_os_error(5)),
        _ => Ok(()),
    });
    for index in 0..3 {
        let (done, durable) = TypeConfig::oneshot();
        let entry = LogEntry::new_normal(LogId::new_term_index(1, index), open_session(index));
        log.append([entry], IOFlushed::signal(done)).await.unwrap_err();
        assert!(!matches!(durable.await, Ok(Ok(()))), "append {index}");
    }
    let why = said.recv().unwrap();
    assert!(why.starts_with("the log cannot be written (Input/output error"), "{why}");
    assert!(said.try_recv().is_err(), "said once");
    assert!(log.save_vote(&Vote::new(9, 1)).await.is_err());
}

#[tokio::test]
async fn a_group_of_one_leads_applies_and_answers_in_order() {
    let disk = FakeDisk::default();
    let seen: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
    let log = seen.clone();
    let on_apply: OnApply =
        Box::new(move |_, applied| log.lock().unwrap().push((applied.index, applied.effects.len())));
    let node = Node::open(Arc::new(disk.clone()), Options { on_apply, ..options() }).await.unwrap();
    assert_eq!(leads(&node).await, 1);
    let mut pending = Vec::new();
    for session in 1..=20 {
        pending.push(node.propose(open_session(session)).await.unwrap());
        pending.push(node.propose(acquire(session, 1, "lock")).await.unwrap());
    }
    let mut indices = Vec::new();
    for pending in pending {
        let applied = pending.await.unwrap();
        assert_eq!(applied.term, 1);
        indices.push((applied.index, applied.effects.len()));
    }
    // The first two are the membership, the blank entry of a new leader; the third is `Lead`.
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], (2, 0));
    assert_eq!(seen[1..], indices);
    assert!(indices.is_sorted());
    node.read_index().await.unwrap();
    assert_eq!(node.table().counts().sessions, 20);
    let status = node.status();
    assert_eq!((status.node, status.role, status.term, status.applied), (1, Role::Leader, 1, indices[39].0));
    node.shutdown().await;
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_refused() {
    let node = start(&FakeDisk::default()).await;
    let label = "x".repeat(2 << 20);
    let open = Command::Open { session: SessionId(1), ttl_ms: 1, label, host: String::new(), pid: 1, resume: false };
    let error = node.propose(entry_of(open)).await.unwrap_err();
    assert!(matches!(error, ProposeError::TooLarge { bytes, limit: 1_048_576 } if bytes > 2 << 20), "{error}");
    node.shutdown().await;
}

#[tokio::test]
async fn a_node_that_starts_again_leads_in_a_new_term_with_the_same_table() {
    let disk = FakeDisk::default();
    let mut before = Table::default();
    for round in 1..=5_u64 {
        let node = start(&disk).await;
        assert_eq!(leads(&node).await, round);
        // But for the new term, which its own first entry has told the table.
        let now = node.table().clone();
        before.apply(now.now_ms(), &Command::Lead { term: round }, &mut Vec::new());
        assert_eq!(now, before);
        for session in 0..40 {
            node.propose(open_session(round * 1000 + session)).await.unwrap().await.unwrap();
            node.propose(acquire(round * 1000 + session, 1, &format!("lock {session}"))).await.unwrap().await.unwrap();
        }
        before = node.table().clone();
        node.shutdown().await;
    }
    let snapshots = disk.names().iter().filter(|name| name.starts_with("snapshot-")).count();
    assert_eq!(snapshots, 1, "{:?}", disk.names());
}

#[test]
fn a_node_that_is_dropped_in_the_midst_of_it_starts_again_with_what_was_applied() {
    let disk = FakeDisk::default();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut sessions = 0;
    for round in 0..10_u64 {
        let running = runtime();
        let node = running.block_on(start(&disk));
        assert!(node.table().counts().sessions >= sessions, "round {round}");
        let proposed = running.block_on(async {
            let mut proposed = Vec::new();
            for session in 0..100 {
                proposed.push(node.propose(open_session(1 + round * 1000 + session)).await.unwrap());
            }
            // Half of the answers are not waited for.
            for pending in proposed.drain(..50) {
                pending.await.unwrap();
            }
            proposed
        });
        sessions = node.table().counts().sessions;
        assert!(sessions >= 50 * (round as usize + 1));
        // Nobody is told to stop: the tasks are gone from one moment to the next.
        drop(running);
        drop((node, proposed));
    }
}

#[tokio::test]
async fn the_log_is_purged_after_a_snapshot() {
    let disk = FakeDisk::default();
    let node = start(&disk).await;
    for session in 1..=3000 {
        node.propose(open_session(session)).await.unwrap().await.unwrap();
        let close = request(session, 1, Operation::Close);
        node.propose(close).await.unwrap().await.unwrap();
    }
    let status = node.status();
    assert!(status.applied > 6000);
    node.shutdown().await;
    let (_, purged, entries, applied, _) = everything(&disk).await.unwrap();
    assert!(purged.unwrap().index > 1000, "{purged:?}");
    assert!(applied >= purged);
    assert!(entries.len() < 5000, "{}", entries.len());
}

/// What the table is after these entries.
fn table_after<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Table {
    let mut table = Table::default();
    let mut effects: Vec<Effect> = Vec::new();
    for entry in entries {
        entry.commands.iter().for_each(|command| table.apply(entry.now_ms, command, &mut effects));
    }
    table
}

#[tokio::test]
async fn a_power_cut_under_load_loses_nothing_that_was_applied() {
    let mut random = Random(5);
    let mut disk = FakeDisk::default();
    // Every entry that was ever applied, by its place in the log.
    let mut history: BTreeMap<u64, Entry> = BTreeMap::new();
    for round in 0..40 {
        let applied: Arc<Mutex<BTreeMap<u64, Entry>>> = Arc::default();
        let log = applied.clone();
        let on_apply: OnApply = Box::new(move |entry, applied| {
            log.lock().unwrap().insert(applied.index, entry.clone());
        });
        let node = Node::open(Arc::new(disk.clone()), Options { on_apply, ..options() }).await.unwrap();
        leads(&node).await;
        // What is in the snapshot is not applied again; all else is, and as it was.
        for (index, entry) in applied.lock().unwrap().iter() {
            assert_eq!(history.entry(*index).or_insert_with(|| entry.clone()), entry, "round {round}, index {index}");
        }
        assert_eq!(*node.table(), table_after(history.values()), "round {round}");

        let mut pending = Vec::new();
        for session in 0..20 + random.below(60) as u64 {
            let session = 1 + round * 1000 + session;
            pending.push(node.propose(open_session(session)).await.unwrap());
            pending.push(node.propose(acquire(session, 1, &format!("lock {}", random.below(9)))).await.unwrap());
        }
        // The power is cut at some moment after so many answers. What was applied by then, the answers with it, is kept.
        let mut answered = Vec::new();
        for pending in pending.into_iter().take(random.below(40)) {
            answered.push(pending.await.unwrap().index);
        }
        let known = applied.lock().unwrap().clone();
        let seed = random.next() * u64::from(random.below(4) != 0);
        disk = disk.after_power_cut(seed);
        assert!(answered.iter().all(|index| known.contains_key(index)), "an answer comes after on_apply");
        history.extend(known);
        node.shutdown().await;
    }
    assert!(disk.names().iter().any(|name| name.starts_with("snapshot-")), "{:?}", disk.names());
}

#[tokio::test]
async fn there_are_no_peers_and_pre_vote_says_so_too() {
    let mut peer = NoPeers.new_client(7, &BasicNode::default()).await;
    let option = || RPCOption::new(std::time::Duration::from_secs(1));
    let request = || VoteRequest::new(Vote::new(2, 1), None);
    for refused in [peer.vote(request(), option()).await, peer.pre_vote(request(), option()).await] {
        let Err(RPCError::Unreachable(error)) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("there is no such peer as node 7"), "{error}");
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
