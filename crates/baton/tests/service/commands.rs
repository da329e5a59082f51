//! The command line with a real server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::server::Server;

/// A limit that only a failed test reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command under a lock, and waits until it holds the lock. The command ends when its input is closed.
fn hold(server: &Server, args: &[&str]) -> Child {
    let args = [&["lock"], args, &["--", "sh", "-c", "echo held; cat >/dev/null"]].concat();
    let mut child = server.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    child
}

pub fn json(server: &Server, args: &[&str]) -> Value {
    let output = server.run(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn wait_for_waiters(server: &Server, lock: &str, waiters: usize) {
    let start = Instant::now();
    while json(server, &["lock-info", lock])["waiters"].as_array().unwrap().len() != waiters {
        assert!(start.elapsed() < PATIENCE, "{lock} never had {waiters} waiters");
    }
}

#[test]
fn what_programs_read_of_a_lock_a_session_and_a_server() {
    let server = Server::start();
    let mut holder = hold(&server, &["deploy", "--ttl", "30"]);
    let mut waiter = server.command(&["lock", "-s", "deploy", "--", "true"]).spawn().unwrap();
    wait_for_waiters(&server, "deploy", 1);

    let lock = json(&server, &["lock-info", "deploy"]);
    let names = ["history", "holders", "lock_delay_ms", "mode", "name", "permits", "waiters"];
    assert_eq!(keys(&lock), names, "{lock}");
    assert_eq!((&lock["name"], &lock["mode"], &lock["permits"]), (&"deploy".into(), &"exclusive".into(), &1.into()));
    let names = ["deadline_in_ms", "fence", "host", "label", "owner", "pid", "session", "since_ms"];
    assert_eq!(keys(&lock["holders"][0]), names);
    assert_eq!(lock["holders"][0]["pid"], holder.id());
    assert!(lock["holders"][0]["deadline_in_ms"].as_u64().unwrap() <= 30_001);
    let names = ["label", "mode", "owner", "position", "session", "waiting_ms"];
    assert_eq!(keys(&lock["waiters"][0]), names);
    assert_eq!((&lock["waiters"][0]["mode"], &lock["waiters"][0]["position"]), (&"shared".into(), &1.into()));
    assert_eq!(json(&server, &["locks"])[0]["name"], "deploy");

    let sessions = json(&server, &["sessions"]);
    let names = ["expires_in_ms", "holds", "host", "id", "label", "pid", "ttl_ms", "waits"];
    assert_eq!(keys(&sessions[0]), names);
    let of = |key: &str| sessions.as_array().unwrap().iter().any(|session| session[key][0] == "deploy");
    assert!(of("holds") && of("waits"), "{sessions}");

    let status = json(&server, &["status"]);
    let names = ["applied", "cluster", "cluster_id", "commit", "confirmed", "free_bytes", "locks", "low_space"];
    let rest = ["max_ttl_ms", "name", "node", "role", "sessions", "term", "uptime_ms", "version", "waiters"];
    assert_eq!(keys(&status), [&names[..], &rest].concat());
    assert_eq!(status["confirmed"], true);
    // This assumes that the machine has free space.
    assert_eq!((status["free_bytes"].as_u64().map(|free| free > 0), &status["low_space"]), (Some(true), &false.into()));
    let text = String::from_utf8(server.run(&["status"]).stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("free space  ") && line.ends_with("iB")), "{text}");
    assert_eq!((&status["role"], &status["locks"], &status["waiters"]), (&"leader".into(), &1.into(), &1.into()));
    assert_eq!(status["commit"], status["applied"]);

    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert!(waiter.wait().unwrap().success());
    let lock = json(&server, &["lock-info", "deploy"]);
    assert_eq!((&lock["mode"], lock["holders"].as_array().unwrap().len()), (&Value::Null, 0));
    assert_eq!(json(&server, &["status"])["locks"], 0, "it is only remembered");
    let names = ["ended", "fence", "from_ms", "label", "session", "to_ms"];
    assert_eq!(keys(&lock["history"][0]), names);
    let ended: Vec<&Value> = lock["history"].as_array().unwrap().iter().map(|past| &past["ended"]).collect();
    assert_eq!(ended, ["released", "released"]);
    assert!(lock["history"][0]["fence"].as_u64() < lock["history"][1]["fence"].as_u64());
}

#[test]
fn a_forced_release_ends_the_command_first() {
    let server = Server::start();
    let mut holder = hold(&server, &["deploy", "--ttl", "30"]);
    // `wait` would close the input of the command, and the command would end by itself.
    let _input = holder.stdin.take();
    let output = server.run(&["release", "deploy"]);
    assert_eq!(output.status.code(), Some(2), "only its holder releases without --force: {output:?}");
    assert!(server.run(&["release", "deploy", "--force"]).status.success());
    assert_eq!(holder.wait().unwrap().code(), Some(75));
    assert_eq!(json(&server, &["lock-info", "deploy"])["history"][0]["ended"], "forced");
    assert!(server.run(&["lock", "-n", "deploy", "--", "true"]).status.success());
}

#[test]
fn a_forced_release_names_the_holder_and_not_the_waiter() {
    let server = Server::start();
    let mut holder = hold(&server, &["deploy", "--ttl", "30"]);
    let _input = holder.stdin.take();
    // The stopped holder does not release the lock, so it still holds the lock at the second forced release.
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGSTOP).unwrap();
    let mut waiter = server.command(&["lock", "deploy", "--", "true"]).spawn().unwrap();
    wait_for_waiters(&server, "deploy", 1);
    let fence = json(&server, &["lock-info", "deploy"])["holders"][0]["fence"].clone();
    let forced = json(&server, &["release", "deploy", "--force"]);
    assert_eq!((&forced["name"], &forced["now"]), (&"deploy".into(), &false.into()));
    let named: Vec<_> =
        forced["holders"].as_array().unwrap().iter().map(|holder| (&holder["pid"], &holder["fence"])).collect();
    assert_eq!(named, [(&holder.id().into(), &fence)]);
    let text = String::from_utf8(server.run(&["release", "deploy", "--force", "--now"]).stdout).unwrap();
    assert!(text.starts_with("taken from sh at ") && text.lines().count() == 1, "{text}");
    assert!(text.contains(&format!(":{}, fence {fence}", holder.id())), "{text}");
    assert!(waiter.wait().unwrap().success());
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGCONT).unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(75));
    let text = String::from_utf8(server.run(&["release", "deploy", "--force"]).stdout).unwrap();
    assert!(text.starts_with("the lock \"deploy\" has no holder"), "{text}");
}

