//! What is checked of every algorithm there is: the table of verdicts.

use baton_protocol::registry::{ALGORITHMS, About, Crashes, Family, Params, Variant};

use crate::{CheckError, Faults, Options, Order, Property, Report, Verdict, check};

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Exhibit {
    /// Which algorithm.
    pub algorithm: &'static str,
    /// What the group is like.
    pub params: Params,
    /// What to check.
    pub options: Options,
}

impl Exhibit {
    fn new(about: &'static About, n: usize, entries: u32) -> Self {
        let options = Options { entries, ignore_assumptions: about.broken.is_some(), ..Options::default() };
        Exhibit { algorithm: about.name, params: Params::new(n, 1), options }
    }

    fn properties(mut self, properties: &[Property]) -> Self {
        self.options.properties = Some(properties.to_vec());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Params, &mut Options)) -> Self {
        change(&mut self.params, &mut self.options);
        self
    }

    /// Checks it.
    pub fn check(&self) -> Result<Report, CheckError> {
        check(self.algorithm, &self.params, &self.options)
    }
}

/// All of them: every algorithm with three processes that ask twice and with four that ask once, with three that ask for
/// ever, with one crash where it can bear one; elections among three and four.
pub fn gallery() -> Vec<Exhibit> {
    let mut exhibits = Vec::new();
    for about in ALGORITHMS.iter().copied() {
        match about.family {
            Family::Mutex => mutex(about, &mut exhibits),
            Family::Election => election(about, &mut exhibits),
            Family::Detector | Family::Append => {}
        }
    }
    exhibits
}

fn mutex(about: &'static About, exhibits: &mut Vec<Exhibit>) {
    let promises = about.promises;
    let healthy = about.broken.is_none();
    let asked = [
        (Property::Safety, promises.safety),
        (Property::Deadlock, promises.liveness),
        // What is broken on purpose is here for what is broken, and fences make more states.
        (Property::Fence, promises.fence && healthy),
    ];
    let bounded: Vec<Property> =
        asked.into_iter().filter_map(|(property, promised)| promised.then_some(property)).collect();
    for (n, entries) in [(2, 2), (3, 1), (3, 2), (4, 1)] {
        exhibits.push(Exhibit::new(about, n, entries).properties(&bounded));
    }
    for n in [2, 3] {
        // For algorithms that do not promise it, too: that is where it is of interest.
        let app_messages = Some(1);
        let exhibit = Exhibit::new(about, n, 1).properties(&[Property::Order]);
        exhibits.push(exhibit.with(|_, options| options.app_messages = app_messages));
        let random = about.variants.iter().any(|Variant { name, .. }| name.starts_with("back-off"));
        if !random {
            exhibits.push(Exhibit::new(about, n, 1).properties(&[Property::Liveness]));
        }
    }
    if about.assumes.crashes != Crashes::Never {
        let faults = Faults { crash: 1, ..Faults::NONE };
        for (n, entries) in [(2, 2), (3, 1)] {
            let exhibit = Exhibit::new(about, n, entries).properties(&bounded);
            exhibits.push(exhibit.with(|_, options| options.faults = faults));
        }
    }
    if about.assumes.fifo {
        let exhibit = Exhibit::new(about, 2, 1).properties(&[Property::Safety]);
        exhibits.push(exhibit.with(|_, options| {
            (options.order, options.ignore_assumptions) = (Some(Order::Unordered), true);
        }));
    }
}

