//! `baton peer`: run one member of a group, until a signal stops it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use baton_member::MemberServer;
use baton_peer::{
    Awaited, Data, Detector, Election, GroupError, GroupFile, Leader, Member, MemberId, Options, PeerGroup, Stats,
    Warning, folder_name,
};
use baton_protocol::ProcessId;
use baton_protocol::registry::Family;
use baton_types::limits::{CONNECTIONS_MAX, ServerLimits, TTL_MS_MAX, TTL_MS_MIN};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::durations;
use crate::output::{Failure, OUTPUT_FAILED, Outcome, Target, VIOLATED, print, print_json, table, warn};
use crate::sink::Late;

/// Run one member of a group, without a server
///
/// All members share one file with the algorithm and the address of each member.
/// `baton group init` writes such a file. Start every member with its own id, in
/// any order. The member then answers the other members until SIGINT or SIGTERM
/// stops it. In an election it prints each change of the leader, and in failure
/// detection each change of the suspected processes.
///
/// The words of the output (leader, suspicion, ...) are explained in docs/glossary.md.
///
/// Exit status:
///   0    a signal stopped the member
///   1    the member can serve no longer
///   2    bad input, or the group was not complete in time
///   74   the output or the trace cannot be written
#[derive(clap::Args)]
#[command(verbatim_doc_comment, allow_negative_numbers = true)]
pub struct Args {
    /// The file that all members share, in TOML
    #[arg(long, value_name = "FILE")]
    group: PathBuf,
    /// The id of this member: its place in `members`, from 0 on
    #[arg(long)]
    id: usize,
    /// Serve clients at this address, such as 127.0.0.1:7601, as `baton serve` does; for mutual exclusion
    #[arg(long, value_name = "CLIENT_ADDR")]
    listen: Option<SocketAddr>,
    /// The folder of this member's file, which makes fences grow when the group is started again. Default, for locks:
    /// baton/groups below the user's state folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The longest TTL of a client's session, such as 30s or 2m, up to 24h. When the group is started again, no client gets a
    /// lock before this time is over, unless no client held one. Needs --listen [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = max_ttl, allow_negative_numbers = true)]
    max_ttl: Option<Duration>,
    /// Write the trace of this member to a file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Longest time to wait for the other members to start, such as 90s or 2m, up to 24h; a plain number is seconds
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = start_within, allow_negative_numbers = true)]
    start_within: Duration,
    /// How many bytes another member may leave unacknowledged, such as 16MiB or 512KiB. From half of it on this member
    /// refuses new requests; at the limit it stops
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = bytes)]
    backlog: usize,
    /// The network keeps the bound `delay_max_ms`, and no process pauses. An election then needs no guard. All members
    /// must say so
    #[arg(long)]
    assume_synchronous: bool,
    /// Print JSON: one object for each event
    #[arg(long)]
    json: bool,
    /// Stop when the standard input ends, so that no member outlives the program that started it
    #[arg(long, hide = true)]
    ends_with_stdin: bool,
}

/// How often a member looks which others are silent.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a member says what it waits for, if that changes, until the group begins.
const AWAITED_EVERY: Duration = Duration::from_secs(2);

/// The TTL of a client that names none.
const TTL_DEFAULT: Duration = Duration::from_secs(10);

/// The longest TTL of a client's session, if the user names none.
const MAX_TTL: Duration = Duration::from_secs(60);

/// The port for clients, and its address.
type Port = (TcpListener, SocketAddr);

/// The resource of a group that elects a leader.
const LEADER: &[u8] = b"leader";
/// The resource of a group that detects failures.
const DETECTOR: &[u8] = b"detector";

/// At most this many warnings are printed in [`WARNINGS_WINDOW`]: a program that connects again and again must not flood
/// the standard error.
const WARNINGS_MAX: u64 = 20;
const WARNINGS_WINDOW: Duration = Duration::from_secs(10);

