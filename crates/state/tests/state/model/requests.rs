//! Requests: applied once, and answered again.

use baton_state::state::locks::{self, Acquire, CancelOutcome, LockName};
use baton_state::state::sessions::{EndReason, Refusal};
use baton_state::state::{Answer, Effect, Operation, Request, SessionId};

use super::claims::permits;
use super::{Claim, Kept, Model, Session, Told};

impl Session {
    fn has_seen(&self, number: u64) -> bool {
        number != 0 && self.seen.iter().any(|(seen, missing)| number <= *seen && !missing.contains(&number))
    }

    fn kept(&mut self, number: u64) -> Option<&mut Kept> {
        self.requests.iter_mut().find(|kept| kept.number == number)
    }
}

impl Model {
    pub fn is_answered(&self, id: SessionId, number: u64) -> bool {
        let session = self.sessions.iter().find(|session| session.id == id);
        session
            .is_some_and(|session| session.requests.iter().any(|kept| kept.number == number && kept.answer.is_some()))
    }

    /// Whether this request waits or is answered, seen or not.
    pub fn is_known(&self, id: SessionId, number: u64) -> bool {
        let session = self.sessions.iter().find(|session| session.id == id);
        session.is_some_and(|session| {
            session.has_seen(number) || session.requests.iter().any(|kept| kept.number == number)
        })
    }

    pub(super) fn request(&mut self, request: Request, out: &mut Told) {
        let Request { session: id, number, seen, missing, operation, .. } = request;
        let Some(session) = self.session(id) else {
            return out.tell(Effect::Ended { session: id, reason: EndReason::Unknown });
        };
        let nonsense = senseless(number, seen, &missing);
        if !nonsense {
            session.seen.push((seen, missing));
        }
        let mut requests = std::mem::take(&mut session.requests);
        requests.retain(|kept| kept.answer.is_none() || !session.has_seen(kept.number));
        session.requests = requests;
        match session.kept(number).cloned() {
            Some(Kept { operation: Some(before), .. }) if before != operation => {
                let answer = Answer::Refused(Refusal::NumberReused);
                return out.tell(Effect::Answer { session: id, number, answer });
            }
            Some(Kept { answer: Some(answer), .. }) => {
                return out.tell(Effect::Answer { session: id, number, answer });
            }
            Some(Kept { answer: None, .. }) => return,
            None if session.has_seen(number) => return,
            None if number == 0 => {}
            None => session.requests.push(Kept { number, operation: Some(operation.clone()), answer: None }),
        }
        if nonsense || invalid(number, &operation) {
            // The model does not predict the text.
            return self.answer(id, number, Answer::Refused(Refusal::Invalid(String::new())), out);
        }
        match operation {
            Operation::Close => {
                out.tell(Effect::Answer { session: id, number, answer: Answer::Closed });
                self.end(id, EndReason::Closed, out);
            }
            Operation::Locks(locks::Operation::Acquire(acquire)) => {
                let claim = Claim::new(id, number, acquire);
                let (ticket, revision, since_ms) = (self.ticket + 1, self.revision + 1, self.now_ms);
                self.acquire(Claim { ticket, revision, since_ms, ..claim }, out);
            }
            Operation::Locks(locks::Operation::Release { acquire }) => self.release(id, number, acquire, out),
            Operation::Locks(locks::Operation::Cancel { acquire }) => self.cancel(id, number, acquire, out),
            Operation::Counter(_) => unreachable!("the model has only locks"),
        }
    }

    fn release(&mut self, id: SessionId, number: u64, acquire: u64, out: &mut Told) {
        if self.holds(id, acquire) {
            self.answer(id, number, locks::Answer::Released, out);
            return self.give_back(id, acquire, out);
        }
        let is_forced = self.session(id).unwrap().forced.contains(&acquire);
        self.session(id).unwrap().forced.retain(|&forced| forced != acquire);
        let refused = locks::Answer::Refused(locks::Refusal::NotHolder { acquire });
        self.answer(id, number, if is_forced { locks::Answer::Released } else { refused }, out);
    }

    fn cancel(&mut self, id: SessionId, number: u64, acquire: u64, out: &mut Told) {
        if self.holds(id, acquire) {
            self.answer(id, number, locks::Answer::Cancelled(CancelOutcome::Released), out);
            return self.give_back(id, acquire, out);
        }
        if self.claims.iter().any(|claim| (claim.session, claim.number) == (id, acquire)) {
            self.answer(id, number, locks::Answer::Cancelled(CancelOutcome::Removed), out);
            return self.unwait(id, acquire, locks::Refusal::Cancelled, out);
        }
        let session = self.session(id).unwrap();
        let is_known = session.has_seen(acquire) || session.kept(acquire).is_some();
        if !is_known && !session.forced.contains(&acquire) {
            let answer = Some(locks::Answer::Refused(locks::Refusal::Cancelled).into());
            session.requests.push(Kept { number: acquire, operation: None, answer });
        }
        session.forced.retain(|&forced| forced != acquire);
        self.answer(id, number, locks::Answer::Cancelled(CancelOutcome::Nothing), out);
    }

    pub(super) fn answer(&mut self, id: SessionId, number: u64, answer: impl Into<Answer>, out: &mut Told) {
        let answer = answer.into();
        let session = self.session(id).expect("only a session that is there is answered");
        if session.has_seen(number) {
            session.requests.retain(|kept| kept.number != number);
        } else if let Some(kept) = session.kept(number) {
            assert!(kept.answer.is_none(), "{number} is answered twice");
            kept.answer = Some(answer.clone());
        }
        out.tell(Effect::Answer { session: id, number, answer });
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
        Operation::Close => false,
        Operation::Locks(locks::Operation::Acquire(Acquire { wants, lock_delay_ms, .. })) => {
            let is_named = |lock: &LockName| (1..=512).contains(&lock.as_bytes().len());
            let named = |lock: &LockName| wants.iter().filter(|want| want.lock == *lock).count();
            wants.is_empty()
                || wants.len() > 64
                || !wants.iter().all(|want| is_named(&want.lock) && named(&want.lock) == 1)
                || !wants.iter().all(|want| (1..=1_000_000).contains(&permits(want.mode)))
                || *lock_delay_ms > 3_600_000
        }
        Operation::Locks(locks::Operation::Release { acquire } | locks::Operation::Cancel { acquire }) => {
            !(1..number).contains(acquire)
        }
        Operation::Counter(_) => unreachable!("the model has only locks"),
    }
}
