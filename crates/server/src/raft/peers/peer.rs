//! The connection to one other node: a task that dials, writes requests and matches answers.
//!
//! The task dials when there is a call and no connection. After a failed attempt it pauses; calls fail at once
//! meanwhile, so that no caller waits for a node that is down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::{Instant, JoinHandle, sleep, timeout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::bytes::Bytes;
use tracing::{info, warn};

use super::Table;
use super::heard::Heard;
use super::link::{Link, Reader, Writer};
use super::progress::Progress;
use super::wire::{self, Answer, Call, LinkError, Purpose, Reply, Request};
use crate::raft::pace::RoundTrips;

/// The pause after a failed attempt grows from the first to the second of these.
const RETRY_AFTER: Duration = Duration::from_millis(10);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(200);

/// A connection on which an answer is due for this long is broken: it is opened again.
pub const SILENT_MAX: Duration = Duration::from_secs(1);
/// A connection without calls is closed after this time.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The most calls that wait for the connection, and for their answers.
const QUEUED_MAX: usize = 256;
const UNANSWERED_MAX: usize = 4096;

type Answered = Result<Answer, LinkError>;

struct Queued {
    id: u64,
    frame: Bytes,
    answer: oneshot::Sender<Answered>,
}

/// Another node, as this one sees it. Dropping it closes the connection.
pub struct Peer {
    pub id: u64,
    queue: mpsc::Sender<Queued>,
    next_call: AtomicU64,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    id: u64,
    /// The table that this peer is in.
    peers: Table,
    heard: Arc<Heard>,
    /// How long answers to rounds took lately.
    round_trips: RoundTrips,
    /// The last append on this connection that was answered, and 1; 0 if there is none.
    answered: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    address: String,
    /// Why there is no connection, and no new attempt yet.
    down: Option<LinkError>,
    /// Why the last connection ended, or the last attempt failed; none while there is a connection.
    last_error: Option<LinkError>,
    progress: Progress,
    /// Why the node refuses the appends of this leader.
    refuses: Option<String>,
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: no code panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node for people.
    fn label(&self) -> String {
        self.peers.peers().map_or_else(|| format!("node {}", self.id), |peers| peers.label(self.id))
    }

    async fn dial(&self, purpose: Purpose) -> Result<Link, LinkError> {
        let address = self.inner().address.clone();
        // A node that calls has a log or a vote.
        // Without the table, this node has stopped.
        let peers = self.peers.peers().ok_or(LinkError::Closed)?;
        let ours = peers.hello(self.id, purpose, false);
        let link = peers.dial(&address, &ours).await?;
        self.heard.greeted(ours.node, &link.theirs);
        Ok(link)
    }
}

impl Peer {
    pub fn start(id: u64, address: String, heard: Arc<Heard>, peers: Table) -> Peer {
        let (queue, queued) = mpsc::channel(QUEUED_MAX);
        let inner = Mutex::new(Inner { address, ..Inner::default() });
        let (round_trips, answered) = (RoundTrips::default(), AtomicU64::new(0));
        let state = Arc::new(State { id, peers, heard, round_trips, answered, inner });
        let task = baton_runtime::spawn(run(state.clone(), queued));
        Peer { id, queue, next_call: AtomicU64::new(0), state, task }
    }

