//! The record of this node in the membership, and memberships that an earlier leader left half changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use baton_runtime::sleep;
use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::{ChangeMembers, ServerState};
use tracing::{info, warn};

use super::group::{Group, is_joint};
use super::joining::why_silent;
use super::node::Node;
use super::peers::{Answer, Peer, Purpose, Request};
use super::types::TypeConfig;
use crate::format::record::NodeRecord;

/// Before the next attempt to change the record.
const PAUSE: Duration = Duration::from_millis(200);
/// Before a member whose record looks right tells it again, if the leader did not hear it.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The time that the leader has to answer.
const ANSWER_MAX: Duration = Duration::from_millis(900);

/// openraft sends these metrics first, so a task that waits for them must not look at the others.
type Metrics = RaftServerMetrics<TypeConfig>;

impl NodeRecord {
    /// This record, with empty fields as in `other`.
    pub(super) fn or(&self, other: &NodeRecord) -> NodeRecord {
        let or = |ours: &String, theirs: &String| if ours.is_empty() { theirs } else { ours }.clone();
        NodeRecord {
            name: or(&self.name, &other.name),
            peer_address: or(&self.peer_address, &other.peer_address),
            client_address: or(&self.client_address, &other.client_address),
        }
    }
}

/// Says where others reach a node. A node that is alone may have no address for other nodes.
fn reached(record: &NodeRecord) -> String {
    let at = |who: &str, address: &str| (!address.is_empty()).then(|| format!("{who} reach it at {address}"));
    let ways = [at("other nodes", &record.peer_address), at("clients", &record.client_address)];
    let ways = ways.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if ways.is_empty() { "it has no address".to_owned() } else { ways }
}

/// The record of this node, as it was started. If neither the record nor the membership has an address for other nodes,
/// the record gets the one that the node listens on. The node was alone until now. Returns a sentence if no other node
/// could connect to that address.
pub(super) fn with_address(
    record: NodeRecord,
    known: Option<&NodeRecord>,
    listens_on: Option<SocketAddr>,
) -> Result<NodeRecord, String> {
    let has_address = !record.peer_address.is_empty() || known.is_none_or(|known| !known.peer_address.is_empty());
    match listens_on {
        Some(address) if !has_address && address.ip().is_unspecified() => Err(format!(
            "the node was alone until now, and other nodes cannot connect to {address}; name an address at which they reach \
             this node with `--peer-advertise`"
        )),
        Some(address) if !has_address => Ok(NodeRecord { peer_address: address.to_string(), ..record }),
        _ => Ok(record),
    }
}

/// The record that this node should have, if the membership says otherwise. None if the node is no member.
fn differs(metrics: &Metrics, wanted: &NodeRecord) -> Option<NodeRecord> {
    let known = metrics.membership_config.get_node(&metrics.id)?;
    Some(wanted.or(known)).filter(|wanted| wanted != known)
}

/// Has the record of this node changed until it is as the node was started. Later changes of it are made by people, so
/// the node lets them be.
///
/// A member that starts tells the leader its record once, even if it has the same one: its own copy may be old, and the
/// leader may look for it elsewhere.
pub(super) async fn keep_record(group: Group) {
    let mut metrics = group.raft.server_metrics();
    let (mut was_changed, mut refusals) = (false, Refusals::default());
    let is_member = |seen: &Metrics| seen.membership_config.get_node(&seen.id).is_some();
    let mut is_told = !is_member(&metrics.borrow_watched());
    loop {
        let seen = metrics.borrow_watched().clone();
        let wanted = differs(&seen, &group.peers.record());
        if wanted.is_none() && is_told {
            if is_member(&seen) || metrics.changed().await.is_err() {
                return;
            }
            continue;
        }
        let outcome = change_own(&group, &seen, reachable(&group, &seen).await).await;
        is_told |= outcome.is_ok();
        let Some(wanted) = wanted else {
            sleep(TELL_EVERY).await;
            continue;
        };
        match &outcome {
            Ok(()) if !was_changed => {
                info!(name = wanted.name, "the record of this node is changed: {}", reached(&wanted))
            }
            Err(refusal) if refusals.is_second(refusal) => {
                warn!("the record of this node in the cluster cannot be changed yet: {refusal}");
            }
            _ => {}
        }
        was_changed = outcome.is_ok();
        sleep(PAUSE).await;
    }
}

/// The record of this node, as it was started. If it was started without a peer address, it has the one in its own copy,
/// if it reaches itself there: otherwise the leader may know better.
async fn reachable(group: &Group, seen: &Metrics) -> NodeRecord {
    let (mut record, peers) = (group.peers.record(), &group.peers);
    if let Some(known) = seen.membership_config.get_node(&seen.id).filter(|_| record.peer_address.is_empty()) {
        let ours = peers.hello(0, Purpose::Introduction, false);
        let answer = peers.introduce(&known.peer_address, &ours).await;
        if answer.is_ok_and(|theirs| (theirs.node, theirs.start) == (seen.id, ours.start)) {
            record.peer_address.clone_from(&known.peer_address);
        }
    }
    record
}

