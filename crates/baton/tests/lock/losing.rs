//! The server, the network, `baton lock` or its watchdog fails. In each case, all processes of the command are gone
//! before the server can grant the lock to another client.

use baton_api::v1::{self, server_frame::Frame};
use nix::sys::signal::Signal;
use std::io::Read;
use std::process::Stdio;

use super::command::{Running, baton, shell, start};
use super::processes::{Output, now_ms, send, state, until};
use super::server::{FENCE, Server};

/// With this TTL, SIGTERM comes 2 s before the deadline. As an option, and in milliseconds.
const TTL: (&str, u64) = ("6", 6_000);

/// A command that ignores SIGTERM. One child has called setsid, and another has also left its parent.
const RUNAWAYS: &str = "trap '' TERM
    setsid sh -c 'echo $$; exec sleep 60' &
    ( setsid sh -c 'echo $$; exec sleep 60' & )
    echo $PPID $$
    exec sleep 60";

/// Starts [`RUNAWAYS`]. Returns the ids of the watchdog, the command and the two children.
fn runaways(server: &Server) -> (Running, [u32; 4]) {
    let mut command = baton(server, &["lock", "deploy", "--ttl", TTL.0, "--", "sh", "-c", RUNAWAYS]);
    command.stderr(Stdio::piped());
    let mut running = start(command);
    let (mut tied, mut left) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let line = running.output.line();
        let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
        if pids.len() == 2 { tied.extend(pids) } else { left.extend(pids) }
    }
    (running, [tied[0], tied[1], left[0], left[1]])
}

/// Waits until all processes are gone, or are zombies of a stopped parent. Checks that the lease is not over then.
fn gone_in_time(server: &Server, pids: &[u32]) {
    until("all are gone", || pids.iter().all(|&pid| state(pid).is_none_or(|state| state == 'Z')));
    let gone_ms = now_ms();
    let lease_ends_ms = server.facts().alive_ms + TTL.1;
    assert!(gone_ms < lease_ends_ms, "gone {} ms after the lease", gone_ms - lease_ends_ms);
}

#[test]
fn a_silent_server() {
    let server = Server::start();
    let (running, pids) = runaways(&server);
    server.facts().silent = true;
    gone_in_time(&server, &pids);
    assert_eq!(running.ends(), 75);
}

#[test]
fn a_silent_server_and_a_command_that_listens() {
    let server = Server::start();
    let mut running = shell(&server, TTL.0, "trap 'echo TERM; exit' TERM; echo $$; while :; do sleep 0.01; done");
    let command = running.output.number();
    server.facts().silent = true;
    assert_eq!(running.output.line(), "TERM");
    gone_in_time(&server, &[command]);
    assert_eq!(running.ends(), 75);
}

#[test]
fn a_server_that_answers_lets_it_run_beyond_its_first_deadline() {
    let server = Server::start();
    let mut running = shell(&server, "1", "echo ready; read line; exit 8");
    assert_eq!(running.output.line(), "ready");
    let first_ms = now_ms() + 1_000;
    until("the first deadline is past", || now_ms() > first_ms);
    drop(running.process.stdin.take());
    assert_eq!(running.ends(), 8);
}

#[test]
fn a_forced_release() {
    let server = Server::start();
    let (running, pids) = runaways(&server);
    server.facts().look_at.extend(pids);
    server.say(|acquire| Frame::Revoked(v1::Revoked { acquire }));
    gone_in_time(&server, &pids);
    assert_eq!(running.ends(), 75);
    assert_eq!(server.facts().closed, Some(vec![]), "released before all was gone");
}

#[test]
fn a_session_that_has_ended() {
    let server = Server::start();
    let (running, pids) = runaways(&server);
    let reason = v1::ended::Reason::Expired.into();
    server.say(|_| Frame::Ended(v1::Ended { reason, message: String::new() }));
    gone_in_time(&server, &pids);
    assert_eq!(running.ends(), 75);
}

#[test]
fn baton_lock_is_killed() {
    let server = Server::start();
    let (mut running, pids) = runaways(&server);
    let mut said = Output::new(running.process.stderr.take().unwrap());
    server.facts().look_at.extend(pids);
    send(running.process.id(), Signal::SIGKILL);
    gone_in_time(&server, &pids[1..]);
    assert_eq!(running.process.wait().unwrap().code(), None);
    assert_eq!(said.rest().0, "baton: `baton lock` was killed; the command is ended, and the lock is released\n");
    let facts = server.facts();
    assert_eq!(facts.closed, Some(vec![pids[0]]), "the watchdog released the lock when all else was gone");
    assert_eq!(facts.opened.last().map(|open| (open.session, open.resume)), Some((facts.opened[0].session, true)));
}

