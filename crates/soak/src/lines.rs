//! The queue of each lock as the log implies it: which acquires wait, which hold the lock, and until when the lock is
//! closed. The oracle counts this itself, without the service's code. It checks that locks are granted to one holder at
//! a time (or to as many as share), in the order of the requests, as soon as they are free, with growing fences, and
//! not before a lock-delay is over. It also checks that a request is refused as a deadlock if and only if it is one.

use std::collections::BTreeMap;

use baton_state::state::locks::{self, Acquire, CancelOutcome, LockName, Mode, Refusal};
use baton_state::state::{Answer, OwnerId, SessionId};

use super::clock::Micros;
use super::deadlock;
use super::world::MS;

/// A request: its session and number.
pub(super) type Asked = (SessionId, u64);

/// An acquire that waits or holds.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub asked: Asked,
    pub lock: LockName,
    pub mode: Mode,
    pub owner: OwnerId,
    pub parent: Option<OwnerId>,
    lock_delay_ms: u64,
    /// 0 while the acquire waits.
    fence: u64,
}

impl Claim {
    /// None if the acquire wants several locks. Simulated clients request one lock at a time.
    pub fn new(asked: Asked, acquire: &Acquire) -> Option<Self> {
        let [want] = &acquire.wants[..] else { return None };
        let &Acquire { owner, parent, lock_delay_ms, .. } = acquire;
        let (lock, mode) = (want.lock.clone(), want.mode);
        Some(Claim { asked, lock, mode, owner, parent, lock_delay_ms, fence: 0 })
    }

    /// Whether this claim can hold its lock together with these holders.
    pub fn goes_with<'a>(&self, holders: impl Iterator<Item = &'a Claim>) -> bool {
        let mut others = holders.filter(|holder| holder.lock == self.lock);
        match self.mode {
            Mode::Exclusive => others.next().is_none(),
            Mode::Shared => others.all(|other| other.mode == Mode::Shared),
            Mode::Permit { of } => others.count() < of as usize,
        }
    }
}

#[derive(Default)]
pub(super) struct Lines {
    /// The largest share by which a clock's rate is off.
    drift: f64,
    /// In the order of the log.
    waiting: Vec<Claim>,
    /// In the order of the grants.
    holding: Vec<Claim>,
    /// The acquire of the command that is judged now, if it is new.
    newcomer: Option<Asked>,
    /// For each release or cancel: its acquire.
    speaks_of: BTreeMap<Asked, Asked>,
    /// Holds that a forced release ended at once, and whether their clients have released them since.
    taken: BTreeMap<Asked, bool>,
    /// These locks must not be granted before this moment, and may stay closed a little longer.
    closed_until: BTreeMap<LockName, Micros>,
    highest_fence: u64,
    /// How many requests were rightly refused as deadlocks.
    pub deadlocks: u64,
}

impl Lines {
    pub fn new(drift: f64) -> Self {
        Lines { drift, ..Lines::default() }
    }

    /// An acquire of one lock is in the log for the first time.
    pub fn enters(&mut self, asked: Asked, acquire: &Acquire) {
        self.newcomer = Some(asked);
        self.waiting.extend(Claim::new(asked, acquire));
    }

    /// A release or a cancel is in the log.
    pub fn speaks_of(&mut self, asked: Asked, acquire: Asked) {
        self.speaks_of.insert(asked, acquire);
    }

    /// A forced release is in the log. Returns the session and fence of each holder that it hits.
    pub fn forced(&mut self, lock: &LockName, now: bool) -> Vec<(u64, u64)> {
        let holders = self.holding.iter().filter(|claim| claim.lock == *lock);
        let hit = holders.map(|claim| (claim.asked.0.0, claim.fence)).collect();
        if now {
            self.closed_until.remove(lock);
            let taken = self.holding.extract_if(.., |claim| claim.lock == *lock);
            self.taken.extend(taken.map(|claim| (claim.asked, false)));
        }
        hit
    }

    /// Whether a forced release ended this hold at once. Its client may still work under it.
    pub fn is_taken(&self, asked: Asked) -> bool {
        self.taken.contains_key(&asked)
    }

    /// A request is answered for the first time.
    pub fn answered(&mut self, now: Micros, asked: Asked, answer: &Answer) -> Result<(), String> {
        match answer {
            Answer::Locks(locks::Answer::Granted { fence }) => self.granted(now, asked, *fence)?,
            Answer::Locks(locks::Answer::Refused(Refusal::Deadlock(_))) => {
                if !deadlock::waits_for_itself(&self.holding, &self.waiting, asked) {
                    return Err(format!("{asked:?} is refused as a deadlock, and does not wait for itself"));
                }
                self.deadlocks += 1;
            }
            Answer::Locks(answer) => {
                if let Some(acquire) = self.speaks_of.get(&asked).copied() {
                    self.ends(acquire, answer)?;
                }
            }
            _ => {}
        }
        self.waiting.retain(|claim| claim.asked != asked);
        Ok(())
    }

