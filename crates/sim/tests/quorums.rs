//! Quorum algorithms: their costs, their promises, and how their broken variants fail.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use baton_protocol::registry::SetupError;
use baton_sim::app::mutex::{Load, Workload};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, RunError, run};
use baton_trace::Event;

const REPAIRS: [&str; 2] = ["", "yield-at-once"];
/// Heavy-tailed delays: messages often overtake each other.
const ASYNCHRONOUS: Delay = Delay::Pareto(1.0, 1.5);

/// The synchronous network. `variant` is a list separated by `+`; empty parts do not count.
fn options(algorithm: &str, variant: &str, n: usize, load: Load) -> Options {
    let mut options = Options::new(algorithm, n);
    let parts: Vec<&str> = variant.split('+').filter(|part| !part.is_empty()).collect();
    options.params.variant = (!parts.is_empty()).then(|| parts.join("+"));
    options.workload.load = load;
    options
}

/// The asynchronous network, with a short think time.
fn rough(algorithm: &str, variant: &str, n: usize, load: Load, seed: u64) -> Options {
    let mut options = options(algorithm, variant, n, load);
    options.network.delay = ASYNCHRONOUS;
    options.workload.entries = 6 * n as u64;
    options.workload.think = if load == Load::Random { n as f64 } else { 0.0 };
    options.workload.app_messages = load == Load::Random;
    options.seed = seed;
    options
}

fn report(options: &Options) -> MutexReport {
    match run(options, None).unwrap() {
        Report::Mutex(report) => *report,
        other => panic!("this is mutual exclusion: {other:?}"),
    }
}

fn per_entry(algorithm: &str, variant: &str, n: usize, load: Load) -> f64 {
    let report = report(&options(algorithm, variant, n, load));
    assert!(report.broken_promises.is_empty(), "{algorithm} {variant}, n = {n}: {:?}", report.properties);
    report.messages_per_entry.unwrap()
}

fn assert_near(measured: f64, expected: f64, what: &str) {
    assert!((measured - expected).abs() < 1e-9, "{what}: {measured}, not {expected}");
}

fn keeps_its_promises(algorithm: &str, variant: &str, n: usize, seeds: u64) {
    for seed in 0..seeds {
        for load in [Load::All, Load::Random] {
            let mut options = rough(algorithm, variant, n, load, seed);
            options.network.fifo = seed % 4 == 3;
            let report = report(&options);
            let what = format!("{algorithm} {variant}, n = {n}, {load:?}, seed {seed}");
            assert!(report.broken_promises.is_empty(), "{what}: {:?}", report.properties);
            assert_eq!(report.entries, options.workload.entries, "{what}");
        }
    }
}

/// Number of seeds for which `of` holds.
fn count(seeds: u64, of: impl Fn(u64) -> bool) -> usize {
    (0..seeds).filter(|&seed| of(seed)).count()
}

/// Variant, n and K for the plane, the grid and the majority.
const SETS_OF_ONE_SIZE: [(&str, usize, usize); 14] = [
    ("", 3, 2),
    ("", 7, 3),
    ("", 13, 4),
    ("", 21, 5),
    ("", 31, 6),
    ("plane", 57, 8),
    ("", 73, 9),
    ("", 4, 3),
    ("", 9, 5),
    ("", 16, 7),
    ("grid", 25, 9),
    ("", 36, 11),
    ("majority", 6, 4),
    ("majority", 9, 5),
];

#[test]
fn maekawa_alone_costs_3_k_minus_1_and_2_t() {
    for ((sets, n, k), repair) in SETS_OF_ONE_SIZE.into_iter().flat_map(|sets| REPAIRS.map(|repair| (sets, repair))) {
        for load in [Load::Solo, Load::SoloRandom] {
            let report = report(&options("maekawa", &format!("{sets}+{repair}"), n, load));
            let what = format!("{sets} {repair}, n = {n}, {load:?}");
            assert_near(report.messages_per_entry.unwrap(), 3.0 * (k - 1) as f64, &what);
            let delay = report.client_delay.unwrap();
            assert_eq!((delay.mean, delay.max), (2.0, 2.0), "{what}");
            assert!(report.broken_promises.is_empty(), "{what}");
        }
    }
}

