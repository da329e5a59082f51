//! `/api/hand`: a group that a person drives, action by action. A request has all actions from the start.

use std::collections::BTreeMap;

use baton_protocol::append::Append;
use baton_protocol::detector::{Detector, Watcher};
use baton_protocol::election::{Election, Rule};
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, Params, Survivors, Visitor};
use baton_protocol::{Group, ProcessId, Property, Protocol};
use baton_sim::spec::Spec;
use baton_sim::stage::{Action, Effect, Rules, Shown, Stage, StageRecorder, Wish};
use baton_trace::scene::Scene;
use baton_trace::{Header, TracedOrder, Unit};
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::calm;
use crate::limits::{self, HAND_ACTIONS_MAX, HAND_PROCESSES_MAX};
use crate::structure::Structure;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Only the algorithm and its parameters count.
    pub spec: Spec,
    #[serde(default)]
    pub rules: RulesRequest,
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// [`Rules`] as JSON. What is missing is not allowed, except that the order of links is the algorithm's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RulesRequest {
    pub fifo: Option<bool>,
    pub losses: u32,
    pub duplicates: u32,
    pub crashes: u32,
    pub recoveries: u32,
    /// None: with and without memory.
    pub memory: Option<Vec<bool>>,
    pub recover_when_told: bool,
    pub mistakes: u32,
    pub app_messages: u32,
}

