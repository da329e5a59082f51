//! The calls that get one answer: listings, forced releases, the status, and the members of the cluster.

use std::net::SocketAddr;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use baton_types::cluster_id::ClusterId;
use baton_types::frames::Leader;
use baton_types::views::{Cluster, Holder, Lock, Page, Session, Status};
use tokio::sync::{oneshot, watch};
use tracing::warn;

use super::Host;
use crate::backup::About;
use crate::clock;
use crate::frontend::{CallId, Frontend, Reply, locks};
use crate::grpc::Member;
use crate::listing::{self, ListLocks, Moment};
use crate::replica::{ChangeError, Leadership, MemberChange, Replica};
use crate::state::{Caller, State};

/// For this long the host gives the same reason why there is no leader. To find it, the node asks all other nodes.
const WHY_FOR: Duration = Duration::from_millis(500);

/// Which state a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The state at some time during the call. Only the leader knows it.
    Linearizable,
    /// The state that this node has applied, with its age.
    Local,
}

/// A page, and how old its state may be. The age is known only for a local reading.
pub type Aged<T> = (Page<T>, Option<u64>);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// This node cannot answer now.
    #[error("{0}")]
    Unavailable(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The call may or may not have had its effect.
    #[error("{0}")]
    Unknown(String),
}

impl<R: Replica> Host<R> {
    /// One page of the matching locks, in order of name.
    pub async fn locks(&self, request: &ListLocks, reading: Reading) -> Result<Aged<Lock>, CallError> {
        let age_ms = self.begin_reading(reading).await?;
        let page = self.show(|state, moment| listing::locks(state, moment, request)).map_err(invalid)?;
        Ok((page, age_ms))
    }

    /// One page about one lock. The page is empty if nothing is known of the lock.
    pub async fn lock(&self, name: &[u8], page: &[u8], reading: Reading) -> Result<Aged<Lock>, CallError> {
        let name = locks::words::name(name).map_err(invalid)?;
        let age_ms = self.begin_reading(reading).await?;
        let page = self.show(|state, moment| listing::lock(state, moment, &name, page)).map_err(invalid)?;
        Ok((page, age_ms))
    }

    /// One page of all sessions, in order of id.
    pub async fn sessions(&self, page: &[u8], reading: Reading) -> Result<Aged<Session>, CallError> {
        let age_ms = self.begin_reading(reading).await?;
        let page = self.show(|state, moment| listing::sessions(state, moment, page)).map_err(invalid)?;
        Ok((page, age_ms))
    }

    /// The state for a backup: everything that was acknowledged before the call is in it.
    pub async fn backup(&self) -> Result<(About, State), CallError> {
        self.begin_reading(Reading::Linearizable).await?;
        let (state, term, index) = self.shell.replica().for_backup().ok_or_else(|| {
            CallError::Invalid("this server is a member of a peer group, which has nothing to back up".to_owned())
        })?;
        Ok((About { cluster: self.cluster_id(), term, index, made_ms: clock::wall_ms() }, state))
    }

    /// Forces the release of a lock, for a client at address `from`. Returns the holders at that time.
    pub async fn force(&self, lock: &[u8], now: bool, from: Option<SocketAddr>) -> Result<Vec<Holder>, CallError> {
        let (lock, caller) = (locks::words::name(lock).map_err(invalid)?, Caller { from, ..Caller::default() });
        match self.call(|frontend, call, _| frontend.force(call, lock, now, caller)).await {
            Reply::Locks(locks::Reply::Forced(holders)) => Ok(holders),
            other => Err(unavailable(other)),
        }
    }

    /// What this node says about itself, and what it sees of its cluster.
    pub async fn status(&self) -> Status {
        Status { cluster: self.cluster().await, ..self.own_status() }
    }

    /// What this node says about itself.
    pub fn own_status(&self) -> Status {
        let (node, group) = (self.shell.replica().status(), self.shell.replica().group());
        let counts = self.shell.with_state(State::counts);
        let closed_ms = self.shell.with_state(|state| state.cluster().closed_ms()).unwrap_or(0);
        // A peer group has no such limit in its state.
        let max_ttl_ms = self.shell.with_state(|state| state.cluster().max_ttl_ms());
        let max_ttl_ms = if group.is_some() { 0 } else { max_ttl_ms };
        let inner = self.shell.inner();
        Status {
            node: node.node,
            role: node.role.word().to_owned(),
            term: node.term,
            commit: node.commit,
            applied: node.applied,
            locks: counts.used as u64,
            sessions: counts.sessions as u64,
            waiters: counts.waiters as u64,
            uptime_ms: clock::boot_ms().saturating_sub(self.started_ms),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            free_bytes: inner.frontend.free_bytes(),
            low_space: inner.frontend.is_space_low(),
            group,
            cluster: None,
            name: self.shell.replica().name(),
            cluster_id: Some(self.cluster_id()),
            address_remark: self.address_remark().unwrap_or_default(),
            closed_ms,
            max_ttl_ms,
        }
    }

