//! The Raft log: its newest entries in memory, and where it begins on disk. Built from the records of the journal.

use std::collections::VecDeque;
use std::sync::Arc;

use crc32c::crc32c;
use openraft::entry::RaftEntry;
use serde::{Deserialize, Serialize};

use super::edge;
use super::types::LogEntry;
use crate::format::record::{LogId, Payload, Record, Vote};
use crate::store::{Marks, Unreadable};

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
    payload: Arc<[u8]>,
}

/// Tells the contents of two entries apart that have the same id: see [`super::history`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(u32);

impl Fingerprint {
    pub fn of(payload: &[u8]) -> Fingerprint {
        // All memberships are alike: each node encodes them itself. Commands have the bytes of the node that proposed them.
        Fingerprint(if Payload::is_membership(payload) { 0 } else { crc32c(payload) })
    }
}

/// How far back a membership or a blank entry is passed over in the search for commands. Each term begins with commands.
const COMMANDS_AGO_MAX: u64 = 64;

/// Entries of one term that follow each other and are only on disk, up to the next run or to the first entry in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    term: u64,
}

/// Entries that the image no longer has, but that are still in memory. Dropping a million of them takes a while.
#[derive(Default)]
pub(super) struct Purged {
    _entries: VecDeque<Kept>,
}

/// The entries in a write to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub marks: Marks,
    /// The id of the last entry.
    pub last: LogId,
}

impl Span {
    pub fn of(id: LogId) -> Span {
        Span { marks: Marks::of(id.index), last: id }
    }

    /// Both spans, if the later one follows the other in the journal.
    pub fn join(earlier: Option<Span>, later: Option<Span>) -> Option<Span> {
        let marks = Marks::join(earlier.map(|span| span.marks), later.map(|span| span.marks))?;
        Some(Span { marks, last: later.or(earlier)?.last })
    }
}

/// The log, with its newest entries in memory: openraft reads entries from it to apply and to send them. The payloads
/// stay encoded, because that takes less memory. Of older entries, which are only on disk, it knows the terms.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub head: Head,
    /// The entries that are only on disk, in order. They end before `first`.
    on_disk: VecDeque<Run>,
    /// The index of the first of `entries`.
    first: u64,
    entries: VecDeque<Kept>,
    /// Of each entry, on disk or in memory.
    fingerprints: VecDeque<Fingerprint>,
    /// Total size of the payloads in memory.
    bytes: u64,
    /// All entries up to this one are committed, although no record of the log says so.
    settled: Option<u64>,
    /// The last entry with a membership.
    membership: Option<u64>,
}

impl Image {
    /// Adds all records of a frame. Returns the entries in the frame.
    pub fn replay(&mut self, mut frame: &[u8]) -> Result<Option<Span>, Unreadable> {
        let mut span = None;
        while !frame.is_empty() {
            let (record, rest) = Record::read(frame)?;
            if let Record::Entry { id, .. } = &record {
                span = Span::join(span, Some(Span::of(*id)));
            }
            self.add(&record)?;
            frame = rest;
        }
        Ok(span)
    }

    pub fn add(&mut self, record: &Record<'_>) -> Result<(), String> {
        match *record {
            Record::Entry { id, payload } => return self.append(id, payload),
            Record::Vote(vote) => self.head.vote = Some(vote),
            Record::Committed(id) => self.head.committed = Some(id),
            Record::Truncate(after) => self.truncate(after.map_or(0, |id| id.index.saturating_add(1))),
            Record::Purge(id) => drop(self.purge(id)),
        }
        Ok(())
    }

    /// Removes all entries from `end` on.
    fn truncate(&mut self, end: u64) {
        self.fingerprints.truncate(end.saturating_sub(self.begin()) as usize);
        while self.end() > end.max(self.first) {
            self.bytes -= self.entries.pop_back().map_or(0, |kept| kept.payload.len() as u64);
        }
        while self.on_disk.pop_back_if(|run| run.first >= end).is_some() {}
        self.membership = self.membership.filter(|index| *index < end);
        // If entries are left on disk, the next one follows them.
        self.first = self.first.min(end);
    }

    /// Removes all entries up to and including `id`. The caller drops the result on another thread, because dropping a
    /// million entries takes a while.
    pub fn purge(&mut self, id: LogId) -> Purged {
        let next = id.index.saturating_add(1);
        let count = next.saturating_sub(self.begin()).min(self.fingerprints.len() as u64);
        self.fingerprints.drain(..count as usize);
        while self.on_disk.get(1).map_or(self.first, |run| run.first) <= next && self.on_disk.pop_front().is_some() {}
        if let Some(run) = self.on_disk.front_mut() {
            run.first = run.first.max(next);
        }
        self.head.purged = self.head.purged.max(Some(id));
        Purged { _entries: self.take_before(next) }
    }

    /// Takes the entries up to and including `upto` out of memory, as far as they are on disk. `durable` is the id of
    /// the last entry on disk: if the log has an entry with this id, then the disk has the same entries up to it.
    pub fn evict(&mut self, upto: u64, durable: LogId) -> Purged {
        if self.term(durable.index) != Some(durable.term) {
            return Purged::default();
        }
        let first = self.first;
        let entries = self.take_before(upto.min(durable.index).saturating_add(1));
        for (index, kept) in (first..).zip(&entries) {
            if self.on_disk.back().is_none_or(|run| run.term != kept.term) {
                self.on_disk.push_back(Run { first: index, term: kept.term });
            }
        }
        Purged { _entries: entries }
    }

