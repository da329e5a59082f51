//! Converts between openraft's types and the types on disk.

use std::sync::Arc;

use super::types::{Encoded, LogId, Membership, Payload, SnapshotMeta, Vote};
use crate::format::record;
use crate::format::snapshot;

type OpenraftMembership = openraft::Membership<u64, record::NodeRecord>;

impl From<LogId> for record::LogId {
    fn from(id: LogId) -> Self {
        record::LogId { term: id.leader_id.term, index: id.index }
    }
}

impl From<record::LogId> for LogId {
    fn from(id: record::LogId) -> Self {
        LogId::new_term_index(id.term, id.index)
    }
}

impl From<Vote> for record::Vote {
    fn from(vote: Vote) -> Self {
        record::Vote { term: vote.leader_id.term, node: vote.leader_id.voted_for, committed: vote.committed }
    }
}

impl From<record::Vote> for Vote {
    fn from(record::Vote { term, node, committed }: record::Vote) -> Self {
        if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) }
    }
}

/// The encoded form of a payload.
pub(super) fn encoded(payload: Payload) -> Arc<[u8]> {
    match payload {
        Payload::Normal(commands) => commands.0,
        Payload::Blank => record::Payload::Blank.encode().into(),
        Payload::Membership(membership) => record::Payload::Membership(written(&membership)).encode().into(),
    }
}

/// The payload with this encoded form. Commands stay encoded; nothing is checked about them. Otherwise fails with a
/// sentence if the payload cannot be decoded, or if openraft rejects the membership of the entry.
pub(super) fn payload(bytes: &Arc<[u8]>) -> Result<Payload, String> {
    match record::Payload::is_commands(bytes) {
        true => Ok(Payload::Normal(Encoded(bytes.clone()))),
        false => checked(bytes),
    }
}

/// Like [`payload`], for bytes of another node: fails with a sentence, too, if this node does not know the commands.
pub(super) fn checked(bytes: &[u8]) -> Result<Payload, String> {
    Ok(match record::Payload::decode(bytes).map_err(|why| why.to_string())? {
        record::Payload::Blank => Payload::Blank,
        record::Payload::Commands(_) => Payload::Normal(Encoded(bytes.into())),
        record::Payload::Membership(written) => Payload::Membership(membership(written)?),
    })
}

impl From<&SnapshotMeta> for snapshot::SnapshotMeta {
    fn from(meta: &SnapshotMeta) -> Self {
        snapshot::SnapshotMeta {
            last: meta.last_log_id.map(record::LogId::from),
            membership: written(meta.last_membership.membership()),
            membership_at: meta.last_membership.log_id().map(record::LogId::from),
        }
    }
}

/// Fails with a sentence if openraft rejects the membership of the snapshot.
pub(super) fn meta(written: snapshot::SnapshotMeta) -> Result<SnapshotMeta, String> {
    let membership_at = written.membership_at.map(LogId::from);
    let last_membership = Membership::new(membership_at, membership(written.membership)?);
    Ok(SnapshotMeta { last_log_id: written.last.map(LogId::from), last_membership })
}

pub(super) fn written(membership: &OpenraftMembership) -> record::Membership {
    record::Membership {
        configs: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
    }
}

pub(super) fn membership(written: record::Membership) -> Result<OpenraftMembership, String> {
    let record::Membership { configs, nodes } = written;
    OpenraftMembership::new(configs, nodes).map_err(|error| format!("its membership is invalid: {error}"))
}
