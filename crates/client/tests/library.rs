//! The library against a server that says exactly what a test lets it say, over real connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_client::v1::locks_server::{Locks, LocksServer};
use baton_client::v1::{self, answer, client_frame, request::Operation, server_frame};
use baton_client::{
    AcquireError, BootTime, CallError, Client, CloseError, ConnectError, LockState, Loss, Mode, OpenError,
    ReleaseError, Session, SessionState,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Hands every stream to the test.
struct Fake {
    streams: mpsc::UnboundedSender<Stream>,
    listings: Arc<Mutex<Vec<v1::ListLocksRequest>>>,
}

/// The server's end of a stream.
struct Stream {
    frames: Streaming<v1::ClientFrame>,
    answers: mpsc::Sender<Result<v1::ServerFrame, Status>>,
}

#[tonic::async_trait]
impl Locks for Fake {
    type SessionStream = ReceiverStream<Result<v1::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, frames) = mpsc::channel(64);
        let stream = Stream { frames: request.into_inner(), answers };
        self.streams.send(stream).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(frames)))
    }

    /// Four pages: b goes on over three of them, of which one adds nothing.
    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Result<Response<v1::ListLocksResponse>, Status> {
        let request = request.into_inner();
        let (locks, next_page) = match &request.page[..] {
            [] => (vec![with_history("a"), held("b", 1)], "2"),
            b"2" => (vec![], "3"),
            b"3" => (vec![held("b", 2)], "4"),
            b"4" => (vec![waited_for("b", 3), lock("c")], ""),
            other => return Err(Status::invalid_argument(format!("{other:?}"))),
        };
        self.listings.lock().unwrap().push(request);
        Ok(Response::new(v1::ListLocksResponse { locks, next_page: next_page.into() }))
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Result<Response<v1::GetLockResponse>, Status> {
        let request = request.into_inner();
        let (lock, next_page) = match (&request.name[..], &request.page[..]) {
            (b"a", b"") => (Some(held("a", 1)), "2"),
            (b"a", b"2") => (Some(waited_for("a", 2)), "3"),
            _ => (None, ""),
        };
        Ok(Response::new(v1::GetLockResponse { lock, next_page: next_page.into() }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let session = |id, hold: &str| v1::Session { id, holds: vec![hold.into()], ..v1::Session::default() };
        let (sessions, next_page) = match &request.into_inner().page[..] {
            [] => (vec![session(5, "a")], "2"),
            _ => (vec![session(5, "b"), session(6, "c")], ""),
        };
        Ok(Response::new(v1::ListSessionsResponse { sessions, next_page: next_page.into() }))
    }

    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let fence = u64::from(request.into_inner().now);
        let holders = vec![v1::Holder { fence, ..v1::Holder::default() }];
        Ok(Response::new(v1::ForceReleaseResponse { holders }))
    }

    async fn get_status(&self, _: Request<v1::GetStatusRequest>) -> Result<Response<v1::GetStatusResponse>, Status> {
        Err(Status::failed_precondition("not today"))
    }
}

fn lock(name: &str) -> v1::Lock {
    v1::Lock { name: name.into(), ..v1::Lock::default() }
}

fn with_history(name: &str) -> v1::Lock {
    v1::Lock { history: vec![v1::Past::default()], ..lock(name) }
}

fn held(name: &str, fence: u64) -> v1::Lock {
    v1::Lock { holders: vec![v1::Holder { fence, ..v1::Holder::default() }], ..lock(name) }
}

fn waited_for(name: &str, session: u64) -> v1::Lock {
    v1::Lock { waiters: vec![v1::Waiter { session, ..v1::Waiter::default() }], ..lock(name) }
}

/// A server on a free port, and the streams that reach it.
struct Server {
    address: SocketAddr,
    listings: Arc<Mutex<Vec<v1::ListLocksRequest>>>,
    streams: mpsc::UnboundedReceiver<Stream>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::unbounded_channel();
        let listings = Arc::<Mutex<_>>::default();
        let service = LocksServer::new(Fake { streams: sender, listings: Arc::clone(&listings) });
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Server { address, listings, streams }
    }

    async fn client(&self) -> Client {
        Client::connect([self.address.to_string()]).await.unwrap()
    }

    async fn stream(&mut self) -> Stream {
        self.streams.recv().await.unwrap()
    }

    /// A session of this time to live that was opened, and its stream.
    async fn session(&mut self, ttl: Duration) -> (Session, Stream) {
        let client = self.client().await;
        let opens = tokio::spawn(client.session().ttl(ttl).label("test").open());
        let mut stream = self.stream().await;
        stream.open().await;
        (opens.await.unwrap().unwrap(), stream)
    }
}

