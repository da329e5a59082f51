//! A signal stops the server: it ends within a bounded time, whatever its clients do, and keeps all locks and sessions.

use std::net::TcpStream;
use std::time::Duration;

use baton_client::Client;
use nix::sys::signal::Signal;
use tonic::Streaming;
use tonic::transport::Channel;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::raw::{self, mute};
use crate::server::Server;

fn mutes(server: &Server) -> [TcpStream; 5] {
    std::array::from_fn(|_| mute(server))
}

/// The log line when the server waits no longer for connections.
const CUT: &str = "some connections did not end in time, and are closed";

/// A call that ends only with the server.
async fn watch(channel: Channel) -> Streaming<HealthCheckResponse> {
    HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap().into_inner()
}

/// A connection whose client accepts no byte of an answer.
async fn unread(server: &Server) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", server.address)).unwrap();
    endpoint.initial_stream_window_size(0).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_read_nothing_do_not_keep_the_server_from_stopping() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(Duration::from_secs(600)).open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    let mutes = mutes(&server);
    // Also a call that ends only with the server, although its client reads.
    let watch = watch(raw::channel(&server).await).await;
    assert!(tokio::task::block_in_place(|| server.stop()).success());
    // The connections were open until here.
    drop((mutes, watch));
    let log = server.log_at_the_end();
    assert!(!log.iter().any(|line| line.contains(CUT)), "{log:?}");

    tokio::task::block_in_place(|| server.restart());
    let sessions = client.list_sessions().await.unwrap();
    let held: Vec<_> = sessions.iter().map(|session| (session.id, session.holds.clone())).collect();
    assert_eq!(held, [(session.id(), vec![b"deploy".to_vec()])]);
    let lock = client.get_lock("deploy").await.unwrap().expect("it is held");
    assert_eq!((lock.holders[0].session, lock.holders[0].fence), (session.id(), fence));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_answer_is_not_read_is_cut() {
    let mut server = Server::start();
    let stuck = watch(unread(&server).await).await;
    assert!(tokio::task::block_in_place(|| server.stop()).success());
    drop(stuck);
    let log = server.log_at_the_end();
    assert!(log.iter().any(|line| line.contains(CUT)), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_twice_does_not_wait_for_connections() {
    // On a busy machine the second signal may come after the time limit for connections. So there are several attempts.
    for _ in 0..5 {
        let mut server = Server::start();
        let stuck = watch(unread(&server).await).await;
        server.signal(Signal::SIGTERM);
        // The kernel may merge two signals that arrive at once.
        server.log_line("this node leads no more");
        server.signal(Signal::SIGTERM);
        assert!(server.ends().success());
        drop(stuck);
        let log = server.log_at_the_end();
        if log.iter().any(|line| line.contains("a second signal came: the server stops at once")) {
            return;
        }
    }
    panic!("the second signal changes nothing");
}

#[test]
fn a_server_without_clients_stops_without_a_word_of_connections() {
    let mut server = Server::start();
    assert!(server.run(&["status"]).status.success());
    assert!(server.stop().success());
    let log = server.log_at_the_end();
    assert!(!log.iter().any(|line| line.contains("WARN") || line.contains("ERROR")), "{log:?}");
}
