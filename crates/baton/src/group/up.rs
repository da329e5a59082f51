//! `baton group up`: all members of a group on this machine, for trying things out.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_peer::{GroupFile, PeerGroup};
use baton_protocol::registry::Family;
use baton_proxy::Mesh;
use console::Term;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Pid;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::board::{self, Row, State};
use super::orders::{self, Deed, HELP, Order};
use crate::output::{Failure, Outcome, counted, print, print_json, warn};
use crate::peer::Signals;

/// How often the table is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// How long a member may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// How long the members have to end by themselves.
const END_WITHIN: Duration = Duration::from_secs(4);

/// Start all members of a group on this machine, to try things out
///
/// Each member is a process, and the links between them go through proxies, so
/// that they can be cut. On a terminal, a table shows who holds, wants and
/// waits, and keys kill, stop, cut off and bring back a member. Elsewhere, the
/// same is done by lines on standard input: kill 2, stop 2, cut 2, back 2, quit.
///
/// Exit status 0: ended by the user; 2: bad input; 74: the output cannot be
/// written.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The group file; `baton group init` writes one
    #[arg(long, value_name = "FILE")]
    group: PathBuf,
    /// Trust that a silent process has crashed; for elections without a guard
    #[arg(long)]
    assume_synchronous: bool,
    /// Write the traces of the members into this folder: 0.trace, 1.trace, ...
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Print a JSON array, one line, whenever something changes
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let mut file = GroupFile::read(&args.group).map_err(Failure::bad_input)?;
    file.assume_synchronous |= args.assume_synchronous;
    let group = PeerGroup::new(file).map_err(Failure::bad_input)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(try_out(args, &group))
}

/// What happens while the group is up.
enum Event {
    Order(Order),
    /// A line that is no order.
    Unknown(String),
    Key(console::Key),
    /// A member writes a line on its standard output or error.
    Output(usize, String),
    Complaint(usize, String),
    /// A member was asked what it knows.
    Seen(usize, Option<Seen>),
}

/// The answer of a member to the client of this program.
struct Seen {
    holds: Vec<String>,
    wants: Vec<String>,
    waiters: usize,
}

async fn try_out(args: &Args, group: &PeerGroup) -> Outcome {
    let mut signals = Signals::new(false)?;
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut up = Up::start(args, group, events.clone())?;
    let _sane = Sane::new();
    let interactive = !args.json && Term::stdout().features().is_attended() && std::io::stdin().is_terminal();
    listen(interactive, group.members(), events);
    let mut screen = Screen { interactive, json: args.json, drawn: 0, last: None };
    let mut ticks = interval(DRAW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        tokio::select! {
            _ = ticks.tick() => {
                up.look();
                if let Err(failure) = screen.draw(&up) {
                    break Err(failure);
                }
            }
            () = signals.stop() => break Ok(ExitCode::SUCCESS),
            Some(event) = happened.recv() => if !up.on(event) { break Ok(ExitCode::SUCCESS) },
        }
    };
    up.end().await;
    outcome
}

/// The settings of the terminal, which come back at the end: the thread that reads keys changes them.
struct Sane(Option<Termios>);

impl Sane {
    fn new() -> Self {
        // Without a terminal there is nothing to keep.
        Sane(tcgetattr(std::io::stdin()).ok())
    }
}

impl Drop for Sane {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // An error leaves the terminal as it is, and the program ends anyway.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, settings);
        }
    }
}

/// The running group.
struct Up {
    title: String,
    members: Vec<Running>,
    mesh: Mesh,
    chosen: usize,
    events: mpsc::UnboundedSender<Event>,
    /// Holds the group files of the members, and is removed at the end.
    folder: tempfile::TempDir,
    traces: Option<PathBuf>,
    family: Family,
}

struct Running {
    child: Child,
    row: Row,
    stopped: bool,
    cut_off: bool,
    asked: bool,
    ended: bool,
}

impl Up {
    fn start(args: &Args, group: &PeerGroup, events: mpsc::UnboundedSender<Event>) -> Result<Self, Failure> {
        let file = group.file();
        let cannot = |what: &str, error: std::io::Error| Failure::bad_input(format!("cannot {what}: {error}"));
        let seed = std::process::id().into();
        let mesh = Mesh::start(&file.members, seed).map_err(|error| cannot("start the proxies", error))?;
        let folder = tempfile::tempdir().map_err(|error| cannot("make a folder for the group files", error))?;
        if let Some(traces) = &args.traces {
            std::fs::create_dir_all(traces).map_err(|error| cannot("make the folder for the traces", error))?;
        }
        let variant = file.variant.as_ref().map_or(String::new(), |variant| format!(" ({variant})"));
        let count = counted(file.members.len() as u64, "member", "members");
        let mut up = Up {
            title: format!("{}{variant}, {count}", group.about().name),
            members: Vec::new(),
            mesh,
            chosen: 0,
            events,
            folder,
            traces: args.traces.clone(),
            family: group.about().family,
        };
        for id in 0..file.members.len() {
            let members = up.mesh.addresses(id);
            let own = GroupFile { members, ..file.clone() };
            std::fs::write(up.group_file(id), own.to_toml()).map_err(|error| cannot("write a group file", error))?;
            let child = up.spawn(id).map_err(|error| cannot("start a member", error))?;
            let row = Row { member: id, ..Row::default() };
            up.members.push(Running { child, row, stopped: false, cut_off: false, asked: false, ended: false });
        }
        Ok(up)
    }

