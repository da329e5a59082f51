//! The [`Algorithm`] of a real group: the locks of a [`Member`] over TCP.

use std::num::NonZeroU64;

use baton_peer::{AcquireError, Grant, Member, PeerHealth};
use baton_service::state::locks::LockName;
use baton_types::frames::Hopeless;
use baton_types::views::{Group, Peer};

use crate::{Algorithm, Turn};

/// The locks of a member.
pub struct PeerLocks(pub Member);

impl Algorithm for PeerLocks {
    type Entry = Grant;

    fn ask(&self, lock: &LockName, turn: Turn<Grant>) {
        match self.0.lock(lock.as_bytes()) {
            Ok(lock) => lock.request(move |grant| answer(turn, grant)),
            Err(error) => turn.refused(error.to_string()),
        }
    }

    fn hopeless(&self) -> Option<Hopeless> {
        self.0.hopeless().map(|why| Hopeless { process: why.peer as u64, message: why.to_string() })
    }

    fn group(&self) -> Group {
        let (group, names) = (self.0.group(), self.0.names());
        Group {
            algorithm: group.about().name.to_owned(),
            variant: group.file().variant.clone().unwrap_or_default(),
            member: self.0.id() as u64,
            members: group.members() as u64,
            serves: self.0.failure().is_none(),
            names: names.taken as u64,
            names_max: names.max as u64,
            peers: self.0.health().into_iter().map(peer).collect(),
        }
    }

    fn failure(&self) -> Option<String> {
        self.0.failure().map(|error| error.to_string())
    }

    async fn shutdown(&self) {
        self.0.shutdown().await;
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
