//! The members of the group: how they are listed and changed. Only the leader changes them, one change at a time.
//!
//! Every refusal here comes before anything is changed, unless it says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, InitializeError, RaftError};
use openraft::{ChangeMembers, Instant, RaftMetrics, ServerState};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::node::{Node, node_status};
use super::peers::{self, Answer, Hello, LinkError, NodeStatus, Purpose, Request};
use super::types::TypeConfig;
use crate::format::record::NodeRecord;

/// A learner that is further behind, in entries, must not become a voter: the group would wait for it.
const LAG_MAX: u64 = 5000;

/// The time that a majority has to confirm a change. The change goes on after it.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// The time that another node has to say how it is.
const STATUS_MAX: Duration = Duration::from_millis(500);

type Metrics = RaftMetrics<TypeConfig>;

/// Why the members are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    #[error("this node does not lead{}", .leader.map_or(String::new(), |leader| format!("; node {leader} does")))]
    NotLeader {
        /// The node that leads, if this node knows it.
        leader: Option<u64>,
    },
    #[error("there is no member with id {id}")]
    NoSuchMember { id: u64 },
    #[error("node {id} is a member already, with the name {name}")]
    IsMember { id: u64, name: String },
    #[error("node {id} has the name {name} already; each member needs a name of its own")]
    NameTaken { id: u64, name: String },
    #[error("node {id} has the address {address} already; is it the same node?")]
    AddressTaken { id: u64, address: String },
    #[error("node {id} ({name}) has no address for other nodes; start it with one, and change its record")]
    NoAddress { id: u64, name: String },
    #[error("node {id} is a voter already")]
    IsVoter { id: u64 },
    #[error("node {id} does not vote; only a voter can lead")]
    NotVoter { id: u64 },
    #[error("node {id} leads already")]
    Leads { id: u64 },
    #[error("node {id} is the last voter; the group would have nobody to decide; add and promote another node first")]
    LastVoter { id: u64 },
    #[error("node {id} is {behind} entries behind; wait until it has them")]
    Lags { id: u64, behind: u64 },
    #[error("node {id} was not heard of for {ms} ms; start it, or remove it")]
    Silent { id: u64, ms: u64 },
    #[error("node {id} has not answered yet; is its address right, and does it run?")]
    NeverHeard { id: u64 },
    #[error("another change of the members is not finished yet; try again")]
    InProgress,
    #[error("this node has a log or has voted: it belongs to a group already")]
    NotEmpty,
    #[error("node {id} is not in the list of members that it begins with")]
    NotListed { id: u64 },
    /// The change may have been made, or may be made later.
    #[error("the leader changed; the change may or may not be made: list the members")]
    Unknown,
    /// The change is in the log, and may be made later.
    #[error("no majority has confirmed the change within {ms} ms; it may still be made: list the members")]
    NotYet { ms: u64 },
    /// The leader may still change.
    #[error("node {to} did not take over within {ms} ms")]
    NoTransfer { to: u64, ms: u64 },
    #[error("no other voter can lead now")]
    Alone,
    #[error("the node is stopped")]
    Stopped,
    #[error("{0}")]
    Refused(String),
}

/// A member, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub record: NodeRecord,
    pub is_voter: bool,
    /// How many entries it is behind. Only the leader knows.
    pub lag: Option<u64>,
    /// When it last acknowledged something to the leader. Only the leader knows.
    pub heard_ms_ago: Option<u64>,
    /// What it says about itself, or a sentence why it says nothing.
    pub says: Result<NodeStatus, String>,
}

impl Node {
    pub fn id(&self) -> u64 {
        self.peers.identity().node
    }

    /// The id of the cluster. A node without data takes over that of the group that takes it in.
    pub fn cluster(&self) -> u64 {
        self.peers.identity().cluster
    }

