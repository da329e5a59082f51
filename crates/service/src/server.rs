//! A whole server: the replica with its front end, and the port that serves them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_api::v1::locks_server::LocksServer;
use baton_types::limits::ServerLimits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::warn;

use crate::grpc::{CountCalls, GrpcLocks, accept};
use crate::host::{Ended, Host};
use crate::raft::Node;
use crate::replica::Replica;
use crate::store::{Folder, OpenError};

#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder.
    pub data: PathBuf,
    /// The address for clients.
    pub listen: SocketAddr,
    /// The most connections at a time. Further ones are refused.
    pub connections_max: usize,
    /// All other limits.
    pub limits: ServerLimits,
}

/// The server answers this many streams of a connection beyond the limit with a refusal. An HTTP/2 client does not
/// begin further streams: it waits.
const STREAMS_TOLD: u32 = 16;

/// When the server stops, connections with a call have this long to end by themselves. The server counts no leases
/// meanwhile, but clients count theirs: a holder with a short TTL needs the next server soon.
const STOP_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot open the data folder {}: {error}", .data.display())]
    Open { data: PathBuf, error: OpenError },
    #[error("cannot listen on {listen}: {error}; name another address with --listen")]
    Listen { listen: SocketAddr, error: std::io::Error },
    /// The data folder, or a file that must be in it, is missing.
    #[error("data is gone from the data folder {data}: {what}; acknowledged requests may be lost")]
    Gone { data: String, what: String },
    /// A replica without a data folder can no longer serve.
    #[error("{0}")]
    Failed(String),
    #[error("the node stopped by itself; the log has the reason")]
    Stopped,
    #[error("the server stopped serving: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// A server that is ready to serve.
pub struct Server<R: Replica = Node> {
    host: Arc<Host<R>>,
    /// The data folder of the replica, if it has one.
    data: Option<PathBuf>,
    listener: TcpListener,
    address: SocketAddr,
    connections_max: usize,
    streams_max: usize,
}

impl Server {
    /// Binds the port, opens the data, and waits until the node leads. From then on clients can connect.
    pub async fn start(options: &Options) -> Result<Self, ServeError> {
        // The port comes first: a second server on the same port should report the port, whatever its data folder is.
        let (listener, address) = bind(options.listen).await?;
        let closed = |error| ServeError::Open { data: options.data.clone(), error };
        let folder = Arc::new(Folder::open(&options.data).map_err(closed)?);
        let host = Host::open(folder, options.limits, address.to_string()).await.map_err(closed)?;
        let (connections_max, streams_max) = (options.connections_max, options.limits.streams);
        let data = Some(options.data.clone());
        Ok(Server { host: Arc::new(host), data, listener, address, connections_max, streams_max })
    }
}

/// Binds the port for clients. Returns the address with the actual port, too.
pub async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let refused = |error| ServeError::Listen { listen, error };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

impl<R: Replica> Server<R> {
    /// A server over a replica without a data folder, on a port from [`bind`].
    pub fn new(
        host: Host<R>,
        (listener, address): (TcpListener, SocketAddr),
        connections_max: usize,
        streams_max: usize,
    ) -> Self {
        Server { host: Arc::new(host), data: None, listener, address, connections_max, streams_max }
    }

    /// The address with the actual port, if the system chose it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves; then ends the streams, and closes the data. A client that keeps its connection
    /// open delays the stop by at most one second.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { host, data, listener, connections_max, streams_max, .. } = self;
        let stopping = CancellationToken::new();
        let (health, health_service) = tonic_health::server::health_reporter();
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_concurrent_streams(u32::try_from(streams_max).unwrap_or(u32::MAX).saturating_add(STREAMS_TOLD))
            // Windows in bytes. If a client does not read one stream, the other streams of its connection must still be
            // able to send.
            .initial_stream_window_size(Some(1 << 20))
            .initial_connection_window_size(Some(8 << 20))
            .layer(CountCalls)
            .add_service(health_service)
            .add_service(LocksServer::new(GrpcLocks::new(host.clone())))
            .serve_with_incoming_shutdown(
                accept(listener, connections_max, stopping.clone()),
                stopping.clone().cancelled_owned(),
            );
        let stopped = async {
            stop.await;
            host.stop();
            stopping.cancel();
            end_health::<R>(health.clone()).await;
            tokio::time::sleep(STOP_MAX).await;
            warn!("some connections did not end in time, and are closed");
        };
        let ended = tokio::select! {
            served = served => served.map(|()| None)?,
            () = stopped => None,
            ended = host.run() => Some(ended),
            () = report_health(&host, &health) => None,
        };
        let failure = host.shutdown().await;
        match (ended.or(failure.map(Ended::Failed)), data) {
            (None, _) => Ok(()),
            (Some(Ended::Failed(what)), Some(data)) => Err(ServeError::Gone { data: data.display().to_string(), what }),
            (Some(Ended::Failed(why)), None) => Err(ServeError::Failed(why)),
            (Some(Ended::Stopped), _) => Err(ServeError::Stopped),
        }
    }
}

/// Reports that this node does not serve, and ends the health calls that watch it.
async fn end_health<R: Replica>(mut health: HealthReporter) {
    // The empty name stands for the whole server.
    for name in ["", <LocksServer<GrpcLocks<R>> as NamedService>::NAME] {
        health.set_service_status(name, ServingStatus::NotServing).await;
        health.clear_service_status(name).await;
    }
}

/// Reports through gRPC's health service whether this node serves. Returns only when the node is gone.
async fn report_health<R: Replica>(host: &Host<R>, health: &HealthReporter) {
    let mut leads = host.leads();
    loop {
        let serves = *leads.borrow_and_update();
        match serves {
            true => health.set_serving::<LocksServer<GrpcLocks<R>>>().await,
            false => health.set_not_serving::<LocksServer<GrpcLocks<R>>>().await,
        }
        if leads.changed().await.is_err() {
            return;
        }
    }
}
