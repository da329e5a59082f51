//! Starvation: can a client wait for ever in a fair run? In the model all clients request again and again. With crashes
//! they request a limited number of times, but even then a token may go round for ever, past a process that has
//! recovered.
//!
//! Fair means weakly fair. A message in flight arrives. A client in the critical section leaves. A timer that keeps
//! running fires, unless it is set again. A detector reports what it sees. But no client has to request again, and no
//! process has to recover.
//!
//! The search explores the states (in normal form if all clients request for ever) and keeps all steps between them.
//! For each client, it takes the states in which the client waits, and finds their strongly connected components. The
//! client can wait for ever in a component if every duty that is possible in all states of the component also happens
//! within it.
//!
//! The result is exact on FIFO links, and with crashes. Otherwise two messages of the same kind on the same link may
//! differ only in their counters, and the search cannot tell them apart. If one of them keeps arriving, the search
//! takes this as fair to both. So the search misses no starvation, but it may report a run that is unfair to one of
//! these messages.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use baton_protocol::mutex::{Command, Mutex};
use baton_protocol::{ProcessId, Protocol};
use indexmap::IndexSet;
use petgraph::Graph;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{EdgeIndex, NodeIndex};
use petgraph::visit::{EdgeRef, NodeFiltered};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::Property;
use crate::explore::{Bounds, End, Found, Model, Progress, STATES_MAX, Violation, expand, expand_each};
use crate::links::Links;
use crate::mutex::{MutexModel, MutexState};
use crate::network::LinkOrder;
use crate::packed::{Packed, Queue};
use crate::report::Reached;
use crate::seen::fingerprint;
use crate::system::{Action, Payload, Stimulus};

/// The most clients: each has a bit.
pub const WAITERS_MAX: usize = u64::BITS as usize;

/// The result of the search for starvation.
pub struct Starvation {
    /// Distinct states.
    pub states: usize,
    /// Steps between states.
    pub transitions: u64,
    /// Steps from the start to the furthest state.
    pub depth: usize,
    /// Components in which a run can stay for ever.
    pub components: usize,
    pub reached: Reached,
    pub end: End,
    /// If a client starves: the number of steps on the path before the cycle.
    pub prefix: Option<usize>,
}

/// A step that must happen if it stays possible.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Duty<P: Protocol> {
    Leave(u8),
    Fire(u8, P::Timer),
    /// The detector of the first process must report on the second, or correct a mistake about it.
    Report(u8, u8),
    /// The first message on a FIFO link must arrive.
    Link(u8, u8),
    /// A message with this content must arrive.
    Message(u8, u8, Payload<P::Message>),
}

/// The number of a duty. None for a step that is no duty.
type Label = Option<u32>;

/// The graph of states. A node has one bit for each client that waits in the state. An edge is a step, with the duty
/// that it does. A run that goes on for ever stays in a component. It is fair if it neglects no duty that is possible
/// in all states of the component.
struct Cycles<P: Mutex> {
    graph: Graph<u64, Label>,
    /// State numbers by fingerprint.
    numbers: FxHashMap<u64, u32>,
    links: Links,
    /// The states of the next level.
    next: Queue,
    duties: IndexSet<Duty<P>, FxBuildHasher>,
    /// A cache of the duties of messages, which are slow to compute.
    messages: FxHashMap<(u8, u8, u32), u32>,
    /// For steps that set a running timer again: the duties to fire that this removes.
    restarts: FxHashMap<EdgeIndex, Vec<u32>>,
    /// States with a lower number have been expanded.
    expanded: usize,
    /// After this many expanded states, the search looks for a victim.
    look_after: usize,
    /// A client that starves, and the states in which it does.
    victim: Option<(ProcessId, Vec<NodeIndex>)>,
    reached: Reached,
}

/// The first look for a victim. The next looks follow each time the number of states has doubled.
const LOOK_AFTER: usize = 100_000;

