//! `/api/distance`: how far a violation is from the state after some actions by hand. The checker finds the
//! shortest way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use baton_check::{CheckReport, Faults, LinkOrder, Options, Verdict, check};
use baton_protocol::registry::{self, About, Family};
use baton_protocol::{Property, Protocol};
use baton_sim::replay;
use baton_sim::spec::Spec;
use baton_sim::stage::{Action, Rules, Spent, Wish};
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::hand::{self, Driven, Driver, RulesRequest};
use crate::jobs::Stop;
use crate::limits::{CHECK_BYTES_MAX, DISTANCE_TIME_MAX};
use crate::search::{End, search};

/// If the rules allow more faults of a kind than this, the checker expects none but those that have happened. Otherwise
/// it would find that a few crashes stop every algorithm.
const FORESEEN_MAX: u32 = 2;

/// The checker gives up after this many states.
const STATES_MAX: usize = 3_000_000;

/// The checker looks at this many requests of each process more than have been made.
const MORE_ENTRIES: u32 = 1;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub spec: Spec,
    #[serde(default)]
    pub rules: RulesRequest,
    #[serde(default)]
    pub actions: Vec<Action>,
    /// None: all that the algorithm promises.
    pub property: Option<String>,
    /// Number of requests of each process to begin with. None: those that have been made, and at least 1.
    pub entries: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub result: Verdict,
    /// Number of actions to the violation.
    pub steps: Option<usize>,
    /// The first of these actions.
    pub next: Option<Action>,
    pub text: String,
    /// States that the checker has seen.
    pub states: usize,
    pub property: Option<Property>,
    /// All actions from the start to the violation.
    #[serde(skip)]
    pub way: Vec<Action>,
}

/// Asks the checker.
pub fn distance(request: &Request, stop: &Stop) -> Result<Answer, Refusal> {
    distance_within(DISTANCE_TIME_MAX, request, stop)
}

/// Asks the checker, which gives up after this time.
pub fn distance_within(time: Duration, request: &Request, stop: &Stop) -> Result<Answer, Refusal> {
    let property = request.property.as_deref().map(str::parse::<Property>).transpose().map_err(Refusal::bad)?;
    let about = registry::find_for(&request.spec.algorithm, &hand::params(&request.spec)).map_err(Refusal::bad)?;
    let driven =
        hand::Request { spec: request.spec.clone(), rules: request.rules.clone(), actions: request.actions.clone() };
    let ask = Ask { about, request, property, stop, time };
    hand::visit(&driven, ask)?.map_err(Refusal::bad)?
}

struct Ask<'r> {
    about: &'static About,
    request: &'r Request,
    property: Option<Property>,
    stop: &'r Stop,
    time: Duration,
}

impl Driver for Ask<'_> {
    type Output = Result<Answer, Refusal>;

    fn drive<P: Protocol>(self, driven: Driven<P>) -> Self::Output {
        if let Some(refused) = driven.refused {
            return Err(Refusal::bad(format!("action {} is impossible: {}", refused.index + 1, refused.why)));
        }
        if let Some((property, detail)) = self.violated(&driven) {
            let text = format!("{property} is violated: {detail}");
            let way = self.request.actions.clone();
            let (steps, result) = (Some(0), Verdict::Violated);
            return Ok(Answer { result, steps, next: None, text, states: 0, property: Some(property), way });
        }
        // The checker's models of elections and detectors have a shared clock, and by hand there is none. It has no model of
        // appends. And in its models a copy is made when the message arrives, not before.
        if self.about.family != Family::Mutex || driven.stage.spent().duplicates > 0 {
            return Ok(self.search(&driven));
        }
        let started = Instant::now();
        let first = self.request.entries.unwrap_or_default().max(most_requests(&self.request.actions)).max(1);
        let mut entries = first;
        loop {
            let report = match self.check(entries, &driven.rules, driven.stage.spent(), started) {
                Ok(report) => report,
                Err(why) => return Ok(self.unknown(&why, 0, 0)),
            };
            match report.result {
                Verdict::Violated if report.trace.is_some() => return self.found(&report, &driven),
                // With more requests there may be a violation.
                Verdict::Holds if entries < first + MORE_ENTRIES => entries += 1,
                Verdict::Limit if entries > first => return Ok(self.holds(report.states, Some(entries - 1))),
                Verdict::Holds => return Ok(self.holds(report.states, Some(entries))),
                // The last level is perhaps not complete.
                _ => {
                    let (why, within) = (report.detail.unwrap_or_default(), report.depth.saturating_sub(1));
                    return Ok(self.unknown(&why, report.states, within));
                }
            }
        }
    }
}

