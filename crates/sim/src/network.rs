//! The network: how long messages take, in which order they arrive, and which messages are lost or duplicated.

use std::fmt;
use std::str::FromStr;

use baton_protocol::{ProcessId, Ticks};
use baton_trace::TracedOrder;
use rustc_hash::FxHashMap;

use crate::time::{in_t, ticks};

#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub delay: Delay,
    /// Whether messages from one process to another arrive in the order of sending.
    pub fifo: bool,
    /// Probability that a message is lost, from 0 to 1.
    pub loss: f64,
    /// Probability that a message arrives twice, from 0 to 1.
    pub duplicate: f64,
}

impl Network {
    /// Every message takes exactly 1 T and arrives once.
    pub const SYNCHRONOUS: Network = Network { delay: Delay::Constant(1.0), fifo: false, loss: 0.0, duplicate: 0.0 };
}

/// The distribution of message delays, in T.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    Constant(f64),
    /// Between a lower and an upper bound.
    Uniform(f64, f64),
    /// Exponential, with this mean.
    Exponential(f64),
    /// Heavy-tailed, with this mean and this shape. The smaller the shape, the heavier the tail.
    Pareto(f64, f64),
}

impl Delay {
    /// The longest delay, if there is a bound.
    pub fn bound(self) -> Option<Ticks> {
        match self {
            Delay::Constant(delay) => Some(ticks(delay)),
            Delay::Uniform(_, max) => Some(ticks(max)),
            Delay::Exponential(_) | Delay::Pareto(..) => None,
        }
    }

    /// The bound. Without a bound, 5 times the mean: what a process that must set a deadline would guess.
    pub fn guess(self) -> Ticks {
        self.bound().unwrap_or_else(|| match self {
            Delay::Exponential(mean) | Delay::Pareto(mean, _) => ticks(5.0 * mean),
            Delay::Constant(bound) | Delay::Uniform(_, bound) => ticks(bound),
        })
    }

    /// Draws a delay of at least one tick, so that an effect never has the same time as its cause.
    fn draw(self, rng: &mut fastrand::Rng) -> Ticks {
        let in_t = match self {
            Delay::Constant(delay) => delay,
            Delay::Uniform(min, max) => min + (max - min) * rng.f64(),
            Delay::Exponential(mean) => exponential(mean, rng),
            Delay::Pareto(mean, shape) => {
                let min = mean * (shape - 1.0) / shape;
                min * (1.0 - rng.f64()).powf(-1.0 / shape)
            }
        };
        ticks(in_t).max(1)
    }
}

/// Draws an exponentially distributed time with this mean.
pub fn exponential(mean: f64, rng: &mut fastrand::Rng) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Constant(delay) => write!(f, "const:{delay}"),
            Delay::Uniform(min, max) => write!(f, "uniform:{min},{max}"),
            Delay::Exponential(mean) => write!(f, "exp:{mean}"),
            Delay::Pareto(mean, shape) => write!(f, "pareto:{mean},{shape}"),
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no delay; write const:1, uniform:A,B, exp:MEAN or pareto:MEAN,SHAPE");
        let (kind, numbers) = text.split_once(':').ok_or_else(wrong)?;
        let numbers: Vec<f64> =
            numbers.split(',').map(|number| number.trim().parse()).collect::<Result<_, _>>().map_err(|_| wrong())?;
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0 || *number > 1e6) {
            return Err(format!("`{text}` is no delay; its numbers must be between 0 and 1,000,000 T"));
        }
        match (kind, numbers.as_slice()) {
            ("const", &[delay]) if delay > 0.0 => Ok(Delay::Constant(delay)),
            ("uniform", &[min, max]) if min <= max && max > 0.0 => Ok(Delay::Uniform(min, max)),
            ("exp", &[mean]) if mean > 0.0 => Ok(Delay::Exponential(mean)),
            ("pareto", &[mean, shape]) if mean > 0.0 && shape > 1.0 => Ok(Delay::Pareto(mean, shape)),
            ("pareto", &[_, shape]) if shape <= 1.0 => {
                Err(format!("`{text}` has no mean; the shape must be greater than 1"))
            }
            ("const" | "exp", &[_]) => Err(format!("`{text}` takes no time; a delay must be greater than 0")),
            ("uniform", &[_, _]) => Err(format!("`{text}` is empty; write the smaller bound first, the other above 0")),
            _ => Err(wrong()),
        }
    }
}

