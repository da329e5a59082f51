//! Every frame survives the conversion to the wire and back, and invalid messages get an error.

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{
    Answer, EndReason, Hopeless, Leader, Open, Operation, Part, Request, Secret, ToClient, ToServer,
};
use baton_types::locks::{self, Acquire, CancelOutcome, Mode, Wait};
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::views::{
    Cluster, Group, Holder, HowEnded, Joining, Lock, Member, Past, Peer, Session, Status, Waiter,
};

use super::{from_client, from_server, to_client, to_server};
use crate::v1;

fn acquire(mode: Mode) -> Operation {
    let (name, parent, timeout_ms) = (b"\xff".to_vec(), Some(2), Some(3));
    locks::Operation::Acquire(Acquire { name, mode, owner: 1, parent, timeout_ms, lock_delay_ms: 4 }).into()
}

#[test]
fn the_service_hears_what_a_client_says() {
    let secret = Some(Secret([7; 32]));
    let (label, host) = ("l".to_owned(), "h".to_owned());
    let open = Open {
        session: 1,
        attempt: 2,
        ttl_ms: 3,
        label,
        host,
        pid: 4,
        resume: true,
        secret,
        cluster: ClusterId::new(5),
    };
    let without = Open { secret: None, resume: false, cluster: None, ..open.clone() };
    let mut said = vec![ToServer::Open(open), ToServer::Open(without), ToServer::KeepAlive { number: 5 }];
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 3 }];
    let operations = modes.map(acquire).into_iter().chain([
        locks::Operation::Release { acquire: 6 }.into(),
        locks::Operation::Cancel { acquire: 7 }.into(),
        Operation::Close,
    ]);
    let request = |operation| ToServer::Request(Request { number: 8, seen: 7, missing: vec![1, 2], operation });
    said.extend(operations.map(request));
    for said in said {
        assert_eq!(from_client(to_server(said.clone())), Ok(said));
    }
}

#[test]
fn a_client_hears_what_the_service_says() {
    let refusals = [
        RefusalCode::NotAvailable,
        RefusalCode::TimedOut,
        RefusalCode::Cancelled,
        RefusalCode::Deadlock,
        RefusalCode::PermitsDiffer,
        RefusalCode::NotHolder,
        RefusalCode::Invalid,
        RefusalCode::TooManyRequests,
        RefusalCode::LowSpace,
        RefusalCode::NumberReused,
        RefusalCode::TooManyLocks,
        RefusalCode::TooManyWaiters,
        RefusalCode::TooManyHolds,
        RefusalCode::Unsupported,
        RefusalCode::Unavailable,
        RefusalCode::Unknown,
    ];
    let reasons = [
        EndReason::Expired,
        EndReason::Closed,
        EndReason::Unknown,
        EndReason::Invalid,
        EndReason::LowSpace,
        EndReason::TooManySessions,
        EndReason::WrongSecret,
    ];
    let cycle = || vec![Wait { owner: 1, label: "l".to_owned(), lock: b"a".to_vec() }];
    let refused = |code| Answer::Refused(Refusal { code, message: "m".to_owned(), cycle: cycle() });
    let outcomes = [CancelOutcome::Removed, CancelOutcome::Released, CancelOutcome::Nothing]
        .map(|outcome| locks::Answer::Cancelled(outcome).into());
    let answers =
        [locks::Answer::Granted { fence: 9 }.into(), locks::Answer::Released.into(), Answer::Closed].into_iter();
    let answers = answers.chain(outcomes).chain(refusals.map(refused));
    let mut said: Vec<ToClient> = answers.map(|answer| ToClient::Answer { number: 3, answer }).collect();
    said.extend(reasons.map(|reason| ToClient::Ended { reason, message: "m".to_owned() }));
    for cluster in [None, ClusterId::new(u64::MAX)] {
        said.push(ToClient::Opened { session: 1, ttl_ms: 2, cluster, closed_ms: 3 });
        said.push(ToClient::Leader(Leader { node: 1, name: "n".to_owned(), address: "a".to_owned(), cluster }));
    }
    said.push(ToClient::OtherCluster { cluster: ClusterId::MIN });
    said.push(ToClient::Alive { number: 1 });
    said.push(ToClient::Revoked { acquire: 1 });
    said.push(ToClient::Hopeless { acquire: 1, why: Hopeless { process: 2, message: "m".to_owned() } });
    for said in said {
        assert_eq!(from_server(to_client(said.clone())), Some(said));
    }
}

