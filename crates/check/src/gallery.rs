//! What is checked of every algorithm there is: the table of verdicts.

use std::time::Duration;

use baton_protocol::detector::heartbeat;
use baton_protocol::registry::{ALGORITHMS, About, Crashes, Family, Params, Variant};

use crate::{CheckError, CheckReport, Faults, LinkOrder, Options, Property, Verdict, check};

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Exhibit {
    /// Which algorithm.
    pub algorithm: &'static str,
    /// What the group is like.
    pub params: Params,
    /// What to check.
    pub options: Options,
    /// Whether it is one of those that the table is for, and gets all the time there is for a line.
    pub main: bool,
}

/// How many processes of an algorithm for mutual exclusion, asking how often each, the table is for.
const MAIN: [(usize, u32); 2] = [(3, 2), (4, 1)];

/// What is not [`main`](Exhibit::main) gets one part in so many of the time.
const TIME_DIVISOR: u32 = 10;

impl Exhibit {
    fn new(about: &'static About, n: usize, entries: u32) -> Self {
        let options = Options { entries, ..Options::default() };
        Exhibit { algorithm: about.name, params: Params::new(n, 1), options, main: false }
    }

    fn main(mut self, main: bool) -> Self {
        self.main = main;
        self
    }

    fn properties(mut self, properties: &[Property]) -> Self {
        self.options.properties = Some(properties.to_vec());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Params, &mut Options)) -> Self {
        change(&mut self.params, &mut self.options);
        self
    }

    /// How long it may take, if a line may take so long.
    pub fn time(&self, longest: Duration) -> Duration {
        if self.main { longest } else { longest / TIME_DIVISOR }
    }

    /// Checks it.
    pub fn check(&self) -> Result<CheckReport, CheckError> {
        check(self.algorithm, &self.params, &self.options)
    }
}

/// All of them: every algorithm with three processes that ask twice and with four that ask once, which are the main ones
/// unless they are broken on purpose, and with fewer; with three that ask for ever; with one crash where it can bear one;
/// elections among three and four; heartbeats of two and three.
pub fn gallery() -> Vec<Exhibit> {
    let mut exhibits = Vec::new();
    for about in ALGORITHMS.iter().copied() {
        match about.family {
            Family::Mutex => mutex(about, &mut exhibits),
            Family::Election => election(about, &mut exhibits),
            Family::Detector if about.name == heartbeat::ABOUT.name => heartbeats(about, &mut exhibits),
            Family::Detector | Family::Append => {}
        }
    }
    exhibits
}

fn mutex(about: &'static About, exhibits: &mut Vec<Exhibit>) {
    let healthy = about.broken.is_none();
    // What is broken on purpose is here for what is broken, and fences make more states.
    let asked = [Property::Safety, Property::Deadlock, Property::Fence]
        .into_iter()
        .filter(|it| *it != Property::Fence || healthy);
    let bounded: Vec<Property> = asked.filter(|it| about.promises.include(*it)).collect();
    let random = about.variants.iter().any(|Variant { name, .. }| name.starts_with("back-off"));
    // Chance makes so many states that the smallest model of all may be the largest that can be finished.
    let smallest: &[(usize, u32)] = if random { &[(2, 1)] } else { &[] };
    for &(n, entries) in smallest.iter().chain(&[(2, 2), (3, 1)]).chain(&MAIN) {
        // Chance has its main ones below, with fewer timers.
        let main = MAIN.contains(&(n, entries)) && healthy && !random;
        exhibits.push(Exhibit::new(about, n, entries).properties(&bounded).main(main));
    }
    let timers = if random { 1 } else { Options::default().timers };
    let fewer_timers = |_: &mut Params, options: &mut Options| options.timers = timers;
    if random {
        exhibits.push(Exhibit::new(about, 3, 1).properties(&bounded).with(fewer_timers));
    }
    // What comes too late for anybody makes too many states, too: on links that keep their order there is less of that.
    let endless = |order| endless(about.name, 2, order).is_some();
    if random || (endless(LinkOrder::Unordered) && !endless(LinkOrder::Fifo)) {
        for (n, entries) in MAIN {
            let exhibit = Exhibit::new(about, n, entries).properties(&bounded).with(fewer_timers).main(healthy);
            exhibits.push(exhibit.with(|_, options| options.order = Some(LinkOrder::Fifo)));
        }
    }
    for n in [2, 3] {
        // For algorithms that do not promise it, too: that is where it is of interest.
        let app_messages = Some(1);
        let exhibit = Exhibit::new(about, n, 1).properties(&[Property::Order]);
        exhibits.push(exhibit.with(|_, options| options.app_messages = app_messages));
        if !random {
            for_ever(about, n, exhibits);
        }
    }
    if about.assumes.crashes != Crashes::Never {
        let faults = Faults { crash: 1, ..Faults::NONE };
        for (n, entries) in [(2, 2), (3, 1)] {
            let exhibit = Exhibit::new(about, n, entries).properties(&bounded);
            exhibits.push(exhibit.clone().with(fewer_timers).with(|_, options| options.faults = faults));
            if !random {
                let liveness = exhibit.properties(&[Property::Liveness]);
                exhibits.push(liveness.with(|_, options| options.faults = faults));
            }
        }
    }
    if about.assumes.fifo {
        let exhibit = Exhibit::new(about, 2, 1).properties(&[Property::Safety]);
        exhibits.push(exhibit.with(|_, options| {
            (options.order, options.ignore_assumptions) = (Some(LinkOrder::Unordered), true);
        }));
    }
}

