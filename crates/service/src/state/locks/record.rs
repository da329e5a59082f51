//! The locks in pieces, as a snapshot holds them: counters, locks, claims. Queues and indices follow from the claims.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lock::{Aside, Delay, Lock};
use super::{Claim, LockName, Locks, Past};
use crate::state::{RequestNumber, SessionId};

/// A piece of the locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The last of everything that is numbered.
    Counters {
        /// The fence of the latest grant.
        last_fence: u64,
        /// The ticket of the latest claim.
        last_ticket: u64,
        /// The generation of the latest lock-delay.
        last_delay: u64,
        /// The order of the latest ended hold.
        last_past: u64,
    },
    /// A lock. It comes before the claims that want it.
    Lock {
        /// Its name.
        name: LockName,
        /// How many permits it has.
        permits: u32,
        /// Whether it is closed.
        delay: Option<Delay>,
        /// Its ended holds, the oldest first.
        history: Vec<Past>,
        /// A fence that a claim had which shared the lock with its holders and has left, if theirs may be lower. None in data
        /// format 1.
        left_fence: Option<NonZeroU64>,
    },
    /// A claim, whether it waits or holds.
    Claim(Claim),
    /// The acquires of a session whose holds were ended by force, and about which its client has said nothing since.
    Forced {
        /// The session.
        session: SessionId,
        /// The numbers of the acquires.
        acquires: Vec<RequestNumber>,
    },
}

impl Locks {
    /// All of them, in pieces.
    pub(in crate::state) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let counters = Record::Counters {
            last_fence: self.last_fence,
            last_ticket: self.last_ticket,
            last_delay: self.last_delay,
            last_past: self.last_past,
        };
        let locks = self.locks.iter().map(|(name, lock)| Record::Lock {
            name: name.clone(),
            permits: lock.permits,
            delay: lock.delay(),
            history: lock.history().to_vec(),
            left_fence: lock.aside.as_ref().and_then(|aside| aside.left_fence),
        });
        let claims = self.claims.values().map(|claim| Record::Claim(Claim::clone(claim)));
        let forced = self
            .forced
            .iter()
            .map(|(&session, acquires)| Record::Forced { session, acquires: acquires.iter().copied().collect() });
        std::iter::once(counters).chain(locks).chain(claims).chain(forced)
    }

    /// Adds a piece. Whether it fits the others is checked when all are there.
    pub(in crate::state) fn restore(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Counters { last_fence, last_ticket, last_delay, last_past } => {
                (self.last_fence, self.last_ticket) = (last_fence, last_ticket);
                (self.last_delay, self.last_past) = (last_delay, last_past);
            }
            Record::Lock { name, permits, delay, history, left_fence } => {
                self.history.extend(history.iter().map(|past| (past.order, name.clone())));
                if delay.is_some() {
                    self.delays.insert(name.clone());
                }
                let aside = Aside { delay, history, left_fence };
                let aside = (!aside.is_empty()).then(|| Box::new(aside));
                let lock = Arc::new(Lock { permits, aside, ..Lock::default() });
                if self.locks.insert(name.clone(), lock).is_some() {
                    return Err(format!("the lock {name:?} is there twice"));
                }
            }
            Record::Claim(claim) => self.restore_claim(Arc::new(claim))?,
            Record::Forced { session, acquires } => {
                if self.forced.insert(session, acquires.into_iter().collect()).is_some() {
                    return Err(format!("what session {session} has lost by force is there twice"));
                }
            }
        }
        Ok(())
    }

    fn restore_claim(&mut self, claim: Arc<Claim>) -> Result<(), String> {
        for want in &claim.wants {
            let Some(lock) = self.locks.get_mut(&want.lock) else {
                return Err(format!(
                    "a claim of session {} wants the lock {:?}, which is not there",
                    claim.session, want.lock
                ));
            };
            // In any order: they are sorted when all are there.
            let lock = Arc::make_mut(lock);
            lock.held += usize::from(claim.holds());
            lock.line.push(claim.clone());
        }
        self.index(&claim);
        let (session, number) = claim.key();
        match self.claims.insert(claim.key(), claim) {
            Some(_) => Err(format!("request {number} of session {session} is there as two claims")),
            None => Ok(()),
        }
    }

    /// All pieces are there: the queues are put in order.
    pub(in crate::state) fn restored(&mut self) {
        let in_use: Vec<LockName> =
            self.locks.iter().filter(|(_, lock)| lock.line.len() > 1).map(|(name, _)| name.clone()).collect();
        for name in in_use {
            self.lock_mut(&name).line.sort();
        }
        self.used = self.locks.values().filter(|lock| lock.in_use()).count();
    }
}
