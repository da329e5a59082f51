//! What happens to the processes that a command leaves behind when it ends by itself.

use nix::sys::signal::Signal;
use std::io::Read;
use std::process::Stdio;

use super::command::{baton, done, start};
use super::processes::{now_ms, send, state, until};
use super::server::Server;

#[test]
fn a_log_that_is_written_through_a_process_substitution_is_whole() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = "exec > >(sleep 0.3; while read -r line; do echo \"$line\"; done >> \"$LOG\"); seq 200; echo end";
    let mut command = baton(&server, &["lock", "a", "--linger", "60", "--", "bash", "-c", script]);
    assert_eq!(done(command.env("LOG", &log)), (0, String::new(), String::new()));
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!((log.lines().count(), log.lines().last()), (201, Some("end")), "{log}");
}

#[test]
fn what_a_command_leaves_behind_is_ended_and_named() {
    let server = Server::start();
    // It has the name of the shell until it runs its program.
    let script = "sleep 60 & echo $!; until grep -q sleep /proc/$!/comm; do :; done; exit 5";
    let mut command = baton(&server, &["lock", "a", "--linger", "0.01", "--", "sh", "-c", script]);
    let (status, output, error) = done(&mut command);
    let told = format!(
        "baton: the command left processes behind, which were ended 0.0 s after it: sleep ({})\n",
        output.trim_end()
    );
    assert_eq!((status, error), (5, told));
    assert!(server.facts().closed.is_some());
    let mut quiet = baton(&server, &["lock", "-q", "a", "--linger", "0.01", "--", "sh", "-c", script]);
    let (status, _, error) = done(&mut quiet);
    assert_eq!((status, error), (5, String::new()));
}

#[test]
fn a_signal_reaches_what_a_command_left_behind() {
    let server = Server::start();
    let script = "( trap 'echo TERM; exit' TERM; echo $$; while :; do sleep 0.01; done ) 2>/dev/null & exit 5";
    let mut command = baton(&server, &["lock", "a", "--linger", "600", "--", "sh", "-c", script]);
    command.stderr(Stdio::piped());
    let mut running = start(command);
    let mut error = running.process.stderr.take().unwrap();
    let command = running.output.number();
    until("the command has ended", || state(command).is_none());
    send(running.process.id(), Signal::SIGTERM);
    assert_eq!(running.output.line(), "TERM");
    assert_eq!(running.ends(), 5);
    let mut told = String::new();
    error.read_to_string(&mut told).unwrap();
    assert_eq!(told, "", "it ended by itself");
}

#[test]
fn what_lingers_is_gone_before_the_lease() {
    let server = Server::start();
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & read line";
    let mut running = start(baton(&server, &["lock", "a", "--ttl", "3", "--linger", "600", "--", "sh", "-c", script]));
    let left_behind = running.output.number();
    drop(running.process.stdin.take());
    server.facts().silent = true;
    until("it is gone", || state(left_behind).is_none_or(|state| state == 'Z'));
    assert!(now_ms() < server.facts().alive_ms + 3_000, "gone after the lease");
    assert_eq!(running.ends(), 75);
}
