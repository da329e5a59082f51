//! Invalid input: the server gives a clear answer and goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::client_frame::Frame;
use baton_client::Client;
use tonic::Code;

use crate::raw::{self, Raw, exclusive};
use crate::server::Server;

fn valid_open() -> v1::Open {
    v1::Open { ttl_ms: 10_000, ..raw::open(7) }
}

/// Sends one acquire with these missing answers, and returns its refusal.
async fn refusal(raw: &mut Raw, number: u64, missing: Vec<u64>, acquire: v1::Acquire) -> v1::Refused {
    let operation = Some(v1::request::Operation::Acquire(acquire));
    raw.send(Frame::Request(v1::Request { number, seen: number - 1, missing, operation })).await;
    match raw.next().await.unwrap() {
        Some(v1::server_frame::Frame::Answer(v1::Answer {
            number: to,
            answer: Some(v1::answer::Answer::Refused(refused)),
        })) if to == number => refused,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_one_by_one() {
    let server = Server::start();
    let (mut raw, opened) = Raw::open(&server, valid_open()).await;
    let v1::server_frame::Frame::Opened(opened) = opened else { panic!("{opened:?}") };
    assert_eq!((opened.session, opened.ttl_ms), (7, 10_000));
    let cases: [(v1::Acquire, &str); 5] = [
        (exclusive(b""), "empty"),
        (exclusive(&[b'x'; 513]), "513 bytes"),
        (v1::Acquire { mode: 0, ..exclusive(b"a") }, "exclusive, shared or for a permit"),
        (v1::Acquire { mode: v1::Mode::Permit.into(), permits: 0, ..exclusive(b"a") }, "0 permits"),
        (v1::Acquire { lock_delay_ms: u64::MAX, ..exclusive(b"a") }, "lock-delay"),
    ];
    for (number, (acquire, says)) in (1..).zip(cases) {
        let refused = refusal(&mut raw, number, vec![], acquire).await;
        assert_eq!(refused.refusal(), v1::Refusal::Invalid);
        assert!(refused.message.contains(says), "{}", refused.message);
    }
    for (missing, says) in [(vec![3, 2], "not in order"), ((0..5_000).collect(), "misses 5000 answers")] {
        let refused = refusal(&mut raw, 7, missing, exclusive(b"a")).await;
        assert_eq!(refused.refusal(), v1::Refusal::Invalid);
        assert!(refused.message.contains(says), "{}", refused.message);
    }
    // The session holds no lock under this number.
    let release = v1::request::Operation::Release(v1::Release { acquire: 1 });
    raw.send(Frame::Request(v1::Request { number: 9, seen: 6, missing: vec![], operation: Some(release) })).await;
    let answer = raw.next().await.unwrap().unwrap();
    let v1::server_frame::Frame::Answer(v1::Answer { answer: Some(v1::answer::Answer::Refused(refused)), .. }) = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(refused.refusal(), v1::Refusal::NotHolder);
    // The stream still works, also for an owner with a parent.
    let acquire = v1::Acquire { parent: Some(2), ..exclusive(b"deploy") };
    let operation = Some(v1::request::Operation::Acquire(acquire));
    raw.send(Frame::Request(v1::Request { number: 10, seen: 9, missing: vec![], operation })).await;
    let answer = raw.next().await.unwrap();
    let granted = Some(v1::answer::Answer::Granted(v1::Granted { fence: 1 }));
    assert_eq!(answer, Some(v1::server_frame::Frame::Answer(v1::Answer { number: 10, answer: granted })));
    // A request with the same number for another lock does not get the answer of the first request.
    let refused = refusal(&mut raw, 10, vec![], exclusive(b"\xff")).await;
    assert_eq!(refused.refusal(), v1::Refusal::NumberReused);
    assert!(refused.message.contains("a number of its own"), "{}", refused.message);
}

#[tokio::test]
async fn a_session_that_cannot_be_is_told_why() {
    let server = Server::start();
    for ttl_ms in [0, 999, 31_536_000_000] {
        let (mut raw, answer) = Raw::open(&server, v1::Open { ttl_ms, ..valid_open() }).await;
        let v1::server_frame::Frame::Ended(ended) = answer else { panic!("{answer:?}") };
        assert_eq!(ended.reason(), v1::ended::Reason::Invalid);
        assert!(ended.message.contains(&ttl_ms.to_string()), "{}", ended.message);
        assert_eq!(raw.next().await.unwrap(), None, "the stream ends");
    }
    let secret_of = |bytes: usize| v1::Open { secret: vec![7; bytes], ..valid_open() };
    let cases = [
        (v1::Open { session: 0, ..valid_open() }, "the id 0; it must be from 1 to 9223372036854775807"),
        (v1::Open { session: 1 << 63, ..valid_open() }, "the id 9223372036854775808; it must be from 1 to"),
        (secret_of(1), "has 1 bytes; it must have 32, or none"),
        (secret_of(64), "has 64 bytes"),
    ];
    for (open, says) in cases {
        let (mut raw, answer) = Raw::open(&server, open).await;
        let v1::server_frame::Frame::Ended(ended) = answer else { panic!("{answer:?}") };
        assert_eq!(ended.reason(), v1::ended::Reason::Invalid);
        assert!(ended.message.contains(says), "{}", ended.message);
        assert_eq!(raw.next().await.unwrap(), None, "the stream ends");
    }
    // A resume may have any id, because an older version may have begun the session.
    for session in [7, 1 << 63] {
        let (_, answer) = Raw::open(&server, v1::Open { resume: true, session, ..valid_open() }).await;
        let v1::server_frame::Frame::Ended(ended) = answer else { panic!("{answer:?}") };
        assert_eq!(ended.reason(), v1::ended::Reason::Unknown);
    }
    let last = v1::Open { session: (1 << 63) - 1, ..secret_of(32) };
    let (_, answer) = Raw::open(&server, last).await;
    assert!(matches!(answer, v1::server_frame::Frame::Opened(_)), "{answer:?}");
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_open_is_ended() {
    let server = Server::start();
    let mut raw = Raw::connect(&server).await;
    raw.send(Frame::KeepAlive(v1::KeepAlive { number: 1 })).await;
    assert_eq!(raw.next().await.unwrap_err().code(), Code::InvalidArgument);
    let (mut raw, _) = Raw::open(&server, valid_open()).await;
    raw.frames.send(v1::ClientFrame { frame: None }).await.unwrap();
    assert_eq!(raw.next().await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn bytes_that_are_no_protocol_at_all_hurt_nobody() {
    let server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for length in [0, 1, 24, 4096] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        // The server may close the connection before it has read all bytes.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // Valid HTTP/2 with an invalid message.
    let mut grpc = tonic::client::Grpc::new(raw::channel(&server).await);
    grpc.ready().await.unwrap();
    let path = "/baton.v1.Locks/GetLock".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<v1::GetStatusResponse, v1::GetLockResponse>::default();
    // Field 1 of a GetLockRequest is bytes, but here it is a number.
    let nonsense = v1::GetStatusResponse { node: 5, ..v1::GetStatusResponse::default() };
    let answer = grpc.unary(tonic::Request::new(nonsense), path, codec).await;
    assert!(answer.is_err());
    guard.release().await.unwrap();
    assert_eq!(client.status().await.unwrap().role, "leader");
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_use_up_what_the_server_needs() {
    let server = Server::start_with_files(100);
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().open().await.unwrap();
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    // The server closes connections beyond the limit. The last connection is one of them.
    assert_eq!((&silent[199]).read(&mut [0]).unwrap(), 0);
    for _ in 0..10 {
        session.lock("deploy").acquire().await.unwrap().release().await.unwrap();
    }
    // The server closes the silent connections after some time. Then it serves other clients again.
    for mut connection in silent {
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server's first words come before the end. The read may also fail. If the server never closes the
        // connection, the client below cannot connect.
        let _ = connection.read_to_end(&mut Vec::new());
    }
    let client = Client::connect([&server.address]).await.unwrap();
    assert_eq!(client.status().await.unwrap().role, "leader");
}

#[tokio::test]
async fn names_that_would_drive_a_terminal_are_shown_in_one_line() {
    let server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().label("a\u{1b}[31m\nb").open().await.unwrap();
    let mut guards = vec![session.lock("red\u{1b}[31m\r\nFORGED").acquire().await.unwrap()];
    for number in 0..40 {
        guards.push(session.lock(format!("{number}{}", "x".repeat(500))).acquire().await.unwrap());
    }
    for command in ["locks", "sessions"] {
        let output = tokio::task::spawn_blocking({
            let mut command = server.command(&[command]);
            move || command.output().unwrap()
        });
        let output = output.await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() < 300), "{text}");
    }
}

#[test]
fn a_data_folder_that_cannot_be_used_is_refused_in_one_sentence() {
    let mut server = Server::start();
    let serve = |server: &Server, folder: &std::path::Path| {
        let folder = folder.to_str().unwrap();
        let output = server.run(&["serve", "--data", folder, "--listen", "127.0.0.1:0"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with(&format!("baton: cannot open the data folder {folder}: ")), "{message}");
        message
    };
    assert!(serve(&server, server.data()).contains("in use by another process"));
    assert!(serve(&server, std::path::Path::new("/dev/null")).contains("is not a folder"));
    server.kill();
    let format = server.data().join("FORMAT");
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, "damaged").unwrap();
    assert!(serve(&server, server.data()).contains("FORMAT is damaged"));
    std::fs::write(&format, text).unwrap();
    server.kill_and_restart();
}

#[test]
fn a_server_whose_folder_is_removed_says_so_and_ends() {
    let mut server = Server::start();
    std::fs::remove_dir_all(server.data()).unwrap();
    assert_eq!(server.ends().code(), Some(1));
}
