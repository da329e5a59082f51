//! How nodes with empty folders become a cluster.
//!
//! Each node was started with the same list of names and peer addresses. It asks the others who they are, again and again.
//! When all have said that they are empty and have the same list, the node with the smallest name begins the cluster with
//! their ids. The others wait until it calls them.
//!
//! A node never begins a cluster from what it heard in different rounds: a node that was wiped between them would be known
//! by its old id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_runtime::sleep;
use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use tracing::info;

use super::errors::MemberError;
use super::group::check_words;
use super::joining::why_silent;
use super::node::Node;
use super::peers::{Hello, Intent, have_common_format};
use crate::format::record::NodeRecord;

/// Between two rounds.
const EVERY: Duration = Duration::from_millis(200);

/// A Hello must have room for the list.
const NODES_MAX: usize = 16;

/// Names and peer addresses of the nodes that begin a cluster.
type List = [(String, String)];

/// This node, before it is part of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub id: u64,
    pub start: u64,
    pub record: NodeRecord,
    pub formats: (u8, u8),
}

/// What a node does after a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The sentence says for what it waits.
    Wait(String),
    /// It begins the cluster, with these voters.
    Initialize(BTreeMap<u64, NodeRecord>),
    /// It is a member of a cluster that others have begun.
    GoOn,
    /// The sentence says why, and what to do.
    Refused(String),
}

/// Returns a sentence if the list cannot be right for the node with this name.
pub(crate) fn check_list(name: &str, list: &List) -> Result<(), String> {
    if list.len() > NODES_MAX {
        return Err(format!(
            "the list of the cluster has {} nodes; begin with at most {NODES_MAX}, and add the others later",
            list.len()
        ));
    }
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (name, address) in list {
        let record = NodeRecord { name: name.clone(), peer_address: address.clone(), ..NodeRecord::default() };
        check_words(&record).map_err(|error| format!("in the list of the cluster, {error}"))?;
        if address.is_empty() {
            return Err(format!("in the list of the cluster, {name} has no address; write {name}=HOST:PORT"));
        }
        if !names.insert(name) {
            return Err(format!("the name {name} is in the list of the cluster twice; each node needs its own name"));
        }
        if !addresses.insert(address) {
            return Err(format!("the address {address} is in the list of the cluster twice; each node needs its own"));
        }
    }
    let all: Vec<&str> = names.into_iter().map(String::as_str).collect();
    match all.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "this node has the name {name:?}, which is not in the list of the cluster ({}); give it one of these names, \
             or add it to the list of every node",
            all.join(", ")
        )),
    }
}

/// Decides what to do. `heard` has the answer of every node of the list, by its name in the list. This node is among them:
/// if another node answers at its address, both have one name, and could begin two clusters.
pub(super) fn decide(own: &Own, list: &List, heard: &BTreeMap<String, Result<Hello, String>>) -> Step {
    let addresses: BTreeMap<&str, &str> = list.iter().map(|(name, at)| (name.as_str(), at.as_str())).collect();
    let own_name = own.record.name.as_str();
    let others = || heard.iter().filter(|(name, _)| *name != own_name);
    let answers = || others().filter_map(|(name, hello)| hello.as_ref().ok().map(|hello| (name.as_str(), hello)));
    let all = heard.iter().filter_map(|(name, hello)| hello.as_ref().ok().map(|hello| (name.as_str(), hello)));
    if let Some((name, _)) = { all }.find(|(_, hello)| hello.node == own.id && hello.start != own.start) {
        return Step::Refused(format!(
            "another process at {}, the address of {name} in the list of the cluster, has the id of this node ({}), so one of \
             the two data folders is a copy of the other; empty one of them and start its node again",
            addresses[name], own.id
        ));
    }
    if answers().any(|(_, hello)| !hello.is_empty && hello.members.iter().any(|(id, _)| *id == own.id)) {
        return Step::GoOn;
    }
    let refused = answers().find_map(|(name, hello)| refuse(own, list, (name, addresses[name]), hello));
    if let Some(refusal) = refused {
        return Step::Refused(refusal);
    }
    let answer = heard.get(own_name).and_then(|hello| hello.as_ref().ok());
    if let Some(another) = answer.filter(|hello| hello.node != own.id) {
        return Step::Refused(format!(
            "another node (id {}, name {:?}) answers at {}, the address of {own_name} in the list of the cluster; is this node \
             started twice, or on the wrong machine?",
            another.node, another.record.name, addresses[own_name]
        ));
    }
    let mut by_id = BTreeMap::new();
    for (name, hello) in answers() {
        if let Some(other) = by_id.insert(hello.node, name) {
            return Step::Refused(format!(
                "the addresses of {other} and {name} in the list of the cluster lead to the same node; correct the list"
            ));
        }
    }

    let waits_for = others().filter_map(|(name, hello)| match hello {
        Err(why) => Some(format!("{name} ({why})")),
        // The node has just started.
        Ok(hello) if hello.is_empty && hello.list.is_empty() => Some(format!("{name} (it has not said its list yet)")),
        Ok(hello) if !hello.is_empty => Some(format!("{name} (it does not know its members yet)")),
        Ok(_) => None,
    });
    let waits_for: Vec<String> = waits_for.collect();
    if !waits_for.is_empty() {
        return Step::Wait(format!("waits for {}", waits_for.join(", ")));
    }
    match addresses.keys().next() {
        Some(first) if *first != own.record.name => Step::Wait(format!("waits until {first} begins the cluster")),
        _ if answer.is_none() => Step::Wait(format!("waits until it reaches itself at {}", addresses[own_name])),
        _ => {
            let record = |name: &str, record: &NodeRecord| NodeRecord {
                name: name.to_owned(),
                peer_address: addresses[name].to_owned(),
                client_address: record.client_address.clone(),
            };
            let others = answers().map(|(name, hello)| (hello.node, record(name, &hello.record)));
            Step::Initialize(others.chain([(own.id, record(&own.record.name, &own.record))]).collect())
        }
    }
}

