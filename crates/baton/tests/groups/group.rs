//! A group of real processes behind proxies.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use baton_client::Client;
use baton_peer::GroupFile;
use baton_protocol::registry::{self, Family};
use baton_proxy::Mesh;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

pub struct Group {
    folder: TempDir,
    pub mesh: Mesh,
    pub members: Vec<Running>,
}

/// One member.
pub struct Running {
    child: Child,
    /// The lines of its standard output, as JSON.
    lines: watch::Receiver<Vec<Value>>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Group {
    /// Starts the group that `baton group init` writes, and waits until it is complete.
    pub async fn start(algorithm: &str, size: usize, seed: u64) -> Group {
        let mut file = init(algorithm, size);
        // The ports are free now. The listeners close just before the members start.
        let mut listeners = Vec::new();
        for _ in 0..size {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        file.members = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let mesh = Mesh::start(&file.members, seed).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for id in 0..size {
            let own = GroupFile { members: mesh.addresses(id), ..file.clone() };
            std::fs::write(folder.path().join(format!("{id}.toml")), own.to_toml()).unwrap();
        }
        drop(listeners);
        let serves_clients = registry::find(algorithm).unwrap().family == Family::Mutex;
        let members = (0..size).map(|id| spawn(folder.path(), id, serves_clients)).collect();
        let mut group = Group { folder, mesh, members };
        for member in &mut group.members {
            member.says(|line| line.get("member").is_some()).await;
        }
        group
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// A client of this member.
    pub async fn client(&mut self, id: usize) -> Client {
        let line = self.members[id].says(|line| line.get("clients").is_some()).await;
        Client::connect([line["clients"].as_str().unwrap().to_owned()]).await.unwrap()
    }

    pub fn signal(&self, id: usize, signal: Signal) {
        kill(Pid::from_raw(self.members[id].child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Ends all members, and judges the merged trace of the run with all oracles.
    pub async fn end(mut self) -> Value {
        for member in &self.members {
            // A member that was killed gets no signal.
            let pid = Pid::from_raw(member.child.id().try_into().unwrap());
            let _ = kill(pid, Signal::SIGCONT).and_then(|()| kill(pid, Signal::SIGTERM));
        }
        for member in &mut self.members {
            let status = member.child.wait().unwrap();
            let complaints = member.complaints.lock().unwrap().join("\n");
            assert!(status.success() || status.code().is_none(), "{status}: {complaints}");
        }
        let merged = self.folder.path().join("merged.trace");
        let traces: Vec<PathBuf> = (0..self.size()).map(|id| trace(self.folder.path(), id)).collect();
        baton(Command::new(BATON).args(["trace", "merge"]).args(&traces).arg("-o").arg(&merged));
        let judged = Command::new(BATON).args(["trace", "check", "--json"]).arg(&merged).output().unwrap();
        let text = String::from_utf8_lossy(&judged.stdout);
        assert_eq!(judged.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&judged.stderr));
        serde_json::from_str(&text).unwrap()
    }
}

impl Running {
    /// Waits for a line of the member's standard output.
    pub async fn says(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let complaints = self.complaints.clone();
        let found = self.lines.wait_for(|lines| lines.iter().any(&wanted)).await;
        let lines = found.unwrap_or_else(|_| panic!("it ended: {}", complaints.lock().unwrap().join("\n")));
        lines.iter().find(|line| wanted(line)).cloned().unwrap()
    }

    /// The value in the last line with this field.
    pub fn last(&self, field: &str) -> Value {
        self.lines.borrow().iter().rev().find_map(|line| line.get(field).cloned()).unwrap_or_default()
    }

    /// Waits until the last line with this field has this value.
    pub async fn comes_to(&mut self, field: &str, is_right: impl Fn(&Value) -> bool) {
        let last = |lines: &Vec<Value>| lines.iter().rev().find_map(|line| line.get(field).cloned());
        let complaints = self.complaints.clone();
        let found = self.lines.wait_for(|lines| last(lines).is_some_and(|value| is_right(&value))).await;
        assert!(found.is_ok(), "it ended: {}", complaints.lock().unwrap().join("\n"));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for member in &mut self.members {
            // A member that has ended already cannot be killed.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn init(algorithm: &str, size: usize) -> GroupFile {
    let size = size.to_string();
    let output = baton(Command::new(BATON).args(["group", "init", "--algorithm", algorithm, "--size", &size]));
    GroupFile::parse(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn baton(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn trace(folder: &std::path::Path, id: usize) -> PathBuf {
    folder.join(format!("{id}.trace"))
}

fn spawn(folder: &std::path::Path, id: usize, serves_clients: bool) -> Running {
    let mut command = Command::new(BATON);
    command.args(["peer", "--json", "--ends-with-stdin", "--id", &id.to_string()]);
    if serves_clients {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.arg("--group").arg(folder.join(format!("{id}.toml"))).arg("--trace").arg(trace(folder, id));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (tell, lines) = watch::channel(Vec::new());
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            tell.send_modify(|lines| lines.push(serde_json::from_str(&line).expect(&line)));
        }
    });
    let complaints = Arc::new(Mutex::new(Vec::new()));
    let (err, complained) = (BufReader::new(child.stderr.take().unwrap()), complaints.clone());
    std::thread::spawn(move || {
        for line in err.lines().map_while(Result::ok) {
            complained.lock().unwrap().push(line);
        }
    });
    Running { child, lines, complaints }
}
