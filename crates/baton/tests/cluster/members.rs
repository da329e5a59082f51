//! Clusters that form, grow and shrink.

use std::time::{Duration, Instant};

use baton_client::Client;
use nix::sys::signal::Signal;

use crate::nodes::{Node, Nodes, free_address, leader, run, voters};

#[test]
fn three_nodes_form_a_cluster_and_any_of_them_grants_locks() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    for (node, fence) in cluster.iter().zip(1..) {
        let told = node.does(&["lock", "deploy", "--", "sh", "-c", "echo fence $BATON_FENCE"]);
        assert_eq!(told, format!("fence {fence}\n"));
        assert!(node.does(&["locks", "--all"]).contains("deploy"));
        assert!(node.does(&["locks", "--all", "--local"]).starts_with("LOCK"));
        assert!(node.does(&["lock-info", "deploy", "--json", "--local"]).contains("\"age_ms\":"));
        assert_eq!(voters(&node.status().unwrap()["cluster"]), ["a", "b", "c"]);
    }
    assert_eq!(cluster[2].does(&["status", "--check"]), "");
    let text = cluster[1].does(&["status"]);
    assert!(text.lines().any(|line| line.starts_with("*  b ")), "{text}");
    let old = cluster[0].run(&["sessions", "--local"]);
    assert!(String::from_utf8(old.stderr).unwrap().starts_with("baton: as of at most "));
}

#[test]
fn five_nodes_form_a_cluster_at_once() {
    let nodes = Nodes::new();
    let names = ["a", "b", "c", "d", "e"];
    let cluster = nodes.form(&names);
    for node in &cluster {
        node.until(|cluster| voters(cluster) == names && !cluster["leader"].is_null());
    }
    let members = cluster.iter().map(|node| node.status().unwrap()["cluster"]["id"].clone());
    assert!(members.collect::<Vec<_>>().windows(2).all(|two| two[0] == two[1]), "one cluster");
    assert_eq!(cluster[4].does(&["lock", "deploy", "--", "echo", "yes"]), "yes\n");
}

#[test]
fn a_stopped_member_is_shown_and_without_a_majority_the_status_says_why() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    let (led, others): (Vec<&Node>, Vec<&Node>) = cluster.iter().partition(|node| node.name == name);
    led[0].signal(Signal::SIGSTOP);
    let seen = others[0].until(|cluster| !cluster["leader"].is_null() && leader(cluster) != name);
    // The last one left is a follower.
    let others = if others[1].name == leader(&seen) { others } else { vec![others[1], others[0]] };
    let text = others[0].does(&["status"]);
    assert!(text.contains(&format!("\n{name} does not answer: ")), "{text}");
    // Locks are granted again, also if the stopped node is asked first.
    let servers = format!("{},{},{}", led[0].address, others[0].address, others[1].address);
    let output = run(&servers, &["lock", "deploy", "--", "true"]);
    assert!(output.status.success(), "{output:?}");
    others[1].signal(Signal::SIGSTOP);
    let alone = others[0].until(|cluster| cluster["leader"].is_null());
    let why = alone["no_leader"].as_str().unwrap();
    assert!(why.contains(&name) && why.contains(&others[1].name), "{why}");
    assert!(others[0].does(&["status"]).contains("\nno leader: "));
    assert!(
        others[0].refuses(1, &["status", "--check"]).starts_with("baton: there is no leader: 1 of 3 voters answer")
    );
    assert!(others[0].does(&["locks", "--all", "--local"]).contains("deploy"));
    assert!(!others[0].refuses(69, &["locks", "--all"]).is_empty());
    assert!(!others[0].refuses(69, &["member", "transfer", &others[0].name]).is_empty());
}

