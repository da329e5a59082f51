//! The gRPC service: a stream a session, and calls to look and to force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::client_frame::Frame;
use baton_proto::v1::locks_server::Locks;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::desk::{FRAMES_WAITING_MAX, Outgoing};
use super::service::Service;
use super::{inspect, wire};
use crate::state::{Caller, Command, Effect, Operation, Principal, SessionId, locks, sessions};

/// How long a stream may take to say whose it is.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// The service, as gRPC calls it.
#[derive(Clone)]
pub struct LocksService(Arc<Service>);

impl LocksService {
    /// Serves this.
    pub fn new(service: Arc<Service>) -> Self {
        LocksService(service)
    }

    /// Waits until the state is at least as new as this call.
    async fn current(&self) -> Result<(), Status> {
        self.0.node.read_index().await.map_err(unavailable)
    }
}

#[tonic::async_trait]
impl Locks for LocksService {
    type SessionStream = ReceiverStream<Result<v1::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (outgoing, frames) = mpsc::channel(FRAMES_WAITING_MAX);
        let (service, caller) = (Arc::clone(&self.0), caller(&request));
        tokio::spawn(async move {
            if let Err(status) = carry(&service, request.into_inner(), caller, &outgoing).await {
                // The client may be gone, and then nobody is left to tell.
                drop(outgoing.send(Err(status)).await);
            }
        });
        Ok(Response::new(ReceiverStream::new(frames)))
    }

    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Result<Response<v1::ListLocksResponse>, Status> {
        self.current().await?;
        inspect::list_locks(&self.0, request.get_ref()).map(Response::new).map_err(invalid)
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Result<Response<v1::GetLockResponse>, Status> {
        let v1::GetLockRequest { name, page } = request.into_inner();
        let name = wire::name(&name).map_err(invalid)?;
        self.current().await?;
        inspect::get_lock(&self.0, &name, &page).map(Response::new).map_err(invalid)
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        self.current().await?;
        inspect::list_sessions(&self.0, &request.get_ref().page).map(Response::new).map_err(invalid)
    }

    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let lock = wire::name(&request.name).map_err(invalid)?;
        let force = wire::force(request, caller).map_err(invalid)?;
        self.current().await?;
        let holders = inspect::holders(&self.0, &lock);
        let proposed = self.0.propose(force).await.map_err(unavailable)?;
        let outcome = proposed.await.map_err(unavailable)?.outcome;
        let told = |effect: &Effect| match effect {
            Effect::Locks(locks::Effect::Revoked { session, .. }) => Some(session.0),
            _ => None,
        };
        let told: BTreeSet<u64> = outcome.effects.iter().filter_map(told).collect();
        let holders = holders.into_iter().filter(|holder| told.contains(&holder.session)).collect();
        Ok(Response::new(v1::ForceReleaseResponse { holders }))
    }

    async fn get_status(&self, _: Request<v1::GetStatusRequest>) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(inspect::status(&self.0)))
    }
}

fn unavailable(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn invalid(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}

/// The caller of a request. There is no authentication yet, so every principal is anonymous.
fn caller<T>(request: &Request<T>) -> Caller {
    Caller { principal: Principal::Anonymous, from: request.remote_addr() }
}

/// Carries one stream, from its Open to its end.
async fn carry(
    service: &Service,
    mut frames: Streaming<v1::ClientFrame>,
    caller: Caller,
    outgoing: &Outgoing,
) -> Result<(), Status> {
    let first = tokio::time::timeout(OPEN_MAX, frames.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("the stream did not say whose it is: send Open"))??;
    let Some(Frame::Open(open)) = first.and_then(|frame| frame.frame) else {
        return Err(Status::invalid_argument("the first frame of a stream must be Open"));
    };
    let open = match wire::open(open, caller.clone()) {
        Ok(open) => open,
        Err(malformed) => return tell(outgoing, wire::malformed(&malformed)).await,
    };
    let session = open.session;
    if let Some(low) = service.low_space().filter(|_| !open.resume) {
        return tell(outgoing, wire::low_space(low)).await;
    }
    let (stream, given_up) = service.desk.attach(session, outgoing.clone());
    let carried = async {
        let opened = open_session(service, sessions::Command::Open(open).into(), outgoing);
        let listened = listen(service, session, &caller, &mut frames, outgoing);
        tokio::try_join!(opened, listened).map(|_| ())
    };
    let carried = tokio::select! {
        carried = carried => carried,
        _ = given_up => Ok(()),
    };
    service.desk.detach(session, stream);
    carried
}

/// Opens the session, and says so to the stream that asked and to no other: the client counts its lease from when it sent this
/// very Open, and an earlier one that is applied late, by a leader that is none any more, says nothing of that.
async fn open_session(service: &Service, command: Command, outgoing: &Outgoing) -> Result<(), Status> {
    let proposed = service.propose(command).await.map_err(unavailable)?;
    let applied = proposed.await.map_err(unavailable)?;
    let Some(&Effect::Opened { session, ttl_ms }) =
        applied.outcome.effects.iter().find(|effect| matches!(effect, Effect::Opened { .. }))
    else {
        // It has ended, and the desk has told it so.
        return Ok(());
    };
    if service.desk.state().leases.is_condemned(session) {
        return Ok(());
    }
    tell(outgoing, wire::opened(session, ttl_ms)).await
}

async fn tell(outgoing: &Outgoing, frame: v1::ServerFrame) -> Result<(), Status> {
    outgoing.send(Ok(frame)).await.map_err(|_| Status::cancelled("the client is gone"))
}

async fn listen(
    service: &Service,
    session: SessionId,
    caller: &Caller,
    frames: &mut Streaming<v1::ClientFrame>,
    outgoing: &Outgoing,
) -> Result<(), Status> {
    loop {
        let Some(frame) = frames.message().await? else { return Ok(()) };
        match frame.frame {
            Some(Frame::KeepAlive(v1::KeepAlive { number })) => service.desk.keep_alive(session, number)?,
            Some(Frame::Request(request)) => self::request(service, session, caller, request, outgoing).await?,
            Some(Frame::Open(_)) => {
                return Err(Status::invalid_argument("a stream carries one session: Open comes once"));
            }
            None => return Err(Status::invalid_argument("a frame that is neither Open, KeepAlive nor Request")),
        }
    }
}

pub(super) async fn request(
    service: &Service,
    session: SessionId,
    caller: &Caller,
    request: v1::Request,
    outgoing: &Outgoing,
) -> Result<(), Status> {
    let number = request.number;
    let request = match wire::request(session, request, caller.clone()) {
        Ok(request) => request,
        Err(malformed) => {
            return tell(outgoing, wire::refuse(number, v1::Refusal::Invalid, malformed.to_string())).await;
        }
    };
    let acquires = matches!(request.operation, Operation::Locks(locks::Operation::Acquire(_)));
    if let Some(message) = service.low_space().filter(|_| acquires) {
        return tell(outgoing, wire::refuse(number, v1::Refusal::LowSpace, message)).await;
    }
    service.submit(Command::Request(request)).await.map_err(unavailable)
}
