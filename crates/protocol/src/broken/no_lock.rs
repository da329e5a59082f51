//! No lock at all: a process that requests enters at once, also while another process is inside.
//!
//! This shows what a shared counter loses without mutual exclusion: two processes that read the same value write the
//! same sum, and one increment is lost. There are no messages. The "fence" counts only the own entries, so two
//! processes get equal fences.

use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::Property;
use crate::mutex::{Command, Event};
use crate::registry::{About, Assumes, Broken, Crashes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Picture, Protocol};

/// A process that enters whenever it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoLock {
    entries: u64,
}

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

pub const ABOUT: About = About {
    name: "no-lock",
    family: Family::Mutex,
    way: None,
    summary: "no lock at all: shows what the others are good for",
    assumes: Assumes { lossless: false, no_duplicates: false, crashes: Crashes::Any, ..Assumes::LOSSLESS },
    promises: Promises::ALL,
    variants: &[],
    broken: Some(Broken {
        breaks: &[Property::Safety, Property::Fence],
        how: "every process enters at once: SAFE fails as soon as two request",
    }),
};

pub fn group(params: &Params) -> Result<Group<NoLock>, SetupError> {
    Ok(Group::new(params.n, params.n, |_| NoLock::default()))
}
