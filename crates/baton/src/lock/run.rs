//! Runs a command under a lease: the part in the process of `baton lock`.
//!
//! The watchdog starts and ends the command. This process sends renewals and signals to the watchdog, and follows the
//! same schedule. If the watchdog is stopped or killed, this process ends the command itself: it is the next subreaper,
//! so it becomes the parent of all processes that the watchdog leaves behind.

use baton_client::SessionKey;
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

use super::channel::{Exit, Instruction, LeftBehind, Lines, WatchdogReport, bequeath, line};
use super::clock::{now_ms, wait_until};
use super::signals::Signals;
use super::supervisor::{Action, Input, Reason, Supervisor};
use super::terminal::Terminal;
use super::{CANNOT_RUN, Ending, MYSELF, tree};

/// How long to wait before processes that did not die are killed again.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// How long to try at least, even after the end of the lease.
const LAST_TRY_MS: u64 = 1_000;

/// A change of the lease that a command runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The lease ends at this time.
    Until {
        /// In milliseconds of CLOCK_BOOTTIME.
        deadline_ms: u64,
    },
    /// An operator forced the release of the lock.
    Revoked,
    Lost,
}

/// A command to run under a lease.
pub struct Job {
    pub ttl_ms: u64,
    /// The end of the lease at the start of the command.
    pub deadline_ms: u64,
    /// How long processes may go on after the end of the command.
    pub linger_ms: u64,
    /// With this the watchdog releases the lock if this process is killed.
    pub key: SessionKey,
    /// How long the lock then stays closed after the end of the command.
    pub lock_delay_ms: u64,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables that are added to the environment.
    pub environment: Vec<(&'static str, OsString)>,
}

pub struct Ended {
    pub ending: Ending,
    /// Processes that could not be killed before the end of the lease.
    pub left: Vec<Pid>,
    /// Processes that were ended because the command, which had ended by itself, had left them behind.
    pub left_behind: Option<LeftBehind>,
}

/// Runs a command under a lease. When this returns, no process of the command is left, except those in `left`.
pub async fn run(job: &Job, lease: mpsc::Receiver<Lease>, signals: &mut Signals) -> io::Result<Ended> {
    // A process may have had children before it became `baton lock` by exec. They must not be ended.
    let strangers = tree::descendants(getpid(), &[])?;
    prctl::set_child_subreaper(true)?;
    let (watchdog, orders, reports) = start_watchdog(job)?;
    let mut run = Run {
        supervisor: Supervisor::new(job.ttl_ms, job.deadline_ms, job.linger_ms),
        lease,
        watchdog,
        orders,
        reports,
        lines: Lines::default(),
        terminal: Terminal::find(),
        strangers,
        group: None,
        left_behind: None,
        ended: None,
        killing: false,
    };
    let ended = match run.hand_over(&job.key, job.lock_delay_ms).await {
        Ok(()) => run.supervise(signals).await,
        Err(error) => Err(error),
    };
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
    let [ttl_ms, deadline_ms, linger_ms] = [job.ttl_ms, job.deadline_ms, job.linger_ms].map(|ms| ms.to_string());
    let mut command = Command::new(MYSELF);
    command.arg0("baton").args(["lock-watchdog", "--orders", &orders, "--reports", &reports]);
    command.args(["--ttl-ms", &ttl_ms, "--deadline-ms", &deadline_ms, "--linger-ms", &linger_ms, "--"]);
    command.args(&job.command);
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    // The watchdog has its own process group, so that signals of a terminal do not end it.
    let watchdog = command.process_group(0).spawn()?;
    let orders = pipe::Sender::from_owned_fd(OwnedFd::from(our_orders))?;
    let reports = pipe::Receiver::from_owned_fd(OwnedFd::from(our_reports))?;
    Ok((watchdog, orders, reports))
}

/// The state of a run.
struct Run {
    supervisor: Supervisor,
    lease: mpsc::Receiver<Lease>,
    watchdog: Child,
    orders: pipe::Sender,
    reports: pipe::Receiver,
    lines: Lines,
    terminal: Terminal,
    /// Children of this process that existed before the watchdog.
    strangers: Vec<Pid>,
    /// The process group of the command, once the watchdog has reported it.
    group: Option<Pid>,
    left_behind: Option<LeftBehind>,
    /// The last report of the watchdog.
    ended: Option<(Exit, Option<Reason>)>,
    /// SIGKILL is due: this process kills all that is left.
    killing: bool,
}

/// The event that ended a wait.
enum Woken {
    Lease(Option<Lease>),
    Reported(usize),
    Signal(Signal),
    Time,
}

impl Run {
    async fn hand_over(&self, key: &SessionKey, lock_delay_ms: u64) -> io::Result<()> {
        let SessionKey { session, secret, .. } = *key;
        // A new pipe is writable, but the event loop does not know that yet.
        self.orders.writable().await?;
        self.order(Instruction::Key { session, secret, lock_delay_ms })
    }

