//! The options of a check, and the reasons to refuse them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    /// Number of timers that may fire at each process, for algorithms that retry for ever. Elections have no such
    /// limit.
    pub timers: u32,
    /// Elections and heartbeats: the longest delay of a message, in ticks. None: the D that the processes believe in.
    pub delay: Option<Ticks>,
    /// Elections: the time in ticks after which all processes must agree. None: 40 D, or more in large groups.
    pub settled_after: Option<Ticks>,
    /// Elections: the time in ticks after a crash, a recovery or a mistake in which the failure detectors of all processes
    /// report it, each at a time of its own. None: 10 D.
    pub detector_spread: Option<Ticks>,
    pub faults: Faults,
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
    pub watch: Option<Watch>,
    /// Another thread sets it to stop the check, which then ends without a verdict.
    pub stop: Option<Arc<AtomicBool>>,
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
            detector_spread: None,
            faults: Faults::NONE,
            limit: 20_000_000,
            memory: None,
            time: None,
            threads: None,
            ignore_assumptions: false,
            after: Vec::new(),
            watch: None,
            stop: None,
        }
    }
}

impl From<LinkOrder> for baton_trace::TracedOrder {
    fn from(order: LinkOrder) -> Self {
        match order {
            LinkOrder::Fifo => baton_trace::TracedOrder::Fifo,
            LinkOrder::Unordered => baton_trace::TracedOrder::Unordered,
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

/// Why a check is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The property has no meaning for the algorithm's family.
    #[error("`{property}` cannot be asked of `{algorithm}`, {}", family_has(*family))]
    OtherFamily { property: Property, algorithm: &'static str, family: Family },
    /// The algorithm's family has no model.
    #[error("`{algorithm}` cannot be checked; only mutual exclusion, elections and heartbeats can")]
    Uncheckable { algorithm: &'static str },
    /// The detector stores more than times, so its states are infinitely many.
    #[error(
        "`{algorithm}` cannot be checked: its statistics in floating point have infinitely many states; \
         use the simulator"
    )]
    Statistics { algorithm: &'static str },
    /// The detector itself is checked, so its mistakes cannot be faults of the model.
    #[error("--suspect means nothing for `{algorithm}`: the check itself looks for wrong suspicions; leave it out")]
    OwnMistakes { algorithm: &'static str },
    /// Time is discrete, and a tick is the shortest delay.
    #[error("a timeout of less than one delay cannot be checked: ticks are too coarse for it; use the simulator")]
    ShortTimeout,
    /// All clocks of the model are perfect.
    #[error("the variant drift means nothing to the checker, where all clocks have the same rate; leave it out")]
    Drift,
    #[error("there is nothing to check; ask for at least one property")]
    NoProperty,
    /// A model without requests proves nothing.
    #[error("the number of entries cannot be 0; ask for at least 1")]
    NoEntries,
    /// The search could not look at any state.
    #[error("a limit of 0 states proves nothing; allow at least 1")]
    NoStates,
    #[error("{processes} processes, helpers included, are too many; the checker takes at most {PROCESSES_MAX}")]
    TooManyProcesses { processes: usize },
    #[error("starvation cannot be checked for {clients} processes; the checker takes at most {WAITERS_MAX}")]
    TooManyToStarve { clients: usize },
    #[error(
        "{processes} processes, helpers included, are too many with crashes; the checker takes at most {}",
        Tally::PROCESSES_MAX
    )]
    TooManyToCrash { processes: usize },
    /// A process recovers only after a crash.
    #[error("{recoveries} recoveries are too many for {crashes} crashes; each crash has at most one recovery")]
    TooManyRecoveries { recoveries: u8, crashes: u8 },
    /// The user limits mistakes to detectors, but allows no mistakes.
    #[error("--detectors-only means nothing without wrong suspicions; allow at least one with --suspect")]
    NobodyErrs,
    #[error("{crashes} crashes are too many; the checker takes at most {}", Faults::CRASHES_MAX)]
    TooManyCrashes { crashes: u8 },
    /// The delay is out of the range of discrete time.
    #[error("{option} cannot be {delay}; it must be from 1 to {DELAY_MAX} ticks")]
    Delay { option: &'static str, delay: Ticks },
    #[error("--detector-spread cannot be {spread}; it must be from 0 to {DELAY_MAX} ticks")]
    Spread { spread: Ticks },
    /// An action of the list before the exploration is impossible.
    #[error("action {number} of the list, `{action}`: {why}")]
    After {
        /// The position in the list, from 1.
        number: usize,
        action: String,
        why: String,
    },
    /// The property cannot be checked after a list of actions.
    #[error("`{property}` of `{algorithm}` cannot be checked after a list of actions, only from the start")]
    FromTheStart { property: Property, algorithm: &'static str },
    /// The network or the faults break an assumption of the algorithm.
    #[error("`{algorithm}` assumes {assumed}, and {given}; --ignore-assumptions checks it all the same")]
    WeakerNetwork {
        algorithm: &'static str,
        /// The assumption.
        assumed: &'static str,
        /// What the model has instead.
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
        Family::Append => "which appends records; use the simulator",
    }
}

/// All properties that have a meaning for this family.
fn askable(family: Family) -> &'static [Property] {
    match family {
        Family::Mutex => &Property::ALL,
        Family::Election | Family::Detector => &[Property::Safety, Property::Liveness],
        Family::Append => &[],
    }
}

/// The properties to check: the requested ones, or all promised ones except `left_out`.
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
            // Early deadlines in elections are wrong suspicions by design. What such mistakes do is of interest, so
            // elections are excepted.
            faults.suspect > 0
                && !matches!(assumes.crashes, Crashes::Any | Crashes::ButSource)
                && about.family != Family::Election,
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

/// Refuses detectors without a finite model, and options without a meaning in it.
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