fn for_ever(about: &'static About, n: usize, exhibits: &mut Vec<Exhibit>) {
    let exhibit = Exhibit::new(about, n, 1).properties(&[Property::Liveness]);
    let order = if about.assumes.fifo { LinkOrder::Fifo } else { LinkOrder::Unordered };
    let endless = |order| endless(about.name, n, order).is_some();
    let healthy = about.broken.is_none();
    exhibits.push(exhibit.clone().main(healthy && !endless(order)));
    // Where the order of messages makes the states finitely many, that is the next best thing.
    if endless(order) && !endless(LinkOrder::Fifo) {
        exhibits.push(exhibit.main(healthy).with(|_, options| options.order = Some(LinkOrder::Fifo)));
    }
}

/// Why there are infinitely many states, normal forms or not, if everybody asks for ever; none if there are not.
pub fn endless(algorithm: &str, n: usize, order: LinkOrder) -> Option<&'static str> {
    match algorithm {
        "carvalho-roucairol" => Some("who has all permissions enters without asking, and its clock runs away"),
        "maekawa" | "maekawa-1985" | "generalized" if n > 2 => {
            Some("the clocks of those who enter run away from one that is in none of their sets")
        }
        "maekawa" | "maekawa-1985" | "generalized" | "generalized-unchecked" if order == LinkOrder::Unordered => {
            Some("INQUIREs and POSTPONEs that come too late for anybody may pile up on their way")
        }
        "suzuki-kasami" if n > 2 => Some("REQUESTs to one that never has the token may pile up on their way"),
        "singhal" if n > 2 => {
            Some("the request numbers of two run away from what a third, whom nobody asks, knows of them")
        }
        _ => None,
    }
}

