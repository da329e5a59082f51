//! Runs a command under a lease: the side of `baton lock`.
//!
//! The watchdog does the work; this side tells it of renewals and signals, and stands by. It follows the same schedule, and
//! if the watchdog is stopped or killed it ends the command itself: it is the next subreaper, so that all that the watchdog
//! leaves behind becomes its own.

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpid};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::channel::{Exit, Instruction, Lines, WatchdogReport, bequeath, line};
use super::clock::{now_ms, wait_until};
use super::signals::Signals;
use super::supervisor::{Action, Input, Reason, Supervisor};
use super::terminal::Terminal;
use super::{CANNOT_RUN, Ending, MYSELF, tree};

/// How long to wait before what did not die is killed again.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// How long to try at least, even if the lease is over.
const LAST_TRY_MS: u64 = 1_000;

/// What becomes of the lease that a command runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It ends then.
    Until {
        /// In milliseconds of CLOCK_BOOTTIME.
        deadline_ms: u64,
    },
    /// Somebody forces us to give back the lock.
    Revoked,
    /// The lock is no longer ours.
    Lost,
}

/// A command to run under a lease.
pub struct Job {
    /// The TTL of the lease.
    pub ttl_ms: u64,
    /// Its end as of now.
    pub deadline_ms: u64,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What the command finds in its environment.
    pub environment: Vec<(&'static str, OsString)>,
}

/// How a run ended.
pub struct Ended {
    /// How the time under the lock did.
    pub ending: Ending,
    /// Processes that could not be ended before the lease was.
    pub left: Vec<Pid>,
}

/// Runs a command under a lease. When this returns, nothing of the command is left, or `left` says what is.
pub async fn run(job: &Job, lease: mpsc::Receiver<Lease>, signals: &mut Signals) -> io::Result<Ended> {
    // Children that whoever became us by exec had are not ours to end.
    let strangers = tree::descendants(getpid(), &[])?;
    prctl::set_child_subreaper(true)?;
    let (watchdog, orders, reports) = start_watchdog(job)?;
    let mut run = Run {
        supervisor: Supervisor::new(job.ttl_ms, job.deadline_ms),
        lease,
        watchdog,
        orders,
        reports,
        lines: Lines::default(),
        terminal: Terminal::find(),
        strangers,
        group: None,
        ended: None,
        killing: false,
    };
    let ended = run.supervise(signals).await;
    let returned = run.terminal.take_back();
    if ended.is_err() {
        run.abandon()?;
    }
    returned?;
    ended
}

fn start_watchdog(job: &Job) -> io::Result<(Child, pipe::Sender, pipe::Receiver)> {
    let (their_orders, our_orders) = io::pipe()?;
    let (our_reports, their_reports) = io::pipe()?;
    let (orders, reports) = (bequeath(&their_orders)?.to_string(), bequeath(&their_reports)?.to_string());
    let (ttl_ms, deadline_ms) = (job.ttl_ms.to_string(), job.deadline_ms.to_string());
    let mut command = Command::new(MYSELF);
    command.arg0("baton").args(["lock-watchdog", "--orders", &orders, "--reports", &reports]);
    command.args(["--ttl-ms", &ttl_ms, "--deadline-ms", &deadline_ms, "--"]).args(&job.command);
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    // A group of its own: what a terminal sends to ours must not end the watchdog.
    let watchdog = command.process_group(0).spawn()?;
    let orders = pipe::Sender::from_owned_fd(OwnedFd::from(our_orders))?;
    let reports = pipe::Receiver::from_owned_fd(OwnedFd::from(our_reports))?;
    Ok((watchdog, orders, reports))
}

/// A run and what is known of it.
struct Run {
    supervisor: Supervisor,
    lease: mpsc::Receiver<Lease>,
    watchdog: Child,
    orders: pipe::Sender,
    reports: pipe::Receiver,
    lines: Lines,
    terminal: Terminal,
    /// Our children before there was a watchdog.
    strangers: Vec<Pid>,
    /// The command's process group.
    group: Option<Pid>,
    /// What the watchdog said last of all.
    ended: Option<(Exit, Option<Reason>)>,
    /// There is no time left for anything else.
    killing: bool,
}

/// What woke us up.
enum Woken {
    Lease(Option<Lease>),
    Reported(usize),
    Signal(Signal),
    Time,
}

impl Run {
    async fn supervise(&mut self, signals: &mut Signals) -> io::Result<Ended> {
        let mut bytes = [0; 4096];
        loop {
            // Whatever woke us: what is known of the lease comes first, then the time.
            while let Ok(lease) = self.lease.try_recv() {
                self.hear(lease)?;
            }
            self.step(Input::Tick)?;
            if self.killing {
                return self.finish_off(Ending::LockLost).await;
            }
            self.keep_the_watchdog_going()?;
            let woken = tokio::select! {
                biased;
                lease = self.lease.recv() => Woken::Lease(lease),
                () = wait_until(self.supervisor.wake_at_ms()) => Woken::Time,
                count = self.reports.read(&mut bytes) => Woken::Reported(count?),
                signal = signals.next() => Woken::Signal(signal),
            };
            match woken {
                // Nobody renews it any more.
                Woken::Lease(None) => self.hear(Lease::Lost)?,
                Woken::Lease(Some(lease)) => self.hear(lease)?,
                Woken::Reported(0) => return self.the_watchdog_ended().await,
                Woken::Reported(count) => self.read(&bytes[..count])?,
                // The command stopped with us, and goes on with us.
                Woken::Signal(signal) => self.order(Instruction::Signal(signal as i32))?,
                Woken::Time => {}
            }
        }
    }

