//! The leader's timers: for the leases of sessions, the time-outs of waiting acquires, and the delays of closed locks.
//! Pure: `now_ms` is an argument, from a monotonic clock that also counts while the machine sleeps.

use std::collections::{BTreeMap, BTreeSet};

use crate::state::locks::{self, LockName};
use crate::state::{Answer, Command, Effect, PendingTimers, RequestNumber, SessionId, cluster, sessions};

/// The shortest and the longest step of the wait of a closed cluster.
pub const CLOSED_STEP_MS_MIN: u64 = 1_000;
const CLOSED_STEP_MS_MAX: u64 = 60_000;

/// The next step of the wait of a closed cluster: a hundredth of what is left of it, because each step is an entry of the
/// log. A restart or another leader repeats at most one step.
fn closed_step_ms(left_ms: u64) -> u64 {
    (left_ms / 100).clamp(CLOSED_STEP_MS_MIN, CLOSED_STEP_MS_MAX).min(left_ms)
}

/// The timers of the leader. A process that does not lead has none.
///
/// How to drive it:
/// - When this process leads and its own `Lead` command **has been applied**, call [`lead`](Leases::lead) with that
///   term and [`State::pending_timers`](crate::state::State::pending_timers). All leases then start again with their
///   full TTL, because this process does not know what an earlier leader acknowledged. When it no longer leads, or is
///   not sure, call [`step_down`](Leases::step_down). To lead again, even in the same term, it needs another `Lead`:
///   its earlier proposals then come before that `Lead` in the log.
/// - Pass every effect of every applied command to [`observe`](Leases::observe) before it is sent to a client. If it
///   returns false, do not send the effect.
/// - When a keep-alive arrives, call [`keep_alive`](Leases::keep_alive). Acknowledge it after a read-index round that
///   began later, unless the session [is condemned](Leases::is_condemned) by then.
/// - At [`next_wake`](Leases::next_wake), which every other call may change, call [`due`](Leases::due) and propose its
///   commands. When such a command was applied and its effects were observed, call [`done`](Leases::done). If a
///   proposal is lost, the leadership is lost, too: step down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The term in which this process leads; none if it does not lead.
    term: Option<u64>,
    sessions: BTreeMap<SessionId, Lease>,
    /// Deadlines of waiting acquires; none if `CancelWait` has been proposed.
    waits: BTreeMap<(SessionId, RequestNumber), Option<u64>>,
    delays: BTreeMap<LockName, Delay>,
    /// How long a closed cluster still grants nothing; 0 if it is open.
    closed_ms: u64,
    /// The deadlines of all of the above whose commands are not proposed yet.
    timers: BTreeSet<(u64, Timer)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    ttl_ms: u64,
    /// When to propose Expire; none if it has been proposed.
    expire_ms: Option<u64>,
    /// Expire has been proposed, and the session cannot be saved any more.
    condemned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Delay {
    generation: u64,
    /// When to propose `EndLockDelay`; none if it has been proposed.
    deadline_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Lease(SessionId),
    Wait(SessionId, RequestNumber),
    Delay(LockName),
    /// A step of the wait of a closed cluster.
    Closed,
}

/// The result of a keep-alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// The lease has its full TTL again. A round that begins from now on may acknowledge the keep-alive.
    Extended,
    /// The keep-alive gets no answer: the end of the session has been proposed.
    Condemned,
    /// This process has no lease of the session. Only the log can tell whether the session has ended, so the client
    /// must resume it.
    Unknown,
    /// This process does not lead, and cannot know.
    NotLeading,
}

impl Leases {
    /// Begins to lead in this term, whose `Lead` has been applied. All timers start again, with their full time.
    pub fn lead(&mut self, now_ms: u64, term: u64, pending: &PendingTimers) {
        self.step_down();
        self.term = Some(term);
        for &(session, ttl_ms) in &pending.sessions {
            self.opened(now_ms, session, ttl_ms);
        }
        for &(session, number, timeout_ms) in &pending.waits {
            self.waits(now_ms, session, number, timeout_ms);
        }
        for (lock, generation, delay_ms) in &pending.delays {
            self.closed(now_ms, lock, *generation, *delay_ms);
        }
        self.cluster_closed(now_ms, pending.closed_ms.unwrap_or(0));
    }

