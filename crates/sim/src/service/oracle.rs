//! Judges from outside: what clients believe, what the log says, and when.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use baton_client::session::Mode;
use baton_service::frontend::CallId;
use baton_service::state::locks::{self, LockName, Want};
use baton_service::state::sessions::EndReason;
use baton_service::state::{self, Answer, Command, Effect, Operation, Request, SessionId, State};
use baton_types::frames::{self, Refusal, Refused, ToClient, ToServer};
use baton_types::limits::ServerLimits;
use baton_types::views::Holder;

use super::client::Client;
use super::clock::Micros;
use super::lines::Lines;

/// What somebody believes to hold.
#[derive(Clone, Copy, Debug)]
pub struct Believed<'a> {
    /// Who.
    pub client: usize,
    /// Which lock.
    pub lock: &'a str,
    /// How.
    pub mode: Mode,
    /// Under which fence.
    pub fence: u64,
}

/// What was seen so far.
#[derive(Default)]
pub struct Oracle {
    /// The highest fence under which each lock was believed, and whether that was shared.
    fences: BTreeMap<String, (u64, bool)>,
    /// What each acquire of the log wants.
    acquires: BTreeMap<(SessionId, u64), Want>,
    /// The answer to each request that was ever answered.
    answers: BTreeMap<(SessionId, u64), Answer>,
    /// What each client ever asked, and whether it has heard the answer.
    heard: BTreeMap<(SessionId, u64), bool>,
    /// Requests that the front end refused by itself.
    refused: BTreeSet<(SessionId, u64)>,
    /// Requests that the log has.
    logged: BTreeSet<(SessionId, u64)>,
    /// Sessions that began, and whether they have ended.
    sessions: BTreeMap<SessionId, bool>,
    /// Whom each forced release hit, by session and fence.
    forced: BTreeMap<CallId, Vec<(u64, u64)>>,
    /// Who waits for which lock, who holds it, and until when it is closed.
    lines: Lines,
    /// The highest fence that the log ever granted.
    highest_fence: u64,
    /// The fence of those who share a lock, if they were the last to be granted it.
    shared_fences: BTreeMap<LockName, u64>,
    /// How often a lock was believed to be held.
    pub grants: u64,
    /// How often a client heard that the front end refuses its request by itself.
    pub refusals: u64,
    /// How many forced releases were judged.
    pub forced_judged: u64,
}

impl Oracle {
    /// Nothing was seen yet. Clocks differ in rate by this share of it.
    pub fn new(drift: f64) -> Self {
        Oracle { lines: Lines::new(drift), ..Oracle::default() }
    }

    /// A client has just begun to believe in a lock. No belief begins without a grant, so that this is when overlaps begin.
    pub fn granted(&mut self, now: Micros, grant: Believed<'_>, clients: &[Client]) -> Result<(), String> {
        self.grants += 1;
        let Believed { client, lock, mode, fence } = grant;
        let others = || clients.iter().flat_map(|client| client.believes(now)).filter(|other| other.lock == lock);
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
            // A permit's fences grow in the order of the log, and reach their holders in any order.
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

    /// A client says this, of its own session. Whatever it says that it has seen the server forgets: it must be true. (A Close
    /// makes the answers to all else pointless.)
    pub fn says(&mut self, session: SessionId, said: &ToServer) -> Result<(), String> {
        let ToServer::Request(frames::Request { number, seen, missing, operation }) = said else { return Ok(()) };
        let closes = *operation == frames::Operation::Close;
        for ((_, earlier), heard) in self.heard.range((session, 1)..(session, *number)) {
            if !heard && !closes && earlier <= seen && !missing.contains(earlier) {
                return Err(format!("request {number} of {session} says that {earlier} was answered, and it was not"));
            }
        }
        self.heard.entry((session, *number)).or_insert(false);
        Ok(())
    }

    /// A client hears this.
    pub fn hears(&mut self, session: SessionId, said: &ToClient) -> Result<(), String> {
        let ToClient::Answer { number, answer } = said else { return Ok(()) };
        self.heard.insert((session, *number), true);
        if let frames::Answer::Refused(Refused { refusal, .. }) = answer
            && matches!(
                refusal,
                Refusal::LowSpace | Refusal::TooManyLocks | Refusal::TooManyWaiters | Refusal::TooManyHolds
            )
        {
            self.refusals += 1;
            self.refused.insert((session, *number));
            return self.is_not_logged((session, *number));
        }
        Ok(())
    }

    /// What the front end refuses by itself must never be in the log: its client has given it up.
    fn is_not_logged(&self, request: (SessionId, u64)) -> Result<(), String> {
        if self.refused.contains(&request) && self.logged.contains(&request) {
            let (session, number) = request;
            return Err(format!("request {number} of {session} is refused by the front end, and the log has it"));
        }
        Ok(())
    }

    /// This command is committed; what follows from it comes next.
    pub fn asked(&mut self, command: &Command) -> Result<(), String> {
        let Command::Request(Request { session, number, operation, .. }) = command else { return Ok(()) };
        let request = (*session, *number);
        let is_new = self.logged.insert(request);
        self.is_not_logged(request)?;
        match operation {
            Operation::Locks(locks::Operation::Acquire(acquire)) => {
                if let [want] = &acquire.wants[..]
                    && is_new
                {
                    self.acquires.insert(request, want.clone());
                    self.lines.enters(request, &want.lock, acquire.lock_delay_ms);
                }
            }
            &Operation::Locks(locks::Operation::Release { acquire } | locks::Operation::Cancel { acquire }) => {
                self.lines.speaks_of(request, (*session, acquire))
            }
            Operation::Close => {}
        }
        Ok(())
    }

    /// An entry was committed, with this effect; it was asked for by this call, if it forces a release.
    pub fn committed(
        &mut self,
        now: Micros,
        effect: &Effect,
        call: Option<CallId>,
        clients: &[Client],
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
            Effect::Locks(locks::Effect::Forced { holders, .. }) => {
                let hit = holders.iter().map(|holder| (holder.session.0, holder.fence)).collect();
                self.forced.extend(call.map(|call| (call, hit)));
            }
            Effect::Locks(_) => {}
        }
        Ok(())
    }

