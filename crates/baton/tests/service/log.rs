//! The lines that a server writes to its standard error.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Instant;

use baton_api::v1;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit};

use crate::commands::{PATIENCE, json};
use crate::raw::{Raw, acquire, is_granted, open};
use crate::server::{Server, Setup};

/// Opens a session, forces the release of its lock, and lets the session expire. Returns after the expiry.
async fn eventful(server: &Server) {
    let nightly = v1::Open { ttl_ms: 1_000, label: "nightly".into(), ..open(0xab) };
    let (mut raw, _) = Raw::open(server, nightly).await;
    assert!(is_granted(&raw.ask(1, acquire("deploy")).await));
    assert!(server.run(&["release", "--force", "deploy"]).status.success());
    drop(raw);
    let start = Instant::now();
    while json(server, &["sessions"]).as_array().is_none_or(|sessions| !sessions.is_empty()) {
        assert!(start.elapsed() < PATIENCE, "the session does not expire");
    }
}

/// The lines with this text in them.
fn count(log: &[String], text: &str) -> usize {
    log.iter().filter(|line| line.contains(text)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_term_an_expiry_and_a_forced_release_are_one_line_each() {
    let mut server = Server::start();
    eventful(&server).await;
    let line = |text: &str, says: &[&str]| {
        let line = server.log_line(text);
        assert!(line.contains(" INFO ") && says.iter().all(|says| line.contains(says)), "{line}");
    };
    line("this node leads", &["term=1", "sessions=0"]);
    line("a session expired", &["session=00000000000000ab", "label=\"nightly\"", "host=\"here\""]);
    line("a release was forced", &["lock=\"deploy\"", "now=false", "holders=1", "by=127.0.0.1:"]);
    assert!(server.stop().success());
    let log = server.log_at_the_end();
    for text in ["this node leads term", "a session expired", "a release was forced"] {
        assert_eq!(count(&log, text), 1, "{text}: {log:?}");
    }
    assert_eq!(count(&log, "WARN") + count(&log, "ERROR"), 0, "{log:?}");
}

/// Any client can begin sessions and go away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_that_expire_are_few_lines() {
    let mut server = Server::start();
    for id in 1..=60 {
        drop(Raw::open(&server, v1::Open { ttl_ms: 1_000, ..open(id) }).await);
    }
    let start = Instant::now();
    while json(&server, &["status"])["sessions"] != 0 {
        assert!(start.elapsed() < PATIENCE, "the sessions do not expire");
    }
    assert!(server.stop().success());
    assert_eq!(count(&server.log_at_the_end(), "a session expired"), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_off_has_no_line() {
    let mut server = Server::start_with(&["--log", "off"]);
    eventful(&server).await;
    assert!(server.stop().success());
    assert_eq!(server.log_at_the_end(), [""; 0]);
}

#[test]
fn the_environment_says_what_is_logged_unless_the_option_does() {
    let leads = |option: Option<&str>, rust_log: Option<&str>| {
        let options = option.into_iter().flat_map(|filter| ["--log".to_owned(), filter.to_owned()]).collect();
        let rust_log = rust_log.map(String::from);
        let mut server = Server::start_as(Setup { options, rust_log, ..Setup::default() });
        assert!(server.stop().success());
        count(&server.log_at_the_end(), "this node leads term")
    };
    assert_eq!(leads(None, Some("off")), 0);
    assert_eq!(leads(None, Some("baton_server=info")), 1);
    assert_eq!(leads(None, Some("")), 1);
    assert_eq!(leads(Some("info"), Some("off")), 1);
    assert_eq!(leads(Some("warn"), Some("info")), 0);
}

#[test]
fn a_filter_that_makes_no_sense_is_refused_in_one_sentence() {
    // A server that accepted the filter would fail with another error, because this is not a folder.
    let file = tempfile::NamedTempFile::new().unwrap();
    let cases = [
        ("--log", "baton=1=2", "error parsing level filter: "),
        ("RUST_LOG", "baton=1=2", "error parsing level filter: "),
        ("--log", "verbose", "the server has no module \"verbose\"; an example is info"),
        ("--log", "info,baton_servce=debug", "the server has no module \"baton_servce\"; an example is info"),
    ];
    for (source, filter, why) in cases {
        let mut command = std::process::Command::new(crate::server::BATON);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(file.path());
        match source {
            "--log" => command.args([source, filter]),
            variable => command.env(variable, filter),
        };
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.starts_with(&format!("baton: {source} {filter:?} is not a log filter: {why}")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// The process ends at once. Its last line is written by another thread, which must not be too late.
#[test]
fn the_last_line_of_a_server_that_cannot_write_says_why() {
    // Without the trap, SIGXFSZ would end the server, and the write would not fail.
    let mut server = Server::start_as(Setup { prelude: Some("trap '' XFSZ".to_owned()), ..Setup::default() });
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    let pid = rustix::process::Pid::from_raw(server.pid().as_raw());
    rustix::process::prlimit(pid, Resource::Fsize, nothing).unwrap();
    assert!(!server.run(&["lock", "-n", "a", "--", "true"]).status.success());
    assert_eq!(server.ends().code(), Some(1));
    let log = server.log_at_the_end();
    let says = "the log cannot be written (File too large (os error 27)); what is not yet acknowledged may be lost";
    assert!(log.iter().any(|line| line.contains("ERROR") && line.contains(says)), "{log:?}");
}

/// A log that is piped into a program that hangs must not hang the server.
#[test]
fn a_server_goes_on_when_nobody_reads_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(crate::server::BATON);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "h2=trace", "--data"]).arg(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let address = first.split("listens on ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    // Each call adds some kilobytes to the log, and a pipe holds 64 KiB.
    for _ in 0..50 {
        let status = std::process::Command::new(crate::server::BATON).args(["status", "--server", address]).output();
        assert!(status.unwrap().status.success());
    }
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    let mut log = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut log).unwrap();
    assert!(log.len() >= 60_000, "{}", log.len());
}
