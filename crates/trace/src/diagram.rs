//! Draws a [`Scene`] as a space-time diagram, in one self-contained SVG: a line for each process, an arrow for each
//! message (an open one if the message is still under way at the end), bars for what lasts, marks for what happens at
//! one moment. Every bar, arrow and mark has a tooltip with its times, and with the body of its message.
//!
//! Text is drawn only where it covers no other text. Text without room is in the tooltip only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::str::FromStr;

mod legend;
mod messages;
mod places;
mod scale;
#[cfg(test)]
mod tests;

use legend::Sample;
use places::{Place, Places};
use scale::{GAP_MIN, Scale, remaining};

use crate::scene::{Bar, BarKind, Mark, MarkKind, Role, Scene, Violation};
use crate::{Header, Record};

/// The colours of the diagrams and of all pages, as custom properties of CSS, light and dark.
pub const PALETTE: &str = include_str!("../../../console/palette.css");
const STYLE: &str = include_str!("diagram/style.css");

const LEFT: f64 = 70.0;
const MARGIN: f64 = 16.0;
const RIGHT: f64 = 40.0;
/// The distance between the times and the first lane.
const HEAD: f64 = 46.0;
const LANE: f64 = 90.0;
/// The distance between two lines of text.
const LINE: f64 = 18.0;
/// The largest width of a letter in text of 12 pixels, and in text of 10 pixels.
const LETTER: f64 = 7.0;
const SMALL_LETTER: f64 = 6.2;
/// The height of text of 10 pixels.
const SMALL_HEIGHT: f64 = 10.0;
const WIDTH_MIN: f64 = 560.0;
/// Legend and violations are no wider, so that they can be read without scrolling.
const TEXT_WIDTH_MAX: f64 = 1200.0;
const LABEL_CHARS_MAX: usize = 40;
/// How many violations of promises, and how many other violations, are described.
const VIOLATIONS_MAX: usize = 10;
const HARMLESS_MAX: usize = 3;

/// How much of a run is drawn if nobody says it, in units of time, without the times that are cut.
const EXTENT: f64 = 30.0;
/// A run with at most so many moments is small, and drawn as a whole.
const SMALL_MOMENTS: usize = 60;
/// No picture that nobody has asked for has more moments. In a real group, 30 seconds may have many thousands.
const MOMENTS_MAX: usize = 400;

/// How much of a run is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Extent {
    /// Small runs and counterexamples as a whole, and of other runs the first 30 T, without the times that are cut.
    #[default]
    Beginning,
    Until(f64),
    All,
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(t) if t >= 0.0 && t.is_finite() => Ok(Extent::Until(t)),
            _ if text == "all" => Ok(Extent::All),
            _ => Err("give a time that is not negative, or `all`".to_owned()),
        }
    }
}

pub fn draw(header: &Header, records: &[Record], extent: Extent) -> String {
    let scene = Scene::new(header, records);
    let until = match extent {
        Extent::All => None,
        Extent::Until(t) => Some(t),
        Extent::Beginning => beginning(&scene),
    };
    draw_scene(&match until {
        Some(t) => scene.until(t),
        None => scene,
    })
}

/// The end of the beginning; None: the whole run.
fn beginning(scene: &Scene) -> Option<f64> {
    if scene.is_counterexample || scene.moments.len() <= SMALL_MOMENTS {
        return None;
    }
    let mut drawn = 0.0;
    for (index, pair) in scene.moments.windows(2).enumerate() {
        drawn += remaining(pair[1].t - pair[0].t);
        if drawn > EXTENT || index + 2 > MOMENTS_MAX {
            return Some(pair[0].t);
        }
    }
    None
}

