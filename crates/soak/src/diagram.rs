//! A picture of a run: what each node and each client was, over time, with the faults.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::clock::Micros;
use super::world::{MS, World};

/// What lasts for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Down,
    Paused,
    Leads,
    /// The client believes that it holds the lock with this number.
    Holds(usize),
}

impl Kind {
    fn color(self) -> &'static str {
        match self {
            Kind::Down => "#c81e1e",
            Kind::Paused => "#8f8c86",
            Kind::Leads => "#7a3fc9",
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
const LINE: f64 = 30.0;
const TOP: f64 = 40.0;
const TEXT: f64 = 14.0;
/// The height of the part of a line that one lock has.
const PART: f64 = 8.0;

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
                self.open.insert(bar, self.bars.len());
                self.bars.push(Bar { line, kind, label, from: now, to: None });
            }
        }
    }

    /// The picture as SVG. `lines` are the names of the lines, from above.
    fn draw(&self, lines: &[String], end: Micros) -> String {
        let x = |at: Micros| LEFT + WIDTH * at as f64 / end.max(1) as f64;
        let y = |line: usize| TOP + LINE * line as f64;
        let floor = y(lines.len());
        let (width, height) = (LEFT + WIDTH + 20.0, floor + 30.0 + TEXT * (self.marks.len() + 1) as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        for (line, name) in lines.iter().enumerate() {
            let middle = y(line) + LINE / 2.0;
            text(&mut svg, (8.0, middle + 4.0), "#1c1b19", name);
            stroke(&mut svg, (LEFT, middle), (LEFT + WIDTH, middle), "#dddbd5");
        }
        for second in 0..=end / (1_000 * MS) {
            let at = x(second * 1_000 * MS);
            stroke(&mut svg, (at, TOP - 6.0), (at, TOP), "#85817a");
            if second % 5 == 0 {
                text(&mut svg, (at - 6.0, TOP - 10.0), "#5d5b56", &format!("{second} s"));
            }
        }
        for bar in &self.bars {
            let (from, to) = (x(bar.from), x(bar.to.unwrap_or(end)));
            let (top, high) = match bar.kind {
                Kind::Holds(lock) => (2.0 + (PART + 1.0) * lock.min(2) as f64, PART),
                _ => (5.0, LINE - 10.0),
            };
            let _ = writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high}\" fill=\"{}\" fill-opacity=\"0.8\">\
                 <title>{}, from {} to {}</title></rect>",
                y(bar.line) + top,
                (to - from).max(1.0),
                bar.kind.color(),
                escaped(&bar.label),
                ms(bar.from),
                bar.to.map_or("the end".to_owned(), ms)
            );
            if to - from > 7.0 * bar.label.len() as f64 {
                let at = (from + 2.0, y(bar.line) + top + high.min(14.0) - 1.0);
                text(&mut svg, at, "#ffffff", &bar.label);
            }
        }
        for (number, (at, what)) in self.marks.iter().enumerate() {
            let at_x = x(*at);
            let color = if what.starts_with("fault") { "#c81e1e" } else { "#1a7f37" };
            stroke(&mut svg, (at_x, TOP), (at_x, floor + 6.0), color);
            text(
                &mut svg,
                (at_x - 3.0, floor + 6.0 + 10.0 * (number % 2 + 1) as f64),
                color,
                &format!("{}", number + 1),
            );
            let below = floor + 40.0 + TEXT * number as f64;
            text(&mut svg, (LEFT, below), "#1c1b19", &format!("{}  {}  {what}", number + 1, ms(*at)));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn ms(at: Micros) -> String {
    format!("{:.3} ms", at as f64 / MS as f64)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(svg: &mut String, (x, y): (f64, f64), color: &str, said: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{color}\">{}</text>", escaped(said));
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
                None => {}
            }
            if node.is_up && node.paused.is_some() {
                shown.push((line, Kind::Paused, "paused".to_owned()));
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
}
