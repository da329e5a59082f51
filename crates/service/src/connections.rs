//! Connections, at most so many at a time: descriptors that clients use up would be missing when the log needs one. One
//! that does not begin to speak is hung up on, so that it does not keep the place of one that would.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};

/// What every client of HTTP/2 says first has so many bytes.
const PREFACE_BYTES: usize = 24;
/// How long it may take to say it. From then on the pings of HTTP/2 tell whether anybody is there.
const PREFACE_MAX: Duration = Duration::from_secs(5);

/// Those that come, while there are fewer than `most`; further ones are hung up on.
pub fn limited(listener: TcpListener, most: usize) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(most));
    TcpIncoming::from(listener).with_nodelay(Some(true)).filter_map(move |came| match came {
        Ok(stream) => {
            Arc::clone(&places).try_acquire_owned().ok().map(|place| Ok(Connection::new(stream, place, PREFACE_MAX)))
        }
        Err(error) => Some(Err(error)),
    })
}

/// A connection, and its place among those that there may be.
pub struct Connection {
    stream: TcpStream,
    /// What it has to say before anything else; none once it was said.
    preface: Option<Preface>,
    _place: OwnedSemaphorePermit,
}

struct Preface {
    bytes_left: usize,
    until: Pin<Box<Sleep>>,
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit, preface_within: Duration) -> Self {
        let preface = Preface { bytes_left: PREFACE_BYTES, until: Box::pin(sleep(preface_within)) };
        Connection { stream, preface: Some(preface), _place: place }
    }
}

impl Preface {
    /// Whether it is complete with so many bytes more.
    fn is_complete(&mut self, bytes: usize) -> bool {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.bytes_left == 0
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(preface) = &mut self.preface else { return read };
        if read.is_pending() {
            let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not begin to speak HTTP/2");
            return preface.until.as_mut().poll(cx).map(|()| Err(late()));
        }
        if preface.is_complete(buffer.filled().len() - before) {
            self.preface = None;
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

    /// A connection that has to speak within this time, and its client.
    async fn connected(preface_within: Duration) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        (Connection::new(listener.accept().await.unwrap().0, place, preface_within), client)
    }

    #[tokio::test]
    async fn who_does_not_say_its_first_words_in_time_is_hung_up_on() {
        for first in [0, 1, PREFACE_BYTES - 1] {
            let (mut connection, mut client) = connected(Duration::from_millis(50)).await;
            client.write_all(&vec![b'x'; first]).await.unwrap();
            let mut heard = Vec::new();
            let read = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut heard)).await;
            let error = read.expect("it was not hung up on").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "after {first} bytes");
        }
    }

    #[tokio::test]
    async fn who_has_said_them_has_all_the_time_that_it_wants() {
        let (mut connection, mut client) = connected(Duration::from_millis(50)).await;
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(200), connection.read_u8()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
}
