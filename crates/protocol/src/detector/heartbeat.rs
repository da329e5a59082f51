//! Heartbeats with a fixed deadline.
//!
//! A process sends a beat every P. A process that watches it suspects it after strictly more than P + D without a beat.
//! The first wait starts when watching starts. If clocks drift by up to r (one second of their time is 1 - r to 1 + r
//! seconds of ours), the wait is (P/(1-r) + D)(1+r): the slowest beats, timed by the fastest clock.
//!
//! - Assumes: a synchronous network, in which every beat arrives within D and none is lost. Any process may crash at
//!   any time.
//! - Promises: no live process is suspected. A crashed process is suspected for ever, from a moment between D and P +
//!   2D after the crash, on average P/2 + D + the mean delay.
//! - Costs: one message per P for each ordered pair of processes.
//!
//! Traps. On an asynchronous network D is a guess. If it is too small, live processes are suspected. If it is too
//! large, the detector notices a crash later. A lost beat causes a wrong suspicion, unless the next beat arrives within
//! the wait, that is, unless D > P.

use super::{Detector, WATCHED_MAX, in_ticks, number, period};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Picture, Ticks};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    period: Ticks,
    wait: Ticks,
    /// Time of the last beat, or of the start of watching.
    last: Ticks,
}

impl Detector for Heartbeat {
    fn period(&self) -> Ticks {
        self.period
    }

    fn watch(&mut self, now: Ticks) {
        self.last = now;
    }

    fn beat(&mut self, now: Ticks) {
        self.last = now;
    }

    fn deadline(&self) -> Ticks {
        self.last.saturating_add(self.wait)
    }

    fn view(&self, now: Ticks) -> Picture {
        Picture::new()
            .field("suspected", self.suspects(now))
            .field("last beat", self.last)
            .field("deadline", self.deadline())
    }

    fn recede(&mut self, ticks: Ticks) -> bool {
        self.last = self.last.saturating_sub(ticks);
        true
    }
}

pub const ABOUT: About = About {
    name: "heartbeat",
    family: Family::Detector,
    way: None,
    summary: "suspect a process that has sent no beat for more than P + D",
    assumes: Assumes { synchronous: true, no_duplicates: false, crashes: Crashes::Any, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "period:P", summary: "send a beat every P times the bound on delays (default: 10)" },
        Variant { name: "timeout:D", summary: "allow D times the bound on delays for a beat to arrive (default: 1)" },
        Variant { name: "drift:R", summary: "allow for clocks that drift by R percent" },
    ],
    broken: None,
};

/// Ticks from a crash until all processes suspect the crashed process: the last beat takes up to D, then the detector
/// waits for P and its timeout, which is D by default.
pub fn noticed_after(period: Ticks, params: &Params) -> Ticks {
    let timeout: f64 = params.value("timeout").and_then(|timeout| timeout.parse().ok()).unwrap_or(1.0);
    period + in_ticks(timeout * params.delay_max as f64) + params.delay_max
}

pub fn group(params: &Params) -> Result<Group<Heartbeat>, SetupError> {
    params.at_most(WATCHED_MAX, "every two of them watch each other")?;
    let period = period(params)?;
    let delay = number(params, "timeout", "a timeout", 1.0, 1e6)? * params.delay_max as f64;
    let drift = number(params, "drift", "a drift in percent", 0.0, 50.0)? / 100.0;
    let wait = in_ticks((period as f64 / (1.0 - drift) + delay) * (1.0 + drift));
    Ok(Group { drift, ..Group::new(params.n, params.n, move |_| Heartbeat { period, wait, last: 0 }) })
}