/// Explores the model, and looks for a client that waits for ever.
pub fn starve<P: Mutex>(model: &mut MutexModel<P>, bounds: &Bounds, watch: &dyn Fn(&Progress)) -> Starvation {
    let mut cycles = Cycles {
        graph: Graph::new(),
        numbers: FxHashMap::default(),
        links: Links::default(),
        next: Queue::default(),
        duties: IndexSet::default(),
        messages: FxHashMap::default(),
        restarts: FxHashMap::default(),
        expanded: 0,
        look_after: LOOK_AFTER,
        victim: None,
        reached: Reached::default(),
    };
    let (mut end, depth) = cycles.explore(model, bounds, watch);
    let all = kosaraju_scc(&cycles.graph);
    let components = all.iter().filter(|component| cycles.is_cycle(component)).count();
    let mut prefix = None;
    if !matches!(end, End::Violated { .. })
        && let Some((victim, component)) = cycles.victim.take().or_else(|| cycles.find_victim(model.system.clients))
    {
        let (path, before) = cycles.lasso(&component);
        let detail = format!("P{victim} waits for ever, while others enter again and again or messages go round");
        end = End::Violated { violation: Violation { property: Property::Liveness, detail }, path };
        prefix = Some(before);
    }
    let (states, transitions) = (cycles.graph.node_count(), cycles.graph.edge_count() as u64);
    Starvation { states, transitions, depth, components, reached: cycles.reached, end, prefix }
}

impl<P: Mutex> Cycles<P> {
    fn explore(&mut self, model: &mut MutexModel<P>, bounds: &Bounds, watch: &dyn Fn(&Progress)) -> (End, usize) {
        let started = Instant::now();
        let mut depth = 0;
        let start = expand(model, None);
        let mut end = self.take_in(model, None, start, bounds.limit);
        while end.is_none() && self.victim.is_none() && !self.next.is_empty() {
            for block in self.next.take() {
                let states: Vec<MutexState> = (0..block.len()).map(|number| block.unpack(number)).collect();
                let found = expand_each(model, &states, bounds.threads.max(1));
                end = states.iter().zip(found).find_map(|(state, found)| {
                    let end = self.take_in(model, Some(state), found, bounds.limit);
                    self.expanded += usize::from(end.is_none());
                    end
                });
                let (states, queue) = (self.links.len(), self.links.len() - self.expanded);
                watch(&Progress { states, depth, queue, seconds: started.elapsed().as_secs_f64() });
                let more = 2 * self.graph.capacity().1 * size_of::<(Label, [u32; 4])>();
                end = end.or_else(|| model.is_too_wide().then_some(End::TooWide));
                end = end.or_else(|| bounds.reached_now(started, more));
                if end.is_none() && self.expanded >= self.look_after {
                    self.look_after *= 2;
                    self.victim = self.find_victim(model.system.clients);
                }
                if end.is_some() || self.victim.is_some() {
                    break;
                }
            }
            depth += usize::from(!self.next.is_empty());
        }
        let end = end.unwrap_or(End::Complete);
        let depth = depth.max(end.steps().unwrap_or(0));
        (end, depth)
    }

    /// Takes in the successors of a state, which is the next in order of discovery. Without a state: of the start.
    fn take_in(
        &mut self,
        model: &MutexModel<P>,
        state: Option<&MutexState>,
        found: Found<MutexModel<P>>,
        limit: usize,
    ) -> Option<End> {
        self.reached.add(found.reached);
        let parent = state.map(|_| self.expanded as u32);
        for (nth, successor) in found.successors.into_iter().enumerate() {
            let next = match successor.next {
                Ok(next) => next,
                Err(mut violation) => {
                    // A client that waits in a deadlock waits for ever, too.
                    if violation.property == Property::Deadlock {
                        violation.property = Property::Liveness;
                    }
                    return Some(End::Violated { violation, path: self.links.path_to(parent, nth) });
                }
            };
            let mut packed = Packed::default();
            let bytes = packed.push(&next);
            let fresh = self.links.len() as u32;
            let number = *self.numbers.entry(fingerprint(bytes)).or_insert(fresh);
            if number == fresh {
                if self.links.len() == limit.min(STATES_MAX) {
                    return Some(End::Limit);
                }
                self.links.push(parent, nth as u32);
                self.graph.add_node(model.waiting(&next));
                self.next.push(bytes);
            }
            if let Some(parent) = parent {
                let label = self.label(model, state, &successor.action);
                let (from, to) = (NodeIndex::new(parent as usize), NodeIndex::new(number as usize));
                let edge = self.graph.add_edge(from, to, label);
                self.note_restarts(model, edge, &successor.action);
            }
        }
        None
    }

