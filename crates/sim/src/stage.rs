//! A group that a caller drives by hand. This module defines what a crash, a recovery and a delivery mean.
//!
//! A [`Stage`] holds the processes of a group, the messages between them, their timers and their users.
//! [`Stage::enabled`] lists the possible actions. [`Stage::apply`] carries out one [`Action`] and returns its
//! [effects](Effect), with the findings of the oracles. A [`StageRecorder`] writes them as the records of a trace. A clone of a stage continues from the same state, so a caller
//! that keeps clones can undo actions.
//!
//! ```
//! use baton_protocol::mutex::central;
//! use baton_protocol::registry::Params;
//! use baton_sim::stage::{Action, Rules, Stage, Wish};
//!
//! let mut stage = Stage::mutex(central::group(&Params::new(2, 1))?);
//! stage.start();
//! stage.apply(&Action::User { process: 0, wish: Wish::Request })?;
//! let before = stage.clone();
//! let effects = stage.apply(&Action::Deliver { message: 0 })?;
//! assert_eq!(effects[1].to_string(), "P2 -> P0 GRANT {fence: 1}");
//! assert!(before.enabled(&Rules::default()).contains(&Action::Deliver { message: 0 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stage has no time: a running timer may fire at any moment, and a message may stay in flight for any time. A process
//! that needs a clock has it in its own state, as failure detectors do ([`Watcher`](baton_protocol::detector::Watcher)):
//! the clock of a process goes on when its timer fires. A stage has no randomness: [`Action::Choose`] sets the outcomes of choices. Actions mean what [`Protocol`] and
//! [`Start::Recovered`] say:
//!
//! - A crash stops the timers of the process and loses the messages to it. Its user then neither waits nor is inside.
//! - Messages from the crashed process may still arrive until it recovers. Its recovery loses the remaining ones,
//!   because they belong to its earlier incarnation.
//! - A process that recovers without memory [forgets](Protocol::forget). Its failure detector starts again in any case.
//! - A recovered process gets no command before it [is ready](Protocol::is_ready).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use baton_protocol::append::Slot;
use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Property, Protocol, Start, Ticks};
use baton_trace::Event;
pub use baton_trace::{Action, Wish};

use self::detectors::Detectors;
use self::effect::Words;
use self::oracles::Oracles;

mod detectors;
mod effect;
mod fingerprint;
mod oracles;
mod records;
mod refused;
mod rules;
mod show;
mod text;

pub use effect::{Effect, Envelope, Payload};
pub use records::StageRecorder;
pub use refused::Refused;
pub use rules::{Rules, Spent};
pub use show::{Role, Shown, ShownMessage, ShownProcess, ShownTimer};
pub use text::range;

/// A group, the network between its processes, and their users. The [module](self) says how to drive it.
#[derive(Clone)]
pub struct Stage<P: Protocol> {
    clients: usize,
    make: Arc<dyn Fn(ProcessId) -> P + Send + Sync>,
    /// With views: the process that hears of crashes.
    source: Option<ProcessId>,
    words: Words<P>,
    processes: Vec<P>,
    down: BTreeSet<ProcessId>,
    /// Recovered processes that are not ready yet.
    catching_up: BTreeSet<ProcessId>,
    /// In ascending order of numbers, which is the order of sending. A copy gets the next number when it is made.
    in_flight: Vec<Envelope<P::Message>>,
    next_message: u64,
    timers: BTreeMap<(ProcessId, P::Timer), RangeInclusive<Ticks>>,
    /// Processes whose user has a pending request or append.
    waiting: BTreeSet<ProcessId>,
    /// Processes whose user is in the critical section.
    inside: BTreeSet<ProcessId>,
    /// The outcomes of the next choices, in order.
    script: Vec<usize>,
    detectors: Detectors,
    oracles: Oracles,
    sent: BTreeMap<&'static str, u64>,
    spent: Spent,
}

impl<P: Protocol> Stage<P> {
    /// Makes the group, but does not start it.
    fn new(group: Group<P>, words: Words<P>) -> Self {
        Stage {
            clients: group.clients,
            processes: (0..group.processes).map(&group.make).collect(),
            oracles: Oracles::new(group.processes, group.clients, words.detects),
            make: Arc::from(group.make),
            source: group.source,
            words,
            down: BTreeSet::new(),
            catching_up: BTreeSet::new(),
            in_flight: Vec::new(),
            next_message: 0,
            timers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            inside: BTreeSet::new(),
            script: Vec::new(),
            detectors: Detectors::default(),
            sent: BTreeMap::new(),
            spent: Spent::default(),
        }
    }

