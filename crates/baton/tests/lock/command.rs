//! `baton lock` without failures, and its messages if it cannot start.

use baton_api::v1::{self, server_frame};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::processes::{BATON, Output, now_ms, send, until};
use super::server::{Answer, FENCE, Listing, Server};

/// A running `baton lock` and its standard output.
pub struct Running {
    pub process: Child,
    pub output: Output<ChildStdout>,
}

impl Running {
    /// The exit status. There must be no further output.
    pub fn ends(mut self) -> i32 {
        assert_eq!(self.output.rest().0, "");
        self.process.wait().unwrap().code().unwrap()
    }
}

pub fn baton(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(BATON);
    command.args(args).env("BATON_SERVER", &server.address).env("SHELL", "/bin/sh").env_remove("BATON_OWNER");
    command
}

pub fn start(mut command: Command) -> Running {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = Output::new(process.stdout.take().unwrap());
    Running { process, output }
}

pub fn shell(server: &Server, ttl: &str, script: &str) -> Running {
    start(baton(server, &["lock", "deploy", "--ttl", ttl, "--", "sh", "-c", script]))
}

/// Exit status, standard output and standard error.
pub fn done(command: &mut Command) -> (i32, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_command_runs_under_the_lock() {
    let server = Server::start();
    let script = "echo $BATON_LOCK $BATON_FENCE $BATON_OWNER $BATON_DEADLINE; exit 5";
    let mut running = shell(&server, "60", script);
    let line = running.output.line();
    let [name, fence, owner, deadline] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    assert_eq!((name, fence), ("deploy", FENCE.to_string().as_str()));
    assert_eq!(u64::from_str_radix(owner, 16).unwrap(), server.facts().acquired[0].owner);
    let left_ms = (deadline.parse::<f64>().unwrap() * 1_000.0) as u64 - now_ms();
    assert!(left_ms <= 60_000, "{left_ms}");
    assert_eq!(running.ends(), 5);
    let facts = server.facts();
    assert_eq!((facts.opened[0].label.as_str(), facts.opened[0].ttl_ms), ("sh", 60_000));
    assert!(facts.closed.is_some());
}

#[test]
fn the_arguments_of_a_command_are_nobody_elses_business() {
    let server = Server::start();
    let label = |args: &[&str]| {
        assert_eq!(done(baton(&server, &["lock", "a"]).args(args)).0, 0);
        server.facts().opened.pop().unwrap().label
    };
    assert_eq!(label(&["--", "/bin/echo", "--password", "secret"]), "echo");
    assert_eq!(label(&["-c", "true secret"]), "sh");
    assert_eq!(label(&["--label", "nightly", "--", "true", "secret"]), "nightly");
}

#[test]
fn the_lock_is_released_only_when_nothing_is_left_of_the_command() {
    let server = Server::start();
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & read line";
    let mut running =
        start(baton(&server, &["lock", "deploy", "--ttl", "6", "--linger", "0", "--", "sh", "-c", script]));
    let left_behind = running.output.number();
    server.facts().look_at.push(left_behind);
    writeln!(running.process.stdin.take().unwrap(), "now").unwrap();
    assert_eq!(running.ends(), 0);
    assert_eq!(server.facts().closed, Some(vec![]));
}

#[test]
fn how_a_command_ends_is_the_exit_status() {
    let server = Server::start();
    let lock = |args: &[&str]| done(baton(&server, &["lock", "a"]).args(args)).0;
    assert_eq!(lock(&["--", "sh", "-c", "kill -KILL $$"]), 137);
    assert_eq!(lock(&["-c", "exit 3"]), 3);
    assert_eq!(lock(&["true"]), 0);
    assert_eq!(lock(&["--", "no-such-program-as-this"]), 127);
    assert_eq!(lock(&["--", "/dev/null"]), 126);
}

#[test]
fn a_command_may_use_the_exit_status_of_a_lost_lock() {
    let server = Server::start();
    assert_eq!(done(&mut baton(&server, &["lock", "a", "-c", "exit 75"])), (75, String::new(), String::new()));
}

#[test]
fn whoever_starts_us_may_ignore_the_end_of_children() {
    let server = Server::start();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD", BATON, "lock", "a", "--", "sh", "-c", "exit 5"]);
    command.env("BATON_SERVER", &server.address).env_remove("BATON_OWNER");
    assert_eq!(done(&mut command), (5, String::new(), String::new()));
}

#[test]
fn who_is_interrupted_dies_of_it_so_that_a_script_stops_too() {
    let server = Server::start();
    let mut running = shell(&server, "60", "echo ready; exec sleep 60");
    assert_eq!(running.output.line(), "ready");
    send(running.process.id(), Signal::SIGINT);
    assert_eq!(running.process.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
    assert!(server.facts().closed.is_some(), "died before the lock was released");
    // `baton lock` exits normally if the command exits with 130, or if another signal ends the command.
    assert_eq!(shell(&server, "60", "exit 130").ends(), 130);
    assert_eq!(shell(&server, "60", "kill -TERM $$").ends(), 143);
}

#[test]
fn signals_are_passed_on() {
    let server = Server::start();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let name = signal.as_str().trim_start_matches("SIG");
        let script = format!("trap 'echo {name}; exit 4' {name}; echo ready; while :; do sleep 0.01; done");
        let mut running = shell(&server, "60", &script);
        assert_eq!(running.output.line(), "ready");
        send(running.process.id(), signal);
        assert_eq!(running.output.line(), name);
        assert_eq!(running.ends(), 4);
    }
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let server = Server::start();
    let ignored = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    let mut command = Command::new(ignored[0]);
    command.args(&ignored[1..]).args([BATON, "lock", "a", "--", "grep", "SigIgn", "/proc/self/status"]);
    command.env("BATON_SERVER", &server.address).env_remove("BATON_OWNER");
    let mut running = start(command);
    let line = running.output.line();
    let mask = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 1, 1, "{line}");
    assert_eq!(running.ends(), 0);
}

