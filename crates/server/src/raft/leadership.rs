//! Tells the host whether this node leads.
//!
//! A leader of others is told as soon as a majority has confirmed it in a [round](super::rounds). A node that is the only
//! voter needs no confirmation.
//!
//! openraft does not depose a leader that hears nothing. Another node may lead already, so the host must end its leases:
//! a leader that no majority has confirmed for an election timeout is told as a node that does not lead. It may go on in
//! the same term when a majority confirms it again.
//!
//! openraft accepts entries only while its own clock says that a majority has acknowledged a message lately. That clock may
//! be wrong, so it confirms nothing here. But while it has run out, the host could propose nothing.
//!
//! A follower goes on to name the last leader for as long as no other is elected. So a leader that the follower no longer
//! hears is told as none, too.

use std::time::Duration;

use baton_runtime::{Instant, sleep};
use openraft::alias::SerdeInstantOf;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::{Raft, ServerState};
use tokio::sync::watch;

use super::machine::Machine;
use super::options::Timing;
use super::peers::Peers;
use super::rounds::Confirmation;
use super::types::{TypeConfig, Vote};
use crate::replica::Leadership;

type Acknowledged = SerdeInstantOf<TypeConfig>;

/// What openraft says about this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// The term in which this node leads.
    leads: Option<u64>,
    /// The node that this one follows.
    leader: Option<u64>,
    /// How long ago the leader last sent an append.
    leader_heard: Option<Duration>,
    has_other_voters: bool,
    /// When the last round began that a majority has confirmed in this term.
    confirmed: Option<Instant>,
    /// When the last message was sent that a majority has acknowledged, as openraft believes.
    acknowledged: Option<Instant>,
}

impl Seen {
    fn new(
        server: &RaftServerMetrics<TypeConfig>,
        newest: Option<Confirmation>,
        acknowledged: Option<Acknowledged>,
        peers: &Peers,
    ) -> Seen {
        let leader = server.current_leader.filter(|leader| *leader != server.id);
        let leads = led_term(server.state, server.vote);
        Seen {
            leads,
            leader,
            leader_heard: leader.and_then(|leader| peers.last_append(leader)),
            has_other_voters: server.membership_config.voter_ids().any(|voter| voter != server.id),
            confirmed: newest.filter(|newest| Some(newest.term) == leads).map(|newest| newest.began),
            acknowledged: acknowledged.and_then(|at| Instant::now().checked_sub(at.elapsed())),
        }
    }

    /// The part that a majority confirms.
    fn claim(&self) -> Option<u64> {
        self.leads.filter(|_| self.has_other_voters)
    }
}

/// The term in which this node was elected. In term 0 a group begins: openraft says that its first node leads, but no voter
/// has elected it yet.
fn led_term(state: ServerState, vote: Vote) -> Option<u64> {
    let is_elected = state == ServerState::Leader && vote.committed && vote.leader_id.term > 0;
    is_elected.then_some(vote.leader_id.term)
}

/// `since`: when a node that was told to lead as the only voter was first seen among several. That counts as a
/// confirmation.
fn leadership(seen: &Seen, since: Option<Instant>, silent_max: Duration, now: Instant) -> Leadership {
    let is_recent = |at: Instant| now.saturating_duration_since(at) <= silent_max;
    let is_confirmed = seen.confirmed.max(since).is_some_and(is_recent);
    let accepts_entries = seen.acknowledged.max(since).is_some_and(is_recent);
    match seen.leads {
        Some(_) if seen.has_other_voters && !(is_confirmed && accepts_entries) => {
            Leadership::DoesNotLead { leader: None }
        }
        Some(term) => Leadership::Leads { term },
        // The others elect another after one election timeout.
        None if seen.leader_heard.is_none_or(|ago| ago > silent_max * 2) => Leadership::DoesNotLead { leader: None },
        None => Leadership::DoesNotLead { leader: seen.leader },
    }
}

