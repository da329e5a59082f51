//! An instance of the carried algorithm: the processes of one view that one member carries.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::broken::views::Mistake;
use crate::election::Rule;
use crate::{Input, Output, ProcessId, Protocol, Start};

/// How the processes of the algorithm are made. The same for all members and all views of a group.
pub struct Plan<P> {
    /// Number of clients: processes `0..clients` belong to the members with these ids.
    pub clients: usize,
    /// Number of all processes of the algorithm, its helpers included.
    pub processes: usize,
    pub make: Arc<dyn Fn(ProcessId) -> P + Send + Sync>,
    /// Whether a process whose member is absent runs at another member. If not, the others suspect it.
    pub replaces: bool,
    /// In an election: which member of a view leads in it.
    pub elects: Rule,
    pub mistake: Option<Mistake>,
}

impl<P> Clone for Plan<P> {
    fn clone(&self) -> Self {
        Plan { make: self.make.clone(), ..*self }
    }
}

/// All members of a group have the same plan.
impl<P> PartialEq for Plan<P> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<P> Eq for Plan<P> {}

impl<P> Hash for Plan<P> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<P> fmt::Debug for Plan<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan")
    }
}

impl<P> Plan<P> {
    /// The member that carries a process in a view of these members. None if no member does.
    pub fn home(&self, process: ProcessId, members: &[ProcessId]) -> Option<ProcessId> {
        if process < self.clients && (members.contains(&process) || !self.replaces) {
            return members.contains(&process).then_some(process);
        }
        members.get(process.checked_rem(members.len())?).copied()
    }
}

/// The processes that one member carries in one view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance<P: Protocol> {
    pub epoch: u64,
    /// The members of the view, in ascending order.
    pub members: Vec<ProcessId>,
    /// In ascending order of ids.
    carried: Vec<(ProcessId, P)>,
    /// The timers that run.
    pub timers: BTreeSet<(ProcessId, P::Timer)>,
}

/// What the processes of an instance have done, in order. The member carries it out.
pub enum Effect<P: Protocol> {
    Send { from: ProcessId, to: ProcessId, message: P::Message },
    SetTimer { process: ProcessId, timer: P::Timer, after: core::ops::RangeInclusive<crate::Ticks> },
    CancelTimer { process: ProcessId, timer: P::Timer },
    Event { process: ProcessId, event: P::Event },
    Stamp(u64),
}

impl<P: Protocol> Instance<P> {
    pub fn new(epoch: u64, plan: &Plan<P>, me: ProcessId, members: Vec<ProcessId>) -> Self {
        let carried = (0..plan.processes).filter(|&process| plan.home(process, &members) == Some(me));
        let carried = carried.map(|process| (process, (plan.make)(process))).collect();
        Instance { epoch, members, carried, timers: BTreeSet::new() }
    }

    pub fn processes(&self) -> impl Iterator<Item = ProcessId> {
        self.carried.iter().map(|(process, _)| *process)
    }

    pub fn process(&self, process: ProcessId) -> Option<&P> {
        self.carried.iter().find(|(id, _)| *id == process).map(|(_, process)| process)
    }

    pub fn each(&mut self) -> impl Iterator<Item = &mut P> {
        self.carried.iter_mut().map(|(_, process)| process)
    }

    /// All processes start before a message of one arrives at another.
    pub fn start(&mut self, absent: &[ProcessId], step: &mut Step<P>) -> Vec<Effect<P>> {
        let mut effects = Vec::new();
        let mut local = VecDeque::new();
        for process in self.processes().collect::<Vec<_>>() {
            self.step_one(process, Input::Start(Start::Fresh), step, &mut local, &mut effects);
        }
        for process in self.processes().collect::<Vec<_>>() {
            for &other in absent {
                self.step_one(process, Input::Suspect(other), step, &mut local, &mut effects);
            }
        }
        self.deliver_local(step, &mut local, &mut effects);
        effects
    }

    /// Steps a process, and then all processes that get messages from processes of the same member. Does nothing if the
    /// process is not here.
    pub fn step(&mut self, process: ProcessId, input: Input<P>, step: &mut Step<P>) -> Vec<Effect<P>> {
        let (mut effects, mut local) = (Vec::new(), VecDeque::new());
        self.step_one(process, input, step, &mut local, &mut effects);
        self.deliver_local(step, &mut local, &mut effects);
        effects
    }

    fn deliver_local(&mut self, step: &mut Step<P>, local: &mut Local<P>, effects: &mut Vec<Effect<P>>) {
        while let Some((from, to, message)) = local.pop_front() {
            self.step_one(to, Input::Message { from, message }, step, local, effects);
        }
    }

    fn step_one(
        &mut self,
        process: ProcessId,
        input: Input<P>,
        step: &mut Step<P>,
        local: &mut Local<P>,
        effects: &mut Vec<Effect<P>>,
    ) {
        let Some(place) = self.carried.iter().position(|(id, _)| *id == process) else { return };
        if let Input::Timer(timer) = input {
            self.timers.remove(&(process, timer));
        }
        for output in step(&mut self.carried[place].1, input) {
            match output {
                Output::Send { to, message } if self.process(to).is_some() => local.push_back((process, to, message)),
                Output::Send { to, message } => effects.push(Effect::Send { from: process, to, message }),
                Output::SetTimer { timer, after } => {
                    self.timers.insert((process, timer));
                    effects.push(Effect::SetTimer { process, timer, after });
                }
                Output::CancelTimer(timer) => {
                    self.timers.remove(&(process, timer));
                    effects.push(Effect::CancelTimer { process, timer });
                }
                Output::Event(event) => effects.push(Effect::Event { process, event }),
                Output::Stamp(clock) => effects.push(Effect::Stamp(clock)),
            }
        }
    }
}

/// Steps one process, with the choices of the driver.
pub type Step<'a, P> = dyn FnMut(&mut P, Input<P>) -> Vec<Output<P>> + 'a;

/// Messages between processes of the same member: from, to, message.
type Local<P> = VecDeque<(ProcessId, ProcessId, <P as Protocol>::Message)>;