    /// The duty that a step does.
    fn label(&mut self, model: &MutexModel<P>, state: Option<&MutexState>, action: &Action<Command>) -> Label {
        let Action::Step { at, stimulus, .. } = *action else { return None };
        let duty = match stimulus {
            Stimulus::Act(Command::Release) => Duty::Leave(at),
            Stimulus::Timer(place) => {
                let local = model.system.local(state?.locals[usize::from(at)]);
                Duty::Fire(at, local.timers[usize::from(place)].0)
            }
            Stimulus::Suspect { peer, wrongly: false } | Stimulus::Trust { peer, .. } => Duty::Report(at, peer),
            Stimulus::Deliver { from, .. } if model.system.rules.order == LinkOrder::Fifo => Duty::Link(from, at),
            Stimulus::Deliver { from, payload } => {
                let key = (from, at, payload);
                if let Some(&known) = self.messages.get(&key) {
                    return Some(known);
                }
                let content = match model.normal {
                    true => model.system.gist(payload, from),
                    false => model.system.payload(payload).clone(),
                };
                let duty = Duty::Message(from, at, content);
                let number = self.duties.insert_full(duty).0 as u32;
                self.messages.insert(key, number);
                return Some(number);
            }
            _ => return None,
        };
        Some(self.duties.insert_full(duty).0 as u32)
    }

    fn note_restarts(&mut self, model: &MutexModel<P>, edge: EdgeIndex, action: &Action<Command>) {
        let Action::Step { at, outcome, .. } = *action else { return };
        let timers = &model.system.outcome(outcome).timers_set;
        if !timers.is_empty() {
            let duties = timers.iter().map(|&timer| self.duties.insert_full(Duty::Fire(at, timer)).0 as u32);
            self.restarts.insert(edge, duties.collect());
        }
    }

    /// The duties that a step does or removes.
    fn done(&self, edge: EdgeIndex) -> impl Iterator<Item = u32> {
        self.graph[edge].into_iter().chain(self.restarts.get(&edge).into_iter().flatten().copied())
    }

    fn is_cycle(&self, component: &[NodeIndex]) -> bool {
        component.len() > 1 || self.graph.contains_edge(component[0], component[0])
    }

    /// A client that can wait for ever, and the states in which it does.
    fn find_victim(&self, clients: usize) -> Option<(ProcessId, Vec<NodeIndex>)> {
        (0..clients).find_map(|client| {
            // The steps of a state are known only if it has been expanded.
            let waits = |node: NodeIndex| self.graph[node] >> client & 1 == 1 && node.index() < self.expanded;
            let components = kosaraju_scc(&NodeFiltered::from_fn(&self.graph, waits));
            let nearest = |component: &Vec<NodeIndex>| component.iter().map(|node| node.index()).min();
            let fair = components.into_iter().filter(|component| self.is_cycle(component) && self.is_fair(component));
            fair.min_by_key(nearest).map(|component| (client, component))
        })
    }

    /// Whether every duty that is possible in all of these states also happens between them.
    fn is_fair(&self, component: &[NodeIndex]) -> bool {
        self.neglected(component).is_empty()
    }

    /// The duties that are possible in all of these states and do not happen between them.
    fn neglected(&self, component: &[NodeIndex]) -> BTreeSet<u32> {
        let inside: BTreeSet<NodeIndex> = component.iter().copied().collect();
        let mut always = self.possible(component[0]);
        let mut happens = BTreeSet::new();
        for &node in component {
            let possible = self.possible(node);
            always.retain(|duty| possible.contains(duty));
            let within = self.graph.edges(node).filter(|edge| inside.contains(&edge.target()));
            happens.extend(within.flat_map(|edge| self.done(edge.id())));
        }
        &always - &happens
    }

    /// The duties that could be done next.
    fn possible(&self, node: NodeIndex) -> BTreeSet<u32> {
        self.graph.edges(node).filter_map(|edge| *edge.weight()).collect()
    }

    /// The path into a component followed by a fair cycle in it; and the length of the path before the cycle.
    fn lasso(&self, component: &[NodeIndex]) -> (Vec<usize>, usize) {
        let inside: BTreeSet<NodeIndex> = component.iter().copied().collect();
        let entry = *inside.first().expect("a component is not empty");
        let (mut at, mut cycle) = (entry, Vec::new());
        let mut pending = self.possible(entry);
        // Repeatedly goes to the nearest step that does a pending duty, or to the nearest state in which a pending duty
        // is impossible.
        while !pending.is_empty() {
            let way = self.way(&inside, at, |edge, to| {
                self.done(edge).any(|duty| pending.contains(&duty)) || !pending.is_subset(&self.possible(to))
            });
            for (nth, edge, to) in way {
                cycle.push(nth);
                self.done(edge).for_each(|duty| _ = pending.remove(&duty));
                let possible = self.possible(to);
                pending.retain(|duty| possible.contains(duty));
                at = to;
            }
        }
        if at != entry || cycle.is_empty() {
            cycle.extend(self.way(&inside, at, |_, to| to == entry).into_iter().map(|(nth, ..)| nth));
        }
        let (parent, nth) = self.links.get(entry.index() as u32);
        let mut path = self.links.path_to(parent, nth);
        let prefix = path.len();
        path.extend(cycle);
        (path, prefix)
    }

