//! The processes of a measurement: servers and load generators. Dropping a process kills it; dropping a folder removes
//! it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const READY_MAX: Duration = Duration::from_secs(60);

/// A child process whose output is read line by line.
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts the command. The name is for errors.
    pub fn start(name: &str, command: &mut Command) -> Result<Process, String> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{name} could not be started: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // The reader ends when the process ends or the receiver is dropped.
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process { name: name.to_owned(), child, input, lines })
    }

    /// Waits for the next line of output.
    pub fn line(&mut self, within: Duration) -> Result<String, String> {
        let name = &self.name;
        self.lines.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{name} printed nothing for {} s", within.as_secs()),
            RecvTimeoutError::Disconnected => format!("{name} ended without printing another line"),
        })
    }

    /// Waits for the next line of output and parses it as JSON.
    pub fn json(&mut self, within: Duration) -> Result<Value, String> {
        let line = self.line(within)?;
        serde_json::from_str(&line).map_err(|error| format!("{} printed no JSON: {error}", self.name))
    }

    pub fn end_input(&mut self) {
        self.input = None;
    }

    pub fn resident_mib(&self) -> Result<f64, String> {
        let unknown = || format!("the memory of {} cannot be read", self.name);
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).map_err(|_| unknown())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(unknown)
    }

    /// Errors are ignored: the process may have ended by itself, and `line` has reported that.
    pub fn kill(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server that is ready.
pub struct Server {
    pub process: Process,
    pub address: String,
    /// How long the server took until it was ready.
    pub ready_s: f64,
}

impl Server {
    /// Starts the server of this binary at a free port.
    pub fn start(baton: &Path, data: &Path) -> Result<Server, String> {
        Server::start_with(baton, data, &[])
    }

    /// The same, with more options of `baton serve`.
    pub fn start_with(baton: &Path, data: &Path, options: &[&str]) -> Result<Server, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("there is no free port: {error}"))?;
        Server::launch(baton, data, &address.to_string(), options)
    }

    pub fn start_at(baton: &Path, data: &Path, address: &str) -> Result<Server, String> {
        Server::launch(baton, data, address, &[])
    }

    fn launch(baton: &Path, data: &Path, address: &str, options: &[&str]) -> Result<Server, String> {
        let mut command = Command::new(baton);
        // The lines that tell who leads would hide the figures.
        command.args(["serve", "--log", "error"]).arg("--data").arg(data).args(["--listen", address]).args(options);
        let start = Instant::now();
        let mut process = Process::start(&format!("the server {}", baton.display()), &mut command)?;
        process.line(READY_MAX).map_err(|reason| format!("a server does not start: {reason}"))?;
        Ok(Server { process, address: address.to_owned(), ready_s: start.elapsed().as_secs_f64() })
    }

    /// Starts the load generator against this server.
    pub fn load(&self, load: &Path, args: &[&str]) -> Result<Process, String> {
        Process::start(&format!("load {}", args.join(" ")), Command::new(load).arg(&self.address).args(args))
    }
}

/// A folder for this run only, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder. Only one can exist inside `inside` at a time.
    pub fn new(inside: &Path) -> Result<Scratch, String> {
        let folder = inside.join(format!("baton-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Scratch(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: {} is left behind: {error}", self.0.display());
        }
    }
}
