//! The list of algorithms, what each of them assumes and promises, and how to make a group that runs one.
//!
//! To add an algorithm, write one file with its `ABOUT` and its `group`, and one line in `algorithms!` below.
//!
//! - Ids are plain `usize`: clients from 0, then helpers (coordinators, voters). `-n` counts the clients.
//! - A variant is a list of names joined by `+`, some with a value (`k-ary:3`). Quorums, trees and rules all use it.
//! - The assumptions of an algorithm are data. Drivers refuse a weaker network, unless the user says
//!   `--ignore-assumptions`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::append::Append;
use crate::detector::Detector;
use crate::election::{Election, Rule};
use crate::mutex::Mutex;
pub use crate::property::Promises;
use crate::{ProcessId, Property, Ticks, append, broken, detector, election, mutex, views};
use nearest::nearest;

mod carried;
mod nearest;
mod variant;

algorithms! {
    mutex mutex::central;
    mutex mutex::central_elected;
    mutex mutex::lamport;
    mutex mutex::permission_ring;
    mutex mutex::raymond;
    mutex mutex::ricart_agrawala;
    mutex mutex::carvalho_roucairol;
    mutex mutex::maekawa;
    mutex mutex::generalized;
    mutex mutex::suzuki_kasami;
    mutex mutex::singhal;
    mutex mutex::naimi_trehel;
    mutex mutex::token_ring;
    mutex mutex::voting;
    mutex broken::permission_ring_original;
    mutex broken::raymond_greedy;
    mutex broken::raymond_asks_once;
    mutex broken::no_lock;
    mutex broken::ricart_agrawala_time_only;
    mutex broken::ricart_agrawala_current_clock;
    mutex broken::suzuki_kasami_no_outdated_check;
    mutex broken::singhal_1989;
    mutex broken::maekawa_no_inquire;
    mutex broken::maekawa_1985;
    mutex broken::maekawa_yield_unseen;
    mutex broken::generalized_unchecked;
    mutex broken::token_ring_last_word;
    election election::bully;
    election election::chang_roberts;
    election election::ring_list;
    election broken::bully_late_leads;
    election broken::chang_roberts_no_resend;
    detector detector::heartbeat;
    detector detector::phi_accrual;
    append append::record_append;
}

/// The facts about one algorithm, which `baton algorithms` prints.
#[derive(Clone, Debug)]
pub struct About {
    /// Name on the command line.
    pub name: &'static str,
    pub family: Family,
    /// None if the algorithm is not for mutual exclusion.
    pub way: Option<Way>,
    pub summary: &'static str,
    pub assumes: Assumes,
    pub promises: Promises,
    pub variants: &'static [Variant],
    /// Only for an algorithm that is wrong on purpose.
    pub broken: Option<Broken>,
}

/// How an algorithm that is wrong on purpose breaks.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// The promises that some run of it breaks.
    pub breaks: &'static [Property],
    /// The mistake, and the smallest group that shows it.
    pub how: &'static str,
}

impl About {
    /// Whether a process sets a timer in a group for mutual exclusion that is made with `params`.
    pub fn sets_timers(&self, params: &Params) -> bool {
        TIMED.iter().any(|(name, variant)| *name == self.name && variant.is_none_or(|variant| params.has(variant)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Mutual exclusion.
    Mutex,
    /// Leader election.
    Election,
    /// Failure detection.
    Detector,
    /// Appending to a shared file.
    Append,
}

/// How a process for mutual exclusion gets in. Pages group the algorithms by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    AsksEverybody,
    AsksQuorum,
    AsksCoordinator,
    PassesToken,
}

/// A part of the value of `--variant`.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// `name`, or `name:VALUE` if the variant takes a value.
    pub name: &'static str,
    pub summary: &'static str,
}

/// The conditions under which an algorithm keeps its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumes {
    /// Messages from one process to another arrive in the order in which they were sent.
    pub fifo: bool,
    /// No message is lost.
    pub lossless: bool,
    /// No message arrives twice.
    pub no_duplicates: bool,
    /// Every message arrives within a known time D.
    pub synchronous: bool,
    pub crashes: Crashes,
    /// Which crashes and recoveries may overlap.
    pub overlap: Overlap,
}

/// The crashes that an algorithm survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    Never,
    /// Crashes that a failure detector reports, without mistakes. Crashed processes may recover.
    Detected,
    /// Crashes that a failure detector reports, without mistakes. Crashed processes do not recover.
    Final,
    /// Crashes that a failure detector reports, without mistakes, as long as one helper never crashes.
    ButOne,
    /// Crashes that the failure detector of one helper reports to it, without mistakes: the source of [views].
    /// It never crashes. Crashed processes may recover.
    ButSource,
    /// Crashes of coordinators, reported or not. A coordinator may recover with its memory. Clients do not crash.
    Coordinators,
    /// Any crash, reported or not.
    Any,
}

