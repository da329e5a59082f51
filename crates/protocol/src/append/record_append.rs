//! Record append: Ghemawat, Gobioff and Leung, "The Google file system" (2003), as an algorithm of its own.
//!
//! The client names no offset. It sends APPEND(number, data) to the primary, the lowest replica that has not crashed.
//! The primary puts appends into one order, buffers them, writes the buffer as one batch and sends it to the other
//! replicas with REPLICATE(offset, batch). These secondaries apply batches in order of offset and send ACK. When all
//! live replicas have a record, the primary tells its client the offset. A client without an answer asks again with the
//! same number. The primary remembers the last number of each client, and answers a repeat with the old offset. The
//! primary sends unacknowledged batches again.
//!
//! - Assumes: a failure detector without mistakes, and one replica that never crashes. Messages may be lost, repeated
//!   and reordered.
//! - Promises: SAFE: a record whose client was told the offset is complete in every live replica, and replicas are
//!   equal when no message is on its way. LIVE: every client is told its offset. A record is written at least once, and
//!   readers see it once.
//! - Invariants: two slots at the same offset, written by the same primary, are equal, and so are all slots before
//!   them.
//! - Costs: 2 + 2(r-1) messages and 4T an append with r replicas; 2 + 2(r-1)/b messages with full batches of b.
//!
//! Crash of the primary. The new primary asks the other replicas which primary wrote which offsets (COLLECT, STATE). Up
//! to the offset where all agree, nothing changes, and every record whose client was told is there. Slots beyond, which
//! exist in some logs only, are failed writes. They become padding. If replicas differ at an offset, the write of the
//! later primary wins: a replica that has answered COLLECT accepts nothing from an earlier primary, and drops its slots
//! beyond the new primary's base. The new primary does not know the last numbers of the clients. It appends a repeated
//! record again, and readers skip the repeat.
//!
//! Recovery. A recovered replica drops its file, and the primary, told by its detector, sends it the whole file
//! (SNAPSHOT). From then on no record is stable without this replica. A recovered replica never becomes primary again,
//! so primaries are ordered by id.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::log::{Log, Run, agreement};
use super::{Append, Command, Event, Record, Slot};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start, Ticks};

/// Processes `0..n` are clients; the replicas follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordAppend {
    Client(ClientState),
    Replica(Replica),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientState {
    replicas: Range<ProcessId>,
    /// Crashed processes. Not a [`ProcessSet`]: a million clients must not each keep a set of all processes.
    dead: BTreeSet<ProcessId>,
    delay_max: Ticks,
    number: u64,
    /// The current record, until its offset is known.
    pending: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    me: ProcessId,
    first: ProcessId,
    /// Replicas that have never crashed, as far as this one knows.
    live: ProcessSet,
    /// Replicas that crashed and recovered.
    back: ProcessSet,
    delay_max: Ticks,
    batch: usize,
    log: Log,
    /// The latest primary that this replica knows.
    primary: ProcessId,
    role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Secondary {
        /// Whether the log has been cut to the primary's base.
        joined: bool,
        /// Batches that arrived before earlier ones, by offset.
        early: BTreeMap<u64, Vec<Slot>>,
    },
    /// A new primary that waits for STATE of the others.
    Collecting {
        states: BTreeMap<ProcessId, Option<Vec<Run>>>,
    },
    Primary(Lead),
    /// Has recovered and does not have the file yet.
    Newcomer,
}

