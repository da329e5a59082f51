//! The fingerprints of all states seen.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::thread;

use foldhash::quality::FixedState;

/// 64 bits of a hash that mixes all of its input well (rustc-hash, which is linear, does not): among s states the chance
/// that any two share a fingerprint, so that one is missed, is below s^2 / 2^65, which is 1 in 30,000 for 33 million.
/// The keys are fixed, so that a run can be repeated.
pub fn fingerprint(state: &impl Hash) -> u64 {
    FixedState::default().hash_one(state)
}

/// A set of fingerprints in several parts, so that several threads can work on it.
pub struct Seen {
    parts: Vec<HashSet<u64, BuildHasherDefault<AsIs>>>,
}

/// Roughly what a fingerprint takes up in a set: its 8 bytes, one more to find it, and an eighth of that free.
const BYTES_EACH: usize = 10;

impl Seen {
    /// Nothing has been seen.
    pub fn new(parts: usize) -> Self {
        Seen { parts: (0..parts).map(|_| HashSet::default()).collect() }
    }

    /// Inserts all; returns the places of those that are new, in ascending order. Of several that are equal the first
    /// is the new one.
    pub fn insert_all(&mut self, fingerprints: &[u64], threads: usize) -> Vec<u32> {
        let parts = self.parts.len() as u64;
        let insert = |part: usize, set: &mut HashSet<u64, _>| -> Vec<u32> {
            // The bits that the set itself looks at are others.
            let mine = |fingerprint: u64| (fingerprint >> 32) % parts == part as u64;
            let new = fingerprints.iter().enumerate().filter(|&(_, &f)| mine(f) && set.insert(f));
            new.map(|(place, _)| place as u32).collect()
        };
        if threads == 1 {
            let new = |(place, &fingerprint): (usize, &u64)| {
                let part = ((fingerprint >> 32) % parts) as usize;
                self.parts[part].insert(fingerprint).then_some(place as u32)
            };
            return fingerprints.iter().enumerate().filter_map(new).collect();
        }
        let mut places: Vec<u32> = thread::scope(|scope| {
            let sets = self.parts.iter_mut().enumerate();
            let workers: Vec<_> = sets.map(|(part, set)| scope.spawn(move || insert(part, set))).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("no panic in a set")).collect()
        });
        places.sort_unstable();
        places
    }

    /// How many more bytes it may need at once for `more` fingerprints: a set that grows is copied.
    pub fn growth(&self, more: usize) -> usize {
        let full = |set: &&HashSet<u64, _>| set.len() + more > set.capacity();
        self.parts.iter().filter(full).map(|set| 2 * set.capacity() * BYTES_EACH).sum()
    }
}

/// A fingerprint is a hash already.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept here");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_ones_is_new_whatever_the_threads() {
        let fingerprints: Vec<u64> = (0..1_000_u64).map(|i| fingerprint(&(i % 300))).collect();
        for threads in [1, 2, 3] {
            let mut seen = Seen::new(threads);
            assert!(seen.insert_all(&fingerprints, threads).into_iter().eq(0..300));
            assert!(seen.insert_all(&fingerprints, threads).is_empty());
        }
    }
}
