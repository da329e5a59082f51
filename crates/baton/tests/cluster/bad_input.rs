//! Bad input: a sentence that says what to do, before anything is changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::nodes::{Nodes, ended, first_to_end, free_address, voters};

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_opened() {
    let nodes = Nodes::new();
    let listed = |list: &str| nodes.refused("x", &["--name", "a", "--peer-listen", "127.0.0.1:0", "--cluster", list]);
    for (list, told) in [
        ("b=h:1,c=h:2", "which is not in the list of the cluster (b, c); give it one of these names, or add it"),
        ("a=h:1,a=h:2", "the name a is in the list of the cluster twice; each node needs its own name"),
        ("a=h:1,b=h:1", "the address h:1 is in the list of the cluster twice; each node needs its own"),
        ("a=h:1,b", "is not NAME=ADDRESS, such as a=10.0.0.1:7520"),
    ] {
        let (status, complaint) = listed(list);
        assert_eq!(status, Some(2), "{complaint}");
        assert!(complaint.contains(told), "{complaint}");
    }
    for (options, told) in [
        (&["--name", "a"][..], "--peer-listen <ADDRESS>"),
        (&["--peer-listen", "127.0.0.1:0", "--join", "h:1"], "--name <NAME>"),
        (&["--peer-listen", "127.0.0.1:0", "--name", "7"], "a name begins with a letter"),
        (&["--peer-listen", "nowhere"], "\"nowhere\" is not an address to listen on"),
        (&["--peer-listen", "127.0.0.1:0", "--election-timeout", "9"], "is not MIN-MAX"),
    ] {
        let (status, complaint) = nodes.refused("x", options);
        assert_eq!(status, Some(2), "{complaint}");
        assert!(complaint.contains(told), "{complaint}");
    }
    let same = ["127.0.0.1:7521", "127.0.0.1:7521"];
    let mut child = nodes.command("x", same[0], &["--peer-listen", same[1]]).spawn().unwrap();
    assert_eq!(ended(&mut child), Some(2));
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    let told = "--listen and --peer-listen are both 127.0.0.1:7521; clients and other nodes need a port each";
    assert_eq!(complaint, format!("baton: {told}\n"));
    assert!(!nodes.data("x").exists(), "nothing was opened");
}

#[test]
fn nodes_whose_lists_differ_say_what_differs_and_form_a_cluster_with_one_list() {
    let nodes = Nodes::new();
    let (a, b, c) = (free_address(), free_address(), free_address());
    let (clients_a, clients_b) = (free_address(), free_address());
    let (list, other) = (format!("a={a},b={b}"), format!("a={a},b={b},c={c}"));
    let mut first = nodes.start("a", &clients_a, &a, &["--cluster", &list]);
    let mut second = nodes.start("b", &clients_b, &b, &["--cluster", &other]);
    // The one that hears of the other first is refused.
    let refused = first_to_end(&mut [&mut first, &mut second]);
    let whose = if refused == 0 { "theirs" } else { "ours" };
    let refused = if refused == 0 { &first } else { &second };
    refused
        .says(&format!("has another list of the cluster: only {whose} has c={c}; start all nodes with the same list"));
    drop((first, second));
    let first = nodes.start("a", &clients_a, &a, &["--cluster", &list]);
    let _second = nodes.start("b", &clients_b, &b, &["--cluster", &list]);
    first.until(|cluster| !cluster["leader"].is_null() && voters(cluster) == ["a", "b"]);
}

#[test]
fn two_nodes_with_one_name_do_not_form_a_cluster() {
    let nodes = Nodes::new();
    let (a, b) = (free_address(), free_address());
    let list = format!("a={a},b={b}");
    let first = nodes.start("a", &free_address(), &a, &["--cluster", &list]);
    let elsewhere = free_address();
    let (status, complaint) = nodes.refused("other", &["--name", "a", "--peer-listen", &elsewhere, "--cluster", &list]);
    assert_eq!(status, Some(1), "{complaint}");
    let told = format!("answers at {a}, the address of a in the list of the cluster; is this node started twice");
    assert!(complaint.contains(&told), "{complaint}");
    // The first one still waits.
    let _second = nodes.start("b", &free_address(), &b, &["--cluster", &list]);
    first.until(|cluster| !cluster["leader"].is_null() && voters(cluster) == ["a", "b"]);
}