#[test]
fn without_a_command_it_prints_the_fence_and_holds() {
    let server = Server::start();
    let mut running = start(baton(&server, &["lock", "a"]));
    assert_eq!(running.output.line(), FENCE.to_string());
    assert!(server.facts().closed.is_none());
    send(running.process.id(), Signal::SIGTERM);
    assert_eq!(running.ends(), 0);
    assert!(server.facts().closed.is_some());
}

#[test]
fn a_nested_lock_has_an_owner_of_its_own_and_its_parent() {
    let server = Server::start();
    assert_eq!(done(&mut baton(&server, &["lock", "a", "--", BATON, "lock", "b", "--", "true"])).0, 0);
    let facts = server.facts();
    assert_eq!((facts.acquired[0].name.as_slice(), facts.acquired[1].name.as_slice()), (&b"a"[..], &b"b"[..]));
    assert_eq!((facts.acquired[0].parent, facts.acquired[1].parent), (None, Some(facts.acquired[0].owner)));
    assert_ne!(facts.acquired[0].owner, facts.acquired[1].owner);
}

#[test]
fn a_nested_lock_asks_the_same_servers() {
    let server = Server::start();
    let mut command = Command::new(BATON);
    command.args(["lock", "a", "--server", &server.address, "--", BATON, "lock", "b", "--", "true"]);
    assert_eq!(done(command.env_remove("BATON_SERVER").env("BATON_OWNER", "")), (0, String::new(), String::new()));
    assert_eq!(server.facts().acquired.len(), 2);
}

#[test]
fn two_dashes_without_a_command_are_a_mistake() {
    let server = Server::start();
    let (status, output, error) = done(&mut baton(&server, &["lock", "a", "--"]));
    assert_eq!((status, output.as_str()), (2, ""));
    assert_eq!(error, "baton: there is no command after `--`; leave out `--` to hold the lock without a command\n");
    assert_eq!(server.facts().acquired.len(), 0);
}

#[test]
fn what_is_wanted_reaches_the_server() {
    let server = Server::start();
    let wants = |args: &[&str]| {
        assert_eq!(done(baton(&server, &["lock", "a"]).args(args).arg("true")).0, 0);
        let wanted = server.facts().acquired.pop().unwrap();
        (wanted.mode(), wanted.permits, wanted.timeout_ms, wanted.lock_delay_ms)
    };
    assert_eq!(wants(&[]), (v1::Mode::Exclusive, 0, None, 0));
    assert_eq!(wants(&["-x", "-n"]), (v1::Mode::Exclusive, 0, Some(0), 0));
    // The time to open the session is subtracted from -w.
    let (mode, permits, timeout_ms, lock_delay_ms) = wants(&["-s", "-w", "60"]);
    assert_eq!((mode, permits, lock_delay_ms), (v1::Mode::Shared, 0, 0));
    assert!(timeout_ms.is_some_and(|ms| (1..=60_000).contains(&ms)), "{timeout_ms:?}");
    assert_eq!(wants(&["-k", "3", "--lock-delay", "7"]), (v1::Mode::Permit, 3, None, 7_000));
}

