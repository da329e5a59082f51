//! A session with the lock service, from the client's side: the lease and the requests. The state machine is pure: it
//! does no I/O and reads no clock.
//!
//! **How to drive it.** Begin with [`Session::start`]. Every call that can change the session takes `now`, milliseconds
//! of CLOCK_BOOTTIME, which goes on while the machine sleeps. After every call, carry out the outputs of
//! [`Session::poll`] until it returns `None`. Then wait for whichever comes first, and make the call for it: a frame
//! ([`Session::receive`]), the end of the connection ([`Session::disconnected`]), a call of the user, or the time
//! [`Session::next_wake`] ([`Session::tick`]).
//!
//! What always holds:
//! - The deadline counts from the moment when the last acknowledged keep-alive was *sent*. The session is lost shortly
//!   before the deadline, so that the user has time to stop. From then on every question is answered with Lost, even if
//!   no call of `tick` came in between. A lost session never revives.
//! - A request keeps its number and its operation for ever. On each new connection the session sends all unanswered
//!   requests again, in order.
//! - Each request tells the server which answers before it the client has seen, so that the server can forget these
//!   answers. The session never reports an answer that it has not seen. A request that waits for a lock does not keep
//!   the server from forgetting later answers.
//! - The session cancels or releases every acquire that the user gives up, and repeats this until the server confirms
//!   or the session is over.

mod claims;
mod lease;
mod words;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{EndReason, Open, Operation, Request, ToClient, ToServer};
use baton_types::limits::MISSING_MAX;

use claims::{Claim, GivenUp};
use lease::Lease;
pub use lease::MARGIN_SHARE;
use words::Timeout;
#[cfg(feature = "net")]
pub(crate) use words::in_words;
pub(crate) use words::why_ended;
pub use words::{
    AcquireNumber, Config, Event, Hopeless, LockState, Loss, Mode, NotGranted, Output, ReleaseFailure, SessionState,
    Wait, Wish,
};

/// Milliseconds of CLOCK_BOOTTIME.
pub type Millis = u64;

/// From here on there are numbers for a machine that closes the session of another one: later than all that the other
/// one has used for connections and requests.
const LAST_NUMBERS: u64 = 1 << 62;

/// The state machine. The module documentation says how to drive it.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    /// The cluster that the next Open names.
    cluster: Option<ClusterId>,
    lease: Lease,
    phase: Phase,
    /// Whether a server ever confirmed the session. From then on every Open resumes the session and never begins a new
    /// one.
    opened: bool,
    connection: Option<Connection>,
    /// Counts the connections, so that the server can tell a late Open from the latest one.
    attempts: u64,
    next_number: u64,
    next_keep_alive: u64,
    /// The unanswered requests.
    requests: BTreeMap<u64, Operation>,
    /// The acquires that the user waits for or holds.
    claims: BTreeMap<AcquireNumber, Claim>,
    /// The acquires that the user has given up, until the server confirms the end of them.
    given_up: BTreeMap<AcquireNumber, GivenUp>,
    timeouts: BTreeSet<Timeout>,
    /// Acquires whose cancel or release the server refused. The session repeats it with the next keep-alive.
    again: Vec<AcquireNumber>,
    told_at_risk: bool,
    /// Whether the client knows more than one server.
    has_alternatives: bool,
    out: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
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
struct Connection {
    opened: bool,
    open_sent_at: Millis,
    /// When the Open or the last keep-alive was sent.
    asked_at: Millis,
    /// Number and sending time of the unanswered keep-alives. The deadline comes before there are many.
    keep_alives: VecDeque<(u64, Millis)>,
}

impl Session {
    /// Makes a session that no server knows yet.
    pub fn new(config: Config) -> Self {
        Session {
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
            claims: BTreeMap::new(),
            given_up: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            again: Vec::new(),
            told_at_risk: false,
            has_alternatives: false,
            out: VecDeque::new(),
        }
    }

