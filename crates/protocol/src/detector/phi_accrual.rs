//! Hayashibara, Défago, Yared and Katayama, "The phi accrual failure detector" (2004).
//!
//! A process sends a beat every P. A process that watches it keeps the latest times between arrivals, and assumes that
//! the next such time is normally distributed with their mean and deviation. phi is -log10 of the probability that a
//! beat arrives later than now. At phi = 1 a suspicion is wrong once in 10 times, at phi = 8 once in 100 million, if
//! the assumed distribution is right. The detector suspects the process when phi exceeds the threshold.
//!
//! - Assumes: nothing. Any process may crash at any time.
//! - Promises: a crashed process is suspected in the end. A suspected process may be alive.
//! - Costs: one message per P for each ordered pair of processes.
//!
//! The detector adapts: jitter and losses widen the deviation, a quiet network narrows it. It starts with two made-up
//! times, P - D and P + D. The deviation counts as at least D/4, since a network that was perfectly regular so far may
//! not stay so. The normal distribution function is the usual logistic approximation. It can be inverted, so the
//! deadline follows from the threshold. It is rough far from the mean: it puts phi = 8 at 5.2 deviations instead of
//! 5.6.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};

use super::{Detector, WATCHED_MAX, in_ticks, number, period};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Picture, Ticks};

#[derive(Clone, Debug, PartialEq)]
pub struct PhiAccrual {
    period: Ticks,
    /// The bound D on message delays, or a guess at it.
    delay: Ticks,
    /// Deviations after the mean at which phi reaches the threshold.
    deviations: f64,
    window: usize,
    /// The latest times between arrivals; below, their sum and the sum of their squares.
    times: VecDeque<Ticks>,
    sum: u128,
    squares: u128,
    /// Time of the last beat, or of the start of watching.
    last: Ticks,
    /// Whether a beat has arrived since watching began. The time until the first beat says nothing about the rhythm.
    beaten: bool,
    deadline: Ticks,
}

// The number of deviations is never NaN.
impl Eq for PhiAccrual {}

/// Only what changes. The rest is the same for all detectors of a group.
impl Hash for PhiAccrual {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.times, self.last, self.beaten, self.deadline).hash(state);
    }
}

/// Bound on a remembered time, so that the sum of the squares does not overflow.
const TIME_MAX: Ticks = 1 << 48;

impl Detector for PhiAccrual {
    fn period(&self) -> Ticks {
        self.period
    }

    fn watch(&mut self, now: Ticks) {
        self.times.clear();
        (self.sum, self.squares) = (0, 0);
        self.add(self.period.saturating_sub(self.delay));
        self.add(self.period.saturating_add(self.delay));
        self.beaten = false;
        self.wait_from(now);
    }

    fn beat(&mut self, now: Ticks) {
        if self.beaten {
            self.add(now.saturating_sub(self.last));
        }
        self.beaten = true;
        self.wait_from(now);
    }

    fn deadline(&self) -> Ticks {
        self.deadline
    }

    fn view(&self, now: Ticks) -> Picture {
        let (mean, deviation) = self.normal();
        Picture::new()
            .field("suspected", self.suspects(now))
            .field("phi", alloc::format!("{:.1}", self.phi(now)))
            .field("mean", mean as u64)
            .field("deviation", deviation as u64)
            .field("last beat", self.last)
            .field("deadline", self.deadline)
    }
}

impl PhiAccrual {
    /// The suspicion level: -log10 of the probability that a beat arrives later than now.
    pub fn phi(&self, now: Ticks) -> f64 {
        let (mean, deviation) = self.normal();
        let x = logit((now.saturating_sub(self.last) as f64 - mean) / deviation);
        // log10(1 + e^x), which is x / ln 10 long before e^x overflows.
        (if x < 700.0 { libm::log1p(libm::exp(x)) } else { x }) / core::f64::consts::LN_10
    }

    fn add(&mut self, time: Ticks) {
        let time = time.min(TIME_MAX);
        if self.times.len() >= self.window
            && let Some(oldest) = self.times.pop_front()
        {
            self.sum -= u128::from(oldest);
            self.squares -= square(oldest);
        }
        self.times.push_back(time);
        self.sum += u128::from(time);
        self.squares += square(time);
    }

    fn wait_from(&mut self, now: Ticks) {
        let (mean, deviation) = self.normal();
        self.last = now;
        self.deadline = now.saturating_add(in_ticks(mean + self.deviations * deviation));
    }

    /// Mean and deviation of the times between arrivals.
    fn normal(&self) -> (f64, f64) {
        let count = self.times.len().max(1) as f64;
        let mean = self.sum as f64 / count;
        let variance = (self.squares as f64 / count - mean * mean).max(0.0);
        (mean, libm::sqrt(variance).max(self.delay as f64 / 4.0).max(1.0))
    }
}

fn square(time: Ticks) -> u128 {
    u128::from(time) * u128::from(time)
}

/// ln(F/(1 - F)) for the normal distribution function F at y.
fn logit(y: f64) -> f64 {
    y * (1.5976 + 0.070566 * y * y)
}

/// The y at which phi reaches the threshold: logit(y) = ln(10^threshold - 1). The left side is convex, and the right
/// side is positive for every threshold from 1 on. So Newton's method converges from above.
fn deviations(threshold: f64) -> f64 {
    let x = threshold * core::f64::consts::LN_10 + libm::log1p(-libm::pow(10.0, -threshold));
    let mut y = x;
    for _ in 0..64 {
        y -= (logit(y) - x) / (1.5976 + 3.0 * 0.070566 * y * y);
    }
    y
}

pub const ABOUT: About = About {
    name: "phi-accrual",
    family: Family::Detector,
    way: None,
    summary: "suspect a process whose next beat is improbably late, judged by its earlier beats",
    assumes: Assumes { lossless: false, no_duplicates: false, crashes: Crashes::Any, ..Assumes::LOSSLESS },
    promises: Promises { safety: false, order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "period:P", summary: "send a beat every P times the bound on delays (default: 10)" },
        Variant { name: "phi:THRESHOLD", summary: "suspect above this phi, at least 1 (default: 8)" },
        Variant { name: "window:W", summary: "judge by the latest W times between beats (default: 100)" },
    ],
    broken: None,
};

pub fn group(params: &Params) -> Result<Group<PhiAccrual>, SetupError> {
    params.at_most(WATCHED_MAX, "every two of them watch each other")?;
    let (period, delay) = (period(params)?, params.delay_max);
    let threshold = number(params, "phi", "a threshold", 8.0, 300.0)?;
    let window = number(params, "window", "a window", 100.0, 1e6)?;
    if threshold < 1.0 || window < 2.0 {
        let (what, value) = if threshold < 1.0 { ("a threshold", threshold) } else { ("a window", window) };
        let reason = "a threshold begins at 1, a window at 2".into();
        return Err(SetupError::Value { what, value: alloc::format!("{value}"), reason });
    }
    let (deviations, window) = (deviations(threshold), window as usize);
    Ok(Group::new(params.n, params.n, move |_| PhiAccrual {
        period,
        delay,
        deviations,
        window,
        times: VecDeque::new(),
        sum: 0,
        squares: 0,
        last: 0,
        beaten: false,
        deadline: 0,
    }))
}
