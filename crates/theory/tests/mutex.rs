//! The costs of mutual exclusion, compared with numbers worked out by hand.

use baton_theory::mutex::{Costs, Load, Setting, closed_loop_client_delay, costs};
use baton_theory::{Expectation, Kind};

fn at(algorithm: &str, variant: &str, n: usize, load: Load) -> Costs {
    let variant = (!variant.is_empty()).then_some(variant);
    costs(&Setting { variant, ..Setting::new(algorithm, n, load) }).unwrap()
}

fn value(expectation: &Option<Expectation>) -> Option<f64> {
    expectation.as_ref().map(|expectation| (expectation.value * 1e9).round() / 1e9)
}

/// Messages per entry for the loads Solo, SoloRandom and All.
fn messages(algorithm: &str, variant: &str, n: usize) -> [Option<f64>; 3] {
    [Load::Solo, Load::SoloRandom, Load::All].map(|load| value(&at(algorithm, variant, n, load).messages_per_entry))
}

/// The client delay for Solo, then the sync delay and the client delay for All.
fn delays(algorithm: &str, variant: &str, n: usize) -> [Option<f64>; 3] {
    let (solo, all) = (at(algorithm, variant, n, Load::Solo), at(algorithm, variant, n, Load::All));
    assert_eq!(solo.sync_delay, None, "{algorithm}: nobody waits");
    [value(&solo.client_delay), value(&all.sync_delay), value(&all.client_delay)]
}

#[test]
fn messages_per_entry() {
    let table = [
        ("central", "", 10, [3.0, 3.0, 3.0]),
        ("token-ring", "", 10, [1.0, 5.0, 1.0]),
        ("token-ring", "parked", 10, [10.0, 10.0, 2.0]),
        ("permission-ring", "", 10, [10.0, 10.0, 10.0]),
        ("lamport", "", 10, [27.0, 27.0, 27.0]),
        ("ricart-agrawala", "", 10, [18.0, 18.0, 18.0]),
        ("carvalho-roucairol", "", 10, [18.0, 10.0, 18.0]),
        ("maekawa", "", 36, [30.0, 30.0, 40.0]),
        ("maekawa", "yield-at-once", 36, [30.0, 30.0, 30.0]),
        ("maekawa", "", 7, [6.0, 6.0, 8.0]),
        ("maekawa", "yield-at-once+majority", 7, [9.0, 9.0, 9.0]),
        ("generalized", "", 36, [30.0, 30.0, 40.0]),
        ("generalized", "central", 10, [3.0, 3.0, 4.0]),
        ("generalized", "central+yield-at-once", 10, [3.0, 3.0, 3.0]),
        ("generalized", "ricart-agrawala", 10, [18.0, 18.0, 27.0]),
        ("generalized", "ricart-agrawala+yield-at-once", 10, [18.0, 18.0, 18.0]),
        ("suzuki-kasami", "", 10, [10.0, 10.0, 10.0]),
        ("singhal", "", 10, [10.0, 6.0, 10.0]),
        // H(2) = 3/2 and H(8) = 761/280.
        ("naimi-trehel", "", 3, [2.5, 2.25, 2.5]),
        ("naimi-trehel", "", 9, [3.4, 3.057_589_286, 3.4]),
        ("raymond", "chain", 8, [3.5, 6.0, 3.5]),
        ("raymond", "star", 8, [3.5, 3.5, 3.5]),
        ("voting", "", 9, [15.0, 15.0, 15.0]),
        ("voting", "ask-all", 9, [27.0, 27.0, 27.0]),
        ("voting", "stored-fence", 9, [25.0, 25.0, 25.0]),
        ("voting", "ask-all+stored-fence", 9, [37.0, 37.0, 37.0]),
    ];
    for (algorithm, variant, n, expected) in table {
        assert_eq!(messages(algorithm, variant, n), expected.map(Some), "{algorithm} {variant}");
    }
}

#[test]
fn delays_in_t() {
    let table = [
        ("central", "", 10, [2.0, 2.0, 29.0]),
        ("token-ring", "parked", 10, [10.0, 1.0, 19.0]),
        ("lamport", "", 10, [2.0, 1.0, 19.0]),
        ("suzuki-kasami", "", 10, [2.0, 1.0, 19.0]),
        ("naimi-trehel", "", 9, [3.4, 1.0, 17.0]),
        ("raymond", "star", 8, [3.5, 1.75, 21.0]),
        ("maekawa", "", 9, [2.0, 2.0, 26.0]),
        ("voting", "", 9, [2.0, 2.0, 26.0]),
        ("voting", "stored-fence", 9, [4.0, 4.0, 44.0]),
    ];
    for (algorithm, variant, n, expected) in table {
        assert_eq!(delays(algorithm, variant, n), expected.map(Some), "{algorithm} {variant}");
    }
    assert_eq!(closed_loop_client_delay(5, 3.0, 2.0), 22.0);
}

#[test]
fn some_are_bounds_and_some_are_means() {
    let kind = |costs: Costs| costs.messages_per_entry.unwrap().kind;
    assert_eq!(kind(at("voting", "", 5, Load::All)), Kind::Bound);
    assert_eq!(kind(at("singhal", "", 5, Load::SoloRandom)), Kind::Mean);
    assert_eq!(kind(at("singhal", "", 5, Load::All)), Kind::Exact);
    assert_eq!(kind(at("naimi-trehel", "", 5, Load::Solo)), Kind::Mean, "n+1 requests are no whole round");
    let sync_delay = at("maekawa", "", 9, Load::All).sync_delay.unwrap();
    assert!(sync_delay.agrees(1.4) && !sync_delay.agrees(0.9) && !sync_delay.agrees(2.1));
    let longest = at("raymond", "chain", 9, Load::All).sync_delay_max.unwrap();
    assert_eq!((longest.kind, longest.value), (Kind::Bound, 8.0));
}

