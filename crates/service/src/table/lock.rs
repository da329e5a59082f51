//! One lock: who holds it, who waits, in which order they get it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history::Past;
use super::{Mode, OwnerId, RequestNumber, SessionId};

/// The place of an acquire in log order. Holders and waiters of a lock are sorted by it, which is what FIFO means.
pub(super) type Ticket = u64;

/// An acquire that holds or waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub ticket: Ticket,
    pub session: SessionId,
    pub number: RequestNumber,
    pub owner: OwnerId,
    pub mode: Mode,
    /// At most `LOCK_DELAY_MS_MAX`.
    pub lock_delay_ms: u32,
    /// Since when it waits or holds.
    pub since_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub claim: Claim,
    pub fence: u64,
    /// Its session was told to give it back.
    pub revoked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiter {
    pub claim: Claim,
    pub timeout_ms: Option<u64>,
}

/// The lock is closed: a holder expired, and its process may not have noticed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delay {
    pub generation: u64,
    pub delay_ms: u64,
    pub since_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lock {
    #[serde(with = "super::locks::name")]
    pub name: Arc<str>,
    /// 1 for exclusive and shared. It can change whenever the lock is not in use.
    pub permits: u32,
    pub delay: Option<Delay>,
    /// In ascending order of their tickets, since whoever is granted later has a later one.
    pub holders: Vec<Holder>,
    pub waiters: VecDeque<Waiter>,
    pub history: Vec<Past>,
}

impl Mode {
    /// How many permits the lock has that is wanted so.
    pub fn permits(self) -> u32 {
        match self {
            Mode::Exclusive | Mode::Shared => 1,
            Mode::Permit { of } => of,
        }
    }

    /// Whether two that want one lock so, with as many permits, can hold it together however many permits there are.
    pub(super) fn shares_with(self, other: Mode) -> bool {
        self == Mode::Shared && other == Mode::Shared
    }
}

impl Lock {
    pub(super) fn new(name: Arc<str>) -> Self {
        Lock { name, permits: 1, delay: None, holders: Vec::new(), waiters: VecDeque::new(), history: Vec::new() }
    }

    /// While it is in use all must agree about its permits.
    pub(super) fn in_use(&self) -> bool {
        !self.holders.is_empty() || !self.waiters.is_empty() || self.delay.is_some()
    }

    /// Whether it could be held so, besides those who hold it, whoever waits. All holders hold it alike: one is looked at.
    pub(super) fn admits(&self, mode: Mode) -> bool {
        if self.delay.is_some() {
            return false;
        }
        match self.holders.first() {
            None => true,
            Some(first) => first.claim.mode.shares_with(mode) || self.holders.len() < self.permits as usize,
        }
    }

    /// The fence of a grant: those who share a lock with others share their fence.
    pub(super) fn shared_fence(&self, mode: Mode) -> Option<u64> {
        self.holders.first().filter(|first| first.claim.mode.shares_with(mode)).map(|first| first.fence)
    }

    pub(super) fn holder(&self, ticket: Ticket) -> Option<usize> {
        self.holders.binary_search_by_key(&ticket, |holder| holder.claim.ticket).ok()
    }

    pub(super) fn waiter(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.claim.ticket).ok()
    }
}
