//! A client never takes a server for one of its cluster that belongs to another one: there, another client may hold the
//! same lock.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use baton_api::v1::ForceReleaseRequest;
use baton_api::v1::locks_client::LocksClient;
use tonic::Request;
use tonic::transport::Endpoint;

use crate::nodes::{BATON, Node, Nodes, free_address, leader, run};

/// What a command that must fail says.
fn complaint(servers: &str, args: &[&str], status: i32) -> String {
    let output = run(servers, args);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {complaint}");
    complaint
}

#[test]
fn a_server_of_another_cluster_at_the_address_of_the_leader_gives_no_second_holder() {
    let nodes = Nodes::new();
    let stranger = nodes.start("stranger", &free_address(), &free_address(), &[]);
    let cluster = nodes.form_with(&["a", "b", "c"], &["--advertise", &stranger.address]);
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    let (leads, follows): (Vec<_>, Vec<_>) = cluster.iter().partition(|node| node.name == name);
    let held = leads[0].does(&["lock", "deploy", "--", BATON, "lock-info", "deploy"]);
    assert!(held.contains("exclusive"), "{held}");
    let told = complaint(&follows[0].address, &["lock", "-w", "2", "deploy", "--", "true"], 69);
    let both = [format!("of cluster {}", follows[0].cluster_id()), format!("of cluster {}", stranger.cluster_id())];
    assert!(both.iter().all(|part| told.contains(part)), "{told}");
    let says =
        format!("another server answers at {}, the address that this node advertises to clients", stranger.address);
    leads[0].says(&says);
    let shown = leads[0].does(&["status"]);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&says), "{shown}");
    assert!(leads[0].status().unwrap()["address_remark"].as_str().unwrap().starts_with(&says));
    assert_eq!(stranger.does(&["locks", "--all", "--json"]).trim(), "[]");
}

#[test]
fn a_command_under_a_lock_stays_in_the_cluster_of_the_lock() {
    let nodes = Nodes::new();
    let one = nodes.start("one", &free_address(), &free_address(), &[]);
    let other = nodes.start("other", &free_address(), &free_address(), &[]);
    let servers = format!("{},{}", one.address, other.address);
    let nested = format!("kill -9 {}; exec {BATON} lock -w 2 inner -- echo held", one.pid());
    let told = complaint(
        &servers,
        &["lock", "--cluster-id", &one.cluster_id(), "--ttl", "30", "outer", "--", "sh", "-c", &nested],
        69,
    );
    let expected = format!("{} belongs to cluster {}, but this client must talk to", other.address, other.cluster_id());
    assert!(told.contains(&expected), "{told}, and not {expected}");
    assert_eq!(other.does(&["locks", "--all", "--json"]).trim(), "[]");
}

/// While the first server answers, such a list looks well. When it goes away, another client would hold the same lock at
/// the second one.
#[test]
fn a_list_of_unrelated_servers_is_refused_while_they_answer() {
    let nodes = Nodes::new();
    let one = nodes.start("one", &free_address(), &free_address(), &[]);
    let other = nodes.start("other", &free_address(), &free_address(), &[]);
    let both = format!("{},{}", one.address, other.address);
    let expected = format!(
        "the servers belong to different clusters ({} to {}, {} to {}); name the servers of one cluster only",
        one.address,
        one.cluster_id(),
        other.address,
        other.cluster_id()
    );
    let changes: [&[&str]; 4] =
        [&["lock", "a", "--", "true"], &["lock", "-n", "a"], &["release", "a", "--force"], &["member", "add", "c"]];
    for args in changes {
        let told = complaint(&both, args, 69);
        assert!(told.contains(&expected) && told.lines().count() == 1, "{told}");
    }
    for node in [&one, &other] {
        assert_eq!(node.does(&["locks", "--all", "--json"]).trim(), "[]");
    }
}

