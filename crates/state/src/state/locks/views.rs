//! Read access to a lock, for listings and the front end.

use super::lock::Lock;
use super::{Acquire, Claim, Delay, ForcedHolder, LockName, Mode, Past, Ticket};
use crate::state::sessions::{Session, Sessions};
use crate::state::{OwnerId, RequestNumber, SessionId, SessionView, State};

#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    sessions: &'a Sessions,
    name: &'a LockName,
    lock: &'a Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderView<'a> {
    pub ticket: Ticket,
    pub session: SessionId,
    pub acquire: RequestNumber,
    pub owner: OwnerId,
    pub mode: Mode,
    pub label: &'a str,
    pub host: &'a str,
    pub pid: u32,
    pub fence: u64,
    pub since_ms: u64,
    /// True if the session was told to release it.
    pub revoked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterView<'a> {
    pub ticket: Ticket,
    pub session: SessionId,
    pub acquire: RequestNumber,
    pub owner: OwnerId,
    pub mode: Mode,
    pub label: &'a str,
    pub host: &'a str,
    pub pid: u32,
    pub since_ms: u64,
    /// The whole time-out; none means no limit.
    pub timeout_ms: Option<u64>,
    /// The position among the waiters, from 1 on.
    pub position: usize,
}

/// A claim in the line of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    Holder(HolderView<'a>),
    Waiter(WaiterView<'a>),
}

impl From<HolderView<'_>> for ForcedHolder {
    fn from(holder: HolderView<'_>) -> Self {
        let HolderView { session, owner, label, host, pid, fence, since_ms, .. } = holder;
        ForcedHolder { session, owner, label: label.into(), host: host.into(), pid, fence, since_ms }
    }
}

impl<'a> LockView<'a> {
    /// `sessions` must contain the sessions of the claims.
    pub(in crate::state) fn new(sessions: &'a Sessions, name: &'a LockName, lock: &'a Lock) -> Self {
        LockView { sessions, name, lock }
    }

    pub fn name(&self) -> &'a LockName {
        self.name
    }

    /// Whether the lock is held, waited for or closed, and not only remembered.
    pub fn is_used(&self) -> bool {
        self.lock.in_use()
    }

    /// The mode of the holders; none if the lock has no holder.
    pub fn mode(&self) -> Option<Mode> {
        self.lock.holders().next().map(|claim| claim.mode(self.name))
    }

    /// The permits now, or at the last use.
    pub fn permits(&self) -> u32 {
        self.lock.permits
    }

    /// In the order of the grants.
    pub fn holders(&self) -> impl Iterator<Item = HolderView<'a>> + use<'a> {
        let view = *self;
        view.lock.holders().map(move |claim| view.holder(claim))
    }

    /// The next one first.
    pub fn waiters(&self) -> impl Iterator<Item = WaiterView<'a>> + use<'a> {
        let view = *self;
        view.lock.waiters().enumerate().map(move |(index, claim)| view.waiter(index + 1, claim))
    }

    /// Holders and waiters with a ticket above this one, in the order of their tickets.
    pub fn line_after(&self, ticket: Ticket) -> impl Iterator<Item = Standing<'a>> + use<'a> {
        let view = *self;
        let start = view.lock.line.up_to(ticket);
        (start..).zip(view.lock.line.after(ticket)).map(move |(index, claim)| match claim.holds() {
            true => Standing::Holder(view.holder(claim)),
            false => Standing::Waiter(view.waiter(index + 1 - view.lock.held(), claim)),
        })
    }

    fn holder(&self, claim: &'a Claim) -> HolderView<'a> {
        let session = self.session_of(claim);
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
        let session = self.session_of(claim);
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

    /// The ended holds, the oldest first.
    pub fn history(&self) -> &'a [Past] {
        self.lock.history()
    }

    /// The lock-delay, if the lock is closed.
    pub fn delay(&self) -> Option<Delay> {
        self.lock.delay()
    }

    fn session_of(&self, claim: &Claim) -> &'a Session {
        self.sessions.get(claim.session).expect("a session with claims must exist")
    }
}

impl State {
    /// The fence of the latest grant; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.modules.locks.last_fence()
    }

    /// In order of name.
    pub fn locks(&self) -> impl Iterator<Item = LockView<'_>> {
        self.locks_from(b"")
    }

    /// All locks from this name on, in order of name.
    pub fn locks_from<'a>(&'a self, name: &[u8]) -> impl Iterator<Item = LockView<'a>> + use<'a> {
        self.modules.locks.from(name).map(|(name, lock)| LockView::new(&self.sessions, name, lock))
    }

    /// A lock, if it is held, waited for, closed or remembered.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Option<LockView<'_>> {
        self.modules.locks.get(name.as_ref()).map(|(name, lock)| LockView::new(&self.sessions, name, lock))
    }

    /// Number of claims that wait at this lock.
    pub fn waiters_of(&self, lock: impl AsRef<[u8]>) -> usize {
        self.modules.locks.get(lock.as_ref()).map_or(0, |(_, lock)| lock.line.len() - lock.held())
    }

    /// Number of locks that the claims of all sessions hold or wait for.
    pub fn claimed(&self) -> usize {
        self.modules.locks.claimed()
    }

    /// Number of locks that this session holds or waits for. A claim of several locks counts once for each.
    pub fn claimed_by(&self, id: SessionId) -> usize {
        self.modules.locks.claimed_by(id)
    }

    /// Whether the check of a new acquire for a deadlock would take more than
    /// [`VISITS_MAX`](super::limits::VISITS_MAX) visits.
    pub fn is_check_long(&self, session: SessionId, acquire: &Acquire) -> bool {
        self.modules.locks.is_check_long(session, acquire)
    }
}

impl<'a> SessionView<'a> {
    /// The names of the locks that the session holds, in the order of its acquires. A lock appears once per hold.
    pub fn holds(&self) -> impl Iterator<Item = &'a LockName> + use<'a> {
        self.names(true)
    }

    /// The names of the locks that the session waits for, in the order of its acquires.
    pub fn waits(&self) -> impl Iterator<Item = &'a LockName> + use<'a> {
        self.names(false)
    }

    /// In the order of their numbers.
    pub fn claims(&self) -> impl Iterator<Item = &'a Claim> + use<'a> {
        self.claims_from(0)
    }

    /// The claims from this number on, in the order of their numbers.
    pub fn claims_from(&self, number: RequestNumber) -> impl Iterator<Item = &'a Claim> + use<'a> {
        self.state.modules.locks.claims_from(self.id, number).map(AsRef::as_ref)
    }

    fn names(&self, holds: bool) -> impl Iterator<Item = &'a LockName> + use<'a> {
        let claims = self.claims().filter(move |claim| claim.holds() == holds);
        claims.flat_map(|claim| &claim.wants).map(|want| &want.lock)
    }
}
