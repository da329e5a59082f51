//! Servers of a cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_service::raft::{Timing, Wishes};
use baton_service::server::{Beginning, Options, PeerOptions, ServeError, Server};
use baton_types::limits::ServerLimits;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

/// Longer than any wait in these tests.
pub const LONG: Duration = Duration::from_secs(60);
/// Between two looks at something that changes by itself.
pub const PAUSE: Duration = Duration::from_millis(20);

/// An address that no other test uses: each process has an IP address of its own. So an address can be used again after a
/// restart.
pub fn address() -> SocketAddr {
    static LAST: AtomicU16 = AtomicU16::new(20_000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let ip = IpAddr::V4(Ipv4Addr::new(127, 64 | a, b, c));
    SocketAddr::new(ip, LAST.fetch_add(1, Ordering::Relaxed))
}

/// A server with its folder. It can be stopped or killed, and started again.
pub struct TestServer {
    pub name: String,
    pub options: Options,
    running: Option<Running>,
    _folder: TempDir,
}

struct Running {
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<Result<(), ServeError>>,
}

impl TestServer {
    /// A server that is not started yet.
    pub fn new(name: &str, beginning: Beginning) -> Self {
        let folder = TempDir::new().unwrap();
        let ms = Duration::from_millis;
        let peers = PeerOptions {
            listen: address(),
            name: Some(name.to_owned()),
            advertise: None,
            peer_advertise: None,
            beginning,
            routes: BTreeMap::new(),
            // The machine that runs the tests is busy.
            timing: Timing { heartbeat: ms(100), election_min: ms(500), election_max: ms(1000) },
        };
        let data = folder.path().join("data");
        let limits = ServerLimits::default();
        let (peers, wishes) = (Some(peers), Wishes::default());
        let options = Options { data, listen: address(), connections_max: 100, limits, peers, wishes, anew: None };
        TestServer { name: name.to_owned(), options, running: None, _folder: folder }
    }

    pub fn peers(&mut self) -> &mut PeerOptions {
        self.options.peers.as_mut().unwrap()
    }

    pub fn peer_address(&self) -> String {
        self.options.peers.as_ref().unwrap().listen.to_string()
    }

    pub async fn start(&mut self) {
        self.try_start().await.unwrap();
    }

    pub async fn try_start(&mut self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ended) = oneshot::channel();
        let (ready, started) = oneshot::channel();
        let options = self.options.clone();
        runtime.spawn(async move {
            match Server::start(&options).await {
                Ok(server) => {
                    let _ = ready.send(Ok(()));
                    let _ = tell.send(server.run(async move { drop(stopped.await) }).await);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        let started = tokio::time::timeout(LONG, started).await.expect("it starts").unwrap();
        self.running = Some(Running { runtime, stop, ended });
        if started.is_err() {
            self.kill();
        }
        started
    }

    /// All its threads end, and its sockets close, without a word to anybody.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Stops the server cleanly.
    pub async fn stop(&mut self) -> Result<(), ServeError> {
        let Running { runtime, stop, ended } = self.running.take().expect("it runs");
        drop(stop);
        let ended = tokio::time::timeout(LONG, ended).await.expect("it stops").unwrap();
        runtime.shutdown_background();
        ended
    }

    /// Waits until one of the servers ends by itself. The others go on.
    pub async fn first_to_end(servers: &mut [TestServer]) -> Result<(), ServeError> {
        let ended = servers.iter_mut().map(|server| &mut server.running.as_mut().expect("it runs").ended);
        let first = tokio::time::timeout(LONG, futures::future::select_all(ended)).await;
        let (ended, first, _) = first.expect("one of them ends");
        servers[first].kill();
        ended.unwrap()
    }

    /// Waits until the server ends by itself.
    pub async fn ends(&mut self) -> Result<(), ServeError> {
        let Running { runtime, ended, stop: _stop } = self.running.take().expect("it runs");
        let ended = tokio::time::timeout(LONG, ended).await.expect("it ends").unwrap();
        runtime.shutdown_background();
        ended
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.options.listen)).unwrap();
        tokio::time::timeout(LONG, endpoint.connect()).await.expect("it accepts connections").unwrap()
    }

    pub async fn locks(&self) -> LocksClient<Channel> {
        LocksClient::new(self.channel().await)
    }

    pub async fn status(&self) -> v1::GetStatusResponse {
        let mut locks = self.locks().await;
        let status = tokio::time::timeout(LONG, locks.get_status(v1::GetStatusRequest { own: false })).await;
        status.expect("a status").unwrap().into_inner()
    }

    pub async fn cluster(&self) -> v1::Cluster {
        self.status().await.cluster.expect("a node has a cluster")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The servers of a cluster that was formed by a list.
pub struct Cluster(pub Vec<TestServer>);

impl Cluster {
    /// Three servers, a, b and c.
    pub async fn start() -> Self {
        let mut cluster = Cluster::new();
        for server in &mut cluster.0 {
            server.start().await;
        }
        cluster
    }

    pub fn new() -> Self {
        let mut servers: Vec<TestServer> =
            ["a", "b", "c"].iter().map(|name| TestServer::new(name, Beginning::GoOn)).collect();
        let list: Vec<_> = servers.iter().map(|server| (server.name.clone(), server.peer_address())).collect();
        for server in &mut servers {
            server.peers().beginning = Beginning::Cluster(list.clone());
        }
        Cluster(servers)
    }

    /// Waits until all servers that run agree on a leader that runs. Returns its place, and those of the others.
    pub async fn leader(&self) -> (usize, Vec<usize>) {
        let agree = async {
            loop {
                if let Some(leader) = self.agreed().await {
                    return leader;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let leader = tokio::time::timeout(LONG, agree).await.expect("one of them leads");
        let others = (0..self.0.len()).filter(|at| *at != leader && self.0[*at].is_running()).collect();
        (leader, others)
    }

    async fn agreed(&self) -> Option<usize> {
        let mut leader = None;
        let mut told = Vec::new();
        for (at, server) in self.0.iter().enumerate().filter(|(_, server)| server.is_running()) {
            let status = server.status().await;
            if status.role == "leader" {
                leader = Some((at, status.node));
            }
            told.push(status.cluster?.leader);
        }
        let (at, node) = leader?;
        told.iter().all(|told| *told == Some(node)).then_some(at)
    }
}
