//! The comparison as one HTML page that loads no other file.

use std::fmt::Write;

use baton_compare::election;
use baton_compare::extra::{COORDINATORS, FAIRNESS_CLIENTS, Fairness, Utilization};
use baton_compare::mutex::{HOLD, Row};
use baton_compare::theory::{in_words, number};
use baton_sim::app::mutex::Load;
use baton_theory::mutex::Costs;
use baton_theory::voting;
use baton_theory::{Expectation, Kind};

use super::chart::{Axis, Colour, Dot, Range, Series, escape, lines, ranges};
use super::summary;

mod elections;

pub fn page(rows: &[Row], elections: &[election::Row], fairness: &[Fairness], utilization: &[Utilization]) -> String {
    let fine = rows.iter().all(Row::is_fine) && elections.iter().all(election::Row::is_fine);
    let with_theory = rows.iter().filter(|row| row.expected_kind.is_some()).count()
        + elections.iter().filter(|row| row.has_theory()).count();
    let all = rows.len() + elections.len();
    let (class, badge) = if fine {
        let agree = match with_theory {
            0 => format!("no theory for any of the {all} measurements"),
            _ if with_theory == all => format!("all {all} measurements agree with theory"),
            _ => format!("all {with_theory} measurements that have a theory agree with it, of {all} in all"),
        };
        ("good", format!("\u{2713} {agree}; all promises held"))
    } else {
        ("bad", "\u{2260} something differs, or a promise was broken: see the table".into())
    };
    let mut figures = String::new();
    for plot in PLOTS {
        figures += &plot.draw(rows).unwrap_or_default();
    }
    figures += &fairness_figure(fairness);
    figures += &utilization_figure(utilization);
    let (election_figures, election_table) = (elections::figures(elections), elections::table(elections));
    let election_summary = escape(&super::elections::summary(elections));
    let style = [baton_trace::diagram::PALETTE, include_str!("page.css")].concat();
    let (table, summary) = (table(rows), escape(&summary(rows)));
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Locks and elections, measured against theory</title>
<style>
{style}</style>
</head>
<body>
<h1>Locks and elections, measured against theory</h1>
<p class="lead">Processes communicate only by messages, and at most one may be in the critical section at a time. This page shows what each
algorithm costs, and what an election of a leader costs. Every dot is measured in simulated runs. Every line is a formula. The dots should lie on the lines.</p>
<p class="badge {class}">{badge}</p>
{figures}
{election_figures}
<figure>
<h2>All runs</h2>
<p class="key">{summary}</p>
<div class="scroll">{table}</div>
</figure>
<figure>
<h2>All elections</h2>
<p class="key">{election_summary}</p>
<div class="scroll">{election_table}</div>
</figure>
<footer>Made by <code>baton compare --html</code>. T is the time that a message takes. <b>Solo</b>: one request at a time; the clients take turns.
<b>Solo-random</b>: one request at a time, by a random client. <b>All</b>: all clients always want to enter. <b>Random</b>: all clients request
at random times. <b>Client delay</b>: the time from a request to its entry. <b>Sync delay</b>: the time from one client's exit to the next client's
entry while a request waits. <b>Busiest process</b>: the most messages that one process sends and receives, per entry of the whole group. Point at a dot or a name to highlight it.</footer>
</body>
</html>
"#
    )
}

/// A plot of one measurement by n.
struct Plot {
    title: &'static str,
    axis: &'static str,
    load: Load,
    measured: fn(&Row) -> Option<f64>,
    expected: fn(&Costs) -> &Option<Expectation>,
    explanation: &'static str,
}

