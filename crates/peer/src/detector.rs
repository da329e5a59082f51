//! Failure detection among the members of a group, as a program sees it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::detector::{Beater, Detector as DetectorProtocol, Heard};
use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event as Traced;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::driver::Driver;
use crate::resource::{Resource, User};
use crate::wires::{Touched, Wires};

/// The failure detector of one member. A clone is the same detector.
#[derive(Clone, Debug)]
pub struct Detector {
    suspected: watch::Receiver<BTreeSet<ProcessId>>,
}

impl Detector {
    pub(crate) fn new(resource: &dyn AnyDetector) -> Self {
        Detector { suspected: resource.watch() }
    }

    /// The processes that this member suspects, now and after every change.
    pub fn watch_suspected(&self) -> watch::Receiver<BTreeSet<ProcessId>> {
        self.suspected.clone()
    }
}

/// A failure detector, whatever its algorithm is.
pub(crate) trait AnyDetector: Send + Sync {
    fn watch(&self) -> watch::Receiver<BTreeSet<ProcessId>>;
}

/// The detectors of one member: one for each other process.
pub(crate) struct Watch<D> {
    began: Instant,
    detectors: Vec<Option<D>>,
    suspected: watch::Sender<BTreeSet<ProcessId>>,
    /// When a task wakes to look for suspicions.
    armed: Option<Instant>,
}

impl<D: DetectorProtocol> Watch<D> {
    /// Begins to watch all processes but `me`.
    pub fn new(me: ProcessId, processes: usize, make: impl Fn(ProcessId) -> D) -> Self {
        let begun = |peer| {
            let mut detector = make(peer);
            detector.watch(0);
            detector
        };
        let detectors = (0..processes).map(|peer| (peer != me).then(|| begun(peer))).collect();
        Watch { began: Instant::now(), detectors, suspected: watch::Sender::default(), armed: None }
    }

    fn now(&self) -> Ticks {
        Ticks::try_from(self.began.elapsed().as_micros()).unwrap_or(Ticks::MAX)
    }

    /// When the next suspicion may begin.
    fn next_deadline(&self) -> Option<Instant> {
        let now = self.now();
        let deadlines = self.detectors.iter().flatten().filter(|detector| !detector.suspects(now));
        let first = deadlines.map(|detector| detector.deadline()).min()?;
        // A process is suspected only after its deadline.
        self.began.checked_add(Duration::from_micros(first.saturating_add(1)))
    }
}

impl<D: DetectorProtocol> AnyDetector for Resource<Beater, Watch<D>> {
    fn watch(&self) -> watch::Receiver<BTreeSet<ProcessId>> {
        self.core().user.suspected.subscribe()
    }
}

impl<D: DetectorProtocol> User<Beater> for Watch<D> {
    /// When to look for suspicions again, if no task sleeps until then.
    type Calls = Option<Instant>;

    fn settle(&mut self, driver: &mut Driver<Beater>, wires: &Wires, _: &mut Touched) -> Self::Calls {
        let now = self.now();
        while let Some((_, Heard(peer))) = driver.take_event() {
            self.detectors[peer].as_mut().expect("no process sends a beat to itself").beat(now);
        }
        let suspected: BTreeSet<ProcessId> = (0..self.detectors.len())
            .filter(|&peer| self.detectors[peer].as_ref().is_some_and(|detector| detector.suspects(now)))
            .collect();
        let before = self.suspected.borrow().clone();
        for &peer in suspected.difference(&before) {
            driver.journal(wires, || Traced::Suspect { peer });
        }
        for &peer in before.difference(&suspected) {
            driver.journal(wires, || Traced::Trust { peer });
        }
        if suspected != before {
            self.suspected.send_replace(suspected);
        }
        let deadline = self.next_deadline()?;
        let is_earlier = self.armed.is_none_or(|armed| deadline < armed || armed <= Instant::now());
        is_earlier.then(|| *self.armed.insert(deadline))
    }

    /// The time when the process was down says nothing about its beats.
    fn restarted(&mut self, peer: ProcessId) {
        let now = self.now();
        if let Some(detector) = &mut self.detectors[peer] {
            detector.watch(now);
        }
    }

    fn call(resource: &Arc<Resource<Beater, Self>>, deadline: Self::Calls) {
        let Some(deadline) = deadline else { return };
        let watched = Arc::downgrade(resource);
        resource.wires().runtime.spawn(async move {
            sleep_until(deadline).await;
            if let Some(resource) = watched.upgrade() {
                resource.step(|core, _, _| core.user.armed = core.user.armed.filter(|&armed| armed != deadline));
            }
        });
    }
}
