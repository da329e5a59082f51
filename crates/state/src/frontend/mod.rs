//! The front end of a node: one pure machine between the transports (gRPC, or `baton soak`) and the log. Streams of
//! sessions, leases, read-index rounds and limits meet here. Each transport is a shell that drives it.
//!
//! **How to drive it.** Report every event: a stream [opens](Frontend::stream_opens), [receives a
//! frame](Frontend::hears), is [slow](Frontend::stream_slow) or [gone](Frontend::stream_gone); a call wants to
//! [look](Frontend::look), or wants a command of a module [applied](Frontend::call); an entry [was applied](Frontend::applied);
//! the node [learns whether it leads](Frontend::told); a proposal [was lost](Frontend::lost); a round [is over](Frontend::round_done); [free space](Frontend::space) was measured; [time passes](Frontend::tick); or
//! the state [changed without an entry](Frontend::admitted).
//! After each report, carry out all outputs of [`Frontend::poll`], in order, before the next report. Call
//! [`Frontend::tick`] at [`Frontend::next_wake`].
//!
//! `now_ms` is from a monotonic clock that also counts while the machine sleeps. `state` is the state that this node
//! has applied.
//!
//! **What it relies on.** The shell proposes in the order of the outputs, each in its term or not at all. So the
//! entries of this term that are applied after this node's `Lead` are the front end's proposals, in that order. If a
//! proposal is refused, or may be lost, the shell calls [lost](Frontend::lost), and the front end begins to lead again
//! with a new `Lead`. The shell reports each lost `Lead` once.
//!
//! **What it promises.** No stream outlives a term: a proposal that was lost is never answered, and a client asks again
//! only on a new stream. The front end sends Opened only on the stream whose Open was applied, because the client
//! counts its lease from the moment when it sent that Open.

mod applied;
#[cfg(feature = "test-module")]
mod counter;
mod held_back;
mod leadership;
mod limits;
pub mod locks;
mod modules;
mod open;
mod rounds;
mod streams;
pub mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_types::cluster_id::ClusterId;
use baton_types::frames::ToClient;
use baton_types::limits::ServerLimits;

use crate::leases::Leases;
use crate::state::{Command, RequestNumber, SessionId};
pub use held_back::HELD_BACK_MS;
use held_back::HeldBack;
pub use leadership::{LEAD_AGAIN_MS, Leadership};
pub use limits::LIMIT_AGAIN_MS;
pub use modules::{Modules, Note, Reply};
use rounds::Rounds;
pub use rounds::{ROUND_AGAIN_MS, ROUNDS_MAX, RoundId};
pub use streams::{OPEN_WITHIN_MS, PARKED_BYTES_MAX, WINDOW};
use streams::{Presence, Stream};

/// The most proposals that may be on their way to the state. Only thousands of pipelining clients, or a disk that
/// hangs, reach this limit; the front end then ends the stream of each further request.
pub const UNDER_WAY_MAX: usize = 1 << 18;

/// A stream, which carries one session. The shell chooses the numbers, and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A connection, which carries streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A call that gets one answer. The shell chooses the numbers, and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Propose this command, if this node still leads in this term. Report the result with `applied` or `lost`.
    Propose {
        term: u64,
        command: Command,
    },
    /// Begin a read-index round now, and report its end with `round_done`.
    BeginRound(RoundId),
    /// Send this frame on a stream, after all earlier frames.
    Say {
        stream: StreamId,
        said: ToClient,
    },
    /// Read from this stream again: see [`Frontend::listens`].
    Listen(StreamId),
    /// End a stream, after all frames on it.
    Close {
        stream: StreamId,
        /// The reason, sent to the client.
        why: Closing,
    },
    Reply {
        call: CallId,
        reply: Reply,
    },
    /// Write a line for the operator.
    Note(Note),
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closing {
    /// The client has received Ended on this stream.
    #[error("the session has ended")]
    Ended,
    /// The client has received OtherCluster on this stream.
    #[error("the session is meant for another cluster")]
    OtherCluster,
    #[error("this node does not lead")]
    NotLeading,
    /// Proposals of the old term may be lost, so the client must ask again on a new stream.
    #[error("another term has begun")]
    TermEnded,
    #[error("the server is stopping")]
    Stopping,
    #[error("a later stream of the session replaced this one")]
    Replaced,
    /// The session's Close or expiry is on its way to the state.
    #[error("the session is about to end")]
    Ending,
    #[error("this node has no lease of the session; resume the session")]
    NoLease,
    /// [`UNDER_WAY_MAX`] proposals are on their way to the state.
    #[error("too many proposals wait for the log; try again")]
    Busy,
    #[error("the client does not read what it is sent")]
    Slow,
    /// The client did not send Open within [`OPEN_WITHIN_MS`].
    #[error("the client sent no Open in time")]
    NoOpen,
    #[error("this connection has {limit} streams; the server takes no more of one connection (--max-streams)")]
    TooManyStreams { limit: usize },
    /// The client broke a rule of the protocol.
    #[error("{0}")]
    Protocol(String),
}