#[test]
fn a_lock_that_is_not_acquired() {
    let server = Server::start();
    let refused = |refusal: v1::Refusal, args: &[&str]| {
        server.facts().answer = Answer::Refused(refusal);
        done(baton(&server, &["lock", "a"]).args(args).args(["--", "echo", "never"]))
    };
    assert_eq!(refused(v1::Refusal::NotAvailable, &["-nq"]), (1, String::new(), String::new()));
    assert_eq!(refused(v1::Refusal::TimedOut, &["-qw", "1", "-E", "9"]), (9, String::new(), String::new()));
    let (status, output, error) = refused(v1::Refusal::Deadlock, &["-E", "9"]);
    assert_eq!((status, output.as_str(), error.lines().count()), (9, "", 1), "{error}");
    let (status, output, error) = refused(v1::Refusal::PermitsDiffer, &["-k", "2"]);
    assert_eq!((status, output.as_str()), (2, ""));
    assert!(error.contains("not with me"), "{error}");
    let (status, output, error) = refused(v1::Refusal::Unsupported, &["-s"]);
    assert_eq!((status, output.as_str()), (2, ""));
    assert!(error.contains("not with me"), "{error}");
}

#[test]
fn who_waits_can_be_interrupted_and_leaves_the_queue() {
    let server = Server::start();
    server.facts().answer = Answer::Nothing;
    let running = start(baton(&server, &["lock", "a", "--", "echo", "never"]));
    until("it waits", || server.facts().acquired.len() == 1);
    send(running.process.id(), Signal::SIGINT);
    assert_eq!(running.ends(), 130);
    assert!(server.facts().closed.is_some());
}

#[test]
fn who_waits_for_a_silent_process_is_told_once_for_each() {
    let server = Server::start();
    server.facts().answer = Answer::Nothing;
    let mut command = baton(&server, &["lock", "a", "--", "echo", "never"]);
    command.stderr(Stdio::piped());
    let mut running = start(command);
    let mut error = Output::new(running.process.stderr.take().unwrap());
    until("it waits", || server.facts().acquired.len() == 1);
    let hopeless = |process: u64| {
        let message = format!("waiting for process {process}, not heard of for 4.2 s");
        server.say(|acquire| server_frame::Frame::Hopeless(v1::Hopeless { acquire, process, message }));
    };
    hopeless(3);
    assert_eq!(error.line(), "baton: waiting for process 3, not heard of for 4.2 s");
    hopeless(3);
    hopeless(4);
    assert_eq!(error.line(), "baton: waiting for process 4, not heard of for 4.2 s");
    send(running.process.id(), Signal::SIGINT);
    assert_eq!(error.rest().0, "baton: SIGINT ended the wait for the lock\n");
    assert_eq!(running.ends(), 130);
}

#[test]
fn bad_usage_is_one_sentence_and_status_2() {
    let server = Server::start();
    let long = "a".repeat(513);
    for name in [&b""[..], long.as_bytes()] {
        let mut command = baton(&server, &["lock"]);
        let (status, _, error) = done(command.arg(OsStr::from_bytes(name)).arg("true"));
        assert_eq!((status, error.lines().count()), (2, 1), "{error}");
    }
    for (args, env) in [(["--server", "nowhere"], ""), (["--server", ""], ""), (["--ttl", "5"], "12")] {
        let mut command = baton(&server, &["lock", "a"]);
        let (status, _, error) = done(command.args(args).arg("true").env("BATON_OWNER", env));
        assert_eq!((status, error.lines().count()), (2, 1), "{error}");
    }
    assert_eq!(done(&mut baton(&server, &["lock", "a", "-n", "-w", "1"])).0, 2);
    assert!(server.facts().opened.is_empty());
}

