//! A second, naive way to count the states of a group: a set of whole states, and every step executed anew, without
//! numbers and caches. It must find the same numbers of states.
//!
//! For ORDER, each process and each message carries the set of requests that happened before. A request is identified
//! by its process and by how many requests the process still had to make. The checker uses vector clocks for that.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use baton_check::{LinkOrder, Options, Property, Verdict, check};
use baton_protocol::mutex::{Command, Mutex};
use baton_protocol::registry::{About, Params, Visitor, visit};
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start};

type Requests = BTreeSet<(ProcessId, u32)>;

/// A message, and the requests that happened before it was sent.
type Letter<M> = (M, Requests);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Whole<P: Mutex> {
    processes: Vec<P>,
    timers: Vec<BTreeSet<P::Timer>>,
    timers_left: Vec<u32>,
    links: BTreeMap<(ProcessId, ProcessId), Vec<Letter<P::Message>>>,
    /// Sender, receiver, and the algorithm's clock if it has one. Application messages overtake each other on any
    /// network.
    app: Vec<(ProcessId, ProcessId, Letter<Option<u64>>)>,
    app_messages_left: u32,
    users: Vec<User>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct User {
    phase: Phase,
    entries_left: u32,
    /// The requests that have happened before now.
    known: Requests,
    /// The requests that happened before the process's own latest request, until the process leaves.
    before: Requests,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
    /// A process that never requests.
    Helper,
}

#[derive(Clone, Copy)]
struct Counter {
    order: LinkOrder,
    entries: u32,
    timers: u32,
    /// The budget of application messages, if ORDER is checked. Otherwise the model tracks no requests.
    app_messages: Option<u32>,
}

/// The result of the naive way.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The number of states. ORDER, if it was checked, holds in all of them.
    States(usize),
    /// A process enters, and a request that happened before its own still waits. A shortest run has `steps` steps.
    Overtaken { steps: usize },
}

impl<P: Mutex> Whole<P> {
    /// All states that `input` at a process can lead to. The stamp, if any, goes with an application message to `to`.
    fn step(&self, at: ProcessId, input: Input<P>, order: LinkOrder, to: Option<ProcessId>) -> Vec<Self> {
        let mut nexts = Vec::new();
        let mut script = Some(Vec::new());
        while let Some(branch) = script {
            let mut next = self.clone();
            let mut out = Outbox::new(Choices::scripted(branch));
            next.processes[at].step(input.clone(), &mut out);
            let mut stamp = None;
            for output in out.drain() {
                stamp = next.carry_out(at, output, order).or(stamp);
            }
            if let Some(to) = to {
                next.app.push((at, to, (stamp, next.users[at].known.clone())));
                next.app.sort();
            }
            nexts.push(next);
            script = Choices::next_branch(&out.choices().take_made());
        }
        nexts
    }

    fn carry_out(&mut self, at: ProcessId, output: Output<P>, order: LinkOrder) -> Option<u64> {
        match output {
            Output::Send { to, message } => {
                let link = self.links.entry((at, to)).or_default();
                link.push((message, self.users[at].known.clone()));
                if order == LinkOrder::Unordered {
                    link.sort();
                }
            }
            Output::SetTimer { timer, .. } => _ = self.timers[at].insert(timer),
            Output::CancelTimer(timer) => _ = self.timers[at].remove(&timer),
            Output::Event(_) => self.users[at].phase = Phase::Inside,
            Output::Stamp(stamp) => return Some(stamp),
        }
        None
    }

