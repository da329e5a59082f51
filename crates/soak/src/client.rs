//! A simulated client: a real session of the client library, a clock, and a random user of locks.

use std::collections::BTreeMap;

use baton_client::session::{AcquireNumber, Config, Event, LockState, Loss, Mode, Output, Session, SessionState, Wish};
use baton_state::state::SessionId;
use baton_types::frames::Secret;
use baton_types::limits::SECRET_BYTES;

use super::clock::{Clock, Micros};
use super::model::NodeId;
use super::oracle::Believed;
use super::world::{ClientEvent, ConnectionId};

/// A lock of the simulated world.
#[derive(Clone, Debug)]
pub struct LockKind {
    pub name: String,
    /// None: requests are exclusive or shared, at random.
    pub permits: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    id: u64,
    parent: Option<u64>,
}

/// A request of a client, waiting or granted.
#[derive(Clone, Debug)]
struct Claim {
    lock: String,
    mode: Mode,
    owner: u64,
    parent: Option<u64>,
    fence: Option<u64>,
    /// The service has revoked the lock.
    is_revoked: bool,
}

/// The distance between the numbers of a client's owners. It must be larger than the number of clients.
const OWNERS_APART: u64 = 1_000;
/// The most locks that a simulated client waits for or holds.
const CLAIMS_MAX: usize = 3;

pub struct SimulatedClient {
    pub id: usize,
    pub clock: Clock,
    /// None before the first session and between two sessions.
    pub session: Option<Session>,
    session_id: u64,
    sessions: u64,
    pub connection: Option<ConnectionId>,
    /// The node that the client tries next, modulo the number of nodes.
    pub turn: usize,
    /// The leader, which the client connects to next, if a follower has told it.
    pub goes_to: Option<NodeId>,
    /// The requests that wait or are granted, by number.
    claims: BTreeMap<AcquireNumber, Claim>,
    /// The state of the client's last request, which it makes after healing.
    pub last_wish: LastWish,
    /// The number of the newest plan. Older plans are void.
    pub plan: u64,
    /// When the client looks at its clock next.
    pub alarm_at: Option<Micros>,
    /// Whether the session has asked for a connection.
    pub dials: bool,
    /// `Some` while the client is paused: the events that wait for it.
    pub paused: Option<Vec<ClientEvent>>,
}

/// After healing, every client requests one more lock and must get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWish {
    /// The world is not healed yet.
    NotYet,
    /// The client has to make the request, or to repeat it because its session was lost.
    Due,
    /// The request with this number waits.
    Asked(AcquireNumber),
    /// The request was granted. The client is done when it has released the lock.
    Granted,
    /// The client has closed its session.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The client acts after this time.
    ActsIn(Micros),
    /// The client waits for the service.
    Waits,
}

impl SimulatedClient {
    pub fn new(id: usize, clock: Clock, turn: usize) -> Self {
        SimulatedClient {
            id,
            clock,
            session: None,
            session_id: 0,
            sessions: 0,
            connection: None,
            turn,
            goes_to: None,
            claims: BTreeMap::new(),
            last_wish: LastWish::NotYet,
            plan: 0,
            alarm_at: None,
            dials: false,
            paused: None,
        }
    }

    pub fn now_ms(&self, now: Micros) -> u64 {
        self.clock.read_ms(now)
    }

    /// The current or the last session.
    pub fn session_id(&self) -> SessionId {
        SessionId(self.session_id)
    }

    /// All holds that the client believes in at this moment, or still works under. After a loss or a forced release the
    /// client has time to stop, until the deadline.
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

    /// Whether the client believes that this session is alive, or still works under one of its locks.
    pub fn believes_in(&self, now: Micros, session: SessionId) -> bool {
        let state = self.session.as_ref().map(|session| session.state(self.now_ms(now)));
        let is_alive = matches!(state, Some(SessionState::Alive | SessionState::AtRisk));
        self.session_id() == session && (is_alive || self.believes(now).next().is_some())
    }

    pub fn is_done(&self) -> bool {
        self.last_wish == LastWish::Done && self.session.is_none()
    }

    /// Makes the client's next step: opens a session, requests a lock, or gives one up.
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
            // All work under the locks has stopped by now.
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