#[test]
fn maekawa_under_full_load_costs_4_k_minus_1_with_postpone_and_3_k_minus_1_yielding_at_once() {
    for (sets, n, k) in SETS_OF_ONE_SIZE {
        let postpone = per_entry("maekawa", sets, n, Load::All);
        assert_near(postpone, 4.0 * (k - 1) as f64, &format!("{sets}, n = {n}"));
        let at_once = per_entry("maekawa", &format!("{sets}+yield-at-once"), n, Load::All);
        assert_near(at_once, 3.0 * (k - 1) as f64, &format!("{sets} yield-at-once, n = {n}"));
    }
}

/// `others` is the sum of K - 1 over all processes. In a padded grid with c columns, r rows and w places taken in the
/// last row, it is (r-1)c(c-1) + w(w-1) within the rows and w r(r-1) + (c-w)(r-1)(r-2) within the columns.
#[test]
fn where_sets_differ_in_size_the_mean_size_counts() {
    for (sets, n, others) in [("", 5, 12), ("", 6, 18), ("", 10, 42), ("", 11, 50), ("tree", 7, 14), ("tree", 10, 27)] {
        let mean = f64::from(others) / n as f64;
        for (repair, under_load) in [("", 4.0), ("yield-at-once", 3.0)] {
            let (variant, what) = (format!("{sets}+{repair}"), format!("{sets} {repair}, n = {n}"));
            assert_near(per_entry("maekawa", &variant, n, Load::Solo), 3.0 * mean, &what);
            assert_near(per_entry("maekawa", &variant, n, Load::All), under_load * mean, &what);
        }
    }
}

#[test]
fn under_full_load_the_next_enters_t_or_2_t_after_an_exit() {
    for ((sets, n, _), repair) in SETS_OF_ONE_SIZE.into_iter().flat_map(|sets| REPAIRS.map(|repair| (sets, repair))) {
        let report = report(&options("maekawa", &format!("{sets}+{repair}"), n, Load::All));
        let (client, sync) = (report.client_delay.unwrap().mean, report.sync_delay.unwrap());
        assert!(1.0 <= sync.mean && sync.max <= 2.0, "{sets} {repair}, n = {n}: {sync:?}");
        // In a fair closed loop the mean client delay is n(E + S) - E. Here E = 1.
        assert_near(client, n as f64 * (1.0 + sync.mean) - 1.0, &format!("{sets} {repair}, n = {n}"));
    }
}

#[test]
fn maekawa_keeps_its_promises_when_messages_overtake_each_other() {
    for repair in REPAIRS {
        for (n, seeds) in [(2, 40), (3, 200), (4, 200), (5, 100), (7, 200), (9, 60), (13, 30)] {
            keeps_its_promises("maekawa", repair, n, seeds);
        }
        for sets in ["majority", "tree", "padded-grid"] {
            keeps_its_promises("maekawa", &format!("{sets}+{repair}"), 6, 60);
        }
    }
}

/// The bound of the paper. A single request can exceed it; the mean over a run does not.
#[test]
fn the_mean_over_a_run_stays_below_5_k_minus_1() {
    for (n, k) in [(4, 3), (7, 3), (9, 5), (13, 4)] {
        for (seed, repair) in (0..40).flat_map(|seed| REPAIRS.map(|repair| (seed, repair))) {
            let report = report(&rough("maekawa", repair, n, Load::Random, seed));
            let mean = report.messages as f64 / report.entries as f64;
            assert!(mean < 5.0 * (k - 1) as f64, "{repair}, n = {n}, seed {seed}: {mean}");
        }
    }
}