    /// Sends a request, behind all earlier ones. The returned future resolves with the answer.
    pub fn call(
        &self,
        request: Request<'_>,
        limit: Duration,
    ) -> impl Future<Output = Result<Answer, LinkError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let queued = match self.state.inner().down.clone() {
            Some(error) => Err(error),
            None => {
                let id = self.next_call.fetch_add(1, Ordering::Relaxed);
                let frame = wire::encode(&Call { id, request });
                let queued = self.queue.try_send(Queued { id, frame, answer: sender });
                queued.map_err(|_| LinkError::Overloaded)
            }
        };
        async move {
            queued?;
            match timeout(limit, receiver).await {
                Ok(answered) => answered.unwrap_or(Err(LinkError::Closed)),
                Err(_) => Err(LinkError::Silent(limit)),
            }
        }
    }

    /// The node for people.
    pub fn label(&self) -> String {
        self.state.label()
    }

    /// Opens a connection of its own for a snapshot, so that no heartbeat waits behind it.
    pub async fn dial_for_snapshot(&self) -> Result<Link, LinkError> {
        self.state.dial(Purpose::Snapshot).await
    }

    /// The start of its process that this node talks with.
    pub fn start_number(&self) -> u64 {
        self.state.heard.start_number()
    }

    /// The address for the next connection.
    pub fn set_address(&self, address: &str) {
        let mut inner = self.state.inner();
        if inner.address != address {
            address.clone_into(&mut inner.address);
        }
    }

    /// Why there is no connection.
    pub fn last_error(&self) -> Option<LinkError> {
        self.state.inner().last_error.clone()
    }

    /// The node has answered an append; with a sentence if it refuses the leader.
    pub fn set_refuses(&self, why: Option<&str>) {
        let mut inner = self.state.inner();
        if inner.refuses.as_deref() != why {
            inner.refuses = why.map(str::to_owned);
        }
    }

    /// Why the node refuses the appends of this leader.
    pub fn refuses(&self) -> Option<String> {
        self.state.inner().refuses.clone()
    }

    /// Several of its answers to rounds took this long lately, or longer.
    pub fn round_trip(&self) -> Duration {
        self.state.round_trips.often()
    }

    /// The last append on this connection that was answered.
    pub fn answered(&self) -> Option<u64> {
        self.state.answered.load(Ordering::Relaxed).checked_sub(1)
    }

    pub fn with_progress<T>(&self, look: impl FnOnce(&mut Progress) -> T) -> T {
        look(&mut self.state.inner().progress)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(state: Arc<State>, mut queued: mpsc::Receiver<Queued>) {
    let mut pause = RETRY_AFTER;
    while let Some(first) = queued.recv().await {
        // The caller no longer waits for this answer.
        if first.answer.is_closed() {
            continue;
        }
        match state.dial(Purpose::Calls).await {
            Ok(link) => {
                pause = RETRY_AFTER;
                if state.inner().last_error.take().is_some() {
                    let address = state.inner().address.clone();
                    info!(address, "{} answers again", state.label());
                }
                let error = converse(link, &state, first, &mut queued).await;
                if error != LinkError::Silent(IDLE_MAX) {
                    note(&state, &error);
                }
            }
            Err(error) => {
                note(&state, &error);
                state.inner().down = Some(error.clone());
                // Calls that do not know yet that the node is down.
                let _ = first.answer.send(Err(error.clone()));
                while let Ok(call) = queued.try_recv() {
                    let _ = call.answer.send(Err(error.clone()));
                }
                sleep(pause).await;
                pause = (pause * 2).min(RETRY_AFTER_MAX);
                state.inner().down = None;
            }
        }
    }
}

/// Logs an error once.
fn note(state: &State, error: &LinkError) {
    let label = state.label();
    let mut inner = state.inner();
    if inner.last_error.as_ref() != Some(error) {
        warn!(address = inner.address, "{label} cannot be reached: {error}");
        inner.last_error = Some(error.clone());
    }
}

/// The calls without an answer, and when each was sent.
type Unanswered = Mutex<BTreeMap<u64, (Instant, oneshot::Sender<Answered>)>>;

/// Uses a connection until it breaks or is no longer needed. Calls without an answer then fail.
async fn converse(link: Link, state: &State, first: Queued, queued: &mut mpsc::Receiver<Queued>) -> LinkError {
    let Link { reader, writer, theirs } = link;
    let unanswered = Unanswered::default();
    let _connected = state.heard.connected();
    state.answered.store(0, Ordering::Relaxed);
    let error = tokio::select! {
        biased;
        error = write(writer, first, queued, &unanswered) => error,
        error = read(reader, theirs.start, state, &unanswered) => error,
    };
    let unanswered = unanswered.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (_, answer) in unanswered.into_values() {
        // The send fails if the caller no longer waits.
        let _ = answer.send(Err(error.clone()));
    }
    error
}

fn lock(unanswered: &Unanswered) -> MutexGuard<'_, BTreeMap<u64, (Instant, oneshot::Sender<Answered>)>> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(
    mut writer: Writer,
    first: Queued,
    queued: &mut mpsc::Receiver<Queued>,
    unanswered: &Unanswered,
) -> LinkError {
    let mut next = Some(first);
    loop {
        // All that is queued goes out with one flush.
        while let Some(call) = next.take().or_else(|| queued.try_recv().ok()) {
            if call.answer.is_closed() {
                continue;
            }
            {
                let mut unanswered = lock(unanswered);
                if unanswered.len() >= UNANSWERED_MAX {
                    return LinkError::Overloaded;
                }
                unanswered.insert(call.id, (Instant::now(), call.answer));
            }
            if let Err(error) = writer.feed(call.frame).await {
                return error;
            }
        }
        if let Err(error) = writer.flush().await {
            return error;
        }
        next = queued.recv().await;
        if next.is_none() {
            return LinkError::Closed;
        }
    }
}

async fn read(mut reader: Reader, start_number: u64, state: &State, unanswered: &Unanswered) -> LinkError {
    let mut last = Instant::now();
    loop {
        let Ok(frame) = timeout(SILENT_MAX, reader.next()).await else {
            let oldest = lock(unanswered).values().map(|(sent, _)| *sent).min();
            match oldest {
                Some(sent) if sent.elapsed() >= SILENT_MAX => return LinkError::Silent(SILENT_MAX),
                None if last.elapsed() >= IDLE_MAX => return LinkError::Silent(IDLE_MAX),
                _ => continue,
            }
        };
        if state.heard.start_number() != start_number {
            return LinkError::Replaced;
        }
        last = Instant::now();
        state.heard.now();
        let reply = frame.and_then(|frame| wire::decode::<Reply>(&frame, "an answer"));
        match reply {
            Ok(Reply { id, answer }) => {
                if let Answer::Appended(_) = answer {
                    state.answered.store(id + 1, Ordering::Relaxed);
                }
                if let Some((sent, waits)) = lock(unanswered).remove(&id) {
                    if let Answer::Follows(_) = answer {
                        state.round_trips.note(sent);
                    }
                    // The send fails if the caller no longer waits.
                    let _ = waits.send(Ok(answer));
                }
            }
            Err(error) => return error,
        }
    }
}