    /// Starts all processes, in order of their ids. Call it before any action except [`Action::Choose`].
    pub fn start(&mut self) -> Vec<Effect<P>> {
        (0..self.processes.len()).flat_map(|process| self.start_one(process)).collect()
    }

    /// Starts one process. All processes must start before the first action.
    pub(crate) fn start_one(&mut self, process: ProcessId) -> Vec<Effect<P>> {
        let mut effects = Vec::new();
        self.step(process, Input::Start(Start::Fresh), &mut effects);
        effects
    }

    /// Carries out an action and returns its effects, in order. A refused action changes nothing.
    pub fn apply(&mut self, action: &Action) -> Result<Vec<Effect<P>>, Refused> {
        let mut effects = Vec::new();
        let told = &mut effects;
        match *action {
            Action::User { process, wish } => self.user(process, wish, told)?,
            Action::Deliver { message } => self.deliver(message, told)?,
            Action::Drop { message } => {
                let lost = self.take(message)?;
                self.spent.losses += 1;
                told.push(Effect::Lost(lost));
            }
            Action::Duplicate { message } => self.duplicate(message, told)?,
            Action::Forge { from, to, like } => {
                self.check_link(from, to)?;
                let payload = self.in_flight[self.place(like)?].payload.clone();
                self.send(from, to, payload, told);
            }
            Action::Timer { process, ref name } => self.run_out(process, name, told)?,
            Action::Suspect { by, of } => {
                self.check_detector(by, of)?;
                self.spent.mistakes += u32::from(self.detectors.suspect(by, of));
                self.step(by, Input::Suspect(of), told);
            }
            Action::Trust { by, of } => {
                self.check_detector(by, of)?;
                self.detectors.trust(by, of);
                self.step(by, Input::Trust(of), told);
            }
            Action::Crash { process } => self.crash(process, told)?,
            Action::Recover { process, memory } => self.recover(process, memory, told)?,
            Action::App { from, to } => self.app(from, to, told)?,
            Action::Choose { ref script } => self.script.clone_from(script),
        }
        if let Some(detail) = self.broken_invariant() {
            effects.push(Effect::Violated { property: "safety", detail });
        }
        Ok(effects)
    }

    /// What is wrong if the live processes break an invariant of the algorithm.
    fn broken_invariant(&self) -> Option<String> {
        let live = || self.processes.iter().enumerate().filter(|(process, _)| self.is_up(*process));
        P::HAS_INVARIANT.then(|| P::broken_invariant(&live().collect::<Vec<_>>()))?
    }

    /// A user requests only if it has neither a pending request nor a grant, and releases only a grant.
    fn user(&mut self, process: ProcessId, wish: Wish, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        let command = (self.words.command)(wish).ok_or(Refused::OtherFamily)?;
        self.check_wish(process, wish)?;
        match wish {
            Wish::Request => {
                self.waiting.insert(process);
                self.oracles.see(process, &Event::request(0));
            }
            Wish::Release => {
                self.inside.remove(&process);
                self.oracles.see(process, &Event::Exit { req: 0 });
            }
            Wish::Append(number) => {
                self.waiting.insert(process);
                self.oracles.append(process, number);
                self.spent.appended += 1;
            }
            Wish::Elect => {}
        }
        self.step(process, Input::Command(command), told);
        Ok(())
    }

