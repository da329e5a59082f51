//! What people and the front end ask of the state. Nothing here changes it.

use super::locks::{Claim, Delay, LockName, LockView};
use super::sessions::Session;
use super::{RequestNumber, SessionId, State};

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that are held, waited for, closed or remembered.
    pub locks: usize,
    /// Locks that are held, waited for or closed.
    pub used: usize,
    /// Sessions.
    pub sessions: usize,
    /// Claims that hold.
    pub holders: usize,
    /// Claims that wait.
    pub waiters: usize,
}

/// What a new leader has to arm, each for its whole time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingTimers {
    /// Sessions and their time to live.
    pub sessions: Vec<(SessionId, u64)>,
    /// Acquires that wait with a time-out, in milliseconds.
    pub waits: Vec<(SessionId, RequestNumber, u64)>,
    /// Closed locks, the generations of their delays, and how long these are in milliseconds.
    pub delays: Vec<(LockName, u64, u64)>,
}

/// A session.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    state: &'a State,
    /// Its id.
    pub id: SessionId,
    /// The rest of it.
    pub session: &'a Session,
}

impl State {
    /// The time of the latest entry, for people to read.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The term of the last `Lead`.
    pub fn term(&self) -> u64 {
        self.sessions.term()
    }

    /// The fence of the latest grant; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.locks.last_fence()
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        Counts {
            locks: self.locks.len(),
            used: self.locks.used(),
            sessions: self.sessions.len(),
            holders: self.locks.holding(),
            waiters: self.locks.waiting(),
        }
    }

    /// All locks, by name.
    pub fn locks(&self) -> impl Iterator<Item = LockView<'_>> {
        self.locks_from(b"")
    }

    /// All locks from this name on, by name.
    pub fn locks_from<'a>(&'a self, name: &[u8]) -> impl Iterator<Item = LockView<'a>> + use<'a> {
        self.locks.from(name).map(|(name, lock)| LockView::new(&self.sessions, name, lock))
    }

    /// A lock, if it is held, waited for, closed or remembered.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Option<LockView<'_>> {
        self.locks.get(name.as_ref()).map(|(name, lock)| LockView::new(&self.sessions, name, lock))
    }

    /// All sessions, by id.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions_from(SessionId(0))
    }

    /// All sessions from this id on, by id.
    pub fn sessions_from(&self, id: SessionId) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.from(id).map(|(id, session)| SessionView { state: self, id, session })
    }

    /// A session that has not ended.
    pub fn session(&self, id: SessionId) -> Option<SessionView<'_>> {
        self.sessions.get(id).map(|session| SessionView { state: self, id, session })
    }

    /// Whether a session is one of the last [`ENDED_MAX`](super::sessions::limits::ENDED_MAX) that were closed or expired, and
    /// was not begun anew. An Open of it that does not resume was sent before it ended, and comes late.
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.sessions.has_ended(id)
    }

    /// How many claims wait at this lock.
    pub fn waiters_of(&self, lock: impl AsRef<[u8]>) -> usize {
        self.locks.get(lock.as_ref()).map_or(0, |(_, lock)| lock.line.len() - lock.held)
    }

    /// How many claims this session has, waiting or holding. A claim of several locks is one.
    pub fn claims_of(&self, id: SessionId) -> usize {
        self.locks.count_of(id)
    }

    /// Whether the state has a request of this number, or has its answer ready: it waits, or is answered, seen or not. A request
    /// that is not known would be a new one.
    pub fn request_known(&self, id: SessionId, number: RequestNumber) -> bool {
        self.sessions.get(id).is_some_and(|session| session.is_known(number))
    }

    /// Which timers run, or should. Each is to be armed for its whole time: nobody knows how much of it has passed.
    pub fn pending_timers(&self) -> PendingTimers {
        let wait = |claim: &Claim| Some((claim.session, claim.number, claim.timeout_ms?.get()));
        let delay = |(name, delay): (&LockName, Delay)| (name.clone(), delay.generation, delay.delay_ms);
        PendingTimers {
            sessions: self.sessions().map(|view| (view.id, view.session.ttl_ms)).collect(),
            waits: self.locks.waiting_claims().filter_map(wait).collect(),
            delays: self.locks.closed().map(delay).collect(),
        }
    }
}

impl<'a> SessionView<'a> {
    /// The names of the locks that it holds, in the order in which it asked for them; a lock as often as it holds it.
    pub fn holds(&self) -> impl Iterator<Item = &'a LockName> + use<'a> {
        self.names(true)
    }

    /// The names of the locks that it waits for, in the order in which it asked for them.
    pub fn waits(&self) -> impl Iterator<Item = &'a LockName> + use<'a> {
        self.names(false)
    }

    /// Its claims, in the order of their numbers.
    pub fn claims(&self) -> impl Iterator<Item = &'a Claim> + use<'a> {
        self.claims_from(0)
    }

    /// Its claims from this number on, in the order of their numbers.
    pub fn claims_from(&self, number: RequestNumber) -> impl Iterator<Item = &'a Claim> + use<'a> {
        self.state.locks.claims_from(self.id, number).map(AsRef::as_ref)
    }

    fn names(&self, holds: bool) -> impl Iterator<Item = &'a LockName> + use<'a> {
        let claims = self.claims().filter(move |claim| claim.holds() == holds);
        claims.flat_map(|claim| &claim.wants).map(|want| &want.lock)
    }
}
