//! The members of a cluster: how a client lists and changes them.

use std::time::Duration;

use baton_api::v1;
use baton_api::v1::members_client::MembersClient;
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::views::Cluster;
use tonic::{Request, Response, Status, Streaming};

use crate::client::{Calls, Client, UNAVAILABLE_MAX};
use crate::error::{CallError, call_refused};

/// A change of members waits until a majority has confirmed it.
const CHANGE_MAX: Duration = Duration::from_secs(15);

/// The server has this long for each part of a backup.
const PART_MAX: Duration = Duration::from_secs(30);

/// What changes in the record of a member. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberUpdate {
    pub name: Option<String>,
    /// Where the other nodes reach it, host:port.
    pub peer_address: Option<String>,
    /// Where clients reach it, host:port.
    pub client_address: Option<String>,
}

/// What a change of the members has led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// After the change.
    pub cluster: Cluster,
    /// A sentence if nothing was changed, because it was so already.
    pub already: Option<String>,
}

/// The members of a cluster. A member is named by its name or by its id. The client never repeats a
/// change whose answer is lost: the error is then [`CallError::Unanswered`].
impl Client {
    /// Lists the members and the nodes that wait to be added.
    pub async fn members(&self) -> Result<Cluster, CallError> {
        let call = |channel| async move { MembersClient::new(channel).list(timely(v1::ListMembersRequest {})).await };
        Ok(self.look(call).await?.cluster.map(Cluster::from).unwrap_or_default())
    }

    /// Admits a node that was started with `--join`, as a learner.
    pub async fn add_member(&self, name: &str) -> Result<Changed, CallError> {
        let request = v1::AddMemberRequest { name: name.to_owned() };
        self.change_members(request, |mut members, request| async move { members.add(request).await }).await
    }

    /// Makes a learner a voter.
    pub async fn promote_member(&self, member: &str) -> Result<Changed, CallError> {
        let request = v1::PromoteMemberRequest { member: member.to_owned() };
        self.change_members(request, |mut members, request| async move { members.promote(request).await }).await
    }

    /// Takes a member out of the cluster, also one that is lost.
    pub async fn remove_member(&self, member: &str) -> Result<Changed, CallError> {
        let request = v1::RemoveMemberRequest { member: member.to_owned() };
        self.change_members(request, |mut members, request| async move { members.remove(request).await }).await
    }

    /// Changes the record of a member.
    pub async fn update_member(&self, member: &str, update: MemberUpdate) -> Result<Changed, CallError> {
        let MemberUpdate { name, peer_address, client_address } = update;
        let request = v1::UpdateMemberRequest { member: member.to_owned(), name, peer_address, client_address };
        self.change_members(request, |mut members, request| async move { members.update(request).await }).await
    }

    /// Hands the leadership over to this member.
    pub async fn transfer_leadership(&self, member: &str) -> Result<Changed, CallError> {
        let request = v1::TransferLeaderRequest { member: member.to_owned() };
        self.change_members(request, |mut members, request| async move { members.transfer(request).await }).await
    }

    /// Begins a backup of the cluster: its state at one moment, as the bytes of a file. The service goes on meanwhile.
    pub async fn backup(&self) -> Result<Backup, CallError> {
        let begin = |channel| async move { MembersClient::new(channel).backup(v1::BackupRequest {}).await };
        self.look(begin).await.map(Backup)
    }

    async fn change_members<T: Clone, F>(
        &self,
        request: T,
        call: impl Fn(MembersClient<Calls>, Request<T>) -> F,
    ) -> Result<Changed, CallError>
    where
        F: Future<Output = Result<Response<v1::ChangeMembersResponse>, Status>>,
    {
        let call = |channel| call(MembersClient::new(channel), timely(request.clone()));
        let changed = self.change(UNAVAILABLE_MAX, call).await?;
        let already = Some(changed.already).filter(|already| !already.is_empty());
        Ok(Changed { cluster: changed.cluster.map(Cluster::from).unwrap_or_default(), already })
    }
}

/// A backup that a server sends. It is complete when [`next`](Backup::next) has returned `None`.
#[derive(Debug)]
pub struct Backup(Streaming<v1::BackupPart>);

impl Backup {
    /// The next bytes of the file.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        match tokio::time::timeout(PART_MAX, self.0.message()).await {
            Ok(Ok(part)) => Ok(part.map(|part| part.bytes)),
            Ok(Err(status)) => Err(call_refused(&status)),
            Err(_) => {
                let message = format!("the server has sent no part of the backup for {} s", PART_MAX.as_secs());
                Err(CallError::Refused(Refusal::new(RefusalCode::Unavailable, message)))
            }
        }
    }
}

fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CHANGE_MAX);
    request
}
