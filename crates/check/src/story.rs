//! Describes a run step by step: as lines for people and as the records of a trace, both from the same calls.

use baton_protocol::{Message, ProcessId, Protocol};
use baton_trace::{DropReason, Event, Record, Recorder};

use crate::explore::Violation;
use crate::network::{Channel, Flight};
use crate::system::{Action, Content, Stimulus, System, User};

/// The description so far. It begins with the start of the group, which is no step.
pub struct Story {
    steps: usize,
    /// Number of ticks in the last line.
    ticks: usize,
    /// The ticks so far, if the records have ticks as their time. Otherwise the records have steps.
    time: Option<usize>,
    lines: Vec<String>,
    recorder: Recorder<Vec<Record>>,
    /// Whether each process has requested and was not granted yet.
    waiting: Vec<bool>,
    letters_sent: u64,
    /// The messages in flight.
    letters: Vec<Letter>,
    /// The record at which the cycle begins.
    cycle_from: Option<u64>,
}

/// A complete description.
pub struct Told {
    /// For people.
    pub lines: Vec<String>,
    /// For a trace.
    pub records: Vec<Record>,
    /// The record at which the cycle begins, if the run goes round for ever.
    pub cycle_from: Option<u64>,
    /// Whether the records have ticks as their time, and not steps.
    pub by_the_clock: bool,
}

/// A message in flight.
#[derive(Clone, Copy)]
struct Letter {
    route: Route,
    msg: u64,
}

/// What distinguishes a message in flight from others.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Route {
    channel: Channel,
    from: ProcessId,
    to: ProcessId,
    payload: u32,
}

impl Story {
    pub fn new(processes: usize) -> Self {
        Story {
            steps: 0,
            ticks: 0,
            time: None,
            lines: Vec::new(),
            recorder: Recorder::new(Vec::new(), processes),
            waiting: vec![false; processes],
            letters_sent: 0,
            letters: Vec::new(),
            cycle_from: None,
        }
    }

    /// A description whose records have ticks as their time, for models with time.
    pub fn by_the_clock(processes: usize) -> Self {
        Story { time: Some(0), ..Story::new(processes) }
    }

    /// The user requests the critical section.
    pub fn request(&mut self, p: ProcessId) {
        self.step(format!("P{p} asks"));
        self.waiting[p] = true;
        let req = self.recorder.number_request(p);
        self.record(Some(p), Event::request(req));
    }

    /// The user leaves the critical section.
    pub fn exit(&mut self, p: ProcessId) {
        self.step(format!("P{p} leaves"));
        self.record(Some(p), Event::Exit { req: self.recorder.latest_request(p) });
    }

    /// The detector reports a crash, rightly or wrongly.
    pub fn suspect(&mut self, p: ProcessId, peer: ProcessId, wrongly: bool) {
        let wrongly = if wrongly { "wrongly " } else { "" };
        self.step(format!("P{p} {wrongly}suspects P{peer}"));
        self.record(Some(p), Event::Suspect { peer });
    }

    /// Part of a step: a heartbeat of a suspected process arrives.
    pub fn trusts_again(&mut self, p: ProcessId, peer: ProcessId) {
        self.also(&format!("P{p} trusts P{peer} again"));
        self.record(Some(p), Event::Trust { peer });
    }

    /// The following steps repeat for ever.
    pub fn cycle_begins(&mut self) {
        self.lines.push("    and from here on, again and again:".into());
        self.cycle_from = Some(self.recorder.next_seq());
    }

    /// Part of a step: the user enters the critical section.
    pub fn enter(&mut self, p: ProcessId, fence: u64) {
        self.also(&format!("P{p} enters (fence {fence})"));
        if !std::mem::take(&mut self.waiting[p]) {
            // A process that has not requested does not enter. The trace shows this as a violation.
            return;
        }
        self.record(Some(p), Event::Enter { req: self.recorder.latest_request(p), fence });
    }

    /// Part of a step: the process is no longer in the critical section, although it has not left.
    pub fn lost(&mut self, p: ProcessId) {
        self.also(&format!("P{p} loses it"));
        self.record(Some(p), Event::Lost { req: self.recorder.latest_request(p) });
    }

    /// Part of a step: the process believes in a leader.
    pub fn elected(&mut self, p: ProcessId, leader: Option<ProcessId>, term: Option<u64>) {
        match leader {
            Some(leader) if leader == p => self.also(&format!("P{p} leads")),
            Some(leader) => self.also(&format!("P{p} follows P{leader}")),
            None => self.also(&format!("P{p} has no leader")),
        }
        self.record(Some(p), Event::Elected { leader, term });
    }

    /// A process has crashed before the first step.
    pub fn crash(&mut self, p: ProcessId) {
        self.lines.push(format!("    P{p} has crashed"));
        self.record(Some(p), Event::Crash);
    }

