//! Helpers for tests with processes.

use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use signal_hook::flag::register_conditional_shutdown;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Processes that start from here on do not ignore these signals, as `baton lock` would go on to do if the tests are started
/// by `nohup` or in the background of a script. A handler of this process becomes the default in a new program.
pub fn heed_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP].map(|signal| signal as i32) {
            register_conditional_shutdown(signal, 128 + signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}

/// A limit that only a failed test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// Milliseconds of CLOCK_BOOTTIME.
pub fn now_ms() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap()).as_millis() as u64
}

/// Waits until the condition holds; `what` names it if it never does.
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

/// The state of a process in /proc, such as `T` for stopped; none if the process is gone.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

pub fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

/// The output of a tree of processes. All of them inherit the pipe, so the output ends when the last of them is gone.
pub struct Output<R>(BufReader<R>);

impl<R: Read> Output<R> {
    pub fn new(pipe: R) -> Self {
        Output(BufReader::new(pipe))
    }

    pub fn line(&mut self) -> String {
        self.next_line().expect("the output ended too early")
    }

    /// The next line; none if the output ends before it is complete.
    pub fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    pub fn number(&mut self) -> u32 {
        self.line().parse().unwrap()
    }

    /// The rest of the output, and the time when the last process was gone.
    pub fn rest(&mut self) -> (String, u64) {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        (rest, now_ms())
    }
}
