//! Groups of members over real sockets, all in one process. No test depends on time, except that [`within_a_minute`]
//! stops a test that hangs.

mod cancel;
mod election;
mod start;
mod trace;
mod turns;

use std::future::Future;
use std::time::Duration;

use baton_peer::{GroupFile, MutexPeer, Options, PeerGroup, Stats};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

async fn within_a_minute<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
}

/// Listening sockets at free ports, and the group file with their addresses.
async fn listeners(algorithm: &str, members: usize) -> (GroupFile, Vec<TcpListener>) {
    let mut listeners = Vec::new();
    for _ in 0..members {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    (GroupFile::new(algorithm, addresses), listeners)
}

fn listening(listener: TcpListener) -> Options {
    Options { listener: Some(listener), ..Options::default() }
}

/// Starts all members of a group for mutual exclusion.
async fn join_all(group: &PeerGroup, options: Vec<Options>) -> Vec<MutexPeer> {
    let mut joining = JoinSet::new();
    for (id, options) in options.into_iter().enumerate() {
        let group = group.clone();
        joining.spawn(async move { (id, MutexPeer::join(&group, id, options).await.unwrap()) });
    }
    let mut peers = joining.join_all().await;
    peers.sort_by_key(|(id, _)| *id);
    peers.into_iter().map(|(_, peer)| peer).collect()
}

async fn start(algorithm: &str, members: usize) -> (PeerGroup, Vec<MutexPeer>) {
    let (file, listeners) = listeners(algorithm, members).await;
    let group = PeerGroup::new(file).unwrap();
    let peers = join_all(&group, listeners.into_iter().map(listening).collect()).await;
    (group, peers)
}

async fn messages(peers: &[MutexPeer]) -> u64 {
    let mut sum = 0;
    for peer in peers {
        sum += stats(peer).await.messages;
    }
    sum
}

async fn stats(peer: &MutexPeer) -> Stats {
    peer.stats().await.expect("it runs")
}