/// The memory of a primary. It is lost when the primary crashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lead {
    /// The first offset that this primary writes.
    base: u64,
    buffer: Vec<Record>,
    /// The last number of each client, and its offset once it is written.
    last: BTreeMap<ProcessId, (u64, Option<u64>)>,
    /// Length of the log at each secondary, by its last ACK.
    acked: BTreeMap<ProcessId, u64>,
    /// Recovered replicas that need the whole file.
    newcomers: BTreeSet<ProcessId>,
    /// Length of the prefix that all live replicas have.
    stable: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Client to primary.
    Append { number: u64, data: Vec<u8> },
    /// Primary to client: all live replicas have the record.
    Appended { number: u64, offset: u64 },
    /// Primary to secondary: write these slots.
    Replicate {
        /// The first offset that this primary writes. Older slots of a secondary beyond it are void.
        base: u64,
        offset: u64,
        slots: Vec<Slot>,
    },
    /// Secondary to primary.
    Ack {
        /// The sender has all slots before this offset.
        length: u64,
    },
    /// New primary to the others: which primary wrote which offsets of your log?
    Collect,
    /// Answers [`Message::Collect`].
    State {
        /// The runs of the sender's log; `None` if the sender has no file yet.
        runs: Option<Vec<Run>>,
    },
    /// Primary to a recovered replica: the whole file.
    Snapshot { runs: Vec<Run>, slots: Vec<Slot> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// At a client: no answer in time.
    Retry,
    /// At the primary: write the buffer, although it is not full.
    Write,
    /// At the primary: answers of other replicas are missing.
    Resend,
}

/// Clients and primaries repeat messages after this time, in D: twice the longest time of an append.
const RETRY_AFTER_D: Ticks = 10;

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Append { .. } => "APPEND",
            Message::Appended { .. } => "APPENDED",
            Message::Replicate { .. } => "REPLICATE",
            Message::Ack { .. } => "ACK",
            Message::Collect => "COLLECT",
            Message::State { .. } => "STATE",
            Message::Snapshot { .. } => "SNAPSHOT",
        }
    }
}

impl Protocol for RecordAppend {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match self {
            RecordAppend::Client(client) => client.step(input, out),
            RecordAppend::Replica(replica) => replica.step(input, out),
        }
    }

    fn view(&self) -> Picture {
        match self {
            RecordAppend::Client(client) => Picture::new()
                .pointer("primary", client.live().next())
                .field("number", client.number)
                .field("pending", client.pending.is_some()),
            RecordAppend::Replica(replica) => replica.view(),
        }
    }
}

impl Append for RecordAppend {
    fn file(&self) -> Option<&[Slot]> {
        match self {
            RecordAppend::Replica(replica) if replica.role != Role::Newcomer => Some(replica.log.slots()),
            RecordAppend::Replica(_) | RecordAppend::Client(_) => None,
        }
    }
}

impl ClientState {
    fn step(&mut self, input: Input<RecordAppend>, out: &mut Outbox<RecordAppend>) {
        match input {
            Input::Command(Command::Append { data }) => {
                self.number += 1;
                self.pending = Some(data);
                self.ask(out);
            }
            Input::Timer(Timer::Retry) | Input::Start(Start::Recovered) => self.ask_again(out),
            Input::Message { message: Message::Appended { number, offset }, .. } if number == self.number => {
                self.on_appended(offset, out);
            }
            Input::Suspect(process) => {
                self.dead.insert(process);
            }
            _ => {}
        }
    }

    fn live(&self) -> impl Iterator<Item = ProcessId> {
        self.replicas.clone().filter(|replica| !self.dead.contains(replica))
    }

    fn ask(&self, out: &mut Outbox<RecordAppend>) {
        let (Some(data), Some(primary)) = (&self.pending, self.live().next()) else { return };
        out.send(primary, Message::Append { number: self.number, data: data.clone() });
        out.set_timer(Timer::Retry, RETRY_AFTER_D * self.delay_max);
    }

    /// Asks all live replicas. A client that was down may have missed a crash and recovery of the replica that it takes
    /// for the primary.
    fn ask_again(&self, out: &mut Outbox<RecordAppend>) {
        let Some(data) = &self.pending else { return };
        out.multicast(self.live(), Message::Append { number: self.number, data: data.clone() });
        out.set_timer(Timer::Retry, RETRY_AFTER_D * self.delay_max);
    }

    fn on_appended(&mut self, offset: u64, out: &mut Outbox<RecordAppend>) {
        if self.pending.take().is_some() {
            out.cancel_timer(Timer::Retry);
            out.emit(Event::Appended { offset });
        }
    }
}

