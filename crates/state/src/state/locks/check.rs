//! Checks the consistency of the locks. A snapshot is outside input: if it passes here, it causes no panic later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use super::limits::{FORCED_MAX, HISTORY_MAX, HISTORY_OF_LOCK_MAX, LOCK_DELAY_MS_MAX};
use super::lock::Lock;
use super::{Claim, Grants, LockName, Locks, Mode, Ticket, limits};
use crate::state::SessionId;
use crate::state::limits::COUNTER_MAX;
use crate::state::sessions::Sessions;

impl Locks {
    /// Whether locks, claims and indices are consistent. Returns a sentence about the first inconsistency. `revision`
    /// is that of the state.
    pub(super) fn check(&self, grants: Grants, revision: u64) -> Result<(), String> {
        let counters = [self.last_fence, self.last_ticket, self.last_delay, self.last_past];
        if let Some(counter) = counters.into_iter().find(|counter| *counter > COUNTER_MAX) {
            return Err(format!("a counter of the locks is at {counter}; it must be at most {COUNTER_MAX}"));
        }
        let mut tickets = BTreeSet::new();
        for claim in self.claims.values() {
            let wrong = |what: &dyn Display| format!("request {} of session {} {what}", claim.number, claim.session);
            self.check_claim(claim, grants, revision).map_err(|what| wrong(&what))?;
            if !tickets.insert(claim.ticket) {
                return Err(wrong(&format_args!("has the ticket {} of another claim", claim.ticket)));
            }
        }
        for (name, lock) in &self.locks {
            self.check_lock(name, lock, grants).map_err(|what| format!("the lock {name:?} {what}"))?;
        }
        let is_bounded = |acquires: &BTreeSet<_>| (1..=FORCED_MAX).contains(&acquires.len());
        if let Some((session, acquires)) = self.forced.iter().find(|(_, acquires)| !is_bounded(acquires)) {
            return Err(format!(
                "session {session} has {} forced releases on record; it must have 1 to {FORCED_MAX}",
                acquires.len()
            ));
        }
        self.check_counts()?;
        let tangled = |claim: &&Arc<Claim>| self.is_tangled(claim);
        let is_indexed = |lock: &Lock| lock.line.iter().filter(tangled).eq(lock.line.tangled(0, Ticket::MAX));
        match self.locks.iter().find(|(_, lock)| !is_indexed(lock)) {
            Some((name, _)) => Err(format!("the lock {name:?} does not match its index of tangled claims")),
            None => Ok(()),
        }
    }

    /// Whether the claims fit to the sessions.
    pub(super) fn check_sessions(&self, sessions: &Sessions) -> Result<(), String> {
        if let Some(id) = self.sessions().find(|id| sessions.get(*id).is_none()) {
            return Err(format!("session {id} has claims, but does not exist"));
        }
        for (id, session) in sessions.from(SessionId(0)) {
            let mut holds = self.claims_of(id).filter(|claim| claim.holds()).map(|claim| claim.number);
            if let Some(number) = holds.find(|number| !session.is_answered(*number)) {
                return Err(format!("request {number} of session {id} holds, but was never answered"));
            }
        }
        Ok(())
    }

    fn check_lock(&self, name: &LockName, lock: &Lock, grants: Grants) -> Result<(), String> {
        let says = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(what.to_owned()) };
        limits::check_name(name.as_bytes()).map_err(|invalid| format!("has an invalid name: {invalid}"))?;
        limits::check_mode(Mode::Permit { of: lock.permits })
            .map_err(|invalid| format!("is not a valid lock: {invalid}"))?;
        says(lock.in_use() || lock.aside.is_some(), "is neither used nor remembered")?;

