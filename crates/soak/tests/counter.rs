//! The module of the tests in the whole simulated service: faults, other leaders, repeated requests.

use baton_soak::{Engine, Options, counter};

#[test]
fn a_module_keeps_its_promises_under_all_faults() {
    let mut totals = [0; 3];
    for seed in 0..120 {
        let (report, counts) = counter::run(Options::new(seed));
        assert_eq!(report.violation, None, "seed {seed}");
        (0..3).for_each(|i| totals[i] += counts[i]);
    }
    let [additions, resets, heard] = totals;
    assert!(additions > 300 && resets > 100 && heard > 500, "{additions} additions, {resets} resets, {heard} answers");
}

/// Through the log and the snapshots of the nodes that ship.
#[test]
fn a_module_works_on_the_nodes_that_ship() {
    let mut totals = [0; 3];
    for seed in 0..3 {
        let (report, counts) = counter::run(Options { engine: Engine::Raft, ..Options::new(seed) });
        assert_eq!(report.violation, None, "seed {seed}");
        (0..3).for_each(|i| totals[i] += counts[i]);
    }
    assert!(totals.into_iter().all(|total| total > 0), "{totals:?}");
}
