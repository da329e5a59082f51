//! What algorithms there are, and how to make a group that runs one.
//!
//! Adding an algorithm is one file, with its `ABOUT` and its `group`, and one line in `algorithms!` below.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::append::Append;
use crate::detector::Detector;
use crate::election::{Election, Rule};
use crate::mutex::Mutex;
pub use crate::property::Promises;
use crate::{ProcessId, Ticks, append, broken, detector, election, mutex};

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
    mutex mutex::token_ring;
    mutex mutex::voting;
    mutex broken::permission_ring_original;
    mutex broken::raymond_greedy;
    mutex broken::no_lock;
    mutex broken::ricart_agrawala_time_only;
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

/// One algorithm, as data.
#[derive(Clone, Debug)]
pub struct About {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it is for.
    pub family: Family,
    /// In one line.
    pub summary: &'static str,
    /// What it needs of the network and of the processes.
    pub assumes: Assumes,
    /// What it gives in return.
    pub promises: Promises,
    /// Other ways to run it.
    pub variants: &'static [Variant],
    /// How it breaks, if it does so on purpose.
    pub broken: Option<&'static str>,
}

impl About {
    /// Whether a process sets a timer in a group for mutual exclusion that is made with `params`.
    pub fn sets_timers(&self, params: &Params) -> bool {
        TIMED.iter().any(|(name, variant)| *name == self.name && variant.is_none_or(|variant| params.has(variant)))
    }
}

/// What an algorithm is for.
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

/// Another way to run an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What `--variant` calls it; `name:VALUE` if it takes a value.
    pub name: &'static str,
    /// In one line.
    pub summary: &'static str,
}

/// What an algorithm needs in order to keep its promises.
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
    /// What may happen to processes.
    pub crashes: Crashes,
    /// What may happen to several of them at once.
    pub overlap: Overlap,
}

/// Which crashes an algorithm can live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    /// None.
    Never,
    /// Those that a failure detector reports, without mistakes.
    Detected,
    /// The same, of processes that stay dead.
    Final,
    /// Those that a failure detector reports, without mistakes, as long as one helper never crashes.
    ButOne,
    /// Those of coordinators, reported or not, that recover with memory if at all.
    Coordinators,
    /// Any, reported or not.
    Any,
}

/// Which crashes and recoveries may overlap: the next comes before all know of the last, or before who has recovered is
/// one of the group again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Any.
    Any,
    /// Crashes that are final. A crash and the recovery from it are over before the next crash.
    Final,
    /// Those of which all are told in the same order.
    SameOrder,
}

impl Assumes {
    /// Reliable links in any order and no crashes: what most algorithms need.
    pub const LOSSLESS: Assumes = Assumes {
        fifo: false,
        lossless: true,
        no_duplicates: true,
        synchronous: false,
        crashes: Crashes::Never,
        overlap: Overlap::Any,
    };
}

/// How large a group to make, and of what kind.
#[derive(Clone, Debug)]
pub struct Params {
    /// How many processes may ask.
    pub n: usize,
    /// How to run it, if not in the default way: names of [`About::variants`] joined by `+`, such as
    /// `yield-at-once+grid`; one that takes a value is written `name:value`.
    pub variant: Option<String>,
    /// How many coordinators, where the algorithm lets one say.
    pub coordinators: Option<usize>,
    /// How many of their votes win.
    pub votes: Option<usize>,
    /// The bound D on a message's delay, or the best guess.
    pub delay_max: Ticks,
}

impl Params {
    /// The defaults for n processes.
    pub fn new(n: usize, delay_max: Ticks) -> Self {
        Params { n, variant: None, coordinators: None, votes: None, delay_max }
    }

    /// Whether the variant asks for `name`.
    pub fn has(&self, name: &str) -> bool {
        self.variant_parts().any(|(part, _)| part == name)
    }

    /// The value that the variant gives to `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variant_parts().find(|(part, _)| *part == name).and_then(|(_, value)| value)
    }

    /// The one of `names` that the variant asks for, if any; refuses two, since they exclude each other.
    pub fn one_of(&self, names: &[&'static str]) -> Result<Option<&'static str>, SetupError> {
        let mut asked = names.iter().copied().filter(|name| self.has(name));
        match (asked.next(), asked.next()) {
            (Some(one), Some(other)) => Err(SetupError::Exclusive { one, other }),
            (one, _) => Ok(one),
        }
    }

    /// Refuses so many processes, coordinators included, that a number for each of them at each of them, or a message from
    /// each to each, would take more than a few GiB.
    pub fn at_most_quadratic(&self) -> Result<(), SetupError> {
        let n = self.n.max(self.coordinators.unwrap_or_default());
        let reason = "each of them keeps something for every other, or sends it something";
        if n <= PAIRS_MAX { Ok(()) } else { Err(SetupError::TooMany { n, max: PAIRS_MAX, reason }) }
    }

    fn variant_parts(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.variant.iter().flat_map(|variant| variant.split('+')).map(|part| match part.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        })
    }

    /// Refuses more than `max` processes.
    pub fn at_most(&self, max: usize, reason: &'static str) -> Result<(), SetupError> {
        if self.n <= max { Ok(()) } else { Err(SetupError::TooMany { n: self.n, max, reason }) }
    }
}

