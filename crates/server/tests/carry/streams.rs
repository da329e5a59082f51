//! Streams through a follower.

use baton_proxy::Proxy;
use baton_state::state::Command;
use baton_state::state::cluster::{self as words, Secret};
use baton_types::frames::Leader;
use tonic::{Code, Status};

use crate::bytes::{TestStream, stream, stream_with};
use crate::follower::{Follower, cluster};
use crate::leader::{Does, FakeLeader, Saw};

/// A stream that the follower carries.
async fn carried() -> (FakeLeader, Follower, TestStream) {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let mut stream = stream(&follower.connect().await).await.unwrap();
    assert_eq!(stream.hear_leader().await, "anna");
    leader.sees_link().await;
    (leader, follower, stream)
}

/// A field 1000 of a later version, with the value 7.
const UNKNOWN: &[u8] = &[0xc0, 0x3e, 7];

#[tokio::test]
async fn the_first_frame_names_the_leader_and_all_others_pass_as_they_are() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let mut stream = stream(&follower.connect().await).await.unwrap();
    assert_eq!(stream.hear_leader().await, "anna");
    let Saw::Began { carried, from, .. } = leader.sees().await else { panic!("the stream begins first") };
    assert_eq!(carried.as_deref(), Some("1"));
    assert!(from.unwrap().starts_with("127.0.0.1:"), "the leader learns where the client is");
    for frame in [UNKNOWN, b"no frame at all", b"", &[9; 100_000]] {
        stream.say(frame).await;
        assert_eq!(stream.hear().await.unwrap().as_deref(), Some(frame));
    }
    // The client ends its side, so the leader ends the stream.
    stream.frames = None;
    assert_eq!(stream.hear().await.unwrap(), None);
    leader.sees_end().await;
}

#[tokio::test]
async fn the_leaders_status_ends_the_clients_stream() {
    let end = Status::invalid_argument("a sentence of the leader: 100 %");
    let leader = FakeLeader::start(Does::EndsWith(end.clone()));
    let follower = Follower::of(Some(leader.record())).await;
    let mut stream = stream(&follower.connect().await).await.unwrap();
    assert_eq!(stream.hear_leader().await, "anna");
    stream.say(b"hello").await;
    let status = stream.end().await;
    assert_eq!((status.code(), status.message()), (end.code(), end.message()));
}

#[tokio::test]
async fn a_stream_that_the_leader_refuses_is_refused() {
    let leader = FakeLeader::start(Does::Refuses(Status::resource_exhausted("no more")));
    let follower = Follower::of(Some(leader.record())).await;
    let refused = stream(&follower.connect().await).await.err().expect("a refusal");
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "no more"));
}

#[tokio::test]
async fn a_client_that_goes_away_is_gone_for_the_leader() {
    let (mut leader, _follower, mut stream) = carried().await;
    stream.say(b"one").await;
    assert_eq!(stream.hear().await.unwrap().as_deref(), Some(&b"one"[..]));
    drop(stream);
    leader.sees_end().await;
}

#[tokio::test]
async fn a_carried_stream_ends_at_both_ends_when_another_node_leads() {
    let (mut leader, follower, mut stream) = carried().await;
    let other =
        Leader { node: 3, name: "carl".to_owned(), address: "127.0.0.1:1".to_owned(), cluster: Some(cluster()) };
    follower.follow(Some(other));
    let status = stream.end().await;
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the leader of the cluster has changed"));
    // The client has not ended its side.
    leader.sees_end().await;
}

#[tokio::test]
async fn a_carried_stream_ends_when_no_leader_is_known_any_more() {
    let (mut leader, follower, mut stream) = carried().await;
    follower.follow(None);
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    leader.sees_end().await;
}

#[tokio::test]
async fn a_carried_stream_ends_when_the_leader_dies() {
    let (mut leader, _follower, mut stream) = carried().await;
    leader.kill();
    let status = stream.end().await;
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("the link to the leader anna at 127.0.0.1:"), "{status}");
}

/// The leader's machine is gone, or the cable is pulled: no packet says so.
#[tokio::test]
async fn a_carried_stream_ends_when_the_link_is_silent() {
    let leader = FakeLeader::start(Does::Echoes);
    let proxy = Proxy::start(leader.address, 1).unwrap();
    let record = Leader { address: proxy.address().to_string(), ..leader.record() };
    let follower = Follower::of(Some(record)).await;
    let mut stream = stream(&follower.connect().await).await.unwrap();
    assert_eq!(stream.hear_leader().await, "anna");
    proxy.hold();
    let status = stream.end().await;
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("the link to the leader anna at 127.0.0.1:"), "{status}");
}

