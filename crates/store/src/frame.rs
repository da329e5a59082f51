//! The byte layout of a segment. Pure functions.
//!
//! ```text
//! segment = header, header, frame*, [seal], zeros up to the length that the header names
//! frame   = header, header, payload, payload
//! header  = magic u32, length u32, sequence u64, nonce u64, CRC-32C of the payload u32, CRC-32C of all before u32
//! ```
//!
//! The magic of a segment's header ends with the digit of the version that wrote the segment; the payloads have that
//! version, too.
//!
//! Everything is written twice, so that one damaged byte anywhere is healed from the copy. If both copies of a frame
//! are bad and nothing valid follows, then a power cut interrupted its write: **at most one frame is unsynced at a
//! time**. If something valid follows, acknowledged bytes are damaged, and the segment is refused.
//!
//! The nonce is random and different for each segment, so that bytes from a client in a payload never look like a
//! frame.

use std::ops::Range;

use super::version::{OLDEST_READ, VERSION};

/// Size of a header. Every frame and every segment begins with two copies of a header.
pub(super) const HEADER_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A segment of this version. `length` is that of the file, `sequence` that of its first frame.
    Segment { version: u32 },
    /// A frame with a payload of `length` bytes.
    Frame,
    /// The end of a segment that continues in the next one.
    Seal,
}

impl Kind {
    fn magic(self) -> [u8; 4] {
        match self {
            Kind::Segment { version } => {
                [b'B', b'A', b'T', b'0' + u8::try_from(version).expect("versions have one digit")]
            }
            Kind::Frame => *b"BATf",
            Kind::Seal => *b"BATs",
        }
    }

    fn of(magic: &[u8]) -> Option<Kind> {
        match magic {
            b"BATf" => Some(Kind::Frame),
            b"BATs" => Some(Kind::Seal),
            [b'B', b'A', b'T', digit @ b'1'..=b'9'] => Some(Kind::Segment { version: u32::from(digit - b'0') }),
            _ => None,
        }
    }
}

/// The fields of a header, without its own checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub length: u32,
    pub sequence: u64,
    pub nonce: u64,
    pub payload_crc: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.kind.magic());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        // The cheap test comes first, because a scan tries every offset.
        let kind = Kind::of(&bytes[0..4])?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let header =
            Header { kind, length: u32_at(4), sequence: u64_at(8), nonce: u64_at(16), payload_crc: u32_at(24) };
        (crc32c::crc32c(&bytes[..28]) == u32_at(28)).then_some(header)
    }

    /// Decodes the first of the two copies that is undamaged.
    fn decode_twice(bytes: &[u8], at: usize) -> Option<Header> {
        let copy = |at: usize| bytes.get(at..).and_then(Header::decode);
        copy(at).or_else(|| copy(at + HEADER_BYTES))
    }
}

/// Size of a frame with a payload of this many bytes.
pub(super) fn frame_bytes(payload: usize) -> usize {
    2 * HEADER_BYTES + 2 * payload
}

/// The two headers at the start of a segment.
pub(super) fn encode_segment(version: u32, length: u32, first_sequence: u64, nonce: u64) -> Vec<u8> {
    let kind = Kind::Segment { version };
    let header = Header { kind, length, sequence: first_sequence, nonce, payload_crc: 0 }.encode();
    [header, header].concat()
}

/// A frame, or a seal, whose payload is empty.
pub(super) fn encode_frame(kind: Kind, sequence: u64, nonce: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("the journal bounds its payloads far below 4 GiB");
    let header = Header { kind, length, sequence, nonce, payload_crc: crc32c::crc32c(payload) }.encode();
    let mut bytes = Vec::with_capacity(frame_bytes(payload.len()));
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(payload);
    bytes
}

/// The content of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub version: u32,
    pub header: Header,
    /// The ranges of the payloads in `sound`, in order. The first has the sequence number of the header.
    places: Vec<Range<usize>>,
    /// True if the segment continues in the next one.
    pub sealed: bool,
    /// The correct bytes of the segment, up to the end of its last frame. Written back where the file differs.
    pub sound: Vec<u8>,
}

