//! What a picture of a run shows, without pixels: lines of processes, bars, arrows and marks, each with its time.
//!
//! [`Scene::new`] reads a trace once. [`crate::diagram`] lays the scene out as an SVG; a viewer in a browser gets it as
//! JSON and lays it out itself. How to use it:
//!
//! - One line for each of `processes`, in their order.
//! - Horizontal positions come from `moments`: the different times of the run, ascending, each with its first record. A
//!   viewer that shows the order of the records, not their times, uses the `seq` of each item instead.
//! - A bar without `to`, and an arrow without `end`, last beyond the end of the run.
//! - There is one arrow for each arrival or loss of a message, so a message that arrives twice has two. Arrows with the
//!   same ends may be drawn as one line.
//! - `seq` is the number of the record that an item comes from. At record s, an item is in the past if its last `seq` is
//!   at most s, and in the future if its first `seq` is greater than s.
//! - All text comes from the trace, and a trace may come from anywhere: escape it.

use std::collections::BTreeMap;

use baton_protocol::registry;
use serde::Serialize;
use serde_json::Value;

use crate::{DropReason, Event, Header, Record, Unit, is_counterexample};

/// The most characters of a body that stand beside the kind of its message.
const BODY_CHARS_MAX: usize = 12;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scene {
    pub title: String,
    /// The unit of all times: `T`, `s`, `step` or `tick`.
    pub unit: &'static str,
    /// Whether the run is a counterexample of the checker.
    pub is_counterexample: bool,
    pub processes: Vec<Process>,
    pub moments: Vec<Moment>,
    pub bars: Vec<Bar>,
    pub arrows: Vec<Arrow>,
    pub marks: Vec<Mark>,
    /// In a counterexample to liveness: the record from which on the run repeats for ever.
    pub cycle: Option<Moment>,
    pub violations: Vec<Violation>,
    /// Where the scene was cut; None if it shows the whole run.
    pub cut: Option<Cut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    pub id: usize,
    pub name: String,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May request.
    Client,
    /// A coordinator, voter, store or witness.
    Helper,
}

/// A time, and the record at that time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    pub t: f64,
    pub seq: u64,
}

/// A state of a process that lasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub process: usize,
    pub kind: BarKind,
    /// For example `fence 7`; may be empty.
    pub label: String,
    pub from: Moment,
    /// None: the state lasts beyond the end.
    pub to: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// From a request until the entry, or from an append until the offset is known. In elections: from a request, or from the loss of the leader, until the process
    /// learns of a leader.
    Waiting,
    /// In the critical section.
    Inside,
    /// The process believes that it leads.
    Leads,
    /// From a crash until the recovery.
    Down,
    Paused,
}

/// The way of one message, or of one copy of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrow {
    /// The number of the message.
    pub msg: u64,
    pub kind: String,
    /// The kind with the part of the body that matters most, if that is short: `ELECTION 4`.
    pub label: String,
    pub body: Option<Value>,
    /// Whether the message is of the application, not of the algorithm.
    pub is_app: bool,
    pub from: usize,
    pub to: usize,
    /// The send.
    pub start: Moment,
    /// The arrival or the loss. None: the message is still under way.
    pub end: Option<Moment>,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Arrived,
    /// The message has arrived before, and arrives again.
    Duplicate,
    UnderWay,
    /// In JSON: `{"lost": "partition"}`.
    Lost(DropReason),
}

/// Something that happens at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// None: the whole network.
    pub process: Option<usize>,
    pub kind: MarkKind,
    /// For example `suspects P2`.
    pub text: String,
    #[serde(flatten)]
    pub at: Moment,
    /// For a partition: its parts. Empty if one link is cut one way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    Crash,
    Recover,
    Pause,
    Resume,
    Suspect,
    Trust,
    /// The process learns of a leader.
    Elected,
    /// The process knows of no leader any more.
    NoLeader,
    Timer,
    WriteAccepted,
    WriteRefused,
    Partition,
    Heal,
    Violation,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    pub property: String,
    pub detail: String,
    /// Whether the run should not have it: the algorithm promises the property, or the run is a counterexample to it.
    pub is_broken_promise: bool,
    #[serde(flatten)]
    pub at: Moment,
}

