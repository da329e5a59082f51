//! Breadth-first exploration of any [`Model`]. It finds a shortest path to a violation of a property.
//!
//! For each state seen, the search keeps 64 bits of fingerprint and a link to the predecessor. Whole states exist only
//! in the queue, packed. To find the path to a state, the search follows the links backwards and repeats the steps. So
//! expanding a state twice must give the same successors in the same order.
//!
//! The search works through the queue in blocks. All threads expand the states of a block. Then all threads look up the
//! fingerprints of the successors, each thread in its own part of the set. New states enter the queue in order of
//! discovery. So the states, their order and the counterexample are the same for any number of threads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::links::Links;
use crate::memory::{Memory, MemoryNow};
use crate::packed::{BLOCK, Packed, Queue};
use crate::report::Reached;
use crate::seen::{Seen, fingerprint};
use crate::system::BRANCHES_MAX;
use crate::{Property, Verdict};

pub trait Model: Sync {
    /// Equal states must serialize to equal bytes, different states to different bytes.
    type State: Serialize + DeserializeOwned + Send + Sync;
    /// A step from a state to the next.
    type Action: Send;
    /// Something that must be computed before a state can be expanded.
    type Gap: Send;

    /// Puts all possible steps from `state` into `found`; without a state, the start. If something is missing for that,
    /// `found` gets gaps, and its other contents do not count.
    fn expand(&self, state: Option<&Self::State>, found: &mut Found<Self>);

    /// Computes what is missing.
    fn learn(&mut self, gap: Self::Gap);

    /// Whether a step had more outcomes than the model looks at.
    fn is_too_wide(&self) -> bool {
        false
    }
}

/// The result of expanding a state.
pub struct Found<M: Model + ?Sized> {
    /// In a fixed order.
    pub successors: Vec<Successor<M>>,
    /// What the model must learn first.
    pub gaps: Vec<M::Gap>,
    pub reached: Reached,
}

impl<M: Model + ?Sized> Default for Found<M> {
    fn default() -> Self {
        Found { successors: Vec::new(), gaps: Vec::new(), reached: Reached::default() }
    }
}

/// A step and its result.
pub struct Successor<M: Model + ?Sized> {
    pub action: M::Action,
    /// The next state, or the property that the step violates.
    pub next: Result<M::State, Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub property: Property,
    pub detail: String,
}

/// The limits of an exploration.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The most states.
    pub limit: usize,
    /// The most memory.
    pub memory: Memory,
    /// The longest time. None: no limit.
    pub time: Option<Duration>,
    pub threads: usize,
    /// Set by the caller to stop the exploration. None: nothing stops it.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Bounds {
    /// The bound that ends an exploration after `elapsed`, if it is about to need `more` bytes.
    fn reached(&self, elapsed: Duration, now: MemoryNow, more: usize) -> Option<End> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Some(End::Stopped);
        }
        if self.time.is_some_and(|time| elapsed >= time) {
            return Some(End::Time);
        }
        if now.used.is_some_and(|used| self.memory.is_short(used, more)) {
            return Some(End::MemoryLimit);
        }
        now.is_machine_full(more).then_some(End::MachineFull)
    }

    /// Like `reached`, with the current time and memory.
    pub fn reached_now(&self, started: Instant, more: usize) -> Option<End> {
        self.reached(started.elapsed(), MemoryNow::look(), more)
    }

    /// Why a bound ended the exploration, in words. None if no bound ended it.
    pub fn why(&self, end: &End) -> Option<String> {
        match end {
            End::Complete | End::Violated { .. } => None,
            End::Limit => Some(format!("the limit of {} states is reached", self.limit.min(STATES_MAX))),
            End::MemoryLimit => {
                let bytes = self.memory.bytes_max() as f64;
                let (unit, name) = if bytes < GIB { (MIB, "MiB") } else { (GIB, "GiB") };
                Some(format!("the limit of {} {name} is reached", tenths(bytes / unit)))
            }
            End::TooWide => Some(format!("a step has more than {BRANCHES_MAX} outcomes")),
            End::Stopped => Some("the check was stopped".to_owned()),
            End::MachineFull => Some("the machine has almost no free memory left".to_owned()),
            End::Time => {
                let seconds = self.time.unwrap_or_default().as_secs_f64();
                let (number, unit) = if seconds < 60.0 { (seconds, "second") } else { (seconds / 60.0, "minute") };
                let (number, verb) = (tenths(number), if tenths(number) == 1.0 { " is" } else { "s are" });
                Some(format!("{number} {unit}{verb} over"))
            }
        }
    }
}

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: f64 = (1_u64 << 30) as f64;

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Distinct states.
    pub states: usize,
    /// Steps from the start.
    pub depth: usize,
    /// States that were seen and not expanded yet.
    pub queue: usize,
    /// Since the start of the exploration.
    pub seconds: f64,
}