/// The role of this node, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Follows,
    /// This node was elected, but its `Lead` is not applied yet.
    Begins {
        term: u64,
        /// When to propose another `Lead`, if a proposal may be lost.
        again_ms: Option<u64>,
    },
    Leads {
        term: u64,
    },
    Stopped,
}

/// A proposal of this term that is not applied yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnderWay {
    Open { stream: StreamId, session: SessionId, attempt: u64, secret_hash: Option<[u8; 32]>, begins: bool },
    Request { stream: StreamId, session: SessionId, number: RequestNumber },
    Call { call: CallId, command: Box<Command> },
    Timer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Space {
    free_bytes: Option<u64>,
    min_bytes: u64,
}

/// The front end. The module documentation tells how to drive it.
#[derive(Clone, Debug)]
pub struct Frontend {
    limits: ServerLimits,
    /// The cluster of this node, once it is told.
    cluster: Option<ClusterId>,
    standing: Standing,
    leases: Leases,
    rounds: Rounds,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that have not sent Open, with the time limit for it.
    silent: BTreeSet<(u64, StreamId)>,
    /// Number of streams per connection.
    connections: BTreeMap<ConnectionId, usize>,
    /// What this node knows of each session beside its lease.
    sessions: BTreeMap<SessionId, Presence>,
    under_way: VecDeque<UnderWay>,
    held_back: HeldBack,
    /// A term, and how many `Lead`s of that term were proposed and are not applied yet.
    leads_under_way: (u64, usize),
    /// How many proposals in `under_way` begin a session.
    opens_under_way: usize,
    modules: Modules,
    space: Space,
    /// The name of this node, if there are others; otherwise empty.
    name: String,
    /// This server is a member of a peer group.
    is_member: bool,
    /// When the operator was last told of each limit, by its flag.
    limits_told: BTreeMap<&'static str, u64>,
    out: VecDeque<Output>,
}

