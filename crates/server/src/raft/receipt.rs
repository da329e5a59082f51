//! Delivers openraft's result for a proposed entry.

use std::any::Any;
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;
use tokio::sync::oneshot;

use super::types::TypeConfig;

/// Called with the term of a proposal that was refused, or may be lost, and whether the proposal was a `Lead`. The call
/// comes before any later proposal is applied.
pub type OnLost = Arc<dyn Fn(u64, bool) + Send + Sync>;

pub enum Receipt<T> {
    /// The proposer waits for the result.
    Waits(oneshot::Sender<T>),
    /// The proposer sees applied entries in `on_apply`, and needs a call only for a lost entry. This variant allocates
    /// nothing.
    Lost {
        /// The term in which the entry was proposed.
        term: u64,
        is_lead: bool,
        lost: OnLost,
    },
}

impl<T: OptionalSend + 'static> Responder<TypeConfig, T> for Receipt<T> {
    fn on_complete(self, result: T) {
        match self {
            // The send fails if the proposer no longer waits.
            Receipt::Waits(sender) => drop(sender.send(result)),
            Receipt::Lost { term, is_lead, lost } => {
                let result = (&result as &dyn Any).downcast_ref::<ClientWriteResult<TypeConfig>>();
                if result.is_some_and(Result::is_err) {
                    lost(term, is_lead);
                }
            }
        }
    }
}
