//! Starts the checker after a list of actions, so that it can say how far a violation is from there.
//!
//! Each action must be a step of the model: `follow` looks for it among the successors of the current state. So the
//! requests and faults of the list count against the limits of the model. In a model with time, ticks pass as needed
//! for the next action, and no more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::ProcessId;
use baton_protocol::election::Election;
use baton_protocol::mutex::{Command, Mutex};
use baton_trace::{Action as StageAction, DropReason, Wish};

use crate::CheckError;
use crate::election::{ElectionAct, ElectionModel};
use crate::explore::{Found, Model, Successor, Violation, expand};
use crate::group::{ActOf, GroupModel, StateOf};
use crate::mutex::MutexModel;
use crate::network::Flight;
use crate::system::{Action, Stimulus};

/// More ticks than any timer takes.
const TICKS_MAX: usize = 10_000;

/// A model whose steps can be written as actions on a stage.
pub trait Staged: GroupModel {
    /// The step of a user as an action.
    fn act(at: ProcessId, act: ActOf<Self>) -> StageAction;
}

impl<P: Mutex> Staged for MutexModel<P> {
    fn act(process: ProcessId, act: Command) -> StageAction {
        let wish = match act {
            Command::Acquire => Wish::Request,
            Command::Release => Wish::Release,
        };
        StageAction::User { process, wish }
    }
}

impl<P: Election> Staged for ElectionModel<P> {
    fn act(at: ProcessId, act: ElectionAct) -> StageAction {
        match act {
            ElectionAct::Suspect(of) => StageAction::Suspect { by: at, of },
            ElectionAct::Elect => StageAction::User { process: at, wish: Wish::Elect },
        }
    }
}

/// A step of a model as an action. None for a start, a tick or a delivery: an action would name the message by its
/// number.
pub fn deed<M: Staged>(model: &M, state: &StateOf<M>, action: &Action<ActOf<M>>) -> Option<StageAction> {
    let Action::Step { at, stimulus, .. } = *action else { return None };
    let process = usize::from(at);
    Some(match stimulus {
        Stimulus::Act(act) => M::act(process, act),
        Stimulus::AppSend { to } => StageAction::App { from: process, to: to.into() },
        Stimulus::Timer(place) => {
            let (timer, _) = model.system().local(state.locals[process]).timers[usize::from(place)];
            StageAction::Timer { process, name: format!("{timer:?}") }
        }
        Stimulus::Crash => StageAction::Crash { process },
        Stimulus::Recover { memory, .. } => StageAction::Recover { process, memory },
        Stimulus::Suspect { peer, .. } => StageAction::Suspect { by: process, of: peer.into() },
        Stimulus::Trust { peer, .. } => StageAction::Trust { by: process, of: peer.into() },
        Stimulus::Deliver { .. } | Stimulus::Start | Stimulus::Tick => return None,
    })
}

/// The result of following a list of actions.
pub struct Followed<S> {
    /// The state after the last action, or the violation by the last action.
    pub next: Result<S, Violation>,
    /// The index of the successor to take at the start and in each following state.
    pub path: Vec<usize>,
}

/// Follows a list of actions through the model.
pub fn follow<M: Staged>(
    model: &mut M,
    actions: &[StageAction],
    stop: Option<&AtomicBool>,
) -> Result<Followed<StateOf<M>>, CheckError> {
    let mut way = Way::begin(model, stop);
    for (place, action) in actions.iter().enumerate() {
        let refused = |why| CheckError::After { number: place + 1, action: action.to_string(), why };
        way.take(action, place == 0).map_err(refused)?;
    }
    Ok(Followed { next: way.next, path: way.path })
}

/// The path through a list of actions so far.
struct Way<'m, M: Staged> {
    model: &'m mut M,
    stop: Option<&'m AtomicBool>,
    /// The state at the end of the path, or the violation there.
    next: Result<StateOf<M>, Violation>,
    path: Vec<usize>,
    /// The messages in flight, by their number in the list. A copy is an entry of its own.
    letters: BTreeMap<u64, Letter>,
    /// Number of messages sent so far.
    messages: u64,
    /// The outcomes of the next choices.
    script: Vec<usize>,
}

/// A message in flight. Copies have the same `original`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Letter {
    original: u64,
    from: u8,
    to: u8,
    payload: u32,
}

/// The step that the next action asks for.
enum Wanted<'a> {
    Action(&'a StageAction),
    Arrival { letter: Letter, copied: bool },
    Loss { letter: Letter },
}

impl<'m, M: Staged> Way<'m, M> {
    /// Starts all processes. All choices at the start are 0, because the list of actions begins after it.
    fn begin(model: &'m mut M, stop: Option<&'m AtomicBool>) -> Self {
        let Successor { action, next } = expand(model, None).successors.swap_remove(0);
        let mut way =
            Way { model, stop, next, path: vec![0], letters: BTreeMap::new(), messages: 0, script: Vec::new() };
        if let Action::Start(outcomes) = action {
            (0..).zip(outcomes).for_each(|(at, outcome)| way.number(at, outcome));
        }
        way
    }

    fn letter(&self, message: u64) -> Result<Letter, String> {
        self.letters.get(&message).copied().ok_or_else(|| format!("message #{message} is not in flight"))
    }

    fn add(&mut self, from: u8, to: u8, payload: u32, copy_of: Option<u64>) {
        let original = copy_of.unwrap_or(self.messages);
        self.letters.insert(self.messages, Letter { original, from, to, payload });
        self.messages += 1;
    }

