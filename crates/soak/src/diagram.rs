//! A picture of a run: what each node and each client was, over time, with the faults.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::clock::Micros;
use super::model::Leadership;
use super::world::{MS, World};

/// What lasts for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Down,
    Paused,
    /// Raft says so, and the front end has not heard of it.
    IsElected,
    Leads,
    /// The node hears no other one, or is not heard, or both.
    CutOff,
    /// The disk of the node is slow, full or fails.
    BadDisk,
    /// The client believes that it holds the lock with this number.
    Holds(usize),
}

impl Kind {
    fn color(self) -> &'static str {
        match self {
            Kind::Down => "#c81e1e",
            Kind::Paused => "#8f8c86",
            Kind::IsElected => "#b394dc",
            Kind::Leads => "#7a3fc9",
            Kind::CutOff => "#1c1b19",
            Kind::BadDisk => "#d19a00",
            Kind::Holds(0) => "#1d63c4",
            Kind::Holds(1) => "#15803d",
            Kind::Holds(_) => "#b44f09",
        }
    }
}

struct Bar {
    line: usize,
    kind: Kind,
    label: String,
    /// Instead of the label if that has no room.
    short: String,
    from: Micros,
    to: Option<Micros>,
}

/// What a picture of a run shows.
#[derive(Default)]
pub(super) struct Diagram {
    bars: Vec<Bar>,
    /// The bars that have not ended: places in `bars`.
    open: BTreeMap<(usize, Kind, String), usize>,
    marks: Vec<(Micros, String)>,
}

/// Pixels.
const LEFT: f64 = 90.0;
const WIDTH: f64 = 1_500.0;
const LINE: f64 = 34.0;
const TOP: f64 = 40.0;
const TEXT: f64 = 14.0;
/// The height of the part of a line that one lock has.
const PART: f64 = 9.0;
/// The height of a strip above or below the bar of a node, without words.
const STRIP: f64 = 3.0;
/// The height of a row of numbers.
const ROW: f64 = 11.0;

/// The last mark of a run that passes.
pub(super) const NO_VIOLATION: &str = "no violation";

impl Diagram {
    pub fn mark(&mut self, now: Micros, what: String) {
        self.marks.push((now, what));
    }

    /// This and nothing else is so from now on.
    fn see(&mut self, now: Micros, shown: Vec<(usize, Kind, String)>) {
        let ended: Vec<_> = self.open.keys().filter(|bar| !shown.contains(bar)).cloned().collect();
        for bar in ended {
            if let Some(place) = self.open.remove(&bar) {
                self.bars[place].to = Some(now);
            }
        }
        for bar in shown {
            if !self.open.contains_key(&bar) {
                let (line, kind, label) = bar.clone();
                // The colour says what it is.
                let short = match kind {
                    Kind::Holds(_) | Kind::IsElected | Kind::Leads => {
                        label.rsplit(' ').next().unwrap_or_default().to_owned()
                    }
                    Kind::Down | Kind::Paused | Kind::CutOff | Kind::BadDisk => String::new(),
                };
                self.open.insert(bar, self.bars.len());
                self.bars.push(Bar { line, kind, label, short, from: now, to: None });
            }
        }
    }

    /// The picture as SVG. `lines` are the names of the lines, from above.
    fn draw(&self, lines: &[String], end: Micros) -> String {
        let mut sheet = Sheet { svg: String::new(), end };
        sheet.frame(lines, &legend(&self.bars));
        let floor = TOP + LINE * lines.len() as f64;
        // Behind the bars.
        let bottom = sheet.marks(floor, &self.marks);
        self.bars.iter().for_each(|bar| sheet.bar(bar));
        let (width, height) = (LEFT + WIDTH + 20.0, bottom + TEXT);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            sheet.svg
        )
    }
}

/// A picture that is being drawn, of a run that has ended.
struct Sheet {
    svg: String,
    end: Micros,
}

impl Sheet {
    fn x(&self, at: Micros) -> f64 {
        LEFT + WIDTH * at as f64 / self.end.max(1) as f64
    }

