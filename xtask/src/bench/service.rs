//! Measures the lock service: locks per second, memory, and time until ready. The service acknowledges a change only
//! when it is on disk, so the disk and the network are also measured alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::floors::{synced_append_us, tcp_round_trip_us};
use super::process::{Process, Scratch, Server};
use super::{Asked, REPETITIONS, builds, looking, row};

/// One client that acquires and releases its own lock. This load and the next two take about 3 s, and at most 6 s on a
/// slow machine.
pub const ONE_CLIENT: &[&str] = &["pairs", "5000", "--seconds", "6"];
/// Many clients, each with its own lock.
pub const OWN_LOCKS: &[&str] = &["pairs", "40000", "--seconds", "6", "--clients", "64", "--locks", "own"];
/// Some clients that request the same lock: each release hands the lock over to the next client.
pub const ONE_LOCK: &[&str] = &["pairs", "6000", "--seconds", "6", "--clients", "16", "--locks", "one"];
/// The same loads for about a second, for two servers that take turns.
pub const ONE_CLIENT_TURN: &[&str] = &["pairs", "1200", "--seconds", "2"];
pub const OWN_LOCKS_TURN: &[&str] = &["pairs", "12000", "--seconds", "2", "--clients", "64", "--locks", "own"];
pub const ONE_LOCK_TURN: &[&str] = &["pairs", "1600", "--seconds", "2", "--clients", "16", "--locks", "one"];
const HELD: &str = "100000";
const LOAD_MAX: Duration = Duration::from_secs(120);
/// The target of pairs per second, for a machine on which a synced append and a round trip together take
/// `FLOORS_ASKED_US`.
const PAIRS_ASKED: f64 = 2000.0;
const FLOORS_ASKED_US: f64 = 85.0 + 59.0;

pub fn run() -> Result<(), String> {
    let (baton, load) = (builds::ours()?, builds::load()?);
    measure(&baton, &load)?;
    looking::run(&baton, &load)
}

fn measure(baton: &Path, load: &Path) -> Result<(), String> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let folder = scratch.path();
    let mut ready_ms = f64::MAX;
    for repetition in 0..REPETITIONS {
        let server = Server::start(baton, &folder.join(format!("empty-{repetition}")))?;
        ready_ms = ready_ms.min(server.ready_s * 1e3);
    }
    row("serve, an empty node: ms until it is ready", ready_ms, &Asked::AtMost(100.0));

    let server = Server::start(baton, &folder.join("pairs"))?;
    let (mut pairs, mut own_locks, mut one_lock) = (0.0_f64, 0.0_f64, 0.0_f64);
    let (mut append_us, mut round_trip_us) = (f64::MAX, f64::MAX);
    for _ in 0..REPETITIONS {
        append_us = append_us.min(synced_append_us(folder)?);
        round_trip_us = round_trip_us.min(tcp_round_trip_us()?);
        pairs = pairs.max(pairs_per_s(&server, load, ONE_CLIENT)?);
        own_locks = own_locks.max(pairs_per_s(&server, load, OWN_LOCKS)?);
        one_lock = one_lock.max(pairs_per_s(&server, load, ONE_LOCK)?);
    }
    drop(server);
    row("the disk alone, a synced append: us", append_us, &Asked::Nothing);
    row("TCP alone, a round trip: us", round_trip_us, &Asked::Nothing);
    row("one client, own lock: acquire+release/s", pairs, &Asked::AtLeast(PAIRS_ASKED));
    let asked_here = PAIRS_ASKED * FLOORS_ASKED_US / (append_us + round_trip_us);
    row("the same, asked in proportion to disk and TCP (85 + 59 us)", pairs, &Asked::AtLeast(asked_here));
    row("64 clients, own locks: acquire+release/s", own_locks, &Asked::Nothing);
    row("16 clients, one lock: handovers/s", one_lock, &Asked::Nothing);

    let mut holding = hold(baton, load, &folder.join("held"))?;
    let held_mib = holding.server.process.resident_mib()?;
    row("100,000 held locks: MiB of resident memory", held_mib, &Asked::AtMost(150.0));
    let again = holding.restart()?;
    row("restart with 100,000 held locks: s", again.ready_s, &Asked::AtMost(2.0));
    row("the same: MiB of resident memory", again.process.resident_mib()?, &Asked::AtMost(150.0));
    Ok(())
}

/// Runs one of the loads above to its end.
pub fn pairs_per_s(server: &Server, load: &Path, args: &[&str]) -> Result<f64, String> {
    let report = server.load(load, args)?.json(LOAD_MAX)?;
    report["pairs_per_s"].as_f64().ok_or_else(|| "the load reports no pairs_per_s".to_owned())
}

/// A server that has granted 100,000 locks.
pub struct Holding {
    pub server: Server,
    baton: PathBuf,
    data: PathBuf,
    /// The client that holds the locks.
    _holder: Process,
}

/// Starts a server, and a client that holds 100,000 locks.
pub fn hold(baton: &Path, load: &Path, data: &Path) -> Result<Holding, String> {
    let server = Server::start(baton, data)?;
    let mut holder = server.load(load, &["hold", HELD])?;
    holder.line(LOAD_MAX)?;
    Ok(Holding { server, baton: baton.to_owned(), data: data.to_owned(), _holder: holder })
}

impl Holding {
    /// Kills the server and starts it again. The new server recovers only what was on disk.
    pub fn restart(&mut self) -> Result<&Server, String> {
        self.server.process.kill();
        self.server = Server::start_at(&self.baton, &self.data, &self.server.address)?;
        Ok(&self.server)
    }
}
