//! Versions of the data on disk, and the upgrade of older ones.

use std::fmt;

/// The current version of segments, of snapshots and of the folder as a whole.
pub const VERSION: u32 = 4;

/// The oldest version that is read.
pub const OLDEST_READ: u32 = 2;

/// Why undamaged bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Newer {
        version: u32,
    },
    /// The content is invalid. The text says why.
    Malformed(String),
}

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

/// Converts payloads of older versions to the current one.
///
/// The store keeps bytes and does not know their meaning, so its caller implements this.
pub trait Upgrade {
    /// The first start after an upgrade rewrites the files of older versions than this one. It leaves later ones as they
    /// are, because their payloads say their own versions; then only FORMAT gets the new version.
    fn rewrites_before(&self) -> u32;
    /// Converts a payload of the journal from this version.
    fn frame(&self, version: u32, payload: &[u8]) -> Result<Vec<u8>, Unreadable>;
    /// Converts the chunks of a snapshot from this version.
    fn snapshot(&self, version: u32, chunks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Unreadable>;
}
