//! Turns the records of a trace into actions on a stage. The effects of each action must be the next records.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::registry::Survivors;
use baton_protocol::{Message, ProcessId, Promises, Property, Protocol, append, election, mutex};
use baton_trace::{Event, Record};

use super::recurrence::Snapshot;
use super::{ReplayError, differs};
use crate::oracle::mutex::Violation;
use crate::stage::{Action, Effect, Envelope, Payload, Stage, Wish};

/// What a group is for.
pub enum Aim {
    Lock,
    Lead(Elects),
    Append,
}

/// The rules for the leader of an election group.
pub struct Elects {
    /// Which live process must lead.
    pub rule: election::Rule,
    /// The processes that must be up before any process may lead.
    pub survivors: Option<Survivors>,
}

/// A trace during its replay.
pub struct Repeat<'t, P: Protocol> {
    stage: Stage<P>,
    aim: Aim,
    records: &'t [Record],
    next: usize,
    /// Whether each link keeps the order of messages.
    fifo: bool,
    /// The number on the stage of each message of the trace. If there are copies: of a copy that is still in flight.
    messages: BTreeMap<u64, u64>,
    /// Number of deliveries and losses of each message that are still to come in the trace.
    ends_left: BTreeMap<u64, u32>,
    /// The group at the record where the cycle begins.
    cycle: Option<Snapshot<P>>,
    /// Processes that have entered since the cycle began.
    entered: BTreeSet<ProcessId>,
    pub entries: u64,
    pub violations: Vec<Violation>,
    /// The latest action, if it was one, and the effects of the latest step.
    last: (Option<Action>, Vec<Effect<P>>),
    /// All actions so far. None: they are not kept.
    actions: Option<Vec<Action>>,
}

