//! Proposals whose result the test waits for. A host submits entries, and waits for none.

use std::pin::Pin;
use std::task::{Context, Waker};

use crate::raft::types::Encoded;
use crate::raft::{Applied, Node};
use crate::state::Entry;

/// Resolves when the entry is applied, or is lost.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Applied, String>> + Send>>;

impl Node {
    /// Proposes an entry. Entries are in the log in the order of these calls.
    pub(in crate::raft) fn propose(&self, entry: Entry) -> Pending {
        let raft = self.raft.clone();
        let mut pending: Pending = Box::pin(async move {
            let written = raft.client_write(Encoded::from(entry)).await;
            written.map(|response| response.data).map_err(|why| why.to_string())
        });
        // The first poll puts the entry into openraft's queue.
        match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(result) => Box::pin(std::future::ready(result)),
            std::task::Poll::Pending => pending,
        }
    }
}
