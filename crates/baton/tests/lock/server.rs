//! A fake server whose answers a test chooses.

use baton_api::v1::locks_server::{Locks, LocksServer};
use baton_api::v1::request::Operation;
use baton_api::v1::{self, answer::Answer as Word, client_frame, server_frame};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::processes::{heed_signals, now_ms, state};

pub const FENCE: u64 = 41;
/// How long the lock is held whenever it is listed.
const HELD_MS: u64 = 185_000;

/// The answer to an acquire.
#[derive(Clone, Copy)]
pub enum Answer {
    Granted,
    Refused(v1::Refusal),
    Nothing,
}

/// How a listing continues after its first page.
#[derive(Clone, Copy)]
pub enum Listing {
    IsOver,
    Fails,
    NeverEnds,
}

/// The requests that the server received, and how it behaves.
pub struct Facts {
    pub opened: Vec<v1::Open>,
    pub acquired: Vec<v1::Acquire>,
    /// What it heard of which session: `open`, `resume`, `acquire`, `close`.
    pub heard: Vec<(&'static str, u64)>,
    /// When the server last received an Open or a keep-alive.
    pub alive_ms: u64,
    /// Once a session was closed: the processes of `look_at` that existed then.
    pub closed: Option<Vec<u32>>,
    pub look_at: Vec<u32>,
    pub answer: Answer,
    /// The name of the only lock.
    pub lock: Vec<u8>,
    pub listing: Listing,
    /// The server refuses this many of the next Opens for low space.
    pub refuses_sessions: usize,
    pub silent: bool,
    acquire: u64,
    session: Option<mpsc::UnboundedSender<Result<v1::ServerFrame, Status>>>,
}

pub struct Server {
    facts: Arc<Mutex<Facts>>,
    pub address: String,
    _runtime: Runtime,
}

impl Server {
    pub fn start() -> Self {
        let facts = Facts {
            opened: Vec::new(),
            acquired: Vec::new(),
            heard: Vec::new(),
            alive_ms: 0,
            closed: None,
            look_at: Vec::new(),
            answer: Answer::Granted,
            lock: b"deploy".to_vec(),
            listing: Listing::IsOver,
            refuses_sessions: 0,
            silent: false,
            acquire: 0,
            session: None,
        };
        // Each test starts a server before it starts `baton lock`.
        heed_signals();
        let facts = Arc::new(Mutex::new(facts));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let play = LocksServer::new(Play(Arc::clone(&facts)));
        let incoming = TcpListenerStream::new(listener);
        runtime.spawn(tonic::transport::Server::builder().add_service(play).serve_with_incoming(incoming));
        Server { facts, address, _runtime: runtime }
    }

    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap()
    }

    /// Sends a frame that is not an answer.
    pub fn say(&self, frame: impl FnOnce(u64) -> server_frame::Frame) {
        let facts = self.facts();
        let frame = v1::ServerFrame { frame: Some(frame(facts.acquire)) };
        facts.session.as_ref().unwrap().send(Ok(frame)).unwrap();
    }
}

impl Facts {
    fn hear(&mut self, frame: client_frame::Frame) -> Option<server_frame::Frame> {
        if self.silent {
            return None;
        }
        match frame {
            client_frame::Frame::Open(_) if self.refuses_sessions > 0 => {
                self.refuses_sessions -= 1;
                let reason = v1::ended::Reason::LowSpace.into();
                Some(server_frame::Frame::Ended(v1::Ended { reason, message: "no room in /data".into() }))
            }
            client_frame::Frame::Open(open) => {
                self.alive_ms = now_ms();
                let opened = v1::Opened { session: open.session, ttl_ms: open.ttl_ms, ..v1::Opened::default() };
                self.heard.push((if open.resume { "resume" } else { "open" }, open.session));
                self.opened.push(open);
                Some(server_frame::Frame::Opened(opened))
            }
            client_frame::Frame::KeepAlive(v1::KeepAlive { number }) => {
                self.alive_ms = now_ms();
                Some(server_frame::Frame::Alive(v1::Alive { number }))
            }
            client_frame::Frame::Request(v1::Request { number, operation, .. }) => {
                let answer = self.answer(number, operation?)?;
                Some(server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) }))
            }
        }
    }

    fn answer(&mut self, number: u64, operation: Operation) -> Option<Word> {
        let session = self.opened.last().unwrap().session;
        match operation {
            Operation::Acquire(acquire) => {
                self.heard.push(("acquire", session));
                self.acquired.push(acquire);
                self.acquire = number;
                match self.answer {
                    Answer::Granted => Some(Word::Granted(v1::Granted { fence: FENCE })),
                    Answer::Refused(refusal) => {
                        let message = "not with me".into();
                        Some(Word::Refused(v1::Refused { refusal: refusal.into(), message, cycle: Vec::new() }))
                    }
                    Answer::Nothing => None,
                }
            }
            Operation::Release(_) => Some(Word::Released(v1::Released {})),
            Operation::Cancel(_) => {
                let outcome = v1::cancelled::Outcome::Removed.into();
                Some(Word::Cancelled(v1::Cancelled { outcome }))
            }
            Operation::Close(_) => {
                let there = self.look_at.iter().copied().filter(|&pid| state(pid).is_some());
                self.closed = Some(there.collect());
                self.heard.push(("close", session));
                Some(Word::Closed(v1::Closed {}))
            }
        }
    }
}