const PLOTS: [Plot; 10] = [
    Plot {
        title: "Messages, one request at a time by a random client",
        axis: "messages per entry",
        load: Load::SoloRandom,
        measured: |row| row.messages_per_entry,
        expected: |costs| &costs.messages_per_entry,
        explanation: "No competition, and a random client requests next. With a coordinator, an entry costs the same in a group of four and of a \
                      hundred. If a client asks all others, an entry costs two or three messages for each of them. Between these are quorums, \
                      which grow with the square root of n, and trees, which grow with their depth. Both axes are logarithmic, so a straight \
                      line is a power of n.",
    },
    Plot {
        title: "Messages while all clients compete",
        axis: "messages per entry",
        load: Load::All,
        measured: |row| row.messages_per_entry,
        expected: |costs| &costs.messages_per_entry,
        explanation: "All clients always want to enter. A busy token is cheap: it serves every client on its way, so rings and trees need hardly \
                      more than one to four messages, however large the group. Voting pays for every failed attempt, and more attempts \
                      fail if more clients compete.",
    },
    Plot {
        title: "Waiting, one request at a time by a random client",
        axis: "client delay, in T",
        load: Load::SoloRandom,
        measured: |row| row.client_delay_mean,
        expected: |costs| &costs.client_delay,
        explanation: "The time from a request to its entry if no other client competes; a random client requests next. A request and its answer \
                      take 2 T, however many processes are asked, because the messages travel at the same time. On a ring or in a tree they \
                      travel one after the other: fewer messages, but a longer wait.",
    },
    Plot {
        title: "Handing over while all clients compete",
        axis: "sync delay, in T",
        load: Load::All,
        measured: |row| row.sync_delay_mean,
        expected: |costs| &costs.sync_delay,
        explanation: "The time from one client's exit to the next client's entry: the critical section is empty although a request waits. It takes \
                      at least one message, and two if a coordinator stands between the clients. It limits the number of entries in an hour.",
    },
    Plot {
        title: "The busiest process while all clients compete",
        axis: "messages that it sends and receives, per entry of the group",
        load: Load::All,
        measured: |row| row.messages_per_process.map(|load| load.max),
        expected: |costs| &costs.busiest,
        explanation: "A coordinator handles all messages, however many clients there are: it is the bottleneck. Where clients ask all others, \
                      each client handles about as many as that coordinator, and all of them do. In rings and trees the work is spread, \
                      and a single process has less to do the larger the group is. In a star, the centre is a bottleneck again.",
    },
    Plot {
        title: "Messages, at random times",
        axis: "messages per entry",
        load: Load::Random,
        measured: |row| row.messages_per_entry,
        expected: |costs| &costs.messages_per_entry,
        explanation: "All clients request at random times, so that some requests compete and most do not. The cost lies between no competition and \
                      full competition. Few algorithms have a closed form for it.",
    },
    Plot {
        title: "Handing over, at random times",
        axis: "sync delay, in T",
        load: Load::Random,
        measured: |row| row.sync_delay_mean,
        expected: |costs| &costs.sync_delay,
        explanation: "The time from one client's exit to the next client's entry, if a request waits at the exit. The circulating token passes on \
                      average a third of the ring, and not half of it: a client that the token has just left rarely waits again.",
    },
    Plot {
        title: "Waiting, at random times",
        axis: "client delay, in T",
        load: Load::Random,
        measured: |row| row.client_delay_mean,
        expected: |costs| &costs.client_delay,
        explanation: "The time from a request to its entry. The request waits for the client in the critical section and for earlier requests.",
    },
    Plot {
        title: "Messages, one request at a time, by each client in turn",
        axis: "messages per entry",
        load: Load::Solo,
        measured: |row| row.messages_per_entry,
        expected: |costs| &costs.messages_per_entry,
        explanation: "No competition, and clients take turns. Some algorithms are then unusually cheap or expensive, for example if the token is \
                      always one step ahead. Random clients even this out.",
    },
    Plot {
        title: "Waiting, one request at a time, by each client in turn",
        axis: "client delay, in T",
        load: Load::Solo,
        measured: |row| row.client_delay_mean,
        expected: |costs| &costs.client_delay,
        explanation: "The time from a request to its entry if no other client competes and clients take turns.",
    },
];

const KEY: &str = "Dots are measured, lines are theory. A broken line belongs to a variant. Thin broken lines join dots for which theory gives \
     only a bound, or nothing.";

impl Plot {
    fn draw(&self, rows: &[Row]) -> Option<String> {
        let mut series: Vec<Series> = Vec::new();
        let (names, algorithms) =
            (distinct(rows.iter().map(Row::name)), distinct(rows.iter().map(|row| row.algorithm)));
        for name in &names {
            let own: Vec<&Row> = rows.iter().filter(|row| row.load == self.load && row.name() == *name).collect();
            let Some(first) = own.first() else { continue };
            let colour = algorithms.iter().position(|algorithm| *algorithm == first.algorithm).unwrap_or_default();
            let one = self.series(name, Colour { index: colour, dashed: first.variant.is_some() }, &own);
            add(&mut series, one);
        }
        by_size(self.title, self.axis, &series, KEY, self.explanation)
    }

