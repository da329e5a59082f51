//! The messages and the time that a leader election costs.

use serde::Serialize;

use crate::Expectation;

/// Which process notices that the leader, the process with the highest id, has crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticedBy {
    /// The process with the lowest id.
    Lowest,
    /// The live process with the highest id.
    RunnerUp,
    /// All live processes at the same time.
    All,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ElectionCosts {
    /// From the first notice on.
    pub messages: Option<Expectation>,
    /// Until all processes know the new leader, in T.
    pub time: Option<Expectation>,
}

/// The costs of an election on a network of constant delay. None if this crate has no formula for the algorithm. For
/// bully, the dead leader is one of the `n` processes. On a ring, all `n` processes are alive, in the order of their
/// ids.
pub fn costs(algorithm: &str, variant: Option<&str>, n: usize, notice: NoticedBy) -> Option<ElectionCosts> {
    if n < 2 {
        return None;
    }
    let plain = variant.is_none();
    match algorithm {
        "bully" if plain => Some(bully(n, notice)),
        "chang-roberts" if plain => Some(chang_roberts_in_order(n, notice)),
        "chang-roberts" if variant == Some("descending") && notice == NoticedBy::All => {
            Some(chang_roberts_descending(n))
        }
        "ring-list" if plain && notice == NoticedBy::All => Some(ring_list_by_all(n, false)),
        "ring-list" if plain => Some(ring_list(n, false)),
        "ring-list" if variant == Some("multicast") && notice == NoticedBy::All => Some(ring_list_by_all(n, true)),
        _ => None,
    }
}

/// The costs of an election that the process `starter` alone begins, as in [`costs`].
pub fn started_by(algorithm: &str, variant: Option<&str>, n: usize, starter: usize) -> Option<ElectionCosts> {
    if n < 2 || starter >= n {
        return None;
    }
    match (algorithm, variant) {
        // The dead leader notices nothing.
        ("bully", None) if starter + 1 < n => Some(bully_started_by(n, n - 1 - starter)),
        ("chang-roberts", None) => Some(round_and_more(n, n - 1 - starter)),
        ("chang-roberts", Some("descending")) => Some(round_and_more(n, (starter + 1) % n)),
        ("ring-list", None | Some("lowest")) => Some(ring_list(n, false)),
        ("ring-list", Some("multicast")) => Some(ring_list(n, true)),
        _ => None,
    }
}

/// The least, the mean and the largest of something, over all processes that may start an election alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub best: Expectation,
    pub mean: Expectation,
    pub worst: Expectation,
}

/// The messages and the time of an election that one process begins, over all such processes.
pub fn over_starters(algorithm: &str, variant: Option<&str>, n: usize) -> Option<(Spread, Spread)> {
    let starters: Vec<ElectionCosts> =
        (0..n).filter_map(|starter| started_by(algorithm, variant, n, starter)).collect();
    let (messages, time) = match algorithm {
        "bully" if n > 2 => (["n-1", "n(2n-1)/6 + n-2", "n^2-n-1"], ["3", "(4n-5)/(n-1)", "4"]),
        "bully" => (["n-1"; 3], ["2"; 3]),
        "chang-roberts" => (["2n", "(5n-1)/2", "3n-1"], ["2n", "(5n-1)/2", "3n-1"]),
        "ring-list" if variant == Some("multicast") => (["2n-1"; 3], ["n+1"; 3]),
        _ => (["2n"; 3], ["2n"; 3]),
    };
    let of = |each: fn(&ElectionCosts) -> &Option<Expectation>, [best, mean, worst]: [&str; 3]| {
        let values: Vec<f64> = starters.iter().filter_map(|costs| Some(each(costs).as_ref()?.value)).collect();
        let (least, most) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some(Spread {
            best: Expectation::exact(best, least),
            mean: Expectation::exact(mean, values.iter().sum::<f64>() / values.len() as f64),
            worst: Expectation::exact(worst, most),
        })
    };
    Some((of(|costs| &costs.messages, messages)?, of(|costs| &costs.time, time)?))
}

/// Bully with one starter. `k` live processes have an id of at least the starter's. They send ELECTION to all above
/// them, the dead leader included, and OK to all of these k below them; then COORDINATOR goes to all lower ids.
fn bully_started_by(n: usize, k: usize) -> ElectionCosts {
    let formula = match k {
        1 => "n-1".to_owned(),
        _ if k == n - 1 => "n^2-n-1".to_owned(),
        _ => format!("k^2 + n-2, k = {k}"),
    };
    let messages = Expectation::exact(formula, (k * k + n - 2) as f64);
    // The runner-up hears of the election one T later, unless it starts it.
    let notice = if k == 1 { NoticedBy::RunnerUp } else { NoticedBy::Lowest };
    ElectionCosts { messages: Some(messages), ..bully(n, notice) }
}