impl Crashes {
    /// Whether the algorithm survives a crash only if a failure detector reports it.
    pub fn must_be_reported(self) -> bool {
        matches!(self, Crashes::Detected | Crashes::Final | Crashes::ButOne | Crashes::ButSource)
    }
}

/// Which crashes and recoveries may overlap. Two of them overlap if the second comes before all live processes know of
/// the first, or before a recovered process is a member again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// All may overlap.
    Any,
    /// Only crashes without recovery. A crash with recovery is over before the next crash.
    Final,
    /// Crashes and recoveries that the detectors report to all processes in the same order.
    SameOrder,
}

impl Assumes {
    /// Reliable links without an order of messages, and no crashes. Most algorithms need this much.
    pub const LOSSLESS: Assumes = Assumes {
        fifo: false,
        lossless: true,
        no_duplicates: true,
        synchronous: false,
        crashes: Crashes::Never,
        overlap: Overlap::Any,
    };
}

/// Size and kind of a group.
#[derive(Clone, Debug)]
pub struct Params {
    /// Number of clients.
    pub n: usize,
    /// Names of [`About::variants`] joined by `+`, such as `yield-at-once+grid`. A variant with a value is written
    /// `name:value`.
    pub variant: Option<String>,
    /// Number of coordinators; only for algorithms that leave it open.
    pub coordinators: Option<usize>,
    /// Number of votes that win; only for algorithms that leave it open.
    pub votes: Option<usize>,
    /// The bound D on message delays, or a guess at it on an asynchronous network.
    pub delay_max: Ticks,
}

impl Params {
    pub fn new(n: usize, delay_max: Ticks) -> Self {
        Params { n, variant: None, coordinators: None, votes: None, delay_max }
    }

    /// Whether `name` is a part of the variant.
    pub fn has(&self, name: &str) -> bool {
        self.variant_parts().any(|(part, _)| part == name)
    }

    /// The value of the part `name:value` of the variant.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variant_parts().find(|(part, _)| *part == name).and_then(|(_, value)| value)
    }

    /// The one of `names` that is a part of the variant, if any. An error if two are, because they exclude each other.
    pub fn one_of(&self, names: &[&'static str]) -> Result<Option<&'static str>, SetupError> {
        let mut asked = names.iter().copied().filter(|name| self.has(name));
        match (asked.next(), asked.next()) {
            (Some(one), Some(other)) => Err(SetupError::Exclusive { one, other }),
            (one, _) => Ok(one),
        }
    }

    /// Refuses groups that would need more than a few GiB: each process keeps a number for each other process, or sends
    /// it a message.
    pub fn at_most_quadratic(&self) -> Result<(), SetupError> {
        let n = self.n.max(self.coordinators.unwrap_or_default());
        let reason = "each process keeps state for every other process or sends it messages";
        if n <= PAIRS_MAX { Ok(()) } else { Err(SetupError::TooMany { n, max: PAIRS_MAX, reason }) }
    }

    fn variant_parts(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.variant.iter().flat_map(|variant| variant.split('+')).map(|part| match part.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        })
    }

    pub fn at_most(&self, max: usize, reason: &'static str) -> Result<(), SetupError> {
        if self.n <= max { Ok(()) } else { Err(SetupError::TooMany { n: self.n, max, reason }) }
    }
}

/// Makes the processes of a group, and says what a driver must know of them.
pub struct Group<P> {
    /// Processes `0..clients` take commands.
    pub clients: usize,
    /// Number of all processes, helpers included.
    pub processes: usize,
    /// Makes process `id`, in its state before [`Input::Start`](crate::Input::Start).
    pub make: Box<dyn Fn(ProcessId) -> P + Send + Sync>,
    /// Quorums or tree of the group, for drivers that draw, count or check them.
    pub topology: Topology,
    /// For elections: which live process must lead.
    pub elects: Rule,
    /// Whether the promises hold through a partition, although a partition loses messages.
    pub partitions: bool,
    /// With [views]: the process that hears of crashes, and never crashes itself. Failure detectors report on it
    /// to the clients, and on the clients to it, and to no others. As leases do, they report a live client to it only after
    /// they have reported it to that client.
    pub source: Option<ProcessId>,
    /// Whether no message is on its way, and no timer runs, soon after all users have what they want.
    pub rests: bool,
    /// Whether a process may recover only with its memory.
    pub keeps_memory: bool,
    /// Processes of which some must be alive in the end, or no request is granted.
    pub survivors: Option<Survivors>,
    /// The time after which a grant ends without a release. A holder that stays inside longer may not be alone there.
    pub lease: Option<Ticks>,
    /// The clock drift, as a fraction, up to which the timing of the group is right. 0 for algorithms that need no
    /// timing.
    pub drift: f64,
}

