//! `/api/about`: the algorithms, scenarios, challenges and words that the pages show.

use std::sync::OnceLock;

use baton_compare::command::to_json;
use baton_protocol::registry::{self, ALGORITHMS, About, Crashes, Family, Group, Overlap, Params, Visitor, Way};
use baton_protocol::{append, detector, election, mutex};
use baton_sim::oracle::Verdict;
use baton_sim::scenario::{BUILT_IN, Expect, Scenario};
use serde::Serialize;
use serde_json::Value;

use crate::challenges::{Challenge, challenges};
use crate::limits::{LIMITS, Limits};

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub version: &'static str,
    pub algorithms: Vec<Algorithm>,
    pub scenarios: Vec<Story>,
    pub challenges: Vec<Challenge>,
    pub glossary: Vec<Word>,
    pub limits: Limits,
}

#[derive(Clone, Debug, Serialize)]
pub struct Algorithm {
    pub name: &'static str,
    pub family: &'static str,
    /// The heading under which the first page has it.
    pub card: &'static str,
    pub summary: &'static str,
    #[serde(flatten)]
    pub facts: Facts,
    pub variants: Vec<Variant>,
    /// How it breaks, if it is broken on purpose.
    pub broken: Option<&'static str>,
    /// Whether the group has processes without a user.
    pub helpers: bool,
    /// For an algorithm that is broken on purpose: the healthy one.
    pub cured: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    pub name: &'static str,
    pub summary: &'static str,
    /// Whether it takes a value: `k-ary:3`.
    pub value: bool,
    /// What the algorithm assumes and promises with it, if that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
}

/// What an algorithm assumes and promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub assumes: Vec<&'static str>,
    pub promises: Vec<&'static str>,
}

impl Facts {
    fn of(about: &About) -> Self {
        let kept = about.promises.each().into_iter().filter(|(_, kept)| **kept);
        Facts { assumes: assumes(about), promises: kept.map(|(property, _)| property.name()).collect() }
    }
}

/// A scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    pub name: &'static str,
    pub title: String,
    pub story: String,
    /// The run of the scenario. If only some of its seeds show a violation: one of those.
    pub spec: Value,
    /// Whether a property comes out violated, or data is lost.
    pub violates: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    pub word: String,
    pub meaning: String,
}

/// The same at every call. The first call plays some scenarios.
pub fn about() -> &'static Answer {
    static ABOUT: OnceLock<Answer> = OnceLock::new();
    ABOUT.get_or_init(|| Answer {
        version: env!("CARGO_PKG_VERSION"),
        algorithms: ALGORITHMS.iter().map(|about| algorithm(about)).collect(),
        scenarios: BUILT_IN.iter().filter_map(|(name, text)| story(name, text)).collect(),
        challenges: challenges(),
        glossary: glossary(include_str!("../../../docs/glossary.md")),
        limits: LIMITS,
    })
}

fn algorithm(about: &'static About) -> Algorithm {
    Algorithm {
        name: about.name,
        family: match about.family {
            Family::Mutex => "mutex",
            Family::Election => "election",
            Family::Detector => "detector",
            Family::Append => "append",
        },
        card: card(about),
        summary: about.summary,
        facts: Facts::of(about),
        variants: about.variants.iter().map(|variant| self::variant(about, variant)).collect(),
        broken: about.broken.map(|broken| broken.how),
        helpers: registry::visit(about.name, &Params::new(3, 1), HasHelpers).unwrap_or_default(),
        cured: cured(about),
    }
}

fn variant(about: &'static About, variant: &registry::Variant) -> Variant {
    let params = Params { variant: Some(variant.name.into()), ..Params::new(3, 1) };
    let facts = registry::find_for(about.name, &params).map(Facts::of).ok();
    Variant {
        name: variant.name,
        summary: variant.summary,
        value: variant.name.contains(':'),
        facts: facts.filter(|facts| *facts != Facts::of(about)),
    }
}

/// The heading for an algorithm. An algorithm that is broken on purpose stands beside its healthy one.
fn card(about: &About) -> &'static str {
    match (about.family, about.way) {
        (Family::Election, _) => "elections",
        (Family::Detector, _) => "detectors",
        (Family::Append, _) => "append",
        (Family::Mutex, Some(Way::AsksCoordinator)) => "asks a coordinator",
        (Family::Mutex, Some(Way::AsksQuorum)) => "asks a quorum",
        (Family::Mutex, Some(Way::PassesToken)) => "passes a token",
        // A process without a lock asks nobody; it stands among the simplest ones.
        (Family::Mutex, Some(Way::AsksEverybody) | None) => "asks everybody",
    }
}

/// The healthy algorithm whose name begins that of a broken one.
pub fn cured(about: &About) -> Option<&'static str> {
    about.broken?;
    if about.name == "no-lock" {
        return Some("central");
    }
    let is_cure = |healthy: &&&About| {
        let rest = about.name.strip_prefix(healthy.name);
        healthy.broken.is_none() && rest.is_some_and(|rest| rest.starts_with('-'))
    };
    ALGORITHMS.iter().filter(is_cure).map(|healthy| healthy.name).max_by_key(|name| name.len())
}

