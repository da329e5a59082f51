//! The costs of mutual exclusion: messages per entry, client delay and sync delay of every algorithm.
//!
//! T is one message delay, E the time in the critical section, S the mean sync delay. Delays are counted in T. The
//! formulas hold for a network without faults on which every message takes T, unless a comment says that they hold on
//! any network without faults.

use serde::Serialize;

use crate::{Expectation, Kind};

mod each;

/// When the clients request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One request at a time; the clients take turns.
    Solo,
    /// One request at a time; the next one is by another client, chosen at random.
    SoloRandom,
    /// All clients always want to enter.
    All,
    /// Each client requests at random times: it thinks for an exponentially distributed time.
    Random,
    /// Any other load.
    Other,
}

/// The algorithm and how it runs.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// The name of the algorithm in the registry.
    pub algorithm: &'a str,
    /// The variant: names joined by `+`, each `name` or `name:value`.
    pub variant: Option<&'a str>,
    /// How many processes may request.
    pub n: usize,
    pub load: Load,
    /// E: the time in the critical section.
    pub hold: f64,
    /// The time between leaving and the next request; the mean if the load is random.
    pub think: f64,
    /// Whether every message takes exactly T.
    pub constant_delay: bool,
    /// The number of coordinators of majority voting. Default: n.
    pub coordinators: Option<usize>,
    /// How many votes win. Default: more than half of the coordinators.
    pub votes: Option<usize>,
    /// The voters of each client, where n does not determine them.
    pub quorums: Option<&'a [Vec<usize>]>,
    /// The edges of the tree, where n does not determine them.
    pub tree: Option<&'a [(usize, usize)]>,
}

