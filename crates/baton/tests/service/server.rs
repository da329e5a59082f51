//! Starts, kills and stops a real server for a test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

#[derive(Clone, Default)]
pub struct Setup {
    /// Further options, besides the folder and the address.
    pub options: Vec<String>,
    /// Shell commands that run before the server starts.
    pub prelude: Option<String>,
    /// The data folder, if it is not one of its own.
    pub data: Option<PathBuf>,
    /// The variable RUST_LOG.
    pub rust_log: Option<String>,
}

/// `baton serve` with its own folder and port. Dropping this kills the server.
pub struct Server {
    folder: TempDir,
    pub address: String,
    setup: Setup,
    child: Child,
    /// The lines of its standard error, over all restarts.
    log: Arc<Mutex<Vec<String>>>,
    /// Reads the standard error until the server ends.
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server, and returns once it listens.
    pub fn start() -> Server {
        Server::start_as(Setup::default())
    }

    pub fn start_with(options: &[&str]) -> Server {
        let options = options.iter().copied().map(String::from).collect();
        Server::start_as(Setup { options, ..Setup::default() })
    }

    /// Starts a server that may have at most this many open files.
    pub fn start_with_files(most: u32) -> Server {
        Server::start_as(Setup { prelude: Some(format!("ulimit -n {most}")), ..Setup::default() })
    }

    pub fn start_as(setup: Setup) -> Server {
        let folder = tempfile::tempdir().unwrap();
        // A free port. The server uses the same port after each restart.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let log = Arc::default();
        let data = setup.data.clone().unwrap_or_else(|| folder.path().to_owned());
        let (child, reader) = spawn(&setup, &data, &address, &log);
        Server { folder, address, setup, child, log, reader: Some(reader) }
    }

    pub fn data(&self) -> &Path {
        self.setup.data.as_deref().unwrap_or(self.folder.path())
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Kills the server with SIGKILL, and starts it again on the same data.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Starts the server again on the same data.
    pub fn restart(&mut self) {
        let (child, reader) = spawn(&self.setup, self.data(), &self.address, &self.log);
        (self.child, self.reader) = (child, Some(reader));
    }

    /// Starts the server again on the same data, with these options.
    pub fn restart_with(&mut self, options: &[&str]) {
        self.setup.options = options.iter().copied().map(String::from).collect();
        self.restart();
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the server has ended by itself.
    pub fn ends(&mut self) -> ExitStatus {
        for _ in 0..3_000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it goes on");
    }

    /// Stops the server with SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ends()
    }

    /// All lines of its standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line of its standard error that contains this text.
    pub fn log_line(&self, text: &str) -> String {
        for _ in 0..3_000 {
            if let Some(line) = self.log().into_iter().find(|line| line.contains(text)) {
                return line;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it never says {text:?}, but {:?}", self.log());
    }

    /// All lines of its standard error. Call this once, after the end of the server.
    pub fn log_at_the_end(&mut self) -> Vec<String> {
        self.reader.take().expect("it is asked once").join().unwrap();
        self.log()
    }

    /// Runs a command of `baton` with this server.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A command of `baton` with this server, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.args(args).env("BATON_SERVER", &self.address).env_remove("BATON_OWNER").stdin(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(setup: &Setup, folder: &Path, address: &str, log: &Arc<Mutex<Vec<String>>>) -> (Child, JoinHandle<()>) {
    let mut command = Command::new(BATON);
    if let Some(prelude) = &setup.prelude {
        command = Command::new("sh");
        command.args(["-c", &format!("{prelude}; exec \"$0\" \"$@\""), BATON]);
    }
    command.arg("serve").arg("--data").arg(folder).args(["--listen", address]).args(&setup.options);
    command.env_remove("RUST_LOG").envs(setup.rust_log.iter().map(|filter| ("RUST_LOG", filter)));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stderr, log) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(log));
    let reader = std::thread::spawn(move || {
        for line in stderr.lines() {
            let line = line.unwrap();
            // The log of the server helps to understand a failed test.
            eprintln!("{line}");
            log.lock().unwrap().push(line);
        }
    });
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(&format!("listens on {address}")), "{line:?}");
    (child, reader)
}