#[test]
fn a_forced_release_now_does_not_wait() {
    let server = Server::start();
    let mut holder = hold(&server, &["deploy", "--ttl", "30"]);
    // `wait` would close the input of the command, and the command would end by itself.
    let _input = holder.stdin.take();
    // The stopped holder cannot release the lock. Before its lease ends, only --now frees the lock.
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGSTOP).unwrap();
    assert!(server.run(&["release", "deploy", "--force"]).status.success());
    assert_eq!(server.run(&["lock", "-n", "deploy", "--", "true"]).status.code(), Some(1));
    assert!(server.run(&["release", "deploy", "--force", "--now"]).status.success());
    assert!(server.run(&["lock", "-n", "deploy", "--", "true"]).status.success());
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGCONT).unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(75));
}

#[test]
fn a_lock_within_itself_is_refused_and_says_why() {
    let server = Server::start();
    let baton = crate::server::BATON;
    let output = server.run(&["lock", "deploy", "--", baton, "lock", "-w", "20", "deploy", "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    let told =
        "this command runs under a `baton lock` that holds the lock \"deploy\": waiting for it would be a deadlock";
    assert_eq!(message, format!("baton: {told}\n"));
    let output = server.run(&["lock", "deploy", "--", baton, "lock", "report", "--", "true"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_long_name_does_not_fill_a_message() {
    let server = Server::start();
    let name = "x".repeat(300);
    for args in [&["lock-info", &name][..], &["release", &name], &["release", &name, "--force"]] {
        let output = server.run(args);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(told.contains("the lock \"xxx") && told.contains("x…\""), "{told}");
        assert!(told.chars().count() < 200, "{told}");
    }
}

#[test]
fn locks_side_by_side_under_one_lock_wait_for_each_other() {
    let server = Server::start();
    // The first `baton lock` holds b. It ends only after the second one is in the queue.
    let script = r#"
        "$0" lock b -- sh -c 'read line' <>"$1" & first=$!
        until "$0" lock-info b 2>&1 | grep -q '^sh '; do kill -0 $first || exit 8; done
        "$0" lock b -- true & second=$!
        until "$0" lock-info b | grep -q '^1 '; do kill -0 $second || exit 9; done
        echo go >"$1"; wait $first && wait $second"#;
    let folder = tempfile::tempdir().unwrap();
    let way = folder.path().join("way");
    nix::unistd::mkfifo(&way, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let arguments = ["-c", script, crate::server::BATON, way.to_str().unwrap()];
    let output = server.run(&[&["lock", "a", "--", "sh"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn permits_that_differ_are_refused() {
    let server = Server::start();
    let mut holder = hold(&server, &["downloads", "-k", "2"]);
    assert!(server.run(&["lock", "-n", "downloads", "-k", "2", "--", "true"]).status.success());
    let output = server.run(&["lock", "-n", "downloads", "-k", "3", "--", "true"]);
    assert_ne!(output.status.code(), Some(0));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("in use with 2 permits, and the request says 3"), "{message}");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

#[test]
fn a_server_that_is_stopped_for_longer_than_the_lease_costs_the_command_its_life_before_the_next_is_granted() {
    let stop = |server: &mut Server| server.signal(Signal::SIGSTOP);
    costs_the_command_its_life(stop, |server| server.signal(Signal::SIGCONT));
}

#[test]
fn a_server_that_is_gone_costs_the_command_its_life_before_the_next_is_granted() {
    costs_the_command_its_life(Server::kill, Server::restart);
}

#[test]
fn a_lock_waits_for_a_server_that_is_about_to_start_unless_it_does_not_want_to_wait() {
    let mut server = Server::start();
    server.kill();
    let waits = [&["lock", "deploy", "-w", "60"][..], &["lock", "report"]];
    let mut waiting = waits.map(|args| server.command(&[args, &["--", "true"]].concat()).spawn().unwrap());
    for args in [&["-n"][..], &["-w", "0"]] {
        let output = server.run(&[&["lock", "deploy"], args, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(&server.address) && message.lines().count() == 1, "{message}");
    }
    server.restart();
    for lock in &mut waiting {
        assert_eq!(lock.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_server_that_is_restarted_in_time_costs_the_command_nothing() {
    let mut server = Server::start();
    let mut holder = hold(&server, &["deploy", "--ttl", "30"]);
    server.kill_and_restart();
    assert_eq!(server.run(&["lock", "-n", "deploy", "--", "true"]).status.code(), Some(1), "it is still held");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert!(server.run(&["lock", "-n", "deploy", "--", "true"]).status.success(), "it is released");
}

/// The server is away for longer than the lease. The command must be gone before the next client gets the lock.
fn costs_the_command_its_life(go: impl FnOnce(&mut Server), come_back: impl FnOnce(&mut Server)) {
    let mut server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("running");
    // While the command runs, it holds a lock on a file with flock. The next command checks that this lock is free.
    let script = format!(
        "exec 9>{0}; flock -n 9 || exit 9; trap '' TERM; echo held; while :; do sleep 0.01; done",
        proof.display()
    );
    let first = ["lock", "deploy", "--ttl", "2", "--", "sh", "-c", &script];
    let mut holder = server.command(&first).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    go(&mut server);
    assert_eq!(holder.wait().unwrap().code(), Some(75));
    come_back(&mut server);
    let script = format!("exec 9>{0}; flock -n 9", proof.display());
    assert!(server.run(&["lock", "deploy", "--", "sh", "-c", &script]).status.success());
}

#[test]
fn a_command_whose_client_is_paused_is_gone_before_the_next_is_granted() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("running");
    let script = format!(
        "exec 9>{0}; flock -n 9 || exit 9; trap '' TERM; echo held; while :; do sleep 0.01; done",
        proof.display()
    );
    let first = ["lock", "deploy", "--ttl", "2", "--", "sh", "-c", &script];
    let mut holder = server.command(&first).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGSTOP).unwrap();
    // This waits until the lease has ended.
    let script = format!("exec 9>{0}; flock -n 9", proof.display());
    assert!(server.run(&["lock", "deploy", "--", "sh", "-c", &script]).status.success());
    assert_eq!(json(&server, &["lock-info", "deploy"])["history"][0]["ended"], "expired");
    kill(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGCONT).unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(75));
}