#[tokio::test]
async fn a_carried_stream_ends_when_the_follower_stops() {
    let (mut leader, mut follower, mut stream) = carried().await;
    follower.begin_to_stop();
    let status = stream.end().await;
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the server is stopping"));
    leader.sees_end().await;
    follower.stopped().await.unwrap();
}

#[tokio::test]
async fn a_carried_stream_is_not_carried_again() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let with =
        |request: &mut tonic::Request<()>| drop(request.metadata_mut().insert("baton-carried", "1".parse().unwrap()));
    let mut stream = stream_with(&follower.connect().await, with).await.unwrap();
    let open = prost::Message::encode_to_vec(&baton_api::v1::ClientFrame {
        frame: Some(baton_api::v1::client_frame::Frame::Open(baton_api::v1::Open {
            session: 7,
            ttl_ms: 10_000,
            attempt: 1,
            ..Default::default()
        })),
    });
    stream.say(&open).await;
    let status = stream.end().await;
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "this node does not lead"));
    assert!(leader.saw.try_recv().is_err(), "the leader hears nothing of it");
}

#[tokio::test]
async fn a_stream_that_was_carried_to_the_wrong_node_is_refused() {
    let leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let meant = |cluster: String, node: &str| {
        let node = node.parse().unwrap();
        move |request: &mut tonic::Request<()>| {
            request.metadata_mut().insert("baton-cluster-id", cluster.parse().unwrap());
            request.metadata_mut().insert("baton-node", node);
        }
    };
    let channel = follower.connect().await;
    for (cluster, node) in [(cluster().to_string(), "9"), ("00000000000000ab".to_owned(), "2")] {
        let refused = stream_with(&channel, meant(cluster.clone(), node)).await.err().expect("a refusal");
        assert_eq!(refused.code(), Code::Unavailable);
        let says =
            format!("a follower carried this to node {node} of cluster {cluster}, but this is node 2 of cluster");
        assert!(refused.message().starts_with(&says), "{refused:?}");
    }
    assert!(stream_with(&channel, meant(cluster().to_string(), "2")).await.is_ok());
}

/// Anybody may answer at the address of the leader.
#[tokio::test]
async fn nothing_is_carried_to_a_server_that_does_not_prove_to_be_the_leader() {
    let mut stranger = FakeLeader::start(Does::Echoes);
    let secret = Secret([7; 32]);
    let follower = Follower::that_knows(stranger.record(), &[found(secret)]).await;
    let refused = stream(&follower.connect().await).await.err().expect("a refusal");
    assert_eq!(refused.code(), Code::Unavailable);
    let says = format!(
        "the server at {} has not proved to be node anna of cluster {}, so this node carries nothing to it: ",
        stranger.address,
        cluster()
    );
    assert!(refused.message().starts_with(&says), "{refused:?}");
    assert!(stranger.saw.try_recv().is_err(), "it hears nothing of the client");
}

fn found(secret: Secret) -> Command {
    words::Command::Found { secret, max_ttl_ms: 600_000 }.into()
}

#[tokio::test]
async fn a_leader_whose_address_is_of_no_use_to_clients_is_not_named() {
    let leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(Leader { node: 9, ..leader.record() })).await;
    let mut stream = stream(&follower.connect().await).await.unwrap();
    stream.say(b"the follower carries it").await;
    assert_eq!(stream.hear().await.unwrap().as_deref(), Some(&b"the follower carries it"[..]));
}

#[tokio::test]
async fn a_leader_that_is_not_reached_is_told_with_its_address() {
    let record =
        Leader { node: 1, name: "anna".to_owned(), address: "127.0.0.1:1".to_owned(), cluster: Some(cluster()) };
    let follower = Follower::of(Some(record)).await;
    let channel = follower.connect().await;
    for _ in 0..2 {
        let refused = stream(&channel).await.err().expect("a refusal");
        assert_eq!(refused.code(), Code::Unavailable);
        let says = "this node does not reach the leader anna at 127.0.0.1:1: ";
        assert!(refused.message().starts_with(says), "{refused}");
    }
    follower.follow(Some(Leader {
        node: 1,
        name: "anna".to_owned(),
        address: "no address".to_owned(),
        cluster: Some(cluster()),
    }));
    assert_eq!(stream(&channel).await.err().expect("a refusal").code(), Code::Unavailable);
}

#[tokio::test]
async fn without_a_leader_a_stream_is_refused_until_there_is_one() {
    let follower = Follower::of(None).await;
    let channel = follower.connect().await;
    let refused = stream(&channel).await.err().expect("a refusal");
    let says = "this node does not lead, and knows no leader";
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, says));
    let leader = FakeLeader::start(Does::Echoes);
    follower.follow(Some(leader.record()));
    assert_eq!(stream(&channel).await.unwrap().hear_leader().await, "anna");
}