    /// Makes a session that only closes one that a server may know. That one was begun by another machine, perhaps in a
    /// process that is gone, and must not be driven any more. It may take any time until a server confirms the end; end
    /// the attempts with [`Session::stop`].
    pub fn closing(config: Config, now: Millis) -> Self {
        let mut session = Session::new(config);
        session.opened = true;
        (session.attempts, session.next_number) = (LAST_NUMBERS, LAST_NUMBERS);
        session.phase = Phase::Leaving { loss: Loss::Closed, since: now, until: None };
        session.request(Operation::Close);
        session
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
    pub fn connected(&mut self, now: Millis) {
        self.tick(now);
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
    pub fn disconnected(&mut self, now: Millis) {
        self.tick(now);
        // If the server did not even answer the Open, try another server.
        let another = self.connection.as_ref().is_some_and(|connection| !connection.opened);
        self.hang_up();
        if self.wants_connection() {
            self.out.push_back(Output::Connect { another });
        } else {
            self.finish(false);
        }
    }

    /// Call this when a connection to the leader is ready and replaces the current one. Then call
    /// [`connected`](Session::connected). The session and its requests go on. Returns false if the session has given
    /// up the current connection by itself: then it does not ask for the leader.
    pub fn moves(&mut self, now: Millis) -> bool {
        self.tick(now);
        let moves = self.connection.is_some() && self.wants_connection();
        if moves {
            self.hang_up();
            self.out.push_back(Output::Connect { another: false });
        }
        moves
    }

    /// Call this for each frame that the server sends on the current connection.
    pub fn receive(&mut self, now: Millis, said: ToClient) {
        self.tick(now);
        if self.connection.is_none() {
            return;
        }
        match said {
            ToClient::Opened { session, ttl_ms, .. } => self.on_opened(now, session, ttl_ms),
            ToClient::Alive { number } => self.on_alive(now, number),
            ToClient::Answer { number, answer } => self.on_answer(number, answer),
            ToClient::Revoked { acquire } => self.on_revoked(acquire),
            ToClient::Ended { reason, message } => self.on_ended(now, reason, message),
            ToClient::Hopeless { acquire, why } => self.on_hopeless(acquire, why),
            // The driver, which knows the servers, decides where to go.
            ToClient::Leader(_) | ToClient::OtherCluster { .. } => {}
        }
        self.say_goodbye();
    }

    /// Makes a request of another kind than those for locks. [`Event::Answered`] brings the answer, unless the session is
    /// lost before.
    pub fn ask(&mut self, now: Millis, operation: impl Into<Operation>) -> u64 {
        self.tick(now);
        self.request(operation)
    }

    /// Closes the session. For the user, all its locks and waiting requests are over at once.
    pub fn close(&mut self, now: Millis) {
        self.tick(now);
        if self.phase != Phase::Live {
            return;
        }
        self.leave(now, Loss::Closed);
        self.event(Event::Lost(Loss::Closed));
        self.forget_wishes(&Loss::Closed);
        if self.opened {
            self.request(Operation::Close);
        } else {
            self.finish(false);
        }
    }

    /// Ends the attempts to close the session: no server has confirmed the end.
    pub fn stop(&mut self) {
        self.finish(false);
    }

    /// Does what is due at `now`: losses, time-outs, keep-alives, and the change to another server.
    pub fn tick(&mut self, now: Millis) {
        if self.phase == Phase::Live && self.state(now) == SessionState::Lost {
            self.run_out(now);
        }
        if matches!(self.phase, Phase::Leaving { until: Some(until), .. } if now >= until) {
            self.finish(false);
        }
        self.time_out(now);
        self.give_up_silent_connection(now);
        self.keep_alive_if_due(now);
        if !self.told_at_risk && self.state(now) == SessionState::AtRisk {
            self.told_at_risk = true;
            self.event(Event::AtRisk);
        }
    }

    /// The latest time for the next call of `tick`, if nothing else happens first.
    pub fn next_wake(&self) -> Option<Millis> {
        match self.phase {
            Phase::Live => {
                let at_risk = self.lease.at_risk_from().filter(|_| !self.told_at_risk);
                let timeout = self.timeouts.first().map(|timeout| timeout.at);
                let wakes = [self.lease.lost_from(), at_risk, timeout, self.keep_alive_at(), self.silent_at()];
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

    fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.opened)
    }

    fn on_opened(&mut self, now: Millis, session: u64, ttl_ms: u64) {
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
        self.confirm(now, sent_at);
        // The answer may have taken longer than the time between two keep-alives.
        self.keep_alive_if_due(now);
    }

    fn on_alive(&mut self, now: Millis, number: u64) {
        let Some(connection) = &mut self.connection else { return };
        let Some(place) = connection.keep_alives.iter().position(|(sent, _)| *sent == number) else { return };
        // Drop earlier keep-alives: their acknowledgements could only confirm less.
        let Some((_, sent_at)) = connection.keep_alives.drain(..=place).next_back() else { return };
        self.confirm(now, sent_at);
    }

    fn on_ended(&mut self, now: Millis, reason: EndReason, message: String) {
        if self.phase == Phase::Live {
            self.hang_up();
            self.become_lost(now, Loss::Ended(why_ended(reason, message)));
        }
        self.finish(true);
    }

    /// The server acknowledged what the client sent at `sent_at`. The callers have called `tick` before, so a live
    /// session has not run out. A session that is no longer live stays so.
    fn confirm(&mut self, now: Millis, sent_at: Millis) {
        if self.phase != Phase::Live {
            return;
        }
        self.lease.confirm(sent_at);
        // The first answer can be so late that the lease has already run out.
        if self.state(now) == SessionState::Lost {
            self.run_out(now);
        } else if self.told_at_risk && self.state(now) == SessionState::Alive {
            self.told_at_risk = false;
            self.event(Event::Confirmed);
        }
    }

    fn leave(&mut self, now: Millis, loss: Loss) {
        self.phase = Phase::Leaving { loss, since: now, until: Some(now.saturating_add(self.lease.ttl_ms())) };
    }

    /// The session is over for the user.
    fn become_lost(&mut self, now: Millis, loss: Loss) {
        self.leave(now, loss.clone());
        self.event(Event::Lost(loss.clone()));
        self.lose_claims(&loss);
    }

    /// The lease has run out. The session gives back its locks on the current connection. Without a connection the
    /// locks become free when the server's lease ends.
    fn run_out(&mut self, now: Millis) {
        self.become_lost(now, Loss::Unacknowledged);
        if self.is_connected() {
            self.say_goodbye();
        } else {
            self.finish(false);
        }
    }

    /// After a loss: closes the session when no lock is left to give back.
    fn say_goodbye(&mut self) {
        let is_lost = matches!(&self.phase, Phase::Leaving { loss, .. } if *loss != Loss::Closed);
        let closes = |operation: &Operation| matches!(operation, Operation::Close);
        let is_idle = self.claims.is_empty() && self.given_up.is_empty();
        if is_lost && is_idle && !self.requests.values().next_back().is_some_and(closes) {
            self.request(Operation::Close);
        }
    }

    fn finish(&mut self, confirmed: bool) {
        let Some(loss) = (match &self.phase {
            Phase::Leaving { loss, .. } => Some(loss.clone()),
            Phase::Live | Phase::Finished(_) => None,
        }) else {
            return;
        };
        self.end_claims(confirmed, &loss);
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

    fn keep_alive_if_due(&mut self, now: Millis) {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return;
        }
        let number = self.next_keep_alive;
        let Some(connection) = &mut self.connection else { return };
        connection.asked_at = now;
        connection.keep_alives.push_back((number, now));
        self.next_keep_alive += 1;
        self.send(ToServer::KeepAlive { number });
        self.ask_again();
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

    fn request(&mut self, operation: impl Into<Operation>) -> u64 {
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
    fn seen_before(&self, number: u64) -> (u64, Vec<u64>) {
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

    fn event(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }
}
