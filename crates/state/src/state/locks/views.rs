//! Read access to a lock, for listings and the front end.

use super::lock::Lock;
use super::{Claim, Delay, ForcedHolder, LockName, Mode, Past, Ticket};
use crate::state::sessions::{Session, Sessions};
use crate::state::{OwnerId, RequestNumber, SessionId};

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
