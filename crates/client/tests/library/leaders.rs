//! Clusters: a follower carries a session, and names the leader.

use baton_client::ClusterId;

use super::*;

#[tokio::test]
async fn a_session_at_a_follower_moves_to_the_leader_and_later_ones_begin_there() {
    let (mut follower, mut leader) = (Server::start().await, Server::start().await);
    let client = follower.client().await;
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut carried = follower.stream().await;
    let first = carried.name_leader(leader.address).await;
    let mut stream = leader.stream().await;
    let open = stream.open().await;
    let session = opens.await.unwrap().unwrap();
    assert_eq!((open.session, open.attempt, &open.secret), (first.session, 2, &first.secret));
    carried.ends().await;
    // A break does not send it back to the follower.
    drop(stream);
    assert_eq!(leader.stream().await.open().await.attempt, 3);
    assert_eq!(session.state(), SessionState::Alive);
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut stream = leader.stream().await;
    stream.open().await;
    opens.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_a_session_asked_through_a_follower_it_asks_the_leader_again() {
    let (mut follower, mut leader) = (Server::start().await, Server::start().await);
    let client = follower.client().await;
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut carried = follower.stream().await;
    let open = carried.name_leader(leader.address).await;
    carried.opened(&open).await;
    let session = opens.await.unwrap().unwrap();
    let acquires = tokio::spawn(session.lock("a").acquire());
    let mut stream = leader.stream().await;
    let open = stream.open().await;
    // If the carried stream was open before, the session is resumed.
    assert_eq!(open.attempt, 2);
    stream.grant(40).await;
    assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_left_to_the_follower() {
    let mut follower = Server::start().await;
    let nobody = nobody().await;
    let client = follower.client().await;
    // Keep the sessions and streams, so that no session is closed.
    let mut kept = Vec::new();
    for address in [nobody.as_str(), "not an address", ""] {
        let opens = tokio::spawn(client.session().ttl(LONG).open());
        let mut carried = follower.stream().await;
        let open = carried.name_leader(address).await;
        carried.opened(&open).await;
        let session = opens.await.unwrap().unwrap();
        let acquires = tokio::spawn(session.lock("a").acquire());
        carried.grant(40).await;
        assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
        kept.push((session, carried));
    }
}

#[tokio::test]
async fn a_session_comes_back_from_a_leader_that_says_nothing_and_stays() {
    let mut follower = Server::start().await;
    let (silent, accepted) = silent_server().await;
    let client = follower.client().await;
    let opens = tokio::spawn(client.session().ttl(MEDIUM).open());
    let mut carried = follower.stream().await;
    let open = carried.name_leader(&silent).await;
    carried.opened(&open).await;
    let session = opens.await.unwrap().unwrap();
    carried.ends().await;
    let mut carried = follower.stream().await;
    let open = carried.name_leader(&silent).await;
    assert_eq!((open.attempt, open.resume), (3, true));
    carried.opened(&open).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    carried.grant(40).await;
    assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn followers_that_name_each_other_do_not_keep_a_session_on_the_move() {
    let (mut one, mut other) = (Server::start().await, Server::start().await);
    let client = one.client().await;
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    // The streams are kept: the client has to end them.
    let mut kept = Vec::new();
    for attempt in 1..=4 {
        let (here, there) = if attempt % 2 == 1 { (&mut one, &other) } else { (&mut other, &one) };
        let there = there.address;
        let mut carried = here.stream().await;
        let open = carried.name_leader(there).await;
        assert_eq!(open.attempt, attempt);
        if attempt == 4 {
            carried.opened(&open).await;
            assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
            return;
        }
        kept.push(carried);
    }
}

#[tokio::test]
async fn a_follower_that_loses_the_leader_is_left_for_the_next_server() {
    let (mut one, mut other) = (Server::start().await, Server::start().await);
    let client = Client::connect([one.address.to_string(), other.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut carried = one.stream().await;
    carried.name_leader(nobody().await).await;
    carried.answers.send(Err(Status::unavailable("the link to the leader broke"))).await.unwrap();
    let mut stream = other.stream().await;
    assert_eq!(stream.open().await.attempt, 2);
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
}

/// The client is sent to an address where a server of another cluster answers: one that refuses the Open, and one that
/// would take it.
#[tokio::test]
async fn a_session_stays_at_the_follower_if_its_leader_belongs_to_another_cluster() {
    for refuses in [true, false] {
        let (mut follower, mut stranger) = (Server::of_cluster(0xa).await, Server::of_cluster(0xb).await);
        let client = follower.client().await;
        let opens = tokio::spawn(client.session().ttl(LONG).open());
        let mut carried = follower.stream().await;
        assert_eq!(carried.name_leader(stranger.address).await.cluster_id, 0, "no session is open yet");
        let mut stream = stranger.stream().await;
        let client_frame::Frame::Open(open) = stream.frame().await else { panic!("Open comes first") };
        assert_eq!(open.cluster_id, 0xa);
        match refuses {
            true => stream.say(server_frame::Frame::OtherCluster(v1::OtherCluster { cluster_id: 0xb })).await,
            false => stream.opened(&open).await,
        }
        stream.ends().await;
        let mut carried = follower.stream().await;
        let open = carried.name_leader(stranger.address).await;
        carried.opened(&open).await;
        let session = opens.await.unwrap().unwrap();
        assert_eq!(session.cluster_id(), ClusterId::new(0xa));
        assert!(!open.resume, "nothing is open before");
    }
}

#[tokio::test]
async fn later_sessions_of_a_client_stay_in_the_cluster_of_the_first_one() {
    let (mut one, mut other) = (Server::of_cluster(0xa).await, Server::of_cluster(0xb).await);
    let client = Client::connect([one.address.to_string(), other.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut kept = one.stream().await;
    assert_eq!(kept.open().await.cluster_id, 0);
    let first = opens.await.unwrap().unwrap();
    // The second one is refused there, and turns to the other server.
    let opens = tokio::spawn(client.session().ttl(LONG).open_once());
    drop(one.stream().await);
    let mut stream = other.stream().await;
    assert_eq!(stream.open().await.cluster_id, 0xa);
    let told = opens.await.unwrap().unwrap_err().to_string();
    let (one, other) = (one.address, other.address);
    let expected = format!(
        "{other} belongs to cluster 000000000000000b, but this client has talked to cluster 000000000000000a, at {one}, and \
         stays there"
    );
    assert!(told.contains(&expected), "{told}");
    assert_eq!(first.state(), SessionState::Alive);
}

#[tokio::test]
async fn a_session_does_not_go_on_in_another_cluster() {
    let (mut one, mut other) = (Server::of_cluster(0xa).await, Server::of_cluster(0xb).await);
    let client = Client::connect([one.address.to_string(), other.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    let mut stream = one.stream().await;
    let client_frame::Frame::Open(open) = stream.frame().await else { panic!("Open comes first") };
    stream.opened(&open).await;
    let session = opens.await.unwrap().unwrap();
    drop(stream);
    // The server that it was open at refuses the stream, so the session tries the other one.
    drop(one.stream().await);
    let mut stream = other.stream().await;
    let again = stream.open().await;
    assert_eq!((again.session, again.resume, again.cluster_id), (open.session, true, 0xa));
    stream.ends().await;
    let mut stream = one.stream().await;
    stream.open().await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
}

#[tokio::test]
async fn servers_of_two_clusters_in_one_list_open_no_session() {
    let (mut one, mut other) = (Server::as_a("leader", 0xa).await, Server::as_a("follower", 0xb).await);
    let (first, second) = (one.address.to_string(), other.address.to_string());
    let client = Client::connect([&first, &second]).await.unwrap();
    let told = format!(
        "no server opened a session: the servers belong to different clusters ({first} to 000000000000000a, {second} to \
         000000000000000b); name the servers of one cluster only"
    );
    for _ in 0..2 {
        assert_eq!(client.session().ttl(LONG).open().await.unwrap_err().to_string(), told);
        assert_eq!(client.session().ttl(LONG).open_once().await.unwrap_err().to_string(), told);
    }
    let told = CallError::Connect(ConnectError::NoServer { reasons: told.split_once(": ").unwrap().1.to_owned() });
    assert_eq!(client.force_release("a", true).await, Err(told.clone()));
    assert_eq!(client.remove_member("b").await.unwrap_err(), told);
    assert_eq!(*one.changes.asked.lock().unwrap(), Vec::<String>::new());
    assert!(one.streams.try_recv().is_err() && other.streams.try_recv().is_err(), "no server saw an Open");
    // A client that is told its cluster goes on with the right one.
    let client = client.of_cluster(ClusterId::new(0xa).unwrap());
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    one.stream().await.open().await;
    opens.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_list_may_name_servers_that_are_away_or_belong_to_no_cluster_yet() {
    let (mut one, waiting) = (Server::as_a("leader", 0xa).await, Server::as_a("waiting", 0xb).await);
    let ((silent, _), older, same) =
        (silent_server().await, Server::start().await, Server::as_a("follower", 0xa).await);
    let others = [waiting.address, older.address, same.address].map(|address| address.to_string());
    let list = [one.address.to_string(), "127.0.0.1:1".to_owned(), silent].into_iter().chain(others);
    let client = Client::connect(list).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(LONG).open());
    one.stream().await.open().await;
    assert_eq!(opens.await.unwrap().unwrap().cluster_id(), ClusterId::new(0xa));
}
