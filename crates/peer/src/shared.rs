//! The state that the tasks of a member share, and what they do with it.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_protocol::registry::Family;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::beginning::{Agreed, Beginning, Ended, Entry, Malformed, Past, Statement, Work};
use crate::data::{Data, DataError};
use crate::frame::Item;
use crate::group::{GroupError, MemberId, PeerGroup};
use crate::handshake::{Hello, LinkError, Met, Refusal};
use crate::joining::JoinError;
use crate::journal::Journal;
use crate::link::{self, Owner, Pace, PeerHealth};
use crate::options::{Options, Warning, Warnings};
use crate::reception::{Reception, listen};
use crate::resources::Resources;
use crate::whereabouts::Whereabouts;
use crate::wires::{PeerError, Touched, Wires};

/// Upper limit for a time given by the user or by another member, so that `Instant` does not overflow.
pub const TIME_MAX: Duration = Duration::from_secs(365 * 86_400);

pub struct Shared {
    pub group: PeerGroup,
    pub incarnation: u64,
    pub wires: Arc<Wires>,
    pub resources: Resources,
    /// Lock order: this or `whereabouts`, then a link.
    pub beginning: Mutex<Beginning>,
    pub data: Option<Data>,
    /// The last attempt to write to `data` for clients failed.
    pub is_unwritable: AtomicBool,
    /// What to write to `data`.
    pub work: mpsc::UnboundedSender<Work>,
    /// Whether the group has begun here, or can never begin.
    pub begun: watch::Sender<Option<Result<Agreed, Why>>>,
    pub pace: Pace,
    pub warnings: Warnings,
    /// For each other member, whether it is connected, or was; and the last error that was told.
    pub met: watch::Sender<Vec<Standing>>,
    pub whereabouts: Mutex<Whereabouts>,
}

/// Why a member cannot take part.
#[derive(Clone, Debug)]
pub enum Why {
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
pub struct Standing {
    pub connected: bool,
    silent: bool,
    pub last: Option<LinkError>,
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

impl Shared {
    /// The state of a new member, and what its task that writes the member's file receives.
    pub fn new(
        group: &PeerGroup,
        id: MemberId,
        options: Options,
    ) -> Result<(Arc<Shared>, mpsc::UnboundedReceiver<Work>), GroupError> {
        let warnings = Warnings(options.warnings);
        let journal = options.trace.map(|sink| Journal::new(group, id, sink, warnings.clone()));
        let wires = Arc::new(Wires::new(id, group.members(), journal, options.backlog_max));
        wires.links.iter().flatten().for_each(|link| link.keep(group.about().family != Family::Detector));
        let nothing = Past { generation: 0, ttl_max_ms: 0, held_nothing: true, group: 0 };
        let own = Entry { incarnation: incarnation(), past: options.data.as_ref().map_or(nothing, Data::past) };
        let (work, works) = mpsc::unbounded_channel();
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
        Ok((shared, works))
    }

    /// Starts the tasks of the member.
    pub fn spawn(self: Arc<Self>, listener: TcpListener) -> JoinSet<()> {
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
    pub async fn watch_health(&self) {
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

    pub fn beginning(&self) -> MutexGuard<'_, Beginning> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn whereabouts(&self) -> MutexGuard<'_, Whereabouts> {
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
    pub async fn write_data(self: Arc<Self>, mut works: mpsc::UnboundedReceiver<Work>) {
        while let Some(work) = works.recv().await {
            match self.clone().write(work.past).await {
                Ok(()) => self.step_beginning(|beginning| beginning.written(work)),
                Err(error) => return self.ends(Why::Data(error)),
            }
        }
    }

    pub async fn write(self: Arc<Self>, past: Past) -> Result<(), Arc<DataError>> {
        let write = move || self.data.as_ref().map_or(Ok(()), |data| data.write(&past));
        let written = spawn_blocking(write).await;
        // A panic while writing is a bug. The task that waits ends with it.
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).map_err(Arc::new)
    }

    pub fn ask_inside(&self, members: &BTreeSet<MemberId>, name: &[u8]) {
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
