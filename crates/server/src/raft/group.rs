//! The group of nodes, as the tasks of this node see it: who leads, and how the members change.
//!
//! Every refusal here comes before anything is changed, unless it says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use baton_runtime::timeout;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Raft, RaftMetrics, ServerState};
use tokio::sync::{OwnedMutexGuard, watch};

use super::errors::MemberError;
use super::machine::Machine;
use super::options::Timing;
use super::pace::{Recent, slow_round_trips};
use super::peers::{Confirmed, Peers, in_ms};
use super::rounds::{Confirmation, Rounds};
use super::types::{Membership as StoredMembership, TypeConfig};
use super::writer::Backlog;
use crate::format::record::NodeRecord;

/// The time that a majority has to confirm a change. The change goes on after it.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// A Hello must have room for the names and addresses of all members.
const NAME_BYTES_MAX: usize = 64;
const ADDRESS_BYTES_MAX: usize = 256;

pub(super) type Metrics = RaftMetrics<TypeConfig>;

/// Clones share the same node.
#[derive(Clone)]
pub struct Group {
    pub raft: Raft<TypeConfig, Machine>,
    pub peers: Peers,
    pub timing: Timing,
    pub rounds: Rounds,
    /// How long syncs of the log took lately.
    pub syncs: Arc<Recent>,
    /// How much of the log waits for the disk.
    pub backlog: Backlog,
    /// Free bytes for the data folder, as last seen. A disk that hangs may not answer, so only a thread of its own asks it.
    pub free: watch::Receiver<Option<u64>>,
    /// Held while the members change.
    pub changing: Arc<tokio::sync::Mutex<()>>,
    /// The cluster that has called this node since it started, while it was empty. Held while the node becomes part of
    /// a cluster or begins one, so that it never does both.
    pub adopted: Arc<tokio::sync::Mutex<Option<u64>>>,
}

impl Group {
    /// The name of this node.
    pub fn own_name(&self) -> String {
        let metrics = self.metrics();
        let known = metrics.membership_config.get_node(&self.id()).map(|record| record.name.clone());
        known.unwrap_or_else(|| self.peers.record().name)
    }

    pub fn id(&self) -> u64 {
        self.peers.identity().node
    }

    pub fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    pub fn leading(&self) -> Result<Metrics, MemberError> {
        let metrics = self.metrics();
        match metrics.state {
            ServerState::Leader => Ok(metrics),
            ServerState::Shutdown => Err(MemberError::Stopped),
            _ => Err(MemberError::NotLeader { leader: metrics.current_leader.map(|id| name(&metrics, id)) }),
        }
    }

    /// Changes happen one after the other, so that each is checked against the members that it changes.
    pub fn begin_change(&self) -> Result<(OwnedMutexGuard<()>, Metrics), MemberError> {
        let turn = self.changing.clone().try_lock_owned().map_err(|_| MemberError::InProgress)?;
        let metrics = self.leading()?;
        // A leader that was removed leads for a moment until another takes over. It must not change the members any
        // more: openraft asserts this in debug builds.
        known(&metrics, metrics.id).map_err(|_| MemberError::NotLeader { leader: None })?;
        // A task finishes what an earlier leader began.
        if is_joint(&metrics.membership_config) {
            return Err(MemberError::InProgress);
        }
        Ok((turn, metrics))
    }

    pub async fn change(
        &self,
        turn: OwnedMutexGuard<()>,
        change: ChangeMembers<u64, NodeRecord>,
        retain: bool,
    ) -> Result<(), MemberError> {
        use ChangeMembershipError::{InProgress, UncommittedLeaderLog};
        // A change has two steps. A task of its own makes the second even if this caller is gone.
        let raft = self.raft.clone();
        let before = *self.metrics().membership_config.log_id();
        let changing = baton_runtime::spawn(async move {
            let changed = raft.change_membership(change, retain).await?;
            // The caller sees the change in what it asks next. An error means that the node stops.
            let is_shown = |metrics: &Metrics| *metrics.membership_config.log_id() >= Some(changed.log_id);
            let _ = raft.wait(Some(CHANGE_MAX)).metrics(is_shown, "the members have changed").await;
            drop(turn);
            Ok(())
        });
        let Ok(changed) = timeout(CHANGE_MAX, changing).await else {
            return Err(MemberError::NotYet { ms: in_ms(CHANGE_MAX) });
        };
        let error = match changed.map_err(|_| MemberError::Stopped)? {
            Ok(()) => return Ok(()),
            Err(RaftError::Fatal(_)) => return Err(MemberError::Stopped),
            Err(RaftError::APIError(error)) => error,
        };
        Err(match error {
            // The first of the two steps is in the log. The next leader finishes the change, if a majority has it.
            ClientWriteError::ForwardToLeader(_) if *self.metrics().membership_config.log_id() != before => {
                MemberError::Unknown
            }
            ClientWriteError::ForwardToLeader(to) => {
                MemberError::NotLeader { leader: to.leader_id.map(|id| name(&self.metrics(), id)) }
            }
            ClientWriteError::ChangeMembershipError(InProgress(_) | UncommittedLeaderLog(_)) => MemberError::InProgress,
            ClientWriteError::ChangeMembershipError(refused) => MemberError::Refused(refused.to_string()),
            _ => MemberError::Unknown,
        })
    }

