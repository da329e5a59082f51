//! The records of a trace as actions on a stage: whatever follows from an action the next records must tell of.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::registry::Survivors;
use baton_protocol::{Message, ProcessId, Protocol, election, mutex};
use baton_trace::{Event, Record};

use super::recurrence::Snapshot;
use super::{ReplayError, differs};
use crate::oracle::mutex::Violation;
use crate::stage::{Action, Effect, Envelope, Payload, Refused, Stage, Wish};

/// Who is to lead a group that elects.
pub struct Elects {
    /// Which of the living.
    pub rule: election::Rule,
    /// Who must live if anybody is to lead.
    pub survivors: Option<Survivors>,
}

/// A trace as far as it has been repeated.
pub struct Repeat<'t, P: Protocol> {
    stage: Stage<P>,
    /// None: a group for mutual exclusion.
    elects: Option<Elects>,
    records: &'t [Record],
    next: usize,
    /// Whether links keep the order of messages.
    fifo: bool,
    /// The number on the stage of each message in the trace; of several copies, of one that is still on its way.
    messages: BTreeMap<u64, u64>,
    /// How often the trace has still to tell of a message that it arrives or is lost.
    ends_left: BTreeMap<u64, u32>,
    /// What everything was like where the cycle begins, if there is one.
    cycle: Option<Snapshot<P>>,
    /// Who has entered since the cycle began.
    entered: BTreeSet<ProcessId>,
    /// How many times somebody entered.
    pub entries: u64,
    /// What is wrong.
    pub violations: Vec<Violation>,
}

