//! Leader election among the members of a group, as a program sees it.

use std::sync::Arc;

use baton_protocol::ProcessId;
use baton_protocol::election::{Command, Election as ElectionProtocol, Event};
use baton_trace::Event as Traced;
use serde::Serialize;
use tokio::sync::watch;

use crate::driver::Driver;
use crate::resource::{Resource, User};
use crate::wires::{PeerError, Touched, Wires};

/// The election with one name, at one member. A clone is the same election.
#[derive(Clone)]
pub struct Election {
    resource: Arc<dyn AnyElection>,
    leader: watch::Receiver<Leader>,
}

/// The leader as one member knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leader {
    /// None: the member knows no leader.
    pub id: Option<ProcessId>,
    /// None if the algorithm has no terms.
    pub term: Option<u64>,
}

impl Election {
    pub(crate) fn new(resource: Arc<dyn AnyElection>) -> Self {
        let leader = resource.watch();
        Election { resource, leader }
    }

    /// The leader as this member knows it, now and after every change.
    pub fn watch_leader(&self) -> watch::Receiver<Leader> {
        self.leader.clone()
    }

    /// Starts an election now.
    pub fn elect(&self) {
        self.resource.clone().elect();
    }
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("leader", &*self.leader.borrow()).finish()
    }
}

/// An election, whatever its algorithm is.
pub(crate) trait AnyElection: Send + Sync {
    fn elect(self: Arc<Self>);
    fn watch(&self) -> watch::Receiver<Leader>;
}

/// The programs that watch the leader.
#[derive(Default)]
pub(crate) struct Watchers {
    believed: watch::Sender<Leader>,
    /// An election was asked for before the process was ready.
    wanted: bool,
}

impl<P: ElectionProtocol> AnyElection for Resource<P, Watchers> {
    fn elect(self: Arc<Self>) {
        self.step(|core, _, _| core.user.wanted = true);
    }

    fn watch(&self) -> watch::Receiver<Leader> {
        self.core().user.believed.subscribe()
    }
}

impl<P: ElectionProtocol> User<P> for Watchers {
    type Calls = ();

    fn settle(&mut self, driver: &mut Driver<P>, wires: &Wires, touched: &mut Touched) {
        if self.wanted && driver.is_ready() {
            self.wanted = false;
            driver.request(wires.next_request(), wires);
            driver.command(Command::Elect, wires, touched);
        }
        while let Some((_, Event::Elected { leader, term })) = driver.take_event() {
            driver.journal(wires, || Traced::Elected { leader, term });
            self.believed.send_replace(Leader { id: leader, term });
        }
    }

    fn call(_: &Arc<Resource<P, Self>>, (): ()) {}

    /// A member that serves no longer knows no leader, not even itself.
    fn stop(&mut self, _: &PeerError) -> Vec<Box<dyn FnOnce() + Send>> {
        self.believed.send_modify(|leader| leader.id = None);
        Vec::new()
    }
}
