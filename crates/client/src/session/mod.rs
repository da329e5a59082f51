//! A session with the lock service: the client's half of the leases, and its requests. Pure: no I/O, no clock.
//!
//! **How to drive it.** Every call that can change something takes `now`, milliseconds of CLOCK_BOOTTIME, which goes on while
//! the machine sleeps. After every call, do what [`Session::poll`] says until it says nothing; then wait for whatever
//! comes first: a frame ([`Session::receive`]), the end of the connection ([`Session::disconnected`]), a wish of the user, or
//! [`Session::next_wake`] ([`Session::tick`]). Begin with [`Session::start`].
//!
//! What it keeps:
//! - The deadline runs from when the last acknowledged keep-alive was *sent*. The session is lost a little before it, so that
//!   whoever is told so has time to stop. What is asked from then on is answered by Lost, even if nobody called `tick` in
//!   between, and a lost session never revives.
//! - A request keeps its number and its operation for ever. What is unanswered is sent again, in order, on each new
//!   connection.
//! - A request tells which answers before it were seen, and of none that it was seen if it was not: the server forgets those,
//!   and a lock that is waited for does not keep it from forgetting what came later.
//! - What is given up is cancelled or released, again and again until the server says so or the session is over.

mod claims;
mod lease;
mod words;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    AcquireNumber, Config, Event, LockState, Loss, Mode, NotGranted, Output, ReleaseFailure, SessionState, Wait, Wish,
};

/// Milliseconds of CLOCK_BOOTTIME.
pub type Millis = u64;

/// The state machine; the module tells how to drive it.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    lease: Lease,
    phase: Phase,
    /// Whether the server ever knew it: from then on it is only ever taken up again, never begun anew.
    opened: bool,
    connection: Option<Connection>,
    /// Counts the connections, so that the server can tell a late Open from the latest.
    attempts: u64,
    next_number: u64,
    next_keep_alive: u64,
    /// What is not answered yet.
    requests: BTreeMap<u64, Operation>,
    /// What the user waits for or has.
    claims: BTreeMap<AcquireNumber, Claim>,
    /// What the user is done with, and the server may not be.
    given_up: BTreeMap<AcquireNumber, GivenUp>,
    timeouts: BTreeSet<Timeout>,
    /// What the server could not take back when it was asked to, and is asked again with the next keep-alive.
    again: Vec<AcquireNumber>,
    told_at_risk: bool,
    out: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Live,
    /// Over for the user. What it held is still being given back, but not beyond this moment.
    Leaving {
        loss: Loss,
        until: Millis,
    },
    Finished(Loss),
}

#[derive(Clone, Debug)]
struct Connection {
    opened: bool,
    open_sent_at: Millis,
    /// When it was last asked to stay alive.
    asked_at: Millis,
    /// Number and time of what is unanswered. The deadline comes before there are many.
    keep_alives: VecDeque<(u64, Millis)>,
}

impl Session {
    /// A session that nobody knows of yet.
    pub fn new(config: Config) -> Self {
        Session {
            lease: Lease::new(config.ttl_ms),
            config,
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
            out: VecDeque::new(),
        }
    }