        let is_there = |claim: &Arc<Claim>| self.claims.get(&claim.key()).is_some_and(|at| Arc::ptr_eq(claim, at));
        says(lock.line.iter().all(is_there), "has a claim in its line that does not exist")?;
        let wants = |claim: &Arc<Claim>| claim.wants.iter().find(|want| want.lock == *name).map(|want| want.mode);
        let modes = || lock.line.iter().map(wants);
        says(modes().all(|mode| mode.is_some()), "has a claim in its line that does not want it")?;
        says(
            modes().flatten().all(|mode| mode.permits() == lock.permits),
            "has another number of permits than a claim names",
        )?;
        let is_parted = lock.holders().all(|claim| claim.holds()) && !lock.waiters().any(|claim| claim.holds());
        let held_to = lock.holders().last().map_or(0, |last| last.ticket);
        says(is_parted && held_to == lock.held_to, "has a holder behind a waiter")?;
        let is_shared = modes().take(lock.held()).flatten().all(|mode| mode == Mode::Shared);
        says(is_shared || lock.held <= lock.permits, "has too many holders")?;
        says(lock.holders().is_sorted_by_key(|claim| claim.fence), "has a fence that is lower than an earlier one")?;
        let grants_nothing = grants == Grants::ByGroup || self.closed;
        says(grants_nothing || self.grantable(lock).is_none(), "is free for its first waiter")?;

