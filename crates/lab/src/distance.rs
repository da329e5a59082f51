//! `/api/distance`: how far a violation is from the state after some actions by hand. The checker finds the shortest way.

use std::sync::Arc;
use std::time::Instant;

use baton_check::{CheckReport, Faults, LinkOrder, Options, Verdict, check};
use baton_protocol::registry::{self, About, Family};
use baton_protocol::{Property, Protocol};
use baton_sim::replay;
use baton_sim::spec::Spec;
use baton_sim::stage::{Action, Rules, Spent, Stage, Wish};
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::hand::{self, Driven, Driver, RulesRequest};
use crate::jobs::Stop;
use crate::limits::{CHECK_BYTES_MAX, DISTANCE_TIME_MAX};

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
    let property = request.property.as_deref().map(str::parse::<Property>).transpose().map_err(Refusal::bad)?;
    let about = registry::find(&request.spec.algorithm).map_err(Refusal::bad)?;
    let driven =
        hand::Request { spec: request.spec.clone(), rules: request.rules.clone(), actions: request.actions.clone() };
    let ask = Ask { about, request, property, stop };
    hand::visit(&driven, ask)?.map_err(Refusal::bad)?
}

struct Ask<'r> {
    about: &'static About,
    request: &'r Request,
    property: Option<Property>,
    stop: &'r Stop,
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
        let started = Instant::now();
        let first = self.request.entries.unwrap_or_default().max(most_requests(&self.request.actions)).max(1);
        let mut entries = first;
        loop {
            let report = match self.check(entries, &driven.rules, driven.stage.spent(), started) {
                Ok(report) => report,
                Err(why) => return Ok(self.unknown(&why, 0)),
            };
            match report.result {
                Verdict::Violated if report.trace.is_some() => return self.found(&report, &driven),
                // With more requests there may be a violation. Elections have no requests.
                Verdict::Holds if entries < first + MORE_ENTRIES && self.about.family == Family::Mutex => entries += 1,
                Verdict::Limit if entries > first => return Ok(self.holds(&report, entries - 1)),
                Verdict::Holds => return Ok(self.holds(&report, entries)),
                _ => return Ok(self.unknown(&report.detail.unwrap_or_default(), report.states)),
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
        let faults = Faults {
            loss: foreseen(rules.losses, spent.losses),
            duplicate: foreseen(rules.duplicates, spent.duplicates),
            crash: foreseen(rules.crashes, spent.crashes),
            recover: None,
            suspect: foreseen(rules.mistakes, spent.mistakes),
            detectors_only: false,
        };
        let recover = Some(foreseen(rules.recoveries, spent.recoveries));
        let options = |faults: Faults| Options {
            entries,
            order: Some(if rules.fifo { LinkOrder::Fifo } else { LinkOrder::Unordered }),
            properties: Some(self.properties(app_messages)),
            app_messages: Some(app_messages),
            faults: Faults { recover: recover.map(|recover| recover.min(faults.crash)), ..faults },
            limit: STATES_MAX,
            memory: Some(CHECK_BYTES_MAX),
            time: Some(DISTANCE_TIME_MAX.saturating_sub(started.elapsed())),
            ignore_assumptions: true,
            after: self.request.actions.clone(),
            stop: Some(Arc::clone(self.stop)),
            ..Options::default()
        };
        let (name, params) = (self.about.name, hand::params(&self.request.spec));
        let is_first_crash = matches!(self.request.actions.first(), None | Some(Action::Crash { .. }));
        // The model of an election without crashes begins with the crash of the leader, which is an action by hand.
        if self.about.family == Family::Election && faults.crash > 0 && is_first_crash {
            let begun = Faults { crash: faults.crash - 1, ..faults };
            if let Ok(report) = check(name, &params, &options(begun)) {
                return Ok(report);
            }
        }
        check(name, &params, &options(faults)).map_err(|why| why.to_string())
    }

    /// Liveness beyond deadlocks cannot be checked after a list of actions.
    fn properties(&self, app_messages: u8) -> Vec<Property> {
        if let Some(property) = self.property {
            return vec![property];
        }
        let promised = |property: &Property| match property {
            Property::Liveness => self.about.family == Family::Election && self.about.promises.include(*property),
            // Without application messages ORDER would only add states.
            Property::Order => app_messages > 0 && self.about.promises.include(*property),
            Property::Deadlock => self.about.family == Family::Mutex && self.about.promises.include(*property),
            Property::Fence => self.about.family == Family::Mutex && self.about.promises.include(*property),
            _ => true,
        };
        Property::ALL.into_iter().filter(promised).collect()
    }

    fn found<P: Protocol>(&self, report: &CheckReport, driven: &Driven<P>) -> Result<Answer, Refusal> {
        let Some(trace) = &report.trace else {
            return Err(Refusal::fault("the checker shows no way to its violation"));
        };
        let way = replay::actions(&trace.header, &trace.records).map_err(Refusal::fault)?;
        let after = way_ahead(&self.request.actions, &way);
        let next = after.first().and_then(|next| self.translated(next, &way[..way.len() - after.len()], driven));
        let steps = after.iter().filter(|action| !matches!(action, Action::Choose { .. })).count();
        let property = report.property.unwrap_or(Property::Safety);
        let text = match &next {
            Some(next) => {
                let step = if steps == 1 { "step" } else { "steps" };
                format!("{property} can be violated in {steps} {step}; the next is: {}", driven.stage.describe(next))
            }
            None => format!("{property} can be violated in {steps} steps"),
        };
        let states = report.states;
        Ok(Answer { result: Verdict::Violated, steps: Some(steps), next, text, states, property: Some(property), way })
    }

    /// The checker numbers messages in its own order if there are copies. So the message is looked up by its content.
    fn translated<P: Protocol>(&self, next: &Action, before: &[Action], driven: &Driven<P>) -> Option<Action> {
        let mut theirs = driven.fresh.clone();
        before.iter().try_for_each(|action| theirs.apply(action).map(|_| ())).ok()?;
        let same = |number: u64| same_message(&theirs, number, &driven.stage);
        Some(match *next {
            Action::Deliver { message } => Action::Deliver { message: same(message)? },
            Action::Drop { message } => Action::Drop { message: same(message)? },
            Action::Duplicate { message } => Action::Duplicate { message: same(message)? },
            ref other => other.clone(),
        })
    }

    fn holds(&self, report: &CheckReport, entries: u32) -> Answer {
        let within = match self.about.family {
            Family::Mutex => format!(" if each process requests at most {entries} times in all"),
            _ => String::new(),
        };
        let text = format!("no violation can be reached from here{within}");
        let states = report.states;
        Answer { result: Verdict::Holds, steps: None, next: None, text, states, property: self.property, way: vec![] }
    }

    fn unknown(&self, why: &str, states: usize) -> Answer {
        let text = format!("the checker cannot tell: {why}");
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

/// The part of `way` after the actions that have been done. Copies are made at other moments there, and choices are
/// written differently, so both do not count.
fn way_ahead<'w>(done: &[Action], way: &'w [Action]) -> &'w [Action] {
    let counts = |action: &&Action| !matches!(action, Action::Choose { .. } | Action::Duplicate { .. });
    let mut left = done.iter().filter(counts).count();
    let copies_done = done.iter().filter(|action| matches!(action, Action::Duplicate { .. })).count();
    let choice_is_made = matches!(done.last(), Some(Action::Choose { .. }));
    let (mut copies, mut place) = (0, 0);
    for action in way {
        let is_behind = match action {
            Action::Choose { .. } => left > 0 || choice_is_made,
            Action::Duplicate { .. } => {
                copies += 1;
                left > 0 || copies <= copies_done
            }
            _ => left > 0,
        };
        if !is_behind {
            break;
        }
        left -= usize::from(counts(&action));
        place += 1;
    }
    &way[place..]
}

