//! The report of a run as text.

use std::mem;

use baton_compare::theory::{
    AppendTheory, DetectorTheory, Spread, beside, of_append, of_detector, of_election, of_mutex, spread,
};
use baton_sim::faults::listed;
use baton_sim::metrics::{DelaySummary, ProcessLoad};
use baton_sim::oracle::Verdict;
use baton_sim::report::{AppendReport, DetectorReport, Drawn, ElectionReport, MutexReport, Properties, Report, Side};
use baton_sim::run::Options;
use baton_theory::election::ElectionCosts;
use baton_theory::mutex::Costs;

use super::no_theory;
use crate::output::{counted, narrow_table};

/// The report, with the values that theory expects, or the reason why there are none.
pub fn of(report: &Report, options: &Options) -> String {
    let (title, seed, mut rows) = match report {
        Report::Mutex(report) => {
            let title = title(report.algorithm, &report.variant, report.n);
            (title, report.seed, mutex_to_text(report, &of_mutex(options, report)))
        }
        Report::Election(report) => {
            let title = title(report.algorithm, &report.variant, report.n);
            (title, report.seed, election_to_text(report, &of_election(options, report.drawn.as_ref())))
        }
        Report::Detector(report) => {
            let title = title(report.algorithm, &report.variant, report.n);
            (title, report.seed, detector_to_text(report, &of_detector(options, report)))
        }
        Report::Append(report) => {
            let title = title(report.algorithm, &report.variant, report.n);
            let title = format!("{title}, {} replicas", report.replicas);
            (title, report.seed, append_to_text(report, &of_append(options, report)))
        }
    };
    rows.extend(spread(options, report).map(|spread| vec!["spread".into(), spread_to_text(spread, report)]));
    rows.extend(report.drawn().map(|drawn| vec!["drawn".into(), self::drawn(drawn)]));
    rows.extend(report.notes().iter().map(|note| vec!["note".into(), note.clone()]));
    rows.extend(no_theory::reason(options, report).map(|reason| vec!["theory".into(), reason]));
    let verdicts = verdicts(report.properties(), report.broken_promises());
    format!("{title}, seed {seed}\n\n{}{verdicts}", narrow_table(&rows))
}

fn mutex_to_text(report: &MutexReport, theory: &Costs) -> Vec<Vec<String>> {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let by_kind = if by_kind.is_empty() { "none".into() } else { by_kind.join(", ") };
    let mut rows = vec![
        vec!["entries".into(), entries_to_text(report)],
        vec!["messages".into(), format!("{}  ({by_kind})", report.messages)],
    ];
    rows.extend(per_entry_to_text(report, theory));
    rows.push(vec!["bytes".into(), report.bytes.to_string()]);
    let delays = [
        ("client delay", report.client_delay, report.client_delay_max, &theory.client_delay),
        ("sync delay", report.sync_delay, report.sync_delay_max, &theory.sync_delay),
    ];
    for (name, delay, longest, theory) in delays {
        rows.push(vec![name.into(), delay_to_text(delay, longest, &beside(theory))]);
    }
    rows.push(vec!["time".into(), format!("{:.3} T", report.time)]);
    if let Some(bypass) = report.bypass {
        let text = format!("mean {:.3}, max {} later requests granted first", bypass.mean, bypass.max);
        rows.push(vec!["bypass".into(), text]);
    } else if report.entries == 0 {
        rows.push(vec!["bypass".into(), "-".into()]);
    }
    if let Some(store) = &report.store {
        let damage = store.data.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
        let writes = counted(store.writes, "write", "writes");
        let text = format!("{writes}, {} refused, {} LOST{damage}", store.refused, store.lost);
        rows.push(vec!["store".into(), if store.lost > 0 { text } else { text.to_lowercase() }]);
    }
    rows
}

/// The run may have reached its limit of events, so the request may not wait for ever.
const STILL_WAITS: &str = "a request still waits at the end";

