//! Holds a lock without a command, until a signal comes or the lock is about to be lost.

use nix::sys::signal::{Signal, raise};
use std::io;
use tokio::sync::mpsc;

use super::channel::Exit;
use super::clock::{now_ms, wait_until};
use super::run::Lease;
use super::signals::Signals;
use super::supervisor::{Input, Reason, Supervisor};
use super::{Ending, HELD_TO_THE_END};

/// Returns exit status 0 on a signal. If the lock is about to be lost, returns when a command would get SIGTERM, so
/// that work under the lock can stop in time.
pub async fn hold(
    ttl_ms: u64,
    deadline_ms: u64,
    mut lease: mpsc::Receiver<Lease>,
    signals: &mut Signals,
) -> io::Result<Ending> {
    let mut supervisor = Supervisor::new(ttl_ms, deadline_ms, 0);
    loop {
        supervisor.step(now_ms(), Input::Tick);
        if supervisor.over().is_some() {
            return Ok(Ending::LockLost);
        }
        tokio::select! {
            biased;
            heard = lease.recv() => {
                let input = match heard {
                    Some(Lease::Until { deadline_ms }) => Input::Renewed { deadline_ms },
                    Some(Lease::Revoked) => Input::Stop(Reason::LockLost),
                    Some(Lease::Lost) | None => Input::Lost,
                };
                supervisor.step(now_ms(), input);
            }
            () = wait_until(supervisor.wake_at_ms()) => {}
            signal = signals.next() => match signal {
                Signal::SIGTSTP => raise(Signal::SIGSTOP)?,
                Signal::SIGCONT => {}
                _ => return Ok(Ending::Exited(Exit::Code(HELD_TO_THE_END))),
            },
        }
    }
}
