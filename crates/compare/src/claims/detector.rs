//! Claims about failure detectors.

use baton_check::{Faults, Options as CheckOptions, Property};
use baton_sim::spec::{NetworkKind, Spec};
use baton_theory::Expectation;

use super::Claimed::{Fails, Holds};
use super::{Figure, PROMISE, Said, TIME, checked, figure, finding, sim};

pub fn claims(algorithm: &str) -> Vec<Said> {
    match algorithm {
        "heartbeat" => heartbeat(),
        "phi-accrual" => phi_accrual(),
        _ => Vec::new(),
    }
}

fn guessing(spec: Spec) -> Spec {
    Spec { network: NetworkKind::Async, ignore_assumptions: true, ..spec }
}

fn heartbeat() -> Vec<Said> {
    let spec = || sim("heartbeat", 3);
    let often = || Spec { entries: Some(2_000), ..spec() };
    let patient = || Spec { variant: Some("timeout:20".into()), ..guessing(spec()) };
    vec![
        checked(
            PROMISE,
            "A process is declared dead if it was not observed for P + D: so every dead process is, and no live one.",
            ("heartbeat", 3),
            CheckOptions { faults: Faults { crash: 1, ..Faults::NONE }, ..CheckOptions::default() },
            Holds,
        )
        .because("The wait of P + D begins when the last heartbeat arrives, not at the crash."),
        figure(
            TIME,
            "Counted from the crash, that is P + 2D at most.",
            often(),
            Figure::DetectionTimeMax,
            Expectation::at_most("at most P + 2D = 12", 12.0),
        )
        .because("The last heartbeat may leave just before the crash, and takes D. Then the wait of P + D begins."),
        figure(
            TIME,
            "Counted from the crash, that is P/2 + D + the mean delay on average.",
            often(),
            Figure::DetectionTime,
            Expectation::mean("P/2 + D + mean delay", 7.0),
        ),
        figure(
            PROMISE,
            "With the right D no live process is suspected.",
            spec(),
            Figure::Mistakes,
            Expectation::exact("0", 0.0),
        ),
        finding(PROMISE, "D too small: live processes are suspected.", guessing(spec()), Property::Safety, Fails),
        finding(PROMISE, "D too large: dead processes are taken for live ones.", patient(), Property::Liveness, Fails)
            .because("They are suspected later, but always: every wait ends."),
    ]
}

fn phi_accrual() -> Vec<Said> {
    let spec = || sim("phi-accrual", 3);
    vec![
        finding(PROMISE, "Every crash is noticed.", spec(), Property::Liveness, Holds),
        figure(
            PROMISE,
            "A threshold of 8 is wrong once in a hundred million heartbeats.",
            Spec {
                variant: Some("period:2+phi:8".into()),
                entries: Some(60),
                think: Some(300.0),
                network: NetworkKind::Async,
                ..spec()
            },
            Figure::Mistakes,
            Expectation::exact("0", 0.0),
        )
        .because(
            "That holds for normally distributed times. With heavy tails it is wrong about once in three hundred.",
        ),
    ]
}
