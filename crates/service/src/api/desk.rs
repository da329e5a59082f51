//! The desk: where the streams of sessions, the leases and the log meet. It decides nothing; it carries the words of the
//! table to the streams, those of the leases to the log, and keep-alives to the leases.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use baton_proto::v1::ServerFrame;
use tokio::sync::{Notify, mpsc, oneshot};
use tonic::Status;

use super::wire;
use crate::clock;
use crate::leases::Leases;
use crate::raft::Node;
use crate::table::{Command, Effect, SessionId};

/// What a stream carries to its client.
pub type Outgoing = mpsc::Sender<Result<ServerFrame, Status>>;

/// How many frames may wait for a client to read them, before its stream is given up: the client comes back and asks
/// again, and the table has kept its answers.
pub const FRAMES_WAITING_MAX: usize = 4096;

/// See the module.
pub struct Desk {
    node: Node,
    state: Mutex<State>,
    /// A timer may be due earlier than was thought.
    rearmed: Notify,
    /// A keep-alive waits for a round.
    kept_alive: Notify,
}

#[derive(Default)]
struct State {
    leases: Leases,
    streams: HashMap<SessionId, Stream>,
    streams_ever: u64,
}

struct Stream {
    id: u64,
    frames: Outgoing,
    /// Dropped with it, which tells whoever listens to the client that nobody answers any more.
    _attached: oneshot::Sender<()>,
}

impl State {
    fn send(&mut self, session: SessionId, frame: ServerFrame) {
        if let Some(stream) = self.streams.get(&session)
            && stream.frames.try_send(Ok(frame)).is_err()
        {
            self.streams.remove(&session);
        }
    }
}

impl Desk {
    /// A desk in front of this node.
    pub fn new(node: Node) -> Self {
        Desk { node, state: Mutex::default(), rearmed: Notify::new(), kept_alive: Notify::new() }
    }

    /// The node behind it.
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing in here panics half-way; if it ever did, what is left is still a state to go on from.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// From now on, what is for this session goes to this stream; an older stream of it ends. Returns the stream's id,
    /// and what resolves when the stream is given up.
    pub fn attach(&self, session: SessionId, frames: Outgoing) -> (u64, oneshot::Receiver<()>) {
        let (attached, given_up) = oneshot::channel();
        let mut state = self.state();
        state.streams_ever += 1;
        let id = state.streams_ever;
        state.streams.insert(session, Stream { id, frames, _attached: attached });
        (id, given_up)
    }

    /// The stream is gone.
    pub fn detach(&self, session: SessionId, id: u64) {
        let mut state = self.state();
        if state.streams.get(&session).is_some_and(|stream| stream.id == id) {
            state.streams.remove(&session);
        }
    }

    /// A keep-alive has arrived.
    pub fn keep_alive(&self, session: SessionId, number: u64) {
        self.state().leases.keep_alive(session, number, clock::boot_ms());
        self.kept_alive.notify_one();
    }

    /// How long the session has yet if nothing is heard of it.
    pub fn expires_in_ms(&self, session: SessionId) -> u64 {
        self.state().leases.expires_in(session, clock::boot_ms()).unwrap_or(0)
    }

    /// Entries were applied, with these effects.
    pub fn applied(&self, effects: Vec<Effect>) {
        let now = clock::boot_ms();
        let mut state = self.state();
        for effect in effects {
            match effect {
                Effect::Opened { session, ttl_ms } => {
                    state.leases.opened(session, ttl_ms, now);
                    state.send(session, wire::opened(session, ttl_ms));
                    self.rearmed.notify_one();
                }
                Effect::Answer { session, number, answer } => {
                    state.leases.answered(session, number);
                    state.send(session, wire::answer(number, answer));
                }
                Effect::Revoked { session, acquire } => state.send(session, wire::revoked(acquire)),
                Effect::Ended { session, reason } => {
                    state.leases.ended(session);
                    state.send(session, wire::ended(reason));
                    state.streams.remove(&session);
                }
                Effect::Waits { session, number, timeout_ms } => {
                    state.leases.waits(session, number, timeout_ms, now);
                    self.rearmed.notify_one();
                }
                Effect::LockDelay { lock, generation, delay_ms } => {
                    state.leases.lock_delay(lock, generation, delay_ms, now);
                    self.rearmed.notify_one();
                }
            }
        }
    }

    /// Follows who leads: leases start anew in full whenever this node begins to, and its streams end when it ceases to.
    pub async fn follow_leadership(&self) {
        let mut leadership = self.node.leadership();
        loop {
            let leads = *leadership.borrow_and_update();
            match leads {
                Some(term) => {
                    let table = self.node.table();
                    self.state().leases.lead(clock::boot_ms(), term, table.pending_timers());
                    self.rearmed.notify_one();
                }
                None => {
                    self.state().leases.step_down();
                    self.end_streams("this node does not lead");
                }
            }
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }

    /// Ends every stream, and says why. The sessions live on.
    pub fn end_streams(&self, why: &str) {
        for (_, stream) in self.state().streams.drain() {
            // Whether it is heard or not, the stream ends.
            drop(stream.frames.try_send(Err(Status::unavailable(why))));
        }
    }

    /// Proposes what time brings about, when it does.
    pub async fn keep_time(&self) {
        loop {
            let now = clock::boot_ms();
            let (due, next) = {
                let mut state = self.state();
                (state.leases.due(now), state.leases.next_wake())
            };
            for command in due {
                self.propose_timer(command).await;
            }
            // CLOCK_BOOTTIME may jump while the machine sleeps and timers do not: look again every second at least.
            let wait = next.map_or(1_000, |next| next.saturating_sub(now).clamp(1, 1_000));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
                () = self.rearmed.notified() => {}
            }
        }
    }

    async fn propose_timer(&self, command: Command) {
        if self.node.propose(vec![command.clone()]).await.is_err() {
            self.state().leases.not_proposed(&command);
        }
    }

    /// Acknowledges keep-alives: each round of reading the leader's index that began after they arrived serves all that
    /// waited when it began.
    pub async fn acknowledge(&self) {
        loop {
            let round = self.state().leases.begin_round();
            let Some(round) = round else {
                self.kept_alive.notified().await;
                continue;
            };
            let ok = self.node.read_index().await.is_ok();
            let mut state = self.state();
            for (session, number) in state.leases.round_done(round, ok) {
                state.send(session, wire::alive(number));
            }
        }
    }
}
