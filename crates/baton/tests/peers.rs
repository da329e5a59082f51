//! `baton peer`, `baton group` and `baton demo counter --real` with real processes and sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use baton_trace::{Event, Record};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Ports that were free a moment ago.
fn addresses(members: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..members).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

/// The file of a group. `head` is everything but the addresses.
fn write_group(folder: &Path, head: &str, members: usize) -> PathBuf {
    let path = folder.join("group.toml");
    let text = format!("{head}\nmembers = {:?}\n", addresses(members));
    std::fs::write(&path, text).unwrap();
    path
}

/// A running member. It is killed when it is dropped, so that no failed test leaves one behind.
struct Peer {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn spawn(group: &Path, id: usize, extra: &[&str]) -> Self {
        let mut command = Command::new(BATON);
        command.arg("peer").arg("--group").arg(group).args(["--id", &id.to_string()]).args(extra);
        // Where the files of the members are.
        command.env("XDG_STATE_HOME", group.parent().unwrap());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Peer { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Reads lines until one begins like this.
    fn line_with(&mut self, beginning: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the output ended before {beginning:?}: {}", self.complaint());
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The rest of the output, and how the member ended.
    fn end(&mut self) -> (String, ExitStatus) {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap())
    }

    /// The whole standard error of a member that has ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

fn spawn_all(group: &Path, members: usize, extra: &[&str]) -> Vec<Peer> {
    (0..members).map(|id| Peer::spawn(group, id, extra)).collect()
}

fn records(trace: &Path) -> Vec<Record> {
    let file = BufReader::new(std::fs::File::open(trace).unwrap());
    baton_trace::read(file).unwrap().1
}

fn baton(args: &[&str]) -> Output {
    Command::new(BATON).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn members_of_an_election_print_the_leader_and_elect_another_when_it_is_gone() {
    for head in [
        "algorithm = \"bully\"\nvariant = \"quorum\"",
        "algorithm = \"chang-roberts\"\nvariant = \"quorum\"",
        "algorithm = \"ring-list\"\nassume_synchronous = true",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let group = write_group(folder.path(), &format!("{head}\ndelay_max_ms = 20"), 3);
        let trace = |id: usize| folder.path().join(format!("{id}.trace"));
        let mut peers: Vec<Peer> =
            (0..3).map(|id| Peer::spawn(&group, id, &["--trace", trace(id).to_str().unwrap()])).collect();
        for (id, peer) in peers.iter_mut().enumerate() {
            assert!(peer.line().starts_with(&format!("member {id} of 3 runs ")), "{head}");
            peer.line_with("leader: P2");
        }
        peers[2].child.kill().unwrap();
        for peer in &mut peers[..2] {
            peer.line_with("leader: P1");
        }
        for (id, signal) in [(0, Signal::TERM), (1, Signal::INT)] {
            peers[id].signal(signal);
            let (text, status) = peers[id].end();
            assert_eq!(status.code(), Some(0), "{head}: {}", peers[id].complaint());
            assert!(text.contains("messages sent  ") && !text.contains("entries"), "{head}: {text}");
            let records = records(&trace(id));
            let elected = |record: &Record| matches!(record.event, Event::Elected { leader: Some(1), .. });
            assert!(records.iter().any(elected), "{head}");
            let last = &records.last().unwrap().event;
            assert!(matches!(last, Event::End { reason, messages, .. } if reason == "shutdown" && *messages > 0));
            let replayed = baton(&["sim", "--replay", trace(id).to_str().unwrap()]);
            let complaint = String::from_utf8(replayed.stderr).unwrap();
            assert!(complaint.contains(&format!("only the records of P{id}")), "{complaint}");
            assert_eq!((replayed.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
        }
    }
}

#[test]
fn members_that_detect_failures_print_suspicions_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"heartbeat\"\ndelay_max_ms = 50", 3);
    let mut peers = spawn_all(&group, 3, &["--json"]);
    for (id, peer) in peers.iter_mut().enumerate() {
        let line = peer.line();
        let complete: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}{}", peer.complaint()));
        assert_eq!((&complete["event"], &complete["member"]), (&"complete".into(), &id.into()));
        assert_eq!((&complete["members"], &complete["algorithm"]), (&3.into(), &"heartbeat".into()));
    }
    peers[1].child.kill().unwrap();
    peers[0].line_with(r#"{"event":"suspected","suspected":[1]}"#);
    // Detectors bear that a member starts again.
    peers[1] = Peer::spawn(&group, 1, &[]);
    peers[0].line_with(r#"{"event":"suspected","suspected":[]}"#);
    peers[0].signal(Signal::TERM);
    let (text, status) = peers[0].end();
    let end: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((status.code(), &end["event"]), (Some(0), &"end".into()));
    assert!(end["messages_by_kind"]["BEAT"].as_u64().unwrap() > 0, "{end}");
}

#[test]
fn a_member_of_a_lock_group_goes_on_when_another_one_leaves_and_ends_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"raymond\"", 2);
    let trace = folder.path().join("0.trace");
    let mut peers = [
        Peer::spawn(&group, 0, &["--trace", trace.to_str().unwrap(), "--backlog", "64KiB"]),
        Peer::spawn(&group, 1, &[]),
    ];
    peers.iter_mut().for_each(|peer| assert!(peer.line().ends_with("the group is complete\n")));
    peers[1].signal(Signal::INT);
    let (text, status) = peers[1].end();
    assert_eq!(status.code(), Some(0));
    assert!(text.starts_with("locks          0\nrequests       0\nentries        0\nmessages sent  0\n"), "{text}");
    // The restarted member is refused, because the group cannot go on with it.
    let mut again = Peer::spawn(&group, 1, &["--start-within=5"]);
    let (_, status) = again.end();
    let complaint = again.complaint();
    assert_eq!((status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
    peers[0].signal(Signal::TERM);
    assert_eq!(peers[0].end().1.code(), Some(0));
    let complaint = peers[0].complaint();
    assert!(complaint.lines().any(|line| line.starts_with("baton: the connection with process 1")), "{complaint}");
    assert!(matches!(records(&trace).last().unwrap().event, Event::End { .. }));
}

#[test]
fn a_member_that_never_starts_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"central\"", 3);
    let trace = |id: usize| folder.path().join(format!("{id}.trace"));
    let spawn = |id| Peer::spawn(&group, id, &["--start-within=1", "--trace", trace(id).to_str().unwrap()]);
    let peers = [(1, spawn(1)), (2, spawn(2))];
    for (id, mut peer) in peers {
        let (text, status) = peer.end();
        let complaint = peer.complaint();
        assert_eq!((text.as_str(), status.code()), ("", Some(2)), "{complaint}");
        // One of the two may end first, and the other one warns of that.
        assert!(complaint.lines().last().unwrap().contains("missing: 0 at 127.0.0.1:"), "{complaint}");
        assert!(!trace(id).exists(), "a group that never ran leaves no trace");
    }
}

#[test]
fn a_signal_stops_a_member_that_waits_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"central\"", 2);
    let address = std::fs::read_to_string(&group).unwrap().split('"').nth(3).unwrap().to_owned();
    let mut peer = Peer::spawn(&group, 0, &[]);
    // The member listens only after it has begun to watch for signals.
    while TcpStream::connect(&address).is_err() {
        assert!(peer.child.try_wait().unwrap().is_none(), "{}", peer.complaint());
    }
    peer.signal(Signal::TERM);
    let (text, status) = peer.end();
    assert_eq!((text.as_str(), status.code()), ("", Some(0)));
}

#[test]
fn a_trace_that_cannot_be_written_is_status_74() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"central\"", 2);
    let mut peers = [Peer::spawn(&group, 0, &["--trace=/dev/full"]), Peer::spawn(&group, 1, &[])];
    peers.iter_mut().for_each(|peer| assert!(peer.line().ends_with("the group is complete\n")));
    peers[0].signal(Signal::TERM);
    assert_eq!(peers[0].end().1.code(), Some(74));
    let complaint = peers[0].complaint();
    let told = "baton: cannot write the trace, which ends here: No space left on device (os error 28)";
    assert!(complaint.lines().any(|line| line == told), "{complaint}");
}

