//! Whether the clients of other nodes can use the address that a member advertises to clients.

use std::net::IpAddr;

use openraft::async_runtime::WatchReceiver;

use super::node::Node;
use crate::format::record::NodeRecord;

impl Node {
    /// Why no client may be sent to this member, as a sentence. None if nothing speaks against it.
    pub fn address_remark(&self, id: u64) -> Option<String> {
        let metrics = self.group.raft.server_metrics();
        let seen = metrics.borrow_watched();
        loopback(id, || seen.membership_config.nodes())
    }

    /// Where clients reach this node, if its cluster has other members.
    pub fn client_address(&self) -> Option<String> {
        let metrics = self.group.raft.server_metrics();
        let seen = metrics.borrow_watched();
        let has_others = seen.membership_config.nodes().any(|(id, _)| *id != self.id());
        let own = seen.membership_config.get_node(&self.id()).filter(|_| has_others)?;
        Some(own.client_address.clone()).filter(|address| !address.is_empty())
    }
}

/// Clients on other machines would find another server, or none, at a loopback address.
fn loopback<'a, I: Iterator<Item = (&'a u64, &'a NodeRecord)>>(id: u64, members: impl Fn() -> I) -> Option<String> {
    let (_, own) = members().find(|(other, _)| **other == id)?;
    let is_elsewhere = |record: &NodeRecord| !record.peer_address.is_empty() && !is_loopback(&record.peer_address);
    let (_, other) = members().find(|(other, record)| **other != id && is_elsewhere(record))?;
    is_loopback(&own.client_address).then(|| {
        format!(
            "node {} advertises the loopback address {} to clients, but node {} has {} for other nodes, which is no \
             loopback address; start it with an address of its machine (--listen or --advertise)",
            own.name, own.client_address, other.name, other.peer_address
        )
    })
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_is_of_no_use_unless_all_nodes_are_on_one_machine() {
        let record = |name: &str, peer: &str, client: &str| NodeRecord {
            name: name.to_owned(),
            peer_address: peer.to_owned(),
            client_address: client.to_owned(),
        };
        let remark = |client: &str, peer: &str| {
            let members = [(1, record("a", "10.0.0.1:7520", client)), (2, record("b", peer, "10.0.0.2:7420"))];
            loopback(1, || members.iter().map(|(id, record)| (id, record)))
        };
        let expected = "node a advertises the loopback address 127.0.0.1:7420 to clients, but node b has 10.0.0.2:7520 for \
                        other nodes, which is no loopback address; start it with an address of its machine (--listen or \
                        --advertise)";
        assert_eq!(remark("127.0.0.1:7420", "10.0.0.2:7520").as_deref(), Some(expected));
        for loopback in ["127.8.0.1:1", "[::1]:7420", "localhost:7420"] {
            assert!(remark(loopback, "b.example:7520").is_some(), "{loopback}");
            assert_eq!(remark(loopback, "127.0.0.1:7520"), None, "{loopback}");
        }
        for other in ["10.0.0.1:7420", "a.example:7420", "[fe80::1]:1", ""] {
            assert_eq!(remark(other, "10.0.0.2:7520"), None, "{other}");
        }
    }
}
