//! The limits of a server. A request beyond a limit is refused with a sentence that names the flag, and leaves no trace
//! in the Raft log. After a release there is room again. Many requests at once do not exceed a limit.

use std::process::Stdio;
use std::time::Instant;

use baton_api::v1;
use baton_api::v1::request::Operation;
use baton_api::v1::server_frame::Frame;
use serde_json::Value;
use tonic::Code;

use crate::commands::{PATIENCE, json};
use crate::raw::{self, Raw, acquire, is_granted, is_refused, mute, open, release};
use crate::server::Server;

/// The number of requests of a flood.
const FLOOD: u64 = 2_000;

/// The last committed and applied log entry, and the numbers of locks, sessions and waiters.
fn status(server: &Server) -> [u64; 5] {
    let status: Value = json(server, &["status"]);
    ["commit", "applied", "locks", "sessions", "waiters"].map(|key| status[key].as_u64().unwrap())
}

/// An open session with its own connection.
async fn opened(server: &Server, session: u64) -> Raw {
    let (raw, answer) = Raw::open(server, open(session)).await;
    assert!(matches!(answer, Frame::Opened(_)), "{answer:?}");
    raw
}

/// Sends [`FLOOD`] acquires with numbers from `from` on. Each must be refused for this reason, with a message that
/// contains `says`.
async fn flood(raw: &mut Raw, from: u64, name: impl Fn(u64) -> String + Clone, refusal: v1::Refusal, says: &str) {
    let requests = (from..from + FLOOD).map(move |number| (number, acquire(&name(number))));
    raw.pipeline(requests, |_, answer| assert!(is_refused(&answer, refusal, says), "{answer:?}")).await;
}

#[tokio::test]
async fn no_more_sessions_than_the_limit_at_a_time() {
    let server = Server::start_with(&["--max-sessions", "2"]);
    let channel = raw::channel(&server).await;
    let mut streams = vec![Raw::on(&channel).await, Raw::on(&channel).await];
    for (session, raw) in (1..).zip(&mut streams) {
        assert!(matches!(raw.opens(open(session)).await, Frame::Opened(_)));
    }
    let before = status(&server);
    for session in 0..FLOOD {
        let mut raw = Raw::on(&channel).await;
        let Frame::Ended(ended) = raw.opens(open(10 + session)).await else { panic!("session {session} is open") };
        assert_eq!(ended.reason(), v1::ended::Reason::TooManySessions);
        assert_eq!(ended.message, "the server has 2 sessions; it takes no more (--max-sessions)");
        assert_eq!(raw.next().await.unwrap(), None, "the stream ends");
    }
    assert_eq!(status(&server), before);
    assert_eq!(before[3], 2);
    // An existing session can still be resumed.
    let resumed = Raw::on(&channel).await.opens(v1::Open { resume: true, ..open(1) }).await;
    assert!(matches!(resumed, Frame::Opened(_)), "{resumed:?}");
    let closed = streams[1].ask(1, Operation::Close(v1::Close {})).await;
    assert!(matches!(closed, v1::answer::Answer::Closed(_)), "{closed:?}");
    opened(&server, 3).await;
}

