//! Calls with one answer through a follower.

use std::sync::Arc;

use baton_api::v1;
use prost::Message;
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::bytes::{FORCE, LIST, call};
use crate::follower::Follower;
use crate::leader::{Does, FakeLeader, Saw};

#[tokio::test]
async fn a_call_is_answered_by_the_leader() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let channel = follower.connect().await;
    let listing = v1::ListLocksRequest { prefix: b"a".to_vec(), ..Default::default() }.encode_to_vec();
    let later_version = [&listing[..], &[0xc0, 0x3e, 7]].concat();
    for (path, message) in [(LIST, &later_version[..]), (LIST, b"no message"), (FORCE, b"force")] {
        assert_eq!(call(&channel, path, message).await.unwrap(), message, "the answer has no frame of its own");
        let Saw::Began { carried, .. } = leader.sees().await else { panic!("the call begins first") };
        assert_eq!(carried.as_deref(), Some("1"));
        leader.sees_end().await;
    }
}

#[tokio::test]
async fn a_local_reading_and_the_status_are_answered_by_the_node_itself() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let channel = follower.connect().await;
    let mut client = v1::locks_client::LocksClient::new(channel);
    let listed = client.list_locks(v1::ListLocksRequest { local: true, ..Default::default() }).await.unwrap();
    assert_eq!(listed.into_inner().age_ms, Some(17));
    let lock = client.get_lock(v1::GetLockRequest { name: b"a".to_vec(), local: true, ..Default::default() }).await;
    assert_eq!(lock.unwrap().into_inner().age_ms, Some(17));
    let sessions = client.list_sessions(v1::ListSessionsRequest { local: true, ..Default::default() }).await;
    assert_eq!(sessions.unwrap().into_inner().age_ms, Some(17));
    assert_eq!(client.get_status(v1::GetStatusRequest { own: false }).await.unwrap().into_inner().node, 2);
    assert!(leader.saw.try_recv().is_err(), "the leader hears nothing of it");
}

#[tokio::test]
async fn the_leaders_status_is_the_answer() {
    let leader = FakeLeader::start(Does::Refuses(Status::invalid_argument("no such page")));
    let follower = Follower::of(Some(leader.record())).await;
    let refused = call(&follower.connect().await, LIST, b"").await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "no such page"));
}

/// Only the leader knows whether it has done what it was asked for.
#[tokio::test]
async fn a_change_whose_answer_is_lost_may_have_been_made() {
    for (path, code) in [(FORCE, Code::Aborted), (LIST, Code::Unavailable)] {
        let mut leader = FakeLeader::start(Does::Hangs);
        let follower = Follower::of(Some(leader.record())).await;
        let channel = follower.connect().await;
        let asked = tokio::spawn(async move { call(&channel, path, b"").await });
        leader.sees_link().await;
        leader.kill();
        let status = asked.await.unwrap().unwrap_err();
        assert_eq!(status.code(), code, "{status}");
    }
}

#[tokio::test]
async fn a_reading_does_not_wait_for_a_leader_that_was_deposed() {
    let mut leader = FakeLeader::start(Does::Hangs);
    let follower = Follower::of(Some(leader.record())).await;
    let channel = follower.connect().await;
    let asked = tokio::spawn(async move { call(&channel, LIST, b"").await });
    leader.sees_link().await;
    follower.follow(None);
    let status = asked.await.unwrap().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the leader of the cluster has changed"));
}

/// A change of the members may be the reason why another node leads.
#[tokio::test]
async fn a_change_is_answered_by_the_leader_that_made_it() {
    let permits = Arc::new(Semaphore::new(0));
    let mut leader = FakeLeader::start(Does::EchoesLate(permits.clone()));
    let follower = Follower::of(Some(leader.record())).await;
    let channel = follower.connect().await;
    let asked = tokio::spawn(async move { call(&channel, FORCE, b"change").await });
    leader.sees_link().await;
    follower.follow(None);
    permits.add_permits(1);
    assert_eq!(asked.await.unwrap().unwrap(), b"change");
}

#[tokio::test]
async fn without_a_leader_nothing_was_changed() {
    let follower = Follower::of(None).await;
    let channel = follower.connect().await;
    for path in [FORCE, LIST] {
        assert_eq!(call(&channel, path, b"").await.unwrap_err().code(), Code::Unavailable);
    }
}