#[test]
fn a_name_is_bytes_as_they_are_typed_or_escaped() {
    let server = Server::start();
    let asked = |name: &[u8], args: &[&str]| {
        let mut command = baton(&server, &["lock"]);
        command.args(args).arg(OsStr::from_bytes(name)).args(["--", "printenv", "BATON_LOCK"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let wanted = server.facts().acquired.pop().unwrap().name;
        assert_eq!(output.stdout, [&wanted[..], b"\n"].concat(), "the command finds the bytes themselves");
        wanted
    };
    assert_eq!(asked(b"caf\xe9", &[]), b"caf\xe9");
    assert_eq!(asked(br"caf\xe9\\", &["--escaped"]), b"caf\xe9\\");
    assert_eq!(asked(br"caf\xe9\\", &[]), br"caf\xe9\\");
}

#[test]
fn a_name_that_cannot_be_read_is_one_sentence_and_status_2() {
    let server = Server::start();
    let nothing_like_it = "write a byte as \\xNN with two hexadecimal digits, a backslash as \\\\";
    let cases: [(&[u8], &str); 6] = [
        (br"a\", nothing_like_it),
        (br"a\n", nothing_like_it),
        (br"\x4", nothing_like_it),
        (br"\xg0", nothing_like_it),
        (b"a\xff", "with --escaped, write each such byte as \\xNN"),
        (b"", "empty"),
    ];
    for (name, says) in cases {
        for args in [&["lock", "--escaped"][..], &["lock-info", "--escaped"], &["release", "--force", "--escaped"]] {
            let (status, output, error) = done(baton(&server, args).arg(OsStr::from_bytes(name)));
            assert_eq!((status, output.as_str(), error.lines().count()), (2, "", 1), "{error}");
            assert!(error.contains(says), "{error}");
        }
    }
    // An environment variable cannot hold a byte 0.
    let (status, _, error) = done(&mut baton(&server, &["lock", "--escaped", r"a\x00\xff", "true"]));
    assert_eq!((status, error.lines().count()), (2, 1), "{error}");
    assert!(error.contains(r#"the name of the lock, "a\x00\xff", has a byte 0"#), "{error}");
    assert!(server.facts().opened.is_empty());
    let mut running = start(baton(&server, &["lock", "--escaped", r"a\x00"]));
    assert_eq!(running.output.line(), FENCE.to_string());
    assert_eq!(server.facts().acquired[0].name, b"a\0");
    send(running.process.id(), Signal::SIGTERM);
    assert_eq!(running.ends(), 0);
}

#[test]
fn a_name_that_is_not_utf8_is_shown_escaped() {
    let server = Server::start();
    server.facts().lock = b"caf\xe9\\".to_vec();
    let told = |args: &[&str]| done(&mut baton(&server, args));
    let json = |args: &[&str]| serde_json::from_str::<Value>(&told(args).1).unwrap();
    for args in [
        &["lock-info", "--escaped", r"caf\xe9\\", "--json"][..],
        &["release", "--escaped", r"caf\xe9\\", "--force", "--json"],
    ] {
        let lock = json(args);
        assert_eq!((&lock["name"], &lock["escaped"]), (&json!(r"caf\xe9\\"), &json!(true)), "{lock}");
    }
    let lock = &json(&["locks", "--json"])[0];
    assert_eq!((&lock["name"], &lock["escaped"]), (&json!(r"caf\xe9\\"), &json!(true)), "{lock}");
    let session = &json(&["sessions", "--json"])[0];
    assert_eq!((&session["holds"], &session["escaped"]), (&json!([r"caf\xe9\\"]), &json!(true)), "{session}");
    for args in [&["locks"][..], &["lock-info", "--escaped", r"caf\xe9\\"], &["sessions"]] {
        let (status, output, _) = told(args);
        assert_eq!(status, 0);
        assert!(output.contains(r"caf\xe9\\"), "{output}");
    }
    let (status, _, error) = told(&["lock-info", "--escaped", r"no\x1b\xff"]);
    assert_eq!(status, 1);
    assert!(error.contains(r#"the lock "no\x1b\xff" has no holder"#), "{error}");
    // A name that is UTF-8 has no `escaped` field and is shown unchanged.
    server.facts().lock = br"a\b".to_vec();
    for told in [
        json(&["lock-info", r"a\b", "--json"]),
        json(&["release", r"a\b", "--force", "--json"]),
        json(&["locks", "--json"])[0].clone(),
    ] {
        assert_eq!((&told["name"], told.get("escaped")), (&json!(r"a\b"), None), "{told}");
    }
    let session = &json(&["sessions", "--json"])[0];
    assert_eq!((&session["holds"], session.get("escaped")), (&json!([r"a\b"]), None), "{session}");
}

#[test]
fn a_long_list_of_locks_is_printed_as_it_comes() {
    let server = Server::start();
    server.facts().listing = Listing::NeverEnds;
    let mut running = baton(&server, &["locks", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut read = vec![0; 1 << 20];
    let mut output = running.stdout.take().unwrap();
    output.read_exact(&mut read).unwrap();
    assert!(read.starts_with(br#"[{"name":"0.0","mode":"exclusive","#), "{:?}", String::from_utf8_lossy(&read[..99]));
    // The reader closes the pipe, so the command must end.
    drop(output);
    until("it has ended", || running.try_wait().unwrap().is_some());
    assert_eq!(running.wait().unwrap().code(), Some(0));
}

#[test]
fn a_list_of_locks_that_breaks_off_is_no_list() {
    let server = Server::start();
    server.facts().listing = Listing::Fails;
    let (status, output, error) = done(&mut baton(&server, &["locks", "--json"]));
    assert_eq!((status, error.as_str()), (69, "baton: the server refused: page 1 is lost\n"));
    assert!(serde_json::from_str::<Value>(&output).is_err(), "{output}");
    assert_eq!(done(&mut baton(&server, &["locks"])), (69, String::new(), error));
}

#[test]
fn a_list_of_locks_that_makes_no_sense_is_one_sentence_and_status_2() {
    let server = Server::start();
    let cases: [(&[&str], &str); 3] = [
        (&["--prefix", r"a\n", "--escaped"], r"the prefix cannot be read: `\n` at byte 1 is no escape"),
        (&["--history"], "--json"),
        (&["--prefix"], "a value is required"),
    ];
    for (args, says) in cases {
        let (status, output, error) = done(baton(&server, &["locks"]).args(args));
        assert_eq!((status, output.as_str(), error.lines().count()), (2, "", 1), "{error}");
        assert!(error.contains(says), "{error}");
    }
    let not_utf8 = OsStr::from_bytes(b"\xff");
    let (status, _, error) = done(baton(&server, &["locks", "--escaped", "--prefix"]).arg(not_utf8));
    assert_eq!((status, error.lines().count()), (2, 1), "{error}");
}

#[test]
fn no_server_is_status_69() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let commands: [&[&str]; 6] = [
        &["lock", "-n", "a", "true"],
        &["locks"],
        &["lock-info", "a"],
        &["sessions"],
        &["release", "a", "--force"],
        &["status"],
    ];
    for args in commands {
        let (status, output, error) = done(Command::new(BATON).args(args).env("BATON_SERVER", &nobody));
        assert_eq!((status, output.as_str()), (69, ""), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn output_that_cannot_be_written_is_status_74() {
    let server = Server::start();
    let commands: [&[&str]; 7] = [
        &["lock", "a"],
        &["locks"],
        &["locks", "--json"],
        &["lock-info", "deploy", "--json"],
        &["sessions"],
        &["status"],
        &["release", "deploy", "--force"],
    ];
    for args in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = baton(&server, args).stdin(Stdio::null()).stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{args:?}: {told}");
        assert_eq!(told, "baton: cannot write to standard output: No space left on device (os error 28)\n", "{args:?}");
    }
}

#[test]
fn the_service_is_looked_at() {
    let server = Server::start();
    let told = |args: &[&str]| done(&mut baton(&server, args));
    let json = |args: &[&str]| serde_json::from_str::<Value>(&told(args).1).unwrap();
    assert_eq!(json(&["locks", "--json"])[0]["holders"][0]["session"], json!("000000000000000a"));
    assert_eq!(json(&["lock-info", "deploy", "--json"])["mode"], json!("exclusive"));
    assert_eq!(json(&["sessions", "--json"])[0]["holds"], json!(["deploy"]));
    assert_eq!(json(&["status", "--json"])["role"], json!("leader"));
    assert_eq!(json(&["release", "deploy", "--force", "--json"])["holders"][0]["fence"], json!(FENCE));
    for args in [&["locks"][..], &["lock-info", "deploy"], &["sessions"], &["release", "deploy", "--force"]] {
        let (status, output, _) = told(args);
        assert_eq!(status, 0);
        assert!(output.contains("make"), "{output}");
    }
    let (status, output, error) = told(&["lock-info", "nothing"]);
    assert_eq!((status, output.as_str(), error.lines().count()), (1, "", 1));
    let (status, _, error) = told(&["release", "deploy"]);
    assert_eq!((status, error.lines().count()), (2, 1));
    assert!(error.contains("--force"), "{error}");
}
