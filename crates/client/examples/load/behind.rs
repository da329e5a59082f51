//! What an acquire costs behind a line of waiters.

use std::error::Error;
use std::future::{self, Future};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use baton_client::{AcquireError, Owner, Refusal, RefusalCode, Session};

use crate::{open, pair};

/// A session has at most 1,024 requests that wait.
const WAITERS_OF_SESSION: u64 = 1_000;
const ROUNDS: usize = 300;

type Waiting = Pin<Box<dyn Future<Output = ()>>>;

/// The owner of the measured acquires holds a lock that another owner waits for, so the server must look for a deadlock.
/// First the measured acquires would wait, and are given up. Then the holder of the long line waits for their owner, so
/// they are refused.
pub async fn behind(server: &str, waiters: u64) -> Result<(), Box<dyn Error>> {
    let (session, others) = (open(server).await?, open(server).await?);
    let (measured, holder) = (Owner::new()?, Owner::new()?);
    let _own = session.lock("own").owner(&measured).acquire().await?;
    let _line = others.lock("line").owner(&holder).acquire().await?;
    // Each waiter waits until this list is dropped.
    let mut waiting = vec![wait(&others, "own", &Owner::new()?).await?];
    for first in (0..waiters).step_by(WAITERS_OF_SESSION as usize) {
        let many = open(server).await?;
        for _ in first..waiters.min(first + WAITERS_OF_SESSION) {
            waiting.push(begin(&many, "line", &Owner::new()?).await?);
        }
        settle(&many).await?;
    }
    let waits_us = median_us(async || {
        drop(begin(&session, "line", &measured).await?);
        settle(&session).await
    });
    let waits_us = waits_us.await?;
    waiting.push(wait(&others, "own", &holder).await?);
    let refused_us = median_us(async || match session.lock("line").owner(&measured).acquire().await {
        Err(AcquireError::Refused(Refusal { code: RefusalCode::Deadlock, .. })) => Ok(()),
        other => Err(format!("an acquire that would be a deadlock ends with {other:?}").into()),
    });
    let refused_us = refused_us.await?;
    println!("{{\"waiters\":{waiters},\"waits_us\":{waits_us},\"refused_us\":{refused_us}}}");
    drop(waiting);
    Ok(())
}

/// The acquire is sent. It is cancelled when the result is dropped.
async fn begin(session: &Session, lock: &str, owner: &Owner) -> Result<Waiting, Box<dyn Error>> {
    let acquire = session.lock(lock).owner(owner).acquire();
    let mut waiting: Waiting = Box::pin(async { drop(acquire.await) });
    let waits = future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
    if waits { Ok(waiting) } else { Err("the session of an acquire has ended".into()) }
}

async fn wait(session: &Session, lock: &str, owner: &Owner) -> Result<Waiting, Box<dyn Error>> {
    let waiting = begin(session, lock, owner).await?;
    settle(session).await?;
    Ok(waiting)
}

/// Returns when the server has applied everything that the session has sent.
async fn settle(session: &Session) -> Result<(), Box<dyn Error>> {
    pair(session, &format!("own-{}", session.id())).await
}

async fn median_us(mut round: impl AsyncFnMut() -> Result<(), Box<dyn Error>>) -> Result<u128, Box<dyn Error>> {
    let mut rounds_us = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round().await?;
        rounds_us.push(start.elapsed().as_micros());
    }
    rounds_us.sort_unstable();
    Ok(rounds_us[ROUNDS / 2])
}
