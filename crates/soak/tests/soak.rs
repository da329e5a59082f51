//! The lock service in simulation: thousands of seeds, and rules broken on purpose.

use baton_soak::{Broken, NODES_MAX, Options, SoakReport, run};

/// Runs of the service that must all pass. `baton soak` makes many more.
const RUNS: u64 = 600;

/// The first violation that a broken rule leads to.
fn first_violation(broken: Broken) -> Option<SoakReport> {
    let mut reports = (0..3_000).map(|seed| run(Options { broken: Some(broken), ..Options::new(seed) }));
    reports.find(|report| report.violation.is_some())
}

#[test]
fn no_seed_breaks_the_service() {
    let (mut grants, mut refusals, mut thefts, mut failures) = (0, 0, 0, Vec::new());
    let (mut forced, mut taken, mut deadlocks, mut terms, mut carried) = (0, 0, 0, 0, 0);
    for seed in 0..RUNS {
        let report = run(Options::new(seed));
        grants += report.grants;
        refusals += report.refusals;
        forced += report.forced;
        taken += report.taken;
        deadlocks += report.deadlocks;
        thefts += report.thefts;
        terms += report.terms;
        carried += report.carried;
        failures.extend(report.violation.map(|violation| format!("seed {seed}: {violation}")));
        if failures.len() == 10 {
            break;
        }
    }
    assert!(failures.is_empty(), "at least {} failures:\n{}", failures.len(), failures.join("\n"));
    // Without many grants the test would show nothing.
    assert!(grants > 10 * RUNS, "{grants} grants");
    assert!(refusals > RUNS / 3 && thefts > RUNS / 10, "{refusals} refusals, {thefts} thefts");
    let counts = format!("{forced} forced, {taken} taken, {deadlocks} deadlocks");
    assert!(forced > RUNS / 10 && taken > RUNS / 10 && deadlocks > RUNS / 10, "{counts}");
    assert!(terms > 2 * RUNS && carried > RUNS, "{terms} terms, {carried} streams carried");
}

/// The oracle notices when one of these rules is broken.
#[test]
fn a_broken_rule_is_noticed() {
    for broken in Broken::ALL {
        let report = first_violation(broken).unwrap_or_else(|| panic!("no violation with {broken:?}"));
        let violation = report.violation.unwrap_or_default();
        let words = match broken {
            Broken::StreamOutlivesTerm => ["outlives", "outlives"],
            Broken::CarriesToDeposed => ["and knows better", "and knows better"],
            // A session that the leader has overlooked never expires. And if a node leads twice in a term, proposals of
            // the first time follow the Lead of the second.
            Broken::LeadSkipped => ["does not come to an end", "back in another order"],
            _ => ["believe", "believe"],
        };
        assert!(words.iter().any(|words| violation.contains(words)), "{broken:?}, seed {}: {violation}", report.seed);
    }
}

/// The number of nodes is a choice, too.
#[test]
fn groups_of_every_size_pass() {
    for nodes in 1..=NODES_MAX {
        for seed in 0..20 {
            let report = run(Options { nodes: Some(nodes), ..Options::new(seed) });
            assert_eq!(report.violation, None, "{nodes} nodes, seed {seed}");
        }
    }
}

#[test]
fn one_seed_is_one_run() {
    let options = Options { story: true, ..Options::new(7) };
    let (first, second) = (run(options), run(options));
    assert!(first.story.len() > 100, "{} lines", first.story.len());
    assert_eq!(first, second);
}

#[test]
fn the_story_shows_names_as_text_and_no_hashes() {
    for seed in 0..30 {
        let SoakReport { story, .. } = run(Options { story: true, ..Options::new(seed) });
        assert!(story.iter().any(|line| line.contains("sends") && line.contains("name: \"l")), "seed {seed}");
        let bytes = story.iter().find(|line| line.contains("[108, ") || line.contains("secret_hash"));
        assert_eq!(bytes, None, "seed {seed}");
    }
}