    fn hear(&mut self, lease: Lease) -> io::Result<()> {
        match lease {
            Lease::Until { deadline_ms } => {
                self.step(Input::Renewed { deadline_ms })?;
                self.order(Instruction::Renewed { deadline_ms })
            }
            Lease::Revoked => self.step(Input::Stop(Reason::LockLost)),
            Lease::Lost => self.step(Input::Lost),
        }
    }

    fn step(&mut self, input: Input) -> io::Result<()> {
        match self.supervisor.step(now_ms(), input) {
            Some(Action::Terminate) => {
                // If it is stopped, there is no time to notice.
                kill(self.watchdog(), Signal::SIGCONT)?;
                self.order(Instruction::Stop)
            }
            Some(Action::Kill) => {
                self.killing = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn watchdog(&self) -> Pid {
        Pid::from_raw(self.watchdog.id() as i32)
    }

    /// While it is stopped nobody passes on signals, or notices that the command has ended; so it is continued.
    fn keep_the_watchdog_going(&self) -> io::Result<()> {
        // It is not asked for its end, which is not to be taken note of here.
        match waitid(Id::Pid(self.watchdog()), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Stopped(..)) => Ok(kill(self.watchdog(), Signal::SIGCONT)?),
            Ok(_) | Err(Errno::ECHILD) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn order(&self, order: Instruction) -> io::Result<()> {
        match self.orders.try_write(&line(&order)?) {
            Ok(_) => Ok(()),
            // It has not read for long, so it is stopped. We stand by for it, and the next renewal will reach it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // It is no more; the end of the other pipe says so too.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for report in self.lines.push::<WatchdogReport>(bytes)? {
            match report {
                WatchdogReport::Started { group } => self.group = Some(Pid::from_raw(group)),
                WatchdogReport::Stopped { signal } => self.stopped(Signal::try_from(signal)?)?,
                WatchdogReport::Ended { exit, reason } => self.ended = Some((exit, reason)),
            }
        }
        Ok(())
    }

    /// The command was stopped by the terminal: it needs it, or we stop too, as the job that we are both a part of. Then
    /// nobody renews the lease, and if we are not continued in time, the watchdog ends the command.
    fn stopped(&mut self, signal: Signal) -> io::Result<()> {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if let (true, Some(group)) = (wants_terminal, self.group)
            && self.terminal.lend(group)?
        {
            return self.order(Instruction::Signal(Signal::SIGCONT as i32));
        }
        if wants_terminal || signal == Signal::SIGTSTP {
            self.terminal.take_back()?;
            raise(Signal::SIGSTOP)?;
        }
        Ok(())
    }

    /// We cannot go on. The end of the pipe tells the watchdog, and when it ends nothing of the command is left.
    fn abandon(self) -> io::Result<()> {
        let Run { orders, reports, mut watchdog, .. } = self;
        drop((orders, reports));
        watchdog.wait()?;
        Ok(())
    }

    async fn the_watchdog_ended(&mut self) -> io::Result<Ended> {
        let lost = self.supervisor.over().is_some();
        match self.ended {
            Some((exit, reason)) => {
                self.watchdog.wait()?;
                let lost = lost || matches!(reason, Some(Reason::LockLost | Reason::ClientGone));
                Ok(Ended { ending: if lost { Ending::LockLost } else { Ending::Exited(exit) }, left: Vec::new() })
            }
            None if lost => self.finish_off(Ending::LockLost).await,
            None if self.watchdog.wait()?.signal().is_some() => self.finish_off(Ending::WatchdogKilled).await,
            // It has said itself why it could not go on, and the kernel killed the command with it.
            None if self.group.is_some() => self.finish_off(Ending::Exited(Exit::Signal(Signal::SIGKILL as i32))).await,
            None => self.finish_off(Ending::Exited(Exit::Code(CANNOT_RUN))).await,
        }
    }

    /// Kills all that is left, the watchdog too; until the lease is over if need be.
    async fn finish_off(&mut self, ending: Ending) -> io::Result<Ended> {
        let until_ms = self.supervisor.deadline_ms().max(now_ms() + LAST_TRY_MS);
        loop {
            tree::signal(getpid(), None, &self.strangers, Signal::SIGKILL)?;
            while let tree::Child::Changed(_) | tree::Child::Nameless = tree::reap()? {}
            let left = tree::descendants(getpid(), &self.strangers)?;
            if left.is_empty() || now_ms() >= until_ms {
                return Ok(Ended { ending, left });
            }
            tokio::time::sleep(KILL_AGAIN).await;
        }
    }
}
