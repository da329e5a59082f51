//! A run as users write it, on the command line or in a scenario. Everything except the algorithm has a default.

use baton_protocol::registry::{self, About, Family};
use serde::Deserialize;

use crate::app::mutex::{Load, StoreKind};
use crate::assumptions;
use crate::network::Delay;
use crate::run::{Options, RunError, events_max};
use crate::time::{in_t, ticks};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// The name in the registry, or a part of it that fits no other algorithm.
    pub algorithm: String,
    /// Number of processes that may request; default 5.
    pub n: Option<usize>,
    /// The variant of the algorithm.
    pub variant: Option<String>,
    pub coordinators: Option<usize>,
    /// Number of votes that win.
    pub votes: Option<usize>,
    /// When which process requests; default `all`.
    pub load: Option<Load>,
    /// Elections: the one process that notices that there is no leader. Default: as the load says.
    pub noticed_by: Option<usize>,
    /// Number of requests in all; default 20 for each client.
    pub entries: Option<u64>,
    /// How long a process stays in the critical section, in T; default 1.
    pub hold: Option<f64>,
    /// How long a process waits before it requests again, in T; default 0, or 10 n for the random load.
    pub think: Option<f64>,
    /// The delays, unless `delay` is given; default `sync`.
    #[serde(default)]
    pub network: NetworkKind,
    /// The distribution of message delays, as in `uniform:1,2`.
    pub delay: Option<String>,
    /// The longest delay that the processes believe in, in T. Default: the bound of the delays, or a guess if they have
    /// none.
    pub delay_max: Option<f64>,
    /// Whether messages keep their order. Default: only if the algorithm needs it.
    pub order: Option<LinkOrder>,
    /// Probability that a message is lost.
    #[serde(default)]
    pub loss: f64,
    /// Probability that a message arrives twice.
    #[serde(default)]
    pub duplicate: f64,
    /// The largest error of a process's clock, as a part of its speed. The seed draws the error of each clock.
    #[serde(default)]
    pub drift: f64,
    /// Faults, as in `crash 1 @ 5`; `random` draws faults from the seed.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Whether a process that requests also sends an application message to another process, which then requests too.
    #[serde(default)]
    pub app_messages: bool,
    /// The store that holders write to; default none.
    pub store: Option<StoreKind>,
    /// The seed of all random numbers; default 1.
    pub seed: Option<u64>,
    /// Whether to run on networks and with faults that break an assumption of the algorithm.
    #[serde(default)]
    pub ignore_assumptions: bool,
    /// Whether no failure detector reports crashes and cuts to the processes.
    #[serde(default)]
    pub no_detector: bool,
    /// The time in which the failure detectors of all processes report an event, in T; default 0, so all report at once.
    #[serde(default)]
    pub detector_spread: f64,
    /// How long a request may wait after the last fault, in T; default very long.
    pub patience: Option<f64>,
    /// The run stops after this many events.
    pub events_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// Every message takes 1 T.
    #[default]
    Sync,
    /// Delays are heavy-tailed, with a mean of 1 T.
    Async,
}

/// Whether messages from one process to another keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkOrder {
    Fifo,
    Unordered,
}