#[test]
fn a_member_that_can_serve_no_longer_ends_with_status_1_and_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"heartbeat\"\ndelay_max_ms = 2", 2);
    let trace = folder.path().join("trace");
    let mut peers =
        [Peer::spawn(&group, 0, &["--backlog=400", "--trace", trace.to_str().unwrap()]), Peer::spawn(&group, 1, &[])];
    peers.iter_mut().for_each(|peer| assert!(peer.line().ends_with("the group is complete\n")));
    // A stopped member acknowledges nothing. The beats of half a second fill the backlog; after a second the link is
    // closed, and no beat is kept any more.
    peers[1].signal(Signal::STOP);
    let (text, status) = peers[0].end();
    let complaint = peers[0].complaint();
    assert_eq!(status.code(), Some(1), "{complaint}");
    assert!(text.contains("suspects P1\n") && text.contains("\nmessages sent  "), "{text}");
    assert!(complaint.lines().last().unwrap().starts_with("baton: process 1 has not acknowledged "), "{complaint}");
    assert!(matches!(records(&trace).last().unwrap().event, Event::End { .. }));
}

#[test]
fn what_is_no_group_is_refused_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str, extra: &[&str]| {
        let path = folder.path().join("bad.toml");
        std::fs::write(&path, text).unwrap();
        let output = baton(&[&["peer", "--group", path.to_str().unwrap()], extra].concat());
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        complaint
    };
    let group = |head: &str| format!("{head}\nmembers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]");
    assert!(refused(&group("algorithm = \"dice\""), &["--id=0"]).contains("no algorithm `dice`"));
    refused("members = 3", &["--id=0"]);
    let central = group("algorithm = \"central\"");
    assert!(refused(&central, &["--id=2"]).contains("there is no member 2; there are 0 to 1"));
    assert!(refused(&central, &["--id=-1"]).contains("'-1' is not a whole number from 0 on, for '--id <ID>'"));
    assert!(refused(&central, &["--id=0", "--backlog=16MB"]).contains("such as 16MiB, 512KiB or 65536"));
    assert!(refused(&central, &["--id=0", "--trace=/no/such/folder/t"]).contains("cannot write /no/such/folder/t"));
    assert!(refused(&central, &["--id=0", "--assume-synchronous"]).contains("is for elections without a guard"));
    assert!(refused(&group("algorithm = \"bully\""), &["--id=0"]).contains("`quorum` or `witness`"));
    let without_clients = refused(&central, &["--id=0", "--max-ttl=30s"]);
    assert!(without_clients.contains("is for the clients of this member, so it needs --listen"), "{without_clients}");
    // Port 1 is not for everybody, port 0 is nobody's address.
    assert!(refused(&central.replace(":2", ":0"), &["--id=0"]).contains("the address of member 1"));
    let missing = baton(&["peer", "--group=no-such-file", "--id=0"]);
    assert_eq!(missing.status.code(), Some(2));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = central.replace("127.0.0.1:1", &taken.local_addr().unwrap().to_string());
    assert!(refused(&taken, &["--id=0"]).contains("cannot listen on 127.0.0.1:"));
}

