//! Limits what the requests of one connection may take. A call with one request is read whole before it is answered or
//! carried: within a time, and up to a length. All requests of a connection that have begun to arrive and are not
//! answered yet share a number of bytes. Listings wait while too many answers of their connection are not read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_types::limits::MESSAGE_BYTES_MAX;
use http_body_util::{BodyExt, Full};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::calls::{Calls, LISTINGS_MAX, Peer};
use super::carry::{is_listing, is_session};

/// The length of the header of a gRPC message: one byte for compression, four for the length.
pub const HEADER_BYTES: usize = 5;
/// The time limit for a whole request.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// The most bytes of a connection's requests that have begun to arrive and are not answered yet.
pub const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;

/// The length of a message with this header. An error if it is too long.
pub fn length([_, length @ ..]: [u8; HEADER_BYTES]) -> Result<usize, Status> {
    let length = u32::from_be_bytes(length) as usize;
    match length <= MESSAGE_BYTES_MAX {
        true => Ok(length),
        false => Err(too_long(&format!("has {length} bytes"))),
    }
}

fn too_long(what: &str) -> Status {
    Status::resource_exhausted(format!("the request {what}; it may have at most {MESSAGE_BYTES_MAX}"))
}

/// The bytes of one request. They count for its connection until this is dropped.
pub struct Share {
    calls: Arc<Calls>,
    bytes: usize,
}

impl Share {
    pub fn new(calls: Arc<Calls>) -> Self {
        Share { calls, bytes: 0 }
    }

    /// The request takes this many bytes from now on.
    pub fn set(&mut self, bytes: usize) -> Result<(), Status> {
        if !self.calls.exchange_bytes(self.bytes, bytes, IN_FLIGHT_BYTES_MAX) {
            return Err(Status::resource_exhausted(format!(
                "the unanswered requests of this connection have more than {IN_FLIGHT_BYTES_MAX} bytes; wait for answers, \
                 or use more connections"
            )));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.calls.exchange_bytes(self.bytes, 0, IN_FLIGHT_BYTES_MAX);
    }
}

/// Reads a whole request. It is copied: a frame of HTTP/2 may keep far more memory than it has bytes.
async fn read(mut body: Body, share: &mut Share) -> Result<Bytes, Status> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        // Trailers of a request have no meaning.
        let Ok(data) = frame?.into_data() else { continue };
        let bytes = whole.len() + data.len();
        if bytes > HEADER_BYTES + MESSAGE_BYTES_MAX {
            return Err(too_long(&format!("has more than {MESSAGE_BYTES_MAX} bytes")));
        }
        let header = whole.iter().chain(&data).take(HEADER_BYTES).copied().collect::<Vec<u8>>();
        let announced = match <[u8; HEADER_BYTES]>::try_from(header) {
            Ok(header) => HEADER_BYTES + length(header)?,
            Err(_) => HEADER_BYTES,
        };
        share.set(bytes.max(announced))?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// The layer that reads whole requests. The frames of sessions pass.
#[derive(Clone, Debug)]
pub struct ReadRequests {
    /// The time limit for a whole request.
    pub within: Duration,
}

impl<S> Layer<S> for ReadRequests {
    type Service = Reading<S>;

    fn layer(&self, inner: S) -> Reading<S> {
        Reading { within: self.within, inner }
    }
}

/// The service that [`ReadRequests`] makes.
#[derive(Clone, Debug)]
pub struct Reading<S> {
    within: Duration,
    inner: S,
}

impl<S> Service<Request<Body>> for Reading<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_session(request.uri().path()) {
            return Box::pin(self.inner.call(request));
        }
        let peer = match Peer::of(request.extensions()) {
            Ok(peer) => peer,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let clone = self.inner.clone();
        // The service that was polled must be the one that is called.
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let within = self.within;
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let mut share = Share::new(peer.calls.clone());
            let whole = match tokio::time::timeout(within, read(body, &mut share)).await {
                Ok(Ok(whole)) => whole,
                Ok(Err(status)) => return Ok(status.into_http()),
                Err(_) => return Ok(too_slow(within).into_http()),
            };
            let place = match is_listing(head.uri.path()) {
                true => match tokio::time::timeout(within, peer.calls.place_for_listing()).await {
                    Ok(place) => place,
                    Err(_) => return Ok(too_many_listings().into_http()),
                },
                false => None,
            };
            let answer = inner.call(Request::from_parts(head, Body::new(Full::new(whole)))).await?;
            drop(share);
            Ok(match place {
                None => answer,
                Some(_) => answer.map(|body| {
                    Body::new(body.map_frame(move |frame| {
                        let _ = &place;
                        frame
                    }))
                }),
            })
        })
    }
}

