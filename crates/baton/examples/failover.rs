//! Measures how long clients wait when the leader of three nodes is gone, for `cargo xtask bench cluster`.
//!
//! `failover BATON` starts three nodes of this binary, with a proxy for each direction between two of them. A client
//! acquires and releases a lock again and again. Prints one JSON object with the longest pause after the leader was
//! killed (`killed_ms`), could send but not hear (`deaf_ms`), and could hear but not send (`mute_ms`): the worst of
//! some rounds.

use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_proxy::Mesh;
use tokio::time::{sleep, timeout};

const NODES: usize = 3;
const ROUNDS: usize = 3;
/// How long the client goes on after the fault.
const WATCHED: Duration = Duration::from_secs(8);
/// The limit for everything that must happen once.
const WITHIN: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Clone, Copy)]
enum Fault {
    Killed,
    /// The leader hears nobody.
    Deaf,
    /// Nobody hears the leader.
    Mute,
}

#[tokio::main]
async fn main() -> Result<()> {
    let baton = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: failover BATON")?);
    let mut longest = Vec::new();
    for fault in [Fault::Killed, Fault::Deaf, Fault::Mute] {
        let mut worst = Duration::ZERO;
        for _ in 0..ROUNDS {
            worst = worst.max(round(&baton, fault).await?);
        }
        longest.push(worst.as_millis());
    }
    println!("{{\"killed_ms\":{},\"deaf_ms\":{},\"mute_ms\":{}}}", longest[0], longest[1], longest[2]);
    Ok(())
}

/// Returns the longest time between two grants.
async fn round(baton: &Path, fault: Fault) -> Result<Duration> {
    let mut cluster = Cluster::start(baton)?;
    let client = Client::connect_within(&cluster.clients, WITHIN).await?;
    let session = client.session().ttl(Duration::from_secs(10)).label("failover").open().await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = tokio::spawn({
        let (session, is_over) = (session.clone(), is_over.clone());
        async move {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while !is_over.load(Ordering::Relaxed) {
                let guard = session.lock("watched").acquire().await.map_err(|error| error.to_string())?;
                longest = longest.max(last.elapsed());
                last = Instant::now();
                guard.release().await.map_err(|error| error.to_string())?;
            }
            Ok::<Duration, String>(longest.max(last.elapsed()))
        }
    });
    let leader = cluster.leader().await?;
    match fault {
        Fault::Killed => cluster.nodes[leader].kill()?,
        Fault::Deaf => cluster.others(leader).for_each(|other| cluster.mesh.cut_one_way(other, leader)),
        Fault::Mute => cluster.others(leader).for_each(|other| cluster.mesh.cut_one_way(leader, other)),
    }
    sleep(WATCHED).await;
    is_over.store(true, Ordering::Relaxed);
    let longest = timeout(WITHIN, watched).await.map_err(|_| "no lock is granted any more")??;
    Ok(longest?)
}

struct Cluster {
    nodes: Vec<Child>,
    names: [&'static str; NODES],
    clients: Vec<String>,
    mesh: Mesh,
    _folder: tempfile::TempDir,
}

impl Cluster {
    fn start(baton: &Path) -> Result<Cluster> {
        let names = ["a", "b", "c"];
        let folder = tempfile::tempdir()?;
        let (clients, peers) = (free_addresses()?, free_addresses()?);
        let mesh = Mesh::start(&peers, 0)?;
        let list: Vec<String> = names.iter().zip(&peers).map(|(name, peer)| format!("{name}={peer}")).collect();
        let mut nodes = Vec::new();
        for node in 0..NODES {
            let mut command = Command::new(baton);
            command.args(["serve", "--log", "off", "--name", names[node], "--listen", &clients[node]]);
            command.args(["--peer-listen", &peers[node], "--cluster", &list.join(",")]);
            command.arg("--data").arg(folder.path().join(names[node]));
            for (peer, route) in peers.iter().zip(mesh.addresses(node)).filter(|(peer, route)| *peer != route) {
                command.args(["--peer-route", &format!("{peer}={route}")]);
            }
            nodes.push(command.stdout(Stdio::null()).spawn()?);
        }
        Ok(Cluster { nodes, names, clients, mesh, _folder: folder })
    }

    fn others(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..NODES).filter(move |other| *other != node)
    }

    /// Waits until the nodes have a leader.
    async fn leader(&self) -> Result<usize> {
        let start = Instant::now();
        while start.elapsed() < WITHIN {
            let client = Client::connect_within(&self.clients, WITHIN).await?;
            let cluster = client.status().await?.cluster.unwrap_or_default();
            let leader = cluster.members.iter().find(|member| Some(member.id) == cluster.leader);
            let node = leader.and_then(|leader| self.names.iter().position(|name| *name == leader.name));
            if let Some(node) = node {
                return Ok(node);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err("the nodes have no leader".into())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // It may have been killed already.
            let _ = node.kill().and_then(|()| node.wait());
        }
    }
}

/// A free address for each node. All are bound at a time, so that they differ.
fn free_addresses() -> Result<Vec<String>> {
    let bound = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
    let addresses = bound.iter().map(TcpListener::local_addr).collect::<std::io::Result<Vec<_>>>()?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}
