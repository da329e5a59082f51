//! A whole server: the replica with its front end, and the port that serves them.

mod opening;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_api::v1::feed_server::FeedServer;
use baton_api::v1::locks_server::LocksServer;
use baton_api::v1::members_server::MembersServer;
use baton_api::v1::proofs_server::ProofsServer;
use baton_types::limits::ServerLimits;
use baton_types::name;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::warn;

use crate::grpc::{
    BoundFrames, CARRIED_MAX, Carrier, Carry, CountCalls, GrpcFeed, GrpcLocks, GrpcMembers, GrpcProofs,
    REQUEST_TIME_MAX, ReadRequests, accept, watch_own_address,
};
use crate::host::{Ended, Host};
use crate::raft::{Anew, Node, Timing, Wishes};
use crate::replica::{Leadership, Replica};
use crate::store::OpenError;
use opening::Begins;

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
    /// How other nodes reach this one. None: the node is alone.
    pub peers: Option<PeerOptions>,
    /// What the node wants of its cluster.
    pub wishes: Wishes,
    /// The node leaves its cluster, and begins another one with its data, alone.
    pub anew: Option<Anew>,
}

/// How a node reaches the other nodes of its cluster, and they reach it.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The address for other nodes.
    pub listen: SocketAddr,
    /// None: the node keeps its name. A new node that is alone has the name `default`.
    pub name: Option<String>,
    /// Where clients reach the node, host:port. None: at the address that it listens on.
    pub advertise: Option<String>,
    /// Where other nodes reach the node, host:port. None: at the address in the list of the cluster, or else at the
    /// address that it listens on.
    pub peer_advertise: Option<String>,
    pub beginning: Beginning,
    /// Addresses of other nodes that this node reaches at another address.
    pub routes: BTreeMap<String, String>,
    pub timing: Timing,
}

/// What a node with an empty data folder does. Any other node goes on in its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// It becomes a cluster of one node, to which others can be added.
    #[default]
    GoOn,
    /// It forms a cluster with the nodes of this list, itself included. Each has a name and an address for other nodes.
    Cluster(Vec<(String, String)>),
    /// It waits until the cluster takes it in. The address is that of any member, for other nodes.
    Join(String),
}

/// The server answers this many streams of a connection beyond the limit with a refusal. An HTTP/2 client does not
/// begin further streams: it waits.
const STREAMS_TOLD: u32 = 16;

/// How much a client may send on one stream, and on all streams of a connection, before the server reads it. If the server
/// does not read one stream, the other streams of its connection must still be able to send.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// The longest headers of a request.
const HEADERS_BYTES_MAX: u32 = 8 << 10;

/// When the server stops, connections with a call have this long to end by themselves. The server counts no leases
/// meanwhile, but clients count theirs: a holder with a short TTL needs the next server soon.
const STOP_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot open the data folder {}: {error}{remedy}", name::path(.data))]
    Open {
        data: PathBuf,
        error: OpenError,
        /// What to do about it, if the error does not say it.
        remedy: String,
    },
    #[error("cannot listen on {listen}: {error}; name another address with {flag}")]
    Listen { listen: SocketAddr, error: std::io::Error, flag: &'static str },
    /// The options contradict each other.
    #[error("{0}")]
    BadOptions(String),
    /// The node cannot be part of the cluster. The sentence says what to do.
    #[error("{0}")]
    Refused(String),
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
    peer_address: Option<SocketAddr>,
    connections_max: usize,
    streams_max: usize,
    carried_max: usize,
    /// What the node does to become part of a cluster.
    begins: Option<Begins>,
}

/// Binds the port for clients. Returns the address with the actual port, too.
pub async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    bind_as(listen, "--listen").await
}

