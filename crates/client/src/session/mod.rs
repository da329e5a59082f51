//! A session with the lock service, from the client's side: the lease and the requests. The state machine is pure: it
//! does no I/O and reads no clock.
//!
//! **How to drive it.** Begin with [`Session::start`]. Every call that can change the session takes `now`, milliseconds
//! of CLOCK_BOOTTIME, which goes on while the machine sleeps. After every call, carry out the outputs of
//! [`Session::poll`] until it returns `None`. Then wait for whichever comes first, and make the call for it: a frame
//! ([`Session::receive`]), the end of the connection ([`Session::disconnected`]), a call of the user, or the time
//! [`Session::next_wake`] ([`Session::tick`]).
//!
//! What always holds:
//! - The deadline counts from the moment when the last acknowledged keep-alive was *sent*. The session is lost shortly
//!   before the deadline, so that the user has time to stop. From then on every question is answered with Lost, even if
//!   no call of `tick` came in between. A lost session never revives.
//! - A request keeps its number and its operation for ever. On each new connection the session sends all unanswered
//!   requests again, in order.
//! - Each request tells the server which answers before it the client has seen, so that the server can forget these
//!   answers. The session never reports an answer that it has not seen. A request that waits for a lock does not keep
//!   the server from forgetting later answers.
//! - The session cancels or releases every acquire that the user gives up, and repeats this until the server confirms
//!   or the session is over.

mod claims;
mod engine;
mod lease;
mod words;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{Operation, ToClient};

use claims::Locks;
use engine::Engine;
pub use lease::MARGIN_SHARE;
#[cfg(feature = "net")]
pub(crate) use words::why_ended;
pub use words::{
    AcquireNumber, Config, Event, Hopeless, LockState, Loss, Mode, NotGranted, Output, ReleaseFailure, SessionState,
    Wait, Wish,
};

/// Milliseconds of CLOCK_BOOTTIME.
pub type Millis = u64;

/// The state machine. The module documentation says how to drive it. An engine (`engine.rs`) has the requests, the lease
/// and the connections; the locks (`claims.rs`) use it.
#[derive(Clone, Debug)]
pub struct Session {
    engine: Engine,
    locks: Locks,
}

impl Session {
    /// Makes a session that no server knows yet.
    pub fn new(config: Config) -> Self {
        Session { engine: Engine::new(config), locks: Locks::default() }
    }

    /// Makes a session that only closes one that a server may know. That one was begun by another machine, perhaps in a
    /// process that is gone, and must not be driven any more. It may take any time until a server confirms the end; end
    /// the attempts with [`Session::stop`].
    pub fn closing(config: Config, now: Millis) -> Self {
        Session { engine: Engine::closing(config, now), locks: Locks::default() }
    }

    /// Tells the session whether there is another server to turn to. Then it gives up a silent one earlier.
    pub fn set_alternatives(&mut self, exist: bool) {
        self.engine.set_alternatives(exist);
    }

    /// From now on each Open names this cluster, so that a server of another one refuses it.
    pub fn is_meant_for(&mut self, cluster: Option<ClusterId>) {
        self.engine.is_meant_for(cluster);
    }

    /// Asks for the first connection.
    pub fn start(&mut self) {
        self.engine.start();
    }

    /// Returns the next output to carry out.
    pub fn poll(&mut self) -> Option<Output> {
        self.engine.poll()
    }

    /// Call this when a connection to a server exists.
    pub fn connected(&mut self, now: Millis) {
        self.engine.connected(&mut self.locks, now);
    }

    /// Call this when the connection has ended. The session and its requests go on.
    pub fn disconnected(&mut self, now: Millis) {
        self.engine.disconnected(&mut self.locks, now);
    }

    /// Call this when a connection to the leader is ready and replaces the current one. Then call
    /// [`connected`](Session::connected). The session and its requests go on. Returns false if the session has given
    /// up the current connection by itself: then it does not ask for the leader.
    pub fn moves(&mut self, now: Millis) -> bool {
        self.engine.moves(&mut self.locks, now)
    }

    /// Call this for each frame that the server sends on the current connection.
    pub fn receive(&mut self, now: Millis, said: ToClient) {
        self.engine.receive(&mut self.locks, now, said);
    }

    /// Makes a request of another kind than those for locks. [`Event::Answered`] brings the answer, unless the session is
    /// lost before.
    pub fn ask(&mut self, now: Millis, operation: impl Into<Operation>) -> u64 {
        self.tick(now);
        self.engine.request(operation)
    }

    /// Closes the session. For the user, all its locks and waiting requests are over at once.
    pub fn close(&mut self, now: Millis) {
        self.engine.close(&mut self.locks, now);
    }

    /// Ends the attempts to close the session: no server has confirmed the end.
    pub fn stop(&mut self) {
        self.engine.stop(&mut self.locks);
    }

    /// Does what is due at `now`: losses, time-outs, keep-alives, and the change to another server.
    pub fn tick(&mut self, now: Millis) {
        self.engine.tick(&mut self.locks, now);
    }

    /// The latest time for the next call of `tick`, if nothing else happens first.
    pub fn next_wake(&self) -> Option<Millis> {
        self.engine.next_wake(&self.locks)
    }

    /// The state at `now`, whether or not `tick` was called.
    pub fn state(&self, now: Millis) -> SessionState {
        self.engine.state(now)
    }

    /// The end of the lease: until this moment the server grants the session's locks to no other session. Each
    /// acknowledgement moves the deadline, until the session is lost, which happens shortly before the deadline. None
    /// before the first acknowledgement.
    pub fn deadline(&self) -> Option<Millis> {
        self.engine.deadline()
    }

    pub fn loss(&self, now: Millis) -> Option<Loss> {
        self.engine.loss(now)
    }

    /// Whether the session has ended: no frame will come or go any more.
    pub fn is_finished(&self) -> bool {
        self.engine.is_finished()
    }

    /// How long to wait for a connection or an answer before another server gets its turn.
    pub fn patience_ms(&self) -> u64 {
        self.engine.patience_ms()
    }
}
