//! A member of a group: its links to the other members, and its resources.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_protocol::registry::Family;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::beginning::{Agreed, Beginning, Ended, Entry, Malformed, Past, Statement, Work};
use crate::data::{Data, DataError};
use crate::detector::Detector;
use crate::driver::Stats;
use crate::election::Election;
use crate::frame::Item;
use crate::group::{GroupError, MemberId, PeerGroup};
use crate::handshake::{Hello, LinkError, Met, Refusal};
use crate::journal::Journal;
use crate::link::{self, Owner, Pace, PeerHealth};
use crate::lock::{AcquireError, Lock};
use crate::options::{Options, Warning, Warnings};
use crate::reception::{Reception, listen};
use crate::resources::{Face, NAME_BYTES_MAX, Names, Resources};
use crate::whereabouts::{Look, Whereabouts};
use crate::wires::{PeerError, Touched, Wires};

/// How long leaving waits until the other members have acknowledged everything.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper limit for a time given by the user, so that `Instant` does not overflow.
const START_WITHIN_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Upper limit for the wait for leases from earlier, for the same reason.
const WAIT_MAX: Duration = START_WITHIN_MAX;

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
    #[error("the group is not complete after {:.1} s; {}", waited.as_secs_f64(), missing_text(missing, incomplete))]
    Incomplete {
        waited: Duration,
        missing: Vec<Missing>,
        /// Connected with this member, but not with all others.
        incomplete: Vec<MemberId>,
    },
    /// The group can never begin.
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error(transparent)]
    Data(#[from] Arc<DataError>),
}

/// A member that is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub id: MemberId,
    pub address: String,
    /// The error of the last attempt. None if the missing member has to connect, not this one.
    pub last: Option<LinkError>,
}

fn missing_text(missing: &[Missing], incomplete: &[MemberId]) -> String {
    if missing.is_empty() {
        let ids: Vec<_> = incomplete.iter().map(MemberId::to_string).collect();
        return format!("all members are connected with this one, but not with each other: {}", ids.join(", "));
    }
    let texts: Vec<String> = missing
        .iter()
        .map(|Missing { id, address, last }| match last {
            Some(error) => format!("{id} at {address} ({error})"),
            None => format!("{id} at {address} (has not connected)"),
        })
        .collect();
    format!("missing: {}", texts.join(", "))
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
    agreed: Agreed,
    /// When clients of earlier generations believe in no lease any more.
    opens: Instant,
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
    /// Lock order: this or `whereabouts`, then a link.
    beginning: Mutex<Beginning>,
    data: Option<Data>,
    /// The last attempt to write to `data` for clients failed.
    is_unwritable: AtomicBool,
    /// What to write to `data`.
    work: mpsc::UnboundedSender<Work>,
    /// Whether the group has begun here, or can never begin.
    begun: watch::Sender<Option<Result<Agreed, Why>>>,
    pace: Pace,
    warnings: Warnings,
    /// For each other member, whether it is connected, or was; and the last error that was told.
    met: watch::Sender<Vec<Standing>>,
    whereabouts: Mutex<Whereabouts>,
}

/// Why a member cannot take part.
#[derive(Clone, Debug)]
enum Why {
    Ended(Ended),
    Data(Arc<DataError>),
}

impl From<Why> for JoinError {
    fn from(why: Why) -> Self {
        match why {
            Why::Ended(ended) => ended.into(),
            Why::Data(error) => error.into(),
        }
    }
}

