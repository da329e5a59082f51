//! Sessions: kept alive, lost, ended.

use super::*;

#[tokio::test]
async fn a_session_whose_end_is_refused_is_not_said_to_have_ended() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let closes = tokio::spawn(session.close());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.refuse(number, v1::Refusal::NumberReused, "request 1 asked for something else before").await;
    assert_eq!(closes.await.unwrap(), Err(CloseError::Unconfirmed));
}

#[tokio::test]
async fn a_silent_server_means_at_risk_and_then_lost_while_there_is_time_to_stop() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(MEDIUM).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    // From here on the server answers nothing, on any connection.
    assert_eq!(guard.changed(LockState::Held).await, LockState::AtRisk);
    assert_eq!(guard.fence(), Ok(40));
    assert_eq!(guard.lost().await, Loss::Unacknowledged);
    assert_eq!(guard.changed(LockState::Held).await, LockState::Lost);
    assert_eq!((guard.state(), guard.fence()), (LockState::Lost, Err(Loss::Unacknowledged)));
    assert_eq!((session.state(), session.lost().await), (SessionState::Lost, Loss::Unacknowledged));
    assert_eq!(guard.release().await, Err(ReleaseError::Unconfirmed(Loss::Unacknowledged)));
    assert_eq!(session.lock("b").acquire().await.unwrap_err(), AcquireError::Lost(Loss::Unacknowledged));
    assert_eq!(session.close().await, Err(CloseError::Unconfirmed));
}

#[tokio::test]
async fn a_late_answer_ends_the_risk() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(MEDIUM).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    let client_frame::Frame::KeepAlive(v1::KeepAlive { number }) = stream.frame().await else { panic!("not one") };
    assert_eq!(guard.changed(LockState::Held).await, LockState::AtRisk);
    stream.say(server_frame::Frame::Alive(v1::Alive { number })).await;
    assert_eq!(guard.changed(LockState::AtRisk).await, LockState::Held);
}

#[tokio::test]
async fn keep_alives_move_the_deadline() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(SHORT).await;
    let first = session.deadline();
    for _ in 0..2 {
        let client_frame::Frame::KeepAlive(v1::KeepAlive { number }) = stream.frame().await else { panic!("not one") };
        stream.say(server_frame::Frame::Alive(v1::Alive { number })).await;
    }
    // The client sends the third keep-alive after the second was acknowledged.
    assert!(matches!(stream.frame().await, client_frame::Frame::KeepAlive(_)));
    assert!(session.deadline() > first);
    assert_ne!(session.state(), SessionState::Lost);
}

#[tokio::test]
async fn an_ended_session_is_lost_at_once() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let waits = tokio::spawn(session.lock("a").acquire());
    stream.request().await;
    let reason = v1::ended::Reason::Expired.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: "too late".into() })).await;
    let loss = Loss::Ended("too late".to_owned());
    assert_eq!(waits.await.unwrap().unwrap_err(), AcquireError::Lost(loss.clone()));
    assert_eq!(session.lost().await, loss);
    assert_eq!(session.close().await, Ok(()));
}

#[tokio::test]
async fn a_session_that_is_refused_says_why() {
    let mut server = Server::start().await;
    let client = server.client().await;
    let opens = tokio::spawn(client.session().open());
    let mut stream = server.stream().await;
    stream.frame().await;
    let reason = v1::ended::Reason::Invalid.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: "no label".into() })).await;
    let error = opens.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused the session: no label");
    let error = client.session().ttl(Duration::from_millis(999)).open().await.unwrap_err();
    assert_eq!(error.to_string(), "the time to live of a session is 0.999 s; it must be from 1 to 86400 s");
}

#[tokio::test]
async fn a_session_that_nobody_opens_says_so() {
    let server = Server::start().await;
    let session = server.client().await.session().open_timeout(Duration::from_millis(10));
    let OpenError::NoAnswer { reasons } = session.open().await.unwrap_err() else { panic!("another error") };
    assert!(reasons.contains(&server.address.to_string()) && reasons.contains("not answer"), "{reasons}");
}
