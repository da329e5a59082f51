//! Users of record append: each user appends a record, waits for the answer with the offset, and appends again as the
//! load says.

use baton_protocol::append::{Append, Command, Event};
use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event as Traced;

use super::mutex::{Load, Measured, Workload};
use crate::app::Application;
use crate::network::exponential;
use crate::oracle::file::Files;
use crate::queue::Class;
use crate::time::ticks;
use crate::world::Wire;

/// The plan of a user to append now.
#[derive(Clone, Copy, Debug)]
pub struct AppendNow;

/// The record that a user has appended and waits for the answer to, and since when.
#[derive(Clone, Debug)]
struct Pending {
    /// The number of the append in the run.
    req: u64,
    data: Vec<u8>,
    since: Ticks,
}

pub struct AppendUsers {
    workload: Workload,
    /// The users give up if an append is pending and for this long no append was answered and no process crashed or
    /// recovered.
    patience: Ticks,
    rng: fastrand::Rng,
    pending: Vec<Option<Pending>>,
    issued: u64,
    answered: u64,
    /// When an append was last answered, or a process last crashed or recovered.
    progress: Ticks,
    /// Counts an answered append as an entry.
    pub measured: Measured,
    pub files: Files,
}

impl AppendUsers {
    pub fn new(clients: usize, workload: Workload, patience: Ticks, seed: u64) -> Self {
        AppendUsers {
            measured: Measured::new(clients as u64, workload.entries),
            workload,
            patience,
            rng: fastrand::Rng::with_seed(seed),
            pending: vec![None; clients],
            issued: 0,
            answered: 0,
            progress: 0,
            files: Files::default(),
        }
    }

    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// When an append was last answered, or a process last crashed or recovered.
    pub fn progress(&self) -> Ticks {
        self.progress
    }

    /// A user that waits for an answer at the end, and since when.
    pub fn waiting(&self) -> Option<(ProcessId, Ticks)> {
        let mut waiting = self.pending.iter().enumerate();
        waiting.find_map(|(process, pending)| pending.as_ref().map(|pending| (process, pending.since)))
    }

    fn append<P: Append>(&mut self, process: ProcessId, wire: &mut Wire<P, AppendNow>) {
        if self.pending[process].is_some() || self.issued == self.workload.entries {
            return;
        }
        // Every record is unique, and lengths differ, so that half a record would show.
        let mut data = format!("record {} of P{process}", self.issued).into_bytes();
        data.resize(data.len() + (self.issued % 32) as usize, b'.');
        let req = self.issued;
        self.issued += 1;
        self.files.append(process, data.clone());
        self.pending[process] = Some(Pending { req, data: data.clone(), since: wire.now() });
        wire.trace(process, || Traced::Append { req });
        wire.command(process, Command::Append { data }, Class::Request);
    }

    fn plan_next<P: Append>(&mut self, last: ProcessId, wire: &mut Wire<P, AppendNow>) {
        let n = self.pending.len();
        let think = self.workload.think;
        let (next, after) = match self.workload.load {
            Load::Solo => ((1..=n).map(|step| (last + step) % n).find(|&next| wire.is_up(next)), think),
            Load::SoloRandom => {
                let others: Vec<_> = (0..n).filter(|&other| other != last && wire.is_up(other)).collect();
                (self.rng.choice(others), think)
            }
            Load::All => (Some(last), think),
            Load::Random => (Some(last), exponential(think, &mut self.rng)),
        };
        if let Some(next) = next {
            wire.plan(ticks(after), Class::Request, next, AppendNow);
        }
    }
}

impl<P: Append> Application<P> for AppendUsers {
    type Plan = AppendNow;

    fn start(&mut self, wire: &mut Wire<P, AppendNow>) {
        let first = match self.workload.load {
            Load::Solo | Load::SoloRandom => 0..1,
            Load::All | Load::Random => 0..self.pending.len(),
        };
        for process in first {
            let after = match self.workload.load {
                Load::Random => exponential(self.workload.think, &mut self.rng),
                _ => 0.0,
            };
            wire.plan(ticks(after), Class::Request, process, AppendNow);
        }
    }

    fn carry_out(&mut self, process: ProcessId, AppendNow: AppendNow, wire: &mut Wire<P, AppendNow>) {
        self.append(process, wire);
    }

    fn event(&mut self, process: ProcessId, event: Event, wire: &mut Wire<P, AppendNow>) {
        let Event::Appended { offset } = event;
        // No pending append: this answers an append from before a crash of the client, which cancelled it.
        let Some(pending) = self.pending[process].take() else { return };
        self.answered += 1;
        self.progress = wire.now();
        wire.trace(process, || Traced::Appended { req: pending.req, offset });
        self.measured.entry(self.answered, wire.messages());
        self.measured.waited(self.answered, wire.now() - pending.since);
        self.files.told(pending.data, offset);
        self.plan_next(process, wire);
    }

    fn app_message(&mut self, _: ProcessId, _: &mut Wire<P, AppendNow>) {}

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, AppendNow>) {
        self.progress = wire.now();
        if let Some(pending) = self.pending.get_mut(process)
            && pending.take().is_some()
            && matches!(self.workload.load, Load::Solo | Load::SoloRandom)
        {
            self.plan_next(process, wire);
        }
    }

    fn recovered(&mut self, process: ProcessId, wire: &mut Wire<P, AppendNow>) {
        self.progress = wire.now();
        if process < self.pending.len() && matches!(self.workload.load, Load::All | Load::Random) {
            self.plan_next(process, wire);
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(self.answered as f64 / self.workload.entries as f64)
    }

    /// Ends the run early only if the users give up. Otherwise the run goes on until no event is left, because the
    /// files are judged then.
    fn finished(&self, wire: &Wire<P, Self::Plan>) -> bool {
        let now = wire.now();
        now > self.progress.saturating_add(self.patience) && self.waiting().is_some()
    }
}
