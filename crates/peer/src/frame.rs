//! The frames on a connection: a length, then a value in postcard format. Everything here is pure, except [`read`] and
//! [`write`], which the handshake uses.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LengthDelimitedCodec};

use crate::beginning::Statement;
use crate::handshake::{Hello, Refusal};

/// Largest length of a frame, without its length field. The largest message, a token with an entry for every member,
/// needs less than a tenth of it.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// A number in postcard takes at most ten bytes.
const _: () = assert!(crate::group::MEMBERS_MAX * 10 * 10 < FRAME_BYTES_MAX);

/// The length field at the start of a frame.
const LENGTH_BYTES: usize = 4;

/// The two frames of a handshake, in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Greeting {
    Hello(Hello),
    /// Whether the sender accepts the other side's Hello.
    Verdict(Result<(), Refusal>),
}

/// A frame after the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// The first frame on each connection. The sender has received the items up to this number, on this connection or
    /// on earlier ones.
    Resume { received: u64 },
    /// Items are numbered from 1, in the order of sending.
    Item {
        number: u64,
        #[serde(borrow)]
        item: Item<'a>,
    },
    /// The sender is alive, and has received the items up to this number.
    Beat { received: u64 },
    /// The sender leaves the group.
    Leave,
    /// The sender's newest statement about the beginning of the group. It comes before all items of a connection.
    Statement(Statement),
    /// Asks whether a caller of the receiver is inside of this resource.
    IsInside {
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// The answer.
    Inside {
        #[serde(borrow)]
        name: &'a [u8],
        inside: bool,
    },
}

/// A part of the conversation of two members, which survives broken connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item<'a> {
    /// The sender has made its processes of this resource. The first resource of the sender has number 0, the next one
    /// number 1, and so on.
    Open {
        #[serde(borrow)]
        name: &'a [u8],
    },
    #[serde(borrow)]
    Message(Envelope<'a>),
}

/// A message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope<'a> {
    /// The number of the resource at the sending member.
    pub resource: u32,
    pub from: usize,
    pub to: usize,
    /// Unique in the run: the sending member and a counter, see [`unique_id`].
    pub id: u64,
    /// The sender's Lamport time.
    pub lamport: u64,
    /// The highest count of grants of this resource that the sender knows: see [`Fences`](crate::fences::Fences).
    pub count: u64,
    #[serde(borrow)]
    pub payload: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {bytes} bytes is too long; at most {FRAME_BYTES_MAX} are allowed")]
    Oversize {
        /// The length that the frame has, or claims to have.
        bytes: usize,
    },
    #[error("{bytes} bytes are not {expected}")]
    Malformed { bytes: usize, expected: &'static str },
}

/// The id of the `counter`th message or request of `member`, unique over all members of a run.
pub fn unique_id(member: usize, counter: u64) -> u64 {
    (member as u64) << COUNTER_BITS | counter
}

/// The member that made this id.
pub fn maker_of(id: u64) -> usize {
    (id >> COUNTER_BITS) as usize
}

/// A member may count to 2^45. At a million messages per second that takes a year. With the id of a member, which has 8
/// bits, the number is exact in JSON.
const COUNTER_BITS: u32 = 45;

const _: () = assert!(crate::group::MEMBERS_MAX <= 1 << (53 - COUNTER_BITS));

