//! Faults at random, drawn from a seed. Pure.

use std::time::Duration;

use crate::link::{Delay, Direction};
use crate::mix;

/// What may happen at random, and how often. A kind of fault with weight 0 never happens; with weight 2 it happens
/// twice as often as with weight 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Mean time from the end of one fault to the next.
    pub calm: Duration,
    /// Cuts and holds last at most this long.
    pub lasts_max: Duration,
    /// For all bytes, all the time.
    pub delay: Delay,
    /// The link is cut for a while.
    pub cuts: u32,
    /// Open connections are reset.
    pub resets: u32,
    /// One connection is cut after a number of bytes, so maybe in the middle of a frame.
    pub cuts_after: u32,
    /// The largest such number of bytes.
    pub cut_after_bytes_max: u64,
    /// Both directions are held for a while.
    pub holds: u32,
    /// One direction is held for a while.
    pub cuts_one_way: u32,
}

impl Default for Weather {
    fn default() -> Self {
        Weather {
            calm: Duration::from_millis(100),
            lasts_max: Duration::from_millis(50),
            delay: Delay::default(),
            cuts: 1,
            resets: 1,
            cuts_after: 1,
            cut_after_bytes_max: 200,
            holds: 1,
            cuts_one_way: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Cut,
    Reset,
    /// See [`Proxy::cut_after`](crate::Proxy::cut_after).
    CutAfter(Direction, u64),
    Hold,
    CutOneWay(Direction),
}

/// One fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    /// Since the end of the fault before.
    pub after: Duration,
    pub fault: Fault,
    /// Zero for resets and `CutAfter`.
    pub lasts: Duration,
}

/// The faults of a weather, one after the other, without end. The same seed gives the same faults.
#[derive(Clone, Debug)]
pub struct Plan {
    weather: Weather,
    random: fastrand::Rng,
}

/// Not the number of any connection's purpose: those begin at 0.
const PURPOSE: u64 = u64::MAX;

impl Plan {
    pub fn new(seed: u64, weather: Weather) -> Plan {
        Plan { weather, random: fastrand::Rng::with_seed(mix(seed, PURPOSE)) }
    }

    fn direction(&mut self) -> Direction {
        if self.random.bool() { Direction::Forward } else { Direction::Backward }
    }

    /// Between 0 and `max`, evenly.
    fn time(&mut self, max: Duration) -> Duration {
        max.mul_f64(self.random.f64())
    }
}

impl Iterator for Plan {
    type Item = Spell;

    /// `None` only if every weight is 0.
    fn next(&mut self) -> Option<Spell> {
        let Weather { cuts, resets, cuts_after, holds, cuts_one_way, .. } = self.weather;
        let weights = [cuts, resets, cuts_after, holds, cuts_one_way].map(u64::from);
        let total: u64 = weights.iter().sum();
        if total == 0 {
            return None;
        }
        let after = self.time(self.weather.calm.saturating_mul(2));
        let mut drawn = self.random.u64(..total);
        let kind = weights.iter().position(|&weight| {
            let here = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            here
        });
        let fault = match kind? {
            0 => Fault::Cut,
            1 => Fault::Reset,
            2 => Fault::CutAfter(self.direction(), self.random.u64(..=self.weather.cut_after_bytes_max)),
            3 => Fault::Hold,
            _ => Fault::CutOneWay(self.direction()),
        };
        let lasts = match fault {
            Fault::Reset | Fault::CutAfter(..) => Duration::ZERO,
            _ => self.time(self.weather.lasts_max),
        };
        Some(Spell { after, fault, lasts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(seed: u64, weather: Weather) -> Vec<Spell> {
        Plan::new(seed, weather).take(1000).collect()
    }

    #[test]
    fn a_seed_gives_the_same_faults_again_and_another_seed_gives_others() {
        assert_eq!(faults(7, Weather::default()), faults(7, Weather::default()));
        assert_ne!(faults(7, Weather::default()), faults(8, Weather::default()));
    }

    #[test]
    fn every_kind_with_a_weight_happens_and_no_other_kind() {
        let count = |weather: Weather, is: fn(&Fault) -> bool| {
            faults(1, weather).into_iter().filter(|spell| is(&spell.fault)).count()
        };
        let kinds: [fn(&Fault) -> bool; 7] = [
            |fault| matches!(fault, Fault::Cut),
            |fault| matches!(fault, Fault::Reset),
            |fault| matches!(fault, Fault::CutAfter(Direction::Forward, 0..=200)),
            |fault| matches!(fault, Fault::CutAfter(Direction::Backward, 0..=200)),
            |fault| matches!(fault, Fault::Hold),
            |fault| matches!(fault, Fault::CutOneWay(Direction::Forward)),
            |fault| matches!(fault, Fault::CutOneWay(Direction::Backward)),
        ];
        let counts = kinds.map(|is| count(Weather::default(), is));
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 1000);
        let only = Weather { cuts: 0, cuts_after: 0, holds: 0, cuts_one_way: 0, ..Weather::default() };
        assert_eq!(count(only, kinds[1]), 1000);
        assert_eq!(Plan::new(1, Weather { resets: 0, ..only }).next(), None);
    }

    #[test]
    fn times_keep_to_the_weather() {
        let weather = Weather::default();
        let spells = faults(3, weather);
        assert!(spells.iter().all(|spell| spell.after <= weather.calm * 2 && spell.lasts <= weather.lasts_max));
        let mean = spells.iter().map(|spell| spell.after).sum::<Duration>() / 1000;
        assert!(mean > weather.calm / 10 * 9 && mean < weather.calm / 10 * 11, "{mean:?}");
        let lasting = |spell: &&Spell| matches!(spell.fault, Fault::Cut | Fault::Hold | Fault::CutOneWay(_));
        assert!(spells.iter().filter(lasting).any(|spell| spell.lasts > Duration::ZERO));
        assert!(spells.iter().filter(|spell| !lasting(spell)).all(|spell| spell.lasts.is_zero()));
    }
}
