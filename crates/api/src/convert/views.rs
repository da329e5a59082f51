//! Converts the views that the service shows to people.

use baton_types::cluster_id::ClusterId;
use baton_types::views::{
    Cluster, Group, Holder, HowEnded, Joining, Lock, Member, Past, Peer, Session, Status, Waiter,
};

use super::frames::{mode, mode_to_wire};
use crate::v1;

impl From<Lock> for v1::Lock {
    fn from(lock: Lock) -> Self {
        let Lock { name, mode, permits, holders, waiters, history, lock_delay_ms } = lock;
        v1::Lock {
            name,
            mode: mode.map_or(v1::Mode::Unspecified, mode_to_wire).into(),
            permits,
            holders: holders.into_iter().map(Into::into).collect(),
            waiters: waiters.into_iter().map(Into::into).collect(),
            history: history.into_iter().map(Into::into).collect(),
            lock_delay_ms,
        }
    }
}

impl From<v1::Lock> for Lock {
    fn from(lock: v1::Lock) -> Self {
        let mode = mode(lock.mode(), lock.permits);
        let v1::Lock { name, permits, holders, waiters, history, lock_delay_ms, .. } = lock;
        Lock {
            name,
            mode,
            permits,
            holders: holders.into_iter().map(Into::into).collect(),
            waiters: waiters.into_iter().map(|waiter| self::waiter(waiter, permits)).collect(),
            history: history.into_iter().map(Into::into).collect(),
            lock_delay_ms,
        }
    }
}

impl From<Holder> for v1::Holder {
    fn from(holder: Holder) -> Self {
        let Holder { session, owner, label, host, pid, fence, since_ms, deadline_in_ms } = holder;
        let deadline_in_ms = deadline_in_ms.unwrap_or(0);
        v1::Holder { session, owner, label, host, pid, fence, since_ms, deadline_in_ms }
    }
}

impl From<v1::Holder> for Holder {
    fn from(holder: v1::Holder) -> Self {
        let v1::Holder { session, owner, label, host, pid, fence, since_ms, deadline_in_ms } = holder;
        let deadline_in_ms = Some(deadline_in_ms);
        Holder { session, owner, label, host, pid, fence, since_ms, deadline_in_ms }
    }
}

impl From<Waiter> for v1::Waiter {
    fn from(waiter: Waiter) -> Self {
        let Waiter { session, owner, label, mode, waiting_ms, position } = waiter;
        v1::Waiter { session, owner, label, mode: mode_to_wire(mode).into(), waiting_ms, position }
    }
}

/// The message has no number of permits, so the caller passes the lock's number.
fn waiter(waiter: v1::Waiter, permits: u32) -> Waiter {
    let mode = mode(waiter.mode(), permits).unwrap_or_default();
    let v1::Waiter { session, owner, label, waiting_ms, position, .. } = waiter;
    Waiter { session, owner, label, mode, waiting_ms, position }
}

impl From<Past> for v1::Past {
    fn from(past: Past) -> Self {
        let Past { session, label, fence, from_ms, to_ms, ended } = past;
        let ended = match ended {
            HowEnded::Released => v1::past::Ended::Released,
            HowEnded::Expired => v1::past::Ended::Expired,
            HowEnded::Forced => v1::past::Ended::Forced,
            HowEnded::Unknown => v1::past::Ended::Unspecified,
        };
        v1::Past { session, label, fence, from_ms, to_ms, ended: ended.into() }
    }
}

impl From<v1::Past> for Past {
    fn from(past: v1::Past) -> Self {
        let ended = match past.ended() {
            v1::past::Ended::Released => HowEnded::Released,
            v1::past::Ended::Expired => HowEnded::Expired,
            v1::past::Ended::Forced => HowEnded::Forced,
            v1::past::Ended::Unspecified => HowEnded::Unknown,
        };
        let v1::Past { session, label, fence, from_ms, to_ms, .. } = past;
        Past { session, label, fence, from_ms, to_ms, ended }
    }
}

impl From<Session> for v1::Session {
    fn from(session: Session) -> Self {
        let Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits } = session;
        let expires_in_ms = expires_in_ms.unwrap_or(0);
        v1::Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits }
    }
}

impl From<v1::Session> for Session {
    fn from(session: v1::Session) -> Self {
        let v1::Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits } = session;
        let expires_in_ms = Some(expires_in_ms);
        Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits }
    }
}

