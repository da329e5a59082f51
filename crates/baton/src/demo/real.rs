//! `baton demo counter --real`: starts the workers and waits for them.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_peer::{GroupError, GroupFile, MEMBERS_MAX, PeerGroup};
use baton_protocol::registry::About;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Counted;
use super::worker::{Counter, Report, START_WITHIN};
use crate::group::usual_variant;
use crate::output::{Failure, VIOLATED};
use crate::peer::Signals;
use crate::progress::Progress;

/// How often to look whether the workers go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The workers are stuck if the counter does not change in this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bound on delays between processes of one machine. Only back-offs depend on it.
const DELAY_MAX_MS: u64 = 1;

/// Counts with that many processes. No algorithm: without a lock.
pub fn count(algorithm: Option<&About>, processes: usize, increments: u64) -> Result<Counted, Failure> {
    if processes > MEMBERS_MAX {
        return Err(Failure::bad_input(GroupError::TooMany { members: processes }));
    }
    let listeners = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>();
    let listeners = listeners.map_err(|error| cannot("listen on 127.0.0.1", &error))?;
    let addresses = listeners.iter().map(|listener| listener.local_addr().map(|address| address.to_string()));
    let addresses = addresses.collect::<io::Result<_>>().map_err(|error| cannot("listen on 127.0.0.1", &error))?;
    let group = algorithm.map(|about| group(about, addresses)).transpose().map_err(Failure::bad_input)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot("start the event loop", &error))?;
    let folder = tempfile::tempdir().map_err(|error| cannot("make a folder for the counter", &error))?;
    runtime.block_on(async {
        let mut signals = Signals::new(false)?;
        let counter = Counter::create(&folder.path().join("counter"));
        let counter = counter.map_err(|error| cannot("make the file of the counter", &error))?;
        let mut crew = Crew::start(folder.path(), group.as_ref(), increments, listeners)?;
        let counted = tokio::select! {
            counted = crew.count(&counter) => counted,
            () = signals.stop() => Err(failed("a signal stopped the demonstration".into())),
        };
        crew.progress.finish();
        counted
    })
}

fn group(about: &About, members: Vec<String>) -> Result<PeerGroup, GroupError> {
    let plain = GroupFile::new(about.name, members);
    PeerGroup::new(GroupFile { variant: usual_variant(about), delay_max_ms: DELAY_MAX_MS, ..plain })
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    failed(format!("cannot {what}: {error}"))
}

fn failed(message: String) -> Failure {
    Failure { message, status: ExitCode::from(VIOLATED) }
}

