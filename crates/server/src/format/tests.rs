//! Pins the bytes of the current format, and tests what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use expect_test::{Expect, expect};
use serde::Serialize;

use super::record::{LogId, Membership, NodeRecord, Payload, Record, Vote};
use super::snapshot::{self, SnapshotMeta};
use super::*;
use crate::state::cluster::{self, Secret};
use crate::state::feed::{Leader, Member};
use crate::state::locks::{self, Acquire, CancelOutcome, Claim, Delay, LockName, Mode, Past, WaitFor, Want};
use crate::state::sessions::{self, Kept, Open, SessionRecord};
use crate::state::{
    self, Answer, Caller, Command, Entry, Operation, Outcome, OwnerId, Principal, Request, SessionId, State,
};

/// If this fails, the format has changed: bytes that are on disks now could not be read any more. Do not update the
/// expected bytes. Undo the change, or raise `VERSION` and keep the old types, as the module documentation of `format`
/// says. Then the old bytes become a test of the upgrade to the new version.
fn pinned(values: Vec<(&str, Vec<u8>)>, expected: &Expect) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: Vec<String> = values.iter().map(|(what, bytes)| format!("{what}: {}\n", hex(bytes))).collect();
    expected.assert_eq(&lines.concat());
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap()
}

fn id(term: u64, index: u64) -> LogId {
    LogId { term, index }
}

fn membership() -> Membership {
    let node = NodeRecord { name: "a".into(), peer_address: "p:1".into(), client_address: "c:2".into() };
    Membership { configs: vec![BTreeSet::from([7])], nodes: BTreeMap::from([(7, node)]) }
}

fn framed(record: Record<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    record.encode_to(&mut frame);
    assert_eq!(Record::read(&frame).unwrap(), (record, &[][..]));
    frame
}

fn caller() -> Caller {
    Caller { principal: Principal::Named("me".into()), from: Some("127.0.0.1:80".parse().unwrap()) }
}

/// What a build of the next version would do, in which opening a session and the record of a session are new.
#[test]
fn what_is_written_has_the_version_of_its_newest_part() {
    let next = VERSION + 1;
    let opens = |command: &Command| match command {
        Command::Sessions(sessions::Command::Open(_)) => next,
        other => since(other),
    };
    let lead = || Command::from(sessions::Command::Lead { term: 3 });
    let open = || {
        let (session, label, host) = (SessionId(7), String::new(), String::new());
        let (ttl_ms, pid, resume, secret_hash) = (1000, 1, false, None);
        let open = Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller: caller() };
        Command::from(sessions::Command::Open(open))
    };
    let version = |commands| Payload::since(&Payload::Commands(Entry { now_ms: 1000, commands }).encode(), opens);
    let set = || Command::from(cluster::Command::SetMaxTtl { max_ttl_ms: 5000 });
    let leads = || Command::from(cluster::Command::Leads(Leader { node: 7, name: "a".into(), term: 3 }));
    assert_eq!(version(vec![lead(), lead()]), OLDEST_READ);
    assert_eq!(version(vec![lead(), set()]), 3);
    assert_eq!(version(vec![lead(), leads()]), VERSION);
    assert_eq!(version(vec![lead(), open(), set()]), next);
    assert_eq!(Payload::since(&Payload::Membership(membership()).encode(), opens), OLDEST_READ);
    for (commands, since) in [
        (vec![lead()], 2),
        (vec![lead(), lead()], 2),
        (vec![set()], 3),
        (vec![lead(), set()], 3),
        (vec![leads(), lead()], 4),
    ] {
        let payload = Payload::Commands(Entry { now_ms: u64::MAX, commands }).encode();
        assert_eq!(framed(Record::Entry { id: id(1, 1), payload: &payload })[0], since);
    }
    // A request is as new as its operation. The last byte is the kind of operation, here a Close.
    let (session, number, seen, missing) = (SessionId(u64::MAX), 9, 8, vec![7]);
    let request = Request { session, number, seen, missing, caller: caller(), operation: Operation::Close };
    let mut payload = Payload::Commands(Entry { now_ms: u64::MAX, commands: vec![Command::Request(request)] }).encode();
    let version = |payload: &[u8]| framed(Record::Entry { id: id(1, 1), payload })[0];
    assert_eq!((payload.last(), version(&payload)), (Some(&0), 2));
    *payload.last_mut().unwrap() = 2;
    assert_eq!(version(&payload), VERSION);

    let mut state = State::default();
    let versions = |state: &State| {
        let sessions = |record: &state::Record| match record {
            state::Record::Sessions(sessions::Record::Session(_)) => VERSION + 1,
            _ => OLDEST_READ,
        };
        snapshot::pack_since(state.records(), sessions).map(|chunk| chunk[0]).collect::<Vec<_>>()
    };
    assert_eq!(versions(&state), [OLDEST_READ]);
    state.apply(1, 1000, &lead(), &mut state::Outcome::default());
    state.apply(2, 1000, &open(), &mut state::Outcome::default());
    assert_eq!(versions(&state), [next]);
}

