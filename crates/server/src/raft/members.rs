//! The members of the group: how they are listed and changed. Only the leader changes them, one change at a time.
//!
//! Every refusal here comes before anything is changed, unless it says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_runtime::timeout;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};

use super::errors::MemberError;
use super::group::{Metrics, check_record, confirmed, known, name};
use super::handing_over::{matched, next};
use super::joining::why_silent;
use super::node::{Node, node_status};
use super::pace::slow_syncs;
use super::peers::{Announcement, Answer, Hello, LinkError, MEMBERS_MAX, NodeStatus, Purpose, Request, in_ms};
use super::rounds::is_majority;
use super::space::little_space;
use crate::clock::boot_ms;
use crate::format::record::NodeRecord;
use crate::replica::Leadership;

/// The time that a learner has to answer and to catch up before it becomes a voter.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// The time that another node has to say how it is.
pub(super) const STATUS_MAX: Duration = Duration::from_millis(500);

/// A member, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub record: NodeRecord,
    pub is_voter: bool,
    /// When this node last heard of it.
    pub heard_ms_ago: Option<u64>,
    /// Why the leader sends it nothing although it answers, or what is too slow: a sentence without a subject, or nothing.
    pub remark: String,
    /// What it says about itself, or a sentence why it says nothing.
    pub says: Result<NodeStatus, String>,
    /// The nodes that have announced themselves to it, and wait to be added.
    pub(super) announced: Vec<Announcement>,
    /// It says that this node is no member.
    pub(super) excludes: bool,
}

impl Node {
    pub fn id(&self) -> u64 {
        self.group.id()
    }

    /// True if the node belongs to no group yet: it has no log and has never voted.
    pub async fn is_empty(&self) -> bool {
        // An error means that the node has stopped.
        !self.group.raft.is_initialized().await.unwrap_or(true)
    }