impl From<Status> for v1::GetStatusResponse {
    fn from(status: Status) -> Self {
        v1::GetStatusResponse {
            node: status.node,
            role: status.role,
            term: status.term,
            commit: status.commit,
            applied: status.applied,
            locks: status.locks,
            sessions: status.sessions,
            waiters: status.waiters,
            uptime_ms: status.uptime_ms,
            version: status.version,
            free_bytes: status.free_bytes,
            low_space: status.low_space,
            group: status.group.map(Into::into),
            cluster: status.cluster.map(Into::into),
            name: status.name,
            cluster_id: ClusterId::to_wire(status.cluster_id),
            address_remark: status.address_remark,
            closed_ms: status.closed_ms,
            max_ttl_ms: status.max_ttl_ms,
        }
    }
}

impl From<v1::GetStatusResponse> for Status {
    fn from(status: v1::GetStatusResponse) -> Self {
        Status {
            node: status.node,
            role: status.role,
            term: status.term,
            commit: status.commit,
            applied: status.applied,
            locks: status.locks,
            sessions: status.sessions,
            waiters: status.waiters,
            uptime_ms: status.uptime_ms,
            version: status.version,
            free_bytes: status.free_bytes,
            low_space: status.low_space,
            group: status.group.map(Into::into),
            cluster: status.cluster.map(Into::into),
            name: status.name,
            cluster_id: ClusterId::new(status.cluster_id),
            address_remark: status.address_remark,
            closed_ms: status.closed_ms,
            max_ttl_ms: status.max_ttl_ms,
        }
    }
}

impl From<Cluster> for v1::Cluster {
    fn from(cluster: Cluster) -> Self {
        let Cluster { id, leader, no_leader, members, joining } = cluster;
        let (members, joining) =
            (members.into_iter().map(Into::into).collect(), joining.into_iter().map(Into::into).collect());
        v1::Cluster { id, leader, no_leader, members, joining }
    }
}

impl From<v1::Cluster> for Cluster {
    fn from(cluster: v1::Cluster) -> Self {
        let v1::Cluster { id, leader, no_leader, members, joining } = cluster;
        let (members, joining) =
            (members.into_iter().map(Into::into).collect(), joining.into_iter().map(Into::into).collect());
        Cluster { id, leader, no_leader, members, joining }
    }
}

impl From<Member> for v1::Member {
    fn from(member: Member) -> Self {
        v1::Member {
            id: member.id,
            name: member.name,
            peer_address: member.peer_address,
            client_address: member.client_address,
            voter: member.is_voter,
            role: member.role,
            term: member.term,
            last_log: member.last_log,
            commit: member.commit,
            applied: member.applied,
            leader: member.leader,
            voted_for: member.voted_for,
            lag: member.lag,
            heard_ms_ago: member.heard_ms_ago,
            error: member.error,
            remark: member.remark,
            sync_ms: member.sync_ms,
            free_bytes: member.free_bytes,
            low_space: member.low_space,
        }
    }
}

impl From<v1::Member> for Member {
    fn from(member: v1::Member) -> Self {
        Member {
            id: member.id,
            name: member.name,
            peer_address: member.peer_address,
            client_address: member.client_address,
            is_voter: member.voter,
            role: member.role,
            term: member.term,
            last_log: member.last_log,
            commit: member.commit,
            applied: member.applied,
            leader: member.leader,
            voted_for: member.voted_for,
            lag: member.lag,
            heard_ms_ago: member.heard_ms_ago,
            error: member.error,
            remark: member.remark,
            sync_ms: member.sync_ms,
            free_bytes: member.free_bytes,
            low_space: member.low_space,
        }
    }
}

impl From<Joining> for v1::Joining {
    fn from(joining: Joining) -> Self {
        let Joining { id, name, peer_address, client_address } = joining;
        v1::Joining { id, name, peer_address, client_address }
    }
}

impl From<v1::Joining> for Joining {
    fn from(joining: v1::Joining) -> Self {
        let v1::Joining { id, name, peer_address, client_address } = joining;
        Joining { id, name, peer_address, client_address }
    }
}

impl From<Group> for v1::Group {
    fn from(group: Group) -> Self {
        let Group { algorithm, variant, member, members, serves, names, names_max, peers } = group;
        let peer = |Peer { id, connected, not_heard_ms, backlog_bytes }| v1::Peer {
            id,
            connected,
            not_heard_ms,
            backlog_bytes,
        };
        let peers = peers.into_iter().map(peer).collect();
        v1::Group { algorithm, variant, member, members, serves, names, names_max, peers }
    }
}

impl From<v1::Group> for Group {
    fn from(group: v1::Group) -> Self {
        let v1::Group { algorithm, variant, member, members, serves, names, names_max, peers } = group;
        let peer = |v1::Peer { id, connected, not_heard_ms, backlog_bytes }| Peer {
            id,
            connected,
            not_heard_ms,
            backlog_bytes,
        };
        let peers = peers.into_iter().map(peer).collect();
        Group { algorithm, variant, member, members, serves, names, names_max, peers }
    }
}