fn round_and_more(n: usize, hops: usize) -> ElectionCosts {
    let formula = if hops == 0 { "2n".to_owned() } else { format!("2n + d, d = {hops}") };
    let costs = Expectation { formula, ..chang_roberts_one_starter(n, hops) };
    ElectionCosts { messages: Some(costs.clone()), time: Some(costs) }
}

/// All processes start, on the worst ring: the k-th smallest id travels k hops.
fn chang_roberts_descending(n: usize) -> ElectionCosts {
    let (all, twice) = (chang_roberts_all_start(n).most, 2.0 * n as f64);
    ElectionCosts {
        messages: Some(Expectation::exact("n(n+1)/2 + n", all)),
        time: Some(Expectation::exact("2n", twice)),
    }
}

/// Each process sends ELECTION to all higher ones, each live process answers OK, and the new leader sends COORDINATOR
/// to all lower ones. A process that receives ELECTION starts its own election, so it does not matter whether the
/// lowest process notices or all do.
fn bully(n: usize, notice: NoticedBy) -> ElectionCosts {
    let count = n as f64;
    let messages = match notice {
        NoticedBy::RunnerUp => Expectation::exact("n-1", count - 1.0),
        NoticedBy::Lowest | NoticedBy::All => Expectation::exact("n^2-n-1", count * count - count - 1.0),
    };
    // The new leader waits 2D for an answer, then its announcement takes one T. If the lowest process notices, the
    // others start one T later. With n = 2 there is no process to announce to.
    let time = match notice {
        _ if n == 2 => Expectation::exact("2", 2.0),
        NoticedBy::RunnerUp | NoticedBy::All => Expectation::exact("3", 3.0),
        NoticedBy::Lowest => Expectation::exact("4", 4.0),
    };
    ElectionCosts { messages: Some(messages), time: Some(time) }
}

/// On a ring of n live processes in the order of their ids.
fn chang_roberts_in_order(n: usize, notice: NoticedBy) -> ElectionCosts {
    let twice = Expectation::exact("2n", 2.0 * n as f64);
    let almost_thrice = Expectation::exact("3n-1", 3.0 * n as f64 - 1.0);
    let (messages, time) = match notice {
        NoticedBy::Lowest => (almost_thrice.clone(), almost_thrice),
        NoticedBy::RunnerUp => (twice.clone(), twice),
        NoticedBy::All => (almost_thrice, twice),
    };
    ElectionCosts { messages: Some(messages), time: Some(time) }
}

/// The list goes once round the ring. Then the outcome goes round too, or to all at once.
fn ring_list(n: usize, multicast: bool) -> ElectionCosts {
    let round = n as f64;
    let (messages, time) = match multicast {
        true => (Expectation::exact("2n-1", 2.0 * round - 1.0), Expectation::exact("n+1", round + 1.0)),
        false => (Expectation::exact("2n", 2.0 * round), Expectation::exact("2n", 2.0 * round)),
    };
    ElectionCosts { messages: Some(messages), time: Some(time) }
}

/// Every starter sends a list of its own, and tells the outcome of it.
fn ring_list_by_all(n: usize, multicast: bool) -> ElectionCosts {
    let ElectionCosts { messages, time } = ring_list(n, multicast);
    let formula = if multicast { "n(2n-1)" } else { "2n^2" };
    ElectionCosts { messages: messages.map(|one| Expectation::exact(formula, n as f64 * one.value)), time }
}

/// Chang-Roberts with one starter, `hops` away from the process with the largest id. The starter's id travels to that
/// process, the largest id travels once round the ring, and so does the announcement.
pub fn chang_roberts_one_starter(n: usize, hops: usize) -> Expectation {
    Expectation::exact("2n + d", (2 * n + hops) as f64)
}

/// The same on average over all starters.
pub fn chang_roberts_one_starter_mean(n: usize) -> Expectation {
    Expectation::mean("(5n-1)/2", (5.0 * n as f64 - 1.0) / 2.0)
}

/// Chang-Roberts if all processes start: from the best order of ids to the worst.
pub fn chang_roberts_all_start(n: usize) -> Expectation {
    let n = n as f64;
    Expectation::between("3n-1 .. n(n+1)/2 + n", 3.0 * n - 1.0, n * (n + 1.0) / 2.0 + n)
}

