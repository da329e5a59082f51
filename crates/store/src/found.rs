//! Reads the log of a folder, and checks that it is complete.

use std::collections::VecDeque;

use super::archive::{Marks, Places};
use super::disk::Disk;
use super::error::OpenError;
use super::frame::Segment;
use super::segments::Name;
use super::version::Unreadable;
use super::{format, segments, synced};

/// A segment that continues in another one.
pub(super) struct Sealed {
    pub name: Name,
    pub length: usize,
    /// The marks of all its payloads.
    pub marks: Option<Marks>,
}

/// The log as found on disk. The store changes nothing before it has read all of it.
#[derive(Default)]
pub(super) struct Found {
    pub sealed: VecDeque<Sealed>,
    /// The segment that is not sealed.
    pub last: Option<Last>,
    /// A new segment that was not used before the process ended.
    pub unfinished: Option<String>,
    /// Sealed segments that must be written again, with their correct bytes.
    pub unsound: Vec<(String, Vec<u8>)>,
    /// Damage in one copy: the file and the byte. Not what a power cut interrupted.
    pub damaged: Vec<(String, usize)>,
    /// What is where.
    pub places: Places,
}

pub(super) struct Last {
    pub name: Name,
    pub segment: Segment,
    pub marks: Option<Marks>,
    pub next_sequence: u64,
}

/// A frame with a copy that is not as it should be.
struct Suspect {
    file: String,
    at: usize,
    frame: u64,
    is_seal: bool,
}

impl Suspect {
    /// False if a power cut may have interrupted the write of this frame: then it is the last one, or a seal before a
    /// segment with nothing but its head, and SYNCED does not name it. `end` is the last frame of the log.
    fn is_damaged(&self, synced: Option<u64>, end: u64) -> bool {
        let may_be_unsynced = self.frame == end || self.is_seal && self.frame + 1 == end;
        !may_be_unsynced || synced.is_some_and(|synced| synced >= self.frame)
    }
}

impl Found {
    /// Reads the log of a folder of this format. Passes every payload to `visit`, with the version that wrote it.
    pub fn read(
        disk: &dyn Disk,
        names: &[String],
        format: Option<u32>,
        mut visit: impl FnMut(u32, &[u8]) -> Result<Option<Marks>, Unreadable>,
    ) -> Result<Found, OpenError> {
        let segments = segments::list(names);
        let mut found = Found::default();
        let mut expected = None;
        let mut suspects = Vec::new();
        for (i, file) in segments.iter().enumerate() {
            let (bytes, segment) = file.read(disk)?;
            let (name, first) = (file.name.clone(), file.first);
            let missing = |frame: u64| {
                Err(OpenError::Missing { what: format!("frame {frame} of the log is missing, before {}", file.name) })
            };
            if let Some(last) = &found.last {
                // The segment before is not sealed. If this one has only a head, then the process ended while it began
                // a new segment.
                let follows = first == last.next_sequence + 1 && i + 1 == segments.len();
                if follows && segment.payloads().len() == 1 && !segment.sealed {
                    found.unfinished = Some(name);
                    break;
                }
                return missing(last.next_sequence);
            }
            if let Some(expected) = expected.filter(|expected| *expected != first) {
                return missing(expected);
            }
            let mut all: Option<Marks> = None;
            for payload in segment.payloads() {
                let marks = visit(segment.version, payload).map_err(|why| format::unreadable(disk, &name, why))?;
                found.places.synced(file, segment.sound.len(), marks);
                all = Marks::join(all, marks);
            }
            let next_sequence = first + segment.payloads().len() as u64;
            if let Some((at, frame)) = segment.first_damage(&bytes) {
                suspects.push(Suspect { file: name.clone(), at, frame, is_seal: segment.seal() == Some(frame) });
            }
            if !segment.sealed {
                found.last = Some(Last { name: file.clone(), segment, marks: all, next_sequence });
                continue;
            }
            // Written again if one copy is damaged, before the other copy is damaged, too. The last sealed segment may
            // also have an unsynced seal (see `take_up`); it is among the last three files.
            if i + 3 > segments.len() || !bytes.starts_with(&segment.sound) {
                found.unsound.push((name.clone(), segment.sound));
            }
            found.sealed.push_back(Sealed { name: file.clone(), length: bytes.len(), marks: all });
            expected = Some(next_sequence + 1);
        }
        if let Some(expected) = expected.filter(|_| found.last.is_none()) {
            let what = format!("frame {expected} of the log is missing, with all that followed it");
            return Err(OpenError::Missing { what });
        }
        let synced = synced::read(disk, names)?;
        found.check_end(format, synced)?;
        let end = found.last.as_ref().map_or(0, |last| last.next_sequence - 1);
        suspects.retain(|suspect| suspect.is_damaged(synced, end));
        found.damaged = suspects.into_iter().map(|Suspect { file, at, .. }| (file, at)).collect();
        Ok(found)
    }

    /// Fails if the log ends before the last frame that was synced.
    fn check_end(&self, format: Option<u32>, synced: Option<u64>) -> Result<(), OpenError> {
        let missing = |what: String| Err(OpenError::Missing { what });
        let end = match &self.last {
            Some(last) => last.next_sequence.saturating_sub(1),
            None if format.is_none() && synced.is_none() => return Ok(()),
            None => return missing("the data folder has no log any more".to_owned()),
        };
        match synced {
            Some(synced) if synced > end => missing(format!(
                "the log ends with frame {end}, but frame {synced} was synced: the later frames were overwritten, or the \
                 log is an older copy"
            )),
            _ => Ok(()),
        }
    }
}