pub fn run(args: &Args) -> Outcome {
    let group = args.read_group().map_err(Failure::bad_input)?;
    group.address(args.id).map_err(Failure::bad_input)?;
    if let Some(listen) = args.listen.filter(|_| group.about().family != Family::Mutex) {
        let algorithm = group.about().name;
        let sentence = format!("--listen {listen} is for the clients of locks, but `{algorithm}` makes no locks");
        return Err(Failure::bad_input(sentence));
    }
    if args.max_ttl.is_some() && args.listen.is_none() {
        return Err(Failure::bad_input("--max-ttl is for the clients of this member, so it needs --listen"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(serve(args, &group))
}

async fn serve(args: &Args, group: &PeerGroup) -> Outcome {
    let mut signals = Signals::new(args.ends_with_stdin)?;
    // The port comes first: a member that has joined and stops again cannot come back.
    let port = match args.listen {
        Some(listen) => Some(baton_member::bind(listen).await.map_err(Failure::bad_input)?),
        None => None,
    };
    if let Some(max) = args.max_ttl.filter(|max| *max < TTL_DEFAULT) {
        let (max, ttl) = (max.as_secs_f64(), TTL_DEFAULT.as_secs());
        warn(format!(
            "--max-ttl {max}s is below the default TTL of clients, {ttl} s: they must ask for less with --ttl"
        ));
    }
    let data = args.data(group)?;
    let target = args.trace.as_deref().map(Target::open).transpose()?;
    let (warnings, printer) = print_warnings();
    let awaited = watch::Sender::new(Awaited::all(group, args.id));
    let (log, tell) = (awaited.subscribe(), awaited.subscribe());
    let options = Options { data, awaited: Some(awaited), ..args.options(warnings) };
    let joined = tokio::select! {
        joined = Member::join(group, args.id, options) => joined.map_err(|error| Err(Failure::bad_input(error))),
        () = signals.stop() => Err(Ok(ExitCode::SUCCESS)),
        never = log_awaited(log) => match never {},
        never = turn_away(port.as_ref(), args.id, tell) => match never {},
    };
    let member = match joined {
        Ok(member) => member,
        Err(outcome) => {
            target.into_iter().for_each(Target::leave_as_it_was);
            return outcome;
        }
    };
    let served = take_part(args, &member, port, &mut signals).await;
    if served.is_ok() && args.listen.is_none() {
        // It has no clients. With clients, their server knows. The member has warned if this cannot be written.
        let _ = member.held_nothing().await;
    }
    let stats = member.shutdown().await;
    drop(member);
    // The printer ends when the member is gone. The bound is for a standard error that blocks.
    let is_traced = timeout(Duration::from_secs(1), printer).await.map_or(true, |all| all.unwrap_or(true));
    let printed = args.print_stats(group, &stats);
    let status = served?;
    printed?;
    Ok(if is_traced { status } else { ExitCode::from(OUTPUT_FAILED) })
}

/// Warns whenever the member waits for other members than before.
async fn log_awaited(awaited: watch::Receiver<Awaited>) -> Infallible {
    let mut told = None;
    loop {
        sleep(AWAITED_EVERY).await;
        let now = awaited.borrow().clone();
        let ids = (now.missing.iter().map(|missing| missing.id).collect::<Vec<_>>(), now.incomplete.clone());
        if told.as_ref() != Some(&ids) {
            warn(format!("the group has not begun yet; {now}"));
            told = Some(ids);
        }
    }
}

/// Tells clients why the member does not serve them yet.
async fn turn_away(port: Option<&Port>, id: MemberId, awaited: watch::Receiver<Awaited>) -> Infallible {
    match port {
        Some((listener, _)) => baton_member::turn_away(listener, id, awaited).await,
        None => std::future::pending().await,
    }
}

/// Serves clients, and prints what happens, until a signal comes or the member can serve no longer.
async fn take_part(args: &Args, member: &Member, port: Option<Port>, signals: &mut Signals) -> Outcome {
    let server = match port {
        Some(port) => {
            let ttl_ms_max = u64::try_from(args.ttl_max().as_millis()).unwrap_or(u64::MAX);
            let limits = ServerLimits { ttl_ms_max, ..ServerLimits::DEFAULT };
            let served = baton_member::serve(member.clone(), port, limits, CONNECTIONS_MAX).await;
            Some(served.map_err(|error| cannot_serve(&error))?)
        }
        None => None,
    };
    args.print_complete(member, server.as_ref().map(MemberServer::address))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let clients = async {
        match server {
            // A dropped sender is a reason to stop, too.
            Some(server) => server.run(async { drop(stopped.await) }).await.map_err(|error| cannot_serve(&error)),
            None => std::future::pending().await,
        }
    };
    tokio::pin!(clients);
    let mut news = News::of(member).map_err(|error| cannot_serve(&error))?;
    let (mut looks, mut silent) = (interval(LOOK_EVERY), BTreeSet::new());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        tokio::select! {
            _ = looks.tick() => {
                // Text has the warnings on standard error instead.
                let now = member.silent();
                if args.json && now != silent {
                    args.print_event(&Event::NotHeard(now.clone()))?;
                }
                silent = now;
            }
            () = signals.stop() => break Ok(ExitCode::SUCCESS),
            error = member.failed() => break Err(cannot_serve(&error)),
            served = &mut clients => return served.map(|()| ExitCode::SUCCESS),
            event = news.next() => args.print_event(&event)?,
        }
    };
    drop(stop);
    if args.listen.is_some() {
        // The clients are told that the member stops. If the member failed, the server says so again.
        let _ = clients.await;
    }
    outcome
}

fn cannot_serve(error: &dyn std::error::Error) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(VIOLATED) }
}

