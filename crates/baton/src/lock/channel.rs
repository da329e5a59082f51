//! What `baton lock` and its watchdog tell each other: a line of JSON each, over a pipe either way.
//!
//! The pipes are inherited by number. The watchdog opens them anew by that number and closes the inherited ones, so that
//! none of them leaks into the command.

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::supervisor::Reason;

/// What the watchdog is told. That `baton lock` is no more it learns from the end of the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// The lease now ends then, in milliseconds of CLOCK_BOOTTIME.
    Renewed {
        /// Its new end.
        deadline_ms: u64,
    },
    /// Pass this signal on to the command.
    Signal(i32),
    /// End the command: the lock is not ours any longer, or will soon not be.
    Stop,
}

/// What the watchdog tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchdogReport {
    /// The command runs, as the leader of this process group.
    Started {
        /// The group.
        group: i32,
    },
    /// The command was stopped by this signal.
    Stopped {
        /// Which.
        signal: i32,
    },
    /// The command has ended, and nothing of it is left.
    Ended {
        /// How.
        exit: Exit,
        /// What began its end; none if it ended by itself and left nothing behind.
        reason: Option<Reason>,
    },
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
    /// As a shell would say it.
    pub fn status(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128 + number as u8,
        }
    }
}

/// One message as a line.
pub fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Makes lines of what a pipe delivers, and messages of lines.
#[derive(Default)]
pub struct Lines {
    unfinished: Vec<u8>,
}

impl Lines {
    /// The messages that are whole now.
    pub fn push<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> io::Result<Vec<T>> {
        self.unfinished.extend_from_slice(bytes);
        let Some(end) = self.unfinished.iter().rposition(|&byte| byte == b'\n') else { return Ok(Vec::new()) };
        let whole: Vec<u8> = self.unfinished.drain(..=end).collect();
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
    }
}

/// Lets the next process that we start inherit this end of a pipe; by this number it will know it.
pub fn bequeath(end: &impl AsFd) -> io::Result<RawFd> {
    fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(end.as_fd().as_raw_fd())
}

/// Which end of a pipe.
#[derive(Clone, Copy)]
pub enum End {
    /// To read, without waiting for something to be there.
    Reader,
    /// To write, without waiting for room.
    Writer,
}

/// Takes over an end that was inherited.
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
