//! The locks as records, for snapshots: counters, locks, claims. Lines and indices are derived from the claims.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lock::{Aside, Delay, Lock};
use super::{Claim, LockName, Locks, Past};
use crate::state::{RequestNumber, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The last number of each kind.
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
        name: LockName,
        permits: u32,
        delay: Option<Delay>,
        /// The oldest first.
        history: Vec<Past>,
        /// The fence of a claim that shared the lock and has left, if it may be higher than the fences of the remaining
        /// holders.
        left_fence: Option<NonZeroU64>,
    },
    Claim(Claim),
    /// The acquires of a session whose holds were ended by force, until the client releases or cancels them.
    Forced {
        session: SessionId,
        acquires: Vec<RequestNumber>,
    },
}

impl Locks {
    pub(super) fn records(&self) -> impl Iterator<Item = Record> + '_ {
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

    /// Adds a record. The consistency of all records is checked at the end.
    pub(super) fn restore(&mut self, record: Record) -> Result<(), String> {
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
                    return Err(format!("the lock {name:?} appears twice"));
                }
            }
            Record::Claim(claim) => self.restore_claim(Arc::new(claim))?,
            Record::Forced { session, acquires } => {
                if self.forced.insert(session, acquires.into_iter().collect()).is_some() {
                    return Err(format!("the forced releases of session {session} appear twice"));
                }
            }
        }
        Ok(())
    }

    fn restore_claim(&mut self, claim: Arc<Claim>) -> Result<(), String> {
        let mut is_alone = true;
        for want in &claim.wants {
            let Some(lock) = self.locks.get_mut(&want.lock) else {
                return Err(format!(
                    "a claim of session {} wants the lock {:?}, which does not exist",
                    claim.session, want.lock
                ));
            };
            let lock = Arc::make_mut(lock);
            lock.restore(claim.clone(), want.mode);
            is_alone &= lock.line.len() == 1;
        }
        let (session, number) = claim.key();
        if self.claims.insert(claim.key(), claim.clone()).is_some() {
            return Err(format!("request {number} of session {session} appears as two claims"));
        }
        self.index(&claim, is_alone);
        Ok(())
    }

    /// Counts the used locks, after all records.
    pub(super) fn restored(&mut self, closed: bool) {
        self.closed = closed;
        self.used = self.locks.values().filter(|lock| lock.in_use()).count();
    }
}