impl Stream {
    async fn frame(&mut self) -> client_frame::Frame {
        self.frames.message().await.unwrap().unwrap().frame.unwrap()
    }

    async fn say(&self, frame: server_frame::Frame) {
        self.answers.send(Ok(v1::ServerFrame { frame: Some(frame) })).await.unwrap();
    }

    /// Answers an Open.
    async fn open(&mut self) -> v1::Open {
        let client_frame::Frame::Open(open) = self.frame().await else { panic!("Open comes first") };
        self.say(server_frame::Frame::Opened(v1::Opened { session: open.session, ttl_ms: open.ttl_ms })).await;
        open
    }

    /// The next request; keep-alives are answered on the way.
    async fn request(&mut self) -> (u64, Operation) {
        loop {
            match self.frame().await {
                client_frame::Frame::Request(request) => return (request.number, request.operation.unwrap()),
                client_frame::Frame::KeepAlive(v1::KeepAlive { number }) => {
                    self.say(server_frame::Frame::Alive(v1::Alive { number })).await;
                }
                client_frame::Frame::Open(_) => panic!("a second Open"),
            }
        }
    }

    async fn answer(&self, number: u64, answer: answer::Answer) {
        self.say(server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) })).await;
    }

    /// Grants the next request.
    async fn grant(&mut self, fence: u64) -> v1::Acquire {
        let (number, Operation::Acquire(acquire)) = self.request().await else { panic!("not an acquire") };
        self.answer(number, answer::Answer::Granted(v1::Granted { fence })).await;
        acquire
    }

    async fn refuse(&self, number: u64, refusal: v1::Refusal, message: &str) {
        let refused = v1::Refused { refusal: refusal.into(), message: message.to_owned(), cycle: Vec::new() };
        self.answer(number, answer::Answer::Refused(refused)).await;
    }
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(2);
/// Lost 300 ms before the deadline.
const MEDIUM: Duration = Duration::from_secs(6);

fn released() -> answer::Answer {
    answer::Answer::Released(v1::Released {})
}

#[tokio::test]
async fn a_lock_is_acquired_and_given_back_and_a_session_closed() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").timeout(LONG).lock_delay(SHORT).acquire());
    let asked = stream.grant(40).await;
    assert_eq!((asked.name, asked.timeout_ms, asked.lock_delay_ms), (b"a".to_vec(), Some(60_000), 2_000));
    let guard = acquires.await.unwrap().unwrap();
    assert_eq!((guard.fence(), guard.state(), guard.name()), (Ok(40), LockState::Held, &b"a"[..]));
    assert!(guard.deadline() > BootTime::now());
    let releases = tokio::spawn(guard.release());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Release(v1::Release { acquire: 1 }));
    stream.answer(number, released()).await;
    assert_eq!(releases.await.unwrap(), Ok(()));
    let closes = tokio::spawn(session.close());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.answer(number, answer::Answer::Closed(v1::Closed {})).await;
    assert_eq!(closes.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn what_is_dropped_is_given_back() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    drop(acquires.await.unwrap().unwrap());
    assert_eq!(stream.request().await.1, Operation::Release(v1::Release { acquire: 1 }));
    // A future that is dropped while it waits.
    let acquires = tokio::spawn(session.lock("b").acquire());
    let (number, _) = stream.request().await;
    acquires.abort();
    assert_eq!(stream.request().await.1, Operation::Cancel(v1::Cancel { acquire: number }));
    drop(session);
    assert_eq!(stream.request().await.1, Operation::Close(v1::Close {}));
}