/// The lock-delay is for work that nothing on this machine can end.
#[test]
fn baton_lock_is_killed_and_the_lock_is_released_after_its_lock_delay() {
    let server = Server::start();
    let script = "echo $PPID; exec sleep 60";
    let mut command =
        baton(&server, &["lock", "deploy", "--ttl", "1h", "--lock-delay", "300ms", "--", "sh", "-c", script]);
    command.stderr(Stdio::piped());
    let mut running = start(command);
    let mut said = Output::new(running.process.stderr.take().unwrap());
    running.output.number();
    let killed_ms = now_ms();
    send(running.process.id(), Signal::SIGKILL);
    running.process.wait().unwrap();
    until("the lock is released", || server.facts().closed.is_some());
    assert!(now_ms() >= killed_ms + 300, "before the lock-delay was over");
    let told = "the command is ended, and the lock is released after its lock-delay of 0.3 s\n";
    assert_eq!(said.rest().0, format!("baton: `baton lock` was killed; {told}"));
}

/// The server counts the lock-delay from the end of the lease.
#[test]
fn baton_lock_is_killed_and_its_lock_delay_is_longer_than_its_lease() {
    let server = Server::start();
    let script = "echo $PPID; exec sleep 60";
    let mut command = baton(&server, &["lock", "deploy", "--ttl", "3", "--lock-delay", "9", "--", "sh", "-c", script]);
    command.stderr(Stdio::piped());
    let mut running = start(command);
    let mut said = Output::new(running.process.stderr.take().unwrap());
    let watchdog = running.output.number();
    send(running.process.id(), Signal::SIGKILL);
    running.process.wait().unwrap();
    until("the watchdog has ended", || state(watchdog).is_none_or(|state| state == 'Z'));
    assert_eq!(said.rest().0, "");
    let facts = server.facts();
    assert_eq!((&facts.closed, facts.opened.len()), (&None, 1));
}

#[test]
fn baton_lock_is_stopped() {
    let server = Server::start();
    let (running, pids) = runaways(&server);
    send(running.process.id(), Signal::SIGSTOP);
    gone_in_time(&server, &pids);
    send(running.process.id(), Signal::SIGCONT);
    assert_eq!(running.ends(), 75);
}

#[test]
fn the_watchdog_is_killed() {
    let server = Server::start();
    let (mut running, pids) = runaways(&server);
    let mut said = running.process.stderr.take().unwrap();
    send(pids[0], Signal::SIGKILL);
    gone_in_time(&server, &pids);
    assert_eq!(running.ends(), 137);
    assert!(server.facts().closed.is_some());
    let mut message = String::new();
    said.read_to_string(&mut message).unwrap();
    let told = "baton: the watchdog of the command was killed, and the command with it; the lock was held until then, and is \
        released\n";
    assert_eq!(message, told);
}

#[test]
fn a_watchdog_that_is_stopped_is_continued_while_the_server_answers() {
    let server = Server::start();
    let mut ends = shell(&server, "60", "kill -STOP $PPID; exit 8");
    let mut hears =
        shell(&server, "60", "trap 'exit 9' TERM; kill -STOP $PPID; echo ready; while :; do sleep 0.01; done");
    assert_eq!(hears.output.line(), "ready");
    send(hears.process.id(), Signal::SIGTERM);
    until("both have ended", || [&mut ends, &mut hears].iter_mut().all(|it| it.process.try_wait().unwrap().is_some()));
    assert_eq!((ends.ends(), hears.ends()), (8, 9));
}

#[test]
fn the_watchdog_is_stopped_for_good() {
    let server = Server::start();
    let (running, pids) = runaways(&server);
    server.facts().silent = true;
    // Stop the watchdog again whenever it is continued, as a debugger could.
    let stopper = std::thread::spawn(move || {
        let watchdog = nix::unistd::Pid::from_raw(pids[0] as i32);
        while nix::sys::signal::kill(watchdog, Signal::SIGSTOP).is_ok() {
            std::thread::yield_now();
        }
    });
    gone_in_time(&server, &pids);
    stopper.join().unwrap();
    assert_eq!(running.ends(), 75);
}

#[test]
fn all_of_it_is_paused_beyond_the_lease() {
    let server = Server::start();
    let script = "trap 'echo I ran' TERM CONT; echo $PPID $$; while :; do sleep 0.01; done";
    let mut running = shell(&server, TTL.0, script);
    let line = running.output.line();
    let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let (watchdog, command, client) = (pids[0], pids[1], running.process.id());
    // The client before the watchdog, because a client continues a watchdog that is stopped.
    for pid in [command, client, watchdog] {
        send(pid, Signal::SIGSTOP);
        until("it is stopped", || state(pid) == Some('T'));
    }
    let lease_ends_ms = server.facts().alive_ms + TTL.1;
    until("the lease is over", || now_ms() > lease_ends_ms);
    send(client, Signal::SIGCONT);
    send(watchdog, Signal::SIGCONT);
    // The command printed nothing, so it was killed before it could run.
    assert_eq!(running.ends(), 75);
}

#[test]
fn a_lock_without_a_command() {
    let server = Server::start();
    let mut running = start(baton(&server, &["lock", "a", "--ttl", TTL.0]));
    assert_eq!(running.output.line(), FENCE.to_string());
    server.facts().silent = true;
    gone_in_time(&server, &[running.process.id()]);
    assert_eq!(running.ends(), 75);
}
