//! Calls that list and change the members of a cluster.

use baton_client::MemberUpdate;

use super::*;

#[tokio::test]
async fn members_are_listed_and_changed() {
    let server = Server::start().await;
    let client = server.client().await;
    let address = |address: &str| Some(address.to_owned());
    assert_eq!(client.members().await.unwrap().id, 7);
    let update = MemberUpdate { client_address: address("h:1"), ..MemberUpdate::default() };
    let changes = [
        client.add_member("d").await,
        client.promote_member("d").await,
        client.update_member("d", update).await,
        client.transfer_leadership("d").await,
        client.remove_member("11").await,
    ];
    assert!(changes.into_iter().all(|changed| changed.unwrap().cluster.id == 7));
    let asked = server.changes.asked.lock().unwrap().join("\n");
    let expected = "list\nadd d\npromote d\nupdate d: None None Some(\"h:1\")\ntransfer to d\nremove 11";
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_change_is_repeated_only_if_the_server_says_that_nothing_was_changed() {
    let server = Server::start().await;
    let client = server.client().await;
    let answer = |status: Status| server.changes.answers.lock().unwrap().push_back(status);
    let asked = || std::mem::take(&mut *server.changes.asked.lock().unwrap()).len();
    (0..3).for_each(|_| answer(Status::unavailable("no leader is known")));
    client.add_member("d").await.unwrap();
    assert_eq!(asked(), 4);
    answer(Status::aborted("the leader changed; list the members"));
    let error = client.add_member("d").await.unwrap_err();
    assert!(matches!(error, CallError::Unsettled { .. }), "{error:?}");
    assert_eq!((error.to_string().as_str(), asked()), ("the leader changed; list the members", 1));
    for refused in [Status::not_found("no node waits"), Status::failed_precondition("it lags")] {
        let message = format!("the server refused: {}", refused.message());
        answer(refused);
        let error = client.promote_member("d").await.unwrap_err();
        assert!(matches!(error, CallError::Refused(Refusal { code: RefusalCode::Invalid, .. })), "{error:?}");
        assert_eq!((error.to_string(), asked()), (message, 1));
    }
}

#[tokio::test]
async fn a_look_goes_on_while_a_cluster_elects_a_leader() {
    let (one, other) = (Server::start().await, Server::start().await);
    let client = Client::connect([one.address.to_string(), other.address.to_string()]).await.unwrap();
    for server in [&one, &other] {
        let answers = &mut server.changes.answers.lock().unwrap();
        (0..4).for_each(|_| answers.push_back(Status::unavailable("no leader is known")));
    }
    assert_eq!(client.members().await.unwrap().id, 7);
}
