//! The requests of a session, its lease and its connections: numbers, what was seen, what is sent again. It knows no lock;
//! whoever makes requests is its [`User`].

use std::collections::{BTreeMap, VecDeque};

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{Answer, EndReason, Open, Operation, Request, ToClient, ToServer};
use baton_types::limits::MISSING_MAX;

use super::lease::Lease;
use super::words::why_ended;
use super::{Config, Event, Loss, Millis, Output, SessionState};

/// From here on there are numbers for a machine that closes the session of another one: later than all that the other
/// one has used for connections and requests.
pub(super) const LAST_NUMBERS: u64 = 1 << 62;

/// The part of a session that knows no lock.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) config: Config,
    /// The cluster that the next Open names.
    cluster: Option<ClusterId>,
    lease: Lease,
    pub phase: Phase,
    /// Whether a server ever confirmed the session. From then on every Open resumes the session and never begins a new
    /// one.
    opened: bool,
    pub(super) connection: Option<Connection>,
    /// Counts the connections, so that the server can tell a late Open from the latest one.
    attempts: u64,
    pub next_number: u64,
    next_keep_alive: u64,
    /// The unanswered requests.
    requests: BTreeMap<u64, Operation>,
    told_at_risk: bool,
    /// Whether the client knows more than one server.
    has_alternatives: bool,
    out: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Live,
    /// The session is over for the user. The session still gives back its locks.
    Leaving {
        loss: Loss,
        since: Millis,
        /// Not after this time; none: until the server confirms the end.
        until: Option<Millis>,
    },
    Finished(Loss),
}

#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) opened: bool,
    open_sent_at: Millis,
    /// When the Open or the last keep-alive was sent.
    asked_at: Millis,
    /// Number and sending time of the unanswered keep-alives. The deadline comes before there are many.
    keep_alives: VecDeque<(u64, Millis)>,
}

/// What uses the requests of a session: the locks. It is told what happens to the session, and may make requests.
pub(super) trait User {
    /// The answer to a request of the user.
    fn answered(&mut self, engine: &mut Engine, number: u64, operation: &Operation, answer: Answer);

    /// The server says something that is no answer.
    fn told(&mut self, engine: &mut Engine, said: ToClient);

    /// Time passes.
    fn tick(&mut self, engine: &mut Engine, now: Millis);

    /// When something is due, if the session lives.
    fn next_wake(&self) -> Option<Millis>;

    /// A keep-alive was sent: it is time to repeat what the server has refused.
    fn kept_alive(&mut self, engine: &mut Engine);

    /// The session is lost, although the server may not know it yet.
    fn lost(&mut self, engine: &mut Engine, loss: &Loss);

    /// The user closed the session. All its requests are forgotten.
    fn closed(&mut self, engine: &mut Engine);

    /// Whether nothing is left to give back.
    fn is_idle(&self) -> bool;

    /// The session has ended; `confirmed`: a server says so.
    fn ended(&mut self, engine: &mut Engine, confirmed: bool, loss: &Loss);
}

impl Engine {
    pub fn new(config: Config) -> Self {
        Engine {
            lease: Lease::new(config.ttl_ms),
            config,
            cluster: None,
            phase: Phase::Live,
            opened: false,
            connection: None,
            attempts: 0,
            next_number: 1,
            next_keep_alive: 1,
            requests: BTreeMap::new(),
            told_at_risk: false,
            has_alternatives: false,
            out: VecDeque::new(),
        }
    }

    /// See [`Session::closing`](super::Session::closing).
    pub fn closing(config: Config, now: Millis) -> Self {
        let mut engine = Engine::new(config);
        engine.opened = true;
        (engine.attempts, engine.next_number) = (LAST_NUMBERS, LAST_NUMBERS);
        engine.phase = Phase::Leaving { loss: Loss::Closed, since: now, until: None };
        engine.request(Operation::Close);
        engine
    }

    /// Tells the session whether there is another server to turn to. Then it gives up a silent one earlier.
    pub fn set_alternatives(&mut self, exist: bool) {
        self.has_alternatives = exist;
    }

    /// From now on each Open names this cluster, so that a server of another one refuses it.
    pub fn is_meant_for(&mut self, cluster: Option<ClusterId>) {
        self.cluster = cluster;
    }

    /// Asks for the first connection.
    pub fn start(&mut self) {
        self.out.push_back(Output::Connect { another: false });
    }