impl<'t, P: Protocol> Repeat<'t, P> {
    /// Nothing has been repeated yet.
    pub fn new(stage: Stage<P>, fifo: bool, records: &'t [Record], elects: Option<Elects>) -> Self {
        let mut ends_left = BTreeMap::new();
        for record in records {
            if let Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } | Event::Drop { msg, .. } = record.event {
                *ends_left.entry(msg).or_default() += 1;
            }
        }
        Repeat {
            stage,
            elects,
            records,
            next: 0,
            fifo,
            messages: BTreeMap::new(),
            ends_left,
            cycle: None,
            entered: BTreeSet::new(),
            entries: 0,
            violations: Vec::new(),
        }
    }

    /// What there is now.
    #[cfg(test)]
    pub fn stage(&self) -> &Stage<P> {
        &self.stage
    }

    /// Whether a message of the trace, or a copy of it, is in flight.
    #[cfg(test)]
    pub fn is_on_its_way(&self, msg: u64) -> bool {
        self.messages.get(&msg).is_some_and(|&message| self.stage.message(message).is_some())
    }

    /// Repeats all records, and remembers what everything was like at record `cycle_from`.
    pub fn play(&mut self, cycle_from: Option<u64>) -> Result<(), ReplayError> {
        for process in 0..self.stage.processes().len() {
            self.script();
            let effects = self.stage.start_one(process);
            self.compare(process, effects)?;
        }
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

    fn snapshot(&self) -> Snapshot<P> {
        let on_their_way = self.stage.in_flight().iter().filter_map(|envelope| match &envelope.payload {
            Payload::Protocol(message) => Some((envelope.from, envelope.to, message.clone())),
            Payload::App(_) => None,
        });
        let timers = self.stage.timers().map(|(process, timer, _)| (process, timer)).collect();
        let phases = (self.stage.waiting().clone(), self.stage.inside().clone());
        Snapshot::new(self.stage.processes(), on_their_way.collect(), timers, phases)
    }

    /// Whether what the trace says of the end is so: somebody waits and nothing can happen, or it waits for ever while
    /// the same happens again and again, or those who live do not agree on a leader.
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
                let detail = format!("{} for ever: all is as it was, and can happen again and again", name(starving));
                self.violations.push(("liveness", detail));
            }
        } else if let Some(at) = self.who_disagrees() {
            let detail = format!("P{at} does not follow the one that is to lead");
            self.violations.push(("liveness", detail));
        } else if let (Some(end @ ("finished" | "limit")), None) = (end, &self.elects) {
            // Things still happen, in vain: a counterexample would have to show that by a cycle, but a run has an end.
            let who = match waiting.is_empty() {
                true => (end == "limit").then(|| "not everybody has asked".into()),
                false => Some(name(waiting)),
            };
            let detail = who.map(|who| ("liveness", format!("{who}, and the run has come to its end")));
            self.violations.extend(detail);
        }
    }

    /// What has been watched, without a violation. That a counterexample ends while somebody waits says nothing.
    pub fn held(&self, counterexample: bool) -> Vec<&'static str> {
        let elects = self.elects.is_some();
        let served = if elects { self.who_disagrees().is_none() } else { self.stage.waiting().is_empty() };
        let watched = [
            ("safety", true),
            ("liveness", served && !counterexample),
            ("order", !elects && self.stage.watches_order()),
            ("fence", !elects),
        ];
        let violated = |property| self.violations.iter().any(|(found, _)| *found == property);
        let held = |&(property, watched): &(&'static str, bool)| watched && !violated(property);
        watched.iter().filter(|property| held(property)).map(|(property, _)| *property).collect()
    }

    /// One of the living that does not believe in the leader that is to be.
    fn who_disagrees(&self) -> Option<ProcessId> {
        let Elects { rule, survivors } = self.elects.as_ref()?;
        let lives = |process: &ProcessId| self.stage.is_up(*process);
        let clients = || (0..self.stage.clients()).filter(lives);
        let enough = |Survivors { among, least, .. }: &Survivors| among.clone().filter(lives).count() >= *least;
        let best = rule.best(clients());
        // With too few nobody can be elected, which is what is wrong, or somebody is believed in nonetheless.
        let too_few = !survivors.as_ref().is_none_or(enough);
        clients().find(|&at| too_few || self.stage.leader(at) != best)
    }

    /// Lets happen what a record tells of. Records that tell of nothing that happens to a process are passed over.
    fn repeat(&mut self, record: &Record) -> Result<(), ReplayError> {
        let processes = self.stage.processes().len();
        let Some(process) = record.p.filter(|&process| process < processes) else {
            return match record.p {
                Some(_) => Err(differs(record, format!("that there are {processes} processes"))),
                None => Ok(()),
            };
        };
        if let Some(wish) = self.wish(&record.event) {
            let clients = self.stage.clients();
            if process >= clients {
                return Err(differs(record, format!("that only P0 to P{} may ask", clients - 1)));
            }
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
                self.compare(process, effects)
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
            Event::Send { .. } | Event::Enter { .. } | Event::Elected { .. } | Event::Choice { .. } => {
                Err(differs(record, "nothing of the kind".into()))
            }
            _ => Ok(()),
        }
    }

    /// What a user asks for by this event, if it is a command.
    fn wish(&self, event: &Event) -> Option<Wish> {
        match (event, &self.elects) {
            (Event::Request { .. }, None) => Some(Wish::Request),
            (Event::Request { .. }, Some(_)) => Some(Wish::Elect),
            (Event::Exit { .. }, None) => Some(Wish::Release),
            _ => None,
        }
    }

    /// The message that arrives, if it can.
    fn arrival(&mut self, record: &Record, process: ProcessId, msg: u64) -> Result<u64, ReplayError> {
        let unsent = || differs(record, "that nobody has sent it".into());
        let number = *self.messages.get(&msg).ok_or_else(unsent)?;
        let envelope = self.stage.message(number);
        let envelope = envelope.ok_or_else(|| differs(record, "that it is not on its way any more".into()))?;
        let is_app = matches!(envelope.payload, Payload::App(_));
        if is_app != matches!(record.event, Event::AppDeliver { .. }) {
            return Err(unsent());
        }
        if envelope.to != process {
            return Err(differs(record, format!("that it was sent to P{}", envelope.to)));
        }
        // A copy that comes late is no reason to wait: its original has arrived in its turn.
        let is_original = |other: &Envelope<P::Message>| other.id == other.original;
        if self.fifo && !is_app && self.stage.earlier_on_its_link(envelope).any(is_original) {
            return Err(differs(record, "that an earlier message on this link is still on its way".into()));
        }
        self.end(msg, number);
        Ok(number)
    }

    /// A message is about to arrive or to be lost. If the trace tells of that once more, a copy stays behind.
    fn end(&mut self, msg: u64, number: u64) {
        let left = self.ends_left.entry(msg).or_default();
        *left = left.saturating_sub(1);
        if *left > 0
            && let Ok(effects) = self.stage.apply(&Action::Duplicate { message: number })
        {
            let copies = effects.into_iter().filter_map(|effect| match effect {
                Effect::Copied(copy) => Some((msg, copy.id)),
                _ => None,
            });
            self.messages.extend(copies);
        }
    }

    /// A message is lost; on the stage it may be lost already, since its sender or its receiver has crashed.
    fn lose(&mut self, msg: u64) {
        if let Some(&message) = self.messages.get(&msg)
            && self.stage.message(message).is_some()
        {
            self.end(msg, message);
            // It is on its way, and so cannot be refused.
            let _ = self.stage.apply(&Action::Drop { message });
        }
    }

    fn apply(&mut self, record: &Record, process: ProcessId, action: Action) -> Result<(), ReplayError> {
        let effects = self.effects(record, &action)?;
        self.compare(process, effects)
    }

    fn effects(&mut self, record: &Record, action: &Action) -> Result<Vec<Effect<P>>, ReplayError> {
        self.script();
        self.stage.apply(action).map_err(|refused| match refused {
            Refused::NoTimer { .. } => differs(record, "that no such timer runs".into()),
            refused => differs(record, format!("that {refused}")),
        })
    }

    /// The next step chooses as the trace says.
    fn script(&mut self) {
        let mut script = Vec::new();
        while let Some(Event::Choice { chosen, .. }) = self.records.get(self.next).map(|record| &record.event) {
            script.push(*chosen);
            self.next += 1;
        }
        // A script is never refused.
        let _ = self.stage.apply(&Action::Choose { script });
    }

    /// The next records must tell of what a step has sent and told.
    fn compare(&mut self, process: ProcessId, effects: Vec<Effect<P>>) -> Result<(), ReplayError> {
        for effect in effects {
            match effect {
                Effect::Sent { message: Envelope { id, to, payload: Payload::Protocol(message), .. }, .. } => {
                    self.sent(process, to, id, &message)?;
                }
                Effect::Granted { fence, asked, .. } => {
                    let told = |event: &Event| matches!(event, Event::Enter { fence: traced, .. } if *traced == fence);
                    let expected = || format!("P{process}: {:?}", mutex::Event::Granted { fence });
                    if asked {
                        self.heard(process, told, expected)?;
                        self.entries += 1;
                        self.entered.insert(process);
                    } else {
                        // Some tell of such a grant as an entry, some only of the violation.
                        let told = |record: &&Record| record.p == Some(process) && told(&record.event);
                        self.next += usize::from(self.records.get(self.next).filter(told).is_some());
                    }
                }
                Effect::Elected { leader, term, .. } => {
                    let told = |event: &Event| matches!(event, Event::Elected { leader: l, term: t } if (*l, *t) == (leader, term));
                    self.heard(process, told, || {
                        format!("P{process}: {:?}", election::Event::Elected { leader, term })
                    })?;
                }
                Effect::Violated { property, detail } => self.violations.push((property, detail)),
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

    /// The next record that tells of an output; what oracles and networks added in between is passed over.
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
