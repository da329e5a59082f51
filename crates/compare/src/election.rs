//! The costs of elections, measured and compared with theory.
//!
//! The costs depend on which process begins the election, and on a ring on the order of the ids. So a row has the least,
//! the mean and the largest of all its runs.

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::app::mutex::Load;
use baton_sim::report::{ElectionReport, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::Expectation;
use baton_theory::election::{self, chang_roberts_all_start, chang_roberts_all_start_mean};
use serde::Serialize;

use crate::mutex::full_name;
use crate::parallel::{self, Caller, Cancelled};
use crate::theory::{in_words, number, of_election};
use crate::verdict;

/// Variants that get rows of their own.
const VARIANTS: [(&str, &str); 2] = [("chang-roberts", "descending"), ("ring-list", "multicast")];

/// In larger groups only this many processes begin an election, spread evenly over the ids.
const STARTERS_MAX: usize = 100;

/// The number of rings in random order.
const RINGS: u64 = 100;

/// Which processes begin the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
    /// One process; each process in turn.
    One,
    /// All processes at once.
    All,
    /// All processes at once, on rings whose order the seed draws.
    AllOnRandomRings,
}

impl Starts {
    pub fn name(self) -> &'static str {
        match self {
            Starts::One => "one",
            Starts::All => "all",
            Starts::AllOnRandomRings => "all, random rings",
        }
    }
}

/// The least, the mean and the largest value of some runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread<T> {
    pub best: T,
    pub mean: T,
    pub worst: T,
}

/// The expected value of each part of a spread. None where there is no formula.
pub type Expected = Spread<Option<Expectation>>;

/// One algorithm, with one number of processes.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    pub variant: Option<&'static str>,
    pub n: usize,
    pub starts: Starts,
    /// Number of elections behind the figures.
    pub runs: usize,
    /// Messages of one election. None if the run was refused.
    pub messages: Option<Spread<f64>>,
    /// Time of one election, in T.
    pub time: Option<Spread<f64>>,
    pub expected_messages: Expected,
    pub expected_time: Expected,
    pub broken_promises: Vec<&'static str>,
    /// Whether no measurement differs from theory.
    pub agrees: bool,
    /// One sentence for each measurement that differs.
    pub differences: Vec<String>,
    /// Why the algorithm cannot run with this number of processes.
    pub refused: Option<String>,
}

impl Row {
    pub fn name(&self) -> String {
        full_name(self.algorithm, self.variant)
    }

    pub fn verdict(&self) -> String {
        let fine = if self.has_theory() { "agrees" } else { "no theory" };
        verdict::of_row(self.refused.as_deref(), &self.broken_promises, &self.differences, fine)
    }

    pub fn has_theory(&self) -> bool {
        let parts = [&self.expected_messages, &self.expected_time];
        parts.iter().any(|expected| expected.best.is_some() || expected.mean.is_some() || expected.worst.is_some())
    }

    pub fn is_fine(&self) -> bool {
        self.agrees && self.broken_promises.is_empty()
    }
}

/// Measures all elections that are not broken on purpose, for each of `sizes` (numbers of processes).
pub fn compare(sizes: &[usize], caller: Caller) -> Result<Vec<Row>, Cancelled> {
    let mut tasks = Vec::new();
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Election && about.broken.is_none()) {
        let own = VARIANTS.iter().filter(|(algorithm, _)| *algorithm == about.name).map(|(_, variant)| Some(*variant));
        for variant in [None].into_iter().chain(own) {
            tasks.extend(
                starts(about, variant)
                    .iter()
                    .flat_map(|&starts| sizes.iter().map(move |&n| Task { about, variant, n, starts })),
            );
        }
    }
    parallel::map(&tasks, caller, Task::measure)
}

/// Measures one election. None if there is none of this name.
pub fn row(algorithm: &str, n: usize, starts: Starts) -> Option<Row> {
    let about = ALGORITHMS.iter().find(|about| about.family == Family::Election && about.name == algorithm)?;
    Some(Task { about, variant: None, n, starts }.measure())
}

fn starts(about: &About, variant: Option<&str>) -> &'static [Starts] {
    match (about.name, variant) {
        ("chang-roberts", None) => &[Starts::One, Starts::All, Starts::AllOnRandomRings],
        _ => &[Starts::One, Starts::All],
    }
}

struct Task {
    about: &'static About,
    variant: Option<&'static str>,
    n: usize,
    starts: Starts,
}

impl Task {
    fn measure(&self) -> Row {
        let runs: Result<Vec<_>, _> = self.options().iter().map(|options| simulate(options, None)).collect();
        let (reports, refused) = match runs {
            Ok(runs) => (runs.into_iter().filter_map(election_report).collect(), None),
            Err(reason) => (Vec::new(), Some(reason.to_string())),
        };
        let spread =
            |of: fn(&ElectionReport) -> Option<f64>| spread(&reports.iter().filter_map(of).collect::<Vec<_>>());
        let (messages, time) = (spread(|report| Some(report.messages as f64)), spread(|report| report.time));
        let (expected_messages, expected_time) = self.expected();
        let mut differences = differences("messages", messages.as_ref(), &expected_messages);
        differences.extend(self::differences("time", time.as_ref(), &expected_time));
        let mut broken: Vec<&str> = reports.iter().flat_map(|report| report.broken_promises.iter().copied()).collect();
        broken.sort_unstable();
        broken.dedup();
        Row {
            algorithm: self.about.name,
            variant: self.variant,
            n: self.n,
            starts: self.starts,
            runs: reports.len(),
            messages,
            time,
            expected_messages,
            expected_time,
            broken_promises: broken,
            agrees: differences.is_empty(),
            differences,
            refused,
        }
    }

