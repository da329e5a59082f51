//! One process of `baton demo counter --real`. `baton demo` starts it, and both talk over a socket pair that is the
//! worker's standard output: the worker writes one [`Report`] a line and reads the byte that means "go". When the other
//! end is closed, the worker ends. So no worker outlives the demonstration. The worker's standard input is its
//! listener, which is bound before any worker starts: no other program can take the address meanwhile.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use baton_peer::{Member, Options, PeerGroup};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

use crate::output::{Failure, Outcome};

/// One process of `baton demo counter --real`
#[derive(clap::Args)]
pub struct Args {
    /// The file with the counter
    #[arg(long)]
    pub counter: PathBuf,
    #[arg(long)]
    pub increments: u64,
    /// The file of the group. Without it the worker takes no lock
    #[arg(long)]
    pub group: Option<PathBuf>,
    #[arg(long)]
    pub id: usize,
}

/// A line from a worker to `baton demo`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The worker waits for "go".
    Ready,
    /// The worker has made all its increments. It still answers the other workers.
    Done,
    /// The last line.
    End { made: u64, messages: u64 },
    /// The last line of a worker that cannot go on.
    Failed(String),
}

/// The lock of the workers.
const LOCK: &[u8] = b"counter";
/// How long a worker waits for the others to start.
pub const START_WITHIN: Duration = Duration::from_secs(30);
/// The time between a read and the write that follows. Other processes run meanwhile, so that updates are lost without
/// a lock.
pub const PAUSE: Duration = Duration::from_micros(20);

/// A counter in a file: 20 digits, so that every write replaces the whole number.
pub struct Counter(File);

impl Counter {
    const DIGITS: usize = 20;

    pub fn create(path: &Path) -> io::Result<Self> {
        let counter = Counter(OpenOptions::new().read(true).write(true).create_new(true).open(path)?);
        counter.write(0)?;
        Ok(counter)
    }

    fn open(path: &Path) -> io::Result<Self> {
        Ok(Counter(OpenOptions::new().read(true).write(true).open(path)?))
    }

    pub fn read(&self) -> io::Result<u64> {
        let mut digits = [0; Self::DIGITS];
        self.0.read_exact_at(&mut digits, 0)?;
        let number = std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| io::Error::other("the file of the counter contains no number"))
    }

    fn write(&self, number: u64) -> io::Result<()> {
        self.0.write_all_at(format!("{number:020}\n").as_bytes(), 0)
    }

    fn increment(&self) -> io::Result<()> {
        let number = self.read()?;
        thread::sleep(PAUSE);
        self.write(number + 1)
    }
}

pub fn run(args: &Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(async {
        let mut control = Control::new().map_err(|error| Failure::bad_input(format!("no standard output: {error}")))?;
        let last = match work(args, &mut control).await {
            Ok(end) => end,
            Err(error) => Report::Failed(error.to_string()),
        };
        // If `baton demo` is gone, no process waits for the report.
        let _ = control.tell(&last).await;
        Ok(ExitCode::SUCCESS)
    })
}

async fn work(args: &Args, control: &mut Control) -> Result<Report, Box<dyn std::error::Error>> {
    let counter = Counter::open(&args.counter)?;
    match &args.group {
        None => {
            control.ready().await?;
            (0..args.increments).try_for_each(|_| counter.increment())?;
            control.tell(&Report::Done).await?;
            control.closed().await;
            Ok(Report::End { made: args.increments, messages: 0 })
        }
        Some(group) => {
            let options = Options { listener: Some(inherited()?), start_within: START_WITHIN, ..Options::default() };
            let member = Member::join(&PeerGroup::read(group)?, args.id, options).await?;
            control.ready().await?;
            let made = increment_locked(args.increments, &counter, &member, control).await?;
            if made == args.increments {
                control.tell(&Report::Done).await?;
                control.closed().await;
            }
            let messages = member.shutdown().await.messages;
            Ok(Report::End { made, messages })
        }
    }
}

/// Returns the number of increments: fewer than `increments` if `baton demo` wants no more.
async fn increment_locked(
    increments: u64,
    counter: &Counter,
    member: &Member,
    control: &mut Control,
) -> Result<u64, Box<dyn std::error::Error>> {
    let lock = member.lock(LOCK)?;
    for made in 0..increments {
        let grant = tokio::select! {
            biased;
            () = control.closed() => return Ok(made),
            grant = lock.acquire() => grant?,
        };
        counter.increment()?;
        grant.release();
        // An algorithm may grant again at once. The member has to answer the others, too.
        tokio::task::yield_now().await;
    }
    Ok(increments)
}

/// The listener that `baton demo` has bound.
fn inherited() -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The connection with `baton demo`.
struct Control(UnixStream);

impl Control {
    fn new() -> io::Result<Self> {
        let stream = std::os::unix::net::UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream).map(Control)
    }

    async fn tell(&mut self, report: &Report) -> io::Result<()> {
        let line = serde_json::to_string(report)? + "\n";
        self.0.write_all(line.as_bytes()).await
    }

    /// Waits for "go".
    async fn ready(&mut self) -> io::Result<()> {
        self.tell(&Report::Ready).await?;
        self.0.read_u8().await.map(drop)
    }

    /// Waits until `baton demo` has closed its end. Safe to drop.
    async fn closed(&mut self) {
        let mut byte = [0];
        while self.0.read(&mut byte).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_and_is_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counter");
        let counter = Counter::create(&path).unwrap();
        let same = Counter::open(&path).unwrap();
        counter.increment().unwrap();
        same.increment().unwrap();
        assert_eq!(counter.read().unwrap(), 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "00000000000000000002\n");
        assert!(Counter::create(&path).is_err(), "the file is there");
        std::fs::write(&path, "many").unwrap();
        assert!(counter.read().is_err());
    }
}
