//! What people see of the state: locks, sessions, how the node is.

use baton_proto::v1;

use super::pages::{self, BadPage, LockPlace, PAGE_BYTES_MAX, Token, Wanted};
use super::service::Service;
use crate::clock;
use crate::raft::Role;
use crate::state::locks::{Delay, Ended, LockName, Mode, Past};
use crate::state::{HolderView, LockView, SessionId, SessionView, WaiterView};

/// The locks that are asked for, by name: one page of them.
pub fn list_locks(service: &Service, request: &v1::ListLocksRequest) -> Result<v1::ListLocksResponse, BadPage> {
    let v1::ListLocksRequest { ref prefix, ref page, history, all } = *request;
    let from = lock_place(page, |place| place.name.starts_with(prefix))?;
    let state = service.node.state();
    let views = pages::locks_from(&state, prefix, from.as_ref());
    let (locks, next) = at_this_moment(service, |moment| {
        pages::locks(views, from.clone(), &Wanted { history, all }, moment, PAGE_BYTES_MAX)
    });
    Ok(v1::ListLocksResponse { locks, next_page: next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes()) })
}

/// One lock, if there is anything to say of it: one page of that.
pub fn get_lock(service: &Service, name: &LockName, page: &[u8]) -> Result<v1::GetLockResponse, BadPage> {
    let from = lock_place(page, |place| place.name == name.as_bytes())?;
    let state = service.node.state();
    let view = state.lock(name.as_bytes()).into_iter();
    let (locks, next) = at_this_moment(service, |moment| {
        pages::locks(view, from, &Wanted { history: true, all: true }, moment, PAGE_BYTES_MAX)
    });
    let next_page = next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes());
    Ok(v1::GetLockResponse { lock: locks.into_iter().next(), next_page })
}

/// All sessions, by id: one page of them.
pub fn list_sessions(service: &Service, page: &[u8]) -> Result<v1::ListSessionsResponse, BadPage> {
    let from = match page {
        [] => None,
        page => match Token::from_bytes(page)? {
            Token::Session(place) => Some(place),
            Token::Lock(_) => return Err(BadPage),
        },
    };
    let state = service.node.state();
    let views = pages::sessions_from(&state, from);
    let (sessions, next) = at_this_moment(service, |moment| pages::sessions(views, from, moment, PAGE_BYTES_MAX));
    let next_page = next.map_or_else(Vec::new, |next| Token::Session(next).to_bytes());
    Ok(v1::ListSessionsResponse { sessions, next_page })
}

/// All who hold a lock.
pub fn holders(service: &Service, name: &LockName) -> Vec<v1::Holder> {
    let state = service.node.state();
    let holders = state.lock(name.as_bytes()).into_iter().flat_map(|lock| lock.holders());
    at_this_moment(service, |moment| holders.map(|holder| moment.holder(holder)).collect())
}

fn lock_place(page: &[u8], is_of_this_listing: impl FnOnce(&LockPlace) -> bool) -> Result<Option<LockPlace>, BadPage> {
    match page {
        [] => Ok(None),
        page => match Token::from_bytes(page)? {
            Token::Lock(place) if is_of_this_listing(&place) => Ok(Some(place)),
            Token::Lock(_) | Token::Session(_) => Err(BadPage),
        },
    }
}

fn at_this_moment<T>(service: &Service, show: impl FnOnce(&Moment<'_>) -> T) -> T {
    let expires_in_ms = |session| service.desk.expires_in_ms(session);
    show(&Moment { now_ms: clock::wall_ms(), expires_in_ms: &expires_in_ms })
}

/// When something is shown, and what the state itself does not know of that moment.
pub struct Moment<'a> {
    /// The time of day.
    pub now_ms: u64,
    /// How long a session has yet if nothing is heard of it.
    pub expires_in_ms: &'a dyn Fn(SessionId) -> u64,
}

impl Moment<'_> {
    /// Times of day were taken by whoever led, whose clock may be ahead of this one's.
    fn since(&self, since_ms: u64) -> u64 {
        self.now_ms.saturating_sub(since_ms)
    }

    /// A lock, without its holders and waiters.
    pub fn lock(&self, lock: LockView<'_>, history: bool) -> v1::Lock {
        let left = |delay: Delay| delay.delay_ms.saturating_sub(self.since(delay.since_ms));
        v1::Lock {
            name: lock.name().as_bytes().to_vec(),
            mode: lock.mode().map_or(v1::Mode::Unspecified, mode).into(),
            permits: lock.permits(),
            holders: Vec::new(),
            waiters: Vec::new(),
            history: if history { lock.history().iter().map(past).collect() } else { Vec::new() },
            lock_delay_ms: lock.delay().map_or(0, left),
        }
    }

    /// A holder of a lock.
    pub fn holder(&self, holder: HolderView<'_>) -> v1::Holder {
        v1::Holder {
            session: holder.session.0,
            owner: holder.owner.0,
            label: holder.label.to_owned(),
            host: holder.host.to_owned(),
            pid: holder.pid,
            fence: holder.fence,
            since_ms: holder.since_ms,
            deadline_in_ms: (self.expires_in_ms)(holder.session),
        }
    }

    /// A waiter for a lock.
    pub fn waiter(&self, waiter: WaiterView<'_>) -> v1::Waiter {
        v1::Waiter {
            session: waiter.session.0,
            owner: waiter.owner.0,
            label: waiter.label.to_owned(),
            mode: mode(waiter.mode).into(),
            waiting_ms: self.since(waiter.since_ms),
            position: u32::try_from(waiter.position).unwrap_or(u32::MAX),
        }
    }

    /// A session, without its locks.
    pub fn session(&self, SessionView { id, session, .. }: SessionView<'_>) -> v1::Session {
        v1::Session {
            id: id.0,
            label: session.label.to_string(),
            host: session.host.to_string(),
            pid: session.pid,
            ttl_ms: session.ttl_ms,
            expires_in_ms: (self.expires_in_ms)(id),
            holds: Vec::new(),
            waits: Vec::new(),
        }
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

/// How the node is.
pub fn status(service: &Service) -> v1::GetStatusResponse {
    let status = service.node.status();
    let state = service.node.state();
    let counts = state.counts();
    v1::GetStatusResponse {
        node: status.node,
        role: role(status.role).to_owned(),
        term: status.term,
        commit: status.commit,
        applied: status.applied,
        locks: counts.used as u64,
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
