//! All locks, and the ways to find them: by name, by who owns what, by what is to be forgotten first. Only the locks
//! themselves are written down; the rest follows from them. No operation looks at more than one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::OwnerId;
use super::history::Past;
use super::limits::{HISTORY_MAX, HISTORY_OF_LOCK_MAX};
use super::lock::{Holder, Lock, Ticket, Waiter};

/// Locks are numbered as they are first used, so that what refers to one need not repeat its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LockId(u64);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Locks {
    last_id: u64,
    by_id: BTreeMap<LockId, Box<Lock>>,
    by_name: BTreeMap<Arc<str>, LockId>,
    holds: BTreeSet<(OwnerId, LockId, Ticket)>,
    waits: BTreeSet<(OwnerId, LockId, Ticket)>,
    delays: BTreeSet<LockId>,
    /// Which lock remembers the ended hold of this number.
    history: BTreeMap<u64, LockId>,
}

impl Locks {
    pub fn find(&self, name: &str) -> Option<LockId> {
        self.by_name.get(name).copied()
    }

    pub fn find_or_add(&mut self, name: &str) -> LockId {
        if let Some(id) = self.find(name) {
            return id;
        }
        self.last_id += 1;
        let (id, name) = (LockId(self.last_id), Arc::<str>::from(name));
        self.by_name.insert(name.clone(), id);
        self.by_id.insert(id, Box::new(Lock::new(name)));
        id
    }

    pub fn get(&self, id: LockId) -> Option<&Lock> {
        self.by_id.get(&id).map(Box::as_ref)
    }

    /// For what the indices do not depend on.
    pub fn get_mut(&mut self, id: LockId) -> Option<&mut Lock> {
        self.by_id.get_mut(&id).map(Box::as_mut)
    }

    pub fn by_name(&self) -> impl ExactSizeIterator<Item = (&str, LockId)> {
        self.by_name.iter().map(|(name, &id)| (name.as_ref(), id))
    }

    pub fn holds(&self) -> usize {
        self.holds.len()
    }

    pub fn waits(&self) -> impl ExactSizeIterator<Item = &Waiter> {
        self.waits.iter().map(|&(_, id, ticket)| {
            let lock = &self.by_id[&id];
            let position = lock.waiter(ticket).expect("whatever is in the index waits");
            &lock.waiters[position]
        })
    }

    pub fn delays(&self) -> impl ExactSizeIterator<Item = &Lock> {
        self.delays.iter().map(|id| self.by_id[id].as_ref())
    }

    /// On which locks this owner holds something; a lock as often as it does.
    pub fn holds_of(&self, owner: OwnerId) -> impl Iterator<Item = LockId> {
        self.holds.range((owner, LockId(0), 0)..=(owner, LockId(u64::MAX), u64::MAX)).map(|&(_, id, _)| id)
    }

    /// On which locks this owner waits for something; a lock as often as it does.
    pub fn waits_of(&self, owner: OwnerId) -> impl Iterator<Item = LockId> {
        self.waits.range((owner, LockId(0), 0)..=(owner, LockId(u64::MAX), u64::MAX)).map(|&(_, id, _)| id)
    }

    pub fn hold(&mut self, id: LockId, holder: Holder) {
        let Some(lock) = self.by_id.get_mut(&id) else { return };
        self.holds.insert((holder.claim.owner, id, holder.claim.ticket));
        if lock.holders.is_empty() {
            // Most locks have one holder at a time: no room for more until there are.
            lock.holders.reserve_exact(1);
        }
        lock.holders.push(holder);
    }

    pub fn wait(&mut self, id: LockId, waiter: Waiter) {
        let Some(lock) = self.by_id.get_mut(&id) else { return };
        self.waits.insert((waiter.claim.owner, id, waiter.claim.ticket));
        lock.waiters.push_back(waiter);
    }

    pub fn remove_holder(&mut self, id: LockId, ticket: Ticket) -> Option<Holder> {
        let lock = self.by_id.get_mut(&id)?;
        let holder = lock.holders.remove(lock.holder(ticket)?);
        if lock.holders.is_empty() {
            lock.holders = Vec::new();
        }
        self.holds.remove(&(holder.claim.owner, id, ticket));
        Some(holder)
    }

    pub fn remove_waiter(&mut self, id: LockId, ticket: Ticket) -> Option<Waiter> {
        let lock = self.by_id.get_mut(&id)?;
        let waiter = lock.waiters.remove(lock.waiter(ticket)?)?;
        if lock.waiters.is_empty() {
            lock.waiters.shrink_to_fit();
        }
        self.waits.remove(&(waiter.claim.owner, id, ticket));
        Some(waiter)
    }

    /// The first waiter, if the lock can be its now: it waits no more.
    pub fn admit_next(&mut self, id: LockId) -> Option<Waiter> {
        let lock = self.get(id)?;
        let first = &lock.waiters.front()?.claim;
        if !lock.admits(first.mode) {
            return None;
        }
        self.remove_waiter(id, first.ticket)
    }

    pub fn set_delay(&mut self, id: LockId, delay: Option<super::lock::Delay>) {
        let Some(lock) = self.by_id.get_mut(&id) else { return };
        lock.delay = delay;
        match delay {
            Some(_) => self.delays.insert(id),
            None => self.delays.remove(&id),
        };
    }

    /// Remembers an ended hold, and forgets the oldest of its lock, or of all, if that is one too many.
    pub fn remember(&mut self, id: LockId, past: Past) {
        let Some(lock) = self.by_id.get_mut(&id) else { return };
        if lock.history.len() == HISTORY_OF_LOCK_MAX {
            self.history.remove(&lock.history.remove(0).order);
        }
        if lock.history.is_empty() {
            lock.history.reserve_exact(1);
        }
        self.history.insert(past.order, id);
        lock.history.push(past);
        if self.history.len() > HISTORY_MAX
            && let Some((_, oldest)) = self.history.pop_first()
        {
            // What is the oldest of all is the oldest of its lock.
            if let Some(lock) = self.by_id.get_mut(&oldest) {
                lock.history.remove(0);
            }
            self.forget_if_idle(oldest);
        }
    }

    /// A lock that nobody uses and that has no history is as good as one that never was.
    pub fn forget_if_idle(&mut self, id: LockId) {
        if let Some(lock) = self.by_id.get(&id)
            && !lock.in_use()
            && lock.history.is_empty()
        {
            self.by_name.remove(&lock.name);
            self.by_id.remove(&id);
        }
    }
}

/// The number of the last lock, and the locks: all else follows.
impl From<(u64, BTreeMap<LockId, Box<Lock>>)> for Locks {
    fn from((last_id, by_id): (u64, BTreeMap<LockId, Box<Lock>>)) -> Self {
        let mut locks = Locks { last_id, ..Locks::default() };
        for (&id, lock) in &by_id {
            locks.by_name.insert(lock.name.clone(), id);
            locks.holds.extend(lock.holders.iter().map(|Holder { claim, .. }| (claim.owner, id, claim.ticket)));
            locks.waits.extend(lock.waiters.iter().map(|Waiter { claim, .. }| (claim.owner, id, claim.ticket)));
            locks.history.extend(lock.history.iter().map(|past| (past.order, id)));
            locks.delays.extend(lock.delay.map(|_| id));
        }
        Locks { by_id, ..locks }
    }
}

impl Serialize for Locks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.last_id, &self.by_id).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Locks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <(u64, BTreeMap<LockId, Box<Lock>>)>::deserialize(deserializer).map(Locks::from)
    }
}

/// A shared string, written as a string.
pub(super) mod name {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}