    /// Ends the description with the violation.
    pub fn end(mut self, violation: &Violation) -> Told {
        let property = violation.property.to_string();
        self.lines.push(format!("    {property}: {}", violation.detail));
        self.record(None, Event::Violation { property, detail: violation.detail.clone() });
        let (now, by_the_clock) = (self.now(), self.time.is_some());
        let records = self.recorder.finish(now, "violation");
        Told { lines: self.lines, records, cycle_from: self.cycle_from, by_the_clock }
    }

    /// Describes what `action` does. `locals` are the local states before.
    pub fn tell<P: Protocol, U: User<P>>(&mut self, system: &System<P, U>, locals: &[u32], action: &Action<U::Act>) {
        match *action {
            Action::Tick => self.tick(),
            Action::Lost { flight, reason } => self.lose(system, flight, reason),
            Action::Start(ref outcomes) => {
                for (at, &outcome) in outcomes.iter().enumerate() {
                    self.consequences(system, at, outcome);
                }
                if let Some(crashed) = system.rules.crashed {
                    self.crash(crashed);
                }
            }
            Action::Step { at, stimulus, outcome, copied } => {
                let at = usize::from(at);
                match stimulus {
                    Stimulus::Act(act) => U::tell_act(self, at, act),
                    Stimulus::AppSend { to } => self.step(format!("P{at} sends P{to} an application message")),
                    Stimulus::Deliver { from, payload } => self.deliver(system, from.into(), at, payload, copied),
                    Stimulus::Timer(place) => {
                        let (timer, left) = &system.local(locals[at]).timers[usize::from(place)];
                        let name = format!("{timer:?}");
                        let early = if *left > 0 { ", too early" } else { "" };
                        self.step(format!("P{at} timer {name}{early}"));
                        self.record(Some(at), Event::Timer { name });
                    }
                    Stimulus::Suspect { peer, wrongly } => self.suspect(at, peer.into(), wrongly),
                    Stimulus::Trust { peer, .. } => {
                        self.step(format!("P{at} trusts P{peer} again"));
                        self.record(Some(at), Event::Trust { peer: peer.into() });
                    }
                    Stimulus::Crash => {
                        self.step(format!("P{at} crashes"));
                        self.waiting[at] = false;
                        self.record(Some(at), Event::Crash);
                    }
                    Stimulus::Recover { memory, .. } => {
                        self.drop_those_of(at);
                        self.step(format!("P{at} recovers{}", if memory { "" } else { " without memory" }));
                        self.record(Some(at), Event::Recover { memory });
                    }
                    Stimulus::Start | Stimulus::Tick => {}
                }
                self.consequences(system, at, outcome);
            }
        }
    }

    fn lose<P: Protocol, U: User<P>>(&mut self, system: &System<P, U>, flight: Flight, reason: DropReason) {
        let (from, to) = (flight.from, flight.to);
        let what = match &system.payload(flight.payload).content {
            Content::Protocol(message) => describe(message),
            Content::App(_) => "application message".into(),
        };
        let route = Route { channel: flight.channel, from: from.into(), to: to.into(), payload: flight.payload };
        let Letter { msg, .. } = self.take(route, false);
        self.step(match reason {
            DropReason::Crashed => format!("P{from} -> P{to} {what} is lost, because P{to} is down"),
            DropReason::Loss | DropReason::Partition => format!("P{from} -> P{to} {what} is lost"),
        });
        self.record(Some(to.into()), Event::Drop { msg, reason });
    }

    /// A message to or from a process that recovers belongs to its earlier incarnation, and does not arrive.
    fn drop_those_of(&mut self, process: ProcessId) {
        let of_earlier_life = |letter: &Letter| letter.route.from == process || letter.route.to == process;
        let dropped: Vec<(ProcessId, u64)> = self
            .letters
            .iter()
            .filter(|letter| of_earlier_life(letter))
            .map(|letter| (letter.route.to, letter.msg))
            .collect();
        self.letters.retain(|letter| !of_earlier_life(letter));
        for (to, msg) in dropped {
            self.record(Some(to), Event::Drop { msg, reason: DropReason::Crashed });
        }
    }

    /// Takes the message that arrives. If `copied`, the message stays in flight and arrives once more later.
    fn take(&mut self, route: Route, copied: bool) -> Letter {
        let place = self.letters.iter().position(|letter| letter.route == route).expect("what arrives has been sent");
        if copied { self.letters[place] } else { self.letters.remove(place) }
    }