/// The number on `mine` of the message that has `number` on `theirs`.
fn same_message<P: Protocol>(theirs: &Stage<P>, number: u64, mine: &Stage<P>) -> Option<u64> {
    if mine.in_flight() == theirs.in_flight() {
        return Some(number);
    }
    let sought = theirs.message(number)?;
    let is_it = |mine: &&baton_sim::stage::Envelope<P::Message>| {
        (mine.from, mine.to, &mine.payload) == (sought.from, sought.to, &sought.payload)
    };
    mine.in_flight().iter().find(is_it).map(|envelope| envelope.id)
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

    /// The checker makes a copy when the message arrives, a person before that.
    #[test]
    fn a_copy_that_was_made_by_hand_is_found_again() {
        let spec = json!({"algorithm": "central", "n": 2});
        let rules = json!({"duplicates": 1});
        let mut actions = vec![request(0), json!({"duplicate": {"message": 0}})];
        for left in (0..=3).rev() {
            let given = json!({"spec": spec, "rules": rules, "actions": actions, "property": "safety"});
            let answer = answer(given);
            assert_eq!(answer.steps, Some(left), "{actions:?}: {}", answer.text);
            actions.extend(answer.next.map(|next| serde_json::to_value(next).unwrap()));
        }
    }

    #[test]
    fn what_the_checker_cannot_do_is_told() {
        let refused =
            |given: Value| distance(&serde_json::from_value(given).unwrap(), &Stop::default()).unwrap_err().why;
        let impossible = json!({"spec": {"algorithm": "central", "n": 2}, "actions": [{"deliver": {"message": 7}}]});
        assert_eq!(refused(impossible), "action 1 is impossible: message #7 is not in flight");
        let unknown = json!({"spec": {"algorithm": "central", "n": 2}, "property": "<i>beauty</i>"});
        assert!(refused(unknown).starts_with("there is no property `<i>beauty</i>`"));
        let many = answer(json!({"spec": {"algorithm": "record-append", "n": 2}}));
        assert_eq!(many.result, Verdict::Limit);
        assert!(many.text.starts_with("the checker cannot tell: `record-append` cannot be checked"), "{}", many.text);
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let given = json!({"spec": {"algorithm": "central", "n": 3}, "actions": [request(0)]});
        let stopped = distance(&serde_json::from_value(given).unwrap(), &stop).unwrap();
        assert!(stopped.text.ends_with("the check was stopped"), "{}", stopped.text);
    }
}
