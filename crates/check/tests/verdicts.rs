//! The verdicts of the checker on the algorithms. Numbers of states are exact: if one changes, an algorithm, the
//! network or the checker has changed.

use baton_check::{CheckReport, Faults, LinkOrder, Options, Property, Verdict, check};
use baton_protocol::registry::Params;
use expect_test::{Expect, expect};

const SAFE: &[Property] = &[Property::Safety, Property::Deadlock, Property::Fence];

fn run(algorithm: &str, n: usize, options: Options) -> CheckReport {
    check(algorithm, &Params::new(n, 1), &options).unwrap()
}

fn asking(entries: u32, properties: &[Property]) -> Options {
    Options { entries, properties: Some(properties.to_vec()), ..Options::default() }
}

/// Asserts that all states were seen, that no property is violated, and that something happened.
#[track_caller]
fn assert_holds(report: &CheckReport, states: usize) {
    assert_eq!(report.result, Verdict::Holds, "{:?}", report.counterexample);
    assert!(report.complete && report.counterexample.is_none() && report.property.is_none());
    assert!(report.reached.entries > 0 && report.reached.waiting_together > 0);
    assert_eq!(report.states, states);
}

#[track_caller]
fn assert_violated(report: &CheckReport, property: Property, transcript: Expect) {
    let lines = report.counterexample.as_deref().expect("a counterexample");
    transcript.assert_eq(&format!("{}\n", lines.join("\n")));
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(property)));
    assert!(!report.complete);
    // One line for each step, and one for the verdict.
    assert_eq!(report.steps, Some(lines.len() - 1));
}

#[test]
fn central_is_safe_and_never_stuck() {
    assert_holds(&run("central", 2, asking(1, SAFE)), 33);
    assert_holds(&run("central", 2, asking(2, SAFE)), 141);
    assert_holds(&run("central", 3, asking(1, SAFE)), 180);
    assert_holds(&run("central", 3, asking(2, SAFE)), 1_505);
}

#[test]
fn ricart_agrawala_is_safe_and_never_stuck() {
    assert_holds(&run("ricart-agrawala", 2, asking(1, SAFE)), 35);
    assert_holds(&run("ricart-agrawala", 2, asking(2, SAFE)), 193);
    assert_holds(&run("ricart-agrawala", 3, asking(1, SAFE)), 5_234);
}

#[test]
fn suzuki_kasami_is_safe_and_never_stuck() {
    assert_holds(&run("suzuki-kasami", 2, asking(1, SAFE)), 21);
    assert_holds(&run("suzuki-kasami", 2, asking(2, SAFE)), 83);
    assert_holds(&run("suzuki-kasami", 3, asking(1, SAFE)), 657);
    assert_holds(&run("suzuki-kasami", 3, asking(2, SAFE)), 39_421);
}

#[test]
fn naimi_trehel_is_safe_and_never_stuck() {
    assert_holds(&run("naimi-trehel", 2, asking(2, SAFE)), 69);
    assert_holds(&run("naimi-trehel", 3, asking(1, SAFE)), 164);
    assert_holds(&run("naimi-trehel", 3, asking(2, SAFE)), 1_530);
    assert_holds(&run("naimi-trehel", 4, asking(1, SAFE)), 1_476);
}

