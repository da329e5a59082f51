//! What people and the api ask of the state. Nothing here changes it.

use super::locks::{Claim, Delay, Lock, LockName, Mode, Past, Ticket};
use super::sessions::Session;
use super::{OwnerId, RequestNumber, SessionId, State};

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

/// A lock.
#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    state: &'a State,
    name: &'a LockName,
    lock: &'a Lock,
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

/// A claim that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderView<'a> {
    /// Its place in log order.
    pub ticket: Ticket,
    /// Whose.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// For whom.
    pub owner: OwnerId,
    /// How it holds this lock.
    pub mode: Mode,
    /// What the session is.
    pub label: &'a str,
    /// Where it runs.
    pub host: &'a str,
    /// As which process.
    pub pid: u32,
    /// Under which fence.
    pub fence: u64,
    /// Since when.
    pub since_ms: u64,
    /// It was told to give the lock back.
    pub revoked: bool,
}

/// A claim that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterView<'a> {
    /// Its place in log order.
    pub ticket: Ticket,
    /// Whose.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// For whom.
    pub owner: OwnerId,
    /// How it wants this lock.
    pub mode: Mode,
    /// What the session is.
    pub label: &'a str,
    /// Where it runs.
    pub host: &'a str,
    /// As which process.
    pub pid: u32,
    /// Since when.
    pub since_ms: u64,
    /// How long it waits, in all; none is for ever.
    pub timeout_ms: Option<u64>,
    /// From 1 on.
    pub position: usize,
}

/// A claim at a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It holds the lock.
    Holder(HolderView<'a>),
    /// It waits for the lock.
    Waiter(WaiterView<'a>),
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
        self.locks.from(name).map(|(name, lock)| LockView { state: self, name, lock })
    }

    /// A lock, if it is held, waited for, closed or remembered.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Option<LockView<'_>> {
        self.locks.get(name.as_ref()).map(|(name, lock)| LockView { state: self, name, lock })
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

    /// The session of a claim.
    fn session_of(&self, claim: &Claim) -> &Session {
        self.sessions.get(claim.session).expect("a session that has claims is there")
    }
}

impl<'a> LockView<'a> {
    /// Its name.
    pub fn name(&self) -> &'a LockName {
        self.name
    }

    /// Whether it is held, waited for or closed, and not only remembered.
    pub fn is_used(&self) -> bool {
        self.lock.in_use()
    }

    /// How it is held, if it is.
    pub fn mode(&self) -> Option<Mode> {
        self.lock.holders().next().map(|claim| claim.mode(self.name))
    }

    /// How many permits it has, or had when it was last used.
    pub fn permits(&self) -> u32 {
        self.lock.permits
    }

    /// Who holds it, in the order in which they were granted it.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = HolderView<'a>> + use<'a> {
        let view = *self;
        view.lock.holders().map(move |claim| view.holder(claim))
    }

    /// Who waits for it, the next first.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = WaiterView<'a>> + use<'a> {
        let view = *self;
        view.lock.waiters().enumerate().map(move |(index, claim)| view.waiter(index + 1, claim))
    }

    /// Holders and waiters whose tickets come after this one, in the order of their tickets.
    pub fn line_after(&self, ticket: Ticket) -> impl Iterator<Item = Standing<'a>> + use<'a> {
        let view = *self;
        let start = view.lock.line.partition_point(|claim| claim.ticket <= ticket);
        (start..).zip(view.lock.line.range(start..)).map(move |(index, claim)| match claim.holds() {
            true => Standing::Holder(view.holder(claim)),
            false => Standing::Waiter(view.waiter(index + 1 - view.lock.held, claim)),
        })
    }

    fn holder(&self, claim: &'a Claim) -> HolderView<'a> {
        let session = self.state.session_of(claim);
        HolderView {
            ticket: claim.ticket,
            session: claim.session,
            acquire: claim.number,
            owner: claim.owner,
            mode: claim.mode(self.name),
            label: &session.label,
            host: &session.host,
            pid: session.pid,
            fence: claim.fence.expect("a holder has a fence").get(),
            since_ms: claim.since_ms,
            revoked: claim.revoked,
        }
    }

    fn waiter(&self, position: usize, claim: &'a Claim) -> WaiterView<'a> {
        let session = self.state.session_of(claim);
        WaiterView {
            ticket: claim.ticket,
            session: claim.session,
            acquire: claim.number,
            owner: claim.owner,
            mode: claim.mode(self.name),
            label: &session.label,
            host: &session.host,
            pid: session.pid,
            since_ms: claim.since_ms,
            timeout_ms: claim.timeout_ms.map(u64::from),
            position,
        }
    }

    /// Who held it, the oldest first.
    pub fn history(&self) -> &'a [Past] {
        self.lock.history()
    }

    /// Whether it is closed.
    pub fn delay(&self) -> Option<Delay> {
        self.lock.delay()
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
