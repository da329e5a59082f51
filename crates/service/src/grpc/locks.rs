//! The gRPC methods of the service: one stream per session, and calls to list and to force.

use std::pin::Pin;
use std::sync::Arc;

use baton_api::convert::{from_client, to_client};
use baton_api::v1;
use baton_api::v1::locks_server::Locks;
use baton_types::frames::{Malformed, Part};
use baton_types::views::Page;
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use super::calls::Peer;
use super::carry::client_address;
use crate::frontend::Closing;
use crate::host::{self, CallError, Host, Reading};
use crate::listing::ListLocks;
use crate::replica::Replica;

pub struct GrpcLocks<R: Replica>(Arc<Host<R>>);

impl<R: Replica> GrpcLocks<R> {
    pub fn new(host: Arc<Host<R>>) -> Self {
        GrpcLocks(host)
    }
}

#[tonic::async_trait]
impl<R: Replica> Locks for GrpcLocks<R> {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let peer = Peer::of(request.extensions())?;
        let from = client_address(request.metadata(), &peer);
        let (stream, heard) = self.0.stream(peer.connection, from);
        let (refuse, refused) = oneshot::channel();
        tokio::spawn(pass_on(stream, request.into_inner(), refuse));
        let said = heard.map_while(|said| match said {
            Ok(said) => Some(Ok(to_client(said))),
            // The client has received Ended or OtherCluster, so no error follows.
            Err(Closing::Ended | Closing::OtherCluster) => None,
            Err(why) => Some(Err(closed(&why))),
        });
        let refused = futures::stream::once(refused).filter_map(|refused| refused.ok().map(Err));
        Ok(Response::new(Box::pin(said.chain(refused))))
    }

    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Result<Response<v1::ListLocksResponse>, Status> {
        let v1::ListLocksRequest { prefix, page, history, all, local } = request.into_inner();
        let wanted = ListLocks { prefix, history, all, page };
        let (Page { items, next }, age_ms) = self.0.locks(&wanted, reading(local)).await.map_err(refused)?;
        let locks = items.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ListLocksResponse { locks, next_page: next, age_ms }))
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Result<Response<v1::GetLockResponse>, Status> {
        let v1::GetLockRequest { name, page, local } = request.into_inner();
        let (Page { items, next }, age_ms) = self.0.lock(&name, &page, reading(local)).await.map_err(refused)?;
        let lock = items.into_iter().next().map(Into::into);
        Ok(Response::new(v1::GetLockResponse { lock, next_page: next, age_ms }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let v1::ListSessionsRequest { page, local } = request.into_inner();
        let (Page { items, next }, age_ms) = self.0.sessions(&page, reading(local)).await.map_err(refused)?;
        let sessions = items.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ListSessionsResponse { sessions, next_page: next, age_ms }))
    }

    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let from = client_address(request.metadata(), &Peer::of(request.extensions())?);
        let v1::ForceReleaseRequest { name, now } = request.into_inner();
        let holders = self.0.force(&name, now, from).await.map_err(refused)?;
        let holders = holders.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ForceReleaseResponse { holders }))
    }

    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let status = if request.get_ref().own { self.0.own_status() } else { self.0.status().await };
        Ok(Response::new(status.into()))
    }
}

/// Passes the client's frames to the front end, until the client or the front end ends the stream. If a frame is beyond a
/// limit, `refuse` gets the status.
async fn pass_on<R: Replica>(
    mut stream: host::Stream<R>,
    mut frames: Streaming<v1::ClientFrame>,
    refuse: oneshot::Sender<Status>,
) {
    let ended = stream.ended();
    tokio::pin!(ended);
    loop {
        let frame = tokio::select! {
            frame = frames.message() => frame,
            () = &mut ended => return,
        };
        let said = match frame {
            Ok(Some(frame)) => from_client(frame),
            Ok(None) => return,
            Err(status) if status.code() == Code::ResourceExhausted => {
                // The send fails if the client is gone.
                let _ = refuse.send(status);
                return;
            }
            // If the connection is broken, the client does not receive this error.
            Err(status) => {
                let what = format!("the stream cannot be read: {}", status.message());
                Err(Malformed { part: Part::Unknown, what })
            }
        };
        let is_broken = matches!(&said, Err(Malformed { part: Part::Unknown, .. }));
        stream.hears(said).await;
        if is_broken {
            return;
        }
    }
}

fn reading(local: bool) -> Reading {
    if local { Reading::Local } else { Reading::Linearizable }
}

fn closed(why: &Closing) -> Status {
    let message = why.to_string();
    match why {
        Closing::NoOpen => Status::deadline_exceeded(message),
        Closing::TooManyStreams { .. } => Status::resource_exhausted(message),
        Closing::Protocol(_) => Status::invalid_argument(message),
        _ => Status::unavailable(message),
    }
}

fn refused(error: CallError) -> Status {
    match error {
        CallError::Unavailable(why) => Status::unavailable(why),
        CallError::Invalid(why) => Status::invalid_argument(why),
        CallError::Unknown(why) => Status::aborted(why),
    }
}
