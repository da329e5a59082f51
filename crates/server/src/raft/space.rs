//! A node whose disk is nearly full does not lead while another voter has room.
//!
//! The front end of a leader with less than [`FREE_BYTES_MIN`] refuses new sessions and acquires, although the disks of
//! other nodes may have room. So a leader hands over before that, and again if its successor has no room either. A node
//! without room begins no election that a voter with room can win.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use baton_runtime::{Instant, sleep, spawn_blocking};
use futures::future::join_all;
use openraft::ServerState;
use tokio::sync::{mpsc, watch};
use tracing::info;

use super::errors::MemberError;
use super::group::{Group, Metrics, name};
use super::members::STATUS_MAX;
use super::peers::{Answer, NodeStatus, Request};
use crate::limiter::Limiter;
use crate::store::{Disk, FREE_BYTES_MIN};

/// A node has room if it has this much. So a disk that fills slowly is noticed before anything is refused.
const ROOM_MIN: u64 = 2 * FREE_BYTES_MIN;

/// How often a node looks at its disk, and at its part in the group.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Without a leader for this many election timeouts, a node without room may begin an election after all: a voter with
/// room may be unable to win one.
const ELECTIONS_MAX: u32 = 10;

/// True if a node with so much free space should lead rather than one with `own`. The difference must be large, so that two
/// nodes do not hand over to each other again and again.
fn is_roomier(free: Option<u64>, own: u64) -> bool {
    own < ROOM_MIN && free.is_some_and(|free| free >= ROOM_MIN && free >= own.saturating_add(FREE_BYTES_MIN))
}

/// The voters that should lead instead of a node with `own` free bytes; the one with most room first.
fn successors(own: u64, others: &[(u64, NodeStatus)]) -> Vec<u64> {
    let mut roomier: Vec<&(u64, NodeStatus)> =
        others.iter().filter(|(_, says)| is_roomier(says.free_bytes, own)).collect();
    roomier.sort_by_key(|(id, says)| (Reverse(says.free_bytes), *id));
    roomier.into_iter().map(|(id, _)| *id).collect()
}

/// Whether a node with `own` free bytes may begin an election. `leaderless`: how long it has not heard of a leader.
fn may_elect(
    own: u64,
    last_log: Option<u64>,
    others: &[(u64, NodeStatus)],
    leaderless: Duration,
    max: Duration,
) -> bool {
    let can_win = |(_, says): &(u64, NodeStatus)| is_roomier(says.free_bytes, own) && says.last_log >= last_log;
    leaderless > max || !others.iter().any(can_win)
}

/// What little space means for a member, as a sentence without a subject; none if it has room.
pub(super) fn little_space(free: u64) -> Option<String> {
    let [has, room, min] = [free, ROOM_MIN, FREE_BYTES_MIN].map(|bytes| bytes >> 20);
    (free < ROOM_MIN).then(|| {
        format!(
            "has {has} MiB of free space, so it does not lead while another voter has {room} MiB; a leader with less than \
             {min} MiB refuses new sessions and acquires"
        )
    })
}

/// Looks at the disk again and again, on a thread that may wait for the disk. `alive` is dropped after the last look.
pub(super) async fn look(disk: Arc<dyn Disk>, tell: watch::Sender<Option<u64>>, alive: mpsc::Sender<()>) {
    loop {
        sleep(LOOK_EVERY).await;
        let (disk, alive) = (disk.clone(), alive.clone());
        let looking = spawn_blocking(move || {
            // If the disk does not tell its free space, the server writes until a write fails.
            let free = disk.free_bytes().ok();
            drop(disk);
            drop(alive);
            free
        });
        // An error means that the node stops.
        let Ok(free) = looking.await else { return };
        tell.send_if_modified(|told| std::mem::replace(told, free) != free);
    }
}

