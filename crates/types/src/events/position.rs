//! The position of a change.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::cluster_id::ClusterId;

/// The position of a change: the same on every node. As text `CLUSTER:INDEX.NUMBER`; without the cluster, of whichever
/// cluster is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// None: of the cluster that is asked.
    pub cluster: Option<ClusterId>,
    /// The index of its entry in the log.
    pub index: u64,
    /// The number of the change within the entry, from 0 on.
    pub number: u32,
}

/// A text that is not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position; it must be CLUSTER:INDEX.NUMBER or INDEX.NUMBER, as `baton events` shows it")]
pub struct NotAPosition(String);

impl Position {
    /// The same position in another form: without the cluster.
    pub fn short(self) -> Position {
        Position { cluster: None, ..self }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cluster) = self.cluster {
            write!(f, "{cluster}:")?;
        }
        write!(f, "{}.{}", self.index, self.number)
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let parsed = || {
            let (cluster, place) = match text.split_once(':') {
                Some((cluster, place)) => (Some(cluster.parse().ok()?), place),
                None => (None, text),
            };
            let (index, number) = place.split_once('.')?;
            let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
            let is_position = is_plain(index) && is_plain(number);
            is_position.then_some(Position { cluster, index: index.parse().ok()?, number: number.parse().ok()? })
        };
        parsed().ok_or_else(|| NotAPosition(text.chars().take(60).collect()))
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_shown() {
        let position = Position { cluster: ClusterId::new(0xab), index: 1042, number: 3 };
        assert_eq!(position.to_string(), "00000000000000ab:1042.3");
        assert_eq!(position.short().to_string(), "1042.3");
        for position in [position, position.short()] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for bad in ["", "7", "7.", ".7", "+7.1", "7.-1", "ab:7.1", "99999999999999999999.1", "7.99999999999", "a\n.1"] {
            let told = bad.parse::<Position>().unwrap_err().to_string();
            assert!(told.contains("is not a position; it must be") && !told.contains('\n'), "{told}");
        }
    }
}
