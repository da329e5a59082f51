//! A store that holders write to, and a judge that finds lost writes.
//!
//! The store is a shared counter. Every holder reads it on entering, adds one, and writes the sum back before it
//! leaves. A write is lost if the store then accepts a write that is based on an earlier read. The judge compares
//! versions and ignores fences. A fenced store checks fences and ignores versions. So neither can hide a mistake of the
//! other.

use baton_protocol::ProcessId;

/// The store and its judge.
#[derive(Clone, Debug)]
pub struct Store {
    /// Whether the store checks fences.
    fencing: bool,
    /// The highest fence that a reader or a writer has shown.
    highest: u64,
    value: u64,
    /// The process that wrote the value, and the number of accepted writes so far.
    writer: Option<ProcessId>,
    version: u64,
    refused: u64,
}

/// What a holder remembers from its read to its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The fence that the holder will show when it writes.
    pub fence: u64,
    value: u64,
    version: u64,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// False if the write was refused.
    pub accepted: bool,
    /// The value that the holder wanted to write.
    pub value: u64,
    /// The write that this write destroyed, in words.
    pub damage: Option<String>,
}

impl Store {
    pub fn new(fencing: bool) -> Self {
        Store { fencing, highest: 0, value: 0, writer: None, version: 0, refused: 0 }
    }

    /// A holder reads, and already shows its fence. From now on no earlier holder can write, because this holder would
    /// not see the write.
    pub fn read(&mut self, fence: u64) -> Read {
        self.highest = self.highest.max(fence);
        Read { fence, value: self.value, version: self.version }
    }

    /// `process` writes one more than it read.
    pub fn write(&mut self, process: ProcessId, read: Read) -> Written {
        let value = read.value + 1;
        if self.fencing && read.fence < self.highest {
            return self.refuse(read);
        }
        self.highest = self.highest.max(read.fence);
        let lost = (read.version != self.version).then_some(self.writer).flatten();
        let damage =
            lost.map(|other| format!("P{process} overwrote {}, which P{other} wrote, with {value}", self.value));
        (self.value, self.writer) = (value, Some(process));
        self.version += 1;
        Written { accepted: true, value, damage }
    }

    /// Counts a write that is refused, by the store or by a check before it.
    pub fn refuse(&mut self, read: Read) -> Written {
        self.refused += 1;
        Written { accepted: false, value: read.value + 1, damage: None }
    }

    pub fn fencing(&self) -> bool {
        self.fencing
    }

    /// Numbers of writes: accepted, refused, and accepted but lost.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.version, self.refused, self.version - self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P0 reads, P1 reads and writes, and then P0 writes late.
    fn late_write(fencing: bool) -> (Written, Store) {
        let mut store = Store::new(fencing);
        let early = store.read(1);
        let next = store.read(2);
        assert_eq!(store.write(1, next), Written { accepted: true, value: 1, damage: None });
        (store.write(0, early), store)
    }

    #[test]
    fn a_late_write_is_refused_or_does_damage() {
        let (refused, store) = late_write(true);
        assert_eq!(refused, Written { accepted: false, value: 1, damage: None });
        assert_eq!(store.counts(), (1, 1, 0));
        let (accepted, store) = late_write(false);
        assert_eq!(accepted.damage.unwrap(), "P0 overwrote 1, which P1 wrote, with 1");
        assert_eq!(store.counts(), (2, 0, 1));
    }

    #[test]
    fn a_reader_shuts_out_earlier_writers_before_it_writes() {
        let mut store = Store::new(true);
        let (early, next) = (store.read(1), store.read(2));
        assert!(!store.write(0, early).accepted);
        assert_eq!(store.write(1, next), Written { accepted: true, value: 1, damage: None });
    }

    #[test]
    fn one_holder_may_write_with_an_equal_fence() {
        let mut store = Store::new(true);
        for _ in 0..2 {
            let read = store.read(7);
            assert!(store.write(0, read).accepted);
        }
        assert_eq!(store.counts(), (2, 0, 0));
    }
}
