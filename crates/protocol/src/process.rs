//! The process model: the trait [`Protocol`], its inputs and its outputs.
//!
//! What three drivers taught this trait:
//!
//! - **Four associated types**: messages, timers, commands, events. Commands and events belong to a *family* (mutual
//!   exclusion, election). The generic part of a driver (world, explorer, link) knows only `Protocol`; each family
//!   adds one small part (users, model, handle). So the compiler refuses an election command for a mutual exclusion
//!   algorithm.
//! - **`step(&mut self, input, &mut out)`** reuses `out`: no boxing and no allocation per message. Every driver is
//!   monomorphic through `registry::visit` and a `Visitor`.
//! - **A protocol asks for randomness**: `out.choose(k)` answers at once. `sim` takes the answer from the seed and
//!   `peer` from the system. `check` tries every answer: it repeats the step with the next script. Choices are
//!   recorded, so that a trace can be replayed. A random duration is a range given to `set_timer_within`.
//! - **No `now`.** Durations are `Ticks` and come from the group's parameters, so that discrete time works too.
//! - **No process sends a message to itself**: it handles such a message inside the step. Messages are `Ord`, so that
//!   the checker can keep them in a canonical bag.
//! - **Application messages carry the algorithm's own clock** (`AppSend` -> `stamp`, `AppReceive`), because ORDER
//!   cannot be tested without them. A protocol without a clock gives no stamp, and the messages of its users then
//!   carry none.
//! - **Recovery**: with memory, the process keeps its state. Without memory, the driver makes a new process, which
//!   keeps only its stable storage (`forget`). Both get `Start::Recovered`, and messages on their way to or from the
//!   process are lost. The driver gives no command before the process `is_ready`.
//! - **`view()` shows a process as data** (`Picture`): fields, pointers, sets, queues, the token. The algorithm's own
//!   file makes it, in the words of the paper. So a program can draw trees, quorums and tokens without knowing the
//!   algorithm. Steps never depend on it.
//! - **The driver cancels and queues local callers**, and it handles message ids, incarnations and group names.
//! - **A fence is one u64.** If an algorithm orders requests by a pair (number, id), the fence is number x 2^16 + id.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;
use core::ops::RangeInclusive;

use serde::{Serialize, de::DeserializeOwned};

use crate::Picture;
use crate::clock::Stamp;

/// Clients are numbered from 0; helpers (coordinators, voters, stores) follow.
pub type ProcessId = usize;

/// The driver's unit of time: a millionth of a message delay T in the simulator, a microsecond over sockets, one
/// discrete tick in the checker.
pub type Ticks = u64;

/// One process of a distributed algorithm, as a value with a step function.
///
/// # How to drive it
///
/// 1. Make the processes of a [`Group`](crate::Group). The first input of each process is [`Input::Start`].
/// 2. For each thing that happens at a process, call [`step`](Protocol::step) with it. Then carry out the outputs in
///    the [`Outbox`], in their order, before the next step. The outbox is reused from step to step.
/// 3. Give a message to its receiver as [`Input::Message`]. The receiver is never the sender: a process handles its
///    messages to itself inside the step. Give a timer back once, as [`Input::Timer`], unless the process cancels it or
///    sets it again.
///
/// # What a protocol must not do
///
/// A protocol has no clock, no randomness of its own, no I/O and no threads, and it never iterates in random order.
/// Equal states that get equal inputs (and equal [choices](Outbox::choose)) give equal states and equal outputs. So a
/// simulator, an exhaustive checker and real sockets can drive the same protocol, and the protocol never knows which
/// driver runs it. A protocol must also survive any message from a member of the group without a panic: late, repeated
/// or out of place.
pub trait Protocol: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    type Message: Message;
    /// [`Infallible`](core::convert::Infallible) if the protocol has no timers.
    type Timer: Copy + Eq + Ord + Hash + Debug + Send + Sync;
    /// From the user to the protocol.
    type Command: Clone + Eq + Debug + Send + Sync;
    /// From the protocol to the user.
    type Event: Clone + Eq + Debug + Send + Sync;

    /// Handles one input and puts the outputs into `out`.
    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>);

    /// The picture of this process for a drawing, in the words of the algorithm's paper. Steps never call it.
    fn view(&self) -> Picture;

    /// Forgets everything except what is on stable storage; most protocols store nothing. `fresh` is this process newly
    /// made. Drivers call this when a process recovers without memory, before [`Start::Recovered`].
    fn forget(&mut self, fresh: Self) {
        *self = fresh;
    }

    /// Whether the process takes commands. A recovered process may first have to learn the clocks or requests of the
    /// others. Drivers hold commands back until it is ready, so a request counts from then on.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether [`broken_invariant`](Protocol::broken_invariant) looks at anything.
    const HAS_INVARIANT: bool = false;

    /// What is wrong if the live processes of a group break an invariant of the algorithm. Drivers call it after each step,
    /// as an oracle. Steps never call it.
    fn broken_invariant(live: &[(ProcessId, &Self)]) -> Option<String> {
        let _ = live;
        None
    }

    /// Shows every counter of this state that grows without bound; see [`Counter`]. Drivers call it, to tell whether
    /// two states are equal but for the counting. Steps never call it.
    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let _ = visit;
    }
}

