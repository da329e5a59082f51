//! A server of the test's own.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// How a server is started.
#[derive(Clone, Default)]
pub struct Setup {
    /// Options beside the folder and the address.
    pub options: Vec<String>,
    /// What a shell does before it becomes the server.
    pub prelude: Option<String>,
    /// The variable RUST_LOG.
    pub rust_log: Option<String>,
}

/// `baton serve` in a folder and on a port of its own. It is killed when the test is over.
pub struct Server {
    folder: TempDir,
    pub address: String,
    setup: Setup,
    child: Child,
    /// What it wrote to its standard error, over all restarts.
    log: Arc<Mutex<Vec<String>>>,
    /// Ends with the standard error of the server.
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts one, and returns once it says that it listens.
    pub fn start() -> Server {
        Server::start_as(Setup::default())
    }

    /// The same, with these options.
    pub fn start_with(options: &[&str]) -> Server {
        let options = options.iter().copied().map(String::from).collect();
        Server::start_as(Setup { options, ..Setup::default() })
    }

    /// The same, where no process may have more than so many files open.
    pub fn start_with_files(most: u32) -> Server {
        Server::start_as(Setup { prelude: Some(format!("ulimit -n {most}")), ..Setup::default() })
    }

    pub fn start_as(setup: Setup) -> Server {
        let folder = tempfile::tempdir().unwrap();
        // Free a moment ago; the same port again after each restart.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let log = Arc::default();
        let (child, reader) = spawn(&setup, folder.path(), &address, &log);
        Server { folder, address, setup, child, log, reader: Some(reader) }
    }

    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Kills it in the middle of whatever it does, and starts it again on the same data.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Starts it again on the same data.
    pub fn restart(&mut self) {
        let (child, reader) = spawn(&self.setup, self.folder.path(), &self.address, &self.log);
        (self.child, self.reader) = (child, Some(reader));
    }

    /// Kills it in the middle of whatever it does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub fn ends(&mut self) -> ExitStatus {
        for _ in 0..3_000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it goes on");
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ends()
    }

    /// All lines that it has written to its standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The first line on its standard error with this text in it. Waits until there is one.
    pub fn log_line(&self, text: &str) -> String {
        for _ in 0..3_000 {
            if let Some(line) = self.log().into_iter().find(|line| line.contains(text)) {
                return line;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it never says {text:?}, but {:?}", self.log());
    }

    /// All lines that it ever wrote to its standard error. It has ended before.
    pub fn log_at_the_end(&mut self) -> Vec<String> {
        self.reader.take().expect("it is asked once").join().unwrap();
        self.log()
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
            // The log of the server helps to read a failed test.
            eprintln!("{line}");
            log.lock().unwrap().push(line);
        }
    });
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(&format!("listens on {address}")), "{line:?}");
    (child, reader)
}
