//! A gRPC client that sends and receives plain bytes, also ones that no message of ours has.

use baton_api::v1;
use baton_api::v1::server_frame::Frame;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// Longer than any wait in these tests.
pub const LONG: std::time::Duration = std::time::Duration::from_secs(60);

pub const SESSION: &str = "/baton.v1.Locks/Session";
pub const LIST: &str = "/baton.v1.Locks/ListLocks";
pub const FORCE: &str = "/baton.v1.Locks/ForceRelease";

#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Bytes
    }

    fn decoder(&mut self) -> Self {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// A stream of a client.
pub struct TestStream {
    /// Dropping it ends the client's side.
    pub frames: Option<mpsc::Sender<Vec<u8>>>,
    heard: Streaming<Vec<u8>>,
}

/// Begins a stream.
pub async fn stream(channel: &Channel) -> Result<TestStream, Status> {
    stream_with(channel, |_| {}).await
}

pub async fn stream_with(channel: &Channel, with: impl FnOnce(&mut Request<()>)) -> Result<TestStream, Status> {
    let (frames, said) = mpsc::channel(16);
    let mut request = Request::new(());
    with(&mut request);
    let (metadata, extensions, ()) = request.into_parts();
    let request = Request::from_parts(metadata, extensions, ReceiverStream::new(said));
    let heard = begin(channel, request).await?;
    Ok(TestStream { frames: Some(frames), heard })
}

/// Begins a stream with these frames of the client.
pub async fn begin(
    channel: &Channel,
    request: Request<impl Stream<Item = Vec<u8>> + Send + 'static>,
) -> Result<Streaming<Vec<u8>>, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let begun = client.streaming(request, PathAndQuery::from_static(SESSION), Bytes);
    Ok(tokio::time::timeout(LONG, begun).await.expect("an answer")?.into_inner())
}

impl TestStream {
    pub async fn say(&self, frame: &[u8]) {
        self.frames.as_ref().unwrap().send(frame.to_vec()).await.unwrap();
    }

    /// The next frame. None: the stream ended without an error.
    pub async fn hear(&mut self) -> Result<Option<Vec<u8>>, Status> {
        tokio::time::timeout(LONG, self.heard.message()).await.expect("something is said")
    }

    /// Returns the name of the leader in the first frame.
    pub async fn hear_leader(&mut self) -> String {
        let frame = self.hear().await.unwrap().expect("a frame");
        match v1::ServerFrame::decode(&frame[..]).unwrap().frame {
            Some(Frame::Leader(leader)) => leader.name,
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the stream ends with an error.
    pub async fn end(&mut self) -> Status {
        loop {
            match self.hear().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without an error"),
                Err(status) => return status,
            }
        }
    }
}

/// A call with one answer.
pub async fn call(channel: &Channel, path: &'static str, message: &[u8]) -> Result<Vec<u8>, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let called = client.unary(Request::new(message.to_vec()), PathAndQuery::from_static(path), Bytes);
    Ok(tokio::time::timeout(LONG, called).await.expect("an answer")?.into_inner())
}