    fn check_wish(&self, process: ProcessId, wish: Wish) -> Result<(), Refused> {
        self.check_process(process)?;
        if process >= self.clients {
            return Err(Refused::Helper { process, clients: self.clients });
        }
        self.check_up(process)?;
        let (inside, waiting) = (self.inside.contains(&process), self.waiting.contains(&process));
        match wish {
            Wish::Release if !inside => Err(Refused::NotInside { process }),
            Wish::Request if inside => Err(Refused::Inside { process }),
            Wish::Request | Wish::Append(_) if waiting => Err(Refused::AskedAlready { process }),
            _ if !self.processes[process].is_ready() => Err(Refused::CatchingUp { process }),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, message: u64, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        let Envelope { from, to, .. } = self.in_flight[self.place(message)?];
        self.oracles.receive(message, from, to);
        let envelope = self.take(message)?;
        told.push(Effect::Delivered(envelope.clone()));
        let Envelope { from, to, payload, .. } = envelope;
        match payload {
            Payload::Protocol(message) => self.step(to, Input::Message { from, message }, told),
            Payload::App(Some(stamp)) => self.step(to, Input::AppReceive(stamp), told),
            Payload::App(None) => {}
        }
        Ok(())
    }

    fn duplicate(&mut self, message: u64, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        let original = self.in_flight[self.place(message)?].clone();
        let copy = Envelope { id: self.number_message(), ..original };
        self.oracles.copy(message, copy.id);
        self.spent.duplicates += 1;
        told.push(Effect::Copied(copy.clone()));
        self.in_flight.push(copy);
        Ok(())
    }

    fn run_out(&mut self, process: ProcessId, name: &str, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        self.check_process(process)?;
        let mut running = self.timers.keys().copied();
        let key = running.find(|(owner, timer)| *owner == process && format!("{timer:?}") == name);
        let key = key.ok_or_else(|| Refused::NoTimer { process, name: name.to_owned() })?;
        self.timers.remove(&key);
        self.step(process, Input::Timer(key.1), told);
        Ok(())
    }

    fn crash(&mut self, process: ProcessId, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        self.check_process(process)?;
        self.check_up(process)?;
        self.spent.crashes += 1;
        self.down.insert(process);
        self.catching_up.remove(&process);
        self.waiting.remove(&process);
        self.inside.remove(&process);
        self.timers.retain(|(owner, _), _| *owner != process);
        self.detectors.change(process);
        self.oracles.see(process, &Event::Crash);
        told.push(Effect::Crashed { process });
        self.lose_those(|envelope| envelope.to == process, told);
        Ok(())
    }

    fn recover(&mut self, process: ProcessId, memory: bool, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        self.check_process(process)?;
        if !self.down.remove(&process) {
            return Err(Refused::NotDown { process });
        }
        self.spent.recoveries += 1;
        if !memory {
            self.processes[process].forget((self.make)(process));
        }
        self.detectors.change(process);
        self.detectors.begin_anew(process, self.processes.len());
        self.oracles.see(process, &Event::Recover { memory });
        told.push(Effect::Recovered { process });
        // These messages belong to the earlier incarnation. The crash has already lost the messages to the process.
        self.lose_those(|envelope| envelope.from == process, told);
        self.step(process, Input::Start(Start::Recovered), told);
        if !self.processes[process].is_ready() {
            self.catching_up.insert(process);
        }
        Ok(())
    }

    fn lose_those(&mut self, are_lost: impl Fn(&Envelope<P::Message>) -> bool, told: &mut Vec<Effect<P>>) {
        for lost in self.in_flight.extract_if(.., |envelope| are_lost(envelope)) {
            self.oracles.forget(lost.id);
            told.push(Effect::Lost(lost));
        }
    }

    fn app(&mut self, from: ProcessId, to: ProcessId, told: &mut Vec<Effect<P>>) -> Result<(), Refused> {
        self.check_link(from, to)?;
        self.check_up(from)?;
        self.spent.app_messages += 1;
        let mut stamp = None;
        for output in self.outputs_of(from, Input::AppSend, told) {
            match output {
                Output::Stamp(clock) => stamp = Some(clock),
                other => self.carry_out(from, other, told),
            }
        }
        self.send(from, to, Payload::App(stamp), told);
        Ok(())
    }

    fn step(&mut self, process: ProcessId, input: Input<P>, told: &mut Vec<Effect<P>>) {
        for output in self.outputs_of(process, input, told) {
            self.carry_out(process, output, told);
        }
        if self.processes[process].is_ready() && self.catching_up.remove(&process) {
            told.push(Effect::Ready { process });
        }
    }

    fn outputs_of(&mut self, process: ProcessId, input: Input<P>, told: &mut Vec<Effect<P>>) -> Vec<Output<P>> {
        let mut out = Outbox::new(Choices::scripted(self.script.clone()));
        self.processes[process].step(input, &mut out);
        let made = out.choices().take_made();
        self.script.drain(..made.len().min(self.script.len()));
        told.extend(made.into_iter().map(|choice| Effect::Chose { process, choice }));
        out.drain().collect()
    }

    fn carry_out(&mut self, process: ProcessId, output: Output<P>, told: &mut Vec<Effect<P>>) {
        match output {
            Output::Send { to, message } => {
                *self.sent.entry(message.kind()).or_default() += 1;
                self.send(process, to, Payload::Protocol(message), told);
            }
            Output::SetTimer { timer, after } => {
                told.push(Effect::TimerSet { process, timer, after: after.clone() });
                self.timers.insert((process, timer), after);
            }
            Output::CancelTimer(timer) => {
                if self.timers.remove(&(process, timer)).is_some() {
                    told.push(Effect::TimerCancelled { process, timer });
                }
            }
            Output::Event(event) => self.hear((self.words.event)(process, event), told),
            // Only an application message asks for a stamp, and `app` has already taken it.
            Output::Stamp(_) => {}
        }
    }

    /// A message to a crashed process is lost at once. So no message sent before a recovery arrives after it.
    fn send(&mut self, from: ProcessId, to: ProcessId, payload: Payload<P::Message>, told: &mut Vec<Effect<P>>) {
        let id = self.number_message();
        let message = Envelope { id, original: id, from, to, payload };
        let lost = self.down.contains(&to);
        if !lost {
            self.oracles.send(message.id, from);
            self.in_flight.push(message.clone());
        }
        told.push(Effect::Sent { message, lost });
    }

    /// Passes an event of a process to its user and to the oracles.
    fn hear(&mut self, mut event: Effect<P>, told: &mut Vec<Effect<P>>) {
        let found = match &mut event {
            Effect::Granted { process, fence, asked } => {
                *asked = self.waiting.remove(process);
                // A process without a pending request does not enter.
                if *asked {
                    self.inside.insert(*process);
                }
                self.oracles.see(*process, &Event::Enter { req: 0, fence: *fence })
            }
            Effect::Revoked { process } => {
                self.inside.remove(process);
                self.oracles.see(*process, &Event::Lost { req: 0 })
            }
            Effect::Elected { process, leader, term } => {
                self.oracles.see(*process, &Event::Elected { leader: *leader, term: *term })
            }
            Effect::Appended { process, offset, asked } => {
                *asked = self.waiting.remove(process);
                let files = files(&self.processes, &self.down, self.words.file);
                self.oracles.appended(*process, *offset, &files)
            }
            Effect::Suspected { process, peer } => self.oracles.see(*process, &Event::Suspect { peer: *peer }),
            Effect::Trusted { process, peer } => self.oracles.see(*process, &Event::Trust { peer: *peer }),
            _ => Vec::new(),
        };
        told.push(event);
        told.extend(found.into_iter().map(|(property, detail)| Effect::Violated { property, detail }));
    }

    /// What is wrong with the files of the live replicas now, when no message will arrive and no timer will fire.
    pub(crate) fn wrong_in_the_end(&self) -> Option<String> {
        self.oracles.wrong_in_the_end(&files(&self.processes, &self.down, self.words.file))
    }

    fn number_message(&mut self) -> u64 {
        self.next_message += 1;
        self.next_message - 1
    }

    fn take(&mut self, message: u64) -> Result<Envelope<P::Message>, Refused> {
        let place = self.place(message)?;
        self.oracles.forget(message);
        Ok(self.in_flight.remove(place))
    }

    fn place(&self, message: u64) -> Result<usize, Refused> {
        let place = self.in_flight.binary_search_by_key(&message, |envelope| envelope.id);
        place.map_err(|_| Refused::NoMessage { message })
    }

    fn check_process(&self, process: ProcessId) -> Result<(), Refused> {
        if process < self.processes.len() { Ok(()) } else { Err(Refused::NoProcess { process }) }
    }

    fn check_up(&self, process: ProcessId) -> Result<(), Refused> {
        if self.is_up(process) { Ok(()) } else { Err(Refused::Down { process }) }
    }

    fn check_link(&self, from: ProcessId, to: ProcessId) -> Result<(), Refused> {
        self.check_process(from)?;
        self.check_process(to)?;
        if from == to { Err(Refused::ToItself { process: to }) } else { Ok(()) }
    }

    fn check_detector(&self, by: ProcessId, of: ProcessId) -> Result<(), Refused> {
        if self.words.detects {
            return Err(Refused::Detects);
        }
        self.check_process(by)?;
        self.check_process(of)?;
        if by == of { Err(Refused::OfItself { process: by }) } else { self.check_up(by) }
    }
}

/// The files of the live replicas.
fn files<'p, P: Protocol>(
    processes: &'p [P],
    down: &BTreeSet<ProcessId>,
    file: fn(&P) -> Option<&[Slot]>,
) -> Vec<(ProcessId, &'p [Slot])> {
    let live = processes.iter().enumerate().filter(|(id, _)| !down.contains(id));
    live.filter_map(|(id, replica)| Some((id, file(replica)?))).collect()
}