/// A condition of liveness: at least `least` of the processes `among` are alive in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// The condition in words, for the report of a driver.
    pub assumes: &'static str,
    pub among: Range<ProcessId>,
    pub least: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The voting set of each client.
    pub quorums: Option<Vec<Vec<ProcessId>>>,
    /// The edges of a spanning tree.
    pub tree: Option<Vec<(ProcessId, ProcessId)>>,
    /// The processes in the order of the ring.
    pub ring: Option<Vec<ProcessId>>,
}

impl<P> Group<P> {
    pub fn new(clients: usize, processes: usize, make: impl Fn(ProcessId) -> P + Send + Sync + 'static) -> Self {
        Group {
            clients,
            processes,
            make: Box::new(make),
            topology: Topology::default(),
            lease: None,
            drift: 0.0,
            elects: Rule::default(),
            partitions: false,
            source: None,
            rests: true,
            keeps_memory: false,
            survivors: None,
        }
    }

    pub fn on_ring(mut self, order: impl IntoIterator<Item = ProcessId>) -> Self {
        self.topology.ring = Some(order.into_iter().collect());
        self
    }
}

/// What a driver does with a group. A driver is written once, for all algorithms: [`visit`] calls the method of the
/// algorithm's family.
pub trait Visitor {
    type Output;

    /// The result for a family whose method the driver does not implement.
    fn unsupported(self, about: &'static About) -> Self::Output;

    fn mutex<P: Mutex>(self, about: &'static About, _: Group<P>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    fn election<P: Election>(self, about: &'static About, _: Group<P>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    /// `make(id)` of this group makes a detector that watches process `id`, at any other process.
    fn detector<D: Detector>(self, about: &'static About, _: Group<D>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    fn append<P: Append>(self, about: &'static About, _: Group<P>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }
}

/// Why a group cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error(
        "there is no algorithm `{name}`; {}`baton algorithms` lists them all",
        nearest.map(|nearest| alloc::format!("did you mean {nearest}? ")).unwrap_or_default()
    )]
    UnknownAlgorithm {
        name: String,
        /// The algorithm that the user probably means.
        nearest: Option<&'static str>,
    },
    #[error("`{name}` fits {}; write more of the name", candidates.join(", "))]
    AmbiguousAlgorithm { name: String, candidates: Vec<&'static str> },
    #[error("`{algorithm}` has no variant `{variant}`; it has {}", if known.is_empty() { "none".to_string() } else { known.join(", ") })]
    UnknownVariant { algorithm: &'static str, variant: String, known: Vec<&'static str> },
    #[error("the variant `{form}` needs a value; write for example `{example}`")]
    ValueMissing {
        /// As [`About::variants`] lists it.
        form: &'static str,
        example: &'static str,
    },
    #[error("the variant `{name}` takes no value; write `{name}`")]
    NoValueTaken { name: &'static str },
    #[error("`{one}` and `{other}` exclude each other; ask for one of them")]
    Exclusive { one: &'static str, other: &'static str },
    #[error("`{value}` does not work as {what}: {reason}")]
    Value {
        what: &'static str,
        value: String,
        /// Says what is wrong and what would be right.
        reason: String,
    },
    #[error("a group of {n} is too small; it takes at least 2 processes")]
    TooFew { n: usize },
    /// Only some algorithms have this parameter.
    #[error("`{algorithm}` has no option for {what}; only {} has", users.join(", "))]
    Unused {
        algorithm: &'static str,
        what: &'static str,
        /// The algorithms that have the parameter.
        users: &'static [&'static str],
    },
    #[error("{n} processes are too many; at most {max}, since {reason}")]
    TooMany { n: usize, max: usize, reason: &'static str },
    /// Two clients could win at once, or no client could ever win.
    #[error(
        "coordinators: {coordinators}, votes: {votes} cannot work; the votes must be more than half of the coordinators and at most all"
    )]
    Votes { votes: usize, coordinators: usize },
}

/// Checks the parameters that are common to all algorithms. The algorithm itself may still refuse them.
pub fn check(name: &str, params: &Params) -> Result<(), SetupError> {
    validate(find(name)?, params)
}