/// A family of counters that grow without bound. Drivers that compare states, such as the checker, subtract the
/// smallest member of a family from all its members. Then states that differ only in how far they have counted are
/// equal, and a group that runs for ever has finitely many states.
///
/// A protocol may only compare the members of [`Clock`](Counter::Clock) and [`Number`](Counter::Number), and add 1:
/// subtracting the same value from all of them, in all processes and all messages on their way, must change nothing
/// else. A protocol must show each counter in every state in which the counter exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Lamport times of the whole group.
    Clock,
    /// The request numbers of one process. A coordinator's grant numbers, or the grant numbers of one epoch, also count
    /// as such a family.
    Number(ProcessId),
    /// Fences. No step depends on the value of a fence.
    Fence,
}

/// A message of a protocol. It is `Ord`, so that a checker can keep the messages on their way in one canonical order.
pub trait Message: Clone + Eq + Ord + Hash + Debug + Serialize + DeserializeOwned + Send + Sync {
    /// The name of the message in the paper, such as `"REQUEST"`. Drivers count messages by kind.
    fn kind(&self) -> &'static str;

    /// The stamp of the request that the message is about, for protocols whose messages each name one request.
    fn request(&self, from: ProcessId, to: ProcessId) -> Option<Stamp> {
        let _ = (from, to);
        None
    }

    /// Shows every counter of this message, sent by `from`, that grows without bound; see [`Counter`].
    fn counters(&mut self, from: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let _ = (from, visit);
    }
}

/// Everything that can happen to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P: Protocol> {
    /// The process begins to run. Always its first input, and the first after a crash.
    Start(Start),
    Command(P::Command),
    Message {
        from: ProcessId,
        message: P::Message,
    },
    Timer(P::Timer),
    /// From now on the failure detector of this process believes that the named process has crashed.
    Suspect(ProcessId),
    /// From now on the failure detector of this process believes that the named process is alive.
    Trust(ProcessId),
    /// The application is about to send a message of its own. The protocol answers with [`Outbox::stamp`], if it has a
    /// clock.
    AppSend,
    /// An application message has arrived with this stamp.
    AppReceive(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// The first start, together with the group.
    Fresh,
    /// The start after a crash, with the full state or with what [`Protocol::forget`] keeps. The timers of the process
    /// are lost, and so are the messages that were on their way to it or from it. Its failure detector starts again: it
    /// suspects no process until it reports one.
    Recovered,
}

/// An action that the driver carries out for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P: Protocol> {
    Send {
        /// Never the sender itself.
        to: ProcessId,
        message: P::Message,
    },
    /// Starts a timer, and replaces a running timer of the same name. The driver picks the duration.
    SetTimer {
        timer: P::Timer,
        /// A single value, or a range if the duration must be random.
        after: RangeInclusive<Ticks>,
    },
    /// Stops the timer, if it runs.
    CancelTimer(P::Timer),
    Event(P::Event),
    /// The clock for the application message of [`Input::AppSend`].
    Stamp(u64),
}

/// Collects the outputs of a step, and answers its [choices](Outbox::choose).
#[derive(Clone, Debug)]
pub struct Outbox<P: Protocol> {
    outputs: Vec<Output<P>>,
    choices: Choices,
}

impl<P: Protocol> Outbox<P> {
    pub fn new(choices: Choices) -> Self {
        Outbox { outputs: Vec::new(), choices }
    }

    pub fn send(&mut self, to: ProcessId, message: P::Message) {
        self.outputs.push(Output::Send { to, message });
    }

    pub fn multicast(&mut self, to: impl IntoIterator<Item = ProcessId>, message: P::Message) {
        self.outputs.extend(to.into_iter().map(|to| Output::Send { to, message: message.clone() }));
    }

    /// The timer runs out after exactly `after`.
    pub fn set_timer(&mut self, timer: P::Timer, after: Ticks) {
        self.set_timer_within(timer, after..=after);
    }

