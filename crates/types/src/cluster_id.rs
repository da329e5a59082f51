//! The id of a cluster: a client that knows it never takes another server for one of the cluster.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::hex::Hex;

/// A call names the cluster that it is meant for in this header, and the refusal of another cluster its own one.
pub const CLUSTER_HEADER: &str = "baton-cluster-id";

/// Shown as [`Hex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(NonZeroU64);

/// A text that is not the id of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a cluster; it must be 16 hexadecimal digits, as `baton status` shows it")]
pub struct NotAnId(String);

impl ClusterId {
    /// The smallest id.
    pub const MIN: ClusterId = ClusterId(NonZeroU64::MIN);

    /// None for 0: an older server or client does not name a cluster.
    pub fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(ClusterId)
    }

    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The number on the wire.
    pub fn to_wire(id: Option<ClusterId>) -> u64 {
        id.map_or(0, ClusterId::get)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(self.get()).fmt(f)
    }
}

impl FromStr for ClusterId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let is_plain = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_plain.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        id.and_then(ClusterId::new).ok_or_else(|| NotAnId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_digits_and_never_zero() {
        let id = ClusterId::new(0xab).unwrap();
        assert_eq!(id.to_string(), "00000000000000ab");
        assert_eq!("00000000000000AB".parse(), Ok(id));
        for bad in
            ["", "ab", "0000000000000000", "+0000000000000ab", "00000000000000abc", "0x000000000000ab", "ééééé ab"]
        {
            let error = bad.parse::<ClusterId>().unwrap_err().to_string();
            assert!(error.contains("is not the id of a cluster; it must be 16 hexadecimal digits"), "{error}");
        }
    }
}