    fn answered(&mut self, now: Micros, request: (SessionId, u64), answer: &Answer) -> Result<(), String> {
        let (session, number) = request;
        if matches!(answer, Answer::Refused(state::sessions::Refusal::NumberReused)) {
            return Err(format!("request {number} of {session} has the number of another one"));
        }
        match self.answers.entry(request) {
            Entry::Occupied(first) if first.get() != answer => {
                let first = first.get();
                Err(format!("request {number} of {session} is answered {answer:?}, and was by {first:?}"))
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(first) => {
                first.insert(answer.clone());
                self.lines.answered(now, request, answer)?;
                match *answer {
                    Answer::Locks(locks::Answer::Granted { fence }) => self.fence_grows(request, fence),
                    _ => Ok(()),
                }
            }
        }
    }

    /// A call was told whom its forced release hit.
    pub fn forced(&mut self, call: CallId, told: &[Holder]) -> Result<(), String> {
        self.forced_judged += 1;
        let told: Vec<(u64, u64)> = told.iter().map(|holder| (holder.session, holder.fence)).collect();
        match self.forced.get(&call) {
            Some(hit) if *hit == told => Ok(()),
            hit => Err(format!("a forced release hit {hit:?}, and names {told:?}")),
        }
    }

    /// No limit is exceeded.
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
        if counts.waiters + counts.holders > limits.holds {
            truth
                .sessions()
                .try_for_each(|session| too_many("claims of one session", truth.claims_of(session.id), limits.holds))?;
        }
        Ok(())
    }

    /// Whether a session of this number ever began.
    pub fn began(&self, session: u64) -> bool {
        self.sessions.contains_key(&SessionId(session))
    }

    /// In the order of the log each grant has a greater fence than all before it, on whatever lock; but who joins others that
    /// share has theirs.
    fn fence_grows(&mut self, acquire: (SessionId, u64), fence: u64) -> Result<(), String> {
        let (session, number) = acquire;
        let Want { lock, mode } = self.acquires.get(&acquire).ok_or("something is granted that nobody asked for")?;
        let joins = *mode == locks::Mode::Shared && self.shared_fences.get(lock) == Some(&fence);
        if fence <= self.highest_fence && !joins {
            let highest = self.highest_fence;
            return Err(format!(
                "request {number} of {session} is granted {lock:?} with fence {fence} after {highest}"
            ));
        }
        self.highest_fence = self.highest_fence.max(fence);
        if *mode == locks::Mode::Shared {
            self.shared_fences.insert(lock.clone(), fence);
        } else {
            self.shared_fences.remove(lock);
        }
        Ok(())
    }
}

/// The address that a call comes from: its port says which call it is.
pub(super) fn caller_of(call: u64) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, call as u16))
}
