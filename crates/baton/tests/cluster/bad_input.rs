//! Bad input: a sentence that says what to do, before anything is changed.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::nodes::{Nodes, free_address};

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
    assert!(!nodes.data("x").exists(), "nothing was opened");
}

#[test]
fn nodes_whose_lists_differ_do_not_form_a_cluster() {
    let nodes = Nodes::new();
    let (a, b) = (free_address(), free_address());
    let list = format!("a={a},b={b}");
    let first = nodes.start("a", &free_address(), &a, &["--cluster", &list]);
    let other = format!("a={a},b={b},c={}", free_address());
    let mut second = nodes.start("b", &free_address(), &b, &["--cluster", &other]);
    assert_eq!(second.ends(), Some(1));
    second.says("c");
    drop(first);
}

#[test]
fn a_member_command_that_cannot_be_says_what_to_do() {
    let nodes = Nodes::new();
    let cluster = nodes.form(&["a", "b", "c"]);
    let node = &cluster[1];
    for (status, args, told) in [
        (1, &["member", "add", "d"][..], "--join"),
        (1, &["member", "promote", "x"], "x"),
        (1, &["member", "promote", "a"], "voter"),
        (1, &["member", "update", "a", "--name", "b"], "b"),
        (2, &["member", "add", "7"], "a name begins with a letter"),
        (2, &["member", "update", "a"], "required"),
        (2, &["member", "update", "a", "--address", "nowhere"], "it must be host:port"),
    ] {
        let complaint = node.refuses(status, args);
        assert!(complaint.contains(told), "{args:?}: {complaint}");
    }
    let output = crate::nodes::run(&free_address(), &["member", "list"]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let members = node.does(&["member", "list"]);
    assert_eq!(members.lines().count(), 4, "{members}");
}

#[test]
fn a_wiped_node_and_a_node_of_another_cluster_are_refused_with_what_to_do() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let list: Vec<String> = cluster.iter().map(|node| format!("{}={}", node.name, node.peer_address)).collect();
    let list = list.join(",");
    let (address, peer) = (cluster[2].address.clone(), cluster[2].peer_address.clone());
    cluster[2].kill();
    std::fs::remove_dir_all(nodes.data("c")).unwrap();
    let mut wiped = nodes.start("c", &address, &peer, &["--cluster", &list]);
    assert_eq!(wiped.ends(), Some(1));
    wiped.says("remove");
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
    assert_eq!(cluster[0].does(&["lock", "a", "--", "echo", "yes"]), "yes\n");
}
