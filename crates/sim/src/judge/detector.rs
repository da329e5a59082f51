//! Failure detectors: no live process is suspected, and every crash is noticed in the end.

use baton_protocol::{ProcessId, Property};
use baton_trace::Event;

use super::{Found, JudgedProperty, Place, Rules};
use crate::oracle::Finding;
use crate::oracle::suspicions::Suspicions;

pub struct DetectorWatch {
    suspicions: Suspicions,
    /// Number of suspicions.
    suspected: u64,
}

impl DetectorWatch {
    pub fn new(rules: &Rules) -> Self {
        DetectorWatch { suspicions: Suspicions::new(rules.processes), suspected: 0 }
    }

    pub fn see(&mut self, p: ProcessId, event: &Event, place: Place, found: &mut Found) {
        self.suspected += u64::from(matches!(event, Event::Suspect { .. }));
        if let Some(mistake) = self.suspicions.see(p, event) {
            found.add("safety", mistake, [place]);
        }
    }

    pub fn verdicts(self, rules: &Rules, found: &mut Found) -> Vec<JudgedProperty> {
        let promised = |property| rules.promises.include(property);
        let missed = self.suspicions.unnoticed();
        let missed = missed.map(|(at, peer)| format!("P{at} does not suspect P{peer}, which is down, at the end"));
        let noticed = match (missed, rules.excuse()) {
            (None, _) => Finding::held(),
            (Some(detail), Some(excuse)) => Finding::unchecked(format!("{detail}, but {excuse}")),
            (Some(detail), None) => Finding::violated(detail),
        };
        let accurate = format!("no live process is suspected; {} suspicions", self.suspected);
        let complete = "every crashed process is suspected by all live ones at the end".to_owned();
        vec![
            found.verdict("safety", promised(Property::Safety), accurate, Finding::held()),
            found.verdict("liveness", promised(Property::Liveness), complete, noticed),
        ]
    }
}
