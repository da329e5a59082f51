//! Reads payloads of a journal while the journal is in use, one segment at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;
use super::error::OpenError;
use super::frame::Segment;
use super::remarks::Remarks;
use super::segments::Name;

/// The marks of a payload: the lowest and the highest. A payload with mark `n` replaces every earlier one with a mark of
/// `n` or above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    pub lowest: u64,
    pub highest: u64,
}

impl Marks {
    pub fn of(mark: u64) -> Marks {
        Marks { lowest: mark, highest: mark }
    }

    /// The marks of two payloads.
    pub fn join(one: Option<Marks>, other: Option<Marks>) -> Option<Marks> {
        let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
        Some(Marks { lowest: a.lowest.min(b.lowest), highest: a.highest.max(b.highest) })
    }
}

/// A segment, and the marks for which it has the newest payload.
#[derive(Clone, Debug)]
struct Place {
    segment: Name,
    /// The length of the synced part of the file.
    end: usize,
    marks: Option<Marks>,
}

/// The segments of a journal, oldest first. No mark is in two of them.
#[derive(Debug, Default)]
pub(super) struct Places(VecDeque<Place>);

/// What the journal has synced, and where. Clones share the same table.
#[derive(Clone)]
pub struct Archive {
    disk: Arc<dyn Disk>,
    places: Arc<Mutex<Places>>,
    remarks: Remarks,
}

/// The payloads of a segment, in order.
pub struct Payloads(Segment);

impl Payloads {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.payloads()
    }
}

impl Places {
    /// Records that the segment is synced up to `end`, with a further payload.
    pub fn synced(&mut self, segment: &Name, end: usize, marks: Option<Marks>) {
        if let Some(Marks { lowest, .. }) = marks {
            for place in self.0.iter_mut().rev() {
                let Some(has) = &mut place.marks else { continue };
                if has.highest < lowest {
                    break;
                }
                has.highest = lowest.saturating_sub(1);
                if has.lowest >= lowest {
                    place.marks = None;
                }
            }
        }
        match self.0.back_mut().filter(|place| place.segment.first == segment.first) {
            Some(place) => (place.end, place.marks) = (end, Marks::join(place.marks, marks)),
            None => self.0.push_back(Place { segment: segment.clone(), end, marks }),
        }
    }

    fn find(&self, mark: u64) -> Option<&Place> {
        let has = |place: &&Place| place.marks.is_some_and(|marks| (marks.lowest..=marks.highest).contains(&mark));
        self.0.iter().rev().find(has)
    }
}

impl Archive {
    pub(super) fn new(disk: Arc<dyn Disk>, places: Places, remarks: Remarks) -> Archive {
        Archive { disk, places: Arc::new(Mutex::new(places)), remarks }
    }

    /// The payloads of the segment that has this mark, up to the last synced one. None if no segment has it: it was
    /// never written, or is released.
    pub fn read(&self, mark: u64) -> Result<Option<Payloads>, OpenError> {
        let Some(Place { segment, end, .. }) = self.places().find(mark).cloned() else { return Ok(None) };
        match segment.read_upto(&*self.disk, end) {
            Ok((read, damage)) => {
                if let Some(byte) = damage {
                    self.remarks.read_from_the_other_copy(&segment.name, byte as u64);
                }
                Ok(Some(Payloads(read)))
            }
            // The file was removed meanwhile.
            Err(_) if self.places().find(mark).is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The last mark of the segment that has this mark.
    pub fn last_mark(&self, mark: u64) -> Option<u64> {
        self.places().find(mark)?.marks.map(|marks| marks.highest)
    }

    pub(super) fn synced(&self, segment: &Name, end: usize, marks: Option<Marks>) {
        self.places().synced(segment, end, marks);
    }

    /// Forgets the oldest segment.
    pub(super) fn release(&self, name: &str) {
        let released = self.places().0.pop_front();
        assert!(released.is_some_and(|place| place.segment.name == name), "segments are released in order");
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // A poisoned lock is harmless: nothing panics in the middle of a change.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