/// What a cut scene does not show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cut {
    /// The time of the cut.
    pub at: f64,
    /// The end of the run.
    pub end: f64,
}

impl Scene {
    pub fn new(header: &Header, records: &[Record]) -> Self {
        let mut builder = Builder::default();
        for record in records {
            builder.add(record);
        }
        builder.finish();
        for violation in &mut builder.violations {
            violation.is_broken_promise = is_counterexample(records) || is_promised(header, &violation.property);
        }
        let clients = header.group_params().n;
        let role = |id| if id < clients { Role::Client } else { Role::Helper };
        let process = |id| Process { id, name: format!("P{id}"), role: role(id) };
        let first = header.cycle_from().and_then(|first| records.get(usize::try_from(first).ok()?));
        Scene {
            title: title(header, records),
            unit: unit(header, records),
            is_counterexample: is_counterexample(records),
            processes: (0..header.processes).map(process).collect(),
            moments: moments(records),
            cycle: first.map(moment),
            bars: builder.bars,
            arrows: builder.arrows,
            marks: builder.marks,
            violations: builder.violations,
            cut: None,
        }
    }

    /// Only what happens until `t`. Later violations remain, because they are the result of the run.
    #[must_use]
    pub fn until(mut self, t: f64) -> Self {
        let Some(end) = self.moments.last().map(|last| last.t).filter(|end| *end > t) else { return self };
        let is_shown = |moment: &Moment| moment.t <= t;
        self.moments.retain(is_shown);
        self.bars.retain(|bar| is_shown(&bar.from));
        for bar in &mut self.bars {
            bar.to = bar.to.filter(is_shown);
            if bar.kind == BarKind::Waiting && bar.to.is_none() {
                bar.label.clear();
            }
        }
        self.arrows.retain(|arrow| is_shown(&arrow.start));
        for arrow in &mut self.arrows {
            arrow.end = arrow.end.filter(is_shown);
            arrow.fate = if arrow.end.is_some() { arrow.fate } else { Fate::UnderWay };
        }
        self.marks.retain(|mark| is_shown(&mark.at));
        self.cycle = self.cycle.filter(is_shown);
        self.cut = Some(Cut { at: t, end });
        self
    }
}

/// The title has a seed only for the simulator: the checker tries everything, and peers have no seed.
fn title(header: &Header, records: &[Record]) -> String {
    let variant = header.variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let is_drawn_from_seed = header.unit == Unit::T && !is_counterexample(records);
    let seed = if is_drawn_from_seed { format!(", seed {}", header.seed) } else { String::new() };
    format!("{}{variant}, {} processes{seed}", header.algorithm, header.processes)
}

fn unit(header: &Header, records: &[Record]) -> &'static str {
    match header.unit {
        Unit::T if header.is_dated_by_ticks() => "tick",
        Unit::T if is_counterexample(records) => "step",
        Unit::T => "T",
        Unit::Seconds => "s",
    }
}

/// An unknown algorithm promises everything.
fn is_promised(header: &Header, property: &str) -> bool {
    match (registry::find_for(&header.algorithm, &header.group_params()), property.parse()) {
        (Ok(about), Ok(property)) => header.promises(about).include(property),
        _ => true,
    }
}

fn moment(record: &Record) -> Moment {
    Moment { t: record.t, seq: record.seq }
}

/// The times of a merged trace may go back a little; such a record adds no moment.
fn moments(records: &[Record]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    for record in records {
        if moments.last().is_none_or(|last| record.t > last.t) {
            moments.push(moment(record));
        }
    }
    moments
}

