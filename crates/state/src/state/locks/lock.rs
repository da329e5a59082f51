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
    pub held: u32,
    /// The ticket of the last claim that holds the lock; 0 if none holds it.
    pub held_to: Ticket,
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

    /// Number of claims that hold the lock.
    pub fn held(&self) -> usize {
        self.held as usize
    }

    pub fn holders(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.line.iter().take(self.held())
    }

    pub fn waiters(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.line.after(self.held_to)
    }

    pub fn next_waiter(&self) -> Option<&Arc<Claim>> {
        self.waiters().next()
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
            Some(first) => first.mode(name).shares_with(mode) || self.held < self.permits,
        }
    }

    /// The fence of the last grant, if a claim in this mode would share the lock with its holders.
    pub fn shared_fence(&self, name: &LockName, mode: Mode) -> Option<NonZeroU64> {
        let last = self.last_holder()?;
        let fence = last.fence.max(self.aside.as_ref().and_then(|aside| aside.left_fence));
        if last.mode(name).shares_with(mode) { fence } else { None }
    }

    fn last_holder(&self) -> Option<&Arc<Claim>> {
        self.line.get(self.held_to)
    }

    /// Adds a new claim, which wants the lock in this mode.
    pub fn push(&mut self, claim: Arc<Claim>, mode: Mode) {
        assert!(self.line.last().is_none_or(|last| last.ticket < claim.ticket), "tickets only grow");
        assert!(!claim.holds() || self.next_waiter().is_none(), "no claim overtakes another");
        self.restore(claim, mode);
    }

    /// Adds a claim of a snapshot. Claims may come in any order.
    pub fn restore(&mut self, claim: Arc<Claim>, mode: Mode) {
        if claim.holds() {
            self.held += 1;
            self.held_to = self.held_to.max(claim.ticket);
        }
        self.line.push(claim, mode);
    }

    /// `mode` is the mode in which the claim wants the lock.
    pub fn remove(&mut self, ticket: Ticket, mode: Mode) {
        let claim = self.line.remove(ticket);
        assert_eq!(claim.holds(), ticket <= self.held_to, "the first in the line hold, the others wait");
        self.held -= u32::from(claim.holds());
        if ticket == self.held_to {
            self.held_to = self.line.before(ticket).map_or(0, |holder| holder.ticket);
        }
        self.keep_fence(claim.fence, mode);
    }

    /// Replaces the old version of a claim.
    pub fn replace(&mut self, claim: Arc<Claim>) {
        let ticket = claim.ticket;
        if claim.holds() && ticket > self.held_to {
            let is_next = self.next_waiter().is_some_and(|next| next.ticket == ticket);
            assert!(is_next, "the first in the line hold, the others wait");
            self.held += 1;
            self.held_to = ticket;
        }
        let (holds, before) = (claim.holds(), self.line.replace(claim));
        assert!(holds || !before.holds(), "a holder does not wait again");
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
