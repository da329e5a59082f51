//! The journal: payloads in order, in segments, durable when `append` returns.
//!
//! A segment is a file of a fixed length. Another follows once it is full: first the new file is there for good, then the old
//! one is sealed, then the new one is used. So each way to lose acknowledged bytes with a file, or with the end of one, shows:
//! a file that is cut short has the wrong length, a seal without the next segment misses it, a gap in the numbers is a
//! gap. What does not show is an end overwritten with zeros or noise in both copies of the last frame: so looks a
//! write that a power cut interrupted, too.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, TEMPORARY};
use super::error::OpenError;
use super::format;
use super::frame::{self, HEADER_BYTES, Kind, Segment, encode_frame, frame_bytes};
use super::open::Store;
use super::version::Unreadable;

const PREFIX: &str = "log-";
const SUFFIX: &str = ".baton";
/// Every segment keeps room for it.
const SEAL_BYTES: usize = 2 * HEADER_BYTES;

/// Payloads in order, on disk.
///
/// Errors of its functions leave the state of a file unknown: whoever sees one must stop, and open the folder anew.
pub struct Journal {
    disk: Arc<dyn Disk>,
    segment_bytes: usize,
    /// Those before the current one, oldest first.
    sealed: VecDeque<Sealed>,
    current: Current,
    next_sequence: u64,
}

struct Sealed {
    name: String,
    /// The highest mark of its payloads.
    mark: Option<u64>,
}

struct Current {
    name: String,
    file: Box<dyn DiskFile>,
    nonce: u64,
    length: usize,
    /// Where the next frame goes.
    end: usize,
    mark: Option<u64>,
}

impl Journal {
    /// Opens the journal of a folder, or makes one, and shows every payload to `visit`, which gives its mark (see
    /// [`Journal::release`]) or says why it makes no sense.
    pub fn open(
        store: &Store,
        segment_bytes: usize,
        mut visit: impl FnMut(&[u8]) -> Result<Option<u64>, Unreadable>,
    ) -> Result<Journal, OpenError> {
        let disk = store.disk.clone();
        let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
        let formatted = store.format.is_some();
        let found = Found::read(&*disk, &names, &mut visit)?;
        // FORMAT is written last, so a folder without it holds nothing but what the very first start wrote.
        if !formatted && (found.payloads > 1 || names.iter().any(|name| name.starts_with("snapshot-"))) {
            return Err(OpenError::Missing {
                what: "the data folder holds data, but its file FORMAT is missing".into(),
            });
        }
        if formatted && found.current.is_none() {
            return Err(OpenError::Missing { what: "the data folder holds no log any more".into() });
        }
        if let Some(name) = &found.unfinished {
            disk.remove(name).map_err(OpenError::io("remove", name))?;
        }
        // What was found may be known to the system's memory only, if the process ended before it synced the folder.
        disk.sync_folder().map_err(OpenError::io("sync", "the data folder"))?;
        let failed = OpenError::io("write", "the log");
        let (current, next_sequence) = match found.current {
            Some(current) => current,
            None => (new_segment(&*disk, segment_bytes, 1, &[]).map_err(failed)?, 2),
        };
        if !formatted {
            format::sign(&*disk)?;
            format::write(&*disk)?;
        }
        format::expect(&store.files);
        Ok(Journal { disk, segment_bytes, sealed: found.sealed, current, next_sequence })
    }

    /// Adds a payload; it is durable when this returns. Where a new segment has to begin, `head` is its first payload: all
    /// that must be known when the segments before it are gone.
    pub fn append(&mut self, payload: &[u8], mark: Option<u64>, head: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        let need = frame_bytes(payload.len()) + SEAL_BYTES;
        if self.current.end + need > self.current.length {
            self.roll(&head(), need)?;
        }
        self.write(Kind::Frame, payload)?;
        self.current.mark = self.current.mark.max(mark);
        Ok(())
    }

    /// Forgets segments, oldest first, of which no payload has a mark above this one.
    pub fn release(&mut self, mark: u64) -> io::Result<()> {
        while self.sealed.front().is_some_and(|sealed| sealed.mark <= Some(mark)) {
            let sealed = self.sealed.pop_front().expect("just seen");
            self.disk.remove(&sealed.name)?;
            // One by one: were two removed and the later one alone stayed gone, there would be a gap.
            self.disk.sync_folder()?;
        }
        Ok(())
    }

    fn write(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let frame = encode_frame(kind, self.next_sequence, self.current.nonce, payload);
        self.current.file.write_at(&frame, self.current.end as u64)?;
        self.current.file.sync()?;
        self.current.end += frame.len();
        self.next_sequence += 1;
        Ok(())
    }

    fn roll(&mut self, head: &[u8], need: usize) -> io::Result<()> {
        let length = self.segment_bytes.max(2 * HEADER_BYTES + frame_bytes(head.len()) + need);
        let next = new_segment(&*self.disk, length, self.next_sequence + 1, head)?;
        self.write(Kind::Seal, &[])?;
        self.next_sequence += 1;
        let full = std::mem::replace(&mut self.current, next);
        self.sealed.push_back(Sealed { name: full.name, mark: full.mark });
        Ok(())
    }
}