/// A message that has been sent.
struct Sent {
    arrow: Arrow,
    /// Whether it, or a copy of it, has arrived.
    has_arrived: bool,
    /// Whether it, or a copy of it, has arrived or was lost.
    is_settled: bool,
}

#[derive(Default)]
struct Builder {
    bars: Vec<Bar>,
    arrows: Vec<Arrow>,
    marks: Vec<Mark>,
    violations: Vec<Violation>,
    /// The bars that have begun and not ended.
    open: BTreeMap<(usize, BarKind), Bar>,
    sent: BTreeMap<u64, Sent>,
}

impl Builder {
    fn add(&mut self, record: &Record) {
        if let Some(process) = record.p {
            self.add_bars(process, moment(record), &record.event);
            self.add_arrows(process, moment(record), &record.event);
        }
        if let Some((kind, text)) = mark(&record.event) {
            let groups = match &record.event {
                Event::Partition { groups, .. } => groups.clone(),
                _ => Vec::new(),
            };
            self.marks.push(Mark { process: record.p, kind, text, at: moment(record), groups });
        }
        if let Event::Violation { property, detail } = &record.event {
            let (property, detail) = (property.clone(), detail.clone());
            self.violations.push(Violation { property, detail, is_broken_promise: true, at: moment(record) });
        }
    }

    fn add_bars(&mut self, p: usize, at: Moment, event: &Event) {
        use BarKind::{Down, Inside, Leads, Paused, Waiting};
        match event {
            Event::Request { .. } => self.begin(p, Waiting, String::new(), at),
            Event::Enter { fence, .. } => {
                self.end(p, Waiting, at);
                self.begin(p, Inside, format!("fence {fence}"), at);
            }
            Event::Exit { .. } | Event::Lost { .. } => self.end(p, Inside, at),
            Event::Cancel { .. } => self.end(p, Waiting, at),
            Event::Append { .. } => self.begin(p, Waiting, String::new(), at),
            Event::Appended { offset, .. } => {
                let waiting = self.open.get_mut(&(p, Waiting));
                waiting.into_iter().for_each(|bar| bar.label = format!("offset {offset}"));
                self.end(p, Waiting, at);
            }
            Event::Elected { leader: Some(leader), term } => {
                self.end(p, Waiting, at);
                let label = term.map_or("leads".to_owned(), |term| format!("leads, term {term}"));
                if *leader != p || self.open.get(&(p, Leads)).is_some_and(|leads| leads.label != label) {
                    self.end(p, Leads, at);
                }
                if *leader == p {
                    self.begin(p, Leads, label, at);
                }
            }
            Event::Elected { leader: None, .. } => {
                self.end(p, Leads, at);
                self.begin(p, Waiting, String::new(), at);
            }
            Event::Crash => {
                for kind in [Waiting, Inside, Leads, Paused] {
                    self.end(p, kind, at);
                }
                self.begin(p, Down, String::new(), at);
            }
            Event::Recover { .. } => self.end(p, Down, at),
            Event::Pause => self.begin(p, Paused, String::new(), at),
            Event::Resume => self.end(p, Paused, at),
            _ => {}
        }
    }

    fn begin(&mut self, process: usize, kind: BarKind, label: String, from: Moment) {
        self.open.entry((process, kind)).or_insert(Bar { process, kind, label, from, to: None });
    }

    fn end(&mut self, process: usize, kind: BarKind, to: Moment) {
        let bar = self.open.remove(&(process, kind));
        self.bars.extend(bar.map(|bar| Bar { to: Some(to), ..bar }));
    }

