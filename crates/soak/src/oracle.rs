//! The oracle: it compares what clients believe with what the log says, at every moment.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use baton_client::session::Mode;
use baton_state::frontend::CallId;
use baton_state::state::locks;
use baton_state::state::sessions::EndReason;
use baton_state::state::{self, Answer, Command, Effect, Operation, Request, SessionId, State};
use baton_types::frames::{self, ToClient, ToServer};
use baton_types::limits::ServerLimits;
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::views::Holder;

use super::client::SimulatedClient;
use super::clock::Micros;
use super::lines::Lines;

/// A hold that a client believes in.
#[derive(Clone, Copy, Debug)]
pub struct Believed<'a> {
    pub client: usize,
    pub lock: &'a str,
    pub mode: Mode,
    pub fence: u64,
    /// The session and number of the request.
    pub asked: (SessionId, u64),
}

/// Everything that the oracle has observed so far.
#[derive(Default)]
pub struct Oracle {
    /// For each lock, the highest fence that a client believed in, and whether that hold was shared.
    fences: BTreeMap<String, (u64, bool)>,
    /// The answer to each request that was ever answered.
    answers: BTreeMap<(SessionId, u64), Answer>,
    /// Each request that a client ever sent, and whether the client has received its answer.
    heard: BTreeMap<(SessionId, u64), bool>,
    /// Requests that the front end refused by itself.
    refused: BTreeSet<(SessionId, u64)>,
    /// Requests that are in the log.
    logged: BTreeSet<(SessionId, u64)>,
    /// Sessions that began, and whether they have ended.
    sessions: BTreeMap<SessionId, bool>,
    /// The holders that each forced release hit: session and fence.
    forced: BTreeMap<CallId, Vec<(u64, u64)>>,
    /// The holders that the current command forces to release: session and fence.
    forces: Vec<(u64, u64)>,
    /// The queue of each lock, its holders, and until when it is closed.
    lines: Lines,
    /// How often a client began to believe in a lock.
    pub grants: u64,
    /// How often a client received a refusal that the front end made by itself.
    pub refusals: u64,
    pub forced_judged: u64,
    /// How many holds a forced release ended at once.
    pub taken: u64,
}

impl Oracle {
    /// `drift` is the largest share by which a clock's rate is off.
    pub fn new(drift: f64) -> Self {
        Oracle { lines: Lines::new(drift), ..Oracle::default() }
    }

    /// A client has just begun to believe in a lock. A belief begins only with a grant, so every overlap begins at such
    /// a moment. A hold that a forced release took at once may overlap with others: the operator accepted that risk.
    pub fn granted(&mut self, now: Micros, grant: Believed<'_>, clients: &[SimulatedClient]) -> Result<(), String> {
        self.grants += 1;
        let Believed { client, lock, mode, fence, asked } = grant;
        if self.lines.is_taken(asked) {
            return Ok(());
        }
        let at_work = || clients.iter().flat_map(|client| client.believes(now));
        let others = || at_work().filter(|other| other.lock == lock && !self.lines.is_taken(other.asked));
        let allowed = match mode {
            Mode::Exclusive => 1,
            Mode::Permit { of } => of as usize,
            Mode::Shared => usize::MAX,
        };
        let exclusive = others().any(|other| other.mode == Mode::Exclusive);
        let holders: Vec<usize> = others().map(|other| other.client).collect();
        if holders.len() > allowed || (exclusive && holders.len() > 1) {
            return Err(format!("clients {holders:?} all believe to hold {lock:?} when client {client} is granted it"));
        }
        let is_shared = mode == Mode::Shared;
        match self.fences.get(lock) {
            // The fences of permits grow in the order of the log, but may reach their holders in another order.
            Some(_) if matches!(mode, Mode::Permit { .. }) => Ok(()),
            Some((highest, was_shared)) if fence < *highest || (fence == *highest && !(is_shared && *was_shared)) => {
                Err(format!("client {client} is granted {lock:?} with fence {fence} after {highest}"))
            }
            _ => {
                self.fences.insert(lock.to_owned(), (fence, is_shared));
                Ok(())
            }
        }
    }

    /// Whether a forced release has taken the hold of this request from its client, who may not know it yet.
    pub fn is_taken(&self, asked: (SessionId, u64)) -> bool {
        self.lines.is_taken(asked)
    }

    /// A client sends this frame for its session. The server forgets every answer that the client reports as seen, so
    /// the report must be true. (A Close makes all other answers pointless.)
    pub fn says(&mut self, session: SessionId, said: &ToServer) -> Result<(), String> {
        let ToServer::Request(frames::Request { number, seen, missing, operation }) = said else { return Ok(()) };
        let closes = *operation == frames::Operation::Close;
        for ((_, earlier), heard) in self.heard.range((session, 1)..(session, *number)) {
            if !heard && !closes && earlier <= seen && !missing.contains(earlier) {
                return Err(format!(
                    "request {number} of {session} reports the answer of {earlier} as seen, and it was not"
                ));
            }
        }
        self.heard.entry((session, *number)).or_insert(false);
        Ok(())
    }

    /// A client receives this frame.
    pub fn hears(&mut self, session: SessionId, said: &ToClient) -> Result<(), String> {
        let ToClient::Answer { number, answer } = said else { return Ok(()) };
        self.heard.insert((session, *number), true);
        if let frames::Answer::Refused(Refusal { code, .. }) = answer
            && matches!(
                code,
                RefusalCode::LowSpace
                    | RefusalCode::TooManyLocks
                    | RefusalCode::TooManyWaiters
                    | RefusalCode::TooManyHolds
            )
        {
            self.refusals += 1;
            self.refused.insert((session, *number));
            return self.is_not_logged((session, *number));
        }
        Ok(())
    }

