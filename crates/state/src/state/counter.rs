//! A module of the tests, which shows what a module needs: one counter. A session can add to it and read it; a timer and
//! a call reset it.

use serde::{Deserialize, Serialize};

use super::module::{Beside, Module};
use super::sessions::EndReason;
use super::turn::Turn;
use super::words::Fingerprint;
use super::{RequestNumber, SessionId};

/// The counter never goes beyond this value.
pub const VALUE_MAX: u64 = 100;
/// So long after the last addition, the counter is reset.
pub const RESET_AFTER_MS: u64 = 700;

/// Its record is the module itself: nothing is derived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    pub value: u64,
    /// Counts the additions, so that the timer of an earlier one does nothing.
    generation: u64,
}

pub type Record = Counter;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The time after the addition of this generation is over.
    EndOf { generation: u64 },
    /// An operator resets the counter.
    Reset,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Add(u64),
    Read,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Value(u64),
    TooMuch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The leader must propose `EndOf` after a while.
    Added { generation: u64 },
    /// The answer to the operator.
    WasReset { from: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct What {
    pub before: u64,
    pub after: u64,
}

/// By its generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer(u64);

impl super::State {
    pub fn counter(&self) -> &Counter {
        &self.modules.counter
    }
}

impl Counter {
    fn set(&mut self, turn: &mut Turn<'_>, after: u64) -> u64 {
        let before = std::mem::replace(&mut self.value, after);
        if before != after {
            turn.change_alone(super::What::Counter(What { before, after }), None);
        }
        before
    }
}

impl Module for Counter {
    type Command = Command;
    type Operation = Operation;
    type Answer = Answer;
    type Effect = Effect;
    type What = What;
    type Record = Record;
    type Timer = Timer;

    const FORMAT: u8 = 3;

    fn apply(&mut self, turn: &mut Turn<'_>, command: &Command) {
        match command {
            Command::EndOf { generation } if *generation == self.generation => drop(self.set(turn, 0)),
            Command::EndOf { .. } => {}
            Command::Reset => {
                let from = self.set(turn, 0);
                turn.tell(Effect::WasReset { from });
            }
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, operation: &Operation) {
        match operation {
            Operation::Add(by) if *by > VALUE_MAX - self.value => turn.answer(session, number, Answer::TooMuch),
            Operation::Add(by) => {
                self.generation += 1;
                self.set(turn, self.value + by);
                turn.answer(session, number, Answer::Value(self.value));
                turn.tell(Effect::Added { generation: self.generation });
            }
            Operation::Read => turn.answer(session, number, Answer::Value(self.value)),
        }
    }

    fn resumed(&self, _: &mut Turn<'_>, _: SessionId) {}

    fn session_ends(&mut self, _: &mut Turn<'_>, _: SessionId, _: EndReason) {}

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (*self != Counter::default()).then(|| self.clone()).into_iter()
    }

    fn restore(&mut self, record: Record) -> Result<(), String> {
        *self = record;
        Ok(())
    }

    fn check(&self, _: &Beside<'_>) -> Result<(), String> {
        if self.value <= VALUE_MAX { Ok(()) } else { Err(format!("the counter is at {}", self.value)) }
    }

    fn owed(&self, _: SessionId) -> Vec<RequestNumber> {
        Vec::new()
    }

    fn timers(&self) -> impl Iterator<Item = (Timer, u64)> + '_ {
        (self.value > 0).then_some((Timer(self.generation), RESET_AFTER_MS)).into_iter()
    }

    fn armed_by(effect: &Effect) -> Option<(Timer, u64)> {
        match effect {
            Effect::Added { generation } => Some((Timer(*generation), RESET_AFTER_MS)),
            Effect::WasReset { .. } => None,
        }
    }

    fn first(_: &Timer) -> Timer {
        Timer(0)
    }

    fn request_of(_: &Timer) -> Option<(SessionId, RequestNumber)> {
        None
    }

    fn at_end_of(Timer(generation): Timer) -> Command {
        Command::EndOf { generation }
    }

    fn is_of_timer(command: &Command) -> bool {
        matches!(command, Command::EndOf { .. })
    }

    fn check_operation(_: &Operation, _: RequestNumber) -> Result<(), String> {
        Ok(())
    }

    fn frees(operation: &Operation) -> bool {
        matches!(operation, Operation::Read)
    }

    fn fingerprint(operation: &Operation, hash: &mut Fingerprint) {
        match operation {
            Operation::Add(by) => [0, *by].into_iter().for_each(|number| hash.number(number)),
            Operation::Read => hash.number(1),
        }
    }
}
