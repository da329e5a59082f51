//! For whom a request is meant: a client may name the cluster, and a follower that carries a request to the leader names
//! the cluster and the node. Every other node refuses it.

use baton_types::cluster_id::{CLUSTER_HEADER, ClusterId};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue};

/// The node that a carried request is meant for, as a decimal number.
const NODE: &str = "baton-node";

/// Says that a request is meant for this node.
pub fn address(headers: &mut HeaderMap, cluster: Option<ClusterId>, node: u64) {
    let text = cluster.and_then(|cluster| HeaderValue::from_str(&cluster.to_string()).ok());
    text.into_iter().for_each(|text| drop(headers.insert(CLUSTER_HEADER, text)));
    headers.insert(NODE, HeaderValue::from(node));
}

/// Refuses a request that is meant for another node than this one. A client that reads the status learns the cluster of
/// this node.
pub fn check(headers: &HeaderMap, this: impl FnOnce() -> (ClusterId, u64)) -> Result<(), Status> {
    if !headers.contains_key(CLUSTER_HEADER) && !headers.contains_key(NODE) {
        return Ok(());
    }
    let (cluster, node) = this();
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(meant) = text(NODE)
        && (meant != node.to_string() || text(CLUSTER_HEADER).is_some_and(|meant| meant != cluster.to_string()))
    {
        let of = text(CLUSTER_HEADER).map(|meant| format!(" of cluster {meant}")).unwrap_or_default();
        return Err(Status::unavailable(format!(
            "a follower carried this to node {meant}{of}, but this is node {node} of cluster {cluster}"
        )));
    }
    if let Some(meant) = text(CLUSTER_HEADER)
        && meant != cluster.to_string()
    {
        let why = format!("this server belongs to cluster {cluster}, and the call is meant for cluster {meant}");
        let mut status = Status::failed_precondition(why);
        if let Ok(own) = cluster.to_string().parse() {
            status.metadata_mut().insert(CLUSTER_HEADER, own);
        }
        return Err(status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn id(id: u64) -> ClusterId {
        ClusterId::new(id).unwrap()
    }

    #[test]
    fn a_request_is_refused_by_every_node_that_it_is_not_meant_for() {
        let mut headers = HeaderMap::new();
        let refused = |headers: &HeaderMap, cluster, node| {
            check(headers, || (id(cluster), node)).map_err(|status| (status.code(), status.message().to_owned()))
        };
        assert_eq!(refused(&headers, 0xa, 1), Ok(()), "it names nobody");
        headers.insert(CLUSTER_HEADER, HeaderValue::from_static("000000000000000a"));
        assert_eq!(refused(&headers, 0xa, 1), Ok(()));
        let why = "this server belongs to cluster 000000000000000b, and the call is meant for cluster 000000000000000a";
        assert_eq!(refused(&headers, 0xb, 1), Err((Code::FailedPrecondition, why.to_owned())));
        address(&mut headers, Some(id(0xa)), 1);
        assert_eq!(refused(&headers, 0xa, 1), Ok(()));
        let why = "a follower carried this to node 1 of cluster 000000000000000a, but this is node ";
        for (cluster, node, this) in
            [(0xa, 2, "2 of cluster 000000000000000a"), (0xb, 1, "1 of cluster 000000000000000b")]
        {
            assert_eq!(refused(&headers, cluster, node), Err((Code::Unavailable, format!("{why}{this}"))));
        }
    }
}
