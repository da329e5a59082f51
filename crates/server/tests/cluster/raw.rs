//! Calls whose requests are bytes that the test chooses, and never end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{Request, Response};
use tonic::transport::Channel;
use tower_service::Service;

use crate::server::LONG;

pub const LIST: &str = "/baton.v1.Locks/ListLocks";
pub const FORCE: &str = "/baton.v1.Locks/ForceRelease";
pub const STATUS: &str = "/baton.v1.Locks/GetStatus";
pub const ADD: &str = "/baton.v1.Members/Add";
pub const HEALTH: &str = "/grpc.health.v1.Health/Check";
pub const SESSION: &str = "/baton.v1.Locks/Session";

/// The pieces in which a request is sent.
const PIECE_BYTES: usize = 16 << 10;

/// What became of a request that never ends.
#[derive(Debug)]
pub enum Fate {
    /// The server ended the call.
    Ended(Status),
    /// The server took all bytes, and waits for more.
    AllTaken,
}

/// Sends the first `sent` bytes of a message that has `announced` bytes, and nothing more. Waits until the server ends the
/// call. If `all_taken` is a fate, also until the server has let all bytes through. Returns how many bytes were let through.
pub async fn half_sent(channel: &Channel, path: &str, announced: u32, sent: usize, is_fate: bool) -> (Fate, usize) {
    let (taken, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let header = [&[0], &announced.to_be_bytes()[..]].concat();
    let lengths = std::iter::repeat_n(PIECE_BYTES, sent / PIECE_BYTES).chain([sent % PIECE_BYTES]);
    let pieces = std::iter::once(header).chain(lengths.map(|length| vec![0; length]));
    let (counts, tells) = (taken.clone(), all.clone());
    let pieces = pieces.map(move |piece| {
        counts.fetch_add(piece.len(), Ordering::SeqCst);
        Ok::<_, Infallible>(Frame::data(Bytes::from(piece)))
    });
    let never = futures::stream::poll_fn(move |_| {
        tells.notify_one();
        std::task::Poll::Pending
    });
    let body = StreamBody::new(futures::StreamExt::chain(futures::stream::iter(pieces), never));
    let request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let request = request.body(Body::new(body)).unwrap();
    let fate = tokio::select! {
        status = end(channel.clone(), request) => Fate::Ended(status),
        () = all.notified(), if is_fate => Fate::AllTaken,
        () = tokio::time::sleep(LONG) => panic!("the server did not end the call"),
    };
    (fate, taken.load(Ordering::SeqCst))
}

/// The status at the end of a call.
async fn end(mut channel: Channel, request: Request<Body>) -> Status {
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    let answer: Response<Body> = channel.call(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let whole = answer.into_body().collect().await.unwrap();
    let trailers = whole.trailers().expect("the call ends with a status");
    Status::from_header_map(trailers).expect("the call ends with a status")
}
