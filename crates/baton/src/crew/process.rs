//! A process that this program has started.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    #[default]
    Starts,
    Runs,
    Stopped,
    CutOff,
    StoppedAndCutOff,
    /// Killed, or ended by itself.
    Gone,
}

impl State {
    pub fn text(self) -> &'static str {
        match self {
            State::Starts => "starts",
            State::Runs => "runs",
            State::Stopped => "stopped",
            State::CutOff => "cut off",
            State::StoppedAndCutOff => "stopped, cut off",
            State::Gone => "gone",
        }
    }
}

pub struct Process {
    child: Child,
    pub stopped: bool,
    pub cut_off: bool,
    /// Whether it has said that it is ready.
    pub ready: bool,
    /// Whether it was asked how it is, and the answer is not there yet.
    pub asked: bool,
    /// Its last message to the operator.
    pub says: Option<String>,
    ended: bool,
}

/// What a process writes.
pub enum Line {
    Output(String),
    Complaint(String),
}

impl Process {
    /// Starts a process. `tell` gets its lines, until it returns false.
    pub fn start(mut command: Command, tell: impl Fn(Line) -> bool + Clone + Send + 'static) -> io::Result<Process> {
        // It has a process group of its own, so that Ctrl-C reaches only this program, which ends it.
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(out) = child.stdout.take() {
            let tell = tell.clone();
            read_lines(out, move |line| tell(Line::Output(line)));
        }
        if let Some(err) = child.stderr.take() {
            read_lines(err, move |line| tell(Line::Complaint(line)));
        }
        let (stopped, cut_off, ready, asked, ended) = (false, false, false, false, false);
        Ok(Process { child, stopped, cut_off, ready, asked, says: None, ended })
    }

    /// Notes how the process ended, once.
    pub fn is_gone(&mut self) -> bool {
        let Ok(Some(status)) = self.child.try_wait() else { return false };
        if !self.ended {
            self.ended = true;
            // A process that ends by itself has said why.
            if status.code().is_none() || status.success() || self.says.is_none() {
                self.says = Some(format!("it ended: {status}"));
            }
        }
        true
    }

    pub fn state(&mut self) -> State {
        match (self.is_gone(), self.stopped, self.cut_off) {
            (true, ..) => State::Gone,
            (_, true, true) => State::StoppedAndCutOff,
            (_, true, false) => State::Stopped,
            (_, false, true) => State::CutOff,
            _ if self.ready => State::Runs,
            _ => State::Starts,
        }
    }

    pub fn signal(&mut self, signal: Signal) {
        // The id of a process that has ended may belong to another one by now.
        if !self.is_gone()
            && let Ok(pid) = i32::try_from(self.child.id())
        {
            // It may end at this moment.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Kills it if it has not ended yet, and waits for its end.
    pub fn end(&mut self) {
        self.signal(Signal::SIGKILL);
        // Only an error of the system can prevent this, and the program ends anyway.
        let _ = self.child.wait();
    }
}

/// Calls `tell` for each line, in a thread, until it returns false.
fn read_lines(source: impl io::Read + Send + 'static, tell: impl Fn(String) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if !tell(line) {
                return;
            }
        }
    });
}
