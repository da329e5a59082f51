//! The nodes of a round: real processes, joined by proxies.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_client::views::{self, Member};
use baton_proxy::{Mesh, Proxy, Weather};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{sleep, timeout};

use crate::LONG;

const BATON: &str = env!("CARGO_BIN_EXE_baton");
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Below the ports that systems give to connections: a node that is down must find its port free when it comes back.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
const PORT_TRIES_MAX: usize = 1_000;
/// How long a node may take to answer a question of the test.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A clean end takes at most two seconds, on a machine with time for it.
const ENDING_MAX: Duration = Duration::from_secs(20);

/// Why a round cannot go on: one sentence.
pub type Stuck = String;

/// How a node begins with an empty folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A lone node without an address for others.
    Alone,
    /// With the list of the first nodes.
    Listed,
    /// Waits to be added by the cluster of this node.
    Joins(usize),
    /// A lone node on a folder with data, now with an address for others.
    Reachable,
}

struct Node {
    /// Where clients really reach it.
    listen: String,
    peer: String,
    beginning: Beginning,
    child: Option<Child>,
}

pub struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    /// The links between the nodes.
    pub mesh: Mesh,
    /// One for each node: what clients, and followers that carry streams, dial.
    fronts: Vec<Proxy>,
    /// Number of nodes in the list of the first nodes.
    listed: usize,
}

impl Cluster {
    /// Finds ports for `size` nodes of which the first `listed` form the cluster. Starts no node.
    pub fn new(folder: PathBuf, size: usize, listed: usize, seed: u64) -> io::Result<Cluster> {
        fs::create_dir_all(&folder)?;
        // All are bound at once, so that no port is found twice.
        let ports: Vec<TcpListener> = (0..2 * size).map(|_| free_port()).collect::<io::Result<_>>()?;
        let address = |port: &TcpListener| port.local_addr().map(|address| address.to_string());
        let addresses: Vec<String> = ports.iter().map(address).collect::<io::Result<_>>()?;
        let (clients, peers) = addresses.split_at(size);
        let node = |(listen, peer): (&String, &String)| {
            let (listen, peer) = (listen.clone(), peer.clone());
            Node { listen, peer, beginning: Beginning::Listed, child: None }
        };
        let nodes = clients.iter().zip(peers).map(node).collect();
        let fronts = clients.iter().map(|client| Proxy::start(client, seed)).collect::<io::Result<_>>()?;
        Ok(Cluster { folder, nodes, mesh: Mesh::start(peers, seed)?, fronts, listed })
    }

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    pub fn name(&self, node: usize) -> &'static str {
        NAMES[node]
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where clients reach this node.
    pub fn address(&self, node: usize) -> String {
        self.fronts[node].address().to_string()
    }

    pub fn addresses(&self) -> Vec<String> {
        (0..self.size()).map(|node| self.address(node)).collect()
    }

    pub fn running(&self) -> Vec<usize> {
        (0..self.size()).filter(|&node| self.nodes[node].child.is_some()).collect()
    }

    fn data(&self, node: usize) -> PathBuf {
        self.folder.join(NAMES[node])
    }

    fn command(&self, node: usize) -> Command {
        let Node { listen, peer, beginning, .. } = &self.nodes[node];
        let mut command = Command::new(BATON);
        command.arg("serve").arg("--data").arg(self.data(node)).args(["--listen", listen]);
        if *beginning != Beginning::Alone {
            command.args(["--name", NAMES[node], "--peer-listen", peer, "--advertise", &self.address(node)]);
            let routes = self.nodes.iter().zip(self.mesh.addresses(node)).filter(|(other, _)| other.peer != *peer);
            for (other, proxy) in routes {
                command.arg("--peer-route").arg(format!("{}={proxy}", other.peer));
            }
        }
        match beginning {
            Beginning::Alone | Beginning::Reachable => {}
            Beginning::Listed => {
                let entry = |node: usize| format!("{}={}", NAMES[node], self.nodes[node].peer);
                command.arg("--cluster").arg((0..self.listed).map(entry).collect::<Vec<_>>().join(","));
            }
            Beginning::Joins(other) => {
                command.arg("--join").arg(&self.nodes[*other].peer);
            }
        }
        command
    }

