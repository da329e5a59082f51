//! Writes the data folders of `tests/kept/format-3`: see there.

use std::fs;
use std::path::{Path, PathBuf};

use super::cluster::{Seat, leader, seats, simulate};
use super::kept::{disk_of, read, text};
use super::*;
use crate::state::cluster::{self, Secret};
use crate::state::locks::{LockName, Want};
use crate::state::{Principal, RequestNumber};

const SEGMENT_BYTES: usize = 8192;

/// The folder for the data folders, if the caller wants to keep them.
fn target() -> Option<PathBuf> {
    std::env::var_os("KEEP").map(PathBuf::from)
}

fn write(disk: &FakeDisk, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for name in disk.names().into_iter().filter(|name| name != "LOCK") {
        fs::write(folder.join(&name), Disk::read(disk, &name).unwrap()).unwrap();
    }
}

fn expect(state: &State, requests: &str, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let file = |what: &str| PathBuf::from(format!("{}.{what}.txt", folder.display()));
    fs::write(file("expected"), text::seen(state)).unwrap();
    fs::write(file("requests"), requests).unwrap();
    fs::write(file("expected-answers"), text::answers(state, requests)).unwrap();
}

fn caller(port: u16) -> Caller {
    Caller { principal: Principal::Anonymous, from: Some(([192, 0, 2, 7], port).into()) }
}

fn opens(session: u64, ttl_ms: u64, secret_hash: Option<[u8; 32]>, resume: bool) -> Command {
    let (session, label, host) = (SessionId(session), "worker".to_owned(), "web-1".to_owned());
    sessions::Command::Open(sessions::Open {
        session,
        ttl_ms,
        label,
        host,
        pid: 99,
        resume,
        secret_hash,
        caller: caller(1000),
    })
    .into()
}

/// Wants these locks at once, for an owner and the owner that waits for it.
fn claims(session: u64, number: RequestNumber, locks: &[(&str, Mode)], owner: u64, parent: Option<u64>) -> Command {
    let wants = locks.iter().map(|(lock, mode)| Want { lock: LockName::from(lock), mode: *mode }).collect();
    let one = Acquire::one("", Mode::Exclusive, OwnerId(owner));
    let acquire = Acquire { wants, parent: parent.map(OwnerId), timeout_ms: None, lock_delay_ms: 600_000, ..one };
    asks(session, number, Operation::Locks(locks::Operation::Acquire(acquire)))
}

fn asks(session: u64, number: RequestNumber, operation: Operation) -> Command {
    let (seen, missing) = (number.saturating_sub(2).min(number - 1), Vec::new());
    Command::Request(Request { session: SessionId(session), number, seen, missing, caller: caller(1001), operation })
}

/// What format 1 did not have.
fn story(term: u64) -> Vec<Command> {
    use Mode::{Exclusive, Permit, Shared};
    let [a, b, c, d] = [1 << 50, (1 << 50) + 1, (1 << 50) + 2, (1 << 50) + 3];
    let secret = Secret([7; 32]);
    let force = |lock: &str, now| Command::from(locks::Command::Force { lock: lock.into(), now, caller: caller(1002) });
    vec![
        cluster::Command::Found { secret: secret.clone(), max_ttl_ms: 60_000_000 }.into(),
        cluster::Command::SetMaxTtl { max_ttl_ms: 86_400_000 }.into(),
        cluster::Command::RaiseFences { from: 5_000 }.into(),
        opens(a, 5_000_000, Some([1; 32]), false),
        opens(b, 6_000_000, Some([2; 32]), false),
        opens(c, 7_000_000, None, false),
        opens(d, 8_000_000, None, false),
        opens(a, 5_000_000, Some([1; 32]), true),
        opens(b, 6_000_000, Some([3; 32]), true),
        claims(a, 1, &[("left", Exclusive), ("right", Shared), ("pool", Permit { of: 3 })], 1, None),
        claims(b, 1, &[("right", Shared), ("other", Exclusive)], 1, None),
        claims(b, 2, &[("left", Exclusive), ("free", Exclusive)], 2, Some(1)),
        claims(a, 2, &[("other", Exclusive)], 1, None),
        claims(c, 1, &[("left", Shared), ("pool", Permit { of: 3 })], 1, None),
        claims(c, 2, &[("pool", Permit { of: 3 })], 2, None),
        claims(d, 1, &[("pool", Permit { of: 2 })], 1, None),
        claims(d, 2, &[("free", Exclusive)], 3, None),
        asks(d, 3, Operation::Locks(locks::Operation::Cancel { acquire: 2 })),
        claims(d, 4, &[("again", Exclusive)], 3, Some(4)),
        asks(d, 5, Operation::Locks(locks::Operation::Release { acquire: 4 })),
        claims(d, 6, &[("closing", Exclusive)], 3, None),
        claims(c, 3, &[("closing", Exclusive)], 1, None),
        sessions::Command::Expire { session: SessionId(d), term }.into(),
        locks::Command::CancelWait { session: SessionId(c), number: 1 }.into(),
        force("other", false),
        claims(c, 4, &[("forced", Exclusive)], 1, None),
        claims(b, 3, &[("forced", Exclusive)], 3, None),
        force("forced", true),
        opens(d + 1, 1_000, None, false),
        asks(d + 1, 1, Operation::Close),
        opens(d + 1, 1_000, None, false),
    ]
}

