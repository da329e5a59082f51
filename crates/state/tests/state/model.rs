//! A second implementation of the state, as simple as possible: lists that are searched from the first to the last
//! item, and no index. It shares only the words of the log with the state.

mod claims;
mod cycles;
mod requests;

use baton_state::state::locks::{self, Delay, Ended, LockName, Mode};
use baton_state::state::sessions::{self, EndReason, Open};
use baton_state::state::{Answer, Command, Effect, Operation, OwnerId, SessionId};

pub use claims::waiting;

#[derive(Clone)]
pub struct Model {
    now_ms: u64,
    pub term: u64,
    fence: u64,
    ticket: u64,
    generation: u64,
    pub revision: u64,
    pub sessions: Vec<Session>,
    /// All sessions that ever ended and did not begin again.
    pub ended: Vec<SessionId>,
    /// All claims, holding or waiting, in log order.
    pub claims: Vec<Claim>,
    pub delays: Vec<(LockName, Delay)>,
    pub history: Vec<Past>,
    /// The permits of each lock at its last use.
    pub permits: Vec<(LockName, u32)>,
    /// The fence of the last grant of each lock.
    fences: Vec<(LockName, u64)>,
}

#[derive(Clone)]
pub struct Session {
    pub id: SessionId,
    pub ttl_ms: u64,
    pub label: String,
    host: String,
    pid: u32,
    /// Every `seen` and `missing` that the client ever sent.
    seen: Vec<(u64, Vec<u64>)>,
    requests: Vec<Kept>,
    forced: Vec<u64>,
}

/// A request that waits, or whose answer is not seen.
#[derive(Clone)]
struct Kept {
    number: u64,
    /// None if it was answered before it arrived.
    operation: Option<Operation>,
    /// None while it waits.
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub ticket: u64,
    pub revision: u64,
    pub session: SessionId,
    pub number: u64,
    pub owner: OwnerId,
    pub parent: Option<OwnerId>,
    pub wants: Vec<(LockName, Mode)>,
    pub timeout_ms: Option<u64>,
    pub since_ms: u64,
    /// None while it waits.
    pub fence: Option<u64>,
    pub revoked: bool,
    pub delay_ms: u64,
}

#[derive(Clone)]
pub struct Past {
    pub lock: LockName,
    pub session: SessionId,
    pub fence: u64,
    pub from_ms: u64,
    pub to_ms: u64,
    pub ended: Ended,
}

/// The result of a command.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    pub effects: Vec<Effect>,
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub index: u64,
    pub position: usize,
    pub revision: Option<u64>,
    pub what: What,
}

/// Before and after.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Session(SessionId, Option<(u64, String)>, Option<(u64, String)>),
    Claim(Option<Claim>, Option<Claim>),
    Delay(LockName, Option<Delay>, Option<Delay>),
}

impl Told {
    fn tell(&mut self, effect: impl Into<Effect>) {
        self.effects.push(effect.into());
    }

    /// Index, position and revision are filled in at the end.
    fn change(&mut self, what: What) {
        self.changes.push(Change { index: 0, position: 0, revision: None, what });
    }
}

impl Default for Model {
    fn default() -> Self {
        Model {
            now_ms: 0,
            term: 0,
            fence: 0,
            ticket: 0,
            generation: 0,
            revision: 1,
            sessions: vec![],
            ended: vec![],
            claims: vec![],
            delays: vec![],
            history: vec![],
            permits: vec![],
            fences: vec![],
        }
    }
}

impl Model {
    pub fn apply(&mut self, index: u64, now_ms: u64, command: &Command) -> Told {
        self.now_ms = self.now_ms.max(now_ms);
        let mut out = Told::default();
        match command.clone() {
            Command::Sessions(sessions::Command::Lead { term }) => self.term = term,
            Command::Sessions(sessions::Command::Open(open)) => self.open(open, &mut out),
            Command::Sessions(sessions::Command::Expire { session, term }) => {
                if term == self.term {
                    self.end(session, EndReason::Expired, &mut out);
                }
            }
            Command::Request(request) => self.request(request, &mut out),
            Command::Locks(locks::Command::EndLockDelay { lock, generation }) => {
                if self.delay(&lock).is_some_and(|delay| delay.generation == generation) {
                    self.set_delay(&lock, None, &mut out);
                    self.grant(vec![lock], &mut out);
                }
            }
            Command::Locks(locks::Command::CancelWait { session, number }) => {
                self.unwait(session, number, locks::Refusal::TimedOut, &mut out);
            }
            Command::Locks(locks::Command::Force { lock, now, .. }) => self.force(&lock, now, &mut out),
            Command::Cluster(_) => unreachable!("the model has no cluster; tests/state/cluster.rs has"),
            Command::Counter(_) => unreachable!("the model has only locks"),
        }
        let counts = |change: &Change| matches!(change.what, What::Claim(None, _) | What::Claim(_, None));
        self.revision += u64::from(out.changes.iter().any(counts));
        for (position, change) in out.changes.iter_mut().enumerate() {
            change.revision = counts(change).then_some(self.revision);
            (change.index, change.position) = (index, position);
        }
        out
    }

    fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    fn open(&mut self, open: Open, out: &mut Told) {
        let Open { session: id, ttl_ms, label, host, pid, resume, .. } = open;
        if self.session(id).is_none() && !resume && (1_000..=86_400_000).contains(&ttl_ms) {
            out.change(What::Session(id, None, Some((ttl_ms, label.clone()))));
            self.ended.retain(|ended| *ended != id);
            let (seen, requests, forced) = (vec![], vec![], vec![]);
            self.sessions.push(Session { id, ttl_ms, label, host, pid, seen, requests, forced });
        }
        let revoked = self.claims.iter().filter(|claim| claim.session == id && claim.revoked);
        let mut revoked: Vec<u64> = revoked.map(|claim| claim.number).collect();
        let Some(session) = self.session(id) else {
            return out.tell(Effect::Ended { session: id, reason: EndReason::Unknown });
        };
        out.tell(Effect::Opened { session: id, ttl_ms: session.ttl_ms });
        revoked.extend(&session.forced);
        revoked.sort();
        revoked.into_iter().for_each(|acquire| out.tell(locks::Effect::Revoked { session: id, acquire }));
    }

    /// All claims of the session end, in the order of their numbers; then its locks are closed; then they are granted.
    fn end(&mut self, id: SessionId, reason: EndReason, out: &mut Told) {
        let Some(session) = self.session(id).cloned() else { return };
        out.tell(Effect::Ended { session: id, reason });
        let mut gone: Vec<Claim> = self.claims.iter().filter(|claim| claim.session == id).cloned().collect();
        gone.sort_by_key(|claim| claim.number);
        let expired = reason == EndReason::Expired;
        let mut locks: Vec<LockName> = Vec::new();
        for claim in &gone {
            let ended = if claim.revoked { Ended::Forced } else { Ended::Released };
            self.leave(claim, if expired { Ended::Expired } else { ended }, out);
            locks.extend(claim.locks().filter(|lock| !locks.contains(lock)).collect::<Vec<_>>());
        }
        for lock in &locks {
            let delays = gone.iter().filter(|claim| expired && claim.fence.is_some() && claim.mode(lock).is_some());
            let longest_ms = delays.map(|claim| claim.delay_ms).max().unwrap_or(0);
            if longest_ms > 0 {
                self.close(lock, longest_ms, out);
            }
        }
        self.grant(locks, out);
        self.sessions.retain(|session| session.id != id);
        self.ended.push(id);
        out.change(What::Session(id, Some((session.ttl_ms, session.label)), None));
    }

    fn delay(&self, lock: &LockName) -> Option<Delay> {
        self.delays.iter().find(|delay| delay.0 == *lock).map(|delay| delay.1)
    }

    fn set_delay(&mut self, lock: &LockName, after: Option<Delay>, out: &mut Told) {
        let before = self.delay(lock);
        self.delays.retain(|delay| delay.0 != *lock);
        self.delays.extend(after.map(|after| (lock.clone(), after)));
        if before.is_some() || after.is_some() {
            out.change(What::Delay(lock.clone(), before, after));
        }
    }

    fn close(&mut self, lock: &LockName, delay_ms: u64, out: &mut Told) {
        let before_ms = self.delay(lock).map_or(0, |delay| delay.delay_ms);
        self.generation += 1;
        let (generation, delay_ms) = (self.generation, delay_ms.max(before_ms));
        out.tell(locks::Effect::LockDelay { lock: lock.clone(), generation, delay_ms });
        self.set_delay(lock, Some(Delay { generation, delay_ms, since_ms: self.now_ms }), out);
    }

    fn force(&mut self, lock: &LockName, now: bool, out: &mut Told) {
        let holders: Vec<Claim> = self.holders(lock).cloned().collect();
        let hit = holders.iter().map(|claim| {
            let session = self.sessions.iter().find(|session| session.id == claim.session).unwrap();
            locks::ForcedHolder {
                session: session.id,
                owner: claim.owner,
                label: session.label.as_str().into(),
                host: session.host.as_str().into(),
                pid: session.pid,
                fence: claim.fence.unwrap(),
                since_ms: claim.since_ms,
            }
        });
        out.tell(locks::Effect::Forced { lock: lock.clone(), holders: hit.collect() });
        for Claim { session, number, .. } in holders.iter().cloned() {
            out.tell(locks::Effect::Revoked { session, acquire: number });
        }
        if !now {
            for claim in self.claims.iter_mut().filter(|claim| !claim.revoked && holders.contains(claim)) {
                let before = claim.clone();
                claim.revoked = true;
                out.change(What::Claim(Some(before), Some(claim.clone())));
            }
            return;
        }
        self.set_delay(lock, None, out);
        for claim in &holders {
            self.leave(claim, Ended::Forced, out);
            self.session(claim.session).unwrap().forced.push(claim.number);
        }
        let others = holders.iter().flat_map(Claim::locks).filter(|other| other != lock);
        self.grant([lock.clone()].into_iter().chain(others).collect(), out);
    }
}
