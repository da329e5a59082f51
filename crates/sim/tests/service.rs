//! The lock service in simulation: thousands of seeds, and rules broken on purpose.

use baton_sim::service::{Broken, Options, Report, run};

fn violations(seeds: std::ops::Range<u64>, broken: Option<Broken>) -> Vec<Report> {
    let reports = seeds.map(|seed| run(Options { broken, ..Options::new(seed) }));
    reports.filter(|report| report.violation.is_some()).collect()
}

#[test]
fn no_seed_breaks_the_service() {
    let (mut grants, mut failures) = (0, Vec::new());
    for seed in 0..3_000 {
        let report = run(Options::new(seed));
        grants += report.grants;
        failures.extend(report.violation.map(|violation| format!("seed {seed}: {violation}")));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..failures.len().min(10)].join("\n"));
    // Who is never granted anything cannot fail.
    assert!(grants > 10 * 3_000, "{grants} grants");
}

#[test]
fn tmp_broken() {
    for broken in [Broken::Drift, Broken::NoRound, Broken::LeasesNotAnew, Broken::AnyOpen] {
        let found = violations(0..3_000, Some(broken));
        println!(
            "{broken:?}: {} {:?}",
            found.len(),
            found.iter().take(4).map(|r| (r.seed, r.violation.clone().unwrap())).collect::<Vec<_>>()
        );
    }
}
