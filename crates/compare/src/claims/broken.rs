//! Claims about what is broken on purpose: the promise that does not hold.

use baton_check::{Faults, LinkOrder, Options as CheckOptions, Property};
use baton_sim::spec::{NetworkKind, Spec};
use baton_theory::Expectation;

use super::Claimed::Holds;
use super::{Figure, PROMISE, Said, checked, figure, finding, sim};
use crate::command::check_of;

const ALIVE: &str = "Every request is granted.";
const ALONE: &str = "At most one process is in the critical section.";

pub fn claims(algorithm: &str) -> Vec<Said> {
    let twice = |property| CheckOptions { entries: 2, order: Some(LinkOrder::Fifo), ..check_of(property) };
    let one_crash = |property| CheckOptions { faults: Faults { crash: 1, ..Faults::NONE }, ..check_of(property) };
    let with_seed = |algorithm, n, seed| Spec { network: NetworkKind::Async, seed: Some(seed), ..sim(algorithm, n) };
    let claim = match algorithm {
        "ricart-agrawala-time-only" => {
            checked(PROMISE, ALONE, ("ricart-agrawala-time-only", 2), check_of(Property::Safety), Holds)
        }
        "ricart-agrawala-current-clock" => {
            checked(PROMISE, ALONE, ("ricart-agrawala-current-clock", 2), check_of(Property::Safety), Holds)
        }
        "raymond-asks-once" => checked(PROMISE, ALIVE, ("raymond-asks-once", 3), check_of(Property::Deadlock), Holds),
        "permission-ring-original" => {
            checked(PROMISE, ALIVE, ("permission-ring-original", 2), check_of(Property::Deadlock), Holds)
        }
        "singhal-1989" => checked(PROMISE, ALIVE, ("singhal-1989", 3), twice(Property::Deadlock), Holds),
        "suzuki-kasami-no-outdated-check" => {
            checked(PROMISE, ALIVE, ("suzuki-kasami-no-outdated-check", 3), check_of(Property::Deadlock), Holds)
        }
        "maekawa-no-inquire" => checked(PROMISE, ALIVE, ("maekawa-no-inquire", 3), check_of(Property::Deadlock), Holds),
        "maekawa-1985" => finding(PROMISE, ALIVE, with_seed("maekawa-1985", 7, 100), Property::Liveness, Holds),
        "maekawa-yield-unseen" => {
            finding(PROMISE, ALONE, with_seed("maekawa-yield-unseen", 7, 76), Property::Safety, Holds)
        }
        "bully-late-leads" => checked(
            PROMISE,
            "Every live process follows only a process that leads.",
            ("bully-late-leads", 2),
            one_crash(Property::Liveness),
            Holds,
        ),
        "token-ring-last-word" => {
            checked(PROMISE, ALIVE, ("token-ring-last-word", 3), one_crash(Property::Deadlock), Holds)
        }
        "generalized-unchecked" => {
            checked(PROMISE, ALONE, ("generalized-unchecked", 2), check_of(Property::Safety), Holds)
        }
        "no-lock" => finding(PROMISE, ALONE, sim("no-lock", 3), Property::Safety, Holds),
        "raymond-greedy" => figure(
            PROMISE,
            "No request is overtaken more than n-1 times.",
            sim("raymond-greedy", 5),
            Figure::BypassMax,
            Expectation::at_most("at most n-1 = 4", 4.0),
        )
        .because("A process that goes before its neighbours may do so as often as it likes."),
        _ => return Vec::new(),
    };
    vec![claim]
}
