//! What is written to disk and in which bytes: records of the log, and snapshots. Nothing of openraft is here; `raft`
//! converts its types from and to these.
//!
//! All bodies are postcard (<https://postcard.jamesmunns.com>): its bytes follow from the order of fields and variants,
//! so the types below, and whatever they hold of `state`, must not change as they are. An enum may get a further
//! variant at its end: all bytes that are there keep their meaning. An older build of the same version cannot read that
//! variant, and refuses it.
//!
//! To change the format: raise [`VERSION`] and [`crate::store::VERSION`], freeze a copy of the types as they were in a
//! folder like [`v1`], add a function that leads from them to the new ones, have [`record::Record::read`] and
//! [`snapshot`] call it for that version, and keep a data folder of the old version under `tests/kept`.

pub(crate) mod record;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;
mod v1;

pub(crate) use v1::FromOlder;

use std::fmt;

use crate::store::Unreadable;

/// The version in which records and snapshots are written: the data format of the folder.
pub(crate) const VERSION: u8 = 2;

const _: () = assert!(VERSION as u32 == crate::store::VERSION, "records say the format of the folder that they are in");

impl From<String> for Unreadable {
    fn from(sentence: String) -> Self {
        Unreadable::Malformed(sentence)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Newer { version } => write!(f, "a newer version wrote it, with data format {version}"),
            Unreadable::Malformed(sentence) => f.write_str(sentence),
        }
    }
}

/// Decodes exactly these bytes, or says that they are no such thing.
fn decode<'a, T: serde::Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, Unreadable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Unreadable::Malformed(format!("{} bytes follow {what}", rest.len()))),
        Err(error) => Err(Unreadable::Malformed(format!("it holds no {what}: {error}"))),
    }
}

/// Whether this version can be read: a newer one is told apart from what makes no sense.
fn check_version(version: u8) -> Result<(), Unreadable> {
    match version {
        VERSION => Ok(()),
        newer if newer > VERSION => Err(Unreadable::Newer { version: u32::from(newer) }),
        never => Err(Unreadable::Malformed(format!("it says version {never}, which was never written so"))),
    }
}