/// Access to the state of the stage.
impl<P: Protocol> Stage<P> {
    /// Processes `0..clients` have a user.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// All processes, by id. A crashed process has the state in which it crashed.
    pub fn processes(&self) -> &[P] {
        &self.processes
    }

    /// Oldest first.
    pub fn in_flight(&self) -> &[Envelope<P::Message>] {
        &self.in_flight
    }

    /// None if no message with this number is in flight.
    pub fn message(&self, number: u64) -> Option<&Envelope<P::Message>> {
        self.place(number).ok().map(|place| &self.in_flight[place])
    }

    /// The messages of the protocol that were sent earlier on the same link and are still in flight. A copy counts as
    /// sent when its original was sent.
    pub fn earlier_on_its_link(&self, message: &Envelope<P::Message>) -> impl Iterator<Item = &Envelope<P::Message>> {
        let (link, original) = ((message.from, message.to), message.original);
        let earlier = move |other: &&Envelope<P::Message>| (other.from, other.to) == link && other.original < original;
        self.in_flight.iter().filter(earlier).filter(|other| matches!(other.payload, Payload::Protocol(_)))
    }

    /// The running timers, each with the duration that it was set to.
    pub fn timers(&self) -> impl Iterator<Item = (ProcessId, P::Timer, &RangeInclusive<Ticks>)> {
        self.timers.iter().map(|((process, timer), after)| (*process, *timer, after))
    }

