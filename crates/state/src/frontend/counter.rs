//! The front end's half of the test module: see `state::counter`.

use baton_types::counter as types;
use baton_types::frames::{self, ToClient};
use baton_types::refusal::{Refusal, RefusalCode};

use super::limits::Denied;
use super::modules::{Gate, Half};
use super::words::refuse;
use crate::state::counter::{self, Answer, Command, Effect, Operation, VALUE_MAX};
use crate::state::{Outcome, RequestNumber, SessionId, State};

/// What is on its way to be added.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    under_way: u64,
}

/// The value before an operator reset the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub u64);

/// There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {}

fn too_much() -> String {
    format!("the counter goes up to {VALUE_MAX}")
}

fn added(operation: &Operation) -> u64 {
    if let Operation::Add(by) = operation { *by } else { 0 }
}

impl Half for Counter {
    type Asked = types::Operation;
    type Operation = Operation;
    type Answer = Answer;
    type Command = Command;
    type Effect = Effect;
    type Reply = Reply;
    type Note = Note;

    fn operation(&self, _: RequestNumber, asked: types::Operation) -> Result<Operation, String> {
        Ok(match asked {
            types::Operation::Add(by) => Operation::Add(by),
            types::Operation::Read => Operation::Read,
        })
    }

    fn bytes(_: &types::Operation) -> usize {
        0
    }

    fn admits(&self, gate: &Gate<'_>, _: SessionId, operation: &Operation) -> Result<(), Denied> {
        let (by, used) = (added(operation), gate.state.counter().value + self.under_way);
        if by <= VALUE_MAX.saturating_sub(used) {
            return gate.low_space().filter(|_| by > 0).map_or(Ok(()), Err);
        }
        Err(Denied { refusal: Refusal::new(RefusalCode::Unavailable, too_much()), limit: Some("the counter") })
    }

    fn may_be_held_back(_: &State, _: &Operation) -> bool {
        false
    }

    fn proposed(&mut self, _: SessionId, operation: &Operation) {
        self.under_way += added(operation);
    }

    fn applied(&mut self, _: SessionId, operation: &Operation) {
        self.under_way -= added(operation);
    }

    fn reset(&mut self) {
        *self = Counter::default();
    }

    fn answer(answer: &Answer) -> frames::Answer {
        match answer {
            Answer::Value(value) => types::Answer(*value).into(),
            Answer::TooMuch => refuse(RefusalCode::Unavailable, too_much()),
        }
    }

    fn told(_: &Effect) -> Option<(SessionId, ToClient)> {
        None
    }

    fn reply(effect: &counter::Effect, _: &dyn Fn(SessionId) -> u64) -> Option<Reply> {
        if let Effect::WasReset { from } = effect { Some(Reply(*from)) } else { None }
    }

    fn done_by(_: &Command) -> &'static str {
        "the counter was reset"
    }

    fn note(_: &Command, _: &Outcome) -> Option<Note> {
        None
    }
}
