//! A simulation: tasks of several machines in one thread, under virtual time, with a network in memory.
//!
//! Everything that happens follows from the seed and from what the caller does. Tasks that are ready run in random order.
//! Time passes only when no task is ready. A machine has a clock with a rate of its own. It may be paused, or killed
//! between any two polls of its tasks; [`Simulation::stop_after`] says where.

mod alarms;
mod hosts;
mod network;
mod tasks;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub use alarms::Alarm;
use alarms::Alarms;
use hosts::Host;
pub use hosts::{Clock, HostId, stop_now, stop_soon};
use network::Network;
pub use network::{Connection, Listener, Reader, Suffered, Writer, dial, listen};
pub use tasks::Handle;
pub(crate) use tasks::spawn;
use tasks::{Ready, Tasks};

/// Nanoseconds of true time.
type Nanos = u64;

/// More polls than this without any time passing mean that tasks wake each other for ever.
const POLLS_AT_A_TIME_MAX: u64 = 2_000_000;

/// What a simulation has. Tasks reach it through their thread.
pub(crate) struct World {
    now: Cell<Nanos>,
    /// The machine whose task runs.
    current: Cell<HostId>,
    hosts: RefCell<Vec<Host>>,
    tasks: RefCell<Tasks>,
    ready: Arc<Ready>,
    alarms: RefCell<Alarms>,
    network: RefCell<Network>,
    rng: RefCell<fastrand::Rng>,
    polls: Cell<u64>,
    /// A task has called the caller of the simulation.
    has_called: Cell<bool>,
    panics: RefCell<Vec<String>>,
}

thread_local! {
    static RUNNING: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// Calls `ask` with the simulation of this thread, if one runs.
pub(crate) fn running<T>(ask: impl FnOnce(&World) -> T) -> Option<T> {
    RUNNING.try_with(|running| running.borrow().as_deref().map(ask)).ok().flatten()
}

pub(crate) fn is_running() -> bool {
    running(|_| ()).is_some()
}

/// The time of a machine of the simulation, since the simulation began. None outside a simulation.
pub fn since_start() -> Option<Duration> {
    running(|world| Duration::from_nanos(world.host_now()))
}

/// Restores what ran before.
struct Entered {
    before: Option<Rc<World>>,
    host: HostId,
    world: Rc<World>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.world.current.set(self.host);
        RUNNING.set(self.before.take());
    }
}

/// All moments of a process are distances from this one.
fn base() -> std::time::Instant {
    static BASE: OnceLock<std::time::Instant> = OnceLock::new();
    // A year of room, because code subtracts from moments.
    *BASE.get_or_init(|| std::time::Instant::now() + Duration::from_secs(365 * 86_400))
}

impl World {
    fn host_now(&self) -> Nanos {
        self.hosts.borrow()[self.current.get().0].clock.read(self.now.get())
    }

    pub(crate) fn instant(&self) -> std::time::Instant {
        base() + Duration::from_nanos(self.host_now())
    }

    pub(crate) fn random(&self) -> u64 {
        self.rng.borrow_mut().u64(..)
    }

    pub(crate) fn alarm_after(&self, duration: Duration) -> Alarm {
        let duration = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.alarm(self.host_now().saturating_add(duration))
    }

    pub(crate) fn alarm_at(&self, deadline: std::time::Instant) -> Alarm {
        let deadline = deadline.saturating_duration_since(base()).as_nanos();
        self.alarm(u64::try_from(deadline).unwrap_or(u64::MAX))
    }

    /// An alarm at this time of the current machine's clock.
    fn alarm(&self, host_time: Nanos) -> Alarm {
        Alarm::new(self.hosts.borrow()[self.current.get().0].clock.when(host_time))
    }

    /// `more`: an upper limit for what it takes beside the time of an operation.
    pub(crate) fn alarm_for_disk(&self, is_large: bool) -> Alarm {
        let Host { disk: (least, most), large, .. } = self.hosts.borrow()[self.current.get().0];
        let more = if is_large { large } else { 0 };
        Alarm::new(self.now.get() + self.rng.borrow_mut().u64(least..=most.saturating_add(more)))
    }
}

/// Why [`Simulation::run_ready`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// No task is ready: time must pass.
    Idle,
    /// This machine has reached the poll that [`Simulation::stop_after`] named.
    Stopped(HostId),
    /// A task has called [`call`].
    Called,
}

/// [`Simulation::run_ready`] returns after this poll: the caller has to look at what the task has left for it.
pub fn call() {
    running(|world| world.has_called.set(true));
}

/// Tasks, time and the network of some machines. All of it ends when this is dropped.
pub struct Simulation {
    world: Rc<World>,
    /// False for what [`current`] returns.
    is_owner: bool,
}

/// The simulation of the task that calls this, or of the future that [`Simulation::block_on`] runs. The caller must not let
/// time pass with it.
pub fn current() -> Option<Simulation> {
    let world = RUNNING.try_with(|running| running.borrow().clone()).ok().flatten()?;
    Some(Simulation { world, is_owner: false })
}

