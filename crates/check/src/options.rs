//! The options of a check, and the reasons to refuse them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::detector::Detector;
use baton_protocol::registry::{About, Crashes, Family, Group, Overlap, Params, SetupError};
use baton_protocol::{Property, Ticks};
use baton_trace::Action;

use crate::explore::Progress;
use crate::faults::{Faults, Recovery, Tally};
use crate::liveness::WAITERS_MAX;
use crate::network::{LinkOrder, PROCESSES_MAX};

/// The options of a check, and its limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of requests of each client.
    pub entries: u32,
    /// The order of messages. None: the weakest order that the algorithm's assumptions allow.
    pub order: Option<LinkOrder>,
    /// The properties to check. None: all properties that the algorithm promises.
    pub properties: Option<Vec<Property>>,
    /// The budget of application messages, in the whole group. None: one if ORDER is checked, otherwise none.
    pub app_messages: Option<u8>,
    /// How many timers may fire at each process, for algorithms that retry for ever. Elections have no such limit.
    pub timers: u32,
    /// Elections and heartbeats: the longest delay of a message, in ticks. None: the D that the processes believe in.
    pub delay: Option<Ticks>,
    /// Elections: the time in ticks after which all must agree. None: 40 D, or more in large groups.
    pub settled_after: Option<Ticks>,
    pub faults: Faults,
    /// The limit of states.
    pub limit: usize,
    /// The limit of memory, in bytes. None: most of the free memory.
    pub memory: Option<usize>,
    /// The limit of time. None: no limit.
    pub time: Option<Duration>,
    /// Number of threads. None: one for each core.
    pub threads: Option<usize>,
    /// Whether to check on networks and with faults that break an assumption of the algorithm.
    pub ignore_assumptions: bool,
    /// Actions before the exploration begins. The steps of a counterexample are counted from there. The requests and faults
    /// among these actions count against the limits above.
    pub after: Vec<Action>,
    /// Receives the progress of the check.
    pub watch: Option<Watch>,
}

/// Receives the progress of a check.
#[derive(Clone)]
pub struct Watch(pub Arc<dyn Fn(&Progress) + Send + Sync>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entries: 1,
            order: None,
            properties: None,
            app_messages: None,
            timers: 2,
            delay: None,
            settled_after: None,
            faults: Faults::NONE,
            limit: 20_000_000,
            memory: None,
            time: None,
            threads: None,
            ignore_assumptions: false,
            after: Vec::new(),
            watch: None,
        }
    }
}

impl From<LinkOrder> for baton_trace::Order {
    fn from(order: LinkOrder) -> Self {
        match order {
            LinkOrder::Fifo => baton_trace::Order::Fifo,
            LinkOrder::Unordered => baton_trace::Order::Unordered,
        }
    }
}

impl fmt::Display for LinkOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkOrder::Fifo => "fifo",
            LinkOrder::Unordered => "unordered",
        })
    }
}

impl FromStr for LinkOrder {
    type Err = CheckError;

    fn from_str(name: &str) -> Result<Self, CheckError> {
        let found = [LinkOrder::Fifo, LinkOrder::Unordered].into_iter().find(|order| order.to_string() == name);
        found.ok_or_else(|| CheckError::UnknownOrder(name.into()))
    }
}

