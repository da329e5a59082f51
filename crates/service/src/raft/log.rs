//! The Raft log in memory, built from the records of the journal.

use std::collections::VecDeque;

use openraft::entry::RaftEntry;

use super::edge;
use super::types::LogEntry;
use crate::format::record::{LogId, Payload, Record, Vote};
use crate::store::Unreadable;

/// The log without its entries. Each new segment begins with a copy of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
}

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        let records =
            [self.vote.map(Record::Vote), self.purged.map(Record::Purge), self.committed.map(Record::Committed)];
        for record in records.into_iter().flatten() {
            record.encode_to(&mut frame);
        }
        frame
    }
}

/// An entry without its index. The index follows from the position in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    term: u64,
    payload: Box<[u8]>,
}

/// Purged entries that are still in memory. Dropping a million of them takes a while.
pub(super) struct Purged {
    _entries: VecDeque<Kept>,
}

/// The log in memory: openraft reads entries from it to apply and to send them. The payloads stay encoded, because that
/// takes less memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub head: Head,
    /// The index of the first of `entries`.
    first: u64,
    entries: VecDeque<Kept>,
    /// Total size of all payloads.
    bytes: u64,
}

impl Image {
    /// Adds all records of a frame. Returns the highest index of an entry in the frame.
    pub fn replay(&mut self, mut frame: &[u8]) -> Result<Option<u64>, Unreadable> {
        let mut highest = None;
        while !frame.is_empty() {
            let (record, rest) = Record::read(frame)?;
            if let Record::Entry { id, .. } = &record {
                highest = highest.max(Some(id.index));
            }
            self.add(&record)?;
            frame = rest;
        }
        Ok(highest)
    }

    pub fn add(&mut self, record: &Record<'_>) -> Result<(), String> {
        match *record {
            Record::Entry { id, payload } => return self.append(id, payload),
            Record::Vote(vote) => self.head.vote = Some(vote),
            Record::Committed(id) => self.head.committed = Some(id),
            Record::Truncate(after) => {
                let keep = after.map_or(0, |id| id.index.saturating_add(1)).saturating_sub(self.first);
                while self.entries.len() as u64 > keep {
                    self.bytes -= self.entries.pop_back().map_or(0, |kept| kept.payload.len() as u64);
                }
            }
            Record::Purge(id) => drop(self.purge(id)),
        }
        Ok(())
    }

    /// Removes all entries up to and including `id`. The caller drops the result on another thread, because dropping a
    /// million entries takes a while.
    pub fn purge(&mut self, id: LogId) -> Purged {
        let count = (id.index.saturating_add(1).saturating_sub(self.first)).min(self.entries.len() as u64);
        // Every segment repeats the purge record of the one before. Then nothing is left to purge, and the remaining
        // entries must not be copied again.
        let purged = match count {
            0 => VecDeque::new(),
            _ => {
                let rest = self.entries.split_off(count as usize);
                std::mem::replace(&mut self.entries, rest)
            }
        };
        self.bytes -= purged.iter().map(|kept| kept.payload.len() as u64).sum::<u64>();
        self.first += count;
        self.head.purged = self.head.purged.max(Some(id));
        Purged { _entries: purged }
    }

    /// While segments are read, entries before the first one may be missing, if a later record purges them.
    /// [`Image::check`] reports a missing purge record.
    fn append(&mut self, id: LogId, payload: &[u8]) -> Result<(), String> {
        if self.entries.is_empty() {
            self.first = id.index;
        }
        let expected = self.first.saturating_add(self.entries.len() as u64);
        if id.index != expected {
            return Err(format!("entry {} follows, but entry {expected} is expected", id.index));
        }
        self.bytes += payload.len() as u64;
        self.entries.push_back(Kept { term: id.term, payload: payload.into() });
        Ok(())
    }

    /// Fails if entries are missing between the purged part and the first entry.
    pub fn check(&self) -> Result<(), String> {
        let next = self.head.purged.map_or(0, |id| id.index.saturating_add(1));
        if self.entries.is_empty() || self.first <= next {
            return Ok(());
        }
        Err(format!("the log begins with entry {}, but entry {next} is needed", self.first))
    }

