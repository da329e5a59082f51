//! `baton cluster local`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::nodes::{BATON, ended, run};

/// The first of three free ports whose ports for nodes are free too.
fn free_port() -> u16 {
    for _ in 0..1_000 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = (0..3).flat_map(|number| [port.saturating_add(number), port.saturating_add(100 + number)]);
        let free: Vec<TcpListener> = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
        if port < 65_000 && free.len() == 6 {
            return port;
        }
    }
    panic!("no free ports");
}

struct Local {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Local {
    fn start(port: u16) -> Local {
        let mut command = Command::new(BATON);
        command.args(["cluster", "local", "--json", "--port", &port.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Local { child, stdin, lines: BufReader::new(stdout).lines() }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.stdin, "{order}").unwrap();
    }

    /// Reads tables until one is as `is` asks.
    fn until(&mut self, is: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let rows = |line: std::io::Result<String>| serde_json::from_str::<Vec<Value>>(&line.unwrap()).unwrap();
        let mut tables = self.lines.by_ref().map(rows).take(10_000);
        tables.find(|rows| is(rows)).expect("it gets there")
    }
}

fn with<'a>(rows: &'a [Value], field: &str, value: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row[field] == value).collect()
}

#[test]
fn nodes_are_killed_stopped_cut_off_and_brought_back_and_end_together() {
    let port = free_port();
    let mut local = Local::start(port);
    let formed =
        local.until(|rows| with(rows, "role", "leader").len() == 1 && with(rows, "role", "follower").len() == 2);
    let names = |rows: &[Value], role| with(rows, "role", role)[0]["name"].as_str().unwrap().to_owned();
    let first = names(&formed, "leader");
    local.order(&format!("kill {first}"));
    let gone = local.until(|rows| with(rows, "state", "gone").len() == 1 && with(rows, "role", "leader").len() == 1);
    let second = names(&gone, "leader");
    assert_ne!(first, second);
    local.order(&format!("back {first}"));
    local.until(|rows| with(rows, "role", "leader").len() == 1 && with(rows, "role", "follower").len() == 2);
    local.order("cut 2");
    local.until(|rows| with(rows, "state", "cut-off").len() == 1);
    local.order("stop 3");
    local.until(|rows| with(rows, "state", "stopped").len() == 1);
    local.order("back 2");
    local.order("back 3");
    local.until(|rows| with(rows, "state", "runs").len() == 3 && !with(rows, "role", "leader").is_empty());
    let servers = (port..port + 3).map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    assert!(run(&servers, &["lock", "a", "--", "true"]).status.success());
    local.order("quit");
    assert_eq!(ended(&mut local.child), Some(0));
    for port in port..port + 3 {
        TcpListener::bind(("127.0.0.1", port)).expect("no node is left");
    }
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // A port near the end of the range has no room for the ports for nodes.
    if port > 65_400 {
        return;
    }
    let output = run("", &["cluster", "local", "--port", &port.to_string()]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("name another with --port"), "{complaint}");
    let output = run("", &["cluster", "local", "--nodes", "10"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
