//! The members of a cluster, changed through any node.

use baton_api::v1;
use baton_api::v1::members_client::MembersClient;
use baton_server::server::Beginning;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::client::TestClient;
use crate::server::{Cluster, LONG, PAUSE, TestServer};

async fn members(of: &TestServer) -> MembersClient<Channel> {
    MembersClient::new(of.channel().await)
}

/// Repeats a change that the cluster cannot make yet.
async fn until_made<T>(mut change: impl AsyncFnMut() -> Result<T, Status>) -> T {
    let made = async {
        loop {
            match change().await {
                Ok(made) => return made,
                Err(status) => {
                    let passes = [Code::NotFound, Code::FailedPrecondition, Code::Unavailable];
                    assert!(passes.contains(&status.code()), "{status}");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LONG, made).await.expect("the change is made")
}

fn names(cluster: &v1::Cluster) -> Vec<&str> {
    cluster.members.iter().map(|member| member.name.as_str()).collect()
}

#[tokio::test]
async fn a_lone_server_grows_to_three_and_shrinks_again() {
    let mut first = TestServer::new("a", Beginning::GoOn);
    first.start().await;
    let (mut client, _) = TestClient::open(7, &first).await;
    let fence = client.lock(1, "deploy").await;
    let mut others = Vec::new();
    for name in ["b", "c"] {
        let mut server = TestServer::new(name, Beginning::Join(first.peer_address()));
        server.start().await;
        // It waits, and says so.
        let waits = server.cluster().await;
        assert!(waits.leader.is_none() && !waits.no_leader.is_empty(), "{waits:?}");
        let refused = server.locks().await.list_locks(v1::ListLocksRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        let mut members = members(&first).await;
        let request = v1::AddMemberRequest { name: name.to_owned() };
        let added = until_made(async || members.add(request.clone()).await).await.into_inner().cluster.unwrap();
        let member = added.members.iter().find(|member| member.name == name).unwrap();
        assert!(!member.voter);
        assert_eq!(member.client_address, server.options.listen.to_string());
        let request = v1::PromoteMemberRequest { member: name.to_owned() };
        let promoted = until_made(async || members.promote(request.clone()).await).await.into_inner().cluster.unwrap();
        assert!(promoted.members.iter().all(|member| member.voter), "{promoted:?}");
        others.push(server);
    }
    // The stream was there before, and goes on.
    client.release(2, 1).await;
    let (mut carried, told) = TestClient::open(8, &others[1]).await;
    assert_eq!(told.unwrap().name, "a");
    assert!(carried.lock(1, "deploy").await > fence);

    // A follower passes each change on to the leader.
    let mut through = members(&others[1]).await;
    let removed = through.remove(v1::RemoveMemberRequest { member: "b".to_owned() }).await.unwrap().into_inner();
    assert_eq!(names(&removed.cluster.unwrap()), ["a", "c"]);
    let update =
        v1::UpdateMemberRequest { member: "c".to_owned(), name: Some("carl".to_owned()), ..Default::default() };
    let updated = through.update(update).await.unwrap().into_inner().cluster.unwrap();
    assert_eq!(names(&updated), ["a", "carl"]);
    assert_eq!(updated.members[1].peer_address, others[1].peer_address());
}

#[tokio::test]
async fn a_change_that_is_wrong_is_refused_at_every_node_and_changes_nothing() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let before = cluster.0[leader].cluster().await;
    let text = |text: &str| text.to_owned();
    for at in [leader, others[0]] {
        let mut members = members(&cluster.0[at]).await;
        let add = members.add(v1::AddMemberRequest { name: text("d") }).await.unwrap_err();
        assert_eq!(add.code(), Code::NotFound);
        assert!(add.message().contains("--join"), "{add}");
        let unknown = members.promote(v1::PromoteMemberRequest { member: text("d") }).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
        let update = v1::UpdateMemberRequest { member: text("b"), name: Some(text("c")), ..Default::default() };
        let taken = members.update(update).await.unwrap_err();
        assert_eq!(taken.code(), Code::FailedPrecondition, "{taken}");
        let listed = members.list(v1::ListMembersRequest {}).await.unwrap().into_inner().cluster.unwrap();
        let ids = |cluster: &v1::Cluster| cluster.members.iter().map(|member| member.id).collect::<Vec<_>>();
        assert_eq!((names(&listed), ids(&listed)), (names(&before), ids(&before)));
    }
}

#[tokio::test]
async fn a_change_that_is_made_already_succeeds_and_says_so() {
    let cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    for at in [leader, others[0]] {
        let mut members = members(&cluster.0[at]).await;
        let voter = members.promote(v1::PromoteMemberRequest { member: "b".to_owned() }).await.unwrap();
        assert_eq!(voter.into_inner().already, "b is a voter already");
        let name = cluster.0[leader].name.clone();
        let leads = members.transfer(v1::TransferLeaderRequest { member: name.clone() }).await.unwrap();
        assert_eq!(leads.into_inner().already, format!("{name} leads already"));
        let unknown = members.remove(v1::RemoveMemberRequest { member: "d".to_owned() }).await.unwrap();
        let already = unknown.into_inner().already;
        assert_eq!(already, "no member has the name or id d now; the members are a, b, c");
    }
}

#[tokio::test]
async fn the_last_voter_is_not_removed() {
    let mut lone = TestServer::new("a", Beginning::GoOn);
    lone.start().await;
    let mut members = members(&lone).await;
    let refused = members.remove(v1::RemoveMemberRequest { member: "a".to_owned() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("last voter"), "{refused}");
}

#[tokio::test]
async fn without_a_majority_nothing_is_changed() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    cluster.0[leader].kill();
    cluster.0[others[1]].kill();
    let mut members = members(&cluster.0[others[0]]).await;
    let refused = async {
        loop {
            let gone = v1::RemoveMemberRequest { member: cluster.0[leader].name.clone() };
            let status = members.remove(gone).await.unwrap_err();
            // The first try may still go to the leader that was killed.
            if status.code() == Code::Unavailable {
                return status;
            }
            assert_eq!(status.code(), Code::Aborted, "{status}");
        }
    };
    tokio::time::timeout(LONG, refused).await.expect("a refusal");
    assert_eq!(cluster.0[others[0]].cluster().await.members.len(), 3);
}
