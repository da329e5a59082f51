//! One connection between two nodes, from the first byte until both sides have agreed to talk.

use std::io;
use std::time::Duration;

use baton_runtime::timeout;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use super::transport::{Stream, Transport};
use super::wire::{self, FRAME_BYTES_MAX, Greeting, Hello, LinkError, PREAMBLE_BYTES};

/// Time limit for connecting, and then for the two Hellos.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// The time that a dialling node has to introduce itself.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// A write that takes longer means that the other side no longer reads.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// An open connection. Both sides have accepted each other.
pub struct Link {
    pub reader: Reader,
    pub writer: Writer,
    /// What the other side said of itself.
    pub theirs: Hello,
}

pub struct Reader(FramedRead<Box<dyn AsyncRead + Send + Unpin>, LengthDelimitedCodec>);
pub struct Writer(FramedWrite<Box<dyn AsyncWrite + Send + Unpin>, LengthDelimitedCodec>);

impl Reader {
    pub async fn next(&mut self) -> Result<BytesMut, LinkError> {
        self.0.next().await.ok_or(LinkError::Closed)?.map_err(LinkError::from)
    }
}

impl Writer {
    /// Puts a frame into the buffer, and writes if the buffer is large.
    pub async fn feed(&mut self, frame: Bytes) -> Result<(), LinkError> {
        limited(WRITE_MAX, async { Ok(self.0.feed(frame).await?) }).await
    }

    pub async fn flush(&mut self) -> Result<(), LinkError> {
        limited(WRITE_MAX, async { Ok(SinkExt::<Bytes>::flush(&mut self.0).await?) }).await
    }

    pub async fn send(&mut self, frame: Bytes) -> Result<(), LinkError> {
        self.feed(frame).await?;
        self.flush().await
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => LinkError::Closed,
            // Of the codec: the length of a frame is too large.
            io::ErrorKind::InvalidData => LinkError::Malformed { bytes: 4, expected: "the length of a frame" },
            _ => LinkError::Broken(error.to_string()),
        }
    }
}

async fn limited<T>(limit: Duration, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    timeout(limit, work).await.unwrap_or(Err(LinkError::Silent(limit)))
}

/// Connects to a node, and introduces this one. Fails with a sentence if either side does not want to talk.
pub async fn dial(transport: &dyn Transport, address: &str, ours: &Hello) -> Result<Link, LinkError> {
    let unreachable = |why: String| LinkError::Unreachable { address: address.to_owned(), why };
    if address.is_empty() {
        return Err(unreachable("the record of the node has no address for other nodes".to_owned()));
    }
    let connected = timeout(CONNECT_MAX, transport.dial(address)).await;
    let stream = connected.map_err(|_| unreachable(format!("no answer within {} ms", CONNECT_MAX.as_millis())))?;
    let stream = stream.map_err(|error| unreachable(error.to_string()))?;
    let link = limited(CONNECT_MAX, greet(stream, ours)).await?;
    match ours.to == 0 || link.theirs.node == ours.to {
        true => Ok(link),
        false => Err(LinkError::Other { address: address.to_owned(), expected: ours.to, found: link.theirs.node }),
    }
}

async fn greet(stream: Stream, ours: &Hello) -> Result<Link, LinkError> {
    let (mut reader, mut writer) = halves(stream);
    writer.0.get_mut().write_all(&wire::preamble(wire::VERSION)).await?;
    writer.send(wire::encode(ours)).await?;
    check_preamble(&mut reader).await?;
    let greeting: Greeting = wire::decode_start(&reader.next().await?, "an answer to a Hello")?;
    let theirs = greeting.map_err(LinkError::RefusedByPeer)?;
    Ok(opened(reader, writer, theirs))
}

/// Takes a connection of a node that dials. `judge` decides whether this node talks to it.
pub async fn accept<Judged: Future<Output = Greeting>>(
    stream: Stream,
    judge: impl FnOnce(Hello) -> Judged,
) -> Result<Link, LinkError> {
    let (mut reader, mut writer) = halves(stream);
    let hello = limited(HELLO_MAX, async {
        // The own preamble goes out even if theirs is wrong: a node of another version then knows why it is refused.
        let version = check_preamble(&mut reader).await;
        if !matches!(version, Err(LinkError::NotBaton(_))) {
            let ours = *version.as_ref().unwrap_or(&wire::VERSION);
            writer.0.get_mut().write_all(&wire::preamble(ours)).await?;
        }
        version?;
        wire::decode_start::<Hello>(&reader.next().await?, "a Hello")
    });
    let theirs = hello.await?;
    let greeting = judge(theirs.clone()).await;
    writer.send(wire::encode(&greeting)).await?;
    greeting.map_err(LinkError::Refused)?;
    Ok(opened(reader, writer, theirs))
}

fn halves(Stream { reader, writer }: Stream) -> (Reader, Writer) {
    (Reader(FramedRead::new(reader, wire::hello_codec())), Writer(FramedWrite::new(writer, wire::codec())))
}

/// The version that both sides speak.
async fn check_preamble(reader: &mut Reader) -> Result<u16, LinkError> {
    let mut bytes = [0; PREAMBLE_BYTES];
    // Nothing was read through the codec yet, so its buffer is empty.
    reader.0.get_mut().read_exact(&mut bytes).await?;
    wire::check_preamble(bytes)
}

fn opened(mut reader: Reader, writer: Writer, theirs: Hello) -> Link {
    reader.0.decoder_mut().set_max_frame_length(FRAME_BYTES_MAX);
    Link { reader, writer, theirs }
}
