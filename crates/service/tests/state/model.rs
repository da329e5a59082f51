//! The table once more, in the simplest way there is: lists, looked through from the first to the last, and no index. It shares
//! nothing with the table but the words of the log.

use baton_service::table::{
    Answer, CancelOutcome, Command, Effect, EndReason, Ended, Mode, Operation, OwnerId, Refusal, SessionId, WaitFor,
};

#[derive(Clone, Default)]
pub struct Model {
    now_ms: u64,
    term: u64,
    fence: u64,
    generation: u64,
    pub sessions: Vec<Session>,
    /// All that holds or waits, in the order in which it was asked for.
    pub claims: Vec<Claim>,
    /// Lock, generation, delay.
    pub delays: Vec<(String, u64, u64)>,
    pub history: Vec<Past>,
    /// The permits of each lock when it was last used.
    pub permits: Vec<(String, u32)>,
}

#[derive(Clone)]
pub struct Session {
    pub id: SessionId,
    pub ttl_ms: u64,
    pub label: String,
    /// All that the client ever said: what it saw everything up to, and but for what.
    seen: Vec<(u64, Vec<u64>)>,
    answers: Vec<(u64, Answer)>,
    forced: Vec<u64>,
}

#[derive(Clone)]
pub struct Claim {
    pub session: SessionId,
    pub number: u64,
    pub owner: OwnerId,
    pub lock: String,
    pub mode: Mode,
    pub timeout_ms: Option<u64>,
    pub since_ms: u64,
    /// It holds if it has one.
    pub fence: Option<u64>,
    pub revoked: bool,
    delay_ms: u64,
}

#[derive(Clone)]
pub struct Past {
    pub lock: String,
    pub session: SessionId,
    pub fence: u64,
    pub from_ms: u64,
    pub to_ms: u64,
    pub ended: Ended,
}

impl Session {
    fn has_seen(&self, number: u64) -> bool {
        self.seen.iter().any(|(seen, missing)| number <= *seen && !missing.contains(&number))
    }
}

fn permits(mode: Mode) -> u32 {
    if let Mode::Permit { of } = mode { of } else { 1 }
}