impl Group {
    /// What the other voters say about themselves, those that answer.
    pub(super) async fn voters_say(&self, metrics: &Metrics) -> Vec<(u64, NodeStatus)> {
        let membership = &metrics.membership_config;
        let others = membership.voter_ids().filter(|id| *id != metrics.id);
        let asked = others.filter_map(|id| Some((id, self.peers.get(id, membership.get_node(&id)?)))).map(
            |(id, peer)| async move {
                match peer.call(Request::Status, STATUS_MAX).await {
                    Ok(Answer::Status(says)) => Some((id, says)),
                    _ => None,
                }
            },
        );
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// The voters among these that answer and have room.
    pub(super) async fn with_room(&self, metrics: &Metrics) -> Vec<u64> {
        let all = self.voters_say(metrics).await.into_iter();
        all.filter(|(_, says)| says.free_bytes.is_none_or(|free| free >= ROOM_MIN)).map(|(id, _)| id).collect()
    }

    /// Refuses a successor that would hand the leadership back at once.
    pub(super) async fn check_room(&self, to: u64) -> Result<(), MemberError> {
        let (metrics, own) = (self.metrics(), *self.free.borrow());
        let says = self.voters_say(&metrics).await.into_iter().find(|(id, _)| *id == to);
        match says.and_then(|(_, says)| says.free_bytes) {
            Some(free) if is_roomier(own, free) => {
                let (name, free_mib, room_mib) = (name(&metrics, to), free >> 20, ROOM_MIN >> 20);
                Err(MemberError::NoRoom { name, free_mib, room_mib })
            }
            _ => Ok(()),
        }
    }

    /// Hands over whenever this node leads without room, and keeps it from being elected while others have room.
    pub(super) async fn watch_space(self) {
        let (mut limiter, mut led_at) = (Limiter::default(), Instant::now());
        loop {
            sleep(LOOK_EVERY).await;
            let (metrics, own) = (self.metrics(), self.free.borrow().unwrap_or(u64::MAX));
            let heard = metrics.current_leader.and_then(|leader| self.peers.last_append(leader));
            if metrics.state == ServerState::Leader || heard.is_some_and(|ago| ago <= self.timing.election_max) {
                led_at = Instant::now();
            }
            let others = if own < ROOM_MIN { self.voters_say(&metrics).await } else { Vec::new() };
            let patience = self.timing.election_max * ELECTIONS_MAX;
            let may_elect = may_elect(own, metrics.last_log_index, &others, led_at.elapsed(), patience);
            self.raft.runtime_config().elect(may_elect);
            if metrics.state != ServerState::Leader {
                continue;
            }
            for to in successors(own, &others) {
                let (to_name, free_mib) = (name(&metrics, to), own >> 20);
                let taken = match self.check_pace(to).await {
                    Ok(()) => self.transfer(to).await,
                    slow => slow,
                };
                match taken {
                    Ok(()) => {
                        info!(free_mib, "{to_name} leads now, because it has more free space than this node");
                        break;
                    }
                    Err(why) if limiter.say("space", baton_runtime::Instant::now()).is_some() => self.peers.warn(&format!(
                        "this node leads with {free_mib} MiB of free space, and {to_name}, which has more, does not take over: \
                         {why}"
                    )),
                    Err(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::Role;

    const MIB: u64 = 1 << 20;

    fn voter(id: u64, free: u64, last_log: u64) -> (u64, NodeStatus) {
        let (role, leader, last_log, free_bytes) = (Role::Follower, None, Some(last_log), Some(free));
        let (commit, applied) = (last_log, last_log);
        (
            id,
            NodeStatus {
                role,
                term: 1,
                last_log,
                commit,
                applied,
                leader,
                voted_for: 1,
                sync_ms: 1,
                sync_min_ms: 1,
                free_bytes,
            },
        )
    }

    #[test]
    fn a_leader_without_room_hands_over_to_the_voter_with_most_room() {
        let others = [voter(2, 127 * MIB, 9), voter(3, 300 * MIB, 9), voter(4, 400 * MIB, 9)];
        assert_eq!(successors(100 * MIB, &others), [4, 3]);
        assert_eq!(successors(128 * MIB, &others), Vec::<u64>::new(), "it has room itself");
        assert_eq!(successors(127 * MIB, &[voter(2, 190 * MIB, 9)]), Vec::<u64>::new(), "a small difference");
    }

    #[test]
    fn a_node_without_room_begins_an_election_only_if_no_other_can_win_one() {
        let (ms, max) = (Duration::from_millis, Duration::from_secs(5));
        let may = |own, last, others: &[(u64, NodeStatus)], silent| may_elect(own, Some(last), others, silent, max);
        assert!(!may(MIB, 9, &[voter(2, 300 * MIB, 9)], ms(500)));
        assert!(may(MIB, 9, &[voter(2, 300 * MIB, 8)], ms(500)), "the other lacks an entry");
        assert!(may(MIB, 9, &[voter(2, 2 * MIB, 9)], ms(500)), "the other has no room either");
        assert!(may(MIB, 9, &[voter(2, 300 * MIB, 9)], ms(5001)), "the other has not won for long");
        assert!(may(200 * MIB, 9, &[voter(2, 300 * MIB, 9)], ms(0)), "it has room itself");
    }
}
