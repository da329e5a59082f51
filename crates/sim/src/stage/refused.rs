//! Why an action cannot happen now.

use baton_protocol::ProcessId;

/// Why an action cannot happen now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The group is smaller.
    #[error("there is no P{process}")]
    NoProcess {
        /// Who was named.
        process: ProcessId,
    },
    /// A request to an election, or the like.
    #[error("this is not what the algorithm is for")]
    OtherFamily,
    /// A helper is given no commands.
    #[error("P{process} has no user")]
    NoUser {
        /// Which one.
        process: ProcessId,
    },
    /// It has crashed.
    #[error("P{process} is down")]
    Down {
        /// Which one.
        process: ProcessId,
    },
    /// Only a process that is down recovers.
    #[error("P{process} is not down")]
    NotDown {
        /// Which one.
        process: ProcessId,
    },
    /// It has the critical section already.
    #[error("P{process} is inside")]
    Inside {
        /// Which one.
        process: ProcessId,
    },
    /// Only a grant can be released.
    #[error("P{process} is not inside")]
    NotInside {
        /// Which one.
        process: ProcessId,
    },
    /// Its user waits for an answer.
    #[error("P{process} has asked already")]
    AskedAlready {
        /// Which one.
        process: ProcessId,
    },
    /// It has recovered, and must first hear from others.
    #[error("P{process} has recovered and is not ready yet")]
    CatchingUp {
        /// Which one.
        process: ProcessId,
    },
    /// It has arrived, is lost, or was never sent.
    #[error("message #{message} is not in flight")]
    NoMessage {
        /// Its number.
        message: u64,
    },
    /// No such timer runs.
    #[error("P{process} has no timer {name} running")]
    NoTimer {
        /// Whose timer.
        process: ProcessId,
        /// Which one.
        name: String,
    },
    /// What a process has to tell itself it handles inside its step.
    #[error("P{process} cannot send to itself")]
    ToItself {
        /// Which one.
        process: ProcessId,
    },
    /// A detector watches the others.
    #[error("P{process} does not watch itself")]
    OfItself {
        /// Which one.
        process: ProcessId,
    },
}
