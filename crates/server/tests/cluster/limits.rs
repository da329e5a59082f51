//! What the requests of one connection may take, at the leader and at a follower.

use baton_api::v1;
use futures::future::join_all;
use tonic::Code;

use crate::raw::{ADD, FORCE, Fate, HEALTH, LIST, SESSION, STATUS, half_sent};
use crate::server::Cluster;

const LONG_MESSAGE_BYTES: u32 = 4 << 20;
/// The longest message of a client.
const MESSAGE_BYTES: u32 = 64 << 10;
/// The windows and buffers of a stream, on the way through two connections.
const TAKEN_BYTES_MAX: usize = 512 << 10;

/// As many as the server answers at a time.
const CALLS: usize = 400;

#[tokio::test]
async fn long_messages_that_never_end_are_refused_at_their_headers() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    for at in [leader, others[0]] {
        for (path, calls) in [(LIST, CALLS), (FORCE, 1), (STATUS, 1), (ADD, 1), (HEALTH, 1), (SESSION, 20)] {
            let channel = cluster.0[at].channel().await;
            let sent = LONG_MESSAGE_BYTES as usize - 1;
            let calls = (0..calls).map(|_| half_sent(&channel, path, LONG_MESSAGE_BYTES, sent, true));
            for (fate, taken) in join_all(calls).await {
                let Fate::Ended(status) = fate else { panic!("{path}: the server has read {taken} bytes and waits") };
                assert_eq!(status.code(), Code::ResourceExhausted, "{path}: {status}");
                assert_eq!(status.message(), "the request has 4194304 bytes; it may have at most 65536", "{path}");
                assert!(taken <= TAKEN_BYTES_MAX, "{path}: the server has read {taken} bytes");
            }
        }
    }
}

/// A connection may have 4 MiB of requests that are not complete. Each of these takes 64 KiB and a header.
#[tokio::test]
async fn half_sent_requests_of_a_connection_have_a_limit_of_bytes() {
    const FIT: usize = (4 << 20) / (MESSAGE_BYTES as usize + 5);
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    for server in [leader, others[0]].map(|at| &cluster.0[at]) {
        for path in [LIST, SESSION] {
            let channel = server.channel().await;
            let calls = (0..FIT + 20).map(|_| Box::pin(half_sent(&channel, path, MESSAGE_BYTES, 1, false)));
            let mut calls: Vec<_> = calls.collect();
            for _ in 0..20 {
                let ((fate, _), _, others) = futures::future::select_all(calls).await;
                let Fate::Ended(status) = fate else { panic!("{path}: the server waits") };
                assert_eq!(status.code(), Code::ResourceExhausted, "{path}: {status}");
                assert!(status.message().contains("more than 4194304 bytes"), "{path}: {status}");
                calls = others;
            }
            // Other connections are not concerned.
            server.locks().await.list_locks(v1::ListLocksRequest::default()).await.unwrap();
        }
    }
}
