//! The watchdog: starts the command, and ends it even if `baton lock` is killed.
//!
//! The watchdog is the subreaper of all processes that the command starts. It ends the command by the schedule of the
//! last deadline that `baton lock` sent, even if `baton lock` is gone. It ends itself when no process of the command is
//! left. Until then it uses no network and no threads, and little memory. If `baton lock` is gone by then, the watchdog
//! closes the session, which releases the lock.

use baton_client::SessionKey;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, getpid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use super::channel::{End, Exit, Instruction, LeftBehind, Lines, WatchdogReport, inherit};
use super::clock::{Alarm, now_ms};
use super::reports::Reports;
use super::supervisor::{Action, Input, Reason, Supervisor};
use super::{CANNOT_RUN, MYSELF, millis, tree};
use crate::output::{Failure, Outcome, warn};
use crate::service_args::{ServerArgs, block_on};
use crate::view::duration;

/// How long to wait before processes that did not die are killed again: the first and the longest wait.
const KILL_AGAIN_MS: (u16, u16) = (1, 64);

/// The longest time between two looks at the clock, once no process of the command is left.
const LOOK_AGAIN_MS: u16 = 500;

/// The watchdog of `baton lock`. Only `baton lock` starts this
#[derive(clap::Args)]
pub struct Args {
    /// The descriptor of the pipe from `baton lock`
    #[arg(long)]
    orders: i32,
    /// The descriptor of the pipe to `baton lock`
    #[arg(long)]
    reports: i32,
    /// The TTL of the lease, in milliseconds
    #[arg(long)]
    ttl_ms: u64,
    /// The end of the lease, in milliseconds of CLOCK_BOOTTIME
    #[arg(long)]
    deadline_ms: u64,
    /// How long processes may go on after the end of the command, in milliseconds
    #[arg(long)]
    linger_ms: u64,
    /// The addresses are in the environment, as for the command
    #[command(flatten)]
    server: ServerArgs,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> Outcome {
    watch(args).map_err(|error| Failure::bad_input(format!("the watchdog failed: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn watch(args: &Args) -> io::Result<()> {
    let mut orders = inherit(args.orders, End::Reader)?;
    let reports = Reports::new(inherit(args.reports, End::Writer)?);
    prctl::set_name(c"baton-watchdog")?;
    prctl::set_child_subreaper(true)?;
    // The command would inherit the blocked signals, so it is started before they are blocked.
    let mut watchdog = Watchdog::start(args, reports)?;
    // `baton lock` sends the signals for the command over the pipe.
    SigSet::all().thread_block()?;
    let mut child_signal = SigSet::empty();
    child_signal.add(Signal::SIGCHLD);
    let child_signals = SignalFd::with_flags(&child_signal, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let alarm = Alarm::new()?;

    let mut lines = Lines::default();
    let mut client_gone = false;
    loop {
        if watchdog.reap()? {
            // `baton lock` may have been killed just now.
            client_gone = client_gone || watchdog.obey(&mut orders, &mut lines)?;
            break;
        }
        // Read the clock before the pipe. If the watchdog is stopped in between, the tick has the earlier time and no
        // renewal is missed.
        let read_at_ms = now_ms();
        client_gone = client_gone || watchdog.obey(&mut orders, &mut lines)?;
        watchdog.step_at(read_at_ms, Input::Tick)?;
        alarm.set(watchdog.supervisor.wake_at_ms())?;
        watchdog.reports.flush();
        let mut ready =
            vec![PollFd::new(child_signals.as_fd(), PollFlags::POLLIN), PollFd::new(alarm.as_fd(), PollFlags::POLLIN)];
        // A closed pipe stays readable, so poll it no more.
        if !client_gone {
            ready.push(PollFd::new(orders.as_fd(), PollFlags::POLLIN));
        }
        if watchdog.reports.wait() {
            ready.push(PollFd::new(watchdog.reports.as_fd(), PollFlags::POLLOUT));
        }
        wait(&mut ready, watchdog.patience())?;
        while child_signals.read_signal()?.is_some() {}
    }
    if client_gone {
        watchdog.release(&args.server);
    }
    watchdog.farewell()
}

fn wait(ready: &mut [PollFd<'_>], patience: PollTimeout) -> io::Result<()> {
    match poll(ready, patience) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The command and its state.
struct Watchdog {
    supervisor: Supervisor,
    command: Child,
    /// How the command ended; none while it runs.
    exit: Option<Exit>,
    /// Once SIGKILL was sent: how long to wait before it is sent again.
    kill_again_ms: Option<u16>,
    reports: Reports,
    /// The session to close if `baton lock` is gone, and how long after the end of the command.
    key: Option<(SessionKey, Duration)>,
}

impl Watchdog {
    fn start(args: &Args, reports: Reports) -> io::Result<Self> {
        let supervisor = Supervisor::new(args.ttl_ms, args.deadline_ms, args.linger_ms);
        let mut step = Command::new(MYSELF);
        step.arg0("baton").args(["lock-exec", "--parent", &getpid().to_string(), "--"]).args(&args.command);
        let command = step.process_group(0).spawn()?;
        let group = command.id() as i32;
        let mut watchdog = Watchdog { supervisor, command, exit: None, kill_again_ms: None, reports, key: None };
        watchdog.reports.push(WatchdogReport::Started { group });
        Ok(watchdog)
    }

    /// The process group of the command; none once the command has ended, because another process may get the number.
    fn group(&self) -> Option<Pid> {
        self.exit.is_none().then(|| Pid::from_raw(self.command.id() as i32))
    }

    /// The longest time to wait for an event.
    fn patience(&self) -> PollTimeout {
        self.kill_again_ms.map_or(PollTimeout::NONE, PollTimeout::from)
    }

    /// Reads and follows all orders in the pipe. Returns whether `baton lock` is gone.
    fn obey(&mut self, orders: &mut File, lines: &mut Lines) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        loop {
            let count = match orders.read(&mut bytes) {
                Ok(0) => {
                    self.step(Input::Stop(Reason::ClientGone))?;
                    return Ok(true);
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for order in lines.push::<Instruction>(&bytes[..count])? {
                match order {
                    Instruction::Renewed { deadline_ms } => self.step(Input::Renewed { deadline_ms })?,
                    Instruction::Stop => self.step(Input::Stop(Reason::LockLost))?,
                    Instruction::Signal(number) => self.pass_on(number)?,
                    Instruction::Key { session, secret, lock_delay_ms } => {
                        let key = SessionKey { session, secret, ttl_ms: self.supervisor.ttl_ms() };
                        self.key = Some((key, Duration::from_millis(lock_delay_ms)));
                    }
                }
            }
        }
    }

    fn pass_on(&self, number: i32) -> io::Result<()> {
        let signal = Signal::try_from(number)?;
        // The command has ended. Processes that it left behind may still run.
        let Some(group) = self.group() else { return self.signal(signal) };
        match killpg(group, signal) {
            // A command with another user's rights cannot be signalled.
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn step(&mut self, input: Input) -> io::Result<()> {
        self.step_at(now_ms(), input)
    }

    fn step_at(&mut self, at_ms: u64, input: Input) -> io::Result<()> {
        match self.supervisor.step(at_ms, input) {
            Some(Action::Terminate) => {
                if self.supervisor.over() == Some(Reason::CommandEnded) {
                    self.name_left_behind()?;
                }
                self.signal(Signal::SIGTERM)?;
                // A stopped process cannot handle SIGTERM.
                self.signal(Signal::SIGCONT)?;
            }
            Some(Action::Kill) => self.kill_again_ms = Some(KILL_AGAIN_MS.0),
            None => {}
        }
        if let Some(wait_ms) = self.kill_again_ms {
            // Kill repeatedly: a process that was being forked is found the next time.
            self.kill_again_ms = Some(KILL_AGAIN_MS.1.min(wait_ms * 2));
            self.signal(Signal::SIGKILL)?;
        }
        Ok(())
    }

    fn name_left_behind(&mut self) -> io::Result<()> {
        let mut named = tree::named(&tree::descendants(getpid(), &[])?);
        let count = named.len();
        named.truncate(LeftBehind::NAMED_MAX);
        if count > 0 {
            self.reports.push(WatchdogReport::LeftBehind(LeftBehind { named, count }));
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        tree::signal(getpid(), self.group(), &[], signal)
    }

    /// Collects the status of ended processes. Returns whether none is left.
    fn reap(&mut self) -> io::Result<bool> {
        if self.exit.is_none() {
            self.exit = self.command.try_wait()?.map(exit);
        }
        loop {
            match tree::reap()? {
                tree::Child::Changed(WaitStatus::Stopped(pid, signal)) if Some(pid) == self.group() => {
                    self.reports.push(WatchdogReport::Stopped { signal: signal as i32 });
                }
                // The command ended after `try_wait`.
                tree::Child::Changed(WaitStatus::Exited(pid, code)) if Some(pid) == self.group() => {
                    self.exit = Some(Exit::Code(code as u8));
                }
                tree::Child::Changed(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.group() => {
                    self.exit = Some(Exit::Signal(signal as i32));
                }
                // If this was the command, its signal is unknown.
                tree::Child::Nameless if self.exit.is_none() && self.command.try_wait().is_err() => {
                    self.exit = Some(Exit::Code(u8::MAX));
                }
                tree::Child::Changed(_) | tree::Child::Nameless => {}
                tree::Child::Unchanged => break,
                tree::Child::Gone => return Ok(true),
            }
        }
        if self.exit.is_some() && self.supervisor.over().is_none() {
            self.step(Input::CommandEnded)?;
        }
        Ok(false)
    }

    /// Closes the session, so that the next client need not wait until the lease ends. No process of the command is
    /// left. After the end of the lease there is nothing to close.
    ///
    /// A lock-delay is for work that the watchdog cannot end, so the lock stays closed for that time. If the lease ends
    /// first, the server keeps the lock closed for the lock-delay.
    fn release(&self, server: &ServerArgs) {
        let Some((key, lock_delay)) = &self.key else { return };
        let left = Duration::from_millis(self.supervisor.deadline_ms().saturating_sub(now_ms()));
        if *lock_delay >= left {
            return;
        }
        let released = block_on(async {
            let client = server.client()?;
            tokio::time::sleep(*lock_delay).await;
            Ok(matches!(tokio::time::timeout(left - *lock_delay, client.close_session(key)).await, Ok(Ok(()))))
        });
        let lock = match released {
            Ok(true) if lock_delay.is_zero() => "the lock is released".to_owned(),
            Ok(true) => format!("the lock is released after its lock-delay of {}", duration(millis(*lock_delay))),
            Ok(false) => "no server confirmed the release: the lock stays closed until its lease ends".to_owned(),
            Err(failure) => format!("the lock stays closed until its lease ends: {}", failure.message),
        };
        warn(format_args!("`baton lock` was killed; the command is ended, and {lock}"));
    }

    /// Reports the end. No process of the command is left, so the watchdog may wait until the pipe has space, `baton
    /// lock` is gone, or the lease is over. After the lease `baton lock` reads no reports.
    fn farewell(&mut self) -> io::Result<()> {
        let exit = self.exit.unwrap_or(Exit::Code(CANNOT_RUN));
        let reason = self.supervisor.over();
        self.reports.push(WatchdogReport::Ended { exit, reason });
        while self.reports.wait() && now_ms() < self.supervisor.deadline_ms() {
            wait(&mut [PollFd::new(self.reports.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(LOOK_AGAIN_MS))?;
            self.reports.flush();
        }
        Ok(())
    }
}

fn exit(status: ExitStatus) -> Exit {
    status.signal().map_or_else(|| Exit::Code(status.code().map_or(u8::MAX, |code| code as u8)), Exit::Signal)
}