impl Model {
    pub fn apply(&mut self, now_ms: u64, command: &Command) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        let mut out = Vec::new();
        match command.clone() {
            Command::Lead { term } => self.term = term,
            Command::Open { session, ttl_ms, label, resume, .. } => self.open(session, ttl_ms, label, resume, &mut out),
            Command::Request { session, number, seen, missing, operation } => {
                self.request(session, number, (seen, missing), operation, &mut out)
            }
            Command::Expire { session, term } if term == self.term => self.end(session, EndReason::Expired, &mut out),
            Command::Expire { .. } => {}
            Command::EndLockDelay { lock, generation } => {
                self.delays.retain(|delay| (&delay.0, delay.1) != (&lock, generation));
                self.grant(&lock, &mut out);
            }
            Command::CancelWait { session, number } => self.unwait(session, number, Refusal::TimedOut, &mut out),
            Command::Force { lock, now } => self.force(&lock, now, &mut out),
        }
        out
    }

    fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Whether this request has an answer already.
    pub fn is_answered(&self, id: SessionId, number: u64) -> bool {
        let session = self.sessions.iter().find(|session| session.id == id);
        session.is_some_and(|session| session.answers.iter().any(|answer| answer.0 == number))
    }

    fn open(&mut self, id: SessionId, ttl_ms: u64, label: String, resume: bool, out: &mut Vec<Effect>) {
        if self.session(id).is_none() && !resume && (1_000..=86_400_000).contains(&ttl_ms) {
            self.sessions.push(Session { id, ttl_ms, label, seen: vec![], answers: vec![], forced: vec![] });
        }
        let claims = self.claims.clone();
        let Some(session) = self.session(id) else {
            return out.push(Effect::Ended { session: id, reason: EndReason::Unknown });
        };
        out.push(Effect::Opened { session: id, ttl_ms: session.ttl_ms });
        let mut revoked = session.forced.clone();
        revoked.extend(claims.iter().filter(|claim| claim.session == id && claim.revoked).map(|claim| claim.number));
        revoked.sort();
        out.extend(revoked.into_iter().map(|acquire| Effect::Revoked { session: id, acquire }));
    }

    fn request(
        &mut self,
        id: SessionId,
        number: u64,
        seen: (u64, Vec<u64>),
        operation: Operation,
        out: &mut Vec<Effect>,
    ) {
        let waits = self.claims.iter().any(|claim| (claim.session, claim.number) == (id, number));
        let named = if let Operation::Release { acquire } = operation { acquire } else { 0 };
        let holds = self.holds(id, named);
        let Some(session) = self.session(id) else {
            return out.push(Effect::Ended { session: id, reason: EndReason::Unknown });
        };
        let nonsense = senseless(number, seen.0, &seen.1);
        if !nonsense {
            session.seen.push(seen);
        }
        let mut answers = std::mem::take(&mut session.answers);
        answers.retain(|answer| !session.has_seen(answer.0));
        session.answers = answers;
        if let Some((_, answer)) = session.answers.iter().find(|answer| answer.0 == number) {
            return out.push(Effect::Answer { session: id, number, answer: answer.clone() });
        }
        if number != 0 && (session.has_seen(number) || waits) {
            return;
        }
        match operation {
            // The sentence is the table's own business.
            _ if nonsense || invalid(number, &operation) => {
                self.refuse(id, number, Refusal::Invalid(String::new()), out)
            }
            Operation::Acquire { lock, mode, owner, timeout_ms, lock_delay_ms: delay_ms } => {
                let (since_ms, fence, revoked) = (self.now_ms, None, false);
                let session = id;
                let claim =
                    Claim { session, number, owner, lock, mode, timeout_ms, since_ms, fence, revoked, delay_ms };
                self.acquire(claim, out);
            }
            Operation::Release { acquire } => {
                if holds {
                    self.answer(id, number, Answer::Released, out);
                    self.give_back(id, acquire, out);
                } else if session.forced.contains(&acquire) {
                    session.forced.retain(|&forced| forced != acquire);
                    self.answer(id, number, Answer::Released, out);
                } else {
                    self.refuse(id, number, Refusal::NotHolder { acquire }, out);
                }
            }
            Operation::Cancel { acquire } => self.cancel(id, number, acquire, out),
            Operation::Close => {
                self.answer(id, number, Answer::Closed, out);
                self.end(id, EndReason::Closed, out);
            }
        }
    }

    fn acquire(&mut self, claim: Claim, out: &mut Vec<Effect>) {
        let (id, number) = (claim.session, claim.number);
        let in_use = self.claims.iter().any(|other| other.lock == claim.lock)
            || self.delays.iter().any(|delay| delay.0 == claim.lock);
        let has = self.permits.iter().find(|permits| permits.0 == claim.lock).map(|permits| permits.1);
        let says = permits(claim.mode);
        if let Some(has) = has.filter(|&has| in_use && has != says) {
            return self.refuse(id, number, Refusal::PermitsDiffer { has, says }, out);
        }
        let mut with = self.clone();
        with.claims.push(claim.clone());
        with.grant(&claim.lock, &mut Vec::new());
        if with.holds(id, number) {
            self.permits.retain(|permits| permits.0 != claim.lock);
            self.permits.push((claim.lock.clone(), says));
            let lock = claim.lock.clone();
            self.claims.push(claim);
            return self.grant(&lock, out);
        }
        if claim.timeout_ms == Some(0) {
            return self.refuse(id, number, Refusal::NotAvailable, out);
        }
        if with.is_stuck(id, number) {
            return self.refuse(id, number, Refusal::Deadlock(vec![]), out);
        }
        if let Some(timeout_ms) = claim.timeout_ms {
            out.push(Effect::Waits { session: id, number, timeout_ms });
        }
        self.claims.push(claim);
    }

    /// Whether this acquire waits for ever although everybody who waits for nothing gives back all that it has.
    fn is_stuck(&self, id: SessionId, number: u64) -> bool {
        let mut rest = self.clone();
        rest.delays.clear();
        loop {
            for claim in self.claims.iter() {
                rest.grant(&claim.lock, &mut Vec::new());
            }
            let waits = |owner| rest.claims.iter().any(|claim| claim.owner == owner && claim.fence.is_none());
            let Some(owner) = rest.claims.iter().map(|claim| claim.owner).find(|&owner| !waits(owner)) else { break };
            rest.claims.retain(|claim| claim.owner != owner);
        }
        let stuck = rest.claims.iter().any(|claim| (claim.session, claim.number) == (id, number));
        assert_eq!(stuck, !rest.claims.is_empty(), "if anybody is stuck it is because of this request");
        stuck
    }

    /// Whether each waits for the next, and the last for the first, once this request waits.
    pub fn is_cycle(&self, new: &Claim, cycle: &[WaitFor]) -> bool {
        let mut claims = self.claims.clone();
        claims.push(new.clone());
        let first = &cycle[0];
        let waits_for = |step: &WaitFor, next: &WaitFor| {
            claims.iter().enumerate().any(|(at, claim)| {
                let label = self.sessions.iter().find(|session| session.id == claim.session).map(|s| s.label.clone());
                let waits = (claim.owner, &claim.lock, claim.fence) == (step.owner, &step.lock, None);
                let blocks = |other: &Claim| {
                    let shared = (other.mode, claim.mode) == (Mode::Shared, Mode::Shared);
                    other.lock == claim.lock && other.owner == next.owner && !shared
                };
                waits && label.as_ref() == Some(&step.label) && claims[..at].iter().any(blocks)
            })
        };
        let nexts = cycle.iter().skip(1).chain([first]);
        first.owner == new.owner && first.lock == new.lock && cycle.iter().zip(nexts).all(|(a, b)| waits_for(a, b))
    }

    /// Grants the lock to whoever is first, as long as that is possible.
    fn grant(&mut self, lock: &str, out: &mut Vec<Effect>) {
        while let Some(at) = self.claims.iter().position(|claim| claim.lock == lock && claim.fence.is_none()) {
            let mode = self.claims[at].mode;
            let holders: Vec<&Claim> = self.holders(lock).collect();
            let shared = mode == Mode::Shared && holders.iter().all(|holder| holder.mode == Mode::Shared);
            let closed = self.delays.iter().any(|delay| delay.0 == lock);
            if closed || !(shared || holders.len() < permits(mode) as usize) {
                return;
            }
            let fence = holders.first().filter(|_| shared).and_then(|holder| holder.fence).unwrap_or(self.fence + 1);
            self.fence = self.fence.max(fence);
            let claim = &mut self.claims[at];
            (claim.fence, claim.since_ms) = (Some(fence), self.now_ms);
            let (id, number) = (claim.session, claim.number);
            self.answer(id, number, Answer::Granted { fence }, out);
        }
    }

    pub fn holders(&self, lock: &str) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(move |claim| claim.lock == lock && claim.fence.is_some())
    }

    fn holds(&self, id: SessionId, number: u64) -> bool {
        self.claims.iter().any(|claim| (claim.session, claim.number) == (id, number) && claim.fence.is_some())
    }

    fn give_back(&mut self, id: SessionId, acquire: u64, out: &mut Vec<Effect>) {
        let at = self.claims.iter().position(|claim| (claim.session, claim.number) == (id, acquire)).unwrap();
        let claim = self.claims.remove(at);
        self.remember(&claim, if claim.revoked { Ended::Forced } else { Ended::Released });
        self.grant(&claim.lock, out);
    }

    fn remember(&mut self, claim: &Claim, ended: Ended) {
        let Claim { ref lock, session, fence, since_ms: from_ms, .. } = *claim;
        let Some(fence) = fence else { return };
        self.history.push(Past { lock: lock.clone(), session, fence, from_ms, to_ms: self.now_ms, ended });
        if self.history.iter().filter(|past| past.lock == *lock).count() > 16 {
            let oldest = self.history.iter().position(|past| past.lock == *lock).unwrap();
            self.history.remove(oldest);
        }
    }

    fn cancel(&mut self, id: SessionId, number: u64, acquire: u64, out: &mut Vec<Effect>) {
        if self.holds(id, acquire) {
            self.answer(id, number, Answer::Cancelled(CancelOutcome::Released), out);
            return self.give_back(id, acquire, out);
        }
        if self.claims.iter().any(|claim| (claim.session, claim.number) == (id, acquire)) {
            self.answer(id, number, Answer::Cancelled(CancelOutcome::Removed), out);
            return self.unwait(id, acquire, Refusal::Cancelled, out);
        }
        let session = self.session(id).unwrap();
        let known = session.has_seen(acquire) || session.answers.iter().any(|answer| answer.0 == acquire);
        if !known && !session.forced.contains(&acquire) {
            session.answers.push((acquire, Answer::Refused(Refusal::Cancelled)));
        }
        session.forced.retain(|&forced| forced != acquire);
        self.answer(id, number, Answer::Cancelled(CancelOutcome::Nothing), out);
    }

    fn unwait(&mut self, id: SessionId, number: u64, why: Refusal, out: &mut Vec<Effect>) {
        let waits = |claim: &Claim| (claim.session, claim.number, claim.fence) == (id, number, None);
        if let Some(at) = self.claims.iter().position(waits) {
            let claim = self.claims.remove(at);
            self.refuse(id, number, why, out);
            self.grant(&claim.lock, out);
        }
    }

    fn end(&mut self, id: SessionId, reason: EndReason, out: &mut Vec<Effect>) {
        if self.session(id).is_none() {
            return;
        }
        self.sessions.retain(|session| session.id != id);
        out.push(Effect::Ended { session: id, reason });
        let (mut gone, rest): (Vec<_>, Vec<_>) = self.claims.drain(..).partition(|claim| claim.session == id);
        self.claims = rest;
        gone.sort_by_key(|claim| claim.number);
        let expired = reason == EndReason::Expired;
        let mut locks: Vec<String> = Vec::new();
        for claim in &gone {
            let forced = if claim.revoked { Ended::Forced } else { Ended::Released };
            self.remember(claim, if expired { Ended::Expired } else { forced });
            if !locks.contains(&claim.lock) {
                locks.push(claim.lock.clone());
            }
        }
        for lock in locks {
            let delays = gone.iter().filter(|claim| claim.lock == lock && claim.fence.is_some() && expired);
            let longest = delays.map(|claim| claim.delay_ms).max().unwrap_or(0);
            if longest > 0 {
                self.close(&lock, longest, out);
            }
            self.grant(&lock, out);
        }
    }

    fn close(&mut self, lock: &str, delay_ms: u64, out: &mut Vec<Effect>) {
        let before = self.delays.iter().find(|delay| delay.0 == lock).map_or(0, |delay| delay.2);
        self.delays.retain(|delay| delay.0 != lock);
        self.generation += 1;
        let (generation, delay_ms) = (self.generation, delay_ms.max(before));
        self.delays.push((lock.into(), generation, delay_ms));
        out.push(Effect::LockDelay { lock: lock.into(), generation, delay_ms });
    }

    fn force(&mut self, lock: &str, now: bool, out: &mut Vec<Effect>) {
        for claim in self.claims.iter_mut().filter(|claim| claim.lock == lock && claim.fence.is_some()) {
            claim.revoked = true;
            out.push(Effect::Revoked { session: claim.session, acquire: claim.number });
        }
        if !now {
            return;
        }
        let (taken, rest): (Vec<_>, Vec<_>) =
            self.claims.drain(..).partition(|claim| claim.lock == lock && claim.fence.is_some());
        self.claims = rest;
        for claim in taken {
            self.remember(&claim, Ended::Forced);
            self.session(claim.session).unwrap().forced.push(claim.number);
        }
        self.delays.retain(|delay| delay.0 != lock);
        self.grant(lock, out);
    }

    fn refuse(&mut self, id: SessionId, number: u64, refusal: Refusal, out: &mut Vec<Effect>) {
        self.answer(id, number, Answer::Refused(refusal), out);
    }

    fn answer(&mut self, id: SessionId, number: u64, answer: Answer, out: &mut Vec<Effect>) {
        if let Some(session) = self.session(id)
            && number != 0
            && !session.has_seen(number)
        {
            session.answers.push((number, answer.clone()));
        }
        out.push(Effect::Answer { session: id, number, answer });
    }
}

