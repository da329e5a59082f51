//! Asks at the address that this node advertises to clients which node answers there. If it is another one, the log and
//! `baton status` say so.

use std::sync::Arc;
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::locks_client::LocksClient;
use baton_types::cluster_id::ClusterId;
use baton_types::name;
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
            host.set_address_remark(stranger(&address, &host.own_status().into(), &answers));
        }
        // Without an answer nobody knows: perhaps only other machines reach the node at this address.
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Returns a sentence if another server than this one answers.
fn stranger(address: &str, own: &v1::GetStatusResponse, answers: &v1::GetStatusResponse) -> Option<String> {
    // An older server does not say its cluster.
    let is_other = answers.node != own.node || answers.cluster_id != own.cluster_id && answers.cluster_id != 0;
    is_other.then(|| {
        format!(
            "another server answers at {address}, the address that this node advertises to clients: it is {}, and this is {}; \
             name the right address with --advertise",
            label(answers),
            label(own)
        )
    })
}

/// By its name, and by its id if it does not say its name.
fn label(status: &v1::GetStatusResponse) -> String {
    let of = ClusterId::new(status.cluster_id).map(|cluster| format!(" of cluster {cluster}")).unwrap_or_default();
    match &status.name[..] {
        "" => format!("node {}{of}", status.node),
        name => format!("{}{of}", name::short(name)),
    }
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
        let says = |node, name: &str, cluster_id| v1::GetStatusResponse {
            node,
            name: name.to_owned(),
            cluster_id,
            ..v1::GetStatusResponse::default()
        };
        let told = |node, name, cluster_id| stranger("a:1", &says(1, "a", 0xa), &says(node, name, cluster_id));
        assert_eq!([told(1, "a", 0xa), told(1, "", 0)], [None, None]);
        let own = "and this is a of cluster 000000000000000a; name the right";
        let other = told(2, "b\n", 0xb).unwrap();
        assert!(other.contains(&format!("it is b\\n of cluster 000000000000000b, {own}")), "{other}");
        let older = told(2, "", 0).unwrap();
        assert!(older.contains(&format!("it is node 2, {own}")), "{older}");
        assert!(told(1, "a", 0xb).is_some());
    }
}
