//! Plots as SVG. The style sheet of the page gives the colours, so that the plots follow its light and dark themes.
//! Each mark shows its numbers under the mouse pointer.

use std::fmt::Write;

const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 350.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;
const LINE: f64 = 18.0;
/// The number of characters of a label that fit beside a plot.
const LABEL_CHARS: usize = 36;
/// The number of colours in the style sheet.
const COLOURS: usize = 12;

pub struct Axis {
    label: String,
    log: bool,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// From 0 to a little more than the greatest value.
    pub fn linear(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let max = values.fold(1e-9, f64::max);
        let rough = max / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&step| step >= rough).unwrap_or(rough);
        let ticks: Vec<f64> = (0..=10).map(|i| f64::from(i) * step).take_while(|&tick| tick <= max * 1.05).collect();
        Axis { label: label.into(), log: false, from: 0.0, to: max * 1.08, ticks }
    }

    /// Logarithmic, with a margin around all values, and ticks at 1, 2, 5, 10, ...
    pub fn log(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = span(values);
        let decades = (-3..9).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(power)));
        let ticks = decades.filter(|tick| (from..=to).contains(tick)).collect();
        Axis { label: label.into(), log: true, from, to, ticks }
    }

    /// Logarithmic, with a tick at each value.
    pub fn log_at(label: &str, values: &[f64]) -> Self {
        let (from, to) = span(values.iter().copied());
        Axis { label: label.into(), log: true, from, to, ticks: values.to_vec() }
    }

    /// The place of a value on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (min, max) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(min, max), value| (min.min(value), max.max(value)));
    if min <= max { (min / 1.25, max * 1.25) } else { (1.0, 10.0) }
}

/// A measurement.
pub struct Dot {
    pub at: (f64, f64),
    /// The text under the mouse pointer.
    pub note: String,
    /// The least and the largest of the values behind the dot: drawn as a thin vertical line.
    pub range: Option<(f64, f64)>,
    /// Whether the measurement differs from theory: the dot gets another style.
    pub differs: bool,
}

#[derive(Clone, Copy)]
pub struct Colour {
    /// The number of a colour in the style sheet.
    pub index: usize,
    pub dashed: bool,
}

/// Measurements as dots, theory as a line, and a label.
pub struct Series {
    /// Shown in bold before the names; may be empty.
    pub formula: String,
    /// The algorithms that the series stands for.
    pub names: Vec<String>,
    pub colour: Colour,
    pub dots: Vec<Dot>,
    pub line: Vec<(f64, f64)>,
    /// Whether the line joins the dots because theory gives no line.
    pub joins: bool,
}

impl Series {
    fn class(&self) -> String {
        let dashed = if self.colour.dashed { " dashed" } else { "" };
        let joins = if self.joins { " joins" } else { "" };
        format!("series c{}{dashed}{joins}", self.colour.index % COLOURS)
    }

