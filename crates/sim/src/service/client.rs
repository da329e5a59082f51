//! A simulated client: the session of the real one, a clock, and somebody who wants locks.

use std::collections::BTreeMap;

use baton_client::session::{AcquireNumber, Config, Event, LockState, Loss, Mode, Output, Session, SessionState, Wish};
use baton_service::state::SessionId;
use baton_types::frames::Secret;
use baton_types::limits::SECRET_BYTES;

use super::clock::{Clock, Micros};
use super::log::ConnectionId;
use super::oracle::Believed;
use super::world::ClientEvent;

/// A lock of the simulated world, and how it is used.
#[derive(Clone, Debug)]
pub struct LockKind {
    /// Its name.
    pub name: String,
    /// None: now exclusive, now shared.
    pub permits: Option<u32>,
}

/// For whom a lock is wanted.
#[derive(Clone, Copy, Debug)]
struct Owner {
    id: u64,
    parent: Option<u64>,
}

/// What a client wants of a lock.
#[derive(Clone, Debug)]
struct Claim {
    lock: String,
    mode: Mode,
    owner: u64,
    parent: Option<u64>,
    fence: Option<u64>,
    /// The service wants it back.
    is_revoked: bool,
}

/// A client acts for several owners, whose numbers are so far apart: more than there are clients.
const OWNERS_APART: u64 = 1_000;
/// The most locks that a simulated client waits for or holds.
const CLAIMS_MAX: usize = 3;

/// See the module.
pub struct SimulatedClient {
    /// Its number.
    pub id: usize,
    /// Its clock.
    pub clock: Clock,
    /// Its session: none before the first, and between two.
    pub session: Option<Session>,
    session_id: u64,
    sessions: u64,
    /// The connection that it has, or wants.
    pub connection: Option<ConnectionId>,
    /// Which node it tries next.
    pub turn: usize,
    /// What it waits for or holds, by number.
    claims: BTreeMap<AcquireNumber, Claim>,
    /// Since when it waits for a grant that nothing but the grant can end, once all is healed.
    pub last_wish: LastWish,
    /// Each new plan makes the older ones void.
    pub plan: u64,
    /// When it looks at its clock next.
    pub alarm_at: Option<Micros>,
    /// It wants to be connected.
    pub dials: bool,
    /// It does nothing; what reaches it waits here.
    pub paused: Option<Vec<ClientEvent>>,
}

/// Once all is healed, everybody wants one lock more, and must get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWish {
    /// It is not the time yet.
    NotYet,
    /// It has to be asked for, again if a session was lost.
    Due,
    /// It is asked for by this number.
    Asked(AcquireNumber),
    /// It was granted, and all is over when it is given back.
    Granted,
    /// The session is closed too.
    Done,
}

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Acts after so long.
    ActsIn(Micros),
    /// Waits for the service.
    Waits,
}

impl SimulatedClient {
    /// A client that has nothing yet.
    pub fn new(id: usize, clock: Clock, turn: usize) -> Self {
        SimulatedClient {
            id,
            clock,
            session: None,
            session_id: 0,
            sessions: 0,
            connection: None,
            turn,
            claims: BTreeMap::new(),
            last_wish: LastWish::NotYet,
            plan: 0,
            alarm_at: None,
            dials: false,
            paused: None,
        }
    }

    /// What it reads on its clock.
    pub fn now_ms(&self, now: Micros) -> u64 {
        self.clock.read_ms(now)
    }

    /// The session that it has, or had last.
    pub fn session_id(&self) -> SessionId {
        SessionId(self.session_id)
    }

