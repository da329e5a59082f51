//! A group of real processes behind proxies.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

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

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

pub struct Group {
    folder: TempDir,
    pub mesh: Mesh,
    size: usize,
    serves_clients: bool,
    pub members: Vec<Running>,
}

/// One member.
pub struct Running {
    child: Child,
    /// The lines of its standard output, as JSON.
    lines: watch::Receiver<Vec<Value>>,
    complaints: Arc<Mutex<Vec<String>>>,
    /// Reads the complaints.
    reader: Option<JoinHandle<()>>,
}

impl Group {
    /// Starts the group that `baton group init` writes, and waits until it is complete.
    pub async fn start(algorithm: &str, size: usize, seed: u64) -> Group {
        let mut group = Group::prepare(algorithm, size, seed).await;
        group.spawn_all(&[]);
        group.complete().await;
        group
    }

    /// Writes the files of a group, and starts no member.
    pub async fn prepare(algorithm: &str, size: usize, seed: u64) -> Group {
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
        Group { folder, mesh, size, serves_clients, members: Vec::new() }
    }

    /// Starts all members, with more options.
    pub fn spawn_all(&mut self, options: &[&str]) {
        self.members = (0..self.size).map(|id| self.spawn(id, options)).collect();
    }

    pub fn spawn(&self, id: usize, options: &[&str]) -> Running {
        spawn(self.folder.path(), id, self.serves_clients, options)
    }

    /// Starts a member that serves no clients, but has a file.
    pub fn spawn_without_clients(&self, id: usize) -> Running {
        spawn(self.folder.path(), id, false, &["--data", self.folder().to_str().unwrap()])
    }

    /// Starts another process with this id, which the other members cannot reach. It has a folder of its own.
    pub async fn spawn_twin(&self, id: usize) -> Running {
        let folder = self.folder.path().join("twin");
        std::fs::create_dir_all(&folder).unwrap();
        let mut file = GroupFile::read(self.folder.path().join(format!("{id}.toml"))).unwrap();
        // The port is free now. The listener closes just before the process starts.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        file.members[id] = listener.local_addr().unwrap().to_string();
        std::fs::write(folder.join(format!("{id}.toml")), file.to_toml()).unwrap();
        drop(listener);
        spawn(&folder, id, self.serves_clients, &[])
    }

    /// The folder of the members' files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the group is complete.
    pub async fn complete(&mut self) {
        for member in &mut self.members {
            member.says(|line| line.get("member").is_some()).await;
        }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// A client of this member.
    pub async fn client(&mut self, id: usize) -> Client {
        Client::connect([self.clients_of(id).await]).await.unwrap()
    }

    /// The address for the clients of this member.
    pub async fn clients_of(&mut self, id: usize) -> String {
        let line = self.members[id].says(|line| line.get("clients").is_some()).await;
        line["clients"].as_str().unwrap().to_owned()
    }

    pub fn signal(&self, id: usize, signal: Signal) {
        kill(Pid::from_raw(self.members[id].child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Tells a member to stop, unless it has ended by itself.
    pub fn stop(&self, id: usize) {
        let _ = kill(Pid::from_raw(self.members[id].child.id().try_into().unwrap()), Signal::SIGTERM);
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
    /// Waits until the process says that the group is complete, or ends. Returns whether it begins.
    pub fn begins(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut lines = self.lines.clone();
        async move {
            let is_complete = |lines: &Vec<Value>| lines.iter().any(|line| line.get("member").is_some());
            lines.wait_for(is_complete).await.is_ok()
        }
    }

    /// Waits until the process has ended. Returns its status and what it complained about.
    pub async fn ends(&mut self) -> (ExitStatus, String) {
        // The lines end with the process.
        while self.lines.changed().await.is_ok() {}
        let status = self.child.wait().unwrap();
        // The complaints end with the process, too.
        self.reader.take().into_iter().for_each(|reader| reader.join().unwrap());
        (status, self.complaints.lock().unwrap().join("\n"))
    }

    /// Waits for a line of the member's standard error with this text.
    pub async fn complains(&self, text: &str) {
        while !self.complaints.lock().unwrap().iter().any(|line| line.contains(text)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

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

fn spawn(folder: &std::path::Path, id: usize, serves_clients: bool, options: &[&str]) -> Running {
    let mut command = Command::new(BATON);
    command.args(["peer", "--json", "--ends-with-stdin", "--id", &id.to_string()]);
    if serves_clients {
        command.args(["--listen", "127.0.0.1:0"]).arg("--data").arg(folder);
    }
    command.args(options);
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
    let reader = std::thread::spawn(move || {
        for line in err.lines().map_while(Result::ok) {
            complained.lock().unwrap().push(line);
        }
    });
    Running { child, lines, complaints, reader: Some(reader) }
}