impl RulesRequest {
    pub fn rules(&self, about: &About) -> Rules {
        Rules {
            fifo: self.fifo.unwrap_or(about.assumes.fifo),
            losses: self.losses,
            duplicates: self.duplicates,
            crashes: self.crashes,
            recoveries: self.recoveries,
            memory: self.memory.clone().unwrap_or_else(|| vec![true, false]),
            recover_when_told: self.recover_when_told,
            mistakes: self.mistakes,
            app_messages: self.app_messages,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    #[serde(flatten)]
    pub shown: Shown,
    pub structure: Structure,
    pub enabled: Vec<Enabled>,
    /// The start, then one entry for each action.
    pub log: Vec<LogEntry>,
    pub lamps: Vec<Lamp>,
    pub scene: Scene,
    /// Messages of the algorithm so far, by kind.
    pub sent: BTreeMap<&'static str, u64>,
    /// None: all actions were carried out.
    pub refused: Option<RefusedAction>,
}

/// An action that is possible now.
#[derive(Clone, Debug, Serialize)]
pub struct Enabled {
    pub action: Action,
    pub text: String,
    pub group: ActionGroup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionGroup {
    User,
    Message,
    Timer,
    Fault,
    Detector,
    App,
}

#[derive(Clone, Debug, Serialize)]
pub struct LogEntry {
    /// None: the start.
    pub action: Option<Action>,
    pub text: String,
    pub effects: Vec<String>,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub property: &'static str,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lamp {
    pub property: &'static str,
    pub promised: bool,
    pub state: LampState,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LampState {
    /// So far.
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "violated")]
    Violated,
    /// Nothing can happen by itself, and a process waits.
    #[serde(rename = "stuck")]
    Stuck,
    #[serde(rename = "not checked")]
    NotChecked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedAction {
    /// The place in the list of actions, from 0.
    pub index: usize,
    pub why: String,
}

/// By hand, and in the checker, a tick is the time T that a message takes at most, as the processes believe.
const TICKS_IN_T: u64 = 1;

/// The parameters of a group that is driven by hand, or checked. Its processes believe in delays of 1 tick.
pub fn params(spec: &Spec) -> Params {
    Params {
        n: spec.n.unwrap_or(3),
        variant: spec.variant.clone(),
        coordinators: spec.coordinators,
        votes: spec.votes,
        delay_max: TICKS_IN_T,
    }
}

/// Carries out the actions of a request, up to the first one that is impossible.
pub fn drive(request: &Request) -> Result<Answer, Refusal> {
    let driven = visit(request, Play)?;
    driven.map_err(Refusal::bad)
}

fn check(request: &Request) -> Result<(), Refusal> {
    limits::check_size(&request.spec, HAND_PROCESSES_MAX)?;
    let given = request.actions.len();
    if given > HAND_ACTIONS_MAX {
        return Err(Refusal::bad(format!("{given} actions are too many; the lab takes at most {HAND_ACTIONS_MAX}")));
    }
    Ok(())
}

/// What a caller does with a group that has been driven through the actions of a request.
pub trait Driver {
    type Output;

    fn drive<P: Protocol>(self, driven: Driven<P>) -> Self::Output;
}

/// A group after the actions of a request.
pub struct Driven<P: Protocol> {
    pub stage: Stage<P>,
    pub rules: Rules,
    pub log: Vec<LogEntry>,
    pub refused: Option<RefusedAction>,
    header: Header,
    recorder: StageRecorder,
    about: &'static About,
    structure: Structure,
    elects: Option<Elects>,
}

struct Elects {
    rule: Rule,
    survivors: Option<Survivors>,
}

/// Drives the group of a request through its actions, and gives it to `driver`. The inner error is a sentence for a
/// family without a stage; so far there is none.
pub fn visit<D: Driver>(request: &Request, driver: D) -> Result<Result<D::Output, String>, Refusal> {
    check(request)?;
    let params = params(&request.spec);
    registry::visit(&request.spec.algorithm, &params, Hand { request, params: &params, driver }).map_err(Refusal::bad)
}

struct Hand<'r, D> {
    request: &'r Request,
    params: &'r Params,
    driver: D,
}

impl<D: Driver> Hand<'_, D> {
    fn go<P: Protocol>(
        self,
        about: &'static About,
        make: impl FnOnce(Group<P>) -> Stage<P>,
        group: Group<P>,
        elects: Option<Elects>,
    ) -> D::Output {
        let rules = self.request.rules.rules(about);
        let structure = Structure::of(about, self.params, &group);
        let mut header = Header::new(about, self.params, group.processes, &group.topology, Unit::T);
        header.network.order = Some(if rules.fifo { TracedOrder::Fifo } else { TracedOrder::Unordered });
        let recorder = StageRecorder::new(group.processes);
        let mut stage = make(group);
        let effects = stage.start();
        let mut driven =
            Driven { stage, rules, log: Vec::new(), refused: None, header, recorder, about, structure, elects };
        driven.recorder.start(&effects);
        driven.log.push(entry(None, "the group starts".into(), &effects));
        for (index, action) in self.request.actions.iter().enumerate() {
            if let Err(why) = driven.apply(action) {
                driven.refused = Some(RefusedAction { index, why });
                break;
            }
        }
        self.driver.drive(driven)
    }
}

impl<D: Driver> Visitor for Hand<'_, D> {
    type Output = Result<D::Output, String>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(format!("`{}` cannot be driven by hand", about.name))
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        Ok(self.go(about, Stage::mutex, group, None))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let elects = Elects { rule: group.elects, survivors: group.survivors.clone() };
        Ok(self.go(about, Stage::election, group, Some(elects)))
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
        Ok(self.go(about, Stage::append, group, None))
    }

    fn detector<W: Detector>(self, about: &'static About, group: Group<W>) -> Self::Output {
        Ok(self.go(about, Stage::detector, Watcher::group(group, TICKS_IN_T), None))
    }
}

/// Makes the answer of `/api/hand`.
struct Play;

impl Driver for Play {
    type Output = Answer;

    fn drive<P: Protocol>(self, driven: Driven<P>) -> Answer {
        driven.answer()
    }
}

fn entry<P: Protocol>(action: Option<Action>, text: String, effects: &[Effect<P>]) -> LogEntry {
    let violations = effects.iter().filter_map(|effect| match effect {
        Effect::Violated { property, detail } => Some(Violation { property, detail: detail.clone() }),
        _ => None,
    });
    LogEntry { action, text, violations: violations.collect(), effects: effects.iter().map(told).collect() }
}

