//! Draws a [`Scene`] as a space-time diagram, in one self-contained SVG: a line for each process, an arrow for each
//! message (an open one if the message is still on its way at the end), bars for the critical section, marks for faults.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::scene::{self, BarKind, Fate, Mark, MarkKind, Role, Scene};
use crate::{DropReason, Header, Record};

/// The colours of the diagrams and of all pages, as custom properties of CSS, light and dark.
pub const PALETTE: &str = include_str!("../../../console/palette.css");

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
  svg { background: var(--surface); font-family: system-ui, sans-serif; font-size: 12px; }
  .title { font-size: 15px; font-weight: 600; fill: var(--ink); }
  .name { font-weight: 600; fill: var(--ink); text-anchor: end; }
  .time { fill: var(--muted); text-anchor: middle; font-size: 10px; }
  .unit { fill: var(--muted); text-anchor: end; font-size: 10px; }
  .lane { stroke: var(--axis); stroke-width: 1.5; }
  .down { stroke: var(--down); stroke-width: 1.5; stroke-dasharray: 2 5; }
  .tick { stroke: var(--line); stroke-width: 1; }
  .inside { fill: var(--inside); }
  .waiting { fill: var(--waiting); }
  .leads { fill: var(--leads); }
  .message { stroke: var(--message); stroke-width: 1.2; fill: none; marker-end: url(#arrow); }
  .app { stroke: var(--app); stroke-dasharray: 5 3; }
  .lost { stroke: var(--lost); }
  .under-way { stroke-dasharray: 2 3; marker-end: url(#open); }
  #arrow path { fill: var(--message); }
  #open path { fill: none; stroke: var(--message); stroke-width: 1.2px; }
  .cycle { fill: var(--repeat); } .again { fill: var(--muted); font-size: 10px; }
  .kind { fill: var(--ink); text-anchor: middle; font-size: 10px; paint-order: stroke; stroke: var(--surface); stroke-width: 3px; }
  .mark { fill: var(--down); font-size: 16px; text-anchor: middle; font-weight: 700; }
  .note { fill: var(--ink); font-size: 10px; text-anchor: middle; paint-order: stroke; stroke: var(--surface); stroke-width: 3px; }
  .violation { fill: var(--violation); font-weight: 600; }
";

pub fn draw(header: &Header, records: &[Record]) -> String {
    draw_scene(&Scene::new(header, records))
}

pub fn draw_scene(scene: &Scene) -> String {
    let scale = Scale::new(scene);
    let mut picture = Drawing { scale, svg: String::new(), lanes: scene.processes.len() };
    let violations: Vec<String> =
        scene.violations.iter().map(|violation| format!("{}: {}", violation.property, violation.detail)).collect();
    let longest = violations.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let width = (picture.scale.width() + RIGHT).max(2.0 * MARGIN + LETTER * longest as f64);
    let height = picture.below() + 30.0 + 18.0 * violations.len() as f64;
    picture.cycle(scene);
    picture.frame(scene);
    picture.text("title", MARGIN, 26.0, &scene.title);
    picture.bars(scene);
    picture.messages(scene);
    picture.marks(scene);
    for (line, text) in (1..).zip(&violations) {
        picture.text("violation", MARGIN, picture.below() + 18.0 * f64::from(line), text);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<style>\n{PALETTE}{STYLE}</style>\n\
         <defs>{}{}</defs>\n{}</svg>\n",
        marker("arrow", "M0 0 L8 4 L0 8 z"),
        marker("open", "M1 0 L7 4 L1 8"),
        picture.svg
    )
}

/// The head of an arrow.
fn marker(id: &str, path: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto-start-reverse\"><path d=\"{path}\"/></marker>"
    )
}

/// The horizontal position of each moment: in proportion to time, but with a minimum distance between two moments.
struct Scale {
    moments: Vec<(f64, f64)>,
}

impl Scale {
    fn new(scene: &Scene) -> Self {
        let mut moments: Vec<(f64, f64)> = Vec::new();
        for moment in &scene.moments {
            let x =
                moments.last().map_or(LEFT + GAP_MIN, |(t, x)| x + ((moment.t - t) * UNIT).clamp(GAP_MIN, 3.0 * UNIT));
            moments.push((moment.t, x));
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
    fn cycle(&mut self, scene: &Scene) {
        let Some(first) = scene.cycle else { return };
        let (x, y) = (self.scale.x(first.t) - GAP_MIN / 2.0, TOP - 42.0);
        let (width, height) = (self.scale.width() - x, self.below() - y);
        let _ = writeln!(
            self.svg,
            "<rect class=\"cycle\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
        self.text("again", x, self.below() - 7.0, "from here on, again and again");
    }

    fn frame(&mut self, scene: &Scene) {
        self.text("unit", LEFT - 8.0, TOP - 46.0, scene.unit);
        let bottom = self.below() - 20.0;
        let mut last_label = f64::NEG_INFINITY;
        for (t, x) in self.scale.moments.clone() {
            self.line("tick", (x, TOP - 42.0), (x, bottom));
            if x - last_label > 40.0 {
                self.text("time", x, TOP - 46.0, &format!("{}", (t * 1000.0).round() / 1000.0));
                last_label = x;
            }
        }
        for process in &scene.processes {
            let y = self.y(process.id);
            self.text("name", LEFT - 8.0, y + 4.0, &process.name);
            if process.role == Role::Helper {
                self.text("time", LEFT - 22.0, y + 16.0, "(helper)");
            }
            self.line("lane", (LEFT, y), (self.scale.width(), y));
        }
    }

    /// Draws the bars, and broken lines for crashed processes.
    fn bars(&mut self, scene: &Scene) {
        for scene::Bar { process, kind, label, from, to } in &scene.bars {
            let from = self.scale.x(from.t);
            let to = to.map_or(self.scale.width(), |to| self.scale.x(to.t));
            let y = self.y(*process);
            match kind {
                BarKind::Waiting => self.bar("waiting", *process, from, to, BAR / 2.0),
                BarKind::Inside => self.bar("inside", *process, from, to, BAR),
                BarKind::Leads => self.bar("leads", *process, from, to, BAR),
                BarKind::Down => self.line("down", (from, y), (to, y)),
                BarKind::Paused => {}
            }
            if !label.is_empty() {
                self.text("note", (from + to) / 2.0, y + BAR + 8.0, label);
            }
        }
    }

    fn messages(&mut self, scene: &Scene) {
        let end = self.scale.width();
        let mut arrows = Arrows::default();
        let mut crosses = Vec::new();
        for arrow in &scene.arrows {
            let start = self.scale.x(arrow.start.t);
            let app = if arrow.is_app { " app" } else { "" };
            let (class, x) = match (arrow.fate, arrow.end) {
                (Fate::Lost(DropReason::Crashed), Some(end)) => ("message lost".to_owned(), self.scale.x(end.t)),
                (Fate::Lost(_), _) => ("message lost".to_owned(), start + GAP_MIN),
                (_, Some(end)) => (format!("message{app}"), self.scale.x(end.t)),
                // The head is beside the moments, because the message did not arrive at any moment.
                (_, None) => (format!("message{app} under-way"), end.min(start + 0.75 * UNIT)),
            };
            if matches!(arrow.fate, Fate::Lost(_)) {
                crosses.push((x, arrow.to));
            }
            arrows.add(class, (start, arrow.from), (x, arrow.to), arrow.label.clone(), arrow.end.is_some());
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

    fn marks(&mut self, scene: &Scene) {
        // Notes for the same process and moment are stacked.
        let mut stacked: BTreeMap<(Option<usize>, u64), f64> = BTreeMap::new();
        for Mark { process, kind, text, at, .. } in &scene.marks {
            if *kind == MarkKind::Violation {
                continue;
            }
            let x = self.scale.x(at.t);
            // Events of the whole network are above all lanes and above the times.
            let y = process.map_or(TOP - 46.0, |p| self.y(p));
            if let Some(mark) = mark(*kind) {
                self.text("mark", x, y + 5.0, mark);
            }
            let height = stacked.entry((*process, at.t.to_bits())).or_insert(12.0);
            let y = y - *height;
            *height += 11.0;
            self.text("note", x, y, text);
        }
    }
}

/// The mark on the line of a process when a fault begins or ends.
fn mark(kind: MarkKind) -> Option<&'static str> {
    match kind {
        MarkKind::Crash => Some("\u{2716}"),
        MarkKind::Pause => Some("\u{2016}"),
        MarkKind::Recover | MarkKind::Resume => Some("\u{25b8}"),
        _ => None,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatedBy, Event, Network, Params, Unit, VERSION, Workload};

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