    async fn supervise(&mut self, signals: &mut Signals) -> io::Result<Ended> {
        let mut bytes = [0; 4096];
        loop {
            // After every event: first read all changes of the lease, then look at the clock.
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
                // The sender is gone, so no renewal can come.
                Woken::Lease(None) => self.hear(Lease::Lost)?,
                Woken::Lease(Some(lease)) => self.hear(lease)?,
                Woken::Reported(0) => return self.the_watchdog_ended().await,
                Woken::Reported(count) => self.read(&bytes[..count])?,
                // SIGTSTP and SIGCONT are passed on, too: the command stops and continues with this process.
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
                // The watchdog may be stopped, and there is no time to find out.
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

    /// Continues a stopped watchdog, because it must pass on signals and notice the end of the command.
    fn keep_the_watchdog_going(&self) -> io::Result<()> {
        // This asks only for stops. `the_watchdog_ended` must still be able to wait for the end.
        match waitid(Id::Pid(self.watchdog()), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Stopped(..)) => Ok(kill(self.watchdog(), Signal::SIGCONT)?),
            Ok(_) | Err(Errno::ECHILD) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn order(&self, order: Instruction) -> io::Result<()> {
        match self.orders.try_write(&line(&order)?) {
            Ok(_) => Ok(()),
            // The pipe is full, so the watchdog is stopped. This process follows the schedule too, and a later renewal
            // reaches the watchdog.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // The watchdog is gone. The end of the other pipe reports it, too.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for report in self.lines.push::<WatchdogReport>(bytes)? {
            match report {
                WatchdogReport::Started { group } => self.group = Some(Pid::from_raw(group)),
                WatchdogReport::Stopped { signal } => self.stopped(Signal::try_from(signal)?)?,
                WatchdogReport::LeftBehind(processes) => self.left_behind = Some(processes),
                WatchdogReport::Ended { exit, reason } => self.ended = Some((exit, reason)),
            }
        }
        Ok(())
    }

    /// The terminal stopped the command. If the command needs the terminal, it gets it. Otherwise this process stops as
    /// well, because both are one job for the shell. Then no renewal is sent: unless the job is continued in time, the
    /// watchdog ends the command.
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

    /// After an error: closes the pipe, so that the watchdog ends the command, and waits for the end of the watchdog.
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
                let ending = if lost { Ending::LockLost } else { Ending::Exited(exit) };
                Ok(Ended { ending, left: Vec::new(), left_behind: self.left_behind.take() })
            }
            None if lost => self.finish_off(Ending::LockLost).await,
            None if self.watchdog.wait()?.signal().is_some() => self.finish_off(Ending::WatchdogKilled).await,
            // The watchdog failed and printed the reason. The kernel then killed the command.
            None if self.group.is_some() => self.finish_off(Ending::Exited(Exit::Signal(Signal::SIGKILL as i32))).await,
            None => self.finish_off(Ending::Exited(Exit::Code(CANNOT_RUN))).await,
        }
    }

    /// Kills all processes that are left, including the watchdog. Tries until the end of the lease.
    async fn finish_off(&mut self, ending: Ending) -> io::Result<Ended> {
        let until_ms = self.supervisor.deadline_ms().max(now_ms() + LAST_TRY_MS);
        loop {
            tree::signal(getpid(), None, &self.strangers, Signal::SIGKILL)?;
            while let tree::Child::Changed(_) | tree::Child::Nameless = tree::reap()? {}
            let left = tree::descendants(getpid(), &self.strangers)?;
            if left.is_empty() || now_ms() >= until_ms {
                return Ok(Ended { ending, left, left_behind: self.left_behind.take() });
            }
            tokio::time::sleep(KILL_AGAIN).await;
        }
    }
}