    fn add_arrows(&mut self, from: usize, start: Moment, event: &Event) {
        match event {
            Event::Send { msg, to, kind, body, .. } => {
                let (kind, label, body) = (kind.clone(), label(kind, body.as_ref()), body.clone());
                let (msg, to, fate) = (*msg, *to, Fate::UnderWay);
                self.send(Arrow { msg, kind, label, body, is_app: false, from, to, start, end: None, fate });
            }
            Event::AppSend { msg, to } => {
                let (kind, label) = ("app".to_owned(), "app".to_owned());
                let (msg, to, fate) = (*msg, *to, Fate::UnderWay);
                self.send(Arrow { msg, kind, label, body: None, is_app: true, from, to, start, end: None, fate });
            }
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => self.settle(*msg, start, Fate::Arrived),
            Event::Drop { msg, reason } => self.settle(*msg, start, Fate::Lost(*reason)),
            _ => {}
        }
    }

    fn send(&mut self, arrow: Arrow) {
        self.sent.insert(arrow.msg, Sent { arrow, has_arrived: false, is_settled: false });
    }

    /// In a merged trace the send may be missing. Then the arrow has no start, and is not shown.
    fn settle(&mut self, msg: u64, end: Moment, fate: Fate) {
        let Some(Sent { arrow, has_arrived, is_settled }) = self.sent.get_mut(&msg) else { return };
        let fate = if *has_arrived && fate == Fate::Arrived { Fate::Duplicate } else { fate };
        *has_arrived |= fate == Fate::Arrived;
        *is_settled = true;
        self.arrows.push(Arrow { end: Some(end), fate, ..arrow.clone() });
    }

    fn finish(&mut self) {
        self.bars.extend(std::mem::take(&mut self.open).into_values());
        self.bars.sort_by_key(|bar| bar.from.seq);
        let under_way = std::mem::take(&mut self.sent).into_values().filter(|sent| !sent.is_settled);
        self.arrows.extend(under_way.map(|sent| sent.arrow));
        self.arrows.sort_by_key(|arrow| (arrow.start.seq, arrow.end.map_or(u64::MAX, |end| end.seq)));
    }
}

fn mark(event: &Event) -> Option<(MarkKind, String)> {
    let mark = match event {
        Event::Crash => (MarkKind::Crash, "crash".to_owned()),
        Event::Recover { memory: true } => (MarkKind::Recover, "recover".to_owned()),
        Event::Recover { memory: false } => (MarkKind::Recover, "recover, memory lost".to_owned()),
        Event::Pause => (MarkKind::Pause, "pause".to_owned()),
        Event::Resume => (MarkKind::Resume, "resume".to_owned()),
        Event::Timer { name } => (MarkKind::Timer, format!("timer {name}")),
        Event::Suspect { peer } => (MarkKind::Suspect, format!("suspects P{peer}")),
        Event::Trust { peer } => (MarkKind::Trust, format!("trusts P{peer}")),
        Event::Elected { leader: Some(leader), .. } => (MarkKind::Elected, format!("leader P{leader}")),
        Event::Elected { leader: None, .. } => (MarkKind::NoLeader, "no leader".to_owned()),
        Event::StoreWrite { fence, accepted: true, .. } => (MarkKind::WriteAccepted, format!("write {fence} accepted")),
        Event::StoreWrite { fence, accepted: false, .. } => (MarkKind::WriteRefused, format!("write {fence} refused")),
        Event::Partition { groups, oneway } => (MarkKind::Partition, cut_in_words(groups, *oneway)),
        Event::Heal => (MarkKind::Heal, "heal".to_owned()),
        Event::Violation { property, .. } => (MarkKind::Violation, format!("violates {property}")),
        _ => return None,
    };
    Some(mark)
}

/// As in the command line: `partition 0,1|2` or `cut 0->1`.
fn cut_in_words(groups: &[Vec<usize>], oneway: Option<(usize, usize)>) -> String {
    let group = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    match oneway {
        Some((from, to)) => format!("cut {from}->{to}"),
        None => format!("partition {}", groups.iter().map(group).collect::<Vec<_>>().join("|")),
    }
}

