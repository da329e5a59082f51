//! `baton lock`: run a command while holding a lock, and end the command before the lock is lost.
//!
//! There are three processes. `baton lock` has the session with the server. Its watchdog (`watchdog`) starts the
//! command, and ends it by the schedule of the lease (`supervisor`, which is pure). The third process first runs
//! `exec`, which makes the kernel kill it if the watchdog dies, and then becomes the command. `docs/lock-command.md`
//! says what this guarantees and what still escapes.

mod acquire;
mod args;
mod channel;
mod clock;
pub mod exec;
mod hold;
mod hopeless;
mod reports;
mod run;
mod signals;
mod supervisor;
mod terminal;
mod tree;
mod waiting;
pub mod watchdog;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Guard, Loss, Session};
use baton_types::hex::Hex;
use nix::sys::signal::{Signal, raise};
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::mpsc;

pub use args::Args;

use crate::output::{Failure, Outcome, print, warn};
use crate::service_args::{CLUSTER, SERVER, block_on};
use crate::view;
use acquire::Time;
use args::{OWNER, Wanted};
use channel::Exit;
use run::{Job, Lease};
use signals::Signals;

/// Exit status without a command: a signal ended the hold.
const HELD_TO_THE_END: u8 = 0;
/// Exit status: the lock was lost.
const LOCK_LOST: u8 = 75;
/// Exit status: the command was found but cannot be run, or `baton lock` cannot do its own work.
const CANNOT_RUN: u8 = 126;
/// Exit status: the command was not found.
const NOT_FOUND: u8 = 127;

/// How the time under a lock ended. An exit status cannot tell, because a command may exit with 75, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The command ended by itself, or a signal ended a hold without a command.
    Exited(Exit),
    /// The lock was lost, or was about to be lost.
    LockLost,
    /// Another process killed the watchdog, and then the kernel killed the command.
    WatchdogKilled,
}

/// This program, even if its file was replaced after it was started.
const MYSELF: &str = "/proc/self/exe";

/// The longest time between two looks at the deadline of the guard.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(500);
/// How long to wait until the server confirms the release.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// The same if no lock is held, or the command has failed anyway.
const GOODBYE_MAX: Duration = Duration::from_millis(250);

pub fn run(args: &Args) -> Outcome {
    let wanted = args.wanted()?;
    let exit = block_on(lock(&wanted))?;
    if exit == Exit::Signal(Signal::SIGINT as i32) {
        // A shell ends its script after ^C only if SIGINT killed the process that the shell waits for.
        emulate_default_handler(Signal::SIGINT as i32).map_err(failed)?;
    }
    Ok(ExitCode::from(exit.status()))
}

async fn lock(wanted: &Wanted<'_>) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed(format!("cannot watch for signals: {error}")))?;
    let time = Time::new(wanted.timeout);
    let client = wanted.server.client()?;
    let mut session = or_signal(acquire::open(wanted, &client, &time), &mut signals).await?;
    let acquired = or_signal(acquire::acquire(wanted, &client, &mut session, &time), &mut signals).await;
    const CLOSED: &str = "no server confirmed the release; the lock stays closed until its lease ends";
    const QUEUED: &str = "no lock was held, but no server confirmed that the request has left the queue: it may stay there \
        until its lease ends";
    let (result, patience, unconfirmed) = match acquired {
        Ok(Some(guard)) => match work(wanted, &session, &guard, &mut signals).await {
            Ok(exit) => (Ok(exit), RELEASE_MAX, Some(CLOSED)),
            Err(failure) => (Err(failure), GOODBYE_MAX, None),
        },
        Ok(None) => (Ok(Exit::Code(wanted.conflict)), GOODBYE_MAX, (!wanted.quiet).then_some(QUEUED)),
        Err(failure) => (Err(failure), GOODBYE_MAX, None),
    };
    // All processes of the command are gone, so another client may have the lock now. The end of the session releases
    // the lock.
    let is_closed = matches!(tokio::time::timeout(patience, session.close()).await, Ok(Ok(())));
    if let Some(unconfirmed) = unconfirmed.filter(|_| !is_closed) {
        warn(unconfirmed);
    }
    result
}

/// Waits for the result, unless a signal ends `baton lock` first.
async fn or_signal<T>(
    something: impl Future<Output = Result<T, Failure>>,
    signals: &mut Signals,
) -> Result<T, Failure> {
    tokio::pin!(something);
    loop {
        tokio::select! {
            result = &mut something => return result,
            signal = signals.next() => match signal {
                Signal::SIGTSTP => raise(Signal::SIGSTOP).map_err(failed)?,
                Signal::SIGCONT => {}
                signal => {
                    let status = ExitCode::from(128 + signal as u8);
                    return Err(Failure { message: format!("{signal} ended the wait for the lock"), status });
                }
            },
        }
    }
}

