//! Records the last failure of each server, and decides whether another attempt can succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::servers::{Rounds, Servers};

/// Why an attempt at a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Every attempt at this server will fail. The sentence names the server.
    Final(String),
    /// Another attempt may succeed. The sentence names the server.
    Passing(String),
    /// The server answered nothing for the time `within`.
    Silent {
        /// Whether the server accepted a connection.
        accepts: bool,
        within: Duration,
    },
}

/// The last failure of each server that was tried.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<usize, Failure>);

impl Failures {
    /// Records a failure of the server of this turn.
    pub(crate) fn note(&mut self, servers: &Servers, turn: usize, failure: Failure) {
        let server = turn % servers.count();
        match (self.0.get_mut(&server), failure) {
            // The server was silent in both attempts: add up the times.
            (Some(Failure::Silent { accepts, within }), Failure::Silent { accepts: also, within: more }) => {
                *accepts |= also;
                *within = within.saturating_add(more);
            }
            // The last attempt may be cut short by the time limit. Its silence says less than an earlier failure.
            (Some(_), Failure::Silent { .. }) => {}
            (_, failure) => drop(self.0.insert(server, failure)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no server is left to try.
    pub(crate) fn is_hopeless(&self, servers: &Servers, rounds: Rounds) -> bool {
        let is_final = |failure: &Failure| matches!(failure, Failure::Final(_));
        self.0.len() == servers.count() && (rounds == Rounds::One || self.0.values().all(is_final))
    }

    /// One reason for each server, separated by semicolons. A reason of all of them comes once.
    pub(crate) fn reasons(&self, servers: &Servers) -> String {
        let reason = |server| match self.0.get(&server) {
            Some(Failure::Final(reason) | Failure::Passing(reason)) => reason.clone(),
            Some(Failure::Silent { accepts, within }) => {
                let accepts =
                    if *accepts { "accepts connections, but did not answer" } else { "did not accept a connection" };
                format!("{} {accepts} within {} s", servers.address(server), in_tenths(*within))
            }
            None => format!("{} did not answer in time", servers.address(server)),
        };
        let mut reasons: Vec<String> = (0..servers.count()).map(reason).collect();
        reasons.dedup();
        reasons.join("; ")
    }
}

/// Seconds, rounded to one digit after the point.
fn in_tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Failure = Failure::Silent { accepts: false, within: Duration::from_millis(2_500) };
    const MUTE: Failure = Failure::Silent { accepts: true, within: Duration::from_millis(5_010) };

    fn passing(reason: &str) -> Failure {
        Failure::Passing(reason.to_owned())
    }

    fn servers() -> Servers {
        Servers::parse(["a:1", "b:2"]).unwrap()
    }

    #[test]
    fn each_server_has_what_went_wrong_there_last() {
        let (servers, mut failures) = (servers(), Failures::default());
        assert_eq!(failures.reasons(&servers), "a:1 did not answer in time; b:2 did not answer in time");
        failures.note(&servers, 3, passing("b:2: refused"));
        failures.note(&servers, 4, passing("a:1: refused"));
        failures.note(&servers, 5, passing("b:2: no room"));
        assert_eq!(failures.reasons(&servers), "a:1: refused; b:2: no room");
        failures.note(&servers, 6, SILENT);
        assert_eq!(failures.reasons(&servers), "a:1: refused; b:2: no room");
    }

    #[test]
    fn a_server_that_is_silent_in_each_attempt_was_silent_for_all_of_them() {
        let (servers, mut failures) = (servers(), Failures::default());
        failures.note(&servers, 0, SILENT);
        failures.note(&servers, 1, MUTE);
        let told =
            "a:1 did not accept a connection within 2.5 s; b:2 accepts connections, but did not answer within 5 s";
        assert_eq!(failures.reasons(&servers), told);
        failures.note(&servers, 0, MUTE);
        failures.note(&servers, 1, passing("b:2: refused"));
        let told = "a:1 accepts connections, but did not answer within 7.5 s; b:2: refused";
        assert_eq!(failures.reasons(&servers), told);
    }

    #[test]
    fn there_is_hope_until_each_server_has_failed_once_or_for_good() {
        let (servers, mut failures) = (servers(), Failures::default());
        let hopeless =
            |failures: &Failures| [Rounds::One, Rounds::Until].map(|rounds| failures.is_hopeless(&servers, rounds));
        let last = || Failure::Final("no such host".to_owned());
        failures.note(&servers, 0, last());
        assert_eq!(hopeless(&failures), [false, false]);
        failures.note(&servers, 1, MUTE);
        assert_eq!(hopeless(&failures), [true, false]);
        failures.note(&servers, 3, last());
        assert_eq!(hopeless(&failures), [true, true]);
    }
}
