//! The leader's timers: for the leases of sessions, the wait of a closed cluster, and whatever the modules wait for.
//! Pure: `now_ms` is an argument, from a monotonic clock that also counts while the machine sleeps.

use std::collections::{BTreeMap, BTreeSet};

use crate::state::{Answer, Command, Effect, PendingTimers, RequestNumber, SessionId, Timer, cluster, sessions};

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
///   commands. If a proposal is lost, the leadership is lost, too: step down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The term in which this process leads; none if it does not lead.
    term: Option<u64>,
    sessions: BTreeMap<SessionId, Lease>,
    /// The timers of requests that wait, and their deadlines.
    requests: BTreeMap<(SessionId, RequestNumber), (u64, Timer)>,
    /// The other timers of modules, and their deadlines.
    others: BTreeMap<Timer, u64>,
    /// How long a closed cluster still grants nothing; 0 if it is open.
    closed_ms: u64,
    /// The deadlines of all of the above.
    timers: BTreeSet<(u64, Key)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    ttl_ms: u64,
    /// When to propose Expire; none if it has been proposed.
    expire_ms: Option<u64>,
    /// Expire has been proposed, and the session cannot be saved any more.
    condemned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Lease(SessionId),
    Request(SessionId, RequestNumber),
    Other(Timer),
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
        for (timer, after_ms) in &pending.timers {
            self.arm(now_ms, timer.clone(), *after_ms);
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
            Effect::Cluster(cluster::Effect::Closed { left_ms }) => self.cluster_closed(now_ms, left_ms),
            ref of_module => {
                if let Some((timer, after_ms)) = of_module.timer() {
                    self.arm(now_ms, timer, after_ms);
                }
            }
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
                Key::Lease(session) => self.sessions.get_mut(&session).map(|lease| {
                    (lease.expire_ms, lease.condemned) = (None, true);
                    sessions::Command::Expire { session, term }.into()
                }),
                Key::Request(session, number) => {
                    self.requests.remove(&(session, number)).map(|(_, timer)| timer.command())
                }
                Key::Other(timer) => self.others.remove(&timer).map(|_| timer.command()),
                Key::Closed => {
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
            self.disarm(before.expire_ms, Key::Lease(session));
        }
        self.timers.insert((expire_ms, Key::Lease(session)));
        true
    }

    fn ended(&mut self, session: SessionId) {
        if let Some(Lease { expire_ms, .. }) = self.sessions.remove(&session) {
            self.disarm(expire_ms, Key::Lease(session));
        }
        while let Some((&(_, number), _)) = self.requests.range((session, 0)..=(session, RequestNumber::MAX)).next() {
            self.answered(session, number);
        }
    }

    fn answered(&mut self, session: SessionId, number: RequestNumber) {
        if let Some((at_ms, _)) = self.requests.remove(&(session, number)) {
            self.timers.remove(&(at_ms, Key::Request(session, number)));
        }
    }

    /// Arms a timer of a module. It replaces the timers from [`Timer::first`] to itself.
    fn arm(&mut self, now_ms: u64, timer: Timer, after_ms: u64) {
        let at_ms = now_ms.saturating_add(after_ms);
        if let Some((session, number)) = timer.request() {
            self.answered(session, number);
            self.requests.insert((session, number), (at_ms, timer));
            self.timers.insert((at_ms, Key::Request(session, number)));
            return;
        }
        // `now_ms` is truncated to a whole millisecond.
        let at_ms = at_ms.saturating_add(1);
        while let Some((before, &before_ms)) = self.others.range(timer.first()..=timer.clone()).next() {
            let before = before.clone();
            self.others.remove(&before);
            self.timers.remove(&(before_ms, Key::Other(before)));
        }
        self.others.insert(timer.clone(), at_ms);
        self.timers.insert((at_ms, Key::Other(timer)));
    }

    /// Counts the next step of the wait of a closed cluster, if anything of it is left.
    fn cluster_closed(&mut self, now_ms: u64, left_ms: u64) {
        self.closed_ms = left_ms;
        if left_ms > 0 {
            let at_ms = now_ms.saturating_add(closed_step_ms(left_ms)).saturating_add(1);
            self.timers.insert((at_ms, Key::Closed));
        }
    }

    fn disarm(&mut self, at_ms: Option<u64>, timer: Key) {
        if let Some(at_ms) = at_ms {
            self.timers.remove(&(at_ms, timer));
        }
    }
}