#[test]
fn records_are_pinned() {
    let entry = Entry { now_ms: 1000, commands: vec![sessions::Command::Lead { term: 3 }.into()] };
    let entry_of = |payload: Payload| {
        let encoded = payload.encode();
        assert_eq!(Payload::decode(&encoded).unwrap(), payload);
        framed(Record::Entry { id: id(3, 300), payload: &encoded })
    };
    let meta = SnapshotMeta { last: Some(id(3, 300)), membership: membership(), membership_at: Some(id(1, 1)) };
    assert_eq!(SnapshotMeta::decode(&meta.encode()).unwrap(), meta);
    pinned(
        vec![
            ("blank", entry_of(Payload::Blank)),
            ("commands", entry_of(Payload::Commands(entry))),
            ("membership", entry_of(Payload::Membership(membership()))),
            ("vote", framed(Record::Vote(Vote { term: 3, node: 7, committed: true }))),
            ("committed", framed(Record::Committed(id(3, 300)))),
            ("truncate all", framed(Record::Truncate(None))),
            ("truncate", framed(Record::Truncate(Some(id(3, 300))))),
            ("purge", framed(Record::Purge(id(3, 300)))),
            ("snapshot", meta.encode()),
            ("empty state", snapshot::chunks(&State::default()).collect::<Vec<_>>().concat()),
        ],
        &expect![[r#"
            blank: 02060003ac020100
            commands: 020c0003ac020701e80701000003
            membership: 02150003ac0210020101070107016103703a3103633a32
            vote: 020401030701
            committed: 02040203ac02
            truncate all: 02020300
            truncate: 0205030103ac02
            purge: 02040403ac02
            snapshot: 020103ac020101070107016103703a3103633a32010101
            empty state: 02000001010000020000000000
        "#]],
    );
}

#[test]
fn commands_are_pinned() {
    let (session, lock) = (SessionId(300), LockName::from("l"));
    let open = Open {
        session,
        ttl_ms: 1000,
        label: "label".into(),
        host: "host".into(),
        pid: 7,
        resume: true,
        secret_hash: Some([0xab; 32]),
        caller: Caller::default(),
    };
    let request = |operation| {
        let (number, seen, missing, caller) = (9, 8, vec![5, 6], caller());
        bytes(&Command::Request(Request { session, number, seen, missing, caller, operation }))
    };
    let wants = [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 3 }];
    let wants = wants.into_iter().map(|mode| Want { lock: lock.clone(), mode }).collect();
    let (owner, parent) = (OwnerId(1), Some(OwnerId(2)));
    let acquire = Acquire { wants, owner, parent, timeout_ms: Some(0), lock_delay_ms: 10 };
    let anew = cluster::Command::BeginAnew { secret: Secret([7; 32]), fence_from: 300, wait_ms: Some(5000) };
    pinned(
        vec![
            ("lead", bytes(&Command::from(sessions::Command::Lead { term: 3 }))),
            ("open", bytes(&Command::from(sessions::Command::Open(open)))),
            ("expire", bytes(&Command::from(sessions::Command::Expire { session, term: 3 }))),
            ("close", request(Operation::Close)),
            ("acquire", request(Operation::Locks(locks::Operation::Acquire(acquire)))),
            ("release", request(Operation::Locks(locks::Operation::Release { acquire: 4 }))),
            ("cancel", request(Operation::Locks(locks::Operation::Cancel { acquire: 4 }))),
            ("end delay", bytes(&Command::from(locks::Command::EndLockDelay { lock: lock.clone(), generation: 2 }))),
            ("cancel wait", bytes(&Command::from(locks::Command::CancelWait { session, number: 9 }))),
            ("force", bytes(&Command::from(locks::Command::Force { lock, now: true, caller: caller() }))),
            ("found", bytes(&Command::from(cluster::Command::Found { secret: Secret([7; 32]), max_ttl_ms: 5000 }))),
            ("max ttl", bytes(&Command::from(cluster::Command::SetMaxTtl { max_ttl_ms: 5000 }))),
            ("fences", bytes(&Command::from(cluster::Command::RaiseFences { from: 300 }))),
            ("waited", bytes(&Command::from(cluster::Command::Waited { from_ms: 5000, to_ms: 4000 }))),
            ("anew", bytes(&Command::from(anew))),
            ("leads", bytes(&Command::from(cluster::Command::Leads(Leader { node: 300, name: "a".into(), term: 3 })))),
        ],
        &expect![[r#"
            lead: 000003
            open: 0001ac02e807056c6162656c04686f7374070101abababababababababababababababababababababababababababababababab0000
            expire: 0002ac0203
            close: 01ac02090802050601026d6501007f0000015000
            acquire: 01ac02090802050601026d6501007f00000150010003016c00016c01016c020301010201000a
            release: 01ac02090802050601026d6501007f00000150010104
            cancel: 01ac02090802050601026d6501007f00000150010204
            end delay: 0200016c02
            cancel wait: 0201ac0209
            force: 0202016c0101026d6501007f00000150
            found: 030007070707070707070707070707070707070707070707070707070707070707078827
            max ttl: 03018827
            fences: 0302ac02
            waited: 03038827a01f
            anew: 03040707070707070707070707070707070707070707070707070707070707070707ac02018827
            leads: 0305ac02016103
        "#]],
    );
}

#[test]
fn answers_are_pinned() {
    let refused = |refusal| Answer::from(locks::Answer::Refused(refusal));
    let wait = WaitFor { owner: OwnerId(1), label: "label".into(), lock: "l".into() };
    let lock = Some(LockName::from("l"));
    let all = vec![
        ("closed", Answer::Closed),
        ("invalid", Answer::Refused(sessions::Refusal::Invalid("why".into()))),
        ("too many", Answer::Refused(sessions::Refusal::TooManyRequests { limit: 3 })),
        ("reused", Answer::Refused(sessions::Refusal::NumberReused)),
        ("granted", locks::Answer::Granted { fence: 300 }.into()),
        ("released", locks::Answer::Released.into()),
        ("cancelled, waited", locks::Answer::Cancelled(CancelOutcome::Removed).into()),
        ("cancelled, held", locks::Answer::Cancelled(CancelOutcome::Released).into()),
        ("cancelled, nothing", locks::Answer::Cancelled(CancelOutcome::Nothing).into()),
        ("not available", refused(locks::Refusal::NotAvailable)),
        ("timed out", refused(locks::Refusal::TimedOut)),
        ("was cancelled", refused(locks::Refusal::Cancelled)),
        ("deadlock", refused(locks::Refusal::Deadlock(vec![wait]))),
        ("permits differ", refused(locks::Refusal::PermitsDiffer { lock, has: 3, says: 1 })),
        ("not holder", refused(locks::Refusal::NotHolder { acquire: 4 })),
    ];
    pinned(
        all.iter().map(|(what, answer)| (*what, bytes(answer))).collect(),
        &expect![[r#"
        closed: 00
        invalid: 010003776879
        too many: 010103
        reused: 0102
        granted: 0200ac02
        released: 0201
        cancelled, waited: 020200
        cancelled, held: 020201
        cancelled, nothing: 020202
        not available: 020300
        timed out: 020301
        was cancelled: 020302
        deadlock: 0203030101056c6162656c016c
        permits differ: 02030401016c0301
        not holder: 02030504
    "#]],
    );
}

#[test]
fn pieces_of_the_state_are_pinned() {
    let (id, lock) = (SessionId(300), LockName::from("l"));
    let answered = Kept { fingerprint: Some(0xfeed), answer: Some(Answer::Closed) };
    let session = SessionRecord {
        id,
        ttl_ms: 1000,
        label: "label".into(),
        host: "host".into(),
        pid: 7,
        secret_hash: Some([0xab; 32]),
        caller: caller(),
        seen: 8,
        missing: BTreeSet::from([5, 6]),
        requests: BTreeMap::from([(5, answered), (9, Kept { fingerprint: None, answer: None })]),
    };
    let past = |ended| {
        let (label, fence, from_ms, to_ms) = ("label".into(), 3, 4, 5);
        Past { order: 2, session: id, label, fence, from_ms, to_ms, ended }
    };
    let history = vec![past(locks::Ended::Released), past(locks::Ended::Expired), past(locks::Ended::Forced)];
    let (delay, left_fence) = (Some(Delay { generation: 2, delay_ms: 3, since_ms: 4 }), NonZeroU64::new(7));
    let claim = Claim {
        ticket: 1,
        revision: 2,
        session: id,
        number: 9,
        owner: OwnerId(1),
        parent: Some(OwnerId(2)),
        wants: [Want { lock: lock.clone(), mode: Mode::Shared }].into_iter().collect(),
        timeout_ms: NonZeroU64::new(3),
        lock_delay_ms: 4,
        since_ms: 5,
        fence: NonZeroU64::new(6),
        revoked: true,
    };
    let counters = locks::Record::Counters { last_fence: 1, last_ticket: 2, last_delay: 3, last_past: 4 };
    let (secret, max_ttl_ms, closed_ms) = (Some(Secret([7; 32])), 5000, 300);
    let of_cluster = cluster::Record::Cluster { secret, max_ttl_ms, closed_ms };
    let of_locks = |record| bytes(&crate::state::Record::Locks(record));
    pinned(
        vec![
            ("state", bytes(&crate::state::Record::State { now_ms: 1000, revision: 2 })),
            ("term", bytes(&crate::state::Record::Sessions(sessions::Record::Term(3)))),
            ("session", bytes(&crate::state::Record::Sessions(sessions::Record::Session(session)))),
            ("ended", bytes(&crate::state::Record::Sessions(sessions::Record::Ended(id)))),
            ("counters", of_locks(counters)),
            ("lock", of_locks(locks::Record::Lock { name: lock, permits: 3, delay, history, left_fence })),
            ("claim", of_locks(locks::Record::Claim(claim))),
            ("forced", of_locks(locks::Record::Forced { session: id, acquires: vec![1, 2] })),
            ("cluster", bytes(&crate::state::Record::Cluster(of_cluster))),
        ],
        &expect![[r#"
            state: 00e80702
            term: 010003
            session: 0101ac02e807056c6162656c04686f73740701abababababababababababababababababababababababababababababababab01026d6501007f0000015008020506020501edfd030100090000
            ended: 0102ac02
            counters: 020001020304
            lock: 0201016c03010203040302ac02056c6162656c0304050002ac02056c6162656c0304050102ac02056c6162656c030405020107
            claim: 02020102ac020901010201016c0101030405010601
            forced: 0203ac02020102
            cluster: 03000107070707070707070707070707070707070707070707070707070707070707078827ac02
        "#]],
    );
}

/// A state with a change of every kind in its feed.
fn followed() -> State {
    let (session, lock) = (SessionId(300), LockName::from("l"));
    let open = |session| Open {
        session,
        ttl_ms: 1000,
        label: "label".into(),
        host: "host".into(),
        pid: 7,
        resume: false,
        secret_hash: None,
        caller: caller(),
    };
    let acquire = |session, number| {
        let wants = [Want { lock: lock.clone(), mode: Mode::Exclusive }].into_iter().collect();
        let acquire = Acquire { wants, owner: OwnerId(1), parent: None, timeout_ms: None, lock_delay_ms: 10 };
        let operation = Operation::Locks(locks::Operation::Acquire(acquire));
        Command::Request(Request { session, number, seen: 0, missing: Vec::new(), caller: caller(), operation })
    };
    let leads = |term| Command::from(cluster::Command::Leads(Leader { node: 7, name: "a".into(), term }));
    let force = |now| Command::from(locks::Command::Force { lock: lock.clone(), now, caller: caller() });
    let commands = [
        leads(1),
        sessions::Command::Lead { term: 1 }.into(),
        sessions::Command::Open(open(session)).into(),
        sessions::Command::Open(open(SessionId(301))).into(),
        acquire(session, 1),
        acquire(SessionId(301), 1),
        force(false),
        force(true),
        sessions::Command::Expire { session: SessionId(301), term: 1 }.into(),
        leads(2),
    ];
    let (mut state, mut outcome) = (State::default(), Outcome::default());
    for (at, command) in commands.iter().enumerate() {
        state.apply(at as u64 + 1, 1000, command, &mut outcome);
        let member =
            Member { name: "a".into(), peer_address: "p:1".into(), client_address: "c:2".into(), is_voter: at > 0 };
        state.members_are(at as u64 + 1, BTreeMap::from([(7, member)]), &mut outcome);
        outcome = Outcome::default();
    }
    state
}

#[test]
fn the_records_of_the_feed_are_pinned() {
    let state = followed();
    let of_feed: Vec<_> = state.records().filter(|record| matches!(record, state::Record::Feed(_))).collect();
    assert!(of_feed.iter().all(|record| record.format() == 4));
    pinned(
        of_feed.iter().map(|record| ("record", bytes(record))).collect(),
        &expect![[r#"
        record: 040001000107016102010107016103703a3103633a3201
        record: 04020100e8070000050007016101
        record: 04020200e8070000040701016103703a3103633a320001016103703a3103633a3201
        record: 0401ac02056c6162656c04686f73740701026d6501007f00000150
        record: 04020300e80700010000ac02e807
        record: 0401ad02056c6162656c04686f73740701026d6501007f00000150
        record: 04020400e80700010100ad02e807
        record: 04020500e807010201000200010102ac0201010001016c00000ae80701010000
        record: 04020700e807000100020100ac0201010102ac0201010001016c00000ae807010101010601026d6501007f00000150
        record: 04020800e80701030100020100ac020100010601026d6501007f00000150
        record: 04020900e80700010101ad02e80701040000
        record: 04020a00e807000005010701610107016102
    "#]],
    );
    assert_eq!(snapshot::restore(&snapshot::chunks(&state).collect::<Vec<_>>()).unwrap(), state);
}

#[test]
fn a_newer_record_is_told_apart_from_one_that_makes_no_sense() {
    let mut frame = framed(Record::Vote(Vote { term: 3, node: 7, committed: true }));
    let sound = frame.len();
    Record::Committed(id(3, 300)).encode_to(&mut frame);
    let newer = |frame: &[u8]| matches!(Record::read(frame), Err(Unreadable::Newer { version: 5 }));
    let malformed = |frame: &[u8]| matches!(Record::read(frame), Err(Unreadable::Malformed(_)));

    let (_, rest) = Record::read(&frame).unwrap();
    assert_eq!(rest, &frame[sound..]);
    assert!(Record::read(rest).is_ok());
    // The body of a newer version is not decoded.
    assert!(newer(&[5, 2, 0xff, 0xff]));
    assert!(malformed(&[1, 2, 0xff, 0xff]) && malformed(&[0, 0]) && malformed(&[]));
    // Cut short, with a body of something else, or with bytes after its body.
    assert!((1..sound).all(|length| malformed(&frame[..length])));
    assert!(malformed(&[VERSION, 1, 0x7f]));
    assert!(malformed(&[VERSION, 3, 3, 1, 1]) && Record::read(&[VERSION, 2, 3, 0]).is_ok());
}

#[test]
fn a_newer_snapshot_is_told_apart_from_one_that_makes_no_sense() {
    let mut meta = SnapshotMeta::default().encode();
    meta.push(0);
    assert!(matches!(SnapshotMeta::decode(&meta), Err(Unreadable::Malformed(_))));
    assert!(matches!(SnapshotMeta::decode(&[5, 0xff]), Err(Unreadable::Newer { version: 5 })));
    assert!(matches!(SnapshotMeta::decode(&[]), Err(Unreadable::Malformed(_))));
    let mut chunks: Vec<Vec<u8>> = snapshot::chunks(&State::default()).collect();
    assert_eq!(snapshot::restore(&chunks).unwrap(), State::default());
    chunks.push(vec![5, 0xff]);
    assert!(matches!(snapshot::restore(&chunks), Err(Unreadable::Newer { version: 5 })));
    chunks[1] = vec![VERSION, 0xff];
    assert!(matches!(snapshot::restore(&chunks), Err(Unreadable::Malformed(_))));
}

#[test]
fn a_state_is_cut_into_chunks_of_whole_pieces() {
    let mut state = State::default();
    for session in 1..=5_000 {
        let open = Open {
            session: SessionId(session),
            ttl_ms: 10_000,
            label: "x".repeat(50),
            host: "here".into(),
            pid: 7,
            resume: false,
            secret_hash: None,
            caller: Caller::default(),
        };
        state.apply(session, 1000, &sessions::Command::Open(open).into(), &mut Default::default());
    }
    let chunks: Vec<Vec<u8>> = snapshot::chunks(&state).collect();
    assert!(chunks.len() > 4, "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.len() < (64 << 10) + 200));
    assert!(chunks[..chunks.len() - 1].iter().all(|chunk| chunk.len() >= 64 << 10));
    assert_eq!(snapshot::restore(&chunks).unwrap(), state);
}

#[test]
fn encoded_commands_are_recognised() {
    let commands = Payload::Commands(Entry { now_ms: 0, commands: Vec::new() });
    assert!(Payload::is_commands(&commands.encode()));
    assert!(!Payload::is_commands(&Payload::Blank.encode()));
    assert!(!Payload::is_commands(&Payload::Membership(Membership::default()).encode()));
    assert!(!Payload::is_commands(&[]));
}
