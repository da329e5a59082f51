//! The costs of mutual exclusion: messages per entry, client delay and sync delay of every algorithm.
//!
//! T is one message delay, E the time in the critical section, S the mean sync delay. Delays are counted in T. The
//! formulas hold for a network without faults on which every message takes T, unless a comment says that they hold on
//! any network without faults.

use serde::Serialize;

use crate::tree::Tree;
use crate::{Expectation, Kind, patrol, quorum};

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
        "central" => central(setting),
        "central-elected" => central_elected(setting),
        "token-ring" | "token-ring-last-word" if setting.has("parked") => token_ring_parked(setting),
        "token-ring" | "token-ring-last-word" => token_ring(setting),
        "permission-ring" => permission_ring(setting),
        "lamport" => lamport(setting),
        "ricart-agrawala" | "ricart-agrawala-time-only" => ricart_agrawala(setting),
        "carvalho-roucairol" => carvalho_roucairol(setting),
        "maekawa" => maekawa(setting),
        "generalized" => generalized(setting),
        "suzuki-kasami" => suzuki_kasami(setting),
        "singhal" => singhal(setting),
        // A process that goes before its neighbours makes the token cross fewer edges. How many depends on the run.
        "raymond" if setting.has("greedy") => alone(setting, raymond(setting)),
        "raymond" => raymond(setting),
        "voting" => voting(setting),
        // These algorithms break only when several processes request at once.
        "permission-ring-original" => alone(setting, permission_ring(setting)),
        "maekawa-no-inquire" | "maekawa-1985" | "maekawa-yield-unseen" => alone(setting, maekawa(setting)),
        "suzuki-kasami-no-outdated-check" => alone(setting, suzuki_kasami(setting)),
        "singhal-1989" => alone(setting, singhal(setting)),
        "raymond-greedy" => alone(setting, raymond(setting)),
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
    /// All clients handle equally many, and no other process does.
    AllAlike,
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
    /// Every message is sent by one process and received by one.
    fn with_busiest(self, busiest: Busiest, n: usize) -> Costs {
        let share = |messages: &Expectation| match busiest {
            Busiest::Unknown => None,
            Busiest::AllAlike => {
                // "3(n-1)" becomes "6(n-1)/n", and "n" becomes "2".
                let (all, _) = messages.formula.split_once([',', ' ']).unwrap_or((&messages.formula, ""));
                let rest = all.trim_start_matches(|char: char| char.is_ascii_digit());
                let formula = match all[..all.len() - rest.len()].parse::<usize>() {
                    Ok(factor) => format!("{}{rest}/n", 2 * factor),
                    Err(_) if all == "n" => "2".to_owned(),
                    Err(_) => format!("2{all}/n"),
                };
                Some(Expectation::exact(formula, 2.0 * messages.value / n as f64))
            }
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

fn exact(formula: &str, value: f64) -> Option<Expectation> {
    Some(Expectation::exact(formula, value))
}

fn mean(formula: &str, value: f64) -> Option<Expectation> {
    Some(Expectation::mean(formula, value))
}

/// Keeps the costs only for loads with one request at a time.
fn alone(setting: &Setting, costs: Costs) -> Costs {
    match setting.load {
        Load::Solo | Load::SoloRandom => costs,
        Load::All | Load::Random | Load::Other => Costs::default(),
    }
}

fn central(setting: &Setting) -> Costs {
    Table {
        messages_always: exact("3", 3.0),
        busiest: Busiest::Coordinator,
        client_delay_solo: exact("2", 2.0),
        client_delay_solo_random: exact("2", 2.0),
        sync_delay: exact("2", 2.0),
        sync_delay_max: exact("2", 2.0),
        ..Table::default()
    }
    .look_up(setting)
}

/// One of the clients is the coordinator and needs no messages for its own entries. If it requests as soon as another
/// client has left, it waits for that client's RELEASE.
fn central_elected(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    let (formula, delay) =
        if setting.think < 1.0 { ("(2n-1)/n", (2.0 * n - 1.0) / n) } else { ("2(n-1)/n", 2.0 * (n - 1.0) / n) };
    Table {
        messages_solo: exact("3(n-1)/n", 3.0 * (n - 1.0) / n),
        messages_solo_random: mean("3(n-1)/n", 3.0 * (n - 1.0) / n),
        messages_all: exact("3(n-1)/n", 3.0 * (n - 1.0) / n),
        client_delay_solo: exact(formula, delay),
        client_delay_solo_random: mean(formula, delay),
        sync_delay: exact("2(n-1)/n", 2.0 * (n - 1.0) / n),
        sync_delay_max: Some(Expectation::at_most("2", 2.0)),
        busiest: Busiest::Coordinator,
        ..Table::default()
    }
    .look_up(setting)
}

/// The token never rests, so messages per entry have no bound. With no think time the next client requests at once and
/// gets the token on its way. If the clients take turns, that client is the neighbour. If clients request at random
/// times, the token finds them like a patrol.
fn token_ring(setting: &Setting) -> Costs {
    if setting.load == Load::Random {
        return patrol::costs(setting);
    }
    if setting.think > 0.0 {
        return Costs::default();
    }
    let half = setting.n as f64 / 2.0;
    Table {
        busiest: Busiest::AllAlike,
        messages_solo: exact("1 (unbounded without requests)", 1.0),
        messages_solo_random: mean("n/2 (unbounded without requests)", half),
        messages_all: exact("1", 1.0),
        client_delay_solo: exact("1", 1.0),
        client_delay_solo_random: mean("n/2", half),
        sync_delay: exact("1", 1.0),
        sync_delay_max: exact("1", 1.0),
        ..Table::default()
    }
    .look_up(setting)
}

/// WAKE travels along the ring to the token, and the token travels on to the sender of WAKE: together once round.
fn token_ring_parked(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("n", n),
        messages_solo_random: exact("n", n),
        messages_all: exact("2", 2.0),
        client_delay_solo: exact("n", n),
        client_delay_solo_random: exact("n", n),
        sync_delay: exact("1", 1.0),
        sync_delay_max: exact("1", 1.0),
        ..Table::default()
    }
    .look_up(setting)
}

/// The request travels once round the ring.
fn permission_ring(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        busiest: Busiest::AllAlike,
        messages_always: exact("n", n),
        client_delay_solo: exact("n", n),
        client_delay_solo_random: exact("n", n),
        sync_delay: Some(Expectation::between("1 .. n-1", 1.0, n - 1.0)),
        sync_delay_max: Some(Expectation::at_most("n-1", n - 1.0)),
        ..Table::default()
    }
    .look_up(setting)
}