    /// Begins a group with these voters, of which this node is one. The others must be empty too.
    pub async fn initialize(&self, members: BTreeMap<u64, NodeRecord>) -> Result<(), MemberError> {
        for (id, record) in &members {
            check_record(members.iter(), *id, record)?;
        }
        let (id, is_several) = (self.id(), members.len() > 1);
        if let Some((id, record)) = members.iter().find(|(_, record)| is_several && record.peer_address.is_empty()) {
            return Err(MemberError::NoAddress { id: *id, name: record.name.clone() });
        }
        match self.raft.initialize(members).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(MemberError::NotEmpty),
            Err(RaftError::APIError(InitializeError::NotInMembers(_))) => Err(MemberError::NotListed { id }),
            Err(RaftError::Fatal(_)) => Err(MemberError::Stopped),
        }
    }

    /// Takes a node in as a learner: it gets all entries, but has no vote.
    pub async fn add_learner(&self, id: u64, record: NodeRecord) -> Result<(), MemberError> {
        let (turn, metrics) = self.begin_change()?;
        if let Some(known) = metrics.membership_config.get_node(&id) {
            return Err(MemberError::IsMember { id, name: known.name.clone() });
        }
        check_record(metrics.membership_config.nodes(), id, &record)?;
        let all = metrics.membership_config.nodes().chain([(&id, &record)]);
        if let Some((id, record)) = { all }.find(|(_, record)| record.peer_address.is_empty()) {
            return Err(MemberError::NoAddress { id: *id, name: record.name.clone() });
        }
        self.change(turn, ChangeMembers::AddNodes(BTreeMap::from([(id, record)])), true).await
    }

    /// Makes a learner a voter.
    pub async fn promote(&self, id: u64) -> Result<(), MemberError> {
        let (turn, metrics) = self.begin_change()?;
        known(&metrics, id)?;
        if is_voter(&metrics, id) {
            return Err(MemberError::IsVoter { id });
        }
        self.check_health(&metrics, id)?;
        self.change(turn, ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await
    }

    /// Takes a node out of the group. If it is the leader, another node takes over.
    pub async fn remove(&self, id: u64) -> Result<(), MemberError> {
        let (turn, metrics) = self.begin_change()?;
        known(&metrics, id)?;
        if metrics.membership_config.voter_ids().eq([id]) {
            return Err(MemberError::LastVoter { id });
        }
        match is_voter(&metrics, id) {
            true => self.change(turn, ChangeMembers::RemoveVoters(BTreeSet::from([id])), false).await,
            false => self.change(turn, ChangeMembers::RemoveNodes(BTreeSet::from([id])), false).await,
        }
    }

    /// Changes the name and the addresses of a member.
    pub async fn update(&self, id: u64, record: NodeRecord) -> Result<(), MemberError> {
        let (turn, metrics) = self.begin_change()?;
        known(&metrics, id)?;
        check_record(metrics.membership_config.nodes(), id, &record)?;
        if metrics.membership_config.nodes().count() > 1 && record.peer_address.is_empty() {
            return Err(MemberError::NoAddress { id, name: record.name });
        }
        self.change(turn, ChangeMembers::SetNodes(BTreeMap::from([(id, record)])), true).await
    }

    /// Hands the leadership over to another voter, and returns when it leads.
    pub async fn transfer(&self, to: u64) -> Result<(), MemberError> {
        let metrics = self.leading()?;
        known(&metrics, to)?;
        if to == metrics.id {
            return Err(MemberError::Leads { id: to });
        }
        if !is_voter(&metrics, to) {
            return Err(MemberError::NotVoter { id: to });
        }
        self.check_health(&metrics, to)?;
        self.raft.trigger().transfer_leader(to).await.map_err(|_| MemberError::Stopped)?;
        // If the node does not take over, the others elect somebody within this time.
        let limit = self.timing.election_max * 2;
        let mut watched = self.raft.server_metrics();
        let taken = timeout(limit, async {
            while watched.borrow_watched().current_leader != Some(to) {
                watched.changed().await.map_err(|_| MemberError::Stopped)?;
            }
            Ok(())
        });
        taken.await.unwrap_or(Err(MemberError::NoTransfer { to, ms: limit.as_millis() as u64 }))
    }

    /// Hands the leadership over to the voter that has most of the log, before this node stops.
    pub async fn hand_over(&self) -> Result<(), MemberError> {
        let metrics = self.leading()?;
        let healthy = |id: &u64| *id != metrics.id && self.check_health(&metrics, *id).is_ok();
        let best = metrics.membership_config.voter_ids().filter(healthy).min_by_key(|id| lag(&metrics, *id));
        match best {
            Some(to) => self.transfer(to).await,
            None => Err(MemberError::Alone),
        }
    }

    /// When a majority last confirmed that this node leads; none if it does not lead, or if none has yet. A node that is
    /// the only voter needs no confirmation.
    pub fn confirmed_ms_ago(&self) -> Option<u64> {
        let metrics = self.leading().ok()?;
        if metrics.membership_config.voter_ids().eq([metrics.id]) {
            return Some(0);
        }
        let confirmed = metrics.last_quorum_acked?;
        Some(u64::try_from(confirmed.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// All members. Asks each of them how it is.
    pub async fn members(&self) -> Vec<Member> {
        let metrics = self.metrics();
        let membership = metrics.membership_config.clone();
        let members = membership.nodes().map(|(id, record)| {
            let metrics = &metrics;
            async move {
                Member {
                    id: *id,
                    record: record.clone(),
                    is_voter: is_voter(metrics, *id),
                    lag: lag(metrics, *id),
                    heard_ms_ago: heard_ms_ago(metrics, *id),
                    says: self.ask(*id, record).await,
                }
            }
        });
        join_all(members).await
    }

    async fn ask(&self, id: u64, record: &NodeRecord) -> Result<NodeStatus, String> {
        if id == self.id() {
            return Ok(node_status(&self.raft));
        }
        let peer = self.peers.get(id, record);
        match peer.call(Request::Status, STATUS_MAX).await {
            Ok(Answer::Status(status)) => Ok(status),
            Ok(Answer::Failed(sentence)) => Err(sentence),
            Ok(_) => Err("it answers another question".to_owned()),
            Err(error) => Err(peer.last_error().unwrap_or(error).to_string()),
        }
    }

    /// Asks the node at an address who it is, and tells it who this node is.
    pub async fn introduce(&self, address: &str) -> Result<Hello, LinkError> {
        let is_empty = !self.raft.is_initialized().await.map_err(|stopped| LinkError::Failed(stopped.to_string()))?;
        peers::introduce(address, &self.peers.hello(0, Purpose::Introduction, is_empty)).await
    }

    fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    fn leading(&self) -> Result<Metrics, MemberError> {
        let metrics = self.metrics();
        match metrics.state {
            ServerState::Leader => Ok(metrics),
            ServerState::Shutdown => Err(MemberError::Stopped),
            _ => Err(MemberError::NotLeader { leader: metrics.current_leader }),
        }
    }

    /// Refuses a node that the group would have to wait for.
    fn check_health(&self, metrics: &Metrics, id: u64) -> Result<(), MemberError> {
        let silent_max = self.timing.election_max.as_millis() as u64 * 2;
        match (heard_ms_ago(metrics, id), lag(metrics, id)) {
            (None, _) | (_, None) => Err(MemberError::NeverHeard { id }),
            (Some(ms), _) if ms > silent_max => Err(MemberError::Silent { id, ms }),
            (_, Some(behind)) if behind > LAG_MAX => Err(MemberError::Lags { id, behind }),
            _ => Ok(()),
        }
    }

    /// Changes happen one after the other, so that each is checked against the members that it changes.
    fn begin_change(&self) -> Result<(OwnedMutexGuard<()>, Metrics), MemberError> {
        let turn = self.changing.clone().try_lock_owned().map_err(|_| MemberError::InProgress)?;
        let metrics = self.leading()?;
        // A leader that was removed leads for a moment until another takes over. It must not change the members any
        // more: openraft asserts this in debug builds.
        known(&metrics, metrics.id).map_err(|_| MemberError::NotLeader { leader: None })?;
        Ok((turn, metrics))
    }

    async fn change(
        &self,
        turn: OwnedMutexGuard<()>,
        change: ChangeMembers<u64, NodeRecord>,
        retain: bool,
    ) -> Result<(), MemberError> {
        use ChangeMembershipError::{InProgress, UncommittedLeaderLog};
        // A change has two steps. A task of its own makes the second even if this caller is gone.
        let raft = self.raft.clone();
        let changing = tokio::spawn(async move {
            let changed = raft.change_membership(change, retain).await?;
            // The caller sees the change in what it asks next. An error means that the node stops.
            let is_shown = |metrics: &Metrics| *metrics.membership_config.log_id() >= Some(changed.log_id);
            let _ = raft.wait(Some(CHANGE_MAX)).metrics(is_shown, "the members have changed").await;
            drop(turn);
            Ok(())
        });
        let Ok(changed) = timeout(CHANGE_MAX, changing).await else {
            return Err(MemberError::NotYet { ms: CHANGE_MAX.as_millis() as u64 });
        };
        let error = match changed.map_err(|_| MemberError::Stopped)? {
            Ok(()) => return Ok(()),
            Err(RaftError::Fatal(_)) => return Err(MemberError::Stopped),
            Err(RaftError::APIError(error)) => error,
        };
        Err(match error {
            ClientWriteError::ForwardToLeader(to) => MemberError::NotLeader { leader: to.leader_id },
            ClientWriteError::ChangeMembershipError(InProgress(_) | UncommittedLeaderLog(_)) => MemberError::InProgress,
            ClientWriteError::ChangeMembershipError(refused) => MemberError::Refused(refused.to_string()),
            _ => MemberError::Unknown,
        })
    }
}

fn known(metrics: &Metrics, id: u64) -> Result<(), MemberError> {
    metrics.membership_config.get_node(&id).map(drop).ok_or(MemberError::NoSuchMember { id })
}

fn is_voter(metrics: &Metrics, id: u64) -> bool {
    metrics.membership_config.voter_ids().any(|voter| voter == id)
}

/// Refuses a record whose name or address another member has.
fn check_record<'a>(
    members: impl Iterator<Item = (&'a u64, &'a NodeRecord)>,
    id: u64,
    record: &NodeRecord,
) -> Result<(), MemberError> {
    for (&other, known) in members.filter(|(other, _)| **other != id) {
        if known.name == record.name {
            return Err(MemberError::NameTaken { id: other, name: known.name.clone() });
        }
        if known.peer_address == record.peer_address && !known.peer_address.is_empty() {
            return Err(MemberError::AddressTaken { id: other, address: known.peer_address.clone() });
        }
    }
    Ok(())
}

/// The entries that a node does not have yet, as far as the leader knows.
fn lag(metrics: &Metrics, id: u64) -> Option<u64> {
    let matched = metrics.replication.as_ref()?.get(&id)?;
    let next = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    Some(next(metrics.last_log_index).saturating_sub(next(matched.map(|id| id.index))))
}

fn heard_ms_ago(metrics: &Metrics, id: u64) -> Option<u64> {
    let heard = (*metrics.heartbeat.as_ref()?.get(&id)?)?;
    Some(u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX))
}