impl<'a> Setting<'a> {
    /// The default variant, one T in the critical section, on a network of constant delay.
    pub fn new(algorithm: &'a str, n: usize, load: Load) -> Self {
        Setting {
            algorithm,
            variant: None,
            n,
            load,
            hold: 1.0,
            think: 0.0,
            constant_delay: true,
            coordinators: None,
            votes: None,
            quorums: None,
            tree: None,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.parts().any(|(part, _)| part == name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.parts().find(|(part, _)| *part == name).and_then(|(_, value)| value)
    }

    fn parts(&self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let parts = self.variant.into_iter().flat_map(|variant| variant.split('+'));
        parts.map(|part| part.split_once(':').map_or((part, None), |(name, value)| (name, Some(value))))
    }

    /// Whether clients request again without a pause, so that a request always waits.
    fn is_closed_loop(&self) -> bool {
        self.load == Load::All && self.think == 0.0 && self.hold > 0.0
    }
}

/// The expected costs of an algorithm in a setting. None where there is no formula.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_entry: Option<Expectation>,
    /// The mean time from request to entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_delay: Option<Expectation>,
    /// The mean time from an exit to the next entry, while a request waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_delay: Option<Expectation>,
    /// The longest time from an exit to the next entry, while a request waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_delay_max: Option<Expectation>,
    /// The messages that the busiest process sends and receives, per entry of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Expectation>,
}

/// The expected costs. None if this crate has no formula for the algorithm, or if n is less than 2.
pub fn costs(setting: &Setting) -> Option<Costs> {
    if setting.n < 2 {
        return None;
    }
    let costs = match setting.algorithm {
        // In views the lowest member carries the coordinator.
        "central" if setting.has("views") => each::central_elected(setting),
        "central" => each::central(setting),
        "central-elected" => each::central_elected(setting),
        "token-ring" | "token-ring-last-word" if setting.has("parked") => each::token_ring_parked(setting),
        "token-ring" | "token-ring-last-word" => each::token_ring(setting),
        "permission-ring" => each::permission_ring(setting),
        "lamport" => each::lamport(setting),
        "ricart-agrawala" | "ricart-agrawala-time-only" | "ricart-agrawala-current-clock" => {
            each::ricart_agrawala(setting)
        }
        "carvalho-roucairol" => each::carvalho_roucairol(setting),
        "maekawa" => each::maekawa(setting),
        "generalized" => each::generalized(setting),
        "suzuki-kasami" => each::suzuki_kasami(setting),
        "singhal" => each::singhal(setting),
        "naimi-trehel" => each::naimi_trehel(setting),
        // A process that goes before its neighbours makes the token cross fewer edges. How many depends on the run.
        "raymond" if setting.has("greedy") => alone(setting, each::raymond(setting)),
        "raymond" => each::raymond(setting),
        // Members carry the coordinators, so some messages need no network.
        "voting" if setting.has("views") => return None,
        "voting" => each::voting(setting),
        // These algorithms break only when several processes request at once.
        "permission-ring-original" => alone(setting, each::permission_ring(setting)),
        "maekawa-no-inquire" | "maekawa-1985" | "maekawa-yield-unseen" => alone(setting, each::maekawa(setting)),
        "suzuki-kasami-no-outdated-check" => alone(setting, each::suzuki_kasami(setting)),
        "singhal-1989" => alone(setting, each::singhal(setting)),
        "raymond-greedy" | "raymond-asks-once" => alone(setting, each::raymond(setting)),
        _ => return None,
    };
    Some(costs)
}

/// The mean client delay while all clients always want to enter. Each of the n clients waits for the others' entries
/// and for every handover. By Little's law the order of the entries does not matter.
pub fn closed_loop_client_delay(n: usize, hold: f64, sync_delay: f64) -> f64 {
    n as f64 * (hold + sync_delay) - hold
}

/// The costs of an algorithm for each load.
#[derive(Clone, Default)]
struct Table {
    /// For any network without faults and any load. Under an uneven load only on average.
    messages_always: Option<Expectation>,
    messages_solo: Option<Expectation>,
    messages_solo_random: Option<Expectation>,
    messages_all: Option<Expectation>,
    client_delay_solo: Option<Expectation>,
    client_delay_solo_random: Option<Expectation>,
    sync_delay: Option<Expectation>,
    sync_delay_max: Option<Expectation>,
    busiest: Busiest,
}

/// Which processes handle the most messages, while all clients enter equally often.
#[derive(Clone, Copy, Default)]
enum Busiest {
    #[default]
    Unknown,
    /// All clients handle equally many, and no other process does. The formula: each message is sent by one of the n
    /// clients and received by one.
    AllAlike(&'static str),
    /// The coordinator handles every message.
    Coordinator,
}

impl Table {
    fn look_up(self, setting: &Setting) -> Costs {
        let always = self.messages_always;
        // A measurement begins and ends while other requests are under way, so it does not count all their messages.
        let about = always.as_ref().map(|exact| Expectation::mean(&exact.formula, exact.value));
        if !setting.constant_delay {
            return Costs { messages_per_entry: about, ..Costs::default() };
        }
        let busiest = self.busiest;
        match setting.load {
            Load::Solo => Costs {
                messages_per_entry: always.or(self.messages_solo),
                client_delay: self.client_delay_solo,
                ..Costs::default()
            }
            .with_busiest(busiest, setting.n),
            Load::SoloRandom => Costs {
                messages_per_entry: always.or(self.messages_solo_random),
                client_delay: self.client_delay_solo_random,
                ..Costs::default()
            },
            Load::All if setting.is_closed_loop() => Costs {
                messages_per_entry: always.or(self.messages_all),
                client_delay: self.sync_delay.as_ref().map(|sync_delay| closed_loop(setting, sync_delay)),
                sync_delay: self.sync_delay,
                sync_delay_max: self.sync_delay_max,
                busiest: None,
            }
            .with_busiest(busiest, setting.n),
            Load::All | Load::Random | Load::Other => Costs { messages_per_entry: about, ..Costs::default() },
        }
    }
}

impl Costs {
    fn with_busiest(self, busiest: Busiest, n: usize) -> Costs {
        let share = |messages: &Expectation| match busiest {
            Busiest::Unknown => None,
            Busiest::AllAlike(formula) => Some(Expectation::exact(formula, 2.0 * messages.value / n as f64)),
            Busiest::Coordinator => Some(Expectation::exact(&messages.formula, messages.value)),
        };
        let exact = self.messages_per_entry.as_ref().filter(|messages| messages.kind == Kind::Exact);
        Costs { busiest: exact.and_then(share), ..self }
    }
}

fn closed_loop(setting: &Setting, sync_delay: &Expectation) -> Expectation {
    let with = |s: f64| closed_loop_client_delay(setting.n, setting.hold, s);
    Expectation {
        formula: format!("n(E+S)-E, S = {}", sync_delay.formula),
        value: with(sync_delay.value),
        kind: sync_delay.kind,
        least: with(sync_delay.least),
        most: with(sync_delay.most),
    }
}

/// Keeps the costs only for loads with one request at a time.
fn alone(setting: &Setting, costs: Costs) -> Costs {
    match setting.load {
        Load::Solo | Load::SoloRandom => costs,
        Load::All | Load::Random | Load::Other => Costs::default(),
    }
}