#[tokio::test]
async fn no_more_locks_than_the_limit_at_a_time() {
    let server = Server::start_with(&["--max-locks", "2"]);
    let mut raw = opened(&server, 1).await;
    assert!(is_granted(&raw.ask(1, acquire("a")).await));
    assert!(is_granted(&raw.ask(2, acquire("b")).await));
    let before = status(&server);
    let says = "the server has 2 locks; it takes no more (--max-locks)";
    flood(&mut raw, 3, |number| format!("lock {number}"), v1::Refusal::TooManyLocks, says).await;
    assert_eq!(status(&server), before);
    assert_eq!(before[2], 2);
    let free = 3 + FLOOD;
    assert!(matches!(raw.ask(free, release(1)).await, v1::answer::Answer::Released(_)));
    assert!(is_granted(&raw.ask(free + 1, acquire("c")).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_waiters_for_a_lock_than_the_limit() {
    let server = Server::start_with(&["--max-waiters", "1"]);
    let mut holder = opened(&server, 1).await;
    assert!(is_granted(&holder.ask(1, acquire("a")).await));
    // Each request has its own owner, so that no owner waits for itself.
    let wait = |owner| Operation::Acquire(v1::Acquire { owner, ..raw::exclusive(b"a") });
    let waiter = opened(&server, 2).await;
    waiter.send_request(1, wait(2)).await;
    let mut other = opened(&server, 3).await;
    let before = wait_until(&server, |status| status[4] == 1);
    let says = "1 request waits for this lock already; no more may wait (--max-waiters)";
    flood(&mut other, 1, |_| "a".to_owned(), v1::Refusal::TooManyWaiters, says).await;
    assert_eq!(status(&server), before);
    // The limit counts the waiters of each lock separately.
    assert!(is_granted(&other.ask(FLOOD + 1, acquire("b")).await));
    waiter.send_request(2, Operation::Cancel(v1::Cancel { acquire: 1 })).await;
    wait_until(&server, |status| status[4] == 0);
    other.send_request(FLOOD + 2, wait(3)).await;
    wait_until(&server, |status| status[4] == 1);
    assert!(matches!(holder.ask(2, release(1)).await, v1::answer::Answer::Released(_)));
    assert!(is_granted(&other.answer(FLOOD + 2).await));
}

#[tokio::test]
async fn no_more_locks_of_a_session_than_the_limit() {
    let server = Server::start_with(&["--max-holds", "2"]);
    let mut raw = opened(&server, 1).await;
    assert!(is_granted(&raw.ask(1, acquire("a")).await));
    assert!(is_granted(&raw.ask(2, acquire("b")).await));
    let mut other = opened(&server, 2).await;
    let before = status(&server);
    let says = "the session holds or waits for 2 locks; it may have no more (--max-holds)";
    flood(&mut raw, 3, |number| format!("lock {number}"), v1::Refusal::TooManyHolds, says).await;
    assert_eq!(status(&server), before);
    // The limit counts the locks of each session separately.
    assert!(is_granted(&other.ask(1, acquire("c")).await));
    let free = 3 + FLOOD;
    assert!(matches!(raw.ask(free, release(1)).await, v1::answer::Answer::Released(_)));
    assert!(is_granted(&raw.ask(free + 1, acquire("d")).await));
}

#[tokio::test]
async fn no_more_streams_of_a_connection_than_the_limit() {
    let server = Server::start_with(&["--max-streams", "3"]);
    let channel = raw::channel(&server).await;
    let mut streams = Vec::new();
    for session in 1..=3 {
        let mut raw = Raw::on(&channel).await;
        assert!(matches!(raw.opens(open(session)).await, Frame::Opened(_)));
        streams.push(raw);
    }
    let before = status(&server);
    for _ in 0..FLOOD {
        let refused = Raw::on(&channel).await.next().await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let says = "this connection has 3 streams; the server takes no more of one connection (--max-streams)";
        assert_eq!(refused.message(), says);
    }
    assert_eq!(status(&server), before);
    assert_eq!(before[3], 3);
    for raw in &mut streams {
        assert!(raw.is_alive(1).await);
    }
    // The limit counts the streams of each connection separately.
    opened(&server, 4).await;
    streams.pop();
    // The server notices the end of the stream a moment later.
    let start = Instant::now();
    while Raw::on(&channel).await.try_opens(open(5)).await.is_err() {
        assert!(start.elapsed() < PATIENCE, "there is no room for another stream");
    }
}

#[test]
fn a_lock_waits_for_room_for_its_session_while_there_is_time() {
    let server = Server::start_with(&["--max-sessions", "1"]);
    let mut holder = server.command(&["lock", "a", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_until(&server, |status| status[3] == 1);
    let output = server.run(&["lock", "-n", "-E", "9", "b", "true"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("it takes no more (--max-sessions)") && error.lines().count() == 1, "{error}");
    let mut waits = server.command(&["lock", "-w", "60", "b", "true"]).spawn().unwrap();
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert!(waits.wait().unwrap().success());
}

/// Waits until the status of the server satisfies the condition.
fn wait_until(server: &Server, is_so: impl Fn(&[u64; 5]) -> bool) -> [u64; 5] {
    let start = Instant::now();
    loop {
        let status = status(server);
        if is_so(&status) {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "{status:?}");
    }
}

#[test]
fn a_client_beyond_the_limit_of_connections_is_told_so_and_so_is_the_operator() {
    // The server keeps 64 of the open files for itself.
    let server = Server::start_with_files(90);
    let mutes: Vec<_> = (0..26).map(|_| mute(&server)).collect();
    let says = "the server has 26 connections; it takes no more";
    let locks = [&["lock", "-n", "deploy", "true"][..], &["lock", "-w", "1", "deploy", "true"]];
    for args in [&["status"][..], locks[0], locks[1], &["release", "--force", "deploy"]] {
        let output = server.run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{args:?}: {error}");
        assert!(error.contains(says) && error.lines().count() == 1, "{args:?}: {error}");
    }
    let line = server.log_line("a connection was refused: the server takes no more connections");
    assert!(line.contains("WARN") && line.contains("limit=26"), "{line}");
    drop(mutes);
    // The server notices the end of the connections a moment later.
    let start = Instant::now();
    while !server.run(&["status"]).status.success() {
        assert!(start.elapsed() < PATIENCE, "the server takes no other connection");
    }
}

/// Many refused connections write one line, not one each.
#[test]
fn a_flood_of_connections_beyond_the_limit_is_one_line_of_the_log() {
    let mut server = Server::start_with_files(90);
    let mutes: Vec<_> = (0..26).map(|_| mute(&server)).collect();
    let beyond: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(&server.address).unwrap()).collect();
    assert_eq!(server.run(&["status"]).status.code(), Some(69));
    drop((mutes, beyond));
    assert!(server.stop().success());
    let log = server.log_at_the_end();
    assert_eq!(log.iter().filter(|line| line.contains("a connection was refused")).count(), 1, "{log:?}");
}