pub fn draw_scene(scene: &Scene) -> String {
    let mut picture = Drawing::new(scene);
    picture.cycle();
    picture.frame();
    let bars =
        || scene.bars.iter().filter(|bar| bar.kind != BarKind::Waiting || bar.to.is_none_or(|to| to.t > bar.from.t));
    bars().for_each(|bar| picture.bar(bar));
    picture.breaks();
    picture.marks();
    bars().for_each(|bar| picture.bar_label(bar));
    picture.messages();
    let (width, height) = picture.text_around();
    let light =
        palette_light().fold(STYLE.to_owned(), |style, (name, colour)| style.replace(&format!("var({name})"), colour));
    let heads =
        [("arrow", FULL), ("arrow-app", FULL), ("open", OPEN), ("open-app", OPEN)].map(|(id, path)| head(id, path));
    // Some programs that convert an SVG do not know custom properties. They use the first style, which is light.
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n<style>\n{light}{PALETTE}{STYLE}</style>\n\
         <defs>{}</defs>\n<rect class=\"surface\" width=\"100%\" height=\"100%\"/>\n{}{}</svg>\n",
        escape(&scene.title),
        heads.concat(),
        picture.svg,
        picture.texts
    )
}

/// The colours of the light theme: the first block of the palette.
fn palette_light() -> impl Iterator<Item = (&'static str, &'static str)> {
    let block = PALETTE.split('}').next().unwrap_or_default();
    block.split([';', '\n', '{']).filter_map(|declaration| {
        let (name, value) = declaration.split_once(':')?;
        Some((name.trim(), value.trim())).filter(|(name, _)| name.starts_with("--"))
    })
}

const FULL: &str = "M0 0 L8 4 L0 8 z";
const OPEN: &str = "M1 0 L7 4 L1 8";

/// The head of an arrow.
fn head(id: &str, path: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path d=\"{path}\"/></marker>"
    )
}

struct Drawing<'a> {
    scene: &'a Scene,
    scale: Scale,
    /// The y of the first lane.
    top: f64,
    svg: String,
    /// Text beside lines. It is drawn last, so that no line covers it.
    texts: String,
    places: Places,
    /// Text covers these only if it has no other place.
    thin_bars: Places,
    /// What the legend must explain.
    samples: BTreeSet<Sample>,
}

impl<'a> Drawing<'a> {
    fn new(scene: &'a Scene) -> Self {
        let mut stacks: BTreeMap<u64, usize> = BTreeMap::new();
        for mark in scene.marks.iter().filter(|mark| mark.process.is_none()) {
            *stacks.entry(mark.at.t.to_bits()).or_default() += 1;
        }
        let stack = stacks.into_values().max().unwrap_or_default() as f64;
        let note = if scene.cut.is_some() { LINE } else { 0.0 };
        Drawing {
            scene,
            scale: Scale::new(scene, LEFT),
            top: 50.0 + note + (SMALL_HEIGHT + 1.0) * stack + HEAD,
            svg: String::new(),
            texts: String::new(),
            places: Places::default(),
            thin_bars: Places::default(),
            samples: BTreeSet::new(),
        }
    }

    fn y(&self, process: usize) -> f64 {
        self.top + LANE * process as f64
    }

