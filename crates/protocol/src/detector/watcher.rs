//! A process that sends beats and watches all other processes by its own clock, for drivers without time.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::Detector;
use crate::picture::{Kind, Part, Text, Value};
use crate::registry::Group;
use crate::{Input, Message, Outbox, Picture, ProcessId, Protocol, Ticks};

/// Sends a beat to all other processes every period, and has a [`Detector`] for each of them.
///
/// The clock of the process is a part of its state. It stands still until the timer of the process fires, and then shows
/// the moment for which the timer was set. So the clock of a process is never wrong about its own beats and deadlines.
/// But a driver without time may let the clocks of two processes run at any speed, and messages may take any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watcher<D> {
    me: ProcessId,
    period: Ticks,
    clock: Ticks,
    /// When the next beat is due.
    beats_at: Ticks,
    /// How often the process has started. On stable storage.
    starts: u64,
    /// By the id of the watched process. None for the process itself.
    watches: Vec<Option<Watch<D>>>,
    /// The running timer, and the moment for which it is set.
    timer: Option<(Due, Ticks)>,
    /// Ticks in the unit in which [`view`](Protocol::view) shows times.
    unit: Ticks,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watch<D> {
    detector: D,
    suspected: bool,
    /// The start of the watched process that its latest beat named. 0 before the first beat.
    start: u64,
}

/// The sender is alive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StampedBeat {
    /// How often the sender has started. After a new start its rhythm begins anew.
    pub start: u64,
}

impl Message for StampedBeat {
    fn kind(&self) -> &'static str {
        "BEAT"
    }
}

/// What a process does when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Due {
    /// Sends a beat.
    Beat,
    /// Suspects every process whose deadline is over.
    Deadline,
}

/// A process has changed its mind about another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    Suspects(ProcessId),
    TrustsAgain(ProcessId),
}

/// Most peers whose detectors are in a picture.
const SHOWN_MAX: usize = 16;

impl<D: Detector> Watcher<D> {
    /// The group in which each process runs a detector of `group` for each other process. `unit`: the number of ticks in
    /// the unit in which a process shows its times.
    pub fn group(group: Group<D>, unit: Ticks) -> Group<Self> {
        let (n, drift, make) = (group.processes, group.drift, group.make);
        let period = make(0).period();
        let watcher = move |me| {
            let watch = |peer| (peer != me).then(|| Watch { detector: make(peer), suspected: false, start: 0 });
            let watches = (0..n).map(watch).collect();
            Watcher { me, period, clock: 0, beats_at: 0, starts: 0, watches, timer: None, unit }
        };
        Group { drift, ..Group::new(n, n, watcher) }
    }

    /// Begins to watch, after every start of the process. The caller then sends a [beat](Watcher::beat).
    pub fn watch(&mut self) {
        self.starts += 1;
        self.timer = None;
        for watch in self.watches.iter_mut().flatten() {
            (watch.suspected, watch.start) = (false, 0);
            watch.detector.watch(self.clock);
        }
    }

    /// Moves the clock forward.
    pub fn set_clock(&mut self, now: Ticks) {
        self.clock = self.clock.max(now);
    }

    /// The beat that the process sends to all others now. The next one is due after a period.
    pub fn beat(&mut self) -> StampedBeat {
        self.beats_at = self.clock.saturating_add(self.period);
        StampedBeat { start: self.starts }
    }

    /// A beat of `peer` has arrived. Returns whether it ends a suspicion.
    pub fn hear(&mut self, peer: ProcessId, StampedBeat { start }: &StampedBeat) -> bool {
        let Some(watch) = self.watches.get_mut(peer).and_then(Option::as_mut) else { return false };
        // A beat of an earlier start says nothing about now.
        if *start < watch.start {
            return false;
        }
        if *start > watch.start {
            watch.start = *start;
            watch.detector.watch(self.clock);
        }
        watch.detector.beat(self.clock);
        core::mem::take(&mut watch.suspected)
    }

    /// Whether the deadline of `peer` is over at `clock`, and the process does not suspect it yet.
    pub fn is_overdue(&self, peer: ProcessId, clock: Ticks) -> bool {
        let overdue = |watch: &Watch<D>| !watch.suspected && watch.detector.suspects(clock);
        self.watches.get(peer).and_then(Option::as_ref).is_some_and(overdue)
    }

    pub fn suspect(&mut self, peer: ProcessId) {
        self.watches.get_mut(peer).and_then(Option::as_mut).into_iter().for_each(|watch| watch.suspected = true);
    }

    pub fn suspects(&self, peer: ProcessId) -> bool {
        self.watches.get(peer).and_then(Option::as_ref).is_some_and(|watch| watch.suspected)
    }

    /// The deadline of `peer`, as the picture shows it. None for the process itself.
    pub fn deadline(&self, peer: ProcessId) -> Option<String> {
        let watch = self.watches.get(peer).and_then(Option::as_ref)?;
        Some(self.shown(watch.detector.deadline()))
    }

