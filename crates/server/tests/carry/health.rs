//! What a follower says about itself through gRPC's health service.

use std::sync::atomic::Ordering;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::bytes::LONG;
use crate::follower::Follower;
use crate::leader::{Does, FakeLeader};

#[tokio::test]
async fn a_follower_of_a_leader_without_space_does_not_serve() {
    let leader = FakeLeader::start(Does::Hangs);
    let follower = Follower::of(Some(leader.record())).await;
    let mut health = HealthClient::new(follower.connect().await);
    let about = HealthCheckRequest { service: "baton.v1.Locks".to_owned() };
    let mut watch = health.watch(about).await.unwrap().into_inner();
    for (full, status) in
        [(true, ServingStatus::Serving), (false, ServingStatus::NotServing), (true, ServingStatus::Serving)]
    {
        let says_so = async { while watch.message().await.unwrap().unwrap().status() != status {} };
        tokio::time::timeout(LONG, says_so).await.expect("it says so");
        follower.full.store(full, Ordering::SeqCst);
    }
}
