//! What the cluster as a whole has agreed on: its secret, the longest TTL, and whether it is closed.
//!
//! - A first command of a leader gives the cluster a secret. A cluster that begins anew gets another one.
//! - A cluster that begins anew is *closed*: clients of the time before may still believe in their leases, so nothing is
//!   granted until all of those must have ended. Requests wait in their lines.
//! - The state knows how much of this time is left, and no clock: the leader counts the time in steps and proposes a
//!   command after each (`leases`). So time without a leader does not count, and another leader or a restart repeats at
//!   most one step. The wait may become longer, but never shorter.

mod record;
mod words;

use baton_types::limits::{FENCE_ANEW_MAX, FENCE_FROM_MAX, TTL_MS_MAX, TTL_MS_MIN};

pub use record::Record;
pub use words::{Command, Effect, Secret};

use super::limits::COUNTER_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    secret: Option<Secret>,
    max_ttl_ms: u64,
    /// How long the cluster still grants nothing; 0 if it is open.
    closed_ms: u64,
}

/// A cluster of before these words: it has no secret, and its sessions may have any TTL that a client may ask for.
impl Default for Cluster {
    fn default() -> Self {
        Cluster { secret: None, max_ttl_ms: TTL_MS_MAX, closed_ms: 0 }
    }
}

/// What a command of the cluster changes outside of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    Nothing,
    /// The next fence is at least this one.
    FencesFrom(u64),
    /// Nothing is granted for this long; 0: the cluster opens now.
    Closed {
        left_ms: u64,
    },
    /// All sessions end, the next fence is at least this one, and nothing is granted for this long.
    Anew {
        fence_from: u64,
        left_ms: u64,
    },
}

impl Cluster {
    /// The secret of all members; none if no leader has given one yet. Only members know it.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// A new session may have at most this TTL.
    pub fn max_ttl_ms(&self) -> u64 {
        self.max_ttl_ms
    }

    /// How long the cluster still grants nothing while a node leads; none if it is open.
    pub fn closed_ms(&self) -> Option<u64> {
        Some(self.closed_ms).filter(|left_ms| *left_ms > 0)
    }

    /// `is_new`: no session was ever opened. `longest_ttl_ms`: of the open sessions.
    pub(super) fn apply(&mut self, command: &Command, is_new: bool, longest_ttl_ms: u64) -> Consequence {
        match *command {
            Command::Found { ref secret, max_ttl_ms } => {
                if self.secret.is_none() {
                    self.secret = Some(secret.clone());
                    if is_new {
                        self.set_max_ttl(max_ttl_ms);
                    }
                }
            }
            Command::SetMaxTtl { max_ttl_ms } => self.set_max_ttl(max_ttl_ms),
            Command::RaiseFences { from } if from <= FENCE_FROM_MAX => return Consequence::FencesFrom(from),
            Command::RaiseFences { .. } => {}
            // A step that another leader counted, too, is named by the same numbers, and counts once.
            Command::Waited { from_ms, to_ms } if from_ms == self.closed_ms && to_ms < from_ms => {
                self.closed_ms = to_ms;
                return Consequence::Closed { left_ms: to_ms };
            }
            // Only the feed uses it.
            Command::Waited { .. } | Command::Leads(_) => {}
            Command::BeginAnew { ref secret, fence_from, wait_ms } => {
                self.secret = Some(secret.clone());
                let wait_ms = wait_ms.unwrap_or_else(|| self.leases_end_within(longest_ttl_ms));
                self.closed_ms = wait_ms.min(COUNTER_MAX);
                return Consequence::Anew { fence_from: fence_from.min(FENCE_ANEW_MAX), left_ms: self.closed_ms };
            }
        }
        Consequence::Nothing
    }

    /// All leases have ended after this time without a server. An open session may have a longer TTL than the cluster
    /// allows now, and a session that the state does not know has at most that one.
    pub(super) fn leases_end_within(&self, longest_ttl_ms: u64) -> u64 {
        self.max_ttl_ms.max(longest_ttl_ms).max(self.closed_ms)
    }

    pub(super) fn forget_secret(&mut self) {
        self.secret = None;
    }

    fn set_max_ttl(&mut self, max_ttl_ms: u64) {
        if (TTL_MS_MIN..=TTL_MS_MAX).contains(&max_ttl_ms) {
            self.max_ttl_ms = max_ttl_ms;
        }
    }

