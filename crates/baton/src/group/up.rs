//! `baton group up`: all members of a group on this machine, for trying things out.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use baton_client::Client;
use baton_peer::{GroupFile, PeerGroup};
use baton_protocol::registry::Family;
use baton_proxy::Mesh;
use serde::Deserialize;
use tokio::time::timeout;

use super::board::{self, Row};
use crate::crew::{self, Crew, State};
use crate::output::{Failure, Outcome, counted};

/// How long a member may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);

/// Start all members of a group on this machine, to try things out
///
/// Each member is a process, and the links between them go through proxies, so
/// that they can be cut. On a terminal, a table shows who holds, wants and
/// waits, and keys kill, stop, cut off and bring back a member. Elsewhere, the
/// same is done by lines on standard input: kill 2, stop 2, cut 2, back 2, quit.
///
/// Exit status 0: ended by the user; 2: bad input; 74: the output cannot be
/// written.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The group file; `baton group init` writes one
    #[arg(long, value_name = "FILE")]
    group: PathBuf,
    /// Trust that a silent process has crashed; for elections without a guard
    #[arg(long)]
    assume_synchronous: bool,
    /// Write the traces of the members into this folder: 0.trace, 1.trace, ...
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Print a JSON array, one line, whenever something changes
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let mut file = GroupFile::read(&args.group).map_err(Failure::bad_input)?;
    file.assume_synchronous |= args.assume_synchronous;
    let group = PeerGroup::new(file).map_err(Failure::bad_input)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(try_out(args, &group))
}

async fn try_out(args: &Args, group: &PeerGroup) -> Outcome {
    let file = group.file();
    let cannot = |what: &str, error: io::Error| Failure::bad_input(format!("cannot {what}: {error}"));
    let mesh = Mesh::start(&file.members, std::process::id().into());
    let mesh = mesh.map_err(|error| cannot("start the proxies", error))?;
    let folder = tempfile::tempdir().map_err(|error| cannot("make a folder for the group files", error))?;
    if let Some(traces) = &args.traces {
        std::fs::create_dir_all(traces).map_err(|error| cannot("make the folder for the traces", error))?;
    }
    let variant = file.variant.as_ref().map_or(String::new(), |variant| format!(" ({variant})"));
    let count = counted(file.members.len() as u64, "member", "members");
    let members = Members {
        title: format!("{}{variant}, {count}", group.about().name),
        rows: (0..file.members.len()).map(|member| Row { member, ..Row::default() }).collect(),
        folder,
        traces: args.traces.clone(),
        family: group.about().family,
    };
    for id in 0..file.members.len() {
        let own = GroupFile { members: mesh.addresses(id), ..file.clone() };
        std::fs::write(members.group_file(id), own.to_toml()).map_err(|error| cannot("write a group file", error))?;
    }
    let names = (0..file.members.len()).map(|id| id.to_string()).collect();
    crew::run(members, names, mesh, args.json).await
}

/// The members of the group.
struct Members {
    title: String,
    /// What is known of each member, without its state and its last message.
    rows: Vec<Row>,
    /// Holds the group files of the members, and is removed at the end.
    folder: tempfile::TempDir,
    traces: Option<PathBuf>,
    family: Family,
}

/// The answer of a member to the client of this program.
struct Seen {
    holds: Vec<String>,
    wants: Vec<String>,
    waiters: usize,
}

impl Members {
    fn group_file(&self, id: usize) -> PathBuf {
        self.folder.path().join(format!("{id}.toml"))
    }
}

impl Crew for Members {
    type Row = Row;
    type Seen = Seen;
    const ONE: &'static str = "member";

    fn command(&self, id: usize, again: bool) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peer", "--json", "--ends-with-stdin", "--id", &id.to_string(), "--group"]);
        command.arg(self.group_file(id));
        if self.family == Family::Mutex {
            command.args(["--listen", "127.0.0.1:0"]).arg("--data").arg(self.folder.path());
        }
        if let Some(traces) = &self.traces {
            // A member that is started again must not destroy the trace of its first life.
            let free = (2..)
                .map(|life| format!("{id}-{life}.trace"))
                .map(|name| traces.join(name))
                .find(|path| !path.exists());
            let first = traces.join(format!("{id}.trace"));
            command.arg("--trace").arg(free.filter(|_| again).unwrap_or(first));
        }
        Ok(command)
    }

    /// Most algorithms refuse a member that starts again. Then it says why, and ends.
    fn restarted(&mut self, member: usize) {
        self.rows[member] = Row { member, ..Row::default() };
    }

    fn reads(&mut self, member: usize, line: &str) -> bool {
        let row = &mut self.rows[member];
        match serde_json::from_str(line) {
            Ok(Said::Complete { clients }) => {
                row.clients = clients;
                return true;
            }
            Ok(Said::Leader { leader }) => row.leader = leader,
            Ok(Said::Suspected { suspected }) => row.suspects = suspected,
            Ok(Said::NotHeard { not_heard }) => row.not_heard = not_heard,
            // A later version may say more.
            Ok(Said::End) | Err(_) => {}
        }
        false
    }

    fn ask(&self, member: usize) -> Option<impl Future<Output = Option<Seen>> + Send + 'static> {
        let address = self.rows[member].clients.clone()?;
        Some(async move { timeout(ANSWER_WITHIN, ask(address)).await.ok().flatten() })
    }

    fn seen(&mut self, member: usize, seen: Seen) {
        let row = &mut self.rows[member];
        (row.holds, row.wants, row.waiters) = (seen.holds, seen.wants, seen.waiters);
    }

    fn row(&mut self, member: usize, state: State, says: Option<String>) -> Row {
        if state == State::Gone {
            self.restarted(member);
        }
        Row { state, says, ..self.rows[member].clone() }
    }

    fn to_text(&self, rows: &[Row], chosen: Option<usize>, columns: usize) -> String {
        board::to_text(&self.title, self.family, rows, chosen, columns)
    }
}

/// A line of `baton peer --json`.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Said {
    Complete { clients: Option<String> },
    Leader { leader: Option<usize> },
    Suspected { suspected: Vec<u64> },
    NotHeard { not_heard: Vec<u64> },
    End,
}

/// Asks a member which locks its clients hold and want.
async fn ask(address: String) -> Option<Seen> {
    let client = Client::lazy([address]).ok()?;
    let locks = client.list_locks().await.ok()?;
    let name = |lock: &baton_client::views::Lock| String::from_utf8_lossy(&lock.name).into_owned();
    Some(Seen {
        holds: locks.iter().filter(|lock| !lock.holders.is_empty()).map(name).collect(),
        wants: locks.iter().filter(|lock| !lock.waiters.is_empty()).map(name).collect(),
        waiters: locks.iter().map(|lock| lock.waiters.len()).sum(),
    })
}
