//! The gRPC methods for the members of a cluster.

use std::pin::Pin;
use std::sync::Arc;

use baton_api::v1;
use baton_api::v1::members_server::Members;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::backup;
use crate::host::{CallError, Host};
use crate::replica::{ChangeError, MemberChange, Replica};

/// The most backups that a server makes at a time. Each keeps a copy of the state and a thread until its client has read it.
const BACKUPS_MAX: usize = 4;
/// The parts of a backup that wait for its client.
const PARTS_AHEAD: usize = 2;
/// A message has at most this many bytes of a backup.
const PART_BYTES: usize = 256 << 10;

pub struct GrpcMembers<R: Replica> {
    host: Arc<Host<R>>,
    /// Places for backups.
    backups: Arc<Semaphore>,
}

impl<R: Replica> GrpcMembers<R> {
    pub fn new(host: Arc<Host<R>>) -> Self {
        GrpcMembers { host, backups: Arc::new(Semaphore::new(BACKUPS_MAX)) }
    }

    async fn change(&self, change: MemberChange) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        let already = self.host.change_members(change).await.map_err(refused)?.unwrap_or_default();
        let cluster = self.host.cluster().await.map(Into::into);
        Ok(Response::new(v1::ChangeMembersResponse { cluster, already }))
    }
}

#[tonic::async_trait]
impl<R: Replica> Members for GrpcMembers<R> {
    type BackupStream = Pin<Box<dyn Stream<Item = Result<v1::BackupPart, Status>> + Send>>;

    async fn backup(&self, _: Request<v1::BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        let place = self.backups.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("this server makes {BACKUPS_MAX} backups already; try again later"))
        })?;
        let (about, state) = self.host.backup().await.map_err(not_read)?;
        let (parts, receiver) = mpsc::channel(PARTS_AHEAD);
        // Waits for the client in a thread of its own, because encoding the state takes long.
        tokio::task::spawn_blocking(move || {
            let _place = place;
            // An error means that the client is gone.
            let _ = backup::write(about, &state, |piece| {
                piece.chunks(PART_BYTES).try_for_each(|bytes| {
                    parts.blocking_send(Ok(v1::BackupPart { bytes: bytes.to_vec() })).map_err(drop)
                })
            });
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list(&self, _: Request<v1::ListMembersRequest>) -> Result<Response<v1::ListMembersResponse>, Status> {
        let cluster = self.host.cluster().await.map(Into::into);
        Ok(Response::new(v1::ListMembersResponse { cluster }))
    }

    async fn add(&self, request: Request<v1::AddMemberRequest>) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(MemberChange::Add { name: request.into_inner().name }).await
    }

    async fn promote(
        &self,
        request: Request<v1::PromoteMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(MemberChange::Promote { member: request.into_inner().member }).await
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(MemberChange::Remove { member: request.into_inner().member }).await
    }

    async fn update(
        &self,
        request: Request<v1::UpdateMemberRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        let v1::UpdateMemberRequest { member, name, peer_address, client_address } = request.into_inner();
        self.change(MemberChange::Update { member, name, peer_address, client_address }).await
    }

    async fn transfer(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        self.change(MemberChange::Transfer { member: request.into_inner().member }).await
    }
}

fn not_read(error: CallError) -> Status {
    match error {
        CallError::Unavailable(why) => Status::unavailable(why),
        CallError::Invalid(why) => Status::failed_precondition(why),
        CallError::Unknown(why) => Status::aborted(why),
    }
}

fn refused(error: ChangeError) -> Status {
    match error {
        ChangeError::NotFound(why) => Status::not_found(why),
        ChangeError::Refused(why) => Status::failed_precondition(why),
        ChangeError::Unavailable(why) => Status::unavailable(why),
        ChangeError::Unknown(why) => Status::aborted(why),
    }
}
