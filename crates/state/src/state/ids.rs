//! The ids in the state.

use std::fmt;

use baton_types::hex::Hex;
use baton_types::limits::SESSION_ID_MAX;
use serde::{Deserialize, Serialize};

/// The client chooses the number at random: 1 to [`SessionId::MAX`]. Old sessions may have any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// An owner of claims. A session may have several owners; several sessions may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId(pub u64);

/// The number of a request within its session, from 1 on.
pub type RequestNumber = u64;

impl SessionId {
    /// The highest id of a new session. It fits into a signed 64-bit number, like etcd's lease ids.
    pub const MAX: u64 = SESSION_ID_MAX;
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(self.0).fmt(f)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_with_16_hexadecimal_digits() {
        assert_eq!(SessionId(0xab).to_string(), "00000000000000ab");
        assert_eq!(OwnerId(u64::MAX - 1).to_string(), "fffffffffffffffe");
    }
}