#[tokio::test]
async fn a_time_out_cancels() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquired = tokio::spawn(session.lock("a").timeout(Duration::from_millis(5)).acquire());
    let (number, _) = stream.request().await;
    assert_eq!(stream.request().await.1, Operation::Cancel(v1::Cancel { acquire: number }));
    assert_eq!(acquired.await.unwrap().unwrap_err(), AcquireError::TimedOut { name: b"a".to_vec() });
}

#[tokio::test]
async fn how_a_lock_is_wanted_reaches_the_server() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let shared = tokio::spawn(session.lock("a").mode(Mode::Shared).owner(77).acquire());
    let asked = stream.grant(1).await;
    assert_eq!((asked.mode(), asked.owner, asked.timeout_ms), (v1::Mode::Shared, 77, None));
    let permit = tokio::spawn(session.semaphore("s", 3).acquire());
    let asked = stream.grant(2).await;
    assert_eq!((asked.mode(), asked.permits), (v1::Mode::Permit, 3));
    let (shared, permit) = (shared.await.unwrap().unwrap(), permit.await.unwrap().unwrap());
    assert_eq!(shared.owner(), 77);
    assert_ne!(permit.owner(), shared.owner(), "each acquire has an owner of its own");
    let session_too = session.clone();
    let tried = tokio::spawn(async move { session_too.try_lock("a").await });
    let (number, Operation::Acquire(asked)) = stream.request().await else { panic!("not an acquire") };
    assert_eq!(asked.timeout_ms, Some(0));
    stream.refuse(number, v1::Refusal::NotAvailable, "").await;
    assert!(tried.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn refusals_say_why() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquired = tokio::spawn(session.semaphore("s", 3).acquire());
    let (number, _) = stream.request().await;
    stream.refuse(number, v1::Refusal::PermitsDiffer, "the lock has 2 permits, and the request says 3").await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused: the lock has 2 permits, and the request says 3");
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    let cycle = vec![v1::Wait { owner: 1, label: "me".into(), lock: "a".into() }];
    let refused = v1::Refused { refusal: v1::Refusal::Deadlock.into(), message: String::new(), cycle };
    stream.answer(number, answer::Answer::Refused(refused)).await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the request would wait for itself: 0000000000000001 (me) waits for \"a\"");
    // A mistake of the client's own, which is told like any other refusal.
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    stream.refuse(number, v1::Refusal::NumberReused, "request 3 asked for something else before").await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused: request 3 asked for something else before");
    for (name, bytes) in [(String::new(), 0), ("x".repeat(513), 513)] {
        let error = session.lock(name).acquire().await.unwrap_err();
        assert_eq!(error.to_string(), format!("the name of a lock has 1 to 512 bytes, not {bytes}"));
    }
}

#[tokio::test]
async fn a_name_is_any_bytes_and_shown_escaped_if_it_is_not_utf8() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock(b"caf\xe9\x1b").timeout(LONG).acquire());
    assert_eq!(stream.grant(1).await.name, b"caf\xe9\x1b");
    let guard = acquires.await.unwrap().unwrap();
    assert_eq!(guard.name(), b"caf\xe9\x1b");
    assert!(format!("{guard:?}").contains(r#"name: "caf\xe9\x1b""#), "{guard:?}");
    let acquired = tokio::spawn(session.lock(b"\xff").timeout(Duration::from_millis(5)).acquire());
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), r#"the lock "\xff" was not granted within the time-out"#);
    stream.request().await;
    stream.request().await;
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    let cycle = vec![v1::Wait { owner: 1, label: "me".into(), lock: b"a\\\xff".to_vec() }];
    let refused = v1::Refused { refusal: v1::Refusal::Deadlock.into(), message: String::new(), cycle };
    stream.answer(number, answer::Answer::Refused(refused)).await;
    let error = acquired.await.unwrap().unwrap_err();
    assert!(error.to_string().ends_with(r#"(me) waits for "a\\\xff""#), "{error}");
}

#[tokio::test]
async fn a_session_whose_end_is_refused_is_not_said_to_have_ended() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let closes = tokio::spawn(session.close());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.refuse(number, v1::Refusal::NumberReused, "request 1 asked for something else before").await;
    assert_eq!(closes.await.unwrap(), Err(CloseError::Unconfirmed));
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_what_was_asked_is_asked_again() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let held = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let held = held.await.unwrap().unwrap();
    let waits = tokio::spawn(session.lock("b").acquire());
    let before = stream.request().await;
    drop(stream);
    let mut stream = server.stream().await;
    let open = stream.open().await;
    assert_eq!((open.session, open.resume), (session.id(), true));
    assert_eq!(stream.request().await, before);
    stream.answer(before.0, answer::Answer::Granted(v1::Granted { fence: 41 })).await;
    assert_eq!(waits.await.unwrap().unwrap().fence(), Ok(41));
    assert_eq!(held.fence(), Ok(40));
}

#[tokio::test]
async fn a_silent_server_means_at_risk_and_then_lost_while_there_is_time_to_stop() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(MEDIUM).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    // Nothing is answered from here on, on whatever connection.
    assert_eq!(guard.changed(LockState::Held).await, LockState::AtRisk);
    assert_eq!(guard.fence(), Ok(40));
    assert_eq!(guard.lost().await, Loss::Unacknowledged);
    assert_eq!(guard.changed(LockState::Held).await, LockState::Lost);
    assert_eq!((guard.state(), guard.fence()), (LockState::Lost, Err(Loss::Unacknowledged)));
    assert_eq!((session.state(), session.lost().await), (SessionState::Lost, Loss::Unacknowledged));
    assert_eq!(guard.release().await, Err(ReleaseError::Unconfirmed(Loss::Unacknowledged)));
    assert_eq!(session.lock("b").acquire().await.unwrap_err(), AcquireError::Lost(Loss::Unacknowledged));
    assert_eq!(session.close().await, Err(CloseError::Unconfirmed));
}