/// How often each refusal came. A node that has just started knows no leader yet, so a refusal is told when it comes
/// again, even if another one came between.
#[derive(Default)]
struct Refusals(BTreeMap<String, u64>);

impl Refusals {
    fn is_second(&mut self, refusal: &str) -> bool {
        let count = self.0.entry(refusal.to_owned()).or_default();
        *count += 1;
        *count == 2
    }
}

impl Node {
    /// Warns if this node does not reach itself at the peer address that its record has or gets: then other nodes do not reach it either.
    pub async fn check_own_address(&self) {
        if let Some(sentence) = self.does_not_reach_itself().await {
            warn!("{sentence}");
        }
    }

    pub(super) async fn does_not_reach_itself(&self) -> Option<String> {
        let known = self.group.metrics().membership_config.get_node(&self.id()).cloned()?;
        // The membership may still have the address from before this start.
        let NodeRecord { peer_address, .. } = self.group.peers.record().or(&known);
        if peer_address.is_empty() {
            return None;
        }
        let why = match self.introduce(&peer_address).await {
            Ok(theirs) if theirs.node == self.id() => return None,
            Ok(theirs) => format!("{} answers there", self.group.peers.label(theirs.node)),
            Err(why) => why_silent(&why),
        };
        Some(format!(
            "other nodes look for this node at {peer_address}, where it does not reach itself ({why}); if it has moved, start it \
             with `--peer-advertise ADDRESS`"
        ))
    }
}

async fn change_own(group: &Group, seen: &Metrics, record: NodeRecord) -> Result<(), String> {
    let mut refused = "no member knows a leader".to_owned();
    for leader in leaders(group, seen).await {
        let changed = match seen.membership_config.get_node(&leader) {
            _ if leader == seen.id => {
                group.update(seen.id, record.clone()).await.map_err(|refused| refused.to_string())
            }
            Some(known) => ask_leader(&group.peers.get(leader, known), record.clone()).await,
            None => Err(format!("the leader (id {leader}) is no member that this node knows")),
        };
        match changed {
            Ok(()) => return Ok(()),
            Err(why) => refused = why,
        }
    }
    Err(refused)
}

/// The nodes that lead, as this node and the others say. The leader may not reach this node at its old address, so this
/// node may not know it.
async fn leaders(group: &Group, seen: &Metrics) -> BTreeSet<u64> {
    let others = seen.membership_config.nodes().filter(|(id, _)| **id != seen.id);
    let asked = join_all(others.map(|(id, known)| group.peers.get(*id, known).call(Request::Status, ANSWER_MAX)));
    let said = asked.await.into_iter().filter_map(|answer| match answer {
        Ok(Answer::Status(status)) => status.leader,
        _ => None,
    });
    said.chain(seen.current_leader).collect()
}

async fn ask_leader(leader: &Peer, record: NodeRecord) -> Result<(), String> {
    match leader.call(Request::Update { record }, ANSWER_MAX).await {
        Ok(Answer::Updated(updated)) => updated,
        Ok(Answer::Failed(sentence)) => Err(sentence),
        Ok(_) => Err("the leader answers another question".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes the second step of a change of the voters if its leader was replaced after the first.
pub(super) async fn finish_changes(group: Group) {
    let mut metrics = group.raft.server_metrics();
    loop {
        let is_half_done = is_half_done(&metrics.borrow_watched());
        if is_half_done {
            // If the turn is taken, the change is on its way.
            if let Ok(turn) = group.changing.clone().try_lock_owned() {
                // A removed voter leaves the group: nothing else takes voters out.
                let nothing = ChangeMembers::AddVoterIds(BTreeSet::new());
                match group.change(turn, nothing, false).await {
                    Ok(()) => info!("a change of the members that an earlier leader began is finished"),
                    Err(why) => info!("a change of the members that an earlier leader began goes on: {why}"),
                }
            }
            sleep(PAUSE).await;
        } else if metrics.changed().await.is_err() {
            return;
        }
    }
}

fn is_half_done(metrics: &Metrics) -> bool {
    metrics.state == ServerState::Leader && is_joint(&metrics.membership_config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_a_node_does_not_have_is_not_told() {
        let told = |peer: &str, client: &str| {
            reached(&NodeRecord { name: "a".into(), peer_address: peer.into(), client_address: client.into() })
        };
        assert_eq!(told("h:1", "h:2"), "other nodes reach it at h:1, clients reach it at h:2");
        assert_eq!(told("", "h:2"), "clients reach it at h:2");
        assert_eq!(told("h:1", ""), "other nodes reach it at h:1");
        assert_eq!(told("", ""), "it has no address");
    }

    #[test]
    fn a_refusal_is_told_once_even_if_refusals_alternate() {
        let mut refusals = Refusals::default();
        let told = ["a", "b", "a", "b", "a"].map(|refusal| refusals.is_second(refusal));
        assert_eq!(told, [false, false, true, true, false]);
    }
}
