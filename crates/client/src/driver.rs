//! The I/O around the pure session: the clock, the connection, and the channels of the tasks that wait for an answer.
//! All decisions are in the session.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use baton_api::convert::{from_server, to_server};
use baton_api::v1::locks_client::LocksClient;
use baton_api::v1::{ClientFrame, ServerFrame};
use baton_types::cluster_id::ClusterId;
use baton_types::frames::{EndReason, Leader, ToClient};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::clock::BootTime;
use crate::error::OpenError;
use crate::failures::{Failure, Failures};
use crate::one_cluster;
use crate::pin::{By, Pin};
use crate::servers::{BACKOFF_MAX, Rounds, Servers, pause};
use crate::session::{
    AcquireNumber, Event, Hopeless, Loss, Millis, NotGranted, Output, ReleaseFailure, Session, SessionState, why_ended,
};

/// The result of an acquire. `Ok` has the fence.
pub(crate) type Granted = Result<u64, NotGranted>;
pub(crate) type Released = Result<(), ReleaseFailure>;

/// How often in a row a session follows the word of a follower before the session is open. While a leader changes, two
/// followers may name each other.
const MOVES_MAX: u32 = 3;

/// The state of the connection that the session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Unwanted,
    Wanted,
    /// The connection with this attempt number is in use.
    Up(u64),
}

/// A session with its connection state and the tasks that wait for it.
pub(crate) struct Shared {
    state: Mutex<State>,
    link: watch::Sender<Link>,
    /// Signals that the session was opened, is at risk, confirmed, lost or finished, that a lock was revoked, or that
    /// no server is left to try. `wait_for` then repeats its question.
    changed: watch::Sender<()>,
    /// Signals that the server confirmed every cancel and release, or that the session is lost.
    settled: watch::Sender<()>,
    /// Signals that the next wake-up is earlier than `armed_for`, or that the session is finished.
    rearmed: Notify,
    ttl_ms: u64,
    servers: Arc<Servers>,
    /// How often the client tries all servers until the session is open. After that the client tries them while the
    /// session lives.
    rounds: Rounds,
}

struct State {
    session: Session,
    outgoing: Option<mpsc::UnboundedSender<ClientFrame>>,
    /// The number of the server for the next connection.
    turn: usize,
    /// A connection to that server, if it exists already, and what the follower has said of its cluster.
    moved: Option<(Channel, Option<Pin>)>,
    /// What a follower has said of the cluster at the end of the current connection.
    named: Option<Pin>,
    /// How often the session moved to a leader since it was last open on a connection.
    moves: u32,
    acquiring: HashMap<AcquireNumber, Acquiring>,
    releasing: HashMap<AcquireNumber, oneshot::Sender<Released>>,
    /// `Some` when the session has ended: whether the server confirmed the end.
    finished: Option<bool>,
    armed_for: Option<Millis>,
    failures: Failures,
    /// Until when the cluster grants no lock, as the server said when it last opened the session.
    closed_until: Option<Instant>,
    /// The current attempt, until the server answers it.
    trying: Option<Trying>,
}

/// A task that waits for a lock.
struct Acquiring {
    granted: oneshot::Sender<Granted>,
    /// Receives the latest reason why the wait has no hope; none if the task does not want to know.
    hopeless: Option<watch::Sender<Option<Hopeless>>>,
}

/// Why a stream ended.
enum Broken {
    Status(Status),
    OtherCluster(Failure),
}

/// An attempt to reach a server.
struct Trying {
    turn: usize,
    since: Instant,
    /// Whether the server accepted the connection.
    accepts: bool,
}

impl Trying {
    /// The failure to record when the client stops waiting for this attempt.
    fn is_silent(&self) -> Failure {
        Failure::Silent { accepts: self.accepts, within: self.since.elapsed() }
    }
}

