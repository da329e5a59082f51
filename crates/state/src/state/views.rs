//! Read access to the state, for listings and the front end.

use super::cluster::Cluster;
use super::sessions::Session;
use super::{RequestNumber, SessionId, State, Timer};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that are held, waited for, closed or remembered.
    pub locks: usize,
    /// Locks that are held, waited for or closed.
    pub used: usize,
    pub sessions: usize,
    /// Number of claims that hold.
    pub holders: usize,
    /// Number of claims that wait.
    pub waiters: usize,
}

/// The timers that a new leader must arm, each for its full time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingTimers {
    /// Sessions and their TTL in milliseconds.
    pub sessions: Vec<(SessionId, u64)>,
    /// The timers of the modules, and their times in milliseconds.
    pub timers: Vec<(Timer, u64)>,
    /// How long the cluster still grants nothing, in milliseconds; none if it is open.
    pub closed_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    pub(in crate::state) state: &'a State,
    pub id: SessionId,
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

    /// The secret, the longest TTL, and how long nothing is granted.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn counts(&self) -> Counts {
        Counts {
            locks: self.modules.locks.len(),
            used: self.modules.locks.used(),
            sessions: self.sessions.len(),
            holders: self.modules.locks.holding(),
            waiters: self.modules.locks.waiting(),
        }
    }

    /// In order of id.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions_from(SessionId(0))
    }

    /// All sessions from this id on, in order of id.
    pub fn sessions_from(&self, id: SessionId) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.from(id).map(|(id, session)| SessionView { state: self, id, session })
    }

    /// A session that has not ended.
    pub fn session(&self, id: SessionId) -> Option<SessionView<'_>> {
        self.sessions.get(id).map(|session| SessionView { state: self, id, session })
    }

    /// Whether a session is one of the last [`ENDED_MAX`](super::sessions::limits::ENDED_MAX) that were closed or
    /// expired, and did not begin again. If so, an Open of it that does not resume was sent before the end, and has
    /// arrived late.
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.sessions.has_ended(id)
    }

    /// Whether the state has a request of this number, or has its answer ready: the request waits, or is answered, seen
    /// or not. If not, a request of this number would be new.
    pub fn request_known(&self, id: SessionId, number: RequestNumber) -> bool {
        self.sessions.get(id).is_some_and(|session| session.is_known(number))
    }

    /// The timers that should run now. The caller must arm each for its full time, because the state does not know how
    /// much of it has passed.
    pub fn pending_timers(&self) -> PendingTimers {
        PendingTimers {
            sessions: self.sessions().map(|view| (view.id, view.session.ttl_ms)).collect(),
            timers: self.modules.timers().collect(),
            closed_ms: self.cluster.closed_ms(),
        }
    }
}
