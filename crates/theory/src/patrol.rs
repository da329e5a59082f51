//! A token that never rests, and clients that request at random times: the plain token ring under random load.
//!
//! It is the patrolling repairman of Mack, Murphy and Webb (1957): n machines on a circle, one repairman who walks from
//! each to the next in T and repairs a broken machine in E. A client thinks for a random time with mean 1/l
//! (exponentially distributed), so it waits when the token comes with probability 1 - e^(-lt), t after the token has
//! left it. If m of the other n-1 clients have entered since then, t = nT + mE. So the last n visits form a Markov
//! chain. In its steady state, a pattern with m entries has a weight that depends on m alone: the product of
//! e^(l(nT + jE)) - 1 for j from 0 to m-1.
//!
//! All sums are of positive terms that may be too large for a float, so they are kept as logarithms.

use crate::Expectation;
use crate::mutex::{Costs, Setting};

/// The costs of the plain token ring under random load, if every message takes T. The rarer the requests, the nearer the
/// client delay is to n/2.
pub fn costs(setting: &Setting) -> Costs {
    let patrol = setting.constant_delay.then(|| patrol(setting.n, setting.hold, setting.think)).flatten();
    let Some(Patrol { messages_per_entry, client_delay, sync_delay }) = patrol else { return Costs::default() };
    let mean = |formula: &str, value| Some(Expectation::mean(formula, value));
    Costs {
        messages_per_entry: mean("hops of a patrol", messages_per_entry),
        client_delay: mean("n/2, and more while others hold the token", client_delay),
        // Of rare requests, the process i hops ahead of the leaving one waits with a chance in proportion to n-i, the hops
        // since the token left it: the mean of i is then (n+1)/3. What is requested during E comes from all alike, mean n/2.
        sync_delay: sync_delay.and_then(|value| mean("(n+1)/3, less if several wait, more if E is long", value)),
        sync_delay_max: Some(Expectation::at_most("n-1", setting.n as f64 - 1.0)),
        ..Costs::default()
    }
}

/// What a client of the token ring may expect, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patrol {
    /// The number of hops for each entry.
    pub messages_per_entry: f64,
    /// The time from a request to its entry, in T.
    pub client_delay: f64,
    /// The time from an exit to the next entry, if a client waits at the exit, in T. None if that is so rare that the
    /// result would be a rounding error.
    pub sync_delay: Option<f64>,
}

/// `hold` is E and `think` is 1/l, both in T. None without clients that compete, or if E or 1/l is 0.
pub fn patrol(n: usize, hold: f64, think: f64) -> Option<Patrol> {
    if n < 2 || hold <= 0.0 || think <= 0.0 {
        return None;
    }
    let (count, rate) = (n as f64, 1.0 / think);
    let weights = weights(n, hold, rate);
    // Entries per round of the token: n times the chance that a visit is an entry.
    let of_visits = |m: usize| ln_choose(n, m) + weights[m];
    let of_entries = |m: usize| ln_choose(n - 1, m - 1) + weights[m];
    let entry = (ln_sum((1..=n).map(of_entries)) - ln_sum((0..=n).map(of_visits))).exp();
    // The time from one entry to the next, and Little's law for the n clients.
    let messages_per_entry = 1.0 / entry;
    let between_exit_and_entry = messages_per_entry;
    let client_delay = count * (between_exit_and_entry + hold) - hold - think;
    let nobody_waits = nobody_waits_at_exit(n, hold, rate, &weights);
    let with_nobody = nobody_waits * hops_from_nobody(n, rate);
    let somebody_waits = 1.0 - nobody_waits;
    let is_precise = 1e-13 * between_exit_and_entry < 1e-3 * somebody_waits;
    let sync_delay = is_precise.then(|| (between_exit_and_entry - with_nobody) / somebody_waits);
    Some(Patrol { messages_per_entry, client_delay, sync_delay })
}

/// The logarithm of the weight of a pattern with m entries among the last n visits, for m from 0 to n.
fn weights(n: usize, hold: f64, rate: f64) -> Vec<f64> {
    let mut weights = vec![0.0];
    for j in 0..n {
        let x = rate * (n as f64 + j as f64 * hold);
        // ln(e^x - 1)
        weights.push(weights[j] + x + (-(-x).exp()).ln_1p());
    }
    weights
}

