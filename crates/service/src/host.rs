//! The shell of the front end: it has the node, the clocks, and the channels to those who speak. It decides nothing.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use baton_types::frames::{Malformed, ToClient, ToServer};
use baton_types::limits::ServerLimits;
use baton_types::views::{Holder, Lock, Page, Session, Status};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{debug, trace};

use crate::clock;
use crate::frontend::{CallId, Closing, ConnectionId, Frontend, Output, Reply, RoundId, StreamId, words};
use crate::listing::{self, ListLocks, Moment};
use crate::notes;
use crate::raft::{Leadership, Node, OnApply, Options, Role};
use crate::state::{Caller, Command, Entry, State};
use crate::store::{Disk, FREE_BYTES_MIN, OpenError};

/// How often the disk is looked at: whether the folder is there, and how much space is free.
const DISK_EVERY: Duration = Duration::from_secs(1);

/// How many frames may wait for a client to read them, before its stream is given up: the client comes back and asks
/// again, and the service has kept its answers.
const FRAMES_WAITING_MAX: usize = 4096;

/// A node with its front end.
pub struct Host {
    shell: Arc<Shell>,
    /// When it began, on the clock that leases are measured by.
    started_ms: u64,
    data: PathBuf,
}

/// What the front end says on a stream, and at its end why it ends.
pub type Heard = mpsc::Receiver<Result<ToClient, Closing>>;

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// This node cannot say.
    #[error("{0}")]
    Unavailable(String),
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The call may have done what it asked for, or not.
    #[error("{0}")]
    Unknown(String),
}

/// Why a host no longer runs, although nobody told it to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The data folder, or a file that must be in it, is gone.
    Gone(String),
    /// The node has stopped.
    Stopped,
}

struct Shell {
    inner: Mutex<Inner>,
    /// Set as soon as the node is there, which is before it can lead.
    node: OnceLock<Node>,
    /// The front end wants to be woken earlier than was thought.
    rearmed: Notify,
    /// Whether the front end leads.
    leads: watch::Sender<bool>,
    ids: AtomicU64,
}

struct Inner {
    frontend: Frontend,
    streams: HashMap<StreamId, Speaker>,
    calls: HashMap<CallId, oneshot::Sender<Reply>>,
    armed_for_ms: Option<u64>,
}

/// The way to a client.
struct Speaker {
    frames: mpsc::Sender<Result<ToClient, Closing>>,
    listen: Arc<Notify>,
    /// When this is dropped, the stream of the client learns that it has ended.
    _alive: watch::Sender<()>,
}

/// One stream of a client. When it is dropped, the stream is gone.
pub struct Stream {
    id: StreamId,
    shell: Arc<Shell>,
    listen: Arc<Notify>,
    ended: watch::Receiver<()>,
}

impl Stream {
    /// The client said this, or something that means nothing. Returns when the client may be heard again, or never will be.
    pub async fn hears(&mut self, said: Result<ToServer, Malformed>) {
        if !self.tell(said) {
            tokio::select! {
                () = self.listen.notified() => {}
                _ = self.ended.changed() => {}
            }
        }
    }

    /// Tells the front end what the client said. Says whether it listens for more.
    fn tell(&self, said: Result<ToServer, Malformed>) -> bool {
        let shell = &self.shell;
        let mut inner = shell.with_state(|state| {
            let mut inner = shell.inner();
            inner.frontend.hears(clock::boot_ms(), state, self.id, said);
            inner
        });
        // Without the state, so that the next entry can be applied meanwhile, unless another stream speaks.
        shell.follow(&mut inner);
        inner.frontend.listens(self.id)
    }

    /// Resolves when the front end has ended the stream.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        // The other end is dropped with the stream, and says nothing.
        async move { drop(ended.changed().await) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inner = self.shell.inner();
        if inner.streams.remove(&self.id).is_some() {
            debug!(stream = self.id.0, "a stream is gone: its client ended it, or its connection broke");
        }
        self.shell.step_with(&mut inner, |frontend, _| frontend.stream_gone(self.id));
    }
}

impl Shell {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics half-way; if it ever did, what is left is still a state to go on from.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> &Node {
        self.node.get().expect("the node is there before anybody comes")
    }