    fn series(&self, name: &str, colour: Colour, rows: &[&Row]) -> Series {
        let (mut dots, mut line, mut formula) = (Vec::new(), Vec::new(), String::new());
        let mut joins = false;
        for row in rows {
            let (Some(value), n) = ((self.measured)(row), row.n as f64) else { continue };
            let expected = (self.expected)(&row.costs).as_ref();
            let theory = expected.map_or("no theory".into(), |expected| format!("in theory {}", in_words(expected)));
            let note = format!("{name}, n = {}: {}, {theory}", row.n, number(value));
            dots.push(Dot { at: (n, value), note, range: None, differs: !row.agrees });
            // A bound does not say where the dots should be.
            let exact = expected.filter(|expected| expected.kind != Kind::Bound);
            line.push((n, exact.map_or(value, |expected| expected.value)));
            joins |= exact.is_none();
            formula = expected.map_or(String::new(), |expected| short(&expected.formula));
        }
        Series { formula, names: vec![name.into()], colour, dots, line, joins }
    }
}

/// A figure with n on the horizontal axis. None without measurements.
fn by_size(title: &str, axis: &str, series: &[Series], key: &str, explanation: &str) -> Option<String> {
    let dots = || series.iter().flat_map(|series| series.dots.iter());
    dots().next()?;
    let mut sizes: Vec<f64> = dots().map(|dot| dot.at.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let in_theory = series.iter().flat_map(|series| series.line.iter().map(|at| at.1));
    let ranges = dots().filter_map(|dot| dot.range).flat_map(|(least, most)| [least, most]);
    let y = Axis::log(axis, dots().map(|dot| dot.at.1).chain(in_theory).chain(ranges));
    let svg = lines(title, &Axis::log_at("n, the number of processes", &sizes), &y, series);
    Some(figure(title, key, &svg, explanation))
}

/// Adds a series that has dots. Identical lines become one line with several names.
fn add(all: &mut Vec<Series>, one: Series) {
    if one.dots.is_empty() {
        return;
    }
    match all.iter_mut().find(|other| coincide(other, &one)) {
        Some(other) => other.names.extend(one.names),
        None => all.push(one),
    }
}

/// A formula without its explanation.
fn short(formula: &str) -> String {
    formula.split([',', ':']).next().unwrap_or(formula).to_owned()
}

fn coincide(one: &Series, other: &Series) -> bool {
    let same = |a: (f64, f64), b: (f64, f64)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
    one.formula == other.formula
        && one.dots.len() == other.dots.len()
        && one.dots.iter().zip(&other.dots).all(|(a, b)| same(a.at, b.at) && a.differs == b.differs)
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

fn fairness_figure(all: &[Fairness]) -> String {
    let mut all: Vec<&Fairness> = all.iter().collect();
    let spread = |fairness: &Fairness| fairness.client_delay.p99 / fairness.client_delay.mean;
    all.sort_by(|a, b| spread(a).total_cmp(&spread(b)));
    let rows: Vec<Range> = all
        .iter()
        .map(|fairness| {
            let delay = fairness.client_delay;
            let relative = |value: f64| value / delay.mean;
            Range {
                name: fairness.name.clone(),
                from: relative(delay.p50.min(delay.mean)),
                to: relative(delay.max),
                marks: [
                    (relative(delay.p50), "median"),
                    (relative(delay.p99), "one in a hundred requests waits longer than"),
                    (relative(delay.max), "longest"),
                ],
                note: format!("{:.0} % and {:.0} %", 100.0 * fairness.least, 100.0 * fairness.most),
            }
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let title = "Fairness";
    let axis =
        Axis::log("client delay, as a multiple of its mean", rows.iter().flat_map(|row| [row.from, row.to, 1.0]));
    let svg = ranges(title, &axis, &rows, "fewest and most entries, of the mean");
    let key = "Hollow: the median. Full: one in a hundred requests waits longer. Small: the longest wait.";
    let explanation = format!(
        "{FAIRNESS_CLIENTS} clients always want to enter, on a network where some messages take very long. A short line is fair: all \
         requests wait for a similar time. Queues and tokens do best. A client that needs answers from many processes waits for the \
         slowest answer, which is sometimes very slow. In a tree, clients in the middle are nearer to the token and enter more often \
         than clients at the ends. If random choices decide which client wins the votes, some clients overtake others."
    );
    figure(title, key, &svg, &explanation)
}

fn utilization_figure(all: &[Utilization]) -> String {
    let competitors: Vec<f64> =
        all.first().map_or(Vec::new(), |first| first.points.iter().map(|point| point.0).collect());
    let (Some(&first), Some(&last)) = (competitors.first(), competitors.last()) else { return String::new() };
    let mut series: Vec<Series> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let colour = Colour { index: index % 2, dashed: index >= 2 };
        let percent = one.points.iter().map(|&(n, share)| (n, 100.0 * share));
        let dot = |at: (f64, f64)| Dot {
            at,
            note: format!("{}, {} competitors: {:.1} %", one.name, at.0, at.1),
            range: None,
            differs: false,
        };
        let dots = percent.clone().map(dot).collect();
        series.push(Series {
            formula: String::new(),
            names: vec![one.name.clone()],
            colour,
            dots,
            line: percent.collect(),
            joins: true,
        });
    }
    let others = [(5, 2.0, vec!["central"]), (7, 1.0, vec!["ricart-agrawala", "suzuki-kasami"])];
    for (index, sync_delay, names) in others {
        let share = 100.0 * voting::utilization(HOLD, sync_delay);
        series.push(Series {
            formula: format!("E/(E+{sync_delay})"),
            names: names.into_iter().map(String::from).collect(),
            colour: Colour { index, dashed: false },
            dots: Vec::new(),
            line: vec![(first, share), (last, share)],
            joins: false,
        });
    }
    let values = series.iter().flat_map(|series| series.line.iter().map(|point| point.1));
    let y = Axis::linear("time that the critical section is in use, in %", values);
    let x = Axis::log_at("clients that compete", &competitors);
    let title = "Voting under contention";
    let explanation = format!(
        "{COORDINATORS} coordinators vote, and a majority of the votes wins. All clients always want to enter, and stay for {HOLD} T; \
         messages take 0.5 to 1.5 T. The more clients compete, the more often the votes are split and no client wins. Then all clients \
         return their votes, wait for a random time and try again. If that time does not grow with the number of clients (back-off:8), \
         they hardly ever succeed. A queue or a token loses no time, however many clients wait."
    );
    figure(
        title,
        "Dots are measured. Lines without dots are theory, for comparison.",
        &lines(title, &x, &y, &series),
        &explanation,
    )
}

fn figure(title: &str, key: &str, svg: &str, explanation: &str) -> String {
    let (title, explanation) = (escape(title), escape(explanation));
    format!(
        "<figure>\n<h2>{title}</h2>\n<p class=\"key\">{key}</p>\n{svg}<figcaption>{explanation}</figcaption>\n</figure>\n"
    )
}

/// The beginning of a table, up to its first row.
fn table_head(names: &[&str]) -> String {
    let class = |name: &str| if name == "in theory" { r#" class="theory""# } else { "" };
    let cells: String = names.iter().map(|name| format!("<th{}>{name}</th>", class(name))).collect();
    format!("<table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n")
}

fn table(rows: &[Row]) -> String {
    let head = [
        "algorithm",
        "load",
        "n",
        "messages",
        "in theory",
        "client delay",
        "sync delay",
        "busiest process",
        "bytes",
        "",
    ];
    let mut html = table_head(&head);
    let or_dash = |value: Option<f64>| value.map_or("\u{2013}".into(), number);
    let mut last = String::new();
    for row in rows {
        let name = row.name();
        let class = if last == name { "" } else { r#" class="first""# };
        let shown = if last == name { "" } else { name.as_str() };
        let theory = row.costs.messages_per_entry.as_ref().map_or("\u{2013}".into(), in_words);
        _ = writeln!(
            html,
            r#"<tr{class}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class="theory">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class="{}">{}</td></tr>"#,
            escape(shown),
            row.load.name(),
            row.n,
            or_dash(row.messages_per_entry),
            escape(&theory),
            or_dash(row.client_delay_mean),
            or_dash(row.sync_delay_mean),
            or_dash(row.messages_per_process.map(|load| load.max)),
            or_dash(row.bytes_per_entry),
            if row.is_fine() { "" } else { "bad" },
            escape(&row.verdict()),
        );
        last = name;
    }
    html + "</tbody>\n</table>"
}
