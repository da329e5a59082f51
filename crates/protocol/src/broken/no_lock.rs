//! No lock at all: whoever asks enters at once, whoever else is inside.
//!
//! What a shared counter shows without mutual exclusion: two who read the same value write the same sum, and one of the
//! two increments is lost. No messages, no state but a count of the own entries, which makes no fence worth the name.

use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::mutex::{Command, Event};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Picture, Protocol};

/// A process that lets itself in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoLock {
    entries: u64,
}

/// There is nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

impl Protocol for NoLock {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        if let Input::Command(Command::Acquire) = input {
            self.entries += 1;
            out.emit(Event::Granted { fence: self.entries });
        }
    }

    fn view(&self) -> Picture {
        Picture::new().field("entries", self.entries)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Fence, &mut self.entries);
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "no-lock",
    family: Family::Mutex,
    summary: "no lock at all: what the others are good for",
    assumes: Assumes { lossless: false, no_duplicates: false, crashes: Crashes::Any, ..Assumes::LOSSLESS },
    promises: Promises::ALL,
    variants: &[],
    broken: Some("everybody enters at once: SAFE fails as soon as two ask"),
};

/// n processes on their own.
pub fn group(params: &Params) -> Result<Group<NoLock>, SetupError> {
    Ok(Group::new(params.n, params.n, |_| NoLock::default()))
}
