//! `baton lab`: every algorithm in a browser.

use std::env;
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};

use baton_lab::Lab;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Failure, Outcome, print, warn};

/// Open the lab in a browser: watch, step, break and compare every algorithm
///
/// The lab answers only to its own page. Stop it with Ctrl-C.
///
/// Exit status 0: stopped by a signal; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the lab; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7421")]
    listen: SocketAddr,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
}

pub fn run(args: &Args) -> Outcome {
    let runtime =
        tokio::runtime::Runtime::new().map_err(|error| Failure::bad_input(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(serve(args));
    // Runs that are under way need not end first.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &Args) -> Outcome {
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let listen = args.listen;
        Failure::bad_input(format!("cannot listen on {listen}: {error}; give another address with --listen"))
    })?;
    let address = listener.local_addr().map_err(Failure::bad_input)?;
    let wrong = |error| Failure::bad_input(format!("the lab has stopped: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(wrong)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(wrong)?;
    let url = url(address);
    print(&format!("the lab is at {url}\n"))?;
    if !args.no_open
        && let Err(why) = open(&url)
    {
        warn(format_args!("no browser was opened ({why}); open {url} yourself"));
    }
    tokio::select! {
        served = baton_lab::serve(listener, Lab::default()) => served.map_err(wrong)?,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// An address that a browser on this machine can use.
fn url(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://localhost:{}/", address.port()),
        false => format!("http://{address}/"),
    }
}

/// Opens the page where there is a desktop.
fn open(url: &str) -> Result<(), String> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
        return Err("there is no desktop".into());
    }
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(|_| ()).map_err(|error| format!("xdg-open: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_address_can_be_opened() {
        let printed = |address: &str| url(address.parse().unwrap());
        assert_eq!(printed("127.0.0.1:7421"), "http://127.0.0.1:7421/");
        assert_eq!(printed("[::1]:80"), "http://[::1]:80/");
        assert_eq!(printed("0.0.0.0:7421"), "http://localhost:7421/");
    }
}
