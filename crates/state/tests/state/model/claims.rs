//! Claims: how they enter, are granted, and leave.

use baton_state::state::locks::{self, Acquire, Answer, Ended, LockName, Mode, Refusal};
use baton_state::state::{Command, Operation, Request, SessionId};

use super::{Claim, Model, Past, Told, What};

pub(super) fn permits(mode: Mode) -> u32 {
    if let Mode::Permit { of } = mode { of } else { 1 }
}

impl Claim {
    pub(super) fn new(session: SessionId, number: u64, acquire: Acquire) -> Self {
        let Acquire { wants, owner, parent, timeout_ms, lock_delay_ms: delay_ms } = acquire;
        let wants = wants.into_iter().map(|want| (want.lock, want.mode)).collect();
        let (ticket, revision, since_ms, fence, revoked) = (0, 0, 0, None, false);
        Claim {
            ticket,
            revision,
            session,
            number,
            owner,
            parent,
            wants,
            timeout_ms,
            since_ms,
            fence,
            revoked,
            delay_ms,
        }
    }

    pub fn locks(&self) -> impl Iterator<Item = LockName> {
        self.wants.iter().map(|want| want.0.clone())
    }

    /// The mode in which the claim wants this lock, if it does.
    pub fn mode(&self, lock: &LockName) -> Option<Mode> {
        self.wants.iter().find(|want| want.0 == *lock).map(|want| want.1)
    }
}

/// The claim of an acquire, as it would wait.
pub fn waiting(command: &Command) -> Option<Claim> {
    match command.clone() {
        Command::Request(Request {
            session,
            number,
            operation: Operation::Locks(locks::Operation::Acquire(acquire)),
            ..
        }) => Some(Claim::new(session, number, acquire)),
        _ => None,
    }
}

impl Model {
    pub(super) fn acquire(&mut self, claim: Claim, out: &mut Told) {
        let (id, number) = (claim.session, claim.number);
        for (lock, mode) in &claim.wants {
            let has = self.permits.iter().find(|permits| permits.0 == *lock).map(|permits| permits.1);
            let says = permits(*mode);
            if let Some(has) = has.filter(|&has| self.is_used(lock) && has != says) {
                let refusal = Refusal::PermitsDiffer { lock: Some(lock.clone()), has, says };
                return self.answer(id, number, Answer::Refused(refusal), out);
            }
        }
        let mut with = self.clone();
        with.ticket = claim.ticket;
        for (lock, mode) in &claim.wants {
            with.permits.retain(|permits| permits.0 != *lock);
            with.permits.push((lock.clone(), permits(*mode)));
        }
        with.claims.push(claim.clone());
        let mut told = Told::default();
        with.grant(claim.locks().collect(), &mut told);
        let entered = with.claims.last().expect("just entered").clone();
        match (entered.fence, claim.timeout_ms) {
            (Some(_), _) => out.effects.extend(told.effects),
            (None, Some(0)) => return self.answer(id, number, Answer::Refused(Refusal::NotAvailable), out),
            (None, _) if with.is_stuck(id, number) => {
                return self.answer(id, number, Answer::Refused(Refusal::Deadlock(vec![])), out);
            }
            (None, Some(timeout_ms)) => out.tell(locks::Effect::Waits { session: id, number, timeout_ms }),
            (None, None) => {}
        }
        *self = with;
        out.change(What::Claim(None, Some(entered)));
    }

    /// Grants each of these locks to its first waiter, as long as that claim can have all its locks. The other locks of
    /// a granted claim are checked after these.
    pub(super) fn grant(&mut self, mut locks: Vec<LockName>, out: &mut Told) {
        let mut at = 0;
        while at < locks.len() {
            let lock = locks[at].clone();
            let waits = |claim: &Claim| claim.fence.is_none() && claim.mode(&lock).is_some();
            while let Some(first) = self.claims.iter().position(waits).filter(|&first| self.can_have_all(first)) {
                let fence = self.fence_for(first);
                self.fence = self.fence.max(fence);
                let before = self.claims[first].clone();
                let claim = &mut self.claims[first];
                (claim.fence, claim.since_ms, claim.timeout_ms) = (Some(fence), self.now_ms, None);
                let after = claim.clone();
                for lock in after.locks() {
                    self.fences.retain(|fence| fence.0 != lock);
                    self.fences.push((lock, fence));
                }
                locks.extend(after.locks().filter(|other| *other != lock));
                self.answer(after.session, after.number, Answer::Granted { fence }, out);
                out.change(What::Claim(Some(before), Some(after)));
            }
            at += 1;
        }
    }

