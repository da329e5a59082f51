//! Asks at the address that this node advertises to clients which node answers there. If it is another one, the log and
//! `baton status` say so.

use std::sync::Arc;
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_types::cluster_id::ClusterId;
use tonic::Status;
use tonic::transport::Endpoint;

use crate::host::Host;
use crate::replica::Replica;

/// How long the node waits before it asks again.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Before the node asks for the first time: it may not be a member yet, and the port may not be served yet.
const FIRST_AFTER: Duration = Duration::from_millis(500);
/// The time for one answer. Other nodes answer a status within a second.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Never returns.
pub async fn watch<R: Replica>(host: &Arc<Host<R>>) {
    tokio::time::sleep(FIRST_AFTER).await;
    loop {
        if let Some(remark) = host.own_address_remark() {
            host.set_address_remark(Some(remark));
        } else if let Some(address) = host.client_address()
            && let Ok(Ok(answers)) = tokio::time::timeout(ANSWER_MAX, ask(&address)).await
        {
            host.set_address_remark(stranger(&address, (host.cluster_id(), host.node_id()), &answers));
        }
        // Without an answer nobody knows: perhaps only other machines reach the node at this address.
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Returns a sentence if another server than this one answers.
fn stranger(address: &str, (cluster, node): (ClusterId, u64), answers: &v1::GetStatusResponse) -> Option<String> {
    // An older server does not say its cluster.
    let other = ClusterId::new(answers.cluster_id).filter(|other| *other != cluster);
    let of = other.map(|other| format!(" of cluster {other}")).unwrap_or_default();
    (answers.node != node || other.is_some()).then(|| {
        format!(
            "another server answers at {address}, the address that this node advertises to clients: it is node {}{of}, and \
             this is node {node} of cluster {cluster}; name the right address with --advertise",
            answers.node
        )
    })
}

async fn ask(address: &str) -> Result<v1::GetStatusResponse, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let channel = endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(LocksClient::new(channel).get_status(v1::GetStatusRequest { own: true }).await?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_or_another_cluster_at_the_own_address_is_told() {
        let own = ClusterId::new(0xa).unwrap();
        let told = |node, cluster_id| {
            let answers = v1::GetStatusResponse { node, cluster_id, ..v1::GetStatusResponse::default() };
            stranger("a:1", (own, 1), &answers)
        };
        assert_eq!([told(1, 0xa), told(1, 0)], [None, None]);
        assert!(told(2, 0xa).unwrap().contains("it is node 2, and this is node 1 of cluster 000000000000000a"));
        assert!(
            told(1, 0xb).unwrap().contains("it is node 1 of cluster 000000000000000b, and this is node 1 of cluster")
        );
    }
}
