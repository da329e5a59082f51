//! A second, naive way to count the states of a group: whole states in a set, each step taken anew, nothing numbered,
//! nothing remembered but the states themselves. It must come to the same numbers.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use baton_check::{Options, Order, Property, Verdict, check};
use baton_protocol::mutex::{Command, Mutex};
use baton_protocol::registry::{About, Params, Visitor, visit};
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start};

#[derive(Clone, PartialEq, Eq, Hash)]
struct Whole<P: Mutex> {
    processes: Vec<P>,
    timers: Vec<BTreeSet<P::Timer>>,
    timers_left: Vec<u32>,
    links: BTreeMap<(ProcessId, ProcessId), Vec<P::Message>>,
    phases: Vec<Phase>,
    entries_left: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
}

#[derive(Clone, Copy)]
struct Counter {
    order: Order,
    entries: u32,
    timers: u32,
}

impl<P: Mutex> Whole<P> {
    /// All states that `input` at a process can lead to.
    fn step(&self, at: ProcessId, input: Input<P>, order: Order) -> Vec<Self> {
        let mut nexts = Vec::new();
        let mut script = Some(Vec::new());
        while let Some(branch) = script {
            let mut next = self.clone();
            let mut out = Outbox::new(Choices::scripted(branch));
            next.processes[at].step(input.clone(), &mut out);
            for output in out.drain() {
                next.carry_out(at, output, order);
            }
            nexts.push(next);
            script = Choices::next_branch(&out.choices().take_made());
        }
        nexts
    }

    fn carry_out(&mut self, at: ProcessId, output: Output<P>, order: Order) {
        match output {
            Output::Send { to, message } => {
                let link = self.links.entry((at, to)).or_default();
                link.push(message);
                if order == Order::Unordered {
                    link.sort();
                }
            }
            Output::SetTimer { timer, .. } => _ = self.timers[at].insert(timer),
            Output::CancelTimer(timer) => _ = self.timers[at].remove(&timer),
            Output::Event(_) => self.phases[at] = Phase::Inside,
            Output::Stamp(_) => {}
        }
    }

    fn nexts(&self, order: Order) -> Vec<Self> {
        let mut nexts = Vec::new();
        for at in 0..self.processes.len() {
            let mut next = self.clone();
            match self.phases[at] {
                Phase::Idle if self.entries_left[at] > 0 => {
                    next.entries_left[at] -= 1;
                    next.phases[at] = Phase::Waiting;
                    nexts.extend(next.step(at, Input::Command(Command::Acquire), order));
                }
                Phase::Inside => {
                    next.phases[at] = Phase::Idle;
                    nexts.extend(next.step(at, Input::Command(Command::Release), order));
                }
                _ => {}
            }
            for &timer in self.timers[at].iter().filter(|_| self.timers_left[at] > 0) {
                let mut next = self.clone();
                next.timers[at].remove(&timer);
                next.timers_left[at] -= 1;
                nexts.extend(next.step(at, Input::Timer(timer), order));
            }
        }
        for (&(from, to), link) in &self.links {
            let first = if order == Order::Fifo { 1 } else { link.len() };
            for index in 0..first {
                let mut next = self.clone();
                let message = next.links.get_mut(&(from, to)).unwrap().remove(index);
                next.links.retain(|_, link| !link.is_empty());
                nexts.extend(next.step(to, Input::Message { from, message }, order));
            }
        }
        nexts
    }
}

impl Visitor for Counter {
    type Output = usize;

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> usize {
        let all = 0..group.processes;
        let mut start = Whole {
            processes: all.clone().map(|id| (group.make)(id)).collect(),
            timers: vec![BTreeSet::new(); group.processes],
            timers_left: vec![self.timers; group.processes],
            links: BTreeMap::new(),
            phases: vec![Phase::Idle; group.processes],
            entries_left: all.clone().map(|id| if id < group.clients { self.entries } else { 0 }).collect(),
        };
        for at in all {
            start = start.step(at, Input::Start(Start::Fresh), self.order).remove(0);
        }
        let mut seen = HashSet::from([start.clone()]);
        let mut stack = vec![start];
        while let Some(state) = stack.pop() {
            stack.extend(state.nexts(self.order).into_iter().filter(|next| seen.insert(next.clone())));
        }
        seen.len()
    }
}

#[track_caller]
fn assert_same_count(algorithm: &str, params: &Params, order: Order, entries: u32, timers: u32) {
    let counted = visit(algorithm, params, Counter { order, entries, timers }).unwrap();
    let properties = Some(vec![Property::Safety, Property::Deadlock]);
    let options = Options { order: Some(order), entries, timers, properties, ..Options::default() };
    let report = check(algorithm, params, &options).unwrap();
    assert_eq!((report.result, report.states), (Verdict::Holds, counted), "{algorithm}, {order}, n = {}", params.n);
}

#[test]
fn both_ways_of_counting_come_to_the_same() {
    for order in [Order::Fifo, Order::Unordered] {
        for (algorithm, n, entries) in [
            ("central", 2, 2),
            ("central", 3, 2),
            ("ricart-agrawala", 2, 1),
            ("ricart-agrawala", 2, 2),
            ("ricart-agrawala", 3, 1),
            ("suzuki-kasami", 2, 2),
            ("suzuki-kasami", 3, 1),
            ("permission-ring", 2, 2),
            ("permission-ring", 3, 1),
            ("raymond", 3, 2),
        ] {
            assert_same_count(algorithm, &Params::new(n, 1), order, entries, 0);
        }
        let voters = |coordinators| Params { coordinators: Some(coordinators), ..Params::new(2, 1) };
        assert_same_count("voting", &voters(1), order, 2, 2);
        assert_same_count("voting", &voters(2), order, 1, 1);
    }
}
