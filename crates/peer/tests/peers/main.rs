//! Groups of members over real sockets, all in one process. No test depends on time, except that [`within_a_minute`]
//! stops a test that hangs.

mod backlog;
mod cancel;
mod cuts;
mod election;
mod leaders;
mod pauses;
mod placement;
mod refusals;
mod restarts;
mod start;
mod trace;
mod turns;

use std::future::Future;
use std::time::Duration;

use baton_peer::{GroupFile, Member, Options, PeerGroup, Stats};
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

/// Starts all members of a group.
async fn join_all(group: &PeerGroup, options: Vec<Options>) -> Vec<Member> {
    let mut joining = JoinSet::new();
    for (id, options) in options.into_iter().enumerate() {
        let group = group.clone();
        joining.spawn(async move { Member::join(&group, id, options).await.unwrap() });
    }
    let mut members = joining.join_all().await;
    members.sort_by_key(Member::id);
    members
}

async fn start(algorithm: &str, members: usize) -> Vec<Member> {
    start_with(algorithm, members, |_| {}).await
}

async fn start_with(algorithm: &str, members: usize, change: impl FnOnce(&mut GroupFile)) -> Vec<Member> {
    let (mut file, listeners) = listeners(algorithm, members).await;
    change(&mut file);
    join_all(&PeerGroup::new(file).unwrap(), listeners.into_iter().map(listening).collect()).await
}

fn sum(members: &[Member]) -> Stats {
    let mut sum = Stats::default();
    for stats in members.iter().map(Member::stats) {
        sum.messages += stats.messages;
        sum.requests += stats.requests;
        sum.entries += stats.entries;
    }
    sum
}

/// Waits until the member has made this many requests.
async fn requests(member: &Member, requests: u64) {
    while member.stats().requests < requests {
        tokio::task::yield_now().await;
    }
}