impl From<Why> for PeerError {
    fn from(why: Why) -> Self {
        match why {
            Why::Ended(ended) => ended.into(),
            Why::Data(error) => PeerError::Data(error.to_string()),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Standing {
    connected: bool,
    silent: bool,
    last: Option<LinkError>,
}

impl Member {
    /// Joins the group as member `id`, and waits until all members have agreed that the group begins.
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
        let nothing = Past { generation: 0, ttl_max_ms: 0, held_nothing: true, group: 0 };
        let own = Entry { incarnation: incarnation(), past: options.data.as_ref().map_or(nothing, Data::past) };
        let (work, written) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            group: group.clone(),
            incarnation: own.incarnation,
            resources: Resources::new(group, wires.clone(), options.resources_max)?,
            beginning: Mutex::new(Beginning::new(id, group.members(), own, group.bears_restarts())),
            data: options.data,
            is_unwritable: AtomicBool::new(false),
            work,
            begun: watch::Sender::new(None),
            pace: pace(group),
            warnings,
            met: watch::Sender::new(vec![Standing::default(); group.members()]),
            whereabouts: Mutex::default(),
            wires,
        });
        shared.say(&shared.beginning().statement());
        let mut running = shared.clone().spawn(listener);
        running.spawn(shared.clone().write_data(written));
        let tasks = Tasks { shared: shared.clone(), running: Mutex::new(running) };
        let tasks = Arc::new(tasks);
        let agreed = shared.complete(options.start_within).await?;
        let opens = Instant::now() + Duration::from_millis(agreed.wait_ms).min(WAIT_MAX);
        let member = Member { shared, tasks, agreed, opens };
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

    /// For each lock that callers of this member wait for: the silent member that keeps them waiting, if it is known that
    /// no caller of the other members is inside. Asks the other members, so it is not known at the first call. What they
    /// answered to questions before `since` does not count.
    pub fn hopeless_waits<'a>(&self, names: impl Iterator<Item = &'a [u8]>, since: Instant) -> Vec<Option<Hopeless>> {
        let Some(hopeless) = self.hopeless() else { return names.map(|_| None).collect() };
        let alive = self.health().into_iter().filter(|health| !self.is_gone(health));
        let alive: BTreeSet<_> = alive.map(|health| health.id).collect();
        let mut whereabouts = self.shared.whereabouts();
        let look = |name: &'a [u8]| {
            if name.len() > NAME_BYTES_MAX {
                return None;
            }
            let Look { is_inside, asks } = whereabouts.look(name, &alive, since, Instant::now());
            if asks {
                self.shared.ask_inside(&alive, name);
            }
            let is_inside = is_inside.map(|elsewhere| elsewhere || self.shared.resources.is_inside(name));
            (is_inside == Some(false)).then(|| hopeless.clone())
        };
        names.map(look).collect()
    }

    /// The member that was not heard of for the longest time, or has left. Without it those who wait may wait for ever;
    /// but see [`hopeless_waits`](Member::hopeless_waits).
    pub fn hopeless(&self) -> Option<Hopeless> {
        let health = self
            .health()
            .into_iter()
            .filter(|health| self.is_gone(health))
            .max_by_key(|health| health.not_heard_for)?;
        Some(Hopeless { peer: health.id, not_heard_for: health.not_heard_for, left: health.left })
    }

    /// The folder of the member's file, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.shared.data.as_ref().map(Data::folder)
    }

    /// How many names of resources this member has taken, and how many it can take.
    pub fn names(&self) -> Names {
        self.shared.resources.names()
    }

    /// What the members agreed on when the group began.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// How long the clients of earlier generations may still believe in their leases. Nothing may be granted to a client
    /// before.
    pub fn wait_left(&self) -> Duration {
        self.opens.saturating_duration_since(Instant::now())
    }

    /// Waits until clients of earlier generations believe in no lease. Then it writes to the file that a client may have
    /// one now. Call this before the first grant to a client, and again if it fails: a full disk may have room later.
    pub async fn open_for_clients(&self) -> Result<(), Arc<DataError>> {
        sleep_until(self.opens).await;
        let written = self.write_later(false).await;
        let was_unwritable = self.shared.is_unwritable.swap(written.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&written, was_unwritable) {
            self.shared.warnings.tell(Warning::Unwritable(error.to_string()));
        }
        written
    }

    /// No client of this member has a lease, and none will get one: the next start of the group need not wait.
    pub async fn held_nothing(&self) -> Result<(), Arc<DataError>> {
        // The leases of clients of earlier generations may go on, and then the file stays as it is.
        if !self.wait_left().is_zero() {
            return Ok(());
        }
        let written = self.write_later(true).await;
        if let Err(error) = &written {
            self.shared.warnings.tell(Warning::NotMarked(error.to_string()));
        }
        written
    }

    async fn write_later(&self, held_nothing: bool) -> Result<(), Arc<DataError>> {
        match &self.shared.data {
            Some(data) => self.shared.clone().write(data.later(self.agreed, held_nothing)).await,
            None => Ok(()),
        }
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

    /// Waits until the group begins.
    async fn complete(&self, start_within: Duration) -> Result<Agreed, JoinError> {
        let (me, group) = (self.wires.me, &self.group);
        let deadline = Instant::now() + start_within.min(START_WITHIN_MAX);
        let (mut met, mut begun) = (self.met.subscribe(), self.begun.subscribe());
        let address = |id: MemberId| group.file().members[id].clone();
        loop {
            match &*begun.borrow_and_update() {
                Some(Ok(agreed)) => return Ok(*agreed),
                Some(Err(why)) => {
                    self.wires.links.iter().flatten().for_each(|link| link.leave());
                    return Err(why.clone().into());
                }
                None => {}
            }
            let standing = met.borrow_and_update().clone();
            let others = || standing.iter().enumerate().filter(|(id, _)| *id != me);
            for (peer, standing) in others() {
                if let Some(error) = standing.last.clone().filter(|error| error.keeps_from_joining()) {
                    return Err(JoinError::Refused { peer, address: address(peer), error });
                }
            }
            tokio::select! {
                _ = met.changed() => {}
                _ = begun.changed() => {}
                () = sleep_until(deadline) => {
                    let is_missing = |standing: &Standing| !standing.connected || standing.last.is_some();
                    let missing = others().filter(|(_, standing)| is_missing(standing));
                    let missing = missing.map(|(id, standing)| {
                        Missing { id, address: address(id), last: standing.last.clone() }
                    });
                    let incomplete = self.beginning().incomplete();
                    return Err(JoinError::Incomplete { waited: start_within, missing: missing.collect(), incomplete });
                }
            }
        }
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

    fn beginning(&self) -> std::sync::MutexGuard<'_, Beginning> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whereabouts(&self) -> std::sync::MutexGuard<'_, Whereabouts> {
        self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a step of the beginning. All links have the new statement before anybody learns of the step.
    fn step_beginning<T>(&self, step: impl FnOnce(&mut Beginning) -> T) -> T {
        let mut beginning = self.beginning();
        let before = beginning.statement();
        let outcome = step(&mut beginning);
        if let Some(work) = beginning.take_work() {
            // The receiver is gone only if the member stops.
            let _ = self.work.send(work);
        }
        let outdated = beginning.take_outdated();
        outdated.into_iter().filter_map(|peer| self.wires.links[peer].as_ref()).for_each(|link| link.outdate());
        let after = beginning.statement();
        if after != before {
            self.say(&after);
        }
        match (beginning.ended(), beginning.begun()) {
            (Some(ended), _) => self.ends(Why::Ended(ended)),
            (None, Some(agreed)) => {
                self.wires.begin(agreed.generation);
                self.begun.send_if_modified(|begun| begun.replace(Ok(agreed)).is_none());
            }
            (None, None) => {}
        }
        outcome
    }

    /// The member cannot take part, whether the group has begun or not.
    fn ends(&self, why: Why) {
        let was_begun = matches!(*self.begun.borrow(), Some(Ok(_)));
        self.begun.send_if_modified(|begun| {
            let is_new = !matches!(begun, Some(Err(_)));
            *begun = Some(Err(why.clone()));
            is_new
        });
        if was_begun {
            self.wires.fail(why.into());
        }
    }

    /// Writes to the member's file what the beginning asks for. Without a file, nothing is to write.
    async fn write_data(self: Arc<Self>, mut works: mpsc::UnboundedReceiver<Work>) {
        while let Some(work) = works.recv().await {
            match self.clone().write(work.past).await {
                Ok(()) => self.step_beginning(|beginning| beginning.written(work)),
                Err(error) => return self.ends(Why::Data(error)),
            }
        }
    }

    async fn write(self: Arc<Self>, past: Past) -> Result<(), Arc<DataError>> {
        let write = move || self.data.as_ref().map_or(Ok(()), |data| data.write(&past));
        let written = spawn_blocking(write).await;
        // A panic while writing is a bug. The task that waits ends with it.
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).map_err(Arc::new)
    }

    fn ask_inside(&self, members: &BTreeSet<MemberId>, name: &[u8]) {
        members.iter().filter_map(|&id| self.wires.links[id].as_ref()).for_each(|link| link.ask_inside(name));
    }

    fn say(&self, statement: &Statement) {
        for link in self.wires.links.iter().flatten() {
            link.say(statement).expect("the list of the largest group fits into a frame");
        }
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
            generation: self.beginning().generation(),
        }
    }

    fn judge(&self, theirs: &Hello) -> Result<(), Refusal> {
        self.beginning().judge(theirs).map(drop)
    }

    fn meets(&self, theirs: &Hello) -> Result<Met, Refusal> {
        self.step_beginning(|beginning| beginning.meet(theirs))
    }

    fn refused_restart(&self, peer: MemberId) {
        self.step_beginning(|beginning| beginning.refused_restart(peer));
    }

    fn restarted(&self, peer: MemberId) {
        self.resources.restarted(peer);
    }

    fn hears(&self, peer: MemberId, statement: Statement) -> Result<(), LinkError> {
        let heard = self.step_beginning(|beginning| beginning.hear(peer, statement));
        heard.map_err(|Malformed| LinkError::OutOfPlace { expected: "a list of the members of this group" })
    }

    fn item(&self, peer: MemberId, item: Item<'_>, touched: &mut Touched) -> Result<(), LinkError> {
        match item {
            // Nobody says a word about a resource that it has not opened.
            Item::Open { .. } if !self.beginning().takes_items() => {
                Err(LinkError::OutOfPlace { expected: "the beginning of the group" })
            }
            Item::Open { name } => self.resources.opened_by(peer, name),
            Item::Message(envelope) => self.resources.deliver(peer, &envelope, touched),
        }
    }

    fn flush(&self, touched: &mut Touched) {
        self.wires.flush(touched);
    }

    fn is_inside(&self, name: &[u8]) -> bool {
        self.resources.is_inside(name)
    }

    fn hears_inside(&self, peer: MemberId, name: &[u8], inside: bool) {
        // The next questions go out while no other round can begin.
        let mut whereabouts = self.whereabouts();
        if let Some(members) = whereabouts.hear(peer, name, inside, Instant::now()) {
            self.ask_inside(&members, name);
        }
    }

    fn condemn(&self, peer: MemberId, error: &LinkError) {
        self.beginning().condemn(peer, error.to_string());
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
        if error.ends_membership() {
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
