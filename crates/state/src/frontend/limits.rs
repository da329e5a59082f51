//! The limits of the server. A refusal here leaves no trace in the log, so it must not hit a request that the log has
//! already: the client would believe that it holds nothing, and no client would release the lock.

use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use baton_types::durations;
use baton_types::frames::Refusal;

use super::{Frontend, Note, Output};
use crate::state::locks::limits::VISITS_MAX;
use crate::state::locks::{self, Acquire, LockName};
use crate::state::{Operation, Request, RequestNumber, SessionId, State};

/// The name of a limit for the operator: the command-line flag that sets it, or a few words if no flag does.
pub(super) type Limit = &'static str;

/// The operator is told of each limit at most once in this time.
pub const LIMIT_AGAIN_MS: u64 = 60_000;

impl Frontend {
    /// The refusal, if the request is an acquire that the log does not have, and a limit is reached.
    pub(super) fn beyond_limits(&mut self, now_ms: u64, state: &State, request: &Request) -> Option<(Refusal, String)> {
        let Operation::Locks(locks::Operation::Acquire(acquire)) = &request.operation else { return None };
        // A closed cluster is no limit: the operator is not told.
        let closed = closed(state, acquire).map(|message| (Refusal::Unavailable, message));
        let (refusal, limit, message) = match closed {
            Some((refusal, message)) => (refusal, None, message),
            None => {
                let (refusal, limit, message) = self.lacks_room(state, request.session, acquire)?;
                (refusal, Some(limit).filter(|_| refusal != Refusal::LowSpace), message)
            }
        };
        if self.is_under_way(request.session, request.number) || state.request_known(request.session, request.number) {
            return None;
        }
        if let Some(limit) = limit {
            self.tell_limit(now_ms, limit, &message, request.caller.from);
        }
        Some((refusal, message))
    }

    /// The refusal, the name of the limit, and the sentence for the client. Compares with the totals first, which is
    /// cheap. Nearly always the totals are below the limit, and then each lock and session is, too.
    fn lacks_room(&self, state: &State, session: SessionId, acquire: &Acquire) -> Option<(Refusal, Limit, String)> {
        if self.is_space_low() {
            return Some((Refusal::LowSpace, "--min-free-space", self.low_space()));
        }
        let (counts, limits, under_way) = (state.counts(), self.limits, self.acquires_under_way);
        let name = acquire.wants.first()?.lock.as_bytes();
        let full = |refusal, flag, what: String| Some((refusal, flag, format!("{what} ({flag})")));
        let is_used = |name: &[u8]| state.lock(name).is_some_and(|lock| lock.is_used());
        if counts.used + under_way >= limits.locks && !is_used(name) {
            let is_new = |other: &&LockName| other.as_bytes() != name && !is_used(other.as_bytes());
            let new = || 1 + self.locks_under_way.keys().filter(is_new).count();
            if counts.used >= limits.locks || counts.used + new() > limits.locks {
                let what = format!("the server has {}; it takes no more", counted(limits.locks, "lock", "locks"));
                return full(Refusal::TooManyLocks, "--max-locks", what);
            }
        }
        let may_wait = acquire.timeout_ms != Some(0);
        if may_wait && counts.waiters + under_way >= limits.waiters {
            let waiters = state.waiters_of(name) + self.locks_under_way.get(name).copied().unwrap_or(0);
            // A free lock goes to one of the requests, and the others wait. So a free lock has room for one request
            // more.
            if waiters >= limits.waiters + usize::from(!is_used(name)) {
                let waiters = counted(limits.waiters, "request waits", "requests wait");
                let what = format!("{waiters} for this lock already; no more may wait");
                return full(Refusal::TooManyWaiters, "--max-waiters", what);
            }
        }
        let of_session = || self.sessions.get(&session).map_or(0, |presence| presence.acquires_under_way);
        if counts.holders + counts.waiters + under_way >= limits.holds
            && state.claims_of(session) + of_session() >= limits.holds
        {
            let locks = counted(limits.holds, "lock", "locks");
            let what = format!("the session holds or waits for {locks}; it may have no more");
            return full(Refusal::TooManyHolds, "--max-holds", what);
        }
        if may_wait && state.is_check_long(session, acquire) {
            let what = format!(
                "too many requests wait for each other: the check for a deadlock would read more than {VISITS_MAX} of them"
            );
            return Some((Refusal::TooManyWaiters, "deadlock checks", what));
        }
        None
    }

    fn is_under_way(&self, session: SessionId, number: RequestNumber) -> bool {
        self.sessions.get(&session).is_some_and(|presence| presence.under_way.contains(&number))
    }

    /// The request with this number was applied. `acquires` is the lock, if the request was an acquire.
    pub(super) fn no_longer_under_way(
        &mut self,
        session: SessionId,
        number: RequestNumber,
        acquires: Option<LockName>,
    ) {
        // An ended session has no presence any more, but its earlier requests may still be applied.
        if let Some(presence) = self.sessions.get_mut(&session)
            && let Some(oldest) = presence.under_way.pop_front()
        {
            assert_eq!(oldest, number, "requests are applied in the order in which they were proposed");
            presence.acquires_under_way -= usize::from(acquires.is_some());
        }
        let Some(lock) = acquires else { return };
        self.acquires_under_way -= 1;
        if let Entry::Occupied(mut count) = self.locks_under_way.entry(lock) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(super) fn low_space(&self) -> String {
        let [free_mib, min_mib] =
            [self.space.free_bytes.unwrap_or(u64::MAX), self.space.min_bytes].map(|bytes| bytes >> 20);
        let who = if self.name.is_empty() { "the server".to_owned() } else { format!("node {}", self.name) };
        format!("{who} has too little free space: {free_mib} MiB, and it needs {min_mib} MiB")
    }

    /// Notes at most one line per minute and limit, so that many refusals do not flood the operator's log.
    pub(super) fn tell_limit(&mut self, now_ms: u64, limit: Limit, message: &str, from: Option<SocketAddr>) {
        let told_ms = self.limits_told.get(limit).copied();
        if told_ms.is_none_or(|told_ms| now_ms >= told_ms + LIMIT_AGAIN_MS) {
            self.limits_told.insert(limit, now_ms);
            self.out.push_back(Output::Note(Note::Limit { limit, message: message.to_owned(), from }));
        }
    }
}

/// Refuses an acquire that does not wait while the cluster is closed, and says why no lock is free.
fn closed(state: &State, acquire: &Acquire) -> Option<String> {
    let left_ms = state.cluster().closed_ms().filter(|_| acquire.timeout_ms == Some(0))?;
    let left = durations::shown(left_ms);
    Some(format!(
        "no lock is granted for another {left}, because the cluster began anew and leases of before may still run"
    ))
}

/// Refuses a TTL that is longer than the cluster allows, with a sentence for the client.
pub(super) fn check_ttl(state: &State, ttl_ms: u64) -> Result<(), String> {
    let max_ttl_ms = state.cluster().max_ttl_ms();
    let seconds = |ms: u64| ms as f64 / 1_000.0;
    match ttl_ms > max_ttl_ms {
        true => Err(format!(
            "the session asks for a TTL of {} s, but this cluster allows at most {} s (`baton serve --max-ttl`)",
            seconds(ttl_ms),
            seconds(max_ttl_ms)
        )),
        false => Ok(()),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