    /// Returns a sentence about the first inconsistency.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(TTL_MS_MIN..=TTL_MS_MAX).contains(&self.max_ttl_ms) {
            return Err(format!(
                "the longest TTL is {} ms; it must be from {TTL_MS_MIN} to {TTL_MS_MAX}",
                self.max_ttl_ms
            ));
        }
        match self.closed_ms > COUNTER_MAX {
            true => Err(format!("the cluster is closed for {} ms; it must be at most {COUNTER_MAX}", self.closed_ms)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of: u8) -> Command {
        Command::Found { secret: Secret([of; 32]), max_ttl_ms: 600_000 }
    }

    #[test]
    fn the_first_secret_stays_and_only_a_new_cluster_gets_the_shorter_longest_ttl() {
        for (is_new, max_ttl_ms) in [(true, 600_000), (false, TTL_MS_MAX)] {
            let mut cluster = Cluster::default();
            assert_eq!((cluster.secret(), cluster.max_ttl_ms()), (None, TTL_MS_MAX));
            assert_eq!(cluster.apply(&found(1), is_new, 0), Consequence::Nothing);
            cluster.apply(&found(2), true, 0);
            assert_eq!((cluster.secret(), cluster.max_ttl_ms()), (Some(&Secret([1; 32])), max_ttl_ms));
        }
    }

    #[test]
    fn a_longest_ttl_outside_of_what_clients_may_ask_for_changes_nothing() {
        let mut cluster = Cluster::default();
        for (asked, max_ttl_ms) in [(5_000, 5_000), (999, 5_000), (TTL_MS_MAX + 1, 5_000), (TTL_MS_MAX, TTL_MS_MAX)] {
            cluster.apply(&Command::SetMaxTtl { max_ttl_ms: asked }, false, 0);
            assert_eq!(cluster.max_ttl_ms(), max_ttl_ms);
        }
    }

    #[test]
    fn a_step_of_the_wait_counts_once_and_only_downwards() {
        let mut cluster = Cluster { closed_ms: 2_500, ..Cluster::default() };
        let mut waited = |from_ms, to_ms| cluster.apply(&Command::Waited { from_ms, to_ms }, false, 0);
        assert_eq!(waited(2_500, 1_500), Consequence::Closed { left_ms: 1_500 });
        assert_eq!(waited(2_500, 1_500), Consequence::Nothing);
        assert_eq!(waited(1_500, 9_000), Consequence::Nothing);
        assert_eq!(waited(1_500, 0), Consequence::Closed { left_ms: 0 });
        assert_eq!(waited(0, 0), Consequence::Nothing);
        assert_eq!(cluster.closed_ms(), None);
    }

    #[test]
    fn a_cluster_that_begins_anew_waits_for_the_longest_lease_that_may_be_left() {
        let begin = |cluster: &mut Cluster, wait_ms, longest_ttl_ms| {
            let command = Command::BeginAnew { secret: Secret([9; 32]), fence_from: u64::MAX, wait_ms };
            let Consequence::Anew { fence_from, left_ms } = cluster.apply(&command, false, longest_ttl_ms) else {
                panic!("it does not begin anew")
            };
            assert_eq!((fence_from, Some(left_ms).filter(|ms| *ms > 0)), (FENCE_ANEW_MAX, cluster.closed_ms()));
            assert_eq!(cluster.secret(), Some(&Secret([9; 32])));
            left_ms
        };
        let mut cluster = Cluster { secret: Some(Secret([1; 32])), max_ttl_ms: 60_000, closed_ms: 0 };
        assert_eq!(begin(&mut cluster, None, 5_000), 60_000);
        cluster.set_max_ttl(1_000);
        assert_eq!(begin(&mut cluster, None, 70_000), 70_000, "a session of before --max-ttl was lowered");
        assert_eq!(begin(&mut cluster, None, 0), 70_000, "the wait of an earlier beginning is not over");
        assert_eq!(begin(&mut cluster, Some(10), 70_000), 10);
        assert_eq!(begin(&mut cluster, Some(0), 70_000), 0);
        assert_eq!(begin(&mut cluster, None, 0), 1_000);
        assert_eq!(begin(&mut cluster, Some(u64::MAX), 0), COUNTER_MAX);
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret([7; 32])), "Secret(..)");
    }
}