    fn has_copy(&self, letter: Letter) -> bool {
        self.letters.values().any(|other| *other == letter)
    }

    /// Carries out an action. Some actions are no step of the model.
    fn take(&mut self, action: &StageAction, is_first: bool) -> Result<(), String> {
        if let (true, Some(leader)) = (is_first, self.model.system().rules.crashed) {
            return match action {
                StageAction::Crash { process } if *process == leader => Ok(()),
                _ => Err(format!(
                    "without further crashes the model starts with a crashed leader: begin with `crash {leader}`"
                )),
            };
        }
        match *action {
            StageAction::Choose { ref script } => self.script.clone_from(script),
            StageAction::Duplicate { message } => {
                let Letter { original, from, to, payload } = self.letter(message)?;
                self.add(from, to, payload, Some(original));
            }
            StageAction::Forge { .. } => return Err("the checker has no forgeries".into()),
            StageAction::Deliver { message } => {
                let letter = self.letter(message)?;
                self.letters.remove(&message);
                self.step(&Wanted::Arrival { letter, copied: self.has_copy(letter) })?;
            }
            StageAction::Drop { message } => {
                let letter = self.letter(message)?;
                self.letters.remove(&message);
                // The model makes a copy only when one copy arrives. So only the loss of the last copy is a step.
                if !self.has_copy(letter) {
                    self.step(&Wanted::Loss { letter })?;
                }
            }
            StageAction::Crash { process } => {
                self.letters.retain(|_, letter| usize::from(letter.to) != process);
                self.step(&Wanted::Action(action))?;
            }
            StageAction::Recover { process, .. } => {
                self.letters.retain(|_, letter| ![letter.from, letter.to].map(usize::from).contains(&process));
                self.step(&Wanted::Action(action))?;
            }
            _ => self.step(&Wanted::Action(action))?,
        }
        Ok(())
    }

    /// Gives numbers to the messages that a process has sent, as a stage does.
    fn number(&mut self, at: u8, outcome: u32) {
        let sends = self.model.system().outcome(outcome).sends.clone();
        sends.into_iter().for_each(|(to, _, payload)| self.add(at, to, payload, None));
    }

    /// Takes the wanted step. Lets time pass until the step is possible.
    fn step(&mut self, wanted: &Wanted) -> Result<(), String> {
        for _ in 0..TICKS_MAX {
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err("the check was stopped".into());
            }
            let state =
                self.next.as_ref().map_err(|wrong| format!("{} is violated before this action", wrong.property))?;
            let mut successors = expand(self.model, Some(state)).successors;
            let found = successors.iter().position(|successor| self.is_wanted(state, &successor.action, wanted));
            // A message to a crashed process is lost by itself, and time may have to wait for that.
            let by_itself = |action: &Action<ActOf<M>>| {
                matches!(action, Action::Tick | Action::Lost { reason: DropReason::Crashed, .. })
            };
            let passes = || successors.iter().position(|successor| by_itself(&successor.action));
            let Some(nth) = found.or_else(passes) else { break };
            let Successor { action, next } = successors.swap_remove(nth);
            self.path.push(nth);
            self.next = next;
            if let Action::Step { at, outcome, .. } = action {
                let choices = self.model.system().outcome(outcome).choices.len();
                self.script.drain(..choices.min(self.script.len()));
                self.number(at, outcome);
            }
            if found.is_some() {
                return Ok(());
            }
        }
        Err("it cannot happen there within the limits of requests and faults".into())
    }

    fn is_wanted(&self, state: &StateOf<M>, action: &Action<ActOf<M>>, wanted: &Wanted) -> bool {
        let same = |letter: &Letter, from, to, payload| (letter.from, letter.to, letter.payload) == (from, to, payload);
        let fits = match (wanted, action) {
            (Wanted::Action(wanted), action) => deed(self.model, state, action).as_ref() == Some(*wanted),
            (
                Wanted::Arrival { letter, copied: wanted },
                &Action::Step { at, stimulus: Stimulus::Deliver { from, payload }, copied, .. },
            ) => same(letter, from, at, payload) && copied == *wanted,
            (
                Wanted::Loss { letter },
                &Action::Lost { flight: Flight { from, to, payload, .. }, reason: DropReason::Loss },
            ) => same(letter, from, to, payload),
            _ => false,
        };
        fits && match action {
            Action::Step { outcome, .. } => {
                let choices = &self.model.system().outcome(*outcome).choices;
                choices.iter().zip(&self.script).all(|(choice, wanted)| choice.chosen == *wanted)
            }
            _ => true,
        }
    }
}

/// A model that starts in a given state.
pub struct StartingAt<'m, M: Model> {
    pub model: &'m mut M,
    pub start: M::State,
}

impl<M: Model<State: Clone>> Model for StartingAt<'_, M> {
    type State = M::State;
    /// None: the start.
    type Action = Option<M::Action>;
    type Gap = M::Gap;

    fn expand(&self, state: Option<&M::State>, found: &mut Found<Self>) {
        if state.is_none() {
            found.successors.push(Successor { action: None, next: Ok(self.start.clone()) });
            return;
        }
        let mut inside = Found::default();
        self.model.expand(state, &mut inside);
        (found.gaps, found.reached) = (inside.gaps, inside.reached);
        let successors = inside.successors.into_iter();
        found.successors.extend(successors.map(|Successor { action, next }| Successor { action: Some(action), next }));
    }

    fn learn(&mut self, gap: M::Gap) {
        self.model.learn(gap);
    }

    fn is_too_wide(&self) -> bool {
        self.model.is_too_wide()
    }
}