    pub fn is_up(&self, process: ProcessId) -> bool {
        !self.down.contains(&process)
    }

    /// Whether a process has recovered and takes no commands yet.
    pub fn is_catching_up(&self, process: ProcessId) -> bool {
        self.catching_up.contains(&process)
    }

    /// Processes whose user has a pending request or append.
    pub fn waiting(&self) -> &BTreeSet<ProcessId> {
        &self.waiting
    }

    /// Processes whose user is in the critical section.
    pub fn inside(&self) -> &BTreeSet<ProcessId> {
        &self.inside
    }

    /// The leader that a process last reported to its user, since its last crash.
    pub fn leader(&self, process: ProcessId) -> Option<ProcessId> {
        self.oracles.leader(process)
    }

    /// Whether the failure detector of `by` believes that `of` has crashed, or `by` itself if it is one.
    pub fn suspects(&self, by: ProcessId, of: ProcessId) -> bool {
        match self.oracles.suspicions() {
            Some(suspicions) => suspicions.suspects(by, of),
            None => self.detectors.suspects(by, of),
        }
    }

    /// In a group of failure detectors: a live process that does not suspect a crashed one, and the crashed one.
    pub fn unnoticed(&self) -> Option<(ProcessId, ProcessId)> {
        self.oracles.suspicions()?.unnoticed()
    }

    /// Faults and application messages so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Messages of the protocol sent so far, by kind. Application messages are not counted.
    pub fn sent(&self) -> &BTreeMap<&'static str, u64> {
        &self.sent
    }

    /// Whether the oracle checks ORDER. In large groups it does not.
    pub fn watches_order(&self) -> bool {
        self.oracles.watches_order()
    }

    /// Whether it says something that no violation of this property of mutual exclusion was seen so far. A `trusted`
    /// algorithm promises the property and is not broken on purpose.
    pub fn shows(&self, property: Property, trusted: bool) -> bool {
        self.oracles.shows(property, trusted, self.spent.app_messages > 0)
    }
}
