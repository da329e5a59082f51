//! Work under a lock, and the effects of drops.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use baton_client::Guard;
use tokio::runtime::{Builder, Runtime};

use super::*;

/// Acquires the lock "a" as acquire 1 with fence 40.
async fn held_in(session: &Session, stream: &mut Stream) -> Guard {
    let acquires = tokio::spawn(session.lock("a").acquire());
    stream.grant(40).await;
    acquires.await.unwrap().unwrap()
}

/// Sets the flag when it is dropped.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn work_under_a_lock_runs_to_its_end() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let guard = held_in(&session, &mut stream).await;
    let work = async {
        tokio::task::yield_now().await;
        guard.fence()
    };
    assert_eq!(guard.run(work).await, Ok(Ok(40)));
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test]
async fn work_under_a_lock_is_dropped_when_the_lock_is_lost() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let guard = held_in(&session, &mut stream).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let told = Told(Arc::clone(&dropped));
    let work = async move {
        let _told = told;
        std::future::pending::<()>().await;
    };
    let runs = guard.run(work);
    tokio::pin!(runs);
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(runs.as_mut().poll(context)));
    assert!(polled.await.is_pending() && !dropped.load(Ordering::Relaxed));
    stream.say(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 })).await;
    assert_eq!(runs.await, Err(Loss::Revoked));
    assert!(dropped.load(Ordering::Relaxed), "the work goes on");
}

#[tokio::test]
async fn a_loss_comes_before_a_result() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    let guard = held_in(&session, &mut stream).await;
    stream.say(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 })).await;
    // The loss and the end of the work are ready at the same time.
    assert_eq!(guard.run(guard.lost()).await, Err(Loss::Revoked));
    // The work is ready without waiting.
    assert_eq!(guard.run(async { 1 }).await, Err(Loss::Revoked));
}

#[tokio::test]
async fn the_result_of_work_that_blocked_until_the_loss_is_none() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(SHORT).await;
    let guard = held_in(&session, &mut stream).await;
    // The work blocks the only thread, so that only the clock can show the loss.
    let work = async {
        while guard.state() != LockState::Lost {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    assert_eq!(guard.run(work).await, Err(Loss::Unacknowledged));
}

#[tokio::test]
async fn a_session_is_settled_when_the_server_has_confirmed_all_that_was_dropped() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    assert_eq!(session.settled().await, Ok(()), "nothing was dropped");
    let guard = held_in(&session, &mut stream).await;
    let waits = tokio::spawn(session.lock("b").acquire());
    let (waiting, _) = stream.request().await;
    drop(guard);
    waits.abort();
    let settled = session.settled();
    tokio::pin!(settled);
    let mut given_up = vec![stream.request().await, stream.request().await];
    given_up.sort_by_key(|(_, operation)| matches!(operation, Operation::Cancel(_)));
    let [(release, Operation::Release(_)), (cancel, Operation::Cancel(cancelled))] = &given_up[..] else {
        panic!("{given_up:?}")
    };
    assert_eq!(cancelled.acquire, waiting);
    stream.answer(*release, released()).await;
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(settled.as_mut().poll(context)));
    assert!(polled.await.is_pending(), "one of two is outstanding");
    let outcome = v1::cancelled::Outcome::Removed.into();
    stream.answer(*cancel, answer::Answer::Cancelled(v1::Cancelled { outcome })).await;
    assert_eq!(settled.await, Ok(()));
}

#[tokio::test]
async fn a_session_that_is_lost_is_never_settled() {
    let mut server = Server::start().await;
    let (session, mut stream) = server.session(LONG).await;
    drop(held_in(&session, &mut stream).await);
    let reason = v1::ended::Reason::Expired.into();
    stream.say(server_frame::Frame::Ended(v1::Ended { reason, message: "too late".into() })).await;
    assert_eq!(session.settled().await, Err(Loss::Ended("too late".to_owned())));
}

/// The client's runtime ends as soon as its future does, as at the end of `main`.
#[test]
fn what_was_dropped_is_told_before_the_runtime_ends_if_the_program_waits_for_it() {
    let servers = Runtime::new().unwrap();
    let mut server = servers.block_on(Server::start());
    let address = server.address.to_string();
    let served = servers.spawn(async move {
        let mut stream = server.stream().await;
        stream.open().await;
        stream.grant(40).await;
        let (number, operation) = stream.request().await;
        stream.answer(number, released()).await;
        operation
    });
    let client = Builder::new_current_thread().enable_all().build().unwrap();
    client.block_on(async {
        let session = Client::connect([address]).await.unwrap().session().ttl(LONG).open().await.unwrap();
        drop(session.lock("a").acquire().await.unwrap());
        session.settled().await.unwrap();
    });
    drop(client);
    assert_eq!(servers.block_on(served).unwrap(), Operation::Release(v1::Release { acquire: 1 }));
}
