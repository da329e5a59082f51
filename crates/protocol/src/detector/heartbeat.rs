//! Heartbeats with a fixed deadline.
//!
//! Assumes: a synchronous network, every beat delivered within D, none lost. Processes may crash at any time.
//!
//! A process beats every P. Who watches it suspects it after strictly more than P + D without a beat; watching starts
//! the first wait. If clocks drift by up to r, one second of theirs being 1 - r to 1 + r of ours, the wait is
//! (P/(1-r) + D)(1+r): the slowest beats, timed by the fastest clock.
//!
//! Promises: nobody who lives is suspected; who has crashed is suspected for ever between D and P + 2D after the crash,
//! P/2 + D + the mean delay in the mean.
//! Costs: one message per P for every pair.
//!
//! On an asynchronous network D is a guess. Too small, and the living are suspected; too large, and the dead are taken
//! for living for longer. A lost beat is a mistake unless P + D leaves room for the next one, that is, unless D > P.

use super::{Detector, WATCHED_MAX, in_ticks, number, period};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Picture, Ticks};

/// Watches one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    period: Ticks,
    wait: Ticks,
    /// When it beat last, or when watching began.
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

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "heartbeat",
    family: Family::Detector,
    summary: "suspect who has not beaten for more than P + D",
    assumes: Assumes { synchronous: true, no_duplicates: false, crashes: Crashes::Any, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "period:P", summary: "beat every P times the bound on delays, 10 unless told" },
        Variant { name: "timeout:D", summary: "allow D times the bound on delays for a beat to arrive, 1 unless told" },
        Variant { name: "drift:R", summary: "allow for clocks that drift by R percent" },
    ],
    broken: None,
};

/// How long after a crash everybody has noticed it, in ticks: a beat takes up to D, and what a detector allows for that is D
/// too, unless it is told otherwise.
pub fn noticed_after(period: Ticks, params: &Params) -> Ticks {
    let timeout: f64 = params.value("timeout").and_then(|timeout| timeout.parse().ok()).unwrap_or(1.0);
    period + in_ticks(timeout * params.delay_max as f64) + params.delay_max
}

/// n processes that watch each other.
pub fn group(params: &Params) -> Result<Group<Heartbeat>, SetupError> {
    params.at_most(WATCHED_MAX, "every two of them watch each other")?;
    let period = period(params)?;
    let delay = number(params, "timeout", "a timeout", 1.0, 1e6)? * params.delay_max as f64;
    let drift = number(params, "drift", "a drift in percent", 0.0, 50.0)? / 100.0;
    let wait = in_ticks((period as f64 / (1.0 - drift) + delay) * (1.0 + drift));
    Ok(Group { drift, ..Group::new(params.n, params.n, move |_| Heartbeat { period, wait, last: 0 }) })
}