#[test]
fn two_nodes_that_join_with_one_name_and_one_with_the_name_of_a_member_are_not_added() {
    let nodes = Nodes::new();
    let alone = nodes.start("a", &free_address(), &free_address(), &[]);
    let join = ["--join", &alone.peer_address];
    let start = |folder, name| nodes.start_in(folder, name, &free_address(), &free_address(), &join);
    let _joining = [start("d-1", "d"), start("d-2", "d"), start("a-2", "a")];
    alone.until(|cluster| cluster["joining"].as_array().unwrap().len() == 3);
    let complaint = alone.refuses(1, &["member", "add", "d"]);
    assert!(complaint.contains("2 nodes with the name d wait to be added"), "{complaint}");
    assert!(complaint.contains("stop all but one of them"), "{complaint}");
    let complaint = alone.refuses(1, &["member", "add", "a"]);
    assert!(complaint.contains("has the name a already; each member needs a name of its own"), "{complaint}");
    assert_eq!(alone.status().unwrap()["cluster"]["members"].as_array().unwrap().len(), 1);
}

#[test]
fn the_last_voter_is_not_removed() {
    let nodes = Nodes::new();
    let alone = nodes.start("a", &free_address(), &free_address(), &[]);
    let complaint = alone.refuses(1, &["member", "remove", "a"]);
    assert!(complaint.contains("is the last voter"), "{complaint}");
    assert!(complaint.contains("add and promote another node first"), "{complaint}");
    assert_eq!(alone.does(&["lock", "deploy", "--", "echo", "yes"]), "yes\n");
}

