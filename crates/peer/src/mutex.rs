//! Mutual exclusion among the members of a group, as a user sees it.

use std::collections::VecDeque;

use baton_protocol::mutex::{Command, Event, Mutex};
use baton_protocol::registry::{self, About, Family, Visitor};
use baton_protocol::{Group, ProcessId};
use baton_trace::Event as Traced;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::driver::{Driver, Incoming, PeerError, Stats, Status};
use crate::frame::unique_id;
use crate::group::{GroupError, PeerGroup};
use crate::join::{Joined, family_name, join};
use crate::link::JoinError;
use crate::options::{Options, Warning};

/// How many callers of one member may wait for the critical section.
pub const CALLERS_MAX: usize = 1024;

/// How many asks may be queued for the driver.
const ASKS_MAX: usize = 64;

/// A member of a group for mutual exclusion.
///
/// The member answers the other members as long as it exists, whether or not its user makes requests. Dropping it, like
/// [`shutdown`](MutexPeer::shutdown), leaves the group for good. Most algorithms do not survive that: see
/// [`Crashes`](baton_protocol::registry::Crashes) and [`watch_status`](MutexPeer::watch_status).
#[derive(Debug)]
pub struct MutexPeer {
    id: ProcessId,
    clients: usize,
    asks: mpsc::Sender<Ask>,
    status: watch::Receiver<Status>,
    driver: JoinHandle<Result<Stats, PeerError>>,
}

/// The right to be in the critical section, until it is dropped or released.
#[derive(Debug)]
#[must_use = "the critical section is left as soon as the grant is dropped"]
pub struct Grant {
    fence: u64,
    /// The driver notices when this sender is dropped, wherever that happens: also on the way to a caller that is gone.
    _held: oneshot::Sender<()>,
}

impl Grant {
    /// Greater than the fence of every earlier grant in the group.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Leaves the critical section.
    pub fn release(self) {}
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// This member is a helper and makes no requests.
    #[error("P{id} is a helper, and only P0 to P{} may request", clients - 1)]
    NotAClient { id: ProcessId, clients: usize },
    #[error("{CALLERS_MAX} callers of this process already wait, which is the limit")]
    TooManyCallers,
    #[error("this process has left the group")]
    Gone,
}

impl MutexPeer {
    /// Joins the group as member `id`, and waits until all other members are connected.
    pub async fn join(group: &PeerGroup, id: ProcessId, options: Options) -> Result<MutexPeer, JoinError> {
        let joined = join(group, id, Family::Mutex, options).await?;
        registry::visit(group.about().name, &group.params(), Spawn(joined)).map_err(GroupError::from)?
    }

    /// Waits for the critical section. Callers of one member enter in the order of their calls.
    ///
    /// If this future is dropped before the grant, the request is given up. No algorithm can take back a request, so
    /// the member leaves the critical section as soon as the grant comes.
    ///
    /// If a member is lost, this may wait for ever: for most algorithms a dead process is just slow to answer.
    /// [`watch_status`](MutexPeer::watch_status) shows the lost members.
    pub async fn acquire(&self) -> Result<Grant, AcquireError> {
        if self.id >= self.clients {
            return Err(AcquireError::NotAClient { id: self.id, clients: self.clients });
        }
        let (caller, grant) = oneshot::channel();
        self.asks.send(Ask::Acquire(caller)).await.map_err(|_| AcquireError::Gone)?;
        grant.await.unwrap_or(Err(AcquireError::Gone))
    }

    /// The counters of this member. None if the member has stopped.
    pub async fn stats(&self) -> Option<Stats> {
        let (caller, stats) = oneshot::channel();
        self.asks.send(Ask::Stats(caller)).await.ok()?;
        stats.await.ok()
    }

    /// Tells the other members that this member will make no more requests. It goes on answering them.
    pub async fn announce_done(&self) {
        // A member that has stopped is done too, and the other members know.
        let _ = self.asks.send(Ask::AnnounceDone).await;
    }

    /// The members that are done or lost, as far as this member knows.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Leaves the group. A caller in the critical section is not removed from it, and no other process will enter:
    /// release first.
    pub async fn shutdown(self) -> Result<Stats, PeerError> {
        drop(self.asks);
        crate::join::outcome(self.driver).await
    }
}

enum Ask {
    Acquire(Caller),
    Stats(oneshot::Sender<Stats>),
    AnnounceDone,
}

type Caller = oneshot::Sender<Result<Grant, AcquireError>>;

/// Starts the driver, whatever the algorithm is.
struct Spawn(Joined);

impl Visitor for Spawn {
    type Output = Result<MutexPeer, JoinError>;

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        let clients = group.clients;
        let driver = self.0.drive(&group);
        let (id, status) = (driver.me, driver.watch_status());
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let queue = CallerQueue { driver, asked, waiting: VecDeque::new(), turn: Turn::Idle };
        Ok(MutexPeer { id, clients, asks, status, driver: tokio::spawn(queue.run()) })
    }

    fn unsupported(self, about: &'static About) -> Self::Output {
        let (found, needed) = (family_name(about.family), family_name(Family::Mutex));
        Err(JoinError::Family { algorithm: about.name, found, needed })
    }
}

