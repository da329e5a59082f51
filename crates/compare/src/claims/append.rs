//! Claims about record append.

use baton_check::Property;
use baton_theory::Expectation;

use super::Claimed::Holds;
use super::{CRASH, Figure, MESSAGES, Said, figure, finding, sim};

pub fn claims(algorithm: &str) -> Vec<Said> {
    if algorithm != "record-append" {
        return Vec::new();
    }
    let spec = || sim("record-append", 3);
    let crash = || baton_sim::spec::Spec { faults: vec!["crash 3 @ 10.5".into()], ..spec() };
    vec![
        figure(
            MESSAGES,
            "2 + 2(r-1) messages per append, for r replicas.",
            spec(),
            Figure::MessagesPerAppend,
            Expectation::exact("2 + 2(r-1)", 6.0),
        ),
        finding(CRASH, "A new primary goes on after a crash.", crash(), Property::Liveness, Holds),
        finding(CRASH, "Each record is whole, also after a crash.", crash(), Property::Safety, Holds),
    ]
}