#[test]
fn a_node_without_an_address_for_others_says_how_it_gets_one() {
    let nodes = Nodes::new();
    let address = free_address();
    let mut child = nodes.command("alone", &address, &[]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let refused = crate::nodes::run(&address, &["member", "add", "b"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("has no address for other nodes; start it again with `--peer-listen"), "{complaint}");
}

#[test]
fn a_learner_that_does_not_answer_is_not_promoted() {
    let nodes = Nodes::new();
    let alone = nodes.start("a", &free_address(), &free_address(), &[]);
    let learner = nodes.start("b", &free_address(), &free_address(), &["--join", &alone.peer_address]);
    alone.until(|cluster| cluster["joining"].as_array().unwrap().len() == 1);
    alone.changes(&["member", "add", "b"]);
    let heard = |cluster: &Value| cluster["members"][1]["heard_ms_ago"].as_u64();
    alone.until(|cluster| heard(cluster).is_some());
    learner.signal(Signal::SIGSTOP);
    alone.until(|cluster| heard(cluster).is_some_and(|ms| ms > 1_500));
    let complaint = alone.refuses(1, &["member", "promote", "b"]);
    assert!(complaint.contains("start it, or remove it"), "{complaint}");
    assert_eq!(voters(&alone.status().unwrap()["cluster"]), ["a"]);
    learner.signal(Signal::SIGCONT);
    alone.changes(&["member", "promote", "b"]);
    alone.until(|cluster| voters(cluster) == ["a", "b"]);
}

#[test]
fn a_node_with_an_old_data_folder_is_refused_by_the_others_and_they_say_what_to_do() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let (address, peer) = (cluster[2].address.clone(), cluster[2].peer_address.clone());
    cluster[2].kill();
    // It was alone once.
    let mut old = nodes.start("old", &free_address(), &free_address(), &[]);
    old.does(&["lock", "mine", "--", "true"]);
    old.signal(Signal::SIGTERM);
    assert_eq!(old.ends(), Some(0));
    let join = cluster[0].peer_address.clone();
    let (status, complaint) = nodes.refused("old", &["--name", "old", "--peer-listen", &peer, "--join", &join]);
    assert_eq!(status, Some(1), "{complaint}");
    let told = "to join that cluster, start this node with an empty data folder; to go on in its own cluster, start it \
                without `--cluster` and `--join`";
    assert!(complaint.ends_with(told), "{complaint}");
    let mut old = nodes.start("old", &address, &peer, &["--cluster", &format!("old={peer}")]);
    old.says("the data folder is not empty, so the node goes on in its cluster, and neither forms nor joins another");
    assert!(old.does(&["locks", "--all"]).contains("mine"));
    let silent = |cluster: &Value| cluster["members"][2]["error"].as_str().unwrap_or_default().to_owned();
    let told = "was lost, remove that node from the cluster and add this one";
    cluster[0].until(|cluster| silent(cluster).contains(told));
    assert!(cluster[0].refuses(1, &["member", "add", "old"]).contains("no node with the name old waits"));
    old.signal(Signal::SIGTERM);
    assert_eq!(old.ends(), Some(0));
    assert_eq!(voters(&cluster[0].status().unwrap()["cluster"]), ["a", "b", "c"]);
}

#[test]
fn a_member_command_that_cannot_be_says_what_to_do() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    let node = &cluster[1];
    for (status, args, told) in [
        (1, &["member", "add", "d"][..], "--join"),
        (1, &["member", "promote", "x"], "x"),
        (1, &["member", "update", "a", "--name", "b"], "b"),
        (2, &["member", "add", "7"], "a name begins with a letter"),
        (2, &["member", "update", "a"], "required"),
        (2, &["member", "update", "a", "--address", "nowhere"], "it must be host:port"),
    ] {
        let complaint = node.refuses(status, args);
        assert!(complaint.contains(told), "{args:?}: {complaint}");
    }
    // What is so already is no error, because scripts repeat themselves.
    assert!(node.does(&["member", "promote", "a"]).contains("already"));
    let output = crate::nodes::run(&free_address(), &["member", "list"]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let members = node.does(&["member", "list"]);
    // On a busy machine there may be an election just now, and then more lines say so.
    let first: Vec<&str> = members.lines().filter_map(|line| line.split_whitespace().next()).take(4).collect();
    assert_eq!(first, ["NAME", "a", "b", "c"], "{members}");
}

#[test]
fn a_member_of_another_cluster_is_no_part_of_a_new_one() {
    let nodes = Nodes::new();
    let (a, clients_a) = (free_address(), free_address());
    let member = nodes.start("z", &free_address(), &free_address(), &[]);
    let list = format!("a={a},z={}", member.peer_address);
    let mut new = nodes.start("a", &clients_a, &a, &["--cluster", &list]);
    assert_eq!(new.ends(), Some(1));
    new.says(&format!("z at {} belongs to a cluster already", member.peer_address));
    new.says(&format!("start this node with `--join {}` instead of `--cluster`", member.peer_address));
    // The folder is still empty, so it can do what it was told.
    let _new = nodes.start("a", &clients_a, &a, &["--join", &member.peer_address]);
    member.until(|cluster| cluster["joining"].as_array().unwrap().len() == 1);
    assert_eq!(voters(&member.status().unwrap()["cluster"]), ["z"]);
    member.changes(&["member", "add", "a"]);
}

#[test]
fn a_wiped_node_is_refused_with_what_to_do_and_comes_back_as_a_new_one() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let list: Vec<String> = cluster.iter().map(|node| format!("{}={}", node.name, node.peer_address)).collect();
    let list = list.join(",");
    let (address, peer) = (cluster[2].address.clone(), cluster[2].peer_address.clone());
    cluster[2].kill();
    std::fs::remove_dir_all(nodes.data("c")).unwrap();
    let mut wiped = nodes.start("c", &address, &peer, &["--cluster", &list]);
    assert_eq!(wiped.ends(), Some(1));
    wiped.says("belongs to a cluster already");
    wiped.says("`baton member remove c`");
    // It comes back as a new node.
    cluster[0].changes(&["member", "remove", "c"]);
    let back = nodes.start("c", &address, &peer, &["--join", &cluster[0].peer_address]);
    cluster[0].until(|cluster| cluster["joining"].as_array().unwrap().len() == 1);
    cluster[0].changes(&["member", "add", "c"]);
    cluster[0].changes(&["member", "promote", "c"]);
    back.until(|cluster| crate::nodes::voters(cluster).len() == 3);
}

#[test]
fn garbage_on_the_port_for_nodes_hurts_nobody() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 4096], b""] {
        let mut stranger = TcpStream::connect(&cluster[0].peer_address).unwrap();
        // The node may close the connection before it has read all bytes.
        let _ = stranger.write_all(bytes);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    cluster[0].says("something that is no node of a cluster has called the peer address, from 127.0.0.1:");
    assert_eq!(cluster[0].does(&["lock", "a", "--", "echo", "yes"]), "yes\n");
    assert_eq!(voters(&cluster[0].status().unwrap()["cluster"]), ["a", "b", "c"]);
}