/// REQUEST and RELEASE to all others, and an ACK from each. Any message that is later than the request counts as an
/// ACK. With two processes that take turns, the RELEASE of the other process may already be on its way.
fn lamport(setting: &Setting) -> Costs {
    let others = setting.n as f64 - 1.0;
    let mut table = Table { messages_always: exact("3(n-1)", 3.0 * others), ..asking_all() };
    if setting.n == 2 && setting.think < 1.0 {
        table.client_delay_solo = Some(Expectation::between("1 .. 2", 1.0, 2.0));
        table.client_delay_solo_random = table.client_delay_solo.clone();
    }
    table.look_up(setting)
}

/// REQUEST to all others, and a REPLY from each.
fn ricart_agrawala(setting: &Setting) -> Costs {
    let others = setting.n as f64 - 1.0;
    Table { messages_always: exact("2(n-1)", 2.0 * others), ..asking_all() }.look_up(setting)
}

/// A round trip to enter, and one message to hand over.
fn asking_all() -> Table {
    Table {
        busiest: Busiest::AllAlike,
        client_delay_solo: exact("2", 2.0),
        client_delay_solo_random: exact("2", 2.0),
        sync_delay: exact("1", 1.0),
        sync_delay_max: exact("1", 1.0),
        ..Table::default()
    }
}

/// A process requests only from the processes that have entered since its own last entry. If the clients are chosen at
/// random, a given process enters between two entries of another one with probability n/(2(n-1)).
fn carvalho_roucairol(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("2(n-1)", 2.0 * (n - 1.0)),
        messages_solo_random: mean("n", n),
        messages_all: exact("2(n-1)", 2.0 * (n - 1.0)),
        ..asking_all()
    }
    .look_up(setting)
}

