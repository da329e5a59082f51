//! Connections of bytes between nodes: over TCP, or over the network of a simulation.

use std::io;
use std::net::SocketAddr;

use baton_runtime::simulation;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A connection. The other end sees an end of the stream when the writer is dropped.
pub struct Stream {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Connects to other nodes.
pub trait Transport: Send + Sync + 'static {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>>;
}

/// Takes the connections of other nodes.
pub trait Listener: Send + Sync + 'static {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, SocketAddr)>>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// What ships.
pub struct Tcp;

impl Stream {
    fn tcp(stream: TcpStream) -> io::Result<Stream> {
        // A heartbeat must not wait for more bytes.
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Stream { reader: Box::new(reader), writer: Box::new(writer) })
    }

    fn simulated(reader: simulation::Reader, writer: simulation::Writer) -> Stream {
        Stream { reader: Box::new(reader), writer: Box::new(writer) }
    }
}

impl Transport for Tcp {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        async move { Stream::tcp(TcpStream::connect(address).await?) }.boxed()
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, SocketAddr)>> {
        async move {
            let (stream, address) = TcpListener::accept(self).await?;
            Ok((Stream::tcp(stream)?, address))
        }
        .boxed()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }
}

/// The network of the simulation that runs.
pub struct Simulated;

impl Transport for Simulated {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        async move {
            let address = address.parse().map_err(io::Error::other)?;
            let (reader, writer) = simulation::dial(address).await?;
            Ok(Stream::simulated(reader, writer))
        }
        .boxed()
    }
}

impl Listener for simulation::Listener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, SocketAddr)>> {
        async move {
            let (reader, writer, address) = simulation::Listener::accept(self).await?;
            Ok((Stream::simulated(reader, writer), address))
        }
        .boxed()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(simulation::Listener::local_addr(self))
    }
}
