//! The process model: what a protocol is, what goes into it and what comes out.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;
use core::ops::RangeInclusive;

use serde::{Serialize, de::DeserializeOwned};

use crate::Picture;
use crate::clock::Stamp;

/// A process of the group: clients are numbered from 0, helpers (coordinators, voters, stores) follow.
pub type ProcessId = usize;

/// Time as the driver counts it: a millionth of a message delay T in the simulator, a microsecond over sockets,
/// one discrete tick in the checker.
pub type Ticks = u64;

/// One process of a distributed algorithm, as a value with a step function.
///
/// # How to drive it
///
/// 1. Make the processes of a [`Group`](crate::Group), and give each of them [`Input::Start`] first.
/// 2. Whenever something happens at a process, call [`step`](Protocol::step) with it. Carry out what has gathered in
///    the [`Outbox`], in that order, before the next step; the outbox is reused from step to step.
/// 3. A message goes to its receiver as [`Input::Message`], never to its own sender: what a process has to tell itself
///    it handles inside the step. A timer comes back once, as [`Input::Timer`], unless it is cancelled or set again.
///
/// # What a protocol must not do
///
/// It has no clock, no randomness of its own, no I/O and no threads, and it iterates over nothing in random order.
/// Equal states that get equal inputs (and equal [choices](Outbox::choose)) give equal states and equal outputs:
/// that is why a simulator, an exhaustive checker and real sockets can all drive it, and it never knows which does.
/// It must also survive any message from a member of the group, late, repeated or out of place, without a panic.
pub trait Protocol: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// What processes send each other.
    type Message: Message;
    /// The names of its timers; [`Infallible`](core::convert::Infallible) if it has none.
    type Timer: Copy + Eq + Ord + Hash + Debug + Send + Sync;
    /// What its user may ask for.
    type Command: Clone + Eq + Debug + Send + Sync;
    /// What it tells its user.
    type Event: Clone + Eq + Debug + Send + Sync;

    /// Handles one input. Everything that follows from it goes into `out`.
    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>);

    /// What a drawing shows of this process, in the words of the algorithm's paper. Steps never call it.
    fn view(&self) -> Picture;

    /// Forgets everything, but for what is on stable storage: nothing, for most. `fresh` is the process newly made. Drivers
    /// call it when a process recovers without its memory, before [`Start::Recovered`].
    fn forget(&mut self, fresh: Self) {
        *self = fresh;
    }

    /// Whether it may be given commands. A process that has recovered may first have to hear from others where they are.
    /// What is asked of it before counts from when it is ready, so drivers hold commands back until then.
    fn is_ready(&self) -> bool {
        true
    }

    /// Shows every counter in this state that grows without bound; see [`Counter`]. Steps never call it.
    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let _ = visit;
    }
}

/// A family of counters, so that a checker can tell states apart by how its members differ, not by how far they have
/// come: then a group that goes on for ever has finitely many states.
///
/// Of [`Clock`](Counter::Clock) and [`Number`](Counter::Number) only comparisons and "one more" may be used: subtracting
/// the same from every member in the group and its network must change nothing else. A counter that is shown in one state
/// must be shown in all, unless it is not there at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Lamport times.
    Clock,
    /// The numbers of the requests of one process, or, if it serves others, of its grants; or of the grants of one epoch.
    Number(ProcessId),
    /// Carried along for the user: no step does anything else because of its value.
    Fence,
}

/// A message of a protocol. Ordered so that a checker can keep messages in flight in one canonical order.
pub trait Message: Clone + Eq + Ord + Hash + Debug + Serialize + DeserializeOwned + Send + Sync {
    /// Its kind in the words of the paper, e.g. `"REQUEST"`; messages are counted by it.
    fn kind(&self) -> &'static str;

    /// Which request it is about, by its stamp, if messages of this protocol are each about one and name it.
    fn request(&self, from: ProcessId, to: ProcessId) -> Option<Stamp> {
        let _ = (from, to);
        None
    }

    /// Shows every counter in this message of `from` that grows without bound; see [`Counter`].
    fn counters(&mut self, from: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let _ = (from, visit);
    }
}

/// Everything that can happen to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P: Protocol> {
    /// The process begins to run. Always the first input.
    Start(Start),
    /// Its user asks for something.
    Command(P::Command),
    /// A message has arrived.
    Message {
        /// Who sent it.
        from: ProcessId,
        /// What it says.
        message: P::Message,
    },
    /// A timer set earlier has run out.
    Timer(P::Timer),
    /// The failure detector believes from now on that this process has crashed.
    Suspect(ProcessId),
    /// The failure detector believes from now on that this process is alive.
    Trust(ProcessId),
    /// The application is about to send a message of its own: [`Outbox::stamp`] it with the algorithm's clock.
    AppSend,
    /// An application message has arrived with this stamp.
    AppReceive(u64),
}

/// How a process comes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// For the first time, together with the group.
    Fresh,
    /// Again after a crash: with the state it had, or with what it does not [forget](Protocol::forget).
    /// Either way its timers are lost, and all messages that were on their way to it or from it by then, and its failure
    /// detector begins anew: it suspects nobody until it says so.
    Recovered,
}

