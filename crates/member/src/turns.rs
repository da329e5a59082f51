//! When a member asks its group for a lock, and when it leaves again. Pure.
//!
//! A lock is *idle*, *asked* for, or the member is *inside*. A member asks when a local claim waits, and only one entry at
//! a time. It stays inside while a local claim holds the lock, and while a lock-delay keeps the lock closed. Then it
//! leaves, and asks again if another claim waits. If all waiters are gone when the group lets the member in, the member
//! leaves at once.

use std::collections::HashMap;

use baton_state::state::State;
use baton_state::state::locks::LockName;

/// What the member must tell its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Ask(LockName),
    Leave(LockName),
}

/// An idle lock has no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Asked,
    Inside,
}

/// What a lock looks like in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// A claim waits for the lock.
    pub waits: bool,
    /// A claim holds the lock, or a lock-delay keeps it closed.
    pub in_use: bool,
}

impl Seen {
    pub fn of(state: &State, lock: &LockName) -> Self {
        state.lock(lock.as_bytes()).map_or(Seen { waits: false, in_use: false }, |view| Seen {
            waits: state.waiters_of(lock.as_bytes()) > 0,
            in_use: view.mode().is_some() || view.delay().is_some(),
        })
    }
}

#[derive(Debug, Default)]
pub struct Turns {
    locks: HashMap<LockName, Turn>,
    actions: Vec<Action>,
}

impl Turns {
    /// The lock may have changed.
    pub fn look(&mut self, lock: &LockName, seen: Seen) {
        let turn = self.locks.get(lock).copied();
        assert!(
            !seen.in_use || turn == Some(Turn::Inside),
            "{lock:?} is in use, but the group did not let the member in"
        );
        if turn == Some(Turn::Inside) && !seen.in_use {
            self.leave(lock);
        }
        if !seen.in_use && seen.waits && turn != Some(Turn::Asked) {
            self.locks.insert(lock.clone(), Turn::Asked);
            self.actions.push(Action::Ask(lock.clone()));
        }
    }

    /// The group lets the member in. Returns whether a waiter must be admitted now; otherwise the member leaves at once.
    pub fn granted(&mut self, lock: &LockName, seen: Seen) -> bool {
        self.asked(lock);
        self.locks.insert(lock.clone(), Turn::Inside);
        if !seen.waits {
            self.leave(lock);
        }
        seen.waits
    }

    /// The group does not let the member in, and will not do so later.
    pub fn refused(&mut self, lock: &LockName) {
        self.asked(lock);
        self.locks.remove(lock);
    }

    /// What the member must tell its group, in order. Each action is returned once.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The locks that the member has asked for.
    pub fn asked_for(&self) -> impl Iterator<Item = &LockName> {
        self.locks.iter().filter(|(_, turn)| **turn == Turn::Asked).map(|(lock, _)| lock)
    }

    fn asked(&self, lock: &LockName) {
        assert_eq!(self.locks.get(lock), Some(&Turn::Asked), "the group answers once for each time it is asked");
    }

    fn leave(&mut self, lock: &LockName) {
        self.locks.remove(lock);
        self.actions.push(Action::Leave(lock.clone()));
    }
}
