//! Every field of an old table has its place in the new state. The kept folders show that the types are read as they
//! were written: see `raft::tests::kept`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use super::table::{Claim, Delay, Ended, Holder, Lock, Locks, Past, Place, Session, Table, Waiter};
use super::upgrade;
use super::words::{Answer, Mode, Refusal};
use crate::state::locks::{self, LockName, Want};
use crate::state::sessions::{self, Kept, SessionRecord};
use crate::state::{self, Caller, OwnerId, SessionId};

fn claim(ticket: u64, number: u64, mode: Mode) -> Claim {
    Claim { ticket, session: 20, number, owner: 21, mode, lock_delay_ms: 22, since_ms: 23 }
}

fn new_claim(ticket: u64, number: u64, mode: locks::Mode) -> locks::Claim {
    locks::Claim {
        ticket,
        revision: 1,
        session: SessionId(20),
        number,
        owner: OwnerId(21),
        parent: None,
        wants: [Want { lock: LockName::from("lock"), mode }].into_iter().collect(),
        timeout_ms: None,
        lock_delay_ms: 22,
        since_ms: 23,
        fence: None,
        revoked: false,
    }
}

fn table() -> Table {
    let session = Session {
        ttl_ms: 30,
        label: "label".into(),
        host: "host".into(),
        pid: 31,
        seen: 32,
        missing: BTreeSet::from([33, 34]),
        answers: BTreeMap::from([(40, Answer::Refused(Refusal::TimedOut))]),
        places: BTreeMap::from([
            (41, Place { lock: 1, ticket: 11, holds: true }),
            (42, Place { lock: 1, ticket: 12, holds: false }),
        ]),
        waits: 1,
        forced: BTreeSet::from([35, 36]),
    };
    let past =
        Past { order: 50, session: 51, label: "past".into(), fence: 52, from_ms: 53, to_ms: 54, ended: Ended::Expired };
    let lock = Lock {
        name: "lock".into(),
        permits: 60,
        delay: Some(Delay { generation: 61, delay_ms: 62, since_ms: 63 }),
        holders: vec![Holder { claim: claim(11, 41, Mode::Permit { of: 60 }), fence: 64, revoked: true }],
        waiters: vec![Waiter { claim: claim(12, 42, Mode::Permit { of: 60 }), timeout_ms: Some(65) }],
        history: vec![past],
    };
    Table {
        now_ms: 1,
        term: 2,
        last_fence: 3,
        last_ticket: 4,
        last_delay: 5,
        last_past: 6,
        sessions: BTreeMap::from([(20, session)]),
        locks: Locks { last_id: 7, by_id: BTreeMap::from([(1, lock)]) },
    }
}

#[test]
fn every_field_of_a_table_has_its_place() {
    let timed_out = locks::Answer::Refused(locks::Refusal::TimedOut).into();
    let session = SessionRecord {
        id: SessionId(20),
        ttl_ms: 30,
        label: "label".into(),
        host: "host".into(),
        pid: 31,
        secret_hash: None,
        caller: Caller::default(),
        seen: 32,
        missing: BTreeSet::from([33, 34]),
        requests: BTreeMap::from([
            (40, Kept { fingerprint: None, answer: Some(timed_out) }),
            (42, Kept { fingerprint: None, answer: None }),
        ]),
    };
    let past = locks::Past {
        order: 50,
        session: SessionId(51),
        label: "past".into(),
        fence: 52,
        from_ms: 53,
        to_ms: 54,
        ended: locks::Ended::Expired,
    };
    let permit = locks::Mode::Permit { of: 60 };
    let holder = locks::Claim { fence: NonZeroU64::new(64), revoked: true, ..new_claim(11, 41, permit) };
    let waiter = locks::Claim { timeout_ms: NonZeroU64::new(65), ..new_claim(12, 42, permit) };
    let of_locks = [
        locks::Record::Counters { last_fence: 3, last_ticket: 4, last_delay: 5, last_past: 6 },
        locks::Record::Lock {
            name: "lock".into(),
            permits: 60,
            delay: Some(locks::Delay { generation: 61, delay_ms: 62, since_ms: 63 }),
            history: vec![past],
            left_fence: None,
        },
        locks::Record::Claim(holder),
        locks::Record::Claim(waiter),
        locks::Record::Forced { session: SessionId(20), acquires: vec![35, 36] },
    ];
    let mut expected = vec![
        state::Record::State { now_ms: 1, revision: 1 },
        state::Record::Sessions(sessions::Record::Term(2)),
        state::Record::Sessions(sessions::Record::Session(session)),
    ];
    expected.extend(of_locks.map(state::Record::Locks));
    assert_eq!(upgrade::table(table()).unwrap(), expected);
}

#[test]
fn a_holder_without_a_fence_is_refused() {
    let mut table = table();
    table.locks.by_id.get_mut(&1).unwrap().holders[0].fence = 0;
    assert!(upgrade::table(table).is_err());
}