/// The result of an exploration.
#[derive(Debug)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Steps between states, including steps to states already seen.
    pub transitions: u64,
    /// Steps from the start to the furthest state, or to the violation if that is further.
    pub depth: usize,
    pub reached: Reached,
    pub end: End,
}

#[derive(Debug)]
pub enum End {
    /// All states were seen, and no property is violated.
    Complete,
    Limit,
    MemoryLimit,
    /// The machine has almost no free memory left, although the limit of memory is not reached.
    MachineFull,
    /// A step had too many outcomes to look at all of them.
    TooWide,
    Time,
    /// The caller stopped the exploration.
    Stopped,
    Violated {
        violation: Violation,
        /// The path: the index of the successor to take, at the start and in each state from there on.
        path: Vec<usize>,
    },
}

impl End {
    pub fn verdict(&self) -> Verdict {
        match self {
            End::Complete => Verdict::Holds,
            End::Limit | End::MemoryLimit | End::MachineFull | End::TooWide | End::Time | End::Stopped => {
                Verdict::Limit
            }
            End::Violated { .. } => Verdict::Violated,
        }
    }

    /// Number of steps to the violation. The first successor on the path is the start, which is no step.
    pub fn steps(&self) -> Option<usize> {
        match self {
            End::Violated { path, .. } => Some(path.len() - 1),
            _ => None,
        }
    }
}

/// States are numbered by a `u32`.
pub const STATES_MAX: usize = u32::MAX as usize;

/// With fewer states than this, a second thread does not pay.
const BLOCK_TO_SHARE: usize = 1 << 9;

/// Expands `state`, and lets the model learn everything that is missing for that.
pub fn expand<M: Model>(model: &mut M, state: Option<&M::State>) -> Found<M> {
    loop {
        let mut found = Found::default();
        model.expand(state, &mut found);
        if found.gaps.is_empty() {
            return found;
        }
        found.gaps.into_iter().for_each(|gap| model.learn(gap));
    }
}

/// Explores `model` until all states are seen, a property is violated or a bound is reached.
///
/// A violation is noticed on the step that leads to it, and states are expanded in order of their distance from the
/// start. So the first violation found is one of the nearest.
pub fn explore<M: Model>(model: &mut M, bounds: &Bounds, watch: &dyn Fn(&Progress)) -> Explored {
    let started = Instant::now();
    let threads = bounds.threads.max(1);
    let mut search = Search {
        limit: bounds.limit.min(STATES_MAX),
        seen: Seen::new(threads),
        links: Links::default(),
        next: Queue::default(),
        transitions: 0,
        reached: Reached::default(),
    };
    let start = Expansion::of(expand(model, None));
    let mut end = search.take_in(start, None, 1);
    end = end.or_else(|| model.is_too_wide().then_some(End::TooWide));
    search.transitions = 0;

    let (mut depth, mut first) = (0, 0);
    while end.is_none() && !search.next.is_empty() {
        'level: for block in search.next.take() {
            let mut begin = 0;
            while begin < block.len() {
                let part = begin..block.len().min(begin + search.expand_at_once(first));
                (first, begin) = (first + part.len() as u32, part.end);
                let threads = if part.len() < BLOCK_TO_SHARE { 1 } else { threads };
                let parent = first - part.len() as u32;
                let found = expand_all(model, &block, part, threads);
                end = search.take_in(found, Some(parent), threads);
                let (states, queue) = (search.links.len(), search.links.len().saturating_sub(first as usize));
                watch(&Progress { states, depth, queue, seconds: started.elapsed().as_secs_f64() });
                end = end.or_else(|| model.is_too_wide().then_some(End::TooWide));
                end = end.or_else(|| bounds.reached_now(started, search.seen.growth(BLOCK)));
                if end.is_some() {
                    break 'level;
                }
            }
        }
        depth += usize::from(!search.next.is_empty());
    }
    let end = end.unwrap_or(End::Complete);
    Explored {
        states: search.links.len(),
        transitions: search.transitions,
        depth: depth.max(end.steps().unwrap_or(0)),
        reached: search.reached,
        end,
    }
}

