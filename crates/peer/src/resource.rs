//! One resource at one member: the driver of its processes, and the user's side of it. Whatever the algorithm is, the
//! same code here passes on messages, timers and suspicions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::{Group, ProcessId, Protocol, Start};
use tokio::time::{Instant, sleep_until};

use crate::driver::{Driver, Stats};
use crate::frame::Envelope;
use crate::group::PeerGroup;
use crate::handshake::LinkError;
use crate::wires::{PeerError, Touched, Wires};

/// A resource, whatever its algorithm is.
pub(crate) trait AnyResource: Send + Sync {
    fn start(self: Arc<Self>, start: Start);
    /// A message has arrived. The caller writes to the links in `touched` later.
    fn deliver(self: Arc<Self>, envelope: &Envelope<'_>, touched: &mut Touched) -> Result<(), LinkError>;
    /// The detector of this member suspects a process, or trusts it again.
    fn suspect(self: Arc<Self>, peer: ProcessId, suspected: bool);
    /// A later incarnation of a process has begun.
    fn restarted(&self, peer: ProcessId);
    /// The member serves no longer: whoever waits is told why.
    fn stop(self: Arc<Self>, error: &PeerError);
    fn stats(&self) -> Stats;
    /// Whether a caller of this member is inside.
    fn is_inside(&self) -> bool;
}

/// The user's side of a resource: the callers of a lock, or the programs that watch a leader.
pub(crate) trait User<P: Protocol>: Send + Sized + 'static {
    /// What is left to do when the resource is free for others again.
    type Calls: Default;

    /// Something has happened: takes the events of the driver, and gives it commands.
    fn settle(&mut self, driver: &mut Driver<P>, wires: &Wires, touched: &mut Touched) -> Self::Calls;

    fn call(resource: &Arc<Resource<P, Self>>, calls: Self::Calls);

    /// A later incarnation of a process has begun.
    fn restarted(&mut self, _peer: ProcessId) {}

    /// Whether a caller of this member is inside.
    fn is_inside(&self) -> bool {
        false
    }

    /// The member serves no longer. Returns how to tell those who wait.
    fn stop(&mut self, _error: &PeerError) -> Vec<Box<dyn FnOnce() + Send>> {
        Vec::new()
    }
}

pub(crate) struct Resource<P: Protocol, U> {
    wires: Arc<Wires>,
    core: Mutex<Core<P, U>>,
}

pub(crate) struct Core<P: Protocol, U> {
    pub driver: Driver<P>,
    pub user: U,
    /// When the tasks wake that sleep until a timer is due.
    armed: BTreeSet<Instant>,
    /// The member serves no longer: no process makes a step.
    stopped: bool,
}

impl<P: Protocol, U: User<P>> Resource<P, U> {
    pub fn new(number: u32, group: &Group<P>, peers: &PeerGroup, wires: Arc<Wires>, user: U) -> Arc<Self> {
        let driver = Driver::new(number, group, peers.carried_by(wires.me));
        Arc::new(Resource { wires, core: Mutex::new(Core { driver, user, armed: BTreeSet::new(), stopped: false }) })
    }

    pub fn wires(&self) -> &Wires {
        &self.wires
    }

    pub fn core(&self) -> MutexGuard<'_, Core<P, U>> {
        // A poisoned lock is harmless: a panic inside a step is a bug, and ends the task that made the step.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a step, writes what it sends, and calls those whose turn has come.
    pub fn step<T>(self: &Arc<Self>, step: impl FnOnce(&mut Core<P, U>, &Wires, &mut Touched) -> T) -> T {
        let mut touched = Touched::default();
        let outcome = self.step_unflushed(&mut touched, step);
        self.wires.flush(&mut touched);
        outcome
    }

    fn step_unflushed<T>(
        self: &Arc<Self>,
        touched: &mut Touched,
        step: impl FnOnce(&mut Core<P, U>, &Wires, &mut Touched) -> T,
    ) -> T {
        let mut core = self.core();
        let outcome = step(&mut core, &self.wires, touched);
        let calls = match &mut *core {
            Core { stopped: true, .. } => U::Calls::default(),
            Core { driver, user, .. } => user.settle(driver, &self.wires, touched),
        };
        self.arm(&mut core);
        drop(core);
        U::call(self, calls);
        outcome
    }

    /// Starts a task that sleeps until the next timer is due, unless one sleeps that will wake in time.
    fn arm(self: &Arc<Self>, core: &mut Core<P, U>) {
        let Some(due) = core.driver.next_due().filter(|_| !core.stopped) else { return };
        if core.armed.first().is_none_or(|&armed| due < armed) {
            core.armed.insert(due);
            let resource = Arc::downgrade(self);
            self.wires.runtime.spawn(async move {
                sleep_until(due).await;
                let Some(resource) = resource.upgrade() else { return };
                resource.step(|core, wires, touched| {
                    core.armed.remove(&due);
                    core.drive(|driver| driver.tick(Instant::now(), wires, touched));
                });
            });
        }
    }
}

impl<P: Protocol, U> Core<P, U> {
    /// Drives the processes, unless the member serves no longer.
    pub fn drive<T>(&mut self, drive: impl FnOnce(&mut Driver<P>) -> T) -> Option<T> {
        (!self.stopped).then(|| drive(&mut self.driver))
    }
}

impl<P: Protocol, U: User<P>> AnyResource for Resource<P, U> {
    fn start(self: Arc<Self>, start: Start) {
        self.step(|core, wires, touched| core.drive(|driver| driver.start(start, wires, touched)));
    }

    fn deliver(self: Arc<Self>, envelope: &Envelope<'_>, touched: &mut Touched) -> Result<(), LinkError> {
        let deliver = |core: &mut Core<P, U>, wires: &Wires, touched: &mut Touched| {
            core.drive(|driver| driver.deliver(envelope, wires, touched)).unwrap_or(Ok(()))
        };
        self.step_unflushed(touched, deliver)
    }

    fn suspect(self: Arc<Self>, peer: ProcessId, suspected: bool) {
        self.step(|core, wires, touched| core.drive(|driver| driver.suspect(peer, suspected, wires, touched)));
    }

    fn restarted(&self, peer: ProcessId) {
        self.core().user.restarted(peer);
    }

    fn stop(self: Arc<Self>, error: &PeerError) {
        let told = {
            let mut core = self.core();
            core.stopped = true;
            core.user.stop(error)
        };
        told.into_iter().for_each(|tell| tell());
    }

    fn stats(&self) -> Stats {
        self.core().driver.stats.clone()
    }

    fn is_inside(&self) -> bool {
        self.core().user.is_inside()
    }
}
