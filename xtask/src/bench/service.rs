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

const READY: &str = "serve, an empty node: ms until it is ready";
const DISK: &str = "the disk alone, a synced append: us";
const TCP: &str = "TCP alone, a round trip: us";
const PAIRS: &str = "one client, own lock: acquire+release/s";
const IN_PROPORTION: &str = "the same, asked in proportion to disk and TCP (85 + 59 us)";
const OWN_PAIRS: &str = "64 clients, own locks: acquire+release/s";
const HANDOVERS: &str = "16 clients, one lock: handovers/s";
const HELD_MIB: &str = "100,000 held locks: MiB of resident memory";
const RESTART: &str = "restart with 100,000 held locks: s";
const RESTART_MIB: &str = "the same: MiB of resident memory";
/// An acquire behind a line of waiters. Its owner holds a lock that another owner waits for, so the server looks for a
/// deadlock.
const BEHIND: [(&str, &str, &str); 3] = [
    (
        "10",
        "behind 10 waiters: an acquire, its cancel and a pair: us",
        "behind 10 waiters: an acquire refused as a deadlock: us",
    ),
    ("1000", "behind 1,000 waiters: the same: us", "behind 1,000 waiters: a refused acquire: us"),
    ("100000", "behind 100,000 waiters: the same: us", "behind 100,000 waiters: a refused acquire: us"),
];
/// The target: the cost does not grow with the line. The rest is for noise.
const BEHIND_MORE: f64 = 1.5;
/// The rows of one server, in the order of the table.
const LOADED: [&str; 6] = [DISK, TCP, PAIRS, IN_PROPORTION, OWN_PAIRS, HANDOVERS];
/// The rows of a server with many held locks.
const HOLDING: [&str; 3] = [HELD_MIB, RESTART, RESTART_MIB];

/// The rows to measure: those whose names contain `only`.
struct Rows<'a> {
    only: &'a str,
}

impl Rows<'_> {
    fn have_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| name.contains(self.only))
    }

    fn show(&self, name: &str, measured: f64, asked: &Asked) {
        if self.have_any(&[name]) {
            row(name, measured, asked);
        }
    }
}

/// With `only`, measures the rows whose names contain it, and not `looking`.
pub fn run(only: Option<&str>) -> Result<(), String> {
    let rows = Rows { only: only.unwrap_or_default() };
    let behind = BEHIND.map(|(_, waits, refused)| [waits, refused]).concat();
    let names = [&[READY], &LOADED[..], &behind, &HOLDING].concat();
    if !rows.have_any(&names) {
        return Err(format!("no row has {:?} in its name; the rows are:\n  {}", rows.only, names.join("\n  ")));
    }
    let (baton, load) = (builds::ours()?, builds::load()?);
    let scratch = Scratch::new(&std::env::temp_dir())?;
    if rows.have_any(&[READY]) {
        ready(&baton, scratch.path())?;
    }
    if rows.have_any(&LOADED) {
        loaded(&rows, &baton, &load, scratch.path())?;
    }
    if rows.have_any(&behind) {
        lines(&rows, &baton, &load, scratch.path())?;
    }
    if rows.have_any(&HOLDING) {
        holding(&rows, &baton, &load, scratch.path())?;
    }
    drop(scratch);
    if only.is_none() { looking::run(&baton, &load) } else { Ok(()) }
}

fn ready(baton: &Path, folder: &Path) -> Result<(), String> {
    let mut ready_ms = f64::MAX;
    for repetition in 0..REPETITIONS {
        let server = Server::start(baton, &folder.join(format!("empty-{repetition}")))?;
        ready_ms = ready_ms.min(server.ready_s * 1e3);
    }
    row(READY, ready_ms, &Asked::AtMost(100.0));
    Ok(())
}

