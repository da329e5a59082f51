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
    // Which of them a session asks first is random: until it was the silent one. Those that are open stay so, and do not
    // come back to be closed.
    let mut opened = Vec::new();
    while accepted.load(Ordering::Relaxed) < 2 {
        let opens = tokio::spawn(client.session().ttl(LONG).open_timeout(MEDIUM).open());
        let mut stream = server.stream().await;
        stream.open().await;
        let session = opens.await.unwrap().unwrap();
        assert_eq!(session.state(), SessionState::Alive);
        opened.push((session, stream));
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let mut server = Server::start().await;
    // A port that was free a moment ago, with nobody behind it.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let client = Client::connect([nobody.clone(), server.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().open());
    server.stream().await.open().await;
    assert_eq!(opens.await.unwrap().unwrap().state(), SessionState::Alive);
    let error = Client::connect_once([&nobody], LONG).await.unwrap_err();
    let ConnectError::NoServer { reasons } = error else { panic!("connected to nobody") };
    assert!(reasons.starts_with(&nobody) && reasons.contains("refused"), "{reasons}");
}

/// The server that a new session came to, with its stream, and the other one.
async fn which(mut one: Server, mut two: Server) -> (Server, Stream, Server) {
    tokio::select! {
        stream = one.streams.recv() => (one, stream.unwrap(), two),
        stream = two.streams.recv() => (two, stream.unwrap(), one),
    }
}

#[tokio::test]
async fn a_session_whose_server_falls_silent_survives_on_another_one() {
    let (one, two) = (Server::start().await, Server::start().await);
    let client = Client::connect([one.address.to_string(), two.address.to_string()]).await.unwrap();
    let opens = tokio::spawn(client.session().ttl(MEDIUM).open());
    let (_silent, mut first, mut other) = which(one, two).await;
    first.open().await;
    let session = opens.await.unwrap().unwrap();
    let acquires = tokio::spawn(session.lock("a").acquire());
    first.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    // From here on the first server takes everything and says nothing. Its connections stay open.
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
    // What is kept here does not come back to be closed.
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
