//! The watchdog alone. The test plays the part of `baton lock`.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};
use serde_json::{Value, json};
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use super::processes::{BATON, Output, now_ms, send, state, until};

/// With this TTL, SIGTERM comes 5 s and SIGKILL 2.5 s before the deadline.
const TTL_MS: u64 = 15_000;
/// With this deadline, SIGTERM is due very soon, perhaps before the command has begun.
const SOON_MS: u64 = 5_100;
/// The longest that [`in_time`] waits for a command that is not ready.
const PATIENCE_MS: u64 = 60_000;
/// With this deadline, SIGTERM is not due during a test.
const LATE_MS: u64 = 3_600_000;

/// Held while a test creates pipes or terminals, so that no process of another test inherits them.
pub static STARTING: Mutex<()> = Mutex::new(());

struct Watched {
    watchdog: Child,
    orders: Option<PipeWriter>,
    reports: Output<PipeReader>,
    output: Output<ChildStdout>,
    deadline_ms: u64,
    /// The process id of the command.
    command: u32,
}

fn start(command: &[&str], ttl_ms: u64, deadline_in_ms: u64) -> Watched {
    let mut watched = start_with(command, ttl_ms, deadline_in_ms, |_| ());
    watched.command = watched.started();
    watched
}

/// Starts a watchdog after `prepare` has changed the pipe for reports. `command` is not known yet.
fn start_with(command: &[&str], ttl_ms: u64, deadline_in_ms: u64, prepare: impl FnOnce(&mut PipeWriter)) -> Watched {
    let inherited = |end: &dyn AsFd| {
        fcntl(end.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        end.as_fd().as_raw_fd().to_string()
    };
    let starting = STARTING.lock().unwrap();
    let (their_orders, orders) = pipe().unwrap();
    let (reports, mut their_reports) = pipe().unwrap();
    prepare(&mut their_reports);
    let deadline_ms = now_ms() + deadline_in_ms;
    let mut program = Command::new(BATON);
    program.args(["lock-watchdog", "--orders", &inherited(&their_orders), "--reports", &inherited(&their_reports)]);
    program.args(["--ttl-ms", &ttl_ms.to_string(), "--deadline-ms", &deadline_ms.to_string()]);
    program.args(["--linger-ms", "0", "--"]).args(command);
    let mut watchdog = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop((their_orders, their_reports, starting));
    let output = Output::new(watchdog.stdout.take().unwrap());
    let reports = Output::new(reports);
    Watched { watchdog, orders: Some(orders), reports, output, deadline_ms, command: 0 }
}

/// Fills the pipe with empty lines.
fn fill(pipe: &mut PipeWriter) {
    fcntl(&*pipe, FcntlArg::F_SETPIPE_SZ(1 << 12)).unwrap();
    pipe.write_all(&[b'\n'; 1 << 12]).unwrap();
}

fn shell(script: &str, deadline_in_ms: u64) -> Watched {
    start(&["sh", "-c", script], TTL_MS, deadline_in_ms)
}

/// Starts a watchdog with a near deadline, so that all is ready before SIGTERM is due. An order can only move the deadline
/// later, and nobody knows how long a busy machine needs. So this starts again with twice the time until `is_ready` has
/// returned true before the time of SIGTERM. `is_ready` returns false if the command ends too early.
fn in_time(ttl_ms: u64, start: impl Fn(u64) -> Watched, is_ready: impl Fn(&mut Watched) -> bool) -> Watched {
    let grace_ms = 5_000.min(ttl_ms / 3);
    let mut time_ms = 100;
    loop {
        let mut watched = start(grace_ms + time_ms);
        let term_at_ms = watched.deadline_ms - grace_ms;
        if is_ready(&mut watched) && now_ms() < term_at_ms {
            return watched;
        }
        assert!(time_ms < PATIENCE_MS, "not ready within {time_ms} ms");
        watched.give_up();
        time_ms *= 2;
    }
}

/// A shell that is ready once it has printed its first line: `ready`.
fn ready_shell(script: &str) -> Watched {
    in_time(TTL_MS, |deadline_in_ms| shell(script, deadline_in_ms), Watched::is_ready)
}

/// Stops a process, and waits until it has stopped or ended.
fn stop(pid: u32) -> bool {
    let is_sent = kill(Pid::from_raw(pid as i32), Signal::SIGSTOP).is_ok();
    until("the process is stopped", || matches!(state(pid), None | Some('T' | 'Z')));
    is_sent && state(pid) == Some('T')
}

impl Watched {
    /// The next report, without the empty lines of [`fill`].
    fn report(&mut self) -> Value {
        let line = std::iter::repeat_with(|| self.reports.line()).find(|line| !line.is_empty());
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    /// The process id of the command, from the first report.
    fn started(&mut self) -> u32 {
        self.report()["Started"]["group"].as_u64().unwrap() as u32
    }

    /// Whether the command prints its first line.
    fn is_ready(&mut self) -> bool {
        self.output.next_line().as_deref() == Some("ready")
    }

    /// Ends all processes.
    fn give_up(mut self) {
        drop((self.orders, self.reports));
        // A test may have stopped the watchdog. It is not waited for yet, so nobody else has its number.
        send(self.watchdog.id(), Signal::SIGCONT);
        self.output.rest();
        assert!(self.watchdog.wait().unwrap().success());
    }

    fn order(&mut self, order: &Value) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Checks that all processes end before the deadline without further output. The status is 128 + n for signal n.
    fn ends(mut self, status: u8, reason: Option<&str>) {
        self.all_goes();
        self.says_how_it_ended(status, reason);
    }

    fn all_goes(&mut self) {
        let (rest, gone_ms) = self.output.rest();
        assert_eq!(rest, "");
        assert!(gone_ms < self.deadline_ms, "gone {} ms after the deadline", gone_ms - self.deadline_ms);
    }

    fn says_how_it_ended(mut self, status: u8, reason: Option<&str>) {
        let exit = if status > 128 { json!({ "Signal": status - 128 }) } else { json!({ "Code": status }) };
        assert_eq!(self.report(), json!({ "Ended": { "exit": exit, "reason": reason } }));
        assert!(self.watchdog.wait().unwrap().success());
    }
}

#[test]
fn a_command_ends_by_itself() {
    shell("exit 7", LATE_MS).ends(7, None);
    shell("kill -KILL $$", LATE_MS).ends(137, None);
    shell("kill -34 $$", LATE_MS).ends(162, None);
    start(&["true"], TTL_MS, LATE_MS).ends(0, None);
}

#[test]
fn a_command_that_cannot_be_run() {
    start(&["no-such-program-as-this"], TTL_MS, LATE_MS).ends(127, None);
    start(&["/etc/hostname/no"], TTL_MS, LATE_MS).ends(126, None);
    start(&["/dev/null"], TTL_MS, LATE_MS).ends(126, None);
}

fn without_us(command: &[&str]) -> String {
    let _starting = STARTING.lock().unwrap();
    let output = Command::new(command[0]).args(&command[1..]).stdin(Stdio::piped()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn a_command_starts_as_it_would_without_us() {
    // No shell in between, because a shell would reset the signals.
    let blocked = ["grep", "SigBlk", "/proc/self/status"];
    let mut watched = start(&blocked, TTL_MS, LATE_MS);
    assert_eq!(watched.output.line(), without_us(&blocked));
    watched.ends(0, None);

    let files = ["ls", "-m", "/proc/self/fd"];
    let mut watched = start(&files, TTL_MS, LATE_MS);
    assert_eq!(watched.output.line(), without_us(&files));
    watched.ends(0, None);
}

#[test]
fn input_reaches_the_command() {
    let mut watched = start(&["cat"], TTL_MS, LATE_MS);
    let mut input = watched.watchdog.stdin.take().unwrap();
    writeln!(input, "hello").unwrap();
    assert_eq!(watched.output.line(), "hello");
    drop(input);
    watched.ends(0, None);
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [(Signal::SIGUSR1, "USR1"), (Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT")] {
        let script = format!("trap 'echo {name}; exit 4' {name}; echo ready; while :; do sleep 0.01; done");
        let mut watched = shell(&script, LATE_MS);
        assert_eq!(watched.output.line(), "ready");
        watched.order(&json!({ "Signal": signal as i32 }));
        assert_eq!(watched.output.line(), name);
        watched.ends(4, None);
    }
}

#[test]
fn a_lease_that_is_not_renewed_ends_the_command() {
    let mut watched = ready_shell("trap 'echo TERM; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    assert_eq!(watched.output.line(), "TERM");
    watched.ends(3, Some("LockLost"));
}

#[test]
fn a_renewal_lets_it_go_on() {
    let script = "trap 'echo USR1; exit 5' USR1; echo ready; while :; do sleep 0.01; done";
    let renew = |watched: &mut Watched| {
        let order = json!({ "Renewed": { "deadline_ms": watched.deadline_ms + LATE_MS } });
        // The watchdog may have ended.
        writeln!(watched.orders.as_mut().unwrap(), "{order}").is_ok()
    };
    let mut watched = in_time(3_000, |deadline_in_ms| start(&["sh", "-c", script], 3_000, deadline_in_ms), renew);
    let first_ms = watched.deadline_ms;
    watched.deadline_ms += LATE_MS;
    assert_eq!(watched.output.line(), "ready");
    until("the first deadline is past", || now_ms() > first_ms);
    watched.order(&json!({ "Signal": Signal::SIGUSR1 as i32 }));
    assert_eq!(watched.output.line(), "USR1");
    watched.ends(5, None);
}

#[test]
fn of_all_the_renewals_that_wait_to_be_read_the_latest_counts() {
    let script = "trap 'echo USR1; exit 5' USR1; echo ready; while :; do sleep 0.01; done";
    let is_ready = |watched: &mut Watched| watched.is_ready() && stop(watched.watchdog.id());
    let mut watched = in_time(3_000, |deadline_in_ms| start(&["sh", "-c", script], 3_000, deadline_in_ms), is_ready);
    let watchdog = watched.watchdog.id();
    let first_ms = watched.deadline_ms;
    watched.deadline_ms += LATE_MS;
    until("the first deadline is past", || now_ms() > first_ms + 500);
    // The watchdog cannot read so many orders at once.
    for later_ms in 0..300 {
        watched.order(&json!({ "Renewed": { "deadline_ms": first_ms + later_ms } }));
    }
    let deadline_ms = watched.deadline_ms;
    watched.order(&json!({ "Renewed": { "deadline_ms": deadline_ms } }));
    send(watchdog, Signal::SIGCONT);
    watched.order(&json!({ "Signal": Signal::SIGUSR1 as i32 }));
    assert_eq!(watched.output.line(), "USR1");
    watched.ends(5, None);
}

#[test]
fn after_sigterm_a_renewal_comes_too_late() {
    let mut watched = ready_shell("trap 'echo TERM' TERM; echo ready; while :; do sleep 0.01; done");
    assert_eq!(watched.output.line(), "TERM");
    watched.order(&json!({ "Renewed": { "deadline_ms": now_ms() + LATE_MS } }));
    watched.ends(137, Some("LockLost"));
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_before_the_deadline() {
    ready_shell("trap '' TERM; echo ready; sleep 60 & exec sleep 60").ends(137, Some("LockLost"));
}

/// One child has called setsid, and another has also left its parent. Each prints its id when it runs.
const RUNAWAYS: &str = "trap '' TERM
    setsid sh -c 'echo $$; exec sleep 60' &
    ( setsid sh -c 'echo $$; exec sleep 60' & )
    exec sleep 60";

/// Whether both run, and neither is in the process group of the command.
fn have_run_away(watched: &mut Watched) -> bool {
    let group = |pid: u32| getpgid(Some(Pid::from_raw(pid as i32)));
    (0..2).all(|_| {
        let line = watched.output.next_line();
        let groups = line.map(|runaway| (group(runaway.parse().unwrap()), group(watched.command)));
        groups.is_some_and(|(runaway, command)| runaway.is_ok() && command.is_ok() && runaway != command)
    })
}

fn runaways() -> Watched {
    let mut watched = shell(RUNAWAYS, LATE_MS);
    assert!(have_run_away(&mut watched));
    watched
}

#[test]
fn what_leaves_its_session_or_its_parent_is_killed_before_the_deadline() {
    in_time(TTL_MS, |deadline_in_ms| shell(RUNAWAYS, deadline_in_ms), have_run_away).ends(137, Some("LockLost"));
}

#[test]
fn when_the_client_is_gone_all_goes() {
    let mut watched = runaways();
    watched.orders = None;
    watched.ends(137, Some("ClientGone"));
}

#[test]
fn when_the_lock_is_revoked_all_goes() {
    let mut watched = runaways();
    watched.order(&json!("Stop"));
    watched.ends(137, Some("LockLost"));
}

#[test]
fn what_a_command_leaves_behind_goes_with_it() {
    let mut watched = shell("setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & read line; exit 6", LATE_MS);
    watched.output.number();
    writeln!(watched.watchdog.stdin.take().unwrap(), "now").unwrap();
    assert_eq!(watched.report()["LeftBehind"]["count"], json!(1));
    watched.ends(6, Some("CommandEnded"));
}

#[test]
fn when_the_watchdog_is_killed_the_command_goes() {
    let mut watched = shell("echo ready; exec sleep 60", LATE_MS);
    assert_eq!(watched.output.line(), "ready");
    send(watched.watchdog.id(), Signal::SIGKILL);
    assert_eq!(watched.output.rest().0, "");
    assert!(!watched.watchdog.wait().unwrap().success());
}

#[test]
fn whoever_wakes_up_after_the_deadline_kills_before_anything_else_runs() {
    let script = "trap 'echo I ran' TERM CONT; echo ready; while :; do sleep 0.01; done";
    let is_ready = |watched: &mut Watched| watched.is_ready() && stop(watched.command) && stop(watched.watchdog.id());
    let mut watched = in_time(TTL_MS, |deadline_in_ms| shell(script, deadline_in_ms), is_ready);
    let watchdog = watched.watchdog.id();
    until("the deadline is past", || now_ms() > watched.deadline_ms);
    // No renewal was sent after the deadline, but an earlier one may still be in the pipe.
    let stale_ms = watched.deadline_ms;
    watched.order(&json!({ "Renewed": { "deadline_ms": stale_ms } }));
    send(watchdog, Signal::SIGCONT);
    watched.deadline_ms += LATE_MS;
    assert_eq!(watched.report(), json!({ "Stopped": { "signal": Signal::SIGSTOP as i32 } }));
    watched.ends(137, Some("LockLost"));
}

#[test]
fn a_command_that_is_stopped_can_still_hear_sigterm() {
    let script = "trap 'echo TERM; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    // The watchdog has seen the stop before SIGTERM is due.
    let is_stopped = |watched: &mut Watched| {
        let stopped = json!({ "Stopped": { "signal": Signal::SIGSTOP as i32 } });
        watched.is_ready() && stop(watched.command) && watched.report() == stopped
    };
    let mut watched = in_time(TTL_MS, |deadline_in_ms| shell(script, deadline_in_ms), is_stopped);
    assert_eq!(watched.output.line(), "TERM");
    watched.ends(3, Some("LockLost"));
}

#[test]
fn a_client_that_does_not_read_reports_stops_no_clock() {
    let script = "trap '' TERM; echo $$; exec sleep 60";
    let is_ready = |watched: &mut Watched| {
        watched.output.next_line().map(|command| watched.command = command.parse().unwrap()).is_some()
    };
    let start = |deadline_in_ms| start_with(&["sh", "-c", script], TTL_MS, deadline_in_ms, fill);
    let mut watched = in_time(TTL_MS, start, is_ready);
    let command = watched.command;
    until("the command is killed", || state(command).is_none());
    assert!(now_ms() < watched.deadline_ms, "killed after the deadline");
    assert_eq!(watched.started(), command, "what did not fit is told once there is room");
    watched.says_how_it_ended(137, Some("LockLost"));
}

#[test]
fn a_client_that_does_not_read_for_ever_does_not_keep_the_watchdog() {
    let mut watched = start_with(&["sleep", "60"], TTL_MS, SOON_MS, fill);
    until("the watchdog ends after the deadline", || watched.watchdog.try_wait().unwrap().is_some());
    assert!(now_ms() >= watched.deadline_ms);
    assert_eq!(watched.reports.rest().0.trim(), "", "nothing fitted");
}

#[test]
fn of_many_stops_that_nobody_reads_the_last_is_told() {
    let mut watched = start_with(&["sh", "-c", "echo $$; exec sleep 60"], TTL_MS, LATE_MS, fill);
    let command = watched.output.number();
    for _ in 0..10 {
        send(command, Signal::SIGSTOP);
        until("it is stopped", || state(command) == Some('T'));
        watched.order(&json!({ "Signal": Signal::SIGCONT as i32 }));
        until("it goes on", || state(command) != Some('T'));
    }
    send(command, Signal::SIGTTIN);
    until("it is stopped", || state(command) == Some('T'));
    assert_eq!(watched.started(), command);
    let last = json!({ "Stopped": { "signal": Signal::SIGTTIN as i32 } });
    // The last but one may have been sent when the test began to read.
    let stops = std::iter::repeat_with(|| watched.report()).take(10).take_while(|stop| *stop != last).count();
    assert!(stops <= 1, "{stops} waited");
    watched.order(&json!({ "Signal": Signal::SIGKILL as i32 }));
    watched.ends(137, None);
}
