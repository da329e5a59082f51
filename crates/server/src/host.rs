//! The shell of the front end: it owns the replica, the clocks, and the channels to the clients. It makes no decisions.

mod calls;
mod feed;
mod reports;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use baton_types::frames::{Malformed, ToServer};
use baton_types::limits::ServerLimits;
use tokio::sync::{Notify, oneshot, watch};
use tracing::{debug, info, trace, warn};

use crate::clock;
use crate::frontend::{CallId, ConnectionId, Frontend, Output, Reply, RoundId, StreamId};
use crate::limiter::Limiter;
use crate::notes;
use crate::raft::{Node, OnApply, Options};
use crate::replica::{Leadership, Replica};
use crate::state::{Caller, Command, Entry, State};
use crate::store::{Disk, FREE_BYTES_MIN, OpenError};
pub use calls::{Aged, CallError, Reading};
pub use feed::{FeedReader, WatchError};
pub use reports::Reports;
pub use waiting::Heard;
use waiting::Waiting;

/// How often the host checks whether the replica can still serve, and how much space is free.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The time that another node has to take over when this one stops.
const HAND_OVER_MAX: Duration = Duration::from_secs(1);

/// A replica with its front end.
pub struct Host<R: Replica = Node> {
    shell: Arc<Shell<R>>,
    /// What the front end was not told yet.
    leadership: tokio::sync::Mutex<watch::Receiver<Leadership>>,
    /// Start time of the host, on the clock for leases.
    started_ms: u64,
}

/// The replica stopped before it led.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node stopped before it led")]
pub struct NeverLed;

impl From<NeverLed> for OpenError {
    fn from(never: NeverLed) -> Self {
        OpenError::Raft(never.to_string())
    }
}

/// Why a host ended without a call of [`Host::stop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The replica can no longer serve. The sentence is from [`Replica::failure`].
    Failed(String),
    /// The replica has stopped.
    Stopped,
}

struct Shell<R> {
    inner: Mutex<Inner>,
    /// Set as soon as the replica is open, before it can lead.
    replica: OnceLock<R>,
    /// Notified when the front end needs an earlier wake-up than `armed_for_ms`.
    rearmed: Notify,
    /// Whether the front end leads.
    leads: watch::Sender<bool>,
    /// Whether the front end leads, and has space for new sessions and acquires.
    accepts: watch::Sender<bool>,
    /// The last answer of [`Host::why_no_leader`], and its time.
    why_no_leader: tokio::sync::Mutex<Option<(Instant, String)>>,
    /// What is wrong with the address that this node advertises to clients, as a sentence.
    address_remark: Mutex<Option<String>>,
    /// The readers of the feed. Lock order: these, then the state.
    feeds: feed::Feeds,
    ids: AtomicU64,
}

struct Inner {
    frontend: Frontend,
    streams: HashMap<StreamId, Speaker>,
    calls: HashMap<CallId, oneshot::Sender<Reply>>,
    armed_for_ms: Option<u64>,
    /// For the lines of the log.
    limiter: Limiter,
}

/// The channels to the client of a stream.
struct Speaker {
    frames: waiting::Frames,
    listen: Arc<Notify>,
    /// Dropping this resolves [`Stream::ended`].
    _alive: watch::Sender<()>,
}

/// One stream of a client. Dropping it tells the front end that the stream is gone.
pub struct Stream<R: Replica = Node> {
    id: StreamId,
    shell: Arc<Shell<R>>,
    listen: Arc<Notify>,
    waiting: Arc<Waiting>,
    ended: watch::Receiver<()>,
}

impl<R: Replica> Stream<R> {
    /// Passes a frame of the client, or malformed bytes, to the front end. Returns when the next frame may be read, or
    /// when the stream has ended. While much waits for the client, no frame may be read, so that a client that sends and
    /// does not read is slowed down.
    pub async fn hears(&mut self, said: Result<ToServer, Malformed>) {
        let listens = self.tell(said);
        let may_read = async {
            if !listens {
                self.listen.notified().await;
            }
            self.waiting.is_less().await;
        };
        tokio::select! {
            () = may_read => {}
            _ = self.ended.changed() => {}
        }
    }

