//! Measures how many entries per second a group of nodes makes durable on a majority and applies, and what an idle
//! group costs. All nodes are in this process, on folders and sockets of their own; each has a runtime of its own, as
//! it would have in a process of its own.
//!
//!     cargo run --release -p baton-server --example replication [FOLDER [NODES [SECONDS [WRITERS...]]]]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_server::raft::{Beginning, Leadership, Node, NodeRecord, Options, ProposeError};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{Caller, Entry, SessionId};
use baton_store::Folder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

type Anything = Box<dyn std::error::Error>;

fn main() -> Result<(), Anything> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "target/replication".to_owned());
    let nodes = arguments.next().map_or(Ok(3), |text| text.parse::<usize>())?;
    let seconds = arguments.next().map_or(Ok(3), |text| text.parse::<u64>())?;
    if std::fs::exists(&folder)? {
        std::fs::remove_dir_all(&folder)?;
    }
    let runtimes = (0..nodes).map(|_| Runtime::new()).collect::<Result<Vec<_>, _>>()?;
    let group = start(&runtimes, &folder)?;
    println!("{nodes} nodes");
    let length = Duration::from_secs(seconds);
    let mut writers = arguments.map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    if writers.is_empty() {
        writers = vec![1, 16, 64];
    }
    for writers in writers {
        let leader = leader(&runtimes, &group)?;
        runtimes[leader].block_on(closed_loop(&group[leader], writers, length))?;
    }
    let (before, began) = (used()?, Instant::now());
    std::thread::sleep(length);
    let share = (used()? - before) / began.elapsed().as_secs_f64();
    println!("idle: {:.2} % of a processor for all nodes", share * 100.0);
    for (runtime, node) in runtimes.iter().zip(&group) {
        runtime.block_on(node.shutdown());
    }
    Ok(())
}

fn start(runtimes: &[Runtime], folder: &str) -> Result<Vec<Arc<Node>>, Anything> {
    let (mut group, mut members) = (Vec::new(), BTreeMap::new());
    for (i, runtime) in runtimes.iter().enumerate() {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let peer_address = listener.local_addr()?.to_string();
        let record = NodeRecord { name: format!("node-{i}"), peer_address, client_address: String::new() };
        let options = match runtimes.len() {
            // As `baton serve` without options: no other node can reach it.
            1 => Options::default(),
            _ => Options {
                record: record.clone(),
                listener: Some(Box::new(listener)),
                beginning: Beginning::Waits,
                ..Options::default()
            },
        };
        let disk = Arc::new(Folder::open(format!("{folder}/{i}"))?);
        let node = runtime.block_on(Node::open(disk, options))?;
        members.insert(node.id(), record);
        group.push(Arc::new(node));
    }
    if group.len() > 1 {
        runtimes[0].block_on(group[0].initialize(members))?;
    }
    Ok(group)
}

/// The place of the leader in the list.
fn leader(runtimes: &[Runtime], group: &[Arc<Node>]) -> Result<usize, Anything> {
    for _ in 0..1000 {
        let leads = |node: &Arc<Node>| matches!(*node.leadership().borrow(), Leadership::Leads { .. });
        if let Some(leader) = group.iter().position(leads) {
            // One entry, so that the nodes are connected, and the leader is settled.
            if runtimes[leader].block_on(async { group[leader].propose(entry(0)).await?.await }).is_ok() {
                return Ok(leader);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("nobody leads".into())
}

/// An entry of the size of most requests.
fn entry(session: u64) -> Entry {
    let (label, host) = ("bench".to_owned(), "here".to_owned());
    let (session, secret_hash, caller) = (SessionId(session), None, Caller::default());
    let open = Open { session, ttl_ms: 10_000, label, host, pid: 1, resume: false, secret_hash, caller };
    Entry { now_ms: 1, commands: vec![sessions::Command::Open(open).into()] }
}

/// Each writer proposes one entry after the other.
async fn closed_loop(node: &Arc<Node>, writers: u64, length: Duration) -> Result<(), Anything> {
    let (began, cpu) = (Instant::now(), used()?);
    let end = began + length;
    let tasks = (1..=writers).map(|writer| {
        let node = node.clone();
        tokio::spawn(async move {
            let (mut count, mut longest) = (0_u64, Duration::ZERO);
            while Instant::now() < end {
                let before = Instant::now();
                node.propose(entry(writer)).await?.await?;
                longest = longest.max(before.elapsed());
                count += 1;
            }
            Ok::<_, ProposeError>((count, longest))
        })
    });
    let (mut total, mut longest) = (0, Duration::ZERO);
    for task in tasks.collect::<Vec<_>>() {
        let (count, slowest) = task.await??;
        (total, longest) = (total + count, longest.max(slowest));
    }
    let per_second = total as f64 / began.elapsed().as_secs_f64();
    let cpu_us = (used()? - cpu) * 1e6 / total as f64;
    println!(
        "{writers} writers: {per_second:.0} entries a second, {cpu_us:.0} us of processor time each, the slowest after {longest:?}"
    );
    Ok(())
}

/// The processor time of this process, in seconds.
fn used() -> Result<f64, Anything> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().ok_or("no stat")?.split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // The unit is a hundredth of a second on all Linux systems of today.
    Ok(ticks / 100.0)
}