/// A sentence if this node cannot be in one cluster with the node that has answered.
fn refuse(own: &Own, list: &List, (name, address): (&str, &str), hello: &Hello) -> Option<String> {
    if hello.node == own.id {
        return Some(format!(
            "the address of {name} in the list of the cluster ({address}) leads to this node itself; correct the list"
        ));
    }
    if !hello.is_empty {
        // Otherwise it will know its members soon.
        return (!hello.members.is_empty()).then(|| format!(
            "{name} at {address} belongs to a cluster already ({:016x}), of which this node, with its empty folder, is no \
             member; to add this node, remove the member {me} if there is one (`baton member remove {me}`), start this \
             node with `--join {address}` instead of `--cluster`, and run `baton member add {me}` and `baton member \
             promote {me}`; to begin a new cluster, empty the folders of all its nodes",
            hello.cluster, me = own.record.name
        ));
    }
    if hello.record.name != name {
        return Some(format!(
            "the node at {address} has the name {:?}, but the list of the cluster calls it {name}; correct the list or \
             the name",
            hello.record.name
        ));
    }
    if hello.joins {
        return Some(format!(
            "{name} at {address} waits to be added to another cluster (`--join`); start it with the same `--cluster` as \
             this node"
        ));
    }
    if !have_common_format(own.formats, hello.formats) {
        return Some(format!(
            "{name} at {address} reads data formats {} to {}, and this node {} to {}; start all nodes with the same \
             version",
            hello.formats.0, hello.formats.1, own.formats.0, own.formats.1
        ));
    }
    match hello.list.is_empty() {
        true => None,
        false => difference(list, &hello.list).map(|difference| {
            format!(
                "{name} at {address} has another list of the cluster: {difference}; start all nodes with the same list"
            )
        }),
    }
}

/// What is in only one of the two lists. The order does not matter.
fn difference(ours: &List, theirs: &List) -> Option<String> {
    let only = |a: &List, b: &List| -> Vec<String> {
        a.iter().filter(|node| !b.contains(node)).map(|(name, address)| format!("{name}={address}")).collect()
    };
    let (ours_only, theirs_only) = (only(ours, theirs), only(theirs, ours));
    let says =
        |only: &[String], whose: &str| (!only.is_empty()).then(|| format!("only {whose} has {}", only.join(",")));
    let says: Vec<String> = says(&ours_only, "ours").into_iter().chain(says(&theirs_only, "theirs")).collect();
    (!says.is_empty()).then(|| says.join(", "))
}

impl Node {
    /// Begins a cluster together with the other nodes of a list: names and peer addresses, with this node among them.
    /// Returns when this node is a member. Waits for the others as long as it takes; drop the future to give up.
    ///
    /// This node must be empty (see [`Node::is_empty`]) and have a name.
    pub async fn form(&self, list: Vec<(String, String)>) -> Result<(), MemberError> {
        let peers = &self.group.peers;
        let mut record = peers.record();
        check_list(&record.name, &list).map_err(MemberError::Refused)?;
        if peers.intent() == Intent::Joins {
            let why = "this node waits to be added to a cluster (`--join`); start it again to begin one".to_owned();
            return Err(MemberError::Refused(why));
        }
        if record.peer_address.is_empty() {
            let own = list.iter().find(|(name, _)| *name == record.name);
            record.peer_address = own.map(|(_, address)| address.clone()).unwrap_or_default();
            peers.set_record(record.clone());
        }
        let own = Own { id: self.id(), start: peers.start_number(), record, formats: peers.formats() };
        peers.set_intent(Intent::Forms(list.clone()));
        let formed = self.form_in_rounds(&own, &list).await;
        peers.set_waits("");
        formed?;
        // A node that is refused goes on to say its list, so that the others are refused too.
        peers.set_intent(Intent::None);
        Ok(())
    }

    async fn form_in_rounds(&self, own: &Own, list: &List) -> Result<(), MemberError> {
        let mut metrics = self.group.raft.server_metrics();
        while self.is_empty().await {
            let heard = join_all(list.iter().map(|(name, address)| async move {
                (name.clone(), self.introduce(address).await.map_err(|error| why_silent(&error)))
            }));
            let heard = heard.await.into_iter().collect();
            // The others may have begun the cluster with this node while it asked. Then the list is no longer what counts:
            // one of them may wait to be added again already, with an empty folder.
            if !self.is_empty().await {
                return Ok(());
            }
            let sentence = match decide(own, list, &heard) {
                Step::Wait(sentence) => sentence,
                Step::Initialize(members) => match self.initialize(members).await {
                    // Another node has called this one meanwhile.
                    Err(MemberError::NotEmpty) => continue,
                    Err(adopted @ MemberError::Adopted { .. }) => format!("does not begin it: {adopted}"),
                    begun => return begun,
                },
                Step::GoOn => return Ok(()),
                Step::Refused(sentence) => return Err(MemberError::Refused(sentence)),
            };
            if self.group.peers.set_waits(&sentence) {
                info!("the cluster has not begun yet: this node {sentence}");
            }
            tokio::select! {
                biased;
                changed = metrics.changed() => changed.map_err(|_| MemberError::Stopped)?,
                () = sleep(EVERY) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
