//! The network of a group of one. The group has no peers, so every call fails with [`NoSuchPeer`].

use std::future::Future;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};

use super::snapshot::Chunks;
use super::types::{Snapshot, TypeConfig, Vote};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such peer as node {peer}: this node is a group of one")]
pub struct NoSuchPeer {
    pub peer: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl RaftNetworkFactory<TypeConfig> for NoPeers {
    type Network = NoSuchPeer;

    async fn new_client(&mut self, target: u64, _: &crate::format::record::NodeRecord) -> NoSuchPeer {
        NoSuchPeer { peer: target }
    }
}

impl NoSuchPeer {
    fn refuse<T>(self) -> Result<T, RPCError<TypeConfig>> {
        Err(Unreachable::new(&self).into())
    }
}

impl RaftNetworkV2<TypeConfig> for NoSuchPeer {
    type SnapshotData = Chunks;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.refuse()
    }

    async fn vote(
        &mut self,
        _: VoteRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.refuse()
    }

    // openraft's default would grant the pre-vote without sending a message.
    async fn pre_vote(
        &mut self,
        _: VoteRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.refuse()
    }

    async fn full_snapshot(
        &mut self,
        _: Vote,
        _: Snapshot,
        _: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(Unreachable::new(self).into())
    }
}