    /// The lines with their names, the seconds, and what the colours mean.
    fn frame(&mut self, lines: &[String], legend: &BTreeMap<String, Kind>) {
        for (number, (name, kind)) in legend.iter().rev().enumerate() {
            let (at, color) = (LEFT + WIDTH - 80.0 * (number + 1) as f64, kind.color());
            let _ = writeln!(self.svg, "<rect x=\"{at:.1}\" y=\"3\" width=\"9\" height=\"9\" fill=\"{color}\"/>");
            text(&mut self.svg, (at + 13.0, 11.5), "#1c1b19", name);
        }
        for (line, name) in lines.iter().enumerate() {
            let middle = TOP + LINE * line as f64 + LINE / 2.0;
            text(&mut self.svg, (8.0, middle + 4.0), "#1c1b19", name);
            stroke(&mut self.svg, (LEFT, middle), (LEFT + WIDTH, middle), "#dddbd5");
        }
        for second in 0..=self.end / (1_000 * MS) {
            let at = self.x(second * 1_000 * MS);
            stroke(&mut self.svg, (at, TOP - 6.0), (at, TOP), "#85817a");
            if second % 5 == 0 {
                text(&mut self.svg, (at - 6.0, TOP - 10.0), "#5d5b56", &format!("{second} s"));
            }
        }
    }

    /// A bar has its label, or the short one, if that has room. All of it is told when the pointer is there.
    fn bar(&mut self, bar: &Bar) {
        let (from, to) = (self.x(bar.from), self.x(bar.to.unwrap_or(self.end)));
        let (below, high) = match bar.kind {
            Kind::Holds(lock) => (2.0 + (PART + 1.0) * lock.min(2) as f64, PART),
            Kind::CutOff => (1.0, STRIP),
            Kind::BadDisk => (LINE - 1.0 - STRIP, STRIP),
            Kind::Down | Kind::Paused | Kind::IsElected | Kind::Leads => (5.0, LINE - 10.0),
        };
        let top = TOP + LINE * bar.line as f64 + below;
        let _ = writeln!(
            self.svg,
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{high}\" fill=\"{}\" fill-opacity=\"0.8\">\
             <title>{}, from {} to {}</title></rect>",
            (to - from).max(1.0),
            bar.kind.color(),
            escaped(&bar.label),
            ms(bar.from),
            bar.to.map_or("the end".to_owned(), ms)
        );
        let label = [bar.label.as_str(), &bar.short].into_iter().find(|label| to - from > width_of(label) + 4.0);
        if let Some(label) = label.filter(|label| !label.is_empty() && high > STRIP) {
            let size = high.min(11.0);
            sized(&mut self.svg, (from + 2.0, top + high / 2.0 + size * 0.36), ("#ffffff", size), label);
        }
    }

    /// Numbers below the lines, and a list of what happened there. Returns where the list ends.
    fn marks(&mut self, floor: f64, marks: &[(Micros, String)]) -> f64 {
        let rows = rows(marks.iter().map(|(at, _)| self.x(*at)));
        let list = floor + 18.0 + ROW * (rows.iter().max().map_or(0, |last| last + 1)) as f64;
        for (number, ((at, what), row)) in marks.iter().zip(rows).enumerate() {
            let (x, number) = (self.x(*at), number + 1);
            let (color, words) = match what.as_str() {
                "healed" | NO_VIOLATION => ("#1a7f37", "#1a7f37"),
                fault if fault.starts_with("fault") => ("#e9a3a3", "#1c1b19"),
                _ => ("#c81e1e", "#c81e1e"),
            };
            stroke(&mut self.svg, (x, TOP), (x, floor + 4.0), color);
            text(&mut self.svg, (x - 3.0, floor + 15.0 + ROW * row as f64), "#5d5b56", &number.to_string());
            let below = list + TEXT * number as f64;
            let columns = [(0.0, number.to_string()), (26.0, ms(*at)), (114.0, what.clone())];
            columns.iter().for_each(|(x, said)| text(&mut self.svg, (LEFT + x, below), words, said));
        }
        list + TEXT * marks.len() as f64
    }
}

/// What the colours mean, of all that the picture has.
fn legend(bars: &[Bar]) -> BTreeMap<String, Kind> {
    let name = |bar: &Bar| match bar.kind {
        Kind::Down => "down".to_owned(),
        Kind::Paused => "paused".to_owned(),
        Kind::IsElected => "is elected".to_owned(),
        Kind::Leads => "leads".to_owned(),
        Kind::CutOff => "cut off".to_owned(),
        Kind::BadDisk => "bad disk".to_owned(),
        Kind::Holds(_) => format!("holds {}", bar.label.split(' ').next().unwrap_or_default()),
    };
    bars.iter().map(|bar| (name(bar), bar.kind)).collect()
}