    fn nexts(&self, counter: Counter) -> Vec<Self> {
        let order = counter.order;
        let mut nexts = Vec::new();
        for at in 0..self.processes.len() {
            nexts.extend(self.acts(at, counter));
            for &timer in self.timers[at].iter().filter(|_| self.timers_left[at] > 0) {
                let mut next = self.clone();
                next.timers[at].remove(&timer);
                next.timers_left[at] -= 1;
                nexts.extend(next.step(at, Input::Timer(timer), order, None));
            }
        }
        for (&(from, to), link) in &self.links {
            let first = if order == LinkOrder::Fifo { 1 } else { link.len() };
            for index in 0..first {
                let mut next = self.clone();
                let (message, requests) = next.links.get_mut(&(from, to)).unwrap().remove(index);
                next.links.retain(|_, link| !link.is_empty());
                next.users[to].known.extend(requests);
                nexts.extend(next.step(to, Input::Message { from, message }, order, None));
            }
        }
        for index in 0..self.app.len() {
            let mut next = self.clone();
            let (_, to, (stamp, requests)) = next.app.remove(index);
            next.users[to].known.extend(requests);
            match stamp {
                Some(stamp) => nexts.extend(next.step(to, Input::AppReceive(stamp), order, None)),
                None => nexts.push(next),
            }
        }
        nexts
    }

    /// The possible acts of the user of a process.
    fn acts(&self, at: ProcessId, counter: Counter) -> Vec<Self> {
        let mut next = self.clone();
        let user = &mut next.users[at];
        let mut nexts = match user.phase {
            Phase::Idle if user.entries_left > 0 => {
                user.entries_left -= 1;
                user.phase = Phase::Waiting;
                if counter.app_messages.is_some() {
                    user.before.clone_from(&user.known);
                    user.known.insert((at, user.entries_left));
                }
                next.step(at, Input::Command(Command::Acquire), counter.order, None)
            }
            Phase::Inside => {
                user.phase = Phase::Idle;
                user.before.clear();
                next.step(at, Input::Command(Command::Release), counter.order, None)
            }
            _ => Vec::new(),
        };
        nexts.extend(self.app_sends(at, counter));
        nexts
    }

    /// Any client may send an application message to any other client.
    fn app_sends(&self, at: ProcessId, counter: Counter) -> Vec<Self> {
        let is_client = |process: &ProcessId| self.users[*process].phase != Phase::Helper;
        if self.app_messages_left == 0 || !is_client(&at) {
            return Vec::new();
        }
        let mut next = self.clone();
        next.app_messages_left -= 1;
        let others = (0..self.users.len()).filter(|to| *to != at && is_client(to));
        others.flat_map(|to| next.step(at, Input::AppSend, counter.order, Some(to))).collect()
    }

    /// Whether a process is in the critical section, and a request that happened before its own still waits.
    fn is_overtaking(&self) -> bool {
        let waiting =
            |(at, user): (ProcessId, &User)| (user.phase == Phase::Waiting).then_some((at, user.entries_left));
        let waiting: Requests = self.users.iter().enumerate().filter_map(waiting).collect();
        self.users.iter().any(|user| user.phase == Phase::Inside && !user.before.is_disjoint(&waiting))
    }
}

impl Visitor for Counter {
    type Output = Found;

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Found {
        let all = 0..group.processes;
        let user = |id| User {
            phase: if id < group.clients { Phase::Idle } else { Phase::Helper },
            entries_left: self.entries,
            known: Requests::new(),
            before: Requests::new(),
        };
        let mut start = Whole {
            processes: all.clone().map(|id| (group.make)(id)).collect(),
            timers: vec![BTreeSet::new(); group.processes],
            timers_left: vec![self.timers; group.processes],
            links: BTreeMap::new(),
            app: Vec::new(),
            app_messages_left: self.app_messages.unwrap_or(0),
            users: all.clone().map(user).collect(),
        };
        for at in all {
            start = start.step(at, Input::Start(Start::Fresh), self.order, None).remove(0);
        }
        let mut seen = HashSet::from([start.clone()]);
        let mut level = vec![start];
        for steps in 0.. {
            if level.iter().any(Whole::is_overtaking) {
                return Found::Overtaken { steps };
            }
            if level.is_empty() {
                break;
            }
            let nexts = level.iter().flat_map(|state| state.nexts(self));
            level = nexts.filter(|next| seen.insert(next.clone())).collect();
        }
        Found::States(seen.len())
    }
}

