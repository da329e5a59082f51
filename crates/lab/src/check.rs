//! `/api/check`: the checker on a small group, with its counterexample as a diagram and as actions by hand.

use std::sync::{Arc, Mutex, PoisonError};

use baton_check::explore::Progress as Explored;
use baton_check::{CheckReport, Faults, LinkOrder, Options, Watch, check as explore};
use baton_compare::command;
use baton_protocol::Property;
use baton_sim::replay;
use baton_sim::spec::{LinkOrder as SpecOrder, Spec};
use baton_sim::stage::Action;
use baton_trace::scene::Scene;
use serde::{Deserialize, Serialize};

use crate::jobs::{Progress, Stop};
use crate::limits::{self, CHECK_BYTES_MAX, CHECK_TIME_MAX, HAND_PROCESSES_MAX};
use crate::{Refusal, hand};

/// Time between two lines of progress, in seconds.
const TELL_EVERY_S: f64 = 0.1;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Only the algorithm and its parameters count.
    pub spec: Spec,
    #[serde(default)]
    pub options: OptionsRequest,
}

/// The options of `baton check`, with the same defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptionsRequest {
    pub entries: Option<u32>,
    pub order: Option<SpecOrder>,
    /// One property, or several with commas between. None: all that the algorithm promises.
    pub property: Option<String>,
    pub crash: u8,
    pub recover: Option<u8>,
    pub loss: u8,
    pub duplicate: u8,
    pub suspect: u8,
    pub detectors_only: bool,
    pub timers: Option<u32>,
    pub app_messages: Option<u8>,
    pub ignore_assumptions: bool,
}

#[derive(Debug, Serialize)]
pub struct Answer {
    pub report: CheckReport,
    /// The steps to the violation, one in each line.
    pub text: Vec<String>,
    /// The counterexample as a trace.
    pub trace: Option<String>,
    pub scene: Option<Scene>,
    /// The counterexample as actions by hand. None if it cannot be repeated by hand.
    pub actions: Option<Vec<Action>>,
    pub command: String,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Told {
    states: usize,
    depth: usize,
    seconds: f64,
}

pub fn check(request: &Request, stop: &Stop, progress: Option<Progress>) -> Result<Answer, Refusal> {
    limits::check_size(&request.spec, HAND_PROCESSES_MAX)?;
    let options = Options { stop: Some(Arc::clone(stop)), watch: progress.map(watch), ..options(&request.options)? };
    let params = hand::params(&request.spec);
    let report = explore(&request.spec.algorithm, &params, &options).map_err(Refusal::bad)?;
    let trace = report.trace.as_ref();
    let text = trace.map(|trace| {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).map_err(Refusal::fault)?;
        String::from_utf8(bytes).map_err(Refusal::fault)
    });
    Ok(Answer {
        text: report.counterexample.clone().unwrap_or_default(),
        trace: text.transpose()?,
        scene: trace.map(|trace| Scene::new(&trace.header, &trace.records)),
        actions: trace.and_then(|trace| replay::actions(&trace.header, &trace.records).ok()),
        command: command::of_check(&request.spec.algorithm, &params, &options),
        report,
    })
}

fn options(asked: &OptionsRequest) -> Result<Options, Refusal> {
    let defaults = Options::default();
    let property = asked.property.as_deref().map(|names| names.split(',').map(str::parse::<Property>).collect());
    Ok(Options {
        entries: asked.entries.unwrap_or(defaults.entries),
        order: asked.order.map(|order| match order {
            SpecOrder::Fifo => LinkOrder::Fifo,
            SpecOrder::Unordered => LinkOrder::Unordered,
        }),
        properties: property.transpose().map_err(Refusal::bad)?,
        app_messages: asked.app_messages,
        timers: asked.timers.unwrap_or(defaults.timers),
        faults: Faults {
            loss: asked.loss,
            duplicate: asked.duplicate,
            crash: asked.crash,
            recover: asked.recover,
            suspect: asked.suspect,
            detectors_only: asked.detectors_only,
        },
        memory: Some(CHECK_BYTES_MAX),
        time: Some(CHECK_TIME_MAX),
        ignore_assumptions: asked.ignore_assumptions,
        ..defaults
    })
}

fn watch(progress: Progress) -> Watch {
    let told_at = Mutex::new(0.0);
    Watch(Arc::new(move |explored: &Explored| {
        let Explored { states, depth, seconds, .. } = *explored;
        let mut told_at = told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if seconds - *told_at >= TELL_EVERY_S {
            *told_at = seconds;
            progress.tell(&Told { states, depth, seconds });
        }
    }))
}

#[cfg(test)]
mod tests {
    use baton_check::Verdict;
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Result<Answer, Refusal> {
        check(&serde_json::from_value(request).unwrap(), &Stop::default(), None)
    }

    #[test]
    fn a_counterexample_can_be_drawn_and_repeated_by_hand() {
        let answer = answer(json!({
            "spec": {"algorithm": "lamport", "n": 2},
            "options": {"order": "unordered", "property": "safety", "ignore_assumptions": true},
        }));
        let answer = answer.unwrap();
        assert_eq!((answer.report.result, answer.report.steps), (Verdict::Violated, Some(4)));
        assert!(answer.scene.unwrap().is_counterexample && answer.trace.unwrap().lines().count() > 4);
        let actions = answer.actions.unwrap();
        let by_hand = hand::drive(&hand::Request {
            spec: Spec { algorithm: "lamport".into(), n: Some(2), ..Spec::default() },
            rules: hand::RulesRequest { fifo: Some(false), ..Default::default() },
            actions,
        });
        let by_hand = by_hand.unwrap();
        assert_eq!(by_hand.refused, None);
        assert_eq!(by_hand.log.last().unwrap().violations[0].property, "safety");
        assert_eq!(answer.command, "baton check lamport -n 2 --order unordered --property safety --ignore-assumptions");
    }

    #[test]
    fn a_verdict_without_a_counterexample_has_nothing_to_draw() {
        let answer = answer(json!({"spec": {"algorithm": "central", "n": 2}})).unwrap();
        assert_eq!(answer.report.result, Verdict::Holds);
        assert!(answer.scene.is_none() && answer.trace.is_none() && answer.actions.is_none());
    }

    #[test]
    fn bad_options_are_refused_in_the_words_of_the_checker() {
        let refusal = |request: Value| answer(request).unwrap_err().why;
        let huge = refusal(json!({"spec": {"algorithm": "central", "n": 1000000000}}));
        assert!(huge.starts_with("1000000000 processes are too many"), "{huge}");
        let weaker = refusal(json!({"spec": {"algorithm": "lamport", "n": 2}, "options": {"order": "unordered"}}));
        assert!(weaker.contains("assumes links that keep the order"), "{weaker}");
        let property = refusal(json!({"spec": {"algorithm": "lamport"}, "options": {"property": "x,y"}}));
        assert!(property.starts_with("there is no property `x`"), "{property}");
    }
}