/// The facts about an algorithm in the group that `params` ask for: with [views] it survives more and promises less.
pub fn find_for(asked: &str, params: &Params) -> Result<&'static About, SetupError> {
    let about = find(asked)?;
    Ok(if views::are_wanted(params) { with_views(about) } else { about })
}

/// The algorithm with this name, or the only one of which `name` is a part: the beginning of the name, or of a word in
/// it. If a part fits algorithms that are broken on purpose and others, it means the others. Capital letters mean the
/// same as small ones.
pub fn find(asked: &str) -> Result<&'static About, SetupError> {
    let all = || ALGORITHMS.iter().copied();
    let name = &*asked.to_lowercase();
    if let Some(about) = all().find(|about| about.name == name) {
        return Ok(about);
    }
    let is_part = |about: &&About| !name.is_empty() && word_begins(about.name, name);
    let (broken, healthy): (Vec<&About>, Vec<&About>) = all().filter(is_part).partition(|about| about.broken.is_some());
    let candidates = if healthy.is_empty() { broken } else { healthy };
    match candidates.as_slice() {
        [about] => Ok(about),
        [] => Err(SetupError::UnknownAlgorithm {
            name: asked.to_string(),
            nearest: nearest(name, all().map(|about| about.name)),
        }),
        several => Err(SetupError::AmbiguousAlgorithm {
            name: asked.to_string(),
            candidates: several.iter().map(|about| about.name).collect(),
        }),
    }
}

/// Whether `name`, or the rest of it from one of its words on, begins with `part`. Words are joined by `-`.
pub fn word_begins(name: &str, part: &str) -> bool {
    let rests = name.match_indices('-').map(|(dash, _)| &name[dash + 1..]);
    core::iter::once(name).chain(rests).any(|rest| rest.starts_with(part))
}

/// Algorithms with the parameters `coordinators` and `votes`.
const COORDINATED: &[&str] = &[mutex::voting::ABOUT.name];

/// Algorithms for mutual exclusion that set timers, each with the variant that it takes for that, if it takes one. The
/// checker's tests compare this list with what processes do.
const TIMED: &[(&str, Option<&str>)] = &[
    (mutex::central::ABOUT.name, Some("lease")),
    (mutex::raymond::ABOUT.name, Some("greedy")),
    (mutex::voting::ABOUT.name, None),
    (broken::permission_ring_original::ABOUT.name, Some("retry")),
    (broken::raymond_greedy::ABOUT.name, None),
];

/// Most clients, and most coordinators, in a group.
pub const PROCESSES_MAX: usize = 1 << 20;

/// Most processes in a group in which every two exchange messages or keep data for each other: 16 million pairs, of
/// about 80 bytes each on their way.
const PAIRS_MAX: usize = 1 << 12;

/// The largest [`Params::delay_max`]: a million T in virtual time, eleven days in real time. Timers are small multiples
/// of it, at most times the number of processes.
pub const DELAY_MAX: Ticks = 1_000_000_000_000;

fn validate(about: &'static About, params: &Params) -> Result<(), SetupError> {
    if params.n < 2 {
        return Err(SetupError::TooFew { n: params.n });
    }
    if let Some(n) = [Some(params.n), params.coordinators].into_iter().flatten().find(|&n| n > PROCESSES_MAX) {
        return Err(SetupError::TooMany { n, max: PROCESSES_MAX, reason: "memory is limited" });
    }
    for (what, said) in [("coordinators", params.coordinators), ("votes", params.votes)] {
        if said.is_some() && !COORDINATED.contains(&about.name) {
            return Err(SetupError::Unused { algorithm: about.name, what, users: COORDINATED });
        }
    }
    if params.delay_max > DELAY_MAX {
        return Err(SetupError::Value {
            what: "the longest delay, in ticks",
            value: params.delay_max.to_string(),
            reason: alloc::format!("it can be at most {DELAY_MAX}"),
        });
    }
    params.variant_parts().try_for_each(|(name, value)| variant::check(about, name, value))
}