/// Why something cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// There is no such group.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No order has this name.
    #[error("there is no order `{0}`; there are fifo and unordered")]
    UnknownOrder(String),
    /// The property means nothing there.
    #[error("`{property}` cannot be asked of `{algorithm}`, {}", family_has(*family))]
    OtherFamily {
        /// What was asked.
        property: Property,
        /// Of which algorithm.
        algorithm: &'static str,
        /// What it is for.
        family: Family,
    },
    /// Not a protocol of a kind that has a model.
    #[error("`{algorithm}` cannot be checked; only mutual exclusion, elections and heartbeats can")]
    Uncheckable {
        /// Which algorithm.
        algorithm: &'static str,
    },
    /// A detector that remembers more than moments.
    #[error(
        "`{algorithm}` cannot be checked: its statistics in floating point have infinitely many states; \
         use the simulator"
    )]
    Statistics {
        /// Which one.
        algorithm: &'static str,
    },
    /// A mistake of the detector that is to be checked.
    #[error("--suspect means nothing for `{algorithm}`: the check itself looks for wrong suspicions; leave it out")]
    OwnMistakes {
        /// Which one.
        algorithm: &'static str,
    },
    /// Time is discrete.
    #[error("a timeout of less than one delay cannot be checked: ticks are too coarse for it; use the simulator")]
    ShortTimeout,
    /// Clocks are perfect.
    #[error("the variant drift means nothing to the checker, where all clocks have the same rate; leave it out")]
    Drift,
    /// Nothing was asked.
    #[error("there is nothing to check; ask for at least one property")]
    NoProperty,
    /// An empty model proves nothing.
    #[error("0 entries prove nothing; each process must request at least once")]
    NoEntries,
    /// No state may be seen.
    #[error("a limit of 0 states proves nothing; allow at least 1")]
    NoStates,
    /// Too many processes.
    #[error("{processes} processes, helpers included, are too many; the checker takes at most {PROCESSES_MAX}")]
    TooManyProcesses {
        /// How many there would be.
        processes: usize,
    },
    /// Too many processes for starvation.
    #[error("starvation cannot be checked for {clients} processes; the checker takes at most {WAITERS_MAX}")]
    TooManyToStarve {
        /// How many there would be.
        clients: usize,
    },
    /// Too many processes for crashes.
    #[error(
        "{processes} processes, helpers included, are too many with crashes; the checker takes at most {}",
        Tally::PROCESSES_MAX
    )]
    TooManyToCrash {
        /// How many there would be.
        processes: usize,
    },
    /// Only who has crashed can come back.
    #[error("{recoveries} recoveries are too many for {crashes} crashes; each crash has at most one recovery")]
    TooManyRecoveries {
        /// How many there would be.
        recoveries: u8,
        /// After how many crashes.
        crashes: u8,
    },
    /// Nobody errs.
    #[error("--detectors-only means nothing without wrong suspicions; allow at least one with --suspect")]
    NobodyErrs,
    /// Too many crashes.
    #[error("{crashes} crashes are too many; the checker takes at most {}", Faults::CRASHES_MAX)]
    TooManyCrashes {
        /// How many there would be.
        crashes: u8,
    },
    /// Out of the range of discrete time.
    #[error("a message delay of {delay} ticks cannot be checked; it must be 1 to {DELAY_MAX}")]
    Delay {
        /// What was asked for.
        delay: Ticks,
    },
    /// The list of what happens first asks for something impossible.
    #[error("action {number} of the list, `{action}`: {why}")]
    After {
        /// Which one, from 1.
        number: usize,
        /// What it is.
        action: String,
        /// Why it is impossible.
        why: String,
    },
    /// What is looked for is not a matter of one way.
    #[error("`{property}` of `{algorithm}` cannot be checked after a list of actions, only from the start")]
    FromTheStart {
        /// What was asked.
        property: Property,
        /// Of which algorithm.
        algorithm: &'static str,
    },
    /// The algorithm cannot be expected to work there.
    #[error("`{algorithm}` assumes {assumed}, and {given}; --ignore-assumptions checks it all the same")]
    WeakerNetwork {
        /// Which algorithm.
        algorithm: &'static str,
        /// What it needs.
        assumed: &'static str,
        /// What it would get.
        given: String,
    },
}

/// The longest delay of a message in discrete time.
pub const DELAY_MAX: Ticks = 100;

fn family_has(family: Family) -> &'static str {
    match family {
        Family::Mutex => "which is for mutual exclusion; ask for safety, deadlock, liveness, order or fence",
        Family::Election => "which elects a leader; ask for safety or liveness",
        Family::Detector => "which is a failure detector; ask for safety or liveness",
        Family::Append => "which appends records; the simulator judges those",
    }
}

/// All that can be asked of an algorithm of this family.
fn askable(family: Family) -> &'static [Property] {
    match family {
        Family::Mutex => &Property::ALL,
        Family::Election | Family::Detector => &[Property::Safety, Property::Liveness],
        Family::Append => &[],
    }
}

/// What is to be checked: what was asked, or all that is promised and not `left_out`.
pub fn properties(
    about: &'static About,
    asked: Option<&[Property]>,
    left_out: impl Fn(Property) -> bool,
) -> Result<Vec<Property>, CheckError> {
    let known = askable(about.family);
    if let Some(&property) = asked.and_then(|asked| asked.iter().find(|property| !known.contains(property))) {
        return Err(CheckError::OtherFamily { property, algorithm: about.name, family: about.family });
    }
    let is_wanted = |property: Property| match asked {
        Some(asked) => asked.contains(&property),
        None => about.promises.include(property) && !left_out(property),
    };
    let properties: Vec<Property> = known.iter().copied().filter(|property| is_wanted(*property)).collect();
    if properties.is_empty() { Err(CheckError::NoProperty) } else { Ok(properties) }
}