impl Replica {
    fn step(&mut self, input: Input<RecordAppend>, out: &mut Outbox<RecordAppend>) {
        match input {
            Input::Start(Start::Fresh) if self.me == self.primary => self.lead(0, BTreeSet::new()),
            Input::Start(Start::Recovered) => self.recover(),
            Input::Suspect(process) => self.on_suspect(process, out),
            Input::Trust(process) => self.on_trust(process, out),
            Input::Timer(Timer::Write) => self.write(out),
            Input::Timer(Timer::Resend) => {
                self.collect(out);
                self.replicate(out);
            }
            Input::Message { from, message } => match message {
                Message::Append { number, data } => self.on_append(Record { client: from, number, data }, out),
                Message::Replicate { base, offset, slots } => self.on_replicate(from, base, offset, slots, out),
                Message::Ack { length } => self.on_ack(from, length, out),
                Message::Collect => self.on_collect(from, out),
                Message::State { runs } => self.on_state(from, runs, out),
                Message::Snapshot { runs, slots } => self.on_snapshot(from, runs, slots, out),
                Message::Appended { .. } => {}
            },
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let picture = Picture::new().state(&self.role).pointer("primary", self.primary).field("length", self.log.len());
        match &self.role {
            Role::Primary(lead) => picture
                .field("stable", lead.stable)
                .queue("buffer", lead.buffer.iter().map(|record| (record.client, record.number)))
                .numbers("acked", lead.acked.clone())
                .set("newcomers", lead.newcomers.clone()),
            Role::Collecting { states } => picture.set("states", states.keys().copied()),
            Role::Secondary { early, .. } => picture.field("early", early.len() as u64),
            Role::Newcomer => picture,
        }
    }

    fn others(&self) -> impl Iterator<Item = ProcessId> {
        self.live.iter().chain(self.back.iter()).filter(|&other| other != self.me)
    }

    /// The old file may be void by now. The replica gets the whole file again, and never leads again.
    fn recover(&mut self) {
        self.live.remove(self.me);
        self.role = Role::Newcomer;
        self.log = Log::default();
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<RecordAppend>) {
        // Clients recover too, but only replicas matter here.
        if process < self.first || process == self.me || self.live.contains(process) {
            return;
        }
        self.back.insert(process);
        match &mut self.role {
            Role::Primary(lead) => {
                lead.acked.insert(process, 0);
                lead.newcomers.insert(process);
                self.replicate(out);
            }
            Role::Collecting { .. } => self.collect(out),
            Role::Secondary { .. } | Role::Newcomer => {}
        }
    }

    fn on_snapshot(&mut self, from: ProcessId, runs: Vec<Run>, slots: Vec<Slot>, out: &mut Outbox<RecordAppend>) {
        if from < self.primary || from == self.me {
            return;
        }
        // A late SNAPSHOT must not remove slots that arrived since.
        if self.role == Role::Newcomer || from > self.primary {
            self.primary = from;
            self.role = Role::Secondary { joined: true, early: BTreeMap::new() };
            self.log = Log::new(slots, runs);
        }
        out.send(from, Message::Ack { length: self.log.len() });
    }

    fn on_append(&mut self, record: Record, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &mut self.role else { return };
        match lead.last.get(&record.client) {
            Some(&(last, Some(offset))) if record.number == last && offset < lead.stable => {
                out.send(record.client, Message::Appended { number: last, offset });
            }
            Some(&(last, _)) if record.number <= last => {}
            _ => self.buffer(record, out),
        }
    }

    fn buffer(&mut self, record: Record, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &mut self.role else { return };
        lead.last.insert(record.client, (record.number, None));
        lead.buffer.push(record);
        if lead.buffer.len() >= self.batch {
            if self.batch > 1 {
                out.cancel_timer(Timer::Write);
            }
            self.write(out);
        } else if lead.buffer.len() == 1 {
            out.set_timer(Timer::Write, self.delay_max);
        }
    }

    fn write(&mut self, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &mut self.role else { return };
        if lead.buffer.is_empty() {
            return;
        }
        let offset = self.log.len();
        if lead.stable == offset {
            out.set_timer(Timer::Resend, RETRY_AFTER_D * self.delay_max);
        }
        for (at, record) in (offset..).zip(&lead.buffer) {
            lead.last.insert(record.client, (record.number, Some(at)));
        }
        self.log.extend(self.me, lead.buffer.drain(..).map(Slot::Record));
        let (base, slots) = (lead.base, self.log.from(offset).to_vec());
        out.multicast(self.others(), Message::Replicate { base, offset, slots });
        self.answer(out);
    }

    /// Sends all unacknowledged slots.
    fn replicate(&self, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &self.role else { return };
        out.set_timer(Timer::Resend, RETRY_AFTER_D * self.delay_max);
        for &newcomer in &lead.newcomers {
            let (runs, slots) = (self.log.runs().to_vec(), self.log.slots().to_vec());
            out.send(newcomer, Message::Snapshot { runs, slots });
        }
        for other in self.others().filter(|other| !lead.newcomers.contains(other)) {
            let offset = lead.acked.get(&other).copied().unwrap_or(lead.base);
            let slots = self.log.from(offset).to_vec();
            if !slots.is_empty() {
                out.send(other, Message::Replicate { base: lead.base, offset, slots });
            }
        }
    }

    fn on_replicate(
        &mut self,
        from: ProcessId,
        base: u64,
        offset: u64,
        slots: Vec<Slot>,
        out: &mut Outbox<RecordAppend>,
    ) {
        let Role::Secondary { joined, early } = &mut self.role else { return };
        if from != self.primary || base > offset {
            return;
        }
        if !core::mem::replace(joined, true) {
            self.log.truncate(base);
        }
        let waiting = early.entry(offset).or_default();
        if waiting.len() < slots.len() {
            *waiting = slots;
        }
        while let Some(first) = early.first_entry().filter(|first| *first.key() <= self.log.len()) {
            let known = self.log.len() - first.key();
            self.log.extend(from, first.remove().into_iter().skip(known as usize));
        }
        out.send(from, Message::Ack { length: self.log.len() });
    }

    fn on_ack(&mut self, from: ProcessId, length: u64, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &mut self.role else { return };
        if let Some(acked) = lead.acked.get_mut(&from) {
            lead.newcomers.remove(&from);
            *acked = length.clamp(*acked, self.log.len());
            self.answer(out);
        }
    }

    /// Tells the clients of all records that have become stable: all live replicas have them.
    fn answer(&mut self, out: &mut Outbox<RecordAppend>) {
        let Role::Primary(lead) = &mut self.role else { return };
        let stable = lead.acked.values().copied().fold(self.log.len(), u64::min);
        for (offset, slot) in (lead.stable..stable).zip(self.log.from(lead.stable)) {
            if let Slot::Record(Record { client, number, .. }) = slot {
                out.send(*client, Message::Appended { number: *number, offset });
            }
        }
        if stable == self.log.len() && lead.newcomers.is_empty() {
            out.cancel_timer(Timer::Resend);
        }
        lead.stable = lead.stable.max(stable);
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<RecordAppend>) {
        self.live.remove(process);
        self.back.remove(process);
        match &mut self.role {
            Role::Primary(lead) => {
                lead.acked.remove(&process);
                lead.newcomers.remove(&process);
                self.answer(out);
            }
            Role::Collecting { states } => {
                states.remove(&process);
                self.reconcile(out);
            }
            Role::Secondary { .. } if self.live.iter().next() == Some(self.me) => {
                self.primary = self.me;
                self.role = Role::Collecting { states: BTreeMap::new() };
                self.collect(out);
                self.reconcile(out);
            }
            Role::Secondary { .. } | Role::Newcomer => {}
        }
    }

    fn collect(&self, out: &mut Outbox<RecordAppend>) {
        let Role::Collecting { states } = &self.role else { return };
        out.set_timer(Timer::Resend, RETRY_AFTER_D * self.delay_max);
        out.multicast(self.others().filter(|other| !states.contains_key(other)), Message::Collect);
    }

    fn on_collect(&mut self, from: ProcessId, out: &mut Outbox<RecordAppend>) {
        if from < self.primary || from == self.me {
            return;
        }
        let counts = self.role != Role::Newcomer;
        if from > self.primary {
            self.primary = from;
            if counts {
                self.role = Role::Secondary { joined: false, early: BTreeMap::new() };
            }
        }
        out.send(from, Message::State { runs: counts.then(|| self.log.runs().to_vec()) });
    }

    fn on_state(&mut self, from: ProcessId, runs: Option<Vec<Run>>, out: &mut Outbox<RecordAppend>) {
        if let Role::Collecting { states } = &mut self.role {
            states.insert(from, runs);
            self.reconcile(out);
        }
    }

    /// When all live replicas have answered: replaces the slots beyond the common prefix by padding, and leads.
    fn reconcile(&mut self, out: &mut Outbox<RecordAppend>) {
        let Role::Collecting { states } = &self.role else { return };
        if !self.others().all(|other| states.contains_key(&other)) {
            return;
        }
        let (mut common, mut longest) = (self.log.len(), self.log.len());
        for runs in self.others().filter_map(|other| states.get(&other)?.as_ref()) {
            common = common.min(agreement(self.log.runs(), runs));
            longest = longest.max(runs.last().map_or(0, |last| last.end));
        }
        let newcomers = self.others().filter(|other| states.get(other).is_some_and(Option::is_none)).collect();
        let padding = (longest - common).min(PADDING_MAX) as usize;
        self.log.truncate(common);
        self.log.extend(self.me, vec![Slot::Padding; padding]);
        self.lead(common, newcomers);
        self.replicate(out);
        self.answer(out);
    }

    fn lead(&mut self, base: u64, newcomers: BTreeSet<ProcessId>) {
        let has = |other| if newcomers.contains(&other) { 0 } else { base };
        let acked = self.others().map(|other| (other, has(other))).collect();
        self.role = Role::Primary(Lead { base, acked, newcomers, stable: base, ..Lead::default() });
    }
}

/// More than any log holds. A wrong length in a message must not use up all memory.
const PADDING_MAX: u64 = 1 << 20;

pub const ABOUT: About = About {
    name: "record-append",
    family: Family::Append,
    way: None,
    summary: "a primary gives each record its place at the end of a replicated file; no lock",
    assumes: Assumes { lossless: false, no_duplicates: false, crashes: Crashes::ButOne, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "replicas:R", summary: "keep R copies (default: 3)" },
        Variant { name: "batch:B", summary: "write when B records are there, or D after the first one (default: 1)" },
    ],
    broken: None,
};

