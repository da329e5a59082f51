//! Starts real nodes for a test.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// An address that no other test uses: each process has an IP address of its own, and the system chooses ports from 32768
/// on for other sockets. So nobody takes it, also while a node starts again.
pub fn free_address() -> String {
    static LAST: AtomicU16 = AtomicU16::new(20_000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{}.{b}.{c}:{}", 64 | a, LAST.fetch_add(1, Ordering::Relaxed))
}

/// `baton serve`. Dropping this kills it.
pub struct Node {
    pub name: String,
    pub address: String,
    pub peer_address: String,
    child: Child,
    /// The lines of its standard error.
    log: Arc<Mutex<Vec<String>>>,
}

/// The folder for all nodes of a test.
pub struct Nodes {
    pub folder: TempDir,
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes { folder: tempfile::tempdir().unwrap() }
    }

    pub fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that serves on these addresses.
    pub fn command(&self, name: &str, address: &str, options: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.arg("serve").arg("--data").arg(self.data(name)).args(["--listen", address]).args(options);
        command.env_remove("RUST_LOG").env_remove("BATON_SERVER");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a node with these options besides its name and addresses, and waits until it listens.
    pub fn start(&self, name: &str, address: &str, peer_address: &str, options: &[&str]) -> Node {
        self.start_in(name, name, address, peer_address, options)
    }

    /// Starts a node whose folder has another name.
    pub fn start_in(&self, folder: &str, name: &str, address: &str, peer_address: &str, options: &[&str]) -> Node {
        let options = [&["--name", name, "--peer-listen", peer_address], options].concat();
        let mut child = self.command(folder, address, &options).spawn().unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (stderr, lines) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("{line}");
                lines.lock().unwrap().push(line);
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(
            line.contains(&format!("listens on {address}, for other nodes on {peer_address} as {name}")),
            "{line:?}"
        );
        let (name, address, peer_address) = (name.to_owned(), address.to_owned(), peer_address.to_owned());
        Node { name, address, peer_address, child, log }
    }

    /// Starts nodes that form a cluster, and waits until all know one leader.
    pub fn form(&self, names: &[&str]) -> Vec<Node> {
        self.form_with(names, &[])
    }

    /// The same, with these options for each node.
    pub fn form_with(&self, names: &[&str], options: &[&str]) -> Vec<Node> {
        let peers: Vec<String> = names.iter().map(|_| free_address()).collect();
        let list: Vec<String> = names.iter().zip(&peers).map(|(name, peer)| format!("{name}={peer}")).collect();
        let list = list.join(",");
        let started = names.iter().zip(&peers);
        let options = [&["--cluster", &list], options].concat();
        let nodes: Vec<Node> = started.map(|(name, peer)| self.start(name, &free_address(), peer, &options)).collect();
        nodes.iter().for_each(|node| drop(node.until(|cluster| !cluster["leader"].is_null())));
        nodes
    }

    /// Runs a server that ends by itself. Returns its exit status and the last line of its standard error.
    pub fn refused(&self, name: &str, options: &[&str]) -> (Option<i32>, String) {
        let mut child = self.command(name, "127.0.0.1:0", options).spawn().unwrap();
        let status = ended(&mut child);
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (status, complaint.lines().last().unwrap_or_default().to_owned())
    }
}

/// Waits for the end of a process, and kills it if that takes too long.
pub fn ended(child: &mut Child) -> Option<i32> {
    for _ in 0..3_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it goes on");
}

/// Waits until one of the nodes is refused, and returns its place.
pub fn first_to_end(nodes: &mut [&mut Node]) -> usize {
    for _ in 0..3_000 {
        for (place, node) in nodes.iter_mut().enumerate() {
            if let Some(status) = node.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(1));
                return place;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("all go on");
}

impl Node {
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The id of its cluster.
    pub fn cluster_id(&self) -> String {
        self.status().unwrap()["cluster_id"].as_str().unwrap().to_owned()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its own end.
    pub fn ends(&mut self) -> Option<i32> {
        ended(&mut self.child)
    }

    /// Waits for a line of its standard error.
    pub fn says(&self, text: &str) {
        for _ in 0..3_000 {
            if self.log.lock().unwrap().iter().any(|line| line.contains(text)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} never says {text:?}, but {:?}", self.name, self.log.lock().unwrap());
    }

    /// Its standard error has no such line so far.
    pub fn never_said(&self, text: &str) {
        let log = self.log.lock().unwrap();
        assert!(!log.iter().any(|line| line.contains(text)), "{log:?}");
    }

    /// Runs a command with this node as its server.
    pub fn run(&self, args: &[&str]) -> Output {
        run(&self.address, args)
    }

    /// Runs a command that must succeed. Returns its standard output.
    pub fn does(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must be refused with this exit status. Returns the sentence.
    pub fn refuses(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        complaint
    }

    pub fn status(&self) -> Option<Value> {
        let output = self.run(&["status", "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until its view of the cluster is as `is` asks, and returns the view.
    pub fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        self.until_status(|status| is(&status["cluster"]))["cluster"].clone()
    }

    /// Waits until its status is as `is` asks, and returns it.
    pub fn until_status(&self, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..600 {
            last = self.status();
            if let Some(status) = last.as_ref().filter(|status| is(status)) {
                return status.clone();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} never gets there: {last:?}", self.name);
    }

    /// Waits until a change of the members succeeds: it is refused while another one is not finished, or while a learner
    /// lags.
    pub fn changes(&self, args: &[&str]) -> String {
        let mut last = None;
        for _ in 0..300 {
            let output = self.run(args);
            if output.status.success() {
                return String::from_utf8(output.stdout).unwrap();
            }
            last = Some(String::from_utf8_lossy(&output.stderr).into_owned());
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{args:?}: {last:?}");
    }
}

pub fn run(servers: &str, args: &[&str]) -> Output {
    let mut command = Command::new(BATON);
    command
        .args(args)
        .env("BATON_SERVER", servers)
        .env_remove("BATON_OWNER")
        .env_remove("BATON_CLUSTER")
        .stdin(Stdio::null());
    command.output().unwrap()
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of the voters, in order.
pub fn voters(cluster: &Value) -> Vec<&str> {
    let members = cluster["members"].as_array().unwrap();
    members.iter().filter(|member| member["voter"] == true).map(|member| member["name"].as_str().unwrap()).collect()
}

/// The name of the leader.
pub fn leader(cluster: &Value) -> &str {
    let members = cluster["members"].as_array().unwrap();
    members
        .iter()
        .find(|member| member["id"] == cluster["leader"])
        .map_or("", |member| member["name"].as_str().unwrap())
}
