//! The file SYNCED: up to which frame the log is synced, so that it shows if the end of the log is lost.
//!
//! It has two places, in blocks of their own, which take turns. The number of a frame is written there after the frame was
//! synced, so the file never names a frame that the log does not have. The file itself is synced only at the start and with
//! each new segment, since a sync of its own would double the cost of an append. A killed process leaves the number of the
//! last frame; a power cut may leave an older number, or none if it tears both places.

use std::io;

use super::disk::{self, Disk, DiskFile};
use super::error::OpenError;
use super::files::Files;
use super::line;

pub(super) const FILE: &str = "SYNCED";
/// The unit in which disks lose bytes: one lost block leaves the other place.
const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// A place holds a line of this length.
const LINE_BYTES: usize = "baton log synced up to frame 01234567890123456789 01234567\n".len();

/// The file, open.
pub(super) struct Synced {
    file: Box<dyn DiskFile>,
    /// Where the next number goes.
    place: usize,
}

impl Synced {
    /// Opens the file, or makes it, and makes this number durable.
    pub fn open(disk: &dyn Disk, files: &Files, sequence: u64) -> io::Result<Synced> {
        // Written in place if possible: a server must start on a full disk, too.
        if disk.length(FILE).ok() != Some(FILE_BYTES) {
            disk::replace(disk, FILE, &[&[0; FILE_BYTES as usize]])?;
        }
        files.insert(FILE, FILE_BYTES);
        let mut synced = Synced { file: disk.open(FILE)?, place: 0 };
        synced.write(sequence)?;
        synced.write(sequence)?;
        synced.sync()?;
        Ok(synced)
    }

    /// Says that the log is synced up to this frame.
    pub fn write(&mut self, sequence: u64) -> io::Result<()> {
        self.file.write_at(&encode(sequence), (self.place * BLOCK_BYTES) as u64)?;
        self.place = 1 - self.place;
        Ok(())
    }

    /// Makes durable what it says.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Up to which frame the log was synced at least, if that is known.
pub(super) fn read(disk: &dyn Disk, names: &[String]) -> Result<Option<u64>, OpenError> {
    if !names.iter().any(|name| name == FILE) {
        return Ok(None);
    }
    let bytes = disk.read(FILE).map_err(OpenError::io("read", FILE))?;
    let place = |start: usize| bytes.get(start..start + LINE_BYTES).and_then(decode);
    Ok(place(0).max(place(BLOCK_BYTES)))
}

fn encode(sequence: u64) -> Vec<u8> {
    line::encode(&format!("baton log synced up to frame {sequence:020}")).into_bytes()
}

fn decode(bytes: &[u8]) -> Option<u64> {
    line::decode(bytes)?.strip_prefix("baton log synced up to frame ")?.parse().ok()
}
