//! Arrows, and the labels along them.

use std::collections::BTreeMap;
use std::f64::consts::{FRAC_PI_2, PI};
use std::fmt::Write;

use super::legend::Sample;
use super::places::{Place, Segment, Segments};
use super::scale::{UNDER_WAY, UNIT};
use super::{Drawing, SMALL_HEIGHT, cross, escape, shortened, text_width};
use crate::DropReason;
use crate::scene::{Arrow, Fate, Moment};

/// The distance between the receiver's line and the head of a message that has not arrived.
pub const SHORT_OF: f64 = 26.0;
/// The part of its way that a message makes before it is lost.
pub const LOST: f64 = 0.4;

/// Messages with the same style, start and end: one line.
struct Line {
    class: String,
    from: (f64, usize),
    to: (f64, usize),
    end: LineEnd,
    kinds: Vec<String>,
    labels: Vec<String>,
    tooltips: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum LineEnd {
    Arrives,
    /// The line ends before the receiver's line.
    UnderWay,
    /// The line ends with a cross on the receiver's line.
    LostAtReceiver,
    /// The line ends with a cross between the processes.
    LostOnTheWay,
}

impl LineEnd {
    /// Whether there is a cross at the end.
    fn is_lost(self) -> bool {
        matches!(self, LineEnd::LostAtReceiver | LineEnd::LostOnTheWay)
    }
}

/// The labels of one line: `TOKEN 3, REQUEST (2)`.
fn counted(labels: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for label in labels {
        match counts.iter_mut().find(|(other, _)| other == label) {
            Some((_, count)) => *count += 1,
            None => counts.push((label, 1)),
        }
    }
    let texts = counts.into_iter().map(|(label, count)| match count {
        1 => label.to_owned(),
        _ => format!("{label} ({count})"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

impl Drawing<'_> {
    pub fn messages(&mut self) {
        let mut lines: Vec<Line> = Vec::new();
        let mut indices = BTreeMap::new();
        for arrow in &self.scene.arrows {
            let tooltip = self.about_arrow(arrow);
            let line = self.line_of(arrow);
            let key = (line.class.clone(), line.from.0.to_bits(), line.from.1, line.to.0.to_bits(), line.to.1);
            let index = *indices.entry(key).or_insert(lines.len());
            if index == lines.len() {
                lines.push(line);
            }
            lines[index].kinds.push(arrow.kind.clone());
            lines[index].labels.push(arrow.label.clone());
            lines[index].tooltips.push(tooltip);
        }
        let mut segments = Segments::default();
        for line in &lines {
            let ends = self.ends(line);
            segments.add(ends);
            if line.end.is_lost() {
                let (x, y) = ends.1;
                self.places.take(Place { x, y, width: 9.0, height: 9.0, angle: 0.0 });
            }
        }
        for line in &lines {
            self.message(line, &segments);
        }
    }

    /// The two ends of a line.
    fn ends(&self, line: &Line) -> Segment {
        let ((x1, p1), (x2, p2)) = (line.from, line.to);
        let (y1, mut y2) = (self.y(p1), self.y(p2));
        match line.end {
            LineEnd::UnderWay => y2 -= SHORT_OF * (y2 - y1).signum(),
            LineEnd::LostOnTheWay => y2 = y1 + LOST * (y2 - y1),
            LineEnd::Arrives | LineEnd::LostAtReceiver => {}
        }
        ((x1, y1), (x2, y2))
    }

    fn line_of(&mut self, arrow: &Arrow) -> Line {
        let Arrow { is_app, from, to, start, end, fate, .. } = arrow;
        let x = self.scale.x(start.t);
        let x_end = end.map_or(self.scale.end, |end| self.scale.x(end.t));
        let (sample, end, x_end) = match fate {
            Fate::Arrived => (Sample::Message { is_app: *is_app }, LineEnd::Arrives, x_end),
            Fate::Duplicate => (Sample::Duplicate, LineEnd::Arrives, x_end),
            // The head is beside the moments, because the message did not arrive at any moment.
            Fate::UnderWay => (Sample::UnderWay, LineEnd::UnderWay, x_end.min(x + UNDER_WAY)),
            Fate::Lost(DropReason::Crashed) if x_end > x => (Sample::Lost, LineEnd::LostAtReceiver, x_end),
            Fate::Lost(_) => (Sample::Lost, LineEnd::LostOnTheWay, x + LOST * UNIT),
        };
        self.samples.insert(sample);
        let (class, from, to) = (sample.message_class(*is_app), (x, *from), (x_end, *to));
        Line { class, from, to, end, kinds: Vec::new(), labels: Vec::new(), tooltips: Vec::new() }
    }

    fn about_arrow(&self, arrow: &Arrow) -> String {
        let Arrow { kind, body, from, to, start, end, fate, .. } = arrow;
        let body = body.as_ref().map(|body| format!(" {body}")).unwrap_or_default();
        let end_time = |Moment { t, .. }: Moment| self.time(t);
        let fate = match (fate, end.map(end_time)) {
            (Fate::Arrived, Some(end)) => format!("arrives {end}"),
            (Fate::Duplicate, Some(end)) => format!("arrives again {end}"),
            (Fate::Lost(DropReason::Loss), Some(end)) => format!("lost by the network, {end}"),
            (Fate::Lost(DropReason::Partition), Some(end)) => format!("lost because the link is cut, {end}"),
            (Fate::Lost(DropReason::Crashed), Some(end)) => format!("lost because P{to} is down, {end}"),
            (_, None) | (Fate::UnderWay, _) => "still under way".to_owned(),
        };
        format!("{kind}{body}\nP{from} to P{to}: sent {}, {fate}", self.time(start.t))
    }

    fn message(&mut self, line: &Line, segments: &Segments) {
        let ((x1, y1), (x2, y2)) = self.ends(line);
        let _ = write!(self.svg, "<g><title>{}</title>", escape(&line.tooltips.join("\n")));
        self.line("near", (x1, y1), (x2, y2));
        self.line(&line.class, (x1, y1), (x2, y2));
        if line.end.is_lost() {
            self.svg.push_str(&cross("cross", x2, y2));
        }
        self.svg.push_str("</g>\n");
        self.label(line, segments);
    }

    /// Tries places along the arrow, above and below it, those with the fewest crossing lines first; and if the label has
    /// no place, only the kinds of the messages.
    fn label(&mut self, line: &Line, segments: &Segments) {
        let (from, to) = self.ends(line);
        let ((x1, y1), (x2, y2)) = (from, to);
        let angle = (y2 - y1).atan2(x2 - x1);
        // The text of an arrow to the left would stand on its head.
        let angle = if angle.abs() > FRAC_PI_2 { angle - PI * angle.signum() } else { angle };
        // The first bodies of many would look like all of them.
        let labels = Some(counted(&line.labels)).filter(|labels| shortened(labels) == *labels);
        for text in labels.into_iter().chain([shortened(&counted(&line.kinds))]) {
            if text_width(&text) > (x2 - x1).hypot(y2 - y1) {
                continue;
            }
            let mut places = along(line, text_width(&text), angle, from, to);
            places.sort_by_key(|place| (segments.crossing(place), !self.thin_bars.is_free(place)));
            if let Some(Place { x, y, .. }) = self.places.take_first(places) {
                let (text, angle) = (escape(&text), angle.to_degrees());
                let _ = writeln!(
                    self.texts,
                    "<text class=\"kind\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" y=\"3.5\">{text}</text>"
                );
                return;
            }
        }
    }
}

/// Places for text along an arrow. The first is near the sender, where arrows with the same end are still apart. It is
/// farther away on a longer arrow, because the arrows of one multicast separate slowly.
fn along(line: &Line, width: f64, angle: f64, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Vec<Place> {
    let first = match line.end {
        LineEnd::Arrives | LineEnd::LostAtReceiver => {
            0.3 + 0.1 * (line.from.1.abs_diff(line.to.1) as f64 - 1.0).clamp(0.0, 3.0)
        }
        LineEnd::UnderWay | LineEnd::LostOnTheWay => 0.6,
    };
    let parts = [first, 0.5, 0.4, 0.6, 0.3, 0.7, 0.25, 0.75, 0.2, 0.8];
    // The distance between the arrow and the middle of the text.
    let sides = [-7.0, 7.0];
    let (sin, cos) = angle.sin_cos();
    let place = |(side, part)| {
        let (x, y) = (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part);
        Place { x: x - side * sin, y: y + side * cos, width, height: SMALL_HEIGHT, angle }
    };
    sides.into_iter().flat_map(|side| parts.map(|part| (side, part))).map(place).collect()
}
