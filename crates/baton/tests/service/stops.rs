//! The server is told to stop: it does so within a bounded time, whatever its clients do, and keeps everything.

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

/// What the server says when it does not wait any longer.
const CUT: &str = "some connections did not end in time, and are cut";

/// A call that does not end while the server serves.
async fn watch(channel: Channel) -> Streaming<HealthCheckResponse> {
    HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap().into_inner()
}

/// A connection whose client takes no byte of any answer.
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
    // And a call that ends only with the server, of a client that is alive and well.
    let watch = watch(raw::channel(&server).await).await;
    assert!(tokio::task::block_in_place(|| server.stop()).success());
    // They were there all the time.
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
    // On a busy machine the second signal may come after the time that connections have.
    for _ in 0..5 {
        let mut server = Server::start();
        let stuck = watch(unread(&server).await).await;
        server.signal(Signal::SIGTERM);
        // Two signals at once could be one.
        server.log_line("this node leads no more");
        server.signal(Signal::SIGTERM);
        assert!(server.ends().success());
        drop(stuck);
        let log = server.log_at_the_end();
        if log.iter().any(|line| line.contains("told to stop twice: stopped at once")) {
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