    /// Everything that it believes to hold at this moment, or still works under: a client that is told of a loss, or of a forced
    /// release, has time to stop, until the deadline.
    pub fn believes(&self, now: Micros) -> impl Iterator<Item = Believed<'_>> {
        let now_ms = self.now_ms(now);
        self.claims.iter().filter_map(move |(acquire, claim)| {
            let session = self.session.as_ref()?;
            let holds = session.lock_state(now_ms, *acquire) != LockState::Lost;
            let stops = matches!(session.lock_loss(now_ms, *acquire), Some(Loss::Unacknowledged | Loss::Revoked))
                && session.deadline().is_some_and(|deadline| now_ms < deadline);
            let fence = claim.fence.filter(|_| holds || stops)?;
            let asked = (self.session_id(), *acquire);
            Some(Believed { client: self.id, lock: &claim.lock, mode: claim.mode, fence, asked })
        })
    }

    /// Whether it believes that this session is alive, or still works under what it held.
    pub fn believes_in(&self, now: Micros, session: SessionId) -> bool {
        let state = self.session.as_ref().map(|session| session.state(self.now_ms(now)));
        let is_alive = matches!(state, Some(SessionState::Alive | SessionState::AtRisk));
        self.session_id() == session && (is_alive || self.believes(now).next().is_some())
    }

    /// Whether nothing is left to be done.
    pub fn is_done(&self) -> bool {
        self.last_wish == LastWish::Done && self.session.is_none()
    }

    /// Takes the next step of its life: opens a session, wants a lock, gives one back.
    pub fn act(&mut self, now: Micros, ttl_ms: u64, locks: &[LockKind], rng: &mut fastrand::Rng) -> Next {
        let now_ms = self.now_ms(now);
        if self.session.as_ref().is_some_and(Session::is_finished) {
            self.session = None;
            self.claims.clear();
        }
        let Some(session) = &mut self.session else {
            if self.last_wish != LastWish::Done {
                self.open(ttl_ms);
            }
            return Next::Waits;
        };
        if session.state(now_ms) == SessionState::Lost {
            // Whatever was done under the locks has stopped by now.
            for acquire in std::mem::take(&mut self.claims).into_keys() {
                session.give_up(now_ms, acquire);
            }
            return Next::Waits;
        }
        if !self.claims.is_empty() {
            return self.go_on(now_ms, locks, rng);
        }
        match self.last_wish {
            LastWish::NotYet => {
                self.want(now_ms, self.itself(), locks, rng);
                Next::ActsIn(rng.u64(10_000..3_000_000))
            }
            LastWish::Due | LastWish::Asked(_) => {
                self.want_last(now_ms, locks, rng);
                Next::Waits
            }
            LastWish::Granted | LastWish::Done => {
                self.last_wish = LastWish::Done;
                session.close(now_ms);
                Next::Waits
            }
        }
    }

    fn open(&mut self, ttl_ms: u64) {
        self.sessions += 1;
        self.session_id = (self.id as u64 + 1) * 1_000 + self.sessions;
        let (label, host) = (String::new(), String::new());
        let (session, pid, open_patience_ms) = (self.session_id, self.id as u32, ttl_ms);
        let secret = Some(secret(session));
        let mut session = Session::new(Config { session, ttl_ms, label, host, pid, secret, open_patience_ms });
        session.start();
        self.session = Some(session);
        self.claims.clear();
    }

    /// Wants one lock more, or is done with one that it has.
    fn go_on(&mut self, now_ms: u64, locks: &[LockKind], rng: &mut fastrand::Rng) -> Next {
        let is_revoked = self.claims.values().any(|claim| claim.is_revoked);
        let has_time = self.last_wish == LastWish::NotYet;
        if has_time && !is_revoked && self.claims.len() < CLAIMS_MAX && rng.u8(..4) == 0 {
            let owner = self.nested(rng);
            self.want(now_ms, owner, locks, rng);
            return Next::ActsIn(rng.u64(10_000..1_500_000));
        }
        // Waited for long enough; but once all is healed, every claim that waits is served.
        let waited = || self.claims.last_key_value().map(|(acquire, _)| *acquire).filter(|_| has_time);
        let Some(acquire) = self.finished().or_else(waited) else { return Next::Waits };
        self.claims.remove(&acquire);
        self.session.iter_mut().for_each(|session| session.give_up(now_ms, acquire));
        Next::ActsIn(rng.u64(1_000..200_000))
    }

    /// What is given back next: a lock that the service wants back, or one of an owner that waits for nothing, neither for a lock
    /// nor for a child.
    fn finished(&self) -> Option<AcquireNumber> {
        let waits = |owner: u64| {
            let is_wanting = |claim: &Claim| claim.owner == owner && claim.fence.is_none();
            self.claims.values().any(|claim| is_wanting(claim) || claim.parent == Some(owner))
        };
        let revoked = self.claims.iter().find(|(_, claim)| claim.is_revoked);
        let finished = || self.claims.iter().rev().find(|(_, claim)| !waits(claim.owner));
        revoked.or_else(finished).map(|(acquire, _)| *acquire)
    }

    /// The owner that acts for nobody else.
    fn itself(&self) -> Owner {
        Owner { id: self.id as u64, parent: None }
    }

    /// The owner of a lock that is wanted besides others: the client itself, one of its two children, or a child of the first
    /// of those. That one holds a lock before its child wants one: the service does not know the parent of an owner without
    /// claims, and could not see the deadlock.
    fn nested(&self, rng: &mut fastrand::Rng) -> Owner {
        let itself = self.itself();
        let child =
            |parent: Owner, number: u64| Owner { id: self.id as u64 + number * OWNERS_APART, parent: Some(parent.id) };
        let first = child(itself, 1);
        let first_holds = self.claims.values().any(|claim| claim.owner == first.id && claim.fence.is_some());
        let has_grandchild = self.claims.values().any(|claim| claim.parent == Some(first.id));
        match rng.u8(..6) {
            0 | 1 => itself,
            3 | 4 if first_holds => child(first, 3),
            3..=5 if !has_grandchild => first,
            _ => child(itself, 2),
        }
    }

    /// Several locks at a time are wanted for one owner and its children, so that a deadlock is refused.
    fn want(&mut self, now_ms: u64, owner: Owner, locks: &[LockKind], rng: &mut fastrand::Rng) {
        let timeouts = [None, None, Some(0), Some(rng.u64(1..2_500))];
        let timeout_ms = timeouts[rng.usize(..timeouts.len())];
        let lock_delay_ms = [0, 0, 400][rng.usize(..3)];
        let lock = &locks[rng.usize(..locks.len())];
        let mode = match lock.permits {
            Some(of) => Mode::Permit { of },
            None if rng.u8(..3) == 0 => Mode::Shared,
            None => Mode::Exclusive,
        };
        self.ask(now_ms, owner, lock, mode, timeout_ms, lock_delay_ms);
    }

    fn want_last(&mut self, now_ms: u64, locks: &[LockKind], rng: &mut fastrand::Rng) {
        let lock = &locks[rng.usize(..locks.len())];
        let mode = lock.permits.map_or(Mode::Exclusive, |of| Mode::Permit { of });
        if let Some(acquire) = self.ask(now_ms, self.itself(), lock, mode, None, 0) {
            self.last_wish = LastWish::Asked(acquire);
        }
    }

    fn ask(
        &mut self,
        now_ms: u64,
        owner: Owner,
        lock: &LockKind,
        mode: Mode,
        timeout_ms: Option<u64>,
        lock_delay_ms: u64,
    ) -> Option<AcquireNumber> {
        let (lock, Owner { id: owner, parent }) = (lock.name.clone(), owner);
        let wish = Wish { name: lock.clone().into(), mode, owner, parent, timeout_ms, lock_delay_ms };
        let acquire = self.session.as_mut()?.acquire(now_ms, &wish);
        self.claims.insert(acquire, Claim { lock, mode, owner, parent, fence: None, is_revoked: false });
        Some(acquire)
    }

    /// What the session says next.
    pub fn poll(&mut self) -> Option<Output> {
        self.session.as_mut()?.poll()
    }

    /// The fence of a claim is known. Says what is believed from now on.
    pub fn granted(&mut self, acquire: AcquireNumber, fence: u64) -> Option<Believed<'_>> {
        if self.last_wish == LastWish::Asked(acquire) {
            self.last_wish = LastWish::Granted;
        }
        let claim = self.claims.get_mut(&acquire)?;
        claim.fence = Some(fence);
        let asked = (SessionId(self.session_id), acquire);
        Some(Believed { client: self.id, lock: &claim.lock, mode: claim.mode, fence, asked })
    }

    /// Takes note of what else the session says. Says when to act on it, if at all.
    pub fn heard(&mut self, event: &Event, rng: &mut fastrand::Rng) -> Option<Micros> {
        match event {
            Event::Opened => Some(rng.u64(1_000..300_000)),
            Event::Granted { .. } => Some(rng.u64(5_000..900_000)),
            Event::Refused { acquire, .. } => {
                self.claims.remove(acquire);
                self.wish_again_if(|last_wish| last_wish == LastWish::Asked(*acquire));
                Some(rng.u64(1_000..200_000))
            }
            // It takes a while to stop.
            Event::Revoked { acquire } => {
                if let Some(claim) = self.claims.get_mut(acquire) {
                    claim.is_revoked = true;
                }
                Some(rng.u64(..100_000))
            }
            Event::Lost(_) => {
                self.wish_again_if(|last_wish| matches!(last_wish, LastWish::Asked(_)));
                Some(rng.u64(..100_000))
            }
            Event::Finished { .. } => Some(rng.u64(1_000..300_000)),
            Event::Released { .. } | Event::AtRisk | Event::Confirmed => None,
        }
    }

    fn wish_again_if(&mut self, condition: impl FnOnce(LastWish) -> bool) {
        if condition(self.last_wish) {
            self.last_wish = LastWish::Due;
        }
    }

    /// All is healed: one lock more, then it is over.
    pub fn wish_for_the_last_time(&mut self) {
        self.last_wish = LastWish::Due;
    }
}

/// What a thief does not know.
fn secret(session: u64) -> Secret {
    let mut bytes = [1; SECRET_BYTES];
    bytes[..8].copy_from_slice(&session.to_le_bytes());
    Secret(bytes)
}
