//! The desk: where the streams of sessions and the leases meet what the state says. It decides nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_proto::v1::ServerFrame;
use tokio::sync::{Notify, mpsc, oneshot};
use tonic::Status;

use super::wire;
use crate::clock;
use crate::leases::{KeepAlive, Leases, RoundId};
use crate::state::locks;
use crate::state::{Effect, SessionId};

/// What a stream carries to its client.
pub type Outgoing = mpsc::Sender<Result<ServerFrame, Status>>;

/// How many frames may wait for a client to read them, before its stream is given up: the client comes back and asks
/// again, and the service has kept its answers.
pub const FRAMES_WAITING_MAX: usize = 4096;

/// See the module.
#[derive(Default)]
pub struct Desk {
    state: Mutex<State>,
    /// A timer may be due earlier than was thought.
    pub rearmed: Notify,
    /// A keep-alive waits for a round.
    pub kept_alive: Notify,
}

/// What the desk has under its lock.
#[derive(Default)]
pub struct State {
    /// The timers of this node, if it leads.
    pub leases: Leases,
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
    /// Sends a frame to a session's client, if it has a stream here. One that does not read is given up.
    fn send(&mut self, session: SessionId, frame: ServerFrame) {
        if let Some(stream) = self.streams.get(&session)
            && stream.frames.try_send(Ok(frame)).is_err()
        {
            self.streams.remove(&session);
        }
    }
}

impl Desk {
    /// What is on it, for as long as nobody else has to look.
    pub fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics half-way; if it ever did, what is left is still a state to go on from.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Ends every stream, and says why. The sessions live on.
    pub fn end_streams(&self, why: &str) {
        for (_, stream) in self.state().streams.drain() {
            // Whether it is heard or not, the stream ends.
            drop(stream.frames.try_send(Err(Status::unavailable(why))));
        }
    }

    /// A keep-alive has arrived. A session that has no lease here has to be taken up again: its stream ends.
    pub fn keep_alive(&self, session: SessionId, number: u64) -> Result<(), Status> {
        match self.state().leases.keep_alive(session, number, clock::boot_ms()) {
            KeepAlive::Waits => self.kept_alive.notify_one(),
            KeepAlive::Condemned => {}
            KeepAlive::Unknown => return Err(Status::unavailable("no lease of this session is known here: resume it")),
            KeepAlive::NotLeading => return Err(Status::unavailable("this node does not lead")),
        }
        Ok(())
    }

    /// A round of reading the leader's index is over: acknowledges the keep-alives that it served.
    pub fn round_done(&self, round: RoundId, led: bool) {
        let mut state = self.state();
        for (session, number) in state.leases.round_done(round, led) {
            state.send(session, wire::alive(number));
        }
    }

    /// How long the session has yet if nothing is heard of it.
    pub fn expires_in_ms(&self, session: SessionId) -> u64 {
        self.state().leases.expires_in(session, clock::boot_ms()).unwrap_or(0)
    }

    /// An entry was applied, with these effects.
    pub fn applied(&self, effects: &[Effect]) {
        let now = clock::boot_ms();
        let mut state = self.state();
        let earliest = state.leases.next_wake();
        for effect in effects {
            if state.leases.observe(now, effect) {
                tell(&mut state, effect);
            }
        }
        if state.leases.next_wake() != earliest {
            self.rearmed.notify_one();
        }
    }
}

fn tell(state: &mut State, effect: &Effect) {
    match *effect {
        Effect::Answer { session, number, ref answer } => state.send(session, wire::answer(number, answer)),
        Effect::Locks(locks::Effect::Revoked { session, acquire }) => state.send(session, wire::revoked(acquire)),
        Effect::Ended { session, reason } => {
            state.send(session, wire::ended(reason));
            state.streams.remove(&session);
        }
        // Told by whoever proposed the Open, to the stream that it came by: see `locks::carry`.
        Effect::Opened { .. } => {}
        // For whoever proposed it.
        Effect::Locks(locks::Effect::Forced { .. }) => {}
        // For the leases alone.
        Effect::Locks(locks::Effect::Waits { .. } | locks::Effect::LockDelay { .. }) => {}
    }
}
