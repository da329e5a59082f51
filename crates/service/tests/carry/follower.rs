//! A server over a replica that never leads. It follows whomever the test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use baton_service::host::{Host, Reports};
use baton_service::replica::{Leadership, Replica, Role, Status};
use baton_service::server::{ServeError, Server, bind};
use baton_service::state::{Entry, State};
use baton_types::frames::Leader;
use baton_types::limits::ServerLimits;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

struct Follows {
    state: State,
    leader: Arc<Mutex<Option<Leader>>>,
    leadership: watch::Receiver<Leadership>,
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

    fn leader(&self) -> Option<Leader> {
        self.leader.lock().unwrap().clone()
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
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Follower {
    pub async fn of(leader: Option<Leader>) -> Self {
        Follower::with_limits(leader, 100, 100).await
    }

    pub async fn with_limits(leader: Option<Leader>, connections_max: usize, carried_max: usize) -> Self {
        let (leadership, told) = watch::channel(of(leader.as_ref()));
        let leader = Arc::new(Mutex::new(leader));
        let replica = Follows { state: State::default(), leader: leader.clone(), leadership: told };
        let open = async |_: Reports<Follows>| Ok::<_, ServeError>(replica);
        let host = Host::start(ServerLimits::default(), open).await.unwrap();
        let port = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let server = Server::new(host, port, connections_max, ServerLimits::default().streams);
        let server = server.carry_at_most(carried_max);
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Follower { address, leader, leadership, stop: Some(stop), served }
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