    /// The shortest path within `inside`, from a state, whose last step is `wanted`.
    fn way(
        &self,
        inside: &BTreeSet<NodeIndex>,
        from: NodeIndex,
        wanted: impl Fn(EdgeIndex, NodeIndex) -> bool,
    ) -> Vec<(usize, EdgeIndex, NodeIndex)> {
        let mut before: FxHashMap<NodeIndex, (NodeIndex, usize, EdgeIndex)> = FxHashMap::default();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            // petgraph lists the latest edge first. Reversed, the edges are in the order of the successors.
            let edges: Vec<_> = self.graph.edges(node).collect();
            for (nth, edge) in edges.into_iter().rev().enumerate().filter(|(_, edge)| inside.contains(&edge.target())) {
                let (edge, to) = (edge.id(), edge.target());
                if wanted(edge, to) {
                    let mut way = vec![(nth, edge, to)];
                    let mut at = node;
                    while at != from {
                        let (earlier, nth, edge) = before[&at];
                        way.push((nth, edge, at));
                        at = earlier;
                    }
                    way.reverse();
                    return way;
                }
                if to != from && !before.contains_key(&to) {
                    before.insert(to, (node, nth, edge));
                    queue.push_back(to);
                }
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::mutex::Event;
    use baton_protocol::registry::Crashes;
    use baton_protocol::{Group, Input, Outbox, Picture};
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::Faults;
    use crate::faults::Recovery;
    use crate::memory::Memory;
    use crate::mutex::Budget;

    /// P0 enters whenever it wants. P1 asks P0, and P0 lets P1 in when a timer fires.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Host {
        me: ProcessId,
        /// Whether P1 has asked P0.
        asked: bool,
        /// Whether P0 sets its timer again each time it enters.
        restarts: bool,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    enum Word {
        Ask,
        Come,
    }

    impl baton_protocol::Message for Word {
        fn kind(&self) -> &'static str {
            "WORD"
        }
    }

    impl Protocol for Host {
        type Message = Word;
        type Timer = ();
        type Command = Command;
        type Event = Event;

        fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
            match input {
                Input::Command(Command::Acquire) if self.me == 1 => out.send(0, Word::Ask),
                Input::Command(Command::Acquire) => {
                    if self.asked && self.restarts {
                        out.set_timer((), 1);
                    }
                    out.emit(Event::Granted { fence: 0 });
                }
                Input::Message { message: Word::Ask, .. } => {
                    self.asked = true;
                    out.set_timer((), 1);
                }
                Input::Timer(()) => {
                    self.asked = false;
                    out.send(1, Word::Come);
                }
                Input::Message { message: Word::Come, .. } => out.emit(Event::Granted { fence: 0 }),
                _ => {}
            }
        }

        fn view(&self) -> Picture {
            Picture::new().field("asked", self.asked)
        }
    }

    fn end_of(restarts: bool) -> End {
        let group = Group::new(2, 2, move |me| Host { me, asked: false, restarts });
        let budget = Budget {
            entries: None,
            app_messages: 0,
            timers: None,
            faults: Faults::NONE,
            crashes: Crashes::Never,
            recovery: Recovery::of(Crashes::Never, false, false),
        };
        let mut model = MutexModel::new(&group, LinkOrder::Unordered, budget, &[Property::Liveness]);
        let bounds = Bounds { limit: 1_000, memory: Memory::UNBOUNDED, time: None, threads: 1, stop: None };
        starve(&mut model, &bounds, &|_| {}).end
    }

    #[test]
    fn a_timer_fires_in_the_end_unless_it_is_set_again_and_again() {
        assert!(matches!(end_of(false), End::Complete), "{:?}", end_of(false));
        let End::Violated { violation, .. } = end_of(true) else { panic!("P1 does not starve") };
        assert_eq!(violation.property, Property::Liveness);
        assert!(violation.detail.starts_with("P1 waits for ever"), "{}", violation.detail);
    }
}