impl Ask<'_> {
    /// The violation that has already happened.
    fn violated<P: Protocol>(&self, driven: &Driven<P>) -> Option<(Property, String)> {
        let is_asked = |property: Property| self.property.is_none_or(|asked| asked == property);
        let found = driven.log.iter().flat_map(|entry| &entry.violations);
        let mut found = found.filter_map(|found| Some((found.property.parse().ok()?, found.detail.clone())));
        let stuck = || driven.stuck().map(|why| (Property::Deadlock, why));
        found.find(|(property, _)| is_asked(*property)).or_else(|| {
            let asked = is_asked(Property::Deadlock) || is_asked(Property::Liveness);
            stuck().filter(|_| asked)
        })
    }

    fn check(&self, entries: u32, rules: &Rules, spent: Spent, started: Instant) -> Result<CheckReport, String> {
        let app_messages = foreseen(rules.app_messages, spent.app_messages);
        let crash = foreseen(rules.crashes, spent.crashes);
        let faults = Faults {
            loss: foreseen(rules.losses, spent.losses),
            duplicate: foreseen(rules.duplicates, spent.duplicates),
            crash,
            recover: Some(foreseen(rules.recoveries, spent.recoveries).min(crash)),
            suspect: foreseen(rules.mistakes, spent.mistakes),
            detectors_only: false,
        };
        let options = Options {
            entries,
            order: Some(if rules.fifo { LinkOrder::Fifo } else { LinkOrder::Unordered }),
            properties: Some(self.properties(app_messages)),
            app_messages: Some(app_messages),
            faults,
            limit: STATES_MAX,
            memory: Some(CHECK_BYTES_MAX),
            time: Some(self.time.saturating_sub(started.elapsed())),
            ignore_assumptions: true,
            after: self.request.actions.clone(),
            stop: Some(Arc::clone(self.stop)),
            ..Options::default()
        };
        check(self.about.name, &hand::params(&self.request.spec), &options).map_err(|why| why.to_string())
    }

    /// Looks without the checker.
    fn search<P: Protocol>(&self, driven: &Driven<P>) -> Answer {
        let spent = driven.stage.spent();
        let rules = Rules {
            losses: foreseen(driven.rules.losses, spent.losses).into(),
            duplicates: foreseen(driven.rules.duplicates, spent.duplicates).into(),
            crashes: foreseen(driven.rules.crashes, spent.crashes).into(),
            recoveries: foreseen(driven.rules.recoveries, spent.recoveries).into(),
            mistakes: foreseen(driven.rules.mistakes, spent.mistakes).into(),
            ..driven.rules.clone()
        };
        let until = Instant::now() + self.time;
        let is_over = || self.stop.load(Ordering::Relaxed) || Instant::now() >= until;
        let searched = search(driven, &rules, self.property, STATES_MAX, is_over);
        let states = searched.states;
        match searched.end {
            End::Found { property, way: after } => {
                let steps = after.len();
                let next = after.first().cloned();
                let text = self.told(property, steps, next.as_ref(), driven);
                let way = self.request.actions.iter().cloned().chain(after).collect();
                let (result, property) = (Verdict::Violated, Some(property));
                Answer { result, steps: Some(steps), next, text, states, property, way }
            }
            End::Complete => self.holds(states, None),
            End::Over { .. } if self.stop.load(Ordering::Relaxed) => self.unknown("the search was stopped", states, 0),
            End::Over { depth } if states >= STATES_MAX => {
                self.unknown(&format!("the limit of {STATES_MAX} states is reached"), states, depth)
            }
            End::Over { depth } => {
                let seconds = self.time.as_secs();
                self.unknown(&format!("{seconds} seconds are over"), states, depth)
            }
        }
    }

    /// Liveness beyond deadlocks cannot be checked after a list of actions.
    fn properties(&self, app_messages: u8) -> Vec<Property> {
        if let Some(property) = self.property {
            return vec![property];
        }
        let promised = |property: &Property| match property {
            Property::Safety => true,
            Property::Liveness => false,
            // Without application messages ORDER would only add states.
            Property::Order if app_messages == 0 => false,
            other => self.about.promises.include(*other),
        };
        Property::ALL.into_iter().filter(promised).collect()
    }

    fn found<P: Protocol>(&self, report: &CheckReport, driven: &Driven<P>) -> Result<Answer, Refusal> {
        let Some(trace) = &report.trace else {
            return Err(Refusal::fault("the checker shows no way to its violation"));
        };
        let way = replay::actions(&trace.header, &trace.records).map_err(Refusal::fault)?;
        let after = way_ahead(&self.request.actions, &way);
        let next = after.first().cloned();
        let steps = after.iter().filter(|action| !matches!(action, Action::Choose { .. })).count();
        let property = report.property.unwrap_or(Property::Safety);
        let text = self.told(property, steps, next.as_ref(), driven);
        let states = report.states;
        Ok(Answer { result: Verdict::Violated, steps: Some(steps), next, text, states, property: Some(property), way })
    }

    fn told<P: Protocol>(&self, property: Property, steps: usize, next: Option<&Action>, driven: &Driven<P>) -> String {
        let step = if steps == 1 { "step" } else { "steps" };
        let next = next.map(|next| format!("; the next is: {}", driven.stage.describe(next))).unwrap_or_default();
        format!("{property} can be violated in {steps} {step}{next}")
    }

    /// `entries`: the limit of requests of each process, if there is one.
    fn holds(&self, states: usize, entries: Option<u32>) -> Answer {
        let within = entries.map(|entries| format!(" if each process requests at most {entries} times in all"));
        let text = format!("no violation can be reached from here{}", within.unwrap_or_default());
        Answer { result: Verdict::Holds, steps: None, next: None, text, states, property: self.property, way: vec![] }
    }

    /// There is no violation within so many steps.
    fn unknown(&self, why: &str, states: usize, within: usize) -> Answer {
        let text = match within {
            0 => format!("the checker cannot tell: {why}"),
            1 => format!("no violation within 1 step from here; what is farther away is unknown: {why}"),
            _ => format!("no violation within {within} steps from here; what is farther away is unknown: {why}"),
        };
        Answer { result: Verdict::Limit, steps: None, next: None, text, states, property: self.property, way: vec![] }
    }
}