    /// Ends the leadership, and forgets all timers.
    pub fn step_down(&mut self) {
        *self = Leases::default();
    }

    /// The term in which this process leads; none if it does not lead.
    pub fn term(&self) -> Option<u64> {
        self.term
    }

    /// Updates the timers for an effect of an applied command. Returns whether the effect may be sent to its client: a
    /// condemned session must not receive Opened.
    #[must_use]
    pub fn observe(&mut self, now_ms: u64, effect: &Effect) -> bool {
        if self.term.is_none() {
            return true;
        }
        match *effect {
            Effect::Opened { session, ttl_ms } => return self.opened(now_ms, session, ttl_ms),
            Effect::Ended { session, .. } => self.ended(session),
            // The number belongs to another request, which may still wait.
            Effect::Answer { answer: Answer::Refused(sessions::Refusal::NumberReused), .. } => {}
            Effect::Answer { session, number, .. } => self.answered(session, number),
            Effect::Locks(locks::Effect::Waits { session, number, timeout_ms }) => {
                self.waits(now_ms, session, number, timeout_ms)
            }
            Effect::Locks(locks::Effect::LockDelay { ref lock, generation, delay_ms }) => {
                self.closed(now_ms, lock, generation, delay_ms)
            }
            Effect::Cluster(cluster::Effect::Closed { left_ms }) => self.cluster_closed(now_ms, left_ms),
            Effect::Locks(locks::Effect::Revoked { .. } | locks::Effect::Forced { .. }) => {}
        }
        true
    }

    /// A keep-alive has arrived. It extends the lease at once, and may be acknowledged after a round that begins later.
    pub fn keep_alive(&mut self, session: SessionId, now_ms: u64) -> KeepAlive {
        if self.term.is_none() {
            return KeepAlive::NotLeading;
        }
        match self.sessions.get(&session) {
            None => return KeepAlive::Unknown,
            Some(Lease { condemned: true, .. }) => return KeepAlive::Condemned,
            Some(&Lease { ttl_ms, .. }) => self.opened(now_ms, session, ttl_ms),
        };
        KeepAlive::Extended
    }

    /// The commands to propose now. Each is returned once.
    pub fn due(&mut self, now_ms: u64) -> Vec<Command> {
        let mut commands = Vec::new();
        let Some(term) = self.term else { return commands };
        while self.timers.first().is_some_and(|&(at_ms, _)| at_ms <= now_ms) {
            let Some((_, timer)) = self.timers.pop_first() else { break };
            commands.extend(match timer {
                Timer::Lease(session) => self.sessions.get_mut(&session).map(|lease| {
                    (lease.expire_ms, lease.condemned) = (None, true);
                    sessions::Command::Expire { session, term }.into()
                }),
                Timer::Wait(session, number) => self.waits.get_mut(&(session, number)).map(|deadline_ms| {
                    *deadline_ms = None;
                    locks::Command::CancelWait { session, number }.into()
                }),
                Timer::Delay(lock) => self.delays.get_mut(&lock).map(|delay| {
                    delay.deadline_ms = None;
                    locks::Command::EndLockDelay { generation: delay.generation, lock }.into()
                }),
                Timer::Closed => {
                    let (from_ms, to_ms) = (self.closed_ms, self.closed_ms - closed_step_ms(self.closed_ms));
                    Some(cluster::Command::Waited { from_ms, to_ms }.into())
                }
            });
        }
        commands
    }