    /// The id of the cluster. A node without data takes over that of the group that takes it in.
    pub fn cluster(&self) -> u64 {
        self.group.peers.identity().cluster
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
        let adopted = self.group.adopted.lock().await;
        if let Some(cluster) = *adopted
            && self.is_empty().await
        {
            return Err(MemberError::Adopted { cluster });
        }
        match self.group.raft.initialize(members).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(MemberError::NotEmpty),
            Err(RaftError::APIError(InitializeError::NotInMembers(_))) => Err(MemberError::NotListed { id }),
            Err(RaftError::Fatal(_)) => Err(MemberError::Stopped),
        }
    }

    /// Takes a node in as a learner: it gets all entries, but has no vote.
    pub async fn add_learner(&self, id: u64, record: NodeRecord) -> Result<(), MemberError> {
        let (turn, metrics) = self.group.begin_change()?;
        if let Some(known) = metrics.membership_config.get_node(&id) {
            return Err(MemberError::IsMember { id, name: known.name.clone() });
        }
        let count = metrics.membership_config.nodes().count();
        if count >= MEMBERS_MAX {
            return Err(MemberError::Full { count });
        }
        check_record(metrics.membership_config.nodes(), id, &record)?;
        let all = metrics.membership_config.nodes().chain([(&id, &record)]);
        if let Some((id, record)) = { all }.find(|(_, record)| record.peer_address.is_empty()) {
            return Err(MemberError::NoAddress { id: *id, name: record.name.clone() });
        }
        self.group.change(turn, ChangeMembers::AddNodes(BTreeMap::from([(id, record)])), true).await
    }

    /// Makes a learner a voter. It must answer now, and have what the log has now: the group waits for it from then on, and
    /// could not even remove it if that made no majority.
    pub async fn promote(&self, id: u64) -> Result<(), MemberError> {
        let (turn, metrics) = self.group.begin_change()?;
        known(&metrics, id)?;
        if is_voter(&metrics, id) {
            return Err(MemberError::IsVoter { name: name(&metrics, id) });
        }
        self.catch_up(&metrics, id).await?;
        self.group.change(turn, ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await
    }

    /// Returns when the node has answered a question that was sent after this call began, and has all that was in the log
    /// then.
    async fn catch_up(&self, asked: &Metrics, id: u64) -> Result<(), MemberError> {
        let behind = |metrics: &Metrics| Some(next(asked.last_log_index).saturating_sub(matched(metrics, id)?));
        self.group.becomes_healthy(id, CATCH_UP_MAX, behind, 0).await
    }

    /// Takes a node out of the group. If it is the leader, another node takes over.
    pub async fn remove(&self, id: u64) -> Result<(), MemberError> {
        let (turn, metrics) = self.group.begin_change()?;
        known(&metrics, id)?;
        if metrics.membership_config.voter_ids().eq([id]) {
            return Err(MemberError::LastVoter { name: name(&metrics, id) });
        }
        if is_voter(&metrics, id) {
            self.check_majority_without(&metrics, id).await?;
        }
        match is_voter(&metrics, id) {
            true => self.group.change(turn, ChangeMembers::RemoveVoters(BTreeSet::from([id])), false).await,
            false => self.group.change(turn, ChangeMembers::RemoveNodes(BTreeSet::from([id])), false).await,
        }
    }

    /// Refuses a removal if no majority of the voters, with the node or without it, would make it: then it could never be
    /// finished, and nothing else could be decided. The voters are asked now, because an earlier answer says nothing about a
    /// voter that has just died.
    async fn check_majority_without(&self, metrics: &Metrics, id: u64) -> Result<(), MemberError> {
        let patience = self.group.timing.election_max * 2;
        let old: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
        let new: BTreeSet<u64> = old.iter().copied().filter(|voter| *voter != id).collect();
        let halves = [old.clone(), new];
        let asked = old.into_iter().map(|voter| async move {
            let is_me = voter == self.id();
            (voter, if is_me { Ok(()) } else { self.group.check_health(voter, patience).await })
        });
        let mut answers: FuturesUnordered<_> = asked.collect();
        let (mut healthy, mut refusals) = (BTreeSet::new(), BTreeMap::new());
        while let Some((voter, health)) = answers.next().await {
            match health {
                Ok(()) => drop(healthy.insert(voter)),
                Err(why) => drop(refusals.insert(voter, why.to_string())),
            }
            // Nobody waits for a dead voter, which is most often the one to remove.
            if is_majority(&halves, &healthy) {
                return Ok(());
            }
        }
        refusals.remove(&id);
        if refusals.is_empty() {
            return Err(MemberError::NeedsIt { name: name(metrics, id) });
        }
        let why = Vec::from_iter(refusals.into_values());
        Err(MemberError::NoMajority { name: name(metrics, id), why: why.join("; ") })
    }

    /// Changes the name and the addresses of a member. An empty field stays as it is. The member must answer at a new
    /// peer address: the group would call it there, and nowhere else.
    pub async fn update(&self, id: u64, record: NodeRecord) -> Result<(), MemberError> {
        let metrics = self.group.leading()?;
        let known = known(&metrics, id)?;
        let wanted = record.or(known);
        check_record(metrics.membership_config.nodes(), id, &wanted)?;
        if wanted.peer_address != known.peer_address {
            let why = match self.introduce(&wanted.peer_address).await {
                Ok(theirs) if theirs.node == id => None,
                Ok(theirs) => Some(format!("{} answers there", self.group.peers.label(theirs.node))),
                Err(error) => Some(why_silent(&error)),
            };
            if let Some(why) = why {
                let (name, address) = (known.name.clone(), wanted.peer_address);
                return Err(MemberError::NotThere { name, address, why });
            }
        }
        self.group.update(id, record).await
    }

    /// The member with this name, or else with this id.
    pub fn find(&self, name: &str) -> Result<u64, MemberError> {
        let metrics = self.group.metrics();
        let members = || metrics.membership_config.nodes();
        let named = members().find(|(_, record)| record.name == name);
        let found = named.or_else(|| members().find(|(id, _)| name.parse() == Ok(**id)));
        found.map(|(id, _)| *id).ok_or_else(|| {
            let mut members: Vec<&str> = members().map(|(_, record)| record.name.as_str()).collect();
            members.sort_unstable();
            MemberError::NoSuchName { name: name.to_owned(), members: members.join(", ") }
        })
    }

    /// The node that leads, as far as [`Node::leadership`] tells. It may be this node.
    pub fn leader_record(&self) -> Option<(u64, NodeRecord)> {
        let leadership = *self.leadership().borrow();
        let leader = match leadership {
            Leadership::Leads { .. } => self.id(),
            Leadership::DoesNotLead { leader } => leader?,
        };
        let metrics = self.group.raft.server_metrics();
        let record = metrics.borrow_watched().membership_config.get_node(&leader).cloned();
        record.map(|record| (leader, record))
    }

    /// How old the state of this node may be: it has everything that was acknowledged to a client before that time.
    /// None if this node cannot know.
    pub fn age_ms(&self) -> Option<u64> {
        let (applied, metrics) = (self.applied()?, self.group.metrics());
        match confirmed(&metrics, &self.group.rounds) {
            // A leader answers its clients after it has applied their entries.
            Some(confirmed) if applied.leader_id.term == metrics.current_term => Some(confirmed.ms_ago),
            Some(_) => None,
            None => self.group.peers.with_freshness(|freshness| freshness.age(applied.index, boot_ms())),
        }
    }

    /// How long ago this node heard anything of another member.
    pub fn last_heard_ms_ago(&self, id: u64) -> Option<u64> {
        self.group.peers.last_heard(id).map(in_ms)
    }

    /// Hands the leadership over to another voter, and returns when it leads.
    pub async fn transfer(&self, to: u64) -> Result<(), MemberError> {
        if is_voter(&self.group.leading()?, to) && to != self.id() {
            self.group.check_room(to).await?;
            self.group.check_pace(to).await?;
        }
        self.group.transfer(to).await
    }

    /// Hands the leadership over, before this node stops.
    pub async fn hand_over(&self) -> Result<(), MemberError> {
        self.group.hand_over().await
    }

    /// The newest data format that all members read.
    pub fn format(&self) -> u8 {
        self.group.peers.common_format()
    }

    /// All members. Asks each of them how it is.
    pub async fn members(&self) -> Vec<Member> {
        let metrics = self.group.metrics();
        let membership = metrics.membership_config.clone();
        let remarks = self.remarks(&metrics);
        let members = membership.nodes().map(|(id, record)| {
            let metrics = &metrics;
            async move {
                let asked = futures::future::join(self.ask(*id, record), self.is_excluded_by(*id, record));
                let ((says, announced), excludes) = asked.await;
                Member {
                    id: *id,
                    record: record.clone(),
                    is_voter: is_voter(metrics, *id),
                    heard_ms_ago: self.last_heard_ms_ago(*id),
                    remark: String::new(),
                    says,
                    announced,
                    excludes,
                }
            }
        });
        let several = membership.nodes().count() > 1;
        let (mut members, mut remarks) = futures::future::join(join_all(members), remarks).await;
        for member in &mut members {
            let says = member.says.as_ref().ok().filter(|_| several);
            let slow = says.and_then(|says| slow_syncs(Duration::from_millis(says.sync_ms), self.group.timing));
            let little = says.and_then(|says| little_space(says.free_bytes?));
            let known = remarks.remove(&member.id).or(slow);
            member.remark = [known, little].into_iter().flatten().collect::<Vec<_>>().join("; it ");
        }
        members
    }

    /// Why members get no entries from the leader although they answer. Only the leader knows, so the others ask it.
    async fn remarks(&self, metrics: &Metrics) -> BTreeMap<u64, String> {
        let leader = metrics.current_leader.filter(|leader| *leader != self.id());
        let record = leader.and_then(|leader| Some((leader, metrics.membership_config.get_node(&leader)?)));
        let Some((leader, record)) = record else { return self.group.remarks() };
        match self.group.peers.get(leader, record).call(Request::Remarks, STATUS_MAX).await {
            Ok(Answer::Remarks(remarks)) => remarks.into_iter().collect(),
            // That the leader does not answer is told with the leader.
            _ => BTreeMap::new(),
        }
    }

    /// Whether a member says that this node is no member. Asks again if it has said so: it may know better by now. A node
    /// that knows no leader asks anyway: if it was removed, nobody tells it.
    async fn is_excluded_by(&self, id: u64, record: &NodeRecord) -> bool {
        let knows_leader = self.leader_record().is_some();
        if id == self.id() || (knows_leader && !self.group.peers.is_excluded_by(id)) {
            return false;
        }
        let asked = timeout(STATUS_MAX, self.introduce(&record.peer_address)).await;
        matches!(asked, Ok(Ok(theirs)) if theirs.node == id && theirs.excludes(self.id()))
    }

    async fn ask(&self, id: u64, record: &NodeRecord) -> (Result<NodeStatus, String>, Vec<Announcement>) {
        let peers = &self.group.peers;
        if id == self.id() {
            return (Ok(node_status(&self.group)), peers.announced());
        }
        let peer = peers.get(id, record);
        let asked = (peer.call(Request::Status, STATUS_MAX), peer.call(Request::Announced, STATUS_MAX));
        let (status, announced) = futures::future::join(asked.0, asked.1).await;
        let says = match status {
            Ok(Answer::Status(status)) => Ok(status),
            Ok(Answer::Failed(sentence)) => Err(sentence),
            Ok(_) => Err("it answers another question".to_owned()),
            Err(error) => Err(peer.last_error().unwrap_or(error).to_string()),
        };
        let announced = match announced {
            Ok(Answer::Announced(announced)) => announced,
            // The sentence is in `says`.
            _ => Vec::new(),
        };
        (says, announced)
    }

    /// Asks the node at an address who it is, and tells it who this node is.
    pub async fn introduce(&self, address: &str) -> Result<Hello, LinkError> {
        let peers = &self.group.peers;
        let ours = peers.hello(0, Purpose::Introduction, self.is_empty().await);
        peers.introduce(address, &ours).await
    }
}

pub(super) fn is_voter(metrics: &Metrics, id: u64) -> bool {
    metrics.membership_config.voter_ids().any(|voter| voter == id)
}