    /// Changes the name and the addresses of a member. An empty field stays as it is.
    pub async fn update(&self, id: u64, record: NodeRecord) -> Result<(), MemberError> {
        // A node that starts tells its record, and one that the leader does not reach asks again and again. Neither must hold
        // up another change.
        let metrics = self.leading()?;
        let member = known(&metrics, id)?;
        if record.or(member) == *member {
            return Ok(());
        }
        let (turn, metrics) = self.begin_change()?;
        let record = record.or(known(&metrics, id)?);
        check_record(metrics.membership_config.nodes(), id, &record)?;
        if metrics.membership_config.nodes().count() > 1 && record.peer_address.is_empty() {
            return Err(MemberError::NoAddress { id, name: record.name });
        }
        self.change(turn, ChangeMembers::SetNodes(BTreeMap::from([(id, record)])), true).await
    }
}

pub(super) fn known(metrics: &Metrics, id: u64) -> Result<&NodeRecord, MemberError> {
    metrics.membership_config.get_node(&id).ok_or(MemberError::NoSuchMember { id })
}

/// The name of a node, for people.
pub(super) fn name(metrics: &Metrics, id: u64) -> String {
    let record = metrics.membership_config.get_node(&id).filter(|record| !record.name.is_empty());
    record.map_or_else(|| format!("node {id}"), |record| record.name.clone())
}

/// How old the knowledge of this leader may be. None if it does not lead, or knows less than an earlier leader.
pub(super) fn confirmed(metrics: &Metrics, rounds: &Rounds) -> Option<Confirmed> {
    if metrics.state != ServerState::Leader {
        return None;
    }
    // The only voter needs no confirmation.
    if metrics.membership_config.voter_ids().eq([metrics.id]) {
        let commit = metrics.local_committed.filter(|commit| commit.leader_id.term == metrics.current_term)?;
        return Some(Confirmed { ms_ago: 0, commit: commit.index });
    }
    let Confirmation { began, commit, .. } = rounds.newest().filter(|newest| newest.term == metrics.current_term)?;
    Some(Confirmed { ms_ago: in_ms(began.elapsed()), commit: commit? })
}

/// True while a change of the voters has made the first of its two steps.
pub(super) fn is_joint(membership: &StoredMembership) -> bool {
    membership.get_joint_config().len() > 1
}

impl Group {
    /// What this node, if it leads, has to say of members: why they get no entries although they answer, or that they answer
    /// late. Sentences without a subject.
    pub fn remarks(&self) -> BTreeMap<u64, String> {
        let metrics = self.metrics();
        if metrics.state != ServerState::Leader {
            return BTreeMap::new();
        }
        let late = |id: u64| slow_round_trips(self.peers.round_trip(id)?, self.timing);
        let remark = |id: u64| Some((id, self.gets_nothing(id).or_else(|| late(id))?));
        metrics.membership_config.nodes().filter_map(|(id, _)| remark(*id)).collect()
    }

    /// Why a node gets no entries from this leader although it answers: a sentence without a subject.
    pub(super) fn gets_nothing(&self, id: u64) -> Option<String> {
        let refuses = || Some(format!("refuses the leader: {}", self.peers.refuses(id)?));
        self.peers.set_back(id).map(str::to_owned).or_else(refuses)
    }
}

/// The names of the members, in order, for the log.
pub(super) fn in_words(membership: &StoredMembership) -> String {
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let one = |(id, record): (&u64, &NodeRecord)| match voters.contains(id) {
        true => record.name.clone(),
        false => format!("{} (learns)", record.name),
    };
    let mut members: Vec<String> = membership.nodes().map(one).collect();
    members.sort_unstable();
    members.join(", ")
}

/// Refuses a record whose name or address another member has.
pub(super) fn check_record<'a>(
    members: impl Iterator<Item = (&'a u64, &'a NodeRecord)>,
    id: u64,
    record: &NodeRecord,
) -> Result<(), MemberError> {
    check_words(record)?;
    for (&other, known) in members.filter(|(other, _)| **other != id) {
        if known.name == record.name {
            return Err(MemberError::NameTaken { id: other, name: known.name.clone() });
        }
        if known.peer_address == record.peer_address && !known.peer_address.is_empty() {
            let (name, address) = (known.name.clone(), known.peer_address.clone());
            return Err(MemberError::AddressTaken { name, address });
        }
    }
    Ok(())
}

/// Refuses names and addresses that cannot be written in a list or in a Hello.
pub(super) fn check_words(record: &NodeRecord) -> Result<(), MemberError> {
    let NodeRecord { name, peer_address, client_address } = record;
    let addresses = [("peer address", peer_address), ("client address", client_address)];
    let invalid = |field, what: &str, why| Err(MemberError::Invalid { field, what: format!("{what:?}"), why });
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ',' | '=');
    if name.is_empty() {
        return invalid("name", name, "is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return invalid("name", name, "has more than 64 bytes");
    }
    if name.chars().any(is_odd) {
        return invalid("name", name, "contains a space, a comma, an equals sign or a control character");
    }
    for (field, address) in addresses {
        if address.len() > ADDRESS_BYTES_MAX {
            return invalid(field, address, "has more than 256 bytes");
        }
        if address.chars().any(is_odd) {
            return invalid(field, address, "contains a space, a comma, an equals sign or a control character");
        }
    }
    Ok(())
}
