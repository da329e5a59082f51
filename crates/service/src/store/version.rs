//! Versions of what is on disk, and how older ones become the current one.

/// The version of everything that is written now: of segments, of snapshots and of the folder as a whole.
pub const VERSION: u32 = 2;

/// Why bytes that are undamaged cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A newer version wrote them.
    Newer {
        /// Which one.
        version: u32,
    },
    /// They make no sense: what is wrong with them.
    Malformed(String),
}

/// How the payloads of older versions become those of the current one.
///
/// The store keeps bytes and knows nothing of their meaning; its caller does.
pub trait Upgrade {
    /// A payload of the journal that this version wrote.
    fn frame(&self, version: u32, payload: &[u8]) -> Result<Vec<u8>, Unreadable>;
    /// The chunks of a snapshot that this version wrote. Those of version 1 had one payload, which is one chunk here.
    fn snapshot(&self, version: u32, chunks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Unreadable>;
}
