//! Views: what the checker shows of them, and how it finds each mistake.

use baton_check::{CheckReport, Checker, Faults, Options, Verdict, check};
use baton_protocol::Property;
use baton_protocol::broken::views::{self, Mistake};
use baton_protocol::mutex::raymond;
use baton_protocol::registry::{About, Params, Visitor};
use baton_sim::stage::{Action, Wish};

fn options(crash: u8, recover: u8, suspect: u8) -> Options {
    let faults = Faults { crash, recover: Some(recover), suspect, ..Faults::NONE };
    let properties = Some(vec![Property::Safety, Property::Deadlock, Property::Fence]);
    Options { faults, properties, ..Options::default() }
}

/// Raymond in views, with one mistake.
fn raymond_with(mistake: Mistake, n: usize, options: &Options) -> CheckReport {
    static ABOUT: About = baton_protocol::views::about(raymond::ABOUT);
    let params = Params::new(n, 1);
    let group = views::mutex(&params, raymond::group(&params).unwrap(), Some(mistake)).unwrap();
    Checker { params: &params, options }.mutex(&ABOUT, group).unwrap()
}

/// The numbers of steps are at most those of the prototype of views.
#[test]
fn each_mistake_is_found_in_a_few_steps() {
    use Mistake::*;
    use Property::*;
    let unsafe_lease = Options { ignore_assumptions: true, ..options(0, 0, 1) };
    let fences = Options { properties: Some(vec![Fence]), ..options(1, 0, 0) };
    let runs = [
        (BelievesSuspicion, 2, unsafe_lease, Safety, 3),
        (AsksOnce, 2, options(1, 0, 0), Deadlock, 4),
        (CountsOnly, 2, fences, Fence, 5),
        (DropsLater, 2, options(0, 0, 1), Deadlock, 8),
        (IgnoresHold, 2, options(0, 0, 1), Safety, 4),
        (NamesIds, 2, options(0, 0, 2), Safety, 9),
        (AcceptsEarlier, 3, options(1, 0, 0), Safety, 10),
        (RunsOn, 3, options(1, 0, 0), Fence, 8),
        (ForgetsFree, 3, options(1, 0, 0), Deadlock, 10),
        (StartsEarly, 3, options(1, 0, 0), Safety, 6),
        (AdmitsEndedSession, 2, options(2, 1, 0), Deadlock, 10),
        (FreesAnyEpoch, 2, Options { entries: 2, ..options(0, 0, 2) }, Deadlock, 12),
        (EndsById, 2, options(0, 0, 1), Deadlock, 8),
    ];
    for (mistake, n, options, property, steps) in runs {
        let report = raymond_with(mistake, n, &options);
        assert_eq!((report.property, report.steps), (Some(property), Some(steps)), "{mistake:?}: {:?}", report.detail);
    }
}

/// A request that happened before another one may be granted after it, if a view has begun in between. The whole search, from
/// the start, finds 10 steps.
#[test]
fn order_does_not_hold_across_views() {
    let after = vec![
        Action::User { process: 1, wish: Wish::Request },
        Action::Crash { process: 2 },
        Action::Suspect { by: 3, of: 2 },
        Action::Deliver { message: 2 },
        Action::Deliver { message: 3 },
    ];
    let options = Options { properties: Some(vec![Property::Order]), after, ..options(1, 0, 0) };
    let params = Params { variant: Some("views".into()), ..Params::new(3, 1) };
    let report = check("ricart-agrawala", &params, &options).unwrap();
    assert_eq!((report.property, report.steps), (Some(Property::Order), Some(5)), "{:?}", report.detail);
}

/// Larger searches are commands: see docs/views.md.
#[test]
fn a_crash_violates_nothing() {
    let variants = [
        ("raymond", "views"),
        ("central", "views"),
        ("central-elected", "views"),
        ("naimi-trehel", "views"),
        ("suzuki-kasami", "views"),
        ("singhal", "views"),
        ("permission-ring", "views"),
        ("token-ring", "parked+views"),
    ];
    for (name, variant) in variants {
        let params = Params { variant: Some(variant.into()), ..Params::new(3, 1) };
        let report = check(name, &params, &options(1, 0, 0)).unwrap();
        assert_eq!(report.result, Verdict::Holds, "{name}: {:?}", report.counterexample);
        assert!(report.reached.entries > 0 && report.reached.waiting_together > 0, "{name}");
    }
}

#[test]
fn two_of_every_other_algorithm_survive_a_crash() {
    for name in ["lamport", "ricart-agrawala", "carvalho-roucairol", "maekawa", "generalized", "voting"] {
        holds(name, 2, &Options { timers: 1, ..options(1, 0, 0) });
    }
}

#[test]
fn exclusions_and_returns_violate_nothing() {
    for name in ["raymond", "central"] {
        holds(name, 2, &options(0, 0, 1));
        holds(name, 2, &options(1, 1, 0));
    }
}

#[test]
fn elections_agree_after_a_crash_and_a_return() {
    for name in ["bully", "chang-roberts", "ring-list"] {
        holds(name, 2, &Options { properties: None, ..options(1, 1, 0) });
    }
    for name in ["bully", "chang-roberts"] {
        holds(name, 3, &Options { properties: None, ..options(1, 0, 0) });
    }
}

fn holds(name: &str, n: usize, options: &Options) {
    let params = Params { variant: Some("views".into()), ..Params::new(n, 1) };
    let report = check(name, &params, options).unwrap();
    assert_eq!(report.result, Verdict::Holds, "{name}, n = {n}: {:?}", report.counterexample);
}
