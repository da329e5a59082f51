//! Scenarios: a run, or the same run with several seeds, and the expected results.

use baton_protocol::PerProperty;
use serde::Deserialize;

use crate::oracle::Verdict;
use crate::progress::Watch;
use crate::report::Report;
use crate::run::{Options, RunError, check_runs, run, run_traced, seeds};
use crate::spec::Spec;

mod built_in;
mod tells;

pub use built_in::{BUILT_IN, find};
pub use tells::Tell;

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// In a few words.
    pub title: String,
    /// What the reader can see in the run, and why it happens.
    pub story: String,
    /// Number of seeds to run, starting with the seed of `run`.
    #[serde(default = "once")]
    pub runs: u64,
    /// What the story tells of single processes. Holds of the run that is shown.
    #[serde(default)]
    pub tells: Vec<Tell>,
    pub run: Spec,
    pub expect: Expect,
}

fn once() -> u64 {
    1
}

/// The expected results. "Violated" means violated in at least one run; "held" means held in all runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expect {
    // The properties stand here one by one, not as a flattened `PerProperty`: serde then knows the line of a mistake.
    /// At most one process in the critical section; at most one leader.
    pub safety: Option<Verdict>,
    /// Every request is granted; all live processes agree on a leader.
    pub liveness: Option<Verdict>,
    /// Grants follow the happened-before order of the requests.
    pub order: Option<Verdict>,
    /// Fences grow.
    pub fence: Option<Verdict>,
    /// No write to the store is lost.
    pub data: Option<Verdict>,
    /// Number of writes that the store refuses.
    pub refused: Option<u64>,
    pub entries: Option<u64>,
    /// The least number of later requests that are granted before an earlier request.
    pub bypass: Option<u64>,
    /// The leader that all live processes agree on at the end.
    pub leader: Option<usize>,
    /// The longest time for which more than one process may lead, in any terms, in T.
    pub rivals: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Played {
    pub reports: Vec<Report>,
    /// The differences from the expected results, one sentence each.
    pub differences: Vec<String>,
}

impl Played {
    /// The first of the runs with the most violations, and its index.
    pub fn telling(&self) -> Option<(usize, &Report)> {
        let violated = |report: &Report| {
            let each = report.properties().each();
            each.iter().filter(|(_, finding)| finding.verdict == Verdict::Violated).count()
        };
        self.reports.iter().enumerate().rev().max_by_key(|(_, report)| violated(report))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("this is no scenario: line {line}: {}", in_plain_words(reason.message()))]
    Malformed {
        /// Counted from 1. The last line of the file if the parser names none.
        line: usize,
        reason: toml::de::Error,
    },
    #[error("the scenario expects nothing; its [expect] must name a property, a count or a leader")]
    NothingExpected,
    #[error("the scenario plays no run; `runs` must be at least 1")]
    NoRuns,
    #[error(
        "there is no scenario `{name}`{}; `baton sim --scenarios` lists them, and a file is named by its path",
        if similar.is_empty() { String::new() } else { format!("; similar are {}", similar.join(", ")) }
    )]
    Unknown {
        name: String,
        /// The scenarios of which the name is a part.
        similar: Vec<&'static str>,
    },
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Replaces the names of Rust types in the parser's message by words that users know.
fn in_plain_words(message: &str) -> String {
    let message = message.replace("expected usize", "expected a whole number from 0 on");
    let message = message.replace("expected u64", "expected a whole number from 0 on");
    message.replace("expected f64", "expected a number").trim_end().replace('\n', ", ")
}

impl Scenario {
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(|reason| {
            let before = reason.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
            ScenarioError::Malformed { line: before.matches('\n').count() + 1, reason }
        })?;
        match (scenario.expect == Expect::default(), scenario.runs) {
            (true, _) => Err(ScenarioError::NothingExpected),
            (_, 0) => Err(ScenarioError::NoRuns),
            _ => Ok(scenario),
        }
    }

    pub fn play(&self) -> Result<Played, ScenarioError> {
        self.play_watched(None)
    }

    /// Like `play`, and reports the progress to `watch`.
    pub fn play_watched(&self, watch: Option<Watch>) -> Result<Played, ScenarioError> {
        let mut options = self.run.options()?;
        check_runs(&options, self.runs)?;
        options.watch = watch;
        let reports = seeds(&options, self.runs).map(|options| run(&options, None)).collect::<Result<Vec<_>, _>>()?;
        let differences = self.expect.differences(&reports);
        let mut played = Played { reports, differences };
        if let Some(tell) = self.untold(&options, &played)? {
            played.differences.push(format!("the story tells `{tell}`, and the run does not show it"));
        }
        Ok(played)
    }

    /// What the story tells and the shown run does not show.
    fn untold(&self, options: &Options, played: &Played) -> Result<Option<&Tell>, RunError> {
        let shown = played.telling().and_then(|(index, _)| seeds(options, self.runs).nth(index));
        let Some(shown) = shown.filter(|_| !self.tells.is_empty()) else { return Ok(None) };
        let (_, trace) = run_traced(&shown)?;
        Ok(tells::untrue(&self.tells, &trace.records))
    }
}

