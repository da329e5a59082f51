//! A node of Raft as a replica, for the host.

use std::sync::Arc;

use baton_types::cluster_id::ClusterId;
use baton_types::frames::Leader;
use baton_types::views::Cluster;
use tokio::sync::watch;

use super::errors::MemberError;
use super::node::Node;
use crate::format::record::NodeRecord;
use crate::replica::{ChangeError, Leadership, MemberChange, Replica, Signal, Status};
use crate::state::feed::Feed;
use crate::state::{Entry, State};

impl Node {
    /// Whether this node can lead without any other node.
    pub async fn is_only_voter(&self) -> bool {
        let id = self.id();
        // Not from the metrics: right after a start they may not show the membership yet.
        let voters = self.raft.with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([id]));
        // An error means that the node has stopped.
        voters.await.unwrap_or(false)
    }

    /// Like [`Node::find`]. A node that waits to be added is told from one that nobody knows.
    async fn find_added(&self, name: &str) -> Result<u64, MemberError> {
        let found = self.find(name);
        match found.is_err() && self.waiting().await.iter().any(|waits| waits.record.name == name) {
            true => Err(MemberError::NotAdded { name: name.to_owned() }),
            false => found,
        }
    }

    /// Removes the member with this name or id. If there is none, it is as the caller wants it: the caller may repeat a
    /// removal whose answer was lost, and a leader does not always know who was a member.
    async fn remove_named(&self, member: &str) -> Result<(), MemberError> {
        let removed = match self.find(member) {
            Ok(id) => self.remove(id).await,
            Err(error) => Err(error),
        };
        if !matches!(removed, Err(MemberError::NoSuchName { .. } | MemberError::NoSuchMember { .. })) {
            return removed;
        }
        let (_turn, metrics) = self.group.begin_change()?;
        // The entry that removed the member may still be lost.
        if *metrics.membership_config.log_id() > metrics.local_committed {
            return Err(MemberError::InProgress);
        }
        match self.find(member) {
            Err(MemberError::NoSuchName { name, members }) => Err(MemberError::IsNoMember { name, members }),
            // It was added in between.
            _ => Err(MemberError::InProgress),
        }
    }

    async fn make(&self, change: MemberChange) -> Result<(), MemberError> {
        match change {
            MemberChange::Add { name } => self.add(&name).await.map(drop),
            MemberChange::Promote { member } => self.promote(self.find_added(&member).await?).await,
            MemberChange::Remove { member } => self.remove_named(&member).await,
            MemberChange::Update { member, name, peer_address, client_address } => {
                // An empty field of the record stays as it is.
                let name = name.unwrap_or_default();
                let (peer_address, client_address) =
                    (peer_address.unwrap_or_default(), client_address.unwrap_or_default());
                let record = NodeRecord { name, peer_address, client_address };
                self.update(self.find(&member)?, record).await
            }
            MemberChange::Transfer { member } => self.transfer(self.find(&member)?).await,
        }
    }
}

impl Replica for Node {
    fn submit(&self, term: u64, entry: Entry) {
        self.submit(term, entry);
    }

    async fn read_index(&self) -> bool {
        self.read_index().await.is_ok()
    }

    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_state(look)
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership()
    }

    fn status(&self) -> Status {
        self.status()
    }

    fn for_backup(&self) -> Option<(State, u64, u64)> {
        let (state, applied) = self.state_at()?;
        Some((state, applied.leader_id.term, applied.index))
    }

    fn feed(&self) -> Option<(Feed, u64)> {
        Some(self.feed_at())
    }

    fn changed(&self) -> Option<Arc<Signal>> {
        Some(self.changed())
    }

    fn cluster_id(&self) -> ClusterId {
        // The store refuses the id 0.
        ClusterId::new(self.cluster()).unwrap_or(ClusterId::MIN)
    }

    fn name(&self) -> String {
        self.group.own_name()
    }

    fn name_among_others(&self) -> String {
        let has_others = self.group.metrics().membership_config.nodes().any(|(id, _)| *id != self.id());
        if has_others { self.name() } else { String::new() }
    }

    fn leader(&self) -> Option<Leader> {
        let (node, record) = self.leader_record().filter(|(node, _)| *node != self.id())?;
        let cluster = Some(self.cluster_id());
        Some(Leader { node, name: record.name, address: record.client_address, cluster })
    }

    fn address_remark(&self, node: u64) -> Option<String> {
        self.address_remark(node)
    }

    fn client_address(&self) -> Option<String> {
        self.client_address()
    }

    fn age_ms(&self) -> Option<u64> {
        self.age_ms()
    }

    async fn cluster(&self) -> Option<Cluster> {
        Some(self.cluster_view().await)
    }

    async fn change_members(&self, change: MemberChange) -> Result<Option<String>, ChangeError> {
        let term = self.status().term;
        match self.make(change).await {
            Ok(()) => Ok(None),
            Err(error) if error.is_so_already() => {
                // Another leader may have changed the members, unless a majority confirms this one in the same term.
                let is_confirmed = self.read_index().await.is_ok() && self.status().term == term;
                is_confirmed.then(|| Some(error.to_string())).ok_or_else(|| refused(MemberError::NotConfirmed))
            }
            Err(error) => Err(refused(error)),
        }
    }

    async fn hand_over(&self) {
        match self.hand_over().await {
            Ok(()) | Err(MemberError::NotLeader { .. } | MemberError::Stopped) => {}
            Err(MemberError::Alone) if self.is_only_voter().await => {}
            Err(error) => tracing::warn!("no other node takes over: {error}"),
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        // If the disk does not tell its free space, the server writes until a write fails.
        self.free_bytes().ok()
    }

    fn failure(&self) -> Option<String> {
        self.missing()
    }

    async fn shutdown(&self) {
        self.shutdown().await;
    }
}

fn refused(error: MemberError) -> ChangeError {
    let why = error.to_string();
    match error {
        MemberError::NoSuchMember { .. } | MemberError::NoSuchName { .. } | MemberError::NobodyWaits { .. } => {
            ChangeError::NotFound(why)
        }
        MemberError::NotLeader { .. } | MemberError::NotConfirmed | MemberError::Stopped => {
            ChangeError::Unavailable(why)
        }
        MemberError::Unknown | MemberError::NotYet { .. } | MemberError::NoTransfer { .. } => ChangeError::Unknown(why),
        _ => ChangeError::Refused(why),
    }
}
