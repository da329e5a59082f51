//! The effects of an action, and the translation of the commands and events of each family of protocols.

use std::ops::RangeInclusive;

use baton_protocol::append::{self, Append, Slot};
use baton_protocol::detector::{Detector, Opinion, Watcher};
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::{Choice, Group, ProcessId, Protocol, Ticks};
use baton_trace::Wish;

use super::Stage;

/// One effect of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<P: Protocol> {
    /// A step made a choice.
    Chose {
        process: ProcessId,
        choice: Choice,
    },
    Sent {
        message: Envelope<P::Message>,
        /// Whether the message is lost at once, because its receiver is down.
        lost: bool,
    },
    /// A message has arrived. The later effects in the list follow from it.
    Delivered(Envelope<P::Message>),
    Lost(Envelope<P::Message>),
    /// The network has made this copy of a message.
    Copied(Envelope<P::Message>),
    /// A timer was set, or a running timer was set again.
    TimerSet {
        process: ProcessId,
        timer: P::Timer,
        /// The timer fires after a time in this range.
        after: RangeInclusive<Ticks>,
    },
    /// A running timer was stopped.
    TimerCancelled {
        process: ProcessId,
        timer: P::Timer,
    },
    /// A process grants its user the critical section.
    Granted {
        process: ProcessId,
        fence: u64,
        /// Whether the user has a pending request. Without one, it does not enter.
        asked: bool,
    },
    /// A process is no longer in the critical section, although its user has not left.
    Revoked {
        process: ProcessId,
    },
    /// A process has changed its leader.
    Elected {
        process: ProcessId,
        /// None: the process has no leader.
        leader: Option<ProcessId>,
        /// None if the algorithm has no terms.
        term: Option<u64>,
    },
    Appended {
        /// The process whose user appended the record.
        process: ProcessId,
        /// The index of the record in the file.
        offset: u64,
        /// Whether the user waits for the offset. It does not after a crash.
        asked: bool,
    },
    /// A process, which is a failure detector, begins to suspect another one.
    Suspected {
        process: ProcessId,
        peer: ProcessId,
    },
    /// A process, which is a failure detector, ends its suspicion of another one.
    Trusted {
        process: ProcessId,
        peer: ProcessId,
    },
    Crashed {
        process: ProcessId,
    },
    Recovered {
        process: ProcessId,
    },
    /// A recovered process takes commands from now on.
    Ready {
        process: ProcessId,
    },
    /// An oracle has found a violation.
    Violated {
        property: &'static str,
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<M> {
    /// Messages are numbered in the order of sending.
    pub id: u64,
    /// The message's own number, or for a copy the number of the first original.
    pub original: u64,
    pub from: ProcessId,
    pub to: ProcessId,
    pub payload: Payload<M>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<M> {
    Protocol(M),
    /// A message of the application, with the value of the protocol's clock if it has one.
    App(Option<u64>),
}

/// Translates the commands and events of a family of protocols.
#[derive(Clone)]
pub struct Words<P: Protocol> {
    /// None if the family has no such command.
    pub command: fn(Wish) -> Option<P::Command>,
    /// Makes an effect from an event of a process. The stage fills in the fields that the process does not know.
    pub event: fn(ProcessId, P::Event) -> Effect<P>,
    /// The file of a replica. None if the process has no file.
    pub file: fn(&P) -> Option<&[Slot]>,
    /// Whether the processes are failure detectors. Otherwise each has one that reports crashes to it.
    pub detects: bool,
}

impl<P: Mutex> Stage<P> {
    /// A mutual exclusion group before its start.
    pub fn mutex(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Request => Some(mutex::Command::Acquire),
            Wish::Release => Some(mutex::Command::Release),
            Wish::Elect | Wish::Append(_) => None,
        };
        let event = |process, event| match event {
            mutex::Event::Granted { fence } => Effect::Granted { process, fence, asked: false },
            mutex::Event::Lost => Effect::Revoked { process },
        };
        Stage::new(group, Words { command, event, file: |_| None, detects: false })
    }
}

impl<P: Election> Stage<P> {
    /// An election group before its start.
    pub fn election(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Elect => Some(election::Command::Elect),
            Wish::Request | Wish::Release | Wish::Append(_) => None,
        };
        let event = |process, election::Event::Elected { leader, term }| Effect::Elected { process, leader, term };
        Stage::new(group, Words { command, event, file: |_| None, detects: false })
    }
}

/// The record with this number: its bytes, the lowest first, without zeros at the end. One byte up to 255.
pub fn record(number: u64) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    let length = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
    bytes[..length].to_vec()
}

impl<P: Append> Stage<P> {
    /// A record append group before its start.
    pub fn append(group: Group<P>) -> Self {
        let command = |wish| match wish {
            Wish::Append(number) => Some(append::Command::Append { data: record(number) }),
            Wish::Request | Wish::Release | Wish::Elect => None,
        };
        let event = |process, append::Event::Appended { offset }| Effect::Appended { process, offset, asked: false };
        Stage::new(group, Words { command, event, file: P::file, detects: false })
    }
}

impl<D: Detector> Stage<Watcher<D>> {
    /// A group of failure detectors before its start.
    pub fn detector(group: Group<Watcher<D>>) -> Self {
        let event = |process, opinion| match opinion {
            Opinion::Suspects(peer) => Effect::Suspected { process, peer },
            Opinion::TrustsAgain(peer) => Effect::Trusted { process, peer },
        };
        Stage::new(group, Words { command: |_| None, event, file: |_| None, detects: true })
    }
}
