//! Connections: broken ones, and servers that do not answer.

use super::*;

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
    assert_eq!((open.session, open.resume, open.attempt), (session.id(), true, 2));
    assert_eq!(stream.request().await, before);
    stream.answer(before.0, answer::Answer::Granted(v1::Granted { fence: 41 })).await;
    assert_eq!(waits.await.unwrap().unwrap().fence(), Ok(41));
    assert_eq!(held.fence(), Ok(40));
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_passed_over_within_its_share_of_the_time() {
    let mut server = Server::start().await;
    let (silent, accepted) = silent_server().await;
    let client = Client::connect([silent, server.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(LONG).open_timeout(MEDIUM).open());
    let mut stream = server.stream().await;
    stream.open().await;
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
    assert_eq!(accepted.load(Ordering::Relaxed), 2, "the client, and its session");
}

#[tokio::test]
async fn a_session_comes_to_the_server_that_its_client_is_connected_to() {
    let nobody = nobody().await;
    let (mut one, two) = (Server::start().await, Server::start().await);
    let addresses = [nobody, one.address.to_string(), two.address.to_string()];
    let client = Client::connect(addresses).await.unwrap();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let opens = tokio::spawn(client.session().ttl(LONG).open());
        let mut stream = one.stream().await;
        stream.open().await;
        kept.push((opens.await.unwrap().unwrap(), stream));
    }
}

#[tokio::test]
async fn a_client_that_is_not_connected_yet_opens_sessions_and_makes_calls() {
    let mut server = Server::start().await;
    let client = Client::lazy([nobody().await, server.address.to_string()]).unwrap();
    let opens = tokio::spawn(client.session().open_once());
    let mut stream = server.stream().await;
    stream.open().await;
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
    assert_eq!(client.list_sessions().await.unwrap().len(), 2);
    let nowhere = Client::lazy(["nowhere"]).unwrap_err();
    assert_eq!(nowhere, ConnectError::InvalidAddress { address: "nowhere".to_owned() });
}

#[tokio::test]
async fn each_server_is_asked_once_if_that_is_wanted() {
    let mut server = Server::start().await;
    let nobody = nobody().await;
    let client = Client::lazy([nobody.clone(), server.address.to_string()]).unwrap();
    let opens = tokio::spawn(client.session().open_timeout(LONG).open_once());
    let mut stream = server.stream().await;
    stream.frame().await;
    stream.answers.send(Err(Status::resource_exhausted("no room"))).await.unwrap();
    let OpenError::NoAnswer { reasons } = opens.await.unwrap().unwrap_err() else { panic!("another error") };
    assert!(reasons.starts_with(&format!("{nobody}: Connection refused")), "{reasons}");
    assert!(reasons.ends_with(&format!("; {}: no room", server.address)), "{reasons}");
}

#[tokio::test]
async fn a_session_that_lives_goes_on_although_its_server_became_another_service() {
    let mut server = Server::start().await;
    let (session, stream) = server.session(LONG).await;
    stream.answers.send(Err(Status::unimplemented("not here"))).await.unwrap();
    drop(stream);
    for attempt in 2..4 {
        let mut stream = server.stream().await;
        let client_frame::Frame::Open(open) = stream.frame().await else { panic!("Open comes first") };
        assert_eq!((open.session, open.attempt), (session.id(), attempt));
        stream.answers.send(Err(Status::unimplemented("not here"))).await.unwrap();
    }
    let mut stream = server.stream().await;
    stream.open().await;
    assert_eq!(session.state(), SessionState::Alive);
}

#[tokio::test]
async fn a_server_that_knows_no_sessions_is_not_asked_again_for_a_new_one() {
    let mut server = Server::start().await;
    let opens = tokio::spawn(server.client().await.session().open_timeout(LONG).open());
    let mut stream = server.stream().await;
    stream.frame().await;
    stream.answers.send(Err(Status::unimplemented("not here"))).await.unwrap();
    let error = opens.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not know this call"), "{error}");
}

#[tokio::test]
async fn a_server_without_room_for_the_session_is_asked_again() {
    let mut server = Server::start().await;
    let opens = tokio::spawn(server.client().await.session().ttl(LONG).open_timeout(LONG).open());
    for reason in [v1::ended::Reason::LowSpace, v1::ended::Reason::TooManySessions] {
        let mut stream = server.stream().await;
        stream.frame().await;
        stream.say(server_frame::Frame::Ended(v1::Ended { reason: reason.into(), message: "no room".into() })).await;
    }
    let mut stream = server.stream().await;
    assert_eq!(stream.open().await.attempt, 3);
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let mut server = Server::start().await;
    let nobody = nobody().await;
    let client = Client::connect([nobody.clone(), server.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().open());
    server.stream().await.open().await;
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
    let error = Client::connect_once([&nobody], LONG).await.unwrap_err();
    let ConnectError::NoServer { reasons } = error else { panic!("connected to nobody") };
    assert!(reasons.starts_with(&nobody) && reasons.contains("refused"), "{reasons}");
}

#[tokio::test]
async fn a_session_whose_server_falls_silent_survives_on_another_one() {
    let (mut one, mut other) = (Server::start().await, Server::start().await);
    let client = Client::connect([one.address.to_string(), other.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(MEDIUM).open());
    let mut first = one.stream().await;
    first.open().await;
    let session = opens.await.unwrap().unwrap();
    let acquires = tokio::spawn(session.lock("a").acquire());
    first.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    // From here on the first server accepts everything and answers nothing. Its connections stay open.
    let mut second = tokio::select! {
        biased;
        stream = other.stream() => stream,
        loss = session.lost() => panic!("no other server was asked: {loss}"),
    };
    let open = second.open().await;
    assert_eq!((open.session, open.resume, open.attempt), (session.id(), true, 2));
    assert_eq!(guard.changed(LockState::AtRisk).await, LockState::Held);
    assert_eq!(guard.fence(), Ok(40));
}

#[tokio::test]
async fn a_session_shows_the_same_secret_on_each_connection_and_no_other_session_has_it() {
    let mut server = Server::start().await;
    let client = server.client().await;
    // Keep the sessions and streams, so that the sessions are not closed.
    let (mut secrets, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let opens = tokio::spawn(client.session().ttl(LONG).open());
        let mut stream = server.stream().await;
        let first = stream.open().await;
        let session = opens.await.unwrap().unwrap();
        drop(stream);
        let mut stream = server.stream().await;
        let again = stream.open().await;
        assert_eq!((again.resume, again.attempt, &again.secret), (true, 2, &first.secret));
        secrets.push(first.secret);
        kept.push((session, stream));
    }
    assert_eq!(secrets.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32]);
    assert_ne!(secrets[0], secrets[1]);
}
