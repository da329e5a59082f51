//! The locks as a module of the state.

use super::words::{Answer, Command, Effect, Operation, What};
use super::{Claim, LockName, Locks, Record};
use crate::state::module::{Beside, Module};
use crate::state::sessions::EndReason;
use crate::state::turn::Turn;
use crate::state::words::Fingerprint;
use crate::state::{RequestNumber, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// An acquire waits until its time-out.
    Wait { session: SessionId, number: RequestNumber },
    /// A lock is closed. The delay of a later generation replaces the earlier ones.
    Delay { lock: LockName, generation: u64 },
}

impl Module for Locks {
    type Command = Command;
    type Operation = Operation;
    type Answer = Answer;
    type Effect = Effect;
    type What = What;
    type Record = Record;
    type Timer = Timer;

    const FORMAT: u8 = 2;
    const HEAD: Option<&'static str> = Some("the counters of the locks");

    fn apply(&mut self, turn: &mut Turn<'_>, command: &Command) {
        self.apply(turn, command);
    }

    fn request(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, operation: &Operation) {
        self.request(turn, session, number, operation);
    }

    fn resumed(&self, turn: &mut Turn<'_>, session: SessionId) {
        self.resumed(turn, session);
    }

    fn session_ends(&mut self, turn: &mut Turn<'_>, session: SessionId, reason: EndReason) {
        self.session_ends(turn, session, reason);
    }

    fn closes(&mut self) {
        self.shut();
    }

    fn opens(&mut self, turn: &mut Turn<'_>) {
        self.open(turn);
    }

    fn raise_fences(&mut self, from: u64) {
        self.raise_fences(from);
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.records()
    }

    fn restore(&mut self, record: Record) -> Result<(), String> {
        self.restore(record)
    }

    fn restored(&mut self, is_closed: bool) {
        self.restored(is_closed);
    }

    fn is_head(record: &Record) -> bool {
        matches!(record, Record::Counters { .. })
    }

    fn check(&self, beside: &Beside<'_>) -> Result<(), String> {
        self.check(beside.grants, beside.revision)?;
        self.check_sessions(beside.sessions)
    }

    fn owed(&self, session: SessionId) -> Vec<RequestNumber> {
        self.claims_of(session).filter(|claim| !claim.holds()).map(|claim| claim.number).collect()
    }

    fn timers(&self) -> impl Iterator<Item = (Timer, u64)> + '_ {
        let wait = |claim: &Claim| {
            let (session, number) = claim.key();
            Some((Timer::Wait { session, number }, claim.timeout_ms?.get()))
        };
        // While the cluster is closed, the leases of before may still run. The delays begin when it opens.
        let delays = self.closed().filter(|_| !self.closed).map(|(lock, delay)| {
            let generation = delay.generation;
            (Timer::Delay { lock: lock.clone(), generation }, delay.delay_ms)
        });
        self.waiting_claims().filter_map(wait).chain(delays)
    }

    fn armed_by(effect: &Effect) -> Option<(Timer, u64)> {
        match *effect {
            Effect::Waits { session, number, timeout_ms } => Some((Timer::Wait { session, number }, timeout_ms)),
            Effect::LockDelay { ref lock, generation, delay_ms } => {
                Some((Timer::Delay { lock: lock.clone(), generation }, delay_ms))
            }
            Effect::Revoked { .. } | Effect::Forced { .. } => None,
        }
    }

    fn first(timer: &Timer) -> Timer {
        match timer {
            Timer::Wait { .. } => timer.clone(),
            Timer::Delay { lock, .. } => Timer::Delay { lock: lock.clone(), generation: 0 },
        }
    }

    fn request_of(timer: &Timer) -> Option<(SessionId, RequestNumber)> {
        match *timer {
            Timer::Wait { session, number } => Some((session, number)),
            Timer::Delay { .. } => None,
        }
    }

    fn at_end_of(timer: Timer) -> Command {
        match timer {
            Timer::Wait { session, number } => Command::CancelWait { session, number },
            Timer::Delay { lock, generation } => Command::EndLockDelay { lock, generation },
        }
    }

    fn is_of_timer(command: &Command) -> bool {
        match command {
            Command::CancelWait { .. } | Command::EndLockDelay { .. } => true,
            Command::Force { .. } => false,
        }
    }

    fn check_operation(operation: &Operation, number: RequestNumber) -> Result<(), String> {
        operation.check(number).map_err(|invalid| invalid.to_string())
    }

    fn frees(operation: &Operation) -> bool {
        !matches!(operation, Operation::Acquire(_))
    }

    fn fingerprint(operation: &Operation, hash: &mut Fingerprint) {
        operation.fingerprint(hash);
    }

    fn shortened(answer: Answer) -> Answer {
        answer.shortened()
    }
}
