//! The name of a lock: bytes, shared by all that name it.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a lock. It shows itself as text: names that are not UTF-8 with `\xNN` and `\\`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<[u8]>);

impl LockName {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

// Equal, ordered and hashed as its bytes are, so that maps of names can be asked with bytes.
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