    /// When `due` will have a command, if no other call changes that.
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.first().map(|&(at_ms, _)| at_ms)
    }

    /// A command from `due` has been applied. It may have been too late to have an effect.
    pub fn done(&mut self, command: &Command) {
        match *command {
            Command::Locks(locks::Command::CancelWait { session, number }) => {
                // If the acquire waits again meanwhile, it has a new deadline.
                if self.waits.get(&(session, number)) == Some(&None) {
                    self.waits.remove(&(session, number));
                }
            }
            Command::Locks(locks::Command::EndLockDelay { ref lock, generation }) => {
                if self.delays.get(lock) == Some(&Delay { generation, deadline_ms: None }) {
                    self.delays.remove(lock);
                }
            }
            // `observe` handles the end of a session.
            Command::Sessions(_) | Command::Locks(_) | Command::Request(_) | Command::Cluster(_) => {}
        }
    }

    /// Whether the end of the session has been proposed. Then the server must not send anything that lets the client
    /// believe in its lease.
    pub fn is_condemned(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|lease| lease.condemned)
    }

    /// Number of sessions that have a lease.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the session has a lease, and its keep-alives may be acknowledged.
    pub fn is_live(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|lease| !lease.condemned)
    }

    /// How long the session lives, at least, if the server receives nothing more from it. For listings.
    pub fn expires_in(&self, session: SessionId, now_ms: u64) -> Option<u64> {
        let lease = self.sessions.get(&session)?;
        let left_ms = lease.expire_ms.unwrap_or(0).saturating_sub(now_ms).min(lease.ttl_ms);
        Some(if lease.condemned { 0 } else { left_ms })
    }

    /// Starts the lease with its full TTL, unless the session is condemned. Returns false if it is.
    fn opened(&mut self, now_ms: u64, session: SessionId, ttl_ms: u64) -> bool {
        if self.sessions.get(&session).is_some_and(|lease| lease.condemned) {
            return false;
        }
        // The lease must never be shorter than the client believes. The client counts from an earlier moment, but
        // `now_ms` is truncated to a whole millisecond, so 1 is added.
        let expire_ms = now_ms.saturating_add(ttl_ms).saturating_add(1);
        let lease = Lease { ttl_ms, expire_ms: Some(expire_ms), condemned: false };
        if let Some(before) = self.sessions.insert(session, lease) {
            self.disarm(before.expire_ms, Timer::Lease(session));
        }
        self.timers.insert((expire_ms, Timer::Lease(session)));
        true
    }

    fn ended(&mut self, session: SessionId) {
        if let Some(Lease { expire_ms, .. }) = self.sessions.remove(&session) {
            self.disarm(expire_ms, Timer::Lease(session));
        }
        while let Some((&(_, number), _)) = self.waits.range((session, 0)..=(session, RequestNumber::MAX)).next() {
            self.answered(session, number);
        }
    }

    fn answered(&mut self, session: SessionId, number: RequestNumber) {
        if let Some(deadline_ms) = self.waits.remove(&(session, number)) {
            self.disarm(deadline_ms, Timer::Wait(session, number));
        }
    }

    fn waits(&mut self, now_ms: u64, session: SessionId, number: RequestNumber, timeout_ms: u64) {
        self.answered(session, number);
        let deadline_ms = now_ms.saturating_add(timeout_ms);
        self.waits.insert((session, number), Some(deadline_ms));
        self.timers.insert((deadline_ms, Timer::Wait(session, number)));
    }

    fn closed(&mut self, now_ms: u64, lock: &LockName, generation: u64, delay_ms: u64) {
        let deadline_ms = Some(now_ms.saturating_add(delay_ms).saturating_add(1));
        if let Some(before) = self.delays.insert(lock.clone(), Delay { generation, deadline_ms }) {
            self.disarm(before.deadline_ms, Timer::Delay(lock.clone()));
        }
        self.timers.extend(deadline_ms.map(|at_ms| (at_ms, Timer::Delay(lock.clone()))));
    }

    /// Counts the next step of the wait of a closed cluster, if anything of it is left.
    fn cluster_closed(&mut self, now_ms: u64, left_ms: u64) {
        self.closed_ms = left_ms;
        if left_ms > 0 {
            let at_ms = now_ms.saturating_add(closed_step_ms(left_ms)).saturating_add(1);
            self.timers.insert((at_ms, Timer::Closed));
        }
    }

    fn disarm(&mut self, at_ms: Option<u64>, timer: Timer) {
        if let Some(at_ms) = at_ms {
            self.timers.remove(&(at_ms, timer));
        }
    }
}