/// "A single request can cost more than 5(K-1)": every message names its request.
#[test]
fn a_single_request_can_cost_more_than_5_k_minus_1() {
    let mut options = rough("maekawa", "", 7, Load::Random, 38);
    options.params.delay_max = options.network.delay.guess();
    options.workload = Workload { think: 2.0, entries: 100, app_messages: false, ..options.workload };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a-single-request.jsonl");
    let Ok(Report::Mutex(report)) = run(&options, Some(Box::new(File::create(&path).unwrap()))) else { panic!() };
    let (_, records) = baton_trace::read(BufReader::new(File::open(&path).unwrap())).unwrap();
    let mut costs: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for record in records {
        let Event::Send { to, kind, body: Some(body), .. } = record.event else { continue };
        let by_the_client = ["REQUEST", "RELINQUISH", "RELEASE"].contains(&&*kind);
        let client = if by_the_client { record.p.unwrap() } else { to };
        *costs.entry((client, body["request"].as_u64().unwrap())).or_default() += 1;
    }
    assert_eq!(costs.len(), 100);
    assert_eq!(costs.values().max(), Some(&13), "K = 3: 6.5(K-1)");
    assert_eq!(report.messages_per_entry_max, Some(13), "as the report says");
}

#[test]
fn maekawa_does_not_keep_the_order_of_happened_before() {
    let violated = |seed| {
        let report = report(&rough("maekawa", "", 3, Load::Random, seed));
        assert!(report.broken_promises.is_empty(), "ORDER is not promised");
        report.properties.order.verdict == Verdict::Violated
    };
    assert!(count(50, violated) > 0);
}

/// ORDER can fail only if the voting set of the later process does not contain the earlier process.
#[test]
fn order_holds_where_everybody_asks_everybody() {
    for variant in ["ricart-agrawala", "request:0,1,2|0,1,2|0,1,2", "request:0,1,2|0,1,2|0,1,2+inform:0,1|1,2|2,0"] {
        for (seed, repair) in (0..100).flat_map(|seed| REPAIRS.map(|repair| (seed, repair))) {
            let report = report(&rough("generalized", &format!("{variant}+{repair}"), 3, Load::Random, seed));
            assert_eq!(report.properties.order.verdict, Verdict::Held, "{variant} {repair}, seed {seed}");
        }
    }
}

#[test]
fn without_inquire_maekawa_deadlocks() {
    // All processes request at once, each votes for itself first, and no process ever gets another vote.
    for n in [3, 4, 7, 9] {
        let report = report(&options("maekawa-no-inquire", "", n, Load::All));
        assert_eq!((report.entries, &report.broken_promises[..]), (0, &["liveness"][..]), "n = {n}");
    }
    assert_eq!(per_entry("maekawa-no-inquire", "", 7, Load::Solo), 6.0);
}

#[test]
fn as_published_in_1985_maekawa_deadlocks_with_4_processes_but_not_with_3() {
    let deadlocks = |n, seed| {
        let report = report(&rough("maekawa-1985", "", n, Load::Random, seed));
        assert!(report.broken_promises.is_empty() || report.broken_promises == ["liveness"]);
        !report.broken_promises.is_empty()
    };
    assert!(count(400, |seed| deadlocks(4, seed)) > 0);
    assert_eq!(count(200, |seed| deadlocks(3, seed)), 0);
}

#[test]
fn giving_back_a_grant_before_it_comes_lets_two_in_on_the_plane_of_7_where_messages_overtake_each_other() {
    let two_inside = |fifo, seed| {
        let mut options = rough("maekawa-yield-unseen", "plane", 7, Load::All, seed);
        options.network.fifo = fifo;
        report(&options).properties.safety.verdict == Verdict::Violated
    };
    assert!(count(200, |seed| two_inside(false, seed)) > 0);
    // On FIFO links no INQUIRE arrives before its GRANT.
    assert_eq!(count(200, |seed| two_inside(true, seed)), 0);
    assert_eq!(per_entry("maekawa-yield-unseen", "plane", 7, Load::All), 6.0);
}