/// Its last messages of the leader may be old when it reads them. The age that it tells counts from when they were sent.
#[test]
fn a_follower_that_was_stopped_knows_how_old_its_state_is() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    let age_ms = |node: &Node| {
        let info = node.run(&["lock-info", "deploy", "--json", "--local"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&info).ok()?["age_ms"].as_u64()
    };
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    let follower = cluster.iter().find(|node| node.name != name).unwrap();
    let others = cluster.iter().filter(|node| node.name != follower.name);
    follower.does(&["lock", "deploy", "--", "true"]);
    // It may have to apply the entry first.
    follower.until(|_| age_ms(follower).is_some());
    follower.signal(Signal::SIGSTOP);
    // Some messages of the leader wait for it.
    std::thread::sleep(Duration::from_millis(200));
    others.for_each(|node| node.signal(Signal::SIGSTOP));
    let since = Instant::now();
    std::thread::sleep(Duration::from_millis(500));
    let silent_ms = since.elapsed().as_millis();
    follower.signal(Signal::SIGCONT);
    let age_ms = age_ms(follower).unwrap();
    assert!(u128::from(age_ms) >= silent_ms, "{age_ms} ms, but the others are silent for {silent_ms} ms");
}

/// Adds a node, and waits until it votes.
fn grow(nodes: &Nodes, leader: &Node, name: &str) -> Node {
    let node = nodes.start(name, &free_address(), &free_address(), &["--join", &leader.peer_address]);
    let joining =
        |cluster: &serde_json::Value| cluster["joining"].as_array().unwrap().iter().any(|one| one["name"] == name);
    leader.until(joining);
    assert!(leader.does(&["status"]).contains(&format!("waits to be added: baton member add {name}\n")));
    assert!(leader.changes(&["member", "add", name]).contains("learns the data"));
    leader.changes(&["member", "promote", name]);
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_node_grows_to_three_and_five_and_back_while_a_lock_is_held() {
    let nodes = Nodes::new();
    let (address, peer) = (free_address(), free_address());
    // A folder of a node that was always alone.
    let alone = nodes.start("a", &address, &peer, &[]);
    let client = Client::connect([&address]).await.unwrap();
    let session = client.session().open().await.unwrap();
    let held = session.lock("deploy").acquire().await.unwrap();
    let waits = tokio::spawn(client.session().open().await.unwrap().lock("deploy").acquire());
    let (fence, worked) = (
        held.fence().unwrap(),
        tokio::task::spawn_blocking(move || {
            let mut more: Vec<Node> = Vec::new();
            for name in ["b", "c", "d", "e"] {
                more.push(grow(&nodes, &alone, name));
            }
            assert_eq!(voters(&more[3].until(|cluster| voters(cluster).len() == 5)), ["a", "b", "c", "d", "e"]);
            assert_eq!(alone.does(&["member", "transfer", "b"]), "b leads now\n");
            assert_eq!(alone.does(&["member", "transfer", "b"]), "b leads already\n");
            let again = alone.does(&["member", "promote", "c", "--json"]);
            assert!(again.ends_with("\"already\":\"c is a voter already\"}\n"), "{again}");
            assert!(alone.changes(&["member", "update", "e", "--name", "last"]).contains("is changed"));
            alone.until(|cluster| voters(cluster).contains(&"last"));
            for name in ["last", "d", "c"] {
                alone.changes(&["member", "remove", name]);
            }
            alone.until(|cluster| voters(cluster) == ["a", "b"]);
            // The removed node still counts itself, and comes first on the list.
            let servers = format!("{},{}", more[1].address, alone.address);
            for args in [&["member", "list", "--json"][..], &["status", "--json"]] {
                let told: serde_json::Value = serde_json::from_slice(&run(&servers, args).stdout).unwrap();
                let cluster = if args[0] == "status" { &told["cluster"] } else { &told };
                assert_eq!(voters(cluster), ["a", "b"], "{args:?}: {told}");
            }
            assert_eq!(
                alone.does(&["member", "remove", "c"]),
                "no member has the name or id c now; the members are a, b\n"
            );
            assert_eq!(alone.does(&["member", "transfer", "a"]), "a leads now\n");
            alone.changes(&["member", "remove", "b"]);
            assert_eq!(voters(&alone.until(|cluster| voters(cluster).len() == 1)), ["a"]);
            let refused = alone.refuses(1, &["member", "remove", "a"]);
            assert!(refused.contains("last voter"), "{refused}");
            (nodes, alone, more)
        }),
    );
    let _kept = worked.await.unwrap();
    assert_eq!(held.fence(), Ok(fence), "it is held through all changes");
    held.release().await.unwrap();
    assert!(waits.await.unwrap().unwrap().fence().unwrap() > fence);
}
