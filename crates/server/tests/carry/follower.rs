//! A server over a replica that never leads. It follows whomever the test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_server::host::{Host, Reports};
use baton_server::replica::{Leadership, Replica, Role, Status};
use baton_server::server::{ServeError, Server, bind};
use baton_state::state::{Command, Entry, Outcome, State};
use baton_types::cluster_id::ClusterId;
use baton_types::frames::Leader;
use baton_types::limits::ServerLimits;
use baton_types::views::{Cluster, Member};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// The cluster of the follower and its leader.
pub fn cluster() -> ClusterId {
    ClusterId::new(0xc1).unwrap()
}

struct Follows {
    state: State,
    leader: Arc<Mutex<Option<Leader>>>,
    leadership: watch::Receiver<Leadership>,
    full: Arc<AtomicBool>,
}

impl Replica for Follows {
    fn submit(&self, _: u64, _: Entry) {
        panic!("a follower proposes nothing");
    }

    async fn read_index(&self) -> bool {
        false
    }

    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state)
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    fn status(&self) -> Status {
        Status { node: 2, role: Role::Follower, term: 1, commit: 0, applied: 0 }
    }

    fn cluster_id(&self) -> ClusterId {
        cluster()
    }

    /// It knows of its cluster only that the leader has too little space.
    async fn cluster(&self) -> Option<Cluster> {
        let leader = self.leader().filter(|_| self.full.load(Ordering::SeqCst))?.node;
        let member = Member { id: leader, low_space: true, ..Member::default() };
        Some(Cluster { leader: Some(leader), members: vec![member], ..Cluster::default() })
    }

    fn leader(&self) -> Option<Leader> {
        self.leader.lock().unwrap().clone()
    }

    /// Clients are not sent to node 9.
    fn address_remark(&self, node: u64) -> Option<String> {
        (node == 9).then(|| "it advertises a loopback address".to_owned())
    }

    fn age_ms(&self) -> Option<u64> {
        Some(17)
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn failure(&self) -> Option<String> {
        None
    }

    async fn shutdown(&self) {}
}

pub struct Follower {
    pub address: SocketAddr,
    leader: Arc<Mutex<Option<Leader>>>,
    leadership: watch::Sender<Leadership>,
    /// Whether the leader has too little space.
    pub full: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Follower {
    pub async fn of(leader: Option<Leader>) -> Self {
        Follower::with_limits(leader, 100, 100).await
    }

    /// It has applied these commands.
    pub async fn that_knows(leader: Leader, commands: &[Command]) -> Self {
        let mut state = State::default();
        commands.iter().for_each(|command| state.apply(1, 1, command, &mut Outcome::default()));
        Follower::start(Some(leader), state, 100, 100).await
    }

    pub async fn with_limits(leader: Option<Leader>, connections_max: usize, carried_max: usize) -> Self {
        Follower::start(leader, State::default(), connections_max, carried_max).await
    }

    async fn start(leader: Option<Leader>, state: State, connections_max: usize, carried_max: usize) -> Self {
        let (leadership, told) = watch::channel(of(leader.as_ref()));
        let leader = Arc::new(Mutex::new(leader));
        let full = Arc::<AtomicBool>::default();
        let replica = Follows { state, leader: leader.clone(), leadership: told, full: full.clone() };
        let open = async |_: Reports<Follows>| Ok::<_, ServeError>(replica);
        let host = Host::start(ServerLimits::default(), open).await.unwrap();
        let port = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let server = Server::new(host, port, connections_max, ServerLimits::default().streams);
        let server = server.carry_at_most(carried_max);
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Follower { address, leader, leadership, full, stop: Some(stop), served }
    }

    pub fn follow(&self, leader: Option<Leader>) {
        let now = of(leader.as_ref());
        *self.leader.lock().unwrap() = leader;
        self.leadership.send_replace(now);
    }

    /// A new connection of a client.
    pub async fn connect(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub fn begin_to_stop(&mut self) {
        drop(self.stop.take());
    }

    pub async fn stopped(self) -> Result<(), ServeError> {
        tokio::time::timeout(super::bytes::LONG, self.served).await.expect("it stops").unwrap()
    }
}

fn of(leader: Option<&Leader>) -> Leadership {
    Leadership::DoesNotLead { leader: leader.map(|leader| leader.node) }
}
