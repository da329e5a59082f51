//! Signals that `baton lock` receives and passes on to the command.

use nix::sys::signal::Signal;
use std::{fs, io};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const PASSED_ON: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// The signals that this process receives, in order.
pub struct Signals {
    arrived: mpsc::Receiver<Signal>,
}

impl Signals {
    /// Listens from now on. A signal that was ignored at the start (`nohup`) stays ignored, also in the command.
    pub fn listen() -> io::Result<Self> {
        let ignored = ignored()?;
        // If SIGCHLD was ignored at the start, this process could not wait for its children. A handler ends that, for
        // this process and, after exec, for its children.
        drop(signal(SignalKind::child())?);
        let (sender, arrived) = mpsc::channel(16);
        for kind in PASSED_ON.into_iter().filter(|&kind| ignored >> (kind as i32 - 1) & 1 == 0) {
            let mut stream = signal(SignalKind::from_raw(kind as i32))?;
            let sender = sender.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(kind).await.is_ok() {} });
        }
        Ok(Signals { arrived })
    }

    /// The next signal. Waits for ever if all signals are ignored.
    pub async fn next(&mut self) -> Signal {
        match self.arrived.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The signals that this process ignores, signal n as bit n - 1.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    parse_ignored(&status).ok_or_else(|| io::Error::other("/proc/self/status does not say which signals are ignored"))
}

fn parse_ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_told_by_proc() {
        assert_eq!(parse_ignored("Name:\tsh\nSigBlk:\t0000\nSigIgn:\t0000000000001001\nSigCgt:\tffff\n"), Some(0x1001));
        assert_eq!(parse_ignored("Name:\tsh\n"), None);
        // Rust ignores SIGPIPE at the start of every program.
        assert_eq!(ignored().unwrap() >> (Signal::SIGPIPE as i32 - 1) & 1, 1);
    }
}