fn election(about: &'static About, exhibits: &mut Vec<Exhibit>) {
    for (n, delay) in [(2, 1), (3, 1), (3, 2), (4, 1)] {
        exhibits.push(
            Exhibit::new(about, n, 1).with(|params, _| params.delay_max = delay).main(n > 2 && about.broken.is_none()),
        );
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

fn heartbeats(about: &'static About, exhibits: &mut Vec<Exhibit>) {
    let exhibit = |n, delay_max, crash| {
        Exhibit::new(about, n, 1).with(|params, options| (params.delay_max, options.faults.crash) = (delay_max, crash))
    };
    for crash in [0, 1] {
        exhibits.extend([(2, 1), (2, 2), (3, 1), (3, 2)].map(|(n, delay_max)| exhibit(n, delay_max, crash)));
    }
    // A network that is too slow: for a crash to be noticed in time; for the living to be told from the dead.
    for (crash, delay) in [(1, 2), (0, 3), (0, 4)] {
        let slow = |_: &mut Params, options: &mut Options| {
            (options.delay, options.ignore_assumptions) = (Some(delay), true);
        };
        exhibits.push(exhibit(2, 1, crash).with(slow));
    }
    let loss = |_: &mut Params, options: &mut Options| (options.faults.loss, options.ignore_assumptions) = (1, true);
    exhibits.push(exhibit(2, 1, 0).with(loss));
}

/// The heads of the columns of [`row`].
pub const COLUMNS: [&str; 7] = ["algorithm", "n", "entries", "network", "budget", "states", "verdict"];

/// A report as a line of the table.
pub fn row(report: &CheckReport) -> [String; 7] {
    let for_ever = is_for_ever(report);
    let entries = match report.entries {
        0 => "-".to_owned(),
        _ if for_ever => "for ever".to_owned(),
        entries => entries.to_string(),
    };
    let states =
        if report.result == Verdict::Limit { format!("> {}", report.states) } else { report.states.to_string() };
    let variant = report.variant.as_deref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let (algorithm, n, network) = (format!("{}{variant}", report.algorithm), report.n.to_string(), network(report));
    [algorithm, n, entries, network, budget(report).unwrap_or_else(|| "-".to_owned()), states, verdict(report)]
}

/// Whether all ask for ever in all of it.
pub fn is_for_ever(report: &CheckReport) -> bool {
    report.properties == [Property::Liveness] && report.cyclic.is_some() && !report.faults.of_processes()
}

/// The order of messages, and how long they take.
fn network(report: &CheckReport) -> String {
    format!("{}{}", report.order, delays(report))
}

/// Where there is time: how many ticks a message is believed to take, and may in truth take, at most.
pub fn delays(report: &CheckReport) -> String {
    match report.delays {
        None => String::new(),
        Some((delay, assumed)) if delay == assumed => format!(", D = {assumed}"),
        Some((delay, assumed)) => format!(", D = {assumed}, in truth {delay}"),
    }
}

/// What may happen besides, and how often; none if nothing may.
pub fn budget(report: &CheckReport) -> Option<String> {
    let Faults { loss, duplicate, crash, recover, suspect, detectors_only } = report.faults;
    let crashes = if recover == Some(0) { ["final crash", "final crashes"] } else { ["crash", "crashes"] };
    let counts = [
        (report.timers.unwrap_or(0), ["timer", "timers"]),
        (report.app_messages.into(), ["application message", "application messages"]),
        (loss.into(), ["loss", "losses"]),
        (duplicate.into(), ["duplicate", "duplicates"]),
        (crash.into(), crashes),
        (recover.unwrap_or(0).into(), ["recovery", "recoveries"]),
        (suspect.into(), ["wrong suspicion", "wrong suspicions"]),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut words: Vec<String> = counts.map(|(count, names)| counted(count as usize, names)).collect();
    if detectors_only {
        words.push("deadlines right".to_owned());
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// So many, with the name for one or for several.
fn counted(count: usize, [one, several]: [&str; 2]) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// So many runs that never end.
pub fn components(number: usize) -> String {
    counted(number, ["component", "components"])
}

fn verdict(report: &CheckReport) -> String {
    let names: Vec<&str> = report.properties.iter().map(|property| property.name()).collect();
    let components =
        report.cyclic.as_ref().map(|cyclic| format!(" ({})", components(cyclic.components))).unwrap_or_default();
    match report.result {
        Verdict::Holds => format!("holds: {}{components}", names.join(", ")),
        Verdict::Limit => {
            let endless = is_for_ever(report).then(|| endless(report.algorithm, report.n, report.order)).flatten();
            let endless = endless.map(|why| format!("; there are infinitely many states: {why}")).unwrap_or_default();
            format!("no verdict: {}, {}{endless}", names.join(", "), report.detail.as_deref().unwrap_or_default())
        }
        Verdict::Violated => {
            let property = report.property.map(Property::name).unwrap_or_default();
            let steps = report.steps.map(|steps| format!(" in {steps} steps")).unwrap_or_default();
            format!("violated: {property}{steps}: {}", report.detail.as_deref().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_ask_for_ever_have_infinitely_many_states_exactly_where_it_is_said() {
        let for_ever = |Exhibit { options, .. }: &Exhibit| {
            options.properties.as_deref() == Some(&[Property::Liveness]) && !options.faults.any()
        };
        let exhibits: Vec<Exhibit> = gallery().into_iter().filter(|it| for_ever(it) && it.params.n == 2).collect();
        assert!(exhibits.len() > 20);
        for exhibit in exhibits {
            let report = exhibit.with(|_, options| options.limit = 20_000).check().unwrap();
            let endless = endless(report.algorithm, 2, report.order).is_some();
            assert_eq!(report.result == Verdict::Limit, endless, "{} {}", report.algorithm, report.order);
        }
    }

    #[test]
    fn what_the_table_is_for_gets_all_the_time_there_is() {
        let all = Duration::from_secs(600);
        let main = |algorithm: &str| -> Vec<(usize, u32, Option<LinkOrder>)> {
            let main = gallery().into_iter().filter(|it| it.algorithm == algorithm && it.time(all) == all);
            main.map(|it| (it.params.n, it.options.entries, it.options.order)).collect()
        };
        let fifo = Some(LinkOrder::Fifo);
        assert_eq!(main("maekawa"), [(3, 2, None), (4, 1, None), (3, 2, fifo), (4, 1, fifo), (2, 1, fifo)]);
        assert_eq!(main("voting"), [(3, 2, fifo), (4, 1, fifo)]);
        assert_eq!(main("maekawa-1985"), []);
        assert_eq!(main("raymond"), [(3, 2, None), (4, 1, None), (2, 1, None), (3, 1, None)]);
        assert_eq!(main("bully"), [(3, 1, None), (3, 1, None), (4, 1, None)]);
        let maekawa = gallery().into_iter().find(|it| it.algorithm == "maekawa").expect("it is there");
        assert_eq!(maekawa.time(all), all / 10);
    }
}
