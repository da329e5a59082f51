//! The upgrade from data format 1 to format 2.
//!
//! Format 1 did not have, and the upgrade fills in: callers (anonymous), secrets of sessions and parents of owners
//! (none), several locks in one acquire (one), fingerprints of requests (none, so a repeated request counts as the same
//! one), and the revision (all claims entered at the first one).

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::{raft, table, words};
use crate::format::decode;
use crate::format::record::{LogId, Membership, NodeRecord, Payload, Record, Vote};
use crate::format::snapshot::SnapshotMeta;
use crate::state::locks::{self, LockName};
use crate::state::sessions::{self, Kept, SessionRecord};
use crate::state::{self, Answer, Caller, Command, Entry, Operation, OwnerId, Request, SessionId};
use crate::store::Unreadable;

/// The revision of a state that came from format 1, and of all its claims: the first one.
const REVISION: u64 = 1;

/// The name of the only node in format 1.
const NODE_NAME: &str = "default";

/// Adds an old record, converted, to a frame of new ones.
pub(super) fn record(old: raft::Record<'_>, frame: &mut Vec<u8>) -> Result<(), Unreadable> {
    let payload;
    let new = match old {
        raft::Record::Entry { id, payload: old } => {
            payload = Payload::from(decode::<raft::Payload>("payload of format 1", old)?).encode();
            Record::Entry { id: id.into(), payload: &payload }
        }
        raft::Record::Vote(vote) => Record::Vote(self::vote(vote)?),
        raft::Record::Committed(id) => Record::Committed(id.into()),
        raft::Record::Truncate(id) => Record::Truncate(id.map(LogId::from)),
        raft::Record::Purge(id) => Record::Purge(id.into()),
    };
    new.encode_to(frame);
    Ok(())
}

fn vote(raft::Vote { term, voted_for, committed }: raft::Vote) -> Result<Vote, Unreadable> {
    let node = voted_for.ok_or_else(|| Unreadable::Malformed("a vote is for no node".to_owned()))?;
    Ok(Vote { term, node, committed })
}

impl From<raft::LogId> for LogId {
    fn from(raft::LogId { term, index }: raft::LogId) -> Self {
        LogId { term, index }
    }
}

impl From<raft::Payload> for Payload {
    fn from(old: raft::Payload) -> Self {
        match old {
            raft::Payload::Blank => Payload::Blank,
            raft::Payload::Normal(words::Entry { now_ms, commands }) => {
                Payload::Commands(Entry { now_ms, commands: commands.into_iter().map(Command::from).collect() })
            }
            raft::Payload::Membership(membership) => Payload::Membership(membership.into()),
        }
    }
}

impl From<raft::Membership> for Membership {
    fn from(raft::Membership { configs, nodes }: raft::Membership) -> Self {
        let node = |(id, raft::Node { address })| {
            let (name, peer_address) = (NODE_NAME.to_owned(), String::new());
            (id, NodeRecord { name, peer_address, client_address: address })
        };
        Membership { configs, nodes: nodes.into_iter().map(node).collect() }
    }
}

impl From<raft::SnapshotMeta> for SnapshotMeta {
    fn from(old: raft::SnapshotMeta) -> Self {
        SnapshotMeta {
            last: old.last.map(LogId::from),
            membership: old.membership.into(),
            membership_at: old.membership_at.map(LogId::from),
        }
    }
}