/// The same on average over all orders of ids: the k-th largest id travels n/k hops.
pub fn chang_roberts_all_start_mean(n: usize) -> Expectation {
    let harmonic: f64 = (1..=n).map(|k| 1.0 / k as f64).sum();
    Expectation::mean("n H_n + n", n as f64 * harmonic + n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(algorithm: &str, n: usize, notice: NoticedBy) -> f64 {
        costs(algorithm, None, n, notice).unwrap().messages.unwrap().value
    }

    fn time(algorithm: &str, n: usize, notice: NoticedBy) -> f64 {
        costs(algorithm, None, n, notice).unwrap().time.unwrap().value
    }

    #[test]
    fn bully_counts_the_dead_leader() {
        assert_eq!(messages("bully", 5, NoticedBy::RunnerUp), 4.0);
        assert_eq!(messages("bully", 5, NoticedBy::Lowest), 19.0);
        assert_eq!(messages("bully", 5, NoticedBy::All), 19.0);
        assert_eq!(
            [NoticedBy::RunnerUp, NoticedBy::All, NoticedBy::Lowest].map(|notice| time("bully", 5, notice)),
            [3.0, 3.0, 4.0]
        );
        // Without the ELECTIONs to the dead process the figures are n-2 and n(n-2).
        assert_eq!(messages("bully", 5, NoticedBy::RunnerUp) - 1.0, 3.0);
        assert_eq!(messages("bully", 5, NoticedBy::All) - 4.0, 15.0);
    }

    #[test]
    fn chang_roberts_lies_between_its_bounds() {
        let n = 7;
        let values: Vec<f64> = (0..n).map(|hops| chang_roberts_one_starter(n, hops).value).collect();
        assert_eq!((values[0], values[n - 1]), (14.0, 20.0), "2n .. 3n-1");
        assert_eq!(values.iter().sum::<f64>() / n as f64, chang_roberts_one_starter_mean(n).value);
        assert!(chang_roberts_all_start(n).agrees(chang_roberts_all_start_mean(n).value));
        assert_eq!(messages("chang-roberts", n, NoticedBy::All), chang_roberts_all_start(n).least);
    }

    /// Enumerates all orders of four ids on a ring.
    #[test]
    fn the_mean_of_chang_roberts_is_the_mean_over_all_orders() {
        let n = 4;
        let mut orders = vec![vec![]];
        for id in 0..n {
            let insert = |order: &Vec<usize>, at: usize| [&order[..at], &[id], &order[at..]].concat();
            orders = orders.iter().flat_map(|order| (0..=order.len()).map(move |at| insert(order, at))).collect();
        }
        let hops = |order: &[usize], at: usize| {
            let beaten = |step: &usize| order[(at + step) % n] > order[at];
            (1..n).find(beaten).unwrap_or(n)
        };
        let total: usize = orders.iter().map(|order| n + (0..n).map(|at| hops(order, at)).sum::<usize>()).sum();
        let mean = total as f64 / orders.len() as f64;
        assert!((mean - chang_roberts_all_start_mean(n).value).abs() < 1e-9);
    }

    #[test]
    fn the_formulas_over_all_starters_are_those_of_the_single_starters() {
        for n in [2, 3, 5, 10] {
            let count = n as f64;
            let (messages, time) = over_starters("bully", None, n).unwrap();
            assert!((messages.mean.value - (count * (2.0 * count - 1.0) / 6.0 + count - 2.0)).abs() < 1e-9);
            assert_eq!((messages.best.value, messages.worst.value), (count - 1.0, count * count - count - 1.0));
            assert!(n == 2 || (time.mean.value - (4.0 * count - 5.0) / (count - 1.0)).abs() < 1e-9);
            for variant in [None, Some("descending")] {
                let (messages, _) = over_starters("chang-roberts", variant, n).unwrap();
                assert!((messages.mean.value - chang_roberts_one_starter_mean(n).value).abs() < 1e-9);
                assert_eq!((messages.best.value, messages.worst.value), (2.0 * count, 3.0 * count - 1.0));
            }
        }
        assert_eq!(over_starters("raft", None, 5), None);
    }

    #[test]
    fn unknown_ones_have_no_theory() {
        assert!(costs("raft", None, 5, NoticedBy::All).is_none());
        assert!(costs("bully", Some("witness"), 5, NoticedBy::All).is_none());
        assert!(costs("bully", None, 1, NoticedBy::All).is_none());
        assert_eq!(messages("ring-list", 5, NoticedBy::Lowest), 10.0);
    }
}
