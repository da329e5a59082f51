//! A kept change: its values are shared with the state.

use std::sync::Arc;

use baton_types::events::Kind;

use super::{Leader, Member, Place};
use crate::state::change::{Cause, Held};
use crate::state::locks::{self, Claim, Delay, LockName};
use crate::state::sessions::Who;
use crate::state::{Change, SessionId, What};

/// A kept change takes about this many bytes without its names and labels. It is a constant, because all nodes must forget
/// the same changes.
const CHANGE_BYTES: usize = 160;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChange {
    pub place: Place,
    /// The time of the state after the change.
    pub at_ms: u64,
    pub revision: Option<u64>,
    /// The session that the change is about.
    pub who: Option<Arc<Who>>,
    pub what: KeptWhat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptWhat {
    Opened {
        session: SessionId,
        ttl_ms: u64,
    },
    Ended(Arc<SessionEnd>),
    Claim {
        before: Option<Arc<Claim>>,
        after: Option<Arc<Claim>>,
        cause: Option<Cause>,
    },
    /// A lock was closed, or opened again.
    Lock(Arc<LockChange>),
    Member(Arc<MemberChange>),
    Leader {
        before: Option<Arc<Leader>>,
        after: Arc<Leader>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub session: SessionId,
    pub ttl_ms: u64,
    pub cause: Option<Cause>,
    pub held: Held,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockChange {
    pub lock: LockName,
    pub before: Option<Delay>,
    pub after: Option<Delay>,
    pub cause: Option<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    pub node: u64,
    pub before: Option<Arc<Member>>,
    pub after: Option<Arc<Member>>,
}

impl KeptChange {
    /// None for a change of a module that has no events.
    pub(super) fn new(at_ms: u64, change: &Change) -> Option<KeptChange> {
        let Change { index, position, revision, ref who, ref cause, ref what } = *change;
        let cause = cause.clone();
        let what = match what {
            What::Session { id, after: Some(after), .. } => KeptWhat::Opened { session: *id, ttl_ms: after.ttl_ms },
            What::Session { id, before, held, .. } => {
                let ttl_ms = before.as_ref().map_or(0, |before| before.ttl_ms);
                let held = held.as_deref().cloned().unwrap_or_default();
                KeptWhat::Ended(Arc::new(SessionEnd { session: *id, ttl_ms, cause, held }))
            }
            What::Locks(locks::What::Claim { before, after }) => {
                KeptWhat::Claim { before: before.clone(), after: after.clone(), cause }
            }
            What::Locks(locks::What::Delay { lock, before, after }) => {
                let lock = lock.clone();
                KeptWhat::Lock(Arc::new(LockChange { lock, before: *before, after: *after, cause }))
            }
            What::Member { node, before, after } => {
                let (before, after) = (before.clone(), after.clone());
                KeptWhat::Member(Arc::new(MemberChange { node: *node, before, after }))
            }
            What::Leader { before, after } => KeptWhat::Leader { before: before.clone(), after: after.clone() },
            #[cfg(feature = "test-module")]
            What::Counter(_) => return None,
        };
        Some(KeptChange { place: Place { index, number: position }, at_ms, revision, who: who.clone(), what })
    }

    /// What the change counts for the limit of the feed. Shared values count for each change, so the true size is less.
    pub fn bytes(&self) -> usize {
        let names = self.locks().map(|lock| lock.as_bytes().len()).sum::<usize>();
        let who = self.who.as_ref().map_or(0, |who| who.label.len() + who.host.len());
        let others = match &self.what {
            KeptWhat::Member(change) => {
                let member =
                    |member: &Arc<Member>| member.name.len() + member.peer_address.len() + member.client_address.len();
                change.before.iter().chain(&change.after).map(member).sum()
            }
            KeptWhat::Leader { before, after } => {
                before.iter().chain([after]).map(|leader| leader.name.len()).sum::<usize>()
            }
            _ => 0,
        };
        CHANGE_BYTES + names + who + others
    }

    /// The locks that the change names.
    pub fn locks(&self) -> impl Iterator<Item = &LockName> {
        let (wants, held, lock) = match &self.what {
            KeptWhat::Claim { before, after, .. } => {
                (after.as_ref().or(before.as_ref()).map(|claim| &claim.wants[..]), None, None)
            }
            KeptWhat::Ended(end) => (None, Some(&end.held.names[..]), None),
            KeptWhat::Lock(change) => (None, None, Some(&change.lock)),
            KeptWhat::Opened { .. } | KeptWhat::Member(_) | KeptWhat::Leader { .. } => (None, None, None),
        };
        let wants = wants.into_iter().flatten().map(|want| &want.lock);
        wants.chain(held.into_iter().flatten()).chain(lock)
    }

    pub fn kind(&self) -> Kind {
        match &self.what {
            KeptWhat::Opened { .. } => Kind::SessionOpened,
            KeptWhat::Ended(_) => Kind::SessionEnded,
            KeptWhat::Claim { before: _, after: Some(after), .. } if after.revoked => Kind::Revoked,
            KeptWhat::Claim { before: _, after: Some(after), .. } if after.holds() => Kind::Granted,
            KeptWhat::Claim { before: _, after: Some(_), .. } => Kind::Queued,
            KeptWhat::Claim { before, after: None, cause } => match cause {
                Some(Cause::Expired) => Kind::Expired,
                Some(Cause::Forced(_)) => Kind::Forced,
                _ if before.as_ref().is_some_and(|claim| claim.holds()) => Kind::Released,
                _ => Kind::Cancelled,
            },
            KeptWhat::Lock(change) if change.after.is_some() => Kind::LockClosed,
            KeptWhat::Lock(_) => Kind::LockOpened,
            KeptWhat::Member(_) => Kind::Member,
            KeptWhat::Leader { .. } => Kind::Leader,
        }
    }
}