    /// Wants to be connected.
    pub fn start(&mut self) {
        self.out.push_back(Output::Connect { another: false });
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// There is a connection to some server.
    pub fn connected(&mut self, now: Millis) {
        self.tick(now);
        if !self.wants_connection() {
            return self.out.push_back(Output::Disconnect);
        }
        self.connection =
            Some(Connection { opened: false, open_sent_at: now, asked_at: now, keep_alives: VecDeque::new() });
        self.attempts += 1;
        let Config { session, ttl_ms, label, host, pid, secret, .. } = self.config.clone();
        let (attempt, resume) = (self.attempts, self.opened);
        self.send(ToServer::Open(Open { session, attempt, ttl_ms, label, host, pid, resume, secret }));
    }

    /// The connection is broken. That ends nothing but itself.
    pub fn disconnected(&mut self, now: Millis) {
        self.tick(now);
        // A server that did not even answer the Open is of no use now.
        let another = self.connection.as_ref().is_some_and(|connection| !connection.opened);
        self.hang_up();
        if self.wants_connection() {
            self.out.push_back(Output::Connect { another });
        } else {
            self.finish(false);
        }
    }

    /// The server said something on the present connection.
    pub fn receive(&mut self, now: Millis, said: ToClient) {
        self.tick(now);
        if self.connection.is_none() {
            return;
        }
        match said {
            ToClient::Opened { session, ttl_ms } => self.on_opened(now, session, ttl_ms),
            ToClient::Alive { number } => self.on_alive(now, number),
            ToClient::Answer { number, answer } => self.on_answer(number, answer),
            ToClient::Revoked { acquire } => self.on_revoked(acquire),
            ToClient::Ended { reason, message } => self.on_ended(now, reason, message),
        }
        self.say_goodbye();
    }

    /// Ends the session: whatever it holds or waits for is over for the user at once.
    pub fn close(&mut self, now: Millis) {
        self.tick(now);
        if self.phase != Phase::Live {
            return;
        }
        let until = now.saturating_add(self.lease.ttl_ms());
        self.phase = Phase::Leaving { loss: Loss::Closed, until };
        self.event(Event::Lost(Loss::Closed));
        self.forget_wishes(&Loss::Closed);
        if self.opened {
            self.request(Operation::Close);
        } else {
            self.finish(false);
        }
    }

    /// Time goes by.
    pub fn tick(&mut self, now: Millis) {
        if self.phase == Phase::Live && self.state(now) == SessionState::Lost {
            self.run_out(now);
        }
        if matches!(self.phase, Phase::Leaving { until, .. } if now >= until) {
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

    /// When `tick` has to be called, at the latest, if nothing else happens.
    pub fn next_wake(&self) -> Option<Millis> {
        match self.phase {
            Phase::Live => {
                let at_risk = self.lease.at_risk_from().filter(|_| !self.told_at_risk);
                let timeout = self.timeouts.first().map(|timeout| timeout.at);
                let wakes = [self.lease.lost_from(), at_risk, timeout, self.keep_alive_at(), self.silent_at()];
                wakes.into_iter().flatten().min()
            }
            Phase::Leaving { until, .. } => Some(until),
            Phase::Finished(_) => None,
        }
    }

    /// The session at this moment, whether or not `tick` was called.
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

    /// The end of the lease: until this moment nobody else is granted what the session holds. It moves later with every
    /// acknowledgement, until the session is lost, which is a little before it. None if it was never acknowledged.
    pub fn deadline(&self) -> Option<Millis> {
        self.lease.deadline()
    }

    /// Why the session is lost, if it is.
    pub fn loss(&self, now: Millis) -> Option<Loss> {
        match &self.phase {
            Phase::Leaving { loss, .. } | Phase::Finished(loss) => Some(loss.clone()),
            Phase::Live => (self.state(now) == SessionState::Lost).then_some(Loss::Unacknowledged),
        }
    }

    /// Whether nothing more will come of it.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    fn wants_connection(&self) -> bool {
        match &self.phase {
            Phase::Live => true,
            // A Close is worth another connection. What is lost goes with the lease anyway.
            Phase::Leaving { loss, .. } => *loss == Loss::Closed,
            Phase::Finished(_) => false,
        }
    }

    fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.opened)
    }

    fn on_opened(&mut self, now: Millis, session: u64, ttl_ms: u64) {
        // Somebody else's answer counts as none: the connection stays silent and is given up.
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
        // Earlier ones could only confirm less.
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

    /// What was sent then is acknowledged now. `tick` came first, so that a session that is still live has not run
    /// out; one that is not live stays so.
    fn confirm(&mut self, now: Millis, sent_at: Millis) {
        if self.phase != Phase::Live {
            return;
        }
        self.lease.confirm(sent_at);
        // A first answer can be so late that it confirms nothing.
        if self.state(now) == SessionState::Lost {
            self.run_out(now);
        } else if self.told_at_risk && self.state(now) == SessionState::Alive {
            self.told_at_risk = false;
            self.event(Event::Confirmed);
        }
    }

    /// The user believes in nothing any more.
    fn become_lost(&mut self, now: Millis, loss: Loss) {
        let until = now.saturating_add(self.lease.ttl_ms());
        self.phase = Phase::Leaving { loss: loss.clone(), until };
        self.event(Event::Lost(loss.clone()));
        self.lose_claims(&loss);
    }

    /// What the server may still hold is given back on the present connection, if there is one; otherwise the lease has to end.
    fn run_out(&mut self, now: Millis) {
        self.become_lost(now, Loss::Unacknowledged);
        if self.is_connected() {
            self.say_goodbye();
        } else {
            self.finish(false);
        }
    }

    /// After a loss: once nothing is left to be given back, the session can be closed.
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

    /// When the oldest question that is not answered has waited for too long.
    fn silent_at(&self) -> Option<Millis> {
        let connection = self.connection.as_ref().filter(|_| self.phase == Phase::Live)?;
        let unanswered = match connection.keep_alives.front() {
            _ if !connection.opened => Some(connection.open_sent_at),
            keep_alive => keep_alive.map(|(_, sent_at)| *sent_at),
        };
        unanswered.map(|sent_at| sent_at + self.patience_ms())
    }

    /// How long a server may take to be reached, or to answer, before another one has its turn.
    pub fn patience_ms(&self) -> u64 {
        if self.opened { self.lease.patience() } else { self.lease.open_patience().min(self.config.open_patience_ms) }
    }

    fn give_up_silent_connection(&mut self, now: Millis) {
        if self.silent_at().is_some_and(|at| now >= at) {
            self.hang_up();
            self.out.push_back(Output::Connect { another: true });
        }
    }

    /// What was meant for a connection must not be sent on the next one: it begins with Open.
    fn hang_up(&mut self) {
        self.connection = None;
        self.out.retain(|output| !matches!(output, Output::Send(_)));
    }

    fn request(&mut self, operation: Operation) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.requests.insert(number, operation);
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

    /// The highest number before this one whose answer was seen, and those up to it whose answers were not. If they are too
    /// many, what comes after them is left for a later request to speak of.
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