/// Appends the frame, with its length field, to `bytes`.
pub fn encode_to(bytes: &mut Vec<u8>, frame: &impl Serialize) -> Result<(), FrameError> {
    let start = bytes.len();
    bytes.extend([0; LENGTH_BYTES]);
    *bytes = postcard::to_extend(frame, std::mem::take(bytes)).expect(PLAIN);
    let length = bytes.len() - start - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        bytes.truncate(start);
        return Err(FrameError::Oversize { bytes: length });
    }
    bytes[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

const PLAIN: &str = "frames and messages are plain data, which postcard can always write to memory";

/// Encodes a value in postcard.
pub fn encode_payload(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect(PLAIN)
}

/// Decodes a value. It must take all the bytes.
pub fn decode_exactly<'a, T: Deserialize<'a>>(bytes: &'a [u8], expected: &'static str) -> Result<T, FrameError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(FrameError::Malformed { bytes: bytes.len(), expected }),
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Cutter(LengthDelimitedCodec);

impl Cutter {
    pub fn new() -> Self {
        let mut builder = LengthDelimitedCodec::builder();
        Cutter(builder.little_endian().length_field_length(LENGTH_BYTES).max_frame_length(FRAME_BYTES_MAX).new_codec())
    }

    /// Takes the next frame from the front of `bytes`, without its length field. None: more bytes must come first.
    pub fn cut(&mut self, bytes: &mut BytesMut) -> Result<Option<BytesMut>, FrameError> {
        let claimed = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        self.0.decode(bytes).map_err(|_| FrameError::Oversize { bytes: claimed })
    }
}

#[derive(Debug)]
pub enum TransferError {
    Io(std::io::Error),
    Frame(FrameError),
}

impl From<std::io::Error> for TransferError {
    fn from(error: std::io::Error) -> Self {
        TransferError::Io(error)
    }
}

impl From<FrameError> for TransferError {
    fn from(error: FrameError) -> Self {
        TransferError::Frame(error)
    }
}

pub async fn write(sink: &mut (impl AsyncWrite + Unpin), frame: &impl Serialize) -> Result<(), TransferError> {
    let mut bytes = Vec::new();
    encode_to(&mut bytes, frame)?;
    Ok(sink.write_all(&bytes).await?)
}

/// Reads one frame, and not a byte more.
pub async fn read<T: DeserializeOwned>(
    source: &mut (impl AsyncRead + Unpin),
    expected: &'static str,
) -> Result<T, TransferError> {
    let mut length = [0; LENGTH_BYTES];
    source.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Oversize { bytes: length }.into());
    }
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes).await?;
    Ok(decode_exactly(&bytes, expected)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8]) -> Frame<'_> {
        let envelope = Envelope { resource: 3, from: 1, to: 0, id: unique_id(1, 9), lamport: 4, count: 0, payload };
        Frame::Item { number: 7, item: Item::Message(envelope) }
    }

    fn encoded(frame: &Frame<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_to(&mut bytes, frame).unwrap();
        bytes
    }

    #[test]
    fn frames_come_back_however_the_bytes_are_cut() {
        let frames = [message(&[1, 2, 3]), Frame::Beat { received: 300 }, message(&[]), Frame::Leave];
        let bytes: Vec<u8> = frames.iter().flat_map(encoded).collect();
        for cut in 0..=bytes.len() {
            let (mut cutter, mut buffer, mut found) = (Cutter::new(), BytesMut::new(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(frame) = cutter.cut(&mut buffer).unwrap() {
                    found.push(frame);
                }
            }
            let found: Vec<Frame<'_>> = found.iter().map(|bytes| decode_exactly(bytes, "a frame").unwrap()).collect();
            assert_eq!(found, frames, "cut after {cut} bytes");
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_neither_sent_nor_read() {
        let mut bytes = vec![1, 2];
        let payload = vec![0; FRAME_BYTES_MAX];
        let error = encode_to(&mut bytes, &message(&payload)).unwrap_err();
        assert!(matches!(error, FrameError::Oversize { bytes } if bytes > FRAME_BYTES_MAX), "{error}");
        assert_eq!(bytes, [1, 2], "nothing is left of the frame");
        let mut claims = BytesMut::from(&u32::MAX.to_le_bytes()[..]);
        assert_eq!(Cutter::new().cut(&mut claims), Err(FrameError::Oversize { bytes: u32::MAX as usize }));
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        let malformed = |bytes| Err(FrameError::Malformed { bytes, expected: "a frame" });
        assert_eq!(decode_exactly::<Frame<'_>>(&[], "a frame"), malformed(0));
        assert_eq!(decode_exactly::<Frame<'_>>(&[200, 1], "a frame"), malformed(2));
        let leave = encoded(&Frame::Leave);
        let with_rest = [&leave[LENGTH_BYTES..], &[0]].concat();
        assert_eq!(decode_exactly::<Frame<'_>>(&with_rest, "a frame"), malformed(2));
    }

    #[test]
    fn ids_tell_their_maker() {
        assert_eq!(maker_of(unique_id(5, 1 << 39)), 5);
        assert_ne!(unique_id(1, 0), unique_id(0, 1));
    }
}
