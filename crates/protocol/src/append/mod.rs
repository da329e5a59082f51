//! Record append: clients append to a shared file without a lock, and learn the offset of each record.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{ProcessId, Protocol};

mod log;
pub mod record_append;

/// The commands of a user. The driver gives `Append` only while none is pending.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Append a record, at an offset that the protocol chooses.
    Append { data: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// All live replicas have the record.
    Appended {
        /// Number of slots before the record.
        offset: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Slot {
    Record(Record),
    /// Left by a write that failed. Readers skip it.
    Padding,
}

/// Records with equal client and number are repeats of one record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Record {
    pub client: ProcessId,
    /// Number of the record at its client.
    pub number: u64,
    pub data: Vec<u8>,
}

pub trait Append: Protocol<Command = Command, Event = Event> {
    /// The file of a replica. `None` at a client, and at a replica that recovered and does not have the file yet.
    fn file(&self) -> Option<&[Slot]>;
}

/// The records that a reader sees: each record once, at its first offset, without padding.
pub fn read(file: &[Slot]) -> impl Iterator<Item = (u64, &Record)> {
    let mut seen = BTreeSet::new();
    (0..).zip(file).filter_map(move |(offset, slot)| match slot {
        Slot::Record(record) if seen.insert((record.client, record.number)) => Some((offset, record)),
        Slot::Record(_) | Slot::Padding => None,
    })
}
