//! The same models for another checker, stateright. It uses only our step functions; the network, the users and the
//! properties are written anew here.

use std::collections::{BTreeMap, BTreeSet};

use baton_check::LinkOrder;
use baton_protocol::mutex::{Command, Mutex};
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start};
use stateright::{Model, Property};

/// A group in which each client requests `entries` times.
pub struct Adapter<P: Mutex> {
    pub group: Group<P>,
    pub order: LinkOrder,
    pub entries: u32,
    pub timers: u32,
}

/// The state of the whole group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whole<P: Mutex> {
    processes: Vec<P>,
    users: Vec<User<P>>,
    links: BTreeMap<(ProcessId, ProcessId), Vec<P::Message>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User<P: Mutex> {
    phase: Phase,
    entries_left: u32,
    timers: BTreeSet<P::Timer>,
    timers_left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
}

/// A possible step, and its result. The number of branches of a step is known only after taking it. So each step is
/// taken once, here, and not again for its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act<P: Mutex> {
    what: What<P>,
    next: Whole<P>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What<P: Mutex> {
    Command(ProcessId, Command),
    Timer(ProcessId, P::Timer),
    Deliver { from: ProcessId, to: ProcessId, place: usize },
}

impl<P: Mutex> Adapter<P> {
    fn steps(&self, state: &Whole<P>) -> Vec<What<P>> {
        let mut steps = Vec::new();
        for (at, user) in state.users.iter().enumerate() {
            match user.phase {
                Phase::Idle if user.entries_left > 0 => steps.push(What::Command(at, Command::Acquire)),
                Phase::Inside => steps.push(What::Command(at, Command::Release)),
                Phase::Idle | Phase::Waiting => {}
            }
            if user.timers_left > 0 {
                steps.extend(user.timers.iter().map(|&timer| What::Timer(at, timer)));
            }
        }
        for (&(from, to), link) in &state.links {
            let first = if self.order == LinkOrder::Fifo { 1 } else { link.len() };
            // Of equal messages it does not matter which one arrives.
            let places = (0..first).filter(|&place| place == 0 || link[place] != link[place - 1]);
            steps.extend(places.map(|place| What::Deliver { from, to, place }));
        }
        steps
    }

    /// The state after a step, and the choices made in it.
    fn take(&self, state: &Whole<P>, what: &What<P>, choices: Vec<usize>) -> (Whole<P>, Vec<baton_protocol::Choice>) {
        let mut next = state.clone();
        let (at, input) = match *what {
            What::Command(at, command) => {
                let user = &mut next.users[at];
                user.phase = if command == Command::Acquire { Phase::Waiting } else { Phase::Idle };
                user.entries_left -= u32::from(command == Command::Acquire);
                (at, Input::Command(command))
            }
            What::Timer(at, timer) => {
                next.users[at].timers.remove(&timer);
                next.users[at].timers_left -= 1;
                (at, Input::Timer(timer))
            }
            What::Deliver { from, to, place } => {
                let link = next.links.get_mut(&(from, to)).unwrap();
                let message = link.remove(place);
                if link.is_empty() {
                    next.links.remove(&(from, to));
                }
                (to, Input::Message { from, message })
            }
        };
        let made = self.step(&mut next, at, input, choices);
        (next, made)
    }

    fn step(
        &self,
        state: &mut Whole<P>,
        at: ProcessId,
        input: Input<P>,
        choices: Vec<usize>,
    ) -> Vec<baton_protocol::Choice> {
        let mut out = Outbox::new(Choices::scripted(choices));
        state.processes[at].step(input, &mut out);
        for output in out.drain() {
            match output {
                Output::Send { to, message } => {
                    let link = state.links.entry((at, to)).or_default();
                    link.push(message);
                    if self.order == LinkOrder::Unordered {
                        link.sort();
                    }
                }
                Output::SetTimer { timer, .. } => _ = state.users[at].timers.insert(timer),
                Output::CancelTimer(timer) => _ = state.users[at].timers.remove(&timer),
                Output::Event(_) => state.users[at].phase = Phase::Inside,
                Output::Stamp(_) => {}
            }
        }
        out.choices().take_made()
    }
}

impl<P: Mutex> Model for Adapter<P> {
    type State = Whole<P>;
    type Action = Act<P>;

    fn init_states(&self) -> Vec<Whole<P>> {
        let user = |id| User {
            phase: Phase::Idle,
            entries_left: if id < self.group.clients { self.entries } else { 0 },
            timers: BTreeSet::new(),
            timers_left: self.timers,
        };
        let all = 0..self.group.processes;
        let mut start = Whole {
            processes: all.clone().map(|id| (self.group.make)(id)).collect(),
            users: all.clone().map(user).collect(),
            links: BTreeMap::new(),
        };
        for at in all {
            self.step(&mut start, at, Input::Start(Start::Fresh), Vec::new());
        }
        vec![start]
    }

    fn actions(&self, state: &Whole<P>, actions: &mut Vec<Act<P>>) {
        for what in self.steps(state) {
            let mut script = Some(Vec::new());
            while let Some(choices) = script {
                let (next, made) = self.take(state, &what, choices);
                script = Choices::next_branch(&made);
                actions.push(Act { what: what.clone(), next });
            }
        }
    }

    fn next_state(&self, _: &Whole<P>, act: Act<P>) -> Option<Whole<P>> {
        Some(act.next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one inside", |_: &Self, state: &Whole<P>| {
                state.users.iter().filter(|user| user.phase == Phase::Inside).count() <= 1
            }),
            Property::always("never stuck", |_: &Self, state: &Whole<P>| {
                let waiting = state.users.iter().any(|user| user.phase == Phase::Waiting);
                let goes_on = |user: &User<P>| user.phase == Phase::Inside || !user.timers.is_empty();
                !waiting || !state.links.is_empty() || state.users.iter().any(goes_on)
            }),
        ]
    }
}
