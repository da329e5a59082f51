//! `baton cluster local`: all nodes of a cluster on this machine, for trying things out.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_client::Client;
use baton_proxy::Mesh;
use baton_types::views::Status;
use tokio::time::timeout;

use super::board::{self, Row, Seen};
use crate::crew::{self, Crew, State};
use crate::output::{Failure, Outcome, counted};

/// How long a node may take to answer. It asks the others how they are before it answers, and gives up after half a
/// second.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The most addresses that fit into a line of 80 columns. A client learns from any node where the leader is.
const SERVERS_SHOWN_MAX: usize = 4;

/// The ports for other nodes come this far after the ports for clients.
const PEERS_AFTER: u16 = 100;

/// Start all nodes of a cluster on this machine, to try things out
///
/// Each node is a process, and the links between them go through proxies, so
/// that they can be cut. On a terminal, a table shows role, term, commit, lag
/// and locks of each node, and keys kill, stop, cut off and bring back a node.
/// Elsewhere, the same is done by lines on standard input: kill 2, stop 2, cut
/// 2, back 2, quit. Clients reach a node that is cut off from the others.
///
/// Exit status 0: ended by the user; 2: bad input; 74: the output cannot be
/// written.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Number of nodes, from 1 to 9
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    #[arg(allow_negative_numbers = true)]
    nodes: u16,
    /// Folder for the data of all nodes [default: a new one, which is removed at the end]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The port of the first node for clients. The other nodes have the next ports. The ports for other nodes come 100
    /// later
    #[arg(long, default_value_t = 7420, value_parser = clap::value_parser!(u16).range(1..=65_400))]
    #[arg(allow_negative_numbers = true)]
    port: u16,
    /// Print a JSON array, one line, whenever something changes
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(try_out(args))
}

async fn try_out(args: &Args) -> Outcome {
    let cannot = |what: &str, error: io::Error| Failure::bad_input(format!("cannot {what}: {error}"));
    let ports = args.port..args.port + args.nodes;
    for port in ports.clone().chain(ports.clone().map(|port| port + PEERS_AFTER)) {
        let taken = |error| Failure::bad_input(format!("cannot use port {port}: {error}; name another with --port"));
        TcpListener::bind(("127.0.0.1", port)).map_err(taken)?;
    }
    let (temporary, data) = match &args.data {
        Some(data) => (None, data.clone()),
        None => {
            let folder = tempfile::tempdir().map_err(|error| cannot("make a folder for the data", error))?;
            let data = folder.path().to_owned();
            (Some(folder), data)
        }
    };
    let addresses: Vec<String> = ports.clone().map(|port| format!("127.0.0.1:{port}")).collect();
    let peers: Vec<String> = ports.map(|port| format!("127.0.0.1:{}", port + PEERS_AFTER)).collect();
    let mesh = Mesh::start(&peers, std::process::id().into()).map_err(|error| cannot("start the proxies", error))?;
    let names: Vec<String> = (1..=args.nodes).map(|number| format!("n{number}")).collect();
    let row = |(name, address): (&String, &String)| {
        let (name, address) = (name.clone(), address.clone());
        Row { name, address, ..Row::default() }
    };
    let nodes = Nodes {
        title: title(&data, &addresses),
        rows: names.iter().zip(&addresses).map(row).collect(),
        routes: (0..names.len()).map(|node| routes(&peers, &mesh.addresses(node))).collect(),
        peers,
        data,
    };
    let outcome = crew::run(nodes, names, mesh, args.json).await;
    // Removes the folder, when no node uses it any more.
    drop(temporary);
    outcome
}

fn title(data: &Path, addresses: &[String]) -> String {
    let count = counted(addresses.len() as u64, "node", "nodes");
    let servers = addresses[..addresses.len().min(SERVERS_SHOWN_MAX)].join(",");
    format!("a cluster of {count}, data in {}\ntry: baton lock --server {servers} deploy -- sleep 60", data.display())
}

/// Where a node reaches the others: FROM=TO.
fn routes(peers: &[String], reached: &[String]) -> Vec<String> {
    let others = peers.iter().zip(reached).filter(|(peer, reached)| peer != reached);
    others.map(|(peer, reached)| format!("{peer}={reached}")).collect()
}

/// The nodes of the cluster.
struct Nodes {
    title: String,
    /// What is known of each node, without its state and its last message.
    rows: Vec<Row>,
    /// The addresses for other nodes.
    peers: Vec<String>,
    /// For each node, where it reaches the others.
    routes: Vec<Vec<String>>,
    data: PathBuf,
}

impl Crew for Nodes {
    type Row = Row;
    type Seen = Seen;
    const ONE: &'static str = "node";

    fn command(&self, node: usize, _again: bool) -> io::Result<Command> {
        let Row { name, address, .. } = &self.rows[node];
        let listed = self.rows.iter().zip(&self.peers).map(|(row, peer)| format!("{}={peer}", row.name));
        let mut command = Command::new(std::env::current_exe()?);
        // The log would tell of each broken link. Why a node ends is no part of the log.
        command.args(["serve", "--ends-with-stdin", "--log", "error", "--name", name, "--listen", address]);
        command.args(["--peer-listen", &self.peers[node], "--cluster", &listed.collect::<Vec<_>>().join(",")]);
        command.args(self.routes[node].iter().flat_map(|route| ["--peer-route", route]));
        command.arg("--data").arg(Path::new(&self.data).join(name));
        Ok(command)
    }

    fn restarted(&mut self, node: usize) {
        self.rows[node].seen = None;
    }

    /// The first line says that the node listens.
    fn reads(&mut self, _node: usize, _line: &str) -> bool {
        true
    }

    fn ask(&self, node: usize) -> Option<impl Future<Output = Option<Seen>> + Send + 'static> {
        let address = self.rows[node].address.clone();
        Some(async move { timeout(ANSWER_WITHIN, ask(address)).await.ok().flatten() })
    }

    fn seen(&mut self, node: usize, seen: Seen) {
        self.rows[node].seen = Some(seen);
    }

    fn row(&mut self, node: usize, state: State, says: Option<String>) -> Row {
        if state == State::Gone {
            self.restarted(node);
        }
        Row { state, says, ..self.rows[node].clone() }
    }

    fn complete(&self, rows: Vec<Row>) -> Vec<Row> {
        board::complete(rows)
    }

    fn to_text(&self, rows: &[Row], chosen: Option<usize>, columns: usize) -> String {
        board::to_text(&self.title, rows, chosen, columns)
    }
}

/// Asks a node how it is.
async fn ask(address: String) -> Option<Seen> {
    let client = Client::lazy([address]).ok()?;
    let Status { node, role, term, commit, locks, cluster, .. } = client.status().await.ok()?;
    let cluster = cluster.unwrap_or_default();
    let own = cluster.members.iter().find(|member| member.id == node);
    let last_log = own.map_or(commit, |own| own.last_log);
    let no_leader = Some(cluster.no_leader).filter(|why| !why.is_empty());
    Some(Seen { role, term, last_log, commit, locks, no_leader })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::folded_to;

    #[test]
    fn the_command_to_try_fits_into_80_columns() {
        let addresses: Vec<String> = (0..9).map(|node| format!("127.0.0.1:{}", 65_400 + node)).collect();
        let text = folded_to(&title(Path::new("/tmp/a"), &addresses), 79);
        assert!(text.starts_with("a cluster of 9 nodes, data in /tmp/a\ntry: baton lock --server"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
        assert!(title(Path::new("/"), &addresses[..3]).contains(&addresses[..3].join(",")));
    }
}
