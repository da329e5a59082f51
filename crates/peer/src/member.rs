//! A member of a group: its links to the other members, and its resources.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_protocol::registry::Family;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::beginning::Agreed;
use crate::data::{Data, DataError};
use crate::detector::Detector;
use crate::driver::Stats;
use crate::election::Election;
use crate::group::{MemberId, PeerGroup};
use crate::joining::JoinError;
use crate::link::PeerHealth;
use crate::lock::{AcquireError, Lock};
use crate::options::{Options, Warning};
use crate::resources::{Face, NAME_BYTES_MAX, Names};
use crate::shared::{Shared, TIME_MAX};
use crate::whereabouts::Look;
use crate::wires::PeerError;

/// How long leaving waits until the other members have acknowledged everything.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

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
    fn running(&self) -> MutexGuard<'_, JoinSet<()>> {
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

impl Member {
    /// Joins the group as member `id`, and waits until all members have agreed that the group begins.
    pub async fn join(group: &PeerGroup, id: MemberId, mut options: Options) -> Result<Member, JoinError> {
        let address = group.address(id)?;
        let listener = match options.listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(address)
                .await
                .map_err(|source| JoinError::Listen { address: address.to_string(), source })?,
        };
        let (start_within, awaited) = (options.start_within, options.awaited.take());
        let (shared, works) = Shared::new(group, id, options)?;
        let mut running = shared.clone().spawn(listener);
        running.spawn(shared.clone().write_data(works));
        let tasks = Arc::new(Tasks { shared: shared.clone(), running: Mutex::new(running) });
        let agreed = shared.complete(start_within, awaited).await?;
        let opens = Instant::now() + Duration::from_millis(agreed.wait_ms).min(TIME_MAX);
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
        self.shared.wires.journal_end("shutdown");
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

pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::Mutex => "mutual exclusion",
        Family::Election => "leader election",
        Family::Detector => "failure detection",
        Family::Append => "record append",
    }
}
