//! Decides how often `baton lock` reports that its wait is hopeless.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_client::Hopeless;

use crate::output::warn;

/// A process is reported at once, and again after this time. The server reports it every second.
const AGAIN: Duration = Duration::from_secs(10);

/// A reason that is older is not known to hold any more.
const RECENT: Duration = Duration::from_millis(2_500);

#[derive(Default)]
pub struct Reporter(Mutex<Reported>);

#[derive(Default)]
struct Reported {
    /// The processes that were reported, and when.
    processes: BTreeMap<u64, Instant>,
    /// The last reason, and when the server gave it.
    last: Option<(Instant, String)>,
}

impl Reporter {
    /// Prints the reason, unless the same process was reported a short time ago. A client that does not want to
    /// wait (`waits` is false) reads the reason only once, in the refusal.
    pub fn report(&self, why: &Hopeless, waits: bool) {
        // A poisoned lock is harmless: the map is always complete.
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.last = Some((Instant::now(), why.message.clone()));
        if waits && reported.is_due(why.process, Instant::now()) {
            warn(&why.message);
        }
    }

    /// Why the wait was hopeless until a moment ago, if it was.
    pub fn recent(&self) -> Option<String> {
        let reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.last.as_ref().filter(|(told, _)| told.elapsed() < RECENT).map(|(_, why)| why.clone())
    }
}

impl Reported {
    fn is_due(&mut self, process: u64, now: Instant) -> bool {
        let is_due = self.processes.get(&process).is_none_or(|told| now >= *told + AGAIN);
        if is_due {
            self.processes.insert(process, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_is_reported_at_once_and_the_same_again_after_a_while() {
        let (mut reported, start) = (Reported::default(), Instant::now());
        let steps =
            [(3, 0, true), (3, 1, false), (4, 2, true), (3, 9, false), (3, 10, true), (4, 11, false), (3, 19, false)];
        for (process, seconds, is_due) in steps {
            assert_eq!(
                reported.is_due(process, start + Duration::from_secs(seconds)),
                is_due,
                "{process} at {seconds}"
            );
        }
    }
}
