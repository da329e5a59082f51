//! Tells waiting clients that they wait for a process of the peer group that is silent.

use std::collections::btree_map::Entry;

use baton_types::frames::{Hopeless, ToClient};

use crate::frontend::Frontend;
use crate::state::State;
use crate::state::locks::LockName;

/// A waiting acquire is told at most once in this time.
pub const HOPELESS_AGAIN_MS: u64 = 1_000;

impl Frontend {
    /// Every waiter for these locks waits for a silent process. The front end tells each waiting acquire at most once a
    /// second, so the shell may call this as often as it likes.
    pub fn hopeless<'a>(
        &mut self,
        now_ms: u64,
        state: &State,
        locks: impl IntoIterator<Item = &'a LockName>,
        why: &Hopeless,
    ) {
        if !self.leads() {
            return;
        }
        // Older entries have no effect any more, whether their acquires still wait or not.
        self.modules.locks.told_hopeless.retain(|_, told_ms| now_ms < *told_ms + HOPELESS_AGAIN_MS);
        for lock in locks {
            let waiters = state.lock(lock.as_bytes()).into_iter().flat_map(|lock| lock.waiters());
            for (session, acquire) in waiters.map(|waiter| (waiter.session, waiter.acquire)) {
                if let Entry::Vacant(vacant) = self.modules.locks.told_hopeless.entry((session, acquire)) {
                    vacant.insert(now_ms);
                    self.say(session, ToClient::Hopeless { acquire, why: why.clone() });
                }
            }
        }
    }
}