/// SIGINT, SIGTERM and, for a child of another command, the end of the standard input.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    stdin: Option<oneshot::Receiver<()>>,
}

impl Signals {
    pub fn new(watches_stdin: bool) -> Result<Self, Failure> {
        let watch =
            |kind| signal(kind).map_err(|error| Failure::bad_input(format!("cannot watch for signals: {error}")));
        let stdin = watches_stdin.then(|| {
            let (open, closed) = oneshot::channel();
            // A thread, because a read of the standard input cannot be interrupted.
            std::thread::spawn(move || {
                let _open: oneshot::Sender<()> = open;
                io::copy(&mut io::stdin(), &mut io::sink())
            });
            closed
        });
        Ok(Signals { interrupt: watch(SignalKind::interrupt())?, terminate: watch(SignalKind::terminate())?, stdin })
    }

    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = ended(&mut self.stdin) => {}
        }
    }
}

/// Waits until the sender is gone, which counts once. Without a receiver it waits for ever.
async fn ended(stdin: &mut Option<oneshot::Receiver<()>>) {
    match stdin {
        Some(closed) => {
            let _ = closed.await;
            *stdin = None;
        }
        None => std::future::pending().await,
    }
}

/// What a member of this family of algorithms has to tell.
enum News {
    /// Locks: nothing.
    None,
    Leader(watch::Receiver<Leader>),
    Suspected {
        changes: watch::Receiver<BTreeSet<ProcessId>>,
        told: BTreeSet<ProcessId>,
    },
}

#[derive(Debug, PartialEq)]
enum Event {
    Leader(Leader),
    /// The members that are not heard of now.
    NotHeard(BTreeSet<MemberId>),
    /// All processes that are suspected now, and what has changed.
    Suspected {
        now: BTreeSet<ProcessId>,
        before: BTreeSet<ProcessId>,
    },
}

impl News {
    fn of(member: &Member) -> Result<Self, baton_peer::AcquireError> {
        Ok(match member.group().about().family {
            Family::Election => News::of_election(&member.election(LEADER)?),
            Family::Detector => News::of_detector(&member.detector(DETECTOR)?),
            Family::Mutex | Family::Append => News::None,
        })
    }

    fn of_election(election: &Election) -> Self {
        let mut leader = election.watch_leader();
        if leader.borrow().id.is_none() {
            // A ring elects only if one of its processes asks for it.
            election.elect();
        } else {
            leader.mark_changed();
        }
        News::Leader(leader)
    }

    fn of_detector(detector: &Detector) -> Self {
        News::Suspected { changes: detector.watch_suspected(), told: BTreeSet::new() }
    }

