//! How a node with an empty folder becomes a member of a cluster that is there: it announces itself until it is added.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_runtime::timeout;
use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use tracing::info;

use super::errors::MemberError;
use super::group::check_words;
use super::node::Node;
use super::peers::{Announcement, Hello, Intent, LinkError, Refusal, have_common_format};

/// The pause between two announcements. The others forget a node that is silent for five seconds.
const EVERY: Duration = Duration::from_secs(1);
/// The time that a member has to answer an announcement.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// A node announces itself at this many addresses at most.
const ADDRESSES_MAX: usize = 64;

impl Node {
    /// Announces this node at the peer address of a member, and to the other members, until it is added to the cluster.
    /// Returns when it is a member. Drop the future to give up.
    ///
    /// This node must be empty (see [`Node::is_empty`]), and have a name and a peer address.
    pub async fn join(&self, address: String) -> Result<(), MemberError> {
        let peers = &self.group.peers;
        let record = peers.record();
        check_words(&record)?;
        if record.peer_address.is_empty() {
            return Err(MemberError::NoAddress { id: self.id(), name: record.name });
        }
        if matches!(peers.intent(), Intent::Forms(_)) {
            let why = "this node begins a cluster (`--cluster`); start it again to join one".to_owned();
            return Err(MemberError::Refused(why));
        }
        let is_member = self.group.metrics().membership_config.get_node(&self.id()).is_some();
        if !is_member && !self.is_empty().await {
            return Err(MemberError::NotEmpty);
        }
        peers.set_intent(Intent::Joins);
        let joined = self.announce_until_member(address).await;
        peers.set_intent(Intent::None);
        peers.set_waits("");
        joined
    }

    /// For a node with data that was told to join. Returns when it knows a leader. Fails if it was removed from its
    /// cluster: with its data it cannot join again.
    pub async fn rejoin(&self) -> Result<(), MemberError> {
        let mut leadership = self.leadership();
        loop {
            if self.leader_record().is_some() {
                return Ok(());
            }
            if let Some(sentence) = self.removed().await {
                return Err(MemberError::Refused(sentence));
            }
            // A time-out means that it is time to ask again.
            if let Ok(Err(_)) = timeout(EVERY, leadership.changed()).await {
                return Err(MemberError::Stopped);
            }
        }
    }

    async fn announce_until_member(&self, given: String) -> Result<(), MemberError> {
        let (id, peers) = (self.id(), &self.group.peers);
        let mut metrics = self.group.raft.server_metrics();
        let mut addresses = BTreeSet::from([given.clone()]);
        loop {
            if metrics.borrow_watched().membership_config.get_node(&id).is_some() {
                return Ok(());
            }
            let greeted = join_all(addresses.iter().map(|address| async move {
                let greeting = timeout(ANSWER_MAX, self.introduce(address)).await;
                (address, greeting.unwrap_or(Err(LinkError::Silent(ANSWER_MAX))))
            }));
            let (mut learnt, mut sentences) = (BTreeSet::new(), Vec::new());
            for (address, greeting) in greeted.await {
                sentences.push(match greeting {
                    // The record of a member that was wiped has the address of this node.
                    Ok(theirs) if theirs.node == id && *address != given => continue,
                    Ok(theirs) => {
                        check_greeting((id, peers.start_number()), peers.formats(), address, &theirs)
                            .map_err(MemberError::Refused)?;
                        learnt.extend(theirs.members.iter().map(|(_, address)| address.clone()));
                        match theirs.is_empty {
                            true => format!("{address} belongs to no cluster yet"),
                            false => format!("{address} knows of it"),
                        }
                    }
                    Err(error) => format!("{address} does not answer ({})", why_silent(&error)),
                });
            }
            let sentence = format!("waits to be added to a cluster (`baton member add`): {}", sentences.join("; "));
            if peers.set_waits(&sentence) {
                info!("this node {sentence}");
            }
            learnt.retain(|address| !address.is_empty());
            addresses.extend(learnt);
            while addresses.len() > ADDRESSES_MAX {
                addresses.pop_last();
            }
            // A time-out means that it is time for the next announcement.
            if let Ok(Err(_)) = timeout(EVERY, metrics.changed()).await {
                return Err(MemberError::Stopped);
            }
        }
    }