/// A network in use, with its random numbers and the state of its FIFO links.
#[derive(Debug)]
pub struct Links {
    network: Network,
    rng: fastrand::Rng,
    /// When the latest message of each link arrives. Kept only for FIFO links with varying delays.
    latest: FxHashMap<(ProcessId, ProcessId), Ticks>,
}

impl Links {
    /// `seed` decides delays, losses and duplicates.
    pub fn new(network: Network, seed: u64) -> Self {
        Links { network, rng: fastrand::Rng::with_seed(seed), latest: FxHashMap::default() }
    }

    /// When a message sent now arrives: not at all if it is lost, twice if it is duplicated.
    pub fn arrivals(&mut self, now: Ticks, from: ProcessId, to: ProcessId) -> Arrivals {
        if self.happens(self.network.loss) {
            return Arrivals { first: None, second: None };
        }
        let first = Some(self.arrival(now, from, to));
        let second = self.happens(self.network.duplicate).then(|| self.arrival(now, from, to));
        Arrivals { first, second }
    }

    fn arrival(&mut self, now: Ticks, from: ProcessId, to: ProcessId) -> Ticks {
        let drawn = now + self.network.delay.draw(&mut self.rng);
        if !self.network.fifo || matches!(self.network.delay, Delay::Constant(_)) {
            return drawn;
        }
        let latest = self.latest.entry((from, to)).or_default();
        *latest = drawn.max(*latest);
        *latest
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// None if the message is lost.
    pub first: Option<Ticks>,
    /// When the duplicate arrives, if there is one.
    pub second: Option<Ticks>,
}

impl Network {
    /// The network as data.
    pub fn traced(&self) -> baton_trace::Network {
        baton_trace::Network {
            order: Some(if self.fifo { TracedOrder::Fifo } else { TracedOrder::Unordered }),
            notes: baton_trace::notes(serde_json::json!({
                "delay": self.delay.to_string(),
                "loss": self.loss,
                "duplicate": self.duplicate,
                "delay_max": self.delay.bound().map(in_t),
            })),
            ..baton_trace::Network::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::T;

    #[test]
    fn delays_have_the_mean_that_they_say() {
        for (text, mean) in [("const:2", 2.0), ("uniform:1,3", 2.0), ("exp:2", 2.0), ("pareto:2,3", 2.0)] {
            let delay: Delay = text.parse().unwrap();
            assert_eq!(delay.to_string(), text);
            let mut rng = fastrand::Rng::with_seed(1);
            let draws = 100_000;
            let sum: Ticks = (0..draws).map(|_| delay.draw(&mut rng)).sum();
            let measured = in_t(sum) / draws as f64;
            assert!((measured - mean).abs() < 0.03 * mean, "{text}: {measured}");
        }
    }

    #[test]
    fn what_is_no_delay_is_refused() {
        for text in
            ["", "1", "const", "const:0", "const:-1", "const:nan", "uniform:2,1", "uniform:1", "pareto:1,1", "x:1"]
        {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }

    #[test]
    fn fifo_links_keep_the_order_and_others_do_not() {
        let overtaking = |fifo| {
            let network = Network { delay: Delay::Uniform(0.0, 5.0), fifo, ..Network::SYNCHRONOUS };
            let mut links = Links::new(network, 1);
            let arrivals: Vec<_> = (0..100).map(|at| links.arrivals(at * T, 0, 1).first.unwrap()).collect();
            arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count()
        };
        assert_eq!(overtaking(true), 0);
        assert!(overtaking(false) > 0);
    }

    #[test]
    fn loss_and_duplication_happen_as_often_as_they_say() {
        let mut links = Links::new(Network { loss: 0.2, duplicate: 0.25, ..Network::SYNCHRONOUS }, 1);
        let arrivals: Vec<_> = (0..10_000).map(|_| links.arrivals(0, 0, 1)).collect();
        let lost = arrivals.iter().filter(|arrivals| arrivals.first.is_none()).count();
        let twice = arrivals.iter().filter(|arrivals| arrivals.second.is_some()).count();
        assert!((1_900..2_100).contains(&lost), "{lost}");
        assert!((1_900..2_100).contains(&twice), "{twice}");
    }
}
