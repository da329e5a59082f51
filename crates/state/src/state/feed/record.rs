//! The feed as records, for snapshots. A session is written once for all its changes, and the values of a claim once for
//! each of them, although several changes share them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::change::{LockChange, MemberChange, SessionEnd};
use super::{Feed, KeptChange, KeptWhat, Leader, Member, Place};
use crate::state::change::{Cause, Held};
use crate::state::locks::{Claim, Delay, LockName};
use crate::state::sessions::Who;
use crate::state::{Caller, RequestNumber, SessionId};

/// Of data format 4. A feed that has not begun has no record, so older nodes can read the snapshots of such a state.
#[expect(
    clippy::large_enum_variant,
    reason = "most records are changes, and each lives only until it is written or restored"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The first record of the feed.
    Feed {
        /// Every change from this place on is kept.
        first: Place,
        leader: Option<Leader>,
        members: Option<Vec<(u64, Member)>>,
    },
    /// A session. The changes after it refer to it by its number: these records are numbered in order, from 0 on.
    Who(WhoRecord),
    Change(ChangeRecord),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoRecord {
    pub session: SessionId,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    pub caller: Caller,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    pub place: Place,
    pub at_ms: u64,
    pub revision: Option<u64>,
    /// The number of the session's record.
    pub who: Option<u32>,
    pub what: WhatRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhatRecord {
    Opened { session: SessionId, ttl_ms: u64 },
    Ended { session: SessionId, ttl_ms: u64, cause: Option<CauseRecord>, held: Vec<LockName>, held_count: u64 },
    Claim { before: Option<ClaimRecord>, after: Option<Claim>, cause: Option<CauseRecord> },
    Lock { lock: LockName, before: Option<Delay>, after: Option<Delay>, cause: Option<CauseRecord> },
    Member { node: u64, before: Option<Member>, after: Option<Member> },
    Leader { before: Option<Leader>, after: Leader },
}

/// A claim before a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimRecord {
    /// As after its last change.
    Same(SessionId, RequestNumber),
    Is(Claim),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CauseRecord {
    Released,
    Cancelled,
    TimedOut,
    Closed,
    Expired,
    Unavailable,
    Forced(Caller),
}

impl From<&Cause> for CauseRecord {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Released => CauseRecord::Released,
            Cause::Cancelled => CauseRecord::Cancelled,
            Cause::TimedOut => CauseRecord::TimedOut,
            Cause::Closed => CauseRecord::Closed,
            Cause::Expired => CauseRecord::Expired,
            Cause::Unavailable => CauseRecord::Unavailable,
            Cause::Forced(by) => CauseRecord::Forced(Caller::clone(by)),
        }
    }
}

impl From<CauseRecord> for Cause {
    fn from(cause: CauseRecord) -> Self {
        match cause {
            CauseRecord::Released => Cause::Released,
            CauseRecord::Cancelled => Cause::Cancelled,
            CauseRecord::TimedOut => Cause::TimedOut,
            CauseRecord::Closed => Cause::Closed,
            CauseRecord::Expired => Cause::Expired,
            CauseRecord::Unavailable => Cause::Unavailable,
            CauseRecord::Forced(by) => Cause::Forced(Arc::new(by)),
        }
    }
}

/// What is written already.
#[derive(Default)]
struct Writing {
    who: BTreeMap<SessionId, (u32, Arc<Who>)>,
    who_count: u32,
    /// The claims of the changes so far that have not ended.
    claims: BTreeMap<(SessionId, RequestNumber), Arc<Claim>>,
}

impl Writing {
    /// The number of a session's record, and the record if it is not written yet.
    fn who(&mut self, who: &Arc<Who>) -> (u32, Option<Record>) {
        // Compared by value: equal states give equal records, whatever they share.
        if let Some((number, written)) = self.who.get(&who.session)
            && *written == *who
        {
            return (*number, None);
        }
        let number = self.who_count;
        self.who_count += 1;
        self.who.insert(who.session, (number, who.clone()));
        let Who { session, label, host, pid, caller } = Who::clone(who);
        (number, Some(Record::Who(WhoRecord { session, label, host, pid, caller })))
    }

    fn claim(
        &mut self,
        before: Option<&Arc<Claim>>,
        after: Option<&Arc<Claim>>,
    ) -> (Option<ClaimRecord>, Option<Claim>) {
        let key = |claim: &Arc<Claim>| (claim.session, claim.number);
        let before = before.map(|before| match self.claims.remove(&key(before)) {
            Some(last) if last == *before => ClaimRecord::Same(before.session, before.number),
            _ => ClaimRecord::Is(Claim::clone(before)),
        });
        if let Some(after) = after {
            self.claims.insert(key(after), after.clone());
        }
        (before, after.map(|after| Claim::clone(after)))
    }