    /// The id of the last entry, or of the last purged entry if the log is empty.
    pub fn last(&self) -> Option<LogId> {
        let last = self.entries.back().map(|kept| LogId { term: kept.term, index: self.end() - 1 });
        last.or(self.head.purged)
    }

    /// Total size of all payloads.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The existing entries from `start` to before `end`: as many as fit into `bytes_max`, but at least one.
    pub fn read(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<LogEntry>, String> {
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in start.max(self.first)..end.min(self.end()) {
            let kept = &self.entries[(index - self.first) as usize];
            bytes += kept.payload.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            let payload = Payload::decode(&kept.payload).map_err(|e| e.to_string()).and_then(edge::payload);
            let payload = payload.map_err(|e| format!("log entry {index} cannot be decoded: {e}"))?;
            entries.push(LogEntry::new(LogId { term: kept.term, index }.into(), payload));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId { term, index }
    }

    fn entry(term: u64, index: u64) -> Record<'static> {
        static BLANK: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| Payload::Blank.encode());
        Record::Entry { id: id(term, index), payload: &BLANK }
    }

    fn indices(image: &Image) -> Vec<u64> {
        image.read(0, 100, usize::MAX).unwrap().iter().map(|entry| entry.log_id.index).collect()
    }

    fn replayed(records: Vec<Record<'_>>) -> Image {
        let mut frame = Vec::new();
        records.iter().for_each(|record| record.encode_to(&mut frame));
        let mut image = Image::default();
        image.replay(&frame).unwrap();
        image
    }

    #[test]
    fn truncate_and_purge_take_from_the_ends() {
        let mut image = replayed((0..10).map(|index| entry(1, index)).collect());
        image.add(&Record::Truncate(Some(id(1, 6)))).unwrap();
        image.add(&Record::Purge(id(1, 2))).unwrap();
        image.add(&entry(2, 7)).unwrap();
        assert_eq!(indices(&image), [3, 4, 5, 6, 7]);
        assert_eq!((image.last(), image.bytes()), (Some(id(2, 7)), 5));
        image.add(&Record::Purge(id(2, 20))).unwrap();
        assert_eq!((image.last(), image.bytes()), (Some(id(2, 20)), 0));
        image.add(&entry(2, 21)).unwrap();
        assert_eq!(indices(&image), [21]);
        image.add(&Record::Truncate(None)).unwrap();
        assert_eq!(indices(&image), []);
    }

    #[test]
    fn what_is_missing_at_the_start_must_be_purged_by_the_end() {
        let mut image = replayed(vec![entry(1, 5), entry(1, 6)]);
        assert_eq!(image.check().unwrap_err(), "the log begins with entry 5, but entry 0 is needed");
        image.add(&Record::Purge(id(1, 3))).unwrap();
        assert_eq!(image.check().unwrap_err(), "the log begins with entry 5, but entry 4 is needed");
        image.add(&Record::Purge(id(1, 4))).unwrap();
        image.check().unwrap();
    }

    #[test]
    fn a_hole_and_a_frame_of_something_else_are_refused() {
        let mut image = replayed(vec![entry(1, 0)]);
        assert_eq!(image.add(&entry(1, 2)).unwrap_err(), "entry 2 follows, but entry 1 is expected");
        assert!(
            matches!(image.replay(&[2, 0x7f, 1]), Err(Unreadable::Malformed(what)) if what.starts_with("it contains no valid record"))
        );
    }

    #[test]
    fn a_read_is_cut_by_bytes_but_never_empty() {
        let image = replayed((0..10).map(|index| entry(1, index)).collect());
        assert_eq!(image.read(2, 9, 3).unwrap().len(), 3);
        assert_eq!(image.read(2, 9, 0).unwrap().len(), 1);
    }

    #[test]
    fn the_head_says_all_but_the_entries() {
        let head = Head {
            vote: Some(Vote { term: 3, node: 1, committed: true }),
            committed: Some(id(3, 8)),
            purged: Some(id(2, 5)),
        };
        let mut image = Image::default();
        assert_eq!(image.replay(&head.encode()), Ok(None));
        assert_eq!(image.head, head);
    }
}