impl Shared {
    /// Starts a session in a background task, first at the server of this turn. The task ends when the session ends.
    pub(crate) fn spawn(
        session: Session,
        ttl_ms: u64,
        servers: Arc<Servers>,
        turn: usize,
        rounds: Rounds,
    ) -> Arc<Self> {
        let state = State {
            session,
            outgoing: None,
            turn: servers.first(turn),
            moved: None,
            named: None,
            moves: 0,
            acquiring: HashMap::new(),
            releasing: HashMap::new(),
            finished: None,
            armed_for: None,
            failures: Failures::default(),
            closed_until: None,
            trying: None,
        };
        let link = watch::Sender::new(Link::Unwanted);
        let (changed, settled) = (watch::Sender::new(()), watch::Sender::new(()));
        let (state, rearmed) = (Mutex::new(state), Notify::new());
        let shared = Arc::new(Shared { state, link, changed, settled, rearmed, ttl_ms, servers, rounds });
        shared.with(|session, _| {
            session.set_alternatives(shared.servers.count() > 1);
            session.start();
        });
        let driven = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                () = driven.keep_time() => {}
                () = driven.keep_connected() => {}
            }
        });
        shared
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds this lock. If it ever did, the state would still be usable.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads from the session at the current time.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Session, Millis) -> T) -> T {
        let state = self.state();
        question(&state.session, BootTime::now().as_millis())
    }

    /// Changes the session, then carries out all its outputs.
    pub(crate) fn with<T>(&self, tell: impl FnOnce(&mut Session, Millis) -> T) -> T {
        let mut state = self.state();
        self.tell(&mut state, tell)
    }

    fn tell<T>(&self, state: &mut State, tell: impl FnOnce(&mut Session, Millis) -> T) -> T {
        let was_settled = state.session.is_settled();
        let result = tell(&mut state.session, BootTime::now().as_millis());
        while let Some(output) = state.session.poll() {
            self.carry_out(state, output);
        }
        if !was_settled && state.session.is_settled() {
            self.settled.send_replace(());
        }
        let next = state.session.next_wake();
        if next.is_some_and(|next| state.armed_for.is_none_or(|armed_for| next < armed_for)) {
            state.armed_for = next;
            self.rearmed.notify_one();
        }
        result
    }

    fn carry_out(&self, state: &mut State, output: Output) {
        match output {
            Output::Connect { another } => {
                state.outgoing = None;
                if another {
                    state.turn = self.servers.after_failure(state.turn);
                }
                self.link.send_replace(Link::Wanted);
            }
            Output::Disconnect => {
                state.outgoing = None;
                self.link.send_replace(Link::Unwanted);
            }
            Output::Send(said) => {
                // The connection may just have ended. Then the session learns that next, and sends everything
                // again.
                let _ = state.outgoing.as_ref().map(|outgoing| outgoing.send(to_server(said)));
            }
            Output::Event(event) => self.pass_on(state, event),
        }
    }

    /// Sends the result to the task that waits for it. A task that has stopped waiting gives up its acquire itself.
    fn pass_on(&self, state: &mut State, event: Event) {
        match event {
            Event::Granted { acquire, fence } => {
                let _ = state.acquiring.remove(&acquire).map(|waiting| waiting.granted.send(Ok(fence)));
            }
            Event::Refused { acquire, refusal } => {
                let _ = state.acquiring.remove(&acquire).map(|waiting| waiting.granted.send(Err(refusal)));
            }
            Event::Hopeless { acquire, why } => {
                if let Some(hopeless) = state.acquiring.get(&acquire).and_then(|waiting| waiting.hopeless.as_ref()) {
                    hopeless.send_replace(Some(why));
                }
            }
            Event::Released { acquire, result } => {
                let _ = state.releasing.remove(&acquire).map(|waiting| waiting.send(result));
            }
            Event::Finished { confirmed } => {
                state.finished = Some(confirmed);
                self.rearmed.notify_one();
                self.changed.send_replace(());
            }
            Event::Lost(_) => {
                self.changed.send_replace(());
                self.settled.send_replace(());
            }
            // Only locks have a driver yet.
            Event::Answered { .. } => {}
            Event::Opened | Event::AtRisk | Event::Confirmed | Event::Revoked { .. } => {
                self.changed.send_replace(());
            }
        }
    }

    /// Requests a lock. The receiver gets the result. `hopeless` gets the reason whenever the server reports that the
    /// wait has no hope.
    pub(crate) fn acquire(
        &self,
        wish: &crate::session::Wish,
        hopeless: Option<watch::Sender<Option<Hopeless>>>,
    ) -> (AcquireNumber, oneshot::Receiver<Granted>) {
        let (granted, receiver) = oneshot::channel();
        let mut state = self.state();
        let number = state.session.acquire(BootTime::now().as_millis(), wish);
        state.acquiring.insert(number, Acquiring { granted, hopeless });
        self.tell(&mut state, |_, _| ());
        (number, receiver)
    }

    /// Gives up an acquire or a guard. The caller gets no result.
    pub(crate) fn give_up(&self, acquire: AcquireNumber) {
        let mut state = self.state();
        state.acquiring.remove(&acquire);
        self.tell(&mut state, |session, now| session.give_up(now, acquire));
    }

    /// Releases a lock. The receiver learns whether the server confirmed the release.
    pub(crate) fn release(&self, acquire: AcquireNumber) -> oneshot::Receiver<Released> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.releasing.insert(acquire, sender);
        self.tell(&mut state, |session, now| session.give_up(now, acquire));
        receiver
    }

    /// Whether the session is open, or why it cannot be opened. None while the client still tries.
    pub(crate) fn opened(&self) -> Option<Result<(), OpenError>> {
        let state = self.state();
        let now = BootTime::now().as_millis();
        match state.session.state(now) {
            SessionState::Opening if self.is_hopeless(&state, now) => Some(Err(self.unopened(&state))),
            SessionState::Opening => None,
            _ => Some(state.session.loss(now).map_or(Ok(()), |loss| Err(OpenError::Refused(loss)))),
        }
    }

    /// The error for a session that was not opened within the time limit.
    pub(crate) fn not_in_time(&self) -> OpenError {
        let mut state = self.state();
        if let Some(trying) = state.trying.take() {
            state.failures.note(&self.servers, trying.turn, trying.is_silent());
        }
        self.unopened(&state)
    }

    pub(crate) fn cluster_id(&self) -> Option<ClusterId> {
        self.servers.pin().map(|pin| pin.cluster)
    }

    /// How long the cluster grants no lock yet, as far as the server that opened the session knew. Zero: it grants locks.
    pub(crate) fn closed_for(&self) -> Duration {
        let until = self.state().closed_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    fn unopened(&self, state: &State) -> OpenError {
        OpenError::NoAnswer { reasons: state.failures.reasons(&self.servers) }
    }

    /// What went wrong at each server since one last opened the session; none if nothing did.
    pub(crate) fn trouble(&self) -> Option<String> {
        let state = self.state();
        (!state.failures.is_empty()).then(|| state.failures.reasons(&self.servers))
    }

    /// Whether the session is not open yet and no server is left to try. Always false for an open session.
    fn is_hopeless(&self, state: &State, now: Millis) -> bool {
        state.session.state(now) == SessionState::Opening && state.failures.is_hopeless(&self.servers, self.rounds)
    }

    /// Whether the server confirmed the end of the session. None while the session has not ended.
    fn finished(&self) -> Option<bool> {
        self.state().finished
    }

    /// Waits until the question has an answer. Repeats the question after every change of the session.
    pub(crate) async fn wait_for<T>(&self, question: impl FnMut(&Self) -> Option<T>) -> T {
        self.wait_on(&self.changed, question).await
    }

    /// Waits until the server has confirmed every cancel and release. Returns an error if the session is lost first.
    pub(crate) async fn settled(&self) -> Result<(), Loss> {
        let settled = |session: &Session, now| match session.loss(now) {
            Some(loss) => Some(Err(loss)),
            None => session.is_settled().then_some(Ok(())),
        };
        self.wait_on(&self.settled, |shared| shared.ask(settled)).await
    }

    async fn wait_on<T>(&self, sender: &watch::Sender<()>, mut question: impl FnMut(&Self) -> Option<T>) -> T {
        let mut told = sender.subscribe();
        loop {
            if let Some(answer) = question(self) {
                return answer;
            }
            // The sender is part of self, so the channel stays open.
            let _ = told.changed().await;
        }
    }

    /// Closes the session and waits for its end. Returns whether a server confirmed the end.
    pub(crate) async fn close(&self) -> bool {
        self.with(|session, now| session.close(now));
        self.wait_for(Shared::finished).await
    }

    /// Calls `tick` when the session asks for it. Timers run on CLOCK_MONOTONIC, which stands still while the machine
    /// sleeps. So the loop looks at the clock at least every second, or every tenth of a shorter time to live.
    async fn keep_time(&self) {
        let longest = (self.ttl_ms / 10).clamp(1, 1_000);
        while self.finished().is_none() {
            let next = {
                let mut state = self.state();
                self.tell(&mut state, |session, now| session.tick(now));
                state.armed_for = state.session.next_wake();
                state.armed_for
            };
            let now = BootTime::now().as_millis();
            let wait = next.map_or(longest, |next| next.saturating_sub(now).clamp(1, longest));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
                () = self.rearmed.notified() => {}
            }
        }
    }

    /// Connects whenever the session asks for a connection, with growing pauses between failed attempts. Returns when
    /// the session cannot be opened any more.
    async fn keep_connected(&self) {
        let mut link = self.link.subscribe();
        let mut failures = 0;
        for attempt in 0.. {
            if link.wait_for(|link| *link == Link::Wanted).await.is_err() {
                return;
            }
            tokio::time::sleep(self.pause(failures)).await;
            let turn = self.state().turn;
            match self.connection(turn, attempt).await {
                // The server answered on this connection, so the next attempt needs no pause.
                Ok(()) => failures = 0,
                Err(failure) => {
                    failures += 1;
                    if self.failed(turn, failure) {
                        return;
                    }
                }
            }
        }
    }

    /// Records a failure. Returns whether no server is left to try.
    fn failed(&self, turn: usize, failure: Failure) -> bool {
        let mut state = self.state();
        state.failures.note(&self.servers, turn, failure);
        let is_hopeless = self.is_hopeless(&state, BootTime::now().as_millis());
        if is_hopeless {
            self.changed.send_replace(());
        }
        is_hopeless
    }

    /// The pauses grow from round to round, not from server to server: while a leader changes, the next server may
    /// already know the new one.
    fn pause(&self, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let rounds = failures.div_ceil(u32::try_from(self.servers.count()).unwrap_or(u32::MAX));
        pause(rounds, BACKOFF_MAX.min(Duration::from_millis(self.ttl_ms / 10)))
    }

    /// Runs one connection from connecting to its end. Returns an error if the server answered nothing.
    async fn connection(&self, turn: usize, attempt: u64) -> Result<(), Failure> {
        let channel = self.connected(turn).await?;
        self.check_list(turn, &channel).await?;
        let (outgoing, frames) = mpsc::unbounded_channel();
        {
            let mut state = self.state();
            if *self.link.borrow() != Link::Wanted {
                return Ok(());
            }
            state.outgoing = Some(outgoing);
            state.trying.iter_mut().for_each(|trying| trying.accepts = true);
            self.link.send_replace(Link::Up(attempt));
            // The session takes the time now, before the Open is sent. So the lease ends too early rather than too
            // late.
            let cluster = self.servers.pin().or_else(|| state.named.clone()).map(|pin| pin.cluster);
            self.tell(&mut state, |session, now| {
                session.is_meant_for(cluster);
                session.connected(now);
            });
        }
        let mut link = self.link.subscribe();
        let ended = {
            let (told, leader) = oneshot::channel();
            let stream = async {
                let mut locks = LocksClient::new(channel);
                let incoming = locks.session(UnboundedReceiverStream::new(frames)).await.map_err(Broken::Status)?;
                self.listen(turn, attempt, incoming.into_inner(), told).await
            };
            tokio::select! {
                biased;
                _ = link.wait_for(|link| *link != Link::Up(attempt)) => None,
                ended = stream => Some(ended),
                // When this has moved the session, the first branch ends the connection.
                never = self.move_to_leader(turn, attempt, leader) => match never {},
            }
        };
        // `trying` is None if the server has answered anything.
        let unanswered = {
            let mut state = self.state();
            if *self.link.borrow() == Link::Up(attempt) {
                self.tell(&mut state, |session, now| session.disconnected(now));
            }
            state.trying.take()
        };
        match (unanswered, ended) {
            (None, _) => Ok(()),
            (Some(trying), None) => Err(trying.is_silent()),
            (Some(_), Some(Ok(()))) => {
                Err(Failure::Passing(format!("{} ended the stream without an answer", self.servers.address(turn))))
            }
            (Some(_), Some(Err(Broken::Status(status)))) => Err(self.servers.explain(turn, &status).await),
            (Some(_), Some(Err(Broken::OtherCluster(failure)))) => Err(failure),
        }
    }

    /// Returns the connection to the leader that the session moves to, or connects to the server of this turn.
    async fn connected(&self, turn: usize) -> Result<Channel, Failure> {
        let (moved, within) = {
            let mut state = self.state();
            let (moved, named) = state.moved.take().unzip();
            state.named = named.flatten();
            state.trying = Some(Trying { turn, since: Instant::now(), accepts: moved.is_some() });
            (moved, Duration::from_millis(state.session.patience_ms()))
        };
        if let Some(channel) = moved {
            return Ok(channel);
        }
        self.servers.connect(turn, within).await.inspect_err(|_| {
            let mut state = self.state();
            state.trying = None;
            // The session does not know of this attempt, so it cannot ask for another server.
            state.turn = self.servers.after_failure(turn);
        })
    }

    /// Waits until the server, a follower, names the leader. Then connects to the leader, and moves the session there.
    /// Meanwhile, and if the leader cannot be reached, the follower carries the session.
    async fn move_to_leader(&self, turn: usize, attempt: u64, leader: oneshot::Receiver<Leader>) -> Infallible {
        let named = leader.await;
        let within = Duration::from_millis(self.ask(|session, _| session.patience_ms()));
        if let Ok(Leader { address, .. }) = named
            && self.state().moves < MOVES_MAX
            && let Some((channel, server)) = self.servers.connect_leader(turn, &address, within).await
        {
            self.moves(attempt, server, channel);
        }
        std::future::pending().await
    }

    /// Moves the session to this server, unless the session gives up the present connection by itself.
    fn moves(&self, attempt: u64, server: usize, channel: Channel) {
        let mut state = self.state();
        if *self.link.borrow() != Link::Up(attempt) {
            return;
        }
        // The session may just have lost patience. Then it asks for another server than the silent one, and that is not
        // the leader.
        if self.tell(&mut state, |session, now| session.moves(now)) {
            let named = state.named.take();
            (state.turn, state.moved, state.trying) = (server, Some((channel, named)), None);
            state.moves += 1;
        }
        self.tell(&mut state, |session, _| session.set_alternatives(true));
    }

    /// Fails if the servers that the user named belong to different clusters. Then no server is left to try.
    async fn check_list(&self, turn: usize, channel: &Channel) -> Result<(), Failure> {
        let patience = Duration::from_millis(self.ask(|session, _| session.patience_ms()));
        let Err(refusal) = one_cluster::check(&self.servers, turn, channel, patience).await else { return Ok(()) };
        let mut state = self.state();
        state.trying = None;
        for server in 0..self.servers.count() {
            state.failures.note(&self.servers, server, Failure::Final(refusal.clone()));
        }
        Err(Failure::Final(refusal))
    }

    /// Refuses a server of another cluster, before the session hears that it is open.
    fn check_cluster(&self, state: &mut State, turn: usize, said: Option<&ToClient>) -> Result<(), Failure> {
        let named = state.named.as_ref();
        match said {
            Some(ToClient::Opened { cluster, .. }) => self.servers.opened(turn, named, *cluster),
            Some(ToClient::Leader(Leader { cluster, address, .. })) => {
                self.servers.belongs(turn, named, *cluster)?;
                let by = By::Follower { follower: self.servers.address(turn), leader: address.clone() };
                state.named = cluster.map(|cluster| Pin { cluster, by });
                Ok(())
            }
            Some(ToClient::OtherCluster { cluster }) => {
                self.servers.belongs(turn, named, Some(*cluster))?;
                let address = self.servers.address(turn);
                Err(Failure::Passing(format!("{address} refused the session: it belongs to cluster {cluster}")))
            }
            _ => Ok(()),
        }
    }

    async fn listen(
        &self,
        turn: usize,
        attempt: u64,
        mut incoming: Streaming<ServerFrame>,
        told: oneshot::Sender<Leader>,
    ) -> Result<(), Broken> {
        let mut told = Some(told);
        while let Some(frame) = incoming.message().await.map_err(Broken::Status)? {
            // `said` is None for a frame of a newer server that this client does not know.
            let said = from_server(frame);
            // The server did not open the session, but may have room later. Handle this like a refused connection: try
            // again.
            if let Some(ToClient::Ended { reason, message }) = &said
                && matches!(reason, EndReason::LowSpace | EndReason::TooManySessions)
            {
                return Err(Broken::Status(Status::resource_exhausted(why_ended(*reason, message.clone()))));
            }
            let mut state = self.state();
            if *self.link.borrow() == Link::Up(attempt) {
                self.check_cluster(&mut state, turn, said.as_ref()).map_err(Broken::OtherCluster)?;
            }
            // A follower that names the leader has not answered the Open yet.
            if !matches!(said, Some(ToClient::Leader(_))) {
                state.trying = None;
            }
            // Ignore frames of an old connection.
            if *self.link.borrow() != Link::Up(attempt) {
                return Ok(());
            }
            match said {
                Some(ToClient::Leader(leader)) => {
                    // The receiver waits on the same connection.
                    let _ = told.take().map(|told| told.send(leader));
                }
                Some(said) => {
                    if let ToClient::Opened { closed_ms, .. } = said {
                        state.closed_until = Instant::now().checked_add(Duration::from_millis(closed_ms));
                        state.moves = 0;
                        state.failures = Failures::default();
                    }
                    self.tell(&mut state, |session, now| session.receive(now, said));
                }
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Config;

    fn shared(servers: &[&str], ttl_ms: u64) -> Arc<Shared> {
        let servers = Arc::new(Servers::parse(servers).unwrap());
        let (label, host) = (String::new(), String::new());
        let (open_patience_ms, pid, secret) = (60_000, 1, None);
        let config = Config { session: 9, ttl_ms, label, host, pid, secret, open_patience_ms };
        Shared::spawn(Session::new(config), ttl_ms, servers, 0, Rounds::Until)
    }

    /// The task of the session does not run: these tests do not wait for anything.
    #[tokio::test]
    async fn a_session_that_leaves_a_silent_follower_does_not_blame_the_leader() {
        for (opened_at, goes_to_leader) in [(BootTime::now().as_millis(), true), (0, false)] {
            let shared = shared(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"], 1_000);
            shared.link.send_replace(Link::Up(0));
            shared.with(|session, _| session.connected(opened_at));
            let leader = tonic::transport::Endpoint::from_static("http://127.0.0.1:3").connect_lazy();
            shared.moves(0, 2, leader);
            let state = shared.state();
            let turn = if goes_to_leader { 2 } else { 1 };
            assert_eq!((state.turn, state.moved.is_some()), (turn, goes_to_leader));
        }
    }

    #[tokio::test]
    async fn nobody_is_remembered_who_no_longer_waits() {
        let shared = shared(&["127.0.0.1:1"], 60_000);
        let key = crate::handle::SessionKey { session: 9, secret: [0; 32], ttl_ms: 60_000 };
        let session = crate::handle::Session { handle: Arc::new(crate::handle::Handle { shared, key }) };
        for _ in 0..1_000 {
            let mut acquires = Box::pin(session.lock("a").acquire());
            let waits = std::future::poll_fn(|context| std::task::Poll::Ready(acquires.as_mut().poll(context)));
            assert!(waits.await.is_pending());
        }
        assert_eq!(session.handle.shared.state().acquiring.len(), 0);
    }
}
