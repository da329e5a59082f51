//! Limits the frames of a session's stream, where they are decoded: how long each may be, and how many bytes the
//! incomplete ones of a connection take together.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::Request;
use tower_layer::Layer;
use tower_service::Service;

use super::calls::Peer;
use super::carry::is_session;
use super::requests::{HEADER_BYTES, Share, length};

/// Follows the lengths of the messages in the bytes of a stream.
#[derive(Debug, Default)]
struct Lengths {
    header: [u8; HEADER_BYTES],
    /// How many bytes of the next header have arrived.
    header_bytes: usize,
    /// Length of the message that is arriving, and the bytes of it that are missing.
    message_bytes: usize,
    bytes_left: usize,
}

impl Lengths {
    /// Passes these bytes. Returns what the incomplete message after them takes.
    fn pass(&mut self, mut data: &[u8]) -> Result<usize, Status> {
        while !data.is_empty() {
            let is_header = self.bytes_left == 0;
            let wanted = if is_header { HEADER_BYTES - self.header_bytes } else { self.bytes_left };
            let (passed, rest) = data.split_at(wanted.min(data.len()));
            data = rest;
            if !is_header {
                self.bytes_left -= passed.len();
                continue;
            }
            self.header[self.header_bytes..][..passed.len()].copy_from_slice(passed);
            self.header_bytes += passed.len();
            if self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
                self.message_bytes = length(self.header)?;
                self.bytes_left = self.message_bytes;
            }
        }
        Ok(if self.bytes_left > 0 { HEADER_BYTES + self.message_bytes } else { self.header_bytes })
    }
}

/// The body of a session's stream. It ends with an error at a frame that is too long, or is one too many.
struct BoundBody {
    inner: Body,
    lengths: Lengths,
    share: Share,
}

impl HttpBody for BoundBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref())
            && let Err(status) = this.lengths.pass(data).and_then(|bytes| this.share.set(bytes))
        {
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// The layer that limits the frames of sessions. Other calls pass.
#[derive(Clone, Debug)]
pub struct BoundFrames;

impl<S> Layer<S> for BoundFrames {
    type Service = Bound<S>;

    fn layer(&self, inner: S) -> Bound<S> {
        Bound(inner)
    }
}

/// The service that [`BoundFrames`] makes.
#[derive(Clone, Debug)]
pub struct Bound<S>(S);

impl<S: Service<Request<Body>>> Service<Request<Body>> for Bound<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let peer = Peer::of(request.extensions());
        self.0.call(match peer {
            Ok(peer) if is_session(request.uri().path()) => {
                let share = Share::new(peer.calls);
                request.map(|inner| Body::new(BoundBody { inner, lengths: Lengths::default(), share }))
            }
            // The service answers a call without a peer with an error.
            _ => request,
        })
    }
}

#[cfg(test)]
mod tests {
    use baton_types::limits::MESSAGE_BYTES_MAX;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        [&[0], &(length as u32).to_be_bytes()[..], &vec![0xff; length]].concat()
    }

    #[test]
    fn only_an_incomplete_message_takes_bytes() {
        let stream = [message(3), message(0), message(MESSAGE_BYTES_MAX), message(1)].concat();
        // Where each message begins and ends, with the length that it announces.
        let ends = [(0, 8, 3), (8, 13, 0), (13, 13 + 5 + MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX)];
        for cut in (0..30).chain([stream.len() - 7, stream.len() - 6]) {
            let mut lengths = Lengths::default();
            let (begin, end, length) = ends.into_iter().find(|(_, end, _)| cut <= *end).expect("one of them");
            let expected = match cut - begin {
                _ if cut == end => 0,
                header @ 0..HEADER_BYTES => header,
                _ => HEADER_BYTES + length,
            };
            assert_eq!(lengths.pass(&stream[..cut]).unwrap(), expected, "after {cut} bytes");
            assert_eq!(lengths.pass(&stream[cut..]).unwrap(), 0, "cut after {cut} bytes");
        }
        let mut byte_by_byte = Lengths::default();
        assert_eq!(stream.iter().map(|byte| byte_by_byte.pass(&[*byte]).unwrap()).last(), Some(0));
    }

    #[test]
    fn a_message_that_says_that_it_is_long_is_refused_at_its_header() {
        let long = message(MESSAGE_BYTES_MAX + 1);
        let mut lengths = Lengths::default();
        assert_eq!(lengths.pass(&long[..HEADER_BYTES - 1]).unwrap(), HEADER_BYTES - 1);
        let refused = lengths.pass(&long[HEADER_BYTES - 1..HEADER_BYTES]).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    }
}
