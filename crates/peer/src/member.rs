//! A member of a group: its links to the other members, and its resources.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_protocol::registry::Family;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::detector::Detector;
use crate::driver::Stats;
use crate::election::Election;
use crate::group::{GroupError, MemberId, PeerGroup};
use crate::handshake::{Hello, Incarnations, LinkError, Met, Refusal};
use crate::journal::Journal;
use crate::link::{self, Owner, Pace, PeerHealth};
use crate::lock::{AcquireError, Lock};
use crate::options::{Options, Warning, Warnings};
use crate::reception::{Reception, listen};
use crate::resources::{Face, Names, Resources};
use crate::wires::{PeerError, Touched, Wires};
use crate::{frame::Item, handshake};

/// How long leaving waits until the other members have acknowledged everything.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper limit for a time given by the user, so that `Instant` does not overflow.
const START_WITHIN_MAX: Duration = Duration::from_secs(365 * 86_400);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    /// One of the two members refused the connection.
    #[error("no connection with process {peer} at {address}: {error}")]
    Refused { peer: MemberId, address: String, error: LinkError },
    /// Some members did not connect in time.
    #[error("the group is not complete after {:.1} s; missing: {}", waited.as_secs_f64(), missing_text(missing))]
    Incomplete { waited: Duration, missing: Vec<Missing> },
}

/// A member that is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub id: MemberId,
    pub address: String,
    /// The error of the last attempt. None if the missing member has to connect, not this one.
    pub last: Option<LinkError>,
}

fn missing_text(missing: &[Missing]) -> String {
    let texts: Vec<String> = missing
        .iter()
        .map(|Missing { id, address, last }| match last {
            Some(error) => format!("{id} at {address} ({error})"),
            None => format!("{id} at {address} (has not connected)"),
        })
        .collect();
    texts.join(", ")
}

/// A wait that may have no end: without this member the algorithm cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hopeless {
    pub peer: MemberId,
    pub not_heard_for: Duration,
    pub left: bool,
}

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left {
            true => write!(f, "waiting for process {}, which has left the group", self.peer),
            false => write!(
                f,
                "waiting for process {}, not heard of for {:.1} s",
                self.peer,
                self.not_heard_for.as_secs_f64()
            ),
        }
    }
}

/// A member of a group. A clone is the same member. When the last clone is dropped, the member leaves at once; see
/// [`shutdown`](Member::shutdown) for the proper way.
///
/// The member answers the other members as long as it exists, whether or not its callers make requests. Most
/// algorithms cannot go on without it.
#[derive(Clone)]
pub struct Member {
    shared: Arc<Shared>,
    tasks: Arc<Tasks>,
}

/// The tasks of a member. They end when the last clone of the member is dropped.
struct Tasks {
    shared: Arc<Shared>,
    running: Mutex<JoinSet<()>>,
}

