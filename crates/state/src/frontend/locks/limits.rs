//! The limits of locks, waiters and claims.

use baton_types::durations;
use baton_types::limits::ServerLimits;
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::sentences;

use super::{Locks, UnderWay};
use crate::frontend::limits::Denied;
use crate::frontend::modules::Gate;
use crate::state::locks::limits::VISITS_MAX;
use crate::state::locks::{Acquire, LockName};
use crate::state::{SessionId, State};

impl Locks {
    /// Why an acquire is refused, if it is. Compares with the totals first, which is cheap. Nearly always the totals are
    /// below the limit, and then each lock and session is, too.
    pub(super) fn refusal(&self, gate: &Gate<'_>, session: SessionId, acquire: &Acquire) -> Option<Denied> {
        let Gate { state, limits, .. } = *gate;
        closed(state, acquire)
            .or_else(|| gate.low_space())
            .or_else(|| self.too_many_locks(state, limits, acquire))
            .or_else(|| self.too_many_waiters(state, limits, acquire))
            .or_else(|| self.too_many_holds(state, limits, session, acquire))
            .or_else(|| check_is_long(state, session, acquire))
    }

    fn too_many_locks(&self, state: &State, limits: &ServerLimits, Acquire { wants, .. }: &Acquire) -> Option<Denied> {
        let used = state.counts().used;
        let is_new = |lock: &&LockName| !is_used(state, lock);
        if used + self.wanted + wants.len() <= limits.locks || !wants.iter().any(|want| is_new(&&want.lock)) {
            return None;
        }
        let is_other = |lock: &&LockName| wants.iter().all(|want| want.lock != **lock);
        let new = || {
            wants.iter().filter(|want| is_new(&&want.lock)).count()
                + self.under_way.keys().filter(is_other).filter(is_new).count()
        };
        (used >= limits.locks || used + new() > limits.locks).then(|| {
            let what = format!("the server has {}; it takes no more", counted(limits.locks, "lock", "locks"));
            Denied::by_flag(RefusalCode::TooManyLocks, "--max-locks", &what)
        })
    }

    /// A claim waits at all of its locks, so each needs room.
    fn too_many_waiters(&self, state: &State, limits: &ServerLimits, acquire: &Acquire) -> Option<Denied> {
        if acquire.timeout_ms == Some(0) || state.counts().waiters + self.wanted < limits.waiters {
            return None;
        }
        let under_way = |lock: &LockName| self.under_way.get(lock).copied().unwrap_or_default();
        let is_free = |lock: &LockName| !is_used(state, lock) && under_way(lock).acquires == 0;
        if acquire.wants.iter().all(|want| is_free(&want.lock)) {
            return None;
        }
        let is_full = |lock: &LockName| {
            let UnderWay { acquires, of_several } = under_way(lock);
            let waiters = state.waiters_of(lock.as_bytes()) + acquires;
            // A free lock goes to the first of the requests, and the others wait. So a free lock has room for one request
            // more. But a request for several locks may wait for a free lock, because another lock is not free.
            let first_takes_it = of_several == 0 && (acquires > 0 || acquire.wants.len() == 1);
            let is_granted = !is_used(state, lock) && first_takes_it;
            waiters >= limits.waiters + usize::from(is_granted)
        };
        acquire.wants.iter().any(|want| is_full(&want.lock)).then(|| {
            let waiters = counted(limits.waiters, "request waits", "requests wait");
            let what = format!("{waiters} for this lock already; no more may wait");
            Denied::by_flag(RefusalCode::TooManyWaiters, "--max-waiters", &what)
        })
    }

    fn too_many_holds(
        &self,
        state: &State,
        limits: &ServerLimits,
        session: SessionId,
        Acquire { wants, .. }: &Acquire,
    ) -> Option<Denied> {
        if state.claimed() + self.wanted + wants.len() <= limits.holds {
            return None;
        }
        let under_way = self.wanted_by.get(&session).copied().unwrap_or(0);
        (state.claimed_by(session) + under_way + wants.len() > limits.holds).then(|| {
            let locks = counted(limits.holds, "lock", "locks");
            let what = format!("the session holds or waits for {locks}; it may have no more");
            Denied::by_flag(RefusalCode::TooManyHolds, "--max-holds", &what)
        })
    }
}

/// Refuses an acquire that does not wait while the cluster is closed, and says why no lock is free.
fn closed(state: &State, acquire: &Acquire) -> Option<Denied> {
    let left_ms = state.cluster().closed_ms().filter(|_| acquire.timeout_ms == Some(0))?;
    let message = sentences::closed(durations::shown(left_ms));
    // A closed cluster is no limit: the operator is not told.
    Some(Denied { refusal: Refusal::new(RefusalCode::Unavailable, message), limit: None })
}

fn check_is_long(state: &State, session: SessionId, acquire: &Acquire) -> Option<Denied> {
    (acquire.timeout_ms != Some(0) && state.is_check_long(session, acquire)).then(|| {
        let message = format!(
            "too many requests wait for each other: the check for a deadlock would read more than {VISITS_MAX} of them"
        );
        Denied { refusal: Refusal::new(RefusalCode::TooManyWaiters, message), limit: Some("deadlock checks") }
    })
}

fn is_used(state: &State, lock: &LockName) -> bool {
    state.lock(lock.as_bytes()).is_some_and(|lock| lock.is_used())
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
