//! A run as people write it down, on the command line or in a scenario; everything but the algorithm has a default.

use baton_protocol::registry::{self, About, Family};
use serde::Deserialize;

use crate::app::mutex::{Load, StoreKind};
use crate::assumptions;
use crate::network::Delay;
use crate::run::{Options, RunError, events_max};
use crate::time::{in_t, ticks};

/// What to run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// As the registry calls it.
    pub algorithm: String,
    /// How many processes may ask; 5 if not said.
    pub n: Option<usize>,
    /// How to run it, if not in the default way.
    pub variant: Option<String>,
    /// How many coordinators.
    pub coordinators: Option<usize>,
    /// How many of their votes win.
    pub votes: Option<usize>,
    /// Who asks when; everybody always if not said.
    pub load: Option<Load>,
    /// How many requests in all; 20 for each client if not said.
    pub entries: Option<u64>,
    /// How long each stays inside, in T; 1 if not said.
    pub hold: Option<f64>,
    /// How long each waits before it asks again, in T; 0 if not said, or 10 n if that is random.
    pub think: Option<f64>,
    /// A preset of delays; synchronous if not said.
    #[serde(default)]
    pub network: NetworkKind,
    /// How long a message takes, as in `uniform:1,2`.
    pub delay: Option<String>,
    /// What the processes believe to be the bound on delays, in T; the truth, or a guess, if not said.
    pub delay_max: Option<f64>,
    /// Whether messages keep their order; only if the algorithm needs it if not said.
    pub order: Option<LinkOrder>,
    /// The probability that a message is lost.
    #[serde(default)]
    pub loss: f64,
    /// The probability that it arrives twice.
    #[serde(default)]
    pub duplicate: f64,
    /// By which part each process's clock may run fast or slow; the seed draws by how much it does.
    #[serde(default)]
    pub drift: f64,
    /// What goes wrong, as in `crash 1 @ 5`; `random` draws it from the seed.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Whether whoever asks tells somebody else to ask too.
    #[serde(default)]
    pub app_messages: bool,
    /// What the holders write to; nothing if not said.
    pub store: Option<StoreKind>,
    /// Of all randomness; 1 if not said.
    pub seed: Option<u64>,
    /// Whether to run it on a network, or with faults, that it is not made for.
    #[serde(default)]
    pub ignore_assumptions: bool,
    /// How long a request may wait after the last fault, in T; very long if not said.
    pub patience: Option<f64>,
    /// Stop after so many events.
    pub events_max: Option<u64>,
}

/// A preset of delays.
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
    /// They do.
    Fifo,
    /// They need not.
    Unordered,
}

impl Spec {
    /// The run, with all defaults filled in.
    pub fn options(&self) -> Result<Options, RunError> {
        self.refuse_what_means_nothing(registry::find(&self.algorithm)?)?;
        let n = self.n.unwrap_or(5);
        let mut options = Options::new(&self.algorithm, n);
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
            let right = "it is between 0.000001 and 1,000,000 T";
            return Err(RunError::OutOfRange { what: "the longest delay", value, right });
        }
        let guess = options.network.delay.guess();
        if self.delay_max.is_none() && guess > registry::DELAY_MAX {
            let (delay, guess) = (options.network.delay, in_t(guess));
            let wrong =
                format!("with the delay `{delay}` processes would reckon with up to {guess} T, and can with 1000000 T");
            return Err(RunError::Spec(format!("{wrong}; give a shorter mean, or say what they believe by delay-max")));
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
        options.swarm = self.faults.iter().any(|fault| fault == "random");
        let faults = self.faults.iter().filter(|fault| *fault != "random").map(|fault| fault.parse());
        let faults = faults.collect::<Result<_, _>>();
        options.faults = faults.map_err(RunError::Spec)?;
        assumptions::check_faults(&options.faults)?;
        options.seed = self.seed.unwrap_or(options.seed);
        options.ignore_assumptions = self.ignore_assumptions;
        options.patience = self.patience;
        options.events_max = self.events_max.unwrap_or_else(|| events_max(options.workload.entries, n));
        Ok(options)
    }

    /// Options that mean nothing for the algorithm are mistakes, not decoration.
    fn refuse_what_means_nothing(&self, about: &'static About) -> Result<(), RunError> {
        use Family::{Append, Detector, Election, Mutex};
        let said: [(_, _, &[Family]); 7] = [
            ("load", self.load.is_some(), &[Mutex, Election, Append]),
            ("entries", self.entries.is_some(), &[Mutex, Detector, Append]),
            ("think", self.think.is_some(), &[Mutex, Detector, Append]),
            ("hold", self.hold.is_some(), &[Mutex]),
            ("app-messages", self.app_messages, &[Mutex]),
            ("store", self.store.is_some(), &[Mutex]),
            ("patience", self.patience.is_some(), &[Mutex]),
        ];
        // Who notices that there is no leader, and who crashes when, is up to the faults, if any are written down.
        let up_to_faults = self.faults.iter().any(|fault| fault != "random");
        let struck: &[&str] = match about.family {
            Election if up_to_faults => &["load"],
            Detector if up_to_faults => &["entries", "think"],
            _ => &[],
        };
        for (option, _, users) in said.into_iter().filter(|&(_, said, _)| said) {
            let reason = match users.contains(&about.family) {
                true if struck.contains(&option) => "the faults say what happens; leave out one of them".into(),
                true => continue,
                false => format!("only algorithms for {} use it; `baton algorithms` lists them", in_words(users)),
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