/// An effect as text. By hand all durations are in ticks.
fn told<P: Protocol>(effect: &Effect<P>) -> String {
    match effect {
        Effect::TimerSet { .. } => format!("{effect} ticks"),
        _ => effect.to_string(),
    }
}

impl<P: Protocol> Driven<P> {
    fn apply(&mut self, action: &Action) -> Result<(), String> {
        let text = self.stage.describe(action);
        if !self.stage.allows(action, &self.rules) {
            // The stage itself may have a better reason.
            let refused = self.stage.clone().apply(action).err().map(|refused| refused.to_string());
            return Err(refused.unwrap_or_else(|| format!("the rules of this run do not allow `{action}` now")));
        }
        let effects = self.stage.apply(action).map_err(|refused| refused.to_string())?;
        self.recorder.action(action, &effects);
        self.log.push(entry(Some(action.clone()), text, &effects));
        Ok(())
    }

    fn answer(self) -> Answer {
        let enabled = self.stage.enabled(&self.rules).into_iter();
        let enabled =
            enabled.map(|action| Enabled { text: self.stage.describe(&action), group: group_of(&action), action });
        let mut scene = Scene::new(&self.header, self.recorder.records());
        // The times count actions, and there is no seed.
        scene.unit = "step";
        scene.title = format!("{}, by hand", self.about.name);
        Answer {
            shown: self.stage.show(self.rules.fifo),
            enabled: enabled.collect(),
            lamps: self.lamps(),
            scene,
            sent: self.stage.sent().clone(),
            structure: self.structure,
            log: self.log,
            refused: self.refused,
        }
    }

    /// One lamp for each property of the family.
    fn lamps(&self) -> Vec<Lamp> {
        let properties: &[Property] = match self.about.family {
            Family::Mutex => &[Property::Safety, Property::Liveness, Property::Order, Property::Fence],
            _ => &[Property::Safety, Property::Liveness],
        };
        properties.iter().map(|&property| self.lamp(property)).collect()
    }

    fn lamp(&self, property: Property) -> Lamp {
        let name = property.name();
        let violated = self.log.iter().flat_map(|entry| &entry.violations).find(|found| found.property == name);
        let (state, detail) = match violated {
            Some(violated) => (LampState::Violated, violated.detail.clone()),
            None if property == Property::Liveness => match self.stuck() {
                Some(why) => (LampState::Stuck, why),
                None => (LampState::Holds, self.unnoticed().unwrap_or_default()),
            },
            None if property == Property::Order && !self.stage.watches_order() => {
                (LampState::NotChecked, "the group is too large".into())
            }
            None => (LampState::Holds, String::new()),
        };
        Lamp { property: name, promised: self.about.promises.include(property), state, detail }
    }

    /// A crash that a failure detector has still to notice. Its timer is running, so that it will.
    fn unnoticed(&self) -> Option<String> {
        let (process, peer) = self.stage.unnoticed()?;
        Some(format!("so far P{process} does not suspect P{peer}, which is down"))
    }

    /// Why the group is stuck now.
    pub fn stuck(&self) -> Option<String> {
        let has_begun = self.log.iter().any(|entry| entry.action.as_ref().is_some_and(begins_election));
        self.stuck_at(&self.stage, has_begun)
    }