/// One thing that a process wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P: Protocol> {
    /// Send a message to another process.
    Send {
        /// The receiver; never the sender itself.
        to: ProcessId,
        /// What to send.
        message: P::Message,
    },
    /// Start a timer, in place of one of the same name that may still run.
    /// The driver picks the duration from the range.
    SetTimer {
        /// Which one.
        timer: P::Timer,
        /// How long; a range where randomness is wanted.
        after: RangeInclusive<Ticks>,
    },
    /// Stop a timer, if it runs.
    CancelTimer(P::Timer),
    /// Tell the user.
    Event(P::Event),
    /// The clock to put on the application message of [`Input::AppSend`].
    Stamp(u64),
}

/// Where a step puts its outputs, and where it gets its [choices](Outbox::choose) from.
#[derive(Clone, Debug)]
pub struct Outbox<P: Protocol> {
    outputs: Vec<Output<P>>,
    choices: Choices,
}

impl<P: Protocol> Outbox<P> {
    /// An empty outbox whose choices come from `choices`.
    pub fn new(choices: Choices) -> Self {
        Outbox { outputs: Vec::new(), choices }
    }

    /// Sends `message` to `to`.
    pub fn send(&mut self, to: ProcessId, message: P::Message) {
        self.outputs.push(Output::Send { to, message });
    }

    /// Sends `message` to each of `to`.
    pub fn multicast(&mut self, to: impl IntoIterator<Item = ProcessId>, message: P::Message) {
        self.outputs.extend(to.into_iter().map(|to| Output::Send { to, message: message.clone() }));
    }

    /// Starts `timer` to run out after exactly `after`.
    pub fn set_timer(&mut self, timer: P::Timer, after: Ticks) {
        self.set_timer_within(timer, after..=after);
    }

    /// Starts `timer` to run out after a random time within `after`.
    pub fn set_timer_within(&mut self, timer: P::Timer, after: RangeInclusive<Ticks>) {
        self.outputs.push(Output::SetTimer { timer, after });
    }

    /// Stops `timer`, if it runs.
    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.outputs.push(Output::CancelTimer(timer));
    }

    /// Tells the user.
    pub fn emit(&mut self, event: P::Event) {
        self.outputs.push(Output::Event(event));
    }

    /// Answers [`Input::AppSend`].
    pub fn stamp(&mut self, clock: u64) {
        self.outputs.push(Output::Stamp(clock));
    }

    /// One of `0..of`, as the driver decides: by the seed, by every branch in turn, or by the system's randomness.
    pub fn choose(&mut self, of: usize) -> usize {
        self.choices.choose(of)
    }

    /// Steps a protocol that runs inside this one. Its choices are made as this one's are; its outputs are returned, to
    /// be carried out in this one's terms.
    pub fn step_inside<Q: Protocol>(&mut self, inside: &mut Q, input: Input<Q>) -> Vec<Output<Q>> {
        let choices = core::mem::replace(&mut self.choices, Choices::scripted(Vec::new()));
        let mut out = Outbox { outputs: Vec::new(), choices };
        inside.step(input, &mut out);
        self.choices = out.choices;
        out.outputs
    }

    /// Takes out all outputs, in the order in which the steps put them in.
    pub fn drain(&mut self) -> impl Iterator<Item = Output<P>> {
        self.outputs.drain(..)
    }

    /// The driver's side of [`choose`](Outbox::choose).
    pub fn choices(&mut self) -> &mut Choices {
        &mut self.choices
    }
}

/// One choice that a step asked for and got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Among how many.
    pub of: usize,
    /// Which one, from 0.
    pub chosen: usize,
}

/// Resolves the choices of steps: first those of a script, then by a seed. All are recorded, so that a run can be
/// repeated from the record, and so that a checker can go through every branch with [`next_branch`](Choices::next_branch).
#[derive(Clone, Debug)]
pub struct Choices {
    seed: Option<u64>,
    script: Vec<usize>,
    /// How much of the script is used up.
    scripted: usize,
    made: Vec<Choice>,
}

impl Choices {
    /// Choices drawn from a seed.
    pub fn seeded(seed: u64) -> Self {
        Choices { seed: Some(seed), script: Vec::new(), scripted: 0, made: Vec::new() }
    }

    /// The choices of a script, and 0 after its end; one that is out of range stands for the last that is not.
    pub fn scripted(script: Vec<usize>) -> Self {
        Choices { seed: None, script, scripted: 0, made: Vec::new() }
    }

    /// What was chosen since the record was last taken.
    pub fn take_made(&mut self) -> Vec<Choice> {
        core::mem::take(&mut self.made)
    }

    /// The script for the branch after the one that `made` these choices, or none if that was the last.
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

/// Steele, Lea and Flood's generator (2014): a pure function of the seed that the driver gave, and all that is needed.
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
            // How many there are to choose from may depend on what was chosen before.
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
