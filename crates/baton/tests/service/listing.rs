//! Listings that need several pages, and listings of a part of the locks.

use std::time::Instant;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_client::{Client, Session};
use prost::Message;
use serde_json::Value;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Channel;

use crate::commands::{PATIENCE, json};
use crate::server::Server;

/// The largest message that a gRPC client accepts by default.
const GRPC_BYTES_MAX: usize = 4 << 20;
/// A session may have 1,024 requests without an answer.
const WAITERS_OF_SESSION: usize = 1_000;

/// A client that is generated from the .proto file. It accepts no message above the default limit.
async fn stubs(server: &Server) -> LocksClient<Channel> {
    let address = format!("http://{}", server.address);
    LocksClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap())
}

async fn session(server: &Server) -> (Client, Session) {
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(PATIENCE).label("l".repeat(256)).open().await.unwrap();
    (client, session)
}

async fn hold(session: &Session, names: &[String]) -> Vec<baton_client::Guard> {
    let mut guards = Vec::new();
    for names in names.chunks(500) {
        let acquiring: JoinSet<_> = names.iter().map(|name| session.lock(name).acquire()).collect();
        guards.extend(acquiring.join_all().await.into_iter().map(Result::unwrap));
    }
    guards
}

async fn run(server: &Server, args: &[&str]) -> Value {
    let (mut command, args) = (server.command(args), args.join(" "));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{args}: {output:?}");
    assert!(output.stdout.ends_with(b"]\n"), "{args}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(locks: &Value) -> Vec<&str> {
    locks.as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_locks_than_one_answer_can_tell_come_in_pages() {
    let server = Server::start();
    let (client, session) = session(&server).await;
    let held: Vec<String> = (0..9_000).map(|number| format!("{number:0512}")).collect();
    let _guards = hold(&session, &held).await;

    let mut stubs = stubs(&server).await;
    let (mut listed, mut bytes, mut request) = (Vec::new(), 0, v1::ListLocksRequest::default());
    loop {
        let page = stubs.list_locks(request.clone()).await.unwrap().into_inner();
        assert!(page.encoded_len() < GRPC_BYTES_MAX);
        bytes += page.encoded_len();
        listed.extend(page.locks.into_iter().map(|lock| lock.name));
        request.page = page.next_page;
        if request.page.is_empty() {
            break;
        }
    }
    listed.dedup();
    assert!(bytes > GRPC_BYTES_MAX, "{bytes} bytes would have been one page");
    assert!(listed.iter().eq(held.iter().map(String::as_bytes)));

    let (mut holds, mut bytes, mut request) = (0, 0, v1::ListSessionsRequest::default());
    loop {
        let page = stubs.list_sessions(request.clone()).await.unwrap().into_inner();
        assert!(page.encoded_len() < GRPC_BYTES_MAX);
        bytes += page.encoded_len();
        holds += page.sessions.iter().map(|session| session.holds.len()).sum::<usize>();
        request.page = page.next_page;
        if request.page.is_empty() {
            break;
        }
    }
    assert_eq!(holds, held.len());
    assert!(bytes > GRPC_BYTES_MAX, "{bytes} bytes would have been one page");

    // The client library and the commands join the pages.
    let locks = client.list_locks().await.unwrap();
    assert!(locks.iter().map(|lock| &lock.name[..]).eq(held.iter().map(String::as_bytes)));
    assert!(locks.iter().all(|lock| lock.holders.len() == 1));
    let sessions = client.list_sessions().await.unwrap();
    assert_eq!(sessions.len(), 1);
    // The session has its locks in the order of the requests, which were sent at the same time.
    let mut holds = sessions.into_iter().next().unwrap().holds;
    holds.sort();
    assert!(holds.iter().map(|name| &name[..]).eq(held.iter().map(String::as_bytes)));
    let listed = run(&server, &["locks", "--json"]).await;
    assert_eq!(names(&listed), held);
    assert!(listed.as_array().unwrap().iter().all(|lock| lock["holders"].as_array().unwrap().len() == 1));
    let prefix = &held[1_230][..511];
    let listed = run(&server, &["locks", "--json", "--prefix", prefix]).await;
    assert_eq!(names(&listed), held[1_230..1_240]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_with_thousands_of_waiters_is_whole() {
    let server = Server::start();
    let (client, session) = session(&server).await;
    let _guard = session.lock("hot").acquire().await.unwrap();
    let _later = session.lock("later").acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let (_, session) = self::session(&server).await;
        for _ in 0..WAITERS_OF_SESSION {
            waiting.spawn(session.lock("hot").acquire());
        }
        sessions.push(session);
    }
    let waiters = sessions.len() * WAITERS_OF_SESSION;
    let start = Instant::now();
    while client.status().await.unwrap().waiters != waiters as u64 {
        assert!(start.elapsed() < PATIENCE, "there never were {waiters} waiters");
    }

    let first =
        stubs(&server).await.get_lock(v1::GetLockRequest { name: b"hot".to_vec(), page: vec![], local: false }).await;
    let first = first.unwrap().into_inner();
    assert!(!first.next_page.is_empty() && first.lock.unwrap().waiters.len() < waiters);
    let in_order =
        |lock: &baton_client::views::Lock| lock.waiters.iter().map(|waiter| waiter.position as usize).eq(1..=waiters);
    let lock = client.get_lock("hot").await.unwrap().unwrap();
    assert!(lock.holders.len() == 1 && in_order(&lock), "{} waiters", lock.waiters.len());
    let locks = client.list_locks().await.unwrap();
    assert_eq!(locks.iter().map(|lock| &lock.name[..]).collect::<Vec<_>>(), [&b"hot"[..], b"later"]);
    assert!(locks[0].holders.len() == 1 && in_order(&locks[0]), "{} waiters", locks[0].waiters.len());
    assert_eq!(locks[1].holders.len(), 1);
}

#[tokio::test]
async fn a_page_that_no_listing_gave_is_refused_in_one_sentence() {
    let server = Server::start();
    let (client, session) = session(&server).await;
    let names: Vec<String> = (0..4_000).map(|number| format!("a{number:0511}")).collect();
    let _guards = hold(&session, &names).await;
    let mut stubs = stubs(&server).await;
    let locks = |prefix: &[u8], page: &[u8]| v1::ListLocksRequest {
        prefix: prefix.to_vec(),
        page: page.to_vec(),
        ..v1::ListLocksRequest::default()
    };
    let lock_page = stubs.list_locks(locks(b"", b"")).await.unwrap().into_inner().next_page;
    let session_page = stubs.list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner().next_page;
    assert!(!lock_page.is_empty() && !session_page.is_empty());
    let mut damaged = lock_page.clone();
    damaged[3] ^= 1;
    let mut refusals = Vec::new();
    for page in [&b"nonsense"[..], b"\0", &[0xff; 4_096], &damaged, &session_page] {
        refusals.push(stubs.list_locks(locks(b"", page)).await.unwrap_err());
        refusals.push(
            stubs
                .get_lock(v1::GetLockRequest { name: b"a".to_vec(), page: page.to_vec(), local: false })
                .await
                .unwrap_err(),
        );
    }
    for page in [&b"nonsense"[..], b"\0", &damaged, &lock_page] {
        refusals.push(
            stubs.list_sessions(v1::ListSessionsRequest { page: page.to_vec(), local: false }).await.unwrap_err(),
        );
    }
    // Pages of another prefix and of another lock.
    refusals.push(stubs.list_locks(locks(b"b", &lock_page)).await.unwrap_err());
    let of_another = v1::GetLockRequest { name: b"another".to_vec(), page: lock_page.clone(), local: false };
    refusals.push(stubs.get_lock(of_another).await.unwrap_err());
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::InvalidArgument);
        assert_eq!(refusal.message(), "the page was not given by this listing; begin again with an empty page");
    }
    // The refused calls changed nothing.
    assert!(!stubs.list_locks(locks(b"a", &lock_page)).await.unwrap().into_inner().locks.is_empty());
    assert_eq!(client.status().await.unwrap().locks, names.len() as u64);
}

#[test]
fn locks_are_listed_by_prefix_and_with_history_if_that_is_asked_for() {
    let server = Server::start();
    for name in ["a/1", "b/1", "b/2", r"b\x"] {
        assert!(server.run(&["lock", name, "--", "true"]).status.success());
    }
    let listed = |args: &[&str]| json(&server, &[&["locks"], args].concat());
    assert_eq!(server.run(&["locks", "--json"]).stdout, b"[]\n", "they are only remembered");
    assert_eq!(names(&listed(&["--all"])), ["a/1", "b/1", "b/2", r"b\x"]);
    assert_eq!(names(&listed(&["--all", "--prefix", "b/"])), ["b/1", "b/2"]);
    assert_eq!(names(&listed(&["--all", "--prefix", r"b\\", "--escaped"])), [r"b\x"]);
    assert_eq!(names(&listed(&["--all", "--prefix", r"\x61", "--escaped"])), ["a/1"]);
    assert_eq!(names(&listed(&["--all", "--prefix", "c"])), [""; 0]);
    assert_eq!(names(&listed(&["--prefix", "b"])), [""; 0]);
    let history = |args: &[&str]| listed(args)[0]["history"].as_array().unwrap().len();
    assert_eq!(history(&["--all"]), 0);
    assert_eq!(history(&["--all", "--history"]), 1);
    assert_eq!(json(&server, &["lock-info", "a/1"])["history"].as_array().unwrap().len(), 1);
    let text = String::from_utf8(server.run(&["locks", "--all", "--prefix", "b/"]).stdout).unwrap();
    assert_eq!(text.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), ["LOCK", "b/1", "b/2"]);
}
