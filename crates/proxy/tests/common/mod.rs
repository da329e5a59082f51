//! A proxy with a listener behind it, and what both ends of a connection see.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::io::ErrorKind;
use std::time::Duration;

use baton_proxy::{Counters, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::time::timeout;

/// A limit that only a failed test reaches.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("this did not happen: {what}"),
    }
}

pub struct Line {
    pub proxy: Proxy,
    pub listener: TcpListener,
}

impl Line {
    pub async fn start() -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap(), 7).unwrap();
        Line { proxy, listener }
    }

    pub async fn dial(&self) -> TcpStream {
        soon("connect", TcpStream::connect(self.proxy.address())).await.unwrap()
    }

    pub async fn accept(&self) -> TcpStream {
        soon("accept", self.listener.accept()).await.unwrap().0
    }

    /// The dialling end and the listening end of a connection.
    pub async fn open(&self) -> (TcpStream, TcpStream) {
        let mut dialler = self.dial().await;
        let mut accepted = self.accept().await;
        talks(&mut dialler, &mut accepted).await;
        (dialler, accepted)
    }

    pub async fn wait(&self, what: &str, is: impl FnMut(&Counters) -> bool) -> Counters {
        soon(what, self.proxy.wait_until(is)).await
    }
}

pub async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    soon("write", stream.write_all(bytes)).await.unwrap();
}

pub async fn receive(stream: &mut TcpStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    soon("bytes arrive", stream.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(bytes, expected);
}

/// Bytes pass in both directions.
pub async fn talks(one: &mut TcpStream, other: &mut TcpStream) {
    send(one, b"ping").await;
    receive(other, b"ping").await;
    send(other, b"pong").await;
    receive(one, b"pong").await;
}

/// What remains to be read before the end of the stream.
pub async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    soon("the stream ends", stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

pub async fn is_reset(stream: &mut TcpStream) {
    let error = soon("the stream is reset", stream.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// A new connection is reset: so early that dialling fails, or later.
pub async fn is_refused(address: impl ToSocketAddrs) {
    match soon("connect", TcpStream::connect(address)).await {
        Ok(mut stream) => is_reset(&mut stream).await,
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

/// Gives a proxy time for what it must not do: many messages pass through another proxy meanwhile. A correct proxy passes
/// the test however long this takes.
pub async fn a_while() {
    let other = Line::start().await;
    let (mut dialler, mut accepted) = other.open().await;
    for _ in 0..100 {
        talks(&mut dialler, &mut accepted).await;
    }
}