#[test]
fn only_servers_of_the_named_cluster_are_talked_to() {
    let nodes = Nodes::new();
    let one = nodes.start("one", &free_address(), &free_address(), &[]);
    let other = nodes.start("other", &free_address(), &free_address(), &[]);
    let (id, wrong) = (one.cluster_id(), other.cluster_id());
    let belongs = format!("{} belongs to cluster {id}, but this client must talk to cluster {wrong}", one.address);
    let told = one.refuses(69, &["lock", "--cluster-id", &wrong, "a", "--", "true"]);
    assert!(told.contains(&belongs), "{told}");
    assert_eq!(one.does(&["lock", "--cluster-id", &id, "a", "--", "echo", "held"]), "held\n");
    let both = format!("{},{}", one.address, other.address);
    let output = run(&both, &["lock", "--cluster-id", &wrong, "a", "--", "echo", "held"]);
    assert_eq!(output.stdout, b"held\n", "{}", String::from_utf8_lossy(&output.stderr));
    // Nothing is shown and nothing is changed in another cluster.
    for args in [&["locks"][..], &["status"], &["sessions"], &["release", "a", "--force"], &["member", "list"]] {
        let told = one.refuses(69, &[args, &["--cluster-id", &wrong]].concat());
        assert!(told.contains(&belongs), "{told}");
        one.does(&[args, &["--cluster-id", &id]].concat());
    }
    for bad in ["", "zz", "0000000000000000", &id[1..]] {
        let told = one.refuses(2, &["lock", "--cluster-id", bad, "a", "--", "true"]);
        assert!(told.contains("is not the id of a cluster; it must be 16 hexadecimal digits"), "{told}");
    }
}

/// Forces the release of a lock that a command holds, by a call from the address `from` with these headers.
fn force(holds: &Node, calls: &Node, from: &str, headers: &[(&'static str, &str)]) {
    let mut holder = Command::new(BATON);
    holder
        .args(["lock", "deploy", "--", "sleep", "600"])
        .env("BATON_SERVER", &holds.address)
        .env_remove("BATON_CLUSTER");
    let mut holder = holder.stdin(Stdio::null()).spawn().unwrap();
    let from: IpAddr = from.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{}", calls.address)).unwrap().local_address(Some(from));
        let mut locks = LocksClient::new(endpoint.connect().await.unwrap());
        loop {
            let mut request = Request::new(ForceReleaseRequest { name: b"deploy".to_vec(), now: true });
            for (name, value) in headers {
                request.metadata_mut().insert(*name, value.parse().unwrap());
            }
            // The command may not have the lock yet.
            if !locks.force_release(request).await.unwrap().into_inner().holders.is_empty() {
                return;
            }
        }
    });
    holder.wait().unwrap();
}

#[test]
fn only_a_member_is_believed_that_it_carries_a_call() {
    let nodes = Nodes::new();
    // Nobody else is to lead meanwhile.
    let cluster = nodes.form_with(&["a", "b", "c"], &["--election-timeout", "5000-9000"]);
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    let (leads, follows): (Vec<_>, Vec<_>) = cluster.iter().partition(|node| node.name == name);
    // The first entries bring the secret of the cluster.
    let begun = leads[0].status().unwrap()["applied"].as_u64();
    follows[0].until_status(|status| status["applied"].as_u64() >= begun);
    // The leader logs the address of the client behind a follower.
    force(leads[0], follows[0], "127.0.0.5", &[]);
    leads[0].says("by=127.0.0.5:");
    let forged = [("baton-carried", "1"), ("baton-from", "10.9.8.7:6543")];
    force(leads[0], leads[0], "127.0.0.6", &forged);
    leads[0].says("by=127.0.0.6:");
    leads[0].says(
        "a call says that a member of the cluster carried it here, but its connection has not proved to come from a member",
    );
    // A follower believes it neither: it carries the call as that of any client.
    force(leads[0], follows[0], "127.0.0.7", &forged[1..]);
    leads[0].says("by=127.0.0.7:");
    leads[0].never_said("by=10.9.8.7");
}