fn election(about: &'static About, exhibits: &mut Vec<Exhibit>) {
    for (n, delay) in [(2, 1), (3, 1), (3, 2), (4, 1)] {
        exhibits.push(Exhibit::new(about, n, 1).with(|params, _| params.delay_max = delay));
    }
    for n in [2, 3] {
        let crash = |_: &mut Params, options: &mut Options| options.faults.crash = 1;
        exhibits.push(Exhibit::new(about, n, 1).with(crash));
    }
    for guard in ["quorum", "witness"] {
        let guarded = |params: &mut Params, options: &mut Options| {
            (params.variant, options.faults.crash) = (Some(guard.into()), 1);
        };
        exhibits.push(Exhibit::new(about, 3, 1).with(guarded));
    }
    if about.assumes.crashes == Crashes::Detected {
        // Of those who come back there are too many states for a verdict.
        let for_good = Faults { crash: 1, recover: Some(0), ..Faults::NONE };
        exhibits.push(Exhibit::new(about, 3, 1).with(|_, options| options.faults = for_good));
    }
    // What mistakes of detectors, and of deadlines, do, which none of them is made for.
    for detectors_only in [true, false] {
        let suspect = |_: &mut Params, options: &mut Options| {
            options.faults = Faults { suspect: 1, detectors_only, ..Faults::NONE };
            options.ignore_assumptions = true;
        };
        exhibits.push(Exhibit::new(about, 3, 1).with(suspect));
    }
    if about.assumes.synchronous {
        let slow =
            |_: &mut Params, options: &mut Options| (options.delay, options.ignore_assumptions) = (Some(2), true);
        exhibits.push(Exhibit::new(about, 3, 1).with(slow));
    }
}

/// The heads of the columns of [`row`].
pub const COLUMNS: [&str; 7] = ["algorithm", "n", "entries", "network", "budget", "states", "verdict"];

/// A report as a line of the table.
pub fn row(report: &Report) -> [String; 7] {
    let for_ever = report.properties == [Property::Liveness] && report.cyclic.is_some();
    let entries = match report.entries {
        0 => "-".to_owned(),
        _ if for_ever => "for ever".to_owned(),
        entries => entries.to_string(),
    };
    let states =
        if report.result == Verdict::Limit { format!("> {}", report.states) } else { report.states.to_string() };
    let variant = report.variant.as_deref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let (algorithm, n, network) = (format!("{}{variant}", report.algorithm), report.n.to_string(), network(report));
    [algorithm, n, entries, network, budget(report), states, verdict(report)]
}

/// The order of messages; and where there is time, how many ticks one may take and is believed to take.
fn network(report: &Report) -> String {
    match report.delays {
        None => report.order.to_string(),
        Some((delay, assumed)) if delay == assumed => format!("{}, D = {assumed}", report.order),
        Some((delay, assumed)) => format!("{}, D = {assumed}, in truth {delay}", report.order),
    }
}

fn budget(report: &Report) -> String {
    let Faults { loss, duplicate, crash, recover, suspect, detectors_only } = report.faults;
    let counts = [
        (report.timers.unwrap_or(0), "timer"),
        (report.app_messages.into(), "application message"),
        (loss.into(), "loss"),
        (duplicate.into(), "duplicate"),
        (crash.into(), if recover == Some(0) { "final crash" } else { "crash" }),
        (recover.unwrap_or(0).into(), "recovery"),
        (suspect.into(), if detectors_only { "wrong suspicion, deadlines right" } else { "wrong suspicion" }),
    ];
    let words: Vec<String> =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

fn verdict(report: &Report) -> String {
    let names: Vec<&str> = report.properties.iter().map(|property| property.name()).collect();
    let components = report.cyclic.map(|cyclic| format!(" ({} components)", cyclic.components)).unwrap_or_default();
    match report.result {
        Verdict::Holds => format!("holds: {}{components}", names.join(", ")),
        Verdict::Limit => format!("no verdict: {}, {}", names.join(", "), report.detail.as_deref().unwrap_or_default()),
        Verdict::Violated => {
            let property = report.property.map(Property::name).unwrap_or_default();
            let steps = report.steps.map(|steps| format!(" in {steps} steps")).unwrap_or_default();
            format!("**violated: {property}{steps}**: {}", report.detail.as_deref().unwrap_or_default())
        }
    }
}