impl Spec {
    /// The options of the run, with all defaults filled in.
    pub fn options(&self) -> Result<Options, RunError> {
        let about = registry::find(&self.algorithm)?;
        self.refuse_what_means_nothing(about)?;
        let n = self.n.unwrap_or(5);
        let mut options = Options::new(about.name, n);
        options.network.delay = match (&self.delay, self.network) {
            (Some(delay), _) => delay.parse().map_err(RunError::Spec)?,
            (None, NetworkKind::Sync) => Delay::Constant(1.0),
            (None, NetworkKind::Async) => Delay::Pareto(1.0, 1.5),
        };
        options.network.fifo = self.order.map_or(options.network.fifo, |order| order == LinkOrder::Fifo);
        options.network.loss = self.loss;
        options.network.duplicate = self.duplicate;
        options.drift = self.drift;
        if let Some(value) = self.delay_max.filter(|delay| !(1e-6..=1e6).contains(delay)) {
            let right = "it must be from 0.000001 to 1,000,000 T";
            return Err(RunError::OutOfRange { what: "--delay-max", value, right });
        }
        let guess = options.network.delay.guess();
        if self.delay_max.is_none() && guess > registry::DELAY_MAX {
            let (delay, guess) = (options.network.delay, in_t(guess));
            let wrong = format!(
                "with the delay `{delay}` processes would assume delays of up to {guess} T; the limit is 1000000 T"
            );
            return Err(RunError::Spec(format!("{wrong}; give a shorter mean, or set delay-max")));
        }
        options.params.delay_max = self.delay_max.map_or(guess, ticks).max(1);
        options.params.variant = self.variant.clone();
        options.params.coordinators = self.coordinators;
        options.params.votes = self.votes;
        let workload = &mut options.workload;
        workload.load = self.load.unwrap_or(Load::All);
        workload.entries = self.entries.unwrap_or(workload.entries);
        workload.hold = self.hold.unwrap_or(workload.hold);
        let think = if workload.load == Load::Random { 10.0 * n as f64 } else { 0.0 };
        workload.think = self.think.unwrap_or(think);
        workload.app_messages = self.app_messages;
        workload.store = self.store;
        options.noticed_by = self.noticed_by;
        let random = self.faults.iter().filter(|fault| *fault == "random").count();
        if random > 1 {
            let why = "once is enough, because the seed decides how many faults it draws";
            return Err(RunError::Spec(format!("the fault `random` is given twice; {why}")));
        }
        options.swarm = random == 1;
        let faults = self.faults.iter().filter(|fault| *fault != "random").map(|fault| fault.parse());
        let faults = faults.collect::<Result<_, _>>();
        options.faults = faults.map_err(RunError::Spec)?;
        assumptions::check_faults(&options.faults)?;
        options.seed = self.seed.unwrap_or(options.seed);
        options.ignore_assumptions = self.ignore_assumptions;
        options.no_detector = self.no_detector;
        options.detector_spread = self.detector_spread;
        options.patience = self.patience;
        options.events_max = self.events_max.unwrap_or_else(|| events_max(options.workload.entries, n));
        Ok(options)
    }

    /// An option without a meaning for the algorithm is probably a mistake, so it is refused and not ignored.
    fn refuse_what_means_nothing(&self, about: &'static About) -> Result<(), RunError> {
        use Family::{Append, Detector, Election, Mutex};
        let said: [(_, _, &[Family]); 10] = [
            ("load", self.load.is_some(), &[Mutex, Election, Append]),
            ("noticed-by", self.noticed_by.is_some(), &[Election]),
            ("entries", self.entries.is_some(), &[Mutex, Detector, Append]),
            ("think", self.think.is_some(), &[Mutex, Detector, Append]),
            ("hold", self.hold.is_some(), &[Mutex]),
            ("app-messages", self.app_messages, &[Mutex]),
            ("store", self.store.is_some(), &[Mutex]),
            ("patience", self.patience.is_some(), &[Mutex]),
            ("no-detector", self.no_detector, &[Mutex, Election, Append]),
            ("detector-spread", self.detector_spread != 0.0, &[Mutex, Election, Append]),
        ];
        if self.no_detector && self.detector_spread != 0.0 {
            let reason = "--no-detector leaves no detector that could report".into();
            return Err(RunError::Meaningless { option: "detector-spread", algorithm: about.name, reason });
        }
        // If the user wrote faults, the faults decide which processes crash, and when a process notices that there is
        // no leader.
        let up_to_faults = self.faults.iter().any(|fault| fault != "random");
        let struck: &[&str] = match about.family {
            Election if up_to_faults => &["load", "noticed-by"],
            Detector if up_to_faults => &["entries", "think"],
            _ => &[],
        };
        for (option, _, users) in said.into_iter().filter(|&(_, said, _)| said) {
            let reason = match users.contains(&about.family) {
                true if option == "load" && self.noticed_by.is_some() => {
                    "--noticed-by names the process that notices".into()
                }
                true if struck.contains(&option) => "the faults say what happens".into(),
                true => continue,
                false => format!("only algorithms for {} use it", in_words(users)),
            };
            return Err(RunError::Meaningless { option, algorithm: about.name, reason });
        }
        Ok(())
    }
}

fn in_words(families: &[Family]) -> String {
    let names = families.iter().map(|family| match family {
        Family::Mutex => "mutual exclusion",
        Family::Election => "elections",
        Family::Detector => "failure detection",
        Family::Append => "record append",
    });
    names.collect::<Vec<_>>().join(", ")
}
