//! The processes of a measurement, servers and load. Each is killed, and each folder removed, when it is dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a server may take until it is ready.
const READY_MAX: Duration = Duration::from_secs(60);

/// A process that is listened to line by line.
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it; the name is for errors.
    pub fn start(name: &str, command: &mut Command) -> Result<Process, String> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{name} could not be started: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // The reader ends with the process, or with whoever listens to it.
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process { name: name.to_owned(), child, input, lines })
    }

    /// The next line that it prints.
    pub fn line(&mut self, within: Duration) -> Result<String, String> {
        let name = &self.name;
        self.lines.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{name} has said nothing for {} s", within.as_secs()),
            RecvTimeoutError::Disconnected => format!("{name} ended before it said anything"),
        })
    }

    /// The next line that it prints, as JSON.
    pub fn json(&mut self, within: Duration) -> Result<Value, String> {
        let line = self.line(within)?;
        serde_json::from_str(&line).map_err(|error| format!("{} printed no JSON: {error}", self.name))
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Its memory at this moment.
    pub fn resident_mib(&self) -> Result<f64, String> {
        let unknown = || format!("the memory of {} cannot be read", self.name);
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).map_err(|_| unknown())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(unknown)
    }

    /// Ends the process, if it has not ended by itself, which its reader was told.
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
    /// The server itself.
    pub process: Process,
    /// Where it listens.
    pub address: String,
    /// How long it took until it was ready.
    pub ready_s: f64,
}

impl Server {
    /// Starts the server of this binary at a free port.
    pub fn start(baton: &Path, data: &Path) -> Result<Server, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("there is no free port: {error}"))?;
        Server::start_at(baton, data, &address.to_string())
    }

    /// Starts the server of this binary at this address.
    pub fn start_at(baton: &Path, data: &Path, address: &str) -> Result<Server, String> {
        let mut command = Command::new(baton);
        command.arg("serve").arg("--data").arg(data).args(["--listen", address]);
        let start = Instant::now();
        let mut process = Process::start(&format!("the server {}", baton.display()), &mut command)?;
        process.line(READY_MAX).map_err(|reason| format!("a server does not start: {reason}"))?;
        Ok(Server { process, address: address.to_owned(), ready_s: start.elapsed().as_secs_f64() })
    }

    /// Starts the load generator on it.
    pub fn load(&self, load: &Path, args: &[&str]) -> Result<Process, String> {
        Process::start(&format!("load {}", args.join(" ")), Command::new(load).arg(&self.address).args(args))
    }
}

/// A folder of this run alone.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it inside of another folder, where there can be one at a time.
    pub fn new(inside: &Path) -> Result<Scratch, String> {
        let folder = inside.join(format!("baton-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Scratch(folder))
    }

    /// Where it is.
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
