//! A server of the test's own.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// `baton serve` in a folder and on a port of its own. It is killed when the test is over.
pub struct Server {
    folder: TempDir,
    pub address: String,
    child: Child,
}

impl Server {
    /// Starts one, and returns once it says that it listens.
    pub fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        // Free a moment ago; the same port again after each restart.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = spawn(Command::new(BATON), folder.path(), &address);
        Server { folder, address, child }
    }

    /// The same, where no process may have more than so many files open.
    pub fn start_with_files(most: u32) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\""), BATON]);
        let child = spawn(shell, folder.path(), &address);
        Server { folder, address, child }
    }

    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Kills it in the middle of whatever it does, and starts it again on the same data.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Starts it again on the same data.
    pub fn restart(&mut self) {
        self.child = spawn(Command::new(BATON), self.folder.path(), &self.address);
    }

    /// Kills it in the middle of whatever it does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub fn ends(&mut self) -> std::process::ExitStatus {
        for _ in 0..3_000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it goes on");
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap()
    }

    /// Runs a command against it.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A command against it, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.args(args).env("BATON_SERVER", &self.address).env_remove("BATON_OWNER").stdin(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, and that is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(mut command: Command, folder: &Path, address: &str) -> Child {
    command.arg("serve").arg("--data").arg(folder).args(["--listen", address]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(&format!("listens on {address}")), "{line:?}");
    child
}
