//! The front end of a node: one pure machine between whoever speaks to the service and the log. Streams of sessions, leases,
//! read-index rounds and limits meet here, and every transport is a shell around it. `baton soak` is one more shell.
//!
//! **How to drive it.** Tell it what happens: a stream [opens](Frontend::stream_opens), [speaks](Frontend::hears), is
//! [slow](Frontend::stream_slow) or [gone](Frontend::stream_gone); a call wants to [look](Frontend::look) or to
//! [force](Frontend::force) a release; an entry [was applied](Frontend::applied); this node [was elected](Frontend::elected)
//! or [deposed](Frontend::deposed); a proposal [was lost](Frontend::lost); a round [is over](Frontend::round_done);
//! [space](Frontend::space) is low; [time passes](Frontend::tick). After each call, do all that [`Frontend::poll`] says, in
//! that order, before anything else is told. Call [`Frontend::tick`] at [`Frontend::next_wake`].
//!
//! `now_ms` is from a clock that only grows and goes on while the machine sleeps. `state` is what this node has applied.
//!
//! **What it relies on.** The shell proposes in the order of the outputs, each in its term or not at all. So the entries of
//! this term that are applied after this node's `Lead` are what the front end proposed, in that order. If an entry is
//! refused, or not known to be kept, the shell says [lost](Frontend::lost), and the front end begins to lead anew.
//!
//! **What it promises.** No stream outlives a term: what was proposed in it and lost is never answered, and only a client that
//! comes anew asks again. A session is told that it is open only on the stream whose Open was applied, because its client
//! counts the lease from when it sent that Open.

mod applied;
mod limits;
mod open;
mod rounds;
mod streams;
pub mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use baton_types::frames::ToClient;
use baton_types::limits::ServerLimits;
use baton_types::views::Holder;

use crate::leases::Leases;
use crate::state::locks::LockName;
use crate::state::{Caller, Command, RequestNumber, SessionId, State, locks, sessions};
pub use limits::LIMIT_AGAIN_MS;
use rounds::Rounds;
pub use rounds::{ROUND_AGAIN_MS, ROUNDS_MAX, RoundId};
pub use streams::{OPEN_WITHIN_MS, PARKED_BYTES_MAX, WINDOW};
use streams::{Presence, Stream};

/// If a proposal was lost, this node begins to lead anew so much later.
pub const LEAD_AGAIN_MS: u64 = 100;

/// The most proposals that may be on their way to the state. Only thousands of pipelining clients, or a disk that hangs, reach this
/// limit; the front end then ends the stream of each further request.
pub const UNDER_WAY_MAX: usize = 1 << 18;

/// A stream, which carries one session. The shell numbers them, and uses no number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A connection, which carries streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A call that is answered once. The shell numbers them, and uses no number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Propose this command, if this node still leads in this term. Whatever becomes of it, `applied` or `lost` tells.
    Propose {
        /// The term.
        term: u64,
        /// The command.
        command: Command,
    },
    /// Begin a read-index round now, and tell its end by `round_done`.
    BeginRound(RoundId),
    /// Say this on a stream, after all that was said before.
    Say {
        /// The stream.
        stream: StreamId,
        /// What.
        said: ToClient,
    },
    /// Read from this stream again: see [`Frontend::listens`].
    Listen(StreamId),
    /// End a stream, after all that was said.
    Close {
        /// The stream.
        stream: StreamId,
        /// Why, for the client.
        why: Closing,
    },
    /// Answer a call.
    Reply {
        /// The call.
        call: CallId,
        /// The answer.
        reply: Reply,
    },
    /// Tell the operator.
    Note(Note),
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closing {
    /// The session has ended, and its client was told so.
    #[error("the session has ended")]
    Ended,
    /// Another node may lead.
    #[error("this node does not lead")]
    NotLeading,
    /// What was proposed in the old term may be lost.
    #[error("another term has begun")]
    TermEnded,
    /// The server stops.
    #[error("the server stops")]
    Stopping,
    /// The same session came by a later stream.
    #[error("the session came by a later stream")]
    Replaced,
    /// The session's Close or expiry is on its way to the state.
    #[error("the session is about to end")]
    Ending,
    /// This node has no lease of the session.
    #[error("no lease of this session is known here: resume it")]
    NoLease,
    /// More is on its way to the state than this node takes.
    #[error("too much is on its way to the log: try again")]
    Busy,
    /// The client does not read what it is sent.
    #[error("the client does not read what it is sent")]
    Slow,
    /// The client did not say whose the stream is.
    #[error("the stream did not say whose it is: send Open")]
    NoOpen,
    /// The connection has too many streams.
    #[error("this connection has {limit} streams; the server takes no more of one connection (--max-streams)")]
    TooManyStreams {
        /// How many it may have.
        limit: usize,
    },
    /// The client breaks the rules of the protocol.
    #[error("{0}")]
    Protocol(String),
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The state is at least as new as the call.
    Current,
    /// The release was forced, and these were told so or lost the lock at once.
    Forced(Vec<Holder>),
    /// This node cannot say, for this reason.
    Unavailable(String),
    /// It may have happened or not.
    Unknown(String),
}