    /// The log must never contain a request that the front end refused by itself, because its client has given it up.
    fn is_not_logged(&self, request: (SessionId, u64)) -> Result<(), String> {
        if self.refused.contains(&request) && self.logged.contains(&request) {
            let (session, number) = request;
            return Err(format!("request {number} of {session} is refused by the front end, and the log has it"));
        }
        Ok(())
    }

    /// This command is committed. Its effects follow.
    pub fn asked(&mut self, command: &Command) -> Result<(), String> {
        if let Command::Locks(locks::Command::Force { lock, now, .. }) = command {
            self.forces = self.lines.forced(lock, *now);
            self.taken += if *now { self.forces.len() as u64 } else { 0 };
        }
        let Command::Request(Request { session, number, operation, .. }) = command else { return Ok(()) };
        let request = (*session, *number);
        let is_new = self.logged.insert(request);
        self.is_not_logged(request)?;
        match operation {
            Operation::Locks(locks::Operation::Acquire(acquire)) if is_new => self.lines.enters(request, acquire),
            &Operation::Locks(locks::Operation::Release { acquire } | locks::Operation::Cancel { acquire }) => {
                self.lines.speaks_of(request, (*session, acquire))
            }
            _ => {}
        }
        Ok(())
    }

    /// A committed entry has this effect. `call` made the entry, if the entry forces a release.
    pub fn committed(
        &mut self,
        now: Micros,
        effect: &Effect,
        call: Option<CallId>,
        clients: &[SimulatedClient],
    ) -> Result<(), String> {
        match effect {
            Effect::Answer { session, number, answer } => self.answered(now, (*session, *number), answer)?,
            Effect::Opened { session, .. } => {
                let has_ended = self.sessions.entry(*session).or_default();
                if *has_ended {
                    return Err(format!("{session} has ended, and begins again"));
                }
            }
            Effect::Ended { session, reason } => {
                if let Some(client) = clients.iter().find(|client| client.believes_in(now, *session)) {
                    return Err(format!("client {} believes in {session}, which has ended", client.id));
                }
                if *reason != EndReason::Unknown {
                    self.sessions.insert(*session, true);
                }
                self.lines.session_ends(now, *session, *reason == EndReason::Expired);
            }
            Effect::Locks(locks::Effect::Forced { lock, holders }) => {
                let hit: Vec<(u64, u64)> = holders.iter().map(|holder| (holder.session.0, holder.fence)).collect();
                if hit != self.forces {
                    return Err(format!("a forced release of {lock:?} hits {hit:?}, and {:?} hold it", self.forces));
                }
                self.forced.extend(call.map(|call| (call, hit)));
            }
            _ => {}
        }
        Ok(())
    }

    /// A command has had all its effects.
    pub fn settled(&mut self) -> Result<(), String> {
        self.lines.settled()
    }

    /// How many requests were rightly refused as deadlocks.
    pub fn deadlocks(&self) -> u64 {
        self.lines.deadlocks
    }

    fn answered(&mut self, now: Micros, request: (SessionId, u64), answer: &Answer) -> Result<(), String> {
        let (session, number) = request;
        if matches!(answer, Answer::Refused(state::sessions::Refusal::NumberReused)) {
            return Err(format!("request {number} of {session} reuses the number of another request"));
        }
        match self.answers.entry(request) {
            Entry::Occupied(first) if first.get() != answer => {
                let first = first.get();
                Err(format!("request {number} of {session} is answered {answer:?}, and was answered {first:?} before"))
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(first) => {
                first.insert(answer.clone());
                self.lines.answered(now, request, answer)
            }
        }
    }

    /// The answer to a forced release names these holders.
    pub fn forced(&mut self, call: CallId, told: &[Holder]) -> Result<(), String> {
        self.forced_judged += 1;
        let told: Vec<(u64, u64)> = told.iter().map(|holder| (holder.session, holder.fence)).collect();
        match self.forced.get(&call) {
            Some(hit) if *hit == told => Ok(()),
            hit => Err(format!("a forced release hit {hit:?}, and its answer names {told:?}")),
        }
    }

    /// Checks that no limit is exceeded.
    pub fn within(&self, limits: &ServerLimits, truth: &State) -> Result<(), String> {
        let counts = truth.counts();
        let too_many = |what: &str, count: usize, limit: usize| {
            if count > limit { Err(format!("{count} {what}, and the limit is {limit}")) } else { Ok(()) }
        };
        too_many("sessions", counts.sessions, limits.sessions)?;
        too_many("locks", counts.used, limits.locks)?;
        if counts.waiters > limits.waiters {
            truth.locks().try_for_each(|lock| {
                too_many("waiters for one lock", truth.waiters_of(lock.name().as_bytes()), limits.waiters)
            })?;
        }
        if truth.claimed() > limits.holds {
            truth
                .sessions()
                .try_for_each(|session| too_many("locks of one session", truth.claimed_by(session.id), limits.holds))?;
        }
        Ok(())
    }

    /// Whether a session with this number ever began.
    pub fn began(&self, session: u64) -> bool {
        self.sessions.contains_key(&SessionId(session))
    }
}

/// The address from which a call comes. Its port is the number of the call.
pub(super) fn caller_of(call: u64) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, call as u16))
}