    /// Why a group in this state is stuck: nothing happens any more unless a user or a fault makes it happen.
    /// `has_begun`: whether an election has ever begun.
    pub fn stuck_at(&self, stage: &Stage<P>, has_begun: bool) -> Option<String> {
        if !stage.in_flight().is_empty() || !stage.inside().is_empty() {
            return None;
        }
        if let Some(elects) = &self.elects {
            let why = disagreement(stage, elects).filter(|_| has_begun && !self.has_report_ahead(stage))?;
            return calm::always(stage, self.rules.fifo, |later| disagreement(later, elects).is_some()).then_some(why);
        }
        if stage.timers().next().is_some() || self.has_report_ahead(stage) {
            return None;
        }
        let waiting: Vec<String> = stage.waiting().iter().map(|process| format!("P{process}")).collect();
        match waiting.as_slice() {
            [] => None,
            [one] => Some(format!("{one} waits, and nothing can happen")),
            many => Some(format!("{} wait, and nothing can happen", many.join(" and "))),
        }
    }

    /// Whether a detector has not yet reported a crash or a recovery that has happened.
    fn has_report_ahead(&self, stage: &Stage<P>) -> bool {
        let rules = Rules { mistakes: 0, ..self.rules.clone() };
        let is_report = |action: &Action| matches!(action, Action::Suspect { .. } | Action::Trust { .. });
        stage.enabled(&rules).iter().any(is_report)
    }
}

/// Whether an action may begin an election.
pub fn begins_election(action: &Action) -> bool {
    matches!(action, Action::User { wish: Wish::Elect, .. } | Action::Suspect { .. } | Action::Timer { .. })
}

/// How the live processes do not all follow the process that must lead, or follow one although none may lead.
fn disagreement<P: Protocol>(stage: &Stage<P>, Elects { rule, survivors }: &Elects) -> Option<String> {
    let lives = |process: &ProcessId| stage.is_up(*process);
    let clients = || (0..stage.clients()).filter(lives);
    let enough = |Survivors { among, least, .. }: &Survivors| among.clone().filter(lives).count() >= *least;
    if !survivors.as_ref().is_none_or(enough) {
        let (process, leader) = clients().find_map(|process| Some((process, stage.leader(process)?)))?;
        return Some(format!("P{process} believes that P{leader} leads, although too few processes are up"));
    }
    let best = rule.best(clients())?;
    let other = clients().find(|&process| stage.leader(process) != Some(best))?;
    let follows = stage.leader(other).map_or("no process".to_owned(), |leader| format!("P{leader}"));
    Some(format!("P{best} must lead, P{other} follows {follows}, and nothing can change that"))
}