fn loaded(rows: &Rows, baton: &Path, load: &Path, folder: &Path) -> Result<(), String> {
    let server = Server::start(baton, &folder.join("pairs"))?;
    let best = |names: &[&str], rate: f64, args: &[&str]| match rows.have_any(names) {
        true => pairs_per_s(&server, load, args).map(|measured| rate.max(measured)),
        false => Ok(rate),
    };
    let (mut pairs, mut own_locks, mut one_lock) = (0.0_f64, 0.0_f64, 0.0_f64);
    let (mut append_us, mut round_trip_us) = (f64::MAX, f64::MAX);
    for _ in 0..REPETITIONS {
        append_us = append_us.min(synced_append_us(folder)?);
        round_trip_us = round_trip_us.min(tcp_round_trip_us()?);
        pairs = best(&[PAIRS, IN_PROPORTION], pairs, ONE_CLIENT)?;
        own_locks = best(&[OWN_PAIRS], own_locks, OWN_LOCKS)?;
        one_lock = best(&[HANDOVERS], one_lock, ONE_LOCK)?;
    }
    rows.show(DISK, append_us, &Asked::Nothing);
    rows.show(TCP, round_trip_us, &Asked::Nothing);
    rows.show(PAIRS, pairs, &Asked::AtLeast(PAIRS_ASKED));
    let asked_here = PAIRS_ASKED * FLOORS_ASKED_US / (append_us + round_trip_us);
    rows.show(IN_PROPORTION, pairs, &Asked::AtLeast(asked_here));
    rows.show(OWN_PAIRS, own_locks, &Asked::Nothing);
    rows.show(HANDOVERS, one_lock, &Asked::Nothing);
    Ok(())
}

/// Each length of the line has a server of its own.
fn lines(rows: &Rows, baton: &Path, load: &Path, folder: &Path) -> Result<(), String> {
    let mut shortest = None;
    for (waiters, waits, refused) in BEHIND {
        // More than the default, which would refuse the acquire behind the longest line.
        let server = Server::start_with(baton, &folder.join(format!("behind-{waiters}")), &["--max-waiters=1000000"])?;
        let report = server.load(load, &["behind", waiters])?.json(LOAD_MAX)?;
        let number = |key: &str| report[key].as_f64().ok_or_else(|| format!("the load reports no {key}"));
        let (waits_us, refused_us) = (number("waits_us")?, number("refused_us")?);
        let asked = |us: f64| Asked::AtMost(BEHIND_MORE * us);
        let (of_waits, of_refused) = match shortest {
            None => (Asked::Nothing, Asked::Nothing),
            Some((waits_us, refused_us)) => (asked(waits_us), asked(refused_us)),
        };
        rows.show(waits, waits_us, &of_waits);
        rows.show(refused, refused_us, &of_refused);
        shortest.get_or_insert((waits_us, refused_us));
    }
    Ok(())
}

fn holding(rows: &Rows, baton: &Path, load: &Path, folder: &Path) -> Result<(), String> {
    let mut holding = hold(baton, load, &folder.join("held"))?;
    rows.show(HELD_MIB, holding.server.process.resident_mib()?, &Asked::AtMost(150.0));
    if rows.have_any(&[RESTART, RESTART_MIB]) {
        let again = holding.restart()?;
        rows.show(RESTART, again.ready_s, &Asked::AtMost(2.0));
        rows.show(RESTART_MIB, again.process.resident_mib()?, &Asked::AtMost(150.0));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_chooses_the_rows_with_it_in_their_names() {
        let chosen = |only| LOADED.into_iter().filter(|name| Rows { only }.have_any(&[name])).collect::<Vec<_>>();
        assert_eq!(chosen("one lock"), [HANDOVERS]);
        assert_eq!(chosen("acquire"), [PAIRS, OWN_PAIRS]);
        assert_eq!(chosen(""), LOADED);
    }

    #[test]
    fn a_text_in_no_name_is_refused_before_anything_is_built() {
        let refusal = run(Some("no such row")).unwrap_err();
        assert!(refusal.starts_with("no row has \"no such row\" in its name; the rows are:\n  serve"), "{refusal}");
    }
}
