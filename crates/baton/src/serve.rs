//! `baton serve`: run the lock service.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use baton_service::server::{CONNECTIONS_MAX, Options, Server};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Failure, Outcome, print};

/// Run the lock service
///
/// Durable with no other software: what it acknowledges is on disk. It stops on SIGTERM or SIGINT; locks that are held
/// then are still held when it starts again.
///
/// Exit status 0: it was told to stop; 1: it cannot serve; 2: bad usage.
#[derive(clap::Args)]
pub struct Args {
    /// Where to keep the data [default: the user's data folder, such as ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where clients come to: host:port
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT)]
    listen: String,
}

/// Where it listens if nothing is said, and where the other commands look for it.
const DEFAULT: &str = "127.0.0.1:7420";
/// Descriptors that clients never get: the log needs some, whatever happens.
const DESCRIPTORS_KEPT: u64 = 64;

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let resolved = args.listen.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let wrong = || {
        Failure::bad_input(format!("{:?} is no address to listen on; say host:port, such as {DEFAULT}", args.listen))
    };
    let listen = resolved.ok_or_else(wrong)?;
    let data = args.data.clone().or_else(|| Some(dirs::data_dir()?.join("baton")));
    let data = data.ok_or_else(|| Failure::bad_input("this user has no data folder; name one with --data DIR"))?;
    // One of them may be waiting for the disk.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| cannot(format!("cannot start: {error}")))?;
    runtime.block_on(serve(Options { data, listen, connections_max: connections_max()? }))
}

async fn serve(options: Options) -> Outcome {
    let unwatched = |error| cannot(format!("cannot watch for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
    let server = Server::start(&options).await.map_err(cannot)?;
    print(&welcome(server.address(), &options))?;
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    server.run(stop).await.map_err(cannot)?;
    Ok(ExitCode::SUCCESS)
}

/// As many as the system lets this process have, but for those that it needs itself.
fn connections_max() -> Result<usize, Failure> {
    let unknown = |error| cannot(format!("cannot tell how many files may be open: {error}"));
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(unknown)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(unknown)?;
    if hard <= DESCRIPTORS_KEPT {
        return Err(cannot(format!("only {hard} files may be open at a time; {} are needed", DESCRIPTORS_KEPT + 1)));
    }
    Ok(usize::try_from(hard - DESCRIPTORS_KEPT).unwrap_or(usize::MAX).min(CONNECTIONS_MAX))
}

fn cannot(why: impl std::fmt::Display) -> Failure {
    Failure { message: why.to_string(), status: ExitCode::FAILURE }
}

fn welcome(address: SocketAddr, options: &Options) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let data = options.data.display();
    // The default needs no flag.
    let server = if address.to_string() == DEFAULT { String::new() } else { format!(" --server {address}") };
    format!(
        "baton {version} listens on {address}, data in {data}\n\n\
         Try next, in another terminal:\n  \
         baton lock{server} deploy -- sh -c 'echo fence $BATON_FENCE; sleep 60'   # run something that only one may run\n  \
         baton locks{server}                       # who holds what, and who waits\n  \
         baton lock-info{server} deploy            # one lock, with its history\n"
    )
}
