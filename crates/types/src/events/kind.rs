//! The kinds of changes.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident $word:literal;)*) => {
        /// The kind of a change. Further kinds come at the end: their numbers are on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $Kind,)*
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$Kind),*];

            /// The word for the kind. It is part of the interface for programs.
            pub fn word(self) -> &'static str {
                match self {
                    $(Kind::$Kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    SessionOpened "session-opened";
    SessionEnded "session-ended";
    /// An acquire waits.
    Queued "queued";
    Granted "granted";
    /// A holder has released its locks, or closed its session.
    Released "released";
    /// An acquire waits no longer: its client has cancelled it or closed the session, or it has reached its time-out.
    Cancelled "cancelled";
    /// An acquire that waited or held has ended with the lease of its session.
    Expired "expired";
    /// An operator wants the lock released. The holder is told, and holds it until it has released it.
    Revoked "revoked";
    /// An operator has taken the lock from its holder.
    Forced "forced";
    /// A lock is closed for its lock-delay.
    LockClosed "lock-closed";
    LockOpened "lock-opened";
    /// A member of the cluster was added, removed or changed.
    Member "member";
    /// A node begins to lead.
    Leader "leader";
}

impl Kind {
    /// The number on the wire, from 1 on.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// A word that names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no kind of change; the kinds are {}", words())]
pub struct UnknownKind {
    pub found: String,
}

fn words() -> String {
    Kind::ALL.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Kind, UnknownKind> {
        let found = Kind::ALL.iter().find(|kind| kind.word() == word).copied();
        found.ok_or_else(|| UnknownKind { found: word.chars().take(40).collect() })
    }
}

/// A set of kinds. The default has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u32);

impl Default for Kinds {
    fn default() -> Self {
        Kinds::of(Kind::ALL.iter().copied())
    }
}

impl Kinds {
    /// A set without any kind stands for all of them: a reader of nothing makes no sense.
    pub fn of(kinds: impl IntoIterator<Item = Kind>) -> Self {
        match kinds.into_iter().fold(0, |set, kind| set | (1 << kind as u32)) {
            0 => Kinds::default(),
            set => Kinds(set),
        }
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_word_and_a_number() {
        for (number, kind) in (1..).zip(Kind::ALL) {
            assert_eq!(
                (kind.number(), Kind::from_number(number), kind.word().parse()),
                (number, Some(*kind), Ok(*kind))
            );
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(99)), (None, None));
        let told = "grant\n".parse::<Kind>().unwrap_err().to_string();
        assert!(told.starts_with(r#""grant\n" is no kind of change; the kinds are session-opened, "#), "{told}");
    }

    #[test]
    fn a_set_of_no_kinds_has_all() {
        assert_eq!(Kinds::of([]), Kinds::default());
        let few = Kinds::of([Kind::Granted, Kind::Leader]);
        assert_eq!(few.iter().collect::<Vec<_>>(), [Kind::Granted, Kind::Leader]);
        assert!(few.has(Kind::Granted) && !few.has(Kind::Queued));
    }
}