/// The successors of some states, in order.
#[derive(Default)]
struct Expansion {
    /// The successors of all these states, and their fingerprints.
    states: Packed,
    fingerprints: Vec<u64>,
    /// For each expanded state, where its successors end.
    ends: Vec<u32>,
    /// The first violation, and its place among the successors.
    violation: Option<(usize, Violation)>,
    reached: Reached,
}

impl Expansion {
    fn of<M: Model>(mut found: Found<M>) -> Self {
        let mut expansion = Self::default();
        expansion.add(&mut found);
        expansion
    }

    /// Adds the successors of one more state.
    fn add<M: Model>(&mut self, found: &mut Found<M>) {
        self.reached.add(found.reached);
        for successor in found.successors.drain(..) {
            match successor.next {
                Ok(next) => self.fingerprints.push(fingerprint(self.states.push(&next))),
                Err(violation) => {
                    self.violation.get_or_insert((self.states.len(), violation));
                    self.fingerprints.push(0);
                    self.states.push_packed(&[]);
                }
            }
        }
        self.ends.push(self.states.len() as u32);
    }

    /// Adds the successors of more states.
    fn append(&mut self, mut more: Expansion) {
        let before = self.states.len();
        if self.violation.is_none() {
            self.violation = more.violation.map(|(place, violation)| (before + place, violation));
        }
        self.ends.extend(more.ends.iter().map(|end| before as u32 + end));
        self.states.append(&more.states);
        self.fingerprints.append(&mut more.fingerprints);
        self.reached.add(more.reached);
    }
}

/// Expands some states of a block. Each thread expands a part of them.
fn expand_all<M: Model>(model: &mut M, block: &Packed, states: Range<usize>, threads: usize) -> Expansion {
    let size = states.len().div_ceil(threads).max(1);
    let begins = states.clone().step_by(size);
    let mut parts: Vec<Partial<M>> =
        begins.map(|begin| Partial::new(block, begin..states.end.min(begin + size))).collect();
    loop {
        let shared: &M = model;
        in_parallel(parts.iter_mut(), |partial| partial.go_on(shared));
        let mut gaps = parts.iter_mut().flat_map(|partial| partial.gaps.drain(..)).peekable();
        if gaps.peek().is_none() {
            break;
        }
        gaps.for_each(|gap| model.learn(gap));
    }
    let mut runs = parts.into_iter().flat_map(|partial| partial.runs);
    let mut whole = runs.next().unwrap_or_default();
    runs.for_each(|run| whole.append(run));
    whole
}

/// Like `expand_all`, but returns the results of each state unpacked.
pub fn expand_each<M: Model>(model: &mut M, block: &[M::State], threads: usize) -> Vec<Found<M>> {
    let mut all: Vec<Found<M>> = block.iter().map(|_| Found::default()).collect();
    let mut ahead: Vec<(&M::State, &mut Found<M>)> = block.iter().zip(&mut all).collect();
    while !ahead.is_empty() {
        let threads = if ahead.len() < BLOCK_TO_SHARE { 1 } else { threads };
        let (shared, size): (&M, usize) = (model, ahead.len().div_ceil(threads));
        in_parallel(ahead.chunks_mut(size), |part| {
            part.iter_mut().for_each(|(state, found)| shared.expand(Some(state), found));
        });
        ahead.retain(|(_, found)| !found.gaps.is_empty());
        for (_, found) in &mut ahead {
            std::mem::take(*found).gaps.into_iter().for_each(|gap| model.learn(gap));
        }
    }
    all
}

/// The part of a block that one thread expands.
struct Partial<'b, M: Model> {
    block: &'b Packed,
    /// The states that the thread has not tried yet.
    ahead: Range<usize>,
    /// The results, in the order of the states.
    runs: Vec<Expansion>,
    /// Pairs (run, state): a state that could not be expanded yet, and the empty run for its results.
    postponed: Vec<(usize, usize)>,
    gaps: Vec<M::Gap>,
}

impl<'b, M: Model> Partial<'b, M> {
    fn new(block: &'b Packed, ahead: Range<usize>) -> Self {
        Partial { block, ahead, runs: Vec::new(), postponed: Vec::new(), gaps: Vec::new() }
    }

