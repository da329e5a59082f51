//! Answers the clients of a member whose group has not begun, so that they are told what the member waits for.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_peer::{Awaited, MemberId};
use futures::stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::server::Connected;
use tower_service::Service;

/// The most connections at a time. Further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// A client reads the answer and hangs up. Others are hung up on, so that they do not keep their places.
const CONNECTION_MAX: Duration = Duration::from_secs(2);
/// The pause after the system failed to accept a connection, e.g. for want of file descriptors.
const ACCEPT_AFTER: Duration = Duration::from_millis(100);

/// Answers each call on this port: the member serves no clients yet, and why. A client then tries again. Drop the future
/// when the group has begun. It ends its connections, and leaves the port to the server.
pub async fn turn_away(port: &TcpListener, id: MemberId, awaited: watch::Receiver<Awaited>) -> Infallible {
    loop {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let incoming = stream::unfold(places, |places| async {
            let place = places.clone().acquire_owned().await.ok()?;
            let accepted = port.accept().await.map(|(stream, _)| Turned { stream, _place: place });
            Some((accepted, places))
        });
        let served = tonic::transport::Server::builder()
            .max_connection_age(CONNECTION_MAX)
            .max_connection_age_grace(CONNECTION_MAX)
            .serve_with_incoming_shutdown(Why { id, awaited: awaited.clone() }, incoming, std::future::pending())
            .await;
        // A failed accept may end it. The clients of a member that waits are not worth ending the member.
        drop(served);
        tokio::time::sleep(ACCEPT_AFTER).await;
    }
}

/// Answers every call with the reason.
#[derive(Clone)]
struct Why {
    id: MemberId,
    awaited: watch::Receiver<Awaited>,
}

impl Service<Request<Body>> for Why {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let (id, awaited) = (self.id, self.awaited.borrow().clone());
        let why = format!("member {id} serves no clients yet, because its group has not begun; {awaited}");
        ready(Ok(Status::unavailable(why).into_http()))
    }
}

/// A connection that occupies one of the places.
struct Turned {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Turned {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Turned {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Turned {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
