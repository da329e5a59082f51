//! Measures groups of real processes, without a server: the speed of the algorithms beside that of TCP alone, and the
//! memory of a member.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::{Process, Scratch};
use super::{Asked, REPETITIONS, builds, row};
use crate::output;

/// The algorithms with a token, which pass it on with one message.
const TOKENS: [&str; 2] = ["raymond", "suzuki-kasami"];
const SECONDS: &str = "2";
/// A handover takes some microseconds, and any other work of the machine delays it: many short measurements find a
/// quiet moment.
const ROUNDS: usize = 8;
const ROUND_SECONDS: &str = "0.5";
const ROUND_PINGS: &str = "20000";
const RESOURCES: &str = "10000";
const WITHIN: Duration = Duration::from_secs(120);

/// Prints the rows.
pub fn run() -> Result<(), String> {
    let bench = Bench { load: builds::peer_load()?, scratch: Scratch::new(&std::env::temp_dir())? };
    for algorithm in TOKENS {
        let pairs = bench.home(algorithm)?;
        row(&format!("{algorithm}, the token at home: acquire+release/s"), pairs, &Asked::AtLeast(1e6));
    }
    bench.handovers()?;
    for algorithm in TOKENS {
        bench.memory(algorithm)?;
    }
    for algorithm in output(Command::new(&bench.load).arg("algorithms"))?.lines() {
        let Turns { entries_per_s, messages_per_entry, .. } = bench.turns(algorithm, 5, SECONDS)?;
        row(&format!("{algorithm}, 5 processes that all want: entries/s"), entries_per_s, &Asked::Nothing);
        row("  messages per entry", messages_per_entry, &Asked::Nothing);
    }
    Ok(())
}

struct Bench {
    load: PathBuf,
    scratch: Scratch,
}

/// What happened at all members of a group together.
struct Turns {
    entries_per_s: f64,
    handovers_per_s: f64,
    messages_per_entry: f64,
}

impl Bench {
    /// Member 0 works; it has the token at first. Two others are idle.
    fn home(&self, algorithm: &str) -> Result<f64, String> {
        let mut best = 0.0_f64;
        for _ in 0..REPETITIONS {
            let mut members = self.group(algorithm, &[&["home", SECONDS], &["idle"], &["idle"]])?;
            best = best.max(number(&mut members[0], "pairs_per_s")?);
        }
        Ok(best)
    }

    /// The time of a handover beside that of a plain message. The measurements take turns, because the speed of the
    /// machine may change.
    fn handovers(&self) -> Result<(), String> {
        let (mut plain_us, mut handover_us, mut again) = (f64::MAX, [f64::MAX; 2], [0.0; 2]);
        for _ in 0..ROUNDS {
            plain_us = plain_us.min(self.ping_us()?);
            for (at, algorithm) in TOKENS.iter().enumerate() {
                let turns = self.turns(algorithm, 2, ROUND_SECONDS)?;
                let us = 1e6 / turns.handovers_per_s;
                if us < handover_us[at] {
                    (handover_us[at], again[at]) = (us, turns.entries_per_s / turns.handovers_per_s);
                }
            }
        }
        row("TCP alone, two processes: us for one way", plain_us, &Asked::Nothing);
        for (at, algorithm) in TOKENS.iter().enumerate() {
            let name = format!("{algorithm}, two processes that want: us a handover, 3 x TCP");
            row(&name, handover_us[at], &Asked::AtMost(3.0 * plain_us));
            row("  entries between two handovers", again[at], &Asked::Nothing);
        }
        Ok(())
    }

    fn ping_us(&self) -> Result<f64, String> {
        let mut echo = Process::start("echo", Command::new(&self.load).arg("echo"))?;
        let address = echo.line(WITHIN)?;
        let mut ping = Process::start("ping", Command::new(&self.load).args(["ping", &address, ROUND_PINGS]))?;
        number(&mut ping, "one_way_us")
    }

    fn turns(&self, algorithm: &str, size: usize, seconds: &str) -> Result<Turns, String> {
        // Two callers: a member that leaves wants to enter again at once.
        let load: &[&str] = &["turns", seconds, "2"];
        let mut members = self.group(algorithm, &vec![load; size])?;
        let (mut entries_per_s, mut handovers_per_s, mut messages_per_s) = (0.0, 0.0, 0.0);
        for member in &mut members {
            let report = member.json(WITHIN)?;
            let rate = |key: &str| Some(report[key].as_f64()? / report["seconds"].as_f64()?);
            let known = |key: &str| rate(key).ok_or(format!("the report of {algorithm} has no {key}: {report}"));
            entries_per_s += known("entries")?;
            handovers_per_s += known("handovers")?;
            messages_per_s += known("messages")?;
        }
        Ok(Turns { entries_per_s, handovers_per_s, messages_per_entry: messages_per_s / entries_per_s })
    }

    fn memory(&self, algorithm: &str) -> Result<(), String> {
        let load: &[&str] = &["hold", RESOURCES];
        let mut members = self.group(algorithm, &[load; 10])?;
        let most = |members: &[Process]| -> Result<f64, String> {
            members.iter().try_fold(0.0_f64, |most, member| Ok(most.max(member.resident_mib()?)))
        };
        members.iter_mut().try_for_each(|member| number(member, "held").map(drop))?;
        let name = format!("{algorithm}, 10 members, 10,000 locks held: MiB, largest");
        row(&name, most(&members)?, &Asked::AtMost(200.0));
        members.iter_mut().for_each(Process::end_input);
        members.iter_mut().try_for_each(|member| number(member, "requested").map(drop))?;
        row("  the same, another member waits for each lock", most(&members)?, &Asked::AtMost(200.0));
        Ok(())
    }

    /// Starts one member for each load.
    fn group(&self, algorithm: &str, loads: &[&[&str]]) -> Result<Vec<Process>, String> {
        let file = self.scratch.path().join("group.toml");
        let text = format!("algorithm = {algorithm:?}\nmembers = {:?}\n", free_addresses(loads.len())?);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        loads.iter().enumerate().map(|(id, load)| self.member(algorithm, &file, id, load)).collect()
    }

    fn member(&self, algorithm: &str, file: &Path, id: usize, load: &[&str]) -> Result<Process, String> {
        let mut command = Command::new(&self.load);
        command.arg(file).arg(id.to_string()).args(load);
        Process::start(&format!("{algorithm}, member {id}, {}", load.join(" ")), &mut command)
    }
}

/// Reads the next line of a process, and takes a number from it.
fn number(process: &mut Process, key: &str) -> Result<f64, String> {
    let report = process.json(WITHIN)?;
    report[key].as_f64().ok_or_else(|| format!("a report has no {key}: {report}"))
}

/// Addresses with ports that are free now.
fn free_addresses(count: usize) -> Result<Vec<String>, String> {
    let listeners: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let addresses = listeners.and_then(|listeners| {
        listeners.iter().map(|listener| listener.local_addr().map(|address| address.to_string())).collect()
    });
    addresses.map_err(|error| format!("there is no free port: {error}"))
}
