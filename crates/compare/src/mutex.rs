//! The costs of mutual exclusion, measured and compared with theory.

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::app::mutex::Load;
use baton_sim::metrics::ProcessLoad;
use baton_sim::report::{MutexReport, Properties, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::mutex::{Costs, closed_loop_client_delay};
use baton_theory::{Expectation, Kind};
use serde::Serialize;

use crate::parallel::{self, Caller, Cancelled};
use crate::theory::{in_words, number, of_mutex};
use crate::verdict;

/// Variants that get rows of their own.
const VARIANTS: [(&str, &str); 6] = [
    ("maekawa", "yield-at-once"),
    ("token-ring", "parked"),
    ("raymond", "chain"),
    ("raymond", "star"),
    ("voting", "ask-all"),
    ("voting", "stored-fence"),
];

/// The measured rounds after the warm-up: each process enters once a round.
const ROUNDS: u64 = 8;
/// The least number of measured entries, so that means settle.
pub const ENTRIES: u64 = 2_000;

/// How long each process stays in the critical section, in T.
pub const HOLD: f64 = 1.0;

/// One line of the comparison.
#[derive(Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    pub variant: Option<&'static str>,
    pub n: usize,
    pub load: Load,
    pub messages_per_entry: Option<f64>,
    pub expected: Option<f64>,
    pub expected_kind: Option<Kind>,
    pub formula: Option<String>,
    pub client_delay_mean: Option<f64>,
    pub sync_delay_mean: Option<f64>,
    pub bytes_per_entry: Option<f64>,
    /// The messages that single processes send and receive, per entry of the group.
    pub messages_per_process: Option<ProcessLoad>,
    pub properties: Option<Properties>,
    pub broken_promises: Vec<&'static str>,
    /// Whether no measurement differs from theory.
    pub agrees: bool,
    /// One sentence for each measurement that differs.
    pub differences: Vec<String>,
    /// Why the algorithm cannot run with this number of processes.
    pub refused: Option<String>,
    /// Everything that theory expects. `expected`, `expected_kind` and `formula` are its messages per entry.
    #[serde(rename = "theory")]
    pub costs: Costs,
}

/// Measures each contestant with each of `loads` and `sizes` (numbers of processes).
pub fn compare(
    contestants: &[Contestant],
    sizes: &[usize],
    loads: &[Load],
    caller: Caller,
) -> Result<Vec<Row>, Cancelled> {
    let each = contestants.iter().flat_map(|&contestant| loads.iter().map(move |&load| (contestant, load)));
    let tasks: Vec<Task> =
        each.flat_map(|(contestant, load)| sizes.iter().map(move |&n| (contestant, n, load))).collect();
    parallel::map(&tasks, caller, measure)
}

/// An algorithm in one variant.
#[derive(Clone, Copy)]
pub struct Contestant {
    pub about: &'static About,
    pub variant: Option<&'static str>,
}

impl Contestant {
    pub fn name(&self) -> String {
        full_name(self.about.name, self.variant)
    }

    /// A synchronous network, which keeps the order of messages if the algorithm assumes it.
    pub fn options(&self, n: usize, load: Load) -> Options {
        let mut options = Options::new(self.about.name, n);
        options.params.variant = self.variant.map(Into::into);
        options.network.fifo = self.about.assumes.fifo;
        options.workload.load = load;
        options.workload.hold = HOLD;
        options.workload.think = if load == Load::Random { 10.0 * n as f64 } else { 0.0 };
        options
    }
}

pub(crate) fn full_name(algorithm: &str, variant: Option<&str>) -> String {
    variant.map_or(algorithm.into(), |variant| format!("{algorithm} ({variant})"))
}

/// All algorithms for mutual exclusion that are not broken on purpose, with their variants.
pub fn contestants() -> Vec<Contestant> {
    let healthy = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    let with_variants = healthy.flat_map(|about| {
        let has = |name: &str| about.variants.iter().any(|variant| variant.name == name);
        let variants = VARIANTS.iter().filter(move |(algorithm, name)| *algorithm == about.name && has(name));
        let variants = variants.map(|&(_, name)| Contestant { about, variant: Some(name) });
        [Contestant { about, variant: None }].into_iter().chain(variants.collect::<Vec<_>>())
    });
    with_variants.collect()
}