/// The kind, and the part of the body that matters most: the ids of an election, the process whose request goes round a
/// ring, or a body of one field.
fn label(kind: &str, body: Option<&Value>) -> String {
    let mut fields = body.and_then(Value::as_object);
    // A message that carries the message of another algorithm: the inner body matters.
    while let Some(inner) =
        fields.filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next()?.as_object())
    {
        fields = Some(inner);
    }
    let main = fields.and_then(|fields| {
        let named = ["id", "ids", "leader"].iter().find_map(|name| fields.get(*name));
        named.or(fields.values().next().filter(|_| fields.len() == 1))
    });
    let requester = fields.and_then(|fields| fields.get("stamp")?.get("process")).map(|process| format!("P{process}"));
    let short = requester.or(main.map(Value::to_string)).filter(|text| text.chars().count() <= BODY_CHARS_MAX);
    short.map_or(kind.to_owned(), |text| format!("{kind} {}", text.trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::example::header;

    fn scene(events: impl IntoIterator<Item = (f64, Option<usize>, Event)>) -> Scene {
        let record = |(seq, (t, p, event))| Record { seq, t, p, resource: None, event };
        Scene::new(&header(), &(0..).zip(events).map(record).collect::<Vec<_>>())
    }

    fn send(msg: u64) -> Event {
        Event::Send { msg, to: 2, kind: "REQUEST".into(), bytes: 1, body: Some(json!({ "time": 4 })) }
    }

    /// The page in the browser reads these names.
    #[test]
    fn a_scene_is_written_with_the_records_of_all_its_items() {
        let scene = scene([
            (0.0, Some(0), Event::Request { req: 0, lamport: 1 }),
            (0.0, Some(0), send(5)),
            (1.0, Some(2), Event::Deliver { msg: 5, from: 0, kind: "REQUEST".into() }),
            (1.5, None, Event::Partition { groups: vec![vec![0], vec![1, 2]], oneway: None }),
            (2.0, Some(0), Event::Enter { req: 0, fence: 7 }),
            (2.0, Some(0), Event::Violation { property: "order".into(), detail: "d".into() }),
        ]);
        let expected = json!({
            "title": "central, 3 processes, seed 7",
            "unit": "T",
            "is_counterexample": false,
            "processes": [
                { "id": 0, "name": "P0", "role": "client" },
                { "id": 1, "name": "P1", "role": "client" },
                { "id": 2, "name": "P2", "role": "helper" },
            ],
            "moments": [{ "t": 0.0, "seq": 0 }, { "t": 1.0, "seq": 2 }, { "t": 1.5, "seq": 3 }, { "t": 2.0, "seq": 4 }],
            "bars": [
                { "process": 0, "kind": "waiting", "label": "", "from": { "t": 0.0, "seq": 0 }, "to": { "t": 2.0, "seq": 4 } },
                { "process": 0, "kind": "inside", "label": "fence 7", "from": { "t": 2.0, "seq": 4 }, "to": null },
            ],
            "arrows": [{
                "msg": 5, "kind": "REQUEST", "label": "REQUEST 4", "body": { "time": 4 }, "is_app": false, "from": 0, "to": 2,
                "start": { "t": 0.0, "seq": 1 }, "end": { "t": 1.0, "seq": 2 }, "fate": "arrived",
            }],
            "marks": [
                {
                    "process": null, "kind": "partition", "text": "partition 0|1,2", "t": 1.5, "seq": 3,
                    "groups": [[0], [1, 2]],
                },
                { "process": 0, "kind": "violation", "text": "violates order", "t": 2.0, "seq": 5 },
            ],
            "cycle": null,
            "violations": [{ "property": "order", "detail": "d", "is_broken_promise": false, "t": 2.0, "seq": 5 }],
            "cut": null,
        });
        assert_eq!(serde_json::to_value(&scene).unwrap(), expected);
    }

    #[test]
    fn every_copy_of_a_message_has_an_arrow_with_its_fate() {
        let deliver = |msg| Event::Deliver { msg, from: 0, kind: "REQUEST".into() };
        let scene = scene([
            (0.0, Some(0), send(0)),
            (0.0, Some(0), send(1)),
            (0.0, Some(2), Event::Drop { msg: 1, reason: DropReason::Partition }),
            (0.0, Some(0), Event::AppSend { msg: 2, to: 1 }),
            (1.0, Some(2), deliver(0)),
            (2.0, Some(2), deliver(0)),
            // The send is in the trace of another member.
            (3.0, Some(2), deliver(9)),
            // The network has made two copies, and lost the first.
            (4.0, Some(0), send(3)),
            (4.0, Some(2), Event::Drop { msg: 3, reason: DropReason::Partition }),
            (5.0, Some(2), deliver(3)),
        ]);
        let fates: Vec<_> = scene.arrows.iter().map(|arrow| (arrow.msg, arrow.is_app, arrow.fate)).collect();
        let lost = Fate::Lost(DropReason::Partition);
        let expected = [
            (0, false, Fate::Arrived),
            (0, false, Fate::Duplicate),
            (1, false, lost),
            (2, true, Fate::UnderWay),
            (3, false, lost),
            (3, false, Fate::Arrived),
        ];
        assert_eq!(fates, expected);
        assert_eq!(serde_json::to_value(lost).unwrap(), json!({ "lost": "partition" }));
    }

    #[test]
    fn a_cut_scene_shows_how_things_stand_at_the_cut() {
        let whole = scene([
            (0.0, Some(0), Event::Request { req: 0, lamport: 1 }),
            (0.0, Some(0), send(0)),
            (1.0, Some(1), Event::Crash),
            (2.0, Some(2), Event::Deliver { msg: 0, from: 0, kind: "REQUEST".into() }),
            (3.0, Some(0), Event::Enter { req: 0, fence: 1 }),
            (4.0, Some(0), Event::Violation { property: "safety".into(), detail: "d".into() }),
        ]);
        let cut = whole.clone().until(1.0);
        assert_eq!(cut.cut, Some(Cut { at: 1.0, end: 4.0 }));
        assert_eq!((cut.moments.len(), cut.marks.len(), cut.violations.len()), (2, 1, 1));
        assert_eq!(
            cut.bars.iter().map(|bar| (bar.kind, bar.to)).collect::<Vec<_>>(),
            [(BarKind::Waiting, None), (BarKind::Down, None)]
        );
        assert_eq!(
            cut.arrows.iter().map(|arrow| (arrow.end, arrow.fate)).collect::<Vec<_>>(),
            [(None, Fate::UnderWay)]
        );
        assert_eq!(whole.clone().until(4.0), whole);
    }

    #[test]
    fn before_the_cut_nobody_knows_an_offset_that_is_told_after_it() {
        let whole = scene([
            (0.0, Some(0), Event::Append { req: 0 }),
            (1.0, Some(1), Event::Crash),
            (2.0, Some(0), Event::Appended { req: 0, offset: 7 }),
        ]);
        let label = |scene: Scene| scene.bars[0].label.clone();
        assert_eq!((label(whole.clone()), label(whole.until(1.0))), ("offset 7".to_owned(), String::new()));
    }

    #[test]
    fn a_label_shows_the_short_part_of_a_body_that_matters() {
        let wrapped = json!({ "Election": { "id": 4, "number": 1 } });
        for (body, expected) in [
            (json!(null), "K"),
            (json!({}), "K"),
            (json!({ "fence": 7 }), "K 7"),
            (json!({ "name": "abc" }), "K abc"),
            (json!({ "fence": 7, "time": 2 }), "K"),
            (json!({ "ids": [0, 3], "number": 1 }), "K [0,3]"),
            (json!({ "ids": [10, 11, 12, 13, 14] }), "K"),
            (wrapped, "K 4"),
            (json!({ "stamp": { "process": 3, "time": 9 }, "time": 12 }), "K P3"),
        ] {
            assert_eq!(label("K", Some(&body)), expected, "{body}");
        }
    }
}
