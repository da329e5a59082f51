//! One lock: the claims that stand at it, in order.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Ticket};
use super::limits::HISTORY_OF_LOCK_MAX;
use super::line::Line;
use super::{LockName, Mode, Past};

/// The lock is closed: a holder expired, and its process may not have noticed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// What its end has to name.
    pub generation: u64,
    /// How long, in all.
    pub delay_ms: u64,
    /// Since when.
    pub since_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The first `held` of them hold the lock, the others wait: nobody overtakes.
    pub line: Line,
    pub held: usize,
    /// 1 for exclusive and shared. It can change whenever the lock is not in use.
    pub permits: u32,
    /// What most locks do not have.
    pub aside: Option<Box<Aside>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    pub delay: Option<Delay>,
    pub history: Vec<Past>,
    /// A fence that is higher than those of the holders when it was kept: a claim that shared the lock with them had it, and has
    /// left.
    pub left_fence: Option<NonZeroU64>,
}

impl Lock {
    pub fn delay(&self) -> Option<Delay> {
        self.aside.as_ref()?.delay
    }

    pub fn history(&self) -> &[Past] {
        self.aside.as_ref().map_or(&[], |aside| &aside.history)
    }

    /// Changes what is aside, and forgets it if nothing is left of it.
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

    /// While it is in use all claims must agree about its permits.
    pub fn in_use(&self) -> bool {
        !self.line.is_empty() || self.delay().is_some()
    }

    /// Whether it could be held so, besides its present holders, whatever waits. All holders hold it alike: one is looked at.
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

    /// Where in the line a claim that stands there is.
    pub fn position(&self, ticket: Ticket) -> usize {
        self.line.position(ticket).expect("a claim stands at the locks that it wants")
    }

    /// Adds a claim at the end of the line.
    pub fn push(&mut self, claim: Arc<Claim>) {
        assert!(self.line.iter().next_back().is_none_or(|last| last.ticket < claim.ticket), "tickets only grow");
        self.held += usize::from(claim.holds());
        self.line.push(claim);
    }

    /// Takes a claim that wants the lock in this mode out of the line.
    pub fn remove(&mut self, ticket: Ticket, mode: Mode) {
        let at = self.position(ticket);
        let claim = self.line.remove(at);
        assert_eq!(claim.holds(), at < self.held, "the first in the line hold, the others wait");
        self.held -= usize::from(claim.holds());
        self.keep_fence(claim.fence, mode);
    }

    /// Puts a claim in the place of what it was before.
    pub fn replace(&mut self, claim: Arc<Claim>) {
        let at = self.position(claim.ticket);
        self.held += usize::from(claim.holds());
        self.held -= usize::from(self.line[at].holds());
        self.line.replace(at, claim);
        assert_eq!(self.line[at].holds(), at < self.held, "the first in the line hold, the others wait");
    }

    /// Remembers an ended hold. If that is one too many, forgets the oldest and gives its order.
    pub fn remember(&mut self, past: Past) -> Option<u64> {
        self.set_aside(|aside| {
            let is_full = aside.history.len() == HISTORY_OF_LOCK_MAX;
            let forgotten = is_full.then(|| aside.history.remove(0).order);
            if aside.history.is_empty() {
                // Most locks have few: no room for more until there are.
                aside.history.reserve_exact(1);
            }
            aside.history.push(past);
            forgotten
        })
    }

    /// A lock that nobody uses and that has no history is as good as one that never was.
    pub fn is_idle(&self) -> bool {
        self.line.is_empty() && self.aside.is_none()
    }

    /// A claim with this fence has left. Claims of several locks have fences of their own, so it can be higher than those of the
    /// claims that still share the lock. Claims that join them must not get a lower one.
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