/// REQUEST to, GRANT from and RELEASE to each voter but the process itself. Under contention also POSTPONE, unless the
/// variant leaves it out.
fn maekawa(setting: &Setting) -> Costs {
    let Some(Voters { others, of_one_size, formula }) = voters(setting) else { return Costs::default() };
    let per_voter = |messages: f64| (format!("{messages}(K-1), {formula}"), messages * others);
    let (solo, solo_value) = per_voter(3.0);
    let (all, all_value) = per_voter(if setting.has("yield-at-once") { 3.0 } else { 4.0 });
    let solo_random = if of_one_size { Expectation::exact } else { Expectation::mean };
    Table {
        messages_solo: Some(Expectation::exact(&solo, solo_value)),
        messages_solo_random: Some(solo_random(&solo, solo_value)),
        messages_all: Some(Expectation::exact(&all, all_value)),
        client_delay_solo: exact("2", 2.0),
        client_delay_solo_random: exact("2", 2.0),
        sync_delay: Some(Expectation::between("1 .. 2", 1.0, 2.0)),
        sync_delay_max: Some(Expectation::at_most("2", 2.0)),
        ..Table::default()
    }
    .look_up(setting)
}

/// REQUEST to and GRANT from the request set, RELEASE to the inform set. Under contention also POSTPONE, unless the
/// variant leaves it out. For sets given by the user, only the costs of a lone request are known.
fn generalized(setting: &Setting) -> Costs {
    let others = setting.n as f64 - 1.0;
    let (asked, told, sync_delay) = if setting.has("central") {
        (1.0, 1.0, exact("2", 2.0))
    } else if setting.has("ricart-agrawala") {
        (others, 0.0, exact("1", 1.0))
    } else if let Some(request) = setting.value("request") {
        let inform = setting.value("inform").unwrap_or(request);
        match (others_in(request, setting.n), others_in(inform, setting.n)) {
            (Some(asked), Some(told)) => (asked, told, None),
            _ => return Costs::default(),
        }
    } else {
        return maekawa(setting);
    };
    let solo = Expectation::exact("2|R\\{i}| + |I\\{i}|", 2.0 * asked + told);
    let postponed = Expectation::exact("3|R\\{i}| + |I\\{i}|", 3.0 * asked + told);
    let all = if setting.has("yield-at-once") { solo.clone() } else { postponed };
    Table {
        messages_solo_random: Some(Expectation::mean(&solo.formula, solo.value)),
        messages_solo: Some(solo),
        messages_all: sync_delay.is_some().then_some(all),
        client_delay_solo: exact("2", 2.0),
        client_delay_solo_random: exact("2", 2.0),
        sync_delay_max: sync_delay.clone(),
        sync_delay,
        ..Table::default()
    }
    .look_up(setting)
}

/// The mean number of other processes in sets written as `0,1|1,2|2,0`. None if there are not n sets.
fn others_in(sets: &str, n: usize) -> Option<f64> {
    let sets = sets.split('|').map(|set| set.split(',').map(|id| id.trim().parse().ok()).collect());
    let sets: Vec<Vec<usize>> = sets.collect::<Option<_>>()?;
    (sets.len() == n).then(|| mean_of_others(&others(&sets)))
}

/// The number of other processes in each set.
fn others(sets: &[Vec<usize>]) -> Vec<usize> {
    sets.iter().enumerate().map(|(i, set)| set.iter().filter(|&&member| member != i).count()).collect()
}

fn mean_of_others(others: &[usize]) -> f64 {
    others.iter().sum::<usize>() as f64 / others.len() as f64
}

/// The voters of a client.
struct Voters {
    /// The mean number of voters besides the client itself.
    others: f64,
    of_one_size: bool,
    /// What K is.
    formula: String,
}

fn voters(setting: &Setting) -> Option<Voters> {
    let n = setting.n;
    let named = ["grid", "plane", "padded-grid", "majority", "tree"].into_iter().find(|name| setting.has(name));
    let known = match named {
        Some("grid") => quorum::grid(n).map(|size| (size, "2 sqrt(n) - 1")),
        Some("plane") => quorum::plane(n).map(|size| (size, "q + 1")),
        Some("majority") => Some((quorum::majority(n), "n/2 + 1")),
        Some(_) => None,
        None => {
            quorum::plane(n).map(|size| (size, "q + 1")).or_else(|| quorum::grid(n).map(|size| (size, "2 sqrt(n) - 1")))
        }
    };
    if let Some((size, formula)) = known {
        return Some(Voters {
            others: size as f64 - 1.0,
            of_one_size: true,
            formula: format!("K = {formula} = {size}"),
        });
    }
    // Other voting sets have no closed form; only their sizes can be counted.
    let sets = setting.quorums.filter(|sets| sets.len() == n)?;
    let others = others(sets);
    let mean = mean_of_others(&others);
    let of_one_size = others.windows(2).all(|pair| pair[0] == pair[1]);
    Some(Voters { others: mean, of_one_size, formula: format!("K = {} on average", round(mean + 1.0)) })
}

