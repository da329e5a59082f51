//! Users of mutual exclusion: each user requests the lock, enters, leaves, and requests it again as the load says.

use std::collections::BTreeMap;

use baton_protocol::mutex::{Command, Event, Mutex};
use baton_protocol::{ProcessId, Ticks, property};
use baton_trace::Event as Traced;
use serde::{Deserialize, Serialize};

use crate::app::Application;
use crate::metrics::{DelaySummary, Delays, Messages};
use crate::network::exponential;
use crate::oracle::bypass::Bypasses;
use crate::oracle::mutex::{MutexJudge, Violation};
use crate::oracle::store::{Read, Store, Written};
use crate::queue::Class;
use crate::time::{in_t, ticks};
use crate::world::Wire;

/// When which client makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// One request at a time. The clients take turns.
    Solo,
    /// One request at a time. The next request comes from another client, chosen at random.
    SoloRandom,
    /// Every client requests again as soon as it has left (and thought).
    All,
    /// Every client requests at random times.
    Random,
}

impl Load {
    pub const ALL: [Load; 4] = [Load::Solo, Load::SoloRandom, Load::All, Load::Random];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Load::Solo => "solo",
            Load::SoloRandom => "solo-random",
            Load::All => "all",
            Load::Random => "random",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub load: Load,
    /// Number of requests in the whole run, by all clients.
    pub entries: u64,
    /// How long a client stays in the critical section, in T.
    pub hold: f64,
    /// How long a client waits after leaving before it requests again, in T. The mean if the load is random.
    pub think: f64,
    /// Whether a client that requests also sends an application message to another client, which then requests too.
    pub app_messages: bool,
    /// A store that every holder reads on entering and writes halfway through its stay.
    pub store: Option<StoreKind>,
}

/// The share of its stay after which a holder writes. The same for every store, so that one pause compares them.
const WRITES_AT: f64 = 0.5;

/// What keeps a late write out of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// The store refuses a write with a lower fence than it has seen.
    Fenced,
    /// The store accepts every write.
    Unfenced,
    /// The store accepts every write. But after a quarter of its stay a holder checks that its lease is not over, and it
    /// writes only if that is so.
    LeaseChecked,
}