#[test]
fn sets_and_trees_may_be_given() {
    // P0 and P1 have one other voter each, P2 has two: 4/3 on average.
    let quorums = [vec![0, 1], vec![1, 2], vec![0, 1, 2]];
    let setting =
        Setting { variant: Some("padded-grid"), quorums: Some(&quorums), ..Setting::new("maekawa", 3, Load::Solo) };
    assert_eq!(value(&costs(&setting).unwrap().messages_per_entry), Some(4.0));
    let random = costs(&Setting { load: Load::SoloRandom, ..setting }).unwrap().messages_per_entry.unwrap();
    assert_eq!(random.kind, Kind::Mean, "not all sets are of one size");

    // The tree is 1 - 0 - 2. In turns 0, 1, 2 the token travels 1, 2 and 1 edges.
    let edges = [(0, 1), (0, 2)];
    let setting =
        Setting { variant: Some("edges:0-1,0-2"), tree: Some(&edges), ..Setting::new("raymond", 3, Load::Solo) };
    assert_eq!(value(&costs(&setting).unwrap().messages_per_entry), Some(2.666_666_667));
    assert_eq!(costs(&Setting { tree: None, ..setting }), Some(Costs::default()), "an unknown tree has no distances");
}

#[test]
fn sets_may_be_written_down() {
    let alone = |variant| value(&at("generalized", variant, 3, Load::Solo).messages_per_entry);
    assert_eq!(alone("request:0,1|1,2|2,0"), Some(3.0));
    assert_eq!(alone("request:0,1,2|0,1,2|0,1,2+inform:0|1|2"), Some(4.0));
    assert_eq!(alone("request:0,1|1,2"), None, "one is missing");
    assert_eq!(alone("request:0,1|1,x|2,0"), None, "x is no process");
    assert_eq!(at("generalized", "request:0,1|1,2|2,0", 3, Load::All), Costs::default());
}

/// A RELEASE that is later than the request counts as its answer. With two processes there is no other answer to wait
/// for.
#[test]
fn lamport_with_two_may_be_faster() {
    let alone = |n| at("lamport", "", n, Load::Solo).client_delay.unwrap();
    assert!(alone(2).agrees(1.0) && alone(2).agrees(2.0));
    assert!(!alone(3).agrees(1.0) && alone(3).agrees(2.0));
}

#[test]
fn only_counts_that_do_not_depend_on_timing_hold_on_any_network() {
    let any = |algorithm, load| {
        costs(&Setting { constant_delay: false, ..Setting::new(algorithm, 5, load) }).unwrap().messages_per_entry
    };
    for algorithm in ["central", "lamport", "ricart-agrawala", "permission-ring"] {
        assert!(any(algorithm, Load::Random).is_some(), "{algorithm}");
    }
    for algorithm in ["raymond", "suzuki-kasami", "naimi-trehel", "maekawa", "voting"] {
        assert_eq!(any(algorithm, Load::All), None, "{algorithm}");
    }
    // With E = 0, the holder of the token enters again and again before another process's request arrives.
    let setting = Setting { hold: 0.0, ..Setting::new("suzuki-kasami", 5, Load::All) };
    assert_eq!(costs(&setting), Some(Costs::default()));
}

#[test]
fn unknown_algorithms_have_no_theory() {
    assert_eq!(costs(&Setting::new("peterson", 5, Load::All)), None);
    assert_eq!(costs(&Setting::new("central", 1, Load::All)), None);
}

#[test]
fn broken_ones_cost_the_same_while_nobody_competes() {
    for (broken, healthy) in [
        ("permission-ring-original", "permission-ring"),
        ("maekawa-1985", "maekawa"),
        ("maekawa-no-inquire", "maekawa"),
        ("maekawa-yield-unseen", "maekawa"),
        ("suzuki-kasami-no-outdated-check", "suzuki-kasami"),
        ("singhal-1989", "singhal"),
        ("raymond-greedy", "raymond"),
        ("raymond-asks-once", "raymond"),
    ] {
        assert_eq!(at(broken, "", 9, Load::Solo), at(healthy, "", 9, Load::Solo));
        assert_eq!(at(broken, "", 9, Load::All), Costs::default());
    }
}

#[test]
fn the_busiest_process_handles_its_share() {
    let busiest = |algorithm, load| {
        let expected = costs(&Setting::new(algorithm, 5, load)).unwrap().busiest;
        expected.map(|expected| (expected.formula, expected.value))
    };
    let share = |formula: &str, value: f64| Some((formula.to_owned(), value));
    assert_eq!(busiest("central", Load::All), share("3", 3.0), "the coordinator handles every message");
    assert_eq!(busiest("lamport", Load::Solo), share("6(n-1)/n", 4.8));
    assert_eq!(busiest("suzuki-kasami", Load::All), share("2", 2.0));
    assert_eq!(busiest("token-ring", Load::Solo), share("2/n", 0.4));
    assert_eq!(busiest("raymond", Load::All), None, "the place in the tree decides");
    assert_eq!(busiest("lamport", Load::SoloRandom), None, "chance decides who enters most");
}