#[track_caller]
fn assert_same_count(algorithm: &str, params: &Params, order: LinkOrder, entries: u32, timers: u32) {
    let counter = Counter { order, entries, timers, app_messages: None };
    let counted = visit(algorithm, params, counter).unwrap();
    let properties = Some(vec![Property::Safety, Property::Deadlock]);
    let options = Options { order: Some(order), entries, timers, properties, ..Options::default() };
    let report = check(algorithm, params, &options).unwrap();
    assert_eq!(report.result, Verdict::Holds, "{algorithm}, {order}, n = {}", params.n);
    assert_eq!(Found::States(report.states), counted, "{algorithm}, {order}, n = {}", params.n);
}

#[test]
fn both_ways_of_counting_come_to_the_same() {
    for order in [LinkOrder::Fifo, LinkOrder::Unordered] {
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
            ("naimi-trehel", 3, 2),
        ] {
            assert_same_count(algorithm, &Params::new(n, 1), order, entries, 0);
        }
        let voters = |coordinators| Params { coordinators: Some(coordinators), ..Params::new(2, 1) };
        assert_same_count("voting", &voters(1), order, 2, 2);
        assert_same_count("voting", &voters(2), order, 1, 1);
    }
}

/// ORDER by vector clocks and by sets of requests: the same number of states if it holds, the same number of steps if
/// it fails.
#[test]
fn both_ways_of_knowing_what_happened_before_come_to_the_same() {
    let both = |algorithm, n, entries, app_messages, order| {
        let params = Params::new(n, 1);
        let counter = Counter { order, entries, timers: 0, app_messages: Some(app_messages) };
        let naive = visit(algorithm, &params, counter).unwrap();
        let (properties, app_messages) = (Some(vec![Property::Order]), Some(app_messages as u8));
        let (order, timers) = (Some(order), 0);
        let options = Options { order, entries, timers, properties, app_messages, ..Options::default() };
        let report = check(algorithm, &params, &options).unwrap();
        let found = report.steps.map_or(Found::States(report.states), |steps| Found::Overtaken { steps });
        assert_eq!(found, naive, "{algorithm}, n = {n}, {entries} entries, {app_messages:?} messages, {order:?}");
        assert!(report.result != Verdict::Limit && (report.result == Verdict::Holds) == report.complete);
        found
    };
    // Algorithms that keep ORDER.
    for (algorithm, n, entries, app_messages) in [
        ("ricart-agrawala", 2, 1, 1),
        ("ricart-agrawala", 2, 1, 2),
        ("ricart-agrawala", 2, 2, 1),
        ("lamport", 2, 1, 1),
        ("lamport", 2, 2, 1),
        ("lamport", 2, 1, 2),
        ("permission-ring", 2, 2, 1),
        ("permission-ring", 3, 1, 1),
    ] {
        let found = both(algorithm, n, entries, app_messages, LinkOrder::Fifo);
        assert!(matches!(found, Found::States(_)), "{algorithm} {found:?}");
        if algorithm != "lamport" {
            both(algorithm, n, entries, app_messages, LinkOrder::Unordered);
        }
    }
    // Algorithms that do not keep ORDER. Without an application message, no client can know of the request of another.
    for (algorithm, n) in
        [("central", 2), ("central", 3), ("maekawa", 3), ("suzuki-kasami", 3), ("naimi-trehel", 3), ("raymond", 3)]
    {
        for order in [LinkOrder::Fifo, LinkOrder::Unordered] {
            let found = both(algorithm, n, 1, 1, order);
            assert!(matches!(found, Found::Overtaken { .. }), "{algorithm} {found:?}");
        }
    }
    assert!(matches!(both("central", 3, 1, 0, LinkOrder::Unordered), Found::States(_)));
}
