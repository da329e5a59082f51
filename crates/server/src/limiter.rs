//! Limits the lines of the log: any program can open connections, send garbage and let sessions expire.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_runtime::Instant;

const EVERY: Duration = Duration::from_secs(60);

/// The most lines of a minute about one kind of event that matters to the operator each time.
const EVENTS_MAX: u64 = 20;

/// The kinds of lines.
#[derive(Debug, Default)]
pub struct Limiter(BTreeMap<&'static str, Minute>);

/// A minute that begins with a line.
#[derive(Clone, Copy, Debug)]
struct Minute {
    began: Instant,
    said: u64,
    quiet: u64,
}

impl Limiter {
    /// Allows one line of this kind a minute. Returns how many were kept quiet since the last one; none if this one must be
    /// kept quiet.
    pub fn say(&mut self, kind: &'static str, now: Instant) -> Option<u64> {
        self.say_up_to(1, kind, now)
    }

    /// Allows [`EVENTS_MAX`] lines of this kind a minute. Returns what an allowed line says: how many were left out in the
    /// minute before, if any were.
    pub fn event(&mut self, kind: &'static str, now: Instant) -> Option<Option<u64>> {
        self.say_up_to(EVENTS_MAX, kind, now).map(|left_out| Some(left_out).filter(|left_out| *left_out > 0))
    }

    /// Allows so many lines of this kind a minute. Returns how many were kept quiet in the minute before; none if this one
    /// must be kept quiet.
    pub fn say_up_to(&mut self, most: u64, kind: &'static str, now: Instant) -> Option<u64> {
        match self.0.get_mut(kind) {
            Some(minute) if now.saturating_duration_since(minute.began) < EVERY => {
                let is_said = minute.said < most;
                *(if is_said { &mut minute.said } else { &mut minute.quiet }) += 1;
                is_said.then_some(0)
            }
            _ => {
                let minute = Minute { began: now, said: 1, quiet: 0 };
                Some(self.0.insert(kind, minute).map_or(0, |before| before.quiet))
            }
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

    #[test]
    fn the_first_lines_of_a_minute_are_said() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut limiter = Limiter::default();
        let said = [0, 1, 2, 59, 60, 61, 62].map(|seconds| limiter.say_up_to(2, "expired", at(seconds)));
        assert_eq!(said, [Some(0), Some(0), None, None, Some(2), Some(0), None]);
    }

    #[test]
    fn of_the_events_of_a_minute_twenty_are_said() {
        let start = Instant::now();
        let mut limiter = Limiter::default();
        let mut said = |at_ms| limiter.event("members", start + Duration::from_millis(at_ms));
        assert!((0..20).all(|event| said(event * 1_000) == Some(None)));
        assert_eq!([59_000, 59_999, 60_000, 60_001].map(said), [None, None, Some(Some(2)), Some(None)]);
    }
}