    /// Returns the next output to carry out.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Call this when a connection to a server exists.
    pub fn connected(&mut self, user: &mut impl User, now: Millis) {
        self.tick(user, now);
        if !self.wants_connection() {
            return self.out.push_back(Output::Disconnect);
        }
        self.connection =
            Some(Connection { opened: false, open_sent_at: now, asked_at: now, keep_alives: VecDeque::new() });
        self.attempts += 1;
        let Config { session, ttl_ms, label, host, pid, secret, .. } = self.config.clone();
        let (attempt, resume, cluster) = (self.attempts, self.opened, self.cluster);
        self.send(ToServer::Open(Open { session, attempt, ttl_ms, label, host, pid, resume, secret, cluster }));
    }

    /// Call this when the connection has ended. The session and its requests go on.
    pub fn disconnected(&mut self, user: &mut impl User, now: Millis) {
        self.tick(user, now);
        // If the server did not even answer the Open, try another server.
        let another = self.connection.as_ref().is_some_and(|connection| !connection.opened);
        self.hang_up();
        if self.wants_connection() {
            self.out.push_back(Output::Connect { another });
        } else {
            self.finish(user, false);
        }
    }

    /// Call this when a connection to the leader is ready and replaces the current one. Then call
    /// [`connected`](Session::connected). The session and its requests go on. Returns false if the session has given
    /// up the current connection by itself: then it does not ask for the leader.
    pub fn moves(&mut self, user: &mut impl User, now: Millis) -> bool {
        self.tick(user, now);
        let moves = self.connection.is_some() && self.wants_connection();
        if moves {
            self.hang_up();
            self.out.push_back(Output::Connect { another: false });
        }
        moves
    }

    /// Call this for each frame that the server sends on the current connection.
    pub fn receive(&mut self, user: &mut impl User, now: Millis, said: ToClient) {
        self.tick(user, now);
        if self.connection.is_none() {
            return;
        }
        match said {
            ToClient::Opened { session, ttl_ms, .. } => self.on_opened(user, now, session, ttl_ms),
            ToClient::Alive { number } => self.on_alive(user, now, number),
            ToClient::Answer { number, answer } => self.on_answer(user, number, answer),
            ToClient::Ended { reason, message } => self.on_ended(user, now, reason, message),
            ToClient::Revoked { .. } | ToClient::Hopeless { .. } => user.told(self, said),
            // The driver, which knows the servers, decides where to go.
            ToClient::Leader(_) | ToClient::OtherCluster { .. } => {}
        }
        self.say_goodbye(user);
    }

    /// Closes the session. For the user, all its locks and waiting requests are over at once.
    pub fn close(&mut self, user: &mut impl User, now: Millis) {
        self.tick(user, now);
        if self.phase != Phase::Live {
            return;
        }
        self.leave(now, Loss::Closed);
        self.event(Event::Lost(Loss::Closed));
        // The Close cancels and releases everything, so no other request has to be sent.
        self.requests.clear();
        user.closed(self);
        if self.opened {
            self.request(Operation::Close);
        } else {
            self.finish(user, false);
        }
    }

    /// Ends the attempts to close the session: no server has confirmed the end.
    pub fn stop(&mut self, user: &mut impl User) {
        self.finish(user, false);
    }

    /// Does what is due at `now`: losses, time-outs, keep-alives, and the change to another server.
    pub fn tick(&mut self, user: &mut impl User, now: Millis) {
        if self.phase == Phase::Live && self.state(now) == SessionState::Lost {
            self.run_out(user, now);
        }
        if matches!(self.phase, Phase::Leaving { until: Some(until), .. } if now >= until) {
            self.finish(user, false);
        }
        user.tick(self, now);
        self.give_up_silent_connection(now);
        self.keep_alive_if_due(user, now);
        if !self.told_at_risk && self.state(now) == SessionState::AtRisk {
            self.told_at_risk = true;
            self.event(Event::AtRisk);
        }
    }

    /// The latest time for the next call of `tick`, if nothing else happens first.
    pub fn next_wake(&self, user: &impl User) -> Option<Millis> {
        match self.phase {
            Phase::Live => {
                let at_risk = self.lease.at_risk_from().filter(|_| !self.told_at_risk);
                let wakes = [self.lease.lost_from(), at_risk, user.next_wake(), self.keep_alive_at(), self.silent_at()];
                wakes.into_iter().flatten().min()
            }
            Phase::Leaving { until, .. } => self.silent_at().into_iter().chain(until).min(),
            Phase::Finished(_) => None,
        }
    }

    /// The state at `now`, whether or not `tick` was called.
    pub fn state(&self, now: Millis) -> SessionState {
        let is_past = |moment: Option<Millis>| moment.is_some_and(|moment| now >= moment);
        if self.phase != Phase::Live || is_past(self.lease.lost_from()) {
            SessionState::Lost
        } else if self.lease.deadline().is_none() {
            SessionState::Opening
        } else if is_past(self.lease.at_risk_from()) {
            SessionState::AtRisk
        } else {
            SessionState::Alive
        }
    }