/// How to make the processes of a group.
pub struct Group<P> {
    /// Processes `0..clients` may be given commands.
    pub clients: usize,
    /// All processes, helpers included.
    pub processes: usize,
    /// Makes process `id`, as it is before its start.
    pub make: Box<dyn Fn(ProcessId) -> P + Send + Sync>,
    /// How the processes are arranged, for those who draw, count or check it.
    pub topology: Topology,
    /// Of elections: which of the living is to lead.
    pub elects: Rule,
    /// Whether its promises outlive a partition, although messages are lost in one.
    pub partitions: bool,
    /// Whether who recovers must have kept its memory, although the algorithm lets it recover.
    pub keeps_memory: bool,
    /// Who must live in the end, or nobody is served; nobody in particular if none.
    pub survivors: Option<Survivors>,
    /// After how long a grant ends by itself, if it does. Who stays inside for longer may have company.
    pub lease: Option<Ticks>,
    /// By which part clocks may run fast or slow, if its timing is to be right; most have no need of right timing.
    pub drift: f64,
}

/// Processes of which so many must live in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// That they do, in words.
    pub assumes: &'static str,
    /// Of these.
    pub among: Range<ProcessId>,
    /// How many.
    pub least: usize,
}

/// An arrangement of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Whose votes each client needs, by client.
    pub quorums: Option<Vec<Vec<ProcessId>>>,
    /// The edges of a spanning tree.
    pub tree: Option<Vec<(ProcessId, ProcessId)>>,
}

impl<P> Group<P> {
    /// A group with no particular arrangement.
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
            keeps_memory: false,
            survivors: None,
        }
    }
}

