//! What users can do with a world, and what happens to messages between the processes.

use std::io;
use std::ops::Range;

use baton_protocol::{Message, ProcessId, Protocol, Ticks};
use baton_trace::{DropReason, Event};

use super::{Demand, Envelope, Scheduled, Status, Wire};
use crate::clocks::Clocks;
use crate::faults::{Cut, FaultKind};
use crate::metrics::Messages;
use crate::oracle::causality::Causality;
use crate::queue::Class;
use crate::time::in_t;

impl<P: Protocol, X> Wire<P, X> {
    pub fn now(&self) -> Ticks {
        self.now
    }

    /// The counts of sent messages.
    pub fn messages(&mut self) -> &mut Messages {
        &mut self.messages
    }

    /// Number of messages that have arrived.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Number of messages on their way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// When the last message arrived.
    pub fn last_arrival(&self) -> Ticks {
        self.last_arrival
    }

    /// None if the run does not track happened-before.
    pub fn causality(&mut self) -> Option<&mut Causality> {
        self.causality.as_mut()
    }

    /// The local clock of each process.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Ends the trace, if the run writes one. Returns the first error of all writes.
    pub fn finish_trace(&mut self, reason: &str) -> io::Result<()> {
        self.recorder.take().map_or(Ok(()), |recorder| recorder.finish(in_t(self.now), reason))
    }

    /// Whether `process` has not crashed. A paused process is up.
    pub fn is_up(&self, process: ProcessId) -> bool {
        self.status[process] != Status::Down
    }

    #[cfg(test)]
    pub fn running_timers(&self) -> impl Iterator<Item = (ProcessId, P::Timer)> {
        self.timers.keys().copied()
    }

    /// Whether `process` accepts commands; see [`Protocol::is_ready`].
    pub fn is_ready(&self, process: ProcessId) -> bool {
        !self.catching_up.contains(&process)
    }

    /// Gives `process` a command at once. Messages of a command of class [`Class::Exit`] count as exit messages.
    pub fn command(&mut self, process: ProcessId, command: P::Command, class: Class) {
        self.demands.push(Demand::Command { process, command, class });
    }

    /// Sends an application message at once.
    pub fn app_send(&mut self, from: ProcessId, to: ProcessId) {
        self.demands.push(Demand::AppSend { from, to });
    }

    /// The failure detector of `process` suspects `peer` at once.
    pub fn suspect(&mut self, process: ProcessId, peer: ProcessId) {
        self.demands.push(Demand::Suspect { process, peer });
    }

    /// Plans an action of `process`, `after` from now.
    pub fn plan(&mut self, after: Ticks, class: Class, process: ProcessId, plan: X) {
        self.queue.insert(self.now + after, class, Scheduled::Plan { process, plan });
    }

    pub fn plan_crash(&mut self, after: Ticks, process: ProcessId) {
        self.queue.insert(self.now + after, Class::Fault, Scheduled::Fault(FaultKind::Crash(process)));
    }

    /// The process recovers without its memory.
    pub fn plan_recovery(&mut self, after: Ticks, process: ProcessId) {
        let recovery = FaultKind::Recover { process, memory: false };
        self.queue.insert(self.now + after, Class::Fault, Scheduled::Fault(recovery));
    }

