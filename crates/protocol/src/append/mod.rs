//! Record append: add to the end of a shared file without a lock, and be told where it went.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{ProcessId, Protocol};

mod log;
pub mod record_append;

/// What the user of an append protocol may ask for.
///
/// The driver gives them in turns: no `Append` while one is pending.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Add a record, wherever that may be.
    Append {
        /// The record.
        data: Vec<u8>,
    },
}

/// What an append protocol tells its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The record that was asked for is in all replicas that live.
    Appended {
        /// Where it is: how many slots come before it.
        offset: u64,
    },
}

/// One place of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Slot {
    /// What somebody has appended.
    Record(Record),
    /// What is left of a write that failed.
    Padding,
}

/// What somebody has appended. The same client and number is the same record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Record {
    /// Who asked.
    pub client: ProcessId,
    /// Which of its records this is.
    pub number: u64,
    /// The record itself, whole.
    pub data: Vec<u8>,
}

/// A protocol for record append.
pub trait Append: Protocol<Command = Command, Event = Event> {
    /// The file as this process has it; none if it is no replica, or no longer one.
    fn file(&self) -> Option<&[Slot]>;
}

/// What a reader makes of a file: each record once, where it is first, and no padding.
pub fn read(file: &[Slot]) -> impl Iterator<Item = (u64, &Record)> {
    let mut seen = BTreeSet::new();
    (0..).zip(file).filter_map(move |(offset, slot)| match slot {
        Slot::Record(record) if seen.insert((record.client, record.number)) => Some((offset, record)),
        Slot::Record(_) | Slot::Padding => None,
    })
}
