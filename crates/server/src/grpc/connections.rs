//! Accepts connections up to a limit: clients must not use up the file descriptors that the log needs. The server
//! closes a connection that does not begin to speak HTTP/2, or has no call for a while, so that another client can have
//! its place. A connection beyond the limit gets an error.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::{Connected, TcpIncoming};
use tracing::field::display;
use tracing::{debug, info, warn};

use super::calls::{Calls, Peer};
use crate::frontend::{ConnectionId, LIMIT_AGAIN_MS};
use crate::limiter::Limiter;

/// Every HTTP/2 client begins with a preface of this many bytes.
const PREFACE_BYTES: usize = 24;
/// The time limit for the preface.
const PREFACE_MAX: Duration = Duration::from_secs(5);
/// How long a connection may be without a call.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long the server keeps a connection without a place, so that the client can read the error.
const TURNED_AWAY_FOR: Duration = Duration::from_secs(2);
/// The most connections without a place at a time. The server closes further ones at once, without an error message.
const TURNED_AWAY_MAX: usize = 16;

/// The connection may be from a port scanner, or from a client of another service.
const NO_PREFACE: &str = "it did not begin to speak HTTP/2 in time";

/// When the server stops, a connection without a call is closed after this time.
const GOODBYE_MAX: Duration = Duration::from_millis(200);

/// The incoming connections. While no place is free, further ones get an error. `most` is the number of all places. Once
/// the server stops, connections without a call are closed.
pub fn accept(
    listener: TcpListener,
    places: Arc<Semaphore>,
    most: usize,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let told = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    let why: Arc<str> = format!("the server has {most} connections; it takes no more").into();
    let (mut last, mut told_at, limiter) = (0, None::<Instant>, Arc::default());
    TcpIncoming::from(listener).with_nodelay(Some(true)).filter_map(move |came| {
        let stream = match came {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        last += 1;
        let id = ConnectionId(last);
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Some(Ok(Connection::new(stream, id, place, None, &stopping, &limiter)));
        }
        // At most one line a minute, so that a flood of connections does not flood the log.
        if told_at.is_none_or(|told_at| told_at.elapsed() >= Duration::from_millis(LIMIT_AGAIN_MS)) {
            told_at = Some(Instant::now());
            let from = stream.peer_addr().ok();
            warn!(
                from = from.map(display),
                limit = most,
                "a connection was refused: the server takes no more connections"
            );
        }
        let place = told.clone().try_acquire_owned().ok()?;
        Some(Ok(Connection::new(stream, id, place, Some(why.clone()), &stopping, &limiter)))
    })
}

/// A connection that occupies one of the places.
pub struct Connection {
    // The first field, because fields are dropped in order: when the client sees that its connection is closed, another
    // one has the place.
    _place: OwnedSemaphorePermit,
    stream: TcpStream,
    peer: Peer,
    /// Bytes of the HTTP/2 preface that are still missing.
    preface_bytes_left: usize,
    /// When the connection is checked next.
    look: Pin<Box<Sleep>>,
    /// Number of all calls at the last check.
    calls_seen: Option<usize>,
    idle_max: Duration,
    /// Resolves when the server stops; none after that.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// For the lines of the log about all connections.
    limiter: Arc<Mutex<Limiter>>,
}

impl Connection {
    fn new(
        stream: TcpStream,
        connection: ConnectionId,
        place: OwnedSemaphorePermit,
        turned_away: Option<Arc<str>>,
        stopping: &CancellationToken,
        limiter: &Arc<Mutex<Limiter>>,
    ) -> Self {
        let (address, calls) = (stream.peer_addr().ok(), Arc::<Calls>::default());
        let first = if turned_away.is_some() { TURNED_AWAY_FOR } else { PREFACE_MAX };
        Connection {
            stream,
            peer: Peer { connection, address, calls, link: Arc::default(), proved: Arc::default(), turned_away },
            preface_bytes_left: PREFACE_BYTES,
            look: Box::pin(sleep(first)),
            calls_seen: None,
            idle_max: IDLE_MAX,
            stopping: Some(Box::pin(stopping.clone().cancelled_owned())),
            limiter: limiter.clone(),
            _place: place,
        }
    }

    /// Checks the connection when it is time to. Fails if the connection must be closed.
    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.stopping.as_mut().is_some_and(|stopping| stopping.as_mut().poll(cx).is_ready()) {
            self.stopping = None;
            self.look.as_mut().reset(Instant::now() + GOODBYE_MAX);
        }
        while self.look.as_mut().poll(cx).is_ready() {
            if let Some(why) = self.why_hung_up() {
                let (connection, from) = (self.peer.connection.0, self.peer.address.map(display));
                let left_out = if why == NO_PREFACE { self.may_say() } else { None };
                match left_out {
                    Some(left_out) => info!(connection, from, why, left_out, "a connection was closed"),
                    None => debug!(connection, from, why, "a connection was closed"),
                }
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            let again = if self.stopping.is_some() { self.idle_max } else { GOODBYE_MAX };
            self.look.as_mut().reset(Instant::now() + again);
        }
        Ok(())
    }

