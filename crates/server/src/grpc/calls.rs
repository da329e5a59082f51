//! Counts the calls of each connection: a connection without calls loses its place after a while. Refuses the calls of
//! a connection that has no place.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Extensions, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::link::Slot;
use super::proof::Proved;
use crate::frontend::ConnectionId;

/// The client's end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub connection: ConnectionId,
    pub address: Option<SocketAddr>,
    pub calls: Arc<Calls>,
    /// The link that carries the calls to the leader, if this node does not lead.
    pub link: Arc<Slot>,
    /// What the client has proved: it may be a member of the cluster, which carries calls here.
    pub proved: Arc<Proved>,
    /// Set if the connection has no place. The server answers every call on it with this error.
    pub turned_away: Option<Arc<str>>,
}

impl Peer {
    /// The client that sent a request with these extensions.
    pub fn of(extensions: &Extensions) -> Result<Peer, Status> {
        extensions.get().cloned().ok_or_else(|| Status::internal("this connection was not accepted here"))
    }
}

/// The most listings of a connection whose answers are not read yet. Each takes the memory of a page.
pub const LISTINGS_MAX: usize = 32;

#[derive(Debug)]
pub struct Calls {
    active: AtomicUsize,
    ever: AtomicUsize,
    /// Bytes of the requests that have begun to arrive and are not answered yet.
    bytes: AtomicUsize,
    /// Places for listings.
    listings: Arc<Semaphore>,
}

impl Default for Calls {
    fn default() -> Self {
        let [active, ever, bytes] = Default::default();
        Calls { active, ever, bytes, listings: Arc::new(Semaphore::new(LISTINGS_MAX)) }
    }
}

impl Calls {
    /// Number of active calls, and of all calls so far.
    pub fn counts(&self) -> (usize, usize) {
        (self.active.load(Ordering::Relaxed), self.ever.load(Ordering::Relaxed))
    }

    /// A request takes `now` bytes instead of `before`. Returns false, and changes nothing, if all requests would take
    /// more than `most`.
    pub fn exchange_bytes(&self, before: usize, now: usize, most: usize) -> bool {
        let exchange = |all: usize| Some(all - before + now).filter(|all| now <= before || *all <= most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, exchange).is_ok()
    }

    /// Waits until a listing may be answered. The place is free again when the permit is dropped.
    pub async fn place_for_listing(&self) -> Option<OwnedSemaphorePermit> {
        // Fails only if the semaphore is closed, and it never is.
        self.listings.clone().acquire_owned().await.ok()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Counts as active until it is dropped.
struct Active(Arc<Calls>);

impl Active {
    fn new(calls: Arc<Calls>) -> Self {
        calls.active.fetch_add(1, Ordering::Relaxed);
        calls.ever.fetch_add(1, Ordering::Relaxed);
        Active(calls)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub fn active(peer: &Peer) -> impl Drop + use<> {
    Active::new(peer.calls.clone())
}

/// Counts the calls of each connection, and refuses the calls of connections that have no place.
#[derive(Clone, Debug)]
pub struct CountCalls;

impl<S> Layer<S> for CountCalls {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting(inner)
    }
}

/// The service that [`CountCalls`] makes.
#[derive(Clone, Debug)]
pub struct Counting<S>(S);

impl<S> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<Peer>().cloned();
        if let Some(why) = peer.as_ref().and_then(|peer| peer.turned_away.clone()) {
            return Box::pin(async move { Ok(Status::resource_exhausted(&*why).into_http()) });
        }
        let active = peer.map(|peer| Active::new(peer.calls));
        let answered = self.0.call(request);
        Box::pin(async move {
            let response = answered.await?;
            // A call is active until its whole answer is sent.
            Ok(response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _ = &active;
                    frame
                }))
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word;

    impl Service<Request<Body>> for Word {
        type Response = Response<Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            std::future::ready(Ok(Response::new(Body::new(http_body_util::Full::from("word")))))
        }
    }

    #[tokio::test]
    async fn a_call_is_active_until_its_answer_is_over() {
        let calls = Arc::<Calls>::default();
        let peer = Peer {
            connection: ConnectionId(1),
            address: None,
            calls: calls.clone(),
            link: Arc::default(),
            proved: Arc::default(),
            turned_away: None,
        };
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(peer);
        let answer = CountCalls.layer(Word).call(request).await.unwrap();
        assert_eq!(calls.counts(), (1, 1));
        drop(answer);
        assert_eq!(calls.counts(), (0, 1));
    }
}