    /// Expands all states that can be expanded now. The others are postponed until the model has learnt more.
    fn go_on(&mut self, model: &M) {
        let mut found = Found::default();
        for (run, state) in std::mem::take(&mut self.postponed) {
            self.try_expand(model, state, run, &mut found);
        }
        let mut run = None;
        for state in std::mem::take(&mut self.ahead) {
            let current = run.unwrap_or_else(|| self.begin_run());
            let expanded = self.try_expand(model, state, current, &mut found);
            // A run for a postponed state must hold nothing else.
            run = expanded.then_some(current);
        }
    }

    fn begin_run(&mut self) -> usize {
        self.runs.push(Expansion::default());
        self.runs.len() - 1
    }

    fn try_expand(&mut self, model: &M, state: usize, run: usize, found: &mut Found<M>) -> bool {
        model.expand(Some(&self.block.unpack(state)), found);
        let expanded = found.gaps.is_empty();
        if expanded {
            self.runs[run].add(found);
        } else {
            let run = if self.runs[run].ends.is_empty() { run } else { self.begin_run() };
            self.postponed.push((run, state));
            self.gaps.append(&mut found.gaps);
        }
        found.successors.clear();
        found.reached = Reached::default();
        expanded
    }
}

/// Runs `work` for each item on its own thread. A single item runs on this thread.
fn in_parallel<T: Send>(mut items: impl ExactSizeIterator<Item = T>, work: impl Fn(T) + Sync) {
    if items.len() == 1 {
        return items.by_ref().for_each(work);
    }
    let work = &work;
    thread::scope(|scope| {
        for item in items {
            scope.spawn(move || work(item));
        }
    });
}

struct Search {
    limit: usize,
    seen: Seen,
    links: Links,
    /// The states of the next level.
    next: Queue,
    transitions: u64,
    reached: Reached,
}

/// The approximate number of successors that are in memory at once.
const SUCCESSORS_MAX: u64 = 1 << 18;

impl Search {
    /// How many states to expand at once, after `expanded` states: few if states have many successors.
    fn expand_at_once(&self, expanded: u32) -> usize {
        let average = self.transitions / u64::from(expanded.max(1));
        (SUCCESSORS_MAX / (average + 1)).max(1) as usize
    }