impl From<words::Command> for Command {
    fn from(old: words::Command) -> Self {
        let caller = Caller::default();
        match old {
            words::Command::Lead { term } => sessions::Command::Lead { term }.into(),
            words::Command::Open { session, ttl_ms, label, host, pid, resume } => {
                let (session, secret_hash) = (SessionId(session), None);
                let open = sessions::Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller };
                sessions::Command::Open(open).into()
            }
            words::Command::Request { session, number, seen, missing, operation } => {
                let (session, operation) = (SessionId(session), operation.into());
                Command::Request(Request { session, number, seen, missing, caller, operation })
            }
            words::Command::Expire { session, term } => {
                sessions::Command::Expire { session: SessionId(session), term }.into()
            }
            words::Command::EndLockDelay { lock, generation } => {
                locks::Command::EndLockDelay { lock: LockName::from(&lock), generation }.into()
            }
            words::Command::CancelWait { session, number } => {
                locks::Command::CancelWait { session: SessionId(session), number }.into()
            }
            words::Command::Force { lock, now } => {
                locks::Command::Force { lock: LockName::from(&lock), now, caller }.into()
            }
        }
    }
}

impl From<words::Operation> for Operation {
    fn from(old: words::Operation) -> Self {
        match old {
            words::Operation::Acquire { lock, mode, owner, timeout_ms, lock_delay_ms } => {
                let one = locks::Acquire::one(&lock, mode.into(), OwnerId(owner));
                Operation::Locks(locks::Operation::Acquire(locks::Acquire { timeout_ms, lock_delay_ms, ..one }))
            }
            words::Operation::Release { acquire } => Operation::Locks(locks::Operation::Release { acquire }),
            words::Operation::Cancel { acquire } => Operation::Locks(locks::Operation::Cancel { acquire }),
            words::Operation::Close => Operation::Close,
        }
    }
}

impl From<words::Mode> for locks::Mode {
    fn from(old: words::Mode) -> Self {
        match old {
            words::Mode::Exclusive => locks::Mode::Exclusive,
            words::Mode::Shared => locks::Mode::Shared,
            words::Mode::Permit { of } => locks::Mode::Permit { of },
        }
    }
}