    /// The next event. Never ends if there is none. Safe to drop.
    async fn next(&mut self) -> Event {
        // A change fails if the member has left. The caller notices that elsewhere.
        let (is_there, event) = match self {
            News::None => (false, None),
            News::Leader(leader) => {
                let is_there = leader.changed().await.is_ok();
                (is_there, Some(Event::Leader(*leader.borrow_and_update())))
            }
            News::Suspected { changes, told } => {
                let is_there = changes.changed().await.is_ok();
                let now = changes.borrow_and_update().clone();
                let before = std::mem::replace(told, now.clone());
                (is_there, Some(Event::Suspected { now, before }))
            }
        };
        match event.filter(|_| is_there) {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

impl Args {
    /// Like [`PeerGroup::read`], with `--assume-synchronous` added before the check.
    fn read_group(&self) -> Result<PeerGroup, GroupError> {
        let file = GroupFile::read(&self.group)?;
        let assume_synchronous = file.assume_synchronous || self.assume_synchronous;
        PeerGroup::new(GroupFile { assume_synchronous, ..file })
    }

    fn options(&self, warnings: mpsc::Sender<Warning>) -> Options {
        Options {
            start_within: self.start_within,
            backlog_max: self.backlog,
            trace: self.trace.clone().map(|path| Box::new(Late::new(path)) as Box<dyn Write + Send>),
            warnings: Some(warnings),
            ..Options::default()
        }
    }

    /// The member's file. Only fences need one, so elections and detectors have none.
    fn data(&self, group: &PeerGroup) -> Result<Option<Data>, Failure> {
        if group.about().family != Family::Mutex {
            return match &self.data {
                Some(_) => Err(Failure::bad_input("--data is for the fences of locks, and this group makes no locks")),
                None => Ok(None),
            };
        }
        let folder = match &self.data {
            Some(folder) => Ok(folder.clone()),
            None => self.default_folder(),
        };
        let folder = match folder {
            Ok(folder) => folder,
            Err(why) if self.listen.is_some() => {
                return Err(Failure::bad_input(format!("{why}; name a folder with --data DIR")));
            }
            Err(_) => return Ok(None),
        };
        Data::open(&folder, self.id, self.ttl_max()).map(Some).map_err(Failure::bad_input)
    }

    /// The longest lease of a client. A member that serves no clients gives none.
    fn ttl_max(&self) -> Duration {
        if self.listen.is_some() { self.max_ttl.unwrap_or(MAX_TTL) } else { Duration::ZERO }
    }

    /// One folder for each group file. Two groups that use one file, one after the other, count on in it.
    fn default_folder(&self) -> Result<PathBuf, String> {
        let state = dirs::state_dir().or_else(dirs::data_dir).ok_or("this user has no state folder")?;
        let name = folder_name(&self.group).map_err(|error| format!("the group file has no lasting path: {error}"))?;
        Ok(state.join("baton").join("groups").join(name))
    }

    fn print_complete(&self, member: &Member, clients: Option<SocketAddr>) -> Result<(), Failure> {
        let (id, group) = (member.id(), member.group());
        let (members, file) = (group.members(), group.file());
        let address = &file.members[id];
        if self.json {
            return print_json(&json!({
                "event": "complete",
                "member": id,
                "members": members,
                "algorithm": file.algorithm,
                "variant": file.variant,
                "address": address,
                "clients": clients,
                "data": member.folder().map(|folder| folder.to_string_lossy()),
            }));
        }
        let variant = file.variant.as_ref().map_or(String::new(), |variant| format!(" ({variant})"));
        let algorithm = &file.algorithm;
        let clients = clients.map_or(String::new(), |clients| format!("; clients connect to {clients}"));
        let file = member.folder().map_or(String::new(), |folder| format!(", its file is in {}", folder.display()));
        let line = format!(
            "member {id} of {members} runs {algorithm}{variant} on {address}{file}; the group is complete{clients}\n"
        );
        print(&line)
    }

    fn print_event(&self, event: &Event) -> Result<(), Failure> {
        if self.json { print_json(&event_json(event)) } else { print(&event_text(event)) }
    }

    fn print_stats(&self, group: &PeerGroup, stats: &Stats) -> Result<(), Failure> {
        if !self.json {
            return print(&stats_text(group.about().family, stats));
        }
        let mut object = serde_json::to_value(stats).map_err(Failure::bad_input)?;
        object["event"] = "end".into();
        print_json(&object)
    }
}

fn event_json(event: &Event) -> Value {
    match event {
        Event::Leader(Leader { id, term }) => json!({ "event": "leader", "leader": id, "term": term }),
        Event::NotHeard(members) => json!({ "event": "not-heard", "not_heard": members }),
        Event::Suspected { now, .. } => json!({ "event": "suspected", "suspected": now }),
    }
}

fn event_text(event: &Event) -> String {
    match event {
        Event::Leader(Leader { id: None, .. }) => "no leader\n".into(),
        Event::Leader(Leader { id: Some(id), term: None }) => format!("leader: P{id}\n"),
        Event::Leader(Leader { id: Some(id), term: Some(term) }) => format!("leader: P{id} in term {term}\n"),
        Event::NotHeard(_) => String::new(),
        Event::Suspected { now, before } => {
            let suspected = now.difference(before).map(|id| format!("suspects P{id}\n"));
            let trusted = before.difference(now).map(|id| format!("trusts P{id} again\n"));
            suspected.chain(trusted).collect()
        }
    }
}

fn stats_text(family: Family, stats: &Stats) -> String {
    let by_kind: Vec<String> = stats.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let kinds = if by_kind.is_empty() { String::new() } else { format!("  ({})", by_kind.join(", ")) };
    let locks = [
        ("locks", stats.resources.to_string()),
        ("requests", stats.requests.to_string()),
        ("entries", stats.entries.to_string()),
    ];
    let locks = locks.into_iter().filter(|_| family == Family::Mutex);
    let sent = [("messages sent", format!("{}{kinds}", stats.messages)), ("bytes sent", stats.bytes.to_string())];
    let rows: Vec<_> = locks.chain(sent).map(|(name, value)| vec![name.into(), value]).collect();
    table(&rows)
}

fn max_ttl(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(TTL_MS_MIN)..=Duration::from_millis(TTL_MS_MAX);
    durations::within("the longest TTL", text, range)
}

fn start_within(text: &str) -> Result<Duration, String> {
    durations::within("the time", text, Duration::ZERO..=Duration::from_hours(24))
}

/// A number of bytes, with or without a unit.
fn bytes(text: &str) -> Result<usize, &'static str> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let with_unit = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, unit) = with_unit.unwrap_or((text, 1));
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or("give a number of bytes above 0, such as 16MiB, 512KiB or 65536")
}

/// A task that prints each warning to standard error, but not too many. Its result: whether the whole trace was
/// written.
fn print_warnings() -> (mpsc::Sender<Warning>, JoinHandle<bool>) {
    let (sender, mut warnings) = mpsc::channel::<Warning>(256);
    let printer = tokio::spawn(async move {
        let mut is_traced = true;
        while let Some(first) = warnings.recv().await {
            let (mut next, mut shown, mut left_out) = (Some(first), 0, 0);
            let window_ends = sleep(WARNINGS_WINDOW);
            tokio::pin!(window_ends);
            while let Some(warning) = next {
                is_traced &= !matches!(warning, Warning::TraceFailed(_));
                if shown < WARNINGS_MAX {
                    warn(warning);
                    shown += 1;
                } else {
                    left_out += 1;
                }
                next = tokio::select! {
                    warning = warnings.recv() => warning,
                    () = &mut window_ends => None,
                };
            }
            if left_out > 0 {
                warn(format!("{left_out} more warnings in {} s are not shown", WARNINGS_WINDOW.as_secs()));
            }
        }
        is_traced
    });
    (sender, printer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_may_have_a_unit() {
        assert_eq!(bytes("16MiB"), Ok(16 << 20));
        assert_eq!(bytes("512KiB"), Ok(512 << 10));
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("7"), Ok(7));
        for wrong in ["", "0", "MiB", "0KiB", "-1", "1.5MiB", "16MB", "99999999999999999999", "18446744073709551615GiB"]
        {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_suspicion_that_begins_or_ends_has_a_line() {
        let event = Event::Suspected { now: [1, 3].into(), before: [2, 3].into() };
        assert_eq!(event_text(&event), "suspects P1\ntrusts P2 again\n");
        assert_eq!(event_json(&event), json!({ "event": "suspected", "suspected": [1, 3] }));
    }

    #[test]
    fn a_leader_is_shown_with_its_term_if_it_has_one() {
        let text = |id, term| event_text(&Event::Leader(Leader { id, term }));
        assert_eq!(text(None, None), "no leader\n");
        assert_eq!(text(Some(2), None), "leader: P2\n");
        assert_eq!(text(Some(2), Some(5)), "leader: P2 in term 5\n");
    }
}