    /// A release or cancel of this acquire is answered. A client whose hold was taken at once does not know that: it
    /// may still release the hold, once.
    fn ends(&mut self, acquire: Asked, answer: &locks::Answer) -> Result<(), String> {
        let place = self.holding.iter().position(|claim| claim.asked == acquire);
        let holds = place.map(|place| self.holding.remove(place)).is_some();
        let was_taken = self.taken.get_mut(&acquire).is_some_and(|is_back| !std::mem::replace(is_back, true));
        let is_right = match answer {
            locks::Answer::Released => holds || was_taken,
            locks::Answer::Cancelled(CancelOutcome::Released) => holds,
            locks::Answer::Refused(Refusal::NotHolder { .. }) => !holds && !was_taken,
            // A cancel may come before its acquire, which then never waits.
            _ => !holds,
        };
        if is_right {
            return Ok(());
        }
        let was = match (holds, was_taken) {
            (true, _) => "held its lock",
            (false, true) => "was taken by a forced release",
            (false, false) => "held nothing",
        };
        Err(format!("{acquire:?} {was}, and its release or cancel is answered {answer:?}"))
    }

    fn granted(&mut self, now: Micros, asked: Asked, fence: u64) -> Result<(), String> {
        let place = self.waiting.iter().position(|claim| claim.asked == asked);
        let place = place.ok_or_else(|| format!("{asked:?} is granted, and does not wait"))?;
        let claim = Claim { fence, ..self.waiting[place].clone() };
        let lock = &claim.lock;
        if let Some(Claim { asked: earlier, .. }) = self.waiting[..place].iter().find(|other| other.lock == *lock) {
            return Err(format!("{asked:?} is granted {lock:?} before {earlier:?}, which asked earlier"));
        }
        if let Some(until) = self.closed_until.get(lock).filter(|until| now < **until) {
            let left = (until - now) as f64 / MS as f64;
            return Err(format!("{asked:?} is granted {lock:?}, which is closed for another {left} ms"));
        }
        let holders = || self.holding.iter().filter(|other| other.lock == *lock);
        if !claim.goes_with(holders()) {
            let holders: Vec<Asked> = holders().map(|other| other.asked).collect();
            return Err(format!("{asked:?} is granted {lock:?} while {holders:?} hold it"));
        }
        // Each fence is greater than all earlier fences of all locks. Exception: a shared claim gets the fence of the
        // holders that it joins.
        let joins = claim.mode == Mode::Shared && holders().any(|other| other.fence == fence);
        let highest = self.highest_fence;
        if fence <= highest && !joins {
            return Err(format!("{asked:?} is granted {lock:?} with fence {fence} after {highest}"));
        }
        self.highest_fence = highest.max(fence);
        self.closed_until.remove(lock);
        self.holding.push(claim);
        Ok(())
    }

    /// A command has had all its effects. Now no claim may wait for a lock that it could hold, and the command's own
    /// acquire must not wait in a deadlock.
    pub fn settled(&mut self) -> Result<(), String> {
        for (place, claim) in self.waiting.iter().enumerate() {
            let is_next = self.waiting[..place].iter().all(|earlier| earlier.lock != claim.lock);
            if is_next && !self.closed_until.contains_key(&claim.lock) && claim.goes_with(self.holding.iter()) {
                return Err(format!("{:?} waits for {:?}, which is free for it", claim.asked, claim.lock));
            }
        }
        let Some(asked) = self.newcomer.take() else { return Ok(()) };
        let waits = self.waiting.iter().any(|claim| claim.asked == asked);
        if waits && deadlock::waits_for_itself(&self.holding, &self.waiting, asked) {
            return Err(format!("{asked:?} waits, and that is a deadlock"));
        }
        Ok(())
    }

    /// The session has ended. If it expired, its locks stay closed for their lock-delays. The node that measures the
    /// delay may have a fast clock.
    pub fn session_ends(&mut self, now: Micros, session: SessionId, expired: bool) {
        self.waiting.retain(|claim| claim.asked.0 != session);
        let ended = self.holding.extract_if(.., |claim| claim.asked.0 == session);
        for claim in ended.filter(|claim| expired && claim.lock_delay_ms > 0) {
            let delay = (claim.lock_delay_ms * MS) as f64 * (1.0 - 2.0 * self.drift);
            let until = self.closed_until.entry(claim.lock).or_default();
            *until = (*until).max(now + delay as Micros);
        }
    }
}