    fn change(&mut self, change: &KeptChange) -> SmallVec<[Record; 2]> {
        let (who, new) = match &change.who {
            Some(who) => {
                let (number, new) = self.who(who);
                (Some(number), new)
            }
            None => (None, None),
        };
        let cause = |cause: &Option<Cause>| cause.as_ref().map(CauseRecord::from);
        let what = match &change.what {
            &KeptWhat::Opened { session, ttl_ms } => WhatRecord::Opened { session, ttl_ms },
            KeptWhat::Ended(end) => WhatRecord::Ended {
                session: end.session,
                ttl_ms: end.ttl_ms,
                cause: cause(&end.cause),
                held: end.held.names.to_vec(),
                held_count: end.held.count,
            },
            KeptWhat::Claim { before, after, cause: why } => {
                let (before, after) = self.claim(before.as_ref(), after.as_ref());
                WhatRecord::Claim { before, after, cause: cause(why) }
            }
            KeptWhat::Lock(change) => {
                let LockChange { lock, before, after, cause: why } = LockChange::clone(change);
                WhatRecord::Lock { lock, before, after, cause: cause(&why) }
            }
            KeptWhat::Member(change) => {
                let member = |member: &Option<Arc<Member>>| member.as_deref().cloned();
                WhatRecord::Member { node: change.node, before: member(&change.before), after: member(&change.after) }
            }
            KeptWhat::Leader { before, after } => {
                WhatRecord::Leader { before: before.as_deref().cloned(), after: Leader::clone(after) }
            }
        };
        let KeptChange { place, at_ms, revision, .. } = *change;
        new.into_iter().chain([Record::Change(ChangeRecord { place, at_ms, revision, who, what })]).collect()
    }
}

impl Feed {
    pub(in crate::state) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let head = self.first.map(|first| Record::Feed {
            first,
            leader: self.leader.as_deref().cloned(),
            members: self
                .members
                .as_ref()
                .map(|members| members.iter().map(|(node, member)| (*node, Member::clone(member))).collect()),
        });
        let mut writing = Writing::default();
        head.into_iter().chain(self.kept.iter().flat_map(move |change| writing.change(change)))
    }
}

/// A feed that is being restored.
#[derive(Default)]
pub(in crate::state) struct Restoring {
    who: Vec<Arc<Who>>,
    claims: BTreeMap<(SessionId, RequestNumber), Arc<Claim>>,
}

impl Restoring {
    /// Adds a record to the feed. The consistency of all records is checked at the end.
    pub fn add(&mut self, feed: &mut Feed, record: Record) -> Result<(), String> {
        match record {
            Record::Feed { first, leader, members } => {
                if feed.first.replace(first).is_some() {
                    return Err("the feed begins twice".to_owned());
                }
                feed.leader = leader.map(Arc::new);
                let shared = |(node, member)| (node, Arc::new(member));
                feed.members = members.map(|members| Arc::new(members.into_iter().map(shared).collect()));
            }
            Record::Who(WhoRecord { session, label, host, pid, caller }) => {
                self.who.push(Arc::new(Who { session, label, host, pid, caller }));
            }
            Record::Change(change) => {
                let change = self.change(change)?;
                feed.bytes += change.bytes();
                feed.kept.push_back(change);
            }
        }
        Ok(())
    }

    fn change(&mut self, change: ChangeRecord) -> Result<KeptChange, String> {
        let ChangeRecord { place, at_ms, revision, who, what } = change;
        let known = |number: u32| self.who.get(number as usize).cloned();
        let who = who.map(|number| known(number).ok_or_else(|| format!("a change names the unknown session {number}")));
        let who = who.transpose()?;
        let what = match what {
            WhatRecord::Opened { session, ttl_ms } => KeptWhat::Opened { session, ttl_ms },
            WhatRecord::Ended { session, ttl_ms, cause, held, held_count } => {
                let (cause, held) = (cause.map(Cause::from), Held { names: held.into(), count: held_count });
                KeptWhat::Ended(Arc::new(SessionEnd { session, ttl_ms, cause, held }))
            }
            WhatRecord::Claim { before, after, cause } => {
                let before = before.map(|before| self.before(before)).transpose()?;
                let after = after.map(Arc::new);
                if let Some(after) = &after {
                    self.claims.insert((after.session, after.number), after.clone());
                }
                if before.is_none() && after.is_none() {
                    return Err("a change of a claim has no claim".to_owned());
                }
                KeptWhat::Claim { before, after, cause: cause.map(Cause::from) }
            }
            WhatRecord::Lock { lock, before, after, cause } => {
                KeptWhat::Lock(Arc::new(LockChange { lock, before, after, cause: cause.map(Cause::from) }))
            }
            WhatRecord::Member { node, before, after } => {
                let (before, after) = (before.map(Arc::new), after.map(Arc::new));
                KeptWhat::Member(Arc::new(MemberChange { node, before, after }))
            }
            WhatRecord::Leader { before, after } => {
                KeptWhat::Leader { before: before.map(Arc::new), after: Arc::new(after) }
            }
        };
        Ok(KeptChange { place, at_ms, revision, who, what })
    }

    fn before(&mut self, before: ClaimRecord) -> Result<Arc<Claim>, String> {
        match before {
            ClaimRecord::Is(claim) => {
                self.claims.remove(&(claim.session, claim.number));
                Ok(Arc::new(claim))
            }
            ClaimRecord::Same(session, number) => self
                .claims
                .remove(&(session, number))
                .ok_or_else(|| format!("a change names the unknown claim {number} of session {session}")),
        }
    }
}