    fn group_file(&self, id: usize) -> PathBuf {
        self.folder.path().join(format!("{id}.toml"))
    }

    fn spawn(&self, id: usize) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peer", "--json", "--ends-with-stdin", "--id", &id.to_string(), "--group"]);
        command.arg(self.group_file(id));
        if self.family == Family::Mutex {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if let Some(traces) = &self.traces {
            // A member that is started again must not destroy the trace of its first life.
            let free = (2..)
                .map(|life| format!("{id}-{life}.trace"))
                .map(|name| traces.join(name))
                .find(|path| !path.exists());
            let first = traces.join(format!("{id}.trace"));
            let again = self.members.len() > id;
            command.arg("--trace").arg(free.filter(|_| again).unwrap_or(first));
        }
        // The members have a process group of their own, so that Ctrl-C reaches only this program, which ends them.
        use std::os::unix::process::CommandExt;
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let events = self.events.clone();
        if let Some(out) = out {
            read_lines(out, move |line| events.send(Event::Output(id, line)).is_ok());
        }
        let events = self.events.clone();
        if let Some(err) = err {
            read_lines(err, move |line| events.send(Event::Complaint(id, line)).is_ok());
        }
        Ok(child)
    }

    /// Handles an event. Returns false if the user wants to end.
    fn on(&mut self, event: Event) -> bool {
        match event {
            Event::Order(Order::Quit) => return false,
            Event::Order(Order::Do(deed, member)) => self.act(deed, member),
            Event::Unknown(sentence) => warn(sentence),
            Event::Key(key) => {
                let count = self.members.len();
                if let Some(order) = orders::pressed(&key, &mut self.chosen, count) {
                    return self.on(Event::Order(order));
                }
            }
            Event::Output(member, line) => self.members[member].reads(&line),
            Event::Complaint(member, line) => {
                let says = line.strip_prefix("baton: ").unwrap_or(&line).to_owned();
                self.members[member].row.says = Some(says);
            }
            Event::Seen(member, seen) => {
                let running = &mut self.members[member];
                running.asked = false;
                if let Some(Seen { holds, wants, waiters }) = seen {
                    (running.row.holds, running.row.wants, running.row.waiters) = (holds, wants, waiters);
                }
            }
        }
        true
    }

    fn act(&mut self, deed: Deed, member: usize) {
        let running = &mut self.members[member];
        match deed {
            Deed::Kill => running.signal(Signal::SIGKILL),
            Deed::Stop => {
                running.signal(Signal::SIGSTOP);
                running.stopped = true;
            }
            Deed::CutOff => {
                self.mesh.cut_off(member);
                running.cut_off = true;
            }
            Deed::BringBack => {
                self.mesh.bring_back(member);
                let is_gone = running.is_gone();
                (running.stopped, running.cut_off) = (false, false);
                if is_gone {
                    self.restart(member);
                } else {
                    self.members[member].signal(Signal::SIGCONT);
                }
            }
        }
    }

    /// Most algorithms refuse a member that starts again. Then it says why, and ends.
    fn restart(&mut self, member: usize) {
        match self.spawn(member) {
            Ok(child) => {
                let running = &mut self.members[member];
                (running.child, running.ended) = (child, false);
                running.row = Row { member, ..Row::default() };
            }
            Err(error) => self.members[member].row.says = Some(format!("cannot be started: {error}")),
        }
    }

    /// Looks which members run, and asks those with clients what they know.
    fn look(&mut self) {
        for running in &mut self.members {
            running.row.state = running.state();
            if running.row.state == State::Gone {
                running.row.not_heard.clear();
                running.row.suspects.clear();
                (running.row.holds, running.row.wants) = (Vec::new(), Vec::new());
                (running.row.waiters, running.row.clients, running.row.leader) = (0, None, None);
            }
            let Some(address) = running.row.clients.clone().filter(|_| !running.asked && !running.stopped) else {
                continue;
            };
            running.asked = true;
            let (events, member) = (self.events.clone(), running.row.member);
            tokio::spawn(async move {
                let seen = timeout(ANSWER_WITHIN, ask(address)).await.ok().flatten();
                // The receiver is gone only if the program ends.
                let _ = events.send(Event::Seen(member, seen));
            });
        }
    }