        let last_delay = lock.delay().map_or(0, |delay| delay.generation);
        says(last_delay <= self.last_delay, "has a lock-delay that was never begun")?;
        let left_fence = lock.aside.as_ref().and_then(|aside| aside.left_fence).map_or(0, u64::from);
        says(left_fence <= self.last_fence, "had a fence that was never given")?;
        says(left_fence == 0 || lock.held > 0, "has the fence of an earlier holder, but no holder")?;
        let history = lock.history();
        says(history.len() <= HISTORY_OF_LOCK_MAX, "remembers too many holds")?;
        says(history.is_sorted_by(|one, next| one.order < next.order), "does not remember its holds in order")?;
        says(
            history.last().is_none_or(|past| past.order <= self.last_past),
            "remembers a hold with a number that was never given",
        )?;
        let is_remembered = history.iter().all(|past| self.history.get(&past.order) == Some(name));
        says(is_remembered, "remembers a hold with the number of another one")
    }

    fn check_claim(&self, claim: &Claim, grants: Grants, revision: u64) -> Result<(), String> {
        let says = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(what.to_owned()) };
        limits::check_wants(&claim.wants).map_err(|invalid| format!("is not a valid claim: {invalid}"))?;
        let (in_index, in_other) = match claim.holds() {
            true => (&self.holds, &self.waits),
            false => (&self.waits, &self.holds),
        };
        let key = claim.owner_key();
        says(in_index.contains(&key) && !in_other.contains(&key), "is missing in the index of owners")?;
        says(claim.revoked == self.revoked.contains(&claim.key()), "does not match the index of revoked claims")?;
        says(!claim.revoked || claim.holds(), "was revoked while it waits")?;
        says(claim.timeout_ms.is_none() || !claim.holds(), "holds, but has a time-out")?;
        says((1..=self.last_ticket).contains(&claim.ticket), "has a ticket that was never given")?;
        let was_given = grants == Grants::ByGroup || claim.fence.map_or(0, u64::from) <= self.last_fence;
        says(was_given, "has a fence that was never given")?;
        says(grants.refuses(&claim.wants).is_none(), "wants what a group cannot grant")?;
        says(claim.revision <= revision, "entered at a revision in the future")?;
        says(u64::from(claim.lock_delay_ms) <= LOCK_DELAY_MS_MAX, "has a lock-delay that is too long")
    }

    fn check_counts(&self) -> Result<(), String> {
        let closed = self.locks.iter().filter(|(_, lock)| lock.delay().is_some()).map(|(name, _)| name);
        let remembered = self.locks.values().map(|lock| lock.history().len()).sum();
        let counts = [
            (
                "places in lines",
                self.locks.values().map(|lock| lock.line.len()).sum(),
                self.claims.values().map(|claim| claim.wants.len()).sum(),
            ),
            ("locks in claims", self.claimed, self.claims.values().map(|claim| claim.wants.len()).sum()),
            ("claims by owner", self.holds.len() + self.waits.len(), self.claims.len()),
            ("revoked claims", self.revoked.len(), self.claims.values().filter(|claim| claim.revoked).count()),
            ("used locks", self.used, self.locks.values().filter(|lock| lock.in_use()).count()),
            ("remembered holds", self.history.len(), remembered),
        ];
        if let Some((what, counted, there)) = counts.into_iter().find(|(_, counted, there)| counted != there) {
            return Err(format!("{counted} {what} are counted, but {there} exist"));
        }
        if remembered > HISTORY_MAX {
            return Err(format!("{remembered} ended holds are remembered; the limit is {HISTORY_MAX}"));
        }
        let (mut by_session, mut children) = (BTreeMap::new(), BTreeMap::new());
        for claim in self.claims.values() {
            *by_session.entry(claim.session).or_insert(0) += claim.wants.len();
            claim.kinship().into_iter().for_each(|kinship| *children.entry(kinship).or_insert(0) += 1);
        }
        if !by_session.iter().eq(&self.counts) {
            return Err("the counts of locks by session do not match the claims".to_owned());
        }
        let parents: BTreeSet<_> = self.children.keys().map(|&(parent, child)| (child, parent)).collect();
        if !children.iter().eq(&self.children) || !parents.iter().eq(&self.parents) {
            return Err("the index of owners by parent does not match the claims".to_owned());
        }
        let contended = self.claims.values().filter(|claim| claim.holds() && self.is_relevant(claim));
        if !contended.map(|claim| claim.owner_key()).collect::<BTreeSet<_>>().iter().eq(&self.contended) {
            return Err("the index of contended holds does not match the claims".to_owned());
        }
        if !closed.eq(&self.delays) {
            return Err("the index of closed locks does not match the closed locks".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::locks::lock::Lock;
    use crate::state::locks::{Acquire, Command, Ended, Operation, Past};
    use crate::state::sessions::{self, Open};
    use crate::state::{self, Caller, Outcome, OwnerId, Request, SessionId, State};

    const NAME: &[u8] = b"deploy";

    /// Session 1 holds the lock and was told to release it; session 2 waits for it. Session 1 has held it before. The
    /// owner of session 2 acts for owner 3.
    fn locks() -> Locks {
        let mut state = State::default();
        let mut apply = |command: state::Command| state.apply(1, 1, &command, &mut Outcome::default());
        for id in [1, 2] {
            let (label, host, caller) = ("label".to_owned(), "host".to_owned(), Caller::default());
            let (session, ttl_ms, pid, resume, secret_hash) = (SessionId(id), 10_000, 1, false, None);
            apply(
                sessions::Command::Open(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller }).into(),
            );
        }
        let acquire = |owner| {
            let parent = (owner == 2).then_some(OwnerId(3));
            Operation::Acquire(Acquire { parent, ..Acquire::one(NAME, Mode::Exclusive, OwnerId(owner)) })
        };
        let requests =
            [(1, 1, acquire(1)), (1, 2, Operation::Release { acquire: 1 }), (1, 3, acquire(1)), (2, 1, acquire(2))];
        for (session, number, operation) in requests {
            let (session, operation, missing) = (SessionId(session), state::Operation::Locks(operation), Vec::new());
            let request = Request { session, number, seen: 0, missing, caller: Caller::default(), operation };
            apply(state::Command::Request(request));
        }
        apply(Command::Force { lock: NAME.into(), now: false, caller: Caller::default() }.into());
        state.modules.locks
    }

    fn lock(locks: &mut Locks) -> &mut Lock {
        Arc::make_mut(locks.locks.get_mut(NAME).expect("it is used"))
    }

    fn broken<T>(break_it: impl FnOnce(&mut Locks) -> T) -> String {
        let mut locks = locks();
        assert_eq!(locks.check(Grants::ByState, 9), Ok(()));
        break_it(&mut locks);
        locks.check(Grants::ByState, 9).expect_err("something is broken")
    }

    /// Inconsistent indices. No snapshot can cause them, because indices are derived; they would be our own fault.
    #[test]
    fn whatever_does_not_fit_together_is_told() {
        let (holder, waiter) = ((SessionId(1), 3), (SessionId(2), 1));
        let key = |(session, number): (SessionId, u64)| (OwnerId(session.0), session, number);
        let by_owner = "request 3 of session 0000000000000001 is missing in the index of owners";
        assert_eq!(broken(|locks| locks.holds.remove(&key(holder))), by_owner);
        assert_eq!(broken(|locks| locks.waits.insert(key(holder))), by_owner);
        let by_owner = "request 1 of session 0000000000000002 is missing in the index of owners";
        assert_eq!(broken(|locks| locks.waits.remove(&key(waiter))), by_owner);
        assert_eq!(
            broken(|locks| locks.revoked.clear()),
            "request 3 of session 0000000000000001 does not match the index of revoked claims"
        );
        let in_lock = |break_it: fn(&mut Lock)| broken(|locks| break_it(lock(locks)));
        assert_eq!(in_lock(|lock| lock.held = 0), "the lock \"deploy\" has a holder behind a waiter");
        assert_eq!(in_lock(|lock| lock.held = 2), "the lock \"deploy\" has a holder behind a waiter");
        assert_eq!(
            in_lock(|lock| drop(lock.line.replace(Arc::new(Claim::clone(lock.line.get(2).expect("it holds")))))),
            "the lock \"deploy\" has a claim in its line that does not exist"
        );
        assert_eq!(
            in_lock(|lock| lock.line.set_tangled(lock.held_to, true)),
            "the lock \"deploy\" does not match its index of tangled claims"
        );

        assert_eq!(in_lock(|lock| drop(lock.line.remove(3))), "1 places in lines are counted, but 2 exist");
        let stranger = (OwnerId(9), SessionId(9), 9);
        assert_eq!(broken(|locks| locks.waits.insert(stranger)), "3 claims by owner are counted, but 2 exist");
        assert_eq!(
            broken(|locks| locks.revoked.insert((SessionId(9), 9))),
            "2 revoked claims are counted, but 1 exist"
        );
        assert_eq!(broken(|locks| locks.claimed += 1), "3 locks in claims are counted, but 2 exist");
        assert_eq!(broken(|locks| locks.used += 1), "2 used locks are counted, but 1 exist");
        assert_eq!(broken(|locks| locks.history.insert(9, NAME.into())), "2 remembered holds are counted, but 1 exist");
        let by_session = "the counts of locks by session do not match the claims";
        assert_eq!(broken(|locks| locks.counts.clear()), by_session);
        assert_eq!(broken(|locks| locks.counts.insert(SessionId(2), 2)), by_session);
        assert_eq!(broken(|locks| locks.counts.insert(SessionId(9), 1)), by_session);
        let by_parent = "the index of owners by parent does not match the claims";
        assert_eq!(broken(|locks| locks.children.clear()), by_parent);
        assert_eq!(broken(|locks| locks.children.insert((OwnerId(3), OwnerId(2)), 2)), by_parent);
        assert_eq!(broken(|locks| locks.children.insert((OwnerId(1), OwnerId(2)), 1)), by_parent);
        assert_eq!(broken(|locks| locks.parents.clear()), by_parent);
        let by_contended = "the index of contended holds does not match the claims";
        assert_eq!(broken(|locks| locks.contended.clear()), by_contended);
        assert_eq!(broken(|locks| locks.contended.insert(stranger)), by_contended);
        assert_eq!(
            broken(|locks| locks.delays.insert(NAME.into())),
            "the index of closed locks does not match the closed locks"
        );
    }

    #[test]
    fn counters_go_as_far_as_they_may_and_history_does() {
        let mut locks = locks();
        locks.last_fence = COUNTER_MAX;
        assert_eq!(locks.check(Grants::ByState, 9), Ok(()));
        locks.last_fence += 1;
        assert!(locks.check(Grants::ByState, 9).unwrap_err().starts_with("a counter of the locks is at"));

        let most = HISTORY_MAX as u64;
        let mut locks = Locks { last_past: most + 1, ..Locks::default() };
        for order in 1..=most + 1 {
            let (session, label, ended) = (SessionId(1), "label".into(), Ended::Released);
            let past = Past { order, session, label, fence: 0, from_ms: 0, to_ms: 0, ended };
            let name = LockName::from(&order.div_ceil(HISTORY_OF_LOCK_MAX as u64).to_string());
            let lock =
                locks.locks.entry(name.clone()).or_insert_with(|| Arc::new(Lock { permits: 1, ..Lock::default() }));
            Arc::make_mut(lock).remember(past);
            locks.history.insert(order, name);
            if order == most {
                assert_eq!(locks.check(Grants::ByState, 9), Ok(()));
            }
        }
        assert_eq!(
            locks.check(Grants::ByState, 9).unwrap_err(),
            "65537 ended holds are remembered; the limit is 65536"
        );
    }
}
