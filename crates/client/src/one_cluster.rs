//! Whether the servers that the user named belong to one cluster. A list of unrelated servers looks well as long as the
//! first one answers. If it goes away, a new process opens its session at another one, where it gets locks that are held
//! already. So a client asks all servers on its list before it opens its first session.

use std::sync::Arc;
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_types::cluster_id::ClusterId;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::servers::Servers;

/// A server that accepts no connection within this time counts as away. A new process should not wait long for a node
/// that is down.
const REACH_MAX: Duration = Duration::from_millis(250);
/// How long a server has to answer on its connection.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// A node that is no member yet says this, with an id of its own.
const WAITING: &str = "waiting";

/// Asks all servers that the user named, once in the life of a client; it has the connection to one of them, that of this
/// turn. Fails with a sentence if two of them belong to different clusters. Servers that do not answer in time are passed
/// over. `patience` is what the session has for one server; the questions take a small part of it.
pub(crate) async fn check(
    servers: &Arc<Servers>,
    turn: usize,
    channel: &Channel,
    patience: Duration,
) -> Result<(), String> {
    let (named, connected) = (servers.named(), turn % servers.count());
    // If the client knows its cluster, it checks each server when it comes to it.
    if servers.pin().is_some() || named < 2 || connected >= named || servers.is_list_checked() {
        return Ok(());
    }
    let within = ANSWER_MAX.min(patience / 4);
    let mut asked = JoinSet::new();
    for server in 0..named {
        let (servers, channel) = (Arc::clone(servers), (server == connected).then(|| channel.clone()));
        asked.spawn(async move {
            let channel = match channel {
                Some(channel) => channel,
                None => servers.connect(server, REACH_MAX.min(within)).await.ok()?,
            };
            Some((server, ask(channel, within).await?))
        });
    }
    let mut belong: Vec<(usize, ClusterId)> = asked.join_all().await.into_iter().flatten().collect();
    belong.sort_unstable();
    match belong.windows(2).all(|two| two[0].1 == two[1].1) {
        true => {
            servers.list_is_checked();
            Ok(())
        }
        false => Err(refusal(belong.iter().map(|&(server, cluster)| (servers.address(server), cluster)))),
    }
}

/// The cluster of the server. None if it does not say it in time, or belongs to none yet.
async fn ask(channel: Channel, within: Duration) -> Option<ClusterId> {
    let mut locks = LocksClient::new(channel);
    let answer = tokio::time::timeout(within, locks.get_status(v1::GetStatusRequest { own: true })).await;
    let status = answer.ok()?.ok()?.into_inner();
    ClusterId::new(status.cluster_id).filter(|_| status.role != WAITING)
}

fn refusal(belong: impl Iterator<Item = (String, ClusterId)>) -> String {
    let belong: Vec<String> = belong.map(|(address, cluster)| format!("{address} to {cluster}")).collect();
    format!("the servers belong to different clusters ({}); name the servers of one cluster only", belong.join(", "))
}