/// Something to do with a group, whatever its algorithm; a driver is written once, for all of them.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// What comes of a family for which nothing else is said.
    fn unsupported(self, about: &'static About) -> Self::Output;

    /// Does it with a group for mutual exclusion.
    fn mutex<P: Mutex>(self, about: &'static About, _: Group<P>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    /// Does it with a group for leader election.
    fn election<P: Election>(self, about: &'static About, _: Group<P>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    /// Does it with a group that watches each other: `make` gives what watches a process, at any of the others.
    fn detector<D: Detector>(self, about: &'static About, _: Group<D>) -> Self::Output
    where
        Self: Sized,
    {
        self.unsupported(about)
    }

    /// Does it with a group for record append.
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
    /// No algorithm has this name.
    #[error("there is no algorithm `{name}`; there are {}", known.join(", "))]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The algorithm has no such variant.
    #[error("`{algorithm}` has no variant `{variant}`; it has {}", if known.is_empty() { "none".to_string() } else { known.join(", ") })]
    UnknownVariant {
        /// Of which algorithm.
        algorithm: &'static str,
        /// What was asked for.
        variant: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// Two variants that exclude each other.
    #[error("`{one}` and `{other}` exclude each other; ask for one of them")]
    Exclusive {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A value that makes no sense.
    #[error("`{value}` does not work as {what}: {reason}")]
    Value {
        /// Of what.
        what: &'static str,
        /// The value.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A group of none or one needs no algorithm.
    #[error("a group of {n} is too small; it takes at least 2 processes")]
    TooFew {
        /// How many were asked for.
        n: usize,
    },
    /// Only some algorithms let one say this.
    #[error("`{algorithm}` does not let one choose its {what}; only {} does", users.join(", "))]
    Unused {
        /// Which algorithm.
        algorithm: &'static str,
        /// What was said.
        what: &'static str,
        /// Who would use it.
        users: &'static [&'static str],
    },
    /// The algorithm cannot serve so many.
    #[error("{n} processes are too many; at most {max}, since {reason}")]
    TooMany {
        /// How many were asked for.
        n: usize,
        /// How many there may be.
        max: usize,
        /// Why.
        reason: &'static str,
    },
    /// Two minorities could win at once, or nobody ever.
    #[error(
        "coordinators: {coordinators}, votes: {votes} cannot work; the votes must be more than half of the coordinators and at most all"
    )]
    Votes {
        /// How many should win.
        votes: usize,
        /// Of how many.
        coordinators: usize,
    },
}

/// Whether a group can be asked for at all; the algorithm itself may still refuse it.
pub fn check(name: &str, params: &Params) -> Result<(), SetupError> {
    validate(find(name)?, params)
}

/// The algorithm of this name.
pub fn find(name: &str) -> Result<&'static About, SetupError> {
    ALGORITHMS.iter().copied().find(|about| about.name == name).ok_or_else(|| SetupError::UnknownAlgorithm {
        name: name.to_string(),
        known: ALGORITHMS.iter().map(|about| about.name).collect(),
    })
}

/// Those that let one say how many coordinators there are, and how many of their votes win.
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

/// The most processes of a kind in a group.
pub const PROCESSES_MAX: usize = 1 << 20;

/// The most processes of which every two have to do with each other: 16 million pairs, of some 80 bytes each in flight.
const PAIRS_MAX: usize = 1 << 12;

/// The longest delay that processes may believe in: a million T in virtual time, eleven days in real time. Timers are
/// small multiples of it, times the number of processes at most.
pub const DELAY_MAX: Ticks = 1_000_000_000_000;

fn validate(about: &'static About, params: &Params) -> Result<(), SetupError> {
    if params.n < 2 {
        return Err(SetupError::TooFew { n: params.n });
    }
    if let Some(n) = [Some(params.n), params.coordinators].into_iter().flatten().find(|&n| n > PROCESSES_MAX) {
        return Err(SetupError::TooMany { n, max: PROCESSES_MAX, reason: "memory is not endless" });
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
    let known = || about.variants.iter().map(|variant| variant.name);
    // A variant that is listed as `name:VALUE` must come with a value, any other without one.
    let listed = |(name, value): (&str, Option<&str>)| {
        known().any(|known| match known.split_once(':') {
            Some((known, _)) => known == name && value.is_some_and(|value| !value.is_empty()),
            None => known == name && value.is_none(),
        })
    };
    let unknown = params.variant_parts().find(|&part| !listed(part));
    unknown.map_or(Ok(()), |(name, _)| {
        Err(SetupError::UnknownVariant { algorithm: about.name, variant: name.to_string(), known: known().collect() })
    })
}

/// Expands the list above into [`ALGORITHMS`] and [`visit`], so that the two cannot disagree.
macro_rules! algorithms {
    ($($family:ident $module:ident::$algorithm:ident;)*) => {
        /// Every algorithm there is.
        pub static ALGORITHMS: &[&About] = &[$(&$module::$algorithm::ABOUT),*];

        /// Makes a group that runs the algorithm `name`, and lets `visitor` have it.
        pub fn visit<V: Visitor>(name: &str, params: &Params, visitor: V) -> Result<V::Output, SetupError> {
            let about = find(name)?;
            validate(about, params)?;
            match about.name {
                $(name if name == $module::$algorithm::ABOUT.name => {
                    Ok(visitor.$family(about, $module::$algorithm::group(params)?))
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
        let linear = ["central", "raymond", "token-ring", "raymond-greedy", "no-lock", "token-ring-last-word"];
        assert_eq!(unlimited, [&linear[..], &["record-append"]].concat());
        let coordinated = Params { coordinators: Some(5_000), ..Params::new(3, 1) };
        assert!(matches!(visit("voting", &coordinated, Any), Err(SetupError::TooMany { n: 5_000, max: 4_096, .. })));
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let refusal =
            |name: &str, params: &Params| find(name).and_then(|about| validate(about, params)).unwrap_err().to_string();
        assert!(
            refusal("centrall", &Params::new(3, 1)).starts_with("there is no algorithm `centrall`; there are central,")
        );
        assert_eq!(refusal("central", &Params::new(1, 1)), "a group of 1 is too small; it takes at least 2 processes");
        let coordinated = Params { coordinators: Some(3), ..Params::new(3, 1) };
        assert_eq!(
            refusal("central", &coordinated),
            "`central` does not let one choose its coordinators; only voting does"
        );
        assert!(find("voting").and_then(|about| validate(about, &coordinated)).is_ok());
        assert_eq!(refusal("suzuki-kasami", &params("x")), "`suzuki-kasami` has no variant `x`; it has none");
        assert_eq!(
            refusal("voting", &params("ask-all+x")),
            "`voting` has no variant `x`; it has ask-m, ask-all, stored-fence, back-off:B"
        );
        assert_eq!(
            refusal("voting", &params("ask-all:1")),
            "`voting` has no variant `ask-all`; it has ask-m, ask-all, stored-fence, back-off:B"
        );
    }
}
