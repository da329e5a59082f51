//! The reasons to refuse an action.

use baton_protocol::ProcessId;

/// The reason to refuse an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no P{process}")]
    NoProcess { process: ProcessId },
    /// The algorithm belongs to a family without this command.
    #[error("the algorithm has no such command")]
    OtherFamily,
    /// In a group of failure detectors each process decides by itself whom it suspects.
    #[error("each process is a failure detector itself: it suspects by its own clock, when its timer fires")]
    Detects,
    /// Helpers get no commands.
    #[error("P{process} is a helper, and only P0 to P{} may request", clients - 1)]
    Helper { process: ProcessId, clients: usize },
    #[error("P{process} is down")]
    Down { process: ProcessId },
    /// Only a process that is down can recover.
    #[error("P{process} is not down")]
    NotDown { process: ProcessId },
    /// The process already has the critical section.
    #[error("P{process} is inside")]
    Inside { process: ProcessId },
    /// Only a grant can be released.
    #[error("P{process} is not inside")]
    NotInside { process: ProcessId },
    /// The user has a pending request or append.
    #[error("P{process} is already waiting")]
    AskedAlready { process: ProcessId },
    /// The process must first learn from other processes what it missed.
    #[error("P{process} has recovered and is not ready yet")]
    CatchingUp { process: ProcessId },
    /// The message has arrived, is lost, or was never sent.
    #[error("message #{message} is not in flight")]
    NoMessage { message: u64 },
    #[error("P{process} has no timer {name} running")]
    NoTimer { process: ProcessId, name: String },
    /// A process handles its messages to itself inside the step.
    #[error("P{process} cannot send to itself")]
    ToItself { process: ProcessId },
    /// A detector watches only other processes.
    #[error("P{process} does not watch itself")]
    OfItself { process: ProcessId },
}