#[test]
fn a_printed_group_runs() {
    let folder = tempfile::tempdir().unwrap();
    let output = baton(&["group", "init", "--algorithm=bully", "--size=3", "--delay-max-ms=20"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let mut text = String::from_utf8(output.stdout).unwrap();
    // Other tests run at the same time, maybe with the ports of `init`.
    let addresses = addresses(3);
    for (id, address) in addresses.iter().enumerate() {
        text = text.replace(&format!("127.0.0.1:{}", 7501 + id), address);
    }
    let group = folder.path().join("group.toml");
    std::fs::write(&group, text).unwrap();
    let mut peers = spawn_all(&group, 3, &[]);
    for (id, peer) in peers.iter_mut().enumerate() {
        let told = format!("member {id} of 3 runs bully (quorum) on {}; the group is complete\n", addresses[id]);
        assert_eq!(peer.line(), told);
        peer.line_with("leader: P2 in term ");
    }
}

/// The commands of the pages; one that starts a member is run by the other tests here.
#[test]
fn the_groups_of_the_pages_can_be_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "docs/peer.md"].map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let commands =
        pages.iter().flat_map(|page| page.lines()).filter_map(|line| line.strip_prefix("$ baton group init "));
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        let (args, _) = command.split_once(" > ").unwrap();
        let args: Vec<&str> = ["group", "init"].into_iter().chain(args.split_whitespace()).collect();
        assert!(baton(&args).status.success(), "{command}");
    }
}