/// What an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This node leads.
    Leads {
        /// In which term.
        term: u64,
        /// How many sessions there are.
        sessions: usize,
    },
    /// This node leads no more.
    LeadsNoMore {
        /// In which term it did.
        term: u64,
    },
    /// A session expired.
    Expired {
        /// Its id.
        session: SessionId,
        /// What it was.
        label: String,
        /// Where it ran.
        host: String,
    },
    /// Somebody forced the release of a lock.
    Forced {
        /// The lock.
        lock: LockName,
        /// Whether it was taken from its holders at once.
        now: bool,
        /// How many held it.
        holders: usize,
        /// Who, by address.
        by: Option<SocketAddr>,
    },
    /// Space is low, or no longer.
    Space {
        /// Whether it is low.
        low: bool,
        /// How many bytes more can be written.
        free_bytes: u64,
    },
    /// A limit refuses something. An operator is told of each limit once a minute.
    Limit {
        /// The flag that sets it.
        flag: &'static str,
        /// What is refused, in a sentence.
        message: String,
        /// The address of the client that the limit refuses.
        from: Option<SocketAddr>,
    },
}

/// What this node is in its group, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Follows,
    /// Its `Lead` is not applied yet.
    Begins {
        term: u64,
        /// When to propose another `Lead`, if the last one may be lost.
        again_ms: Option<u64>,
    },
    Leads {
        term: u64,
    },
    Stopped,
}

/// What was proposed in this term and is not applied yet, in the order of the proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnderWay {
    Open { stream: StreamId, session: SessionId, attempt: u64, secret_hash: Option<[u8; 32]>, begins: bool },
    Request { stream: StreamId, session: SessionId, number: RequestNumber, acquires: Option<LockName> },
    Force { call: CallId, now: bool, by: Option<SocketAddr> },
    Timer,
}

/// How much more can be written to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Space {
    free_bytes: Option<u64>,
    min_bytes: u64,
}

/// The front end; the module tells how to drive it.
#[derive(Clone, Debug)]
pub struct Frontend {
    limits: ServerLimits,
    standing: Standing,
    leases: Leases,
    rounds: Rounds,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that have not said whose they are, by when they have to.
    silent: BTreeSet<(u64, StreamId)>,
    /// How many streams each connection has.
    connections: BTreeMap<ConnectionId, usize>,
    /// What is known here of each session beside its lease.
    sessions: BTreeMap<SessionId, Presence>,
    under_way: VecDeque<UnderWay>,
    /// How many of `under_way` begin a session, and how many acquire.
    opens_under_way: usize,
    acquires_under_way: usize,
    /// How many of them acquire each lock.
    locks_under_way: HashMap<LockName, usize>,
    space: Space,
    /// When an operator was last told of each limit, by its flag.
    limits_told: BTreeMap<&'static str, u64>,
    out: VecDeque<Output>,
}