    /// The timer runs out after a random time within `after`.
    pub fn set_timer_within(&mut self, timer: P::Timer, after: RangeInclusive<Ticks>) {
        self.outputs.push(Output::SetTimer { timer, after });
    }

    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.outputs.push(Output::CancelTimer(timer));
    }

    /// Sends an event to the user of this process.
    pub fn emit(&mut self, event: P::Event) {
        self.outputs.push(Output::Event(event));
    }

    /// Answers [`Input::AppSend`].
    pub fn stamp(&mut self, clock: u64) {
        self.outputs.push(Output::Stamp(clock));
    }

    /// A random number in `0..of`. The simulator takes it from the seed, the checker tries every number, and over
    /// sockets it comes from the system.
    pub fn choose(&mut self, of: usize) -> usize {
        self.choices.choose(of)
    }

    /// Steps a protocol that runs inside this one. Both take their choices from the same source. The caller carries out
    /// the returned outputs, or passes them on with [`map`](Outbox::map).
    pub fn step_inside<Q: Protocol>(&mut self, inside: &mut Q, input: Input<Q>) -> Vec<Output<Q>> {
        let choices = core::mem::replace(&mut self.choices, Choices::scripted(Vec::new()));
        let mut out = Outbox { outputs: Vec::new(), choices };
        inside.step(input, &mut out);
        self.choices = out.choices;
        out.outputs
    }

    /// Passes on an output of a protocol that runs inside this one. `message` and `timer` translate what it sends and sets.
    /// Returns the output if it is an event, because the outer protocol decides what its own user hears.
    pub fn map<Q: Protocol>(
        &mut self,
        output: Output<Q>,
        message: impl FnOnce(Q::Message) -> P::Message,
        timer: impl FnOnce(Q::Timer) -> P::Timer,
    ) -> Option<Q::Event> {
        match output {
            Output::Send { to, message: sent } => self.send(to, message(sent)),
            Output::SetTimer { timer: set, after } => self.set_timer_within(timer(set), after),
            Output::CancelTimer(cancelled) => self.cancel_timer(timer(cancelled)),
            Output::Event(event) => return Some(event),
            Output::Stamp(clock) => self.stamp(clock),
        }
        None
    }

    /// Takes out all outputs, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Output<P>> {
        self.outputs.drain(..)
    }

    /// The driver's side of [`choose`](Outbox::choose).
    pub fn choices(&mut self) -> &mut Choices {
        &mut self.choices
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Number of alternatives.
    pub of: usize,
    /// In `0..of`.
    pub chosen: usize,
}

/// Answers the choices of steps: first from a script, then from a seed. `Choices` records every answer. So a driver can
/// repeat a run from the record, and a checker can visit every branch with [`next_branch`](Choices::next_branch).
#[derive(Clone, Debug)]
pub struct Choices {
    seed: Option<u64>,
    script: Vec<usize>,
    /// Entries of `script` used so far.
    scripted: usize,
    made: Vec<Choice>,
}

impl Choices {
    pub fn seeded(seed: u64) -> Self {
        Choices { seed: Some(seed), script: Vec::new(), scripted: 0, made: Vec::new() }
    }

    /// The choices of a script, and 0 after its end. A choice that is too large counts as the largest valid one.
    pub fn scripted(script: Vec<usize>) -> Self {
        Choices { seed: None, script, scripted: 0, made: Vec::new() }
    }

    /// The choices since the last call.
    pub fn take_made(&mut self) -> Vec<Choice> {
        core::mem::take(&mut self.made)
    }

    /// The script for the branch after the one that `made` these choices; none after the last branch.
    pub fn next_branch(made: &[Choice]) -> Option<Vec<usize>> {
        let last = made.iter().rposition(|choice| choice.chosen + 1 < choice.of)?;
        let mut script: Vec<usize> = made[..=last].iter().map(|choice| choice.chosen).collect();
        script[last] += 1;
        Some(script)
    }

    fn choose(&mut self, of: usize) -> usize {
        assert!(of > 0, "a choice among none");
        let scripted = self.script.get(self.scripted).copied();
        self.scripted += usize::from(scripted.is_some());
        let chosen = match (scripted, &mut self.seed) {
            (Some(chosen), _) => chosen.min(of - 1),
            (None, Some(seed)) => (split_mix_64(seed) % of as u64) as usize,
            (None, None) => 0,
        };
        self.made.push(Choice { of, chosen });
        chosen
    }
}

/// Steele, Lea and Flood's generator (2014): a pure function of the driver's seed, so that equal seeds give equal runs.
fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn branches_cover_every_combination_once() {
        let mut script = vec![];
        let mut seen = vec![];
        loop {
            let mut choices = Choices::scripted(script);
            let first = choices.choose(2);
            // The number of alternatives may depend on earlier choices.
            let second = choices.choose(first + 2);
            seen.push((first, second));
            match Choices::next_branch(&choices.take_made()) {
                Some(next) => script = next,
                None => break,
            }
        }
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn equal_seeds_choose_alike() {
        let (mut a, mut b) = (Choices::seeded(7), Choices::seeded(7));
        let drawn: Vec<usize> = (0..100).map(|_| a.choose(10)).collect();
        assert!(drawn.iter().all(|&chosen| chosen == b.choose(10)));
        assert!((0..10).all(|value| drawn.contains(&value)));
    }
}