    /// Takes in the successors of states numbered from `parent` on. Without a parent: of the start.
    fn take_in(&mut self, mut found: Expansion, mut parent: Option<u32>, threads: usize) -> Option<End> {
        self.reached.add(found.reached);
        let valid = found.violation.as_ref().map_or(found.states.len(), |(place, _)| *place);
        let mut fresh = self.seen.insert_all(&found.fingerprints[..valid], threads).into_iter().peekable();
        let mut begin = 0;
        for &end in &found.ends {
            while let Some(place) = fresh.next_if(|&place| place < end) {
                if self.links.len() == self.limit {
                    return Some(End::Limit);
                }
                self.links.push(parent, place - begin);
                self.next.push(found.states.get(place as usize));
            }
            self.transitions += u64::from(end - begin);
            if let Some((_, violation)) = found.violation.take_if(|(place, _)| *place < end as usize) {
                let path = self.links.path_to(parent, valid - begin as usize);
                return Some(End::Violated { violation, path });
            }
            begin = end;
            parent = parent.map(|parent| parent + 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters that go up to a bound, one at a time. Their sum must not reach `forbidden`.
    struct Counters {
        bound: u32,
        forbidden: u32,
        /// The model must learn each value before the next one.
        known: u32,
    }

    impl Counters {
        fn new(bound: u32, forbidden: u32) -> Self {
            Counters { bound, forbidden, known: 0 }
        }

        fn explore(&mut self, limit: usize, threads: usize) -> Explored {
            explore(self, &Bounds { limit, memory: Memory::UNBOUNDED, time: None, threads, stop: None }, &|_| {})
        }
    }

    impl Model for Counters {
        type State = (u32, u32);
        type Action = ();
        type Gap = u32;

        fn expand(&self, state: Option<&(u32, u32)>, found: &mut Found<Self>) {
            let nexts = match state {
                None => vec![(0, 0)],
                Some(&(a, b)) => vec![(a + 1, b), (a, b + 1), (0, 0)],
            };
            for next in nexts.into_iter().filter(|next| next.0 <= self.bound && next.1 <= self.bound) {
                if next.0.max(next.1) > self.known {
                    found.gaps.push(next.0.max(next.1));
                }
                let violation = Violation { property: Property::Safety, detail: String::new() };
                let next = if next.0 + next.1 == self.forbidden { Err(violation) } else { Ok(next) };
                found.successors.push(Successor { action: (), next });
            }
        }

        fn learn(&mut self, gap: u32) {
            self.known = self.known.max(gap);
        }
    }

    #[test]
    fn every_state_is_seen_once() {
        let explored = Counters::new(9, 99).explore(usize::MAX, 1);
        assert!(matches!(explored.end, End::Complete));
        // 90 steps to the right, 90 up, 100 back to the start. The far corner is 18 steps away.
        assert_eq!((explored.states, explored.transitions, explored.depth), (100, 280, 18));
    }

    #[test]
    fn threads_change_nothing() {
        // Up to 700 states in a level, which is enough to use several threads.
        for (forbidden, limit) in [(9_999, usize::MAX), (1_000, usize::MAX), (9_999, 300_000)] {
            let [one, three] = [1, 3].map(|threads| Counters::new(700, forbidden).explore(limit, threads));
            assert_eq!(format!("{one:?}"), format!("{three:?}"));
            assert!(one.states > 299_999);
        }
    }

    #[test]
    fn the_path_is_a_shortest_one_and_can_be_repeated() {
        let mut model = Counters::new(9, 7);
        let explored = model.explore(usize::MAX, 1);
        assert_eq!((explored.end.steps(), explored.depth), (Some(7), 7));
        let End::Violated { path, .. } = explored.end else { panic!("not found") };
        let mut state = None;
        for (step, &nth) in path.iter().enumerate() {
            let next = expand(&mut model, state.as_ref()).successors.swap_remove(nth).next;
            assert_eq!(next.is_err(), step == 7);
            state = next.ok();
        }
    }

    #[test]
    fn a_limit_is_no_verdict() {
        let explored = Counters::new(9, 99).explore(50, 1);
        assert!(matches!(explored.end, End::Limit));
        assert_eq!(explored.states, 50);
        assert!(matches!(Counters::new(9, 99).explore(100, 1).end, End::Complete));
    }

    const NO_BOUND: Bounds =
        Bounds { limit: usize::MAX, memory: Memory::UNBOUNDED, time: None, threads: 1, stop: None };

    #[test]
    fn no_memory_and_no_time_are_no_verdict() {
        let explore = |bounds: &Bounds| explore(&mut Counters::new(9, 99), bounds, &|_| {}).end;
        assert!(matches!(explore(&Bounds { memory: Memory::at_most(1), ..NO_BOUND }), End::MemoryLimit));
        assert!(matches!(explore(&Bounds { time: Some(Duration::ZERO), ..NO_BOUND }), End::Time));
    }

    #[test]
    fn a_bound_is_reached_when_it_is_reached_and_says_which() {
        let minute = Duration::from_secs(60);
        let bounds = Bounds { memory: Memory::at_most(3 << 30), time: Some(10 * minute), ..NO_BOUND };
        let now = |used, free| MemoryNow { used, free };
        let told = |end: Option<End>| end.and_then(|end| bounds.why(&end));
        let reached = |elapsed, used, more| told(bounds.reached(elapsed, now(used, None), more));
        assert_eq!(reached(9 * minute, Some(2 << 30), 1 << 30), None);
        assert_eq!(reached(10 * minute, Some(1), 1).as_deref(), Some("10 minutes are over"));
        assert_eq!(reached(minute, Some(2 << 30), (1 << 30) + 1).as_deref(), Some("the limit of 3 GiB is reached"));
        assert_eq!(reached(minute, None, usize::MAX), None);
        assert!(NO_BOUND.reached(1_000 * minute, now(Some(usize::MAX), None), usize::MAX).is_none());
        let full = NO_BOUND.reached(minute, now(Some(1 << 30), Some(1)), 1_000);
        assert_eq!(told(full).as_deref(), Some("the machine has almost no free memory left"));
        let limited = Bounds { limit: 7, time: Some(minute), ..NO_BOUND };
        assert_eq!(limited.why(&End::Limit).as_deref(), Some("the limit of 7 states is reached"));
        assert_eq!(limited.why(&End::Time).as_deref(), Some("1 minute is over"));
    }
}
