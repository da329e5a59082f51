//! Compares the state with the model: every query must give the same result.

use baton_state::state::locks::{self, LockName, Mode, Refusal};
use baton_state::state::sessions::Session;
use baton_state::state::{
    self, Answer, Command, Counts, Effect, HolderView, Outcome, PendingTimers, SessionId, Standing, State, Timer,
    WaiterView,
};

use crate::actions::{LOCKS, SESSIONS};
use crate::model::{Change, Claim, Model, Told, What, waiting};

pub fn apply(state: &mut State, index: u64, now_ms: u64, command: &Command) -> Outcome {
    let mut outcome = Outcome::default();
    state.apply(index, now_ms, command, &mut outcome);
    outcome
}

/// The state's outcome in the form of the model: without the text of an invalid request, and without the cycle of a
/// deadlock.
pub fn in_common(mut outcome: Outcome) -> Told {
    for effect in &mut outcome.effects {
        match effect {
            Effect::Answer { answer: Answer::Refused(state::sessions::Refusal::Invalid(sentence)), .. } => {
                sentence.clear();
            }
            Effect::Answer { answer: Answer::Locks(locks::Answer::Refused(Refusal::Deadlock(cycle))), .. } => {
                cycle.clear();
            }
            _ => {}
        }
    }
    Told { effects: outcome.effects.into_vec(), changes: outcome.changes.iter().map(Change::from).collect() }
}

impl From<&state::Change> for Change {
    fn from(change: &state::Change) -> Self {
        let session = |session: &Session| (session.ttl_ms, session.who.label.to_string());
        let what = match &change.what {
            state::What::Session { id, before, after, .. } => {
                What::Session(*id, before.as_deref().map(session), after.as_deref().map(session))
            }
            state::What::Locks(locks::What::Claim { before, after }) => {
                What::Claim(before.as_deref().map(Claim::from), after.as_deref().map(Claim::from))
            }
            state::What::Locks(locks::What::Delay { lock, before, after }) => {
                What::Delay(lock.clone(), *before, *after)
            }
            other => panic!("{other:?}"),
        };
        Change { index: change.index, position: change.position as usize, revision: change.revision, what }
    }
}

impl From<&locks::Claim> for Claim {
    fn from(claim: &locks::Claim) -> Self {
        let locks::Claim { ticket, revision, session, number, owner, parent, since_ms, revoked, .. } = *claim;
        let wants = claim.wants.iter().map(|want| (want.lock.clone(), want.mode)).collect();
        let (timeout_ms, fence) = (claim.timeout_ms.map(Into::into), claim.fence.map(Into::into));
        let delay_ms = u64::from(claim.lock_delay_ms);
        Claim {
            ticket,
            revision,
            session,
            number,
            owner,
            parent,
            wants,
            timeout_ms,
            since_ms,
            fence,
            revoked,
            delay_ms,
        }
    }
}

/// Checks that each cycle in a new refusal really is a cycle.
pub fn check_cycles(before: &Model, command: &Command, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Answer { session, number, answer: Answer::Locks(locks::Answer::Refused(refusal)) } = effect
            && let Refusal::Deadlock(cycle) = refusal
            && !before.is_answered(*session, *number)
        {
            let new = waiting(command).expect("only an acquire can be refused so");
            assert!(before.is_cycle(&new, cycle), "{cycle:?} is no cycle");
        }
    }
}

pub fn compare(state: &State, model: &Model) {
    assert_eq!(state.check(), Ok(()));
    assert_eq!(state.revision(), model.revision);
    LOCKS.iter().for_each(|name| compare_lock(state, model, &(*name).into()));
    for view in state.sessions() {
        let other = model.sessions.iter().find(|other| other.id == view.id).expect("a session of both");
        assert_eq!((view.session.ttl_ms, &*view.session.who.label), (other.ttl_ms, &*other.label));
        let claims = claims_of(model, view.id);
        let names = |holds: bool| {
            let claims = claims.iter().filter(|claim| claim.fence.is_some() == holds);
            claims.flat_map(|claim| claim.locks()).collect::<Vec<LockName>>()
        };
        assert_eq!(view.holds().cloned().collect::<Vec<_>>(), names(true));
        assert_eq!(view.waits().cloned().collect::<Vec<_>>(), names(false));
        assert_eq!(view.claims().map(Claim::from).collect::<Vec<_>>(), claims);
        let second = claims.get(1).map_or(u64::MAX, |claim| claim.number);
        let later = claims.iter().filter(|claim| claim.number >= second).cloned();
        assert_eq!(view.claims_from(second).map(Claim::from).collect::<Vec<_>>(), later.collect::<Vec<_>>());
    }
    for id in (0..=SESSIONS).map(SessionId) {
        assert_eq!(state.has_ended(id), model.ended.contains(&id), "{id}");
        let claimed: usize = claims_of(model, id).iter().map(|claim| claim.locks().count()).sum();
        assert_eq!(state.claimed_by(id), claimed, "{id}");
        for number in (0..90).chain([u64::MAX]) {
            assert_eq!(state.request_known(id, number), model.is_known(id, number), "{id} {number}");
        }
    }
    compare_totals(state, model);
}

/// In the order of their numbers.
fn claims_of(model: &Model, session: SessionId) -> Vec<Claim> {
    let mut claims: Vec<Claim> = model.claims.iter().filter(|claim| claim.session == session).cloned().collect();
    claims.sort_by_key(|claim| claim.number);
    claims
}