    fn end(&self) -> Option<(f64, f64)> {
        let dots = self.dots.iter().map(|dot| dot.at);
        dots.chain(self.line.iter().copied()).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The formula and the names, broken into lines.
    fn label(&self) -> Vec<String> {
        let mut lines: Vec<String> = vec![String::new()];
        let mut length = self.formula.chars().count();
        for (index, name) in self.names.iter().enumerate() {
            let word = if index + 1 < self.names.len() { format!("{name},") } else { name.clone() };
            let size = word.chars().count() + 1;
            if length + size > LABEL_CHARS && length > 0 {
                lines.push(String::new());
                length = 0;
            }
            length += size;
            if let Some(line) = lines.last_mut() {
                *line += if line.is_empty() { "" } else { " " };
                *line += &word;
            }
        }
        lines
    }
}

/// A plot with one line for each series, and a label at the end of each line.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let mut svg = open(title, HEIGHT);
    axes(&mut svg, x, y, HEIGHT);
    let at = |(a, b): (f64, f64)| (horizontal(x, a), vertical(y, b, HEIGHT));
    let ends: Vec<(f64, f64)> = series.iter().map(|series| series.end().map_or((0.0, 0.0), at)).collect();
    let tops = spread(&ends, series);
    for ((series, end), top) in series.iter().zip(&ends).zip(tops) {
        _ = writeln!(svg, r#"<g class="{}">"#, series.class());
        let points: Vec<String> =
            series.line.iter().map(|&point| at(point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        _ = writeln!(svg, r#"<polyline points="{}"/>"#, points.join(" "));
        for dot in &series.dots {
            if let Some((least, most)) = dot.range {
                let ((x, low), (_, high)) = (at((dot.at.0, least)), at((dot.at.0, most)));
                _ = writeln!(svg, r#"<path class="whisker" d="M{x:.1},{low:.1} V{high:.1}"/>"#);
            }
            let ((x, y), class) = (at(dot.at), if dot.differs { r#" class="differs""# } else { "" });
            _ = writeln!(
                svg,
                r#"<circle{class} cx="{x:.1}" cy="{y:.1}" r="4.5"><title>{}</title></circle>"#,
                escape(&dot.note)
            );
        }
        let label_x = WIDTH - RIGHT + 34.0;
        let middle = top + LINE / 2.0;
        _ = writeln!(
            svg,
            r#"<path class="leader" d="M{:.1},{:.1} L{:.1},{middle:.1} L{:.1},{middle:.1}"/>"#,
            end.0 + 7.0,
            end.1,
            label_x - 14.0,
            label_x - 5.0
        );
        write_label(&mut svg, series, label_x, top + LINE * 0.78);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

fn write_label(svg: &mut String, series: &Series, x: f64, y: f64) {
    _ = write!(svg, r#"<text x="{x:.1}" y="{y:.1}">"#);
    if !series.formula.is_empty() {
        _ = write!(svg, r#"<tspan class="formula">{} </tspan>"#, escape(&series.formula));
    }
    for (index, line) in series.label().iter().enumerate() {
        let position = if index == 0 { String::new() } else { format!(r#" x="{x:.1}" dy="{LINE}""#) };
        _ = write!(svg, "<tspan{position}>{}</tspan>", escape(line));
    }
    svg.push_str("</text>\n");
}

/// The top of each label: as near to the end of its line as possible without covering another label.
fn spread(ends: &[(f64, f64)], series: &[Series]) -> Vec<f64> {
    let heights: Vec<f64> = series.iter().map(|series| series.label().len() as f64 * LINE + 4.0).collect();
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&a, &b| ends[a].1.total_cmp(&ends[b].1));
    let mut tops = vec![0.0; ends.len()];
    let mut free = 0.0_f64;
    for &index in &order {
        tops[index] = free.max(ends[index].1 - LINE / 2.0);
        free = tops[index] + heights[index];
    }
    // Labels beyond the lower edge move up, and push the labels above them.
    let mut edge = HEIGHT;
    for &index in order.iter().rev() {
        tops[index] = (edge - heights[index]).min(tops[index]);
        edge = tops[index];
    }
    tops
}

/// One line of a plot of ranges.
pub struct Range {
    pub name: String,
    /// The ends of the line.
    pub from: f64,
    pub to: f64,
    /// A hollow mark, a full one and a small one.
    pub marks: [(f64, &'static str); 3],
    /// The text at the right of the line.
    pub note: String,
}

/// A plot with one horizontal line for each range, and marks on it.
pub fn ranges(title: &str, x: &Axis, ranges: &[Range], note_head: &str) -> String {
    let row = 26.0;
    let height = TOP + BOTTOM + row * ranges.len() as f64;
    let left = 210.0;
    let place = |value: f64| left + x.place(value) * (WIDTH - left - RIGHT + 60.0);
    let mut svg = open(title, height);
    for &tick in &x.ticks {
        let (at, bottom) = (place(tick), height - BOTTOM);
        _ = writeln!(
            svg,
            r#"<path class="grid" d="M{at:.1},{TOP} V{bottom}"/><text class="tick" x="{at:.1}" y="{}" text-anchor="middle">{tick}</text>"#,
            bottom + 20.0
        );
    }
    _ = writeln!(
        svg,
        r#"<text class="axis" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
        (place(x.from) + place(x.to)) / 2.0,
        height - 8.0,
        escape(&x.label)
    );
    let beside = place(x.to) + 16.0;
    _ = writeln!(svg, r#"<text class="tick" x="{beside:.1}" y="{}">{}</text>"#, TOP - 12.0, escape(note_head));
    for (index, range) in ranges.iter().enumerate() {
        let y = TOP + row * (index as f64 + 0.5);
        _ = writeln!(
            svg,
            r#"<g class="series c0"><text class="name" x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            left - 14.0,
            y + 5.0,
            escape(&range.name)
        );
        _ = writeln!(svg, r#"<path class="range" d="M{:.1},{y:.1} H{:.1}"/>"#, place(range.from), place(range.to));
        for ((value, what), class) in range.marks.iter().zip(["hollow", "full", "small"]) {
            let note = format!("{}: {what} {value:.2}", range.name);
            _ = writeln!(
                svg,
                r#"<circle class="{class}" cx="{:.1}" cy="{y:.1}" r="5"><title>{}</title></circle>"#,
                place(*value),
                escape(&note)
            );
        }
        _ = writeln!(svg, r#"<text x="{beside:.1}" y="{:.1}">{}</text></g>"#, y + 5.0, escape(&range.note));
    }
    svg + "</svg>\n"
}

fn open(title: &str, height: f64) -> String {
    let title = escape(title);
    format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n")
}

fn axes(svg: &mut String, x: &Axis, y: &Axis, height: f64) {
    let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
    for &tick in &y.ticks {
        let at = vertical(y, tick, height);
        _ = writeln!(
            svg,
            r#"<path class="grid" d="M{LEFT},{at:.1} H{right}"/><text class="tick" x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 10.0,
            at + 5.0,
            tick_label(tick)
        );
    }
    for &tick in &x.ticks {
        let at = horizontal(x, tick);
        _ = writeln!(
            svg,
            r#"<path class="grid" d="M{at:.1},{TOP} V{bottom}"/><text class="tick" x="{at:.1}" y="{}" text-anchor="middle">{}</text>"#,
            bottom + 20.0,
            tick_label(tick)
        );
    }
    _ = writeln!(svg, r#"<path class="frame" d="M{LEFT},{TOP} V{bottom} H{right}"/>"#);
    _ = writeln!(
        svg,
        r#"<text class="axis" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
        (LEFT + right) / 2.0,
        height - 8.0,
        escape(&x.label)
    );
    _ = writeln!(svg, r#"<text class="axis" x="4" y="16">{}</text>"#, escape(&y.label));
}

fn tick_label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn horizontal(x: &Axis, value: f64) -> f64 {
    LEFT + x.place(value) * (WIDTH - RIGHT - LEFT)
}

fn vertical(y: &Axis, value: f64, height: f64) -> f64 {
    height - BOTTOM - y.place(value) * (height - BOTTOM - TOP)
}

/// Escapes text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