    /// The end of the lease: until this moment the server grants the session's locks to no other session. Each
    /// acknowledgement moves the deadline, until the session is lost, which happens shortly before the deadline. None
    /// before the first acknowledgement.
    pub fn deadline(&self) -> Option<Millis> {
        self.lease.deadline()
    }

    pub fn loss(&self, now: Millis) -> Option<Loss> {
        match &self.phase {
            Phase::Leaving { loss, .. } | Phase::Finished(loss) => Some(loss.clone()),
            Phase::Live => (self.state(now) == SessionState::Lost).then_some(Loss::Unacknowledged),
        }
    }

    /// Whether the session has ended: no frame will come or go any more.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    fn wants_connection(&self) -> bool {
        match &self.phase {
            Phase::Live => true,
            // A Close is worth a new connection. After any other loss the locks become free when the lease ends.
            Phase::Leaving { loss, .. } => *loss == Loss::Closed,
            Phase::Finished(_) => false,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.opened)
    }

    fn on_opened(&mut self, user: &mut impl User, now: Millis, session: u64, ttl_ms: u64) {
        // An answer for another session does not count. The connection then counts as silent, and the session gives it
        // up.
        let Some(connection) = self.connection.as_mut().filter(|_| session == self.config.session) else { return };
        if connection.opened {
            return;
        }
        connection.opened = true;
        let sent_at = connection.open_sent_at;
        self.lease.limit(ttl_ms);
        if !self.opened {
            self.opened = true;
            self.event(Event::Opened);
        }
        let unanswered: Vec<u64> = self.requests.keys().copied().collect();
        unanswered.into_iter().for_each(|number| self.send_request(number));
        self.confirm(user, now, sent_at);
        // The answer may have taken longer than the time between two keep-alives.
        self.keep_alive_if_due(user, now);
    }

    fn on_alive(&mut self, user: &mut impl User, now: Millis, number: u64) {
        let Some(connection) = &mut self.connection else { return };
        let Some(place) = connection.keep_alives.iter().position(|(sent, _)| *sent == number) else { return };
        // Drop earlier keep-alives: their acknowledgements could only confirm less.
        let Some((_, sent_at)) = connection.keep_alives.drain(..=place).next_back() else { return };
        self.confirm(user, now, sent_at);
    }

    fn on_answer(&mut self, user: &mut impl User, number: u64, answer: Answer) {
        match self.requests.remove(&number) {
            // If the server refuses the Close, the session lives on the server until its lease ends.
            Some(Operation::Close) => self.finish(user, answer == Answer::Closed),
            Some(operation) => user.answered(self, number, &operation, answer),
            None => {}
        }
    }

    fn on_ended(&mut self, user: &mut impl User, now: Millis, reason: EndReason, message: String) {
        if self.phase == Phase::Live {
            self.hang_up();
            self.become_lost(user, now, Loss::Ended(why_ended(reason, message)));
        }
        self.finish(user, true);
    }

    /// The server acknowledged what the client sent at `sent_at`. The callers have called `tick` before, so a live
    /// session has not run out. A session that is no longer live stays so.
    fn confirm(&mut self, user: &mut impl User, now: Millis, sent_at: Millis) {
        if self.phase != Phase::Live {
            return;
        }
        self.lease.confirm(sent_at);
        // The first answer can be so late that the lease has already run out.
        if self.state(now) == SessionState::Lost {
            self.run_out(user, now);
        } else if self.told_at_risk && self.state(now) == SessionState::Alive {
            self.told_at_risk = false;
            self.event(Event::Confirmed);
        }
    }

    fn leave(&mut self, now: Millis, loss: Loss) {
        self.phase = Phase::Leaving { loss, since: now, until: Some(now.saturating_add(self.lease.ttl_ms())) };
    }

    /// The session is over for the user.
    fn become_lost(&mut self, user: &mut impl User, now: Millis, loss: Loss) {
        self.leave(now, loss.clone());
        self.event(Event::Lost(loss.clone()));
        user.lost(self, &loss);
    }

    /// The lease has run out. The session gives back its locks on the current connection. Without a connection the
    /// locks become free when the server's lease ends.
    fn run_out(&mut self, user: &mut impl User, now: Millis) {
        self.become_lost(user, now, Loss::Unacknowledged);
        if self.is_connected() {
            self.say_goodbye(user);
        } else {
            self.finish(user, false);
        }
    }

    /// After a loss: closes the session when no lock is left to give back.
    fn say_goodbye(&mut self, user: &impl User) {
        let is_lost = matches!(&self.phase, Phase::Leaving { loss, .. } if *loss != Loss::Closed);
        let closes = |operation: &Operation| matches!(operation, Operation::Close);
        if is_lost && user.is_idle() && !self.requests.values().next_back().is_some_and(closes) {
            self.request(Operation::Close);
        }
    }

    fn finish(&mut self, user: &mut impl User, confirmed: bool) {
        let Some(loss) = (match &self.phase {
            Phase::Leaving { loss, .. } => Some(loss.clone()),
            Phase::Live | Phase::Finished(_) => None,
        }) else {
            return;
        };
        user.ended(self, confirmed, &loss);
        self.phase = Phase::Finished(loss);
        self.requests.clear();
        self.hang_up();
        self.out.push_back(Output::Disconnect);
        self.event(Event::Finished { confirmed });
    }

    fn keep_alive_at(&self) -> Option<Millis> {
        let connection =
            self.connection.as_ref().filter(|connection| connection.opened && self.phase == Phase::Live)?;
        Some(connection.asked_at + self.lease.keep_alive_every())
    }

    fn keep_alive_if_due(&mut self, user: &mut impl User, now: Millis) {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return;
        }
        let number = self.next_keep_alive;
        let Some(connection) = &mut self.connection else { return };
        connection.asked_at = now;
        connection.keep_alives.push_back((number, now));
        self.next_keep_alive += 1;
        self.send(ToServer::KeepAlive { number });
        user.kept_alive(self);
    }

    /// When the oldest unanswered Open, keep-alive or Close has waited too long.
    fn silent_at(&self) -> Option<Millis> {
        let connection = self.connection.as_ref().filter(|_| self.wants_connection())?;
        let keep_alive = connection.keep_alives.front().map(|(_, sent_at)| *sent_at);
        let unanswered = match &self.phase {
            // The only server is not asked again: it ends the session when the lease is over.
            Phase::Leaving { until: Some(_), .. } if !self.has_alternatives => None,
            _ if !connection.opened => Some(connection.open_sent_at),
            // A Close that was sent on an earlier connection was sent again on this one.
            Phase::Leaving { since, .. } => {
                let closed_at = (*since).max(connection.open_sent_at);
                Some(keep_alive.unwrap_or(closed_at).min(closed_at))
            }
            Phase::Live | Phase::Finished(_) => keep_alive,
        };
        unanswered.map(|sent_at| sent_at + self.patience_ms())
    }

    /// How long to wait for a connection or an answer before another server gets its turn.
    pub fn patience_ms(&self) -> u64 {
        match self.opened {
            true => self.lease.patience(self.has_alternatives),
            false => self.lease.open_patience().min(self.config.open_patience_ms),
        }
    }

    fn give_up_silent_connection(&mut self, now: Millis) {
        if self.silent_at().is_some_and(|at| now >= at) {
            self.hang_up();
            self.out.push_back(Output::Connect { another: true });
        }
    }

    /// Drops the connection with all frames that are not sent yet, because the next connection must begin with Open.
    fn hang_up(&mut self) {
        self.connection = None;
        self.out.retain(|output| !matches!(output, Output::Send(_)));
    }

    /// Sends the request now and on every later connection, until it is answered.
    pub fn request(&mut self, operation: impl Into<Operation>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.requests.insert(number, operation.into());
        if self.is_connected() {
            self.send_request(number);
        }
        number
    }

    fn send_request(&mut self, number: u64) {
        let Some(operation) = self.requests.get(&number).cloned() else { return };
        let (seen, missing) = self.seen_before(number);
        self.send(ToServer::Request(Request { number, seen, missing, operation }));
    }

    /// The highest number before this one whose answer was seen, and the numbers below it whose answers are missing. If
    /// more than `MISSING_MAX` are missing, the report stops before the next missing one, and a later request reports
    /// the rest.
    pub(super) fn seen_before(&self, number: u64) -> (u64, Vec<u64>) {
        let unanswered = self.requests.range(..number).map(|(number, _)| *number);
        let mut missing: Vec<u64> = unanswered.take(MISSING_MAX + 1).collect();
        let mut seen = missing.get(MISSING_MAX).copied().unwrap_or(number - 1);
        while missing.last() == Some(&seen) {
            missing.pop();
            seen -= 1;
        }
        (seen, missing)
    }

    fn send(&mut self, said: ToServer) {
        self.out.push_back(Output::Send(said));
    }

    pub fn event(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }
}
