//! Clients of the members of a real group, over TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_client::{Client, ConnectError};
use baton_member::{bind, serve};
use baton_peer::{GroupFile, Member, Options, PeerGroup};
use baton_types::limits::ServerLimits;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(60);

/// The members of a group, and a client of each.
async fn start(algorithm: &str, size: usize) -> (Vec<Member>, Vec<Client>) {
    start_with(algorithm, size, Options::default().resources_max).await
}

/// Each member can take this many names.
async fn start_with(algorithm: &str, size: usize, resources_max: usize) -> (Vec<Member>, Vec<Client>) {
    let mut listeners = Vec::new();
    for _ in 0..size {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let group = PeerGroup::new(GroupFile::new(algorithm, addresses)).unwrap();
    let mut joining = JoinSet::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let (group, options) =
            (group.clone(), Options { listener: Some(listener), resources_max, ..Options::default() });
        joining.spawn(async move { Member::join(&group, id, options).await.unwrap() });
    }
    let mut members = joining.join_all().await;
    members.sort_by_key(Member::id);
    let mut clients = Vec::new();
    for member in &members {
        clients.push(client(member.clone()).await.unwrap());
    }
    (members, clients)
}

async fn client(member: Member) -> Result<Client, ConnectError> {
    let port = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let server = serve(member, port, ServerLimits::default(), 100).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    Client::connect([address]).await
}

async fn clients_exclude_each_other(algorithm: &str) {
    const ENTRIES: usize = 5;
    let (members, clients) = start(algorithm, 3).await;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut entering = JoinSet::new();
    // Two clients at each member.
    for client in clients.iter().chain(&clients) {
        let (client, inside) = (client.clone(), inside.clone());
        entering.spawn(async move {
            let session = client.session().open().await.unwrap();
            let mut fences = Vec::new();
            for _ in 0..ENTRIES {
                let guard = session.lock("counter").acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
                fences.push(guard.fence().unwrap());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
            fences
        });
    }
    let mut fences = entering.join_all().await.concat();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 6 * ENTRIES, "{algorithm}: every grant has a fence of its own");
    let entries: u64 = members.iter().map(|member| member.stats().entries).sum();
    assert_eq!(entries, 6 * ENTRIES as u64, "{algorithm}: every grant is one entry of the algorithm");
}

#[tokio::test]
async fn the_clients_of_all_members_exclude_each_other() {
    for algorithm in ["central", "raymond", "ricart-agrawala", "maekawa", "voting"] {
        tokio::time::timeout(LONG, clients_exclude_each_other(algorithm)).await.expect(algorithm);
    }
}

#[tokio::test]
async fn a_member_tells_how_many_names_it_has_taken_and_why_it_takes_no_more() {
    tokio::time::timeout(LONG, async {
        let (_members, clients) = start_with("raymond", 2, 2).await;
        let session = clients[0].session().open().await.unwrap();
        for (taken, name) in ["a", "b"].into_iter().enumerate() {
            let group = clients[0].status().await.unwrap().group.unwrap();
            assert_eq!((group.names, group.names_max), (taken as u64, 2));
            session.lock(name).acquire().await.unwrap().release().await.unwrap();
        }
        let refused = session.lock("c").acquire().await.unwrap_err();
        assert!(refused.to_string().contains("this member has taken 2 names, which is the limit"), "{refused}");
        session.lock("a").acquire().await.unwrap().release().await.unwrap();
        let group = clients[0].status().await.unwrap().group.unwrap();
        assert_eq!((group.names, group.names_max), (2, 2));
    })
    .await
    .expect("all is answered");
}

/// Nobody can enter without process 2. The clock of the test is a lock that nobody holds: its waiter is told.
#[tokio::test]
async fn who_waits_for_a_living_holder_is_not_told_to_wait_for_a_dead_bystander() {
    tokio::time::timeout(LONG, async {
        let (members, clients) = start("ricart-agrawala", 3).await;
        let holder = clients[1].session().open().await.unwrap();
        let guard = holder.lock("held").acquire().await.unwrap();
        members[2].shutdown().await;
        let session = clients[0].session().open().await.unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut waiting = JoinSet::new();
        for name in ["held", "free"] {
            let tell = tell.clone();
            let acquire = session.lock(name).on_hopeless(move |why| drop(tell.send((name, why.message.clone()))));
            waiting.spawn(acquire.acquire());
        }
        for _ in 0..3 {
            let (name, message) = told.recv().await.unwrap();
            assert_eq!((name, message.as_str()), ("free", "waiting for process 2, which has left the group"));
        }
        guard.release().await.unwrap();
        while told.recv().await.unwrap().0 != "held" {}
    })
    .await
    .expect("the waiters are told");
}

#[tokio::test]
async fn a_member_tells_its_group_and_a_waiter_learns_which_member_is_gone() {
    tokio::time::timeout(LONG, async {
        let (members, clients) = start("ricart-agrawala", 3).await;
        let status = clients[1].status().await.unwrap();
        let group = status.group.expect("a member is in a group");
        assert_eq!((group.algorithm.as_str(), group.member, group.members), ("ricart-agrawala", 1, 3));
        assert!(group.serves && group.peers.iter().all(|peer| peer.connected), "{group:?}");
        assert_eq!(group.peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), [0, 2]);

        members[2].shutdown().await;
        let session = clients[0].session().open().await.unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let waiting = session.lock("a").on_hopeless(move |why| drop(tell.send(why.message.clone()))).acquire();
        tokio::select! {
            granted = waiting => panic!("process 2 cannot answer, and yet {granted:?}"),
            message = told.recv() => {
                assert_eq!(message.unwrap(), "waiting for process 2, which has left the group");
            }
        }
    })
    .await
    .expect("the waiter is told");
}