#[test]
fn people_see_what_the_service_shows() {
    let (label, host) = ("l".to_owned(), "h".to_owned());
    let holder = Holder {
        session: 1,
        owner: 2,
        label: label.clone(),
        host: host.clone(),
        pid: 3,
        fence: 4,
        since_ms: 5,
        deadline_in_ms: Some(6),
    };
    let mode = Mode::Permit { of: 3 };
    let waiter = Waiter { session: 1, owner: 2, label: label.clone(), mode, waiting_ms: 3, position: 4 };
    let ways = [HowEnded::Released, HowEnded::Expired, HowEnded::Forced, HowEnded::Unknown];
    let past = |ended| Past { session: 1, label: "l".to_owned(), fence: 2, from_ms: 3, to_ms: 4, ended };
    let lock = Lock {
        name: b"\xff".to_vec(),
        mode: Some(mode),
        permits: 3,
        holders: vec![holder],
        waiters: vec![waiter],
        history: ways.map(past).to_vec(),
        lock_delay_ms: 7,
    };
    assert_eq!(Lock::from(v1::Lock::from(lock.clone())), lock);
    let (holds, waits) = (vec![b"a".to_vec()], vec![b"b".to_vec()]);
    let session = Session { id: 1, label, host, pid: 2, ttl_ms: 3, expires_in_ms: Some(4), holds, waits };
    assert_eq!(Session::from(v1::Session::from(session.clone())), session);
    let status = Status {
        node: 1,
        role: "leader".to_owned(),
        term: 2,
        commit: 3,
        applied: 4,
        locks: 5,
        sessions: 6,
        waiters: 7,
        uptime_ms: 8,
        version: "v".to_owned(),
        free_bytes: Some(9),
        low_space: true,
        group: None,
        cluster: None,
        name: "a".to_owned(),
        cluster_id: ClusterId::new(10),
        address_remark: "r".to_owned(),
        closed_ms: 11,
        max_ttl_ms: 12,
    };
    assert_eq!(Status::from(v1::GetStatusResponse::from(status.clone())), status);
    let peers = vec![Peer { id: 1, connected: true, not_heard_ms: 2, backlog_bytes: 3 }];
    let (algorithm, variant) = ("raymond".to_owned(), "k-ary:3".to_owned());
    let group = Some(Group { algorithm, variant, member: 1, members: 2, serves: true, names: 4, names_max: 5, peers });
    let status = Status { group, cluster: Some(cluster()), cluster_id: None, ..status };
    assert_eq!(Status::from(v1::GetStatusResponse::from(status.clone())), status);
}

fn cluster() -> Cluster {
    let text = str::to_owned;
    let member = Member {
        id: 1,
        name: text("n"),
        peer_address: text("p"),
        client_address: text("c"),
        is_voter: true,
        role: text("follower"),
        term: 2,
        last_log: 3,
        commit: 4,
        applied: 5,
        leader: Some(6),
        voted_for: Some(7),
        lag: Some(8),
        heard_ms_ago: Some(9),
        error: text("e"),
        remark: text("k"),
        sync_ms: Some(12),
        free_bytes: Some(13),
        low_space: true,
    };
    let joining = Joining { id: 10, name: text("j"), peer_address: text("p"), client_address: text("c") };
    let (members, joining) = (vec![member], vec![joining]);
    Cluster { id: 11, leader: Some(1), no_leader: text("w"), members, joining }
}

#[test]
fn what_makes_no_sense_is_told_so() {
    let frame = |frame| v1::ClientFrame { frame: Some(frame) };
    let request = |operation| {
        frame(v1::client_frame::Frame::Request(v1::Request { number: 4, operation, ..v1::Request::default() }))
    };
    let no_mode = v1::request::Operation::Acquire(v1::Acquire { name: b"a".to_vec(), ..v1::Acquire::default() });
    let secret = v1::Open { secret: vec![1; 31], ..v1::Open::default() };
    let cases = [
        (v1::ClientFrame { frame: None }, Part::Unknown, "a frame must be Open, KeepAlive or Request"),
        (
            request(None),
            Part::Request(4),
            "a request is an acquire, a release, a cancel or a close; this one is none of them",
        ),
        (
            request(Some(no_mode)),
            Part::Request(4),
            "an acquire is exclusive, shared or for a permit; this one says none of them",
        ),
        (
            frame(v1::client_frame::Frame::Open(secret)),
            Part::Open,
            "the secret of a session has 31 bytes; it must have 32, or none",
        ),
    ];
    for (frame, part, what) in cases {
        let malformed = from_client(frame).unwrap_err();
        assert_eq!((malformed.part, malformed.what.as_str()), (part, what));
    }
    // A newer service may send frames that this client does not understand.
    assert_eq!(from_server(v1::ServerFrame { frame: None }), None);
    let nothing = v1::Answer { number: 1, answer: None };
    let heard = from_server(v1::ServerFrame { frame: Some(v1::server_frame::Frame::Answer(nothing)) });
    assert!(matches!(
        heard,
        Some(ToClient::Answer { number: 1, answer: Answer::Refused(Refusal { code: RefusalCode::Unknown, .. }) })
    ));
}
