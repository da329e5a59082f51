//! The files that a folder in use must have, so that the server notices when one is removed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;

/// The required files and their lengths in bytes. Clones share the same set.
///
/// A file is added after it is created, and taken out before it is removed or replaced. So a file in the set exists,
/// unless another program has removed it.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<BTreeMap<String, u64>>>);

impl Files {
    /// Returns a sentence about the first file that is missing or has another length. The host calls this about once a
    /// second.
    pub fn missing(&self, disk: &dyn Disk) -> io::Result<Option<String>> {
        // The set stays locked, so that no file can leave the set and then the disk during this check.
        for (name, should) in self.lock().iter() {
            match disk.length(name) {
                Ok(has) if has == *should => {}
                Ok(has) => {
                    let what =
                        format!("{name} has {has} bytes and should have {should}: it was changed while the server ran");
                    return Ok(Some(what));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Some(format!("{name} was removed while the server ran")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) fn insert(&self, name: &str, length: u64) {
        self.lock().insert(name.to_owned(), length);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
