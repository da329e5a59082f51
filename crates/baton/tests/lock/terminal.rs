//! `baton lock` at a terminal.

use nix::pty::openpty;
use nix::sys::termios::Termios;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::processes::{BATON, Output, state, until};
use super::server::Server;

struct AtTerminal {
    keyboard: File,
    _device: OwnedFd,
    process: Child,
    output: Output<ChildStdout>,
}

/// `setsid` makes a session whose terminal is ours, with `baton lock` as the foreground.
fn at_terminal(server: &Server, script: &str) -> AtTerminal {
    let pty = openpty(None, None::<&Termios>).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--wait", "--ctty", BATON, "lock", "a", "--ttl", "60", "--", "sh", "-c", script]);
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
    let mut terminal = at_terminal(&server, "echo ready; read line; echo got $line; cat; exit 9");
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
        let mut terminal = at_terminal(&server, &script);
        let command = terminal.output.number();
        until("it sleeps", || state(command) == Some('S'));
        write!(terminal.keyboard, "\x03").unwrap();
        assert_eq!(terminal.output.line(), "INT");
        assert_eq!(terminal.ends(), 4);
    }
}
