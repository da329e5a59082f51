//! Locks: acquired, refused, released, revoked.

use super::*;

#[tokio::test]
async fn a_lock_is_acquired_and_given_back_and_a_session_closed() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").timeout(LONG).lock_delay(SHORT).acquire());
    let asked = stream.grant(40).await;
    assert_eq!((asked.name, asked.timeout_ms, asked.lock_delay_ms), (b"a".to_vec(), Some(60_000), 2_000));
    let guard = acquires.await.unwrap().unwrap();
    assert_eq!((guard.fence(), guard.state(), guard.name()), (Ok(40), LockState::Held, &b"a"[..]));
    assert!(guard.deadline() > BootTime::now());
    let releases = tokio::spawn(guard.release());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Release(v1::Release { acquire: 1 }));
    stream.answer(number, released()).await;
    assert_eq!(releases.await.unwrap(), Ok(()));
    let closes = tokio::spawn(session.close());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Close(v1::Close {}));
    stream.answer(number, answer::Answer::Closed(v1::Closed {})).await;
    assert_eq!(closes.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn what_is_dropped_is_given_back() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    drop(acquires.await.unwrap().unwrap());
    assert_eq!(stream.request().await.1, Operation::Release(v1::Release { acquire: 1 }));
    // A dropped future cancels its request.
    let acquires = tokio::spawn(session.lock("b").acquire());
    let (number, _) = stream.request().await;
    acquires.abort();
    assert_eq!(stream.request().await.1, Operation::Cancel(v1::Cancel { acquire: number }));
    drop(session);
    assert_eq!(stream.request().await.1, Operation::Close(v1::Close {}));
}

#[tokio::test]
async fn who_waits_hears_that_the_wait_is_hopeless_and_goes_on_waiting() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let acquire = session.lock("a").on_hopeless(move |why| heard.send(why.clone()).unwrap());
    let acquires = tokio::spawn(acquire.acquire());
    let (number, _) = stream.request().await;
    for process in [3, 4] {
        let message = format!("waiting for process {process}");
        let hopeless = v1::Hopeless { acquire: number, process, message: message.clone() };
        stream.say(server_frame::Frame::Hopeless(hopeless)).await;
        assert_eq!(hears.recv().await.unwrap(), Hopeless { process, message });
    }
    stream.answer(number, answer::Answer::Granted(v1::Granted { fence: 40 })).await;
    assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
    assert_eq!(hears.recv().await, None);
}

/// A client of an earlier version hears a frame of a later server like this one: as a frame of no kind.
#[tokio::test]
async fn a_frame_of_an_unknown_kind_is_ignored() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    stream.answers.send(Ok(v1::ServerFrame { frame: None })).await.unwrap();
    stream.answer(number, answer::Answer::Granted(v1::Granted { fence: 40 })).await;
    assert_eq!(acquires.await.unwrap().unwrap().fence(), Ok(40));
}

#[tokio::test]
async fn a_try_that_a_group_could_not_serve_in_time_finds_no_free_lock() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let tries = tokio::spawn(async move { session.try_lock("a").await });
    let (number, _) = stream.request().await;
    stream.refuse(number, v1::Refusal::TimedOut, "").await;
    assert!(tries.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_time_out_cancels() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquired = tokio::spawn(session.lock("a").timeout(Duration::from_millis(5)).acquire());
    let (number, _) = stream.request().await;
    assert_eq!(stream.request().await.1, Operation::Cancel(v1::Cancel { acquire: number }));
    assert_eq!(acquired.await.unwrap().unwrap_err(), AcquireError::TimedOut { name: b"a".to_vec() });
}