/// The costs of one entry. A run that got stuck has none.
fn per_entry_to_text(report: &MutexReport, theory: &Costs) -> Vec<Vec<String>> {
    let (Some(messages), Some(on_leaving), Some(multicasts)) =
        (report.messages_per_entry, report.exit_messages, report.multicasts_per_entry)
    else {
        let why = if report.entries == 0 { "no process has entered" } else { STILL_WAITS };
        return vec![vec!["per entry".into(), format!("no mean, because {why}")]];
    };
    let theory = beside(&theory.messages_per_entry);
    let most = report.messages_per_entry_max.map(|most| format!("; at most {most} for one entry")).unwrap_or_default();
    vec![
        vec!["per entry".into(), format!("{messages:.3} messages{theory}{most}")],
        vec!["per process".into(), load_to_text(report.messages_per_process)],
        vec!["on leaving".into(), format!("{on_leaving:.3} messages per entry")],
        vec!["multicasts".into(), format!("{multicasts:.3} messages per entry, if a multicast counts as one")],
    ]
}

/// How many messages the busiest process and the average process handle.
fn load_to_text(load: Option<ProcessLoad>) -> String {
    load.map_or("-".into(), |ProcessLoad { max, mean, busiest }| {
        format!("at most {max:.3} sent and received per entry, by P{busiest}; mean {mean:.3}")
    })
}

fn spread_to_text(Spread { values, differs, entries_enough }: Spread, report: &Report) -> String {
    let values = match report {
        Report::Detector(_) => counted(values, "crash", "crashes"),
        _ => counted(values, "entry", "entries"),
    };
    let [differs, enough] = [differs, Spread::enough()].map(|share| (100.0 * share).round());
    format!(
        "a mean over {values} may differ by {differs} % from theory; with --entries {entries_enough}, by {enough} %"
    )
}

/// What `--fault random` drew.
pub fn drawn(Drawn { faults, loss, duplicate, drift }: &Drawn) -> String {
    let others = [("loss", loss), ("duplicate", duplicate), ("drift", drift)];
    let others = others.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}")));
    let all: Vec<String> = faults.iter().cloned().chain(others).collect();
    if all.is_empty() { "no faults".into() } else { all.join("; ") }
}

/// The number of entries, and the number of measured entries if it differs.
fn entries_to_text(MutexReport { entries, measured_entries, .. }: &MutexReport) -> String {
    match measured_entries == entries {
        true => entries.to_string(),
        false => format!("{entries}; per-entry figures and delays are of {measured_entries}, after a warm-up"),
    }
}

/// Names the dead processes.
fn dead_to_text(dead: &[usize]) -> String {
    let names: Vec<String> = dead.iter().map(|process| format!("P{process}")).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} is dead"),
        many => format!("; {} are dead", many.join(", ")),
    }
}

/// The leader that all agree on, or the leader of each side.
fn leader_to_text(report: &ElectionReport) -> String {
    let named = |leader: Option<usize>, term: Option<u64>| {
        let term = term.map(|term| format!(", term {term}")).unwrap_or_default();
        leader.map_or("none".into(), |leader| format!("P{leader}{term}"))
    };
    let side = |side: &Side| {
        let comma = if side.term.is_some() { "," } else { "" };
        format!("{}{comma} {}", named(side.leader, side.term), on_side(side))
    };
    match report.sides.as_slice() {
        [] => named(report.leader, report.term),
        sides => sides.iter().map(side).collect::<Vec<_>>().join("; "),
    }
}

fn on_side(Side { processes, .. }: &Side) -> String {
    let processes: Vec<String> = processes.iter().map(|process| format!("P{process}")).collect();
    format!("on the side of {}", processes.join(", "))
}

/// The time that the election took, or the time of each side.
fn time_to_text(report: &ElectionReport, theory: &ElectionCosts) -> String {
    let or_dash = |time: Option<f64>| time.map_or("-".into(), |time| format!("{time:.3} T"));
    let side = |side: &Side| format!("{} {}", or_dash(side.time), on_side(side));
    match report.sides.as_slice() {
        [] => or_dash(report.time) + &beside(&theory.time.clone().filter(|_| report.time.is_some())),
        sides => sides.iter().map(side).collect::<Vec<_>>().join("; "),
    }
}