fn senseless(number: u64, seen: u64, missing: &[u64]) -> bool {
    let out_of_order = missing.windows(2).any(|two| two[0] >= two[1]);
    let out_of_bounds = missing.iter().any(|&missing| missing == 0 || missing >= number || missing > seen);
    missing.len() > 2_048 || out_of_order || out_of_bounds
}

fn invalid(number: u64, operation: &Operation) -> bool {
    match operation {
        _ if number == 0 => true,
        Operation::Acquire { lock, mode, lock_delay_ms, .. } => {
            lock.is_empty()
                || lock.len() > 512
                || !(1..=1_000_000).contains(&permits(*mode))
                || *lock_delay_ms > 3_600_000
        }
        Operation::Release { acquire } | Operation::Cancel { acquire } => !(1..number).contains(acquire),
        Operation::Close => false,
    }
}

/// The request, as it would wait.
pub fn waiting(command: &Command) -> Option<Claim> {
    let Command::Request { session, number, operation, .. } = command else { return None };
    let Operation::Acquire { lock, mode, owner, timeout_ms, .. } = operation else { return None };
    Some(Claim {
        session: *session,
        number: *number,
        owner: *owner,
        lock: lock.clone(),
        mode: *mode,
        timeout_ms: *timeout_ms,
        since_ms: 0,
        fence: None,
        revoked: false,
        delay_ms: 0,
    })
}