    /// Lock order: the state, then the front end. Code that holds the front end never takes the state.
    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.node().with_state(look)
    }

    /// Tells the front end something, and does all that follows.
    fn step<T>(self: &Arc<Self>, tell: impl FnOnce(&mut Frontend, u64) -> T) -> T {
        self.step_with(&mut self.inner(), tell)
    }

    fn step_with<T>(self: &Arc<Self>, inner: &mut Inner, tell: impl FnOnce(&mut Frontend, u64) -> T) -> T {
        let told = tell(&mut inner.frontend, clock::boot_ms());
        self.follow(inner);
        told
    }

    /// Does all that the front end says.
    fn follow(self: &Arc<Self>, inner: &mut Inner) {
        while let Some(output) = inner.frontend.poll() {
            self.carry_out(inner, output);
        }
        let next_ms = inner.frontend.next_wake();
        if next_ms.is_some_and(|next_ms| inner.armed_for_ms.is_none_or(|armed_for_ms| next_ms < armed_for_ms)) {
            inner.armed_for_ms = next_ms;
            self.rearmed.notify_one();
        }
        self.leads.send_if_modified(|leads| std::mem::replace(leads, inner.frontend.leads()) != *leads);
    }

    fn carry_out(self: &Arc<Self>, inner: &mut Inner, output: Output) {
        match output {
            Output::Propose { term, command } => {
                trace!(term, ?command, "proposed");
                self.node().submit(term, entry(command));
            }
            Output::BeginRound(round) => {
                let shell = self.clone();
                tokio::spawn(async move { shell.round(round).await });
            }
            Output::Say { stream, said } => {
                // The last place is for the reason why the stream ends.
                let is_said = |to: &Speaker| to.frames.capacity() > 1 && to.frames.try_send(Ok(said)).is_ok();
                let is_slow = inner.streams.get(&stream).is_some_and(|to| !is_said(to));
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
                    // Whether it is heard or not, the stream ends.
                    let _ = speaker.frames.try_send(Err(why));
                }
            }
            Output::Reply { call, reply } => {
                // Whoever asked may have stopped waiting.
                let _ = inner.calls.remove(&call).map(|waits| waits.send(reply));
            }
            Output::Note(note) => notes::write(&note),
        }
    }

    async fn round(self: Arc<Self>, round: RoundId) {
        let led = self.node().read_index().await.is_ok();
        self.step(|frontend, now_ms| frontend.round_done(now_ms, round, led));
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl Host {
    /// Opens a data folder of this name on this disk, and returns once the node leads. Clients reach it at this address.
    pub async fn open(
        disk: Arc<dyn Disk>,
        data: &Path,
        limits: ServerLimits,
        client_address: String,
    ) -> Result<Self, OpenError> {
        let inner = Inner {
            frontend: Frontend::new(limits),
            streams: HashMap::new(),
            calls: HashMap::new(),
            armed_for_ms: None,
        };
        let shell = Arc::new(Shell {
            inner: Mutex::new(inner),
            node: OnceLock::new(),
            rearmed: Notify::new(),
            leads: watch::Sender::new(false),
            ids: AtomicU64::new(1),
        });
        let mut options = Options { on_apply: on_apply(&shell), ..Options::default() };
        options.record.client_address = client_address;
        let lost = Arc::downgrade(&shell);
        options.on_lost = Arc::new(move |term| {
            if let Some(shell) = lost.upgrade() {
                shell.step(|frontend, now_ms| frontend.lost(now_ms, term));
            }
        });
        let node = Node::open(disk, options).await?;
        let mut leadership = node.leadership();
        assert!(shell.node.set(node).is_ok(), "it is set once");
        let host = Host { shell, started_ms: clock::boot_ms(), data: data.to_owned() };
        host.look_at_space();
        let mut leads = host.shell.leads.subscribe();
        let begins = async {
            while !*leads.borrow_and_update() {
                host.tell_leadership(*leadership.borrow_and_update());
                tokio::select! {
                    changed = leadership.changed() => {
                        changed.map_err(|_| OpenError::Raft("the node stopped before it led".to_owned()))?;
                    }
                    // The sender is part of the shell, and does not go away.
                    _ = leads.changed() => {}
                    // The first `Lead` may be lost, and is then proposed again after a while.
                    () = host.keep_time() => {}
                }
            }
            Ok(())
        };
        begins.await?;
        Ok(host)
    }

    /// Where its data is.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A client at this address begins a stream on this connection. What it is told comes by the channel.
    pub fn stream(&self, connection: ConnectionId, from: Option<SocketAddr>) -> (Stream, Heard) {
        let caller = Caller { from, ..Caller::default() };
        let shell = self.shell.clone();
        let id = StreamId(shell.next_id());
        debug!(stream = id.0, connection = connection.0, from = from.map(tracing::field::display), "a stream begins");
        let (frames, heard) = mpsc::channel(FRAMES_WAITING_MAX);
        let (alive, ended) = watch::channel(());
        let listen = Arc::new(Notify::new());
        let mut inner = shell.inner();
        inner.streams.insert(id, Speaker { frames, listen: listen.clone(), _alive: alive });
        shell.step_with(&mut inner, |frontend, now_ms| frontend.stream_opens(now_ms, id, connection, caller));
        drop(inner);
        (Stream { id, shell, listen, ended }, heard)
    }

    /// The locks that are asked for, by name: one page of them.
    pub async fn locks(&self, request: &ListLocks) -> Result<Page<Lock>, CallError> {
        self.current().await?;
        self.show(|state, moment| listing::locks(state, moment, request)).map_err(invalid)
    }

    /// One lock, if there is anything to say of it: one page of that.
    pub async fn lock(&self, name: &[u8], page: &[u8]) -> Result<Page<Lock>, CallError> {
        let name = words::name(name).map_err(invalid)?;
        self.current().await?;
        self.show(|state, moment| listing::lock(state, moment, &name, page)).map_err(invalid)
    }

    /// All sessions, by id: one page of them.
    pub async fn sessions(&self, page: &[u8]) -> Result<Page<Session>, CallError> {
        self.current().await?;
        self.show(|state, moment| listing::sessions(state, moment, page)).map_err(invalid)
    }

    /// Somebody at this address forces the release of a lock. Says whom it hit.
    pub async fn force(&self, lock: &[u8], now: bool, from: Option<SocketAddr>) -> Result<Vec<Holder>, CallError> {
        let (lock, caller) = (words::name(lock).map_err(invalid)?, Caller { from, ..Caller::default() });
        match self.call(|frontend, call, _| frontend.force(call, lock, now, caller)).await {
            Reply::Forced(holders) => Ok(holders),
            other => Err(unavailable(other)),
        }
    }

    /// How the node is.
    pub fn status(&self) -> Status {
        let (node, counts) = (self.shell.node().status(), self.shell.with_state(State::counts));
        let inner = self.shell.inner();
        Status {
            node: node.node,
            role: role(node.role).to_owned(),
            term: node.term,
            commit: node.commit,
            applied: node.applied,
            locks: counts.used as u64,
            sessions: counts.sessions as u64,
            waiters: counts.waiters as u64,
            uptime_ms: clock::boot_ms().saturating_sub(self.started_ms),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            free_bytes: inner.frontend.free_bytes(),
            low_space: inner.frontend.is_space_low(),
        }
    }

    /// Whether it leads, and what becomes of it.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.shell.leads.subscribe()
    }

    /// Keeps everything going. Does not return while the node runs, and its data is there.
    pub async fn run(&self) -> Ended {
        tokio::select! {
            () = self.follow_leadership() => Ended::Stopped,
            () = self.keep_time() => Ended::Stopped,
            what = self.watch_disk() => Ended::Gone(what),
        }
    }

    /// Ends every stream, and counts no lease any more. The sessions live on, with their whole leases when a node leads again.
    pub fn stop(&self) {
        self.shell.step(|frontend, _| frontend.stop());
    }

    /// Closes the data. Says what is gone of it, if anything is.
    pub async fn shutdown(&self) -> Option<String> {
        let missing = self.shell.node().missing();
        self.shell.node().shutdown().await;
        missing
    }

    /// Waits until the state is at least as new as this call.
    async fn current(&self) -> Result<(), CallError> {
        match self.call(|frontend, call, now_ms| frontend.look(now_ms, call)).await {
            Reply::Current => Ok(()),
            other => Err(unavailable(other)),
        }
    }

    async fn call(&self, ask: impl FnOnce(&mut Frontend, CallId, u64)) -> Reply {
        let call = CallId(self.shell.next_id());
        let (sender, receiver) = oneshot::channel();
        {
            let mut inner = self.shell.inner();
            inner.calls.insert(call, sender);
            self.shell.step_with(&mut inner, |frontend, now_ms| ask(frontend, call, now_ms));
        }
        // Each call is answered; should one be forgotten, then nothing is known of it.
        receiver.await.unwrap_or_else(|_| Reply::Unavailable("the server stops".to_owned()))
    }

    /// Pages are made from a clone, which holds nobody back.
    fn show<T>(&self, show: impl FnOnce(&State, &Moment<'_>) -> T) -> T {
        let state = self.shell.node().state();
        let expires_in_ms =
            |session| self.shell.inner().frontend.leases().expires_in(session, clock::boot_ms()).unwrap_or(0);
        show(&state, &Moment { now_ms: clock::wall_ms(), expires_in_ms: &expires_in_ms })
    }

    fn look_at_space(&self) {
        // A disk that cannot say how much room it has is written to until it fails.
        let free_bytes = self.shell.node().free_bytes().ok();
        self.shell.step(|frontend, _| frontend.space(free_bytes, FREE_BYTES_MIN));
    }

    fn tell_leadership(&self, leadership: Leadership) {
        self.shell.step(|frontend, _| match leadership {
            Leadership::Leads { term } => frontend.elected(term),
            Leadership::DoesNotLead { .. } => frontend.deposed(),
        });
    }

    async fn follow_leadership(&self) {
        let mut leadership = self.shell.node().leadership();
        loop {
            self.tell_leadership(*leadership.borrow_and_update());
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }

    async fn keep_time(&self) {
        loop {
            let next_ms = {
                let mut inner = self.shell.inner();
                // Nobody has to wake this one.
                inner.armed_for_ms = Some(0);
                self.shell.step_with(&mut inner, |frontend, now_ms| frontend.tick(now_ms));
                inner.armed_for_ms = inner.frontend.next_wake();
                inner.armed_for_ms
            };
            // The clock of leases goes on while the machine sleeps and timers do not: look again every second at least.
            let wait_ms = next_ms.map_or(1_000, |next_ms| next_ms.saturating_sub(clock::boot_ms()).clamp(1, 1_000));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.shell.rearmed.notified() => {}
            }
        }
    }

    /// Returns when the data folder, or a file that must be in it, is gone; and says which.
    async fn watch_disk(&self) -> String {
        loop {
            if let Some(what) = self.shell.node().missing() {
                return what;
            }
            self.look_at_space();
            tokio::time::sleep(DISK_EVERY).await;
        }
    }
}

fn on_apply(shell: &Arc<Shell>) -> OnApply {
    // The node belongs to the shell, and must not keep it.
    let shell = Arc::downgrade(shell);
    Box::new(move |entry, applied, state| {
        // While the node opens, it applies what it has done before, and does not lead: the front end has nothing to hear.
        let Some(shell) = shell.upgrade().filter(|shell| shell.node.get().is_some()) else { return };
        // The front end proposes one command an entry; others are of older versions, and of terms that are over.
        if let [command] = &entry.commands[..] {
            shell.step(|frontend, now_ms| {
                frontend.applied(now_ms, state, applied.term, command, &applied.outcome);
            });
        }
    })
}

fn invalid(why: impl std::fmt::Display) -> CallError {
    CallError::Invalid(why.to_string())
}

fn unavailable(reply: Reply) -> CallError {
    match reply {
        Reply::Unavailable(why) => CallError::Unavailable(why),
        Reply::Unknown(why) => CallError::Unknown(why),
        Reply::Current | Reply::Forced(_) => {
            CallError::Unavailable("the front end answered another question".to_owned())
        }
    }
}

fn entry(command: Command) -> Entry {
    Entry { now_ms: clock::wall_ms(), commands: vec![command] }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
        Role::Stopped => "stopped",
    }
}
