//! The gRPC methods for the members of a cluster.

use std::sync::Arc;

use baton_api::v1;
use baton_api::v1::members_server::Members;
use tonic::{Request, Response, Status};

use crate::host::Host;
use crate::replica::{ChangeError, MemberChange, Replica};

pub struct GrpcMembers<R: Replica>(Arc<Host<R>>);

impl<R: Replica> GrpcMembers<R> {
    pub fn new(host: Arc<Host<R>>) -> Self {
        GrpcMembers(host)
    }

    async fn change(&self, change: MemberChange) -> Result<Response<v1::ChangeMembersResponse>, Status> {
        let already = self.0.change_members(change).await.map_err(refused)?.unwrap_or_default();
        let cluster = self.0.cluster().await.map(Into::into);
        Ok(Response::new(v1::ChangeMembersResponse { cluster, already }))
    }
}

#[tonic::async_trait]
impl<R: Replica> Members for GrpcMembers<R> {
    async fn list(&self, _: Request<v1::ListMembersRequest>) -> Result<Response<v1::ListMembersResponse>, Status> {
        let cluster = self.0.cluster().await.map(Into::into);
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

fn refused(error: ChangeError) -> Status {
    match error {
        ChangeError::NotFound(why) => Status::not_found(why),
        ChangeError::Refused(why) => Status::failed_precondition(why),
        ChangeError::Unavailable(why) => Status::unavailable(why),
        ChangeError::Unknown(why) => Status::aborted(why),
    }
}
