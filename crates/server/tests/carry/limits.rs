//! What a follower carries is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tonic::{Code, Request};

use crate::bytes::{begin, stream};
use crate::follower::Follower;
use crate::leader::{Does, FakeLeader, Saw};

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_until_one_ends() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::with_limits(Some(leader.record()), 100, 2).await;
    let channel = follower.connect().await;
    let (one, _other) = (stream(&channel).await.unwrap(), stream(&channel).await.unwrap());
    let refused = stream(&follower.connect().await).await.err().expect("a refusal");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("2 streams"), "{refused}");
    assert!(refused.message().contains(&leader.address.to_string()), "{refused}");
    drop(one);
    leader.sees_end().await;
    let mut next = stream(&channel).await.unwrap();
    assert_eq!(next.hear_leader().await, "anna");
}

/// So the leader can limit the streams of each client's connection.
#[tokio::test]
async fn each_connection_of_a_client_has_one_link_to_the_leader() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::of(Some(leader.record())).await;
    let (one, other) = (follower.connect().await, follower.connect().await);
    let mut links = Vec::new();
    let mut streams = Vec::new();
    for channel in [&one, &one, &other] {
        streams.push(stream(channel).await.unwrap());
        links.push(leader.sees_link().await);
    }
    assert_eq!(links[0], links[1]);
    assert_ne!(links[0], links[2]);
}

#[tokio::test]
async fn a_link_takes_a_place_of_the_connections_until_its_last_stream_ends() {
    let mut leader = FakeLeader::start(Does::Echoes);
    let follower = Follower::with_limits(Some(leader.record()), 3, 100).await;
    let (one, other) = (follower.connect().await, follower.connect().await);
    let mut first = stream(&one).await.unwrap();
    assert_eq!(first.hear_leader().await, "anna");
    // Two connections and a link: no place is left.
    let refused = stream(&other).await.err().expect("a refusal");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    drop(first);
    leader.sees_end().await;
    // A failure is remembered for a short time only.
    let again = async {
        loop {
            match stream(&other).await {
                Ok(stream) => return stream,
                Err(refused) => assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let mut second = tokio::time::timeout(crate::bytes::LONG, again).await.expect("a place is free again");
    assert_eq!(second.hear_leader().await, "anna");
}

/// A client that sends faster than the leader reads is slowed down. Nothing but windows of HTTP/2 is in between.
#[tokio::test]
async fn a_follower_does_not_collect_what_the_leader_does_not_read() {
    const FRAME_BYTES: usize = 16 << 10;
    const FRAMES: usize = 2000;
    // The windows and buffers of two connections.
    const AHEAD_BYTES_MAX: usize = 8 << 20;
    let permits = Arc::new(Semaphore::new(0));
    let mut leader = FakeLeader::start(Does::Reads(permits.clone()));
    let follower = Follower::of(Some(leader.record())).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = sent.clone();
    let frames = tokio_stream::iter((0..FRAMES).map(move |_| {
        counts.fetch_add(FRAME_BYTES, Ordering::SeqCst);
        vec![7; FRAME_BYTES]
    }));
    let _heard = begin(&follower.connect().await, Request::new(frames)).await.unwrap();
    let mut read = 0;
    while read < FRAMES * FRAME_BYTES {
        permits.add_permits(1);
        if let Saw::Read(bytes) = leader.sees().await {
            read += bytes;
            let ahead = sent.load(Ordering::SeqCst).saturating_sub(read);
            assert!(ahead <= AHEAD_BYTES_MAX, "{ahead} bytes are under way");
        }
    }
}