/// What is there when a folder is opened.
#[derive(Default)]
struct Found {
    sealed: VecDeque<Sealed>,
    /// The last segment and the number of the next frame.
    current: Option<(Current, u64)>,
    /// A segment that was made, and not used before the process ended.
    unfinished: Option<String>,
    payloads: usize,
}

impl Found {
    fn read(
        disk: &dyn Disk,
        names: &[String],
        visit: &mut impl FnMut(&[u8]) -> Result<Option<u64>, Unreadable>,
    ) -> Result<Found, OpenError> {
        let first = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
        let mut segments: Vec<(u64, &String)> = names.iter().filter_map(|name| Some((first(name)?, name))).collect();
        segments.sort_unstable();

        let mut found = Found::default();
        let mut expected = None;
        for (i, (first, name)) in segments.iter().enumerate() {
            let damaged = |offset: usize, what: String| {
                Err(OpenError::Damaged { file: (*name).clone(), offset: offset as u64, what })
            };
            let bytes = disk.read(name).map_err(OpenError::io("read", *name))?;
            let segment = match frame::decode_segment(&bytes) {
                Ok(segment) if segment.header.sequence == *first => segment,
                Ok(segment) => return damaged(0, format!("it begins with frame {}", segment.header.sequence)),
                Err(damage) => return damaged(damage.offset(), damage.to_string()),
            };
            if let Some((_, next)) = &found.current {
                // The last was not sealed. If this one was made to follow it and nothing more, then the process ended there.
                if i + 1 == segments.len() && *first == next + 1 && segment.payloads().len() == 1 && !segment.sealed {
                    found.unfinished = Some((*name).clone());
                    break;
                }
                return Err(OpenError::Missing { what: format!("frame {next} of the log is missing, before {name}") });
            }
            if let Some(expected) = expected.filter(|expected| expected != first) {
                return Err(OpenError::Missing {
                    what: format!("frame {expected} of the log is missing, before {name}"),
                });
            }
            let mut mark = None;
            for payload in segment.payloads() {
                match visit(payload) {
                    Ok(marked) => mark = mark.max(marked),
                    Err(why) => return Err(format::unreadable(disk, name, why)),
                }
            }
            found.payloads += segment.payloads().len();
            let next = first + segment.payloads().len() as u64;
            if segment.sealed {
                // The last of the sealed ones may owe its seal a sync, as `take_up` says; it is among the last three files.
                heal(disk, name, &bytes, &segment, i + 3 > segments.len())?;
                found.sealed.push_back(Sealed { name: (*name).clone(), mark });
                expected = Some(next + 1);
            } else {
                found.current = Some((take_up(disk, name, &bytes, segment, mark)?, next));
            }
        }
        match expected {
            Some(expected) if found.current.is_none() => Err(OpenError::Missing {
                what: format!("frame {expected} of the log is missing, with all that followed it"),
            }),
            _ => Ok(found),
        }
    }
}

/// A new segment with its first payload, for good.
fn new_segment(disk: &dyn Disk, length: usize, first: u64, head: &[u8]) -> io::Result<Current> {
    let name = format!("{PREFIX}{first:020}{SUFFIX}");
    let temporary = format!("{name}{TEMPORARY}");
    // The system's own randomness, without a crate for it.
    let nonce = RandomState::new().hash_one(first);
    let coded_length = u32::try_from(length).map_err(|_| io::Error::other("a segment is shorter than 4 GiB"))?;
    let mut bytes = frame::encode_segment(coded_length, first, nonce);
    bytes.extend(encode_frame(Kind::Frame, first, nonce, head));
    let file = disk.create(&temporary, length as u64)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.rename(&temporary, &name)?;
    disk.sync_folder()?;
    Ok(Current { name, file, nonce, length, end: bytes.len(), mark: None })
}

/// Goes on with the last segment.
///
/// What was read may be in the system's memory only: the process may have ended before a sync, or because of one that
/// failed, after which the system believes that there is nothing left to write. So all of it is written again. The rest
/// of an interrupted write may stay: its number is that of the frame which is written over it next, so nobody takes it for a
/// later one.
fn take_up(disk: &dyn Disk, name: &str, bytes: &[u8], found: Segment, mark: Option<u64>) -> Result<Current, OpenError> {
    let failed = || OpenError::io("write", name);
    let file = disk.open(name).map_err(failed())?;
    let end = found.sound.len();
    file.write_at(&found.sound, 0).map_err(failed())?;
    file.sync().map_err(failed())?;
    Ok(Current { name: name.to_owned(), file, nonce: found.header.nonce, length: bytes.len(), end, mark })
}

/// Writes a sealed segment again: where one copy of something is lost, before the other is lost, too; or `always`.
fn heal(disk: &dyn Disk, name: &str, bytes: &[u8], segment: &Segment, always: bool) -> Result<(), OpenError> {
    if !always && bytes.starts_with(&segment.sound) {
        return Ok(());
    }
    let file = disk.open(name).map_err(OpenError::io("write", name))?;
    file.write_at(&segment.sound, 0).and_then(|()| file.sync()).map_err(OpenError::io("write", name))
}