/// Updates the watch whenever this node begins or ceases to lead, or learns of another leader.
pub(super) async fn follow(
    raft: Raft<TypeConfig, Machine>,
    peers: Peers,
    mut rounds: watch::Receiver<Option<Confirmation>>,
    timing: Timing,
    tell: watch::Sender<Leadership>,
) {
    // openraft sends the data metrics before the server metrics.
    let (mut server, mut data) = (raft.server_metrics(), raft.data_metrics());
    let mut claimed = (None, None);
    loop {
        let newest = *rounds.borrow_and_update();
        // The data metrics are read last, so they are at least as new: an acknowledgement is not one of an earlier term.
        let seen = Seen::new(&server.borrow_watched(), newest, data.borrow_and_update().last_quorum_acked, &peers);
        let now = Instant::now();
        if claimed.0 != seen.claim() {
            let leads_already = seen.claim().is_some_and(|term| *tell.borrow() == Leadership::Leads { term });
            claimed = (seen.claim(), leads_already.then_some(now));
        }
        let current = leadership(&seen, claimed.1, timing.election_max, now);
        tell.send_if_modified(|told| std::mem::replace(told, current) != current);
        let waits_for_majority = seen.claim().is_some() && !matches!(current, Leadership::Leads { .. });
        tokio::select! {
            biased;
            changed = server.changed() => if changed.is_err() {
                tell.send_replace(Leadership::DoesNotLead { leader: None });
                return;
            },
            // An error means that openraft stops, which `server` tells.
            _ = data.changed(), if waits_for_majority => {}
            // As above: the sender lives as long as the node.
            _ = rounds.changed(), if waits_for_majority => {}
            () = sleep(timing.heartbeat), if seen.claim().is_some() || seen.leader.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_no_majority_confirms_is_told_as_none_until_one_does() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let told = |seen: &Seen, now| leadership(seen, None, Duration::from_millis(500), at(now));
        let (leads, none) = (Leadership::Leads { term: 3 }, Leadership::DoesNotLead { leader: None });

        let (leader, leader_heard, has_other_voters) = (None, None, true);
        let (confirmed, acknowledged) = (None, Some(at(9000)));
        let mut seen = Seen { leads: Some(3), leader, leader_heard, has_other_voters, confirmed, acknowledged };
        assert_eq!(told(&seen, 100), none);
        seen.confirmed = Some(at(100));
        assert_eq!(told(&seen, 600), leads);
        assert_eq!(told(&seen, 601), none, "openraft's clock confirms nothing");
        seen.confirmed = Some(at(600));
        assert_eq!(told(&seen, 601), leads, "in the same term");
        assert_eq!(told(&seen, 1101), none);
        (seen.confirmed, seen.acknowledged) = (Some(at(600)), None);
        assert_eq!(told(&seen, 601), none, "openraft accepts no entries yet");
        // The only voter has led, and gets others. They need not confirm at once.
        (seen.confirmed, seen.acknowledged) = (None, None);
        let grown = |now| leadership(&seen, Some(at(1000)), Duration::from_millis(500), at(now));
        assert_eq!((grown(1000), grown(1500), grown(1501)), (leads, leads, none));
        // The only voter waits for no other.
        seen.has_other_voters = false;
        assert_eq!(told(&seen, 9000), leads);
        seen.has_other_voters = true;
        let mut follows = Seen { leads: None, leader: Some(7), ..seen };
        assert_eq!(told(&follows, 9000), none, "it has not heard of the leader since it started");
        follows.leader_heard = Some(Duration::from_secs(1));
        assert_eq!(told(&follows, 9000), Leadership::DoesNotLead { leader: Some(7) });
        follows.leader_heard = Some(Duration::from_millis(1001));
        assert_eq!(told(&follows, 9000), none);
    }

    #[test]
    fn nobody_leads_in_the_term_in_which_a_group_begins() {
        assert_eq!(led_term(ServerState::Leader, Vote::new_committed(0, 1)), None);
        assert_eq!(led_term(ServerState::Leader, Vote::new_committed(1, 1)), Some(1));
        assert_eq!(led_term(ServerState::Leader, Vote::new(1, 1)), None);
        assert_eq!(led_term(ServerState::Follower, Vote::new_committed(1, 2)), None);
    }
}
