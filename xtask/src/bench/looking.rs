//! Measures how long another client waits while a million locks are listed, or a snapshot of them is written. The data
//! is in memory, so that no disk adds to the wait.
//!
//! One client acquires and releases its own lock all the time. Each row shows the longest time that this client needed
//! for one pair. If a row cannot be measured, the row shows why, and the next rows follow.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::floors::synced_append_us;
use super::process::{Process, Scratch, Server};
use super::watch::{Span, Watch};
use super::{Asked, REPETITIONS, row};

const MEMORY: &str = "/dev/shm";
const HELD: &str = "1000000";
const HELD_ONE: &str = "held-000000000500000";
/// The target: another client may wait this much longer than without the call or snapshot.
const BEYOND_MS_MAX: f64 = 10.0;
/// Each row is watched for at least this time.
const WATCH_MIN: Duration = Duration::from_secs(5);
/// The rows with calls end after this time, even if a call takes very long.
const LOOK_MAX: Duration = Duration::from_secs(25);
/// How long to wait for a snapshot while clients fill the log.
const SNAPSHOT_MAX: Duration = Duration::from_secs(60);
/// The server prepares a snapshot before its file appears, and removes old files afterwards.
const SNAPSHOT_BEFORE: Duration = Duration::from_secs(3);
const SNAPSHOT_AFTER: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
const FILL_MAX: Duration = Duration::from_secs(180);
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Clients with long names, so that the log grows by a snapshot's size within seconds.
const FILL_LOG: &[&str] = &["pairs", "1000000000", "--clients", "16", "--name-bytes", "500"];

/// Measures all rows. A failure of the service appears in its row; only other failures are errors.
pub fn run(baton: &Path, load: &Path) -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !is_tmpfs(&mounts, MEMORY) {
        println!("the rows with a million locks are skipped: {MEMORY} is not a tmpfs");
        return Ok(());
    }
    let disk = Scratch::new(&std::env::temp_dir())?;
    row("the disk alone, a synced append: us", synced_append_us(disk.path())?, &Asked::Nothing);
    let memory = Scratch::new(Path::new(MEMORY))?;
    match Looked::start(baton, load, memory.path()) {
        Ok(looked) => looked.rows(),
        Err(reason) => println!("{:62} failed: {reason}", "1,000,000 held locks, data in memory"),
    }
    Ok(())
}

/// A server with a million held locks, and the binaries to measure it with.
struct Looked<'a> {
    baton: &'a Path,
    load: &'a Path,
    data: &'a Path,
    server: Server,
    _holder: Process,
}

