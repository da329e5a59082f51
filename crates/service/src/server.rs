//! A whole server: the node, the desk in front of it, and the port they are served on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_proto::v1::locks_server::LocksServer;
use tokio::net::TcpListener;

use crate::api::{LocksService, Service};
use crate::connections;
use crate::store::OpenError;

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything acknowledged is kept.
    pub data: PathBuf,
    /// Where clients come to.
    pub listen: SocketAddr,
    /// How many may be connected at a time; one more is hung up on.
    pub connections_max: usize,
}

/// More connections than this at a time are not served, whatever the system allows.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Why a server does not run, or no longer does.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder cannot be used.
    #[error("cannot open the data folder {}: {error}", .data.display())]
    Open {
        /// The data folder.
        data: PathBuf,
        /// Why not.
        error: OpenError,
    },
    /// The port cannot be.
    #[error("cannot listen on {listen}: {error}; name another address with --listen")]
    Listen {
        /// The address that was asked for.
        listen: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The data folder, or a file that must be in it, is not there any more.
    #[error("data is gone from the data folder {data}: {what}; what was acknowledged may be lost")]
    Gone {
        /// Which folder.
        data: String,
        /// What is gone.
        what: String,
    },
    /// The connections failed as a whole.
    #[error("the server stopped serving: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// A server that is ready to serve.
pub struct Server {
    service: Arc<Service>,
    listener: TcpListener,
    address: SocketAddr,
    connections_max: usize,
}

impl Server {
    /// Opens the data, waits until the node leads, and binds the port: who connects from now on is served.
    pub async fn start(options: &Options) -> Result<Self, ServeError> {
        let refused = |error| ServeError::Listen { listen: options.listen, error };
        // First the port: a second server on the same port should say that, whatever its data folder is.
        let listener = TcpListener::bind(options.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let closed = |error| ServeError::Open { data: options.data.clone(), error };
        let service = Arc::new(Service::open(&options.data, address.to_string()).await.map_err(closed)?);
        Ok(Server { service, listener, address, connections_max: options.connections_max })
    }

    /// Where it listens: the port too, if the system was left to choose it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves; then ends the streams, and closes the data.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { service, listener, connections_max, .. } = self;
        let streams = Arc::clone(&service.desk);
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .add_service(LocksServer::new(LocksService::new(Arc::clone(&service))))
            .serve_with_incoming_shutdown(connections::limited(listener, connections_max), async {
                stop.await;
                streams.end_streams("the server stops");
            });
        let gone = tokio::select! {
            served = served => served.map(|()| service.node.missing())?,
            gone = service.run() => gone,
        };
        service.node.shutdown().await;
        let data = service.data().display().to_string();
        gone.map_or(Ok(()), |what| Err(ServeError::Gone { data, what }))
    }
}
