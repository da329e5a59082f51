//! The formulas of each algorithm, with their derivations.

use super::{Busiest, Costs, Load, Setting, Table};
use crate::tree::Tree;
use crate::{Expectation, patrol, quorum};

fn exact(formula: &str, value: f64) -> Option<Expectation> {
    Some(Expectation::exact(formula, value))
}

fn mean(formula: &str, value: f64) -> Option<Expectation> {
    Some(Expectation::mean(formula, value))
}

pub fn central(setting: &Setting) -> Costs {
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
pub fn central_elected(setting: &Setting) -> Costs {
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
pub fn token_ring(setting: &Setting) -> Costs {
    if setting.load == Load::Random {
        return patrol::costs(setting);
    }
    if setting.think > 0.0 {
        return Costs::default();
    }
    let half = setting.n as f64 / 2.0;
    Table {
        busiest: Busiest::AllAlike("2/n"),
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
pub fn token_ring_parked(setting: &Setting) -> Costs {
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
pub fn permission_ring(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        busiest: Busiest::AllAlike("2"),
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
pub fn lamport(setting: &Setting) -> Costs {
    let others = setting.n as f64 - 1.0;
    let (messages_always, busiest) = (exact("3(n-1)", 3.0 * others), Busiest::AllAlike("6(n-1)/n"));
    let mut table = Table { messages_always, busiest, ..asking_all() };
    if setting.n == 2 && setting.think < 1.0 {
        table.client_delay_solo = Some(Expectation::between("1 .. 2", 1.0, 2.0));
        table.client_delay_solo_random = table.client_delay_solo.clone();
    }
    table.look_up(setting)
}

/// REQUEST to all others, and a REPLY from each.
pub fn ricart_agrawala(setting: &Setting) -> Costs {
    let others = setting.n as f64 - 1.0;
    let (messages_always, busiest) = (exact("2(n-1)", 2.0 * others), Busiest::AllAlike("4(n-1)/n"));
    Table { messages_always, busiest, ..asking_all() }.look_up(setting)
}

/// A round trip to enter, and one message to hand over.
fn asking_all() -> Table {
    Table {
        client_delay_solo: exact("2", 2.0),
        client_delay_solo_random: exact("2", 2.0),
        sync_delay: exact("1", 1.0),
        sync_delay_max: exact("1", 1.0),
        ..Table::default()
    }
}

/// A process requests only from the processes that have entered since its own last entry. If the clients are chosen at
/// random, a given process enters between two entries of another one with probability n/(2(n-1)).
pub fn carvalho_roucairol(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("2(n-1)", 2.0 * (n - 1.0)),
        messages_solo_random: mean("n", n),
        messages_all: exact("2(n-1)", 2.0 * (n - 1.0)),
        busiest: Busiest::AllAlike("4(n-1)/n"),
        ..asking_all()
    }
    .look_up(setting)
}

/// REQUEST to, GRANT from and RELEASE to each voter but the process itself. Under contention also POSTPONE, unless the
/// variant leaves it out.
pub fn maekawa(setting: &Setting) -> Costs {
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
pub fn generalized(setting: &Setting) -> Costs {
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
pub fn suzuki_kasami(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("n", n),
        messages_solo_random: exact("n", n),
        messages_all: exact("n", n),
        busiest: Busiest::AllAlike("2"),
        ..asking_all()
    }
    .look_up(setting)
}

/// Like Suzuki-Kasami, but a process sends REQUEST only to the processes that may have the token.
pub fn singhal(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    Table {
        messages_solo: exact("n", n),
        messages_solo_random: mean("n/2 + 1", n / 2.0 + 1.0),
        messages_all: exact("n", n),
        busiest: Busiest::AllAlike("2"),
        ..asking_all()
    }
    .look_up(setting)
}

/// One REQUEST for each edge of the path to the root of the tree of fathers, and the token. Number the processes by
/// their last request, the latest first: the root is 1. Every father has a smaller number than its child.
///
/// At random: the father of process k is each of 1..k-1 with the same probability, independently of the others, and the
/// reversal of a path preserves this. (Process j is on the path of k with probability 1/j, whatever the others are. If
/// it is, its new father is k, which has number 1 now. If not, its father is any of 1..j-1 as before, now 2..j.) So the
/// path of k has H(k-1) edges on average. The next requester is any of 2..n, and the mean of H(k-1) + 1 over these k is
/// n H(n-1)/(n-1).
///
/// In turns: a path through all processes, n-1 edges, makes all processes children of its requester r. The next
/// requester has 1 edge, the n-2 after it have 2 edges each, through r, and r itself has 1. Each of these requests adds
/// an edge to a new path through all processes, which the next requester takes. So n+1 requests have 3n-3 edges. If all
/// processes always want to enter, they enter in turns too. A measurement counts rounds of n entries, so it is exact only
/// if n+1 divides their number.
pub fn naimi_trehel(setting: &Setting) -> Costs {
    let n = setting.n as f64;
    let harmonic: f64 = (1..setting.n).map(|k| 1.0 / k as f64).sum();
    let (turns, random) = ((4.0 * n - 2.0) / (n + 1.0), n * harmonic / (n - 1.0));
    let (in_turns, at_random) = (mean("(4n-2)/(n+1)", turns), mean("n H(n-1)/(n-1)", random));
    Table {
        messages_solo: in_turns.clone(),
        messages_solo_random: at_random.clone(),
        messages_all: in_turns.clone(),
        client_delay_solo: in_turns,
        client_delay_solo_random: at_random,
        ..asking_all()
    }
    .look_up(setting)
}

/// The request goes along the tree to the token, and the token comes back on the same path. If all processes want to
/// enter, the token crosses each edge twice in a round, with one REQUEST for each crossing.
pub fn raymond(setting: &Setting) -> Costs {
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
pub fn voting(setting: &Setting) -> Costs {
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