    /// Requests one more lock, or gives up a request or a lock.
    fn go_on(&mut self, now_ms: u64, locks: &[LockKind], rng: &mut fastrand::Rng) -> Next {
        let is_revoked = self.claims.values().any(|claim| claim.is_revoked);
        let has_time = self.last_wish == LastWish::NotYet;
        if has_time && !is_revoked && self.claims.len() < CLAIMS_MAX && rng.u8(..4) == 0 {
            let owner = self.nested(rng);
            self.want(now_ms, owner, locks, rng);
            return Next::ActsIn(rng.u64(10_000..1_500_000));
        }
        // Before healing, give up the newest request after a while. After healing every waiting request is served.
        let waited = || self.claims.last_key_value().map(|(acquire, _)| *acquire).filter(|_| has_time);
        let Some(acquire) = self.finished().or_else(waited) else { return Next::Waits };
        self.claims.remove(&acquire);
        self.session.iter_mut().for_each(|session| session.give_up(now_ms, acquire));
        Next::ActsIn(rng.u64(1_000..200_000))
    }

    /// The claim to give up next: a lock that the service has revoked, or a claim of an owner that waits neither for a
    /// lock nor for a child.
    fn finished(&self) -> Option<AcquireNumber> {
        let waits = |owner: u64| {
            let is_wanting = |claim: &Claim| claim.owner == owner && claim.fence.is_none();
            self.claims.values().any(|claim| is_wanting(claim) || claim.parent == Some(owner))
        };
        let revoked = self.claims.iter().find(|(_, claim)| claim.is_revoked);
        let finished = || self.claims.iter().rev().find(|(_, claim)| !waits(claim.owner));
        revoked.or_else(finished).map(|(acquire, _)| *acquire)
    }

    /// The owner without a parent.
    fn itself(&self) -> Owner {
        Owner { id: self.id as u64, parent: None }
    }

    /// The owner of an additional lock: the client itself, one of its two children, or a child of the first child. The
    /// first child must hold a lock before its own child requests one: the service does not know the parent of an owner
    /// without claims, and so could not detect the deadlock.
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

    /// Requests a random lock. All locks of a client belong to one owner and its children, so that the service refuses
    /// deadlocks.
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

    pub fn poll(&mut self) -> Option<Output> {
        self.session.as_mut()?.poll()
    }

    /// Records the fence of a grant. Returns the hold that the client believes in from now on.
    pub fn granted(&mut self, acquire: AcquireNumber, fence: u64) -> Option<Believed<'_>> {
        if self.last_wish == LastWish::Asked(acquire) {
            self.last_wish = LastWish::Granted;
        }
        let claim = self.claims.get_mut(&acquire)?;
        claim.fence = Some(fence);
        let asked = (SessionId(self.session_id), acquire);
        Some(Believed { client: self.id, lock: &claim.lock, mode: claim.mode, fence, asked })
    }

    /// Handles an event of the session. Returns the delay until the client acts on it, if it does.
    pub fn heard(&mut self, event: &Event, rng: &mut fastrand::Rng) -> Option<Micros> {
        match event {
            Event::Opened => Some(rng.u64(1_000..300_000)),
            Event::Granted { .. } => Some(rng.u64(5_000..900_000)),
            Event::Refused { acquire, .. } => {
                self.claims.remove(acquire);
                self.wish_again_if(|last_wish| last_wish == LastWish::Asked(*acquire));
                Some(rng.u64(1_000..200_000))
            }
            // The client takes a while to stop.
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
            Event::Answered { .. }
            | Event::Released { .. }
            | Event::Hopeless { .. }
            | Event::AtRisk
            | Event::Confirmed => None,
        }
    }

    fn wish_again_if(&mut self, condition: impl FnOnce(LastWish) -> bool) {
        if condition(self.last_wish) {
            self.last_wish = LastWish::Due;
        }
    }

    /// After healing: the client requests one more lock, and then it is done.
    pub fn wish_for_the_last_time(&mut self) {
        self.last_wish = LastWish::Due;
    }
}

/// The secret of a session. A thief does not know it.
fn secret(session: u64) -> Secret {
    let mut bytes = [1; SECRET_BYTES];
    bytes[..8].copy_from_slice(&session.to_le_bytes());
    Secret(bytes)
}
