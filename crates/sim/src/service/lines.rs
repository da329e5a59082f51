//! Who waits for which lock, who holds it, and until when it is closed: as the log says it, counted by the oracle itself. It
//! judges that locks are granted in the order of the requests, and not before a lock-delay is over.

use std::collections::BTreeMap;

use baton_service::state::locks::{self, CancelOutcome, LockName};
use baton_service::state::{Answer, SessionId};

use super::clock::Micros;
use super::world::MS;

/// A request, by its session and number.
type Asked = (SessionId, u64);

#[derive(Clone, Debug)]
struct Wanted {
    lock: LockName,
    lock_delay_ms: u64,
}

#[derive(Default)]
pub(super) struct Lines {
    /// A clock's rate is off by at most this share.
    drift: f64,
    /// Which acquires wait, in the order of the log.
    waiting: Vec<(Asked, Wanted)>,
    holding: BTreeMap<Asked, Wanted>,
    /// Of which acquire a release or a cancel speaks.
    speaks_of: BTreeMap<Asked, Asked>,
    /// No lock is granted before this moment.
    closed_until: BTreeMap<LockName, Micros>,
}

impl Lines {
    pub fn new(drift: f64) -> Self {
        Lines { drift, ..Lines::default() }
    }

    /// An acquire is in the log for the first time.
    pub fn enters(&mut self, asked: Asked, lock: &LockName, lock_delay_ms: u64) {
        self.waiting.push((asked, Wanted { lock: lock.clone(), lock_delay_ms }));
    }

    /// A release or a cancel is in the log.
    pub fn speaks_of(&mut self, asked: Asked, acquire: Asked) {
        self.speaks_of.insert(asked, acquire);
    }

    /// A request is answered for the first time.
    pub fn answered(&mut self, now: Micros, asked: Asked, answer: &Answer) -> Result<(), String> {
        match answer {
            Answer::Locks(locks::Answer::Granted { .. }) => self.granted(now, asked)?,
            Answer::Locks(locks::Answer::Released | locks::Answer::Cancelled(CancelOutcome::Released)) => {
                if let Some(acquire) = self.speaks_of.get(&asked) {
                    self.holding.remove(acquire);
                }
            }
            // A cancel may come before its acquire, which then never waits.
            Answer::Locks(_) | Answer::Refused(_) | Answer::Closed => {}
        }
        self.waiting.retain(|(waits, _)| *waits != asked);
        Ok(())
    }

    fn granted(&mut self, now: Micros, asked: Asked) -> Result<(), String> {
        let place = self.waiting.iter().position(|(waits, _)| *waits == asked);
        let place = place.ok_or_else(|| format!("{asked:?} is granted, and does not wait"))?;
        let wanted = self.waiting[place].1.clone();
        if let Some((earlier, _)) = self.waiting[..place].iter().find(|(_, other)| other.lock == wanted.lock) {
            return Err(format!("{asked:?} is granted {:?} before {earlier:?}, which asked earlier", wanted.lock));
        }
        if let Some(until) = self.closed_until.get(&wanted.lock).filter(|until| now < **until) {
            let left = (until - now) as f64 / MS as f64;
            return Err(format!("{asked:?} is granted {:?}, which is closed for another {left} ms", wanted.lock));
        }
        self.holding.insert(asked, wanted);
        Ok(())
    }

    /// What the session held is closed for a while if it expired. Whoever counts that may have a clock that is fast.
    pub fn session_ends(&mut self, now: Micros, session: SessionId, expired: bool) {
        self.waiting.retain(|((waits, _), _)| *waits != session);
        let held: Vec<Asked> =
            self.holding.range((session, 0)..=(session, u64::MAX)).map(|(asked, _)| *asked).collect();
        for asked in held {
            let Some(wanted) = self.holding.remove(&asked).filter(|_| expired) else { continue };
            let delay = (wanted.lock_delay_ms * MS) as f64 * (1.0 - 2.0 * self.drift);
            let until = self.closed_until.entry(wanted.lock).or_default();
            *until = (*until).max(now + delay as Micros);
        }
    }
}