#[derive(Clone, Copy, Debug)]
pub enum Plan {
    Request,
    /// Write to the store, based on this read, unless the lease is over. The client entered at `entered`.
    CheckLease {
        read: Read,
        entered: Ticks,
    },
    /// Write to the store, based on this read.
    Write(Read),
    /// Leave, if the client is still in the critical section for this request.
    Exit(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserState {
    Idle,
    Waiting { req: u64, since: Ticks },
    Inside { req: u64 },
}

pub struct MutexUsers {
    workload: Workload,
    rng: fastrand::Rng,
    clients: Vec<UserState>,
    /// Number of requests that were made; that entered; that have ended, by exit or crash.
    issued: u64,
    entered: u64,
    ended: u64,
    /// When the last holder left, if a client was waiting then.
    handover_since: Option<Ticks>,
    /// The client whose turn it is to request, if the clients take turns and it has not requested yet.
    turn: Option<ProcessId>,
    /// The clients that request as soon as their process is ready, and since when they want to.
    held_back: BTreeMap<ProcessId, Ticks>,
    /// When a client last entered, or requested while no other client waited.
    progress: Ticks,
    pub measured: Measured,
    judge: MutexJudge,
    /// How often requests were overtaken by later requests. None if there are too many clients.
    pub bypasses: Option<Bypasses>,
    patience: Patience,
    pub store: Option<Store>,
    /// How long a holder may rely on its lease after it has entered. None if grants are no leases.
    lease: Option<Ticks>,
    pub violations: BTreeMap<&'static str, String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// When the last fault is over. Before, a request may wait for any time.
    pub faults_over: Ticks,
    /// How long a request may wait after the last fault, or after the request itself if that is later.
    pub lasts: Ticks,
}

impl Patience {
    /// When the patience ends for a request that waits since `since`, or for a group without progress since then.
    fn ends(self, since: Ticks) -> Ticks {
        since.max(self.faults_over).saturating_add(self.lasts)
    }
}

/// The measurements of the entries between two entry numbers: after the warm-up, in whole rounds, and before the load
/// falls at the end of the run. If the run ends before, the measurements of all entries.
#[derive(Clone, Debug)]
pub struct Measured {
    first: u64,
    last: u64,
    at_first: Option<Messages>,
    at_last: Option<Messages>,
    /// From request to entry.
    client_delay: Spans,
    /// From exit to the next entry, while a client waits.
    sync_delay: Spans,
    /// The number of measured entries of each client, and of all its entries.
    entries_by_client: Vec<(u64, u64)>,
    /// The messages of the run up to the latest entry.
    sent_at_entry: u64,
    most_between_entries: u64,
}

/// Delays of the measured entries, and of all entries.
#[derive(Clone, Debug, Default)]
struct Spans {
    measured: Delays,
    all: Delays,
}

impl Spans {
    fn add(&mut self, delay: Ticks, is_measured: bool) {
        self.all.add(delay);
        if is_measured {
            self.measured.add(delay);
        }
    }
}

/// The least number of entries for which the warm-up (3n) and the last n entries leave a whole round in between. In
/// shorter runs the load is never steady, so closed forms that assume a steady state do not apply.
pub fn entries_to_settle(clients: u64) -> u64 {
    5 * clients
}

impl Measured {
    /// Skips a warm-up of 3n entries, and stops before the last requests, when the load begins to fall. A run that is
    /// too short for that is measured as a whole.
    pub(super) fn new(clients: u64, entries: u64) -> Self {
        let warm_up = 3 * clients;
        let rounds = entries.saturating_sub(warm_up + clients) / clients;
        let long = entries >= entries_to_settle(clients);
        let (first, last) = if long { (warm_up, warm_up + rounds * clients) } else { (0, entries) };
        let (client_delay, sync_delay) = (Spans::default(), Spans::default());
        let at_first = (first == 0).then(Messages::default);
        let entries_by_client = vec![(0, 0); clients as usize];
        Measured {
            first,
            last,
            at_first,
            at_last: None,
            client_delay,
            sync_delay,
            entries_by_client,
            sent_at_entry: 0,
            most_between_entries: 0,
        }
    }

    pub(super) fn entry(&mut self, number: u64, messages: &Messages) {
        self.most_between_entries = self.most_between_entries.max(messages.sent - self.sent_at_entry);
        self.sent_at_entry = messages.sent;
        if number == self.first {
            self.at_first = Some(messages.clone());
        } else if number == self.last && self.first > 0 {
            self.at_last = Some(messages.clone());
        }
    }

    pub(super) fn includes(&self, number: u64) -> bool {
        number > self.first && number <= self.last
    }

    /// The entry with this number came `delay` after its request.
    pub(super) fn waited(&mut self, number: u64, delay: Ticks) {
        self.client_delay.add(delay, self.includes(number));
    }

    /// The most messages from one entry to the next. If only one client requests at a time, these are the messages of one
    /// entry.
    pub fn most_between_entries(&self) -> u64 {
        self.most_between_entries
    }

    /// Whether the run has reached the end of the measured entries. If not, all entries count.
    fn is_steady(&self) -> bool {
        self.at_first.is_some() && self.at_last.is_some()
    }

    /// The number of measured entries, in a run with `entered` entries.
    pub fn entries(&self, entered: u64) -> u64 {
        if self.is_steady() { self.last - self.first } else { entered }
    }

    /// The number of measured entries of each client.
    pub fn entries_by_client(&self) -> Vec<u64> {
        let counts = self.entries_by_client.iter();
        counts.map(|&(measured, all)| if self.is_steady() { measured } else { all }).collect()
    }

    pub fn client_delay(&self) -> Option<DelaySummary> {
        self.summary(&self.client_delay)
    }

    pub fn sync_delay(&self) -> Option<DelaySummary> {
        self.summary(&self.sync_delay)
    }

    /// The longest client delay and the longest sync delay of the whole run, in T.
    pub fn longest_delays(&self) -> (Option<f64>, Option<f64>) {
        (self.client_delay.all.longest(), self.sync_delay.all.longest())
    }

    fn summary(&self, spans: &Spans) -> Option<DelaySummary> {
        if self.is_steady() { spans.measured.summary() } else { spans.all.summary() }
    }

    /// The messages that each of `processes` processes sent or received for the measured entries.
    pub fn by_process(&self, in_all: &Messages, processes: usize) -> Vec<u64> {
        let (first, last) = match (&self.at_first, &self.at_last) {
            (Some(first), Some(last)) => (first.by_process.as_slice(), &last.by_process),
            _ => (&[][..], &in_all.by_process),
        };
        let count = |all: &[u64], process: usize| all.get(process).copied().unwrap_or_default();
        (0..processes).map(|process| count(last, process) - count(first, process)).collect()
    }

    /// The number of something per measured entry. `in_all` are the messages of the whole run.
    pub fn per_entry(&self, in_all: &Messages, entered: u64, of: impl Fn(&Messages) -> u64) -> Option<f64> {
        let entries = self.entries(entered);
        let count = match (&self.at_first, &self.at_last) {
            (Some(first), Some(last)) => of(last) - of(first),
            _ => of(in_all),
        };
        (entries > 0).then(|| count as f64 / entries as f64)
    }
}

impl MutexUsers {
    pub fn new(clients: usize, workload: Workload, patience: Patience, watch_order: bool, seed: u64) -> Self {
        MutexUsers {
            measured: Measured::new(clients as u64, workload.entries),
            store: workload.store.map(|kind| Store::new(kind == StoreKind::Fenced)),
            workload,
            rng: fastrand::Rng::with_seed(seed),
            clients: vec![UserState::Idle; clients],
            issued: 0,
            entered: 0,
            ended: 0,
            handover_since: None,
            turn: None,
            held_back: BTreeMap::new(),
            progress: 0,
            bypasses: (clients <= Bypasses::CLIENTS_MAX).then(|| Bypasses::new(clients)),
            patience,
            judge: MutexJudge::new(clients, watch_order),
            lease: None,
            violations: BTreeMap::new(),
        }
    }

    /// Grants are leases. The message with the grant may have taken `delay_max`, and so much of the lease was over when
    /// the holder entered.
    pub fn with_lease(self, lease: Option<Ticks>, delay_max: Ticks) -> Self {
        MutexUsers { lease: lease.map(|lease| lease.saturating_sub(delay_max)), ..self }
    }

    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// The clients that wait for a grant, and since when.
    pub fn waiting(&self) -> impl Iterator<Item = (ProcessId, Ticks)> {
        let waiting = self.clients.iter().enumerate().filter_map(|(process, client)| match client {
            UserState::Waiting { since, .. } => Some((process, *since)),
            _ => None,
        });
        let held_back = self.held_back.iter().filter(|_| self.issued < self.workload.entries);
        waiting.chain(held_back.map(|(process, since)| (*process, *since)))
    }

    /// The oracles of the run.
    pub fn judge(&self) -> &MutexJudge {
        &self.judge
    }

    fn request<P: Mutex>(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if self.clients[process] != UserState::Idle || self.issued == self.workload.entries {
            return;
        }
        if !wire.is_ready(process) {
            self.held_back.entry(process).or_insert(wire.now());
            return;
        }
        let (req, now) = (self.issued, wire.now());
        self.turn = None;
        self.issued += 1;
        self.clients[process] = UserState::Waiting { req, since: now };
        if self.judge.waiting() == 0 {
            self.progress = now;
        }
        self.happens(process, Traced::request(req), wire);
        if let Some(bypasses) = &mut self.bypasses {
            bypasses.request(process, now);
        }
        wire.command(process, Command::Acquire, Class::Request);
        if self.workload.app_messages {
            let other = self.somebody_else(process);
            wire.app_send(process, other);
        }
    }

    fn enter<P: Mutex>(&mut self, process: ProcessId, fence: u64, wire: &mut Wire<P, Plan>) {
        let now = wire.now();
        let UserState::Waiting { req, since } = self.clients[process] else {
            // It does not enter, so the trace has no event but the violation.
            return self.violated(process, [("safety", property::uninvited(process))], wire);
        };
        let mut found = self.happens(process, Traced::Enter { req, fence }, wire);
        found.extend(self.too_late(process, since, now));
        self.clients[process] = UserState::Inside { req };
        self.progress = now;
        if let Some(bypasses) = &mut self.bypasses {
            bypasses.grant(process);
        }
        self.entered += 1;
        self.measured.entry(self.entered, wire.messages());
        let is_measured = self.measured.includes(self.entered);
        self.measured.waited(self.entered, now - since);
        let (measured, all) = &mut self.measured.entries_by_client[process];
        *measured += u64::from(is_measured);
        *all += 1;
        if let Some(exit) = self.handover_since.take() {
            self.measured.sync_delay.add(now - exit, is_measured);
        }
        self.violated(process, found, wire);
        if let Some(store) = &mut self.store {
            let read = store.read(fence);
            let (share, plan) = match self.workload.store {
                Some(StoreKind::LeaseChecked) => (0.25, Plan::CheckLease { read, entered: now }),
                _ => (WRITES_AT, Plan::Write(read)),
            };
            wire.plan(ticks(self.workload.hold * share), Class::Exit, process, plan);
        }
        wire.plan(ticks(self.workload.hold), Class::Exit, process, Plan::Exit(req));
    }

    /// Shows an event to the oracles, and writes it to the trace. Returns the violations.
    fn happens<P: Mutex>(&mut self, process: ProcessId, event: Traced, wire: &mut Wire<P, Plan>) -> Vec<Violation> {
        let is_request = matches!(event, Traced::Request { .. });
        let past = wire.causality().filter(|_| is_request).map(|causality| causality.request(process));
        let found = self.judge.see(process, &event, past);
        wire.trace(process, || event);
        found
    }

    /// Liveness includes a bound: a grant that comes after the patience has ended is a violation.
    fn too_late(&self, process: ProcessId, since: Ticks, now: Ticks) -> Option<Violation> {
        let (since_t, lasts) = (in_t(since), in_t(self.patience.lasts));
        let detail = || format!("P{process} was granted after more than {lasts} T; it had waited since {since_t} T");
        (now > self.patience.ends(since)).then(|| ("liveness", detail()))
    }

    /// When a client last entered, or requested while no other client waited.
    pub fn progress(&self) -> Ticks {
        self.progress
    }

    /// Whether a client waits and no client has entered for too long.
    pub fn is_stuck(&self, now: Ticks) -> bool {
        self.judge.waiting() > 0 && now > self.patience.ends(self.progress)
    }

    fn violated<P: Mutex>(
        &mut self,
        process: ProcessId,
        found: impl IntoIterator<Item = Violation>,
        wire: &mut Wire<P, Plan>,
    ) {
        for (property, detail) in found {
            let detail = format!("{detail}, at {} T", in_t(wire.now()));
            wire.trace(process, || Traced::Violation { property: property.into(), detail: detail.clone() });
            self.violations.entry(property).or_insert(detail);
        }
    }

    /// The check and the write are two steps, and the process may be paused in between. A process that was paused
    /// before the check and should have written by now writes at once.
    fn check_lease<P: Mutex>(&mut self, process: ProcessId, read: Read, entered: Ticks, wire: &mut Wire<P, Plan>) {
        let now = wire.now();
        if self.lease.is_some_and(|lease| now >= entered + lease)
            && let Some(store) = &mut self.store
        {
            let refused = store.refuse(read);
            return self.written(process, read, refused, wire);
        }
        match (entered + ticks(self.workload.hold * WRITES_AT)).saturating_sub(now) {
            0 => self.write(process, read, wire),
            later => wire.plan(later, Class::Exit, process, Plan::Write(read)),
        }
    }

    fn write<P: Mutex>(&mut self, process: ProcessId, read: Read, wire: &mut Wire<P, Plan>) {
        if self.is_inside(process)
            && let Some(store) = &mut self.store
        {
            let written = store.write(process, read);
            self.written(process, read, written, wire);
        }
    }

    fn written<P: Mutex>(&mut self, process: ProcessId, read: Read, written: Written, wire: &mut Wire<P, Plan>) {
        let (fence, accepted) = (read.fence, written.accepted);
        wire.trace(process, || Traced::StoreWrite { fence, accepted, value: written.value.into() });
        self.violated(process, written.damage.map(|damage| ("store", damage)), wire);
    }

    fn exit<P: Mutex>(&mut self, process: ProcessId, req: u64, wire: &mut Wire<P, Plan>) {
        if self.clients[process] != (UserState::Inside { req }) {
            return;
        }
        self.happens(process, Traced::Exit { req }, wire);
        self.leave(process, wire);
        wire.command(process, Command::Release, Class::Exit);
        self.plan_next(process, wire);
    }

    /// The process is no longer inside. Its user knows, and leaves without a command.
    fn lost<P: Mutex>(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if let UserState::Inside { req } = self.clients[process] {
            self.happens(process, Traced::Lost { req }, wire);
            self.leave(process, wire);
            self.plan_next(process, wire);
        }
    }

    /// A write of a holder that has lost the critical section meanwhile is left out: the holder knows.
    fn is_inside(&self, process: ProcessId) -> bool {
        matches!(self.clients[process], UserState::Inside { .. })
    }

    /// Ends the request of `process`, by exit or crash.
    fn leave<P: Mutex>(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        self.clients[process] = UserState::Idle;
        self.ended += 1;
        self.handover_since = (self.judge.waiting() > 0).then(|| wire.now());
    }

    fn plan_next<P: Mutex>(&mut self, last: ProcessId, wire: &mut Wire<P, Plan>) {
        let n = self.clients.len();
        let think = self.workload.think;
        let (next, after) = match self.workload.load {
            Load::Solo => ((1..=n).map(|step| (last + step) % n).find(|&next| wire.is_up(next)), think),
            Load::SoloRandom => (self.somebody_else_alive(last, wire), think),
            Load::All => (Some(last), think),
            Load::Random => (Some(last), exponential(think, &mut self.rng)),
        };
        if let Some(next) = next {
            self.turn = Some(next);
            wire.plan(ticks(after), Class::Request, next, Plan::Request);
        }
    }

    fn take_turns(&self) -> bool {
        matches!(self.workload.load, Load::Solo | Load::SoloRandom)
    }

    /// A random other client that is up, all equally likely. There may be a million clients, so the function draws up
    /// to 64 times before it lists the live clients.
    fn somebody_else_alive<P: Mutex>(&mut self, process: ProcessId, wire: &Wire<P, Plan>) -> Option<ProcessId> {
        let drawn = (0..64).map(|_| self.somebody_else(process)).find(|&other| wire.is_up(other));
        drawn.or_else(|| {
            let others = (0..self.clients.len()).filter(|&other| other != process && wire.is_up(other));
            self.rng.choice(others.collect::<Vec<_>>())
        })
    }

    fn somebody_else(&mut self, process: ProcessId) -> ProcessId {
        let other = self.rng.usize(0..self.clients.len() - 1);
        if other < process { other } else { other + 1 }
    }
}

impl<P: Mutex> Application<P> for MutexUsers {
    type Plan = Plan;

    fn start(&mut self, wire: &mut Wire<P, Plan>) {
        let first = match self.workload.load {
            Load::Solo | Load::SoloRandom => 0..1,
            Load::All | Load::Random => 0..self.clients.len(),
        };
        for process in first {
            let after = match self.workload.load {
                Load::Random => exponential(self.workload.think, &mut self.rng),
                _ => 0.0,
            };
            wire.plan(ticks(after), Class::Request, process, Plan::Request);
        }
    }

    fn carry_out(&mut self, process: ProcessId, plan: Plan, wire: &mut Wire<P, Plan>) {
        match plan {
            Plan::Request => self.request(process, wire),
            Plan::CheckLease { read, entered } => self.check_lease(process, read, entered, wire),
            Plan::Write(read) => self.write(process, read, wire),
            Plan::Exit(req) => self.exit(process, req, wire),
        }
    }

    fn event(&mut self, process: ProcessId, event: Event, wire: &mut Wire<P, Plan>) {
        match event {
            Event::Granted { fence } => self.enter(process, fence, wire),
            Event::Lost => self.lost(process, wire),
        }
    }

    /// The sender has requested, and wants this client to request too.
    fn app_message(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        self.request(process, wire);
    }

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        let Some(client) = self.clients.get(process).copied() else { return };
        self.judge.see(process, &Traced::Crash, None);
        self.held_back.remove(&process);
        if let Some(bypasses) = &mut self.bypasses {
            bypasses.forget(process);
        }
        let acts = client != UserState::Idle || self.turn == Some(process);
        if client != UserState::Idle {
            self.leave(process, wire);
        }
        if acts && self.take_turns() {
            self.turn = None;
            self.plan_next(process, wire);
        }
    }

    fn recovered(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if process >= self.clients.len() {
            return;
        }
        // If the clients take turns, the chain of requests has ended when no client was up to continue it.
        let idle = self.turn.is_none() && self.clients.iter().all(|client| *client == UserState::Idle);
        if !self.take_turns() || idle {
            self.plan_next(process, wire);
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(self.ended as f64 / self.workload.entries as f64)
    }

    fn broken_invariant(&mut self, process: ProcessId, detail: String, wire: &mut Wire<P, Plan>) {
        self.violated(process, [("safety", detail)], wire);
    }

    fn ready(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if self.held_back.remove(&process).is_some() {
            self.request(process, wire);
        }
    }

    fn finished(&self, wire: &Wire<P, Plan>) -> bool {
        self.ended == self.workload.entries || self.is_stuck(wire.now())
    }
}
