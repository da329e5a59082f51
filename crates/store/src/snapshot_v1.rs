//! The byte layout of a snapshot file of version 1: one copy of one payload. Such a file is read, never written.
//!
//! ```text
//! file = magic "BATSNAP1", length of the payload u64, CRC-32C of the payload u32, CRC-32C of all before u32, payload
//! ```

use super::disk::DiskFile;
use super::snapshot::Fault;

const MAGIC: &[u8; 8] = b"BATSNAP1";
const HEADER_BYTES: usize = 24;

/// Whether the file has a valid header of version 1.
pub(super) fn recognises(file: &dyn DiskFile) -> bool {
    file.read_at(0, HEADER_BYTES).is_ok_and(|bytes| header(&bytes).is_some())
}

pub(super) fn read(file: &dyn DiskFile) -> Result<Vec<u8>, Fault> {
    let length = file.length().map_err(Fault::Io)?;
    let mut bytes = file.read_at(0, usize::try_from(length).unwrap_or(usize::MAX)).map_err(Fault::Io)?;
    let damaged = |offset: usize, what: &'static str| Fault::Damaged { offset: offset as u64, what };
    let (payload_length, payload_crc) =
        header(&bytes).ok_or(damaged(0, "the header of the snapshot does not match its checksum"))?;
    if payload_length != (bytes.len() - HEADER_BYTES) as u64 {
        return Err(damaged(bytes.len(), "the snapshot does not have the length that its header says"));
    }
    bytes.drain(..HEADER_BYTES);
    match crc32c::crc32c(&bytes) == payload_crc {
        true => Ok(bytes),
        false => Err(damaged(HEADER_BYTES, "the snapshot does not match its checksum")),
    }
}

/// The length and the CRC-32C of the payload.
fn header(bytes: &[u8]) -> Option<(u64, u32)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let length = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    (header.starts_with(MAGIC) && crc32c::crc32c(&header[..20]) == u32_at(20)).then_some((length, u32_at(16)))
}

/// For tests.
#[cfg(test)]
pub(super) fn encode(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut bytes = [&MAGIC[..], &length, &crc32c::crc32c(payload).to_le_bytes()].concat();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend(payload);
    bytes
}
