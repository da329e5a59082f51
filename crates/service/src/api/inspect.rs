//! What people see of the table: locks, sessions, how the node is.

use baton_proto::v1;

use super::service::Service;
use crate::clock;
use crate::raft::Role;
use crate::table::{DelayView, Ended, HolderView, LockView, Mode, Past, SessionView, WaiterView};

/// All locks, by name.
pub fn locks(service: &Service) -> Vec<v1::Lock> {
    let table = service.node.table();
    table.locks().map(|view| self::view(service, view)).collect()
}

/// One lock, if there is anything to say of it.
pub fn lock(service: &Service, name: &str) -> Option<v1::Lock> {
    let table = service.node.table();
    table.lock(name).map(|view| self::view(service, view))
}

fn view(service: &Service, lock: LockView<'_>) -> v1::Lock {
    // Times of day were taken by whoever led, whose clock may be ahead of this one's.
    let since = |since_ms: u64| clock::wall_ms().saturating_sub(since_ms);
    let holder = |holder: HolderView<'_>| v1::Holder {
        session: holder.session.0,
        owner: holder.owner.0,
        label: holder.label.to_owned(),
        host: holder.host.to_owned(),
        pid: holder.pid,
        fence: holder.fence,
        since_ms: holder.since_ms,
        deadline_in_ms: service.desk.expires_in_ms(holder.session),
    };
    let waiter = |waiter: WaiterView<'_>| v1::Waiter {
        session: waiter.session.0,
        owner: waiter.owner.0,
        label: waiter.label.to_owned(),
        mode: mode(waiter.mode).into(),
        waiting_ms: since(waiter.since_ms),
        position: u32::try_from(waiter.position).unwrap_or(u32::MAX),
    };
    let left = |delay: DelayView| delay.delay_ms.saturating_sub(since(delay.since_ms));
    v1::Lock {
        name: lock.name().into(),
        mode: lock.mode().map_or(v1::Mode::Unspecified, mode).into(),
        permits: lock.permits(),
        holders: lock.holders().map(holder).collect(),
        waiters: lock.waiters().map(waiter).collect(),
        history: lock.history().iter().map(past).collect(),
        lock_delay_ms: lock.delay().map_or(0, left),
    }
}

fn past(past: &Past) -> v1::Past {
    let ended = match past.ended {
        Ended::Released => v1::past::Ended::Released,
        Ended::Expired => v1::past::Ended::Expired,
        Ended::Forced => v1::past::Ended::Forced,
    };
    v1::Past {
        session: past.session.0,
        label: past.label.to_string(),
        fence: past.fence,
        from_ms: past.from_ms,
        to_ms: past.to_ms,
        ended: ended.into(),
    }
}

fn mode(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Exclusive => v1::Mode::Exclusive,
        Mode::Shared => v1::Mode::Shared,
        Mode::Permit { .. } => v1::Mode::Permit,
    }
}

/// All sessions, by id.
pub fn sessions(service: &Service) -> Vec<v1::Session> {
    let session = |session: SessionView<'_>| v1::Session {
        id: session.id.0,
        label: session.label.to_owned(),
        host: session.host.to_owned(),
        pid: session.pid,
        ttl_ms: session.ttl_ms,
        expires_in_ms: service.desk.expires_in_ms(session.id),
        holds: session.holds().map(Vec::from).collect(),
        waits: session.waits().map(Vec::from).collect(),
    };
    service.node.table().sessions().map(session).collect()
}

/// How the node is.
pub fn status(service: &Service) -> v1::GetStatusResponse {
    let status = service.node.status();
    let table = service.node.table();
    let counts = table.counts();
    v1::GetStatusResponse {
        node: status.node,
        role: role(status.role).to_owned(),
        term: status.term,
        commit: status.commit,
        applied: status.applied,
        locks: table.locks().filter(LockView::is_used).count() as u64,
        sessions: counts.sessions as u64,
        waiters: counts.waiters as u64,
        uptime_ms: service.uptime_ms(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
        Role::Stopped => "stopped",
    }
}
