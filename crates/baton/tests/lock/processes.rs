//! What the tests need of processes.

use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Milliseconds of CLOCK_BOOTTIME.
pub fn now_ms() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap()).as_millis() as u64
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid as i32), signal).unwrap();
}

/// The letter of /proc for what a process does, `T` for stopped; none if it is gone.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

/// Whose child a process is.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

/// What a tree of processes writes. It ends when the last of them is gone: all of them have inherited the other end.
pub struct Output<R>(BufReader<R>);

impl<R: Read> Output<R> {
    pub fn new(pipe: R) -> Self {
        Output(BufReader::new(pipe))
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the output ended too early: {line:?}");
        line.trim_end().to_owned()
    }

    /// The next line, a number.
    pub fn number(&mut self) -> u32 {
        self.line().parse().unwrap()
    }

    /// All the rest, and when the last process was gone.
    pub fn rest(&mut self) -> (String, u64) {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        (rest, now_ms())
    }
}
