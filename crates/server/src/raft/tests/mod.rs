//! The log, the state machine and the node, on a disk in memory.

mod anew;
mod changes;
mod cluster;
mod copies;
mod damage;
mod forming;
mod fuzz;
mod gate;
mod history;
mod kept;
mod log;
mod node;
mod on_disk;
mod proposals;
mod refusals;
mod rounds;
mod simulated;
mod slow_disk;
mod snapshots;
mod space;
mod versions;
mod words;
mod writer;

use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::{RaftLogReader, RaftSnapshotBuilder, StorageError};

use cluster::{LONG, MOMENT};

use super::log_store::LogStore;
use super::machine::Machine;
use super::node::Parts;
use super::peers::Peers;
use super::rounds::Rounds;
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use super::*;
use crate::state::locks::{self, Acquire, Mode};
use crate::state::{Caller, Command, Entry, Operation, Outcome, OwnerId, Request, SessionId, State, sessions};
use crate::store::fake::FakeDisk;
use crate::store::{Disk, Identity, OpenError};

fn options() -> Options {
    // A fatal error or a warning fails the test.
    let fatal: Fatal = Arc::new(|why| panic!("{why}"));
    let warn: Warn = Arc::new(|what| panic!("{what}"));
    Options { segment_bytes: 1024, snapshot_after_bytes: 4096, fatal, warn, ..Options::default() }
}

/// The network of a node that knows no other.
fn nobody(identity: Identity) -> Peers {
    another_start(identity, 5)
}

/// The network of a process with this identity and this number of its start.
fn another_start(identity: Identity, start: u64) -> Peers {
    let rounds = (Rounds::default(), Timing::default().election_max);
    let reaches: (_, Arc<dyn Transport>) = (Default::default(), Arc::new(Simulated));
    Peers::new(identity, start, NodeRecord::default(), reaches, (2, 2), rounds, complain())
}

/// A hook that sends each text to the test.
fn hook() -> (Warn, mpsc::Receiver<String>) {
    let (say, said) = mpsc::channel();
    let say = Mutex::new(say);
    (Arc::new(move |what: &str| say.lock().unwrap().send(what.to_owned()).unwrap()), said)
}

/// Waits for a text of the hook.
async fn told(texts: &mpsc::Receiver<String>) -> String {
    let text = baton_runtime::timeout(LONG, async {
        loop {
            match texts.try_recv() {
                Ok(text) => return text,
                Err(_) => baton_runtime::sleep(MOMENT).await,
            }
        }
    });
    text.await.expect("a text comes")
}

fn entry_of(command: impl Into<Command>) -> Entry {
    Entry { now_ms: 1000, commands: vec![command.into()] }
}

fn open_session(session: u64) -> Entry {
    open_labelled(session, format!("session {session}"))
}

fn open_labelled(session: u64, label: String) -> Entry {
    entry_of(sessions::Command::Open(sessions::Open {
        session: SessionId(session),
        ttl_ms: 10_000,
        label,
        host: "here".to_owned(),
        pid: 7,
        resume: false,
        secret_hash: None,
        caller: Caller::default(),
    }))
}

fn request(session: u64, number: u64, operation: Operation) -> Entry {
    let (session, seen, missing, caller) = (SessionId(session), number - 1, Vec::new(), Caller::default());
    entry_of(Command::Request(Request { session, number, seen, missing, caller, operation }))
}

fn acquire(session: u64, number: u64, lock: &str) -> Entry {
    let acquire = Acquire::one(lock, Mode::Exclusive, OwnerId(session));
    request(session, number, Operation::Locks(locks::Operation::Acquire(acquire)))
}

/// Waits until the node leads, and returns the term. Proposes `Lead` if the state does not know the term yet; in a
/// server the front end does that.
async fn leads(node: &Node) -> u64 {
    let mut leadership = node.leadership();
    let now = *leadership.wait_for(|now| matches!(now, Leadership::Leads { .. })).await.unwrap();
    let Leadership::Leads { term } = now else { unreachable!("waited for") };
    if node.state().term() < term {
        node.propose(entry_of(sessions::Command::Lead { term })).await.unwrap();
    }
    term
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

/// Vote, last purged id, entries, last applied id, state.
type Everything = (Option<Vote>, Option<LogId>, Vec<LogEntry>, Option<LogId>, State);

async fn everything(disk: &FakeDisk) -> Result<Everything, OpenError> {
    // Damage that is repaired is told.
    let options = Options { warn: Arc::new(|_: &str| ()), ..options() };
    let Parts { mut log, shared, .. } = Parts::open(Arc::new(disk.clone()), options)?;
    let (applied, state) = {
        let replica = shared.read();
        (replica.applied, replica.state.clone())
    };
    let purged = log.get_log_state().await.unwrap().last_purged_log_id;
    let mut reader = log.get_log_reader().await;
    let entries = reader.try_get_log_entries(..).await.unwrap();
    Ok((reader.read_vote().await.unwrap(), purged, entries, applied, state))
}

async fn append_uncommitted(log: &mut LogStore, term: u64, indices: Range<u64>) -> Vec<LogEntry> {
    let entry = |index| LogEntry::new_normal(LogId::new_term_index(term, index), open_session(index).into());
    let entries: Vec<LogEntry> = indices.map(entry).collect();
    let (done, durable) = TypeConfig::oneshot();
    log.append(entries.clone(), IOFlushed::signal(done)).await.unwrap();
    durable.await.unwrap().unwrap();
    entries
}

/// Saves the vote, then appends and commits one entry per index.
async fn append(log: &mut LogStore, vote: Vote, indices: Range<u64>) -> Vec<LogEntry> {
    log.save_vote(&vote).await.unwrap();
    for index in indices.clone() {
        let entry = LogEntry::new_normal(LogId::new_term_index(vote.leader_id.term, index), open_session(index).into());
        let (done, durable) = TypeConfig::oneshot();
        log.append([entry.clone()], IOFlushed::signal(done)).await.unwrap();
        durable.await.unwrap().unwrap();
        log.save_committed(Some(entry.log_id())).await.unwrap();
    }
    log.get_log_reader().await.try_get_log_entries(indices).await.unwrap()
}

async fn fill(log: &mut LogStore, machine: &mut Machine, indices: Range<u64>) {
    let entries = append(log, Vote::new(1, 1), indices).await;
    machine.apply(futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))))).await.unwrap();
}

async fn filled() -> FakeDisk {
    let disk = FakeDisk::default();
    let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    fill(&mut log, &mut machine, 0..12).await;
    append(&mut log, Vote::new(2, 1), 12..20).await;
    let last = machine.get_snapshot_builder().await.build_snapshot().await.unwrap().meta.last_log_id.unwrap();
    log.purge(LogId::new_term_index(last.leader_id.term, last.index - 3)).await.unwrap();
    log.save_vote(&Vote::new(3, 1)).await.unwrap();
    drop((log, machine));
    disk
}