fn election_to_text(report: &ElectionReport, theory: &ElectionCosts) -> Vec<Vec<String>> {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let by_kind = if by_kind.is_empty() { "none".into() } else { by_kind.join(", ") };
    let in_all = match report.messages_in_all {
        all if all == report.messages => String::new(),
        all => format!("; {all} in the whole run"),
    };
    let messages = format!("{}{}  ({by_kind}){in_all}", report.messages, beside(&theory.messages));
    vec![
        vec!["leader".into(), leader_to_text(report) + &dead_to_text(&report.dead)],
        vec!["messages".into(), messages],
        vec!["time".into(), time_to_text(report, theory)],
        vec!["rivals".into(), rivals_to_text(report)],
    ]
}

/// How long there was more than one leader, and whether there still is.
fn rivals_to_text(report: &ElectionReport) -> String {
    let led = format!("two or more processes led for {:.3} T", report.rivals);
    match report.rivals_at_end.as_slice() {
        [] => led,
        still => format!("{led} until the run ended; {} still lead", listed(still)),
    }
}

fn detector_to_text(report: &DetectorReport, theory: &DetectorTheory) -> Vec<Vec<String>> {
    vec![
        vec!["crashes".into(), report.crashes.to_string()],
        vec!["detection time".into(), delay_to_text(report.detection_time, None, &beside(&theory.detection_time))],
        vec![
            "mistakes".into(),
            format!(
                "{}{}, {:.6} per T and pair, in {:.0} T",
                report.mistakes,
                beside(&theory.mistakes),
                report.mistake_rate,
                report.time
            ),
        ],
        vec!["mistake time".into(), delay_to_text(report.mistake_time, None, "")],
        vec!["messages".into(), format!("{}, a beat every {} T", report.messages, report.period)],
    ]
}

fn append_to_text(report: &AppendReport, theory: &AppendTheory) -> Vec<Vec<String>> {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let theory = beside(&theory.messages_per_append);
    let per_append = match report.messages_per_append {
        Some(messages) => format!("{messages:.3} messages{theory}"),
        None if report.appends == 0 => "no mean, because no append was answered".into(),
        None => format!("no mean, because {STILL_WAITS}"),
    };
    vec![
        vec!["appends".into(), format!("{}, {:.3} per T", report.appends, report.throughput)],
        vec![
            "file".into(),
            format!(
                "{} records, {} padding, {} repeats, in {} copies",
                report.records, report.padding, report.repeats, report.copies
            ),
        ],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec!["per append".into(), per_append],
        vec!["bytes".into(), report.bytes.to_string()],
        vec!["client delay".into(), delay_to_text(report.client_delay, report.client_delay_max, "")],
        vec!["time".into(), format!("{:.3} T", report.time)],
    ]
}

/// `theory` follows the mean; it may be empty. `longest` is the longest delay of the whole run, warm-up included.
fn delay_to_text(delay: Option<DelaySummary>, longest: Option<f64>, theory: &str) -> String {
    delay.map_or("-".into(), |delay| {
        let DelaySummary { mean, p50, p99, max } = delay;
        let longest = longest.filter(|&longest| longest > max);
        let longest = longest.map(|longest| format!("; {longest:.3} in the whole run")).unwrap_or_default();
        format!("mean {mean:.3} T{theory}, median {p50:.3}, p99 {p99:.3}, max {max:.3}{longest}")
    })
}

fn title(algorithm: &str, variant: &Option<String>, n: usize) -> String {
    let variant = variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    format!("{algorithm}{variant}, n = {n}")
}

fn verdicts(properties: &Properties, broken: &[&str]) -> String {
    let rows: Vec<Vec<String>> = properties
        .each()
        .into_iter()
        .map(|(property, finding)| {
            let name = property.name();
            let mut detail = finding.detail.clone().unwrap_or_default();
            let verdict = match finding.verdict {
                Verdict::Held if !detail.is_empty() => &format!("held, {}", mem::take(&mut detail)),
                Verdict::Held => "held",
                Verdict::Violated if broken.contains(&name) => "VIOLATED",
                Verdict::Violated => "violated, not promised",
                Verdict::Unchecked => "unchecked",
                Verdict::Untested => "not tested",
            };
            vec![name.into(), verdict.into(), detail]
        })
        .collect();
    format!("\n{}", narrow_table(&rows))
}
