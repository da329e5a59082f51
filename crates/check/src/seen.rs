//! The set of fingerprints of all states seen.

use std::hash::{BuildHasher, Hasher};
use std::thread;

use foldhash::quality::FixedState;

/// 64 bits of a hash that mixes all of its input well. Among s states, the chance that two share a fingerprint, so that
/// one is missed, is below s^2 / 2^65. That is 1 in 30,000 for 33 million states, and 1 in 150 for 500 million. The
/// keys of the hash are fixed, so that a run can be repeated.
pub fn fingerprint(state: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(state);
    // 0 marks a free place.
    hasher.finish().max(1)
}

/// A set of fingerprints, divided into parts. Each thread works on its own parts, and only one part grows at a time.
pub struct Seen {
    parts: Vec<Part>,
}

/// Number of parts for each thread.
const PARTS_EACH: usize = 32;

impl Seen {
    pub fn new(threads: usize) -> Self {
        Seen { parts: (0..threads * PARTS_EACH).map(|_| Part::default()).collect() }
    }

    /// Inserts all fingerprints. Returns the places of the new ones, in ascending order. Of equal fingerprints the
    /// first is new.
    pub fn insert_all(&mut self, fingerprints: &[u64], threads: usize) -> Vec<u32> {
        let number = self.parts.len() as u64;
        // The remainder chooses the part; the upper bits choose the place within the part.
        let part_of = |fingerprint: u64| (fingerprint % number) as usize;
        if threads == 1 {
            let new = |(place, &fingerprint): (usize, &u64)| {
                self.parts[part_of(fingerprint)].insert(fingerprint).then_some(place as u32)
            };
            return fingerprints.iter().enumerate().filter_map(new).collect();
        }
        let insert = |first: usize, parts: &mut [Part]| -> Vec<u32> {
            let mut new = Vec::new();
            for (place, &fingerprint) in fingerprints.iter().enumerate() {
                let mine = part_of(fingerprint).checked_sub(first).and_then(|part| parts.get_mut(part));
                if mine.is_some_and(|part| part.insert(fingerprint)) {
                    new.push(place as u32);
                }
            }
            new
        };
        let mut places: Vec<u32> = thread::scope(|scope| {
            let shares = self.parts.chunks_mut(PARTS_EACH).enumerate();
            let workers: Vec<_> =
                shares.map(|(nth, parts)| scope.spawn(move || insert(nth * PARTS_EACH, parts))).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("no panic in a set")).collect()
        });
        places.sort_unstable();
        places
    }

    /// The bytes that `more` fingerprints may need at once. A part that grows is copied.
    pub fn growth(&self, more: usize) -> usize {
        let full = |part: &&Part| part.is_full(more);
        self.parts.iter().filter(full).map(|part| size_of::<u64>() * part.larger()).sum()
    }
}

/// A hash table of fingerprints only. The fingerprints are stored almost in ascending order, so growing reads and
/// writes memory in order.
#[derive(Default)]
struct Part {
    places: Vec<u64>,
    len: usize,
}

impl Part {
    /// Whether `more` fingerprints would make searches slow.
    fn is_full(&self, more: usize) -> bool {
        (self.len + more) * 6 > self.places.len() * 5
    }

    /// The size after growing. It grows by a quarter only, because these tables are most of the memory.
    fn larger(&self) -> usize {
        self.places.len() + self.places.len() / 4 + 16
    }

    /// Returns whether the fingerprint is new.
    fn insert(&mut self, fingerprint: u64) -> bool {
        if self.is_full(1) {
            let larger = vec![0; self.larger()];
            let before = std::mem::replace(&mut self.places, larger);
            for known in before.into_iter().filter(|&known| known != 0) {
                let place = self.place_of(known);
                self.places[place] = known;
            }
        }
        let place = self.place_of(fingerprint);
        let new = self.places[place] == 0;
        self.places[place] = fingerprint;
        self.len += usize::from(new);
        new
    }

    /// The place of the fingerprint, or the free place where it belongs.
    fn place_of(&self, fingerprint: u64) -> usize {
        let mut place = ((u128::from(fingerprint) * self.places.len() as u128) >> u64::BITS) as usize;
        while self.places[place] != 0 && self.places[place] != fingerprint {
            place = if place + 1 == self.places.len() { 0 } else { place + 1 };
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_ones_is_new_whatever_the_threads() {
        let fingerprints: Vec<u64> = (0..100_000_u32).map(|i| fingerprint(&(i % 30_000).to_le_bytes())).collect();
        for threads in [1, 2, 3] {
            let mut seen = Seen::new(threads);
            assert!(seen.insert_all(&fingerprints, threads).into_iter().eq(0..30_000));
            assert!(seen.insert_all(&fingerprints, threads).is_empty());
        }
    }

    #[test]
    fn what_would_share_a_place_does_not_share_it() {
        // All of these belong at the end of the table, and continue at its beginning.
        let mut part = Part::default();
        let close = |i: u64| u64::MAX - i;
        assert!((0..1_000).all(|i| part.insert(close(i))));
        assert!((0..1_000).all(|i| !part.insert(close(i))));
        assert!(part.insert(1));
    }
}
