//! Calls with one answer, at any node of a cluster.

use baton_api::v1;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::client::TestClient;
use crate::server::{Cluster, LONG, PAUSE};

#[tokio::test]
async fn listings_and_forced_releases_work_at_every_node() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (mut client, _) = TestClient::open(7, &cluster.0[leader]).await;
    let fence = client.lock(1, "deploy").await;
    for server in &cluster.0 {
        let mut locks = server.locks().await;
        let listed = locks.list_locks(v1::ListLocksRequest::default()).await.unwrap().into_inner();
        assert_eq!((listed.locks.len(), listed.age_ms), (1, None));
        assert_eq!(listed.locks[0].holders[0].fence, fence);
        assert!(listed.locks[0].holders[0].deadline_in_ms > 0, "the leader knows the lease");
        let wanted = v1::GetLockRequest { name: b"deploy".to_vec(), ..Default::default() };
        assert_eq!(locks.get_lock(wanted).await.unwrap().into_inner().lock.unwrap().holders.len(), 1);
        let sessions = locks.list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner();
        assert_eq!(sessions.sessions[0].id, 7);
    }
    let mut locks = cluster.0[others[0]].locks().await;
    let force = v1::ForceReleaseRequest { name: b"deploy".to_vec(), now: true };
    assert_eq!(locks.force_release(force).await.unwrap().into_inner().holders[0].fence, fence);
    let invalid = v1::ForceReleaseRequest { name: Vec::new(), now: true };
    assert_eq!(locks.force_release(invalid).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_local_reading_shows_what_the_node_has_applied_and_its_age() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (mut client, _) = TestClient::open(7, &cluster.0[leader]).await;
    client.lock(1, "deploy").await;
    let follower = &cluster.0[others[0]];
    let local = v1::ListLocksRequest { local: true, ..Default::default() };
    let applied = async {
        loop {
            let listed = follower.locks().await.list_locks(local.clone()).await.unwrap().into_inner();
            // A follower learns its age with the first append of a leader that a majority has confirmed.
            if listed.locks.len() == 1 && listed.age_ms.is_some() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LONG, applied).await.expect("the follower applies the lock");
    // Without a majority it is still answered, and the age grows.
    cluster.0[leader].kill();
    cluster.0[others[1]].kill();
    let mut locks = cluster.0[others[0]].locks().await;
    let grows = async {
        loop {
            let listed = locks.list_locks(local.clone()).await.unwrap().into_inner();
            assert_eq!(listed.locks.len(), 1);
            if listed.age_ms.unwrap() > 500 {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LONG, grows).await.expect("the age grows");
}

#[tokio::test]
async fn the_status_shows_all_members_and_why_there_is_no_leader() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let node = cluster.0[leader].status().await.node;
    for server in &cluster.0 {
        let seen = server.cluster().await;
        assert_eq!((seen.leader, seen.no_leader.as_str()), (Some(node), ""));
        let names: Vec<&str> = seen.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        for (member, of) in seen.members.iter().zip(&cluster.0) {
            assert_eq!(member.client_address, of.options.listen.to_string());
            assert_eq!(member.peer_address, of.peer_address());
            assert!(member.voter, "{member:?}");
            assert_eq!(member.role == "leader", member.id == node, "{member:?}");
        }
    }
    cluster.0[leader].kill();
    cluster.0[others[1]].kill();
    let left = &cluster.0[others[0]];
    let told = async {
        loop {
            let seen = left.cluster().await;
            if seen.leader.is_none() {
                return seen;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let seen = tokio::time::timeout(LONG, told).await.expect("the node learns that there is no leader");
    for gone in [leader, others[1]] {
        assert!(seen.no_leader.contains(&cluster.0[gone].name), "{}", seen.no_leader);
    }
    // A call that only a leader can answer has the same reason.
    let refused = left.locks().await.list_locks(v1::ListLocksRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    for gone in [leader, others[1]] {
        assert!(refused.message().contains(&cluster.0[gone].name), "{refused}");
    }
}

#[tokio::test]
async fn a_follower_serves_as_long_as_it_knows_a_leader() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let mut health = HealthClient::new(cluster.0[others[0]].channel().await);
    let about = HealthCheckRequest { service: "baton.v1.Locks".to_owned() };
    let mut watch = health.watch(about).await.unwrap().into_inner();
    let mut told = async |wanted| {
        let tells = async { while watch.message().await.unwrap().expect("the watch goes on").status() != wanted {} };
        tokio::time::timeout(LONG, tells).await.expect("the health changes");
    };
    told(ServingStatus::Serving).await;
    cluster.0[leader].kill();
    cluster.0[others[1]].kill();
    told(ServingStatus::NotServing).await;
}
