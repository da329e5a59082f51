//! What the server does not take on. A refusal here leaves no trace in the log, so it must not hit a request that the log has
//! already: its client would believe that it holds nothing, and the lock would be held by nobody.

use std::collections::BTreeSet;

use baton_types::frames::Refusal;

use super::{Frontend, Note, Output, UnderWay};
use crate::state::locks::{self, Acquire};
use crate::state::{Operation, Request, SessionId, State};

impl Frontend {
    /// Why the request is not proposed, if it is an acquire that the log has not seen and there is no room for.
    pub(super) fn beyond_limits(&mut self, state: &State, request: &Request) -> Option<(Refusal, String)> {
        let Operation::Locks(locks::Operation::Acquire(acquire)) = &request.operation else { return None };
        let (refusal, message) = self.lacks_room(state, request.session, acquire)?;
        if self.is_under_way(request.session, request.number) || state.request_known(request.session, request.number) {
            return None;
        }
        if refusal != Refusal::LowSpace {
            self.tell_limit(flag(refusal), || message.clone());
        }
        Some((refusal, message))
    }

    /// The cheap question comes first: nearly always there is room for all together, and then for each.
    fn lacks_room(&self, state: &State, session: SessionId, acquire: &Acquire) -> Option<(Refusal, String)> {
        if self.is_space_low() {
            return Some((Refusal::LowSpace, self.low_space()));
        }
        let (counts, limits, under_way) = (state.counts(), self.limits, self.acquires_under_way);
        let name = acquire.wants.first()?.lock.as_bytes();
        let full = |refusal, what: String| Some((refusal, format!("{what} ({})", flag(refusal))));
        let is_used = |name: &[u8]| state.lock(name).is_some_and(|lock| lock.is_used());
        if counts.used + under_way >= limits.locks && !is_used(name) {
            let under_way = self.names_under_way().filter(|name| !is_used(name));
            let new: BTreeSet<&[u8]> = under_way.chain([name]).collect();
            if counts.used + new.len() > limits.locks {
                let what = format!("the server has {}; it takes no more", counted(limits.locks, "lock", "locks"));
                return full(Refusal::TooManyLocks, what);
            }
        }
        let may_wait = acquire.timeout_ms != Some(0);
        if may_wait && counts.waiters + under_way >= limits.waiters {
            let waiters = state.waiters_of(name) + self.names_under_way().filter(|other| *other == name).count();
            // One of those who come to a free lock gets it.
            if waiters >= limits.waiters + usize::from(!is_used(name)) {
                let waiters = counted(limits.waiters, "request waits", "requests wait");
                let what = format!("{waiters} for this lock already; no more may wait");
                return full(Refusal::TooManyWaiters, what);
            }
        }
        let of_session = || self.sessions.get(&session).map_or(0, |presence| presence.acquires_under_way);
        if counts.holders + counts.waiters + under_way >= limits.holds
            && state.claims_of(session) + of_session() >= limits.holds
        {
            let locks = counted(limits.holds, "lock", "locks");
            let what = format!("the session holds or waits for {locks}; it may have no more");
            return full(Refusal::TooManyHolds, what);
        }
        None
    }

    fn is_under_way(&self, session: SessionId, number: u64) -> bool {
        let is_it = |under_way: &UnderWay| match *under_way {
            UnderWay::Request { session: of, number: known, .. } => (of, known) == (session, number),
            _ => false,
        };
        self.under_way.iter().any(is_it)
    }

    /// The names of the locks that acquires on their way are for.
    fn names_under_way(&self) -> impl Iterator<Item = &[u8]> {
        self.under_way.iter().filter_map(|under_way| match under_way {
            UnderWay::Request { acquires: Some(lock), .. } => Some(lock.as_bytes()),
            _ => None,
        })
    }

    pub(super) fn low_space(&self) -> String {
        let (free_mib, min_mib) = (self.space.free_bytes.unwrap_or(u64::MAX) >> 20, self.space.min_bytes >> 20);
        format!("the server has too little free space: {free_mib} MiB, and {min_mib} MiB are needed")
    }

    /// A flood that meets a limit is worth one line, not a million.
    pub(super) fn tell_limit(&mut self, flag: &'static str, what: impl FnOnce() -> String) {
        if self.limits_told.insert(flag) {
            self.out.push_back(Output::Note(Note::Limit(what())));
        }
    }
}

fn flag(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::TooManyLocks => "--max-locks",
        Refusal::TooManyWaiters => "--max-waiters",
        _ => "--max-holds",
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
