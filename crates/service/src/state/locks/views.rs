//! What people and the front end ask of a lock. Nothing here changes it.

use super::lock::Lock;
use super::{Claim, Delay, ForcedHolder, LockName, Mode, Past, Ticket};
use crate::state::sessions::{Session, Sessions};
use crate::state::{OwnerId, RequestNumber, SessionId};

/// A lock.
#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    sessions: &'a Sessions,
    name: &'a LockName,
    lock: &'a Lock,
}

/// A claim that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderView<'a> {
    /// Its place in log order.
    pub ticket: Ticket,
    /// The session of the client.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// Deadlocks are looked for among owners: a session may have several.
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
    /// The session of the client.
    pub session: SessionId,
    /// Which of its requests.
    pub acquire: RequestNumber,
    /// Deadlocks are looked for among owners: a session may have several.
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

impl From<HolderView<'_>> for ForcedHolder {
    fn from(holder: HolderView<'_>) -> Self {
        let HolderView { session, owner, label, host, pid, fence, since_ms, .. } = holder;
        ForcedHolder { session, owner, label: label.into(), host: host.into(), pid, fence, since_ms }
    }
}

impl<'a> LockView<'a> {
    /// A lock, whose claims are of these sessions.
    pub(in crate::state) fn new(sessions: &'a Sessions, name: &'a LockName, lock: &'a Lock) -> Self {
        LockView { sessions, name, lock }
    }

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
    pub fn holders(&self) -> impl Iterator<Item = HolderView<'a>> + use<'a> {
        let view = *self;
        view.lock.holders().map(move |claim| view.holder(claim))
    }

    /// Who waits for it, the next first.
    pub fn waiters(&self) -> impl Iterator<Item = WaiterView<'a>> + use<'a> {
        let view = *self;
        view.lock.waiters().enumerate().map(move |(index, claim)| view.waiter(index + 1, claim))
    }

    /// Holders and waiters whose tickets come after this one, in the order of their tickets.
    pub fn line_after(&self, ticket: Ticket) -> impl Iterator<Item = Standing<'a>> + use<'a> {
        let view = *self;
        let start = view.lock.line.up_to(ticket);
        (start..).zip(view.lock.line.from(start)).map(move |(index, claim)| match claim.holds() {
            true => Standing::Holder(view.holder(claim)),
            false => Standing::Waiter(view.waiter(index + 1 - view.lock.held, claim)),
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

    /// Who held it, the oldest first.
    pub fn history(&self) -> &'a [Past] {
        self.lock.history()
    }

    /// Whether it is closed.
    pub fn delay(&self) -> Option<Delay> {
        self.lock.delay()
    }

    fn session_of(&self, claim: &Claim) -> &'a Session {
        self.sessions.get(claim.session).expect("a session that has claims is there")
    }
}
