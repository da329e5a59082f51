//! The byte layout of a snapshot file.
//!
//! ```text
//! file   = copy, copy
//! copy   = header, chunk*, zeros up to a multiple of 4 KiB
//! header = magic "BATSNAP2", nonce u64, number of chunks u32, bytes of the copy without the zeros u64, CRC-32C of all before u32
//! chunk  = nonce u64, its number from 0 u32, length u32, CRC-32C of the payload u32, CRC-32C of all before u32, payload
//! ```
//!
//! The copies are equal. If a header or a payload is damaged in one copy, it is read from the other. No block of 4 KiB
//! has a part in both copies, so one damaged block anywhere is healed.
//!
//! The nonce is random and different for each snapshot, so that old bytes on the disk, or bytes in a payload, never
//! look like a part of the snapshot.

use std::io;

use super::disk::{Disk, DiskFile};
use super::error::OpenError;
use super::format;
use super::version::{Unreadable, VERSION};

const MAGIC: &[u8; 7] = b"BATSNAP";
const HEADER_BYTES: usize = 32;
const CHUNK_HEADER_BYTES: usize = 24;
/// A disk may lose or damage a whole block of this size.
const BLOCK_BYTES: u64 = 4096;
const COPY_BYTES: u64 = 1 << 20;

/// Why a snapshot must not be read.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    Newer { version: u32 },
    Damaged { offset: u64, what: &'static str },
}

