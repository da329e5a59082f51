//! Which files a folder in use must have, so that it is noticed when one of them is removed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;

/// The files that must be there, and how long each of them is. Clones are the same set.
///
/// A file is added after it was made, and taken out before it is removed or replaced. So a file that is in the set is there,
/// unless another program removed it.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<BTreeMap<String, u64>>>);

impl Files {
    /// A sentence about the first file that is gone or has another length. A server calls it about once a second.
    pub fn missing(&self, disk: &dyn Disk) -> io::Result<Option<String>> {
        // The set stays locked, so that a file cannot leave the set, and then the disk, before its turn comes here.
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
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