#[tokio::test]
async fn how_a_lock_is_wanted_reaches_the_server() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let owner = Owner::from_raw(77);
    let shared = tokio::spawn(session.lock("a").shared().owner(&owner).acquire());
    let asked = stream.grant(1).await;
    assert_eq!((asked.mode(), asked.owner, asked.parent, asked.timeout_ms), (v1::Mode::Shared, 77, None, None));
    let permit = tokio::spawn(session.semaphore("s", 3).acquire());
    let asked = stream.grant(2).await;
    assert_eq!((asked.mode(), asked.permits), (v1::Mode::Permit, 3));
    let (shared, permit) = (shared.await.unwrap().unwrap(), permit.await.unwrap().unwrap());
    assert_eq!(shared.owner(), &owner);
    assert_ne!(permit.owner(), shared.owner(), "each acquire has an owner of its own");
    let session_too = session.clone();
    let tried = tokio::spawn(async move { session_too.try_lock("a").await });
    let (number, Operation::Acquire(asked)) = stream.request().await else { panic!("not an acquire") };
    assert_eq!(asked.timeout_ms, Some(0));
    stream.refuse(number, v1::Refusal::NotAvailable, "").await;
    assert!(tried.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn refusals_say_why() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquired = tokio::spawn(session.semaphore("s", 3).acquire());
    let (number, _) = stream.request().await;
    stream.refuse(number, v1::Refusal::PermitsDiffer, "the lock has 2 permits, and the request says 3").await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused: the lock has 2 permits, and the request says 3");
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    let cycle = vec![v1::Wait { owner: 1, label: "me".into(), lock: "a".into() }];
    let refused = v1::Refused { refusal: v1::Refusal::Deadlock.into(), message: String::new(), cycle };
    stream.answer(number, answer::Answer::Refused(refused)).await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the request would wait for itself: 0000000000000001 (me) waits for \"a\"");
    // A mistake of the client itself is reported like any other refusal.
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    stream.refuse(number, v1::Refusal::NumberReused, "request 3 asked for something else before").await;
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server refused: request 3 asked for something else before");
    for (name, told) in [
        (String::new(), "the name of a lock is empty; it has 1 to 512 bytes"),
        ("x".repeat(513), "the name of a lock has 513 bytes; it has 1 to 512"),
    ] {
        let error = session.lock(name).acquire().await.unwrap_err();
        assert_eq!(error.to_string(), told);
    }
}

#[tokio::test]
async fn a_name_is_any_bytes_and_shown_escaped_if_it_is_not_utf8() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock(b"caf\xe9\x1b").timeout(LONG).acquire());
    assert_eq!(stream.grant(1).await.name, b"caf\xe9\x1b");
    let guard = acquires.await.unwrap().unwrap();
    assert_eq!(guard.name(), b"caf\xe9\x1b");
    assert!(format!("{guard:?}").contains(r#"name: "caf\xe9\x1b""#), "{guard:?}");
    let acquired = tokio::spawn(session.lock(b"\xff").timeout(Duration::from_millis(5)).acquire());
    let error = acquired.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), r#"the lock "\xff" was not granted within the time-out"#);
    stream.request().await;
    stream.request().await;
    let acquired = tokio::spawn(session.lock("a").acquire());
    let (number, _) = stream.request().await;
    let cycle = vec![v1::Wait { owner: 1, label: "me".into(), lock: b"a\\\xff".to_vec() }];
    let refused = v1::Refused { refusal: v1::Refusal::Deadlock.into(), message: String::new(), cycle };
    stream.answer(number, answer::Answer::Refused(refused)).await;
    let error = acquired.await.unwrap().unwrap_err();
    assert!(error.to_string().ends_with(r#"(me) waits for "a\\\xff""#), "{error}");
}

#[tokio::test]
async fn a_revoked_lock_is_lost_at_once_and_given_back_when_its_user_has_stopped() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    let guard = acquires.await.unwrap().unwrap();
    stream.say(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 })).await;
    assert_eq!(guard.lost().await, Loss::Revoked);
    assert_eq!((guard.state(), guard.fence()), (LockState::Lost, Err(Loss::Revoked)));
    assert_eq!(session.state(), SessionState::Alive);
    let releases = tokio::spawn(guard.release());
    let (number, operation) = stream.request().await;
    assert_eq!(operation, Operation::Release(v1::Release { acquire: 1 }));
    stream.answer(number, released()).await;
    assert_eq!(releases.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn an_owner_that_acts_for_another_one_says_so() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let parent = Owner::new().unwrap();
    // Another program that received the parent's number does the same.
    let child = Owner::from_raw(parent.to_raw()).child().unwrap();
    assert_eq!((child.parent(), child == parent), (Some(parent.to_raw()), false));
    let acquires = tokio::spawn(session.lock("a").owner(&child).acquire());
    let asked = stream.grant(1).await;
    assert_eq!((asked.owner, asked.parent), (child.to_raw(), Some(parent.to_raw())));
    assert_eq!(acquires.await.unwrap().unwrap().owner(), &child);
}
