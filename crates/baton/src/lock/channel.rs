//! The messages between `baton lock` and its watchdog: lines of JSON over two pipes, one for each direction.
//!
//! The watchdog inherits its ends of the pipes, and gets their descriptor numbers as arguments. It opens each end again
//! by its number and closes the inherited descriptor, so that the command inherits no pipe.

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::supervisor::Reason;
use crate::output::shown;

/// A message to the watchdog. The end of the pipe tells the watchdog that `baton lock` is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// The lease was renewed.
    Renewed {
        /// The new end of the lease, in milliseconds of CLOCK_BOOTTIME.
        deadline_ms: u64,
    },
    /// Pass this signal on to the command.
    Signal(i32),
    /// End the command, because the lock is lost or about to be lost.
    Stop,
    /// If `baton lock` is gone, close this session when the command has ended and the lock-delay is over. The secret does
    /// not belong into arguments or the environment, which other processes can read.
    Key { session: u64, secret: [u8; 32], lock_delay_ms: u64 },
}

/// A message from the watchdog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchdogReport {
    /// The command runs, as the leader of this process group.
    Started { group: i32 },
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The command ended by itself, and these processes that it left behind did not end in time. They got SIGTERM.
    LeftBehind(LeftBehind),
    /// The command has ended, and none of its processes is left.
    Ended {
        exit: Exit,
        /// Why the watchdog ended the command; none if the command ended by itself and left no process behind.
        reason: Option<Reason>,
    },
}

/// Processes that a command left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    /// The first of them: name and process id.
    pub named: Vec<(String, i32)>,
    /// Number of all of them.
    pub count: usize,
}

impl LeftBehind {
    /// A report must fit into PIPE_BUF.
    pub const NAMED_MAX: usize = 8;
}

impl fmt::Display for LeftBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes: Vec<String> = self.named.iter().map(|(name, pid)| format!("{} ({pid})", shown(name))).collect();
        write!(f, "{}", processes.join(", "))?;
        match self.count.saturating_sub(self.named.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// With this exit status.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The exit status as in a shell: 128 + n for signal n.
    pub fn status(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128 + number as u8,
        }
    }
}

pub fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Splits the bytes from a pipe into lines, and parses each line as a message.
#[derive(Default)]
pub struct Lines {
    unfinished: Vec<u8>,
}

impl Lines {
    /// Adds bytes, and returns the messages that are complete now.
    pub fn push<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> io::Result<Vec<T>> {
        self.unfinished.extend_from_slice(bytes);
        let Some(end) = self.unfinished.iter().rposition(|&byte| byte == b'\n') else { return Ok(Vec::new()) };
        let whole: Vec<u8> = self.unfinished.drain(..=end).collect();
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
    }
}

/// Lets child processes inherit this end of a pipe, and returns its descriptor number.
pub fn bequeath(end: &impl AsFd) -> io::Result<RawFd> {
    fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(end.as_fd().as_raw_fd())
}

/// Which end of a pipe. Neither blocks.
#[derive(Clone, Copy)]
pub enum End {
    Reader,
    Writer,
}

/// Opens an inherited end of a pipe again, and closes the inherited descriptor.
pub fn inherit(number: RawFd, end: End) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match end {
        End::Reader => options.read(true),
        End::Writer => options.write(true),
    };
    options.custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let sent = [Instruction::Renewed { deadline_ms: 7 }, Instruction::Signal(15), Instruction::Stop];
        let bytes: Vec<u8> = sent.iter().flat_map(|order| line(order).unwrap()).collect();
        for size in 1..bytes.len() {
            let mut lines = Lines::default();
            let orders: Vec<Instruction> = bytes.chunks(size).flat_map(|chunk| lines.push(chunk).unwrap()).collect();
            assert_eq!(orders, sent, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        assert!(Lines::default().push::<Instruction>(b"Dance\n").is_err());
    }
}