    /// Takes the entries with an index below `end` out of memory.
    fn take_before(&mut self, end: u64) -> VecDeque<Kept> {
        let count = end.saturating_sub(self.first).min(self.entries.len() as u64);
        // Every segment repeats the purge record of the one before. Then nothing is left to purge, and the remaining
        // entries must not be copied again.
        if count == 0 {
            return VecDeque::new();
        }
        let rest = self.entries.split_off(count as usize);
        let taken = std::mem::replace(&mut self.entries, rest);
        self.bytes -= taken.iter().map(|kept| kept.payload.len() as u64).sum::<u64>();
        self.first += count;
        taken
    }

    /// While segments are read, entries before the first one may be missing, if a later record purges them.
    /// [`Image::check`] reports a missing purge record.
    fn append(&mut self, id: LogId, payload: &[u8]) -> Result<(), String> {
        if self.entries.is_empty() && self.on_disk.is_empty() {
            self.first = id.index;
        }
        let expected = self.end();
        if id.index != expected {
            return Err(format!("entry {} follows, but entry {expected} is expected", id.index));
        }
        if Payload::is_membership(payload) {
            // A leader changes the members only when their last change is committed.
            let before = self.membership.replace(id.index);
            before.into_iter().for_each(|before| self.settle(before));
        }
        self.bytes += payload.len() as u64;
        self.fingerprints.push_back(Fingerprint::of(payload));
        self.entries.push_back(Kept { term: id.term, payload: payload.into() });
        Ok(())
    }

    /// Fails if entries are missing between the purged part and the first entry.
    pub fn check(&self) -> Result<(), String> {
        let next = self.head.purged.map_or(0, |id| id.index.saturating_add(1));
        let begin = self.begin();
        if begin == self.end() || begin <= next {
            return Ok(());
        }
        Err(format!("the log begins with entry {begin}, but entry {next} is needed"))
    }

    /// All entries up to this one are committed, for example because a snapshot has them.
    pub fn settle(&mut self, upto: u64) {
        self.settled = self.settled.max(Some(upto));
    }

    /// The last entry of which this node knows that it is committed: it is applied, or will be. It can never be another one.
    pub fn decided(&self) -> Option<u64> {
        let Head { committed, purged, .. } = self.head;
        [committed, purged].into_iter().map(|id| id.map(|id| id.index)).fold(self.settled, Option::max)
    }

    /// The id of the last entry, or of the last purged entry if the log is empty.
    pub fn last(&self) -> Option<LogId> {
        let index = self.end().checked_sub(1);
        let last = index.and_then(|index| Some(LogId { term: self.term(index)?, index }));
        last.or(self.head.purged)
    }

    /// Total size of the payloads in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of the first entry, in memory or on disk.
    pub fn begin(&self) -> u64 {
        self.on_disk.front().map_or(self.first, |run| run.first)
    }

    /// The first entry with a term above this one.
    pub fn first_above(&self, term: u64) -> Option<u64> {
        let on_disk = self.on_disk.iter().find(|run| run.term > term).map(|run| run.first);
        let at = self.entries.partition_point(|kept| kept.term <= term);
        on_disk.or_else(|| (at < self.entries.len()).then(|| self.first + at as u64))
    }

    /// The index of the first entry in memory, or of the next entry if none is in memory.
    pub fn first_in_memory(&self) -> u64 {
        self.first
    }

    /// The term of an entry, in memory or on disk.
    pub fn term(&self, index: u64) -> Option<u64> {
        match index.checked_sub(self.first) {
            Some(at) => self.entries.get(usize::try_from(at).ok()?).map(|kept| kept.term),
            None => self.on_disk.iter().rev().find(|run| run.first <= index).map(|run| run.term),
        }
    }

    /// True if the log has this entry, or has purged it.
    pub fn has(&self, id: LogId) -> bool {
        match self.term(id.index) {
            Some(term) => term == id.term,
            None => self.head.purged.is_some_and(|purged| id.index <= purged.index),
        }
    }

    /// What tells the content of an entry, in memory or on disk, from that of another one with its id.
    pub fn fingerprint(&self, index: u64) -> Option<Fingerprint> {
        self.fingerprints.get(usize::try_from(index.checked_sub(self.begin())?).ok()?).copied()
    }

    /// The last entry with commands up to this one, if it is not far away. Only commands have contents of their own.
    pub fn last_commands(&self, upto: u64) -> Option<(LogId, Fingerprint)> {
        let membership = Fingerprint(0);
        let blank = Fingerprint::of(&Payload::Blank.encode());
        let from = upto.saturating_sub(COMMANDS_AGO_MAX);
        let known = |index| Some((LogId { term: self.term(index)?, index }, self.fingerprint(index)?));
        (from..=upto).rev().find_map(|index| known(index).filter(|(_, of)| ![membership, blank].contains(of)))
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.entries.len() as u64)
    }

    /// The entries in memory from `start` to before `end`: as many as fit into `bytes_max`, but at least one.
    pub fn read(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<LogEntry>, String> {
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in start.max(self.first)..end.min(self.end()) {
            let kept = &self.entries[(index - self.first) as usize];
            bytes += kept.payload.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            let payload =
                edge::payload(&kept.payload).map_err(|e| format!("log entry {index} cannot be decoded: {e}"))?;
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
