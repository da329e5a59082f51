//! `baton peer` with real processes and sockets, and the same runs in the simulator.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use baton_peer::{GroupFile, MutexPeer, Options as PeerOptions, PeerGroup};
use baton_protocol::registry::ALGORITHMS;
use baton_sim::app::mutex::Load;
use baton_sim::report::Report;
use baton_sim::run::{Options, run};
use baton_trace::Event;
use serde_json::Value;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Ports that were free a moment ago.
fn addresses(members: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..members).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

fn write_group(folder: &Path, algorithm: &str, members: usize) -> PathBuf {
    let path = folder.join("group.toml");
    let text = format!("algorithm = {algorithm:?}\nmembers = {:?}\n", addresses(members));
    std::fs::write(&path, text).unwrap();
    path
}

fn spawn(group: &Path, id: usize, extra: &[&str]) -> Child {
    let mut command = Command::new(BATON);
    command.arg("peer").arg(group).args(["--id", &id.to_string(), "--json"]).args(extra);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn three_processes_take_turns_and_each_writes_its_trace() {
    for (algorithm, members, per_entry) in
        [("ricart-agrawala", 3, Some(4)), ("central", 4, Some(3)), ("suzuki-kasami", 3, None)]
    {
        let folder = tempfile::tempdir().unwrap();
        let group = write_group(folder.path(), algorithm, members);
        let trace = |id: usize| folder.path().join(format!("{id}.trace"));
        let children: Vec<Child> = (0..members)
            .map(|id| spawn(&group, id, &["--entries=5", "--hold-ms=1", "--trace", trace(id).to_str().unwrap()]))
            .collect();
        let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        assert!(outputs.iter().all(|output| output.status.success()), "{algorithm}: {outputs:?}");
        let reports: Vec<Value> = outputs.iter().map(json).collect();
        let sum = |field: &str| reports.iter().map(|report| report[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("entries"), 15, "{algorithm}");
        if let Some(per_entry) = per_entry {
            assert_eq!(sum("messages"), 15 * per_entry, "{algorithm}");
        }
        let mut fences: Vec<u64> = reports
            .iter()
            .flat_map(|report| report["fences"].as_array().unwrap())
            .map(|fence| fence.as_u64().unwrap())
            .collect();
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), 15, "{algorithm}: every entry has a fence of its own");
        let traced = (0..members).map(|id| entries_in(&trace(id))).sum::<usize>();
        assert_eq!(traced, 15, "{algorithm}");
        let replayed = Command::new(BATON).args(["sim", "--replay"]).arg(trace(1)).output().unwrap();
        let complaint = String::from_utf8_lossy(&replayed.stderr).into_owned();
        assert_eq!(replayed.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains("only the records of P1") && complaint.lines().count() == 1, "{complaint}");
    }
}

fn entries_in(trace: &Path) -> usize {
    let file = std::io::BufReader::new(std::fs::File::open(trace).unwrap());
    let (_, records) = baton_trace::read(file).unwrap();
    records.iter().filter(|record| matches!(record.event, Event::Enter { .. })).count()
}

#[test]
fn a_member_that_never_starts_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "central", 3);
    let children: Vec<Child> = (1..3).map(|id| spawn(&group, id, &["--start-within=1"])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains("missing: 0 at 127.0.0.1:"), "{complaint}");
    }
}

#[test]
fn what_is_no_group_is_refused_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str, id: usize| {
        let path = folder.path().join("bad.toml");
        std::fs::write(&path, text).unwrap();
        let output = spawn(&path, id, &[]).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        complaint
    };
    assert!(
        refused("algorithm = \"dice\"\nmembers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]", 0)
            .contains("no algorithm `dice`")
    );
    refused("members = 3", 0);
    refused("algorithm = \"ricart-agrawala\"\nmembers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]", 2);
    let missing = Command::new(BATON).args(["peer", "no-such-file", "--id=0"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
}

/// Runs one request at a time over sockets, and returns the number of messages of each kind.
async fn in_turns(algorithm: &str, clients: usize, members: usize, entries: usize) -> Vec<(String, u64)> {
    let mut listeners = Vec::new();
    for _ in 0..members {
        listeners.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let group = PeerGroup::new(GroupFile::new(algorithm, addresses)).unwrap();
    let mut joining = tokio::task::JoinSet::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let group = group.clone();
        joining.spawn(async move {
            let options = PeerOptions { listener: Some(listener), ..PeerOptions::default() };
            (id, MutexPeer::join(&group, id, options).await.unwrap())
        });
    }
    let mut peers = joining.join_all().await;
    peers.sort_by_key(|(id, _)| *id);
    for turn in 0..entries {
        let grant = peers[turn % clients].1.acquire().await.unwrap();
        grant.release();
    }
    let mut counts = std::collections::BTreeMap::new();
    for (_, peer) in &peers {
        for (kind, count) in peer.stats().await.unwrap().messages_by_kind {
            *counts.entry(kind.to_owned()).or_insert(0) += count;
        }
    }
    for (_, peer) in peers {
        peer.shutdown().await.unwrap();
    }
    counts.into_iter().collect()
}

#[tokio::test]
async fn sockets_and_simulator_send_the_same_messages() {
    // Voting is not among them: it makes random choices, so its counts are equal only on average.
    for (algorithm, helpers) in [("central", 1), ("ricart-agrawala", 0), ("suzuki-kasami", 0)] {
        assert!(ALGORITHMS.iter().any(|about| about.name == algorithm));
        let mut options = Options::new(algorithm, 3);
        options.workload.load = Load::Solo;
        options.workload.entries = 12;
        let Ok(Report::Mutex(simulated)) = run(&options, None) else { panic!("{algorithm} does not run") };
        let simulated: Vec<_> =
            simulated.messages_by_kind.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        assert_eq!(in_turns(algorithm, 3, 3 + helpers, 12).await, simulated, "{algorithm}");
    }
}
