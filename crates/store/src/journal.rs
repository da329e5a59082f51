//! The journal: payloads in order, in segments. A payload is durable when `append` returns.
//!
//! A segment is a file of a fixed length. When it is full, the journal first creates the next file durably, then seals
//! the old one, then uses the new one. So every loss of acknowledged bytes is noticed: a file that was cut short has
//! the wrong length, a seal without a next segment shows that a file is missing, and a missing file in between leaves a
//! gap in the numbers.
//!
//! The end of the log needs a second record. If the last frames are overwritten with zeros or noise, they look like a
//! write that a power cut interrupted, or as if they had never been written. The file SYNCED names the last synced
//! frame, and the start refuses a log that ends before this frame. SYNCED is exact if the process was stopped or
//! killed. After a power cut or a crash of the system it may be older than the log: it names at least the first frame
//! of the last segment, or the last frame of the start before. If it is unreadable, it names none. After such a power
//! cut or crash, the frames after the named one can be lost unnoticed in two cases: both copies of all of them are lost
//! (the disk confirmed a sync and did not do it), or they are overwritten before the next start. The next start writes
//! SYNCED again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::archive::{Archive, Marks};
use super::disk::Disk;
use super::error::OpenError;
use super::files::Files;
use super::format;
use super::found::{Found, Sealed};
use super::frame::{HEADER_BYTES, Kind, Segment, encode_frame, frame_bytes};
use super::open::Store;
use super::segments::{self, Name, Open, SEAL_BYTES};
use super::synced::{self, Synced};
use super::version::{Unreadable, VERSION};

/// Payloads in order, on disk.
///
/// After an error the state of a file is unknown: the caller must stop, and open the folder again.
pub struct Journal {
    disk: Arc<dyn Disk>,
    files: Files,
    segment_bytes: usize,
    /// The segments before the current one, oldest first.
    sealed: VecDeque<Sealed>,
    current: Open,
    /// The marks of the current segment's payloads.
    current_marks: Option<Marks>,
    next_sequence: u64,
    synced: Synced,
    archive: Archive,
}

impl Journal {
    /// Opens or creates the journal of a folder. Passes every payload to `visit`, which returns its marks (see
    /// [`Journal::release`]) or says why it cannot be read. Afterwards the folder is complete, and of the current
    /// version.
    pub fn open(
        store: &Store,
        segment_bytes: usize,
        mut visit: impl FnMut(&[u8]) -> Result<Option<Marks>, Unreadable>,
    ) -> Result<Journal, OpenError> {
        let disk = store.disk.clone();
        let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
        let found = Found::read(&*disk, &names, store.format, |_, payload| visit(payload))?;
        if let Some(name) = &found.unfinished {
            disk.remove(name).map_err(OpenError::io("remove", name))?;
        }
        // If the process ended before it synced the folder, the found names may be only in the system's memory.
        disk.sync_folder().map_err(OpenError::io("sync", "the data folder"))?;
        for (name, sound) in &found.unsound {
            let file = disk.open(name).map_err(OpenError::io("write", name))?;
            file.write_at(sound, 0).and_then(|()| file.sync()).map_err(OpenError::io("write", name))?;
        }
        for (name, at) in &found.damaged {
            store.remarks.repaired(name, *at as u64);
        }
        for sealed in &found.sealed {
            store.files.insert(&sealed.name.name, sealed.length as u64);
        }
        let archive = Archive::new(disk.clone(), found.places, store.remarks.clone());
        let (current, current_marks, next_sequence) = match found.last {
            Some(last) => (take_up(&*disk, last.name, last.segment)?, last.marks, last.next_sequence),
            None => {
                let made = segments::create(&*disk, 1, &[[]], false, segment_bytes);
                let made = made.map_err(OpenError::io("write", "the log"))?;
                archive.synced(&made.name, made.end, None);
                (made, None, 2)
            }
        };
        store.files.insert(&current.name.name, current.length as u64);
        let synced = Synced::open(&*disk, &store.files, next_sequence - 1);
        let synced = synced.map_err(OpenError::io("write", synced::FILE))?;
        format::sign(&*disk)?;
        if store.format != Some(VERSION) {
            format::write(&*disk)?;
        }
        format::expect(&store.files);
        let (files, sealed) = (store.files.clone(), found.sealed);
        Ok(Journal { disk, files, segment_bytes, sealed, current, current_marks, next_sequence, synced, archive })
    }

    /// Reads what is in the journal.
    pub fn archive(&self) -> Archive {
        self.archive.clone()
    }

    /// Adds a payload, which is durable when this returns. If a new segment must begin, `head` gives its first payload:
    /// everything that must be known when the earlier segments are gone.
    pub fn append(&mut self, payload: &[u8], marks: Option<Marks>, head: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        let need = frame_bytes(payload.len()) + SEAL_BYTES;
        if self.current.end + need > self.current.length {
            self.roll(&head(), need)?;
        }
        self.write(Kind::Frame, payload)?;
        self.archive.synced(&self.current.name, self.current.end, marks);
        self.current_marks = Marks::join(self.current_marks, marks);
        self.synced.write(self.next_sequence - 1)
    }

    /// Forgets the oldest segments, as long as no payload in them has a mark above this one. The caller must run the
    /// returned removal of their files.
    pub fn release(&mut self, mark: u64) -> Removal {
        let mut names = Vec::new();
        let is_old = |sealed: &mut Sealed| sealed.marks.is_none_or(|marks| marks.highest <= mark);
        while let Some(sealed) = self.sealed.pop_front_if(is_old) {
            let name = sealed.name.name;
            self.archive.release(&name);
            self.files.remove(&name);
            names.push(name);
        }
        Removal { disk: self.disk.clone(), names }
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
        let next = segments::create(&*self.disk, self.next_sequence + 1, &[head], false, length)?;
        self.files.insert(&next.name.name, next.length as u64);
        self.write(Kind::Seal, &[])?;
        self.archive.synced(&next.name, next.end, None);
        self.next_sequence += 1;
        let full = std::mem::replace(&mut self.current, next);
        self.sealed.push_back(Sealed { name: full.name, length: full.length, marks: self.current_marks.take() });
        // With a sync, so that after a power cut SYNCED is behind by at most one segment.
        self.synced.write(self.next_sequence - 1)?;
        self.synced.sync()
    }
}

/// Files that are no longer needed, oldest first. Run removals in the order in which they were made.
#[must_use]
pub struct Removal {
    disk: Arc<dyn Disk>,
    names: Vec<String>,
}

impl Removal {
    pub fn run(self) -> io::Result<()> {
        for name in &self.names {
            self.disk.remove(name)?;
            // One by one: if two removals were synced together, a power cut could undo only the earlier one, and leave
            // a gap.
            self.disk.sync_folder()?;
        }
        Ok(())
    }
}

/// Continues with the last segment.
///
/// The bytes that were read may be only in the system's memory: the process may have ended before a sync, or because of
/// a failed sync, after which the system does not write these bytes again. So all of them are written again. The rest
/// of an interrupted write may stay: it has the number of the next frame, which overwrites it, so it cannot be taken
/// for a later frame.
fn take_up(disk: &dyn Disk, name: Name, found: Segment) -> Result<Open, OpenError> {
    let failed = || OpenError::io("write", &name.name);
    let file = disk.open(&name.name).map_err(failed())?;
    file.write_at(&found.sound, 0).map_err(failed())?;
    file.sync().map_err(failed())?;
    let (length, end) = (found.header.length as usize, found.sound.len());
    Ok(Open { name, file, nonce: found.header.nonce, length, end })
}
