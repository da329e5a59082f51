//! The actions that are possible next, under given rules.

use baton_protocol::{ProcessId, Protocol};
use baton_trace::{Action, Wish};

use super::{Envelope, Payload, Stage};
use crate::stage::detectors::Change;

/// What the network and the processes may do. The numbers are limits for the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether each link delivers the messages of the protocol in the order of sending.
    pub fifo: bool,
    /// The most messages that the network may lose.
    pub losses: u32,
    /// The most messages that the network may copy.
    pub duplicates: u32,
    pub crashes: u32,
    pub recoveries: u32,
    /// The allowed values of [`Action::Recover`]'s `memory`.
    pub memory: Vec<bool>,
    /// Whether a process recovers only after the detectors of all live processes have reported its crash.
    pub recover_when_told: bool,
    /// The most wrong reports of crashes.
    pub mistakes: u32,
    /// The most messages of the application.
    pub app_messages: u32,
}

/// A reliable network without order: no faults, and no application messages.
impl Default for Rules {
    fn default() -> Self {
        Rules {
            fifo: false,
            losses: 0,
            duplicates: 0,
            crashes: 0,
            recoveries: 0,
            memory: vec![true, false],
            recover_when_told: false,
            mistakes: 0,
            app_messages: 0,
        }
    }
}

/// Faults and application messages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub losses: u32,
    pub duplicates: u32,
    pub crashes: u32,
    pub recoveries: u32,
    pub mistakes: u32,
    /// Messages of the application.
    pub app_messages: u32,
    pub appended: u32,
}

impl<P: Protocol> Stage<P> {
    /// All actions that are possible now under these rules, except [`Action::Choose`]. An action whose step makes
    /// choices stands for all outcomes.
    pub fn enabled(&self, rules: &Rules) -> Vec<Action> {
        let mut actions = self.enabled_but_messages(rules);
        self.in_flight.iter().for_each(|envelope| self.fates(envelope, rules, &mut actions));
        actions
    }

    /// Whether an action is possible now under these rules. Like [`enabled`](Stage::enabled), and much faster.
    /// [`Action::Choose`] is always possible, [`Action::Forge`] never.
    pub fn allows(&self, action: &Action, rules: &Rules) -> bool {
        match action {
            Action::Choose { .. } => true,
            Action::Deliver { message } | Action::Drop { message } | Action::Duplicate { message } => {
                let mut fates = Vec::new();
                self.message(*message).into_iter().for_each(|envelope| self.fates(envelope, rules, &mut fates));
                fates.contains(action)
            }
            _ => self.enabled_but_messages(rules).contains(action),
        }
    }

    /// All actions except those on messages in flight.
    fn enabled_but_messages(&self, rules: &Rules) -> Vec<Action> {
        let mut actions = Vec::new();
        let up = || (0..self.processes.len()).filter(|&process| self.is_up(process));
        for process in up().filter(|&process| process < self.clients) {
            self.wishes(process, &mut actions);
            if self.spent.app_messages < rules.app_messages {
                let others = (0..self.clients).filter(|&to| to != process);
                actions.extend(others.map(|to| Action::App { from: process, to }));
            }
        }
        let timers = self.timers.keys();
        actions.extend(timers.map(|(process, timer)| Action::Timer { process: *process, name: format!("{timer:?}") }));
        if self.spent.crashes < rules.crashes {
            let mortal = up().filter(|&process| Some(process) != self.source);
            actions.extend(mortal.map(|process| Action::Crash { process }));
        }
        self.recoveries(rules, &mut actions);
        up().for_each(|by| self.reports(by, rules, &mut actions));
        actions
    }

    fn wishes(&self, process: ProcessId, actions: &mut Vec<Action>) {
        let appended = Wish::Append(self.spent.appended.into());
        for wish in [Wish::Request, Wish::Release, Wish::Elect, appended] {
            if (self.words.command)(wish).is_some() && self.check_wish(process, wish).is_ok() {
                actions.push(Action::User { process, wish });
            }
        }
    }

    /// The possible fates of a message in flight.
    fn fates(&self, envelope: &Envelope<P::Message>, rules: &Rules, actions: &mut Vec<Action>) {
        let message = envelope.id;
        let has_to_wait = || self.earlier_on_its_link(envelope).next().is_some();
        if rules.fifo && matches!(envelope.payload, Payload::Protocol(_)) && has_to_wait() {
            return;
        }
        actions.push(Action::Deliver { message });
        if self.spent.losses < rules.losses {
            actions.push(Action::Drop { message });
        }
        if self.spent.duplicates < rules.duplicates {
            actions.push(Action::Duplicate { message });
        }
    }

    fn recoveries(&self, rules: &Rules, actions: &mut Vec<Action>) {
        if self.spent.recoveries >= rules.recoveries {
            return;
        }
        for &process in &self.down {
            let untold = |by: ProcessId| match self.words.detects {
                true => self.is_up(by) && !self.suspects(by, process),
                false => {
                    self.is_up(by) && self.watches(by, process) && self.detectors.next_report(by, process).is_some()
                }
            };
            if !(rules.recover_when_told && (0..self.processes.len()).any(untold)) {
                actions.extend(rules.memory.iter().map(|&memory| Action::Recover { process, memory }));
            }
        }
    }

    /// Whether the failure detector of `by` reports on `of`. With views, only the source and a client watch each other.
    fn watches(&self, by: ProcessId, of: ProcessId) -> bool {
        self.source.is_none_or(|source| by == source || of == source)
    }

    /// The possible reports of the failure detector of `by`.
    fn reports(&self, by: ProcessId, rules: &Rules, actions: &mut Vec<Action>) {
        if self.words.detects {
            return;
        }
        for of in (0..self.processes.len()).filter(|&of| of != by && self.watches(by, of)) {
            let report = self.detectors.next_report(by, of);
            let mistaken = self.detectors.is_mistaken(by, of) && self.is_up(of);
            // With views a live client learns first that its lease is over.
            let errs = self.source != Some(by);
            let may_err = errs && !mistaken && self.is_up(of) && self.spent.mistakes < rules.mistakes;
            if report == Some(Change::Crash) || may_err {
                actions.push(Action::Suspect { by, of });
            }
            if report == Some(Change::Recovery) || mistaken {
                actions.push(Action::Trust { by, of });
            }
        }
    }
}
