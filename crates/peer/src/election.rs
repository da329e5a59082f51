//! Leader election among the members of a group, as a user sees it.

use baton_protocol::election::{Command, Election, Event};
use baton_protocol::registry::{self, About, Family, Visitor};
use baton_protocol::{Group, ProcessId};
use baton_trace::Event as Traced;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::driver::{Driver, Incoming, PeerError, Stats, Status};
use crate::group::{GroupError, PeerGroup};
use crate::join::{Joined, family_name, join};
use crate::link::JoinError;
use crate::options::Options;

/// How many asks may be queued for the driver.
const ASKS_MAX: usize = 64;

/// A member of a group that elects a leader.
///
/// Dropping it, like [`shutdown`](ElectionPeer::shutdown), leaves the group for good. If it was the leader, the other
/// members elect another one.
#[derive(Debug)]
pub struct ElectionPeer {
    asks: mpsc::Sender<Ask>,
    leader: watch::Receiver<Leader>,
    status: watch::Receiver<Status>,
    driver: JoinHandle<Result<Stats, PeerError>>,
}

/// The leader as one member knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leader {
    /// None: the member knows no leader.
    pub id: Option<ProcessId>,
    /// None if the algorithm has no terms.
    pub term: Option<u64>,
}

impl ElectionPeer {
    /// Joins the group as member `id`, and waits until all other members are connected.
    pub async fn join(group: &PeerGroup, id: ProcessId, options: Options) -> Result<ElectionPeer, JoinError> {
        let joined = join(group, id, Family::Election, options).await?;
        registry::visit(group.about().name, &group.params(), Spawn(joined)).map_err(GroupError::from)?
    }

    /// The leader as this member knows it, now and after every change. The channel closes when the member stops.
    pub fn watch_leader(&self) -> watch::Receiver<Leader> {
        self.leader.clone()
    }

    /// Starts an election now.
    pub async fn elect(&self) {
        // A member that has stopped takes part in no election.
        let _ = self.asks.send(Ask::Elect).await;
    }

    /// The counters of this member. None if the member has stopped.
    pub async fn stats(&self) -> Option<Stats> {
        let (caller, stats) = oneshot::channel();
        self.asks.send(Ask::Stats(caller)).await.ok()?;
        stats.await.ok()
    }

    /// The members that are done or lost, as far as this member knows.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    pub async fn shutdown(self) -> Result<Stats, PeerError> {
        drop(self.asks);
        crate::join::outcome(self.driver).await
    }
}

enum Ask {
    Elect,
    Stats(oneshot::Sender<Stats>),
}

/// Starts the driver, whatever the algorithm is.
struct Spawn(Joined);

impl Visitor for Spawn {
    type Output = Result<ElectionPeer, JoinError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        let (found, needed) = (family_name(about.family), family_name(Family::Election));
        Err(JoinError::Family { algorithm: about.name, found, needed })
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> Self::Output {
        let driver = self.0.drive(&group);
        let status = driver.watch_status();
        let (believed, leader) = watch::channel(Leader::default());
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let voter = Member { driver, asked, believed };
        Ok(ElectionPeer { asks, leader, status, driver: tokio::spawn(voter.run()) })
    }
}

struct Member<P: Election> {
    driver: Driver<P>,
    asked: mpsc::Receiver<Ask>,
    believed: watch::Sender<Leader>,
}

enum Wake<T> {
    Asked(Option<Ask>),
    Incoming(Incoming<T>),
}

impl<P: Election> Member<P> {
    async fn run(mut self) -> Result<Stats, PeerError> {
        let outcome = self.serve().await;
        let reason = outcome.as_ref().map_or_else(ToString::to_string, |()| "shutdown".to_string());
        let stats = self.driver.leave(&reason).await;
        outcome.map(|()| stats)
    }

    async fn serve(&mut self) -> Result<(), PeerError> {
        self.driver.start()?;
        loop {
            self.tell_leader();
            let wake = tokio::select! {
                ask = self.asked.recv() => Wake::Asked(ask),
                incoming = self.driver.next() => Wake::Incoming(incoming),
            };
            match wake {
                Wake::Asked(Some(Ask::Elect)) => self.driver.command(Command::Elect)?,
                Wake::Asked(Some(Ask::Stats(caller))) => {
                    // Ignore a failed send: the caller no longer waits for the answer.
                    let _ = caller.send(self.driver.stats.clone());
                }
                Wake::Asked(None) => return Ok(()),
                Wake::Incoming(incoming) => self.driver.handle(incoming)?,
            }
        }
    }

    fn tell_leader(&mut self) {
        while let Some(Event::Elected { leader, term }) = self.driver.take_event() {
            self.driver.journal.write(|| Traced::Elected { leader, term });
            self.believed.send_replace(Leader { id: leader, term });
        }
    }
}