    /// All elections of this row.
    fn options(&self) -> Vec<Options> {
        let mut options = Options::new(self.about.name, self.n);
        options.params.variant = self.variant.map(Into::into);
        match self.starts {
            Starts::One => starters(self.candidates())
                .map(|starter| Options { noticed_by: Some(starter), ..options.clone() })
                .collect(),
            Starts::All => vec![options],
            Starts::AllOnRandomRings => (1..=RINGS)
                .map(|seed| {
                    let mut options = options.clone();
                    options.params.variant = Some(format!("ring:{}", random_ring(self.n, seed)));
                    options
                })
                .collect(),
        }
    }

    /// Number of processes that may begin an election alone. In bully the highest process leads at first, and crashes.
    fn candidates(&self) -> usize {
        if self.about.name == "bully" { self.n.saturating_sub(1) } else { self.n }
    }

    fn expected(&self) -> (Expected, Expected) {
        let none = || Spread { best: None, mean: None, worst: None };
        match self.starts {
            Starts::One => {
                let all = self.candidates() <= STARTERS_MAX;
                // If not every process has begun an election, the mean is only about that of all.
                let mean = |exact: Expectation| match all {
                    true => exact,
                    false => Expectation::mean(exact.formula, exact.value),
                };
                let spread = |of: election::Spread| Spread {
                    best: Some(of.best),
                    mean: Some(mean(of.mean)),
                    worst: Some(of.worst),
                };
                election::over_starters(self.about.name, self.variant, self.n)
                    .map_or((none(), none()), |(messages, time)| (spread(messages), spread(time)))
            }
            Starts::All => {
                let mut options = Options::new(self.about.name, self.n);
                options.params.variant = self.variant.map(Into::into);
                options.workload.load = Load::All;
                let costs = of_election(&options, None);
                let only = |mean: Option<Expectation>| Spread { mean, ..none() };
                (only(costs.messages), only(costs.time))
            }
            Starts::AllOnRandomRings => {
                let bounds = chang_roberts_all_start(self.n);
                let best = Expectation::at_least("3n-1", bounds.least);
                let worst = Expectation::at_most("n(n+1)/2 + n", bounds.most);
                let messages =
                    Spread { best: Some(best), mean: Some(chang_roberts_all_start_mean(self.n)), worst: Some(worst) };
                let twice = Some(Expectation::exact("2n", 2.0 * self.n as f64));
                (messages, Spread { mean: twice, ..none() })
            }
        }
    }
}

/// The processes that begin an election, spread evenly from the lowest to the highest.
fn starters(candidates: usize) -> impl Iterator<Item = usize> {
    let count = candidates.min(STARTERS_MAX);
    (0..count).map(move |index| if count > 1 { index * (candidates - 1) / (count - 1) } else { 0 })
}

/// The ids of a ring in random order, with commas between them.
fn random_ring(n: usize, seed: u64) -> String {
    let mut ids: Vec<usize> = (0..n).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut ids);
    ids.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn election_report(report: Report) -> Option<ElectionReport> {
    match report {
        Report::Election(report) => Some(*report),
        _ => None,
    }
}

fn spread(values: &[f64]) -> Option<Spread<f64>> {
    Some(Spread {
        best: values.iter().copied().reduce(f64::min)?,
        mean: values.iter().sum::<f64>() / values.len() as f64,
        worst: values.iter().copied().reduce(f64::max)?,
    })
}

fn differences(what: &str, measured: Option<&Spread<f64>>, expected: &Expected) -> Vec<String> {
    let Some(measured) = measured else { return Vec::new() };
    let parts = [
        ("fewest", measured.best, &expected.best),
        ("mean", measured.mean, &expected.mean),
        ("most", measured.worst, &expected.worst),
    ];
    let differs = |(part, measured, expected): (&str, f64, &Option<Expectation>)| {
        let expected = expected.as_ref().filter(|expected| !expected.agrees(measured))?;
        Some(format!("{part} {what} {}, not {}", number(measured), in_words(expected)))
    };
    parts.into_iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn few_starters_reach_from_the_lowest_to_the_highest() {
        assert_eq!(starters(1).collect::<Vec<_>>(), [0]);
        assert_eq!(starters(4).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let many: Vec<usize> = starters(999).collect();
        assert_eq!((many.len(), many[0], many[99]), (STARTERS_MAX, 0, 998));
    }

    #[test]
    fn every_election_agrees_with_theory() {
        let caller = Caller { progress: &|_| (), cancel: &AtomicBool::new(false) };
        let rows = compare(&[2, 3, 8], caller).unwrap();
        for row in &rows {
            assert!(row.is_fine() && row.refused.is_none(), "{row:?}");
            assert!(row.has_theory(), "{row:?}");
        }
        let find = |algorithm: &str, starts: Starts| {
            rows.iter().find(|row| (row.algorithm, row.n, row.starts) == (algorithm, 8, starts)).unwrap()
        };
        let bully = find("bully", Starts::One);
        assert_eq!(bully.messages, Some(Spread { best: 7.0, mean: 26.0, worst: 55.0 }), "k^2 + 6, k from 1 to 7");
        assert_eq!(bully.time.map(|time| (time.best, time.worst)), Some((3.0, 4.0)));
        let rings = find("chang-roberts", Starts::AllOnRandomRings);
        assert_eq!(rings.runs as u64, RINGS);
        assert!(rings.messages.is_some_and(|messages| messages.best < messages.mean && messages.mean < messages.worst));
    }
}
