//! Leader election among the members of a group.

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

/// How many asks may be on their way from callers to the driver.
const ASKS_MAX: usize = 64;

/// A member of a group that elects a leader.
///
/// Dropping it, like [`shutdown`](ElectionPeer::shutdown), leaves the group for good; the others then elect another.
#[derive(Debug)]
pub struct ElectionPeer {
    asks: mpsc::Sender<Ask>,
    leader: watch::Receiver<Leader>,
    status: watch::Receiver<Status>,
    driver: JoinHandle<Result<Stats, PeerError>>,
}

/// Whom a member believes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leader {
    /// None: it knows of none.
    pub id: Option<ProcessId>,
    /// The term of office, where the algorithm counts terms.
    pub term: Option<u64>,
}

impl ElectionPeer {
    /// Becomes member `id` of the group, and waits until all others are there.
    pub async fn join(group: &PeerGroup, id: ProcessId, options: Options) -> Result<ElectionPeer, JoinError> {
        let joined = join(group, id, Family::Election, options).await?;
        registry::visit(group.about().name, &group.params(), Spawn(joined)).map_err(GroupError::from)?
    }

    /// Whom this member believes in, from now on. It ends when the member does.
    pub fn watch_leader(&self) -> watch::Receiver<Leader> {
        self.leader.clone()
    }

    /// Holds an election now.
    pub async fn elect(&self) {
        // A member that does not run any more takes part in no election.
        let _ = self.asks.send(Ask::Elect).await;
    }

    /// What this member has done so far; none if it does not run any more.
    pub async fn stats(&self) -> Option<Stats> {
        let (caller, stats) = oneshot::channel();
        self.asks.send(Ask::Stats(caller)).await.ok()?;
        stats.await.ok()
    }

    /// What this member knows of the others.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Leaves the group.
    pub async fn shutdown(self) -> Result<Stats, PeerError> {
        drop(self.asks);
        crate::join::outcome(self.driver).await
    }
}

/// What the user wants of the driver.
enum Ask {
    Elect,
    Stats(oneshot::Sender<Stats>),
}

/// Starts the driver of whatever algorithm it is.
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

/// Why the member woke up.
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
                    // That nobody waits for the answer any more is none of the driver's business.
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
