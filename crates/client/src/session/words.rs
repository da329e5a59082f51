//! The inputs and outputs of a session: its configuration, outputs, events and errors.

pub use baton_types::frames::Hopeless;
use baton_types::frames::{Answer, EndReason, Secret, ToServer};
pub use baton_types::locks::{Acquire as Wish, Mode, Wait};
use baton_types::refusal::Refusal;
use baton_types::sentences;

use super::Millis;

/// The number of an acquire within its session. It also names the lock that this acquire was granted.
pub type AcquireNumber = u64;

/// How a session presents itself to the server and to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A random number, so that no two sessions share it.
    pub session: u64,
    /// How long the session survives without a keep-alive.
    pub ttl_ms: u64,
    /// Shown to people: what the session is.
    pub label: String,
    /// Shown to people: the host of the client.
    pub host: String,
    /// Shown to people: the process of the client.
    pub pid: u32,
    /// 32 random bytes that only this client and the server know. With them the client resumes the session on another
    /// connection.
    pub secret: Option<Secret>,
    /// The longest time that each server has to open the session before the client tries another server.
    pub open_patience_ms: u64,
}

/// What the driver has to do, or to pass on to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a server, then call `connected`. Pause first if the last attempt failed. Close an older connection,
    /// and pass on no more frames from it.
    Connect {
        /// True: connect to another server than last time, if there is one, because the last server fell silent or
        /// ended the connection without an answer to the Open.
        another: bool,
    },
    /// Close the connection. The session wants no other one.
    Disconnect,
    /// Send this frame on the connection.
    Send(ToServer),
    Event(Event),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Opened,
    /// The user now holds the lock.
    Granted {
        acquire: AcquireNumber,
        /// Greater than the fence of every earlier holder.
        fence: u64,
    },
    /// The acquire has failed and will not be granted later.
    Refused {
        acquire: AcquireNumber,
        refusal: NotGranted,
    },
    /// The answer to a request that [`Session::ask`](super::Session::ask) made.
    Answered {
        number: u64,
        answer: Answer,
    },
    /// A release has ended: confirmed, or failed.
    Released {
        acquire: AcquireNumber,
        result: Result<(), ReleaseFailure>,
    },
    /// An operator forced the release of the lock. The holder must stop its work, and then release the lock.
    Revoked {
        acquire: AcquireNumber,
    },
    /// The acquire waits for a silent process of a peer group. It goes on waiting.
    Hopeless {
        acquire: AcquireNumber,
        why: Hopeless,
    },
    /// No keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// After `AtRisk`: a keep-alive was acknowledged in time.
    Confirmed,
    /// The session and all its locks are lost for ever.
    Lost(Loss),
    /// The session has ended. The server has nothing more to send.
    Finished {
        /// Whether the server confirmed the end of the session.
        confirmed: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("no keep-alive was acknowledged in time")]
    Unacknowledged,
    /// The server ended the session. The text is the reason.
    #[error("the server ended the session: {0}")]
    Ended(String),
    /// An operator forced the release of this lock. The session goes on.
    #[error("an operator forced the release of the lock")]
    Revoked,
    #[error("the session was closed")]
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// By the server, or because the request has reached its time-out.
    #[error(transparent)]
    Refused(Refusal),
    /// The session was lost while the request waited, or the lock was revoked before the client received the grant.
    #[error("the lock was not granted: {0}")]
    Lost(Loss),
}

/// Why a release failed or was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseFailure {
    /// The server had already taken the lock away.
    #[error("the lock was no longer held: {0}")]
    NotHeld(String),
    /// The session was lost first. The next waiter gets the lock when the lease ends on the server, too.
    #[error("no server confirmed the release; the lock stays closed until its lease ends: {0}")]
    Unconfirmed(Loss),
}

/// The state of a session at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No server has acknowledged the session yet.
    Opening,
    /// The last acknowledgement is less than half of the time to live ago.
    Alive,
    /// No keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// The session is over.
    Lost,
}

/// The state of a granted lock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    Held,
    /// The lock is held, but no keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// The lock is not held any more, and will not be held again by this acquire.
    Lost,
}

/// When an acquire times out. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timeout {
    pub(super) at: Millis,
    pub(super) acquire: AcquireNumber,
}

/// Why a session ended: the server's text. If the server sent none, the text that a server of this version sends.
pub(crate) fn why_ended(reason: EndReason, message: String) -> String {
    if !message.is_empty() {
        return message;
    }
    sentences::ended(reason).to_owned()
}
