//! Claims about elections: messages and time, in the best and the worst case.

use baton_check::{Faults, Options as CheckOptions, Property};
use baton_sim::spec::{NetworkKind, Spec};
use baton_theory::Expectation;

use super::Claimed::{Fails, Holds};
use super::{CRASH, Figure, MESSAGES, PROMISE, Said, Shown, TIME, checked, figure, finding, sim, with_faults};
use crate::command::check_of;
use crate::election::Starts;

pub fn claims(algorithm: &str) -> Vec<Said> {
    match algorithm {
        "bully" => bully(),
        "chang-roberts" => chang_roberts(),
        "ring-list" => ring_list(),
        _ => Vec::new(),
    }
}

fn noticed_by(spec: Spec, process: usize) -> Spec {
    Spec { noticed_by: Some(process), ..spec }
}

fn exact(formula: &str, value: f64) -> Expectation {
    Expectation::exact(formula, value)
}

fn messages(documents: &'static str, spec: Spec, claimed: Expectation) -> Said {
    figure(MESSAGES, documents, spec, Figure::ElectionMessages, claimed)
}

fn time(documents: &'static str, spec: Spec, claimed: Expectation) -> Said {
    figure(TIME, documents, spec, Figure::ElectionTime, claimed)
}

/// The live processes agree on a leader after these crashes.
fn survives(documents: &'static str, spec: Spec, fault: &str) -> Said {
    finding(CRASH, documents, Spec { faults: vec![fault.into()], ..spec }, Property::Liveness, Holds)
}

fn bully() -> Vec<Said> {
    let spec = || sim("bully", 5);
    // The first round ends when every answer would have come.
    let two_rounds = || exact("2D + T for 2 rounds", 3.0);
    let unsafe_run = |documents, spec: Spec| {
        finding(PROMISE, documents, Spec { ignore_assumptions: true, ..spec }, Property::Safety, Fails)
    };
    vec![
        figure(
            MESSAGES,
            "n-2 messages in the best case.",
            noticed_by(spec(), 3),
            Figure::ElectionMessagesOf("COORDINATOR"),
            exact("n-2", 3.0),
        )
        .because("If n counts the crashed leader, and the ELECTION to it is not counted."),
        messages("n-1, if the ELECTION to the crashed leader is counted.", noticed_by(spec(), 3), exact("n-1", 4.0)),
        messages(
            "O(n^2) messages in the worst case.",
            noticed_by(spec(), 0),
            Expectation::at_most("at most n^2 = 25", 25.0),
        ),
        messages(
            "The worst case is n^2-n-1: the lowest process notices.",
            noticed_by(spec(), 0),
            exact("n^2-n-1", 19.0),
        ),
        messages("The same if all processes notice.", spec(), exact("n^2-n-1", 19.0)),
        time("2 rounds, if the runner-up notices.", noticed_by(spec(), 3), two_rounds())
            .because("ELECTION, for which the runner-up waits 2D for an OK, and COORDINATOR."),
        time("2 rounds, if all processes notice.", spec(), two_rounds()),
        time("2 rounds, if another process notices.", noticed_by(spec(), 0), two_rounds())
            .because("3 rounds: the runner-up hears of the election in the first one, and its own two follow."),
        survives("The highest live process leads after a crash.", spec(), "crash 4 @ 30"),
        unsafe_run("Too tight a deadline breaks safety.", Spec { delay_max: Some(0.4), ..noticed_by(spec(), 0) }),
        unsafe_run(
            "A system that is not synchronous breaks safety.",
            Spec { network: NetworkKind::Async, seed: Some(42), ..spec() },
        ),
        finding(
            PROMISE,
            "Ids that reappear break safety.",
            with_faults(spec(), &["crash 4 @ 1", "recover 4 @ 20 without-memory"]),
            Property::Safety,
            Fails,
        ),
    ]
}

fn chang_roberts() -> Vec<Said> {
    let spec = || sim("chang-roberts", 5);
    let on_average = |documents, starts, claimed| Said {
        subject: MESSAGES,
        documents,
        shown: Shown::Elections { algorithm: "chang-roberts", n: 9, starts, claimed },
        why: "",
    };
    let descending = || Spec { variant: Some("descending".into()), ..spec() };
    vec![
        messages("3n-1 messages per election.", noticed_by(spec(), 0), exact("3n-1", 14.0))
            .because("This is the worst case of one starter: the largest id is n-1 hops away."),
        messages(
            "3n-1 messages per election, whichever process begins it.",
            noticed_by(spec(), 4),
            exact("3n-1", 14.0),
        )
        .because("2n if the process with the largest id begins it."),
        messages("3n-1 messages per election, also if several begin it.", descending(), exact("3n-1", 14.0))
            .because("n(n+1)/2 + n if all begin at once, and each id is followed by the next lower one on the ring."),
        on_average("(5n-1)/2 messages on average, if any process begins it.", Starts::One, exact("(5n-1)/2", 22.0)),
        on_average(
            "n H_n + n messages on average, if all begin it on rings in random order.",
            Starts::AllOnRandomRings,
            Expectation::mean("n H_n + n", 9.0 * (7_129.0 / 2_520.0) + 9.0),
        ),
        time("As many T as messages, if one process begins it.", noticed_by(spec(), 0), exact("3n-1", 14.0)),
        time("2n T, if all begin it.", spec(), exact("2n", 10.0)),
        survives("Crashes can be overcome if they are detected reliably.", spec(), "crash 4 @ 3"),
        checked(
            PROMISE,
            "At most one process leads, also if a detector suspects a live process.",
            ("chang-roberts", 3),
            CheckOptions {
                faults: Faults { suspect: 1, detectors_only: true, ..Faults::NONE },
                ..check_of(Property::Safety)
            },
            Holds,
        )
        .because("The ring goes around the suspected process, which may still lead."),
    ]
}

fn ring_list() -> Vec<Said> {
    let spec = || sim("ring-list", 5);
    let multicast = || Spec { variant: Some("multicast".into()), ..spec() };
    vec![
        messages("2n messages: the list goes round, then the outcome.", noticed_by(spec(), 0), exact("2n", 10.0)),
        messages("The same whichever process begins it.", noticed_by(spec(), 4), exact("2n", 10.0)),
        messages("n lists go round, if all begin it at once.", spec(), exact("2n^2", 50.0)),
        messages("2n-1 messages, if the outcome is a multicast.", noticed_by(multicast(), 0), exact("2n-1", 9.0)),
        time("2n T.", noticed_by(spec(), 0), exact("2n", 10.0)),
        time("n+1 T, if the outcome is a multicast.", noticed_by(multicast(), 0), exact("n+1", 6.0)),
        survives("A process that is down is skipped.", spec(), "crash 2 @ 3"),
    ]
}
