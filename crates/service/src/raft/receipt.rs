//! What openraft says of an entry that was proposed.

use std::any::Any;
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;
use tokio::sync::oneshot;

use super::types::TypeConfig;

/// Told of the term of a proposal that was refused, or is not known to be kept, before anything that was proposed later is
/// applied.
pub type OnLost = Arc<dyn Fn(u64) + Send + Sync>;

/// Where openraft says what became of an entry.
pub enum Receipt<T> {
    /// To one who waits for it.
    Waits(oneshot::Sender<T>),
    /// To one who sees what is applied anyway, and has to know of what is not. It takes no memory of its own.
    Lost {
        /// The term in which the entry was proposed.
        term: u64,
        /// Who is told.
        lost: OnLost,
    },
}

impl<T: OptionalSend + 'static> Responder<TypeConfig, T> for Receipt<T> {
    fn on_complete(self, result: T) {
        match self {
            // Nobody may be waiting any more.
            Receipt::Waits(sender) => drop(sender.send(result)),
            Receipt::Lost { term, lost } => {
                let result = (&result as &dyn Any).downcast_ref::<ClientWriteResult<TypeConfig>>();
                if result.is_some_and(Result::is_err) {
                    lost(term);
                }
            }
        }
    }
}
