//! What users are told when something is wrong.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::nodes::{BATON, Node, Nodes, free_address, leader, voters};

fn list(nodes: &[Node]) -> String {
    let entry = |node: &Node| format!("{}={}", node.name, node.peer_address);
    nodes.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// The others do not answer when it starts, so it starts. It would be a second lock table behind one list of servers.
#[test]
fn a_node_with_the_folder_of_another_cluster_ends_when_the_listed_nodes_answer() {
    let nodes = Nodes::new();
    let mut alone = nodes.start("alone", &free_address(), &free_address(), &[]);
    alone.does(&["lock", "mine", "--", "true"]);
    alone.signal(Signal::SIGTERM);
    assert_eq!(alone.ends(), Some(0));
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let (address, peer, list) = (cluster[2].address.clone(), cluster[2].peer_address.clone(), list(&cluster));
    cluster[2].kill();
    let others = &cluster[..2];
    others.iter().for_each(|node| node.signal(Signal::SIGSTOP));
    let mut wrong = nodes.start_in("alone", "c", &address, &peer, &["--cluster", &list]);
    assert!(wrong.does(&["locks", "--all"]).contains("mine"), "it leads alone");
    others.iter().for_each(|node| node.signal(Signal::SIGCONT));
    assert_eq!(wrong.ends(), Some(1));
    wrong.says("the data folder has another cluster than the others: it belongs to cluster ");
    wrong.says("to join that cluster, start this node with an empty data folder");
    // The others are more, and go on.
    others[0].until(|cluster| !cluster["leader"].is_null());
    assert_eq!(others[1].does(&["lock", "deploy", "--", "echo", "yes"]), "yes\n");
}

/// The times to live of the sessions in [`a_client_that_is_lost_because_there_is_no_leader_is_told_why`].
const TTLS: [&str; 5] = ["3", "6", "12", "24", "48"];

/// Waits for the losses of these processes, the shortest time to live first, until one gives this reason. The server may
/// not know it yet when the first ones are lost. Returns how that one ended, if it has ended.
fn first_that_says(mut processes: Vec<Child>, begins: &str, why: &str) -> Option<ExitStatus> {
    let mut said = processes.iter_mut().map(|process| {
        let mut told = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut told).unwrap();
        assert!(told.starts_with(begins), "{told}");
        // The sentence of a holder is its last words. A waiter goes on.
        let ended = if begins.contains("place") { process.try_wait().unwrap() } else { Some(process.wait().unwrap()) };
        (told, ended)
    });
    let ended = said.by_ref().find(|(told, _)| told.contains(why));
    drop(said);
    for process in &mut processes {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    ended.unwrap_or_else(|| panic!("none says {why:?}")).1
}

#[test]
fn a_client_that_is_lost_because_there_is_no_leader_is_told_why() {
    let nodes = Nodes::new();
    let mut cluster = nodes.form(&["a", "b", "c"]);
    let servers = cluster.iter().map(|node| node.address.clone()).collect::<Vec<_>>().join(",");
    let name = leader(&cluster[0].status().unwrap()["cluster"]).to_owned();
    cluster.sort_by_key(|node| node.name == name);
    let lock = |ttl: &str, lock: &str| {
        let mut command = Command::new(BATON);
        command.args(["lock", "--ttl", ttl, lock]);
        command.env("BATON_SERVER", &servers).env_remove("BATON_OWNER").stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let counted =
        |what: &str| serde_json::from_str::<Value>(&cluster[0].does(&["status", "--json"])).unwrap()[what].clone();
    let holders = TTLS.map(|ttl| lock(ttl, &format!("deploy-{ttl}")));
    cluster[0].until(|_| counted("locks") == TTLS.len());
    let waiters = TTLS.map(|ttl| lock(ttl, "deploy-48"));
    cluster[0].until(|_| counted("waiters") == TTLS.len());
    cluster[1].kill();
    cluster[2].kill();
    let why = format!("{}: there is no leader: 1 of 3 voters answer, and 2 are needed", cluster[0].address);
    let begins =
        "baton: the place in the queue for deploy-48 is lost, because no keep-alive was acknowledged in time: ";
    assert_eq!(first_that_says(waiters.into(), begins, &why), None, "it does not wait any more");
    let begins = "baton: the lock is lost: no keep-alive was acknowledged in time: ";
    let ended = first_that_says(holders.into(), begins, &why);
    assert_eq!(ended.and_then(|ended| ended.code()), Some(75));
}

#[test]
fn a_node_that_waits_says_its_name_and_what_to_do_with_it() {
    let nodes = Nodes::new();
    let lone = nodes.start("a", &free_address(), &free_address(), &[]);
    let waits = nodes.start("b", &free_address(), &free_address(), &["--join", &lone.peer_address]);
    lone.until(|cluster| cluster["joining"].as_array().unwrap().len() == 1);
    let status = waits.status().unwrap();
    assert_eq!((&status["name"], &status["role"]), (&"b".into(), &"waiting".into()), "{status}");
    let text = waits.does(&["status"]);
    assert!(text.lines().next().is_some_and(|line| line.contains("b (id ") && line.ends_with(", waiting")), "{text}");
    let refused = lone.refuses(1, &["member", "promote", "b"]);
    assert!(refused.contains("b is no member yet, and waits to be added; add it first"), "{refused}");
    lone.changes(&["member", "add", "b"]);
    lone.says("the members of the cluster are now a, b (learns)");
    lone.changes(&["member", "promote", "b"]);
    waits.says("the members of the cluster are now a, b");
    let status = waits.status().unwrap();
    assert_eq!((&status["name"], &status["role"]), (&"b".into(), &"follower".into()), "{status}");
    assert_eq!(voters(&status["cluster"]), ["a", "b"]);
    assert!(lone.refuses(2, &["member", "remove", "x\ty"]).contains("it is no id of a member, and no name"));
}
