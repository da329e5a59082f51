//! A fake server. Each test decides what it answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_api::v1::locks_server::{Locks, LocksServer};
use baton_api::v1::members_server::{Members, MembersServer};
use baton_api::v1::{self, answer, client_frame, request::Operation, server_frame};
use baton_client::{Client, Session};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Hands every stream to the test.
struct Fake {
    streams: mpsc::UnboundedSender<Stream>,
    listings: Arc<Mutex<Vec<v1::ListLocksRequest>>>,
    cluster_id: u64,
    /// What it says of itself; none: it tells no status.
    role: Option<&'static str>,
}

pub(crate) struct Stream {
    pub(crate) frames: Streaming<v1::ClientFrame>,
    pub(crate) answers: mpsc::Sender<Result<v1::ServerFrame, Status>>,
    /// The cluster of the server.
    cluster_id: u64,
}

#[tonic::async_trait]
impl Locks for Fake {
    type SessionStream = ReceiverStream<Result<v1::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, frames) = mpsc::channel(64);
        let stream = Stream { frames: request.into_inner(), answers, cluster_id: self.cluster_id };
        self.streams.send(stream).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(frames)))
    }

    /// Four pages. Lock b continues over three of them, and one of the pieces is empty. Only the first piece of b has
    /// more than names.
    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Result<Response<v1::ListLocksResponse>, Status> {
        let request = request.into_inner();
        let (locks, next_page) = match &request.page[..] {
            [] => (vec![with_history("a"), by_permits(held("b", 1))], "2"),
            b"2" => (vec![], "3"),
            b"3" => (vec![held("b", 2)], "4"),
            b"4" => (vec![waited_for("b", 3), lock("c")], ""),
            other => return Err(Status::invalid_argument(format!("{other:?}"))),
        };
        let age_ms = request.local.then_some(if next_page == "4" { 40 } else { 5 });
        self.listings.lock().unwrap().push(request);
        Ok(Response::new(v1::ListLocksResponse { locks, next_page: next_page.into(), age_ms }))
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Result<Response<v1::GetLockResponse>, Status> {
        let request = request.into_inner();
        let (lock, next_page) = match (&request.name[..], &request.page[..]) {
            (b"a", b"") => (Some(by_permits(held("a", 1))), "2"),
            (b"a", b"2") => (Some(waited_for("a", 2)), "3"),
            _ => (None, ""),
        };
        let age_ms = request.local.then_some(20);
        Ok(Response::new(v1::GetLockResponse { lock, next_page: next_page.into(), age_ms }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let session = |id, hold: &str| v1::Session { id, holds: vec![hold.into()], ..v1::Session::default() };
        let request = request.into_inner();
        let (sessions, next_page) = match &request.page[..] {
            [] => (vec![session(5, "a")], "2"),
            _ => (vec![session(5, "b"), session(6, "c")], ""),
        };
        let age_ms = (request.local && next_page.is_empty()).then_some(30);
        Ok(Response::new(v1::ListSessionsResponse { sessions, next_page: next_page.into(), age_ms }))
    }

    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let fence = u64::from(request.into_inner().now);
        let holders = vec![v1::Holder { fence, ..v1::Holder::default() }];
        Ok(Response::new(v1::ForceReleaseResponse { holders }))
    }

    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        match self.role.filter(|_| request.get_ref().own) {
            Some(role) => {
                let (role, cluster_id) = (role.to_owned(), self.cluster_id);
                Ok(Response::new(v1::GetStatusResponse { role, cluster_id, ..v1::GetStatusResponse::default() }))
            }
            None => Err(Status::failed_precondition("not today")),
        }
    }
}

/// The calls for members, in words, and the next answers. Without an answer, a call succeeds.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    pub(crate) answers: Arc<Mutex<VecDeque<Status>>>,
}

impl Changes {
    fn answer(&self, asked: String) -> Result<v1::Cluster, Status> {
        self.asked.lock().unwrap().push(asked);
        match self.answers.lock().unwrap().pop_front() {
            Some(status) => Err(status),
            None => Ok(v1::Cluster { id: 7, ..v1::Cluster::default() }),
        }
    }

    fn change(&self, asked: String) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        Ok(Response::new(v1::ChangeMembersResponse { cluster: Some(self.answer(asked)?), already: String::new() }))
    }
}

#[tonic::async_trait]
impl Members for Changes {
    type BackupStream = ReceiverStream<Result<v1::BackupPart, Status>>;

    async fn backup(&self, _: Request<v1::BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        Err(Status::unimplemented("this server makes no backups"))
    }

    async fn list(&self, _: Request<v1::ListMembersRequest>) -> Result<Response<v1::ListMembersResponse>, Status> {
        Ok(Response::new(v1::ListMembersResponse { cluster: Some(self.answer("list".to_owned())?) }))
    }

    async fn add(&self, request: Request<v1::AddMemberRequest>) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(format!("add {}", request.into_inner().name))
    }

    async fn promote(
        &self,
        request: Request<v1::PromoteMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(format!("promote {}", request.into_inner().member))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(format!("remove {}", request.into_inner().member))
    }

    async fn update(
        &self,
        request: Request<v1::UpdateMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        let v1::UpdateMemberRequest { member, name, peer_address, client_address } = request.into_inner();
        self.change(format!("update {member}: {name:?} {peer_address:?} {client_address:?}"))
    }

    async fn transfer(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(format!("transfer to {}", request.into_inner().member))
    }
}

