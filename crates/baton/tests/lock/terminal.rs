//! `baton lock` at a terminal.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::Signal;
use nix::sys::termios::Termios;
use nix::unistd::{Pid, tcgetpgrp};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::processes::{BATON, Output, now_ms, parent, send, state, until};
use super::server::Server;
use super::watchdog::STARTING;

struct AtTerminal {
    keyboard: File,
    _device: OwnedFd,
    process: Child,
    output: Output<ChildStdout>,
}

/// Starts `baton lock` in a new session with a new terminal, in the foreground of that terminal.
fn at_terminal(server: &Server, ttl: &str, script: &str) -> AtTerminal {
    let pty = {
        let _starting = STARTING.lock().unwrap();
        let pty = openpty(None, None::<&Termios>).unwrap();
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        pty
    };
    let mut command = Command::new("setsid");
    command.args(["--wait", "--ctty", BATON, "lock", "a", "--ttl", ttl, "--", "sh", "-c", script]);
    command.env("BATON_SERVER", &server.address).env_remove("BATON_OWNER");
    command.stdin(pty.slave.try_clone().unwrap()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let output = Output::new(process.stdout.take().unwrap());
    AtTerminal { keyboard: File::from(pty.master), _device: pty.slave, process, output }
}

impl AtTerminal {
    fn ends(mut self) -> i32 {
        assert_eq!(self.output.rest().0, "");
        self.process.wait().unwrap().code().unwrap()
    }
}

#[test]
fn a_command_can_read_what_is_typed() {
    let server = Server::start();
    let mut terminal = at_terminal(&server, "60", "echo ready; read line; echo got $line; cat; exit 9");
    assert_eq!(terminal.output.line(), "ready");
    writeln!(terminal.keyboard, "hello").unwrap();
    assert_eq!(terminal.output.line(), "got hello");
    // ^D ends the input.
    write!(terminal.keyboard, "more\n\x04").unwrap();
    assert_eq!(terminal.output.line(), "more");
    assert_eq!(terminal.ends(), 9);
}

#[test]
fn an_interrupt_reaches_the_command_whether_or_not_it_reads() {
    let server = Server::start();
    for reads in ["read line", "sleep 60"] {
        let script = format!("trap 'echo INT; exit 4' INT; echo $$; {reads}; exit 5");
        let mut terminal = at_terminal(&server, "60", &script);
        let command = terminal.output.number();
        until("it sleeps", || state(command) == Some('S'));
        write!(terminal.keyboard, "\x03").unwrap();
        assert_eq!(terminal.output.line(), "INT");
        assert_eq!(terminal.ends(), 4);
    }
}

/// Types ^Z, waits until the command and `baton lock` are both stopped, and returns their ids. The commands of these
/// tests start no other processes: a shell that is starting one cannot be stopped.
fn stopped_by_key(terminal: &mut AtTerminal, reads: bool) -> (u32, u32) {
    let line = terminal.output.line();
    let [watchdog, command] = line.split(' ').map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()[..] else {
        panic!("{line}")
    };
    let client = parent(watchdog).unwrap();
    let foreground = if reads { command } else { client };
    until("it has the terminal", || tcgetpgrp(&terminal.keyboard) == Ok(Pid::from_raw(foreground as i32)));
    // A command that reads was stopped, and is continued when it has the terminal.
    until("it waits", || state(command) == Some('S'));
    write!(terminal.keyboard, "\x1a").unwrap();
    until("both are stopped", || [client, command].iter().all(|&pid| state(pid) == Some('T')));
    (client, command)
}

/// Continues the job like the `fg` of a shell.
fn continued(client: u32, command: u32) {
    send(client, Signal::SIGCONT);
    until("both go on", || [client, command].iter().all(|&pid| state(pid) != Some('T')));
}

#[test]
fn a_job_that_is_stopped_goes_on_when_it_is_continued() {
    let server = Server::start();
    let mut terminal = at_terminal(&server, "60", "echo $PPID $$; exec sleep 60");
    let (client, command) = stopped_by_key(&mut terminal, false);
    continued(client, command);
    send(client, Signal::SIGTERM);
    assert_eq!(terminal.ends(), 143);
}

#[test]
fn a_job_that_is_stopped_while_it_reads_reads_on_when_it_is_continued() {
    let server = Server::start();
    let mut terminal = at_terminal(&server, "60", "echo $PPID $$; read line; echo got $line; exit 9");
    let (client, command) = stopped_by_key(&mut terminal, true);
    continued(client, command);
    writeln!(terminal.keyboard, "hello").unwrap();
    assert_eq!(terminal.output.line(), "got hello");
    assert_eq!(terminal.ends(), 9);
}

#[test]
fn a_job_that_is_stopped_for_too_long_is_gone_before_the_lease_is() {
    let server = Server::start();
    let mut terminal = at_terminal(&server, "6", "trap '' TERM; echo $PPID $$; exec sleep 60");
    let (client, command) = stopped_by_key(&mut terminal, false);
    until("the command is gone", || state(command).is_none_or(|state| state == 'Z'));
    let lease_ends_ms = server.facts().alive_ms + 6_000;
    assert!(now_ms() < lease_ends_ms, "gone after the lease");
    assert_eq!(state(client), Some('T'), "nobody continued it");
    send(client, Signal::SIGCONT);
    assert_eq!(terminal.ends(), 75);
}
