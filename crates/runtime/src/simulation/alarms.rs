//! Timers.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Nanos, running};

/// The tasks that wait for a moment, in order of time, and at equal times in the order in which they began to wait.
#[derive(Default)]
pub(super) struct Alarms {
    waiting: BTreeMap<(Nanos, u64), Waker>,
    ever: u64,
}

impl Alarms {
    pub fn next(&self) -> Option<Nanos> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    pub fn due(&mut self, now: Nanos) -> Vec<Waker> {
        let later = self.waiting.split_off(&(now.saturating_add(1), 0));
        std::mem::replace(&mut self.waiting, later).into_values().collect()
    }
}

/// Resolves at a moment of true time.
#[derive(Debug)]
pub struct Alarm {
    at: Nanos,
    number: Option<u64>,
}

impl Alarm {
    pub(super) fn new(at: Nanos) -> Alarm {
        Alarm { at, number: None }
    }

    pub(super) fn at(&self) -> Nanos {
        self.at
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let number = self.number;
        let polled = running(|world| {
            if world.now.get() >= at {
                return Ok(());
            }
            let mut alarms = world.alarms.borrow_mut();
            let number = number.unwrap_or_else(|| {
                alarms.ever += 1;
                alarms.ever
            });
            alarms.waiting.insert((at, number), cx.waker().clone());
            Err(number)
        });
        match polled {
            Some(Ok(())) => Poll::Ready(()),
            Some(Err(number)) => {
                self.number = Some(number);
                Poll::Pending
            }
            // The simulation is over.
            None => Poll::Pending,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            running(|world| world.alarms.borrow_mut().waiting.remove(&(self.at, number)));
        }
    }
}