impl Frontend {
    /// A node that does not lead, with these limits.
    pub fn new(limits: ServerLimits) -> Self {
        Frontend {
            limits,
            standing: Standing::Follows,
            leases: Leases::default(),
            rounds: Rounds::default(),
            streams: BTreeMap::new(),
            silent: BTreeSet::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            under_way: VecDeque::new(),
            opens_under_way: 0,
            acquires_under_way: 0,
            locks_under_way: HashMap::new(),
            space: Space::default(),
            limits_told: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When `tick` has to be called, at the latest, if nothing else happens.
    pub fn next_wake(&self) -> Option<u64> {
        let again = if let Standing::Begins { again_ms, .. } = self.standing { again_ms } else { None };
        let silent = self.silent.first().map(|&(at_ms, _)| at_ms);
        [again, silent, self.rounds.next_wake(), self.leases.next_wake()].into_iter().flatten().min()
    }

    /// Time has passed.
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
        for command in self.leases.due(now_ms) {
            self.propose(command, UnderWay::Timer);
        }
        self.begin_rounds(now_ms);
    }

    /// This node was elected. It leads once its own `Lead` is applied: then nothing of an earlier term follows in the log.
    pub fn elected(&mut self, term: u64) {
        let is_known = match self.standing {
            Standing::Begins { term: known, .. } | Standing::Leads { term: known } => known >= term,
            Standing::Follows => false,
            Standing::Stopped => true,
        };
        if !is_known {
            self.reset(&Closing::TermEnded);
            self.begin_to_lead(term);
        }
    }

    /// This node leads no more, or is not sure.
    pub fn deposed(&mut self) {
        if self.standing != Standing::Stopped {
            self.reset(&Closing::NotLeading);
            self.standing = Standing::Follows;
        }
    }

    /// A proposal of this term was refused, or is not known to be kept. Those before it may be applied or not, so this node
    /// begins to lead anew: whatever of the old proposals is applied comes before the new `Lead`.
    pub fn lost(&mut self, now_ms: u64, lost_in: u64) {
        match self.standing {
            Standing::Begins { term, .. } | Standing::Leads { term } if term == lost_in => {
                self.reset(&Closing::TermEnded);
                self.standing = Standing::Begins { term, again_ms: Some(now_ms.saturating_add(LEAD_AGAIN_MS)) };
            }
            _ => {}
        }
    }

    /// The server stops: no stream goes on, no lease counts any more.
    pub fn stop(&mut self) {
        self.reset(&Closing::Stopping);
        self.standing = Standing::Stopped;
    }

    /// So many bytes more can be written, if the system says it; below the minimum only what gives something back is taken.
    pub fn space(&mut self, free_bytes: Option<u64>, min_bytes: u64) {
        let before = self.is_space_low();
        self.space = Space { free_bytes, min_bytes };
        if before != self.is_space_low() {
            let note = Note::Space { low: !before, free_bytes: free_bytes.unwrap_or(u64::MAX) };
            self.out.push_back(Output::Note(note));
        }
    }

    /// Whether there is too little space for anything new.
    pub fn is_space_low(&self) -> bool {
        self.space.free_bytes.is_some_and(|free_bytes| free_bytes < self.space.min_bytes)
    }

    /// The bytes that can be written, as it was last told.
    pub fn free_bytes(&self) -> Option<u64> {
        self.space.free_bytes
    }

    /// Whether this node leads, and its `Lead` is applied.
    pub fn leads(&self) -> bool {
        matches!(self.standing, Standing::Leads { .. })
    }

    /// The timers, for people who look.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// A call wants to look at a state that is at least as new as itself.
    pub fn look(&mut self, now_ms: u64, call: CallId) {
        if !self.leads() {
            return self.reply(call, Reply::Unavailable(self.why_not_leading().to_string()));
        }
        self.rounds.look(call);
        self.begin_rounds(now_ms);
    }

    /// A call forces the release of a lock. The answer names those whom it hit.
    pub fn force(&mut self, call: CallId, lock: LockName, now: bool, caller: Caller) {
        if !self.leads() {
            return self.reply(call, Reply::Unavailable(self.why_not_leading().to_string()));
        }
        if self.is_busy() {
            return self.reply(call, Reply::Unavailable(Closing::Busy.to_string()));
        }
        let under_way = UnderWay::Force { call, now, by: caller.from };
        self.propose(locks::Command::Force { lock, now, caller }.into(), under_way);
    }

    /// A read-index round has shown that this node led after the round began, or has not.
    pub fn round_done(&mut self, now_ms: u64, round: RoundId, led: bool) {
        let served = self.rounds.done(now_ms, round, led);
        for (session, number) in served.keep_alives {
            if self.leases.is_live(session) {
                self.say(session, ToClient::Alive { number });
            }
        }
        for call in served.calls {
            let failed = || Reply::Unavailable("this node could not show that it leads".to_owned());
            self.reply(call, if led { Reply::Current } else { failed() });
        }
        self.begin_rounds(now_ms);
    }

    fn begin_to_lead(&mut self, term: u64) {
        self.standing = Standing::Begins { term, again_ms: None };
        let command = sessions::Command::Lead { term }.into();
        self.out.push_back(Output::Propose { term, command });
    }

    /// The `Lead` of this term is applied: all leases start anew, in full.
    fn lead(&mut self, now_ms: u64, state: &State, term: u64) {
        self.standing = Standing::Leads { term };
        self.leases.lead(now_ms, term, &state.pending_timers());
        self.out.push_back(Output::Note(Note::Leads { term, sessions: self.leases.sessions() }));
    }

    /// Ends everything that belongs to a term.
    fn reset(&mut self, why: &Closing) {
        if let Standing::Leads { term } = self.standing {
            self.out.push_back(Output::Note(Note::LeadsNoMore { term }));
        }
        self.leases.step_down();
        self.sessions.clear();
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.close(stream, why.clone());
        }
        for call in self.rounds.reset() {
            self.reply(call, Reply::Unavailable(why.to_string()));
        }
        for under_way in std::mem::take(&mut self.under_way) {
            if let UnderWay::Force { call, .. } = under_way {
                let why = format!("{why}; it is not known whether the release was forced");
                self.reply(call, Reply::Unknown(why));
            }
        }
        (self.opens_under_way, self.acquires_under_way) = (0, 0);
        self.locks_under_way.clear();
    }