/// For each number of a mark, the row in which it has room. The marks come in the order of time.
fn rows(marks: impl Iterator<Item = f64>) -> Vec<usize> {
    let mut ends: Vec<f64> = Vec::new();
    let place = |(number, x): (usize, f64)| {
        let end = x + width_of(&(number + 1).to_string()) + 3.0;
        let row = ends.iter().position(|end| *end <= x).unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(last) => *last = end,
            None => ends.push(end),
        }
        row
    };
    marks.enumerate().map(place).collect()
}

/// About as wide as the text is.
fn width_of(text: &str) -> f64 {
    6.3 * text.chars().count() as f64
}

fn ms(at: Micros) -> String {
    format!("{:.3} ms", at as f64 / MS as f64)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(svg: &mut String, at: (f64, f64), color: &str, said: &str) {
    sized(svg, at, (color, 11.0), said);
}

fn sized(svg: &mut String, (x, y): (f64, f64), (color, size): (&str, f64), said: &str) {
    let said = escaped(said);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{color}\" font-size=\"{size}\">{said}</text>");
}

fn stroke(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), color: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\" stroke-width=\"0.7\"/>"
    );
}

impl World {
    /// Notes what the picture of the run shows of this moment.
    pub(super) fn see(&mut self) {
        let Some(mut diagram) = self.diagram.take() else { return };
        let mut shown = Vec::new();
        for (line, node) in self.nodes.iter().enumerate() {
            match node.leads_in {
                _ if !node.is_up => shown.push((line, Kind::Down, "down".to_owned())),
                Some(term) => shown.push((line, Kind::Leads, format!("leads in term {term}"))),
                None => {
                    if let Leadership::Leads { term } = node.leadership {
                        shown.push((line, Kind::IsElected, format!("is elected in term {term}")));
                    }
                }
            }
            if node.is_up && node.paused.is_some() {
                shown.push((line, Kind::Paused, "paused".to_owned()));
            }
            if let Some(how) = self.links.cut_off(line) {
                shown.push((line, Kind::CutOff, how.to_owned()));
            }
            if let Some(how) = self.bad_disk(line) {
                shown.push((line, Kind::BadDisk, how.to_owned()));
            }
        }
        for client in &self.clients {
            let line = self.nodes.len() + client.id;
            for hold in client.believes(self.now) {
                let lock = self.locks.iter().position(|lock| lock.name == hold.lock).unwrap_or(0);
                shown.push((line, Kind::Holds(lock), format!("{} fence {}", hold.lock, hold.fence)));
            }
            if client.paused.is_some() {
                shown.push((line, Kind::Paused, "paused".to_owned()));
            }
        }
        diagram.see(self.now, shown);
        self.diagram = Some(diagram);
    }

    pub(super) fn mark(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(diagram) = &mut self.diagram {
            diagram.mark(now, what());
        }
    }

    /// The picture of the run, if the options ask for it.
    pub(super) fn draw(&self) -> Option<String> {
        let nodes = (0..self.nodes.len()).map(|node| format!("node {node}"));
        let clients = self.clients.iter().map(|client| format!("client {}", client.id));
        let lines: Vec<String> = nodes.chain(clients).collect();
        Some(self.diagram.as_ref()?.draw(&lines, self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_lasts_until_it_is_not_so_any_more() {
        let mut diagram = Diagram::default();
        let leads = (0, Kind::Leads, "leads <7>".to_owned());
        diagram.see(1_000, vec![leads.clone()]);
        diagram.see(2_000, vec![leads]);
        diagram.see(3_000, vec![(1, Kind::Holds(0), "l0".to_owned())]);
        let seen: Vec<_> = diagram.bars.iter().map(|bar| (bar.line, bar.from, bar.to)).collect();
        assert_eq!(seen, [(0, 1_000, Some(3_000)), (1, 3_000, None)]);
        let svg = diagram.draw(&["node 0".to_owned(), "client 0".to_owned()], 10_000);
        assert!(svg.contains("leads &lt;7&gt;, from 1.000 ms to 3.000 ms"), "{svg}");
        assert!(svg.contains("l0, from 3.000 ms to the end"), "{svg}");
    }

    #[test]
    fn numbers_of_close_marks_stand_below_each_other() {
        let one = width_of("1") + 3.0;
        assert_eq!(rows([10.0, 11.0, 12.0, 10.0 + one, 500.0].into_iter()), [0, 1, 2, 0, 0]);
    }
}
