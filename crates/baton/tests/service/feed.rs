//! The feed of changes: `baton events` and `baton locks --watch`.

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::server::Server;

/// A command that follows. Dropping this ends it.
struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(server: &Server, args: &[&str]) -> Follower {
        let mut child = server.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Follower { child, lines }
    }

    /// Reads lines up to the first one with this text.
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for line in self.lines.by_ref().take(10_000) {
            lines.push(line.unwrap());
            if lines.last().unwrap().contains(text) {
                return lines;
            }
        }
        panic!("it never says {text:?}, but {lines:?}");
    }

    /// Ends it, and returns its standard error.
    fn complaint(mut self) -> String {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGKILL).unwrap();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        complaint
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(server: &Server, name: &str) {
    assert!(server.run(&["lock", name, "--", "true"]).status.success());
}

/// All changes that the server keeps, as JSON, with these further arguments.
fn kept(server: &Server, args: &[&str]) -> Vec<Value> {
    let output = server.run(&[&["events", "--no-follow", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(changes: &[Value]) -> Vec<&str> {
    changes.iter().map(|change| change["kind"].as_str().unwrap()).collect()
}

/// Exit status and the only line of standard error.
fn refusal(server: &Server, args: &[&str]) -> (Option<i32>, String) {
    let output = server.run(&[&["events", "--no-follow"], args].concat());
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.stdout.len(), complaint.lines().count()), (0, 1), "{complaint}");
    (output.status.code(), complaint)
}

#[test]
fn every_change_comes_once_also_over_a_kill_of_the_server() {
    let mut server = Server::start();
    lock(&server, "before");
    let mut follower = Follower::start(&server, &["events", "--json", "--from", "oldest"]);
    let mut told = follower.until("session-ended");
    server.kill_and_restart();
    lock(&server, "after");
    told.extend(follower.until("session-ended"));
    let told: Vec<Value> = told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_lock = ["session-opened", "granted", "released", "session-ended"];
    assert_eq!(kinds(&told), [&["leader"][..], &of_lock, &["leader"], &of_lock].concat());
    assert_eq!(told, kept(&server, &[]), "the kept changes survive the kill");
    let complaint = follower.complaint();
    assert!(complaint.contains("looking for a server"), "{complaint}");
    assert!(complaint.contains(&format!("goes on at {}", server.address)), "{complaint}");
}

#[test]
fn a_reader_begins_where_it_wants_and_gets_what_it_wants() {
    let server = Server::start();
    lock(&server, "reports/a");
    lock(&server, "deploy");
    let all = kept(&server, &[]);
    assert_eq!(kinds(&kept(&server, &["--prefix", "reports/"])), ["granted", "released", "session-ended"][..2]);
    let granted = kept(&server, &["--kind", "granted,leader"]);
    assert_eq!(kinds(&granted), ["leader", "granted", "granted"]);
    assert_eq!(granted[1]["locks"][0]["name"], "reports/a");
    assert_eq!((&granted[2]["before"], granted[2]["after"]["fence"].as_u64()), (&Value::Null, Some(2)));
    let from = all[3]["position"].as_str().unwrap();
    assert_eq!(kept(&server, &["--from", from]), all[3..]);
    // The short form of the text is a position too.
    let short = from.split_once(':').unwrap().1;
    assert_eq!(kept(&server, &["--from", short]), all[3..]);
}

#[test]
fn a_position_that_is_not_kept_is_gone_and_a_listing_follows() {
    let server = Server::start();
    let mut holder = server.command(&["lock", "deploy", "--", "sh", "-c", "echo held; cat"]);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    for gone in ["00000000000000ab:3.0", "0.0"] {
        let told = kept(&server, &["--from", gone]);
        assert_eq!(kinds(&told), ["gone", "listing"]);
        assert_eq!(told[1]["locks"][0]["name"], "deploy");
        assert_eq!(told[1]["sessions"].as_array().unwrap().len(), 1);
        // Following from there leaves no gap.
        let next = told[1]["next"].as_str().unwrap();
        assert_eq!(kept(&server, &["--from", next]), [] as [Value; 0]);
    }
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

#[test]
fn wrong_input_gets_one_sentence() {
    let server = Server::start();
    let (status, complaint) = refusal(&server, &["--kind", "granted,foo"]);
    assert!(status == Some(2) && complaint.contains("\"foo\" is no kind of change"), "{complaint}");
    for malformed in ["xyz", "1", "1.x", ":1.0", "00000000000000ab:", "-1.0", "1.0.0", "99999999999999999999.0"] {
        let (status, complaint) = refusal(&server, &[&format!("--from={malformed}")]);
        assert!(status == Some(2) && complaint.contains("is not a position"), "{malformed}: {complaint}");
    }
    let (status, complaint) = refusal(&server, &["--from", "1000000.0"]);
    assert!(status == Some(2) && complaint.contains("is of the future"), "{complaint}");
    let (status, complaint) = refusal(&server, &["--prefix", &"x".repeat(2_000)]);
    assert!(status == Some(2) && complaint.contains("the prefix has 2000 bytes"), "{complaint}");
}

#[test]
fn a_change_with_hostile_names_is_one_line() {
    let server = Server::start();
    let hostile = "a\nb\u{1b}[31m";
    let output = server.run(&["lock", hostile, "--label", "x\n\u{1b}]0;y", "--", "true"]);
    let label = if output.status.success() { 4 } else { 0 };
    lock(&server, hostile);
    let output = server.run(&["events", "--no-follow"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1 + label + 4, "{text}");
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
}

#[test]
fn the_table_of_locks_follows() {
    let server = Server::start();
    let mut follower = Follower::start(&server, &["locks", "--watch"]);
    follower.until("LOCK");
    let mut holder = server.command(&["lock", "deploy", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    follower.until("deploy");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    lock(&server, "other");
    // A table without the lock: its head comes twice with no such row between.
    let mut last = follower.until("LOCK");
    while last.iter().any(|line| line.contains("deploy")) {
        last = follower.until("LOCK");
    }
}
