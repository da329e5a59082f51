//! Faults drawn from the seed. Within the assumptions of an algorithm, every seed must keep its promises.

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::app::mutex::Load;
use baton_sim::faults::FaultKind;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::Report;
use baton_sim::run::{Options, run};
use baton_sim::swarm;

/// Variants that differ in the faults that they tolerate, or in how they tolerate them.
fn variant(about: &About, rng: &mut fastrand::Rng) -> Option<String> {
    let variants: &[&str] = match (about.name, about.family) {
        (_, Family::Election) => &["", "quorum", "witness"],
        ("token-ring", _) => &["", "parked"],
        ("maekawa", _) => &["", "yield-at-once", "majority"],
        ("lamport", _) => &["", "ack-only"],
        ("voting", _) => &["", "ask-all", "stored-fence", "ask-all+stored-fence"],
        ("raymond", _) => &["", "greedy:3", "chain"],
        ("central", _) => &["", "lease:20"],
        ("record-append", _) => &["", "batch:3"],
        _ => &[""],
    };
    let variant = variants[rng.usize(..variants.len())];
    (!variant.is_empty()).then(|| variant.to_owned())
}

/// The rest of the options, drawn from the seed.
fn swarm_of(about: &'static About, seed: u64) -> Options {
    let mut rng = fastrand::Rng::with_seed(seed);
    // With two members a majority is both, so an election would not survive a crash.
    let least = if about.family == Family::Election { 3 } else { 2 };
    let mut options = Options::new(about.name, rng.usize(least..7));
    options.swarm = true;
    options.seed = seed;
    options.params.variant = variant(about, &mut rng);
    let unbounded = if about.assumes.synchronous { 0 } else { 1 };
    let delays = [Delay::Constant(1.0), Delay::Uniform(0.1, 2.0), Delay::Pareto(1.0, 1.5)];
    options.network.delay = delays[rng.usize(..2 + unbounded)];
    options.network.fifo = about.assumes.fifo || rng.bool();
    options.params.delay_max = options.network.delay.guess();
    let loads = [Load::All, Load::Random, Load::Solo, Load::SoloRandom];
    options.workload.load = loads[rng.usize(..4)];
    options.workload.think = 5.0 * rng.f64();
    options.workload.hold = 3.0 * rng.f64();
    options
}

#[test]
fn every_algorithm_keeps_its_promises_whatever_the_seed_lets_happen() {
    let (mut struck, mut wrong) = (0, String::new());
    for about in ALGORITHMS.iter().filter(|about| about.broken.is_none()) {
        for seed in 0..150 {
            let options = swarm::draw(&swarm_of(about, seed)).unwrap();
            struck += usize::from(!options.faults.is_empty());
            let report = run(&options, None).unwrap_or_else(|refusal| panic!("{refusal}: {options:?}"));
            if !report.broken_promises().is_empty() {
                let told = options.faults.iter().map(|fault| format!("{fault:?}")).collect::<Vec<_>>().join("\n  ");
                wrong.push_str(&format!(
                    "{}, seed {seed}: {:?}\n{options:?}\n  {told}\n",
                    about.name,
                    report.properties()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(struck > 500, "only {struck} runs had faults");
}

#[test]
fn the_same_seed_draws_the_same_faults_and_others_draw_others() {
    let of = |name: &str, seed| {
        let about = ALGORITHMS.iter().find(|about| about.name == name).unwrap();
        swarm::draw(&swarm_of(about, seed)).unwrap().faults
    };
    let faults = |seed| of("phi-accrual", seed);
    assert_eq!(faults(1), faults(1));
    let kinds: Vec<_> = (0..100).flat_map(faults).map(|fault| fault.kind).collect();
    assert!(kinds.iter().any(|kind| matches!(kind, FaultKind::Recover { memory: false, .. })));
    assert!(kinds.iter().any(|kind| matches!(kind, FaultKind::Pause { .. })));
    assert!(kinds.iter().any(|kind| matches!(kind, FaultKind::Partition { .. })));
    assert!(kinds.iter().any(|kind| matches!(kind, FaultKind::OneWay { .. })));
}

/// Drawn faults leave room for the written faults: together they keep the assumptions.
#[test]
fn what_is_drawn_does_not_get_in_the_way_of_what_was_written_down() {
    let about = ALGORITHMS.iter().find(|about| about.name == "token-ring").unwrap();
    let mut more = 0;
    for seed in 0..300 {
        let mut options = swarm_of(about, seed);
        let later = 10.0 + 2.0 * baton_sim::time::in_t(options.params.delay_max);
        options.faults = vec!["crash 1 @ 9".parse().unwrap(), format!("recover 1 @ {later}").parse().unwrap()];
        let drawn = swarm::draw(&options).unwrap();
        more += usize::from(drawn.faults.len() > 2);
        run(&drawn, None).unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}\n{:?}", drawn.faults));
    }
    assert!(more > 100, "only {more} runs had more faults");
}

/// If assumptions are ignored, the drawn faults break what the assumptions protect.
#[test]
fn beyond_the_assumptions_promises_break() {
    let central = ALGORITHMS.iter().find(|about| about.name == "central").unwrap();
    let stalls = |seed: &u64| {
        let options = Options { ignore_assumptions: true, ..swarm_of(central, *seed) };
        matches!(run(&options, None), Ok(Report::Mutex(report)) if report.properties.liveness.verdict == Verdict::Violated)
    };
    assert!((0..50).filter(stalls).count() > 10);
}
