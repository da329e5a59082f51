//! Measures a cluster of three nodes on this machine, beside one of etcd where it is installed; and how long clients wait
//! when the leader is gone.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::{Process, Scratch};
use super::service::{ONE_CLIENT_TURN, ONE_LOCK_TURN, OWN_LOCKS_TURN};
use super::{Asked, builds, json, row};

const NODES: usize = 3;
/// Both services take turns. The best turn of each counts.
const TURNS: usize = 5;
const START_MAX: Duration = Duration::from_secs(30);
const LOAD_MAX: Duration = Duration::from_secs(120);

/// The loads, and how many times the speed of etcd is asked for.
pub const LOADS: [(&str, &[&str], f64); 3] = [
    ("3 nodes, one client, own lock: acquire+release/s", ONE_CLIENT_TURN, 1.5),
    ("3 nodes, 64 clients, own locks: acquire+release/s", OWN_LOCKS_TURN, 3.0),
    ("3 nodes, 16 clients, one lock: handovers/s", ONE_LOCK_TURN, 6.0),
];

pub fn run() -> Result<(), String> {
    let (baton, load, failover) = (builds::ours()?, builds::load()?, builds::failover()?);
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let ours = start_baton(&baton, scratch.path())?;
    let theirs = start_etcd(&load, scratch.path())?;
    if theirs.is_none() {
        println!("etcd is not installed (Debian: etcd-server), so nothing is compared with it");
    }
    for (name, args, times) in LOADS {
        let (mut best, mut best_etcd) = (0.0_f64, 0.0_f64);
        for _ in 0..TURNS {
            best = best.max(pairs_per_s(&load, &ours.server, args)?);
            if let Some(etcd) = &theirs {
                best_etcd = best_etcd.max(pairs_per_s(&load, &etcd.server, args)?);
            }
        }
        match &theirs {
            Some(_) => {
                row(&format!("{name}, {times} x etcd"), best, &Asked::AtLeast(times * best_etcd));
                row("  the same load on etcd", best_etcd, &Asked::Nothing);
            }
            None => row(name, best, &Asked::Nothing),
        }
    }
    drop((ours, theirs));
    let measured = json(Command::new(&failover).arg(&baton))?;
    for (key, name, most) in [
        ("killed_ms", "3 nodes, the leader is killed: ms without a grant", 2000.0),
        ("deaf_ms", "3 nodes, the leader sends but hears nothing: ms without a grant", 4000.0),
        ("mute_ms", "3 nodes, the leader hears but reaches nobody: ms without a grant", 4000.0),
    ] {
        let longest = measured[key].as_f64().ok_or_else(|| format!("the example failover reports no {key}"))?;
        row(name, longest, &Asked::AtMost(most));
    }
    Ok(())
}

/// A service that runs, and what the load generator calls it.
pub struct Service {
    pub server: String,
    _nodes: Vec<Process>,
}

pub fn pairs_per_s(load: &Path, server: &str, args: &[&str]) -> Result<f64, String> {
    let mut process = Process::start(&format!("load {server}"), Command::new(load).arg(server).args(args))?;
    let report = process.json(LOAD_MAX)?;
    report["pairs_per_s"].as_f64().ok_or_else(|| "the load reports no pairs_per_s".to_owned())
}

pub fn start_baton(baton: &Path, folder: &Path) -> Result<Service, String> {
    let (clients, peers) = (ports()?, ports()?);
    let name = |node: usize| ["a", "b", "c"][node];
    let list: Vec<String> = (0..NODES).map(|node| format!("{}={}", name(node), peers[node])).collect();
    let node = |node: usize| {
        let mut command = Command::new(baton);
        command.args(["serve", "--log", "error", "--name", name(node), "--listen", &clients[node]]);
        command.args(["--peer-listen", &peers[node], "--cluster", &list.join(",")]);
        command.arg("--data").arg(folder.join(format!("baton-{}", name(node))));
        Process::start(&format!("node {}", name(node)), &mut command)
    };
    let mut nodes = (0..NODES).map(node).collect::<Result<Vec<_>, _>>()?;
    for node in &mut nodes {
        node.line(START_MAX)?;
    }
    Ok(Service { server: clients.join(","), _nodes: nodes })
}

/// None if etcd is not installed. Clients of etcd use the node at which one client is fastest: that is fair to etcd.
fn start_etcd(load: &Path, folder: &Path) -> Result<Option<Service>, String> {
    let installed = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if installed.is_err() {
        return Ok(None);
    }
    let (clients, peers) = (ports()?, ports()?);
    let url = |address: &String| format!("http://{address}");
    let list: Vec<String> = peers.iter().enumerate().map(|(node, peer)| format!("n{node}={}", url(peer))).collect();
    let node = |node: usize| {
        let mut command = Command::new("etcd");
        command.args(["--name", &format!("n{node}"), "--log-level", "error", "--logger", "zap"]);
        command.args(["--listen-client-urls", &url(&clients[node]), "--advertise-client-urls", &url(&clients[node])]);
        command.args(["--listen-peer-urls", &url(&peers[node]), "--initial-advertise-peer-urls", &url(&peers[node])]);
        command.args(["--initial-cluster", &list.join(","), "--initial-cluster-state", "new"]);
        command.arg("--data-dir").arg(folder.join(format!("etcd-{node}"))).stderr(Stdio::null());
        Process::start(&format!("etcd node {node}"), &mut command)
    };
    let nodes = (0..NODES).map(node).collect::<Result<Vec<_>, _>>()?;
    let (mut best, mut server) = (0.0, String::new());
    for client in &clients {
        let address = format!("etcd:{client}");
        let rate = first_pairs(load, &address)?;
        if rate > best {
            (best, server) = (rate, address);
        }
    }
    Ok(Some(Service { server, _nodes: nodes }))
}

/// The speed of a short run. Waits until the node answers.
fn first_pairs(load: &Path, server: &str) -> Result<f64, String> {
    let start = Instant::now();
    loop {
        let ran = Command::new(load).args([server, "pairs", "200"]).stderr(Stdio::null()).output();
        let ran = ran.map_err(|error| format!("the load generator could not be started: {error}"))?;
        let report: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
        match report.and_then(|report| report["pairs_per_s"].as_f64()) {
            Some(rate) => return Ok(rate),
            None if start.elapsed() > START_MAX => return Err(format!("{server} does not answer")),
            None => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A free address for each node.
fn ports() -> Result<Vec<String>, String> {
    let no_port = |error| format!("there is no free port: {error}");
    // All are bound at a time, so that they differ.
    let bound: Result<Vec<TcpListener>, _> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let addresses = bound.map_err(no_port)?.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
    Ok(addresses.map_err(no_port)?.iter().map(ToString::to_string).collect())
}
