//! The bodies of carried calls: what the client sends to the leader, and what the leader answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::HeaderMap;

use super::link::Link;

/// The body of a request, until it is cancelled.
pub struct Until {
    inner: Body,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Until {
    pub fn new(inner: Body, cancelled: CancellationToken) -> Self {
        Until { inner, cancelled: Box::pin(cancelled.cancelled_owned()) }
    }
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Status::cancelled("the call has ended"))));
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// What a carried call occupies until its answer is over.
pub struct Held {
    link: Arc<Link>,
    _place: OwnedSemaphorePermit,
    /// Dropping this cancels the body of the request.
    _guard: DropGuard,
}

impl Held {
    pub fn new(link: Arc<Link>, place: OwnedSemaphorePermit, guard: DropGuard) -> Self {
        Held { link, _place: place, _guard: guard }
    }
}

/// The leader's answer, as it is. If it breaks off, a status follows that says why.
pub struct CarriedBody {
    first: Option<Bytes>,
    inner: Body,
    /// Resolves when the call must end, with the reason.
    over: Pin<Box<dyn Future<Output = &'static str> + Send>>,
    /// Makes the status of an answer that breaks off.
    broken: Box<dyn Fn(&str) -> Status + Send>,
    /// None once the answer is over.
    held: Option<Held>,
}

impl CarriedBody {
    pub fn new(
        first: Option<Vec<u8>>,
        inner: Body,
        over: impl Future<Output = &'static str> + Send + 'static,
        broken: impl Fn(&str) -> Status + Send + 'static,
        held: Held,
    ) -> Self {
        let first = first.map(Bytes::from);
        CarriedBody { first, inner, over: Box::pin(over), broken: Box::new(broken), held: Some(held) }
    }

    /// Ends the answer with this status.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.held = None;
        // The leader's connection is not read any more.
        self.inner = Body::empty();
        let mut trailers = HeaderMap::new();
        // The sentence is percent-encoded, so this cannot fail.
        let _ = status.add_header(&mut trailers);
        Frame::trailers(trailers)
    }
}

impl HttpBody for CarriedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(held) = &this.held else { return Poll::Ready(None) };
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Poll::Ready(why) = this.over.as_mut().poll(cx) {
            let status = (this.broken)(why);
            return Poll::Ready(Some(Ok(this.end(&status))));
        }
        match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
            Some(Ok(frame)) if frame.is_data() => Poll::Ready(Some(Ok(frame))),
            Some(Err(error)) => {
                let status = (this.broken)(&held.link.broke(&error));
                Poll::Ready(Some(Ok(this.end(&status))))
            }
            trailers => {
                this.held = None;
                Poll::Ready(trailers)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() || (self.first.is_none() && self.inner.is_end_stream())
    }
}