#[test]
fn generalized_costs_what_the_algorithm_costs_that_it_is() {
    for algorithm in ["central", "ricart-agrawala", "maekawa"] {
        for n in [2, 3, 4, 7, 10] {
            let what = format!("{algorithm}, n = {n}");
            for (load, repair) in
                [Load::Solo, Load::SoloRandom].into_iter().flat_map(|load| REPAIRS.map(|repair| (load, repair)))
            {
                let measured = per_entry("generalized", &format!("{algorithm}+{repair}"), n, load);
                assert_near(measured, per_entry(algorithm, "", n, load), &what);
            }
            let itself = if algorithm == "maekawa" { "yield-at-once" } else { "" };
            let measured = per_entry("generalized", &format!("{algorithm}+yield-at-once"), n, Load::All);
            assert_near(measured, per_entry(algorithm, itself, n, Load::All), &what);
        }
    }
}

#[test]
fn with_postpone_generalized_costs_4_as_central_and_3_n_minus_1_as_ricart_agrawala_under_full_load() {
    for n in [2, 3, 4, 7, 10] {
        assert_eq!(per_entry("generalized", "central", n, Load::All), 4.0, "n = {n}");
        assert_eq!(per_entry("generalized", "ricart-agrawala", n, Load::All), 3.0 * (n - 1) as f64, "n = {n}");
        assert_eq!(per_entry("generalized", "", n, Load::All), per_entry("maekawa", "", n, Load::All), "n = {n}");
    }
}

/// Other sets, n, and the sum of 2|R \ {i}| + |I \ {i}| over all clients. First: two clients ask each other, and a third
/// informs both. Second: each client asks all and informs two. Third: all four clients ask P1 and P2, and some ask and
/// inform P4 or P5, which are not clients.
const OTHER_SETS: [(&str, usize, u32); 3] = [
    ("request:0,1|0,1|0,1,2+inform:0|1|0,1", 3, 2 + 2 + 6),
    ("request:0,1,2|0,1,2|0,1,2+inform:0,1|1,2|2,0", 3, 5 + 5 + 5),
    ("request:0,1,2,5|0,1,2,3|0,1,2,3,4|1,2,3,4+inform:0,5,1|1|0,1,2|1,2,3,4", 4, 8 + 6 + 10 + 9),
];

#[test]
fn generalized_alone_costs_2_r_plus_i_for_any_sets() {
    for (variant, n, sum) in OTHER_SETS {
        assert_near(per_entry("generalized", variant, n, Load::Solo), f64::from(sum) / n as f64, variant);
    }
}

#[test]
fn generalized_keeps_its_promises_when_messages_overtake_each_other() {
    for repair in REPAIRS {
        for (preset, n) in [("central", 3), ("ricart-agrawala", 2), ("ricart-agrawala", 4), ("maekawa", 7)] {
            keeps_its_promises("generalized", &format!("{preset}+{repair}"), n, 60);
        }
        for (variant, n, _) in OTHER_SETS {
            keeps_its_promises("generalized", &format!("{variant}+{repair}"), n, 100);
        }
    }
}

#[test]
fn unchecked_sets_let_two_in_at_once() {
    let broken = |variant: &str, n, seed| {
        let report = report(&rough("generalized-unchecked", variant, n, Load::Random, seed));
        report.broken_promises.contains(&"safety")
    };
    for n in [2, 3, 5] {
        assert!(count(20, |seed| broken("", n, seed)) > 0, "n = {n}");
    }
    assert!(count(20, |seed| broken("request:0,1|1,2|2,3|3,0", 4, seed)) > 0);
}

#[test]
fn sets_that_cannot_work_are_refused() {
    let refusal = |algorithm: &str, variant: &str, n| match run(&options(algorithm, variant, n, Load::All), None) {
        Err(RunError::Setup(error @ SetupError::Value { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refusal("maekawa", "grid", 7).contains("such as 4 or 9"));
    assert!(refusal("maekawa", "plane", 10).contains("such as 7 or 13"));
    assert!(refusal("maekawa-1985", "grid", 7).contains("such as 4 or 9"));
    assert!(refusal("generalized", "request:0,1|1,2|2,3|3,0", 4).contains("P0 and P2 could be inside at once"));
    assert!(refusal("generalized-unchecked", "request:0|1", 3).contains("3 clients need 3 sets"));
}