    /// Whether no claim waits before this one at any of its locks, and each lock admits it.
    fn can_have_all(&self, at: usize) -> bool {
        self.claims[at].wants.iter().all(|(lock, mode)| {
            let mut before = self.claims[..at].iter().filter(|claim| claim.fence.is_none());
            let holders: Vec<&Claim> = self.holders(lock).collect();
            let all_share = *mode == Mode::Shared && holders.iter().all(|claim| claim.mode(lock) == Some(Mode::Shared));
            before.all(|claim| claim.mode(lock).is_none())
                && self.delays.iter().all(|delay| delay.0 != *lock)
                && (all_share || holders.len() < permits(*mode) as usize)
        })
    }

    /// A claim of one lock that shares it with others has the fence of the lock's last grant.
    fn fence_for(&self, at: usize) -> u64 {
        if let [(lock, Mode::Shared)] = &self.claims[at].wants[..]
            && self.holders(lock).next().is_some()
        {
            return self.fences.iter().find(|fence| fence.0 == *lock).expect("its holders were granted it").1;
        }
        self.fence + 1
    }

    pub fn holders(&self, lock: &LockName) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(move |claim| claim.mode(lock).is_some() && claim.fence.is_some())
    }

    pub fn waiters(&self, lock: &LockName) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(move |claim| claim.mode(lock).is_some() && claim.fence.is_none())
    }

    /// Whether the lock is held, waited for or closed.
    pub fn is_used(&self, lock: &LockName) -> bool {
        let is_closed = self.delays.iter().any(|delay| delay.0 == *lock);
        is_closed || self.claims.iter().any(|claim| claim.mode(lock).is_some())
    }

    pub(super) fn holds(&self, id: SessionId, number: u64) -> bool {
        self.claims.iter().any(|claim| (claim.session, claim.number) == (id, number) && claim.fence.is_some())
    }

    pub(super) fn give_back(&mut self, id: SessionId, acquire: u64, out: &mut Told) {
        let holds = |claim: &&Claim| (claim.session, claim.number) == (id, acquire);
        let claim = self.claims.iter().find(holds).expect("it holds").clone();
        self.leave(&claim, if claim.revoked { Ended::Forced } else { Ended::Released }, out);
        self.grant(claim.locks().collect(), out);
    }

    pub(super) fn unwait(&mut self, id: SessionId, number: u64, why: Refusal, out: &mut Told) {
        let waits = |claim: &&Claim| (claim.session, claim.number, claim.fence) == (id, number, None);
        let Some(claim) = self.claims.iter().find(waits).cloned() else { return };
        self.leave(&claim, Ended::Released, out);
        self.answer(id, number, Answer::Refused(why), out);
        self.grant(claim.locks().collect(), out);
    }

    /// The claim ends. If it held, each of its locks remembers the hold.
    pub(super) fn leave(&mut self, claim: &Claim, ended: Ended, out: &mut Told) {
        self.claims.retain(|other| other.ticket != claim.ticket);
        out.change(What::Claim(Some(claim.clone()), None));
        let Some(fence) = claim.fence else { return };
        for lock in claim.locks() {
            let (session, from_ms, to_ms) = (claim.session, claim.since_ms, self.now_ms);
            let of_lock = |past: &Past| past.lock == lock;
            if self.history.iter().filter(|past| of_lock(past)).count() == 16 {
                let oldest = self.history.iter().position(of_lock).expect("there are 16");
                self.history.remove(oldest);
            }
            self.history.push(Past { lock, session, fence, from_ms, to_ms, ended });
        }
    }
}
