//! A closed cluster, which grants nothing, and the floor of its fences. When the cluster opens, all locks are granted at
//! once.

use super::{Delay, Effect, Locks, Names};
use crate::state::turn::Turn;

impl Locks {
    /// The next fence is at least this one.
    pub(super) fn raise_fences(&mut self, from: u64) {
        self.last_fence = self.last_fence.max(from.saturating_sub(1));
    }

    /// Grants nothing from now on.
    pub(super) fn shut(&mut self) {
        self.closed = true;
    }

    /// Grants every lock to its first waiters. The lock-delays begin now: they come after the leases.
    pub(super) fn open(&mut self, turn: &mut Turn<'_>) {
        self.closed = false;
        let delays: Vec<_> = self.closed().map(|(name, delay)| (name.clone(), delay)).collect();
        for (lock, Delay { generation, delay_ms, .. }) in delays {
            turn.tell(Effect::LockDelay { lock, generation, delay_ms });
        }
        let waited_for = self.locks.iter().filter(|(_, lock)| lock.next_waiter().is_some());
        let names: Names = waited_for.map(|(name, _)| name.clone()).collect();
        self.grant_next(turn, names);
    }
}
