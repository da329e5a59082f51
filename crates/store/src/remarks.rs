//! What the store tells the operator about the folder that it opens. The server writes it to its log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sentences for the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Remarks(Arc<Mutex<Vec<String>>>);

impl Remarks {
    pub fn add(&self, sentence: String) {
        self.lock().push(sentence);
    }

    /// One copy was damaged at this byte, and the file is right again.
    pub fn repaired(&self, file: &str, byte: u64) {
        self.add(format!(
            "{file} was damaged at byte {byte}, and is repaired from its second copy: the disk may be failing, so check it"
        ));
    }

    pub fn all(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
