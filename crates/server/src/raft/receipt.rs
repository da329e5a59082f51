//! Tells when a submitted entry is lost.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;

use super::types::TypeConfig;

/// Called with the term of a proposal that was refused, or may be lost, and whether the proposal was a `Lead`. The call
/// comes before any later proposal is applied.
pub type OnLost = Arc<dyn Fn(u64, bool) + Send + Sync>;

/// The proposer sees applied entries in `on_apply`, and needs a call only for a lost entry. A receipt allocates nothing.
pub struct Receipt<T> {
    /// The term in which the entry was proposed.
    pub term: u64,
    pub is_lead: bool,
    pub lost: OnLost,
    /// openraft's result for the entry.
    pub result: PhantomData<fn(T)>,
}

impl<T: OptionalSend + 'static> Responder<TypeConfig, T> for Receipt<T> {
    fn on_complete(self, result: T) {
        let result = (&result as &dyn Any).downcast_ref::<ClientWriteResult<TypeConfig>>();
        if result.is_some_and(Result::is_err) {
            (self.lost)(self.term, self.is_lead);
        }
    }
}
