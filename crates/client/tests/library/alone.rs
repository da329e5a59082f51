//! Locks that open a session of their own.

use super::*;

#[tokio::test]
async fn a_lock_without_a_session_opens_one_and_closes_it_when_it_is_released() {
    let mut server = Server::start().await;
    let acquires = tokio::spawn(server.client().await.lock("a").shared().ttl(LONG).label("job").acquire());
    let mut stream = server.stream().await;
    let open = stream.open().await;
    assert_eq!((open.ttl_ms, &*open.label, open.resume), (60_000, "job", false));
    let asked = stream.grant(40).await;
    assert_eq!((&*asked.name, asked.mode(), asked.timeout_ms), (&b"a"[..], v1::Mode::Shared, None));
    let guard = acquires.await.unwrap().unwrap();
    assert_eq!(guard.fence(), Ok(40));
    let releases = tokio::spawn(guard.release());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Release(v1::Release { acquire: 1 }));
    stream.answer(number, released()).await;
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.answer(number, answer::Answer::Closed(v1::Closed {})).await;
    assert_eq!(releases.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_lock_without_a_session_closes_its_own_when_it_is_dropped() {
    let mut server = Server::start().await;
    let acquires = tokio::spawn(server.client().await.lock("a").acquire());
    let mut stream = server.stream().await;
    assert_eq!(stream.open().await.ttl_ms, 10_000);
    stream.grant(40).await;
    drop(acquires.await.unwrap().unwrap());
    // The Close would be enough. The guard's drop comes first and sends a Release.
    let operations = [stream.request().await.1, stream.request().await.1];
    assert_eq!(operations, [Operation::Release(v1::Release { acquire: 1 }), Operation::Close(v1::Close {})]);
}

#[tokio::test]
async fn a_lock_without_a_session_that_is_not_free_leaves_nothing_behind() {
    let mut server = Server::start().await;
    let tries = tokio::spawn(server.client().await.lock("a").try_acquire());
    let mut stream = server.stream().await;
    stream.open().await;
    let (number, Operation::Acquire(asked)) = stream.request().await else { panic!("not an acquire") };
    assert_eq!(asked.timeout_ms, Some(0));
    stream.refuse(number, v1::Refusal::NotAvailable, "").await;
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.answer(number, answer::Answer::Closed(v1::Closed {})).await;
    assert!(tries.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_lock_without_a_session_says_why_there_is_no_session() {
    let mut server = Server::start().await;
    let client = server.client().await;
    let error = client.lock("").acquire().await.unwrap_err();
    assert_eq!(error.to_string(), "the name of a lock is empty; it has 1 to 512 bytes");
    let error = client.lock("a").ttl(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Open(OpenError::InvalidTtl { ttl: Duration::ZERO }));
    let acquires = tokio::spawn(client.lock("a").acquire());
    let mut stream = server.stream().await;
    stream.frame().await;
    let reason = v1::ended::Reason::Invalid.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: String::new() })).await;
    let error = acquires.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused the session: the server gave no reason");
}