impl Frontend {
    /// A node that does not lead yet.
    pub fn new(limits: ServerLimits) -> Self {
        Frontend {
            limits,
            cluster: None,
            standing: Standing::Follows,
            leases: Leases::default(),
            rounds: Rounds::default(),
            streams: BTreeMap::new(),
            silent: BTreeSet::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            under_way: VecDeque::new(),
            held_back: HeldBack::default(),
            leads_under_way: (0, 0),
            opens_under_way: 0,
            modules: Modules::default(),
            space: Space::default(),
            name: String::new(),
            is_member: false,
            limits_told: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// The node is part of this cluster. The shell tells it before it [tells](Frontend::told) that the node leads.
    pub fn belongs_to(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    /// The server is a member of a peer group: it applies commands with [`Grants::ByGroup`](crate::state::locks::Grants::ByGroup).
    pub fn serves_a_group(&mut self) {
        self.is_member = true;
    }

    /// The next action for the shell.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The latest time for the next call of `tick`, if nothing else happens.
    pub fn next_wake(&self) -> Option<u64> {
        let again = if let Standing::Begins { again_ms, .. } = self.standing { again_ms } else { None };
        let silent = self.silent.first().map(|&(at_ms, _)| at_ms);
        let others = [self.rounds.next_wake(), self.leases.next_wake(), self.held_back.next_wake()];
        [again, silent].into_iter().chain(others).flatten().min()
    }

    /// Runs all timers that are due.
    pub fn tick(&mut self, now_ms: u64) {
        if let Standing::Begins { term, again_ms: Some(again_ms) } = self.standing
            && again_ms <= now_ms
        {
            self.begin_to_lead(term);
        }
        while let Some(&(at_ms, stream)) = self.silent.first()
            && at_ms <= now_ms
        {
            self.close(stream, Closing::NoOpen);
        }
        if self.held_back.next_wake().is_some_and(|until_ms| until_ms <= now_ms) {
            self.propose_held_back();
        }
        for command in self.leases.due(now_ms) {
            self.propose(command, UnderWay::Timer);
        }
        self.begin_rounds(now_ms);
    }

    /// The server stops: ends all streams and all leases.
    pub fn stop(&mut self) {
        self.reset(&Closing::Stopping);
        self.standing = Standing::Stopped;
    }

    /// Reports the free bytes on the disk, if the system tells them. Below the minimum the server refuses new sessions
    /// and acquires; releases, cancels and closes go on.
    pub fn space(&mut self, free_bytes: Option<u64>, min_bytes: u64) {
        let before = self.is_space_low();
        self.space = Space { free_bytes, min_bytes };
        if before != self.is_space_low() {
            let note = Note::Space { low: !before, free_bytes: free_bytes.unwrap_or(u64::MAX) };
            self.out.push_back(Output::Note(note));
        }
    }

    /// Tells the name of this node, if there are others: followers pass its refusals on to their clients.
    pub fn is_called(&mut self, name: String) {
        self.name = name;
    }

    /// Whether the server refuses new sessions and acquires because of low space.
    pub fn is_space_low(&self) -> bool {
        self.space.free_bytes.is_some_and(|free_bytes| free_bytes < self.space.min_bytes)
    }

    /// The free bytes as last reported.
    pub fn free_bytes(&self) -> Option<u64> {
        self.space.free_bytes
    }

    /// Whether this node leads, and its `Lead` is applied.
    pub fn leads(&self) -> bool {
        matches!(self.standing, Standing::Leads { .. })
    }

    /// The timers, for listings.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// A call wants to read a state that is at least as new as the call.
    pub fn look(&mut self, now_ms: u64, call: CallId) {
        if !self.leads() {
            return self.reply(call, Reply::Unavailable(self.why_not_leading().to_string()));
        }
        self.rounds.look(call);
        self.begin_rounds(now_ms);
    }

    /// A call wants this command of a module applied. Its effect is the answer.
    pub fn call(&mut self, call: CallId, command: Command) {
        if !self.leads() {
            return self.reply(call, Reply::Unavailable(self.why_not_leading().to_string()));
        }
        if self.is_busy() {
            return self.reply(call, Reply::Unavailable(Closing::Busy.to_string()));
        }
        let under_way = UnderWay::Call { call, command: Box::new(command.clone()) };
        self.propose(command, under_way);
    }

    /// A read-index round has ended. `led` is true if the round confirmed that this node led after the round began.
    pub fn round_done(&mut self, now_ms: u64, round: RoundId, led: bool) {
        let served = self.rounds.done(now_ms, round, led);
        for (session, number) in served.keep_alives {
            if self.leases.is_live(session) {
                self.say(session, ToClient::Alive { number });
            }
        }
        for call in served.calls {
            let failed = || Reply::Unavailable("this node could not confirm that it leads".to_owned());
            self.reply(call, if led { Reply::Current } else { failed() });
        }
        self.begin_rounds(now_ms);
    }

    /// Ends everything that belongs to a term.
    fn reset(&mut self, why: &Closing) {
        if let Standing::Leads { term } = self.standing {
            self.out.push_back(Output::Note(Note::LeadsNoMore { term }));
        }
        self.leases.step_down();
        self.held_back = HeldBack::default();
        self.sessions.clear();
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.close(stream, why.clone());
        }
        for call in self.rounds.reset() {
            self.reply(call, Reply::Unavailable(why.to_string()));
        }
        for under_way in std::mem::take(&mut self.under_way) {
            if let UnderWay::Call { call, command } = under_way {
                let why = format!("{why}; it is not known whether {}", Modules::done_by(&command));
                self.reply(call, Reply::Unknown(why));
            }
        }
        self.opens_under_way = 0;
        self.modules.reset();
    }

    /// The reason for a refusal while this node does not lead.
    fn why_not_leading(&self) -> Closing {
        if self.standing == Standing::Stopped { Closing::Stopping } else { Closing::NotLeading }
    }

    fn is_busy(&self) -> bool {
        self.under_way.len() >= UNDER_WAY_MAX
    }

    /// Must be called only while this node leads.
    fn propose(&mut self, command: Command, under_way: UnderWay) {
        let Standing::Leads { term } = self.standing else { unreachable!("only a leader proposes") };
        self.propose_held_back();
        self.add_under_way(under_way);
        self.out.push_back(Output::Propose { term, command });
    }

    /// Counts a proposal, which may be held back.
    fn add_under_way(&mut self, under_way: UnderWay) {
        if let UnderWay::Open { begins: true, .. } = under_way {
            self.opens_under_way += 1;
        }
        self.under_way.push_back(under_way);
    }

    fn begin_rounds(&mut self, now_ms: u64) {
        while let Some(round) = self.rounds.begin(now_ms) {
            self.out.push_back(Output::BeginRound(round));
        }
    }

    fn reply(&mut self, call: CallId, reply: Reply) {
        self.out.push_back(Output::Reply { call, reply });
    }

    /// Sends a frame to a session, if the session has a stream here.
    fn say(&mut self, session: SessionId, said: ToClient) {
        if let Some(stream) = self.sessions.get(&session).and_then(|presence| presence.stream) {
            self.out.push_back(Output::Say { stream, said });
        }
    }
}