/// Whether the future of [`Simulation::block_on`] is to be polled.
struct Caller(AtomicBool);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
        call();
    }
}

impl Simulation {
    pub fn new(seed: u64) -> Simulation {
        let mut rng = fastrand::Rng::with_seed(seed);
        let network = Network::new(rng.fork());
        let world = World {
            now: Cell::new(0),
            current: Cell::new(HostId(0)),
            hosts: RefCell::default(),
            tasks: RefCell::default(),
            ready: Arc::default(),
            alarms: RefCell::default(),
            network: RefCell::new(network),
            rng: RefCell::new(rng),
            polls: Cell::new(0),
            has_called: Cell::new(false),
            panics: RefCell::default(),
        };
        Simulation { world: Rc::new(world), is_owner: true }
    }

    fn enter(&self, host: HostId) -> Entered {
        let before = RUNNING.replace(Some(self.world.clone()));
        Entered { before, host: self.world.current.replace(host), world: self.world.clone() }
    }

    /// True time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.now.get())
    }

    pub fn add_host(&self, clock: Clock) -> HostId {
        let mut hosts = self.world.hosts.borrow_mut();
        hosts.push(Host::new(clock));
        HostId(hosts.len() - 1)
    }

    /// Calls a function as a task of this machine would.
    pub fn on<T>(&self, host: HostId, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter(host);
        work()
    }

    pub fn spawn<F>(&self, host: HostId, future: F) -> Handle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.on(host, || spawn(future))
    }

    /// Polls tasks until none is ready.
    pub fn run_ready(&self) -> Ran {
        let mut polls = 0;
        loop {
            let Some(task) = self.world.ready.take(&mut self.world.rng.borrow_mut()) else { return Ran::Idle };
            let Some((host, waker)) = self.world.to_poll(task) else { continue };
            {
                let _entered = self.enter(host);
                tasks::poll(&self.world, task, &waker);
            }
            self.world.polls.set(self.world.polls.get() + 1);
            polls += 1;
            assert!(polls < POLLS_AT_A_TIME_MAX, "tasks wake each other for ever");
            if self.world.hosts.borrow_mut()[host.0].is_last_poll() {
                return Ran::Stopped(host);
            }
            if self.world.has_called.take() {
                return Ran::Called;
            }
        }
    }

    /// When the next alarm rings.
    pub fn next_alarm(&self) -> Option<Duration> {
        self.world.alarms.borrow().next().map(Duration::from_nanos)
    }

    /// Lets time pass. Alarms up to this moment make their tasks ready.
    pub fn advance_to(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(self.world.now.get());
        self.world.now.set(now);
        let due = self.world.alarms.borrow_mut().due(now);
        due.into_iter().for_each(std::task::Waker::wake);
    }

    /// Runs everything up to this moment.
    pub fn run_until(&self, end: Duration) -> Ran {
        loop {
            match self.run_ready() {
                Ran::Idle => {}
                ran => return ran,
            }
            match self.next_alarm().filter(|next| *next <= end) {
                Some(next) => self.advance_to(next),
                None => {
                    self.advance_to(end);
                    return Ran::Idle;
                }
            }
        }
    }

    /// Runs until the future has ended, for at most this long. None: it has not. The future is on this machine, but it is no
    /// task: it goes on if the machine is paused or killed.
    pub fn block_on<F: Future>(&self, host: HostId, limit: Duration, future: F) -> Option<F::Output> {
        let end = self.now() + limit;
        let caller = Arc::new(Caller(AtomicBool::new(true)));
        let waker = Waker::from(caller.clone());
        let _entered = self.enter(host);
        let mut future = pin!(future);
        let mut polls = 0;
        loop {
            if caller.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Some(output);
                }
                polls += 1;
                assert!(polls < POLLS_AT_A_TIME_MAX, "the future wakes itself for ever");
            }
            if self.run_ready() == Ran::Idle && !caller.0.load(Ordering::Relaxed) {
                let next = self.next_alarm().filter(|next| *next <= end)?;
                self.advance_to(next);
                polls = 0;
            }
        }
    }

    /// How many polls of tasks there were.
    pub fn polls(&self) -> u64 {
        self.world.polls.get()
    }

    /// What tasks said when they panicked, since the last call.
    pub fn panics(&self) -> Vec<String> {
        std::mem::take(&mut self.world.panics.borrow_mut())
    }

    /// The network between the machines, to be disturbed.
    pub fn network(&self) -> Wires<'_> {
        Wires(&self.world)
    }
}

/// The network of a simulation, as its caller sees it.
pub struct Wires<'a>(&'a World);

impl Drop for Simulation {
    fn drop(&mut self) {
        if !self.is_owner {
            return;
        }
        let _entered = self.enter(HostId(0));
        let all = self.world.tasks.borrow_mut().take_all();
        drop(all);
    }
}

#[cfg(test)]
mod tests;