/// Rounds to two digits for display.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// REQUEST to all others, and the token.
fn suzuki_kasami(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("n", n),
        messages_solo_random: exact("n", n),
        messages_all: exact("n", n),
        ..asking_all()
    }
    .look_up(setting)
}

/// Like Suzuki-Kasami, but a process sends REQUEST only to the processes that may have the token.
fn singhal(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("n", n),
        messages_solo_random: mean("n/2 + 1", n / 2.0 + 1.0),
        messages_all: exact("n", n),
        ..asking_all()
    }
    .look_up(setting)
}

/// The request goes along the tree to the token, and the token comes back on the same path. If all processes want to
/// enter, the token crosses each edge twice in a round, with one REQUEST for each crossing.
fn raymond(setting: &Setting) -> Costs {
    let n = setting.n;
    let tree = match setting.tree {
        Some(edges) => Tree::from_edges(n, edges),
        None if setting.has("chain") => Tree::chain(n),
        None if setting.has("star") => Tree::star(n),
        None if setting.has("k-ary") => {
            setting.value("k-ary").and_then(|k| k.parse().ok()).and_then(|k| Tree::k_ary(n, k))
        }
        None if setting.has("edges") => None,
        None => Tree::k_ary(n, 2),
    };
    let Some(tree) = tree else { return Costs::default() };
    let (in_turns, at_random) = (2.0 * tree.mean_distance_in_turns(), 2.0 * tree.mean_distance());
    let (random, n) = (if setting.has("chain") { "2(n+1)/3" } else { "2 x mean distance" }, n as f64);
    let random = if setting.has("star") { "4(n-1)/n" } else { random };
    Table {
        messages_solo: exact("2 x mean distance", in_turns),
        messages_solo_random: mean(random, at_random),
        messages_all: exact("4(n-1)/n", 4.0 * (n - 1.0) / n),
        client_delay_solo: exact("2 x mean distance", in_turns),
        client_delay_solo_random: mean(random, at_random),
        sync_delay: exact("2(n-1)/n", 2.0 * (n - 1.0) / n),
        sync_delay_max: Some(Expectation::at_most("diameter", tree.diameter() as f64)),
        ..Table::default()
    }
    .look_up(setting)
}

/// REQUEST, an answer and RELEASE for each vote. If fences are stored, also STORE and its answer for each of the m
/// winning votes. Under contention 2mk + m messages, plus one for each vote given back, for k attempts. k is at least 1
/// and depends on chance.
fn voting(setting: &Setting) -> Costs {
    let coordinators = setting.coordinators.unwrap_or(setting.n);
    let votes = setting.votes.unwrap_or(coordinators / 2 + 1);
    let (asked, letter) = if setting.has("ask-all") { (coordinators, "c") } else { (votes, "m") };
    let stored = setting.has("stored-fence");
    let (messages, delay) = if stored { (3 * asked + 2 * votes, 4.0) } else { (3 * asked, 2.0) };
    let messages = messages as f64;
    let alone = match (stored, letter) {
        (false, _) => format!("3{letter}"),
        (true, "m") => "5m".to_owned(),
        (true, _) => format!("3{letter} + 2m"),
    };
    let storing = if stored { " + 2m" } else { "" };
    let contention = format!("{alone} or more: 2{letter}k{storing} and every vote given back, k attempts");
    // A client that has left rests for a while. If the turns of the others are shorter than the rest, it is delayed.
    let rested = (setting.n as f64 - 1.0) * (delay + setting.hold) >= 3.0;
    Table {
        messages_solo: Some(Expectation::exact(&alone, messages)),
        messages_solo_random: Some(Expectation::exact(&alone, messages)),
        messages_all: Some(Expectation::at_least(contention, messages)),
        client_delay_solo: rested.then(|| Expectation::exact(format!("{delay}"), delay)),
        client_delay_solo_random: Some(Expectation::at_least(
            format!("{delay} or more, if the client still rests"),
            delay,
        )),
        sync_delay: Some(Expectation::at_least(format!("{delay} or more: {delay} + back-off"), delay)),
        ..Table::default()
    }
    .look_up(setting)
}