#[test]
fn strangers_at_the_port_do_not_flood_the_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"central\"", 2);
    let address = std::fs::read_to_string(&group).unwrap().split('"').nth(3).unwrap().to_owned();
    let mut peers = spawn_all(&group, 2, &[]);
    peers.iter_mut().for_each(|peer| assert!(peer.line().ends_with("the group is complete\n")));
    for _ in 0..100 {
        let mut stranger = TcpStream::connect(&address).unwrap();
        stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        // Waits until the member has closed the connection.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    peers[0].signal(Signal::TERM);
    assert_eq!(peers[0].end().1.code(), Some(0));
    let complaint = peers[0].complaint();
    let shown = complaint.lines().filter(|line| line.starts_with("baton: the connection from 127.0.0.1:")).count();
    // There may be a second window of 10 s, if this machine is very slow.
    assert!((10..=60).contains(&shown), "{complaint}");
    assert!(complaint.contains(" more warnings in 10 s are not shown\n"), "{complaint}");
}

/// The log and the clients of a member are told which members are missing. Then it serves.
#[test]
fn a_member_says_what_it_waits_for_before_its_group_begins() {
    let folder = tempfile::tempdir().unwrap();
    let group = write_group(folder.path(), "algorithm = \"central\"", 2);
    let clients = addresses(1).remove(0);
    let mut first = Peer::spawn(&group, 0, &["--listen", &clients]);
    let mut log = BufReader::new(first.child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(line.starts_with("baton: the group has not begun yet; missing: 1 at "), "{line}");
    assert!(line.ends_with(" (has not connected)\n"), "{line}");
    for command in [&["lock", "-n", "work", "true"][..], &["status"]] {
        let tried = baton(&[&command[..1], &["--server", &clients], &command[1..]].concat());
        let told = String::from_utf8(tried.stderr).unwrap();
        let why = "member 0 serves no clients yet, because its group has not begun; missing: 1 at ";
        assert!(tried.status.code() == Some(69) && told.contains(why), "{told}");
    }
    // A client that waits is served when the group begins.
    let waiting = Command::new(BATON).args(["lock", "--server", &clients, "work", "true"]).spawn().unwrap();
    let mut second = Peer::spawn(&group, 1, &[]);
    second.line_with("member 1 of 2");
    assert!(waiting.wait_with_output().unwrap().status.success());
    first.line_with("member 0 of 2");
}

/// The member counts on in its file, and its fences grow, although the group file has other addresses.
#[test]
fn a_group_whose_addresses_change_remembers_its_earlier_beginnings() {
    let folder = tempfile::tempdir().unwrap();
    for generation in 1..=2 {
        let group = write_group(folder.path(), "algorithm = \"central\"", 2);
        let mut peers = spawn_all(&group, 2, &[]);
        let lines: Vec<String> = peers.iter_mut().map(Peer::line).collect();
        for peer in &mut peers {
            peer.signal(Signal::TERM);
            assert_eq!(peer.end().1.code(), Some(0), "{}", peer.complaint());
        }
        for (id, line) in lines.iter().enumerate() {
            let (_, rest) = line.split_once(", its file is in ").expect(line);
            let data = rest.strip_suffix("; the group is complete\n").expect(line);
            let past = baton_peer::Data::open(Path::new(data), id, Duration::from_secs(60)).unwrap().past();
            assert_eq!((past.generation, past.held_nothing), (generation, true), "{line}");
        }
    }
}

fn real_counter(args: &[&str]) -> (Option<i32>, Value) {
    let output = baton(&[&["demo", "counter", "--real", "--json"], args].concat());
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{complaint}")))
}

#[test]
fn real_processes_lose_increments_without_a_lock_and_none_with_one() {
    for algorithm in ["suzuki-kasami", "central", "ricart-agrawala", "maekawa", "token-ring"] {
        let (status, counted) = real_counter(&["--algorithm", algorithm, "--processes=5", "--increments=100"]);
        assert_eq!((status, &counted["with_lock"], &counted["never_made"]), (Some(0), &500.into(), &0.into()));
        assert!(counted["without_lock"].as_u64().unwrap() < 500, "{counted}");
        assert!(counted["messages"].as_u64().unwrap() > 0, "{counted}");
    }
}

#[test]
fn a_lock_that_is_none_is_told_by_the_exit_status() {
    let (status, counted) = real_counter(&["--algorithm=no-lock", "--processes=5", "--increments=200"]);
    assert_eq!(status, Some(1), "{counted}");
    assert!(counted["with_lock"].as_u64().unwrap() < 1000, "{counted}");
}

#[test]
fn a_demonstration_that_cannot_be_is_refused() {
    for (args, told) in [
        (&["--algorithm=bully"][..], "`bully` is not a lock"),
        (&["--processes=1"], "a group of 1 is too small"),
        (&["--processes=257"], "257 members are too many"),
        (&["--increments=1000000000"], "these are too many increments"),
    ] {
        let output = baton(&[&["demo", "counter", "--real"], args].concat());
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
        assert!(complaint.contains(told), "{complaint}");
    }
}

/// Starts a demonstration that takes long, and waits for its workers.
fn long_demonstration() -> (Child, Vec<Pid>) {
    let args = ["demo", "counter", "--real", "--processes=3", "--increments=1000000"];
    let mut demo = Command::new(BATON).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", demo.id());
    for _ in 0..10_000 {
        let workers = std::fs::read_to_string(&children).unwrap();
        let workers: Vec<Pid> = workers.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect();
        if workers.len() == 3 {
            return (demo, workers);
        }
        assert!(demo.try_wait().unwrap().is_none(), "the demonstration ended");
        sleep(Duration::from_millis(1));
    }
    demo.kill().unwrap();
    panic!("the workers did not start");
}

#[test]
fn a_worker_that_is_killed_ends_the_demonstration_and_all_workers() {
    let (demo, workers) = long_demonstration();
    kill_process(workers[1], Signal::KILL).unwrap();
    let output = demo.wait_with_output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert_eq!(complaint, "baton: process 1 ended too early: signal: 9 (SIGKILL)\n");
    assert!(workers.iter().all(|worker| test_kill_process(*worker).is_err()), "a worker is still there");
}

#[test]
fn no_worker_outlives_a_demonstration_that_is_killed_or_stopped() {
    for signal in [Signal::KILL, Signal::TERM] {
        let (demo, workers) = long_demonstration();
        kill_process(Pid::from_child(&demo), signal).unwrap();
        assert!(!demo.wait_with_output().unwrap().status.success());
        for _ in 0..10_000 {
            if workers.iter().all(|worker| !is_running(*worker)) {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        assert!(workers.iter().all(|worker| !is_running(*worker)), "{signal:?}: a worker is still there");
    }
}

/// Whether there is such a process, and it has not ended. An orphan that has ended may stay for a while as a zombie.
fn is_running(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}
