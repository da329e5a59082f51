//! Rounds: a leader asks the voters whether they still follow it.
//!
//! A round succeeds when a majority of the voters, in both halves of a joint membership, has confirmed that its vote is
//! the leader's. Each voter answers from inside its Raft core, after the question has arrived. So when the round began, no
//! node with a higher term led: its voters would have answered with their newer vote. The answer waits for no disk, because
//! a voter has its vote on disk before the candidate hears of it.
//!
//! **Invariant: a round counts only answers to its own questions.** The number of the call matches them on each connection.
//! openraft's own clock is no substitute: it matches answers to appends by log id, so an old answer counts for an append
//! that was sent later.
//!
//! The leader begins one round after the other, with a heartbeat between them. While none succeeds it may be deposed: see
//! [`super::leadership`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::{Instant, sleep};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft::async_runtime::WatchReceiver;
use openraft::{RaftState, ServerState};
use tokio::sync::watch;

use super::group::{Group, Metrics};
use super::node::{Node, ReadError};
use super::options::Timing;
use super::peers::{Answer, Request};
use super::types::{LogId, TypeConfig, Vote};
use crate::format::record::{self, NodeRecord};

/// A round of this leader that a majority has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirmation {
    pub term: u64,
    /// When the round began.
    pub began: Instant,
    /// The last entry that was committed then. None if none of this leader's own term was: then it does not know all that
    /// earlier leaders have committed.
    pub commit: Option<u64>,
}

/// The newest successful round. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    newest: watch::Sender<Option<Confirmation>>,
    /// The term of the last append that this node wanted to send, and when it sent the first one of that term.
    appends: Mutex<Option<(u64, Instant)>>,
}

impl Rounds {
    pub fn newest(&self) -> Option<Confirmation> {
        *self.0.newest.borrow()
    }

    pub fn watch(&self) -> watch::Receiver<Option<Confirmation>> {
        self.0.newest.subscribe()
    }

    /// Rounds may end in another order than they began.
    fn note(&self, confirmation: Confirmation) {
        let key = |confirmation: &Confirmation| (confirmation.term, confirmation.began);
        self.0.newest.send_if_modified(|newest| {
            let is_newer = newest.as_ref().map(key) < Some(key(&confirmation));
            if is_newer {
                *newest = Some(confirmation);
            }
            is_newer
        });
    }

    /// Whether the leader of this term sends appends now. A leader that sends and does not hear would keep the others from
    /// electing another one. So while no majority confirms it, it pauses in turns.
    pub fn may_append(&self, term: u64, election_max: Duration) -> bool {
        let now = Instant::now();
        let since = {
            let mut appends = lock(&self.0.appends);
            match *appends {
                Some((known, since)) if known == term => since,
                _ => appends.insert((term, now)).1,
            }
        };
        let confirmed = self.newest().filter(|newest| newest.term == term).map(|newest| newest.began);
        may_append(now.saturating_duration_since(confirmed.max(Some(since)).unwrap_or(since)), election_max)
    }
}

/// `silent`: how long ago a majority confirmed the leader. The first pause begins after an election timeout. Each pause, and
/// each time of sending between two pauses, is two election timeouts long: enough for an election, or for a confirmation.
fn may_append(silent: Duration, election_max: Duration) -> bool {
    let Some(over) = silent.checked_sub(election_max) else { return true };
    let turns = over.as_nanos() / (2 * election_max).as_nanos().max(1);
    turns % 2 == 1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this node is, as its Raft core says.
struct Claim {
    vote: Vote,
    commit: Option<LogId>,
    /// The voters; two sets while the members change.
    halves: Vec<BTreeSet<u64>>,
    voters: Vec<(u64, NodeRecord)>,
}

impl Claim {
    /// None if the node does not lead.
    fn of(state: &RaftState<TypeConfig>) -> Option<Claim> {
        let vote = *state.vote_ref();
        if state.server_state != ServerState::Leader || !vote.committed {
            return None;
        }
        let membership = state.membership_state.effective();
        let record = |id: u64| Some((id, membership.get_node(&id)?.clone()));
        Some(Claim {
            vote,
            commit: state.local_committed().copied(),
            halves: membership.get_joint_config().clone(),
            voters: membership.voter_ids().filter_map(record).collect(),
        })
    }

    fn term(&self) -> u64 {
        self.vote.leader_id.term
    }

    /// The index up to which the log is committed, if an entry of this term is.
    fn own_commit(&self) -> Option<u64> {
        self.commit.filter(|commit| commit.leader_id.term == self.term()).map(|commit| commit.index)
    }
}

/// True if a majority of each half has confirmed.
pub(super) fn is_majority(halves: &[BTreeSet<u64>], confirmed: &BTreeSet<u64>) -> bool {
    halves.iter().all(|half| half.intersection(confirmed).count() > half.len() / 2)
}

impl Group {
    async fn claim(&self) -> Result<Claim, ReadError> {
        let claim = self.raft.with_raft_state(Claim::of).await.map_err(|_| ReadError::Stopped)?;
        claim.ok_or_else(|| ReadError::NotLeader { leader: self.metrics().current_leader })
    }

    /// Returns what was committed when the round began, once a majority has confirmed it.
    pub(super) async fn round(&self) -> Result<Confirmation, ReadError> {
        let began = Instant::now();
        let claim = self.claim().await?;
        let me = self.id();
        // The claim is this node's own answer.
        let mut confirmed = BTreeSet::from([me]);
        let ask = |(id, record): &(u64, NodeRecord)| {
            let (id, vote) = (*id, record::Vote::from(claim.vote));
            let call = self.peers.get(id, record).call(Request::Round { vote }, self.timing.election_max);
            async move { (id, call.await) }
        };
        let mut answers: FuturesUnordered<_> = claim.voters.iter().filter(|(id, _)| *id != me).map(ask).collect();
        while !is_majority(&claim.halves, &confirmed) {
            match answers.next().await {
                Some((id, Ok(Answer::Follows(true)))) => drop(confirmed.insert(id)),
                // It follows another leader, or cannot be reached. The others may be enough.
                Some(_) => {}
                None => return Err(ReadError::NoQuorum),
            }
        }
        let confirmation = Confirmation { term: claim.term(), began, commit: claim.own_commit() };
        self.rounds.note(confirmation);
        Ok(confirmation)
    }

    /// Whether a node follows this leader now. It need not be a voter.
    pub(super) async fn follows(&self, id: u64, record: &NodeRecord) -> bool {
        let Ok(claim) = self.claim().await else { return false };
        let request = Request::Round { vote: claim.vote.into() };
        let answer = self.peers.get(id, record).call(request, self.timing.election_max).await;
        matches!(answer, Ok(Answer::Follows(true)))
    }

    /// Begins one round after the other while this node leads others.
    pub(super) async fn confirm_again_and_again(self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let leads_others = {
                let seen = metrics.borrow_watched();
                seen.state == ServerState::Leader && seen.membership_config.nodes().any(|(id, _)| *id != seen.id)
            };
            if !leads_others {
                if metrics.changed().await.is_err() {
                    return;
                }
                continue;
            }
            match self.round().await {
                Ok(confirmation) if confirmation.commit.is_some() => sleep(self.timing.heartbeat).await,
                Err(ReadError::Stopped) => return,
                // A leader that was just elected is confirmed as soon as the others have heard of it, and knows its commit index
                // as soon as its first entry is committed.
                Ok(_) | Err(_) => sleep(self.timing.heartbeat / 5).await,
            }
        }
    }
}