    /// If another line may be written: how many were left out in the minute before.
    fn may_say(&self) -> Option<Option<u64>> {
        let now = baton_runtime::Instant::now();
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner).event(NO_PREFACE, now)
    }

    fn why_hung_up(&mut self) -> Option<&'static str> {
        let (active, ever) = self.peer.calls.counts();
        let seen = self.calls_seen.replace(ever);
        if self.peer.turned_away.is_some() {
            return Some("the server takes no more connections");
        }
        if self.stopping.is_none() {
            return (active == 0).then_some("the server is stopping");
        }
        if self.preface_bytes_left > 0 {
            return Some(NO_PREFACE);
        }
        (active == 0 && seen == Some(ever)).then_some("it has no call")
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.preface_bytes_left = self.preface_bytes_left.saturating_sub(buffer.filled().len() - before);
        // Once each time the socket is empty. A client that sends without a pause fills every buffer instead.
        if (read.is_pending() || buffer.remaining() == 0)
            && let Err(error) = self.look(cx)
        {
            return Poll::Ready(Err(error));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A connection with this time limit for its preface and between its calls, and the client's end of it.
    async fn connected(within: Duration) -> (Connection, TcpStream) {
        connected_until(within, &CancellationToken::new()).await
    }

    async fn connected_until(within: Duration, stopping: &CancellationToken) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let stream = listener.accept().await.unwrap().0;
        let mut connection = Connection::new(stream, ConnectionId(1), place, None, stopping, &Arc::default());
        connection.look = Box::pin(sleep(within));
        connection.idle_max = within;
        (connection, client)
    }

    async fn error(connection: &mut Connection) -> String {
        let mut heard = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut heard)).await;
        let error = read.expect("the connection was not closed").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        error.to_string()
    }

    #[tokio::test]
    async fn who_does_not_say_its_first_words_in_time_is_hung_up_on() {
        for first in [0, 1, PREFACE_BYTES - 1] {
            let (mut connection, mut client) = connected(Duration::from_millis(50)).await;
            client.write_all(&vec![b'x'; first]).await.unwrap();
            assert_eq!(error(&mut connection).await, "it did not begin to speak HTTP/2 in time", "after {first} bytes");
        }
    }

    /// Other frames, such as pings, do not count as calls.
    #[tokio::test]
    async fn who_speaks_and_does_not_call_is_hung_up_on() {
        let (mut connection, mut client) = connected(Duration::from_millis(50)).await;
        let speaks = tokio::spawn(async move {
            while client.write_all(&[b'x'; PREFACE_BYTES]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert_eq!(error(&mut connection).await, "it has no call");
        drop(connection);
        speaks.await.unwrap();
    }

    /// The socket is never empty: every read fills its buffer.
    #[tokio::test]
    async fn who_sends_without_a_pause_and_does_not_call_is_hung_up_on() {
        let (mut connection, mut client) = connected(Duration::from_millis(50)).await;
        let sends = tokio::spawn(async move { while client.write_all(&[b'x'; 1 << 16]).await.is_ok() {} });
        let reads = async {
            loop {
                if let Err(error) = connection.read_exact(&mut [0; PREFACE_BYTES]).await {
                    return error.to_string();
                }
            }
        };
        let error = tokio::time::timeout(Duration::from_secs(60), reads).await;
        assert_eq!(error.expect("the connection was not closed"), "it has no call");
        drop(connection);
        sends.await.unwrap();
    }

    /// Clients wait for the next server. A client that does not read must not delay the stop.
    #[tokio::test]
    async fn who_has_no_call_when_the_server_stops_is_hung_up_on() {
        for (first, holds_on) in [(0, false), (PREFACE_BYTES, false), (PREFACE_BYTES, true)] {
            let stopping = CancellationToken::new();
            let (mut connection, mut client) = connected_until(Duration::from_secs(3_600), &stopping).await;
            client.write_all(&vec![b'x'; first]).await.unwrap();
            connection.read_exact(&mut vec![0; first]).await.unwrap();
            let call = super::super::calls::active(&connection.peer);
            let reads = tokio::spawn(async move { error(&mut connection).await });
            stopping.cancel();
            if holds_on {
                sleep(3 * GOODBYE_MAX).await;
                assert!(!reads.is_finished(), "a call goes on");
            }
            drop(call);
            assert_eq!(reads.await.unwrap(), "the server is stopping", "after {first} bytes");
        }
    }

    #[tokio::test]
    async fn who_calls_has_all_the_time_that_it_wants() {
        let (mut connection, mut client) = connected(Duration::from_millis(20)).await;
        let call = super::super::calls::active(&connection.peer);
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(300), connection.read_u8()).await;
        assert!(waited.is_err(), "{waited:?}");
        drop(call);
        assert_eq!(error(&mut connection).await, "it has no call");
    }
}
