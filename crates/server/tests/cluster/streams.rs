//! Sessions at any node of a cluster.

use baton_api::v1;
use baton_api::v1::members_client::MembersClient;
use tonic::Code;

use crate::client::TestClient;
use crate::server::Cluster;

#[tokio::test]
async fn a_client_at_a_follower_is_told_the_leader_and_locks_through_it() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let lead = &cluster.0[leader];
    let (mut direct, told) = TestClient::open(1, lead).await;
    assert_eq!(told, None, "a leader does not carry");
    let (mut client, told) = TestClient::open(2, &cluster.0[others[0]]).await;
    let v1::GetStatusResponse { node, cluster_id, .. } = lead.status().await;
    assert_ne!(cluster_id, 0);
    let (name, address) = (lead.name.clone(), lead.options.listen.to_string());
    let expected = v1::Leader { node, name, address, cluster_id };
    assert_eq!(told, Some(expected));
    let first = client.lock(1, "deploy").await;
    direct.wants(1, "deploy").await;
    client.release(2, 1).await;
    assert!(direct.granted(1).await > first);
}

#[tokio::test]
async fn a_session_outlives_a_leader_that_is_killed() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (mut client, _) = TestClient::open(7, &cluster.0[others[0]]).await;
    let fence = client.lock(1, "deploy").await;
    cluster.0[leader].kill();
    assert_eq!(client.end().await.code(), Code::Unavailable);
    client.connect(&cluster.0[others[1]]).await;
    // The same request again has the same answer.
    assert_eq!(client.lock(1, "deploy").await, fence);
    assert_eq!(cluster.leader().await.1.len(), 1);
}

#[tokio::test]
async fn waiters_keep_their_places_when_the_leader_changes() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (follower, next) = (&cluster.0[others[0]], &cluster.0[others[1]]);
    let (mut holder, _) = TestClient::open(1, &cluster.0[leader]).await;
    let (mut second, _) = TestClient::open(2, follower).await;
    let (mut third, _) = TestClient::open(3, follower).await;
    let first_fence = holder.lock(1, "deploy").await;
    second.wants(1, "deploy").await;
    // An answer shows that the wait before it is in the log.
    second.lock(2, "other").await;
    third.wants(1, "deploy").await;
    third.lock(2, "third").await;

    let mut members = MembersClient::new(follower.channel().await);
    members.transfer(v1::TransferLeaderRequest { member: next.name.clone() }).await.unwrap();
    for client in [&mut holder, &mut second, &mut third] {
        assert_eq!(client.end().await.code(), Code::Unavailable);
    }
    assert_eq!(cluster.leader().await.0, others[1]);
    // They come back in another order.
    third.connect(follower).await;
    third.wants(1, "deploy").await;
    third.lock(2, "third").await;
    second.connect(next).await;
    second.wants(1, "deploy").await;
    holder.connect(follower).await;
    holder.release(2, 1).await;
    let second_fence = second.granted(1).await;
    second.release(3, 1).await;
    let third_fence = third.granted(1).await;
    assert!(first_fence < second_fence && second_fence < third_fence);
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_before_its_streams_end() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let before = cluster.0[leader].status().await;
    let (mut client, _) = TestClient::open(7, &cluster.0[leader]).await;
    let fence = client.lock(1, "deploy").await;
    let (end, stopped) = tokio::join!(client.end(), cluster.0[leader].stop());
    assert_eq!(end.code(), Code::Unavailable);
    stopped.unwrap();
    // Nobody had to wait for an election timeout.
    for other in &others {
        let status = cluster.0[*other].status().await;
        assert!(status.term > before.term, "another node was elected");
        assert_ne!(status.cluster.unwrap().leader, Some(before.node));
    }
    client.connect(&cluster.0[others[0]]).await;
    assert_eq!(client.lock(1, "deploy").await, fence);
}

/// A group whose follower stops has nothing to hand over.
#[tokio::test]
async fn a_follower_that_stops_leaves_the_leader_alone() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (mut direct, _) = TestClient::open(1, &cluster.0[leader]).await;
    let (mut client, _) = TestClient::open(2, &cluster.0[others[0]]).await;
    let fence = client.lock(1, "deploy").await;
    cluster.0[others[0]].stop().await.unwrap();
    assert_eq!(client.end().await.code(), Code::Unavailable);
    direct.lock(1, "other").await;
    client.connect(&cluster.0[others[1]]).await;
    assert_eq!(client.lock(1, "deploy").await, fence);
}
