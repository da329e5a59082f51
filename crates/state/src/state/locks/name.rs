//! The name of a lock: bytes, shared by all owners of the name.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `Debug` shows the name as text; a name that is not UTF-8 with `\xNN` and `\\`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<[u8]>);

impl LockName {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

// `Eq`, `Ord` and `Hash` are those of the bytes, so a map of names can be searched with bytes.
impl Borrow<[u8]> for LockName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl<Bytes: AsRef<[u8]> + ?Sized> From<&Bytes> for LockName {
    fn from(bytes: &Bytes) -> Self {
        LockName(Arc::from(bytes.as_ref()))
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&baton_types::name::shown(&self.0).0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", baton_types::name::Quoted(&self.0))
    }
}

impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for LockName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(LockName::from)
    }
}
