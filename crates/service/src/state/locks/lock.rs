//! One lock: its line of claims.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Ticket};
use super::limits::HISTORY_OF_LOCK_MAX;
use super::line::Line;
use super::{LockName, Mode, Past};

/// A lock-delay: the lock is closed, because the session of a holder expired and the holder's process may not have
/// noticed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// `EndLockDelay` must name this number.
    pub generation: u64,
    /// The whole length of the delay.
    pub delay_ms: u64,
    pub since_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The first `held` claims hold the lock, the others wait. No claim overtakes another.
    pub line: Line,
    pub held: usize,
    /// 1 for exclusive and shared. It can change only while the lock is not in use.
    pub permits: u32,
    /// Boxed, because most locks have none of it.
    pub aside: Option<Box<Aside>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    pub delay: Option<Delay>,
    pub history: Vec<Past>,
    /// The fence of a claim that shared the lock and has left, if it is higher than the fences of the remaining
    /// holders.
    pub left_fence: Option<NonZeroU64>,
}

impl Lock {
    pub fn delay(&self) -> Option<Delay> {
        self.aside.as_ref()?.delay
    }

    pub fn history(&self) -> &[Past] {
        self.aside.as_ref().map_or(&[], |aside| &aside.history)
    }

    /// Changes the boxed part, and removes it if it is empty.
    pub fn set_aside<T>(&mut self, change: impl FnOnce(&mut Aside) -> T) -> T {
        let mut aside = self.aside.take().unwrap_or_default();
        let changed = change(&mut aside);
        self.aside = (!aside.is_empty()).then_some(aside);
        changed
    }

    pub fn holders(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.line.iter().take(self.held)
    }

    pub fn waiters(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.line.from(self.held)
    }

    pub fn next_waiter(&self) -> Option<&Arc<Claim>> {
        self.line.get(self.held)
    }

    /// While a lock is in use, all claims must name the same number of permits.
    pub fn in_use(&self) -> bool {
        !self.line.is_empty() || self.delay().is_some()
    }

    /// Whether a claim in this mode could hold the lock beside the present holders, regardless of waiters. All holders
    /// have the same mode, so only the first is checked.
    pub fn admits(&self, name: &LockName, mode: Mode) -> bool {
        if self.delay().is_some() {
            return false;
        }
        match self.holders().next() {
            None => true,
            Some(first) => first.mode(name).shares_with(mode) || self.held < self.permits as usize,
        }
    }

    /// The fence of the last grant, if a claim in this mode would share the lock with its holders.
    pub fn shared_fence(&self, name: &LockName, mode: Mode) -> Option<NonZeroU64> {
        let last = self.last_holder()?;
        let fence = last.fence.max(self.aside.as_ref().and_then(|aside| aside.left_fence));
        if last.mode(name).shares_with(mode) { fence } else { None }
    }

    fn last_holder(&self) -> Option<&Arc<Claim>> {
        self.line.get(self.held.checked_sub(1)?)
    }

    /// The claim must be in the line.
    pub fn position(&self, ticket: Ticket) -> usize {
        self.line.position(ticket).expect("a claim is in the line of each of its locks")
    }

    pub fn push(&mut self, claim: Arc<Claim>) {
        assert!(self.line.iter().next_back().is_none_or(|last| last.ticket < claim.ticket), "tickets only grow");
        self.held += usize::from(claim.holds());
        self.line.push(claim);
    }

    /// `mode` is the mode in which the claim wants the lock.
    pub fn remove(&mut self, ticket: Ticket, mode: Mode) {
        let at = self.position(ticket);
        let claim = self.line.remove(at);
        assert_eq!(claim.holds(), at < self.held, "the first in the line hold, the others wait");
        self.held -= usize::from(claim.holds());
        self.keep_fence(claim.fence, mode);
    }

    /// Replaces the old version of a claim.
    pub fn replace(&mut self, claim: Arc<Claim>) {
        let at = self.position(claim.ticket);
        self.held += usize::from(claim.holds());
        self.held -= usize::from(self.line[at].holds());
        self.line.replace(at, claim);
        assert_eq!(self.line[at].holds(), at < self.held, "the first in the line hold, the others wait");
    }

    /// Remembers an ended hold. If the lock remembers too many, forgets the oldest, and returns its order.
    pub fn remember(&mut self, past: Past) -> Option<u64> {
        self.set_aside(|aside| {
            let is_full = aside.history.len() == HISTORY_OF_LOCK_MAX;
            let forgotten = is_full.then(|| aside.history.remove(0).order);
            if aside.history.is_empty() {
                // Most locks have few ended holds, so the vector starts with room for one.
                aside.history.reserve_exact(1);
            }
            aside.history.push(past);
            forgotten
        })
    }

    /// An idle lock can be forgotten.
    pub fn is_idle(&self) -> bool {
        self.line.is_empty() && self.aside.is_none()
    }

    /// A claim with this fence has left. A claim of several locks has its own fence, so it can be higher than the
    /// fences of the claims that still share the lock. Claims that join them later must not get a lower fence.
    fn keep_fence(&mut self, fence: Option<NonZeroU64>, mode: Mode) {
        match self.last_holder() {
            Some(last) if mode == Mode::Shared && last.fence < fence => {
                self.set_aside(|aside| aside.left_fence = aside.left_fence.max(fence));
            }
            None if self.aside.is_some() => self.set_aside(|aside| aside.left_fence = None),
            _ => {}
        }
    }
}

impl Aside {
    pub fn is_empty(&self) -> bool {
        self.delay.is_none() && self.history.is_empty() && self.left_fence.is_none()
    }
}