fn group_of(action: &Action) -> ActionGroup {
    match action {
        Action::User { .. } => ActionGroup::User,
        Action::Deliver { .. } => ActionGroup::Message,
        Action::Timer { .. } => ActionGroup::Timer,
        Action::Suspect { .. } | Action::Trust { .. } => ActionGroup::Detector,
        Action::App { .. } => ActionGroup::App,
        Action::Drop { .. } | Action::Duplicate { .. } | Action::Forge { .. } => ActionGroup::Fault,
        Action::Crash { .. } | Action::Recover { .. } | Action::Choose { .. } => ActionGroup::Fault,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Answer {
        drive(&serde_json::from_value(request).unwrap()).unwrap()
    }

    fn refusal(request: Value) -> String {
        drive(&serde_json::from_value(request).unwrap()).unwrap_err().why
    }

    fn lamp(answer: &Answer, property: &str) -> (LampState, String) {
        let lamp = answer.lamps.iter().find(|lamp| lamp.property == property).unwrap();
        (lamp.state, lamp.detail.clone())
    }

    fn request(process: usize) -> Value {
        json!({"user": {"process": process, "wish": "request"}})
    }

    #[test]
    fn a_group_without_actions_has_started() {
        let answer = answer(json!({"spec": {"algorithm": "maekawa", "n": 7}}));
        assert_eq!((answer.shown.processes.len(), answer.log.len()), (7, 1));
        assert!(answer.enabled.iter().all(|enabled| enabled.group == ActionGroup::User));
        assert_eq!(answer.enabled[0].text, "P0 requests");
        assert!(answer.lamps.iter().all(|lamp| lamp.state == LampState::Holds));
    }

    #[test]
    fn a_violation_lights_its_lamp() {
        let answer = answer(json!({"spec": {"algorithm": "no-lock", "n": 2}, "actions": [request(0), request(1)]}));
        assert_eq!(lamp(&answer, "safety").0, LampState::Violated);
        assert_eq!(answer.log[2].violations[0].property, "safety");
        assert_eq!(answer.log[2].text, "P1 requests");
        assert_eq!(answer.scene.violations.len(), answer.log.iter().map(|entry| entry.violations.len()).sum::<usize>());
        assert_eq!(answer.scene.unit, "step");
    }

    /// Both processes of each other's voting sets ask each other, and without INQUIRE nobody yields.
    #[test]
    fn a_deadlock_is_stuck() {
        let actions = vec![request(0), request(1), request(2)];
        let mut given = json!({"spec": {"algorithm": "maekawa-no-inquire", "n": 3}, "actions": actions});
        for _ in 0..30 {
            let answer = answer(given.clone());
            let Some(message) = answer.shown.pending.first() else {
                assert_eq!(lamp(&answer, "liveness").0, LampState::Stuck);
                assert_eq!(lamp(&answer, "liveness").1, "P0 and P1 and P2 wait, and nothing can happen");
                return;
            };
            assert_eq!(lamp(&answer, "liveness").0, LampState::Holds, "a message is pending");
            given["actions"].as_array_mut().unwrap().push(json!({"deliver": {"message": message.id}}));
        }
        panic!("messages are never over");
    }

    #[test]
    fn an_impossible_action_is_refused_and_the_rest_is_answered() {
        let given =
            json!({"spec": {"algorithm": "central", "n": 2}, "actions": [request(0), {"deliver": {"message": 9}}]});
        let answer = answer(given);
        let refused = answer.refused.clone().unwrap();
        assert_eq!((refused.index, refused.why.as_str()), (1, "message #9 is not in flight"));
        assert_eq!(answer.log.len(), 2, "the first action was carried out");
    }

    #[test]
    fn the_rules_limit_faults_and_keep_the_order() {
        let crash = json!({"crash": {"process": 1}});
        let given = |rules: Value| {
            answer(json!({"spec": {"algorithm": "lamport", "n": 2}, "rules": rules, "actions": [crash, crash]}))
        };
        let refused = |rules| given(rules).refused.unwrap();
        assert_eq!(refused(json!({})).why, "the rules of this run do not allow `crash 1` now");
        assert_eq!(refused(json!({"crashes": 5})).why, "P1 is down");
        let forged = json!({"forge": {"from": 0, "to": 1, "like": 0}});
        let answer = answer(json!({"spec": {"algorithm": "lamport", "n": 2}, "actions": [request(0), forged]}));
        assert_eq!(answer.refused.unwrap().why, "the rules of this run do not allow `forge 0->1 #0` now");
    }

    #[test]
    fn an_election_without_agreement_is_stuck_and_a_fresh_one_is_not() {
        let fresh = answer(json!({"spec": {"algorithm": "chang-roberts", "n": 3}}));
        assert_eq!(lamp(&fresh, "liveness").0, LampState::Holds);
        let elect = json!({"user": {"process": 0, "wish": "elect"}});
        let lost = json!({"spec": {"algorithm": "chang-roberts", "n": 3}, "rules": {"losses": 1},
            "actions": [elect, {"drop": {"message": 0}}]});
        assert_eq!(lamp(&answer(lost), "liveness").0, LampState::Stuck);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let many = vec![json!({"choose": {"script": []}}); HAND_ACTIONS_MAX + 1];
        let refused = refusal(json!({"spec": {"algorithm": "central"}, "actions": many}));
        assert_eq!(refused, "2001 actions are too many; the lab takes at most 2000");
        let refused = refusal(json!({"spec": {"algorithm": "central", "n": 17}}));
        assert_eq!(refused, "17 processes are too many; the lab takes at most 16 here");
        assert!(refusal(json!({"spec": {"algorithm": "centrall"}})).contains("did you mean central?"));
    }

    fn fire(process: usize, name: &str) -> Value {
        json!({"timer": {"process": process, "name": name}})
    }

    /// The beats of P1 are slow: the clock of P0 passes P + D = 11 T before the first one arrives.
    #[test]
    fn a_detector_that_suspects_a_live_process_lights_the_lamp_of_safety_and_a_beat_ends_the_suspicion() {
        let group = json!({"algorithm": "heartbeat", "n": 2});
        let after = |actions: &[Value]| answer(json!({"spec": group, "actions": actions}));
        let mut actions = vec![fire(0, "Beat")];
        let before = after(&actions);
        assert_eq!(before.log[1].effects.last().unwrap(), "P0 sets Deadline to 2 ticks");
        assert_eq!(lamp(&before, "safety").0, LampState::Holds);
        let timers: Vec<_> = before.shown.timers.iter().map(|timer| (timer.process, timer.name.as_str())).collect();
        assert_eq!(timers, [(0, "Deadline"), (1, "Beat")], "one timer each, for what comes next");
        actions.push(fire(0, "Deadline"));
        let wrong = after(&actions);
        assert_eq!(lamp(&wrong, "safety"), (LampState::Violated, "P0 suspects P1, which is alive".into()));
        assert_eq!(wrong.log[2].effects[0], "P0 suspects P1");
        assert_eq!(wrong.shown.processes[0].suspects, [1]);
        assert_eq!(wrong.scene.violations.len(), 1);
        // Message 1 is the first beat of P1: P0 has sent message 0.
        actions.push(json!({"deliver": {"message": 1}}));
        let trusted = after(&actions);
        assert_eq!((trusted.refused, trusted.shown.processes[0].suspects.len()), (None, 0));
        assert_eq!(trusted.log[3].effects[1], "P0 trusts P1 again");
    }

    #[test]
    fn a_crash_that_a_detector_has_not_noticed_is_told_and_nobody_else_reports_it() {
        let given = |actions: &[Value]| {
            answer(json!({"spec": {"algorithm": "heartbeat", "n": 2}, "rules": {"crashes": 1}, "actions": actions}))
        };
        let crash = json!({"crash": {"process": 1}});
        let untold = given(std::slice::from_ref(&crash));
        assert!(untold.enabled.iter().all(|enabled| enabled.group != ActionGroup::Detector));
        let said = "so far P0 does not suspect P1, which is down";
        assert_eq!(lamp(&untold, "liveness"), (LampState::Holds, said.into()));
        let noticed = given(&[crash.clone(), fire(0, "Beat"), fire(0, "Deadline")]);
        assert_eq!(lamp(&noticed, "liveness"), (LampState::Holds, String::new()));
        assert_eq!(lamp(&noticed, "safety").0, LampState::Holds, "P1 is down");
        let told = given(&[crash, json!({"suspect": {"by": 0, "of": 1}})]).refused.unwrap();
        assert!(told.why.starts_with("each process is a failure detector itself"), "{}", told.why);
    }

    /// Everything that is offered is possible, for every algorithm.
    #[test]
    fn what_is_enabled_is_not_refused() {
        let rules =
            json!({"losses": 1, "duplicates": 1, "crashes": 1, "recoveries": 1, "mistakes": 1, "app_messages": 1});
        for about in registry::ALGORITHMS {
            let mut actions = Vec::new();
            for step in 0..12 {
                let given = json!({"spec": {"algorithm": about.name, "n": 3}, "rules": rules, "actions": actions});
                let answer = answer(given);
                assert_eq!(answer.refused, None, "{}: {actions:?}", about.name);
                let enabled = &answer.enabled[(7 * step) % answer.enabled.len()];
                actions.push(serde_json::to_value(&enabled.action).unwrap());
            }
        }
    }
}