/// A copy of the TOKEN is a second token.
#[test]
fn a_repeated_token_of_naimi_and_trehel_lets_two_in() {
    let faults = Faults { duplicate: 1, ..Faults::NONE };
    let options = Options { faults, ignore_assumptions: true, ..asking(2, &[Property::Safety]) };
    let transcript = expect![[r#"
        1   P1 asks
        2   P1 -> P0 REQUEST {requester: 1}
        3   P0 asks
        4   P0 -> P1 REQUEST {requester: 0}
        5   P0 -> P1 TOKEN {entries: 0}, and will arrive again; P1 enters (fence 1)
        6   P1 leaves
        7   P1 asks
        8   P0 -> P1 TOKEN {entries: 0}; P1 enters (fence 1)
        9   P1 -> P0 TOKEN {entries: 1}; P0 enters (fence 2)
            safety: P0 and P1 are in the critical section at once
    "#]];
    assert_violated(&run("naimi-trehel", 2, options), Property::Safety, transcript);
}

#[test]
fn voting_is_safe_and_never_stuck_within_a_few_timers() {
    let vote = |n, entries, coordinators, timers, variant: Option<&str>| {
        let params =
            Params { coordinators: Some(coordinators), variant: variant.map(String::from), ..Params::new(n, 1) };
        check("voting", &params, &Options { timers, ..asking(entries, SAFE) }).unwrap()
    };
    assert_holds(&vote(2, 1, 1, 2, None), 2_932);
    assert_holds(&vote(2, 1, 2, 1, None), 5_917);
    assert_holds(&vote(2, 1, 2, 2, None), 559_802);
    assert_holds(&vote(2, 1, 3, 1, None), 60_247);
    assert_holds(&vote(2, 1, 3, 1, Some("ask-all")), 108_082);
    assert_holds(&vote(3, 1, 1, 1, None), 4_870);
    assert_holds(&vote(2, 1, 3, 1, Some("stored-fence")), 251_647);
    assert_holds(&vote(2, 2, 1, 2, Some("stored-fence")), 51_164);
    // A REQUEST that overtakes the RELEASE before it must not bring back an old fence.
    assert_holds(&vote(2, 2, 1, 2, None), 10_586);
    assert_holds(&vote(2, 2, 2, 1, None), 22_113);
}

#[test]
fn rings_and_trees_are_safe_and_never_stuck() {
    let varied = |algorithm, variant: &str, n, entries| {
        let params = Params { variant: Some(variant.into()), ..Params::new(n, 1) };
        check(algorithm, &params, &asking(entries, SAFE)).unwrap()
    };
    assert_holds(&run("token-ring", 3, asking(2, SAFE)), 553);
    assert_holds(&varied("token-ring", "parked", 3, 2), 12_770);
    assert_holds(&run("permission-ring", 2, asking(2, SAFE)), 193);
    assert_holds(&run("permission-ring", 3, asking(1, SAFE)), 606);
    assert_holds(&run("raymond", 3, asking(2, SAFE)), 2_112);
    assert_holds(&varied("raymond", "chain", 4, 1), 1_316);
    assert_holds(&varied("raymond", "edges:0-1,1-2,1-3", 4, 1), 1_280);
    assert_holds(&varied("raymond", "greedy:2", 3, 2), 13_104);
}

#[test]
fn two_of_the_original_permission_ring_swallow_each_others_requests() {
    let report = run("permission-ring-original", 2, Options::default());
    assert_violated(
        &report,
        Property::Deadlock,
        expect![[r#"
            1   P0 asks
            2   P1 asks
            3   P0 -> P1 REQUEST {stamp: {time: 1, process: 0}, time: 1}
            4   P1 -> P0 REQUEST {stamp: {time: 1, process: 1}, time: 1}
                deadlock: P0 and P1 wait, and nothing can happen
        "#]],
    );
}

#[test]
fn a_network_that_keeps_the_order_allows_less() {
    let fifo = |options| Options { order: Some(LinkOrder::Fifo), ..options };
    assert_holds(&run("suzuki-kasami", 3, fifo(asking(2, SAFE))), 10_475);
    assert_holds(&run("ricart-agrawala", 2, fifo(asking(2, SAFE))), 151);
    assert_holds(&run("naimi-trehel", 3, fifo(asking(2, SAFE))), 1_432);
}

#[test]
fn ricart_agrawala_by_time_alone_lets_two_in_after_six_steps() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P0 -> P1 REQUEST {time: 1}
        4   P1 -> P0 REQUEST {time: 1}
        5   P0 -> P1 REPLY {time: 1, request: 1}; P1 enters (fence 65537)
        6   P1 -> P0 REPLY {time: 1, request: 1}; P0 enters (fence 65536)
            safety: P0 and P1 are in the critical section at once
    "#]];
    let report = run("ricart-agrawala-time-only", 2, Options::default());
    assert_eq!(report.steps, Some(6));
    assert_violated(&report, Property::Safety, transcript);
    let among_three = run("ricart-agrawala-time-only", 3, asking(1, &[Property::Safety]));
    assert_eq!((among_three.result, among_three.property), (Verdict::Violated, Some(Property::Safety)));
}

#[test]
fn central_serves_in_order_of_arrival_and_so_not_in_order_of_request() {
    let report = run("central", 2, asking(1, &[Property::Order]));
    assert_eq!(report.app_messages, 1, "ORDER implies an application message");
    let transcript = expect![[r#"
        1   P0 asks
        2   P0 sends P1 an application message
        3   P0 -> P1 application message
        4   P1 asks
        5   P1 -> P2 REQUEST
        6   P2 -> P1 GRANT {fence: 1}; P1 enters (fence 1)
            order: P1 enters, and the request of P0, which happened before, still waits
    "#]];
    assert_violated(&report, Property::Order, transcript);
    // Without an application message, and with one entry each, no request happens before another.
    let silent = Options { app_messages: Some(0), ..asking(1, &[Property::Order]) };
    assert_eq!(run("central", 2, silent).result, Verdict::Holds);
}

#[test]
fn neither_a_token_nor_votes_keep_the_order_of_requests() {
    let token = run("suzuki-kasami", 3, asking(1, &[Property::Order]));
    let transcript = expect![[r#"
        1   P1 asks
        2   P1 sends P0 an application message
        3   P1 -> P0 application message
        4   P0 asks; P0 enters (fence 1)
            order: P0 enters, and the request of P1, which happened before, still waits
    "#]];
    assert_violated(&token, Property::Order, transcript);
    let votes = run("voting", 2, asking(1, &[Property::Order]));
    assert_eq!((votes.result, votes.property), (Verdict::Violated, Some(Property::Order)));
}

#[test]
fn ricart_agrawala_keeps_the_order_of_requests() {
    assert_holds(&run("ricart-agrawala", 2, Options::default()), 374);
    assert_holds(&run("ricart-agrawala", 2, Options { entries: 2, ..Options::default() }), 2975);
    let two_messages = Options { app_messages: Some(2), ..Options::default() };
    assert_holds(&run("ricart-agrawala", 2, two_messages), 2689);
    assert_holds(&run("ricart-agrawala", 3, asking(1, &[Property::Order])), 246057);
}

/// A crashed process passes on what happened before, too. With three processes there are too many states for a verdict.
/// But the limit is high enough to find the violation that appears if the clocks of crashed processes are ignored,
/// after 8 and 9 steps.
#[test]
fn requests_keep_their_order_although_one_crashes() {
    let crash = |limit| {
        let faults = Faults { crash: 1, ..Faults::NONE };
        Options { faults, limit, ..asking(1, &[Property::Order]) }
    };
    assert_holds(&run("lamport", 2, crash(100_000)), 33_538);
    assert_holds(&run("ricart-agrawala", 2, crash(100_000)), 5_483);
    for (algorithm, limit, steps) in [("lamport", 150_000, 8), ("ricart-agrawala", 400_000, 9)] {
        let report = run(algorithm, 3, crash(limit));
        assert_eq!(report.result, Verdict::Limit, "{algorithm}: {:#?}", report.counterexample);
        assert!(report.depth >= steps, "{algorithm}: {}", report.depth);
    }
}

#[test]
fn bully_elects_the_highest_that_lives_and_never_two() {
    let elect = |n, delay| {
        let report = check("bully", &Params::new(n, delay), &Options::default()).unwrap();
        assert_eq!((report.result, report.complete), (Verdict::Holds, true), "{:?}", report.counterexample);
        assert_eq!(report.properties, [Property::Safety, Property::Liveness]);
        assert!(report.reached.entries > 0);
        report.states
    };
    assert_eq!([elect(2, 1), elect(3, 1), elect(3, 2), elect(4, 1)], [491, 1_805, 12_518, 11_495]);
}

/// The time by which all must agree grows with the message delay, so slow messages are no violation.
#[test]
fn those_who_assume_nothing_of_time_agree_in_the_end_however_long_messages_take() {
    let options = Options { delay: Some(30), ..Options::default() };
    let report = check("chang-roberts", &Params::new(2, 1), &options).unwrap();
    assert_eq!((report.result, report.complete), (Verdict::Holds, true), "{:?}", report.counterexample);
}

/// One of three processes crashes at any time. The others learn of the crash, and agree on the best live process.
#[test]
fn elections_survive_a_crash() {
    let elect = |algorithm, variant: Option<&str>, n, states: Option<usize>| {
        let params = Params { variant: variant.map(String::from), ..Params::new(n, 1) };
        let faults = Faults { crash: 1, ..Faults::NONE };
        let report = check(algorithm, &params, &Options { faults, ..Options::default() }).unwrap();
        assert_eq!(report.result, Verdict::Holds, "{algorithm} {variant:?}: {:#?}", report.counterexample);
        assert!(report.complete && report.reached.entries > 0);
        assert!(states.is_none_or(|states| states == report.states), "{algorithm}: {} states", report.states);
    };
    elect("bully", None, 3, Some(9_589));
    elect("bully", None, 4, Some(86_816));
    elect("chang-roberts", None, 2, Some(18_410));
    elect("ring-list", Some("lowest"), 2, Some(4_233));
    elect("bully", Some("witness"), 2, None);
    // Of two processes neither has a majority alone, and an announcement of a crashed process must not be believed.
    elect("ring-list", Some("quorum"), 2, None);
    elect("chang-roberts", Some("witness"), 2, None);
}

/// The witness may crash for ever. Without the witness no process may lead.
#[test]
fn elections_behind_a_witness_survive_its_crash() {
    let elect = |algorithm, states| {
        let params = Params { variant: Some("witness".into()), ..Params::new(2, 1) };
        let faults = Faults { crash: 1, ..Faults::NONE };
        let report = check(algorithm, &params, &Options { faults, ..Options::default() }).unwrap();
        assert_eq!(report.result, Verdict::Holds, "{algorithm}: {:#?}", report.counterexample);
        assert_eq!((report.states, report.complete), (states, true), "{algorithm}");
    };
    elect("bully", 93_376);
    elect("ring-list", 29_220);
}

/// A judge that recovers without its memory abstains for ever. The group needs the judge, so by default the checker
/// recovers judges with their memory only.
#[test]
fn judges_come_back_with_their_memory() {
    let params = Params { variant: Some("quorum".into()), ..Params::new(2, 1) };
    let faults = Faults { crash: 1, ..Faults::NONE };
    let report = check("chang-roberts", &params, &Options { faults, ..Options::default() }).unwrap();
    assert_eq!((report.result, report.complete), (Verdict::Holds, true), "{:#?}", report.counterexample);
    let careless = Options { faults, ignore_assumptions: true, ..Options::default() };
    let report = check("chang-roberts", &params, &careless).unwrap();
    assert_eq!(report.property, Some(Property::Liveness));
    let forgets = |line: &String| line.contains("P0 recovers without memory");
    assert!(report.counterexample.unwrap().iter().any(forgets));
}

/// A bully asks a process that its detector wrongly suspects, and the process answers in time. So with correct
/// deadlines there is one leader, and all agree on it, whatever the detectors report. On a ring, processes do not ask a
/// suspected process.
#[test]
fn detectors_that_err_do_no_harm_to_a_bully_by_themselves() {
    let err = |algorithm, n, delay, crash, suspect| {
        let faults = Faults { crash, suspect, detectors_only: true, ..Faults::NONE };
        check(algorithm, &Params::new(n, delay), &Options { faults, ..Options::default() }).unwrap()
    };
    for (n, delay, crash, suspect, states) in
        [(2, 1, 0, 1, 491), (3, 1, 0, 1, 14_945), (3, 1, 0, 2, 33_995), (3, 2, 0, 1, 97_723), (3, 1, 1, 1, 88_225)]
    {
        let report = err("bully", n, delay, crash, suspect);
        assert_eq!((report.result, report.states), (Verdict::Holds, states), "{:#?}", report.counterexample);
        assert!(report.complete && report.reached.entries > 0);
    }
    let ring = err("chang-roberts", 3, 1, 0, 1);
    assert_eq!((ring.property, ring.steps), (Some(Property::Safety), Some(11)));
}

#[test]
fn behind_a_guard_no_term_has_two_leaders_whatever_detectors_say() {
    let params = Params { variant: Some("witness".into()), ..Params::new(2, 1) };
    let faults = Faults { suspect: 1, ..Faults::NONE };
    let options = Options { faults, properties: Some(vec![Property::Safety]), ..Options::default() };
    let report = check("ring-list", &params, &options).unwrap();
    assert_eq!(report.result, Verdict::Holds, "{:#?}", report.counterexample);
    assert!(report.complete && report.reached.entries > 0);
}

#[test]
fn bully_takes_its_time() {
    let hasty = Options { settled_after: Some(22), ..Options::default() };
    let report = check("bully", &Params::new(3, 1), &hasty).unwrap();
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Liveness)));
}

#[test]
fn bully_with_too_tight_a_deadline_elects_two() {
    let slow = Options { delay: Some(2), ignore_assumptions: true, ..Options::default() };
    let report = check("bully", &Params::new(3, 1), &slow).unwrap();
    assert_eq!((report.property, report.steps), (Some(Property::Safety), Some(7)));
    expect![[r#"
            P2 has crashed
        1   P0 suspects P2; P0 has no leader
        2   P1 suspects P2; P1 has no leader
        3   a tick passes
        4   P0 -> P1 ELECTION
        5   a tick passes
        6   P0 timer Answer; P0 leads
        7   P1 timer Answer; P1 leads
            safety: P1 and P0 both lead
    "#]]
    .assert_eq(&format!("{}\n", report.counterexample.unwrap().join("\n")));
}

#[test]
fn a_limit_is_no_verdict() {
    let report = run("ricart-agrawala", 3, Options { limit: 1_000, ..Options::default() });
    assert_eq!((report.result, report.complete, report.states), (Verdict::Limit, false, 1_000));
}

/// The voters are drawn one after the other, so there are 13 * 12 * ... * 7 ways to choose them.
#[test]
fn a_step_with_too_many_outcomes_is_no_verdict() {
    let params = Params { coordinators: Some(13), ..Params::new(2, 1) };
    let report = check("voting", &params, &Options::default()).unwrap();
    assert_eq!((report.result, report.complete), (Verdict::Limit, false));
    assert_eq!(report.detail.as_deref(), Some("a step has more than 20000 outcomes"));
}

/// A token that goes round for ever reaches every waiting process, including recovered processes.
#[test]
fn nobody_starves_although_one_crashes() {
    let crash = Faults { crash: 1, ..Faults::NONE };
    let run = |algorithm, n, entries| {
        let report = run(algorithm, n, Options { faults: crash, ..asking(entries, &[Property::Liveness]) });
        assert_eq!(
            (report.result, report.complete),
            (Verdict::Holds, true),
            "{algorithm}: {:#?}",
            report.counterexample
        );
        report.cyclic.map(|cyclic| cyclic.components > 0)
    };
    assert_eq!(run("token-ring", 2, 2), Some(true));
    assert_eq!(run("token-ring", 3, 1), Some(true));
    assert_eq!(run("central-elected", 2, 2), Some(false));
    assert_eq!(run("ricart-agrawala", 2, 2), Some(false));
    assert_eq!(run("lamport", 2, 1), Some(false));
}

/// Asserts that no client starves if all clients request for ever.
#[track_caller]
fn assert_nobody_starves(algorithm: &str, n: usize, order: Option<LinkOrder>, states: usize) {
    let report = run(algorithm, n, Options { order, ..asking(1, &[Property::Liveness]) });
    assert_eq!(report.result, Verdict::Holds, "{:?}", report.counterexample);
    let cyclic = report.cyclic.unwrap();
    assert!(cyclic.components > 0, "a model without cycles proves nothing");
    assert_eq!((cyclic.states, report.states, report.complete), (states, states, true), "{algorithm}, n = {n}");
}

#[test]
fn nobody_starves_where_everybody_asks_for_ever() {
    assert_nobody_starves("central", 3, None, 182);
    assert_nobody_starves("ricart-agrawala", 2, None, 31);
    assert_nobody_starves("raymond", 3, None, 110);
    assert_nobody_starves("naimi-trehel", 3, None, 318);
    assert_nobody_starves("naimi-trehel", 4, None, 10_504);
}

#[test]
fn greed_starves_neighbours() {
    let report = run("raymond-greedy", 2, asking(1, &[Property::Liveness]));
    let transcript = expect![[r#"
        1   P1 asks
        2   P1 -> P0 REQUEST
        3   P0 asks
        4   P0 -> P1 REQUEST
        5   P0 -> P1 TOKEN {entries: 0}; P1 enters (fence 1)
            and from here on, again and again:
        6   P1 leaves
        7   P1 asks; P1 enters (fence 2)
            liveness: P0 waits for ever, while others enter again and again or messages go round
    "#]];
    transcript.assert_eq(&format!("{}\n", report.counterexample.unwrap().join("\n")));
    assert_eq!((report.property, report.steps), (Some(Property::Liveness), Some(7)));
    let bounded = Params { variant: Some("greedy:2".into()), ..Params::new(3, 1) };
    let report = check("raymond", &bounded, &asking(1, &[Property::Liveness])).unwrap();
    assert_eq!(report.result, Verdict::Holds, "bounded greed starves no process");
}

/// Losses and duplicates do not change counters, so clients can request for ever.
#[test]
fn who_starves_does_so_on_a_network_that_repeats_messages_too() {
    let faults = Faults { duplicate: 1, ..Faults::NONE };
    let options = Options { faults, ignore_assumptions: true, ..asking(1, &[Property::Liveness]) };
    let report = run("raymond-greedy", 2, options);
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Liveness)));
}

#[test]
fn while_clocks_run_apart_there_is_no_verdict_on_starvation() {
    let report = run("carvalho-roucairol", 2, Options { limit: 10_000, ..asking(1, &[Property::Liveness]) });
    assert_eq!((report.result, report.complete), (Verdict::Limit, false));
    // If liveness was not requested by name, a limit in the search for starvation does not affect the verdict on the
    // other properties.
    let report = run("carvalho-roucairol", 2, Options::default());
    assert_eq!((report.result, report.complete), (Verdict::Holds, true));
    assert_eq!(report.cyclic.unwrap().result, Verdict::Limit);
    assert!(!report.properties.contains(&Property::Liveness));
    // But if the user has set a limit, the report says that it was reached.
    let report = run("carvalho-roucairol", 2, Options { limit: 10_000, ..Options::default() });
    assert_eq!((report.result, report.complete), (Verdict::Limit, false));
}

#[test]
fn crashes_that_are_reported_do_no_harm_to_those_who_can_bear_them() {
    let crash = |algorithm, n| {
        let faults = Faults { crash: 1, ..Faults::NONE };
        run(algorithm, n, Options { faults, ..asking(1, SAFE) })
    };
    for (algorithm, n) in [("lamport", 2), ("ricart-agrawala", 2), ("token-ring", 2)] {
        let report = crash(algorithm, n);
        assert_eq!(report.result, Verdict::Holds, "{algorithm}: {:#?}", report.counterexample);
    }
}

/// A crashed process may recover or not, depending on the budget.
#[test]
fn recoveries_have_a_budget_of_their_own() {
    let crash = |algorithm, crash, recover, ignore_assumptions| {
        let faults = Faults { crash, recover, ..Faults::NONE };
        run(algorithm, 2, Options { faults, ignore_assumptions, ..asking(1, SAFE) })
    };
    let tells_of_a_recovery =
        |report: &CheckReport| report.counterexample.iter().flatten().any(|l| l.contains("recovers"));
    let states = |recover| {
        let report = crash("lamport", 1, recover, false);
        assert_eq!(report.result, Verdict::Holds, "{:#?}", report.counterexample);
        report.states
    };
    let (never, once) = (states(Some(0)), states(Some(1)));
    assert_eq!((never < once, states(None)), (true, once), "by default, one recovery after each crash");
    // The central server forgets the holder only if it recovers.
    let safe = |recover| {
        let faults = Faults { crash: 1, recover, ..Faults::NONE };
        run("central", 2, Options { faults, ignore_assumptions: true, ..asking(1, &[Property::Safety]) })
    };
    assert_eq!(safe(Some(0)).result, Verdict::Holds);
    let forgetful = safe(Some(1));
    assert_eq!(forgetful.property, Some(Property::Safety));
    assert!(tells_of_a_recovery(&forgetful));
}

/// Numbered replies may arrive twice, and permissions may be lost: no process enters because of that. A lost or a
/// duplicated token breaks the algorithm.
#[test]
fn losses_and_copies_do_harm_to_some_and_not_to_others() {
    let faulty = |algorithm, faults, properties: &[Property]| {
        run(algorithm, 2, Options { faults, ignore_assumptions: true, ..asking(1, properties) })
    };
    let (loss, duplicate) = (Faults { loss: 1, ..Faults::NONE }, Faults { duplicate: 1, ..Faults::NONE });
    assert_holds(&faulty("ricart-agrawala", loss, &[Property::Safety]), 56);
    assert_holds(&faulty("ricart-agrawala", duplicate, &[Property::Safety, Property::Deadlock]), 174);
    assert_holds(&faulty("suzuki-kasami", loss, &[Property::Safety]), 32);
    let lost = faulty("suzuki-kasami", loss, &[Property::Safety, Property::Deadlock]);
    assert_eq!((lost.property, lost.steps), (Some(Property::Deadlock), Some(2)));
    let twice = faulty("token-ring", duplicate, &[Property::Safety, Property::Deadlock]);
    assert_eq!((twice.property, twice.steps), (Some(Property::Safety), Some(5)));
}

#[test]
fn a_lost_message_and_one_that_comes_twice_do_harm() {
    let faulty =
        |algorithm, n, faults| run(algorithm, n, Options { faults, ignore_assumptions: true, ..Options::default() });
    let lost = faulty("central", 2, Faults { loss: 1, ..Faults::NONE });
    assert_eq!((lost.property, lost.steps), (Some(Property::Deadlock), Some(2)));
    let twice = faulty("central", 2, Faults { duplicate: 1, ..Faults::NONE });
    assert_eq!((twice.result, twice.property), (Verdict::Violated, Some(Property::Safety)));
}

#[test]
fn a_lease_promises_nothing_about_being_alone() {
    let params = Params { variant: Some("lease:3".into()), ..Params::new(2, 1) };
    let report = check("central", &params, &Options::default()).unwrap();
    assert!(!report.properties.contains(&Property::Safety), "{:?}", report.properties);
    let asked = Options { ignore_assumptions: true, ..asking(1, &[Property::Safety]) };
    let asked = check("central", &params, &asked).unwrap();
    assert_eq!(asked.property, Some(Property::Safety));
}

#[test]
fn threads_change_neither_verdicts_nor_counterexamples() {
    let lines = |threads| {
        let options = Options { threads: Some(threads), ..asking(2, &[Property::Deadlock]) };
        let report = run("suzuki-kasami-no-outdated-check", 3, options);
        (report.counterexample, report.states, report.transitions, report.depth)
    };
    assert_eq!(lines(1), lines(3));
}

#[test]
fn a_group_that_asks_for_ever_proves_something_only_if_two_of_it_wait() {
    let liveness = |algorithm| run(algorithm, 2, asking(1, &[Property::Liveness]));
    let central = liveness("central");
    assert_holds(&central, 36);
    assert_eq!(central.cyclic.map(|cyclic| cyclic.reached), Some(central.reached));
    let no_lock = liveness("no-lock");
    assert_eq!((no_lock.result, no_lock.property), (Verdict::Violated, Some(Property::Reachability)));
    assert_eq!(no_lock.cyclic.map(|cyclic| cyclic.result), Some(Verdict::Violated));
    assert!(no_lock.reached.entries > 0 && no_lock.reached.waiting_together == 0);
}

#[test]
fn the_state_that_must_not_be_counts_as_the_deepest() {
    let report = run("maekawa-no-inquire", 3, asking(1, &[Property::Deadlock]));
    assert_eq!((report.steps, report.depth), (Some(6), 6));
}