impl<'a> Looked<'a> {
    fn start(baton: &'a Path, load: &'a Path, data: &'a Path) -> Result<Looked<'a>, String> {
        let server = Server::start(baton, data)?;
        let start = Instant::now();
        let mut holder = server.load(load, &["hold", HELD])?;
        holder.line(FILL_MAX)?;
        let fill_s = start.elapsed().as_secs_f64();
        row("1,000,000 held locks, data in memory: s to acquire them", fill_s, &Asked::Nothing);
        row("the same: MiB of resident memory", server.process.resident_mib()?, &Asked::Nothing);
        Ok(Looked { baton, load, data, server, _holder: holder })
    }

    fn rows(&self) {
        let name = format!("longest pause of another client, best of {REPETITIONS}: ms");
        println!("{name:62} {:>8} {:>8} {:>8} {:>8}", "without", "with", "beyond", "asked");
        let looked = |commands: &[&[&str]]| {
            best(|| {
                let (alone, ()) = self.watched(|| {
                    thread::sleep(WATCH_MIN);
                    Ok(())
                })?;
                let (looked_at, times) = self.watched(|| self.look(commands))?;
                Ok(Pause { without_ms: alone.longest_ms(), with_ms: looked_at.longest_ms(), times })
            })
        };
        println!("{}", line("locks --json", &looked(&[&["locks", "--json"]])));
        let others: [&[&str]; 3] = [&["status"], &["sessions", "--json"], &["lock-info", HELD_ONE, "--json"]];
        println!("{}", line("status, sessions, lock-info", &looked(&others)));
        println!("{}", line("a snapshot, among 16 clients", &best(|| self.snapshot())));
    }

    /// Watches a client while `during` runs.
    fn watched<T>(&self, during: impl FnOnce() -> Result<T, String>) -> Result<(Watch, T), String> {
        let mut watcher = self.server.load(self.load, &["watch"])?;
        watcher.line(ANSWER_MAX)?;
        let done = during();
        watcher.end_input();
        let report = watcher.json(ANSWER_MAX);
        // Report the error of `during` first: it explains more than a client that was granted nothing.
        let done = done?;
        Ok((Watch::parse(&report?)?, done))
    }

    /// Runs these commands in turn for a while. Returns how many calls there were.
    fn look(&self, commands: &[&[&str]]) -> Result<usize, String> {
        let start = Instant::now();
        let mut calls = 0;
        for args in commands.iter().cycle() {
            let all_were_called = calls >= commands.len();
            if start.elapsed() > LOOK_MAX || (start.elapsed() > WATCH_MIN && all_were_called) {
                break;
            }
            // The command must not take processor time from the server and the client. Usually it runs on another
            // machine.
            let mut command = Command::new("nice");
            command
                .arg("-n19")
                .arg(self.baton)
                .args(*args)
                .args(["--server", &self.server.address])
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let output = command.output().map_err(|error| format!("nice {}: {error}", self.baton.display()))?;
            if !output.status.success() {
                return Err(format!("baton {}: {}", args[0], String::from_utf8_lossy(&output.stderr).trim()));
            }
            calls += 1;
        }
        Ok(calls)
    }

    /// Fills the log until a snapshot was written, and compares that time with the rest of the time.
    fn snapshot(&self) -> Result<Pause, String> {
        let _filling = self.server.load(self.load, FILL_LOG)?;
        let (watch, spans) = self.watched(|| self.snapshot_spans())?;
        let with_ms = watch.longest_ms_where(|pair| spans.iter().any(|span| span.meets(pair)));
        let without_ms = watch.longest_ms_where(|pair| !spans.iter().any(|span| span.meets(pair)));
        Ok(Pause { without_ms, with_ms, times: spans.len() })
    }

    /// Waits for a snapshot and then for some time without one. Returns when snapshots were made.
    fn snapshot_spans(&self) -> Result<Vec<Span>, String> {
        let start = Instant::now();
        let mut changes: Vec<Span> = Vec::new();
        let mut last_change = start;
        let mut seen = snapshots(self.data)?;
        while start.elapsed() < SNAPSHOT_MAX {
            thread::sleep(POLL);
            let before = std::mem::replace(&mut seen, snapshots(self.data)?);
            let is_unfinished = seen.iter().any(|name| name.ends_with(".tmp"));
            if is_unfinished || seen != before {
                last_change = Instant::now();
                changes.push(Span::around_now(SNAPSHOT_BEFORE, SNAPSHOT_AFTER));
            }
            if !changes.is_empty() && last_change.elapsed() > SNAPSHOT_AFTER + WATCH_MIN {
                return Ok(Span::joined(changes));
            }
        }
        Err(format!("no snapshot was finished within {} s", SNAPSHOT_MAX.as_secs()))
    }
}

/// The longest pauses of a client, and how many calls or snapshots there were.
struct Pause {
    without_ms: f64,
    with_ms: f64,
    times: usize,
}

/// The shortest of several longest pauses, because the machine itself may stand still for 50 ms now and then. A pause
/// that the server causes every time shows in the result. A pause that it causes only sometimes cannot be told from the
/// machine's noise.
fn best(mut measure: impl FnMut() -> Result<Pause, String>) -> Result<Pause, String> {
    let mut best = measure()?;
    for _ in 1..REPETITIONS {
        let Pause { without_ms, with_ms, times } = measure()?;
        best.without_ms = best.without_ms.min(without_ms);
        best.with_ms = best.with_ms.min(with_ms);
        best.times += times;
    }
    Ok(best)
}

fn line(name: &str, pause: &Result<Pause, String>) -> String {
    match pause {
        Err(reason) => format!("{name:50} failed: {reason}"),
        Ok(Pause { without_ms, with_ms, times }) => {
            let beyond_ms = with_ms - without_ms;
            let name = format!("{name}, {times} times");
            format!("{name:62} {without_ms:>8.2} {with_ms:>8.2} {beyond_ms:>8.2} {BEYOND_MS_MAX:>8.0}")
        }
    }
}

/// The names of the snapshots in a data folder, including unfinished ones.
fn snapshots(data: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(data).map_err(|error| format!("{}: {error}", data.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.starts_with("snapshot-")).collect())
}

/// Whether a tmpfs is mounted at this path. A line of /proc/mounts is device, path, type, options.
fn is_tmpfs(mounts: &str, path: &str) -> bool {
    let kind = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        (words.next() == Some(path)).then(|| words.next() == Some("tmpfs"))
    };
    // The last mount at a path hides earlier ones.
    mounts.lines().filter_map(kind).next_back().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_a_disk() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid 0 0\n";
        assert!(is_tmpfs(mounts, "/dev/shm"));
        assert!(!is_tmpfs(mounts, "/"));
        assert!(!is_tmpfs(mounts, "/run"));
        assert!(!is_tmpfs(&format!("{mounts}/dev/vdb /dev/shm ext4 rw 0 0\n"), "/dev/shm"));
    }

    #[test]
    fn a_stall_of_the_machine_does_not_count() {
        let mut measured = [(1.0, 50.0), (30.0, 4.0), (2.0, 5.0)].into_iter();
        let pause = best(|| {
            measured.next().map(|(without_ms, with_ms)| Pause { without_ms, with_ms, times: 2 }).ok_or_else(String::new)
        });
        let Pause { without_ms, with_ms, times } = pause.unwrap();
        assert_eq!((without_ms, with_ms, times), (1.0, 4.0, 6));
    }

    #[test]
    fn a_row_tells_what_is_beyond_or_why_there_is_none() {
        let measured = line("locks", &Ok(Pause { without_ms: 1.5, with_ms: 9.0, times: 3 }));
        let words: Vec<&str> = measured.split_whitespace().collect();
        assert_eq!(words, ["locks,", "3", "times", "1.50", "9.00", "7.50", "10"]);
        assert!(line("locks", &Err("too large".to_owned())).ends_with("failed: too large"));
    }
}
