//! Writes the actions on a stage and their effects as the records of a trace. So a run that a caller drives by hand can
//! be drawn, judged and replayed like any other.
//!
//! A stage has no time: the time of a record is the number of its action, from 1 on. The start has time 0.

use baton_protocol::{Message, ProcessId, Protocol};
use baton_trace::{Action, DropReason, Event, Record, Recorder, Wish};

use super::{Effect, Envelope, Payload};

/// Collects the records of one run.
#[derive(Debug)]
pub struct StageRecorder {
    recorder: Recorder<Vec<Record>>,
    /// Actions so far.
    actions: u64,
}

impl StageRecorder {
    pub fn new(processes: usize) -> Self {
        StageRecorder { recorder: Recorder::new(Vec::new(), processes), actions: 0 }
    }

    /// The start of the group.
    pub fn start<P: Protocol>(&mut self, effects: &[Effect<P>]) {
        effects.iter().for_each(|effect| self.effect(effect, DropReason::Crashed));
    }

    /// An action that the stage has carried out, and its effects.
    pub fn action<P: Protocol>(&mut self, action: &Action, effects: &[Effect<P>]) {
        if let Action::Choose { .. } = action {
            return;
        }
        self.actions += 1;
        self.cause(action);
        // The causes that only the effects know: the message that arrives, and the number of an application message.
        let is_cause = |effect: &&Effect<P>| match effect {
            Effect::Delivered(_) => true,
            Effect::Sent { message, .. } => matches!(message.payload, Payload::App(_)),
            _ => false,
        };
        let reason = match action {
            Action::Drop { .. } => DropReason::Loss,
            _ => DropReason::Crashed,
        };
        effects.iter().filter(is_cause).for_each(|effect| self.effect(effect, reason));
        // A replay expects the choices right after their cause.
        let is_choice = |effect: &&Effect<P>| matches!(effect, Effect::Chose { .. });
        effects.iter().filter(is_choice).for_each(|effect| self.effect(effect, reason));
        let others = effects.iter().filter(|effect| !is_cause(effect) && !is_choice(effect));
        let mut at = None;
        for effect in others {
            at = happens_at(effect).or(at);
            match effect {
                Effect::Violated { property, detail } => {
                    self.record(at, Event::Violation { property: (*property).into(), detail: detail.clone() });
                }
                _ => self.effect(effect, reason),
            }
        }
    }

    pub fn records(&self) -> &[Record] {
        self.recorder.records()
    }

    /// All records, and a last record `end`. A replay demands one.
    pub fn finish(self, reason: &str) -> Vec<Record> {
        self.recorder.finish(self.actions as f64, reason)
    }

    fn cause(&mut self, action: &Action) {
        let (process, event) = match action {
            Action::User { process, wish: Wish::Request | Wish::Elect } => {
                (process, Event::request(self.recorder.number_request(*process)))
            }
            Action::User { process, wish: Wish::Append(_) } => {
                (process, Event::Append { req: self.recorder.number_request(*process) })
            }
            Action::User { process, wish: Wish::Release } => (process, Event::Exit { req: self.latest(*process) }),
            Action::Timer { process, name } => (process, Event::Timer { name: name.clone() }),
            Action::Suspect { by, of } => (by, Event::Suspect { peer: *of }),
            Action::Trust { by, of } => (by, Event::Trust { peer: *of }),
            Action::Crash { process } => (process, Event::Crash),
            Action::Recover { process, memory } => (process, Event::Recover { memory: *memory }),
            // The effects have the records of these. A copy gets a record when it arrives or is lost.
            Action::Deliver { .. } | Action::Drop { .. } | Action::Duplicate { .. } | Action::Forge { .. } => return,
            Action::App { .. } | Action::Choose { .. } => return,
        };
        self.record(Some(*process), event);
    }

    fn effect<P: Protocol>(&mut self, effect: &Effect<P>, reason: DropReason) {
        match effect {
            Effect::Chose { process, choice } => {
                self.record(Some(*process), Event::Choice { of: choice.of, chosen: choice.chosen });
            }
            Effect::Sent { message, lost } => {
                self.send(message);
                if *lost {
                    self.lose(message, DropReason::Crashed);
                }
            }
            Effect::Delivered(envelope) => self.deliver(envelope),
            Effect::Lost(envelope) => self.lose(envelope, reason),
            Effect::Granted { process, fence, asked: true } => {
                self.record(Some(*process), Event::Enter { req: self.latest(*process), fence: *fence });
            }
            Effect::Revoked { process } => {
                self.record(Some(*process), Event::Lost { req: self.latest(*process) });
            }
            Effect::Appended { process, offset, asked: true } => {
                self.record(Some(*process), Event::Appended { req: self.latest(*process), offset: *offset });
            }
            Effect::Elected { process, leader, term } => {
                self.record(Some(*process), Event::Elected { leader: *leader, term: *term });
            }
            Effect::Suspected { process, peer } => self.record(Some(*process), Event::Suspect { peer: *peer }),
            Effect::Trusted { process, peer } => self.record(Some(*process), Event::Trust { peer: *peer }),
            // A trace has no event for these, or their action has one.
            Effect::Granted { asked: false, .. } | Effect::Appended { asked: false, .. } | Effect::Copied(_) => {}
            Effect::TimerSet { .. } | Effect::TimerCancelled { .. } | Effect::Ready { .. } => {}
            Effect::Crashed { .. } | Effect::Recovered { .. } | Effect::Violated { .. } => {}
        }
    }

