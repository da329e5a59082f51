//! Timers.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use pin_project_lite::pin_project;

use crate::Instant;
use crate::simulation::{self, Alarm};

pin_project! {
    /// Resolves at its deadline.
    #[derive(Debug)]
    pub struct Sleep {
        #[pin]
        timer: Either<tokio::time::Sleep, Alarm>,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(cx)
    }
}

pub fn sleep(duration: Duration) -> Sleep {
    let alarm = simulation::running(|world| world.alarm_after(duration));
    Sleep { timer: alarm.map_or_else(|| Either::Left(tokio::time::sleep(duration)), Either::Right) }
}

pub fn sleep_until(deadline: Instant) -> Sleep {
    let alarm = simulation::running(|world| world.alarm_at(deadline.in_std()));
    let system = || Either::Left(tokio::time::sleep_until(deadline.in_std().into()));
    Sleep { timer: alarm.map_or_else(system, Either::Right) }
}

/// The time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// A future with a time limit.
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => this.sleep.poll(cx).map(|()| Err(Elapsed)),
        }
    }
}

pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep(limit) }
}

pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep_until(deadline) }
}
