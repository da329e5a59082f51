//! The rule that says when a command must stop, as a pure state machine.
//!
//! A command runs under a lease that ends at a deadline. Let `grace` be the smaller of 5 s and a third of the lease's
//! TTL:
//!
//! ```text
//!   renewed                          SIGTERM      SIGKILL      deadline: another client may get the lock
//!      |---------------------------------|------------|------------|
//!                                         grace/2      grace/2
//! ```
//!
//! A renewal moves the whole schedule later, until SIGTERM was sent. After SIGTERM the run ends in any case. The
//! command may have to stop earlier: the lock is revoked, or `baton lock` is gone. Then the same ending starts at once:
//! SIGTERM, and SIGKILL `grace/2` later, but not later than in the schedule. If `step` is called only after the time for
//! SIGKILL, it returns SIGKILL at once, without SIGTERM.
//!
//! When the command ends by itself, the processes that it left behind linger for a while before the same ending starts:
//! most of them are about to end, too. Meanwhile all of the above holds for them.
//!
//! `baton lock` and its watchdog both run this machine, so that either of them may fail. To drive it, call `step` for
//! each input, and with `Input::Tick` at `wake_at_ms`, after all renewals that wait to be read. Then do the returned
//! action. Times are milliseconds of CLOCK_BOOTTIME.

use serde::{Deserialize, Serialize};

/// The longest time between SIGTERM and the deadline.
const GRACE_MS_MAX: u64 = 5_000;

/// The times of the signals under a lease that is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub term_at_ms: u64,
    pub kill_at_ms: u64,
}

pub fn schedule(deadline_ms: u64, ttl_ms: u64) -> Schedule {
    let term_at_ms = deadline_ms.saturating_sub(grace_ms(ttl_ms));
    Schedule { term_at_ms, kill_at_ms: term_at_ms + (deadline_ms - term_at_ms) / 2 }
}

fn grace_ms(ttl_ms: u64) -> u64 {
    GRACE_MS_MAX.min(ttl_ms / 3)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Tick,
    /// The lease was renewed.
    Renewed {
        /// The new end of the lease.
        deadline_ms: u64,
    },
    /// The command must end.
    Stop(Reason),
    /// The command ended by itself, and left processes behind. Repetitions do nothing.
    CommandEnded,
    /// Another client has the lock, or may have it.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The lock is lost, or about to be lost.
    LockLost,
    /// `baton lock`, which renews the lease, is gone.
    ClientGone,
    /// The command ended by itself, and the processes that it left behind did not end in time.
    CommandEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send SIGTERM to all processes of the command.
    Terminate,
    /// Send SIGKILL repeatedly, until no process is left.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The command has ended by itself, and processes that it left behind may go on for a while.
    Lingering {
        until_ms: u64,
    },
    Stopping {
        kill_at_ms: u64,
    },
    Killing,
}

/// The state machine for one command.
#[derive(Clone, Debug)]
pub struct Supervisor {
    ttl_ms: u64,
    deadline_ms: u64,
    /// How long processes may go on after the end of the command.
    linger_ms: u64,
    phase: Phase,
    reason: Option<Reason>,
}

impl Supervisor {
    /// For a command that starts now, under a lease that ends at this deadline unless it is renewed.
    pub fn new(ttl_ms: u64, deadline_ms: u64, linger_ms: u64) -> Self {
        Supervisor { ttl_ms, deadline_ms, linger_ms, phase: Phase::Running, reason: None }
    }