fn compare_lock(state: &State, model: &Model, name: &LockName) {
    let lock = state.lock(name.as_bytes());
    let holders: Vec<_> = lock.iter().flat_map(|lock| lock.holders()).collect();
    let waiters: Vec<_> = lock.iter().flat_map(|lock| lock.waiters()).collect();
    assert_eq!(
        holders
            .iter()
            .map(|h| (h.ticket, h.session, h.acquire, h.owner, Some(h.mode), Some(h.fence), h.since_ms, h.revoked))
            .collect::<Vec<_>>(),
        model
            .holders(name)
            .map(|c| (c.ticket, c.session, c.number, c.owner, c.mode(name), c.fence, c.since_ms, c.revoked))
            .collect::<Vec<_>>(),
    );
    assert_eq!(
        waiters
            .iter()
            .map(|w| (w.position, w.ticket, w.session, w.acquire, w.owner, Some(w.mode), w.timeout_ms, w.since_ms))
            .collect::<Vec<_>>(),
        (1..)
            .zip(model.waiters(name))
            .map(|(at, c)| (at, c.ticket, c.session, c.number, c.owner, c.mode(name), c.timeout_ms, c.since_ms))
            .collect::<Vec<_>>(),
    );
    assert_eq!(state.waiters_of(name.as_bytes()), waiters.len());
    let history = lock.map_or(&[][..], |lock| lock.history());
    let past = model.history.iter().filter(|past| past.lock == *name);
    assert_eq!(
        history.iter().map(|p| (p.session, p.fence, p.from_ms, p.to_ms, p.ended)).collect::<Vec<_>>(),
        past.map(|p| (p.session, p.fence, p.from_ms, p.to_ms, p.ended)).collect::<Vec<_>>(),
    );
    let delay = model.delays.iter().find(|delay| delay.0 == *name).map(|delay| delay.1);
    assert_eq!(lock.and_then(|lock| lock.delay()), delay);
    let Some(lock) = lock else { return };
    let line = holders.iter().copied().map(Standing::Holder).chain(waiters.iter().copied().map(Standing::Waiter));
    let line: Vec<Standing<'_>> = line.collect();
    assert_eq!(lock.line_after(0).collect::<Vec<_>>(), line);
    if let Some(&(Standing::Holder(HolderView { ticket, .. }) | Standing::Waiter(WaiterView { ticket, .. }))) =
        line.first()
    {
        assert_eq!(lock.line_after(ticket).collect::<Vec<_>>(), line[1..]);
    }
    assert_eq!(lock.is_used(), model.is_used(name));
    assert_eq!(lock.mode(), model.holders(name).next().and_then(|claim| claim.mode(name)));
    let permits = model.permits.iter().find(|permits| permits.0 == *name).map(|permits| permits.1);
    assert_eq!(Some(lock.permits()), permits);
    // Checks the promises directly, without the model.
    let shared = holders.iter().all(|holder| holder.mode == Mode::Shared);
    assert!(shared || holders.len() <= lock.permits() as usize, "{name} is held by too many");
    let fences_grow =
        |two: &[state::HolderView<'_>]| two[0].fence < two[1].fence || shared && two[0].fence == two[1].fence;
    assert!(holders.windows(2).all(fences_grow), "{name}: fences of holders");
}

fn compare_totals(state: &State, model: &Model) {
    let mut locks: Vec<LockName> = model.claims.iter().flat_map(Claim::locks).collect();
    locks.extend(model.history.iter().map(|past| past.lock.clone()));
    locks.extend(model.delays.iter().map(|delay| delay.0.clone()));
    locks.sort();
    locks.dedup();
    assert_eq!(state.locks().map(|lock| lock.name().clone()).collect::<Vec<_>>(), locks);
    let from_two = locks.iter().filter(|lock| **lock >= LockName::from("two")).cloned();
    assert_eq!(
        state.locks_from(b"two").map(|lock| lock.name().clone()).collect::<Vec<_>>(),
        from_two.collect::<Vec<_>>()
    );
    let from_2 = model.sessions.iter().filter(|session| session.id >= SessionId(2)).count();
    assert_eq!(state.sessions_from(SessionId(2)).count(), from_2);
    let used = locks.iter().filter(|lock| model.is_used(lock)).count();
    let holders = model.claims.iter().filter(|claim| claim.fence.is_some()).count();
    let waiters = model.claims.len() - holders;
    assert_eq!(state.counts(), Counts { locks: locks.len(), used, sessions: model.sessions.len(), holders, waiters });
    let mut pending = state.pending_timers();
    pending.timers.sort();
    let waits = model.claims.iter().filter(|claim| claim.fence.is_none());
    let delay = |(lock, delay): &(LockName, locks::Delay)| {
        let timer = locks::Timer::Delay { lock: lock.clone(), generation: delay.generation };
        (Timer::Locks(timer), delay.delay_ms)
    };
    let wait = |claim: &Claim| {
        let timer = locks::Timer::Wait { session: claim.session, number: claim.number };
        Some((Timer::Locks(timer), claim.timeout_ms?))
    };
    let mut expected = PendingTimers {
        sessions: model.sessions.iter().map(|session| (session.id, session.ttl_ms)).collect(),
        timers: waits.filter_map(wait).chain(model.delays.iter().map(delay)).collect(),
        closed_ms: None,
    };
    expected.sessions.sort();
    expected.timers.sort();
    assert_eq!(pending, expected);
}
