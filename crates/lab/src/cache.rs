//! The latest runs. A page asks for many moments of one run, and the run need not be repeated for each of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A few values by key. The least recently used one goes first.
#[derive(Debug)]
pub struct Cache<T> {
    kept: Mutex<VecDeque<(String, Arc<T>)>>,
    most: usize,
}

impl<T> Cache<T> {
    pub fn new(most: usize) -> Self {
        Cache { kept: Mutex::default(), most }
    }

    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        // The lock protects only moves, so its data is right even after a panic.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| known == key)?;
        let found = kept.remove(place)?;
        let value = Arc::clone(&found.1);
        kept.push_back(found);
        Some(value)
    }

    pub fn put(&self, key: String, value: Arc<T>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        kept.push_back((key, value));
        while kept.len() > self.most {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(2);
        cache.put("a".into(), Arc::new(1));
        cache.put("b".into(), Arc::new(2));
        assert_eq!(cache.get("a").as_deref(), Some(&1));
        cache.put("c".into(), Arc::new(3));
        assert_eq!((cache.get("a").as_deref(), cache.get("b"), cache.get("c").as_deref()), (Some(&1), None, Some(&3)));
        cache.put("c".into(), Arc::new(4));
        assert_eq!((cache.get("a").as_deref(), cache.get("c").as_deref()), (Some(&1), Some(&4)));
    }
}
