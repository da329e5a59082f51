//! The [`Algorithm`] of a real group: the locks of a [`Member`] over TCP.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_peer::{AcquireError, Grant, Member, PeerHealth};
use baton_state::state::locks::LockName;
use baton_types::cluster_id::ClusterId;
use baton_types::frames::Hopeless;
use baton_types::views::{Group, Peer};
use tokio::time::Instant;

use crate::{Algorithm, Turn};

/// The locks of a member.
pub struct PeerLocks {
    member: Member,
    gate: Arc<Mutex<Gate>>,
}

/// The group grants nothing while clients of its earlier start may believe in their leases, nor before the member's file
/// says that a client may have one.
enum Gate {
    /// No client has asked yet, or the member's file could not be written. The next request tries it.
    Closed,
    Opening(Vec<(LockName, Turn<Grant>)>),
    Open,
}

impl PeerLocks {
    pub fn new(member: Member) -> Self {
        PeerLocks { member, gate: Arc::new(Mutex::new(Gate::Closed)) }
    }

    /// Asks when the gate is open.
    async fn open(member: Member, gate: Arc<Mutex<Gate>>) {
        let failed = member.open_for_clients().await.err();
        let next = if failed.is_none() { Gate::Open } else { Gate::Closed };
        let before = std::mem::replace(&mut *gate.lock().unwrap_or_else(PoisonError::into_inner), next);
        let Gate::Opening(asked) = before else { return };
        for (lock, turn) in asked {
            match &failed {
                Some(why) => turn.refused(why.to_string()),
                None => request(&member, &lock, turn),
            }
        }
    }
}

impl Algorithm for PeerLocks {
    type Entry = Grant;

    fn ask(&self, lock: &LockName, turn: Turn<Grant>) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *gate {
            Gate::Open => {
                drop(gate);
                request(&self.member, lock, turn);
            }
            Gate::Opening(asked) => asked.push((lock.clone(), turn)),
            Gate::Closed => {
                *gate = Gate::Opening(vec![(lock.clone(), turn)]);
                tokio::spawn(PeerLocks::open(self.member.clone(), self.gate.clone()));
            }
        }
    }

    fn hopeless<'a>(
        &self,
        locks: impl Iterator<Item = &'a LockName>,
        waited: Duration,
    ) -> Vec<(&'a LockName, Hopeless)> {
        let left = self.member.wait_left();
        if !left.is_zero() {
            let message = format!(
                "waiting because the group was started again: clients of its earlier start may have leases for another \
                 {:.1} s",
                left.as_secs_f64()
            );
            let why = Hopeless { process: self.member.id() as u64, message };
            return locks.map(|lock| (lock, why.clone())).collect();
        }
        let locks: Vec<_> = locks.collect();
        let now = Instant::now();
        let since = now.checked_sub(waited).unwrap_or(now);
        let whys = self.member.hopeless_waits(locks.iter().map(|lock| lock.as_bytes()), since);
        let told = |why: baton_peer::Hopeless| Hopeless { process: why.peer as u64, message: why.to_string() };
        locks.into_iter().zip(whys).filter_map(|(lock, why)| Some((lock, told(why?)))).collect()
    }

    fn group_id(&self) -> ClusterId {
        ClusterId::new(self.member.group().id(self.member.agreed().generation)).unwrap_or(ClusterId::MIN)
    }

    fn group(&self) -> Group {
        let (group, names) = (self.member.group(), self.member.names());
        Group {
            algorithm: group.about().name.to_owned(),
            variant: group.file().variant.clone().unwrap_or_default(),
            member: self.member.id() as u64,
            members: group.members() as u64,
            serves: self.member.failure().is_none(),
            names: names.taken as u64,
            names_max: names.max as u64,
            peers: self.member.health().into_iter().map(peer).collect(),
        }
    }

    fn failure(&self) -> Option<String> {
        self.member.failure().map(|error| error.to_string())
    }

    async fn shutdown(&self, held_nothing: bool) {
        if held_nothing {
            // The member has warned if this cannot be written. Then the next start waits for leases that nobody has.
            let _ = self.member.held_nothing().await;
        }
        self.member.shutdown().await;
    }
}

fn request(member: &Member, lock: &LockName, turn: Turn<Grant>) {
    match member.lock(lock.as_bytes()) {
        Ok(lock) => lock.request(move |grant| answer(turn, grant)),
        Err(error) => turn.refused(error.to_string()),
    }
}

fn answer(turn: Turn<Grant>, grant: Result<Grant, AcquireError>) {
    match grant {
        Ok(grant) => match NonZeroU64::new(grant.fence()) {
            Some(fence) => turn.granted(fence, grant),
            None => turn.refused("the algorithm gave the fence 0, which is none".to_owned()),
        },
        Err(error) => turn.refused(error.to_string()),
    }
}

fn peer(health: PeerHealth) -> Peer {
    Peer {
        id: health.id as u64,
        connected: health.connected,
        not_heard_ms: u64::try_from(health.not_heard_for.as_millis()).unwrap_or(u64::MAX),
        backlog_bytes: health.backlog_bytes as u64,
    }
}