impl<'t, P: Protocol> Repeat<'t, P> {
    pub fn new(stage: Stage<P>, fifo: bool, records: &'t [Record], aim: Aim) -> Self {
        let mut ends_left = BTreeMap::new();
        for record in records {
            if let Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } | Event::Drop { msg, .. } = record.event {
                *ends_left.entry(msg).or_default() += 1;
            }
        }
        Repeat {
            stage,
            aim,
            records,
            next: 0,
            fifo,
            messages: BTreeMap::new(),
            ends_left,
            cycle: None,
            entered: BTreeSet::new(),
            entries: 0,
            violations: Vec::new(),
            last: (None, Vec::new()),
            actions: None,
        }
    }

    /// Keeps the actions, for [`take_actions`](Repeat::take_actions).
    pub fn keep_actions(&mut self) {
        self.actions = Some(Vec::new());
    }

    pub fn take_actions(&mut self) -> Vec<Action> {
        self.actions.take().unwrap_or_default()
    }

    pub fn stage(&self) -> &Stage<P> {
        &self.stage
    }

    pub fn is_fifo(&self) -> bool {
        self.fifo
    }

    /// Whether a message of the trace, or a copy of it, is in flight.
    #[cfg(test)]
    pub fn is_on_its_way(&self, msg: u64) -> bool {
        self.messages.get(&msg).is_some_and(|&message| self.stage.message(message).is_some())
    }

    /// Repeats all records, and keeps a snapshot of the group at record `cycle_from`.
    pub fn play(&mut self, cycle_from: Option<u64>) -> Result<(), ReplayError> {
        self.start()?;
        while let Some(record) = self.records.get(self.next) {
            if cycle_from == Some(self.next as u64) {
                self.cycle = Some(self.snapshot());
                self.entered.clear();
            }
            self.next += 1;
            self.repeat(record)?;
        }
        Ok(())
    }

    /// Repeats the records up to the one with this index, and the rest of its step.
    pub fn play_to(&mut self, index: usize) -> Result<(), ReplayError> {
        self.start()?;
        while self.next <= index
            && let Some(record) = self.records.get(self.next)
        {
            self.next += 1;
            self.last = (None, Vec::new());
            self.repeat(record)?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), ReplayError> {
        for process in 0..self.stage.processes().len() {
            self.script();
            let effects = self.stage.start_one(process);
            self.compare(process, &effects)?;
            self.last = (None, effects);
        }
        Ok(())
    }

    /// The latest step in words: the action, then its effects. Empty if the latest record was no step.
    pub fn tell(&self) -> Vec<String> {
        let (action, effects) = &self.last;
        let action = match action {
            // The first effect says the same, and knows the message.
            Some(Action::Deliver { .. }) | None => None,
            Some(action) => Some(self.stage.describe(action)),
        };
        let is_new = |effect: &&Effect<P>| !matches!(effect, Effect::Crashed { .. } | Effect::Recovered { .. });
        action.into_iter().chain(effects.iter().filter(is_new).map(Effect::to_string)).collect()
    }

    fn snapshot(&self) -> Snapshot<P> {
        let on_their_way = self.stage.in_flight().iter().filter_map(|envelope| match &envelope.payload {
            Payload::Protocol(message) => Some((envelope.from, envelope.to, message.clone())),
            Payload::App(_) => None,
        });
        let timers = self.stage.timers().map(|(process, timer, _)| (process, timer)).collect();
        let phases = (self.stage.waiting().clone(), self.stage.inside().clone());
        Snapshot::new(self.stage.processes(), on_their_way.collect(), timers, phases)
    }

    /// Checks the claim of a trace about its end. One of these must be true: a process waits and nothing can happen; a
    /// process waits for ever while the same steps repeat; the live processes do not agree on a leader.
    pub fn judge_the_end(&mut self, property: &str, in_a_cycle: bool, end: Option<&str>) {
        let property = if property == "deadlock" { "deadlock" } else { "liveness" };
        let name = |waiting: Vec<ProcessId>| {
            let names: Vec<String> = waiting.iter().map(|process| format!("P{process}")).collect();
            format!("{} {}", names.join(" and "), if names.len() == 1 { "waits" } else { "wait" })
        };
        let waiting: Vec<ProcessId> = self.stage.waiting().iter().copied().collect();
        let (stage, nothing_arrives) = (&self.stage, self.stage.in_flight().is_empty());
        if !waiting.is_empty() && nothing_arrives && stage.timers().next().is_none() && stage.inside().is_empty() {
            let detail = format!("{}, and nothing can happen", name(waiting));
            self.violations.push((property, detail));
        } else if in_a_cycle && self.cycle.as_ref() == Some(&self.snapshot()) {
            let passed_over = |process: &ProcessId| !self.entered.contains(process);
            let starving: Vec<ProcessId> = waiting.into_iter().filter(passed_over).collect();
            if !starving.is_empty() {
                let detail =
                    format!("{} for ever: the state is as before, so the same steps can repeat", name(starving));
                self.violations.push(("liveness", detail));
            }
        } else if let Some(at) = self.who_disagrees() {
            let detail = format!("P{at} does not follow the process that must lead");
            self.violations.push(("liveness", detail));
        } else if let (Some(end @ ("finished" | "limit")), Aim::Lock | Aim::Append) = (end, &self.aim) {
            // Steps are still possible, but a process waits. A counterexample would need a cycle to show that; a run
            // just ends.
            let who = match waiting.is_empty() {
                true => (end == "limit").then(|| "not all requests were made".into()),
                false => Some(name(waiting)),
            };
            let detail = who.map(|who| ("liveness", format!("{who}, and the run has ended")));
            self.violations.extend(detail);
        }
    }

    /// Judges the files of a group that appends records, at the end of a run in which no event was left.
    pub fn judge_the_files(&mut self) {
        let wrong = self.stage.wrong_in_the_end();
        self.violations.extend(wrong.map(|detail| ("safety", detail)));
    }

    /// The properties that were checked and not violated. In a counterexample a process may wait at the end, which says
    /// nothing about liveness. A run that could not have shown a violation says nothing, too, unless the algorithm is
    /// not broken on purpose and promises the property.
    pub fn held(&self, counterexample: bool, promises: &Promises, is_broken: bool) -> Vec<&'static str> {
        let locks = matches!(self.aim, Aim::Lock);
        let served = self.who_disagrees().is_none() && self.stage.waiting().is_empty();
        let shows = |property| self.stage.shows(property, !is_broken && promises.include(property));
        let watched = [
            ("safety", !locks || shows(Property::Safety)),
            ("liveness", served && !counterexample),
            ("order", locks && shows(Property::Order)),
            ("fence", locks && shows(Property::Fence)),
        ];
        let violated = |property| self.violations.iter().any(|(found, _)| *found == property);
        let held = |&(property, watched): &(&'static str, bool)| watched && !violated(property);
        watched.iter().filter(|property| held(property)).map(|(property, _)| *property).collect()
    }

    /// A live process whose leader is not the process that must lead.
    fn who_disagrees(&self) -> Option<ProcessId> {
        let Aim::Lead(Elects { rule, survivors }) = &self.aim else { return None };
        let lives = |process: &ProcessId| self.stage.is_up(*process);
        let clients = || (0..self.stage.clients()).filter(lives);
        let enough = |Survivors { among, least, .. }: &Survivors| among.clone().filter(lives).count() >= *least;
        let best = rule.best(clients());
        // With too few survivors every live process disagrees: either no process can lead, or it has a leader nonetheless.
        let too_few = !survivors.as_ref().is_none_or(enough);
        clients().find(|&at| too_few || self.stage.leader(at) != best)
    }

    /// Carries out a record. Ignores records without an effect on a process.
    fn repeat(&mut self, record: &Record) -> Result<(), ReplayError> {
        let processes = self.stage.processes().len();
        let Some(process) = record.p.filter(|&process| process < processes) else {
            return match record.p {
                Some(_) => Err(differs(record, format!("that there are {processes} processes"))),
                None => Ok(()),
            };
        };
        if let Some(wish) = self.wish(&record.event) {
            return self.apply(record, process, Action::User { process, wish });
        }
        match &record.event {
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                let message = self.arrival(record, process, *msg)?;
                self.apply(record, process, Action::Deliver { message })
            }
            Event::AppSend { msg, to } => {
                let effects = self.effects(record, &Action::App { from: process, to: *to })?;
                let sent = effects.iter().filter_map(|effect| match effect {
                    Effect::Sent { message: Envelope { id, payload: Payload::App(_), .. }, .. } => Some((*msg, *id)),
                    _ => None,
                });
                self.messages.extend(sent);
                self.compare(process, &effects)?;
                self.last.1 = effects;
                Ok(())
            }
            Event::Drop { msg, .. } => {
                self.lose(*msg);
                Ok(())
            }
            Event::Timer { name } => self.apply(record, process, Action::Timer { process, name: name.clone() }),
            Event::Suspect { peer } => self.apply(record, process, Action::Suspect { by: process, of: *peer }),
            Event::Trust { peer } => self.apply(record, process, Action::Trust { by: process, of: *peer }),
            Event::Crash => self.apply(record, process, Action::Crash { process }),
            Event::Recover { memory } => self.apply(record, process, Action::Recover { process, memory: *memory }),
            Event::Send { .. }
            | Event::Enter { .. }
            | Event::Lost { .. }
            | Event::Elected { .. }
            | Event::Choice { .. } => Err(differs(record, "that this did not happen".into())),
            Event::Append { .. } | Event::Appended { .. } => Err(differs(record, "that this did not happen".into())),
            _ => Ok(()),
        }
    }

    /// The user's command in this event.
    fn wish(&self, event: &Event) -> Option<Wish> {
        match (event, &self.aim) {
            (Event::Request { .. }, Aim::Lock) => Some(Wish::Request),
            (Event::Request { .. }, Aim::Lead(_)) => Some(Wish::Elect),
            (Event::Exit { .. }, Aim::Lock) => Some(Wish::Release),
            (Event::Append { req }, Aim::Append) => Some(Wish::Append(*req)),
            _ => None,
        }
    }

    /// The stage's number of the message that arrives, if the message can arrive now.
    fn arrival(&mut self, record: &Record, process: ProcessId, msg: u64) -> Result<u64, ReplayError> {
        let unsent = || differs(record, "that no process has sent this message".into());
        let number = *self.messages.get(&msg).ok_or_else(unsent)?;
        let envelope = self.stage.message(number);
        let envelope = envelope.ok_or_else(|| differs(record, "that the message is no longer in flight".into()))?;
        let is_app = matches!(envelope.payload, Payload::App(_));
        if is_app != matches!(record.event, Event::AppDeliver { .. }) {
            return Err(unsent());
        }
        if envelope.to != process {
            return Err(differs(record, format!("that the message was sent to P{}", envelope.to)));
        }
        // A late copy does not hold up later messages, because its original has already arrived in order.
        let is_original = |other: &Envelope<P::Message>| other.id == other.original;
        if self.fifo && !is_app && self.stage.earlier_on_its_link(envelope).any(is_original) {
            return Err(differs(record, "that an earlier message on this link is still in flight".into()));
        }
        self.end(msg, number);
        Ok(number)
    }

    /// A message is about to arrive or to be lost. If the trace has a further delivery or loss of it, a copy stays in
    /// flight.
    fn end(&mut self, msg: u64, number: u64) {
        let left = self.ends_left.entry(msg).or_default();
        *left = left.saturating_sub(1);
        let copy = Action::Duplicate { message: number };
        if *left > 0
            && let Ok(effects) = self.stage.apply(&copy)
        {
            self.keep(&copy);
            let copies = effects.into_iter().filter_map(|effect| match effect {
                Effect::Copied(copy) => Some((msg, copy.id)),
                _ => None,
            });
            self.messages.extend(copies);
        }
    }

    /// Loses a message. The stage may have lost it already, because its sender or its receiver has crashed.
    fn lose(&mut self, msg: u64) {
        if let Some(&message) = self.messages.get(&msg)
            && self.stage.message(message).is_some()
        {
            self.end(msg, message);
            let drop = Action::Drop { message };
            // The message is in flight, so the stage does not refuse this.
            let effects = self.stage.apply(&drop).unwrap_or_default();
            self.keep(&drop);
            self.last = (Some(drop), effects);
        }
    }

    fn apply(&mut self, record: &Record, process: ProcessId, action: Action) -> Result<(), ReplayError> {
        let effects = self.effects(record, &action)?;
        self.compare(process, &effects)?;
        self.last.1 = effects;
        Ok(())
    }

    fn effects(&mut self, record: &Record, action: &Action) -> Result<Vec<Effect<P>>, ReplayError> {
        self.script();
        self.keep(action);
        self.last.0 = Some(action.clone());
        self.stage.apply(action).map_err(|refused| differs(record, format!("that {refused}")))
    }

    fn keep(&mut self, action: &Action) {
        self.actions.iter_mut().for_each(|actions| actions.push(action.clone()));
    }

    /// Takes the choices of the next step from the trace.
    fn script(&mut self) {
        let mut script = Vec::new();
        while let Some(Event::Choice { chosen, .. }) = self.records.get(self.next).map(|record| &record.event) {
            script.push(*chosen);
            self.next += 1;
        }
        let choose = Action::Choose { script };
        // The stage never refuses a script.
        let _ = self.stage.apply(&choose);
        // Choices are 0 unless a script says otherwise.
        if matches!(&choose, Action::Choose { script } if script.iter().any(|outcome| *outcome != 0)) {
            self.keep(&choose);
        }
    }

    /// The next records must be the messages and events of this step.
    fn compare(&mut self, process: ProcessId, effects: &[Effect<P>]) -> Result<(), ReplayError> {
        for effect in effects {
            match *effect {
                Effect::Sent { message: Envelope { id, to, payload: Payload::Protocol(ref message), .. }, .. } => {
                    self.sent(process, to, id, message)?;
                }
                Effect::Granted { fence, asked, .. } => {
                    let told = |event: &Event| matches!(event, Event::Enter { fence: traced, .. } if *traced == fence);
                    let expected = || format!("P{process}: {:?}", mutex::Event::Granted { fence });
                    if asked {
                        self.heard(process, told, expected)?;
                        self.entries += 1;
                        self.entered.insert(process);
                    } else {
                        // Some traces have an entry for a grant without a request, others only the violation.
                        let told = |record: &&Record| record.p == Some(process) && told(&record.event);
                        self.next += usize::from(self.records.get(self.next).filter(told).is_some());
                    }
                }
                Effect::Revoked { .. } => {
                    let told = |event: &Event| matches!(event, Event::Lost { .. });
                    self.heard(process, told, || format!("P{process}: {:?}", mutex::Event::Lost))?;
                }
                Effect::Elected { leader, term, .. } => {
                    let told = |event: &Event| matches!(event, Event::Elected { leader: l, term: t } if (*l, *t) == (leader, term));
                    self.heard(process, told, || {
                        format!("P{process}: {:?}", election::Event::Elected { leader, term })
                    })?;
                }
                // The user does not hear the answer to an append from before a crash.
                Effect::Appended { offset, asked: true, .. } => {
                    let told =
                        |event: &Event| matches!(event, Event::Appended { offset: traced, .. } if *traced == offset);
                    self.heard(process, told, || format!("P{process}: {:?}", append::Event::Appended { offset }))?;
                }
                Effect::Violated { property, ref detail } => self.violations.push((property, detail.clone())),
                _ => {}
            }
        }
        Ok(())
    }

    fn sent(&mut self, process: ProcessId, to: ProcessId, id: u64, message: &P::Message) -> Result<(), ReplayError> {
        let expected = || format!("that P{process} sends {} to P{to}", message.kind());
        let record = self.next_output(expected)?;
        match &record.event {
            Event::Send { msg, to: traced, kind, .. }
                if record.p == Some(process) && *traced == to && kind == message.kind() =>
            {
                self.messages.insert(*msg, id);
                Ok(())
            }
            _ => Err(differs(record, expected())),
        }
    }

    fn heard(
        &mut self,
        process: ProcessId,
        told: impl Fn(&Event) -> bool,
        expected: impl Fn() -> String,
    ) -> Result<(), ReplayError> {
        let record = self.next_output(&expected)?;
        let fits = record.p == Some(process) && told(&record.event);
        if fits { Ok(()) } else { Err(differs(record, expected())) }
    }

    /// The next record of an output. Skips violations and lost messages in between.
    fn next_output(&mut self, expected: impl Fn() -> String) -> Result<&'t Record, ReplayError> {
        let skipped = |event: &Event| matches!(event, Event::Violation { .. } | Event::Drop { .. });
        while let Some(record) = self.records.get(self.next).filter(|record| skipped(&record.event)) {
            if let Event::Drop { msg, .. } = &record.event {
                self.lose(*msg);
            }
            self.next += 1;
        }
        let record = self.records.get(self.next).ok_or_else(|| ReplayError::Differs {
            seq: self.next as u64,
            found: "nothing more".into(),
            expected: expected(),
        })?;
        self.next += 1;
        Ok(record)
    }
}