#[tokio::test]
async fn a_late_answer_ends_the_risk() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(MEDIUM).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    let client_frame::Frame::KeepAlive(v1::KeepAlive { number }) = stream.frame().await else { panic!("not one") };
    assert_eq!(guard.changed(LockState::Held).await, LockState::AtRisk);
    stream.say(server_frame::Frame::Alive(v1::Alive { number })).await;
    assert_eq!(guard.changed(LockState::AtRisk).await, LockState::Held);
}

/// Accepts connections, and never says a word on them. Counts them.
async fn silent_server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, accepted) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok(connection) = listener.accept().await {
            connections.push(connection);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, accepted)
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_passed_over_within_its_share_of_the_time() {
    let mut server = Server::start().await;
    let (silent, accepted) = silent_server().await;
    let client = Client::connect([silent, server.address.to_string()]).await.unwrap();
    // Which of them a session asks first is random: until it was the silent one. Those that are open stay so, and do not
    // come back to be closed.
    let mut opened = Vec::new();
    while accepted.load(Ordering::Relaxed) < 2 {
        let opens = tokio::spawn(client.session().ttl(LONG).open_timeout(MEDIUM).open());
        let mut stream = server.stream().await;
        stream.open().await;
        let session = opens.await.unwrap().unwrap();
        assert_eq!(session.state(), SessionState::Alive);
        opened.push((session, stream));
    }
}

#[tokio::test]
async fn keep_alives_move_the_deadline() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(SHORT).await;
    let first = session.deadline();
    for _ in 0..2 {
        let client_frame::Frame::KeepAlive(v1::KeepAlive { number }) = stream.frame().await else { panic!("not one") };
        stream.say(server_frame::Frame::Alive(v1::Alive { number })).await;
    }
    // The third is sent after the second was acknowledged.
    assert!(matches!(stream.frame().await, client_frame::Frame::KeepAlive(_)));
    assert!(session.deadline() > first);
    assert_ne!(session.state(), SessionState::Lost);
}

#[tokio::test]
async fn a_revoked_lock_is_lost_at_once_and_given_back_when_its_user_has_stopped() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    stream.say(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 })).await;
    assert_eq!(guard.lost().await, Loss::Revoked);
    assert_eq!((guard.state(), guard.fence()), (LockState::Lost, Err(Loss::Revoked)));
    assert_eq!(session.state(), SessionState::Alive);
    let releases = tokio::spawn(guard.release());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Release(v1::Release { acquire: 1 }));
    stream.answer(number, released()).await;
    assert_eq!(releases.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn an_ended_session_is_lost_at_once() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let waits = tokio::spawn(session.lock("a").acquire());
    stream.request().await;
    let reason = v1::ended::Reason::Expired.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: "too late".into() })).await;
    let loss = Loss::Ended("too late".to_owned());
    assert_eq!(waits.await.unwrap().unwrap_err(), AcquireError::Lost(loss.clone()));
    assert_eq!(session.lost().await, loss);
    assert_eq!(session.close().await, Ok(()));
}