    /// What to say to somebody who needs a node that leads.
    fn why_not_leading(&self) -> Closing {
        if self.standing == Standing::Stopped { Closing::Stopping } else { Closing::NotLeading }
    }

    fn is_busy(&self) -> bool {
        self.under_way.len() >= UNDER_WAY_MAX
    }

    /// Only while this node leads.
    fn propose(&mut self, command: Command, under_way: UnderWay) {
        let Standing::Leads { term } = self.standing else { unreachable!("who does not lead proposes nothing") };
        match under_way {
            UnderWay::Open { begins: true, .. } => self.opens_under_way += 1,
            UnderWay::Request { acquires: Some(ref lock), .. } => {
                self.acquires_under_way += 1;
                *self.locks_under_way.entry(lock.clone()).or_default() += 1;
            }
            _ => {}
        }
        self.under_way.push_back(under_way);
        self.out.push_back(Output::Propose { term, command });
    }

    fn begin_rounds(&mut self, now_ms: u64) {
        while let Some(round) = self.rounds.begin(now_ms) {
            self.out.push_back(Output::BeginRound(round));
        }
    }

    fn reply(&mut self, call: CallId, reply: Reply) {
        self.out.push_back(Output::Reply { call, reply });
    }

    /// Says something to a session, if it has a stream here.
    fn say(&mut self, session: SessionId, said: ToClient) {
        if let Some(stream) = self.sessions.get(&session).and_then(|presence| presence.stream) {
            self.out.push_back(Output::Say { stream, said });
        }
    }
}
