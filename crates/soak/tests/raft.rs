//! The engine that ships: seeds that repeat, and seeds that pass.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use baton_soak::{Engine, Options, SoakReport, effects, run};

fn options(seed: u64) -> Options {
    Options { engine: Engine::Raft, ..Options::new(seed) }
}

/// A seed decides every byte between the nodes, and its moment. The two runs of a seed have a thread each, as two processes
/// would.
#[test]
fn a_seed_repeats_every_message() {
    let runs = |(seed, nodes): (u64, usize)| {
        let stop_at = Some(Duration::from_secs(3));
        let options = Options { trace: true, nodes: Some(nodes), clients: Some(2), stop_at, ..options(seed) };
        thread::spawn(move || run(options))
    };
    let mut bytes = 0;
    for (seed, nodes) in (0..100).map(|seed| (seed, 3)).chain((0..20).map(|seed| (seed, 5))) {
        let [first, second] = [(), ()].map(|()| runs((seed, nodes))).map(|run| run.join().unwrap());
        let (trace, again) = (&first.trace, &second.trace);
        bytes += trace.len();
        let differs = trace.iter().zip(again).position(|(one, other)| one != other);
        assert_eq!((differs, trace.len()), (None, again.len()), "seed {seed}: the byte at which the traces differ");
        assert_eq!(first, second, "seed {seed}");
    }
    assert!(bytes > 2_000_000, "{bytes} bytes");
}

#[test]
fn no_seed_breaks_the_nodes_that_ship() {
    for seed in 1_000..1_020 {
        let SoakReport { violation, grants, .. } = run(options(seed));
        assert_eq!(violation, None, "seed {seed}");
        assert!(grants > 0, "seed {seed}");
    }
}

/// Each of these has failed once, with the faults that were drawn then: a snapshot came for entries that the log had just
/// got; a node that refused a leader told that it follows it; the oracle took removed members for voters; a leader contradicted
/// entries that a snapshot was about to replace; a node died in a snapshot long after healing.
#[test]
fn seeds_that_have_failed_pass() {
    for (nodes, seed) in [
        (3, 189),
        (3, 1_859),
        (3, 3_127),
        (3, 1_000_485),
        (3, 1_012_904),
        (3, 1_016_757),
        (5, 5_000_247),
        (5, 5_000_323),
    ] {
        let SoakReport { violation, .. } = run(Options { nodes: Some(nodes), ..options(seed) });
        assert_eq!(violation, None, "seed {seed}");
    }
}

/// Together they have had all effects, so that the test below need not look for the rare ones.
const RICH: [u64; 12] = [222, 26, 16, 139, 54, 57, 99, 3, 10, 47, 179, 245];

/// A fault that never happens tests nothing.
#[test]
fn every_fault_takes_effect_in_some_run() {
    let mut missing = BTreeSet::from(effects::ALL);
    for seed in RICH.into_iter().chain(0..1_000) {
        let report = run(Options { nodes: Some(3), ..options(seed) });
        assert_eq!(report.violation, None, "seed {seed}");
        missing.retain(|effect| !report.effects.contains_key(effect));
        if missing.is_empty() {
            return;
        }
    }
    panic!("none of these runs has seen {missing:?}");
}
