//! The part of the page about elections.

use std::fmt::Write;

use baton_compare::election::{Expected, Row, Spread, Starts};
use baton_compare::theory::number;
use baton_theory::Kind;

use super::super::chart::{Colour, Dot, Series, escape};
use super::super::elections::{HEAD, cells};
use super::{add, by_size, distinct, short, table_head};

const KEY: &str = "Dots are means, lines are theory, and a thin vertical line goes from the cheapest election to the most expensive one. Thin \
                   broken lines join dots for which there is no theory.";

struct Plot {
    title: &'static str,
    axis: &'static str,
    measured: fn(&Row) -> Option<Spread<f64>>,
    expected: fn(&Row) -> &Expected,
    explanation: &'static str,
}

const PLOTS: [Plot; 2] = [
    Plot {
        title: "Messages of an election",
        axis: "messages of one election",
        measured: |row| row.messages,
        expected: |row| &row.expected_messages,
        explanation: "The process that begins the election decides what it costs. With bully, the process just below the crashed leader needs n-1 \
                      messages, and the lowest process makes every process ask all higher ones: n^2-n-1. On a ring, Chang-Roberts needs between \
                      two and three rounds. If all processes begin at once, the order of the ids on the ring decides.",
    },
    Plot {
        title: "Time of an election",
        axis: "time of one election, in T",
        measured: |row| row.time,
        expected: |row| &row.expected_time,
        explanation: "From the moment at which a process notices that there is no leader until all processes know the new one. Bully buys speed with \
                      messages: it takes at most 4 T in any group. On a ring the messages travel one after the other, so the time grows with n.",
    },
];

pub fn figures(rows: &[Row]) -> String {
    PLOTS.iter().filter_map(|plot| plot.draw(rows)).collect()
}

impl Plot {
    fn draw(&self, rows: &[Row]) -> Option<String> {
        let algorithms = distinct(rows.iter().map(|row| row.algorithm));
        let mut series: Vec<Series> = Vec::new();
        for of in distinct(rows.iter().map(|row| (row.algorithm, row.variant, row.starts))) {
            let own: Vec<&Row> = rows.iter().filter(|row| (row.algorithm, row.variant, row.starts) == of).collect();
            let index = algorithms.iter().position(|algorithm| *algorithm == of.0).unwrap_or_default();
            add(&mut series, self.series(Colour { index, dashed: of.2 != Starts::One }, &own));
        }
        by_size(self.title, self.axis, &series, KEY, self.explanation)
    }

    fn series(&self, colour: Colour, rows: &[&Row]) -> Series {
        let (mut dots, mut line, mut formula, mut joins) = (Vec::new(), Vec::new(), String::new(), false);
        let name = rows.first().map(|row| label(row)).unwrap_or_default();
        for row in rows {
            let Some(spread) = (self.measured)(row) else { continue };
            let expected = (self.expected)(row).mean.as_ref().filter(|expected| expected.kind != Kind::Bound);
            let range = (spread.best < spread.worst).then_some((spread.best, spread.worst));
            let from_to =
                range.map_or(String::new(), |(best, worst)| format!(", from {} to {}", number(best), number(worst)));
            let theory = expected.map_or("no theory".into(), |expected| format!("in theory {}", expected.formula));
            let note = format!("{name}, n = {}: mean {}{from_to}; {theory}", row.n, number(spread.mean));
            let n = row.n as f64;
            dots.push(Dot { at: (n, spread.mean), note, range, differs: !row.agrees });
            line.push((n, expected.map_or(spread.mean, |expected| expected.value)));
            joins |= expected.is_none();
            formula = expected.map_or(String::new(), |expected| short(&expected.formula));
        }
        Series { formula, names: vec![name], colour, dots, line, joins }
    }
}

fn label(row: &Row) -> String {
    let starts = match row.starts {
        Starts::One => "one starts",
        Starts::All => "all start",
        Starts::AllOnRandomRings => "random rings",
    };
    format!("{}, {starts}", row.name())
}

pub fn table(rows: &[Row]) -> String {
    let mut html = table_head(&HEAD).replace("<table>", r#"<table class="elections">"#);
    let mut last = String::new();
    for row in rows {
        let (name, cells) = (row.name(), cells(row));
        let is_first = last != name;
        _ = write!(html, "<tr{}>", if is_first { r#" class="first""# } else { "" });
        for (index, (cell, head)) in cells.iter().zip(HEAD).enumerate() {
            let class = match head {
                "in theory" => r#" class="theory""#,
                "" if !row.is_fine() => r#" class="bad""#,
                _ => "",
            };
            let shown = if index == 0 && !is_first { String::new() } else { escape(cell) };
            _ = write!(html, "<td{class}>{shown}</td>");
        }
        html += "</tr>\n";
        last = name;
    }
    html + "</tbody>\n</table>"
}