    fn send<M: Message>(&mut self, Envelope { original, from, to, payload, .. }: &Envelope<M>) {
        let event = match payload {
            Payload::Protocol(message) => {
                let bytes = postcard::to_allocvec(message).map_or(0, |bytes| bytes.len() as u64);
                Event::send(*original, *to, message, bytes)
            }
            Payload::App(_) => Event::AppSend { msg: *original, to: *to },
        };
        self.record(Some(*from), event);
    }

    fn deliver<M: Message>(&mut self, Envelope { original, from, to, payload, .. }: &Envelope<M>) {
        let event = match payload {
            Payload::Protocol(message) => Event::Deliver { msg: *original, from: *from, kind: message.kind().into() },
            Payload::App(_) => Event::AppDeliver { msg: *original, from: *from },
        };
        self.record(Some(*to), event);
    }

    fn lose<M>(&mut self, Envelope { original, to, .. }: &Envelope<M>, reason: DropReason) {
        self.record(Some(*to), Event::Drop { msg: *original, reason });
    }

    fn latest(&self, process: ProcessId) -> u64 {
        self.recorder.latest_request(process)
    }

    fn record(&mut self, p: Option<ProcessId>, event: Event) {
        self.recorder.record(self.actions as f64, p, event);
    }
}

/// The process whose event an oracle may find wrong.
fn happens_at<P: Protocol>(effect: &Effect<P>) -> Option<ProcessId> {
    match effect {
        Effect::Granted { process, .. } | Effect::Elected { process, .. } | Effect::Appended { process, .. } => {
            Some(*process)
        }
        Effect::Suspected { process, .. } => Some(*process),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Group;
    use baton_protocol::append::Append;
    use baton_protocol::election::Election;
    use baton_protocol::mutex::Mutex;
    use baton_protocol::registry::{self, About, Family, Params, Visitor};
    use baton_trace::{Header, TracedOrder, Unit};

    use crate::replay::replay;
    use crate::stage::{Rules, Stage};

    use super::*;

    /// Random actions under generous rules, recorded.
    struct Driven {
        params: Params,
        seed: u64,
    }

    impl Driven {
        fn go<P: Protocol>(self, header: Header, mut stage: Stage<P>) -> (Header, Vec<Record>, Vec<(String, String)>) {
            let rules = Rules {
                fifo: header.network.order == Some(TracedOrder::Fifo),
                losses: 2,
                duplicates: 2,
                crashes: 2,
                recoveries: 2,
                mistakes: 1,
                app_messages: 2,
                ..Rules::default()
            };
            let mut random = fastrand::Rng::with_seed(self.seed);
            let mut recorder = StageRecorder::new(header.processes);
            recorder.start(&stage.start());
            let mut violations = Vec::new();
            for _ in 0..80 {
                let choose = Action::Choose { script: vec![random.usize(..2)] };
                stage.apply(&choose).unwrap();
                let enabled = stage.enabled(&rules);
                let Some(action) = random.choice(&enabled) else { break };
                let effects = stage.apply(action).unwrap();
                violations.extend(effects.iter().filter_map(|effect| match effect {
                    Effect::Violated { property, detail } => Some(((*property).to_owned(), detail.clone())),
                    _ => None,
                }));
                recorder.action(action, &effects);
            }
            (header, recorder.finish("limit"), violations)
        }

        fn header<P>(&self, about: &'static About, group: &Group<P>) -> Header {
            let order = if about.assumes.fifo { TracedOrder::Fifo } else { TracedOrder::Unordered };
            let mut header = Header::new(about, &self.params, group.processes, &group.topology, Unit::T);
            header.network.order = Some(order);
            header
        }
    }

    impl Visitor for Driven {
        type Output = Option<(Header, Vec<Record>, Vec<(String, String)>)>;

        fn unsupported(self, _: &'static About) -> Self::Output {
            None
        }

        fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
            let header = self.header(about, &group);
            Some(self.go(header, Stage::mutex(group)))
        }

        fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
            let header = self.header(about, &group);
            Some(self.go(header, Stage::election(group)))
        }

        fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
            let header = self.header(about, &group);
            Some(self.go(header, Stage::append(group)))
        }
    }

    /// A replay compares every message and every grant, so it finds any record that is missing or in a wrong place.
    #[test]
    fn a_run_by_hand_can_be_replayed_and_violates_the_same() {
        let mut violated = 0;
        for about in registry::ALGORITHMS.iter().filter(|about| about.family != Family::Detector) {
            for seed in 0..6 {
                let params = Params::new(3, 1);
                let driven = registry::visit(about.name, &params, Driven { params: params.clone(), seed }).unwrap();
                let (header, records, violations) = driven.unwrap();
                let replayed =
                    replay(&header, &records).unwrap_or_else(|error| panic!("{}, {seed}: {error}", about.name));
                let found: Vec<(String, String)> =
                    replayed.violations.into_iter().map(|(property, detail)| (property.to_owned(), detail)).collect();
                assert_eq!(found, violations, "{}, seed {seed}", about.name);
                violated += usize::from(!violations.is_empty());
                let seqs: Vec<u64> = records.iter().map(|record| record.seq).collect();
                assert!(seqs.iter().copied().eq(0..records.len() as u64));
            }
        }
        assert!(violated > 5, "too few runs with a violation: {violated}");
    }
}
