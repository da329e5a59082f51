//! The frames on a connection: a length, then a value in postcard format. Encoding and decoding are pure; [`read`] and
//! [`write`] do the I/O.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::handshake::{Hello, Refusal};

/// Largest length of a frame, without its length field. The largest message, a token with an entry for every member,
/// needs less than a tenth of it.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// A number in postcard takes at most ten bytes.
const _: () = assert!(crate::group::MEMBERS_MAX * 10 * 10 < FRAME_BYTES_MAX);

/// The length field at the start of a frame.
const LENGTH_BYTES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// The first frame in each direction.
    Hello(Hello),
    /// The second frame in each direction: whether the sender accepts the other side's Hello.
    Verdict(Result<(), Refusal>),
    Message(Envelope),
    /// The sender's user will make no more requests. This is not a message of the protocol and is not counted.
    Done,
}

/// A message of the protocol with its id and time. It does not name its sender, because the handshake did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Unique in the run: the sender's id and a counter, see [`unique_id`].
    pub id: u64,
    /// The sender's Lamport time.
    pub lamport: u64,
    pub payload: Vec<u8>,
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

/// The id of the `counter`th message or request of `process`, unique over all processes of a run.
pub fn unique_id(process: usize, counter: u64) -> u64 {
    (process as u64) << COUNTER_BITS | counter
}

/// The process that made this id.
pub fn maker_of(id: u64) -> usize {
    (id >> COUNTER_BITS) as usize
}

/// A process may count to 2^40. At a million messages per second that takes 12 days.
const COUNTER_BITS: u32 = 40;

/// The bytes of the frame, with its length field.
pub fn encode(frame: &Frame) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    bytes.extend(encode_payload(frame));
    let length = bytes.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Oversize { bytes: length });
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// How many bytes follow this length field.
pub fn decode_length(bytes: [u8; LENGTH_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length <= FRAME_BYTES_MAX { Ok(length) } else { Err(FrameError::Oversize { bytes: length }) }
}

/// Decodes a frame without its length field.
pub fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    decode_exactly(bytes, "a frame")
}

/// Encodes a value in postcard. Postcard can encode every type that Baton sends.
pub fn encode_payload(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("messages are plain data, which postcard can always write to memory")
}

/// Decodes a value. It must take all the bytes.
pub fn decode_exactly<T: DeserializeOwned>(bytes: &[u8], expected: &'static str) -> Result<T, FrameError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(FrameError::Malformed { bytes: bytes.len(), expected }),
    }
}

/// Reads one frame. Do not cancel this future: half a frame would be lost.
pub async fn read(source: &mut (impl AsyncRead + Unpin)) -> Result<Frame, TransferError> {
    let mut length = [0; LENGTH_BYTES];
    source.read_exact(&mut length).await?;
    let mut bytes = vec![0; decode_length(length)?];
    source.read_exact(&mut bytes).await?;
    Ok(decode(&bytes)?)
}

pub async fn write(sink: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> Result<(), TransferError> {
    sink.write_all(&encode(frame)?).await?;
    Ok(sink.flush().await?)
}

/// Why reading or writing a frame failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let envelope = Envelope { id: unique_id(3, 7), lamport: 12, payload: vec![1, 2, 3] };
        for frame in [Frame::Done, Frame::Message(envelope), Frame::Verdict(Err(Refusal::Silent))] {
            let bytes = encode(&frame).unwrap();
            let length = decode_length([bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
            assert_eq!(length, bytes.len() - LENGTH_BYTES);
            assert_eq!(decode(&bytes[LENGTH_BYTES..]), Ok(frame));
        }
    }

    #[test]
    fn too_long_is_refused_on_either_side() {
        let payload = vec![0; FRAME_BYTES_MAX];
        let frame = Frame::Message(Envelope { id: 0, lamport: 0, payload });
        assert_eq!(encode(&frame), Err(FrameError::Oversize { bytes: FRAME_BYTES_MAX + 6 }));
        let length = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes();
        assert_eq!(decode_length(length), Err(FrameError::Oversize { bytes: FRAME_BYTES_MAX + 1 }));
        assert_eq!(decode_length((FRAME_BYTES_MAX as u32).to_le_bytes()), Ok(FRAME_BYTES_MAX));
    }

    #[test]
    fn nonsense_and_a_rest_are_refused() {
        let malformed = |bytes| Err(FrameError::Malformed { bytes, expected: "a frame" });
        assert_eq!(decode(&[]), malformed(0));
        assert_eq!(decode(&[200, 1]), malformed(2));
        let done = encode(&Frame::Done).unwrap();
        let with_rest = [&done[LENGTH_BYTES..], &[0]].concat();
        assert_eq!(decode(&with_rest), malformed(2));
    }

    #[test]
    fn ids_tell_their_maker() {
        assert_eq!(maker_of(unique_id(5, 1 << 39)), 5);
        assert_ne!(unique_id(1, 0), unique_id(0, 1));
    }
}