impl Node {
    /// Returns when a majority has confirmed that this node led after the call began, and every entry that was
    /// committed then is applied. So the state that the caller reads next was the current state at some time during the
    /// call.
    pub async fn read_index(&self) -> Result<(), ReadError> {
        let Timing { election_max, .. } = self.group.timing;
        let wait = || self.group.raft.wait(Some(election_max));
        let claim = self.group.claim().await?;
        if claim.own_commit().is_none() {
            let term = claim.term();
            let is_over = |metrics: &Metrics| {
                let commit = metrics.local_committed.map(|commit| commit.leader_id.term);
                metrics.current_term != term || commit == Some(term)
            };
            wait().metrics(is_over, "an entry of the own term is committed").await.map_err(|_| ReadError::NoQuorum)?;
        }
        let commit = self.group.round().await?.commit.ok_or(ReadError::NoQuorum)?;
        if self.applied().is_none_or(|applied| applied.index < commit) {
            let applied = wait().applied_index_at_least(Some(commit), "what was committed is applied").await;
            applied.map_err(|_| ReadError::NoQuorum)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_needs_a_majority_of_both_halves() {
        let set = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<u64>>();
        let one = [set(&[1, 2, 3])];
        assert!(!is_majority(&one, &set(&[1])) && is_majority(&one, &set(&[1, 3])));
        assert!(!is_majority(&one, &set(&[1, 7, 8])), "strangers do not count");
        assert!(!is_majority(&[set(&[1, 2, 3, 4])], &set(&[1, 2])), "a half is no majority");
        let both = [set(&[1, 2, 3]), set(&[1, 4, 5])];
        assert!(!is_majority(&both, &set(&[1, 2, 3])));
        assert!(!is_majority(&both, &set(&[4, 5, 1])));
        assert!(is_majority(&both, &set(&[1, 2, 4])));
        assert!(!is_majority(&[set(&[2, 3])], &set(&[1, 2])), "a leader that is removed does not count itself");
        assert!(is_majority(&[set(&[1])], &set(&[1])));
    }

    #[test]
    fn a_leader_that_nobody_confirms_pauses_in_turns() {
        let ms = Duration::from_millis;
        let sends = [0, 499, 500, 1499, 1500, 2499, 2500].map(|silent| may_append(ms(silent), ms(500)));
        assert_eq!(sends, [true, true, false, false, true, true, false]);
    }

    #[test]
    fn a_confirmation_of_an_earlier_round_or_term_replaces_no_later_one() {
        let (rounds, start) = (Rounds::default(), Instant::now());
        let confirmation =
            |term, ms| Confirmation { term, began: start + Duration::from_millis(ms), commit: Some(term) };
        for (noted, newest) in [((2, 5), (2, 5)), ((2, 3), (2, 5)), ((1, 9), (2, 5)), ((3, 4), (3, 4))] {
            rounds.note(confirmation(noted.0, noted.1));
            assert_eq!(rounds.newest(), Some(confirmation(newest.0, newest.1)));
        }
    }
}