impl Tasks {
    fn running(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tasks {
    /// Locks and grants may outlive the member. Without its tasks, nobody else would tell those who wait.
    fn drop(&mut self) {
        self.running().abort_all();
        self.shared.wires.fail(PeerError::Left);
        self.shared.resources.stop(&PeerError::Left);
        self.shared.wires.links.iter().flatten().for_each(|link| link.hang_up());
    }
}

pub(crate) struct Shared {
    group: PeerGroup,
    incarnation: u64,
    wires: Arc<Wires>,
    resources: Resources,
    incarnations: Mutex<Incarnations>,
    pace: Pace,
    warnings: Warnings,
    /// For each other member, whether it is connected, or was; and the last error that was told.
    met: watch::Sender<Vec<Standing>>,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    connected: bool,
    silent: bool,
    last: Option<LinkError>,
}

impl Member {
    /// Joins the group as member `id`, and waits until all other members are connected.
    pub async fn join(group: &PeerGroup, id: MemberId, options: Options) -> Result<Member, JoinError> {
        let address = group.address(id)?;
        let listener = match options.listener {
            Some(listener) => listener,
            None => TcpListener::bind(address)
                .await
                .map_err(|source| JoinError::Listen { address: address.to_string(), source })?,
        };
        let warnings = Warnings(options.warnings);
        let journal = options.trace.map(|sink| Journal::new(group, id, sink, warnings.clone()));
        let wires = Arc::new(Wires::new(id, group.members(), journal, options.backlog_max));
        wires.links.iter().flatten().for_each(|link| link.keep(group.about().family != Family::Detector));
        let shared = Arc::new(Shared {
            group: group.clone(),
            incarnation: incarnation(),
            resources: Resources::new(group, wires.clone(), options.resources_max)?,
            incarnations: Mutex::new(Incarnations::new(group.members(), group.bears_restarts())),
            pace: pace(group),
            warnings,
            met: watch::Sender::new(vec![Standing::default(); group.members()]),
            wires,
        });
        let tasks = Tasks { shared: shared.clone(), running: Mutex::new(shared.clone().spawn(listener)) };
        let member = Member { shared, tasks: Arc::new(tasks) };
        member.complete(options.start_within).await?;
        member.shared.wires.journal_begin();
        let shared = member.shared.clone();
        member.tasks.running().spawn(async move { shared.watch_health().await });
        Ok(member)
    }

    pub fn group(&self) -> &PeerGroup {
        &self.shared.group
    }

    pub fn id(&self) -> MemberId {
        self.shared.wires.me
    }

    /// The lock with this name. Its first use, at any member, makes it at all members.
    pub fn lock(&self, name: &[u8]) -> Result<Lock, AcquireError> {
        match self.shared.resources.open(name)? {
            Face::Lock(lock) => Ok(lock),
            _ => Err(self.wrong_family(Family::Mutex)),
        }
    }

    /// The election with this name.
    pub fn election(&self, name: &[u8]) -> Result<Election, AcquireError> {
        match self.shared.resources.open(name)? {
            Face::Election(election) => Ok(election),
            _ => Err(self.wrong_family(Family::Election)),
        }
    }

    /// The failure detector with this name.
    pub fn detector(&self, name: &[u8]) -> Result<Detector, AcquireError> {
        match self.shared.resources.open(name)? {
            Face::Detector(detector) => Ok(detector),
            _ => Err(self.wrong_family(Family::Detector)),
        }
    }

    /// What this member knows of each other member.
    pub fn health(&self) -> Vec<PeerHealth> {
        self.shared.wires.links.iter().flatten().map(|link| link.health()).collect()
    }

    /// The members that were not heard of for a while, or have left.
    pub fn silent(&self) -> BTreeSet<MemberId> {
        self.health().iter().filter(|health| self.is_gone(health)).map(|health| health.id).collect()
    }

    fn is_gone(&self, health: &PeerHealth) -> bool {
        health.left || health.not_heard_for > self.shared.pace.silent_after
    }

    /// The member without which those who wait may wait for ever. None: they wait because others are inside.
    pub fn hopeless(&self) -> Option<Hopeless> {
        let health = self
            .health()
            .into_iter()
            .filter(|health| self.is_gone(health))
            .max_by_key(|health| health.not_heard_for)?;
        Some(Hopeless { peer: health.id, not_heard_for: health.not_heard_for, left: health.left })
    }

    /// How many names of resources this member has taken, and how many it can take.
    pub fn names(&self) -> Names {
        self.shared.resources.names()
    }

    /// The counters of this member.
    pub fn stats(&self) -> Stats {
        self.shared.resources.stats()
    }

    /// Why the member can serve no longer, if so.
    pub fn failure(&self) -> Option<PeerError> {
        self.shared.wires.failed.borrow().clone()
    }

    /// Resolves when the member can serve no longer.
    pub async fn failed(&self) -> PeerError {
        let mut failed = self.shared.wires.failed.subscribe();
        let error = failed.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        error.unwrap_or(PeerError::Left)
    }

    /// Leaves the group, and ends the trace. A caller in a critical section is not removed from it, and no other process
    /// will enter it: release first.
    pub async fn shutdown(&self) -> Stats {
        self.shared.wires.fail(PeerError::Left);
        self.shared.resources.stop(&PeerError::Left);
        let links = || self.shared.wires.links.iter().flatten();
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        while Instant::now() < deadline && !links().all(|link| link.is_quiet(self.shared.pace.silent_after)) {
            sleep(Duration::from_millis(5)).await;
        }
        let mut tasks = std::mem::take(&mut *self.tasks.running());
        tasks.shutdown().await;
        links().for_each(|link| link.leave());
        let stats = self.stats();
        self.shared.wires.journal_end("shutdown", stats.entries, stats.messages);
        stats
    }

    fn wrong_family(&self, needed: Family) -> AcquireError {
        let about = self.shared.group.about();
        let (found, needed) = (family_name(about.family), family_name(needed));
        AcquireError::Family { algorithm: about.name, found, needed }
    }

    /// Waits until all other members are connected.
    async fn complete(&self, start_within: Duration) -> Result<(), JoinError> {
        let (me, group) = (self.id(), &self.shared.group);
        let deadline = Instant::now() + start_within.min(START_WITHIN_MAX);
        let mut met = self.shared.met.subscribe();
        let address = |id: MemberId| group.file().members[id].clone();
        loop {
            let standing = met.borrow_and_update().clone();
            let others = || standing.iter().enumerate().filter(|(id, _)| *id != me);
            if others().all(|(_, standing)| standing.connected) {
                return Ok(());
            }
            for (peer, standing) in others() {
                if let Some(error) = standing.last.clone().filter(|error| error.is_final() && !error.is_fault()) {
                    return Err(JoinError::Refused { peer, address: address(peer), error });
                }
            }
            if timeout_at(deadline, met.changed()).await.is_err() {
                let missing = others().filter(|(_, standing)| !standing.connected).map(|(id, standing)| Missing {
                    id,
                    address: address(id),
                    last: standing.last.clone(),
                });
                return Err(JoinError::Incomplete { waited: start_within, missing: missing.collect() });
            }
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("id", &self.id()).field("group", self.shared.group.file()).finish()
    }
}

/// A later start has a higher number.
fn incarnation() -> u64 {
    // A clock before 1970 gives 0, not an error.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u64::try_from(now).unwrap_or(u64::MAX)
}

/// A link beats once in the longest delay, but neither too often nor too seldom.
fn pace(group: &PeerGroup) -> Pace {
    let delay_max = Duration::from_millis(group.file().delay_max_ms);
    let beat_every = delay_max.clamp(Duration::from_millis(20), Duration::from_secs(1));
    Pace { beat_every, silent_after: (10 * beat_every).max(Duration::from_secs(1)) }
}

pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::Mutex => "mutual exclusion",
        Family::Election => "leader election",
        Family::Detector => "failure detection",
        Family::Append => "record append",
    }
}

impl Shared {
    /// Starts the tasks of the member.
    fn spawn(self: Arc<Self>, listener: TcpListener) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let mut accepted = Vec::new();
        let mut sockets = Vec::new();
        for (peer, link) in self.wires.links.iter().enumerate() {
            let (sender, receiver) = mpsc::channel(1);
            accepted.push(sender);
            if let Some(link) = link {
                // Of two members, the one with the higher id connects.
                let address = (peer < self.wires.me).then(|| self.group.file().members[peer].clone());
                let run = link::run(link.clone(), self.clone(), address, self.pace, receiver);
                let wires = self.wires.clone();
                sockets.push(tasks.spawn(async move {
                    if AssertUnwindSafe(run).catch_unwind().await.is_err() {
                        wires.fail(PeerError::Panicked { peer });
                    }
                }));
            }
        }
        let reception = Reception { owner: self.clone(), accepted, warnings: self.warnings.clone() };
        sockets.push(tasks.spawn(listen(listener, reception)));
        let shared = self.clone();
        tasks.spawn(async move {
            let mut failed = shared.wires.failed.subscribe();
            let Ok(Some(error)) = failed.wait_for(Option::is_some).await.map(|error| error.clone()) else { return };
            shared.resources.stop(&error);
            // The other members must not take this one for alive. (A member that leaves closes its links itself.)
            if error != PeerError::Left {
                sockets.iter().for_each(AbortHandle::abort);
                shared.wires.links.iter().flatten().for_each(|link| link.leave());
            }
        });
        tasks
    }