/// n clients and r replicas. The first replica is the primary.
pub fn group(params: &Params) -> Result<Group<RecordAppend>, SetupError> {
    let (n, delay_max) = (params.n, params.delay_max);
    let (replicas, batch) = (count(params, "replicas", 3, 1_000)?, count(params, "batch", 1, 1_000_000)?);
    let processes = n + replicas;
    let back = ProcessSet::none(processes);
    let mut live = ProcessSet::none(processes);
    for replica in n..processes {
        live.insert(replica);
    }
    Ok(Group::new(n, processes, move |me| {
        if me < n {
            let (replicas, dead) = (n..processes, BTreeSet::new());
            return RecordAppend::Client(ClientState { replicas, dead, delay_max, number: 0, pending: None });
        }
        let role = Role::Secondary { joined: true, early: BTreeMap::new() };
        RecordAppend::Replica(Replica {
            me,
            first: n,
            live: live.clone(),
            back: back.clone(),
            delay_max,
            batch,
            log: Log::default(),
            primary: n,
            role,
        })
    }))
}

fn count(params: &Params, what: &'static str, default: usize, max: usize) -> Result<usize, SetupError> {
    let Some(text) = params.value(what) else { return Ok(default) };
    text.parse().ok().filter(|count| (1..=max).contains(count)).ok_or_else(|| SetupError::Value {
        what,
        value: text.to_string(),
        reason: alloc::format!("write a whole number from 1 to {max}"),
    })
}
