//! The table of locks: a pure, deterministic state machine.

mod command;

pub use command::{
    Answer, CancelOutcome, Command, Effect, EndReason, Entry, Mode, Operation, OwnerId, Refusal, RequestNumber,
    SessionId, WaitFor,
};