    /// Notices members that are silent, and members that are heard of again.
    async fn watch_health(&self) {
        let mut beats = interval(self.pace.beat_every);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = Instant::now();
        loop {
            beats.tick().await;
            let since = std::mem::replace(&mut looked, Instant::now()).elapsed();
            // This process itself stood still, and has not yet heard what the others said meanwhile.
            if since > self.pace.silent_after / 2 {
                self.wires.links.iter().flatten().for_each(|link| link.excuse_silence());
            }
            for link in self.wires.links.iter().flatten() {
                self.see(&link.health());
            }
        }
    }

    fn see(&self, health: &PeerHealth) {
        let (peer, silence) = (health.id, health.not_heard_for);
        let is_silent = silence > self.pace.silent_after;
        if self.met.borrow()[peer].silent == is_silent {
            return;
        }
        self.met.send_modify(|met| met[peer].silent = is_silent);
        // A member that said that it leaves is expected to be silent.
        if is_silent && !health.left {
            self.warnings.tell(Warning::Silent { peer, silence });
        }
        if self.group.bears_wrong_suspicions() {
            self.resources.suspect(peer, is_silent);
        }
    }

    fn incarnations(&self) -> std::sync::MutexGuard<'_, Incarnations> {
        self.incarnations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner for Shared {
    fn hello(&self, peer: MemberId) -> Hello {
        Hello {
            algorithm: self.group.about().name.to_string(),
            variant: self.group.file().variant.clone(),
            members: self.group.members(),
            group_hash: self.group.hash(),
            from: self.wires.me,
            to: peer,
            incarnation: self.incarnation,
            connection: 0,
        }
    }

    fn judge(&self, theirs: &Hello) -> Result<(), Refusal> {
        self.incarnations().judge(theirs).map(drop)
    }

    fn meets(&self, theirs: &Hello) -> Result<Met, Refusal> {
        self.incarnations().meet(theirs)
    }

    fn restarted(&self, peer: MemberId) {
        self.resources.restarted(peer);
    }

    fn item(&self, peer: MemberId, item: Item<'_>, touched: &mut Touched) -> Result<(), LinkError> {
        match item {
            Item::Open { name } => self.resources.opened_by(peer, name),
            Item::Message(envelope) => self.resources.deliver(peer, &envelope, touched),
        }
    }

    fn flush(&self, touched: &mut Touched) {
        self.wires.flush(touched);
    }

    fn condemn(&self, peer: MemberId, error: &LinkError) {
        self.incarnations().condemn(peer, error.to_string());
    }

    fn connected(&self, peer: MemberId) {
        let Standing { connected, last, .. } = self.met.borrow()[peer].clone();
        let was_broken = connected && last.is_some();
        self.met.send_modify(|met| (met[peer].connected, met[peer].last) = (true, None));
        if was_broken {
            self.warnings.tell(Warning::Back { peer });
        }
    }

    fn broken(&self, peer: MemberId, error: &LinkError) {
        if let LinkError::RefusedByPeer(handshake::Refusal::Outdated { .. } | handshake::Refusal::Faulty { .. }) = error
        {
            self.wires.fail(PeerError::Refused { peer, error: error.clone() });
        }
        // Attempts go on for ever. Each new reason is told once.
        let is_news = self.met.borrow()[peer].last.as_ref() != Some(error) && *error != LinkError::Replaced;
        if is_news {
            let was_connected = self.met.borrow()[peer].connected;
            self.met.send_modify(|met| met[peer].last = Some(error.clone()));
            if was_connected {
                self.warnings.tell(Warning::Broken { peer, error: error.clone() });
            }
        }
    }

    fn backlog(&self, peer: MemberId, bytes: usize) {
        self.wires.look_at_backlog(peer, bytes);
    }
}