/// Expands the list above into [`ALGORITHMS`] and [`visit`], so that the two cannot disagree.
macro_rules! algorithms {
    ($($family:ident $module:ident::$algorithm:ident;)*) => {
        pub static ALGORITHMS: &[&About] = &[$(&$module::$algorithm::ABOUT),*];

        fn with_views(about: &'static About) -> &'static About {
            match about.name {
                $(name if name == $module::$algorithm::ABOUT.name => {
                    static VIEWED: About = views::about($module::$algorithm::ABOUT);
                    &VIEWED
                })*
                _ => about,
            }
        }

        /// Makes a group that runs the algorithm `name`, and gives it to `visitor`.
        pub fn visit<V: Visitor>(name: &str, params: &Params, visitor: V) -> Result<V::Output, SetupError> {
            let about = find(name)?;
            validate(about, params)?;
            match about.name {
                $(name if name == $module::$algorithm::ABOUT.name => {
                    carried::$family(about, params, visitor, $module::$algorithm::group)
                })*
                _ => unreachable!("`find` knows only what is listed"),
            }
        }
    };
}
use algorithms;

#[cfg(test)]
mod tests {
    use super::*;

    fn params(variant: &str) -> Params {
        Params { variant: Some(variant.to_string()), ..Params::new(3, 1) }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALGORITHMS.iter().map(|about| about.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn variants_are_names_and_values_joined_by_plus() {
        let params = params("grid+k-ary:3");
        assert!(params.has("grid") && params.has("k-ary") && !params.has("star"));
        assert_eq!(params.value("k-ary"), Some("3"));
        assert_eq!(params.one_of(&["star", "grid"]), Ok(Some("grid")));
        assert_eq!(params.one_of(&["k-ary", "grid"]), Err(SetupError::Exclusive { one: "k-ary", other: "grid" }));
    }

    #[test]
    fn a_million_is_for_those_of_whom_not_every_two_have_to_do_with_each_other() {
        struct Any;
        impl Visitor for Any {
            type Output = ();
            fn unsupported(self, _: &'static About) {}
        }
        let fits = |name: &str| visit(name, &Params::new(1_000_000, 1), Any);
        let refused = |about: &&&About| match fits(about.name) {
            Ok(()) => false,
            Err(SetupError::TooMany { n, max, .. }) => n > max,
            Err(other) => panic!("{}: {other}", about.name),
        };
        let unlimited: Vec<_> = ALGORITHMS.iter().filter(|about| !refused(about)).map(|about| about.name).collect();
        let linear = ["central", "raymond", "naimi-trehel", "token-ring"];
        let broken = ["raymond-greedy", "raymond-asks-once", "no-lock", "token-ring-last-word"];
        assert_eq!(unlimited, [&linear[..], &broken, &["record-append"]].concat());
        let coordinated = Params { coordinators: Some(5_000), ..Params::new(3, 1) };
        assert!(matches!(visit("voting", &coordinated, Any), Err(SetupError::TooMany { n: 5_000, max: 4_096, .. })));
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let refusal =
            |name: &str, params: &Params| find(name).and_then(|about| validate(about, params)).unwrap_err().to_string();
        assert_eq!(
            refusal("centrall", &Params::new(3, 1)),
            "there is no algorithm `centrall`; did you mean central? `baton algorithms` lists them all"
        );
        assert_eq!(refusal("central", &Params::new(1, 1)), "a group of 1 is too small; it takes at least 2 processes");
        let coordinated = Params { coordinators: Some(3), ..Params::new(3, 1) };
        assert_eq!(refusal("central", &coordinated), "`central` has no option for coordinators; only voting has");
        assert!(find("voting").and_then(|about| validate(about, &coordinated)).is_ok());
        assert_eq!(refusal("no-lock", &params("x")), "`no-lock` has no variant `x`; it has none");
        assert_eq!(
            refusal("voting", &params("ask-all+x")),
            "`voting` has no variant `x`; it has ask-m, ask-all, stored-fence, back-off:B, views"
        );
        assert_eq!(refusal("voting", &params("ask-all:1")), "the variant `ask-all` takes no value; write `ask-all`");
        for without_value in ["k-ary", "k-ary:"] {
            assert_eq!(
                refusal("raymond", &params(without_value)),
                "the variant `k-ary:K` needs a value; write for example `k-ary:3`"
            );
        }
    }

    #[test]
    fn a_part_of_a_name_finds_the_algorithm_if_it_fits_only_one() {
        let found = |part: &str| find(part).map(|about| about.name);
        for (part, name) in [
            ("ricart", "ricart-agrawala"),
            ("agrawala", "ricart-agrawala"),
            ("token", "token-ring"),
            ("time-only", "ricart-agrawala-time-only"),
            ("central", "central"),
            ("1989", "singhal-1989"),
        ] {
            assert_eq!(found(part), Ok(name));
        }
        assert_eq!(
            found("ring").unwrap_err().to_string(),
            "`ring` fits permission-ring, token-ring, ring-list; write more of the name"
        );
        assert!(matches!(found(""), Err(SetupError::UnknownAlgorithm { .. })));
        assert!(matches!(found("wala"), Err(SetupError::UnknownAlgorithm { .. })), "parts begin at a word");
    }
}