/// The queue of the callers of one member. It is needed because the protocol handles one request at a time.
struct CallerQueue<P: Mutex> {
    driver: Driver<P>,
    asked: mpsc::Receiver<Ask>,
    waiting: VecDeque<Caller>,
    turn: Turn,
}

/// The state of the member's current request.
enum Turn {
    Idle,
    /// The protocol has a request on behalf of this caller.
    Requested {
        req: u64,
        caller: Caller,
    },
    /// A caller is in the critical section until it drops the other end of `held`.
    Inside {
        req: u64,
        held: oneshot::Receiver<()>,
    },
}

enum Wake<T> {
    Released,
    Asked(Option<Ask>),
    Incoming(Incoming<T>),
}

impl<P: Mutex> CallerQueue<P> {
    async fn run(mut self) -> Result<Stats, PeerError> {
        let outcome = self.serve().await;
        let reason = outcome.as_ref().map_or_else(ToString::to_string, |()| "shutdown".to_string());
        let stats = self.driver.leave(&reason).await;
        outcome.map(|()| stats)
    }

    async fn serve(&mut self) -> Result<(), PeerError> {
        self.driver.start()?;
        loop {
            self.settle()?;
            let wake = tokio::select! {
                // Handle a release before an ask that came after it.
                biased;
                () = released(&mut self.turn) => Wake::Released,
                ask = self.asked.recv() => Wake::Asked(ask),
                incoming = self.driver.next() => Wake::Incoming(incoming),
            };
            match wake {
                Wake::Released => self.release()?,
                Wake::Asked(Some(ask)) => self.on_ask(ask)?,
                Wake::Asked(None) => return Ok(()),
                Wake::Incoming(incoming) => self.driver.handle(incoming)?,
            }
        }
    }

    fn on_ask(&mut self, ask: Ask) -> Result<(), PeerError> {
        // Ignore failed sends: the caller no longer waits for the answer.
        match ask {
            Ask::Acquire(caller) if self.waiting.len() >= CALLERS_MAX => {
                let _ = caller.send(Err(AcquireError::TooManyCallers));
            }
            Ask::Acquire(caller) => self.waiting.push_back(caller),
            Ask::Stats(caller) => {
                let _ = caller.send(self.driver.stats.clone());
            }
            Ask::AnnounceDone => self.driver.announce_done()?,
        }
        Ok(())
    }

    /// Passes on grants and requests for the next caller, until there is nothing to do but wait.
    fn settle(&mut self) -> Result<(), PeerError> {
        loop {
            if let Some(Event::Granted { fence }) = self.driver.take_event() {
                self.on_granted(fence)?;
            } else if !self.request_for_the_next()? {
                return Ok(());
            }
        }
    }

    fn request_for_the_next(&mut self) -> Result<bool, PeerError> {
        if !matches!(self.turn, Turn::Idle) {
            return Ok(false);
        }
        // Skip callers that gave up before the protocol had their request.
        while let Some(caller) = self.waiting.pop_front() {
            if !caller.is_closed() {
                let req = unique_id(self.driver.me, self.driver.stats.requests);
                let lamport = self.driver.tick();
                self.driver.stats.requests += 1;
                self.driver.journal.write(|| Traced::Request { req, lamport });
                self.turn = Turn::Requested { req, caller };
                self.driver.command(Command::Acquire)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_granted(&mut self, fence: u64) -> Result<(), PeerError> {
        match std::mem::replace(&mut self.turn, Turn::Idle) {
            Turn::Requested { req, caller } if caller.is_closed() => {
                self.driver.stats.cancelled += 1;
                self.driver.journal.write(|| Traced::Cancel { req });
                self.driver.command(Command::Release)
            }
            Turn::Requested { req, caller } => {
                self.driver.stats.entries += 1;
                self.driver.journal.write(|| Traced::Enter { req, fence });
                let (holder, held) = oneshot::channel();
                self.turn = Turn::Inside { req, held };
                // If the caller gave up at this moment, the grant is dropped here, and so released.
                let _ = caller.send(Ok(Grant { fence, _held: holder }));
                Ok(())
            }
            turn @ (Turn::Idle | Turn::Inside { .. }) => {
                self.turn = turn;
                self.driver.warnings.tell(Warning::UnexpectedGrant { fence });
                Ok(())
            }
        }
    }

    fn release(&mut self) -> Result<(), PeerError> {
        if let Turn::Inside { req, .. } = std::mem::replace(&mut self.turn, Turn::Idle) {
            self.driver.journal.write(|| Traced::Exit { req });
            self.driver.command(Command::Release)?;
        }
        Ok(())
    }
}

/// Waits until the caller in the critical section, if there is one, has left.
async fn released(turn: &mut Turn) {
    match turn {
        Turn::Inside { held, .. } => {
            // The caller sends nothing. It only drops its end.
            let _ = held.await;
        }
        Turn::Idle | Turn::Requested { .. } => std::future::pending().await,
    }
}
