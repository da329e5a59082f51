//! Violations that the checker must find, each within the given number of steps. Each counterexample is a run that a
//! replay can repeat.

use baton_check::{CheckReport, Faults, LinkOrder, Options, Property, Verdict, check};
use baton_protocol::registry::Params;
use baton_sim::replay::replay;

/// An algorithm and the options of its check.
struct Case {
    algorithm: &'static str,
    params: Params,
    options: Options,
}

fn case(algorithm: &'static str, n: usize) -> Case {
    Case { algorithm, params: Params::new(n, 1), options: Options::default() }
}

impl Case {
    fn variant(mut self, variant: &str) -> Self {
        self.params.variant = Some(variant.into());
        self
    }

    fn property(mut self, property: Property) -> Self {
        self.options.properties = Some(vec![property]);
        self
    }

    fn with(mut self, change: impl Fn(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Asserts that the property is violated, that a shortest run has `steps` steps, and that a replay can repeat it.
    #[track_caller]
    fn breaks(self, property: Property, steps: usize) {
        let report = check(self.algorithm, &self.params, &self.options).unwrap();
        assert_eq!(report.result, Verdict::Violated, "{}: {} states", self.algorithm, report.states);
        let transcript = report.counterexample.clone().unwrap().join("\n");
        assert_eq!((report.property, report.steps), (Some(property), Some(steps)), "{}:\n{transcript}", self.algorithm);
        assert_repeats(&report);
    }
}

/// Asserts that the steps lead to the same outcome with another driver and other oracles.
#[track_caller]
fn assert_repeats(report: &CheckReport) {
    let trace = report.trace.as_ref().expect("a trace");
    let replayed =
        replay(&trace.header, &trace.records).unwrap_or_else(|error| panic!("{}: {error}", report.algorithm));
    let property = report.property.unwrap();
    assert!(
        replayed.violations.iter().any(|(found, _)| *found == property.name()),
        "{}: {property} expected, found {:?}",
        report.algorithm,
        replayed.violations
    );
    // A trace does not contain reports of detectors that are still to come, so one step before the end nothing is
    // known.
    if property == Property::Deadlock && report.faults.crash + report.faults.suspect == 0 {
        assert_not_stuck_before(report);
    }
}

/// Asserts that one step before the end there is no deadlock yet, and that a trace that claims one is refused.
#[track_caller]
fn assert_not_stuck_before(report: &CheckReport) {
    let trace = report.trace.as_ref().expect("a trace");
    let last = trace.records[trace.records.len() - 2].t;
    let shorter: Vec<_> =
        trace.records.iter().filter(|record| record.t < last || record.p.is_none()).cloned().collect();
    let refusal = replay(&trace.header, &shorter).unwrap_err().to_string();
    assert_eq!(refusal, "the trace claims a violation of deadlock, but its steps do not lead to one");
}

#[test]
fn maekawa_without_inquire_gets_stuck() {
    case("maekawa-no-inquire", 3).breaks(Property::Deadlock, 6);
}

#[test]
fn maekawa_as_published_gets_stuck() {
    case("maekawa-1985", 4)
        .with(|options| options.properties = Some(vec![Property::Deadlock]))
        .breaks(Property::Deadlock, 14);
}

#[test]
fn lamport_needs_links_that_keep_the_order() {
    let unordered = |options: &mut Options| {
        options.order = Some(LinkOrder::Unordered);
        options.ignore_assumptions = true;
    };
    case("lamport", 2).with(unordered).breaks(Property::Safety, 4);
    // 6 steps if only ACK and RELEASE count as answers.
    case("lamport", 2).variant("ack-only").property(Property::Safety).with(unordered).breaks(Property::Safety, 6);
}

#[test]
fn maekawa_that_gives_back_a_grant_before_it_comes_lets_two_in() {
    case("maekawa-yield-unseen", 4).property(Property::Safety).breaks(Property::Safety, 14);
}

/// One coordinator. The coordinator or a client may crash and forget.
fn forgetful(variant: &str) -> Case {
    let mut case = case("voting", 2).variant(variant).property(Property::Fence).with(|options| {
        (options.faults.crash, options.timers, options.ignore_assumptions) = (1, 1, true);
    });
    case.params.coordinators = Some(1);
    case
}

#[test]
fn a_coordinator_that_forgets_gives_out_a_lower_fence_unless_fences_are_stored() {
    forgetful("ask-m").breaks(Property::Fence, 8);
    let Case { algorithm, params, options } = forgetful("stored-fence");
    let report = check(algorithm, &params, &options).unwrap();
    assert_eq!((report.result, report.states), (Verdict::Holds, 60_767));
}

#[test]
fn two_requests_on_the_original_permission_ring_swallow_each_other() {
    case("permission-ring-original", 2).with(|options| options.timers = 0).breaks(Property::Deadlock, 4);
}

#[test]
fn an_outdated_request_strands_the_token() {
    let case = case("suzuki-kasami-no-outdated-check", 3).property(Property::Deadlock);
    case.with(|options| options.entries = 2).breaks(Property::Deadlock, 14);
}

#[test]
fn an_outdated_request_strands_the_token_on_ordered_links_too() {
    let case = case("suzuki-kasami-no-outdated-check", 3).property(Property::Deadlock);
    let fifo = |options: &mut Options| (options.entries, options.order) = (2, Some(LinkOrder::Fifo));
    case.with(fifo).breaks(Property::Deadlock, 19);
}

#[test]
fn times_alone_are_no_total_order() {
    case("ricart-agrawala-time-only", 2).breaks(Property::Safety, 6);
}

#[test]
fn a_clock_of_now_says_nothing_of_the_own_request() {
    case("ricart-agrawala-current-clock", 2).property(Property::Safety).breaks(Property::Safety, 6);
    case("ricart-agrawala-current-clock", 2).property(Property::Order).breaks(Property::Order, 5);
}

#[test]
fn a_queue_that_the_token_has_left_must_ask_again() {
    case("raymond-asks-once", 3).property(Property::Deadlock).breaks(Property::Deadlock, 8);
}

#[test]
fn singhal_as_published_leaves_a_request_waiting() {
    let case = case("singhal-1989", 3).property(Property::Deadlock);
    case.with(|options| (options.entries, options.order) = (2, Some(LinkOrder::Fifo))).breaks(Property::Deadlock, 15);
}

#[test]
fn a_central_server_does_not_keep_the_order() {
    case("central", 2).property(Property::Order).breaks(Property::Order, 6);
}

#[test]
fn maekawa_does_not_keep_the_order() {
    case("maekawa", 3).property(Property::Order).breaks(Property::Order, 6);
}

#[test]
fn a_bully_that_takes_the_slow_for_dead_becomes_a_second_leader() {
    for (n, delay, steps) in [(3, 2, 7), (4, 2, 7), (3, 3, 6)] {
        let slow = |options: &mut Options| (options.delay, options.ignore_assumptions) = (Some(delay), true);
        case("bully", n).with(slow).breaks(Property::Safety, steps);
    }
}

/// Bully suspects by deadlines: if one deadline ends too early, two processes lead. Wrong reports of detectors alone do
/// no harm, see `verdicts.rs`.
#[test]
fn a_bully_that_wrongly_takes_higher_ones_for_dead_becomes_a_second_leader() {
    let suspect = |options: &mut Options| options.faults = Faults { suspect: 1, ..Faults::NONE };
    for n in [3, 4] {
        case("bully", n).with(suspect).breaks(Property::Safety, 6);
    }
    // With two processes, the lower asks only the higher, which has crashed.
    let report = check(
        "bully",
        &Params::new(2, 1),
        &Options { faults: Faults { suspect: 1, ..Faults::NONE }, ..Options::default() },
    );
    assert_eq!(report.unwrap().result, Verdict::Holds);
}

#[test]
fn an_id_that_is_used_again_makes_two_leaders() {
    let again = |options: &mut Options| {
        (options.faults, options.ignore_assumptions) = (Faults { crash: 1, ..Faults::NONE }, true);
    };
    case("bully", 3).property(Property::Safety).with(again).breaks(Property::Safety, 8);
}

#[test]
fn a_ring_on_which_the_living_are_taken_for_dead_elects_two() {
    let suspect = |options: &mut Options| options.faults = Faults { suspect: 1, ..Faults::NONE };
    case("chang-roberts", 3).with(suspect).breaks(Property::Safety, 11);
}

#[test]
fn greed_and_swallowed_requests_starve() {
    case("raymond-greedy", 2).property(Property::Liveness).breaks(Property::Liveness, 7);
    let few = |options: &mut Options| options.limit = 5_000;
    case("permission-ring-original", 2).property(Property::Liveness).with(few).breaks(Property::Liveness, 4);
}

#[test]
fn faults_that_an_algorithm_does_not_expect_are_repeated_too() {
    let faulty = |faults| move |options: &mut Options| (options.faults, options.ignore_assumptions) = (faults, true);
    case("central", 2).with(faulty(Faults { loss: 1, ..Faults::NONE })).breaks(Property::Deadlock, 2);
    case("central", 2).with(faulty(Faults { duplicate: 1, ..Faults::NONE })).breaks(Property::Safety, 4);
    case("suzuki-kasami", 2).with(faulty(Faults { crash: 1, ..Faults::NONE })).breaks(Property::Deadlock, 3);
    case("lamport", 2).with(faulty(Faults { suspect: 1, ..Faults::NONE })).breaks(Property::Safety, 4);
}

/// A fault that the checker found in our own rules: P2 learns of the recovery by an INQUIRE before its detector reports
/// it, counts two changes more than P0, and never answers.
#[test]
fn a_token_lost_in_a_crash_is_not_made_anew_if_late_reports_of_the_recovery_count_twice() {
    let crash = |options: &mut Options| options.faults = Faults { crash: 1, ..Faults::NONE };
    case("token-ring-last-word", 3).property(Property::Deadlock).with(crash).breaks(Property::Deadlock, 12);
}

/// Faults that the checker found in our own elections. P0 passes the id of P2 on to a crashed process, and later sends
/// only its own id.
#[test]
fn an_id_that_is_lost_with_the_dead_is_waited_for_for_ever() {
    let crash = |options: &mut Options| {
        options.faults = Faults { crash: 1, recover: Some(0), ..Faults::NONE };
        options.settled_after = Some(15);
    };
    case("chang-roberts-no-resend", 3).with(crash).breaks(Property::Liveness, 21);
}

/// The witness crashes, the leader resigns, and its RESIGN overtakes its LEADS.
#[test]
fn a_leader_that_has_resigned_is_followed_by_who_hears_of_it_late() {
    let crash = |options: &mut Options| options.faults = Faults { crash: 1, ..Faults::NONE };
    case("bully-late-leads", 2).with(crash).breaks(Property::Liveness, 52);
}

#[test]
fn sets_that_nobody_has_checked_let_two_in() {
    case("generalized-unchecked", 2).breaks(Property::Safety, 6);
    case("generalized-unchecked", 3).variant("request:0|1|2").property(Property::Safety).breaks(Property::Safety, 2);
}
