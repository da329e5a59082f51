//! The encoding of the data on disk: records of the log, and snapshots. It contains no type of openraft; `raft`
//! converts between openraft's types and these.
//!
//! All bodies are postcard (<https://postcard.jamesmunns.com>). Its bytes depend on the order of fields and variants,
//! so the types below, and all types of `state` inside them, must not change. An enum may get another variant at its
//! end: existing bytes keep their meaning. The new variant needs a new version, and its `since` function says which.
//!
//! Each record and each chunk of a snapshot is written with the version in which its newest part appeared, not with
//! the newest version. So a node of a newer version writes and sends nothing that an older one cannot read, until all
//! members are upgraded and the leader proposes something new.
//!
//! To add a variant: raise [`VERSION`] and [`crate::store::VERSION`]; leave [`OLDEST_READ`] as it is; and let its
//! `since` function return the new version.
//!
//! To change what is there: raise [`VERSION`] and [`crate::store::VERSION`]; freeze a copy of the old types in a folder
//! `v4`; add a function that converts them to the new types; call it from [`record::Record::read`] and
//! [`snapshot`] for that version; and keep a data folder of the old version under `tests/kept`. If old records are
//! converted only at the start, call it from [`FromOlder`] and raise [`OLDEST_READ`]: then a cluster cannot be upgraded node
//! by node.

pub(crate) mod record;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

use crate::state::Command;
use crate::store::{Unreadable, Upgrade};

/// The newest version of records and snapshots, which is the data format of the folder.
pub(crate) const VERSION: u8 = 4;

/// The oldest version of records and chunks that this build reads as they are, from its log and from other nodes.
/// Folders of older versions are converted at the start, by [`FromOlder`].
pub(crate) const OLDEST_READ: u8 = 2;

const _: () = assert!(OLDEST_READ as u32 >= crate::store::OLDEST_READ, "the store reads all of it");
const _: () = assert!(VERSION as u32 == crate::store::VERSION, "records say the format of the folder that they are in");

/// The first data format that has this command. A leader proposes a command only if all members read that format.
pub(crate) fn since(command: &Command) -> u8 {
    command.format()
}

/// Upgrades each data format before [`OLDEST_READ`] to the current one, for the store. There is none yet.
pub(crate) struct FromOlder;

impl Upgrade for FromOlder {
    fn rewrites_before(&self) -> u32 {
        u32::from(OLDEST_READ)
    }

    fn frame(&self, version: u32, _: &[u8]) -> Result<Vec<u8>, Unreadable> {
        Err(never(version))
    }

    fn snapshot(&self, version: u32, _: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Unreadable> {
        Err(never(version))
    }
}

fn never(version: u32) -> Unreadable {
    Unreadable::Malformed(format!("data format {version} cannot be upgraded"))
}

/// Decodes a value. Fails if bytes are left over.
fn decode<'a, T: serde::Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, Unreadable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Unreadable::Malformed(format!("{} bytes follow the {what}", rest.len()))),
        Err(error) => Err(Unreadable::Malformed(format!("it contains no valid {what}: {error}"))),
    }
}

/// Fails for every version that this build does not read. Reports a newer version as such, not as malformed.
fn check_version(version: u8) -> Result<(), Unreadable> {
    match version {
        OLDEST_READ..=VERSION => Ok(()),
        newer if newer > VERSION => Err(Unreadable::Newer { version: u32::from(newer) }),
        never => Err(Unreadable::Malformed(format!("it says version {never}, which did not have this form"))),
    }
}
