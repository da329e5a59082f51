//! Draws a trace as a space-time diagram, in one self-contained SVG: a line for each process, an arrow for each message
//! (an open one if the message is still on its way at the end), bars for the critical section, marks for faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::{DropReason, Event, Header, Record, Unit, is_counterexample};

const LEFT: f64 = 70.0;
const MARGIN: f64 = 16.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 96.0;
const LANE: f64 = 90.0;
const BAR: f64 = 14.0;
/// The smallest distance between two moments.
const GAP_MIN: f64 = 30.0;
/// The width of one unit of time, unless the moments need more.
const UNIT: f64 = 150.0;
/// The distance between the receiver's line and the head of a message that has not arrived.
const SHORT_OF: f64 = 26.0;
/// The largest width of a letter in the text below the lanes.
const LETTER: f64 = 7.0;

const STYLE: &str = "
  svg { background: #ffffff; font-family: system-ui, sans-serif; font-size: 12px; }
  .title { font-size: 15px; font-weight: 600; fill: #1f2933; }
  .name { font-weight: 600; fill: #1f2933; text-anchor: end; }
  .time { fill: #7b8794; text-anchor: middle; font-size: 10px; }
  .unit { fill: #7b8794; text-anchor: end; font-size: 10px; }
  .lane { stroke: #9aa5b1; stroke-width: 1.5; }
  .down { stroke: #e12d39; stroke-width: 1.5; stroke-dasharray: 2 5; }
  .tick { stroke: #e4e7eb; stroke-width: 1; }
  .inside { fill: #2186eb; } .inside text { fill: #ffffff; }
  .waiting { fill: #bae3ff; }
  .message { stroke: #52606d; stroke-width: 1.2; fill: none; marker-end: url(#arrow); }
  .app { stroke: #b44d12; stroke-dasharray: 5 3; }
  .lost { stroke: #e12d39; }
  .under-way { stroke-dasharray: 2 3; marker-end: url(#open); }
  .cycle { fill: #f0f4f8; } .again { fill: #3e4c59; font-size: 10px; }
  .kind { fill: #323f4b; text-anchor: middle; font-size: 10px; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
  .mark { fill: #e12d39; font-size: 16px; text-anchor: middle; font-weight: 700; }
  .note { fill: #3e4c59; font-size: 10px; text-anchor: middle; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
  .violation { fill: #e12d39; font-weight: 600; }
";

pub fn draw(header: &Header, records: &[Record]) -> String {
    let scale = Scale::new(records);
    let mut picture = Drawing { scale, svg: String::new(), lanes: header.processes };
    let violations = violations(records);
    let longest = violations.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let width = (picture.scale.width() + RIGHT).max(2.0 * MARGIN + LETTER * longest as f64);
    let height = picture.below() + 30.0 + 18.0 * violations.len() as f64;
    picture.cycle(header, records);
    picture.frame(header, unit(header, records));
    picture.text("title", MARGIN, 26.0, &title(header, records));
    picture.stays(records);
    picture.messages(records);
    picture.marks(records);
    for (line, text) in (1..).zip(&violations) {
        picture.text("violation", MARGIN, picture.below() + 18.0 * f64::from(line), text);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <defs>{}{}</defs>\n{}</svg>\n",
        marker("arrow", "M0 0 L8 4 L0 8 z", "fill=\"#52606d\""),
        marker("open", "M1 0 L7 4 L1 8", "fill=\"none\" stroke=\"#52606d\" stroke-width=\"1.2\""),
        picture.svg
    )
}

/// The head of an arrow.
fn marker(id: &str, path: &str, paint: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto-start-reverse\"><path d=\"{path}\" {paint}/></marker>"
    )
}

/// The title has a seed only for the simulator: the checker tries everything, and peers have no seed.
fn title(header: &Header, records: &[Record]) -> String {
    let variant = header.variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let drawn = header.unit == Unit::T && !is_counterexample(records);
    let seed = if drawn { format!(", seed {}", header.seed) } else { String::new() };
    format!("{}{variant}, {} processes{seed}", header.algorithm, header.processes)
}

/// The unit of the times above the lanes.
fn unit(header: &Header, records: &[Record]) -> &'static str {
    match header.unit {
        Unit::T if header.is_dated_by_ticks() => "tick",
        Unit::T if is_counterexample(records) => "step",
        Unit::T => "T",
        Unit::Seconds => "s",
    }
}

fn violations(records: &[Record]) -> Vec<String> {
    let violation = |record: &Record| match &record.event {
        Event::Violation { property, detail } => Some(format!("{property}: {detail}")),
        _ => None,
    };
    records.iter().filter_map(violation).collect()
}

/// The horizontal position of each moment: in proportion to time, but with a minimum distance between two moments.
struct Scale {
    moments: Vec<(f64, f64)>,
}

impl Scale {
    fn new(records: &[Record]) -> Self {
        let mut moments: Vec<(f64, f64)> = Vec::new();
        for record in records {
            match moments.last() {
                None => moments.push((record.t, LEFT + GAP_MIN)),
                Some(&(t, x)) if record.t > t => {
                    moments.push((record.t, x + ((record.t - t) * UNIT).clamp(GAP_MIN, 3.0 * UNIT)));
                }
                Some(_) => {}
            }
        }
        Scale { moments }
    }

    fn x(&self, t: f64) -> f64 {
        let next = self.moments.partition_point(|(moment, _)| *moment < t);
        self.moments.get(next).map_or_else(|| self.width(), |(_, x)| *x)
    }

    fn width(&self) -> f64 {
        self.moments.last().map_or(LEFT + UNIT, |(_, x)| x + GAP_MIN)
    }
}

/// One line for all messages with the same start and end.
struct Arrow {
    class: String,
    from: (f64, usize),
    to: (f64, usize),
    kinds: Vec<String>,
    /// If false, the arrow ends before the receiver's line.
    arrives: bool,
}

/// A message that has been sent.
#[derive(Clone)]
struct Sent {
    from: (f64, usize),
    to: usize,
    kind: String,
    class: &'static str,
}

/// Messages that are sent and received together are drawn as one line with one label.
#[derive(Default)]
struct Arrows {
    drawn: Vec<Arrow>,
    places: BTreeMap<(String, u64, usize, u64, usize), usize>,
}

impl Arrows {
    fn add(&mut self, class: String, from: (f64, usize), to: (f64, usize), kind: String, arrives: bool) {
        let place = (class.clone(), from.0.to_bits(), from.1, to.0.to_bits(), to.1);
        let index = *self.places.entry(place).or_insert(self.drawn.len());
        match self.drawn.get_mut(index) {
            Some(arrow) => arrow.kinds.push(kind),
            None => self.drawn.push(Arrow { class, from, to, kinds: vec![kind], arrives }),
        }
    }
}

struct Drawing {
    scale: Scale,
    svg: String,
    lanes: usize,
}

impl Drawing {
    fn y(&self, process: usize) -> f64 {
        TOP + LANE * process as f64
    }

    fn below(&self) -> f64 {
        TOP + LANE * (self.lanes as f64 - 1.0) + 40.0
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        // Writing to a string cannot fail.
        let _ =
            writeln!(self.svg, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }

    fn bar(&mut self, class: &str, process: usize, from: f64, to: f64, height: f64) {
        let (x, y, width) = (from, self.y(process) - height / 2.0, (to - from).max(3.0));
        let _ = writeln!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        );
    }

    /// Draws a grey background behind the part that repeats for ever, if there is one.
    fn cycle(&mut self, header: &Header, records: &[Record]) {
        let first = header.cycle_from().and_then(|first| records.get(usize::try_from(first).ok()?));
        let Some(first) = first else { return };
        let (x, y) = (self.scale.x(first.t) - GAP_MIN / 2.0, TOP - 42.0);
        let (width, height) = (self.scale.width() - x, self.below() - 20.0 - y);
        let _ = writeln!(
            self.svg,
            "<rect class=\"cycle\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
        self.text("again", x, self.below() - 7.0, "from here on, again and again");
    }

    fn frame(&mut self, header: &Header, unit: &str) {
        self.text("unit", LEFT - 8.0, TOP - 46.0, unit);
        let bottom = self.below() - 20.0;
        let mut last_label = f64::NEG_INFINITY;
        for (t, x) in self.scale.moments.clone() {
            self.line("tick", (x, TOP - 42.0), (x, bottom));
            if x - last_label > 40.0 {
                self.text("time", x, TOP - 46.0, &format!("{}", (t * 1000.0).round() / 1000.0));
                last_label = x;
            }
        }
        for process in 0..self.lanes {
            let y = self.y(process);
            let role = if process < header.clients { "" } else { " (helper)" };
            self.text("name", LEFT - 8.0, y + 4.0, &format!("P{process}"));
            if !role.is_empty() {
                self.text("time", LEFT - 22.0, y + 16.0, role.trim());
            }
            self.line("lane", (LEFT, y), (self.scale.width(), y));
        }
    }

    /// Draws bars for waiting and for the critical section, and broken lines for crashed processes.
    fn stays(&mut self, records: &[Record]) {
        let mut waiting = BTreeMap::new();
        let mut inside = BTreeMap::new();
        let mut down = BTreeMap::new();
        let end = self.scale.width();
        for record in records {
            let (Some(p), x) = (record.p, self.scale.x(record.t)) else { continue };
            match &record.event {
                Event::Request { .. } => {
                    waiting.insert(p, x);
                }
                Event::Enter { fence, .. } => {
                    self.wait(p, waiting.remove(&p), x);
                    inside.insert(p, (x, *fence));
                }
                Event::Exit { .. } => self.leave(p, inside.remove(&p), x),
                Event::Cancel { .. } => self.wait(p, waiting.remove(&p), x),
                Event::Crash => {
                    self.leave(p, inside.remove(&p), x);
                    self.wait(p, waiting.remove(&p), x);
                    down.insert(p, x);
                }
                Event::Recover { .. } => {
                    if let Some(from) = down.remove(&p) {
                        self.line("down", (from, self.y(p)), (x, self.y(p)));
                    }
                }
                _ => {}
            }
        }
        for (p, from) in waiting {
            self.wait(p, Some(from), end);
        }
        for (p, stay) in inside {
            self.leave(p, Some(stay), end);
        }
        for (p, from) in down {
            self.line("down", (from, self.y(p)), (end, self.y(p)));
        }
    }

    fn wait(&mut self, process: usize, from: Option<f64>, to: f64) {
        if let Some(from) = from {
            self.bar("waiting", process, from, to, BAR / 2.0);
        }
    }

    fn leave(&mut self, process: usize, stay: Option<(f64, u64)>, to: f64) {
        if let Some((from, fence)) = stay {
            self.bar("inside", process, from, to, BAR);
            let y = self.y(process) + BAR + 8.0;
            self.text("note", (from + to) / 2.0, y, &format!("fence {fence}"));
        }
    }

    fn messages(&mut self, records: &[Record]) {
        let mut sent = BTreeMap::new();
        let mut under_way = BTreeSet::new();
        let mut arrows = Arrows::default();
        let mut crosses = Vec::new();
        for record in records {
            let (Some(p), x) = (record.p, self.scale.x(record.t)) else { continue };
            match &record.event {
                Event::Send { msg, to, kind, .. } => {
                    under_way.insert(*msg);
                    sent.insert(*msg, Sent { from: (x, p), to: *to, kind: kind.clone(), class: "" });
                }
                Event::AppSend { msg, to } => {
                    under_way.insert(*msg);
                    sent.insert(*msg, Sent { from: (x, p), to: *to, kind: "app".into(), class: " app" });
                }
                Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                    under_way.remove(msg);
                    if let Some(Sent { from, kind, class, .. }) = sent.get(msg).cloned() {
                        arrows.add(format!("message{class}"), from, (x, p), kind, true);
                    }
                }
                Event::Drop { msg, reason } => {
                    under_way.remove(msg);
                    if let Some(Sent { from, kind, .. }) = sent.get(msg).cloned() {
                        let x = if *reason == DropReason::Crashed { x } else { from.0 + GAP_MIN };
                        arrows.add("message lost".into(), from, (x, p), kind, true);
                        crosses.push((x, p));
                    }
                }
                _ => {}
            }
        }
        let end = self.scale.width();
        for Sent { from, to, kind, class } in under_way.iter().filter_map(|msg| sent.remove(msg)) {
            // The head is beside the moments, because the message did not arrive at any moment.
            let x = end.min(from.0 + 0.75 * UNIT);
            arrows.add(format!("message{class} under-way"), from, (x, to), kind, false);
        }
        for arrow in arrows.drawn {
            self.arrow(&arrow);
        }
        for (x, p) in crosses {
            self.text("mark", x, self.y(p) - 8.0, "\u{d7}");
        }
    }

    /// Draws an arrow with its kinds along it. The label is near the sender, where arrows with the same end are still
    /// apart.
    fn arrow(&mut self, Arrow { class, from, to, kinds, arrives }: &Arrow) {
        let (&(x1, p1), &(x2, p2)) = (from, to);
        let (y1, mut y2) = (self.y(p1), self.y(p2));
        if !arrives {
            y2 -= SHORT_OF * (y2 - y1).signum();
        }
        self.line(class, (x1, y1), (x2, y2));
        // The label of a longer arrow is farther from the sender, because the arrows of one multicast separate slowly.
        let part = if *arrives { 0.3 + 0.1 * (p1.abs_diff(p2) as f64 - 1.0).clamp(0.0, 3.0) } else { 0.6 };
        let (x, y) = (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part);
        let angle = (y2 - y1).atan2((x2 - x1).max(1.0)).to_degrees();
        let kind = escape(&kinds.join(", "));
        let _ = writeln!(
            self.svg,
            "<text class=\"kind\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" y=\"-3\">{kind}</text>"
        );
    }

    fn marks(&mut self, records: &[Record]) {
        // Notes for the same process and moment are stacked.
        let mut stacked: BTreeMap<(Option<usize>, u64), f64> = BTreeMap::new();
        for record in records {
            let x = self.scale.x(record.t);
            let note = match &record.event {
                Event::Crash => Some("crash".to_owned()),
                Event::Recover { memory: true } => Some("recover".to_owned()),
                Event::Recover { memory: false } => Some("recover, memory lost".to_owned()),
                Event::Pause => Some("pause".to_owned()),
                Event::Resume => Some("resume".to_owned()),
                Event::Timer { name } => Some(format!("timer {name}")),
                Event::Suspect { peer } => Some(format!("suspects P{peer}")),
                Event::Trust { peer } => Some(format!("trusts P{peer}")),
                Event::Elected { leader, .. } => {
                    Some(leader.map_or("no leader".to_owned(), |leader| format!("leader P{leader}")))
                }
                Event::StoreWrite { fence, accepted, .. } => {
                    Some(format!("write {fence} {}", if *accepted { "accepted" } else { "refused" }))
                }
                Event::Partition { groups, oneway } => Some(format!("\u{26a1} {}", cut_in_words(groups, *oneway))),
                Event::Heal => Some("heal".to_owned()),
                _ => None,
            };
            let Some(note) = note else { continue };
            // Events of the whole network are above all lanes and above the times.
            let y = record.p.map_or(TOP - 46.0, |p| self.y(p));
            if let Some(mark) = mark(&record.event) {
                self.text("mark", x, y + 5.0, mark);
            }
            let height = stacked.entry((record.p, record.t.to_bits())).or_insert(12.0);
            let y = y - *height;
            *height += 11.0;
            self.text("note", x, y, &note);
        }
    }
}

/// The mark on the line of a process when a fault begins or ends.
fn mark(event: &Event) -> Option<&'static str> {
    match event {
        Event::Crash => Some("\u{2716}"),
        Event::Pause => Some("\u{2016}"),
        Event::Recover { .. } | Event::Resume => Some("\u{25b8}"),
        _ => None,
    }
}

/// As in the command line: `partition 0,1|2` or `cut 0->1`.
fn cut_in_words(groups: &[Vec<usize>], oneway: Option<(usize, usize)>) -> String {
    let group = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    match oneway {
        Some((from, to)) => format!("cut {from}->{to}"),
        None => format!("partition {}", groups.iter().map(group).collect::<Vec<_>>().join("|")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatedBy, Network, Params, Unit, VERSION, Workload};

    fn header() -> Header {
        Header {
            baton_trace: VERSION,
            algorithm: "a<b".into(),
            variant: Some("v".into()),
            processes: 2,
            clients: 1,
            quorums: None,
            tree: None,
            seed: 1,
            network: Network::default(),
            workload: Workload::default(),
            params: Params::default(),
            unit: Unit::T,
        }
    }

    fn records(events: impl IntoIterator<Item = (f64, usize, Event)>) -> Vec<Record> {
        (0..).zip(events).map(|(seq, (t, p, event))| Record { seq, t, p: Some(p), resource: None, event }).collect()
    }

    fn send(msg: u64, kind: &str) -> Event {
        Event::Send { msg, to: 1, kind: kind.into(), bytes: 1, body: None }
    }

    fn end(reason: &str) -> Event {
        Event::End { reason: reason.into(), entries: 0, messages: 0 }
    }

    #[test]
    fn what_has_not_arrived_at_the_end_is_an_open_arrow_that_ends_before_its_receiver() {
        let deliver = |msg| Event::Deliver { msg, from: 0, kind: "k".into() };
        let lost = Event::Drop { msg: 2, reason: DropReason::Loss };
        let all = records([
            (0.0, 0, send(0, "ARRIVED")),
            (0.0, 0, send(1, "OVERTAKEN")),
            (0.0, 0, send(2, "LOST")),
            (0.0, 0, Event::AppSend { msg: 3, to: 1 }),
            (1.0, 1, deliver(0)),
            (1.0, 1, lost),
        ]);
        let svg = draw(&header(), &all);
        let lines: Vec<&str> = svg.lines().collect();
        let arrow_of = |kind: &str| {
            let label = lines.iter().position(|line| line.contains(&format!(">{kind}<")));
            lines[label.unwrap_or_else(|| panic!("no {kind} in {svg}")) - 1]
        };
        let receiver = TOP + LANE;
        for (kind, class, y) in [
            ("ARRIVED", "message", receiver),
            ("OVERTAKEN", "message under-way", receiver - SHORT_OF),
            ("LOST", "message lost", receiver),
            ("app", "message app under-way", receiver - SHORT_OF),
        ] {
            let arrow = arrow_of(kind);
            assert!(arrow.contains(&format!("\"{class}\"")) && arrow.contains(&format!("y2=\"{y:.1}\"")), "{arrow}");
        }
    }

    #[test]
    fn the_title_tells_a_seed_and_the_axis_its_unit_where_they_have_one() {
        let steps = |reason| records([(1.0, 0, end(reason))]);
        let peers = Header { unit: Unit::Seconds, ..header() };
        let workload = Workload { dated_by: Some(DatedBy::Ticks), ..Workload::default() };
        let beats = Header { workload, ..header() };
        for (header, reason, seed, unit) in [
            (header(), "finished", true, ">T<"),
            (header(), "violation", false, ">step<"),
            (beats, "violation", false, ">tick<"),
            (peers, "finished", false, ">s<"),
        ] {
            let svg = draw(&header, &steps(reason));
            assert_eq!((svg.contains(", seed 1"), svg.contains(unit)), (seed, true), "{svg}");
        }
    }

    #[test]
    fn what_happens_again_and_again_is_marked() {
        let all = records([(1.0, 0, Event::Crash), (2.0, 0, Event::Resume), (2.0, 0, end("violation"))]);
        let cycle =
            |first| Header { workload: Workload { cycle_from: Some(first), ..Workload::default() }, ..header() };
        let svg = draw(&cycle(1), &all);
        let x = LEFT + GAP_MIN + UNIT - GAP_MIN / 2.0;
        assert!(svg.contains(&format!("class=\"cycle\" x=\"{x:.1}\"")) && svg.contains("again and again"), "{svg}");
        assert!(!draw(&header(), &all).contains("again and again"));
        assert!(!draw(&cycle(9), &all).contains("again and again"));
    }

    #[test]
    fn who_waits_does_so_until_it_crashes_or_gives_up() {
        for ends in [Event::Crash, Event::Cancel { req: 0 }] {
            let svg = draw(&header(), &records([(0.0, 0, Event::Request { req: 0, lamport: 1 }), (1.0, 0, ends)]));
            assert!(svg.contains("class=\"waiting\"") && svg.contains(&format!("width=\"{UNIT:.1}\"")), "{svg}");
        }
    }

    #[test]
    fn a_long_violation_fits_in() {
        let detail = "so ".repeat(200);
        let width = 600.0 * LETTER;
        let svg = draw(&header(), &records([(0.0, 0, Event::Violation { property: "safety".into(), detail })]));
        let drawn = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(drawn.parse::<f64>().unwrap() > width, "{drawn}");
    }

    #[test]
    fn everything_that_happens_is_drawn() {
        let header = header();
        let events = [
            (0.0, Event::Request { req: 0, lamport: 1 }),
            (0.0, send(0, "REQUEST")),
            (0.0, send(1, "MORE")),
            (2.0, Event::Enter { req: 0, fence: 7 }),
            (3.0, Event::Exit { req: 0 }),
            (4.0, Event::Crash),
            (4.0, Event::Partition { groups: vec![vec![0], vec![1]], oneway: None }),
            (4.5, Event::Heal),
            (4.5, Event::Partition { groups: Vec::new(), oneway: Some((0, 1)) }),
            (5.0, Event::Violation { property: "safety".into(), detail: "wrong".into() }),
        ];
        let mut records = records(events.map(|(t, event)| (t, 0, event)));
        for (msg, kind) in [(0, "REQUEST"), (1, "MORE")] {
            let deliver = Event::Deliver { msg, from: 0, kind: kind.into() };
            records.insert(3 + msg as usize, Record { seq: 2, t: 1.0, p: Some(1), resource: None, event: deliver });
        }
        let svg = draw(&header, &records);
        let drawn = [
            "a&lt;b (v), 2 processes",
            ">REQUEST, MORE<",
            "fence 7",
            "class=\"inside\"",
            ">crash<",
            "safety: wrong",
            "partition 0|1<",
            ">heal<",
            "cut 0-&gt;1<",
        ];
        for part in drawn {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(draw(&header, &[]).contains("P1"), "even nothing can be drawn");
    }
}
