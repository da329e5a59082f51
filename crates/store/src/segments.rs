//! The segments of a journal as files: their names, reading and creation.

use std::io;

use super::disk::{Disk, DiskFile, TEMPORARY};
use super::error::OpenError;
use super::format;
use super::frame::{self, Fault, HEADER_BYTES, Kind, Segment, encode_frame};
use super::version::{Unreadable, VERSION};

const PREFIX: &str = "log-";
const SUFFIX: &str = ".baton";
/// Every segment keeps room for its seal.
pub(super) const SEAL_BYTES: usize = 2 * HEADER_BYTES;

#[derive(Clone, Debug)]
pub(super) struct Name {
    /// The number of its first frame.
    pub first: u64,
    pub name: String,
}

/// The segments among these files, oldest first.
pub(super) fn list(names: &[String]) -> Vec<Name> {
    let first = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
    let mut segments: Vec<Name> =
        names.iter().filter_map(|name| Some(Name { first: first(name)?, name: name.clone() })).collect();
    segments.sort_unstable_by_key(|segment| segment.first);
    segments
}

impl Name {
    /// The bytes of the file, and the decoded segment.
    pub fn read(&self, disk: &dyn Disk) -> Result<(Vec<u8>, Segment), OpenError> {
        let bytes = disk.read(&self.name).map_err(OpenError::io("read", &self.name))?;
        let segment = frame::decode_segment(&bytes).map_err(|fault| self.faulty(disk, fault))?;
        if segment.header.sequence != self.first {
            return Err(self.damaged(0, format!("it begins with frame {}", segment.header.sequence)));
        }
        Ok((bytes, segment))
    }

    /// Decodes the first `end` bytes of a file that may be written to behind them. Fails if one of the frames in them is
    /// damaged in both copies. Returns also the first byte that is damaged in one of the copies.
    pub fn read_upto(&self, disk: &dyn Disk, end: usize) -> Result<(Segment, Option<usize>), OpenError> {
        let file = disk.open(&self.name).map_err(OpenError::io("read", &self.name))?;
        let mut bytes = file.read_at(0, end).map_err(OpenError::io("read", &self.name))?;
        let (header, _) = frame::decode_header(&bytes).map_err(|fault| self.faulty(disk, fault))?;
        bytes.resize(header.length as usize, 0);
        let segment = frame::decode_segment(&bytes).map_err(|fault| self.faulty(disk, fault))?;
        match segment.header.sequence == self.first && segment.sound.len() == end {
            true => {
                let damage = segment.first_damage(&bytes).map(|(at, _)| at);
                Ok((segment, damage))
            }
            false => {
                Err(self.damaged(segment.sound.len(), "a frame that was synced is damaged in both copies".to_owned()))
            }
        }
    }

    /// The version in its header.
    pub fn version(&self, disk: &dyn Disk) -> Result<u32, OpenError> {
        let file = disk.open(&self.name).map_err(OpenError::io("read", &self.name))?;
        let bytes = file.read_at(0, 2 * HEADER_BYTES).map_err(OpenError::io("read", &self.name))?;
        let (_, version) = frame::decode_header(&bytes).map_err(|fault| self.faulty(disk, fault))?;
        Ok(version)
    }

    fn faulty(&self, disk: &dyn Disk, fault: Fault) -> OpenError {
        match fault {
            Fault::Newer { version } => format::unreadable(disk, &self.name, Unreadable::Newer { version }),
            fault => self.damaged(fault.offset(), fault.to_string()),
        }
    }

    fn damaged(&self, offset: usize, what: String) -> OpenError {
        OpenError::Damaged { file: self.name.clone(), offset: offset as u64, what }
    }
}

/// A segment that can be written to.
pub(super) struct Open {
    pub name: Name,
    pub file: Box<dyn DiskFile>,
    pub nonce: u64,
    pub length: usize,
    /// The offset of the next frame.
    pub end: usize,
}

/// Creates a segment of the current version with these payloads, durably. Replaces one that begins with the same frame.
/// The file is longer than `length_min` if the payloads need it.
pub(super) fn create(
    disk: &dyn Disk,
    first: u64,
    payloads: &[impl AsRef<[u8]>],
    sealed: bool,
    length_min: usize,
) -> io::Result<Open> {
    let nonce = baton_runtime::random(first);
    let mut frames = Vec::new();
    for (sequence, payload) in (first..).zip(payloads) {
        frames.extend(encode_frame(Kind::Frame, sequence, nonce, payload.as_ref()));
    }
    if sealed {
        frames.extend(encode_frame(Kind::Seal, first + payloads.len() as u64, nonce, &[]));
    }
    let seal_bytes = if sealed { 0 } else { SEAL_BYTES };
    let length = length_min.max(2 * HEADER_BYTES + frames.len() + seal_bytes);
    let coded_length = u32::try_from(length).map_err(|_| io::Error::other("a segment must be shorter than 4 GiB"))?;
    let bytes = [frame::encode_segment(VERSION, coded_length, first, nonce), frames].concat();

    let name = format!("{PREFIX}{first:020}{SUFFIX}");
    let temporary = format!("{name}{TEMPORARY}");
    let file = disk.create(&temporary, length as u64)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.rename(&temporary, &name)?;
    disk.sync_folder()?;
    Ok(Open { name: Name { first, name }, file, nonce, length, end: bytes.len() })
}
