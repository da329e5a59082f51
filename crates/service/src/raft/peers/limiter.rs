//! Says the same thing once a minute at most: any program can open connections and send garbage.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);

/// For each kind: when it was last said, and how often it was not said since.
#[derive(Debug, Default)]
pub struct Limiter(BTreeMap<&'static str, (Instant, u64)>);

impl Limiter {
    /// Returns how often this kind was kept quiet since it was last said; none if it must be kept quiet now.
    pub fn say(&mut self, kind: &'static str, now: Instant) -> Option<u64> {
        match self.0.get_mut(kind) {
            Some((said, quiet)) if now.saturating_duration_since(*said) < EVERY => {
                *quiet += 1;
                None
            }
            _ => Some(self.0.insert(kind, (now, 0)).map_or(0, |(_, quiet)| quiet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_once_a_minute_with_how_often_it_was_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut limiter = Limiter::default();
        let said = [0, 1, 59, 60, 61].map(|seconds| limiter.say("garbage", at(seconds)));
        assert_eq!(said, [Some(0), None, None, Some(2), None]);
        assert_eq!(limiter.say("busy", at(61)), Some(0));
    }
}