    /// The id of the cluster, or of the peer group.
    pub fn cluster_id(&self) -> ClusterId {
        self.shell.replica().cluster_id()
    }

    /// Whether this node may send clients to the address of this member.
    pub fn sends_clients_to(&self, node: u64) -> bool {
        self.shell.replica().address_remark(node).is_none()
    }

    /// Where clients reach this node, if other nodes send clients there.
    pub fn client_address(&self) -> Option<String> {
        self.shell.replica().client_address()
    }

    /// What is wrong with the address that this node advertises to clients, by what the members know of each other.
    pub fn own_address_remark(&self) -> Option<String> {
        self.shell.replica().address_remark(self.node_id())
    }

    /// For the status: what is wrong with the address that this node advertises to clients. Logs every change.
    pub fn set_address_remark(&self, remark: Option<String>) {
        let mut known = self.shell.address_remark.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != remark {
            remark.iter().for_each(|sentence| warn!("{sentence}"));
            *known = remark;
        }
    }

    fn address_remark(&self) -> Option<String> {
        self.shell.address_remark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What this node proves to other members with. None while it does not know the secret of the cluster.
    pub fn member(&self) -> Option<Member> {
        let secret = self.shell.with_state(|state| state.cluster().secret().cloned())?;
        Some(Member { secret, cluster: self.cluster_id(), node: self.node_id() })
    }

    /// The id of this node.
    pub fn node_id(&self) -> u64 {
        self.shell.replica().status().node
    }

    /// The cluster, as this node sees it. None if the server is a member of a peer group.
    pub async fn cluster(&self) -> Option<Cluster> {
        self.shell.replica().cluster().await
    }

    /// Changes the members of the cluster, if this node leads. Returns a sentence if it was so already.
    pub async fn change_members(&self, change: MemberChange) -> Result<Option<String>, ChangeError> {
        self.shell.replica().change_members(change).await
    }

    /// The leadership of the replica, and every change of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shell.replica().leadership()
    }

    /// The other node that leads, if this node knows it.
    pub fn leader(&self) -> Option<Leader> {
        self.shell.replica().leader()
    }

    /// A sentence that says why this node knows no leader. It takes at most a second.
    pub async fn why_no_leader(&self) -> String {
        let mut told = self.shell.why_no_leader.lock().await;
        if let Some((at, why)) = &*told
            && at.elapsed() < WHY_FOR
        {
            return why.clone();
        }
        let why = self.cluster().await.map_or_else(String::new, |cluster| cluster.no_leader);
        let why = match why.is_empty() {
            true => "this node does not lead, and knows no leader".to_owned(),
            false => format!("there is no leader: {why}"),
        };
        *told = Some((Instant::now(), why.clone()));
        why
    }

    /// Waits until the state may be read. Returns how old it may be then, for a local reading.
    async fn begin_reading(&self, reading: Reading) -> Result<Option<u64>, CallError> {
        if reading == Reading::Local {
            // The caller takes the state after this, so that the state is not older than the age says.
            return Ok(self.shell.replica().age_ms());
        }
        match self.call(|frontend, call, now_ms| frontend.look(now_ms, call)).await {
            Reply::Current => Ok(None),
            other => Err(unavailable(other)),
        }
    }

    async fn call(&self, ask: impl FnOnce(&mut Frontend, CallId, u64)) -> Reply {
        let call = CallId(self.shell.next_id());
        let (sender, receiver) = oneshot::channel();
        {
            let mut inner = self.shell.inner();
            inner.calls.insert(call, sender);
            self.shell.step_with(&mut inner, |frontend, now_ms| ask(frontend, call, now_ms));
        }
        // The front end answers every call. The default covers a call that it dropped.
        receiver.await.unwrap_or_else(|_| Reply::Unavailable("the server is stopping".to_owned()))
    }

    /// Builds pages from a clone of the state, so that no client waits meanwhile.
    fn show<T>(&self, show: impl FnOnce(&State, &Moment<'_>) -> T) -> T {
        let state = self.shell.with_state(State::clone);
        let expires_in_ms =
            |session| self.shell.inner().frontend.leases().expires_in(session, clock::boot_ms()).unwrap_or(0);
        show(&state, &Moment { now_ms: clock::wall_ms(), expires_in_ms: &expires_in_ms })
    }
}

fn invalid(why: impl std::fmt::Display) -> CallError {
    CallError::Invalid(why.to_string())
}

fn unavailable(reply: Reply) -> CallError {
    match reply {
        Reply::Unavailable(why) => CallError::Unavailable(why),
        Reply::Unknown(why) => CallError::Unknown(why),
        _ => CallError::Unavailable("internal error: the front end gave an answer of the wrong kind".to_owned()),
    }
}