    /// Writes an event of `process` to the trace, if the run writes one.
    pub fn trace(&mut self, process: ProcessId, event: impl FnOnce() -> Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(in_t(self.now), Some(process), event());
        }
    }

    /// Writes an event that concerns no single process.
    pub fn trace_all(&mut self, event: impl FnOnce() -> Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(in_t(self.now), None, event());
        }
    }

    pub(super) fn send(&mut self, from: ProcessId, to: ProcessId, message: P::Message) {
        // A message without a size could not be sent either. A test checks that every message can be encoded.
        let bytes = postcard::experimental::serialized_size(&message).unwrap_or_default() as u64;
        self.messages.count(message.kind(), bytes);
        self.messages.count_at(from);
        if let Some(request) = message.request(from, to) {
            self.messages.count_for(request);
        }
        let id = self.next_message();
        self.trace(from, || Event::send(id, to, &message, bytes));
        self.dispatch(id, from, to, message, Scheduled::Deliver);
    }

    pub(super) fn send_app(&mut self, from: ProcessId, to: ProcessId, stamp: Option<u64>) {
        let id = self.next_message();
        self.trace(from, || Event::AppSend { msg: id, to });
        self.dispatch(id, from, to, stamp, Scheduled::AppDeliver);
    }

    pub(super) fn next_message(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    pub(super) fn dispatch<M: Clone>(
        &mut self,
        id: u64,
        from: ProcessId,
        to: ProcessId,
        content: M,
        event: impl Fn(Envelope<M>) -> Scheduled<P, X>,
    ) {
        if self.is_cut(from, to) {
            return self.trace(to, || Event::Drop { msg: id, reason: DropReason::Partition });
        }
        let arrivals = self.links.arrivals(self.now, from, to);
        let Some(first) = arrivals.first else {
            return self.trace(to, || Event::Drop { msg: id, reason: DropReason::Loss });
        };
        let past = self.causality.as_ref().map(|causality| causality.of(from));
        self.in_flight += 1;
        if let Some(second) = arrivals.second {
            self.in_flight += 1;
            let (past, content) = (past.clone(), content.clone());
            let envelope = Envelope { id, from: from as u32, to: to as u32, past, content };
            self.queue.insert(second, Class::Delivery, event(envelope));
        }
        let envelope = Envelope { id, from: from as u32, to: to as u32, past, content };
        self.queue.insert(first, Class::Delivery, event(envelope));
    }

    /// Whether a message that is due arrives. It is lost if its link is cut, or if its sender or receiver has recovered
    /// since it was sent.
    pub(super) fn arrive<M>(&mut self, envelope: &Envelope<M>, event: impl Fn(&Envelope<M>) -> Event) -> bool {
        let (from, to) = (envelope.from as ProcessId, envelope.to as ProcessId);
        self.in_flight -= 1;
        if self.is_cut(from, to) {
            self.trace(to, || Event::Drop { msg: envelope.id, reason: DropReason::Partition });
            return false;
        }
        if envelope.id < self.born[to].max(self.born[from]) {
            self.trace(to, || Event::Drop { msg: envelope.id, reason: DropReason::Crashed });
            return false;
        }
        self.last_arrival = self.now;
        self.trace(to, || event(envelope));
        if let (Some(causality), Some(past)) = (&mut self.causality, &envelope.past) {
            causality.receive(to, past);
        }
        true
    }

    /// Drops an event for `process`, which is down.
    pub(super) fn miss(&mut self, process: ProcessId, event: &Scheduled<P, X>) {
        let id = match event {
            Scheduled::Deliver(envelope) => envelope.id,
            Scheduled::AppDeliver(envelope) => envelope.id,
            _ => return,
        };
        self.in_flight -= 1;
        self.trace(process, || Event::Drop { msg: id, reason: DropReason::Crashed });
    }

    pub(super) fn set_timer(&mut self, process: ProcessId, timer: P::Timer, after: Ticks) {
        self.settings += 1;
        let setting = self.settings;
        self.timers.insert((process, timer), setting);
        let after = self.clocks.takes(process, after);
        self.queue.insert(self.now + after, Class::Timer, Scheduled::Timer { process, timer, setting });
    }

    pub(super) fn pause(&mut self, process: ProcessId, lasts: Ticks) {
        if self.status[process] == Status::Up {
            self.status[process] = Status::Paused;
            self.trace(process, || Event::Pause);
            self.queue.insert(self.now + lasts, Class::Fault, Scheduled::Resume(process));
        }
    }

    pub(super) fn cut(&mut self, cut: Cut, lasts: Option<Ticks>) {
        self.trace_all(|| cut.event());
        self.cut.push(cut.clone());
        self.look(0..self.status.len(), 0..self.status.len());
        if let Some(lasts) = lasts {
            self.queue.insert(self.now + lasts, Class::Fault, Scheduled::Heal(cut));
        }
    }

    pub(super) fn heal(&mut self, cut: &Cut) {
        if let Some(index) = self.cut.iter().position(|other| other == cut) {
            self.cut.remove(index);
            self.look(0..self.status.len(), 0..self.status.len());
            // In a trace, a Heal event ends all cuts. So the trace repeats the cuts that remain.
            self.trace_all(|| Event::Heal);
            let events: Vec<Event> = self.cut.iter().map(Cut::event).collect();
            events.into_iter().for_each(|event| self.trace_all(|| event));
        }
    }

    pub(super) fn is_cut(&self, from: ProcessId, to: ProcessId) -> bool {
        !self.cut.is_empty() && self.cut.iter().any(|cut| cut.separates(from, to))
    }

    /// The sides into which cuts divide the live `members` now: the largest sets whose processes all reach each other. A
    /// process that no cut names is on every side. Empty if nothing is cut, or if every process reaches two processes that
    /// a cut keeps apart, as with the cuts `0|1` and `2|3` of four processes.
    pub fn sides(&self, members: usize) -> Vec<Vec<ProcessId>> {
        let apart = |one, other| self.is_cut(one, other) || self.is_cut(other, one);
        let live = || (0..members).filter(|&process| self.is_up(process));
        let mut sides: Vec<Vec<ProcessId>> = Vec::new();
        if self.cut.is_empty() {
            return sides;
        }
        for process in live() {
            let reached: Vec<ProcessId> = live().filter(|&other| !apart(process, other)).collect();
            let is_side = || reached.iter().all(|&one| reached.iter().all(|&other| !apart(one, other)));
            if reached.len() < live().count() && !sides.contains(&reached) && is_side() {
                sides.push(reached);
            }
        }
        sides
    }

    /// The failure detectors of the live `observers` check `peers`. A peer that is up and can be heard is trusted.
    pub(super) fn look(&mut self, observers: Range<ProcessId>, peers: Range<ProcessId>) {
        for process in observers {
            for peer in peers.clone().filter(|&peer| peer != process) {
                if !self.detector.watches(process, peer) {
                    continue;
                }
                // A lease is renewed by a message and its answer.
                let cut = self.is_cut(peer, process) || (self.detector.leases() && self.is_cut(process, peer));
                let heard = self.is_up(peer) && !cut;
                if self.is_up(process)
                    && let Some(at) = self.detector.see(self.now, process, peer, heard)
                {
                    let suspect = Scheduled::Suspect { process, peer };
                    let report = if heard { Scheduled::Trust { process, peer } } else { suspect };
                    self.queue.insert(at, Class::Timer, report);
                }
            }
        }
    }
}