impl Segment {
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.sound[place.clone()])
    }

    /// The first byte of the file that is damaged, and the number of its frame; number 0 for the header of the segment.
    pub fn first_damage(&self, file: &[u8]) -> Option<(usize, u64)> {
        // Equal slices are the usual case, and compared many bytes at a time.
        let both = self.sound.len().min(file.len());
        if self.sound[..both] == file[..both] {
            return None;
        }
        let at = self.sound.iter().zip(file).position(|(right, found)| right != found)?;
        if at < 2 * HEADER_BYTES {
            return Some((at, 0));
        }
        let begun = self.places.iter().filter(|place| place.start - 2 * HEADER_BYTES <= at).count();
        let is_in_seal = self.sealed && at >= self.sound.len() - 2 * HEADER_BYTES;
        Some((at, self.header.sequence + begun as u64 + u64::from(is_in_seal) - 1))
    }

    /// The number of its seal, if it has one.
    pub fn seal(&self) -> Option<u64> {
        self.sealed.then_some(self.header.sequence + self.places.len() as u64)
    }
}

/// Why a segment must not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("version {version} wrote the segment")]
    Newer { version: u32 },
    #[error("both copies of the segment's header are damaged")]
    Header,
    #[error("the file has {has} bytes and should have {should}: it was cut short, or something was added")]
    Length { has: usize, should: usize },
    #[error("frame {sequence} is damaged in both copies, and frame {valid} comes after it, at byte {valid_at}")]
    Frame { at: usize, sequence: u64, valid: u64, valid_at: usize },
}

impl Fault {
    /// The position of the fault in the file.
    pub fn offset(&self) -> usize {
        match self {
            Fault::Newer { .. } | Fault::Header => 0,
            Fault::Length { has, .. } => *has,
            Fault::Frame { at, .. } => *at,
        }
    }
}

/// Decodes the header from the first bytes of a segment. Returns the header and its version.
pub(super) fn decode_header(bytes: &[u8]) -> Result<(Header, u32), Fault> {
    match Header::decode_twice(bytes, 0) {
        Some(Header { kind: Kind::Segment { version }, .. }) if version > VERSION => Err(Fault::Newer { version }),
        Some(header @ Header { kind: Kind::Segment { version }, .. }) if version >= OLDEST_READ => {
            Ok((header, version))
        }
        _ => Err(Fault::Header),
    }
}

pub(super) fn decode_segment(bytes: &[u8]) -> Result<Segment, Fault> {
    let (header, version) = decode_header(bytes)?;
    if bytes.len() != header.length as usize {
        return Err(Fault::Length { has: bytes.len(), should: header.length as usize });
    }
    let sound = encode_segment(version, header.length, header.sequence, header.nonce);
    let mut segment = Segment { version, header, places: Vec::new(), sealed: false, sound };
    let mut sequence = header.sequence;
    while !segment.sealed {
        let at = segment.sound.len();
        let Some((kind, payload)) = frame_at(bytes, at, sequence, header.nonce) else {
            return match later_frame(bytes, at, sequence, header.nonce) {
                Some((valid_at, valid)) => Err(Fault::Frame { at, sequence, valid, valid_at }),
                None => Ok(segment),
            };
        };
        segment.sound.extend_from_slice(&encode_frame(kind, sequence, header.nonce, payload));
        match kind {
            Kind::Seal => segment.sealed = true,
            _ => segment.places.push(at + 2 * HEADER_BYTES..at + 2 * HEADER_BYTES + payload.len()),
        }
        sequence += 1;
    }
    Ok(segment)
}

/// The frame at this offset, if one copy of each of its parts is undamaged.
fn frame_at(bytes: &[u8], at: usize, sequence: u64, nonce: u64) -> Option<(Kind, &[u8])> {
    let header = Header::decode_twice(bytes, at)?;
    if matches!(header.kind, Kind::Segment { .. }) || header.sequence != sequence || header.nonce != nonce {
        return None;
    }
    let length = header.length as usize;
    let copy = |start: usize| {
        let payload = bytes.get(start..start.checked_add(length)?)?;
        (crc32c::crc32c(payload) == header.payload_crc).then_some(payload)
    };
    let first = at + 2 * HEADER_BYTES;
    let payload = copy(first).or_else(|| copy(first + length))?;
    // We never write a frame whose second copy does not fit into the file.
    (first + 2 * length <= bytes.len()).then_some((header.kind, payload))
}