    /// Ends all members together.
    async fn end(mut self) {
        for running in &mut self.members {
            running.signal(Signal::SIGCONT);
            running.signal(Signal::SIGTERM);
        }
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline && self.members.iter_mut().any(|running| !running.is_gone()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for running in &mut self.members {
            if !running.is_gone() {
                running.signal(Signal::SIGKILL);
            }
            // Only an error of the system can prevent this, and the program ends anyway.
            let _ = running.child.wait();
        }
    }

    fn rows(&self) -> Vec<Row> {
        self.members.iter().map(|running| running.row.clone()).collect()
    }
}

/// A line of `baton peer --json`.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Said {
    Complete { clients: Option<String> },
    Leader { leader: Option<usize> },
    Suspected { suspected: Vec<u64> },
    NotHeard { not_heard: Vec<u64> },
    End,
}

impl Running {
    /// Reads a line of the member's standard output.
    fn reads(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Said::Complete { clients }) => (self.row.state, self.row.clients) = (State::Runs, clients),
            Ok(Said::Leader { leader }) => self.row.leader = leader,
            Ok(Said::Suspected { suspected }) => self.row.suspects = suspected,
            Ok(Said::NotHeard { not_heard }) => self.row.not_heard = not_heard,
            // A later version may say more.
            Ok(Said::End) | Err(_) => {}
        }
    }

    /// Notes how the member ended, once.
    fn is_gone(&mut self) -> bool {
        let Ok(Some(status)) = self.child.try_wait() else { return false };
        if !self.ended {
            self.ended = true;
            // A member that ends by itself has said why.
            if status.code().is_none() || status.success() || self.row.says.is_none() {
                self.row.says = Some(format!("it ended: {status}"));
            }
        }
        true
    }

    fn state(&mut self) -> State {
        match (self.is_gone(), self.stopped, self.cut_off) {
            (true, ..) => State::Gone,
            (_, true, true) => State::StoppedAndCutOff,
            (_, true, false) => State::Stopped,
            (_, false, true) => State::CutOff,
            _ if self.row.state == State::Starts => State::Starts,
            _ => State::Runs,
        }
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a process that has ended may belong to another one by now.
        if !self.is_gone()
            && let Ok(pid) = i32::try_from(self.child.id())
        {
            // It may end at this moment.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// Asks a member which locks its clients hold and want.
async fn ask(address: String) -> Option<Seen> {
    let client = Client::lazy([address]).ok()?;
    let locks = client.list_locks().await.ok()?;
    let name = |lock: &baton_client::views::Lock| String::from_utf8_lossy(&lock.name).into_owned();
    Some(Seen {
        holds: locks.iter().filter(|lock| !lock.holders.is_empty()).map(name).collect(),
        wants: locks.iter().filter(|lock| !lock.waiters.is_empty()).map(name).collect(),
        waiters: locks.iter().map(|lock| lock.waiters.len()).sum(),
    })
}

/// Reads orders: keys of a terminal, or lines. A thread waits for them, because reading cannot be interrupted.
fn listen(interactive: bool, members: usize, events: mpsc::UnboundedSender<Event>) {
    std::thread::spawn(move || {
        if interactive {
            let term = Term::stdout();
            while let Ok(key) = term.read_key() {
                if events.send(Event::Key(key)).is_err() {
                    return;
                }
            }
            return;
        }
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let event = match orders::parse(&line, members) {
                Ok(Some(order)) => Event::Order(order),
                Ok(None) => continue,
                Err(sentence) => Event::Unknown(sentence),
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
}

/// Calls `tell` for each line, in a thread, until it returns false.
fn read_lines(source: impl std::io::Read + Send + 'static, tell: impl Fn(String) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if !tell(line) {
                return;
            }
        }
    });
}

/// Where the table is shown.
struct Screen {
    interactive: bool,
    json: bool,
    /// Lines of the last table on the terminal.
    drawn: usize,
    last: Option<Vec<Row>>,
}

impl Screen {
    fn draw(&mut self, up: &Up) -> Result<(), Failure> {
        let rows = up.rows();
        if self.interactive {
            let mut term = Term::stdout();
            let (height, width) = term.size();
            let whole = format!("{HELP}\n\n{}", board::to_text(&up.title, up.family, &rows, Some(up.chosen)));
            let text = board::clipped(&whole, height.into(), width.into());
            let shown = term.clear_last_lines(self.drawn).and_then(|()| term.write_all(text.as_bytes()));
            self.drawn = text.lines().count();
            return crate::output::written(shown).map(drop);
        }
        if self.last.as_ref() == Some(&rows) {
            return Ok(());
        }
        match self.json {
            true => print_json(&rows)?,
            false => print(&board::to_text(&up.title, up.family, &rows, None))?,
        }
        self.last = Some(rows);
        Ok(())
    }
}