    /// Returns whether the front end accepts another frame now.
    fn tell(&self, said: Result<ToServer, Malformed>) -> bool {
        let shell = &self.shell;
        let mut inner = shell.with_state(|state| {
            let mut inner = shell.inner();
            inner.frontend.hears(clock::boot_ms(), state, self.id, said);
            inner
        });
        // The lock of the state is released here, so that the next entry can be applied meanwhile.
        shell.follow(&mut inner);
        inner.frontend.listens(self.id)
    }

    /// Resolves when the front end has ended the stream.
    pub fn ended(&self) -> impl Future<Output = ()> + use<R> {
        let mut ended = self.ended.clone();
        // The sender sends nothing. Dropping it ends this wait.
        async move { drop(ended.changed().await) }
    }
}

impl<R: Replica> Drop for Stream<R> {
    fn drop(&mut self) {
        let mut inner = self.shell.inner();
        if inner.streams.remove(&self.id).is_some() {
            debug!(stream = self.id.0, "a stream is gone: its client ended it, or its connection broke");
        }
        self.shell.step_with(&mut inner, |frontend, _| frontend.stream_gone(self.id));
    }
}

impl<R: Replica> Shell<R> {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: no code panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replica(&self) -> &R {
        self.replica.get().expect("the replica is set before the first client connects")
    }