    /// Handles an input, and returns the action that is due.
    pub fn step(&mut self, now_ms: u64, input: Input) -> Option<Action> {
        match input {
            Input::Tick => {}
            Input::Renewed { deadline_ms } => {
                // Renewals may be read in any order; the latest deadline counts. Only a tick may find that the lease
                // has ended, because a later renewal may still wait to be read.
                if self.goes_on() {
                    self.deadline_ms = self.deadline_ms.max(deadline_ms);
                }
                return None;
            }
            Input::Stop(reason) => return self.stop(now_ms, reason),
            Input::CommandEnded => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Lingering { until_ms: now_ms.saturating_add(self.linger_ms) };
                }
            }
            Input::Lost => return self.kill(Reason::LockLost),
        }
        let Schedule { term_at_ms, .. } = schedule(self.deadline_ms, self.ttl_ms);
        match self.phase {
            _ if self.goes_on() && now_ms >= term_at_ms => self.stop(now_ms, Reason::LockLost),
            Phase::Lingering { until_ms } if now_ms >= until_ms => self.stop(now_ms, Reason::CommandEnded),
            Phase::Stopping { kill_at_ms } if now_ms >= kill_at_ms => self.kill(Reason::LockLost),
            _ => None,
        }
    }

    /// When to call `step` with a tick, if no other input comes first.
    pub fn wake_at_ms(&self) -> Option<u64> {
        let term_at_ms = schedule(self.deadline_ms, self.ttl_ms).term_at_ms;
        match self.phase {
            Phase::Running => Some(term_at_ms),
            Phase::Lingering { until_ms } => Some(until_ms.min(term_at_ms)),
            Phase::Stopping { kill_at_ms } => Some(kill_at_ms),
            Phase::Killing => None,
        }
    }

    /// Why the run is over, if it is. The first reason stays.
    pub fn over(&self) -> Option<Reason> {
        self.reason
    }

    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// The latest known end of the lease.
    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    /// Whether nothing was asked to end yet.
    fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Lingering { .. })
    }

    fn stop(&mut self, now_ms: u64, reason: Reason) -> Option<Action> {
        if !self.goes_on() {
            return None;
        }
        let latest_ms = schedule(self.deadline_ms, self.ttl_ms).kill_at_ms;
        if now_ms >= latest_ms {
            return self.kill(reason);
        }
        let kill_at_ms = latest_ms.min(now_ms + grace_ms(self.ttl_ms) / 2);
        self.phase = Phase::Stopping { kill_at_ms };
        self.reason.get_or_insert(reason);
        Some(Action::Terminate)
    }

    fn kill(&mut self, reason: Reason) -> Option<Action> {
        let first = self.phase != Phase::Killing;
        self.phase = Phase::Killing;
        self.reason.get_or_insert(reason);
        first.then_some(Action::Kill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_MS: u64 = 9_000;

    /// Granted at 1 s: SIGTERM at 7 s, SIGKILL at 8.5 s, deadline at 10 s.
    fn running() -> Supervisor {
        Supervisor::new(TTL_MS, 10_000, 2_000)
    }

    #[test]
    fn the_schedule_of_the_manual() {
        assert_eq!(schedule(100_000, 60_000), Schedule { term_at_ms: 95_000, kill_at_ms: 97_500 });
        assert_eq!(schedule(100_000, 9_000), Schedule { term_at_ms: 97_000, kill_at_ms: 98_500 });
        assert_eq!(schedule(100_000, 1_000), Schedule { term_at_ms: 99_667, kill_at_ms: 99_833 });
        assert_eq!(schedule(1_000, 86_400_000), Schedule { term_at_ms: 0, kill_at_ms: 500 });
    }

    #[test]
    fn every_schedule_ends_before_its_deadline() {
        for ttl_ms in (1_000..86_400_000).step_by(99_991) {
            let Schedule { term_at_ms, kill_at_ms } = schedule(ttl_ms, ttl_ms);
            assert!(0 < term_at_ms && term_at_ms < kill_at_ms && kill_at_ms < ttl_ms, "{ttl_ms}");
            assert!(ttl_ms - term_at_ms <= GRACE_MS_MAX);
        }
    }

    #[test]
    fn a_lease_that_is_not_renewed_ends_the_run() {
        let mut run = running();
        assert_eq!(run.wake_at_ms(), Some(7_000));
        assert_eq!(run.step(6_999, Input::Tick), None);
        assert_eq!(run.over(), None);
        assert_eq!(run.step(7_000, Input::Tick), Some(Action::Terminate));
        assert_eq!(run.wake_at_ms(), Some(8_500));
        assert_eq!(run.step(8_499, Input::Tick), None);
        assert_eq!(run.step(8_500, Input::Tick), Some(Action::Kill));
        assert_eq!((run.over(), run.wake_at_ms()), (Some(Reason::LockLost), None));
        assert_eq!(run.step(9_000, Input::Tick), None);
    }

    #[test]
    fn a_renewal_moves_everything_later_and_never_back() {
        let mut run = running();
        assert_eq!(run.step(6_000, Input::Renewed { deadline_ms: 15_000 }), None);
        assert_eq!(run.step(6_001, Input::Renewed { deadline_ms: 12_000 }), None);
        assert_eq!((run.wake_at_ms(), run.deadline_ms()), (Some(12_000), 15_000));
        assert_eq!(run.step(12_000, Input::Tick), Some(Action::Terminate));
    }

    #[test]
    fn a_renewal_that_was_read_late_still_counts() {
        let mut run = running();
        assert_eq!(run.step(9_999, Input::Renewed { deadline_ms: 14_000 }), None);
        assert_eq!(run.over(), None);
    }

    #[test]
    fn of_all_the_renewals_that_were_read_late_the_best_counts() {
        let mut run = running();
        for deadline_ms in [13_000, 16_000, 60_000] {
            assert_eq!(run.step(50_000, Input::Renewed { deadline_ms }), None);
        }
        assert_eq!(run.step(50_000, Input::Tick), None);
        let mut run = running();
        assert_eq!(run.step(50_000, Input::Renewed { deadline_ms: 13_000 }), None);
        assert_eq!(run.step(50_000, Input::Tick), Some(Action::Kill));
    }

    #[test]
    fn after_sigterm_no_renewal_helps() {
        let mut run = running();
        assert_eq!(run.step(7_000, Input::Tick), Some(Action::Terminate));
        assert_eq!(run.step(7_001, Input::Renewed { deadline_ms: 16_000 }), None);
        assert_eq!(run.step(8_500, Input::Tick), Some(Action::Kill));
    }

    #[test]
    fn whoever_wakes_up_too_late_kills_at_once() {
        let mut run = running();
        assert_eq!(run.step(8_500, Input::Tick), Some(Action::Kill));
        let mut run = running();
        assert_eq!(run.step(1_000_000, Input::Stop(Reason::ClientGone)), Some(Action::Kill));
    }

    #[test]
    fn an_early_end_has_the_same_grace_but_never_beyond_the_lease() {
        let mut run = running();
        assert_eq!(run.step(2_000, Input::Stop(Reason::ClientGone)), Some(Action::Terminate));
        assert_eq!(run.wake_at_ms(), Some(3_500));
        assert_eq!(run.step(2_001, Input::CommandEnded), None);
        assert_eq!(run.over(), Some(Reason::ClientGone));
        let mut run = running();
        assert_eq!(run.step(8_000, Input::Stop(Reason::ClientGone)), Some(Action::Terminate));
        assert_eq!(run.wake_at_ms(), Some(8_500));
    }

    #[test]
    fn what_is_lost_already_is_killed_without_grace() {
        let mut run = running();
        assert_eq!(run.step(2_000, Input::Lost), Some(Action::Kill));
        assert_eq!(run.step(2_001, Input::Lost), None);
        assert_eq!(run.over(), Some(Reason::LockLost));
        let mut run = running();
        run.step(2_000, Input::CommandEnded);
        assert_eq!(run.step(4_000, Input::Tick), Some(Action::Terminate));
        assert_eq!(run.step(4_001, Input::Lost), Some(Action::Kill));
        assert_eq!(run.over(), Some(Reason::CommandEnded));
    }

    #[test]
    fn what_a_command_leaves_behind_may_linger() {
        let mut run = running();
        assert_eq!(run.step(2_000, Input::CommandEnded), None);
        assert_eq!(run.step(3_000, Input::CommandEnded), None);
        assert_eq!((run.over(), run.wake_at_ms()), (None, Some(4_000)));
        assert_eq!(run.step(3_999, Input::Tick), None);
        assert_eq!(run.step(4_000, Input::Tick), Some(Action::Terminate));
        assert_eq!((run.over(), run.wake_at_ms()), (Some(Reason::CommandEnded), Some(5_500)));
        let mut run = Supervisor::new(TTL_MS, 10_000, 0);
        assert_eq!(run.step(2_000, Input::CommandEnded), Some(Action::Terminate));
    }

    #[test]
    fn what_lingers_ends_before_the_lease_and_a_renewal_lets_it_linger_on() {
        let lingering = || {
            let mut run = running();
            assert_eq!(run.step(6_500, Input::CommandEnded), None);
            run
        };
        let mut run = lingering();
        assert_eq!(run.wake_at_ms(), Some(7_000));
        assert_eq!(run.step(7_000, Input::Tick), Some(Action::Terminate));
        assert_eq!(run.over(), Some(Reason::LockLost));
        let mut run = lingering();
        assert_eq!(run.step(6_600, Input::Renewed { deadline_ms: 12_000 }), None);
        assert_eq!(run.wake_at_ms(), Some(8_500));
        assert_eq!(run.step(8_500, Input::Tick), Some(Action::Terminate));
        assert_eq!(run.over(), Some(Reason::CommandEnded));
        for (input, action) in [(Input::Stop(Reason::ClientGone), Action::Terminate), (Input::Lost, Action::Kill)] {
            assert_eq!(lingering().step(6_600, input), Some(action));
        }
    }
}