fn assumes(about: &About) -> Vec<&'static str> {
    let assumes = about.assumes;
    let network = [
        (assumes.fifo, "links keep the order of messages"),
        (assumes.lossless, "no message is lost"),
        (assumes.no_duplicates, "no message arrives twice"),
        (assumes.synchronous, "every message arrives within a known time"),
    ];
    let crashes = match assumes.crashes {
        Crashes::Never => "no process crashes",
        Crashes::Detected => "every crash is detected",
        Crashes::Final => "every crash is detected and for good",
        Crashes::ButOne => "every crash is detected, and one helper never crashes",
        Crashes::ButSource => "every crash is detected, and the source of views never crashes",
        Crashes::Coordinators => "only coordinators crash",
        Crashes::Any => "any process may crash",
    };
    let overlap = match assumes.overlap {
        Overlap::Any => None,
        Overlap::Final => Some("no crash during a recovery"),
        Overlap::SameOrder => Some("all processes learn of crashes in one order"),
    };
    let network = network.into_iter().filter_map(|(assumed, text)| assumed.then_some(text));
    network.chain([crashes]).chain(overlap).collect()
}

struct HasHelpers;

impl Visitor for HasHelpers {
    type Output = bool;

    fn unsupported(self, _: &'static About) -> bool {
        false
    }

    fn mutex<P: mutex::Mutex>(self, _: &'static About, group: Group<P>) -> bool {
        group.processes > group.clients
    }

    fn election<P: election::Election>(self, _: &'static About, group: Group<P>) -> bool {
        group.processes > group.clients
    }

    fn detector<D: detector::Detector>(self, _: &'static About, group: Group<D>) -> bool {
        group.processes > group.clients
    }

    fn append<P: append::Append>(self, _: &'static About, group: Group<P>) -> bool {
        group.processes > group.clients
    }
}

/// None for a text that is no scenario; the tests of the simulator play them all.
fn story(name: &'static str, text: &str) -> Option<Story> {
    let scenario = Scenario::parse(text).ok()?;
    let Expect { safety, liveness, order, fence, data, .. } = scenario.expect;
    let violates = [safety, liveness, order, fence, data].contains(&Some(Verdict::Violated));
    let mut spec = scenario.run.clone();
    if violates && scenario.runs > 1 {
        // Only some of the seeds show it.
        let played = scenario.play().ok()?;
        let (index, _) = played.telling()?;
        spec.seed = Some(spec.seed.unwrap_or(1).wrapping_add(index as u64));
    }
    let (title, story) = (scenario.title.trim().to_owned(), scenario.story.trim().to_owned());
    Some(Story { name, title, story, spec: to_json(&spec), violates })
}

/// The words in the tables of a page: `| **word** (`name`) | meaning |`.
fn glossary(page: &str) -> Vec<Word> {
    let row = |line: &str| {
        let (word, meaning) = line.strip_prefix("| **")?.strip_suffix(" |")?.split_once(" | ")?;
        let word = word.split("**").next()?.to_owned();
        Some(Word { word, meaning: plain(meaning) })
    };
    page.lines().filter_map(row).collect()
}

/// Markdown without its marks: links keep their text, code keeps its content.
fn plain(markdown: &str) -> String {
    use pulldown_cmark::{Event, Parser};
    let text = Parser::new(markdown).filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.into_string()),
        Event::SoftBreak | Event::HardBreak => Some(" ".into()),
        _ => None,
    });
    text.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Stop;
    use crate::run::run;

    #[test]
    fn everything_is_listed_and_every_broken_one_has_its_cure() {
        let about = about();
        assert_eq!(about.algorithms.len(), ALGORITHMS.len());
        assert_eq!(about.scenarios.len(), BUILT_IN.len());
        for algorithm in &about.algorithms {
            assert_eq!(algorithm.broken.is_some(), algorithm.cured.is_some(), "{}", algorithm.name);
        }
        let of = |name: &str| about.algorithms.iter().find(|algorithm| algorithm.name == name).unwrap();
        assert_eq!((of("maekawa-1985").cured, of("maekawa-1985").card), (Some("maekawa"), "asks a quorum"));
        assert_eq!(of("token-ring-last-word").card, "passes a token");
        assert!(of("central").helpers && !of("lamport").helpers);
    }

    #[test]
    fn the_glossary_is_read_from_its_page() {
        let words = &about().glossary;
        let meaning = |word: &str| words.iter().find(|known| known.word == word).map(|known| known.meaning.as_str());
        assert_eq!(meaning("entry"), Some("one stay of one process in the critical section"));
        assert!(meaning("T").unwrap().contains("--network sync"));
        assert!(words.len() > 40, "{}", words.len());
        assert!(words.iter().all(|word| !word.meaning.contains("](") && !word.word.contains('*')));
    }

    #[test]
    fn a_story_shows_what_it_says() {
        for story in &about().scenarios {
            let spec = serde_json::from_value(story.spec.clone()).unwrap();
            let ran = run(&spec, &Stop::default()).unwrap_or_else(|why| panic!("{}: {}", story.name, why.why));
            let properties = ran.report["properties"].as_object().unwrap().values();
            let data = ran.report["store"]["data"]["verdict"].as_str();
            let violated = properties.filter_map(Value::as_str).chain(data).any(|verdict| verdict == "violated");
            assert!(violated || !story.violates, "{}", story.name);
        }
    }
}
