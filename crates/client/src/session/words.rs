//! What a session is asked for, and what it says.

pub use baton_types::frames::{Acquire as Wish, Mode, Wait};
use baton_types::frames::{EndReason, Refusal, Refused, Secret, ToServer};
use baton_types::name::{Quoted, short};

use super::Millis;

/// The number of an acquire within its session. It is also the name of what it was granted.
pub type AcquireNumber = u64;

/// What a session is, for the server and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Chosen at random, so that no two sessions share it.
    pub session: u64,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// For people: what it is.
    pub label: String,
    /// For people: where it runs.
    pub host: String,
    /// For people: as which process.
    pub pid: u32,
    /// What takes the session up again on another connection: 32 random bytes that only this client and the server know.
    pub secret: Option<Secret>,
    /// How long each server has to open it, at most, before another one is asked.
    pub open_patience_ms: u64,
}

/// What the shell has to do, or to pass on to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a server, after a pause if the last attempt was short of one; then call `connected`. An older
    /// connection is to be closed, and nothing that it still brings may be passed on.
    Connect {
        /// Not to the server that was connected last, if there is another one: that one fell silent, or ended the
        /// connection without an answer to the Open.
        another: bool,
    },
    /// Close the connection. No other is wanted.
    Disconnect,
    /// Say this on the connection.
    Send(ToServer),
    /// Tell the user.
    Event(Event),
}

/// What the user has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session is there.
    Opened,
    /// The lock is held.
    Granted {
        /// By which acquire.
        acquire: AcquireNumber,
        /// Greater than that of every earlier holder.
        fence: u64,
    },
    /// The lock is not held, and will not be by this acquire.
    Refused {
        /// Which acquire.
        acquire: AcquireNumber,
        /// Why.
        refusal: NotGranted,
    },
    /// What was given back is given back, or not known to be.
    Released {
        /// What.
        acquire: AcquireNumber,
        /// Whether.
        result: Result<(), ReleaseFailure>,
    },
    /// Somebody forced the release: whoever works under the lock has to stop, and then to give it back.
    Revoked {
        /// What.
        acquire: AcquireNumber,
    },
    /// No keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// One was acknowledged, in time.
    Confirmed,
    /// The session, and with it every lock, is lost for ever.
    Lost(Loss),
    /// Nothing more will come.
    Finished {
        /// Whether the server said that the session has ended.
        confirmed: bool,
    },
}

/// Why a session or a lock is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No keep-alive was acknowledged in time.
    #[error("no keep-alive was acknowledged in time")]
    Unacknowledged,
    /// The server says so.
    #[error("the server ended the session: {0}")]
    Ended(String),
    /// Somebody forced its release.
    #[error("somebody forced the release of the lock")]
    Revoked,
    /// The user closed the session.
    #[error("the session was closed")]
    Closed,
}

/// Why an acquire is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// It would have to wait, and does not want to.
    #[error("the lock is not free")]
    NotAvailable,
    /// It has waited for as long as it wanted to.
    #[error("the lock was not granted within the time-out")]
    TimedOut,
    /// It was given up before it was granted.
    #[error("the request was cancelled")]
    Cancelled,
    /// It would wait for itself.
    #[error("the request would wait for itself: {}", in_words(.cycle))]
    Deadlock {
        /// Who waits for whom, the last for the first.
        cycle: Vec<Wait>,
    },
    /// The server says that the request makes no sense, or cannot be kept now.
    #[error("{message}")]
    Other {
        /// What kind of reason.
        kind: Refusal,
        /// One sentence.
        message: String,
    },
    /// The session was lost meanwhile, or this lock was revoked before its grant was known.
    #[error("the lock was not granted: {0}")]
    Lost(Loss),
}

/// Why it is not certain that a lock was given back by its release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseFailure {
    /// The server had already taken the lock away.
    #[error("the lock was no longer held: {0}")]
    NotHeld(String),
    /// The session was lost first: whoever waits gets the lock when the server notices that too.
    #[error("the release was not confirmed, and the lock stays closed until the lease ends: {0}")]
    Unconfirmed(Loss),
}

/// A session at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It was never acknowledged yet.
    Opening,
    /// It was acknowledged lately.
    Alive,
    /// Not for half of its time to live.
    AtRisk,
    /// It is over.
    Lost,
}

/// A granted lock at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is held.
    Held,
    /// It is held, but no keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// It is not held any more, and never will be again.
    Lost,
}

/// What is late, so that somebody may be told when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timeout {
    pub(super) at: Millis,
    pub(super) acquire: AcquireNumber,
}

impl From<Refused> for NotGranted {
    fn from(Refused { refusal, message, cycle }: Refused) -> Self {
        match refusal {
            Refusal::NotAvailable => NotGranted::NotAvailable,
            Refusal::TimedOut => NotGranted::TimedOut,
            Refusal::Cancelled => NotGranted::Cancelled,
            Refusal::Deadlock => NotGranted::Deadlock { cycle },
            kind => NotGranted::Other { kind, message },
        }
    }
}

pub(crate) fn in_words(cycle: &[Wait]) -> String {
    let step =
        |Wait { owner, label, lock }: &Wait| format!("{owner:016x} ({}) waits for {}", short(label), Quoted(lock));
    cycle.iter().map(step).collect::<Vec<_>>().join(", ")
}

/// Why a session ended: in the server's words, if it has any.
pub(crate) fn why_ended(reason: EndReason, message: String) -> String {
    if !message.is_empty() {
        return message;
    }
    let because = match reason {
        EndReason::Expired => "its lease ended",
        EndReason::Closed => "it was closed",
        EndReason::Unknown => "there is no such session",
        EndReason::Invalid => "it was refused",
        EndReason::LowSpace => "the server has too little free space",
        EndReason::TooManySessions => "the server has too many sessions",
        EndReason::WrongSecret => "the session is another client's",
    };
    because.to_owned()
}