    /// The earliest moment at which a process becomes overdue that is not suspected yet.
    fn overdue_at(&self) -> Option<Ticks> {
        let trusted = self.watches.iter().flatten().filter(|watch| !watch.suspected);
        trusted.map(|watch| watch.detector.deadline().saturating_add(1)).min()
    }

    fn others(&self) -> impl Iterator<Item = ProcessId> + use<D> {
        let me = self.me;
        (0..self.watches.len()).filter(move |&other| other != me)
    }

    fn send_beat(&mut self, out: &mut Outbox<Self>) {
        let beat = self.beat();
        out.multicast(self.others(), beat);
    }

    /// Does everything that is due.
    fn act(&mut self, out: &mut Outbox<Self>) {
        if self.beats_at <= self.clock {
            self.send_beat(out);
        }
        for peer in self.others().filter(|&peer| self.is_overdue(peer, self.clock)).collect::<Vec<_>>() {
            self.suspect(peer);
            out.emit(Opinion::Suspects(peer));
        }
    }

    /// Keeps the timer set for the next moment at which something is due.
    fn set_timer(&mut self, out: &mut Outbox<Self>) {
        let next = match self.overdue_at() {
            Some(at) if at < self.beats_at => (Due::Deadline, at),
            _ => (Due::Beat, self.beats_at),
        };
        if self.timer == Some(next) {
            return;
        }
        if let Some((old, _)) = self.timer.replace(next).filter(|(old, _)| *old != next.0) {
            out.cancel_timer(old);
        }
        out.set_timer(next.0, next.1.saturating_sub(self.clock));
    }

    /// A time in the unit of the picture: a whole number, or one with two decimals.
    fn shown(&self, time: Ticks) -> String {
        match self.unit {
            0 | 1 => format!("{time}"),
            unit => {
                let hundredths = u128::from(time) * 100 / u128::from(unit);
                format!("{}.{:02}", hundredths / 100, hundredths % 100)
            }
        }
    }

    /// What the detectors know, one part for all peers: `deadline` is `P1: 21, P2: 22`. In a large group only the peers
    /// with the earliest deadlines are shown.
    fn watched(&self) -> Vec<Part> {
        let mut all: Vec<(Text, Vec<String>)> = Vec::new();
        let detectors = self.watches.iter().enumerate().filter_map(|(peer, watch)| Some((peer, watch.as_ref()?)));
        let mut shown: Vec<(ProcessId, &Watch<D>)> = detectors.collect();
        let left_out = shown.len().saturating_sub(SHOWN_MAX);
        if left_out > 0 {
            shown.sort_by_key(|(_, watch)| watch.detector.deadline());
            shown.truncate(SHOWN_MAX);
            shown.sort_by_key(|(peer, _)| *peer);
        }
        for (peer, watch) in shown {
            for Part { name, kind } in watch.detector.view(self.clock).parts {
                let shown = match kind {
                    // All numbers of a detector are times.
                    Kind::Field { value: Value::Number(time) } => self.shown(time),
                    Kind::Field { value: Value::Text(text) } => text.into_owned(),
                    // Whether it suspects the process. The set of all suspected processes shows it.
                    _ => continue,
                };
                let shown = format!("P{peer}: {shown}");
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, texts)) => texts.push(shown),
                    None => all.push((name, vec![shown])),
                }
            }
        }
        let more = (left_out > 0).then(|| format!("{left_out} more"));
        all.iter_mut().for_each(|(_, texts)| texts.extend(more.clone()));
        let part =
            |(name, texts): (Text, Vec<String>)| Part { name, kind: Kind::Field { value: texts.join(", ").into() } };
        all.into_iter().map(part).collect()
    }
}

impl<D: Detector> Protocol for Watcher<D> {
    type Message = StampedBeat;
    type Timer = Due;
    type Command = Infallible;
    type Event = Opinion;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(_) => {
                self.watch();
                self.send_beat(out);
            }
            Input::Timer(_) => {
                let due = self.timer.take().map_or(self.clock, |(_, at)| at);
                self.set_clock(due);
                self.act(out);
            }
            Input::Message { from, message } => {
                if self.hear(from, &message) {
                    out.emit(Opinion::TrustsAgain(from));
                }
            }
            _ => return,
        }
        self.set_timer(out);
    }

    /// The clock runs on while the process is down, and the number of starts is on stable storage. Everything else begins
    /// anew with the start.
    fn forget(&mut self, _: Self) {}

    fn view(&self) -> Picture {
        let suspects = self.others().filter(|&peer| self.suspects(peer));
        Picture::new()
            .field("clock", self.shown(self.clock))
            .field("next beat", self.shown(self.beats_at))
            .set("suspects", suspects)
            .and(Picture { parts: self.watched() })
    }
}