/// One command an entry, then two entries of several.
fn entries(commands: Vec<Command>) -> Vec<Entry> {
    let one_each =
        |(at, command): (usize, &Command)| Entry { now_ms: 2_000 + at as u64, commands: vec![command.clone()] };
    let mut entries: Vec<Entry> = commands.iter().enumerate().map(one_each).collect();
    let several = (0..5).map(|at| opens((1 << 51) + at, 9_000_000 + at, None, false)).collect();
    entries.push(Entry { now_ms: 3_000, commands: several });
    let lock = |at: u64| format!("job-{}", at % 3);
    let several = (0..5).map(|at| claims((1 << 51) + at, 1, &[(&lock(at), Mode::Exclusive)], 1, None)).collect();
    entries.push(Entry { now_ms: 2_999, commands: several });
    entries.push(Entry { now_ms: 3_001, commands: Vec::new() });
    entries
}

async fn goes_on(node: &Node) {
    let term = leads(node).await;
    for entry in entries(story(term)) {
        node.propose(entry).await.unwrap().await.unwrap();
    }
    node.state().check().unwrap();
}

#[tokio::test]
async fn folders_of_one_node_are_written() {
    for name in ["log-only", "snapshot-and-log"] {
        let disk = disk_of(name);
        let options = Options { segment_bytes: SEGMENT_BYTES, snapshot_after_bytes: 1 << 30, ..options() };
        let node = Node::open(Arc::new(disk.clone()), options).await.unwrap();
        goes_on(&node).await;
        if let Some(target) = target() {
            expect(&node.state(), &read(&format!("{name}.requests.txt")), &target.join(name));
        }
        node.shutdown().await;
        if let Some(target) = target() {
            write(&disk, &target.join(name));
        }
    }
}

#[test]
fn the_folders_of_three_nodes_are_written() {
    simulate(0, async {
        let seats = seats(3);
        let open =
            |seat: &Seat| Options { segment_bytes: SEGMENT_BYTES, snapshot_after_bytes: 1 << 30, ..seat.options() };
        let mut nodes = Vec::new();
        for seat in &seats {
            nodes.push(seat.start(open(seat)).await.unwrap());
        }
        let members = nodes.iter().zip(&seats).map(|(node, seat)| (node.id(), seat.record())).collect();
        nodes[0].initialize(members).await.unwrap();
        let first = leader(&nodes.iter().collect::<Vec<_>>()).await;
        goes_on(&nodes[first]).await;
        let applied = nodes[first].status().applied;
        for node in &nodes {
            while node.status().applied < applied {
                baton_runtime::sleep(MOMENT).await;
            }
            assert!(node.state() == nodes[first].state());
        }
        let state = nodes[first].state();
        for node in nodes {
            node.shutdown().await;
        }
        if let Some(target) = target() {
            expect(&state, "", &target.join("three-nodes"));
            for (at, seat) in seats.iter().enumerate() {
                write(&seat.disk, &target.join("three-nodes").join(at.to_string()));
            }
        }
    });
}