#[tokio::test]
async fn a_session_that_is_refused_says_why() {
    let mut server = Server::start().await;
    let client = server.client().await;
    let opens = tokio::spawn(client.session().open());
    let mut stream = server.stream().await;
    stream.frame().await;
    let reason = v1::ended::Reason::Invalid.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: "no label".into() })).await;
    let error = opens.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server opens no session: no label");
    let error = client.session().ttl(Duration::from_millis(999)).open().await.unwrap_err();
    assert_eq!(error.to_string(), "a session lives from 1 to 86400 seconds after its last keep-alive, not 0.999 s");
}

#[tokio::test]
async fn a_session_that_nobody_opens_says_so() {
    let server = Server::start().await;
    let session = server.client().await.session().open_timeout(Duration::from_millis(10));
    let OpenError::NoAnswer { reason } = session.open().await.unwrap_err() else { panic!("another error") };
    // By then one attempt may have been given up already.
    assert!(reason.contains("accept") && reason.contains("not answer"), "{reason}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let mut server = Server::start().await;
    // A port that was free a moment ago, with nobody behind it.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let client = Client::connect([nobody.clone(), server.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().open());
    server.stream().await.open().await;
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
    let error = Client::connect_once([&nobody], Duration::from_secs(60)).await.unwrap_err();
    let ConnectError::NoServer { reasons } = error else { panic!("connected to nobody") };
    assert!(reasons.starts_with(&nobody) && reasons.contains("refused"), "{reasons}");
}

#[tokio::test]
async fn pages_are_put_together_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let b = v1::Lock { holders: [held("b", 1).holders, held("b", 2).holders].concat(), ..waited_for("b", 3) };
    let locks = client.locks().prefix(b"\xff").history(true).collect().await.unwrap();
    assert_eq!(locks, [with_history("a"), b.clone(), lock("c")]);
    let asked: Vec<_> = server.listings.lock().unwrap().drain(..).collect();
    let request =
        |page: &[u8]| v1::ListLocksRequest { prefix: b"\xff".to_vec(), page: page.to_vec(), history: true, all: false };
    assert_eq!(asked, [request(b""), request(b"2"), request(b"3"), request(b"4")]);
    // Page by page each lock comes when nothing can be added to it any more.
    let mut listing = client.locks().all(true);
    assert_eq!(listing.next().await.unwrap(), Some(vec![with_history("a")]));
    assert_eq!(listing.next().await.unwrap(), Some(vec![b, lock("c")]));
    assert_eq!(listing.next().await.unwrap(), None);
    assert_eq!(listing.next().await.unwrap(), None);
    assert!(server.listings.lock().unwrap().iter().all(|request| request.all && !request.history));

    let a = v1::Lock { waiters: waited_for("a", 2).waiters, ..held("a", 1) };
    assert_eq!(client.get_lock("a").await.unwrap(), Some(a));
    let sessions = client.list_sessions().await.unwrap();
    let holds: Vec<(u64, Vec<Vec<u8>>)> = sessions.into_iter().map(|session| (session.id, session.holds)).collect();
    assert_eq!(holds, [(5, vec![b"a".to_vec(), b"b".to_vec()]), (6, vec![b"c".to_vec()])]);
}

#[tokio::test]
async fn the_service_can_be_looked_at() {
    let server = Server::start().await;
    let client = server.client().await;
    let names: Vec<Vec<u8>> = client.list_locks().await.unwrap().into_iter().map(|lock| lock.name).collect();
    assert_eq!(names, [b"a", b"b", b"c"]);
    assert_eq!(client.get_lock("b").await.unwrap(), None);
    assert_eq!(client.force_release("a", true).await.unwrap()[0].fence, 1);
    assert!(matches!(client.force_release("", true).await, Err(CallError::InvalidName(_))));
    assert_eq!(client.status().await.unwrap_err().to_string(), "the server refused: not today");
}