impl Fault {
    /// Adds the name of the file.
    pub fn of(self, disk: &dyn Disk, name: &str) -> OpenError {
        match self {
            Fault::Io(source) => OpenError::io("read", name)(source),
            Fault::Newer { version } => format::unreadable(disk, name, Unreadable::Newer { version }),
            Fault::Damaged { offset, what } => {
                OpenError::Damaged { file: name.to_owned(), offset, what: what.to_owned() }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Header {
    version: u32,
    nonce: u64,
    chunks: u32,
    bytes: u64,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let digit = b'0' + u8::try_from(self.version).expect("versions have one digit");
        sealed(&[MAGIC, &[digit], &self.nonce.to_le_bytes(), &self.chunks.to_le_bytes(), &self.bytes.to_le_bytes()])
    }

    fn decode(bytes: &[u8]) -> Option<Header> {
        let fields = unsealed(bytes, HEADER_BYTES)?;
        let version = match fields.strip_prefix(MAGIC)? {
            [digit @ b'2'..=b'9', ..] => u32::from(digit - b'0'),
            _ => return None,
        };
        Some(Header { version, nonce: u64_at(fields, 8), chunks: u32_at(fields, 16), bytes: u64_at(fields, 20) })
    }

    /// The offset of the second copy, which is half of the file's length.
    fn half(&self) -> Option<u64> {
        self.bytes.checked_next_multiple_of(BLOCK_BYTES)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ChunkHeader {
    length: u32,
    payload_crc: u32,
}

impl ChunkHeader {
    fn encode(&self, nonce: u64, number: u32) -> Vec<u8> {
        let (length, payload_crc) = (self.length.to_le_bytes(), self.payload_crc.to_le_bytes());
        sealed(&[&nonce.to_le_bytes(), &number.to_le_bytes(), &length, &payload_crc])
    }

    fn decode(bytes: &[u8], nonce: u64, number: u32) -> Option<ChunkHeader> {
        let fields = unsealed(bytes, CHUNK_HEADER_BYTES)?;
        let header = ChunkHeader { length: u32_at(fields, 12), payload_crc: u32_at(fields, 16) };
        (u64_at(fields, 0) == nonce && u32_at(fields, 8) == number).then_some(header)
    }
}

/// Writes a snapshot to an empty file, and returns the file's length. The caller must sync the file.
///
/// Only one chunk is in memory at a time.
pub(super) fn write(file: &dyn DiskFile, chunks: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<u64> {
    let mut writing = Writing::new();
    for chunk in chunks {
        writing.add(file, chunk?)?;
    }
    writing.end(file)
}

/// A snapshot that is written to an empty file, one chunk after the other.
pub(super) struct Writing {
    header: Header,
    crc: u32,
}

impl Writing {
    pub fn new() -> Writing {
        let nonce = baton_runtime::random(0);
        Writing { header: Header { version: VERSION, nonce, chunks: 0, bytes: HEADER_BYTES as u64 }, crc: 0 }
    }

    pub fn add(&mut self, file: &dyn DiskFile, chunk: Vec<u8>) -> io::Result<()> {
        let header = &mut self.header;
        let length = u32::try_from(chunk.len()).map_err(|_| io::Error::other("a chunk must be shorter than 4 GiB"))?;
        let before = ChunkHeader { length, payload_crc: crc32c::crc32c(&chunk) }.encode(header.nonce, header.chunks);
        let bytes = [before, chunk].concat();
        file.write_at(&bytes, header.bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes);
        header.chunks = header.chunks.checked_add(1).ok_or_else(|| io::Error::other("there are too many chunks"))?;
        header.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Returns the file's length. Without this call the file is no snapshot.
    pub fn end(self, file: &dyn DiskFile) -> io::Result<u64> {
        let header = self.header;
        let half = header.half().ok_or_else(|| io::Error::other("the snapshot is too long"))?;
        copy(file, HEADER_BYTES as u64..header.bytes, half, self.crc)?;
        let zeros = vec![0; (half - header.bytes) as usize];
        for start in [0, half] {
            file.write_at(&header.encode(), start)?;
            file.write_at(&zeros, start + header.bytes)?;
        }
        Ok(2 * half)
    }
}

/// Copies a range of the file to an offset that is `by` bytes higher. Fails if the bytes do not have this CRC-32C.
fn copy(file: &dyn DiskFile, range: std::ops::Range<u64>, by: u64, crc: u32) -> io::Result<()> {
    let mut copied = 0;
    let mut at = range.start;
    while at < range.end {
        let bytes = file.read_at(at, COPY_BYTES.min(range.end - at) as usize)?;
        if bytes.is_empty() {
            break;
        }
        file.write_at(&bytes, at + by)?;
        copied = crc32c::crc32c_append(copied, &bytes);
        at += bytes.len() as u64;
    }
    if copied == crc {
        Ok(())
    } else {
        Err(io::Error::other("reading the snapshot back gives other bytes than were written"))
    }
}

/// The version in the header of a snapshot.
pub(super) fn version(file: &dyn DiskFile) -> Result<u32, Fault> {
    Ok(read_header(file)?.0.version)
}

/// The header, the first byte that is damaged in one of its copies, and the offset of the second copy of the snapshot.
fn read_header(file: &dyn DiskFile) -> Result<(Header, Option<u64>, u64), Fault> {
    let half = file.length().map_err(Fault::Io)? / 2;
    match either(file, [0, half], HEADER_BYTES, Header::decode) {
        Some((header, _)) if header.version > VERSION => Err(Fault::Newer { version: header.version }),
        Some((header, damage)) => Ok((header, damage, half)),
        None => Err(Fault::Damaged { offset: 0, what: "both copies of the snapshot's header are damaged" }),
    }
}

/// The chunks of a snapshot of the current version, and the first byte that is damaged in one of the copies.
pub(super) fn read(file: &dyn DiskFile) -> Result<(Vec<Vec<u8>>, Option<u64>), Fault> {
    let mut reader = Reader::open(file)?;
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next(file)? {
        chunks.push(chunk);
    }
    Ok((chunks, reader.damage))
}

/// Reads a snapshot of the current version, one chunk after the other.
pub(super) struct Reader {
    header: Header,
    /// The first byte that is damaged in one of the copies, of what was read.
    damage: Option<u64>,
    /// The offset of the second copy.
    half: u64,
    /// Where the next chunk begins, in each copy.
    offset: u64,
    number: u32,
}

impl Reader {
    pub fn open(file: &dyn DiskFile) -> Result<Reader, Fault> {
        let (header, damage, half) = read_header(file)?;
        let length = file.length().map_err(Fault::Io)?;
        if header.half().and_then(|half| half.checked_mul(2)) != Some(length) {
            let what = "the snapshot does not have the length that its header says";
            return Err(Fault::Damaged { offset: length, what });
        }
        Ok(Reader { header, damage, half, offset: HEADER_BYTES as u64, number: 0 })
    }

    /// The first byte that is damaged in one of the copies, of what was read.
    pub fn damage(&self) -> Option<u64> {
        self.damage
    }

    /// The next chunk, or none after the last one. `file` must be the file of [`Reader::open`].
    pub fn next(&mut self, file: &dyn DiskFile) -> Result<Option<Vec<u8>>, Fault> {
        let damaged = |offset: u64, what: &'static str| Fault::Damaged { offset, what };
        let (half, nonce, number) = (self.half, self.header.nonce, self.number);
        if number == self.header.chunks {
            return match self.offset == self.header.bytes {
                true => Ok(None),
                false => Err(damaged(self.offset, "the chunks together do not have the length that the header says")),
            };
        }
        let header_at = self.offset;
        let decode = |bytes: &[u8]| ChunkHeader::decode(bytes, nonce, number);
        let (chunk, damage) = either(file, [header_at, half + header_at], CHUNK_HEADER_BYTES, decode)
            .ok_or(damaged(header_at, "both copies of the header of a chunk are damaged"))?;
        self.damage = self.damage.or(damage);
        let payload_at = header_at + CHUNK_HEADER_BYTES as u64;
        let length = chunk.length as usize;
        let check = |payload: &[u8]| {
            (payload.len() == length && crc32c::crc32c(payload) == chunk.payload_crc).then(|| payload.to_vec())
        };
        let (payload, damage) = either(file, [payload_at, half + payload_at], length, check)
            .ok_or(damaged(payload_at, "both copies of a chunk are damaged"))?;
        self.damage = self.damage.or(damage);
        self.offset = payload_at + payload.len() as u64;
        self.number += 1;
        Ok(Some(payload))
    }
}

/// Decodes the first copy if it is undamaged, else the second. Returns also the first byte of the file that is damaged in
/// the other one.
fn either<T>(
    file: &dyn DiskFile,
    starts: [u64; 2],
    length: usize,
    decode: impl Fn(&[u8]) -> Option<T>,
) -> Option<(T, Option<u64>)> {
    let copies = starts.map(|start| bytes_at(file, start, length));
    let (decoded, damaged) = match decode(&copies[0]) {
        Some(decoded) => (decoded, 1),
        None => (decode(&copies[1])?, 0),
    };
    if copies[0] == copies[1] {
        return Some((decoded, None));
    }
    let equal = copies[0].iter().zip(&copies[1]).take_while(|(one, other)| one == other).count();
    Some((decoded, Some(starts[damaged] + equal as u64)))
}

/// Returns fewer bytes if the file ends before, and none if the disk cannot read them. The caller then uses the other
/// copy.
fn bytes_at(file: &dyn DiskFile, offset: u64, length: usize) -> Vec<u8> {
    file.read_at(offset, length).unwrap_or_default()
}

/// The concatenated parts, and their CRC-32C.
fn sealed(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The fields before the CRC-32C, if `length` bytes are there and the CRC-32C matches.
fn unsealed(bytes: &[u8], length: usize) -> Option<&[u8]> {
    let (fields, crc) = bytes.get(..length)?.split_at(length - 4);
    (crc32c::crc32c(fields).to_le_bytes() == crc).then_some(fields)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
