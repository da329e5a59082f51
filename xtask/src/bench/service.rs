//! The lock service: how many locks a second, how much memory, how soon it is there. Everything that it acknowledges is on
//! disk by then, so the disk and the network are measured beside it, each alone.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::{Asked, REPETITIONS, json, row};
use crate::{cargo, root, succeed};

const ADDRESS: &str = "127.0.0.1:17420";
const HELD: &str = "100000";
/// Acquires and releases a second that are asked for where a synced append and a round trip take so many microseconds.
const PAIRS_ASKED: f64 = 2000.0;
const FLOORS_ASKED_US: f64 = 85.0 + 59.0;

/// Measures all of it.
pub fn run() -> Result<(), String> {
    succeed(&mut cargo(&["build", "--release", "--package=baton-client", "--example=load", "--quiet"]))?;
    let folder = std::env::temp_dir().join(format!("baton-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let measured = measure(&folder);
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    measured
}

fn measure(folder: &Path) -> Result<(), String> {
    let mut ready_ms = f64::MAX;
    for repetition in 0..REPETITIONS {
        let server = Server::start(&folder.join(format!("empty-{repetition}")))?;
        ready_ms = ready_ms.min(server.ready_s * 1e3);
    }
    row("serve, an empty node: ms until it is ready", ready_ms, &Asked::AtMost(100.0));

    let data = folder.join("data");
    let server = Server::start(&data)?;
    let (mut pairs, mut append_us, mut round_trip_us) = (0.0_f64, f64::MAX, f64::MAX);
    for _ in 0..REPETITIONS {
        append_us = append_us.min(synced_append_us(folder)?);
        round_trip_us = round_trip_us.min(tcp_round_trip_us().map_err(text)?);
        let report = json(load().args(["pairs", "5000"]))?;
        pairs = pairs.max(report["pairs_per_s"].as_f64().ok_or("the report has no pairs_per_s")?);
    }
    row("the disk alone, a synced append: us", append_us, &Asked::Nothing);
    row("TCP alone, a round trip: us", round_trip_us, &Asked::Nothing);
    row("one client, own lock: acquire+release/s", pairs, &Asked::AtLeast(PAIRS_ASKED));
    let asked_here = PAIRS_ASKED * FLOORS_ASKED_US / (append_us + round_trip_us);
    row("the same, asked in proportion to disk and TCP (85 + 59 us)", pairs, &Asked::AtLeast(asked_here));

    let mut holder = load().args(["hold", HELD]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
    first_line(&mut holder)?;
    row("100,000 held locks: MiB of resident memory", server.resident_mib()?, &Asked::AtMost(150.0));
    // Killed, not stopped: what it comes back with is what was on disk.
    drop(server);
    let server = Server::start(&data)?;
    row("restart with 100,000 held locks: s", server.ready_s, &Asked::AtMost(2.0));
    row("the same: MiB of resident memory", server.resident_mib()?, &Asked::AtMost(150.0));
    drop(server);
    holder.kill().and_then(|()| holder.wait()).map_err(text)?;
    Ok(())
}

/// How long it takes to add to a file so that it is durable.
fn synced_append_us(folder: &Path) -> Result<f64, String> {
    const APPENDS: u32 = 2000;
    let mut file = File::create(folder.join("appends")).map_err(text)?;
    let start = Instant::now();
    for _ in 0..APPENDS {
        file.write_all(&[1; 200]).and_then(|()| file.sync_data()).map_err(text)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(APPENDS))
}

/// How long a byte takes to another thread and back.
fn tcp_round_trip_us() -> std::io::Result<f64> {
    const ROUND_TRIPS: u32 = 5000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    let echo = move || -> std::io::Result<()> {
        let mut byte = [0];
        while there.read(&mut byte)? == 1 {
            there.write_all(&byte)?;
        }
        Ok(())
    };
    let echo = thread::spawn(echo);
    let start = Instant::now();
    for _ in 0..ROUND_TRIPS {
        here.write_all(&[1])?;
        here.read_exact(&mut [0])?;
    }
    let took = start.elapsed();
    drop(here);
    echo.join().expect("it does not panic")?;
    Ok(took.as_secs_f64() * 1e6 / f64::from(ROUND_TRIPS))
}

struct Server {
    child: Child,
    ready_s: f64,
}

impl Server {
    fn start(data: &Path) -> Result<Server, String> {
        let mut command = Command::new(root().join("target/release/baton"));
        command.arg("serve").arg("--data").arg(data).args(["--listen", ADDRESS]).stdout(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().map_err(text)?;
        first_line(&mut child)?;
        Ok(Server { child, ready_s: start.elapsed().as_secs_f64() })
    }

    fn resident_mib(&self) -> Result<f64, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).map_err(text)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| "the server's memory cannot be read".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the next measurement would tell.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn load() -> Command {
    let mut command = Command::new(root().join("target/release/examples/load"));
    command.arg(ADDRESS);
    command
}

/// Waits until a process says something.
fn first_line(child: &mut Child) -> Result<(), String> {
    let stdout = child.stdout.take().ok_or("its output is not read")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(text)?;
    if line.is_empty() { Err("it ended before it said anything".to_owned()) } else { Ok(()) }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
