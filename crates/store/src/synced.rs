//! The file SYNCED: the number of the last synced frame, so that the loss of the log's end is noticed.
//!
//! The file has two places in different blocks, which are written in turn. The number of a frame is written after the
//! frame was synced, so the file never names a frame that the log does not have. The file itself is synced only at the
//! start and with each new segment, because a sync per append would double its cost. A killed process leaves the number
//! of the last frame. A power cut may leave an older number, or none if it tears both places.

use std::io;

use super::disk::{self, Disk, DiskFile};
use super::error::OpenError;
use super::files::Files;
use super::line;

pub(super) const FILE: &str = "SYNCED";
/// Disks lose whole blocks of this size. One lost block leaves the other place intact.
const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// Each place contains a line of this length.
const LINE_BYTES: usize = "baton log synced up to frame 01234567890123456789 01234567\n".len();

pub(super) struct Synced {
    file: Box<dyn DiskFile>,
    /// The place for the next number: 0 or 1.
    place: usize,
}

impl Synced {
    /// Opens or creates the file, and makes this number durable.
    pub fn open(disk: &dyn Disk, files: &Files, sequence: u64) -> io::Result<Synced> {
        // Written in place if possible, because a server must start on a full disk, too.
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

    /// Records that the log is synced up to this frame.
    pub fn write(&mut self, sequence: u64) -> io::Result<()> {
        self.file.write_at(&encode(sequence), (self.place * BLOCK_BYTES) as u64)?;
        self.place = 1 - self.place;
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The number of the last frame that is known to be synced, if it is readable.
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