    /// The lower end of the vertical lines.
    fn bottom(&self) -> f64 {
        self.top + LANE * (self.scene.processes.len() as f64 - 1.0) + 24.0
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        // Writing to a string cannot fail.
        let _ =
            writeln!(self.svg, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.texts, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }

    /// Whether the times count steps or ticks.
    fn is_counted(&self) -> bool {
        matches!(self.scene.unit, "step" | "tick")
    }

    /// `3 T` and `2 s`, but `step 4`.
    fn time(&self, t: f64) -> String {
        let (number, unit) = (number(t), self.scene.unit);
        if self.is_counted() { format!("{unit} {number}") } else { format!("{number} {unit}") }
    }

    /// `3 T`, `2 s` and `4 steps`.
    fn span(&self, t: f64) -> String {
        let plural = if self.is_counted() && t != 1.0 { "s" } else { "" };
        format!("{} {}{plural}", number(t), self.scene.unit)
    }

    /// Draws a grey background behind the part that repeats for ever, if there is one.
    fn cycle(&mut self) {
        let Some(first) = self.scene.cycle else { return };
        let (x, y) = (self.scale.x(first.t) - GAP_MIN / 2.0, self.top - HEAD + 4.0);
        let (width, height) = (self.scale.end - x, self.bottom() + 14.0 - y);
        let _ = writeln!(
            self.svg,
            "<rect class=\"cycle\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
        self.text("soft", x + 4.0, self.bottom() + 10.0, "from here on, again and again");
    }

    fn frame(&mut self) {
        let y = self.top - HEAD;
        self.text("unit", LEFT - 8.0, y, self.scene.unit);
        let (mut free_from, mut last) = (f64::NEG_INFINITY, String::new());
        for (t, x) in self.scale.moments.clone() {
            self.line("tick", (x, y + 4.0), (x, self.bottom()));
            let time = number(t);
            let width = SMALL_LETTER * time.chars().count() as f64;
            if x - width / 2.0 > free_from && time != last {
                self.text("time", x, y, &time);
                self.places.take(Place { x, y: y - 4.0, width, height: SMALL_HEIGHT, angle: 0.0 });
                free_from = x + width / 2.0 + 6.0;
                last = time;
            }
        }
        for process in &self.scene.processes {
            let y = self.y(process.id);
            self.text("name", LEFT - 8.0, y + 4.0, &process.name);
            if process.role == Role::Helper {
                self.text("unit", LEFT - 8.0, y + 16.0, "helper");
            }
            self.line("lane", (LEFT, y), (self.scale.end, y));
        }
    }

    /// The left end and the width of a bar.
    fn bar_ends(&self, bar: &Bar) -> (f64, f64) {
        let x = self.scale.x(bar.from.t);
        (x, (bar.to.map_or(self.scale.end, |to| self.scale.x(to.t)) - x).max(3.0))
    }

    fn bar(&mut self, bar: &Bar) {
        let (x, width) = self.bar_ends(bar);
        let y = self.y(bar.process);
        self.samples.insert(Sample::Bar(bar.kind));
        let tooltip = escape(&self.about_bar(bar));
        let _ = write!(self.svg, "<g><title>{tooltip}</title>");
        if bar.kind == BarKind::Down {
            self.line("gone", (x, y), (x + width, y));
            self.line("near", (x, y), (x + width, y));
            self.line("down", (x, y), (x + width, y));
        } else {
            self.svg.push_str(&rectangle(bar.kind, x, y, width));
        }
        self.svg.push_str("</g>\n");
    }

    /// Draws the label on its bar where no mark is, or below the bar if the bar is too small for text. Then no other text
    /// may cover the bar.
    fn bar_label(&mut self, bar: &Bar) {
        let (x, width) = self.bar_ends(bar);
        let (y, label) = (self.y(bar.process), text_width(&bar.label) + 6.0);
        let middle = x + width / 2.0;
        if !bar.label.is_empty() {
            let on_bar = [middle, x + 6.0 + label / 2.0, x + width - 6.0 - label / 2.0];
            let on_bar = on_bar.map(|x| Place { x, y, width: label, height: SMALL_HEIGHT, angle: 0.0 });
            let is_thin = height(bar.kind) < SMALL_HEIGHT;
            let has_room = label + 12.0 <= width && !is_thin;
            // What a thin bar says is known at its end.
            let below = if is_thin { x + width - label / 2.0 } else { middle };
            match self.places.take_first(on_bar.into_iter().filter(|_| has_room)) {
                Some(place) => self.text("on-bar", place.x, y + 3.5, &bar.label),
                None => self.note(below, y + 8.0, 1.0, &bar.label),
            }
        }
        let place = Place { x: middle, y, width, height: height(bar.kind), angle: 0.0 };
        match bar.kind {
            BarKind::Waiting | BarKind::Down => self.thin_bars.take(place),
            BarKind::Inside | BarKind::Leads | BarKind::Paused => self.places.take(place),
        }
    }

    fn about_bar(&self, Bar { process, kind, label, from, to }: &Bar) -> String {
        let state = match kind {
            BarKind::Waiting => "waits".to_owned(),
            BarKind::Inside => format!("is inside, {label}"),
            BarKind::Leads => label.clone(),
            BarKind::Down => "is down".to_owned(),
            BarKind::Paused => "is paused".to_owned(),
        };
        let start = self.time(from.t);
        match to {
            Some(to) => format!("P{process} {state}: {start} to {}, {}", self.time(to.t), self.span(to.t - from.t)),
            None => format!("P{process} {state}: from {start} on"),
        }
    }

    /// Marks where the axis leaves out a time, and where the run goes on.
    fn breaks(&mut self) {
        let y = self.top - HEAD;
        for index in 0..self.scale.breaks.len() {
            let (x, cut) = (self.scale.breaks[index].x, self.scale.breaks[index].cut);
            self.zigzag(x, &format!("{} without events are not drawn", self.span(cut)));
            self.samples.insert(Sample::Break);
            // Between the times, or above them.
            let text = format!("{} cut", self.span(cut));
            let (width, height) = (text_width(&text), SMALL_HEIGHT);
            let places = [y, y - SMALL_HEIGHT - 1.0].map(|y| Place { x, y: y - 4.0, width, height, angle: 0.0 });
            if let Some(place) = self.places.take_first(places) {
                self.text("time", x, place.y + 4.0, &text);
            }
        }
        if let Some(cut) = self.scene.cut {
            self.zigzag(self.scale.end, &format!("the run goes on until {}", self.time(cut.end)));
        }
    }

    /// Two zigzag lines with nothing between them, and no text on them.
    fn zigzag(&mut self, x: f64, tooltip: &str) {
        let (top, bottom) = (self.top - HEAD + 4.0, self.bottom());
        self.places.take(Place { x, y: (top + bottom) / 2.0, width: 16.0, height: bottom - top, angle: 0.0 });
        let teeth = ((bottom - top) / 12.0).floor() as usize;
        let side = |x: f64| -> Vec<String> {
            let at = |tooth: usize| {
                format!("{:.1} {:.1}", x + if tooth.is_multiple_of(2) { -3.0 } else { 3.0 }, top + 12.0 * tooth as f64)
            };
            (0..=teeth).map(at).collect()
        };
        let (left, right) = (side(x - 4.0), side(x + 4.0));
        let around: Vec<String> = left.iter().chain(right.iter().rev()).cloned().collect();
        let _ = writeln!(
            self.svg,
            "<g class=\"break\"><title>{}</title><path class=\"surface\" d=\"M{} z\"/><path class=\"zigzag\" d=\"M{} M{}\"/></g>",
            escape(tooltip),
            around.join(" L"),
            left.join(" L"),
            right.join(" L")
        );
    }

    /// Draws text in the first free line from `y` on, upwards or downwards. Near the right end, where a mark may say that
    /// the run goes on, the text may move to the left. Without a free line the text is left out.
    fn note(&mut self, x: f64, y: f64, direction: f64, text: &str) {
        let text = shortened(text);
        let (width, height) = (text_width(&text), SMALL_HEIGHT);
        let line = |line: i32| y + direction * (height / 2.0 + (height + 1.0) * f64::from(line));
        let beside_end = x.min(self.scale.end - 10.0 - width / 2.0);
        let places = (0..4).flat_map(|index| [(x, index), (beside_end, index)]);
        let places = places.map(|(x, index)| Place { x, y: line(index), width, height, angle: 0.0 });
        if let Some(place) = self.places.take_first(places) {
            self.text("note", place.x, place.y + 3.5, &text);
        }
    }

    fn marks(&mut self) {
        // Marks of the same process, moment and kind share a note: "suspects P1, P2".
        let mut together: Vec<(&Mark, String)> = Vec::new();
        let mut indices = BTreeMap::new();
        let harmless = self.scene.violations.iter().filter(|violation| !violation.is_broken_promise);
        let harmless: BTreeSet<u64> = harmless.map(|violation| violation.at.seq).collect();
        for mark in self.scene.marks.iter().filter(|mark| !harmless.contains(&mark.at.seq)) {
            let key = (mark.process, mark.at.t.to_bits(), mark.kind);
            let index = *indices.entry(key).or_insert(together.len());
            match (together.get_mut(index), mark.text.split_once(' ')) {
                (None, _) => together.push((mark, mark.text.clone())),
                (Some((_, text)), Some((_, rest))) if mark.process.is_some() && !text.ends_with(rest) => {
                    *text += &format!(", {rest}");
                }
                (Some((_, text)), _) if mark.process.is_none() => *text += &format!(", {}", mark.text),
                _ => {}
            }
        }
        let mut beside: BTreeMap<(usize, u64), f64> = BTreeMap::new();
        for (mark, text) in &together {
            self.samples.insert(Sample::Mark(mark.kind));
            let x = self.scale.x(mark.at.t);
            let tooltip = escape(&format!("{text}: {}", self.time(mark.at.t)));
            let process = mark.process.filter(|_| mark.kind != MarkKind::Violation);
            let Some(p) = process else {
                self.mark_of_all(mark.kind, x, text, &tooltip);
                continue;
            };
            // Marks at the same place stand beside each other.
            let shift = beside.entry((p, mark.at.t.to_bits())).or_default();
            let at = x + *shift;
            *shift += 9.0;
            let shape = shape(mark.kind, at, self.y(p));
            let _ = writeln!(self.svg, "<g><title>P{p} {tooltip}</title>{shape}</g>");
            self.places.take(Place { x: at, y: self.y(p), width: 9.0, height: 9.0, angle: 0.0 });
            self.note(x, self.y(p) - 9.0, -1.0, text);
        }
    }

    /// What concerns the whole network, and a violation, is a line through all lanes. Its text is above the times.
    fn mark_of_all(&mut self, kind: MarkKind, x: f64, text: &str, tooltip: &str) {
        let (top, bottom) = (self.top - HEAD + 4.0, self.bottom());
        let _ = write!(self.svg, "<g><title>{tooltip}</title>");
        self.line("near", (x, top), (x, bottom));
        self.line(class_of(kind), (x, top), (x, bottom));
        self.svg.push_str("</g>\n");
        // The text of violations is below the lanes.
        if kind != MarkKind::Violation {
            self.note(x, top - 14.0, -1.0, text);
        }
    }

    /// Title, legend and violations. Returns the size of the picture.
    fn text_around(&mut self) -> (f64, f64) {
        self.text("title", MARGIN, 26.0, &self.scene.title);
        if let Some(cut) = self.scene.cut {
            let (drawn, all) =
                (self.time(cut.at), if self.is_counted() { number(cut.end) } else { self.time(cut.end) });
            let note = format!("drawn until {drawn} of {all}; --svg-until all draws the whole run");
            self.text("soft", MARGIN, 26.0 + LINE, &note);
        }
        let title = 2.0 * MARGIN + 9.0 * self.scene.title.chars().count() as f64;
        let width = (self.scale.end + RIGHT).max(WIDTH_MIN).max(title);
        let text_width = width.min(TEXT_WIDTH_MAX) - 2.0 * MARGIN;
        let mut y = self.bottom() + 32.0;
        y += legend::draw(self, text_width, y);
        let chars = (text_width / LETTER) as usize;
        for (class, text) in violations(self.scene) {
            for line in wrapped(&text, chars) {
                self.text(class, MARGIN, y, &line);
                y += LINE;
            }
        }
        (width, y)
    }
}

/// The text of the violations that are drawn, each with its class, broken promises first; and of which properties there
/// are more, or later ones.
fn violations(scene: &Scene) -> Vec<(&'static str, String)> {
    let is_drawn = |violation: &&Violation| scene.cut.as_ref().is_none_or(|cut| violation.at.t <= cut.at);
    let (drawn, later): (Vec<&Violation>, Vec<&Violation>) = scene.violations.iter().partition(is_drawn);
    let (broken, harmless): (Vec<&Violation>, Vec<&Violation>) =
        drawn.into_iter().partition(|violation| violation.is_broken_promise);
    let described = |all: &[&Violation], most: usize| -> Vec<(&'static str, String)> {
        let text = |violation: &&Violation| (class(&[violation]), format!("{}: {}", name(violation), violation.detail));
        let more = all.get(most..).filter(|more| !more.is_empty());
        let more = more.map(|more| (class(more), format!("and {} more", more.len())));
        all.iter().take(most).map(text).chain(more).collect()
    };
    let mut lines = described(&broken, VIOLATIONS_MAX);
    lines.extend(described(&harmless, HARMLESS_MAX));
    if !later.is_empty() {
        let mut names: Vec<String> = later.iter().map(|violation| name(violation)).collect();
        names.sort();
        names.dedup();
        let noun = if later.len() == 1 { "violation" } else { "violations" };
        lines.push((class(&later), format!("{} {noun} later, not drawn: {}", later.len(), names.join("; "))));
    }
    lines
}

fn name(violation: &Violation) -> String {
    let Violation { property, is_broken_promise, .. } = violation;
    if *is_broken_promise { property.clone() } else { format!("{property}, which is not promised") }
}

fn class(violations: &[&Violation]) -> &'static str {
    if violations.iter().any(|violation| violation.is_broken_promise) { "wrong" } else { "harmless" }
}

/// Breaks text into lines of at most so many characters, between words where it can.
fn wrapped(text: &str, chars: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split_inclusive(' ') {
        if length > 0 && length + word.chars().count() > chars {
            lines.push(String::new());
            length = 0;
        }
        for letter in word.chars() {
            if length == chars {
                lines.push(String::new());
                length = 0;
            }
            length += 1;
            lines.last_mut().expect("there is always a line").push(letter);
        }
    }
    lines
}

fn height(kind: BarKind) -> f64 {
    match kind {
        BarKind::Waiting => 5.0,
        BarKind::Inside | BarKind::Leads => 14.0,
        BarKind::Down => 2.0,
        BarKind::Paused => 18.0,
    }
}

/// A bar around `y`.
fn rectangle(kind: BarKind, x: f64, y: f64, width: f64) -> String {
    let class = match kind {
        BarKind::Waiting => "waiting",
        BarKind::Inside => "inside",
        BarKind::Leads => "leads",
        BarKind::Down => "down",
        BarKind::Paused => "paused",
    };
    let (top, height) = (y - height(kind) / 2.0, height(kind));
    format!(
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
    )
}

/// The shape of a mark on the line of its process.
fn shape(kind: MarkKind, x: f64, y: f64) -> String {
    let class = format!("mark {}", class_of(kind));
    let path = match kind {
        MarkKind::Crash => return cross(&class, x, y),
        MarkKind::Suspect | MarkKind::Trust | MarkKind::Timer => {
            return format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>");
        }
        MarkKind::Pause => "M-2.5 -5 V5 M2.5 -5 V5",
        MarkKind::Recover | MarkKind::Resume => "M-3 -4.5 L4 0 L-3 4.5 z",
        MarkKind::Elected | MarkKind::NoLeader => "M0 -5.5 L5.5 0 L0 5.5 L-5.5 0 z",
        MarkKind::WriteAccepted | MarkKind::WriteRefused => "M-3.5 -3.5 H3.5 V3.5 H-3.5 z",
        MarkKind::Partition | MarkKind::Heal | MarkKind::Violation => "M0 -8 V8",
    };
    format!("<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{path}\"/>")
}

fn cross(class: &str, x: f64, y: f64) -> String {
    format!("<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"M-4 -4 L4 4 M4 -4 L-4 4\"/>")
}

/// The name of the kind in the style sheet, which is its name in JSON.
fn class_of(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Crash => "crash",
        MarkKind::Recover => "recover",
        MarkKind::Pause => "pause",
        MarkKind::Resume => "resume",
        MarkKind::Suspect => "suspect",
        MarkKind::Trust => "trust",
        MarkKind::Elected => "elected",
        MarkKind::NoLeader => "no_leader",
        MarkKind::Timer => "timer",
        MarkKind::WriteAccepted => "write_accepted",
        MarkKind::WriteRefused => "write_refused",
        MarkKind::Partition => "partition",
        MarkKind::Heal => "heal",
        MarkKind::Violation => "violation",
    }
}

fn text_width(text: &str) -> f64 {
    SMALL_LETTER * text.chars().count() as f64
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LABEL_CHARS_MAX) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

fn number(t: f64) -> String {
    format!("{}", (t * 1000.0).round() / 1000.0)
}

/// Escapes text for XML, which does not allow most control characters.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    text.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
}
