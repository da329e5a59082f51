//! What follows from an action, and what the families of protocols call it.

use std::ops::RangeInclusive;

use baton_protocol::append::{self, Append};
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::{Choice, Group, ProcessId, Protocol, Ticks};
use baton_trace::Wish;

use super::Stage;

/// One thing that follows from an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<P: Protocol> {
    /// A step had a choice, and this is how it came out.
    Chose {
        /// Who chose.
        process: ProcessId,
        /// Among how many, and which.
        choice: Choice,
    },
    /// A message was sent.
    Sent {
        /// Which one.
        message: Envelope<P::Message>,
        /// Its receiver is down, so that it will not arrive.
        lost: bool,
    },
    /// A message has arrived; the effects after this one are those of its arrival.
    Delivered(Envelope<P::Message>),
    /// A message that was in flight will not arrive.
    Lost(Envelope<P::Message>),
    /// A message is in flight once more: this is the copy.
    Copied(Envelope<P::Message>),
    /// A timer was started, or started again.
    TimerSet {
        /// Whose timer.
        process: ProcessId,
        /// Which one.
        timer: P::Timer,
        /// After how long it runs out.
        after: RangeInclusive<Ticks>,
    },
    /// A timer that was running was stopped.
    TimerCancelled {
        /// Whose timer.
        process: ProcessId,
        /// Which one.
        timer: P::Timer,
    },
    /// A process is let into the critical section.
    Granted {
        /// Which one.
        process: ProcessId,
        /// The number of the grant.
        fence: u64,
        /// Whether its user had asked; if not, nobody enters.
        asked: bool,
    },
    /// A process believes in a leader, or in none.
    Elected {
        /// Which process.
        process: ProcessId,
        /// Its leader.
        leader: Option<ProcessId>,
        /// In which term, where terms are counted.
        term: Option<u64>,
    },
    /// A record was appended.
    Appended {
        /// Whose record.
        process: ProcessId,
        /// Where it is in the file.
        offset: u64,
    },
    /// A process is down.
    Crashed {
        /// Which one.
        process: ProcessId,
    },
    /// A process is up again.
    Recovered {
        /// Which one.
        process: ProcessId,
    },
    /// A process that has recovered may be given commands from now on.
    Ready {
        /// Which one.
        process: ProcessId,
    },
    /// An oracle has found something wrong.
    Violated {
        /// With which property.
        property: &'static str,
        /// What.
        detail: String,
    },
}

/// A message that has been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<M> {
    /// Its number; messages are numbered in the order of sending.
    pub id: u64,
    /// The number of the message that it is a copy of; of an original its own.
    pub original: u64,
    /// The sender.
    pub from: ProcessId,
    /// The receiver.
    pub to: ProcessId,
    /// What it carries.
    pub payload: Payload<M>,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<M> {
    /// A message of the protocol.
    Protocol(M),
    /// A message of the application, with the protocol's clock if it has one.
    App(Option<u64>),
}

/// How the commands and the events of a family of protocols are called.
#[derive(Clone)]
pub struct Words<P: Protocol> {
    /// The command for a wish; none if the family has no such wish.
    pub command: fn(Wish) -> Option<P::Command>,
    /// An event of a process as an effect. The stage fills in what the process cannot know.
    pub event: fn(ProcessId, P::Event) -> Effect<P>,
}

impl<P: Mutex> Stage<P> {
    /// A group for mutual exclusion, before its start.
    pub fn mutex(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Request => Some(mutex::Command::Acquire),
            Wish::Release => Some(mutex::Command::Release),
            Wish::Elect | Wish::Append(_) => None,
        };
        let event = |process, mutex::Event::Granted { fence }| Effect::Granted { process, fence, asked: false };
        Stage::new(group, Words { command, event })
    }
}

impl<P: Election> Stage<P> {
    /// A group that elects a leader, before its start.
    pub fn election(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Elect => Some(election::Command::Elect),
            Wish::Request | Wish::Release | Wish::Append(_) => None,
        };
        let event = |process, election::Event::Elected { leader, term }| Effect::Elected { process, leader, term };
        Stage::new(group, Words { command, event })
    }
}

impl<P: Append> Stage<P> {
    /// A group for record append, before its start.
    pub fn append(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Append(byte) => Some(append::Command::Append { data: vec![byte] }),
            Wish::Request | Wish::Release | Wish::Elect => None,
        };
        let event = |process, append::Event::Appended { offset }| Effect::Appended { process, offset };
        Stage::new(group, Words { command, event })
    }
}
