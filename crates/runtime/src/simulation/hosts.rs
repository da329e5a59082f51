//! Machines.

use std::time::Duration;

use super::tasks::TaskId;
use super::{Nanos, Simulation, World, running, tasks};

/// A machine of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// The clock of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What it shows at the beginning.
    pub starts_at: Duration,
    /// How much faster than true time it is, in parts of a million.
    pub fast_ppm: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { starts_at: Duration::from_secs(1_000), fast_ppm: 0 }
    }
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// What it shows at this moment of true time.
    pub(super) fn read(&self, now: Nanos) -> Nanos {
        let passed = i128::from(now) * (MILLION + i128::from(self.fast_ppm)) / MILLION;
        (self.starts_at.as_nanos() as i128 + passed) as Nanos
    }

    /// The first moment of true time at which it shows this much.
    pub(super) fn when(&self, shown: Nanos) -> Nanos {
        let passed = i128::from(shown) - self.starts_at.as_nanos() as i128;
        let rate = MILLION + i128::from(self.fast_ppm);
        let now = (passed.max(0) * MILLION + rate - 1) / rate;
        Nanos::try_from(now).unwrap_or(Nanos::MAX)
    }
}

pub(super) struct Host {
    pub clock: Clock,
    is_paused: bool,
    /// Tasks that became ready during a pause.
    parked: Vec<TaskId>,
    /// How long an operation of the disk takes, at least and at most.
    pub disk: (Nanos, Nanos),
    /// How much longer a large write takes, at most.
    pub large: Nanos,
    stop_after: Option<u64>,
    /// How many polls of its tasks there were.
    polls: u64,
    /// True while the machine is being killed: it starts no tasks.
    pub is_dying: bool,
}

impl Host {
    pub fn new(clock: Clock) -> Host {
        let disk = (10_000, 200_000);
        let parked = Vec::new();
        Host { clock, is_paused: false, parked, disk, large: 0, stop_after: None, polls: 0, is_dying: false }
    }

    /// Counts a poll. True if the machine is to stop after it.
    pub fn is_last_poll(&mut self) -> bool {
        self.polls += 1;
        let Some(left) = &mut self.stop_after else { return false };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        if is_last {
            self.stop_after = None;
        }
        is_last
    }
}

impl World {
    /// The machine of a task that is ready, unless the machine is paused, or the task is gone.
    pub(super) fn to_poll(&self, task: TaskId) -> Option<(HostId, tasks::TaskRef)> {
        let (host, waker) = self.tasks.borrow().get(task)?;
        let mut hosts = self.hosts.borrow_mut();
        let state = &mut hosts[host.0];
        if state.is_paused {
            state.parked.push(task);
            return None;
        }
        Some((host, waker))
    }
}

impl Simulation {
    /// The tasks of the machine stand still. Its clock goes on.
    pub fn pause(&self, host: HostId) {
        self.world.hosts.borrow_mut()[host.0].is_paused = true;
    }

    pub fn resume(&self, host: HostId) {
        let mut hosts = self.world.hosts.borrow_mut();
        let state = &mut hosts[host.0];
        state.is_paused = false;
        let parked = std::mem::take(&mut state.parked);
        drop(hosts);
        parked.into_iter().for_each(|task| self.world.ready.put(task));
    }

    /// Ends all tasks of a machine, wherever they wait. Its connections break. If it is `silent`, nobody else hears of it,
    /// as after a power cut.
    pub fn kill(&self, host: HostId, silent: bool) {
        let _entered = self.enter(host);
        {
            let mut hosts = self.world.hosts.borrow_mut();
            let state = &mut hosts[host.0];
            (state.is_dying, state.is_paused, state.stop_after) = (true, false, None);
            state.parked.clear();
        }
        self.world.network.borrow_mut().dies(host, silent);
        let ended = self.world.tasks.borrow_mut().take_of(host);
        drop(ended);
        self.world.hosts.borrow_mut()[host.0].is_dying = false;
        self.world.network.borrow_mut().is_dead(host);
    }

    /// From now on a large write takes up to this much longer than another operation of the machine's disk.
    pub fn set_large_writes(&self, host: HostId, most: Duration) {
        self.world.hosts.borrow_mut()[host.0].large = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    }

    /// From now on an operation of the machine's disk takes this long.
    pub fn set_disk(&self, host: HostId, least: Duration, most: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.world.hosts.borrow_mut()[host.0].disk = (nanos(least), nanos(most).max(nanos(least)));
    }

    /// How many polls of the machine's tasks there were.
    pub fn polls_of(&self, host: HostId) -> u64 {
        self.world.hosts.borrow()[host.0].polls
    }

    /// How many tasks of the machine have not ended.
    pub fn tasks(&self, host: HostId) -> usize {
        self.world.tasks.borrow().count_of(host)
    }

    /// [`Simulation::run_ready`] returns after this many polls of the machine's tasks, so that it can be killed there.
    pub fn stop_after(&self, host: HostId, polls: u64) {
        self.world.hosts.borrow_mut()[host.0].stop_after = Some(polls.max(1));
    }
}

/// Like [`stop_now`], for another machine: after the next poll of its tasks.
pub fn stop_soon(host: HostId) {
    running(|world| world.hosts.borrow_mut()[host.0].stop_after = Some(1));
}

/// [`Simulation::run_ready`] returns after this poll, as if [`Simulation::stop_after`] had named it. For a process that
/// must end.
pub fn stop_now() {
    running(|world| world.hosts.borrow_mut()[world.current.get().0].stop_after = Some(1));
}
