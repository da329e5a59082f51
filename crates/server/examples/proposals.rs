//! Measures how many proposals per second one node makes durable and applies, and how long it takes to start.
//!
//!     cargo run --release -p baton-server --example proposals [FOLDER]

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_server::raft::{Leadership, Node, Options};
use baton_state::state::locks::{Acquire, Mode, Operation};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{self, Caller, Command, Entry, OwnerId, Request, SessionId};
use baton_store::Folder;

type Anything = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Anything> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/proposals".to_owned());
    if std::fs::exists(&folder)? {
        std::fs::remove_dir_all(&folder)?;
    }
    let node = start("an empty node", &folder).await?;
    for proposers in [1, 64] {
        closed_loop(&node, proposers, Duration::from_secs(3)).await?;
    }
    println!("before the locks: {} resident", resident()?);
    hold(&node, 100_000).await?;
    println!("100,000 locks held: {} resident", resident()?);
    closed_loop(&node, 1, Duration::from_secs(3)).await?;
    Arc::into_inner(node).ok_or("the node is still in use")?.shutdown().await;
    let node = start("a node with 100,000 locks", &folder).await?;
    println!("started again: {} resident", resident()?);
    Arc::into_inner(node).ok_or("the node is still in use")?.shutdown().await;
    Ok(())
}

async fn start(what: &str, folder: &str) -> Result<Arc<Node>, Anything> {
    let before = Instant::now();
    let node = Node::open(Arc::new(Folder::open(folder)?), Options::default()).await?;
    let mut leadership = node.leadership();
    leadership.wait_for(|now| matches!(now, Leadership::Leads { .. })).await?;
    println!("{what} leads after {:?}", before.elapsed());
    Ok(Arc::new(node))
}

fn open(session: u64) -> Entry {
    let (label, host) = ("bench".to_owned(), "here".to_owned());
    let (session, secret_hash, caller) = (SessionId(session), None, Caller::default());
    let open = Open { session, ttl_ms: 10_000, label, host, pid: 1, resume: false, secret_hash, caller };
    Entry { now_ms: 1, commands: vec![sessions::Command::Open(open).into()] }
}

fn request(session: u64, number: u64, operation: Operation) -> Entry {
    let (session, seen, missing) = (SessionId(session), number - 1, Vec::new());
    let (caller, operation) = (Caller::default(), state::Operation::Locks(operation));
    let command = Command::Request(Request { session, number, seen, missing, caller, operation });
    Entry { now_ms: 1, commands: vec![command] }
}

fn acquire(lock: String, session: u64) -> Operation {
    let acquire = Acquire::one(&lock, Mode::Exclusive, OwnerId(session));
    Operation::Acquire(Acquire { timeout_ms: Some(0), ..acquire })
}

/// Each proposer acquires and releases its own lock, and waits for each answer.
async fn closed_loop(node: &Arc<Node>, proposers: u64, length: Duration) -> Result<(), Anything> {
    let end = Instant::now() + length;
    let tasks = (1..=proposers).map(|session| {
        let node = node.clone();
        tokio::spawn(async move {
            node.propose(open(session)).await?.await?;
            let mut number = 0;
            while Instant::now() < end {
                let acquired = request(session, number + 1, acquire(format!("lock {session}"), session));
                let released = request(session, number + 2, Operation::Release { acquire: number + 1 });
                node.propose(acquired).await?.await?;
                node.propose(released).await?.await?;
                number += 2;
            }
            let close = Entry {
                now_ms: 1,
                commands: vec![sessions::Command::Expire { session: SessionId(session), term: 1 }.into()],
            };
            node.propose(close).await?.await?;
            Ok::<u64, baton_server::raft::ProposeError>(number)
        })
    });
    let mut total = 0;
    for task in tasks.collect::<Vec<_>>() {
        total += task.await??;
    }
    println!("{proposers} proposers: {:.0} proposals a second", total as f64 / length.as_secs_f64());
    Ok(())
}

/// Holds the locks with a hundred locks per session.
async fn hold(node: &Node, locks: u64) -> Result<(), Anything> {
    let before = Instant::now();
    let mut pending = Vec::new();
    for session in 0..locks / 100 {
        pending.push(node.propose(open(1_000_000 + session)).await?);
        for number in 1..=100 {
            let lock = format!("held/{session}/{number}");
            pending.push(node.propose(request(1_000_000 + session, number, acquire(lock, session))).await?);
        }
    }
    for pending in pending {
        pending.await?;
    }
    println!("{locks} locks acquired, pipelined, in {:?}", before.elapsed());
    Ok(())
}

fn resident() -> Result<String, Anything> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?.trim().to_owned())
}