/// The requested order, if the algorithm's assumptions allow it. By default the weakest order that they allow.
pub fn order(about: &'static About, options: &Options) -> Result<LinkOrder, CheckError> {
    match options.order {
        Some(LinkOrder::Unordered) if about.assumes.fifo && !options.ignore_assumptions => {
            Err(weaker(about, "links that keep the order of messages", "these do not"))
        }
        Some(order) => Ok(order),
        None if about.assumes.fifo => Ok(LinkOrder::Fifo),
        None => Ok(LinkOrder::Unordered),
    }
}

/// The requested faults, if the algorithm tolerates them and the checker can count them.
pub fn faults(about: &'static About, options: &Options, processes: usize) -> Result<Faults, CheckError> {
    let (faults, assumes) = (options.faults, about.assumes);
    if faults.crash > Faults::CRASHES_MAX {
        return Err(CheckError::TooManyCrashes { crashes: faults.crash });
    }
    if faults.crash + faults.suspect.min(1) > 0 && processes > Tally::PROCESSES_MAX {
        return Err(CheckError::TooManyToCrash { processes });
    }
    if let Some(recoveries) = faults.recover.filter(|&recoveries| recoveries > faults.crash) {
        return Err(CheckError::TooManyRecoveries { recoveries, crashes: faults.crash });
    }
    if faults.detectors_only && faults.suspect == 0 {
        return Err(CheckError::NobodyErrs);
    }
    let comes_back = !Recovery::of(assumes.crashes, false, false).memory.is_empty();
    let too_much = [
        (faults.loss > 0 && assumes.lossless, "that no message is lost", "here one may be"),
        (faults.duplicate > 0 && assumes.no_duplicates, "that no message arrives twice", "here one may"),
        (faults.crash > 0 && assumes.crashes == Crashes::Never, "that no process crashes", "here processes may"),
        (
            faults.recover > Some(0) && !comes_back,
            "that a crashed process never recovers",
            "here processes may recover",
        ),
        (
            // The deadlines of an election are suspicions themselves, and what mistakes do is what one wants to know.
            faults.suspect > 0 && assumes.crashes != Crashes::Any && about.family != Family::Election,
            "that no live process is suspected",
            "here live processes may be",
        ),
        (
            faults.crash > 1 && faults.recover != Some(0) && assumes.overlap == Overlap::Final,
            "that a crash and the recovery from it are over before the next crash",
            "here they may overlap (with --recover 0 no process recovers)",
        ),
        (
            faults.crash > 1 && assumes.overlap == Overlap::SameOrder,
            "that all processes learn of crashes and recoveries in the same order",
            "here the orders may differ",
        ),
    ];
    match too_much.into_iter().find(|(beyond, ..)| *beyond && !options.ignore_assumptions) {
        Some((_, assumed, given)) => Err(weaker(about, assumed, given)),
        None => Ok(faults),
    }
}

/// With leases a holder is alone only until its lease ends, and most models have no time. So the user must ignore
/// assumptions to check safety or fences.
pub fn leases(about: &'static About, options: &Options, leases: bool) -> Result<(), CheckError> {
    let of_leases = |property: &Property| matches!(property, Property::Safety | Property::Fence);
    match options.properties.iter().flatten().any(of_leases) && leases && !options.ignore_assumptions {
        true => {
            Err(weaker(about, "with leases that a holder stops before its lease ends", "here steps have no duration"))
        }
        false => Ok(()),
    }
}

/// Refuses detectors that have no finite model, and what would mean nothing in it.
pub fn clocked<D: Detector>(
    about: &'static About,
    params: &Params,
    group: &Group<D>,
    faults: Faults,
) -> Result<(), CheckError> {
    let algorithm = about.name;
    if params.value("timeout").and_then(|timeout| timeout.parse::<f64>().ok()).is_some_and(|timeout| timeout < 1.0) {
        return Err(CheckError::ShortTimeout);
    }
    if !(group.make)(0).recede(0) {
        return Err(CheckError::Statistics { algorithm });
    }
    if faults.suspect > 0 {
        return Err(CheckError::OwnMistakes { algorithm });
    }
    if group.drift > 0.0 { Err(CheckError::Drift) } else { Ok(()) }
}

fn weaker(about: &'static About, assumed: &'static str, given: &str) -> CheckError {
    CheckError::WeakerNetwork { algorithm: about.name, assumed, given: given.into() }
}
