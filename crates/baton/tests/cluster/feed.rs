//! The feed of changes of a cluster.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::nodes::{BATON, Nodes, run};

fn kept(server: &str, args: &[&str]) -> Vec<Value> {
    let output = run(server, &[&["events", "--no-follow", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A reader at one node goes on at another one, also while no node leads, and every node tells the same.
#[test]
fn every_node_tells_the_same_and_a_reader_goes_on_at_another_one() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let leader = cluster[0].until(|view| !view["leader"].is_null())["leader"].clone();
    let follower = cluster.iter().position(|node| leader != node.name.as_str()).unwrap();
    let first = cluster.remove(follower);
    let servers = [&first, &cluster[0], &cluster[1]].map(|node| node.address.clone()).join(",");
    let mut command = Command::new(BATON);
    command.args(["events", "--json", "--from", "oldest", "--server", &servers]);
    let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut until = |text: &str| -> Vec<Value> {
        let mut told = Vec::new();
        for line in lines.by_ref().take(10_000) {
            told.push(serde_json::from_str(&line).unwrap());
            if line.contains(text) {
                return told;
            }
        }
        panic!("it never tells {text:?}, but {told:?}");
    };
    cluster[0].does(&["lock", "one", "--", "true"]);
    let mut told = until("session-ended");

    let mut first = first;
    first.kill();
    cluster[0].does(&["lock", "two", "--", "true"]);
    told.extend(until("session-ended"));
    assert!(told.iter().any(|change| change["locks"][0]["name"] == "two"), "{told:?}");
    let last = told.last().unwrap()["position"].as_str().unwrap();

    // A node that lags waits until it has this position.
    for node in &cluster {
        let after = kept(&node.address, &["--from", last]);
        assert_eq!(after[0], *told.last().unwrap());
        assert_eq!(kept(&node.address, &[])[..told.len()], told);
    }
    reader.kill().unwrap();
    let complaint = std::io::read_to_string(reader.stderr.take().unwrap()).unwrap();
    reader.wait().unwrap();
    assert!(complaint.contains("looking for a server") && complaint.contains("goes on at"), "{complaint}");
}

/// A node that does not lead tells what it has applied, although no majority is there.
#[test]
fn a_node_alone_tells_what_it_has() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    cluster[0].does(&["lock", "one", "--", "true"]);
    let all = kept(&cluster[0].address, &[]);
    let last = all.last().unwrap()["position"].as_str().unwrap();
    assert_eq!(kept(&cluster[2].address, &["--from", last])[0], *all.last().unwrap());
    cluster[0].kill();
    cluster[1].kill();
    assert_eq!(kept(&cluster[2].address, &["--kind", "granted"])[0]["locks"][0]["name"], "one");
}
