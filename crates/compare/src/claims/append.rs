//! Claims about record append.

use baton_check::Property;
use baton_sim::app::mutex::Load;
use baton_sim::spec::Spec;
use baton_theory::Expectation;

use super::Claimed::Holds;
use super::{CLIENT_DELAY, CRASH, Figure, MESSAGES, Said, figure, finding, sim};

pub fn claims(algorithm: &str) -> Vec<Said> {
    if algorithm != "record-append" {
        return Vec::new();
    }
    let spec = || sim("record-append", 3);
    let buffered = || Spec { variant: Some("batch:10".into()), ..sim("record-append", 10) };
    let crash = || Spec { faults: vec!["crash 3 @ 10.5".into()], ..spec() };
    vec![
        figure(
            MESSAGES,
            "2 + 2(r-1) messages per append, for r replicas.",
            spec(),
            Figure::MessagesPerAppend,
            Expectation::exact("2 + 2(r-1)", 6.0),
        ),
        figure(
            MESSAGES,
            "Appends can be buffered: 2 + 2(r-1)/b messages per append, if batches of b fill up.",
            buffered(),
            Figure::MessagesPerAppend,
            Expectation::exact("2 + 2(r-1)/b, b = 10", 2.4),
        ),
        figure(CLIENT_DELAY, "4 T.", spec(), Figure::ClientDelay, Expectation::exact("4", 4.0))
            .because("APPEND, REPLICATE, ACK and the answer."),
        figure(
            CLIENT_DELAY,
            "Up to D more, if a batch does not fill up.",
            Spec { load: Some(Load::Solo), ..buffered() },
            Figure::ClientDelay,
            Expectation::exact("4 + D", 5.0),
        ),
        finding(CRASH, "A new primary goes on after a crash.", crash(), Property::Liveness, Holds),
        finding(CRASH, "Each record is whole, also after a crash.", crash(), Property::Safety, Holds),
    ]
}
