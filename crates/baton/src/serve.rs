//! `baton serve`: run the lock service.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use baton_server::raft::{Anew, Wishes, read_stopped};
use baton_server::server::{Options, ServeError, Server};
use baton_types::limits::{ADDRESS, CONNECTIONS_MAX, FENCE_FROM_MAX, ServerLimits, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::name;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::watch;
use tracing::warn;

use crate::durations;
use crate::log::Log;
use crate::node_args::{NodeArgs, listening};
use crate::output::{Failure, Outcome, print};
use crate::peer::Signals;
use crate::service_args::block_on;

/// Run the lock service
///
/// The server needs no other software. It acknowledges a request only when the result is on its disk. SIGTERM or SIGINT
/// stops it within two seconds, a second signal at once. Locks that are held then are still held when the server starts
/// again.
///
/// With --peer-listen the server is a node of a cluster, or can become one (docs/cluster.md). A node that waits for other
/// nodes says so in its log.
///
/// The words (session, waiter, ...) are explained in docs/glossary.md.
///
/// Exit status 0: a signal stopped the server; 1: the server cannot start or go on; 2: bad input; 74: the output cannot
/// be written.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the data [default: the user's data folder, such as ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address to listen on, host:port
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    listen: String,
    /// Maximum number of sessions
    #[arg(long, value_name = "N", default_value_t = LIMITS.sessions, value_parser = limit)]
    #[arg(allow_negative_numbers = true)]
    max_sessions: usize,
    /// Maximum number of locks that are held, waited for or closed
    #[arg(long, value_name = "N", default_value_t = LIMITS.locks, value_parser = limit, allow_negative_numbers = true)]
    max_locks: usize,
    /// Maximum number of waiters for one lock
    #[arg(long, value_name = "N", default_value_t = LIMITS.waiters, value_parser = limit, allow_negative_numbers = true)]
    max_waiters: usize,
    /// Maximum number of locks that one session holds or waits for
    #[arg(long, value_name = "N", default_value_t = LIMITS.holds, value_parser = limit, allow_negative_numbers = true)]
    max_holds: usize,
    /// Maximum number of streams on one connection
    #[arg(long, value_name = "N", default_value_t = LIMITS.streams, value_parser = limit, allow_negative_numbers = true)]
    max_streams: usize,
    /// Longest TTL of the sessions that begin, from 1s to 24h. The whole cluster keeps it [default: it stays as it is; 10m
    /// for a new cluster, 24h for one that was begun by an earlier version]
    #[arg(long, value_name = "TIME", value_parser = max_ttl, allow_negative_numbers = true)]
    max_ttl: Option<Duration>,
    /// Give no fence below N, for a service that replaces another one with fences. For an empty folder: a floor that is
    /// not above the last fence is refused
    #[arg(long, value_name = "N", value_parser = fence, allow_negative_numbers = true)]
    fence_from: Option<u64>,
    /// Log level on the standard error: off, error, warn, info, debug, trace, or a filter such as baton_server=debug
    /// [env: RUST_LOG] [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Stop when the standard input ends, so that no server outlives the program that started it
    #[arg(long, hide = true)]
    ends_with_stdin: bool,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    force: ForceArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Options for a node whose cluster has lost a majority for good (docs/backup.md)")]
pub struct ForceArgs {
    /// Leave the cluster and begin a new one alone, with the data of this node: all sessions end, and nothing is granted
    /// until their leases must have ended. Without --yes it only says what may be lost
    #[arg(long)]
    force_new_cluster: bool,
    /// Begin the new cluster
    #[arg(long, requires = "force_new_cluster")]
    yes: bool,
    /// Grant locks after this time, for an operator who knows that all holders are gone
    #[arg(long, value_name = "TIME", requires = "force_new_cluster", value_parser = wait, allow_negative_numbers = true)]
    wait: Option<Duration>,
}

impl ForceArgs {
    fn anew(&self, fence_from: Option<u64>) -> Option<Anew> {
        self.force_new_cluster.then(|| Anew { fence_from, wait_ms: self.wait.map(in_ms) })
    }
}

const LIMITS: ServerLimits = ServerLimits::DEFAULT;
/// The highest value of a limit. No server can reach it.
const LIMIT_MAX: usize = 1_000_000_000;

/// File descriptors that accepted connections cannot use. The log needs some, and so do connections that are refused.
const DESCRIPTORS_KEPT: u64 = 64;
/// More of them, for the links between the nodes of a cluster.
const DESCRIPTORS_FOR_PEERS: u64 = 128;

pub fn run(args: &Args) -> Outcome {
    let listen = listening(&args.listen, ADDRESS)?;
    let data = args.data.clone().or_else(|| Some(dirs::data_dir()?.join("baton")));
    let data = data.ok_or_else(|| Failure::bad_input("this user has no data folder; name one with --data DIR"))?;
    if args.force.force_new_cluster && !args.force.yes {
        return Err(what_may_be_lost(&data));
    }
    let peers = args.node.options()?;
    if peers.as_ref().is_some_and(|peers| peers.listen == listen && listen.port() > 0) {
        return Err(Failure::bad_input(format!(
            "--listen and --peer-listen are both {listen}; clients and other nodes need a port each"
        )));
    }
    // At least two threads, because one may be waiting for the disk.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| cannot(format!("cannot start the event loop: {error}")))?;
    let _log = Log::begin(args.log.as_deref())?;
    let limits = ServerLimits {
        sessions: args.max_sessions,
        locks: args.max_locks,
        waiters: args.max_waiters,
        holds: args.max_holds,
        streams: args.max_streams,
        ..ServerLimits::DEFAULT
    };
    let kept = DESCRIPTORS_KEPT + if peers.is_some() { DESCRIPTORS_FOR_PEERS } else { 0 };
    let connections_max = connections_max(kept)?;
    let wishes = Wishes { max_ttl_ms: args.max_ttl.map(in_ms), fence_from: args.fence_from };
    let anew = args.force.anew(args.fence_from);
    let options = Options { data, listen, connections_max, limits, peers, wishes, anew };
    let served = runtime.block_on(serve(options, args.ends_with_stdin));
    // Connections that were closed by force may still have tasks. Do not wait for them.
    runtime.shutdown_background();
    served
}

/// Why the server does not begin a new cluster without `--yes`, for the node with this folder.
fn what_may_be_lost(data: &Path) -> Failure {
    let stopped = match block_on(async { read_stopped(data).await.map_err(cannot) }) {
        Ok(stopped) => stopped,
        Err(failure) => {
            let message = format!("cannot open the data folder {}: {}", name::path(data), failure.message);
            return Failure { message, ..failure };
        }
    };
    let about = stopped.about;
    Failure::bad_input(format!(
        "--force-new-cluster needs --yes, because it cannot be undone: this node leaves cluster {} (members: {}) with \
         everything up to entry {} of term {}; later entries of other members are lost, and so are all sessions; use it only \
         if a majority of the members is lost for good, on the node that has the highest term, and of those the highest \
         entry, and with all other members stopped for good; nothing was changed",
        about.cluster,
        stopped.members.join(", "),
        about.index,
        about.term,
    ))
}

fn max_ttl(text: &str) -> Result<Duration, String> {
    durations::within("the longest TTL", text, Duration::from_millis(TTL_MS_MIN)..=Duration::from_millis(TTL_MS_MAX))
}

/// A year is longer than any lease.
pub fn wait(text: &str) -> Result<Duration, String> {
    durations::within("the wait", text, Duration::ZERO..=Duration::from_secs(366 * 24 * 3_600))
}

/// The first fence of a cluster.
pub fn fence(text: &str) -> Result<u64, String> {
    let fence = text.parse().ok().filter(|fence| (1..=FENCE_FROM_MAX).contains(fence));
    fence.ok_or(format!("the first fence must be a whole number from 1 to {FENCE_FROM_MAX}"))
}

pub fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or(format!("a limit must be a whole number from 1 to {LIMIT_MAX}"))
}