/// The budget of a kind of faults.
fn foreseen(allowed: u32, spent: u32) -> u8 {
    let budget = if allowed <= FORESEEN_MAX { allowed } else { spent };
    u8::try_from(budget).unwrap_or(u8::MAX)
}

/// The largest number of requests of one process.
fn most_requests(actions: &[Action]) -> u32 {
    let mut requests = std::collections::BTreeMap::<usize, u32>::new();
    for action in actions {
        if let Action::User { process, wish: Wish::Request } = action {
            *requests.entry(*process).or_default() += 1;
        }
    }
    requests.into_values().max().unwrap_or_default()
}

/// The part of `way` after the actions that have been done. Choices are written differently there, so they do not count.
fn way_ahead<'w>(done: &[Action], way: &'w [Action]) -> &'w [Action] {
    let is_choice = |action: &Action| matches!(action, Action::Choose { .. });
    let mut left = done.iter().filter(|action| !is_choice(action)).count();
    let choice_is_made = done.last().is_some_and(is_choice);
    let is_behind = |action: &&Action| {
        let is_behind = left > 0 || (is_choice(action) && choice_is_made);
        left = left.saturating_sub(usize::from(!is_choice(action)));
        is_behind
    };
    &way[way.iter().take_while(is_behind).count()..]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Answer {
        distance(&serde_json::from_value(request).unwrap(), &Stop::default()).unwrap()
    }

    fn request(process: usize) -> Value {
        json!({"user": {"process": process, "wish": "request"}})
    }

    #[test]
    fn a_violation_is_so_many_steps_away_and_the_first_is_told() {
        let spec = json!({"algorithm": "ricart-agrawala-time-only", "n": 2});
        let mut actions = Vec::new();
        for left in (0..=6).rev() {
            let answer = answer(json!({"spec": spec, "actions": actions}));
            assert_eq!(
                (answer.result, answer.steps, answer.property),
                (Verdict::Violated, Some(left), Some(Property::Safety))
            );
            assert_eq!(answer.next.is_some(), left > 0);
            actions.extend(answer.next.map(|next| serde_json::to_value(next).unwrap()));
        }
        assert_eq!(actions.len(), 6);
    }

    #[test]
    fn a_healthy_algorithm_is_far_from_everything() {
        let answer = answer(json!({"spec": {"algorithm": "central", "n": 2}, "actions": [request(0)]}));
        assert_eq!((answer.result, answer.steps), (Verdict::Holds, None));
        assert_eq!(
            answer.text,
            "no violation can be reached from here if each process requests at most 2 times in all"
        );
    }

    #[test]
    fn a_deadlock_has_the_distance_of_its_last_message() {
        let spec = json!({"algorithm": "permission-ring-original", "n": 2});
        let far = answer(json!({"spec": spec, "property": "deadlock"}));
        assert_eq!(far.steps, Some(4));
        let actions: Vec<Value> = far.way.iter().map(|action| serde_json::to_value(action).unwrap()).collect();
        let there = answer(json!({"spec": spec, "actions": actions}));
        assert_eq!((there.steps, there.property), (Some(0), Some(Property::Deadlock)));
    }

    /// The rules allow one copy, and it is made: the way ahead has no other.
    #[test]
    fn a_copy_that_was_made_by_hand_is_the_only_one() {
        let spec = json!({"algorithm": "central", "n": 2});
        let rules = json!({"duplicates": 1});
        let mut actions = vec![request(0), json!({"deliver": {"message": 0}}), json!({"duplicate": {"message": 1}})];
        for left in (0..=2).rev() {
            let given = json!({"spec": spec, "rules": rules, "actions": actions, "property": "safety"});
            let answer = answer(given);
            assert_eq!(answer.steps, Some(left), "{actions:?}: {}", answer.text);
            actions.extend(answer.next.map(|next| serde_json::to_value(next).unwrap()));
        }
    }

    #[test]
    fn in_an_election_by_hand_a_deadline_may_end_at_any_moment() {
        let spec = json!({"algorithm": "bully", "n": 3});
        let far = answer(json!({"spec": spec}));
        assert_eq!((far.steps, far.property), (Some(2), Some(Property::Safety)));
        let actions: Vec<Value> = far.way.iter().map(|action| serde_json::to_value(action).unwrap()).collect();
        assert_eq!(answer(json!({"spec": spec, "actions": actions})).steps, Some(0));
    }

    /// The checker has no model of appends, so all actions by hand are tried.
    #[test]
    fn record_append_has_a_distance_too() {
        let request = serde_json::from_value(json!({"spec": {"algorithm": "record-append", "n": 2}})).unwrap();
        let near = distance_within(Duration::from_secs(1), &request, &Stop::default()).unwrap();
        assert!(near.states > 1 && !near.text.contains("cannot be checked"), "{}", near.text);
    }

    /// What stops a search says how far it has come.
    #[test]
    fn a_search_without_a_verdict_says_within_how_many_steps_there_is_no_violation() {
        let told = |within: usize| {
            let request = serde_json::from_value(json!({"spec": {"algorithm": "central", "n": 2}})).unwrap();
            let about = registry::find("central").unwrap();
            let (stop, time) = (Stop::default(), Duration::ZERO);
            let ask = Ask { about, request: &request, property: None, stop: &stop, time };
            ask.unknown("10 seconds are over", 7, within).text
        };
        assert_eq!(told(0), "the checker cannot tell: 10 seconds are over");
        let farther = "what is farther away is unknown: 10 seconds are over";
        assert_eq!(told(1), format!("no violation within 1 step from here; {farther}"));
        assert_eq!(told(9), format!("no violation within 9 steps from here; {farther}"));
    }

    #[test]
    fn what_the_checker_cannot_do_is_told() {
        let refused =
            |given: Value| distance(&serde_json::from_value(given).unwrap(), &Stop::default()).unwrap_err().why;
        let impossible = json!({"spec": {"algorithm": "central", "n": 2}, "actions": [{"deliver": {"message": 7}}]});
        assert_eq!(refused(impossible), "action 1 is impossible: message #7 is not in flight");
        let unknown = json!({"spec": {"algorithm": "central", "n": 2}, "property": "<i>beauty</i>"});
        assert!(refused(unknown).starts_with("there is no property `<i>beauty</i>`"));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let given = json!({"spec": {"algorithm": "central", "n": 3}, "actions": [request(0)]});
        let stopped = distance(&serde_json::from_value(given).unwrap(), &stop).unwrap();
        assert!(stopped.text.ends_with("the check was stopped"), "{}", stopped.text);
    }
}
