//! A backup of a cluster, and a cluster that has lost its majority for good.

use nix::sys::signal::Signal;

use crate::nodes::{Nodes, leader, voters};

fn fence(told: &str) -> u64 {
    told.trim().parse().unwrap()
}

const FENCE: [&str; 5] = ["deploy", "--", "sh", "-c", "echo $BATON_FENCE"];

#[test]
fn a_follower_backs_up_what_the_leader_has_acknowledged() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    cluster.sort_by_key(|node| node.name == name);
    let file = nodes.folder.path().join("file").to_str().unwrap().to_owned();
    for granted in 1..4 {
        cluster[2].does(&[&["lock"], &FENCE[..]].concat());
        let told = cluster[0].does(&["backup", "--overwrite", &file]);
        assert!(told.contains(&format!("last fence {granted}")), "{told}");
        assert!(told.contains(&cluster[1].cluster_id()), "{told}");
    }
}

#[test]
fn the_last_node_of_a_cluster_goes_on_alone_and_the_others_come_back_empty() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form_with(&["a", "b", "c"], &["--max-ttl", "20s"]);
    let old = cluster[0].cluster_id();
    let before = fence(&cluster[0].does(&[&["lock"], &FENCE[..]].concat()));
    cluster.truncate(2);
    cluster[0].signal(Signal::SIGKILL);
    cluster[0].ends();
    let (address, peer) = (cluster[0].address.clone(), cluster[0].peer_address.clone());
    let forced = ["--force-new-cluster", "--yes", "--wait", "0"];
    let (status, told) = nodes.refused("a", &forced);
    let still = format!("the node at {} still runs in cluster {old}", cluster[1].peer_address);
    assert!(status == Some(1) && told.contains(&still), "{told}");
    cluster[1].kill();

    let (status, told) = nodes.refused("a", &["--force-new-cluster"]);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("needs --yes") && told.contains("members: a, b, c") && told.contains(&old), "{told}");
    let alone = nodes.start("a", &address, &peer, &forced);
    alone.says("this node begins a new cluster");
    let view = alone.until(|cluster| !cluster["leader"].is_null());
    assert_eq!(voters(&view), ["a"]);
    assert_ne!(alone.cluster_id(), old);
    assert!(fence(&alone.does(&[&["lock"], &FENCE[..]].concat())) > before + (1 << 32));

    // A node with the old folder does not come back, and an empty one does.
    let (address, peer) = (cluster[1].address.clone(), cluster[1].peer_address.clone());
    let (status, told) = nodes.refused("b", &["--name", "b", "--peer-listen", &peer, "--join", &alone.peer_address]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("belongs to cluster"), "{told}");
    std::fs::remove_dir_all(nodes.data("b")).unwrap();
    let empty = nodes.start("b", &address, &peer, &["--join", &alone.peer_address]);
    alone.until(|cluster| cluster["joining"].as_array().unwrap().len() == 1);
    alone.changes(&["member", "add", "b"]);
    alone.changes(&["member", "promote", "b"]);
    assert_eq!(voters(&empty.until(|cluster| voters(cluster).len() == 2)), ["a", "b"]);
}
