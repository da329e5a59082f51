//! Majority voting: the probability that forgetful coordinators make it unsafe, and how well it uses the critical
//! section.

/// How many coordinators the second client sends its request to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Exactly m coordinators, chosen at random.
    Some,
    /// All n coordinators.
    All,
}

/// The probability that a second client enters while a first one is inside with m votes of n coordinators. Each of
/// these m coordinators has forgotten its vote with probability `p`.
///
/// The second client needs m votes. n - m coordinators never voted, so at least 2m - n of the first client's m voters
/// must have forgotten. If k have forgotten, n - m + k votes are free. A client that asks all coordinators gets them
/// all; a client that asks m at random must ask only coordinators with a free vote.
pub fn violation_probability(coordinators: usize, votes: usize, p: f64, ask: Ask) -> f64 {
    let (n, m) = (coordinators, votes);
    let forgotten = (2 * m).saturating_sub(n)..=m;
    forgotten
        .map(|k| {
            let so_many = choose(m, k) * p.powi(k as i32) * (1.0 - p).powi((m - k) as i32);
            let hit = match ask {
                Ask::All => 1.0,
                Ask::Some => choose(n - m + k, m) / choose(n, m),
            };
            so_many * hit
        })
        .sum()
}

/// The share of time in which the critical section is used, while a request always waits: E/(E + S), with the mean sync
/// delay S.
pub fn utilization(hold: f64, sync_delay: f64) -> f64 {
    hold / (hold + sync_delay)
}

/// The messages of one entry after `attempts` attempts. The failed attempts gave back `given_back` votes.
pub fn messages(votes: usize, attempts: usize, given_back: usize) -> usize {
    2 * votes * attempts + votes + given_back
}

/// The binomial coefficient: n over k.
fn choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the value equals the printed one to all printed digits.
    fn is(value: f64, printed: &str) {
        let digits = printed.split('e').next().unwrap().trim_start_matches(['0', '.']).replace('.', "").len();
        let (got, expected) =
            (format!("{value:.*e}", digits - 1), format!("{:.*e}", digits - 1, printed.parse::<f64>().unwrap()));
        assert_eq!(got, expected);
    }

    #[test]
    fn the_worked_numbers() {
        let rare = 3.0 / 3600.0;
        is(violation_probability(8, 5, rare, Ask::All), "6.9e-6");
        is(violation_probability(16, 9, rare, Ask::All), "2.5e-5");
        is(violation_probability(32, 17, rare, Ask::All), "9.4e-5");
        is(violation_probability(8, 6, rare, Ask::All), "7.2e-12");
        let often = 30.0 / 3600.0;
        is(violation_probability(8, 5, often, Ask::All), "6.8e-4");
        is(violation_probability(16, 9, often, Ask::All), "2.4e-3");
        is(violation_probability(32, 17, often, Ask::All), "8.7e-3");
        is(violation_probability(8, 5, rare, Ask::Some), "1.2e-7");
    }

    /// A simulation with p = 0.2 gave .264 and .0116. The formula must come close.
    #[test]
    fn the_simulated_numbers() {
        for (ask, formula, simulated) in [(Ask::All, "0.2627", 0.264), (Ask::Some, "0.01186", 0.0116)] {
            let value = violation_probability(8, 5, 0.2, ask);
            is(value, formula);
            assert!((value / simulated - 1.0).abs() < 0.03);
        }
    }

    #[test]
    fn nobody_forgets_nobody_gets_in() {
        for ask in [Ask::Some, Ask::All] {
            assert_eq!(violation_probability(8, 5, 0.0, ask), 0.0);
            assert!((violation_probability(8, 5, 1.0, ask) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn pascal() {
        assert_eq!([choose(5, 0), choose(5, 2), choose(8, 5), choose(5, 5)].map(f64::round), [1.0, 10.0, 56.0, 1.0]);
    }

    #[test]
    fn one_attempt_takes_three_messages_a_vote() {
        assert_eq!(messages(5, 1, 0), 15);
        assert_eq!(messages(5, 3, 4), 39);
        assert_eq!(utilization(1.0, 2.0), 1.0 / 3.0);
    }
}
