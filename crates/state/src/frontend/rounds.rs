//! Read-index rounds. Each round shows that this node led after the round began. A round serves every keep-alive and
//! every look that waited when it began.

use std::collections::BTreeMap;

use super::CallId;
use crate::state::SessionId;

/// The most rounds at a time: one, and another for the calls that came after the first began.
pub const ROUNDS_MAX: usize = 2;
/// The pause after a failed round, because the next one would probably fail, too.
pub const ROUND_AGAIN_MS: u64 = 50;

/// A read-index round. Ids are unique across terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoundId(pub u64);

/// The keep-alives and calls that wait for a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The number of the latest keep-alive of each session.
    pub keep_alives: BTreeMap<SessionId, u64>,
    /// Calls that read the state.
    pub calls: Vec<CallId>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    waiting: Waiting,
    under_way: BTreeMap<RoundId, Waiting>,
    last: u64,
    /// No round begins before this time.
    again_ms: Option<u64>,
}

impl Rounds {
    /// A later keep-alive of a session replaces the earlier one.
    pub fn keep_alive(&mut self, session: SessionId, number: u64) {
        let waiting = self.waiting.keep_alives.entry(session).or_default();
        *waiting = number.max(*waiting);
    }

    pub fn look(&mut self, call: CallId) {
        self.waiting.calls.push(call);
    }

    /// Begins a round for all keep-alives and calls that wait, if there are any and a round may begin.
    pub fn begin(&mut self, now_ms: u64) -> Option<RoundId> {
        if self.waiting == Waiting::default() || self.under_way.len() >= ROUNDS_MAX {
            return None;
        }
        if self.again_ms.is_some_and(|again_ms| now_ms < again_ms) {
            return None;
        }
        self.again_ms = None;
        self.last += 1;
        let round = RoundId(self.last);
        self.under_way.insert(round, std::mem::take(&mut self.waiting));
        Some(round)
    }

    /// Ends a round. If this node led, returns the keep-alives and calls that the round served. If not, returns the
    /// calls that fail; the keep-alives wait for another round.
    pub fn done(&mut self, now_ms: u64, round: RoundId, led: bool) -> Waiting {
        let Some(mut served) = self.under_way.remove(&round) else { return Waiting::default() };
        if !led {
            for (session, number) in std::mem::take(&mut served.keep_alives) {
                self.keep_alive(session, number);
            }
            self.again_ms = Some(now_ms.saturating_add(ROUND_AGAIN_MS));
        }
        served
    }

    /// When the next round may begin, if something waits for the end of the pause.
    pub fn next_wake(&self) -> Option<u64> {
        self.again_ms.filter(|_| self.waiting != Waiting::default())
    }

    /// Forgets everything. Returns the calls that fail.
    pub fn reset(&mut self) -> Vec<CallId> {
        let Rounds { waiting, under_way, last, .. } = std::mem::take(self);
        self.last = last;
        under_way.into_values().chain([waiting]).flat_map(|waiting| waiting.calls).collect()
    }
}