async fn serve(options: Options, ends_with_stdin: bool) -> Outcome {
    let mut signals = Signals::new(ends_with_stdin)?;
    let (told, stopping) = watch::channel(0_u32);
    tokio::spawn(async move {
        loop {
            signals.stop().await;
            told.send_modify(|times| *times += 1);
        }
    });
    let stop = |times: u32| {
        let mut stopping = stopping.clone();
        // The sender lives as long as the task above, which never ends, so this cannot fail.
        async move { drop(stopping.wait_for(|told| *told >= times).await) }
    };
    let server = tokio::select! {
        server = Server::start(&options) => server.map_err(not_started)?,
        () = stop(1) => return Ok(ExitCode::SUCCESS),
    };
    print(&welcome(&server, &options))?;
    tokio::select! {
        served = server.run(stop(1)) => served.map_err(cannot)?,
        // All acknowledged requests are on disk, so the process may end at any time.
        () = stop(2) => warn!("a second signal came: the server stops at once"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The number of connections that the limit of open files allows, less those that the server keeps. Raises the soft
/// limit to the hard one.
fn connections_max(kept: u64) -> Result<usize, Failure> {
    let unknown = |error| cannot(format!("cannot find out how many files may be open: {error}"));
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(unknown)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(unknown)?;
    if hard <= kept {
        return Err(cannot(format!("only {hard} files may be open at a time; {} are needed", kept + 1)));
    }
    Ok(usize::try_from(hard - kept).unwrap_or(usize::MAX).min(CONNECTIONS_MAX))
}

fn cannot(why: impl Display) -> Failure {
    Failure { message: why.to_string(), status: ExitCode::FAILURE }
}

fn not_started(error: ServeError) -> Failure {
    match error {
        ServeError::BadOptions(_) => Failure::bad_input(error),
        _ => cannot(error),
    }
}

fn welcome(server: &Server, options: &Options) -> String {
    let address = server.address();
    let peer = |peer: SocketAddr| {
        let name = options.peers.as_ref().and_then(|peers| peers.name.as_ref());
        format!(", for other nodes on {peer}{}", name.map_or(String::new(), |name| format!(" as {name}")))
    };
    let peers = server.peer_address().map_or(String::new(), peer);
    let version = env!("CARGO_PKG_VERSION");
    let data = name::path(&options.data);
    // The commands use the default address without an option.
    let server = if address.to_string() == ADDRESS { String::new() } else { format!(" --server {address}") };
    let first = format!("baton {version} listens on {address}{peers}, data in {data}\n");
    // The hints are for people. A script gets only the first line.
    if !io::stdout().is_terminal() {
        return first;
    }
    format!(
        "{first}\n\
         Try next, in another terminal:\n  \
         baton lock{server} deploy -- sh -c 'echo fence $BATON_FENCE; sleep 60'   # run a command under a lock\n  \
         baton locks{server}                       # list the locks and their holders\n  \
         baton lock-info{server} deploy            # show one lock and its history\n"
    )
}