    /// Takes the node that waits under this name into the group, as a learner. Returns its id. Only the leader can.
    pub async fn add(&self, name: &str) -> Result<u64, MemberError> {
        let metrics = self.group.leading()?;
        // A node that was just added is announced until all have heard of it.
        let is_member = |waits: &Announcement| metrics.membership_config.get_node(&waits.node).is_some();
        let mut waiting = self.waiting().await;
        waiting.retain(|waits| !is_member(waits));
        let mut members = metrics.membership_config.nodes();
        if let Some((id, record)) = members.find(|(_, record)| record.name == name)
            && waiting.iter().all(|waits| waits.record.name != name)
        {
            return Err(MemberError::IsMember { id: *id, name: record.name.clone() });
        }
        if let Some(own) = metrics.membership_config.get_node(&metrics.id).filter(|own| own.peer_address.is_empty()) {
            return Err(MemberError::NoAddress { id: metrics.id, name: own.name.clone() });
        }
        let Announcement { node, record, formats } = pick(name, waiting)?;
        let format = self.format();
        if !(formats.0..=formats.1).contains(&format) {
            return Err(MemberError::OtherFormats { name: name.to_owned(), theirs: formats, format });
        }
        if record.peer_address.is_empty() {
            return Err(MemberError::NoAddress { id: node, name: record.name });
        }
        let address = record.peer_address.clone();
        let unreachable = |why: &dyn ToString| MemberError::Unreachable { name: name.to_owned(), why: why.to_string() };
        let theirs = self.introduce(&address).await.map_err(|error| unreachable(&error))?;
        let found = match &theirs {
            theirs if theirs.node != node => Some(format!("node {} with the name {}", theirs.node, theirs.record.name)),
            theirs if !theirs.is_empty => Some(format!("a member of cluster {:016x}", theirs.cluster)),
            theirs if !theirs.joins => Some("a node that does not wait to be added".to_owned()),
            _ => None,
        };
        match found {
            Some(found) => return Err(MemberError::Another { name: name.to_owned(), address, found }),
            None => self.add_learner(node, record).await?,
        }
        Ok(node)
    }

    /// The nodes that have announced themselves to any member.
    pub(super) async fn waiting(&self) -> Vec<Announcement> {
        distinct(self.members().await.into_iter().flat_map(|member| member.announced))
    }
}

/// Why a node does not answer at its peer address.
pub(super) fn why_silent(error: &LinkError) -> String {
    match error {
        LinkError::NotBaton(_) => {
            "another protocol is spoken there; name the peer address of a node, not its address for clients".to_owned()
        }
        error => error.to_string(),
    }
}

/// Each node once.
pub(super) fn distinct(announced: impl Iterator<Item = Announcement>) -> Vec<Announcement> {
    let mut waiting: Vec<Announcement> = announced.collect();
    waiting.sort_by(|a, b| (&a.record.name, a.node).cmp(&(&b.record.name, b.node)));
    waiting.dedup_by_key(|announcement| announcement.node);
    waiting
}

/// The node that waits under this name.
fn pick(name: &str, waiting: Vec<Announcement>) -> Result<Announcement, MemberError> {
    let (mut named, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|waits| waits.record.name == name);
    let name = name.to_owned();
    match named.len() {
        0 => {
            let others: Vec<String> = others.into_iter().map(|waits| waits.record.name).collect();
            Err(MemberError::NobodyWaits { name, waiting: others.join(", ") })
        }
        1 => Ok(named.remove(0)),
        count => {
            let addresses: Vec<String> = named.into_iter().map(|waits| waits.record.peer_address).collect();
            Err(MemberError::SeveralWait { name, count, addresses: addresses.join(", ") })
        }
    }
}

/// Refuses a cluster that this node can never be part of.
fn check_greeting((id, start): (u64, u64), formats: (u8, u8), address: &str, theirs: &Hello) -> Result<(), String> {
    if theirs.node == id && theirs.start != start {
        return Err(format!(
            "another process with the id of this node ({id}) answers at {address}, so the data folder of this node is a copy; empty \
             it and start the node again"
        ));
    }
    if theirs.node == id {
        return Err(format!("{address} is the address of this node itself; name the peer address of a member"));
    }
    match have_common_format(formats, theirs.formats) {
        true => Ok(()),
        false => Err(format!("{address}: {}", Refusal::Formats { ours: formats, theirs: theirs.formats })),
    }
}