    /// Lock order: the state, then the front end. Code that holds the front end never takes the state.
    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.replica().with_state(look)
    }

    /// Reports an event to the front end, and carries out all outputs.
    fn step<T>(self: &Arc<Self>, tell: impl FnOnce(&mut Frontend, u64) -> T) -> T {
        self.step_with(&mut self.inner(), tell)
    }

    fn step_with<T>(self: &Arc<Self>, inner: &mut Inner, tell: impl FnOnce(&mut Frontend, u64) -> T) -> T {
        let told = tell(&mut inner.frontend, clock::boot_ms());
        self.follow(inner);
        told
    }

    /// Carries out all outputs of the front end.
    fn follow(self: &Arc<Self>, inner: &mut Inner) {
        while let Some(output) = inner.frontend.poll() {
            self.carry_out(inner, output);
        }
        let next_ms = inner.frontend.next_wake();
        if next_ms.is_some_and(|next_ms| inner.armed_for_ms.is_none_or(|armed_for_ms| next_ms < armed_for_ms)) {
            inner.armed_for_ms = next_ms;
            self.rearmed.notify_one();
        }
        let (leads, has_space) = (inner.frontend.leads(), !inner.frontend.is_space_low());
        let tell =
            |watched: &watch::Sender<bool>, now| watched.send_if_modified(|old| std::mem::replace(old, now) != now);
        // First, so that nobody who has heard that it leads hears that it does not accept.
        tell(&self.accepts, leads && has_space);
        tell(&self.leads, leads);
    }

    fn carry_out(self: &Arc<Self>, inner: &mut Inner, output: Output) {
        match output {
            Output::Propose { term, command } => {
                trace!(term, ?command, "proposed");
                self.replica().submit(term, entry(command));
            }
            Output::BeginRound(round) => {
                let shell = self.clone();
                tokio::spawn(async move { shell.round(round).await });
            }
            Output::Say { stream, said } => {
                let is_slow = inner.streams.get(&stream).is_some_and(|to| !to.frames.say(said));
                if is_slow {
                    inner.frontend.stream_slow(stream);
                }
            }
            Output::Listen(stream) => {
                if let Some(speaker) = inner.streams.get(&stream) {
                    speaker.listen.notify_one();
                }
            }
            Output::Close { stream, why } => {
                debug!(stream = stream.0, %why, "a stream ends");
                if let Some(speaker) = inner.streams.remove(&stream) {
                    speaker.frames.close(why);
                }
            }
            Output::Reply { call, reply } => {
                // The send fails if the caller no longer waits.
                let _ = inner.calls.remove(&call).map(|waits| waits.send(reply));
            }
            Output::Note(note) => notes::write(&note, &mut inner.limiter),
        }
    }

    async fn round(self: Arc<Self>, round: RoundId) {
        let led = self.replica().read_index().await;
        self.step(|frontend, now_ms| frontend.round_done(now_ms, round, led));
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl Host {
    /// Opens the data on this disk. The host sets the options that report to it.
    pub async fn open(disk: Arc<dyn Disk>, limits: ServerLimits, mut options: Options) -> Result<Self, OpenError> {
        Host::start(limits, async |reports: Reports<Node>| {
            options.on_apply = on_apply(reports.clone());
            options.on_lost = Arc::new(move |term, is_lead| reports.lost(term, is_lead));
            Node::open(disk, options).await
        })
        .await
    }

    /// The node of Raft under this host.
    pub fn node(&self) -> &Node {
        self.shell.replica()
    }
}

impl<R: Replica> Host<R> {
    /// Opens a replica, which reports through the given [`Reports`]. It may lead later, or never.
    pub async fn start<E>(limits: ServerLimits, open: impl AsyncFnOnce(Reports<R>) -> Result<R, E>) -> Result<Self, E> {
        let inner = Inner {
            frontend: Frontend::new(limits),
            streams: HashMap::new(),
            calls: HashMap::new(),
            armed_for_ms: None,
            limiter: Limiter::default(),
        };
        let shell = Arc::new(Shell {
            inner: Mutex::new(inner),
            replica: OnceLock::new(),
            rearmed: Notify::new(),
            leads: watch::Sender::new(false),
            accepts: watch::Sender::new(false),
            why_no_leader: tokio::sync::Mutex::default(),
            address_remark: Mutex::default(),
            feeds: feed::Feeds::default(),
            ids: AtomicU64::new(1),
        });
        let replica = open(Reports::new(&shell)).await?;
        shell.inner().frontend.try_waits(replica.try_ms());
        if replica.group().is_some() {
            shell.inner().frontend.serves_a_group();
        }
        let mut leadership = replica.leadership();
        leadership.mark_changed();
        assert!(shell.replica.set(replica).is_ok(), "the replica is set once");
        let host = Host { shell, leadership: leadership.into(), started_ms: clock::boot_ms() };
        host.look_at_space();
        Ok(host)
    }

    /// Drives the front end until it leads. Only for a replica that needs no other one to lead: call it before
    /// [`Host::run`].
    pub async fn until_leads(&self) -> Result<(), NeverLed> {
        let mut leads = self.shell.leads.subscribe();
        tokio::select! {
            // The wait cannot fail: the sender is part of the shell.
            _ = leads.wait_for(|leads| *leads) => Ok(()),
            () = self.follow_leadership() => Err(NeverLed),
            // The first `Lead` may be lost. The front end then proposes it again after a pause.
            () = self.keep_time() => Err(NeverLed),
        }
    }

    /// A client at address `from` begins a stream on this connection. The frames for the client come through the
    /// channel.
    pub fn stream(&self, connection: ConnectionId, from: Option<SocketAddr>) -> (Stream<R>, Heard) {
        let caller = Caller { from, ..Caller::default() };
        let shell = self.shell.clone();
        let id = StreamId(shell.next_id());
        debug!(stream = id.0, connection = connection.0, from = from.map(tracing::field::display), "a stream begins");
        let (frames, heard) = waiting::channel();
        let waiting = frames.waiting();
        let (alive, ended) = watch::channel(());
        let listen = Arc::new(Notify::new());
        let mut inner = shell.inner();
        inner.streams.insert(id, Speaker { frames, listen: listen.clone(), _alive: alive });
        shell.step_with(&mut inner, |frontend, now_ms| frontend.stream_opens(now_ms, id, connection, caller));
        drop(inner);
        (Stream { id, shell, listen, waiting, ended }, heard)
    }

    /// Whether the front end leads, and every change of it.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.shell.leads.subscribe()
    }

    /// Whether the front end leads and has space for new sessions and acquires, and every change of it.
    pub fn accepts(&self) -> watch::Receiver<bool> {
        self.shell.accepts.subscribe()
    }

    /// Drives the front end. Returns only if the replica stops or can no longer serve.
    pub async fn run(&self) -> Ended {
        tokio::select! {
            () = self.follow_leadership() => Ended::Stopped,
            () = self.keep_time() => Ended::Stopped,
            why = self.watch_replica() => Ended::Failed(why),
            () = self.feed_readers() => Ended::Stopped,
        }
    }

    /// Lets another node lead, if this one leads and another can. The streams here end when it does.
    pub async fn hand_over(&self) {
        if tokio::time::timeout(HAND_OVER_MAX, self.shell.replica().hand_over()).await.is_err() {
            warn!("no other node took over in time");
        }
    }

    /// Ends every stream and every lease. The sessions live on in the state. Their leases start again with the full TTL
    /// when a node leads again.
    pub fn stop(&self) {
        self.shell.step(|frontend, _| frontend.stop());
        self.shell.feeds.stop();
    }

    /// Stops the replica. Returns a sentence if it could no longer serve.
    pub async fn shutdown(&self) -> Option<String> {
        let failure = self.shell.replica().failure();
        self.shell.replica().shutdown().await;
        failure
    }

    fn look_at_space(&self) {
        let (free_bytes, name) = (self.shell.replica().free_bytes(), self.shell.replica().name_among_others());
        self.shell.step(|frontend, _| {
            frontend.is_called(name);
            frontend.space(free_bytes, FREE_BYTES_MIN);
        });
    }

    fn tell(&self, leadership: Leadership) {
        let cluster = self.shell.replica().cluster_id();
        self.shell.step(|frontend, _| {
            frontend.belongs_to(cluster);
            frontend.told(leadership);
        });
    }

    /// Tells the front end each change once. Returns when the replica has stopped.
    async fn follow_leadership(&self) {
        let (mut leadership, mut limiter) = (self.leadership.lock().await, Limiter::default());
        while leadership.changed().await.is_ok() {
            let now = *leadership.borrow_and_update();
            self.tell(now);
            if let (Leadership::DoesNotLead { leader: Some(_) }, Some(leader)) = (now, self.shell.replica().leader())
                && let Some(left_out) = limiter.event("another leads")
            {
                info!(leader = leader.name, address = leader.address, left_out, "another node leads");
            }
        }
    }

    async fn keep_time(&self) {
        loop {
            let next_ms = {
                let mut inner = self.shell.inner();
                // While this task runs, no other thread needs to wake it.
                inner.armed_for_ms = Some(0);
                self.shell.step_with(&mut inner, |frontend, now_ms| frontend.tick(now_ms));
                inner.armed_for_ms = inner.frontend.next_wake();
                inner.armed_for_ms
            };
            // The clock for leases also counts while the machine sleeps, but tokio's timers do not. So this checks at
            // least once a second.
            let wait_ms = next_ms.map_or(1_000, |next_ms| next_ms.saturating_sub(clock::boot_ms()).clamp(1, 1_000));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.shell.rearmed.notified() => {}
            }
        }
    }

    /// Returns when the replica can no longer serve, and says why.
    async fn watch_replica(&self) -> String {
        loop {
            if let Some(why) = self.shell.replica().failure() {
                return why;
            }
            self.look_at_space();
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }
}

fn on_apply(reports: Reports<Node>) -> OnApply {
    Box::new(move |entry, applied, state| reports.applied(applied.term, entry, &applied.outcome, state))
}

fn entry(command: Command) -> Entry {
    Entry { now_ms: clock::wall_ms(), commands: vec![command] }
}
