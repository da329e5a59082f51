//! What people and the api ask of the table. Nothing here changes it.

use super::lock::{Claim, Holder, Lock, Waiter};
use super::session::Session;
use super::{Mode, OwnerId, Past, RequestNumber, SessionId, Table};

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that are held, waited for, closed or remembered.
    pub locks: usize,
    /// Sessions.
    pub sessions: usize,
    /// Acquires that hold.
    pub holders: usize,
    /// Acquires that wait.
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
    pub delays: Vec<(String, u64, u64)>,
}

/// A lock.
#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    table: &'a Table,
    lock: &'a Lock,
}

/// A session.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    table: &'a Table,
    session: &'a Session,
    /// Its id.
    pub id: SessionId,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// What it is.
    pub label: &'a str,
    /// Where it runs.
    pub host: &'a str,
    /// As which process.
    pub pid: u32,
}

/// An acquire that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderView<'a> {
    /// Whose.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// For whom.
    pub owner: OwnerId,
    /// How.
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

/// An acquire that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterView<'a> {
    /// Whose.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// For whom.
    pub owner: OwnerId,
    /// How it wants the lock.
    pub mode: Mode,
    /// What the session is.
    pub label: &'a str,
    /// Where it runs.
    pub host: &'a str,
    /// As which process.
    pub pid: u32,
    /// Since when.
    pub since_ms: u64,
    /// For how long it wants to, in all; none is for ever.
    pub timeout_ms: Option<u64>,
    /// From 1 on.
    pub position: usize,
}

/// That a lock is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayView {
    /// What its end has to name.
    pub generation: u64,
    /// For how long, in all.
    pub delay_ms: u64,
    /// Since when.
    pub since_ms: u64,
}

impl Table {
    /// The time of the latest entry, for people to read.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The term of the last `Lead`.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The fence of the latest grant; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.last_fence
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        Counts {
            locks: self.locks.by_name().len(),
            sessions: self.sessions.len(),
            holders: self.locks.holds(),
            waiters: self.locks.waits().len(),
        }
    }

    /// All locks, by name.
    pub fn locks(&self) -> impl Iterator<Item = LockView<'_>> {
        self.locks.by_name().filter_map(|(_, id)| Some(LockView { table: self, lock: self.locks.get(id)? }))
    }

    /// A lock, if it is held, waited for, closed or remembered.
    pub fn lock(&self, name: &str) -> Option<LockView<'_>> {
        Some(LockView { table: self, lock: self.locks.get(self.locks.find(name)?)? })
    }

    /// All sessions, by id.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.iter().map(|(&id, session)| self.view(id, session))
    }

    /// A session that has not ended.
    pub fn session(&self, id: SessionId) -> Option<SessionView<'_>> {
        self.sessions.get(&id).map(|session| self.view(id, session))
    }

    /// Which timers run, or should. Each is to be armed for its whole time: nobody knows how much of it has passed.
    pub fn pending_timers(&self) -> PendingTimers {
        let wait = |waiter: &Waiter| Some((waiter.claim.session, waiter.claim.number, waiter.timeout_ms?));
        let delay = |lock: &Lock| lock.delay.map(|delay| (lock.name.to_string(), delay.generation, delay.delay_ms));
        PendingTimers {
            sessions: self.sessions.iter().map(|(&id, session)| (id, session.ttl_ms)).collect(),
            waits: self.locks.waits().filter_map(wait).collect(),
            delays: self.locks.delays().filter_map(delay).collect(),
        }
    }

    fn view<'a>(&'a self, id: SessionId, session: &'a Session) -> SessionView<'a> {
        let Session { ttl_ms, ref label, ref host, pid, .. } = *session;
        SessionView { table: self, session, id, ttl_ms, label, host, pid }
    }

    /// What people are told of a session: label, host, process.
    fn who(&self, claim: &Claim) -> (&str, &str, u32) {
        self.sessions.get(&claim.session).map_or(("", "", 0), |session| (&*session.label, &*session.host, session.pid))
    }
}

impl<'a> LockView<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.lock.name
    }

    /// Whether it is held, waited for or closed, and not only remembered.
    pub fn is_used(&self) -> bool {
        !self.lock.holders.is_empty() || !self.lock.waiters.is_empty() || self.delay().is_some()
    }

    /// How it is held, if it is.
    pub fn mode(&self) -> Option<Mode> {
        self.lock.holders.first().map(|holder| holder.claim.mode)
    }

    /// How many permits it has, or had when it was last used.
    pub fn permits(&self) -> u32 {
        self.lock.permits
    }

    /// Who holds it, in the order in which they were granted it.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = HolderView<'a>> + use<'a> {
        let table = self.table;
        self.lock.holders.iter().map(move |Holder { claim, fence, revoked }| {
            let (label, host, pid) = table.who(claim);
            HolderView {
                session: claim.session,
                acquire: claim.number,
                owner: claim.owner,
                mode: claim.mode,
                label,
                host,
                pid,
                fence: *fence,
                since_ms: claim.since_ms,
                revoked: *revoked,
            }
        })
    }

    /// Who waits for it, the next first.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = WaiterView<'a>> + use<'a> {
        let table = self.table;
        self.lock.waiters.iter().enumerate().map(move |(index, Waiter { claim, timeout_ms })| {
            let (label, host, pid) = table.who(claim);
            WaiterView {
                session: claim.session,
                acquire: claim.number,
                owner: claim.owner,
                mode: claim.mode,
                label,
                host,
                pid,
                since_ms: claim.since_ms,
                timeout_ms: *timeout_ms,
                position: index + 1,
            }
        })
    }

    /// Who held it, the oldest first.
    pub fn history(&self) -> &'a [Past] {
        &self.lock.history
    }

    /// Whether it is closed.
    pub fn delay(&self) -> Option<DelayView> {
        let delay = self.lock.delay?;
        Some(DelayView { generation: delay.generation, delay_ms: delay.delay_ms, since_ms: delay.since_ms })
    }
}

impl<'a> SessionView<'a> {
    /// The names of the locks that it holds, in the order in which it asked for them; a lock as often as it holds it.
    pub fn holds(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.names(true)
    }

    /// The names of the locks that it waits for, in the order in which it asked for them.
    pub fn waits(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.names(false)
    }

    fn names(&self, holds: bool) -> impl Iterator<Item = &'a str> + use<'a> {
        let (table, session) = (self.table, self.session);
        let places = session.places().filter(move |(_, place)| place.holds == holds);
        places.filter_map(|(_, place)| table.locks.get(place.lock)).map(|lock| &*lock.name)
    }
}