    /// Starts a node for the first time, or anew after a change of its beginning.
    pub fn start_as(&mut self, node: usize, beginning: Beginning) -> Result<(), Stuck> {
        self.nodes[node].beginning = beginning;
        self.start(node)
    }

    /// Starts a node that is down, with the options of the last time.
    pub fn start(&mut self, node: usize) -> Result<(), Stuck> {
        let cannot = |error: io::Error| format!("node {} cannot be started: {error}", NAMES[node]);
        let log = File::options().create(true).append(true).open(self.log_path(node)).map_err(cannot)?;
        let mut command = self.command(node);
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(cannot)?).stderr(log);
        self.nodes[node].child = Some(command.spawn().map_err(cannot)?);
        Ok(())
    }

    fn log_path(&self, node: usize) -> PathBuf {
        self.folder.join(format!("{}.log", NAMES[node]))
    }

    pub fn signal(&self, node: usize, signal: Signal) -> Result<(), Stuck> {
        let child = self.nodes[node].child.as_ref().ok_or_else(|| format!("node {} is down", NAMES[node]))?;
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
        kill(pid, signal).map_err(|error| format!("node {} gets no {signal}: {error}", NAMES[node]))
    }

    /// SIGKILL.
    pub fn kill(&mut self, node: usize) -> Result<(), Stuck> {
        self.check_running()?;
        if let Some(mut child) = self.nodes[node].child.take() {
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// SIGTERM, and the end of the process.
    pub async fn terminate(&mut self, node: usize) -> Result<(), Stuck> {
        self.check_running()?;
        self.signal(node, Signal::SIGTERM)?;
        let until = Instant::now() + ENDING_MAX;
        while Instant::now() < until {
            if let Some(status) = self.ended(node) {
                self.nodes[node].child = None;
                let failed = || format!("node {} ended with {status} after SIGTERM: {}", NAMES[node], self.tail(node));
                return if status.success() { Ok(()) } else { Err(failed()) };
            }
            sleep(LOOK_EVERY).await;
        }
        Err(format!("node {} does not end after SIGTERM: {}", NAMES[node], self.tail(node)))
    }

    fn ended(&mut self, node: usize) -> Option<ExitStatus> {
        self.nodes[node].child.as_mut().and_then(|child| child.try_wait().ok()?)
    }

    /// No node that should run has ended by itself.
    pub fn check_running(&mut self) -> Result<(), Stuck> {
        for node in self.running() {
            if let Some(status) = self.ended(node) {
                return Err(format!("node {} ended by itself with {status}: {}", NAMES[node], self.tail(node)));
            }
        }
        Ok(())
    }

    /// Removes the folder of a node that is down.
    pub fn wipe(&self, node: usize) -> Result<(), Stuck> {
        fs::remove_dir_all(self.data(node)).map_err(|error| error.to_string())
    }

    /// The last lines of the log of a node.
    pub fn tail(&self, node: usize) -> String {
        let log = fs::read_to_string(self.log_path(node)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("\n    {}", lines[lines.len().saturating_sub(12)..].join("\n    "))
    }

    /// Pulls the cable of the machine: other nodes and clients hear nothing, and connections stay open.
    pub fn unplug(&self, node: usize) {
        self.mesh.unplug(node);
        self.fronts[node].hold();
    }

    /// The node hears nothing from the other nodes.
    pub fn deafen(&self, node: usize) {
        self.others(node).for_each(|other| self.mesh.cut_one_way(other, node));
    }

    /// The other nodes hear nothing from the node.
    pub fn silence(&self, node: usize) {
        self.others(node).for_each(|other| self.mesh.cut_one_way(node, other));
    }

    /// Ends what the commands for this node did to its links.
    pub fn bring_back(&self, node: usize) {
        self.mesh.bring_back(node);
        self.fronts[node].reopen();
    }

    /// Moments of faults on all links between nodes.
    pub fn storm(&self) {
        let calm = Duration::from_secs(2);
        self.mesh.weather(Weather { calm, cut_after_bytes_max: 10_000, ..Weather::default() });
    }

    pub fn others(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.size()).filter(move |&other| other != node)
    }

    /// What this node says of itself; none if it does not answer soon.
    pub async fn status(&self, node: usize) -> Option<views::Status> {
        let client = Client::lazy([&self.nodes[node].listen]).ok()?;
        timeout(ANSWER_MAX, client.status()).await.ok()?.ok()
    }

    /// The node that leads, and its term: of all that believe to lead, the one with the highest term.
    pub async fn leader(&mut self) -> Result<(usize, u64), Stuck> {
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            self.check_running()?;
            let mut leader = None;
            for node in self.running() {
                if let Some(status) = self.status(node).await.filter(|status| status.role == "leader") {
                    leader = leader.max(Some((status.term, node)));
                }
            }
            if let Some((term, node)) = leader {
                return Ok((node, term));
            }
            sleep(LOOK_EVERY).await;
        }
        Err(format!("no node leads for {LONG:?}: {}", self.views().await))
    }

    /// Waits until all running nodes are voters, follow one leader, and have what was committed before.
    pub async fn settles(&mut self) -> Result<(), Stuck> {
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            self.check_running()?;
            if self.is_settled().await {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        Err(format!("the nodes do not agree for {LONG:?}: {}", self.views().await))
    }

    async fn is_settled(&self) -> bool {
        let mut committed = None;
        for _ in 0..2 {
            let mut seen = Vec::new();
            for node in self.running() {
                let Some(status) = self.status(node).await else { return false };
                seen.push(status);
            }
            let leaders = seen.iter().filter(|status| status.role == "leader").count();
            let voters = |cluster: &views::Cluster| cluster.members.iter().filter(|member| member.is_voter).count();
            let is_full = |status: &views::Status| status.cluster.as_ref().is_none_or(|c| voters(c) == seen.len());
            if leaders != 1 || !seen.iter().all(|status| status.term == seen[0].term && is_full(status)) {
                return false;
            }
            if committed.is_some_and(|committed| seen.iter().any(|status| status.applied < committed)) {
                return false;
            }
            committed = seen.iter().map(|status| status.commit).max();
        }
        true
    }

    /// What each running node says of the cluster, for a report.
    pub async fn views(&self) -> String {
        let mut views = String::new();
        for node in self.running() {
            let said = match self.status(node).await {
                None => "no answer".to_owned(),
                Some(views::Status { role, term, commit, applied, cluster, .. }) => {
                    let no_leader = cluster.map(|cluster| cluster.no_leader).unwrap_or_default();
                    format!("{role}, term {term}, commit {commit}, applied {applied} {no_leader}")
                }
            };
            views += &format!("\n  node {}: {said}{}", NAMES[node], self.tail(node));
        }
        views
    }

    /// Runs `baton member` until the membership is as wanted. A command may fail while the leader changes.
    pub async fn change(&mut self, args: &[&str], is_done: impl Fn(&[Member]) -> bool) -> Result<(), Stuck> {
        let until = Instant::now() + LONG;
        let mut last = String::new();
        while Instant::now() < until {
            self.check_running()?;
            let (leader, _) = self.leader().await?;
            let cluster = self.status(leader).await.and_then(|status| status.cluster);
            if cluster.is_some_and(|cluster| is_done(&cluster.members)) {
                return Ok(());
            }
            let mut command = Command::new(BATON);
            command.arg("member").args(args).args(["--server", &self.addresses().join(",")]).stdin(Stdio::null());
            let ran = tokio::task::spawn_blocking(move || command.output()).await;
            let output = ran.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            last = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
            if output.status.code() == Some(2) {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        Err(format!("`baton member {}` does not work: {last}{}", args.join(" "), self.views().await))
    }

    /// A new node under this name becomes a voter.
    pub async fn admit(&mut self, node: usize) -> Result<(), Stuck> {
        let name = NAMES[node];
        self.change(&["add", name], |members| members.iter().any(|member| member.name == name)).await?;
        let is_voter = |members: &[Member]| members.iter().any(|member| member.name == name && member.is_voter);
        self.change(&["promote", name], is_voter).await
    }

    pub async fn remove(&mut self, node: usize) -> Result<(), Stuck> {
        let name = NAMES[node];
        self.change(&["remove", name], |members| members.iter().all(|member| member.name != name)).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            // A node that has ended already cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port of the range that is free now.
fn free_port() -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORT_TRIES_MAX {
        match TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], fastrand::u16(PORTS)))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
