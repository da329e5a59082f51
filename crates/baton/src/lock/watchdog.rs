//! The watchdog: starts the command, and outlives `baton lock` to end it.
//!
//! It is the subreaper of all that the command starts. It ends the command by the schedule of the last deadline it was told
//! of, whether or not `baton lock` is there to say so, and ends itself when nothing of the command is left. It does nothing
//! else: no network, no threads, no memory to speak of.

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

use super::channel::{End, Exit, Instruction, Lines, WatchdogReport, inherit};
use super::clock::{Alarm, now_ms};
use super::reports::Reports;
use super::supervisor::{Action, Input, Reason, Supervisor};
use super::{CANNOT_RUN, MYSELF, tree};
use crate::output::{Failure, Outcome};

/// How long to wait before what did not die is killed again, at first and at most.
const KILL_AGAIN_MS: (u16, u16) = (1, 64);

/// How long to wait before the clock is looked at again, when nothing is left to be killed.
const LOOK_AGAIN_MS: u16 = 500;

/// The watchdog of `baton lock`, which starts it; not for people
#[derive(clap::Args)]
pub struct Args {
    /// The pipe that brings orders
    #[arg(long)]
    orders: i32,
    /// The pipe that takes reports
    #[arg(long)]
    reports: i32,
    /// The TTL of the lease
    #[arg(long)]
    ttl_ms: u64,
    /// The end of the lease, on CLOCK_BOOTTIME
    #[arg(long)]
    deadline_ms: u64,
    /// What to run
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    watch(args).map_err(|error| Failure::bad_input(format!("the watchdog cannot go on: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn watch(args: &Args) -> io::Result<()> {
    let mut orders = inherit(args.orders, End::Reader)?;
    let reports = Reports::new(inherit(args.reports, End::Writer)?);
    prctl::set_name(c"baton-watchdog")?;
    prctl::set_child_subreaper(true)?;
    // The command inherits which signals are blocked, so it is started first.
    let mut watchdog = Watchdog::start(args, reports)?;
    // Whatever is meant for the command comes as an order.
    SigSet::all().thread_block()?;
    let mut child_signal = SigSet::empty();
    child_signal.add(Signal::SIGCHLD);
    let child_signals = SignalFd::with_flags(&child_signal, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let alarm = Alarm::new()?;

    let mut lines = Lines::default();
    let mut client_gone = false;
    while !watchdog.reap()? {
        // The time first, then the orders: if we are stopped in between, no renewal is missed by the tick.
        let read_at_ms = now_ms();
        client_gone = client_gone || watchdog.obey(&mut orders, &mut lines)?;
        watchdog.step_at(read_at_ms, Input::Tick)?;
        alarm.set(watchdog.supervisor.wake_at_ms())?;
        watchdog.reports.flush();
        let mut ready =
            vec![PollFd::new(child_signals.as_fd(), PollFlags::POLLIN), PollFd::new(alarm.as_fd(), PollFlags::POLLIN)];
        // The end of a pipe stays readable; once is enough.
        if !client_gone {
            ready.push(PollFd::new(orders.as_fd(), PollFlags::POLLIN));
        }
        if watchdog.reports.wait() {
            ready.push(PollFd::new(watchdog.reports.as_fd(), PollFlags::POLLOUT));
        }
        wait(&mut ready, watchdog.patience())?;
        while child_signals.read_signal()?.is_some() {}
    }
    watchdog.farewell()
}

fn wait(ready: &mut [PollFd<'_>], patience: PollTimeout) -> io::Result<()> {
    match poll(ready, patience) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A command and what is known of it.
struct Watchdog {
    supervisor: Supervisor,
    command: Child,
    /// How it ended.
    exit: Option<Exit>,
    /// SIGKILL was sent, and this is how long to wait until it is sent again.
    kill_again_ms: Option<u16>,
    reports: Reports,
}

impl Watchdog {
    fn start(args: &Args, reports: Reports) -> io::Result<Self> {
        let supervisor = Supervisor::new(args.ttl_ms, args.deadline_ms);
        let mut step = Command::new(MYSELF);
        step.arg0("baton").args(["lock-exec", "--parent", &getpid().to_string(), "--"]).args(&args.command);
        let command = step.process_group(0).spawn()?;
        let group = command.id() as i32;
        let mut watchdog = Watchdog { supervisor, command, exit: None, kill_again_ms: None, reports };
        watchdog.reports.push(WatchdogReport::Started { group });
        Ok(watchdog)
    }

    /// The command's process group, as long as nobody else can have its number.
    fn group(&self) -> Option<Pid> {
        self.exit.is_none().then(|| Pid::from_raw(self.command.id() as i32))
    }

    /// How long nothing has to happen.
    fn patience(&self) -> PollTimeout {
        self.kill_again_ms.map_or(PollTimeout::NONE, PollTimeout::from)
    }

    /// Reads all orders that are there; tells whether the client is gone.
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
                }
            }
        }
    }

    fn pass_on(&self, number: i32) -> io::Result<()> {
        let Some(group) = self.group() else { return Ok(()) };
        match killpg(group, Signal::try_from(number)?) {
            // The command may run with another user's rights, and then it hears no signal of ours.
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
                self.signal(Signal::SIGTERM)?;
                // A process that is stopped could not hear it.
                self.signal(Signal::SIGCONT)?;
            }
            Some(Action::Kill) => self.kill_again_ms = Some(KILL_AGAIN_MS.0),
            None => {}
        }
        if let Some(wait_ms) = self.kill_again_ms {
            // Again and again: a process that was just being forked is found the next time.
            self.kill_again_ms = Some(KILL_AGAIN_MS.1.min(wait_ms * 2));
            self.signal(Signal::SIGKILL)?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        tree::signal(getpid(), self.group(), &[], signal)
    }

    /// Takes note of what ended; tells whether nothing is left.
    fn reap(&mut self) -> io::Result<bool> {
        if self.exit.is_none() {
            self.exit = self.command.try_wait()?.map(exit);
        }
        loop {
            match tree::reap()? {
                tree::Child::Changed(WaitStatus::Stopped(pid, signal)) if Some(pid) == self.group() => {
                    self.reports.push(WatchdogReport::Stopped { signal: signal as i32 });
                }
                // It ended a moment ago.
                tree::Child::Changed(WaitStatus::Exited(pid, code)) if Some(pid) == self.group() => {
                    self.exit = Some(Exit::Code(code as u8));
                }
                tree::Child::Changed(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.group() => {
                    self.exit = Some(Exit::Signal(signal as i32));
                }
                // If it was the command, nobody can say any more which signal it was.
                tree::Child::Nameless if self.exit.is_none() && self.command.try_wait().is_err() => {
                    self.exit = Some(Exit::Code(u8::MAX));
                }
                tree::Child::Changed(_) | tree::Child::Nameless => {}
                tree::Child::Unchanged => break,
                tree::Child::Gone => return Ok(true),
            }
        }
        if self.exit.is_some() && self.supervisor.over().is_none() {
            self.step(Input::Stop(Reason::CommandEnded))?;
        }
        Ok(false)
    }

    /// Says how it all ended. Nothing of the command is left, so that there is time to wait for room in the pipe: until the
    /// client has read or is gone, or the lease is over, from when on the client does not listen any more.
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