impl From<words::Answer> for Answer {
    fn from(old: words::Answer) -> Self {
        match old {
            words::Answer::Granted { fence } => locks::Answer::Granted { fence }.into(),
            words::Answer::Released => locks::Answer::Released.into(),
            words::Answer::Cancelled(outcome) => locks::Answer::Cancelled(outcome.into()).into(),
            words::Answer::Closed => Answer::Closed,
            words::Answer::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<words::CancelOutcome> for locks::CancelOutcome {
    fn from(old: words::CancelOutcome) -> Self {
        match old {
            words::CancelOutcome::Removed => locks::CancelOutcome::Removed,
            words::CancelOutcome::Released => locks::CancelOutcome::Released,
            words::CancelOutcome::Nothing => locks::CancelOutcome::Nothing,
        }
    }
}

impl From<words::Refusal> for Answer {
    fn from(old: words::Refusal) -> Self {
        let refusal = match old {
            words::Refusal::Invalid(sentence) => return Answer::Refused(sessions::Refusal::Invalid(sentence)),
            words::Refusal::TooManyRequests { limit } => {
                return Answer::Refused(sessions::Refusal::TooManyRequests { limit });
            }
            words::Refusal::NotAvailable => locks::Refusal::NotAvailable,
            words::Refusal::TimedOut => locks::Refusal::TimedOut,
            words::Refusal::Cancelled => locks::Refusal::Cancelled,
            words::Refusal::Deadlock(cycle) => {
                let step = |words::WaitFor { owner, label, lock }| {
                    let (owner, lock) = (OwnerId(owner), LockName::from(&lock));
                    locks::WaitFor { owner, label, lock }
                };
                locks::Refusal::Deadlock(cycle.into_iter().map(step).collect())
            }
            words::Refusal::PermitsDiffer { has, says } => locks::Refusal::PermitsDiffer { lock: None, has, says },
            words::Refusal::NotHolder { acquire } => locks::Refusal::NotHolder { acquire },
        };
        locks::Answer::Refused(refusal).into()
    }
}

pub(super) fn table(old: table::Table) -> Result<Vec<state::Record>, Unreadable> {
    let table::Table { now_ms, term, last_fence, last_ticket, last_delay, last_past, sessions, locks } = old;
    let mut forced = Vec::new();
    let mut pieces = vec![
        state::Record::State { now_ms, revision: REVISION },
        state::Record::Sessions(sessions::Record::Term(term)),
    ];
    for (id, session) in sessions {
        let id = SessionId(id);
        if !session.forced.is_empty() {
            let acquires = session.forced.iter().copied().collect();
            forced.push(state::Record::Locks(locks::Record::Forced { session: id, acquires }));
        }
        pieces.push(state::Record::Sessions(sessions::Record::Session(self::session(id, session))));
    }
    let counters = locks::Record::Counters { last_fence, last_ticket, last_delay, last_past };
    pieces.push(state::Record::Locks(counters));
    let mut claims = Vec::new();
    for table::Lock { name, permits, delay, holders, waiters, history } in locks.by_id.into_values() {
        let name = LockName::from(&name);
        for table::Holder { claim: old, fence, revoked } in holders {
            let fence = NonZeroU64::new(fence);
            let fence = Some(fence.ok_or_else(|| Unreadable::Malformed("a holder has the fence 0".to_owned()))?);
            claims.push(locks::Claim { fence, revoked, ..claim(&name, old) });
        }
        for table::Waiter { claim: old, timeout_ms } in waiters {
            claims.push(locks::Claim { timeout_ms: timeout_ms.and_then(NonZeroU64::new), ..claim(&name, old) });
        }
        let delay = delay.map(|table::Delay { generation, delay_ms, since_ms }| locks::Delay {
            generation,
            delay_ms,
            since_ms,
        });
        let history = history.into_iter().map(past).collect();
        // In format 1 all holders that shared a lock had one fence, so no holder that left had a higher one.
        let left_fence = None;
        pieces.push(state::Record::Locks(locks::Record::Lock { name, permits, delay, history, left_fence }));
    }
    // Claims come after all locks.
    pieces.extend(claims.into_iter().map(|claim| state::Record::Locks(locks::Record::Claim(claim))));
    pieces.extend(forced);
    Ok(pieces)
}

fn session(id: SessionId, old: table::Session) -> SessionRecord {
    let waits = old.places.into_iter().filter(|(_, place)| !place.holds);
    let waits = waits.map(|(number, _)| (number, Kept { fingerprint: None, answer: None }));
    let answers = old.answers.into_iter();
    let answers = answers.map(|(number, answer)| (number, Kept { fingerprint: None, answer: Some(answer.into()) }));
    let requests: BTreeMap<u64, Kept> = waits.chain(answers).collect();
    let table::Session { ttl_ms, label, host, pid, seen, missing, .. } = old;
    let (secret_hash, caller) = (None, Caller::default());
    SessionRecord { id, ttl_ms, label, host, pid, secret_hash, caller, seen, missing, requests }
}

/// A claim that waits without a limit. The caller adds fence or time-out.
fn claim(lock: &LockName, old: table::Claim) -> locks::Claim {
    let table::Claim { ticket, session, number, owner, mode, lock_delay_ms, since_ms } = old;
    let want = locks::Want { lock: lock.clone(), mode: mode.into() };
    locks::Claim {
        ticket,
        revision: REVISION,
        session: SessionId(session),
        number,
        owner: OwnerId(owner),
        parent: None,
        wants: [want].into_iter().collect(),
        timeout_ms: None,
        lock_delay_ms,
        since_ms,
        fence: None,
        revoked: false,
    }
}

fn past(table::Past { order, session, label, fence, from_ms, to_ms, ended }: table::Past) -> locks::Past {
    let ended = match ended {
        table::Ended::Released => locks::Ended::Released,
        table::Ended::Expired => locks::Ended::Expired,
        table::Ended::Forced => locks::Ended::Forced,
    };
    locks::Past { order, session: SessionId(session), label, fence, from_ms, to_ms, ended }
}