/// The number of requests of a run with enough measured entries. Three rounds of warm-up come first. In the last round,
/// processes stop requesting.
pub fn entries(n: usize) -> u64 {
    let rounds = ROUNDS.max(ENTRIES.div_ceil(n as u64));
    (3 + rounds + 1) * n as u64
}

type Task = (Contestant, usize, Load);

fn measure(&(contestant, n, load): &Task) -> Row {
    let mut options = contestant.options(n, load);
    options.workload.entries = entries(n);
    let row = Row {
        algorithm: contestant.about.name,
        variant: contestant.variant,
        n,
        load,
        messages_per_entry: None,
        expected: None,
        expected_kind: None,
        formula: None,
        client_delay_mean: None,
        sync_delay_mean: None,
        bytes_per_entry: None,
        messages_per_process: None,
        properties: None,
        broken_promises: Vec::new(),
        agrees: true,
        differences: Vec::new(),
        refused: None,
        costs: Costs::default(),
    };
    match simulate(&options, None) {
        Ok(Report::Mutex(report)) => row.with(of_mutex(&options, &report), *report),
        Ok(_) => row,
        Err(reason) => Row { refused: Some(reason.to_string()), ..row },
    }
}

impl Row {
    fn with(self, costs: Costs, report: MutexReport) -> Row {
        let differences = differences(&costs, &report);
        let messages = costs.messages_per_entry.as_ref();
        Row {
            messages_per_entry: report.messages_per_entry,
            expected: messages.map(|messages| messages.value),
            expected_kind: messages.map(|messages| messages.kind),
            formula: messages.map(|messages| messages.formula.clone()),
            client_delay_mean: report.client_delay.map(|delay| delay.mean),
            sync_delay_mean: report.sync_delay.map(|delay| delay.mean),
            bytes_per_entry: report.bytes_per_entry,
            messages_per_process: report.messages_per_process,
            properties: Some(report.properties),
            broken_promises: report.broken_promises,
            agrees: differences.is_empty(),
            differences,
            costs,
            ..self
        }
    }

    pub fn name(&self) -> String {
        full_name(self.algorithm, self.variant)
    }

    pub fn is_fine(&self) -> bool {
        self.agrees && self.broken_promises.is_empty()
    }

    pub fn verdict(&self) -> String {
        let fine = match self.expected_kind {
            Some(Kind::Exact) => "exact",
            Some(Kind::Bound) => "in bounds",
            Some(Kind::Mean) => "mean",
            None => "no theory",
        };
        verdict::of_row(self.refused.as_deref(), &self.broken_promises, &self.differences, fine)
    }
}

/// The measurements that differ from theory.
fn differences(costs: &Costs, report: &MutexReport) -> Vec<String> {
    let (client_delay, sync_delay) = (report.client_delay, report.sync_delay);
    let mut checks = vec![
        ("messages", costs.messages_per_entry.clone(), report.messages_per_entry),
        ("client delay", costs.client_delay.clone(), client_delay.map(|delay| delay.mean)),
        ("sync delay", costs.sync_delay.clone(), sync_delay.map(|delay| delay.mean)),
        ("messages of the busiest process", costs.busiest.clone(), report.messages_per_process.map(|load| load.max)),
        ("longest sync delay", costs.sync_delay_max.clone(), sync_delay.map(|delay| delay.max)),
    ];
    if let (Load::All, Some(sync_delay)) = (report.load, sync_delay) {
        // The measured S must explain how long clients wait.
        let value = closed_loop_client_delay(report.n, HOLD, sync_delay.mean);
        let expected = Expectation::mean(format!("n(E+S)-E, S = {}", number(sync_delay.mean)), value);
        checks.push(("client delay", Some(expected), client_delay.map(|delay| delay.mean)));
    }
    let differs = |(what, expected, measured): (&str, Option<Expectation>, Option<f64>)| {
        let (expected, measured) = (expected?, measured?);
        (!expected.agrees(measured)).then(|| format!("{what} {}, not {}", number(measured), in_words(&expected)))
    };
    checks.into_iter().filter_map(differs).collect()
}