fn too_slow(within: Duration) -> Status {
    Status::deadline_exceeded(format!("the request was not complete within {} s", within.as_secs_f64()))
}

fn too_many_listings() -> Status {
    Status::resource_exhausted(format!(
        "this connection has {LISTINGS_MAX} listings whose answers are not read yet; read them, or use more connections"
    ))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body::Frame;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;
    use tonic::Code;

    use super::*;
    use crate::frontend::ConnectionId;
    use crate::grpc::calls::Calls;

    /// Answers with the request.
    #[derive(Clone)]
    struct Echo;

    impl Service<Request<Body>> for Echo {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            std::future::ready(Ok(Response::new(request.into_body())))
        }
    }

    type Pieces = mpsc::Sender<Result<Frame<Bytes>, Status>>;

    /// A request whose body comes piece by piece.
    fn request(path: &str, calls: &Arc<Calls>) -> (Pieces, Request<Body>) {
        let (pieces, body) = mpsc::channel(100);
        let body = Body::new(http_body_util::StreamBody::new(ReceiverStream::new(body)));
        let mut request = Request::builder().uri(path).body(body).unwrap();
        let (connection, calls, link) = (ConnectionId(1), calls.clone(), Arc::default());
        request.extensions_mut().insert(Peer {
            connection,
            address: None,
            calls,
            link,
            proved: Arc::default(),
            turned_away: None,
        });
        (pieces, request)
    }

    async fn send(pieces: &Pieces, bytes: &[u8]) {
        pieces.send(Ok(Frame::data(bytes.to_vec().into()))).await.unwrap();
    }

    /// The whole body of the answer, or its status.
    async fn answer(within: Duration, request: Request<Body>) -> Result<Bytes, Status> {
        let answer = ReadRequests { within }.layer(Echo).call(request).await.unwrap();
        match Status::from_header_map(answer.headers()) {
            Some(status) => Err(status),
            None => Ok(answer.into_body().collect().await.unwrap().to_bytes()),
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const LIST: &str = "/baton.v1.Locks/ListLocks";

    fn message(length: u32) -> Vec<u8> {
        [&[0], &length.to_be_bytes()[..], &vec![b'x'; length as usize]].concat()
    }

    #[tokio::test]
    async fn a_request_in_pieces_is_answered_and_its_bytes_are_given_back() {
        let calls = Arc::<Calls>::default();
        for length in [0, 1, MESSAGE_BYTES_MAX as u32] {
            let (pieces, request) = request(LIST, &calls);
            let message = message(length);
            let (first, rest) = message.split_at(3);
            send(&pieces, first).await;
            send(&pieces, rest).await;
            drop(pieces);
            assert_eq!(answer(LONG, request).await.unwrap(), message);
            assert_eq!(calls.bytes(), 0);
        }
    }

    #[tokio::test]
    async fn a_request_that_says_that_it_is_long_is_refused_at_its_header() {
        let calls = Arc::<Calls>::default();
        let (pieces, request) = request(LIST, &calls);
        send(&pieces, &message(MESSAGE_BYTES_MAX as u32 + 1)[..HEADER_BYTES]).await;
        let refused = answer(LONG, request).await.unwrap_err();
        let why = "the request has 65537 bytes; it may have at most 65536";
        assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, why));
    }

    #[tokio::test]
    async fn further_messages_do_not_make_a_request_longer() {
        let calls = Arc::<Calls>::default();
        let (pieces, request) = request(LIST, &calls);
        for _ in 0..3 {
            send(&pieces, &message(30_000)).await;
        }
        let refused = answer(LONG, request).await.unwrap_err();
        let why = "the request has more than 65536 bytes; it may have at most 65536";
        assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, why));
        assert_eq!(calls.bytes(), 0);
    }

    #[tokio::test]
    async fn a_request_that_is_half_sent_ends() {
        let calls = Arc::<Calls>::default();
        for half in [0, 1, HEADER_BYTES, HEADER_BYTES + 1] {
            let (pieces, request) = request(LIST, &calls);
            send(&pieces, &message(2)[..half]).await;
            let refused = answer(Duration::from_millis(10), request).await.unwrap_err();
            let why = "the request was not complete within 0.01 s";
            assert_eq!((refused.code(), refused.message()), (Code::DeadlineExceeded, why));
            assert_eq!(calls.bytes(), 0);
        }
    }

    #[tokio::test]
    async fn a_listing_waits_while_too_many_answers_are_not_read() {
        let calls = Arc::<Calls>::default();
        let unread = async |within| {
            let (pieces, request) = request(LIST, &calls);
            send(&pieces, &message(1)).await;
            drop(pieces);
            ReadRequests { within }.layer(Echo).call(request).await.unwrap()
        };
        let mut answers = Vec::new();
        for _ in 0..LISTINGS_MAX {
            answers.push(unread(LONG).await);
        }
        let refused = unread(Duration::from_millis(10)).await;
        let status = Status::from_header_map(refused.headers()).unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("32 listings"), "{status}");
        // Other calls need no place.
        let (_, other) = request("/baton.v1.Locks/GetStatus", &calls);
        answer(LONG, other).await.unwrap();
        drop(answers.pop());
        let answered = unread(LONG).await;
        assert!(Status::from_header_map(answered.headers()).is_none());
    }

    #[test]
    fn the_longest_messages_that_make_sense_are_not_too_long() {
        use baton_api::v1;
        use baton_types::limits::{HOST_BYTES_MAX, LABEL_BYTES_MAX, MISSING_MAX, NAME_BYTES_MAX, SECRET_BYTES};
        let name = vec![0xff; NAME_BYTES_MAX];
        let acquire = v1::Acquire {
            name,
            mode: 3,
            permits: u32::MAX,
            owner: u64::MAX,
            timeout_ms: Some(u64::MAX),
            lock_delay_ms: u64::MAX,
            parent: Some(u64::MAX),
        };
        let request = v1::Request {
            number: u64::MAX,
            seen: u64::MAX,
            operation: Some(v1::request::Operation::Acquire(acquire)),
            missing: vec![u64::MAX; MISSING_MAX],
        };
        let open = v1::Open {
            label: "x".repeat(LABEL_BYTES_MAX),
            host: "x".repeat(HOST_BYTES_MAX),
            secret: vec![0; SECRET_BYTES],
            ..Default::default()
        };
        for frame in [v1::client_frame::Frame::Request(request), v1::client_frame::Frame::Open(open)] {
            let bytes = prost::Message::encoded_len(&v1::ClientFrame { frame: Some(frame) });
            assert!(2 * bytes <= MESSAGE_BYTES_MAX, "{bytes} bytes");
        }
    }

    #[tokio::test]
    async fn a_stream_of_a_session_is_not_read() {
        let calls = Arc::<Calls>::default();
        let (_pieces, request) = request("/baton.v1.Locks/Session", &calls);
        let layer = ReadRequests { within: LONG };
        layer.layer(Echo).call(request).await.unwrap();
    }

    #[test]
    fn the_requests_of_a_connection_share_its_bytes() {
        let calls = Arc::<Calls>::default();
        let (mut one, mut other) = (Share::new(calls.clone()), Share::new(calls.clone()));
        one.set(IN_FLIGHT_BYTES_MAX - 10).unwrap();
        other.set(10).unwrap();
        let refused = other.set(11).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("more than 4194304 bytes"), "{refused}");
        one.set(1).unwrap();
        other.set(11).unwrap();
        assert_eq!(calls.bytes(), 12);
        drop(one);
        drop(other);
        assert_eq!(calls.bytes(), 0);
    }
}
