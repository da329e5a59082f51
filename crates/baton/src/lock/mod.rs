//! `baton lock`: run a command while holding a lock, so that it is surely gone when the lock is.
//!
//! Three processes: `baton lock` has the session with the server, its watchdog (`watchdog`) starts the command and ends it by
//! the schedule of the lease (`supervisor`, pure), and the command becomes itself by way of `exec`, which ties its life to
//! the watchdog's. `docs/lock-command.md` tells what that achieves, and what still escapes.

mod args;
mod channel;
mod clock;
pub mod exec;
mod hold;
mod run;
mod signals;
mod supervisor;
mod terminal;
mod tree;
pub mod watchdog;

use std::convert::Infallible;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{AcquireError, Guard, Loss, Session, v1};
use nix::sys::signal::{Signal, raise};
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::mpsc;

pub use args::Args;

use crate::output::{Failure, Outcome, print};
use crate::server::{block_on, no_server};
use crate::view;
use args::{OWNER, Wanted};
use channel::Exit;
use run::{Job, Lease};
use signals::Signals;

/// It was held until somebody wanted us to stop.
const HELD_TO_THE_END: u8 = 0;
/// The lock was lost.
const LOCK_LOST: u8 = 75;
/// The command was found and cannot be run.
const CANNOT_RUN: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// How the time under a lock ended. Not by the number: a command may exit with 75 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By itself.
    Exited(Exit),
    /// The lock was lost, or would have been.
    LockLost,
}

/// This very program, even if its file was replaced since it was started.
const MYSELF: &str = "/proc/self/exe";

/// How long to wait before the guard is asked again for its deadline, at most.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(500);
/// How long to wait for the server's word that the lock is released; and how long if we have failed anyway.
const RELEASE_MAX: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(1));

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let wanted = args.wanted()?;
    let exit = block_on(lock(&wanted))?;
    if exit == Exit::Signal(Signal::SIGINT as i32) {
        // A shell goes on with its script unless what it waits for has died of the interrupt itself.
        emulate_default_handler(Signal::SIGINT as i32).map_err(failed)?;
    }
    Ok(ExitCode::from(exit.status()))
}

async fn lock(wanted: &Wanted<'_>) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed(format!("cannot watch for signals: {error}")))?;
    let session = or_signal(open(wanted), &mut signals).await?;
    let result = match or_signal(acquire(wanted, &session), &mut signals).await {
        Ok(Some(guard)) => work(wanted, &guard, &mut signals).await,
        Ok(None) => Ok(Exit::Code(wanted.conflict)),
        Err(failure) => Err(failure),
    };
    // Whatever the command started is gone: only now somebody else may have the lock. With the session all is given back.
    let patience = if result.is_ok() { RELEASE_MAX.0 } else { RELEASE_MAX.1 };
    match tokio::time::timeout(patience, session.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if result.is_ok() => eprintln!("baton: {error}"),
        Err(_) if result.is_ok() => {
            eprintln!("baton: no server confirmed the release; the lock stays closed until its lease ends");
        }
        Ok(Err(_)) | Err(_) => {}
    }
    result
}

async fn open(wanted: &Wanted<'_>) -> Result<Session, Failure> {
    let client = wanted.server.connect().await?;
    client.session().ttl(wanted.ttl).label(&wanted.label).open().await.map_err(no_server)
}

/// The lock; none if it was not granted in the time that there was. As with flock, whoever did not want to wait for ever
/// knows what that exit status means, and nothing is said.
async fn acquire(wanted: &Wanted<'_>, session: &Session) -> Result<Option<Guard>, Failure> {
    let mut acquire = session.lock(&wanted.name).mode(wanted.mode).lock_delay(wanted.lock_delay);
    if let Some(timeout) = wanted.timeout {
        acquire = acquire.timeout(timeout);
    }
    if let Some(owner) = wanted.owner {
        acquire = acquire.owner(owner);
    }
    match acquire.acquire().await {
        Ok(guard) => Ok(Some(guard)),
        Err(AcquireError::TimedOut { .. }) => Ok(None),
        Err(AcquireError::Refused { kind: v1::Refusal::NotAvailable, .. }) => Ok(None),
        Err(error @ AcquireError::Deadlock { .. }) => {
            Err(Failure { message: error.to_string(), status: ExitCode::from(wanted.conflict) })
        }
        Err(error @ AcquireError::Refused { kind: v1::Refusal::Invalid | v1::Refusal::PermitsDiffer, .. }) => {
            Err(Failure::bad_input(error))
        }
        Err(error @ AcquireError::InvalidName(_)) => Err(Failure::bad_input(error)),
        Err(error) => Err(no_server(error)),
    }
}

/// Waits for something, unless a signal ends us.
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
                    return Err(Failure { message: format!("gave up waiting, by {signal}"), status });
                }
            },
        }
    }
}

/// Has the lock, and does what it is for.
async fn work(wanted: &Wanted<'_>, guard: &Guard, signals: &mut Signals) -> Result<Exit, Failure> {
    let lost = |loss: Loss| Failure { message: format!("the lock is lost: {loss}"), status: ExitCode::from(LOCK_LOST) };
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
            ("BATON_LOCK", wanted.name.clone()),
            ("BATON_FENCE", fence.to_string()),
            ("BATON_DEADLINE", deadline.to_string()),
            (OWNER, view::id(guard.owner())),
        ];
        let job = Job { ttl_ms, deadline_ms: deadline.as_millis(), command: wanted.command.clone(), environment };
        let ended = tokio::select! {
            ended = run::run(&job, lease, signals) => ended.map_err(failed)?,
            never = follow(guard, wanted.ttl, &sender) => match never {},
        };
        if !ended.left.is_empty() {
            eprintln!("baton: these processes could not be killed before the lease ended: {:?}", ended.left);
        }
        ended.ending
    };
    match ending {
        Ending::LockLost => Err(lost(loss_by_now(guard).await)),
        Ending::Exited(exit) => Ok(exit),
    }
}

/// Tells what becomes of the lease, for as long as somebody listens.
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
    // Nobody listens any more once the command has ended.
    let _ = sender.send(lease).await;
}

/// Why the lock is lost. The command is ended before it is: then it would have been, for the want of an answer.
async fn loss_by_now(guard: &Guard) -> Loss {
    tokio::select! {
        biased;
        loss = guard.lost() => loss,
        () = std::future::ready(()) => Loss::DeadlinePassed,
    }
}

/// The system does not let us do what we are for.
fn failed(error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(CANNOT_RUN) }
}