pub(crate) fn lock(name: &str) -> v1::Lock {
    v1::Lock { name: name.into(), ..v1::Lock::default() }
}

pub(crate) fn with_history(name: &str) -> v1::Lock {
    v1::Lock { history: vec![v1::Past::default()], ..lock(name) }
}

pub(crate) fn held(name: &str, fence: u64) -> v1::Lock {
    v1::Lock { holders: vec![v1::Holder { fence, ..v1::Holder::default() }], ..lock(name) }
}

pub(crate) fn waited_for(name: &str, session: u64) -> v1::Lock {
    let waiter = v1::Waiter { session, mode: v1::Mode::Permit.into(), ..v1::Waiter::default() };
    v1::Lock { waiters: vec![waiter], ..lock(name) }
}

pub(crate) fn by_permits(lock: v1::Lock) -> v1::Lock {
    v1::Lock { mode: v1::Mode::Permit.into(), permits: 3, ..lock }
}

/// A fake server on a free port, and the streams that clients opened.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) listings: Arc<Mutex<Vec<v1::ListLocksRequest>>>,
    pub(crate) streams: mpsc::UnboundedReceiver<Stream>,
    pub(crate) changes: Changes,
}

impl Server {
    /// A server that does not name its cluster, like an older one.
    pub(crate) async fn start() -> Self {
        Server::of_cluster(0).await
    }

    pub(crate) async fn of_cluster(cluster_id: u64) -> Self {
        Server::with(cluster_id, None).await
    }

    /// A server that tells its status.
    pub(crate) async fn as_a(role: &'static str, cluster_id: u64) -> Self {
        Server::with(cluster_id, Some(role)).await
    }

    async fn with(cluster_id: u64, role: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::unbounded_channel();
        let listings = Arc::<Mutex<_>>::default();
        let service = LocksServer::new(Fake { streams: sender, listings: Arc::clone(&listings), cluster_id, role });
        let changes = Changes::default();
        let members = MembersServer::new(changes.clone());
        let server = tonic::transport::Server::builder().add_service(service).add_service(members);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Server { address, listings, streams, changes }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.address.to_string()]).await.unwrap()
    }

    pub(crate) async fn stream(&mut self) -> Stream {
        self.streams.recv().await.unwrap()
    }

    /// Opens a session with this time to live. Returns the session and its stream.
    pub(crate) async fn session(&mut self, ttl: Duration) -> (Session, Stream) {
        let client = self.client().await;
        let opens = tokio::spawn(client.session().ttl(ttl).label("test").open());
        let mut stream = self.stream().await;
        stream.open().await;
        (opens.await.unwrap().unwrap(), stream)
    }
}

impl Stream {
    pub(crate) async fn frame(&mut self) -> client_frame::Frame {
        self.frames.message().await.unwrap().unwrap().frame.unwrap()
    }

    pub(crate) async fn say(&self, frame: server_frame::Frame) {
        self.answers.send(Ok(v1::ServerFrame { frame: Some(frame) })).await.unwrap();
    }

    pub(crate) async fn open(&mut self) -> v1::Open {
        let client_frame::Frame::Open(open) = self.frame().await else { panic!("Open comes first") };
        self.opened(&open).await;
        open
    }

    /// Reads the Open, and names this leader.
    pub(crate) async fn name_leader(&mut self, address: impl ToString) -> v1::Open {
        let client_frame::Frame::Open(open) = self.frame().await else { panic!("Open comes first") };
        let (name, address, cluster_id) = ("b".to_owned(), address.to_string(), self.cluster_id);
        let leader = v1::Leader { node: 2, name, address, cluster_id };
        self.say(server_frame::Frame::Leader(leader)).await;
        open
    }

    /// The leader opens the session, and the follower carries its answer.
    pub(crate) async fn opened(&self, open: &v1::Open) {
        let v1::Open { session, ttl_ms, .. } = *open;
        let cluster_id = self.cluster_id;
        self.say(server_frame::Frame::Opened(v1::Opened { session, ttl_ms, cluster_id, closed_ms: 0 })).await;
    }

    /// Waits until the client has ended the stream.
    pub(crate) async fn ends(&mut self) {
        while let Ok(Some(_)) = self.frames.message().await {}
    }

    /// Returns the next request. Answers keep-alives until it comes.
    pub(crate) async fn request(&mut self) -> (u64, Operation) {
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

    pub(crate) async fn answer(&self, number: u64, answer: answer::Answer) {
        self.say(server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) })).await;
    }

    pub(crate) async fn grant(&mut self, fence: u64) -> v1::Acquire {
        let (number, Operation::Acquire(acquire)) = self.request().await else { panic!("not an acquire") };
        self.answer(number, answer::Answer::Granted(v1::Granted { fence })).await;
        acquire
    }

    pub(crate) async fn refuse(&self, number: u64, refusal: v1::Refusal, message: &str) {
        let refused = v1::Refused { refusal: refusal.into(), message: message.to_owned(), cycle: Vec::new() };
        self.answer(number, answer::Answer::Refused(refused)).await;
    }
}

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_secs(2);
/// A session with this time to live is lost 300 ms before the deadline.
pub(crate) const MEDIUM: Duration = Duration::from_secs(6);

pub(crate) fn released() -> answer::Answer {
    answer::Answer::Released(v1::Released {})
}

/// Starts a server that accepts connections, counts them, and sends nothing.
pub(crate) async fn silent_server() -> (String, Arc<AtomicUsize>) {
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

/// The address of a port that was free a moment ago, without a server.
pub(crate) async fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}