/// Binds a port that this option of the command line names.
async fn bind_as(listen: SocketAddr, flag: &'static str) -> Result<(TcpListener, SocketAddr), ServeError> {
    let refused = |error| ServeError::Listen { listen, error, flag };
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
        let (host, data, peer_address, begins) = (Arc::new(host), None, None, None);
        let carried_max = CARRIED_MAX;
        Server { host, data, listener, address, peer_address, connections_max, streams_max, carried_max, begins }
    }

    /// Changes the most streams and calls that this node carries to the leader at a time.
    #[doc(hidden)]
    #[must_use]
    pub fn carry_at_most(self, carried_max: usize) -> Self {
        Server { carried_max, ..self }
    }

    /// The address with the actual port, if the system chose it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for other nodes, with the actual port.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer_address
    }

    /// Serves until `stop` resolves; then lets another node lead, ends the streams, and closes the data. The other node,
    /// and a client that keeps its connection open, delay the stop by at most one second each.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { host, data, listener, connections_max, streams_max, carried_max, begins, .. } = self;
        let stopping = CancellationToken::new();
        let places = Arc::new(Semaphore::new(connections_max));
        let carry = Carry(Arc::new(Carrier::new(host.clone(), carried_max, places.clone(), stopping.clone())));
        let (health, health_service) = tonic_health::server::health_reporter();
        // A call that comes before the first report finds a service that does not serve yet, not one that does not exist.
        health.set_not_serving::<LocksServer<GrpcLocks<R>>>().await;
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_concurrent_streams(u32::try_from(streams_max).unwrap_or(u32::MAX).saturating_add(STREAMS_TOLD))
            .initial_stream_window_size(Some(STREAM_WINDOW_BYTES))
            .initial_connection_window_size(Some(CONNECTION_WINDOW_BYTES))
            .http2_max_header_list_size(Some(HEADERS_BYTES_MAX))
            .layer(CountCalls)
            .layer(ReadRequests { within: REQUEST_TIME_MAX })
            .layer(carry)
            .layer(BoundFrames)
            .add_service(health_service)
            .add_service(LocksServer::new(GrpcLocks::new(host.clone())))
            .add_service(FeedServer::new(GrpcFeed::new(host.clone())))
            .add_service(MembersServer::new(GrpcMembers::new(host.clone())))
            .add_service(ProofsServer::new(GrpcProofs::new(host.clone())))
            .serve_with_incoming_shutdown(
                accept(listener, places, connections_max, stopping.clone()),
                stopping.clone().cancelled_owned(),
            );
        let stopped = async {
            stop.await;
            // The streams end when the other node leads, so that their clients find it at once.
            host.hand_over().await;
            host.stop();
            stopping.cancel();
            end_health::<R>(health.clone()).await;
            tokio::time::sleep(STOP_MAX).await;
            warn!("some connections did not end in time, and are closed");
        };
        let ended = tokio::select! {
            served = served => served.map(|()| None).map_err(ServeError::from),
            () = stopped => Ok(None),
            ended = host.run() => Ok(Some(ended)),
            why = opening::refused(begins) => Err(ServeError::Refused(why)),
            () = report_health(&host, &health) => Ok(None),
            () = watch_own_address(&host) => Ok(None),
        };
        let failure = host.shutdown().await;
        match (ended?.or(failure.map(Ended::Failed)), data) {
            (None, _) => Ok(()),
            (Some(Ended::Failed(what)), Some(data)) => Err(ServeError::Gone { data: name::path(&data), what }),
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

/// How often a follower looks whether its leader has space.
const LEADER_EVERY: Duration = Duration::from_secs(2);

/// Reports through gRPC's health service whether this node serves: it leads and has space for new sessions and acquires, or
/// it knows a leader with space to carry its clients to. Returns only when the node is gone.
async fn report_health<R: Replica>(host: &Host<R>, health: &HealthReporter) {
    let (mut accepts, mut leadership) = (host.accepts(), host.leadership());
    let (mut full_leader, mut told) = (None, None);
    loop {
        let leader = match *leadership.borrow_and_update() {
            Leadership::DoesNotLead { leader } => leader,
            Leadership::Leads { .. } => None,
        };
        let follows = leader.is_some() && leader != full_leader;
        let serves = *accepts.borrow_and_update() || follows;
        if told.replace(serves) != Some(serves) {
            match serves {
                true => health.set_serving::<LocksServer<GrpcLocks<R>>>().await,
                false => health.set_not_serving::<LocksServer<GrpcLocks<R>>>().await,
            }
        }
        let changed = tokio::select! {
            changed = accepts.changed() => changed,
            changed = leadership.changed() => changed,
            full = look_at(host, leader) => {
                full_leader = full;
                Ok(())
            }
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Waits a while. Returns the leader of this node if it has too little space.
async fn look_at<R: Replica>(host: &Host<R>, leader: Option<u64>) -> Option<u64> {
    let Some(leader) = leader else { return std::future::pending().await };
    tokio::time::sleep(LEADER_EVERY).await;
    let cluster = host.cluster().await?;
    cluster.members.iter().any(|member| member.id == leader && member.low_space).then_some(leader)
}
