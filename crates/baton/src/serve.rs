//! `baton serve`: run the lock service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_service::server::{Options, Server};
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
    /// Where clients come to
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let data = args.data.clone().or_else(|| Some(dirs::data_dir()?.join("baton")));
    let data = data.ok_or_else(|| Failure::bad_input("this user has no data folder; name one with --data DIR"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot(format!("cannot start: {error}")))?;
    runtime.block_on(serve(Options { data, listen: args.listen }))
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

fn cannot(why: impl std::fmt::Display) -> Failure {
    Failure { message: why.to_string(), status: ExitCode::FAILURE }
}

fn welcome(address: SocketAddr, options: &Options) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let data = options.data.display();
    // The default needs no flag.
    let server = if address.port() == 7420 { String::new() } else { format!(" --server {address}") };
    format!(
        "baton {version} listens on {address}, data in {data}\n\n\
         Try next, in another terminal:\n  \
         baton lock{server} deploy -- sh -c 'echo fence $BATON_FENCE; sleep 60'   # run something that only one may run\n  \
         baton locks{server}                       # who holds what, and who waits\n  \
         baton lock-info{server} deploy            # one lock, with its history\n"
    )
}