struct Play(Arc<Mutex<Facts>>);

#[tonic::async_trait]
impl Locks for Play {
    type SessionStream = UnboundedReceiverStream<Result<v1::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut frames = request.into_inner();
        let facts = Arc::clone(&self.0);
        facts.lock().unwrap().session = Some(sender.clone());
        tokio::spawn(async move {
            while let Ok(Some(frame)) = frames.message().await {
                let answer = facts.lock().unwrap().hear(frame.frame.unwrap());
                if let Some(answer) = answer {
                    // The client may be gone.
                    let _ = sender.send(Ok(v1::ServerFrame { frame: Some(answer) }));
                }
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }

    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Result<Response<v1::ListLocksResponse>, Status> {
        let page: u64 = String::from_utf8(request.into_inner().page).unwrap().parse().unwrap_or(0);
        let listing = self.0.lock().unwrap().listing;
        let next_page = match listing {
            Listing::IsOver => String::new(),
            Listing::Fails if page == 0 => "1".to_owned(),
            Listing::Fails => return Err(Status::data_loss("page 1 is lost")),
            Listing::NeverEnds => (page + 1).to_string(),
        };
        let lock = |number| v1::Lock { name: format!("{page}.{number}").into_bytes(), ..self.lock() };
        let locks = match listing {
            Listing::IsOver => vec![self.lock()],
            Listing::Fails | Listing::NeverEnds => (0..100).map(lock).collect(),
        };
        Ok(Response::new(v1::ListLocksResponse { locks, next_page: next_page.into(), age_ms: None }))
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Result<Response<v1::GetLockResponse>, Status> {
        let lock = Some(self.lock()).filter(|lock| lock.name == request.get_ref().name);
        Ok(Response::new(v1::GetLockResponse { lock, next_page: Vec::new(), age_ms: None }))
    }

    async fn list_sessions(
        &self,
        _: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let holds = vec![self.lock().name];
        let session = v1::Session { id: 10, label: "make".into(), holds, ..Default::default() };
        Ok(Response::new(v1::ListSessionsResponse { sessions: vec![session], next_page: Vec::new(), age_ms: None }))
    }

    async fn force_release(
        &self,
        _: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        Ok(Response::new(v1::ForceReleaseResponse { holders: self.lock().holders }))
    }

    async fn get_status(&self, _: Request<v1::GetStatusRequest>) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(v1::GetStatusResponse { node: 1, role: "leader".into(), ..Default::default() }))
    }
}

impl Play {
    fn lock(&self) -> v1::Lock {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let holder = v1::Holder {
            session: 10,
            owner: 11,
            label: "make".into(),
            host: "here".into(),
            fence: FENCE,
            since_ms: u64::try_from(now.as_millis()).unwrap() - HELD_MS,
            ..Default::default()
        };
        let facts = self.0.lock().unwrap();
        let waits = |open: &v1::Open| v1::Waiter {
            session: open.session,
            position: 2,
            mode: v1::Mode::Exclusive.into(),
            ..Default::default()
        };
        let waiters = match facts.answer {
            Answer::Nothing => facts.opened.last().map(waits).into_iter().collect(),
            Answer::Granted | Answer::Refused(_) => Vec::new(),
        };
        let (name, mode) = (facts.lock.clone(), v1::Mode::Exclusive.into());
        v1::Lock { name, mode, holders: vec![holder], waiters, ..Default::default() }
    }
}