/// The workers. They are ended and waited for when this is dropped.
struct Crew {
    children: Vec<Child>,
    controls: Vec<OwnedWriteHalf>,
    /// None: the worker has ended without a last report.
    reports: mpsc::Receiver<(usize, Option<Report>)>,
    /// The tasks that read the reports.
    readers: JoinSet<()>,
    progress: Progress,
    /// Number of increments of all workers.
    expected: u64,
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Crew {
    fn start(
        folder: &Path,
        group: Option<&PeerGroup>,
        increments: u64,
        listeners: Vec<TcpListener>,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| cannot("find this program", &error))?;
        let file = folder.join("group.toml");
        if let Some(group) = group {
            let text = toml::to_string(group.file()).map_err(Failure::bad_input)?;
            std::fs::write(&file, text).map_err(|error| cannot("write the file of the group", &error))?;
        }
        let (sender, reports) = mpsc::channel(listeners.len());
        let mut crew = Crew {
            children: Vec::new(),
            controls: Vec::new(),
            reports,
            readers: JoinSet::new(),
            progress: Progress::bar(
                group.map_or("counting without a lock".into(), |group| format!("counting with {}", group.about().name)),
            ),
            expected: increments.saturating_mul(listeners.len() as u64),
        };
        for (id, listener) in listeners.into_iter().enumerate() {
            let not_started = |error| cannot(&format!("start process {id}"), &error);
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(not_started)?;
            let mut command = Command::new(&program);
            command.arg("demo-worker").arg("--counter").arg(folder.join("counter"));
            command.args(["--increments", &increments.to_string(), "--id", &id.to_string()]);
            if group.is_some() {
                command.arg("--group").arg(&file);
            }
            command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::from(OwnedFd::from(theirs)));
            crew.children.push(command.spawn().map_err(not_started)?);
            ours.set_nonblocking(true).map_err(not_started)?;
            let (lines, control) = UnixStream::from_std(ours).map_err(not_started)?.into_split();
            crew.controls.push(control);
            crew.readers.spawn(read_reports(id, lines, sender.clone()));
        }
        Ok(crew)
    }

    async fn count(&mut self, counter: &Counter) -> Result<Counted, Failure> {
        // The workers themselves notice that the group is not complete in time, and say which member is missing.
        let is_ready = self.wait_for_all(counter, START_WITHIN + PATIENCE, |report| *report == Report::Ready).await?;
        if !is_ready {
            return Err(failed("the processes did not start in time".into()));
        }
        let begun = Instant::now();
        for control in &mut self.controls {
            control.write_u8(b'!').await.map_err(|error| cannot("start the count", &error))?;
        }
        // Processes that are stuck are stopped, and then say how far they came.
        self.wait_for_all(counter, PATIENCE, |report| *report == Report::Done).await?;
        let time = begun.elapsed().as_secs_f64();
        self.controls.clear();
        let (mut made, mut messages) = (0, 0);
        let add = |report: &Report| match report {
            Report::End { made: its_own, messages: sent } => {
                made += its_own;
                messages += sent;
                true
            }
            _ => false,
        };
        let has_ended = self.wait_for_all(counter, PATIENCE, add).await?;
        if !has_ended {
            return Err(failed("the processes did not end in time".into()));
        }
        let total = counter.read().map_err(|error| cannot("read the counter", &error))?;
        Ok(Counted { total, made, messages, time })
    }

    /// Waits until every worker has sent such a report. False if nothing changed for so long.
    async fn wait_for_all(
        &mut self,
        counter: &Counter,
        patience: Duration,
        mut is_right: impl FnMut(&Report) -> bool,
    ) -> Result<bool, Failure> {
        let mut missing = self.children.len();
        let mut looks = interval(LOOK_EVERY);
        // If this process was stopped for a while, that counts as one look, not as many.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looks_max = patience.as_millis() / LOOK_EVERY.as_millis();
        let (mut last, mut idle) = (None, 0);
        while missing > 0 {
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some((id, Some(Report::Failed(why)))) => return Err(failed(format!("process {id} failed: {why}"))),
                    Some((_, Some(report))) if is_right(&report) => (missing, idle) = (missing - 1, 0),
                    Some((_, Some(_))) => {}
                    Some((id, None)) => return Err(self.ended_early(id)),
                    None => return Err(failed("all processes ended too early".into())),
                },
                _ = looks.tick() => {
                    let now = counter.read().ok();
                    self.progress.at(now.unwrap_or_default() as f64 / self.expected as f64);
                    idle = if now == last { idle + 1 } else { 0 };
                    last = now;
                    if idle > looks_max {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn ended_early(&mut self, id: usize) -> Failure {
        // A worker closes its socket only by ending.
        let how = self.children[id].wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        failed(format!("process {id} ended too early: {how}"))
    }
}

/// Passes on the reports of one worker, until its last one.
async fn read_reports(id: usize, lines: OwnedReadHalf, reports: mpsc::Sender<(usize, Option<Report>)>) {
    let mut lines = BufReader::new(lines).lines();
    loop {
        let line = lines.next_line().await.ok().flatten();
        let report = line.map(|line| {
            serde_json::from_str(&line).unwrap_or_else(|_| Report::Failed(format!("it reported {line:?}")))
        });
        let is_last = matches!(report, None | Some(Report::End { .. } | Report::Failed(_)));
        if reports.send((id, report)).await.is_err() || is_last {
            return;
        }
    }
}