/// Searches after `at` for a header of this segment with a number above `sequence`. Returns its offset and number.
fn later_frame(bytes: &[u8], at: usize, sequence: u64, nonce: u64) -> Option<(usize, u64)> {
    // Skips empty pages, because most of a segment is never written, and a header begins with a byte that is not zero.
    const EMPTY: [u8; 4096] = [0; 4096];
    let page = |start: usize| start..bytes.len().min(start + EMPTY.len());
    let pages = (at..bytes.len()).step_by(EMPTY.len()).map(page);
    let written = pages.filter(|page| bytes[page.clone()] != EMPTY[..page.len()]);
    written.flatten().find_map(|at| {
        let header = bytes.get(at..).and_then(Header::decode)?;
        (header.nonce == nonce && header.sequence > sequence).then_some((at, header.sequence))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(payloads: &[&[u8]], sealed: bool) -> Vec<u8> {
        let mut bytes = encode_segment(VERSION, 1024, 7, 99);
        for (i, payload) in payloads.iter().enumerate() {
            bytes.extend(encode_frame(Kind::Frame, 7 + i as u64, 99, payload));
        }
        if sealed {
            bytes.extend(encode_frame(Kind::Seal, 7 + payloads.len() as u64, 99, &[]));
        }
        bytes.resize(1024, 0);
        bytes
    }

    #[test]
    fn any_one_damaged_byte_is_healed() {
        for sealed in [false, true] {
            let good = segment(&[b"one", b"", b"three"], sealed);
            let expected = decode_segment(&good).unwrap();
            assert!(expected.payloads().eq([&b"one"[..], b"", b"three"]));
            assert_eq!(expected.sealed, sealed);
            assert_eq!(expected.sound, good[..expected.sound.len()]);
            for at in 0..good.len() {
                for pattern in [0x01, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at] ^= pattern;
                    assert_eq!(decode_segment(&bad).as_ref(), Ok(&expected), "byte {at} xor {pattern:#x}");
                }
            }
        }
    }

    #[test]
    fn a_segment_says_which_version_wrote_it_and_a_newer_one_is_not_called_damaged() {
        for version in 2..=9 {
            let mut bytes = segment(&[b"one"], false);
            bytes[..2 * HEADER_BYTES].copy_from_slice(&encode_segment(version, 1024, 7, 99));
            // Either copy of the header is enough.
            for damaged in [0, 3, HEADER_BYTES + 3] {
                let mut bytes = bytes.clone();
                bytes[damaged] ^= 0x01;
                match version <= VERSION {
                    true => assert_eq!(decode_segment(&bytes).map(|segment| segment.version), Ok(version)),
                    false => assert_eq!(decode_segment(&bytes), Err(Fault::Newer { version })),
                }
            }
        }
    }

    #[test]
    fn every_length_but_its_own_is_refused() {
        let good = segment(&[b"one"], false);
        for length in 0..good.len() {
            assert!(decode_segment(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(decode_segment(&[&good[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_frame_that_is_damaged_twice_ends_the_log_only_where_nothing_follows() {
        let good = segment(&[b"one", b"two"], false);
        let second = 2 * HEADER_BYTES + frame_bytes(3);
        let mut torn = good.clone();
        torn[second + 2 * HEADER_BYTES..second + frame_bytes(3)].fill(0);
        assert!(decode_segment(&torn).unwrap().payloads().eq([b"one"]));

        let mut damaged = good;
        damaged[2 * HEADER_BYTES..second].fill(0);
        let fault = Fault::Frame { at: 2 * HEADER_BYTES, sequence: 7, valid: 8, valid_at: second };
        assert_eq!(decode_segment(&damaged), Err(fault));
    }

    #[test]
    fn a_payload_that_looks_like_a_frame_of_another_segment_is_no_frame() {
        let disguise = encode_frame(Kind::Frame, 1000, 98, b"");
        let mut bytes = segment(&[&disguise], false);
        // A power cut may lose the frame's own header, while the bytes from the client survive.
        bytes[2 * HEADER_BYTES..4 * HEADER_BYTES].fill(0);
        assert_eq!(decode_segment(&bytes).unwrap().payloads().len(), 0);
    }
}