/// Runs the command under the lock, or holds the lock until a signal comes.
async fn work(wanted: &Wanted<'_>, session: &Session, guard: &Guard, signals: &mut Signals) -> Result<Exit, Failure> {
    let lost = |loss: Loss| {
        let loss = if loss == Loss::Unacknowledged { with_trouble(&loss, session) } else { loss.to_string() };
        Failure { message: format!("the lock is lost: {loss}"), status: ExitCode::from(LOCK_LOST) }
    };
    let fence = guard.fence().map_err(lost)?;
    let (ttl_ms, deadline) = (wanted.ttl.as_millis() as u64, guard.deadline());
    let (sender, lease) = mpsc::channel(16);
    let ending = if wanted.command.is_empty() {
        print(&format!("{fence}\n"))?;
        tokio::select! {
            ending = hold::hold(ttl_ms, deadline.as_millis(), lease, signals) => ending.map_err(failed)?,
            never = follow(guard, wanted.ttl, &sender) => match never {},
        }
    } else {
        let environment = vec![
            ("BATON_LOCK", OsString::from_vec(wanted.name.clone())),
            ("BATON_FENCE", fence.to_string().into()),
            ("BATON_DEADLINE", deadline.to_string().into()),
            (OWNER, Hex(guard.owner().to_raw()).to_string().into()),
            // A nested `baton lock` must ask the same server, because only that server knows its parent.
            (SERVER, wanted.server.addresses().join(",").into()),
            // Empty for a server that is too old to tell its cluster.
            (CLUSTER, session.cluster_id().map_or_else(String::new, |id| id.to_string()).into()),
        ];
        let (deadline_ms, linger_ms) = (deadline.as_millis(), millis(wanted.linger));
        let (key, lock_delay_ms) = (session.key(), millis(wanted.lock_delay));
        let job =
            Job { ttl_ms, deadline_ms, linger_ms, key, lock_delay_ms, command: wanted.command.clone(), environment };
        let unsupervised = |error: std::io::Error| failed(format!("cannot supervise the command: {error}"));
        let ended = tokio::select! {
            ended = run::run(&job, lease, signals) => ended.map_err(unsupervised)?,
            never = follow(guard, wanted.ttl, &sender) => match never {},
        };
        if let Some(processes) = ended.left_behind.filter(|_| !wanted.quiet) {
            let after = view::duration(linger_ms);
            warn(format_args!("the command left processes behind, which were ended {after} after it: {processes}"));
        }
        if !ended.left.is_empty() {
            warn(format_args!("these processes could not be killed before the lease ended: {:?}", ended.left));
        }
        ended.ending
    };
    match ending {
        Ending::LockLost => Err(lost(loss_by_now(guard).await)),
        Ending::Exited(exit) => Ok(exit),
        Ending::WatchdogKilled => {
            let lock = "the lock was held until then, and is released";
            warn(format_args!("the watchdog of the command was killed, and the command with it; {lock}"));
            Ok(Exit::Signal(Signal::SIGKILL as i32))
        }
    }
}

/// The loss, and what went wrong at each server before it.
fn with_trouble(loss: &dyn Display, session: &Session) -> String {
    match session.trouble() {
        Some(trouble) => format!("{loss}: {trouble}"),
        None => loss.to_string(),
    }
}

/// Sends each change of the lease, until the caller drops this future.
async fn follow(guard: &Guard, ttl: Duration, sender: &mpsc::Sender<Lease>) -> Infallible {
    let mut told_ms = 0;
    let loss = loop {
        let deadline_ms = guard.deadline().as_millis();
        if deadline_ms != told_ms {
            told_ms = deadline_ms;
            tell(sender, Lease::Until { deadline_ms }).await;
        }
        tokio::select! {
            biased;
            loss = guard.lost() => break loss,
            () = tokio::time::sleep(ttl.div_f64(20.0).min(LOOK_AGAIN_MAX)) => {}
        }
    };
    tell(sender, if loss == Loss::Revoked { Lease::Revoked } else { Lease::Lost }).await;
    std::future::pending().await
}

async fn tell(sender: &mpsc::Sender<Lease>, lease: Lease) {
    // The receiver is gone once the command has ended.
    let _ = sender.send(lease).await;
}

/// Why the lock is lost. The command is ended before the loss is certain: then the reason is that no keep-alive was
/// acknowledged.
async fn loss_by_now(guard: &Guard) -> Loss {
    tokio::select! {
        biased;
        loss = guard.lost() => loss,
        () = std::future::ready(()) => Loss::Unacknowledged,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The failure if the system refuses what `baton lock` needs for its own work.
fn failed(error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(CANNOT_RUN) }
}