/// The chance that no client waits at an exit. The client that is i hops behind the leaving one, and so n-i ahead of the
/// token, has thought for i T and for the entries of the clients between. So a pattern of visits counts with y to the
/// power of the sum of its places, where y = e^(-lE): the sums over all patterns are Gaussian binomials.
fn nobody_waits_at_exit(n: usize, hold: f64, rate: f64, weights: &[f64]) -> f64 {
    let walks = -rate * (n * (n - 1)) as f64 / 2.0;
    let y = -rate * hold;
    let part = |power: usize| (-(y * power as f64).exp_m1()).ln();
    let mut binomial = 0.0;
    let mut terms = Vec::new();
    for others in 0..n {
        if others > 0 {
            binomial += part(n - others) - part(others);
        }
        let own = n - 1;
        let places = own + others * others.saturating_sub(1) / 2;
        terms.push(weights[others + 1] + binomial + y * places as f64);
    }
    let all = ln_sum((1..=n).map(|m| ln_choose(n - 1, m - 1) + weights[m]));
    (walks + ln_sum(terms.into_iter()) - all).exp()
}

/// The mean number of hops to the next entry, if no client waits when the token leaves. The client i hops ahead then has
/// i T to request; after a whole round, n T.
fn hops_from_nobody(n: usize, rate: f64) -> f64 {
    let none_up_to = |hops: usize| (-rate * (hops * (hops + 1)) as f64 / 2.0).exp();
    let round = none_up_to(n);
    (0..n).map(none_up_to).sum::<f64>() + round / -(-rate * n as f64).exp_m1()
}

/// The logarithm of a sum of numbers that are given by their logarithms.
fn ln_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    most + terms.map(|term| (term - most).exp()).sum::<f64>().ln()
}

fn ln_choose(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_request_waits_for_half_the_ring() {
        for n in [2, 5, 10, 100] {
            let rare = patrol(n, 1.0, 2e3 * n as f64).unwrap();
            let near = |value: f64, expected: f64| (value - expected).abs() < 0.01 * expected;
            assert!(near(rare.client_delay, n as f64 / 2.0), "{n}: {rare:?}");
            // A client that the token has just left rarely waits, so the next entry is nearer than n/2.
            let places = |i: usize| (n - i) as f64 + 1.0;
            let weight: f64 = (1..n).map(places).sum();
            let mean = (1..n).map(|i| i as f64 * places(i)).sum::<f64>() / weight;
            assert!(near(rare.sync_delay.unwrap(), mean), "{n}: {rare:?} and not {mean}");
        }
        assert_eq!(patrol(2, 1.0, 1e9).unwrap().sync_delay, None);
    }

    /// The figures of an independent simulation of the patrol, with 400,000 hops.
    #[test]
    fn the_simulated_numbers() {
        let simulated =
            [(5, 50.0, [9.728, 2.775, 1.990]), (12, 120.0, [9.632, 6.726, 3.795]), (12, 12.0, [1.210, 13.523, 1.210])];
        for (n, think, expected) in simulated {
            let Patrol { messages_per_entry, client_delay, sync_delay } = patrol(n, 1.0, think).unwrap();
            for (value, expected) in [messages_per_entry, client_delay, sync_delay.unwrap()].into_iter().zip(expected) {
                assert!((value - expected).abs() < 0.01 * expected, "n = {n}: {value} and not {expected}");
            }
        }
    }

    #[test]
    fn under_constant_load_the_token_hops_once() {
        let busy = patrol(20, 1.0, 1e-3).unwrap();
        let about = |value: f64, expected: f64| (value - expected).abs() < 0.01 * expected;
        assert!(about(busy.messages_per_entry, 1.0) && about(busy.sync_delay.unwrap(), 1.0), "{busy:?}");
        assert!(about(busy.client_delay, 39.0), "n(E+S)-E: {busy:?}");
    }

    #[test]
    fn large_groups_do_not_overflow() {
        for (n, think) in [(1_000, 10_000.0), (1_000, 1.0), (2, 1e-6)] {
            let Patrol { messages_per_entry, client_delay, sync_delay } = patrol(n, 1.0, think).unwrap();
            let values = [messages_per_entry, client_delay, sync_delay.unwrap()];
            assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
        }
        assert_eq!(patrol(5, 0.0, 1.0), None);
        assert_eq!(patrol(5, 1.0, 0.0), None);
    }
}
