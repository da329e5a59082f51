//! What the store tells the operator about the folder. The server writes it to its log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes a sentence for the operator.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Sentences for the operator. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Remarks(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The sentences that nobody has been told yet.
    untold: Vec<String>,
    /// None while the folder is being opened.
    tell: Option<Tell>,
    /// The files that were damaged when they were read again.
    damaged: BTreeSet<String>,
}

impl Remarks {
    pub fn add(&self, sentence: String) {
        let mut inner = self.lock();
        let Some(tell) = inner.tell.clone() else { return inner.untold.push(sentence) };
        drop(inner);
        tell(&sentence);
    }

    /// One copy was damaged at this byte, and the file is right again.
    pub fn repaired(&self, file: &str, byte: u64) {
        self.add(format!(
            "{file} was damaged at byte {byte}, and is repaired from its second copy: the disk may be failing, so check it"
        ));
    }

    /// A file in use was read, and one copy is damaged at this byte. Told once for each file.
    pub fn read_from_the_other_copy(&self, file: &str, byte: u64) {
        if self.lock().damaged.insert(file.to_owned()) {
            self.add(format!(
                "{file} is damaged at byte {byte}, and was read from its second copy: the disk may be failing, so check it"
            ));
        }
    }

    /// Tells all sentences so far, and each later one.
    pub fn tell_to(&self, tell: Tell) {
        let mut inner = self.lock();
        let untold = std::mem::take(&mut inner.untold);
        inner.tell = Some(tell.clone());
        drop(inner);
        untold.iter().for_each(|sentence| tell(sentence));
    }

    #[cfg(test)]
    pub fn untold(&self) -> Vec<String> {
        self.lock().untold.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