    fn consequences<P: Protocol, U: User<P>>(&mut self, system: &System<P, U>, at: ProcessId, outcome: u32) {
        let outcome = system.outcome(outcome);
        for choice in &outcome.choices {
            self.also(&format!("chooses {} of {}", choice.chosen, choice.of));
            self.record(Some(at), Event::Choice { of: choice.of, chosen: choice.chosen });
        }
        let mut events = outcome.events.iter().peekable();
        for sent in 0..=outcome.sends.len() {
            while let Some((_, event)) = events.next_if(|(after, _)| *after == sent) {
                U::tell_event(self, at, event);
            }
            if let Some(&(to, channel, payload)) = outcome.sends.get(sent) {
                self.send(system, Route { channel, from: at, to: to.into(), payload });
            }
        }
    }

    fn send<P: Protocol, U: User<P>>(&mut self, system: &System<P, U>, route: Route) {
        let (msg, to) = (self.letters_sent, route.to);
        self.letters_sent += 1;
        match &system.payload(route.payload).content {
            Content::Protocol(message) => {
                let bytes = postcard::to_allocvec(message).map_or(0, |bytes| bytes.len() as u64);
                self.record(Some(route.from), Event::send(msg, to, message, bytes));
            }
            Content::App(_) => self.record(Some(route.from), Event::AppSend { msg, to }),
        }
        if system.rules.crashed == Some(to) {
            self.record(Some(to), Event::Drop { msg, reason: DropReason::Crashed });
        } else {
            self.letters.push(Letter { route, msg });
        }
    }

    fn deliver<P: Protocol, U: User<P>>(
        &mut self,
        system: &System<P, U>,
        from: ProcessId,
        to: ProcessId,
        payload: u32,
        copied: bool,
    ) {
        let content = &system.payload(payload).content;
        let channel = if matches!(content, Content::App(_)) { Channel::App } else { Channel::Protocol };
        let Letter { msg, .. } = self.take(Route { channel, from, to, payload }, copied);
        match content {
            Content::Protocol(message) => {
                let again = if copied { ", and will arrive again" } else { "" };
                self.step(format!("P{from} -> P{to} {}{again}", describe(message)));
                self.record(Some(to), Event::Deliver { msg, from, kind: message.kind().into() });
            }
            Content::App(_) => {
                self.step(format!("P{from} -> P{to} application message"));
                self.record(Some(to), Event::AppDeliver { msg, from });
            }
        }
    }

    /// Consecutive ticks are one line, with the numbers of the first and of the last of these steps.
    fn tick(&mut self) {
        let ticks = self.ticks + 1;
        if ticks == 1 {
            self.step("a tick passes".into());
        } else {
            self.steps += 1;
            self.lines.pop();
            let first = self.steps + 1 - ticks;
            self.lines.push(format!("{:<3} {ticks} ticks pass", format!("{first}-{}", self.steps)));
        }
        self.ticks = ticks;
        self.time = self.time.map(|time| time + 1);
    }

    fn step(&mut self, what: String) {
        self.steps += 1;
        self.ticks = 0;
        self.lines.push(format!("{:<3} {what}", self.steps));
    }

    fn also(&mut self, what: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.push_str("; ");
            line.push_str(what);
        }
    }

    fn record(&mut self, p: Option<ProcessId>, event: Event) {
        self.recorder.record(self.now(), p, event);
    }

    /// The time of records.
    fn now(&self) -> f64 {
        self.time.unwrap_or(self.steps) as f64
    }
}

/// A message as people see it: `REPLY {time: 3, request: 1}`.
fn describe<M: Message>(message: &M) -> String {
    let (kind, json) = (message.kind(), serde_json::to_string(message).unwrap_or_default());
    // A message type that is a unit struct has no body.
    let json = if json == "null" { String::new() } else { json };
    let body = body(&json).replace('"', "").replace(':', ": ").replace(',', ", ").replace("null", "none");
    if body.is_empty() { kind.to_string() } else { format!("{kind} {body}") }
}

/// The contents of a message without the names of types. JSON shows a variant as an object with the variant's name as
/// its only key. This name begins with a capital letter, and no field does. A variant without contents is only the
/// name.
fn body(json: &str) -> &str {
    let key = json.strip_prefix("{\"").and_then(|rest| rest.split_once("\":"));
    match key.filter(|(key, _)| key.starts_with(char::is_uppercase)) {
        Some((_, inside)) => body(inside.strip_suffix('}').unwrap_or(inside)),
        None if json.starts_with('"') => "",
        None => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_a_message_has_no_names_of_types() {
        assert_eq!(body(r#"{"Request":{"stamp":{"time":1},"wish":"Idle"}}"#), r#"{"stamp":{"time":1},"wish":"Idle"}"#);
        assert_eq!(body(r#"{"Election":{"Election":{"id":0}}}"#), r#"{"id":0}"#);
        assert_eq!([r#"{"Ask":7}"#, r#"{"Election":"Ok"}"#, r#""Request""#].map(body), ["7", "", ""]);
    }
}