impl Expect {
    fn differences(&self, reports: &[Report]) -> Vec<String> {
        let mut differences = Vec::new();
        let Expect { safety, liveness, order, fence, .. } = *self;
        for (property, expected) in (PerProperty { safety, liveness, order, fence }).each() {
            let Some(expected) = *expected else { continue };
            let found: Vec<_> = reports.iter().filter_map(|report| report.properties().of(property)).collect();
            let verdicts = || found.iter().map(|finding| finding.verdict);
            let came_out = match expected {
                Verdict::Violated => verdicts().any(|verdict| verdict == expected),
                Verdict::Held | Verdict::Unchecked | Verdict::Untested => verdicts().all(|verdict| verdict == expected),
            };
            if !came_out {
                let other = found.iter().find(|finding| finding.verdict != expected);
                let instead = other.map_or(expected, |finding| finding.verdict);
                let detail = other.and_then(|finding| finding.detail.as_ref());
                let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
                let where_ = if expected == Verdict::Violated { "in every run" } else { "in some run" };
                differences.push(format!("{property} should come out {expected}, and is {instead} {where_}{detail}"));
            }
        }
        if let Some(expected) = self.leader {
            let found = reports.iter().map(Report::leader);
            differences.extend(found.filter(|&leader| leader != Some(expected)).map(|leader| {
                let leader = leader.map_or("no process".to_owned(), |leader| format!("P{leader}"));
                format!("P{expected} should lead in the end, and {leader} does")
            }));
        }
        if let Some(most) = self.rivals {
            let found = reports.iter().map(|report| match report {
                Report::Election(report) => report.rivals,
                _ => 0.0,
            });
            let found = found.filter(|&rivals| rivals > most);
            differences.extend(found.map(|found| format!("more than one leads for {found} T; {most} T are allowed")));
        }
        differences.extend(self.counts(reports));
        differences
    }

    /// Compares the counts that only runs of mutual exclusion have.
    fn counts(&self, reports: &[Report]) -> Vec<String> {
        let mut differences = Vec::new();
        let mut differs = |what: &str, expected: Option<String>, found: Option<String>| {
            if expected.is_some() && expected != found {
                let text = |value: Option<String>| value.unwrap_or_else(|| "nothing".into());
                differences.push(format!("{what} should be {}, not {}", text(expected), text(found)));
            }
        };
        let said = |count: Option<u64>| count.map(|count| count.to_string());
        for report in reports {
            let mutex = match report {
                Report::Mutex(report) => Some(report),
                _ => None,
            };
            let store = mutex.and_then(|report| report.store.as_ref());
            let data = |verdict: Verdict| format!("{verdict:?}");
            differs("the data", self.data.map(data), store.map(|store| data(store.data.verdict)));
            differs("the writes refused", said(self.refused), said(store.map(|store| store.refused)));
            differs("the entries", said(self.entries), said(mutex.map(|report| report.entries)));
            let most = mutex.and_then(|report| report.bypass).map_or(0, |bypass| bypass.max);
            let enough = self.bypass.is_none_or(|least| most >= least);
            differs(
                "the bypasses",
                self.bypass.filter(|_| !enough).map(|least| format!("at least {least}")),
                said(Some(most)),
            );
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(expect: &str) -> String {
        format!("title = \"t\"\nstory = \"s\"\nruns = 3\n[run]\nalgorithm = \"central\"\nn = 2\n[expect]\n{expect}\n")
    }

    #[test]
    fn what_comes_out_is_compared_with_what_must() {
        let differences = |expect: &str| Scenario::parse(&scenario(expect)).unwrap().play().unwrap().differences;
        assert!(differences("safety = \"held\"\nliveness = \"held\"").is_empty());
        assert_eq!(differences("fence = \"violated\"").len(), 1);
        assert_eq!(differences("leader = 1").len(), 3);
        assert!(differences("entries = 40\nbypass = 0").is_empty());
        let counts = differences("entries = 41\nbypass = 7\nrefused = 1\ndata = \"held\"");
        assert_eq!(
            counts[..2],
            ["the data should be Held, not nothing", "the writes refused should be 1, not nothing"]
        );
        assert_eq!(counts[2..4], ["the entries should be 41, not 40", "the bypasses should be at least 7, not 0"]);
        assert_eq!(counts.len(), 4 * 3);
    }

    #[test]
    fn what_is_no_scenario_is_refused() {
        let refusal = |text: &str| Scenario::parse(text).unwrap_err().to_string();
        assert!(refusal("x = 1").starts_with("this is no scenario: line 1: unknown field `x`"));
        let unknown = refusal(&scenario("dance = \"held\""));
        assert!(unknown.starts_with("this is no scenario: line 8: unknown field `dance`"), "{unknown}");
        assert_eq!(
            refusal(&scenario("")),
            "the scenario expects nothing; its [expect] must name a property, a count or a leader"
        );
        let unknown = scenario("safety = \"held\"").replace("central", "centrall");
        let refused = Scenario::parse(&unknown).unwrap().play().unwrap_err().to_string();
        assert!(refused.starts_with("there is no algorithm `centrall`; did you mean central?"), "{refused}");
    }
}
