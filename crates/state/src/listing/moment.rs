//! Converts the state to views at one moment.

use baton_types::views::{Holder, HowEnded, Lock, Past, Session, Waiter};

use crate::frontend::locks::words::mode;
use crate::state::locks::{self, Delay, Ended};
use crate::state::{HolderView, LockView, SessionId, SessionView, WaiterView};

/// The time of the view, and what the state does not know.
pub struct Moment<'a> {
    /// Milliseconds since 1970 on this node.
    pub now_ms: u64,
    /// How long a session still lives if it sends nothing.
    pub expires_in_ms: &'a dyn Fn(SessionId) -> u64,
}

impl Moment<'_> {
    /// `since_ms` is from the clock of an earlier leader, which may be ahead of this node's clock. Then the result is
    /// 0.
    fn since(&self, since_ms: u64) -> u64 {
        self.now_ms.saturating_sub(since_ms)
    }

    /// A lock, without its holders and waiters.
    pub fn lock(&self, lock: LockView<'_>, history: bool) -> Lock {
        let left = |delay: Delay| delay.delay_ms.saturating_sub(self.since(delay.since_ms));
        Lock {
            name: lock.name().as_bytes().to_vec(),
            mode: lock.mode().map(mode),
            permits: lock.permits(),
            holders: Vec::new(),
            waiters: Vec::new(),
            history: if history { lock.history().iter().map(past).collect() } else { Vec::new() },
            lock_delay_ms: lock.delay().map_or(0, left),
        }
    }

    pub fn holder(&self, holder: HolderView<'_>) -> Holder {
        Holder {
            session: holder.session.0,
            owner: holder.owner.0,
            label: holder.label.to_owned(),
            host: holder.host.to_owned(),
            pid: holder.pid,
            fence: holder.fence,
            since_ms: holder.since_ms,
            deadline_in_ms: Some((self.expires_in_ms)(holder.session)),
        }
    }

    pub fn waiter(&self, waiter: WaiterView<'_>) -> Waiter {
        Waiter {
            session: waiter.session.0,
            owner: waiter.owner.0,
            label: waiter.label.to_owned(),
            mode: mode(waiter.mode),
            waiting_ms: self.since(waiter.since_ms),
            position: u32::try_from(waiter.position).unwrap_or(u32::MAX),
        }
    }

    /// A session, without its locks.
    pub fn session(&self, SessionView { id, session, .. }: SessionView<'_>) -> Session {
        Session {
            id: id.0,
            label: session.who.label.to_string(),
            host: session.who.host.to_string(),
            pid: session.who.pid,
            ttl_ms: session.ttl_ms,
            expires_in_ms: Some((self.expires_in_ms)(id)),
            holds: Vec::new(),
            waits: Vec::new(),
        }
    }
}

fn past(past: &locks::Past) -> Past {
    let ended = match past.ended {
        Ended::Released => HowEnded::Released,
        Ended::Expired => HowEnded::Expired,
        Ended::Forced => HowEnded::Forced,
    };
    Past {
        session: past.session.0,
        label: past.label.to_string(),
        fence: past.fence,
        from_ms: past.from_ms,
        to_ms: past.to_ms,
        ended,
    }
}
