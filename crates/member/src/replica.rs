//! The replica of a member: one task applies the entries of the front end and the answers of the group, in order.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use baton_service::clock;
use baton_service::host::Reports;
use baton_service::replica::{Leadership, Replica, Role, Status};
use baton_service::state::locks::LockName;
use baton_service::state::{Entry, Outcome, State};
use baton_types::views::Group;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::algorithm::{Algorithm, Answer, Turn};
use crate::local::Local;
use crate::turns::Action;

/// A member leads its own clients from its start to its end, so there is one term.
pub const TERM: u64 = 1;

/// How often the member asks whether its waiters wait without hope. The front end tells a waiter once a second.
const HOPELESS_EVERY: Duration = Duration::from_millis(250);
/// The most entries that are applied before the answers of the group are looked at again.
const BATCH: usize = 64;

/// A member of a peer group, for the host of the service.
///
/// The state is in memory only. The member's clients lose their sessions when the process ends. What they held then
/// stays held for the rest of the group: a client may believe in its lease for some time, and only a restart of the whole
/// group frees the lock.
pub struct MemberReplica<A: Algorithm> {
    shared: Arc<Shared<A>>,
    entries: mpsc::UnboundedSender<Entry>,
    leadership: watch::Receiver<Leadership>,
    try_ms: u64,
    running: Mutex<Option<Running>>,
}

struct Running {
    task: JoinHandle<()>,
    /// Dropping this ends the task.
    stop: oneshot::Sender<()>,
}

struct Shared<A> {
    local: RwLock<Local>,
    algorithm: A,
}

impl<A> Shared<A> {
    fn read(&self) -> RwLockReadGuard<'_, Local> {
        // A panic during a change ends the worker, and then the host stops.
        self.local.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Algorithm> MemberReplica<A> {
    /// Starts the member in this runtime. `try_ms` is how long an acquire with time-out 0 waits: the group must be able
    /// to let the member in within this time, if the lock is free.
    pub fn start(algorithm: A, try_ms: u64, reports: Reports<Self>) -> Self {
        let shared = Arc::new(Shared { local: RwLock::new(Local::new()), algorithm });
        let (entries, submitted) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::unbounded_channel();
        let (leads, leadership) = watch::channel(Leadership::Leads { term: TERM });
        let (stop, stopped) = oneshot::channel();
        let worker = Worker { shared: shared.clone(), reports, answers, inside: HashMap::new(), _leads: leads };
        let task = tokio::spawn(worker.run(submitted, answered, stopped));
        let running = Mutex::new(Some(Running { task, stop }));
        MemberReplica { shared, entries, leadership, try_ms, running }
    }
}

impl<A: Algorithm> Replica for MemberReplica<A> {
    fn submit(&self, term: u64, entry: Entry) {
        assert_eq!(term, TERM, "a member has one term");
        // The send fails only if the member has stopped. Then nobody waits for the result.
        let _ = self.entries.send(entry);
    }

    /// No other replica has this state, so it is always the current one.
    async fn read_index(&self) -> bool {
        true
    }

    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(self.shared.read().state())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    fn status(&self) -> Status {
        let (node, index) = (self.shared.algorithm.group().member, self.shared.read().index());
        Status { node, role: Role::Member, term: TERM, commit: index, applied: index }
    }

    fn group(&self) -> Option<Group> {
        Some(self.shared.algorithm.group())
    }

    fn try_ms(&self) -> Option<u64> {
        Some(self.try_ms)
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn failure(&self) -> Option<String> {
        self.shared.algorithm.failure()
    }

    async fn shutdown(&self) {
        if let Some(Running { task, stop }) = self.running.lock().await.take() {
            drop(stop);
            // An error means that the task panicked, which was reported already.
            let _ = task.await;
        }
        self.shared.algorithm.shutdown().await;
    }
}

/// The only writer of the local state.
struct Worker<A: Algorithm> {
    shared: Arc<Shared<A>>,
    reports: Reports<MemberReplica<A>>,
    answers: mpsc::UnboundedSender<Answer<A::Entry>>,
    /// The locks that the member is inside of. Each is held or closed, so an entry is left only by
    /// [`Action::Leave`], and never because the worker ends: a client may believe in its lease for some time.
    inside: HashMap<LockName, ManuallyDrop<A::Entry>>,
    /// Dropped with the worker: then the host learns that the replica has stopped.
    _leads: watch::Sender<Leadership>,
}

impl<A: Algorithm> Worker<A> {
    async fn run(
        mut self,
        mut submitted: mpsc::UnboundedReceiver<Entry>,
        mut answered: mpsc::UnboundedReceiver<Answer<A::Entry>>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut ticks = tokio::time::interval(HOPELESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => return,
                _ = ticks.tick() => self.tell_hopeless(),
                Some(answer) = answered.recv() => self.answered(answer),
                count = submitted.recv_many(&mut batch, BATCH) => {
                    // The host is gone.
                    if count == 0 {
                        return;
                    }
                    batch.drain(..).for_each(|entry| self.apply(&entry));
                }
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        let actions = self
            .change(|local| local.apply(entry), |reports, outcome, state| reports.applied(TERM, entry, outcome, state));
        self.act(actions);
    }

    fn answered(&mut self, Answer { lock, entered }: Answer<A::Entry>) {
        if !self.reports.serves() {
            // The host is stopping, and no client would hear of a grant. Dropping the entry leaves at once.
            return;
        }
        let now_ms = clock::wall_ms();
        let entered = entered.map(|(fence, entry)| {
            let before = self.inside.insert(lock.clone(), ManuallyDrop::new(entry));
            assert!(before.is_none(), "a member asks only when its last entry is left");
            fence
        });
        let change = |local: &mut Local| match entered {
            Ok(fence) => local.granted(now_ms, &lock, fence),
            Err(why) => local.refused(now_ms, &lock, why),
        };
        let actions = self.change(change, |reports, outcome, state| reports.admitted(outcome, state));
        self.act(actions);
    }

    /// Changes the local state, and reports the outcome while no other change can happen. Lock order: the local state,
    /// then the front end.
    fn change(
        &self,
        change: impl FnOnce(&mut Local) -> Outcome,
        report: impl FnOnce(&Reports<MemberReplica<A>>, &Outcome, &State),
    ) -> Vec<Action> {
        let mut local = self.shared.local.write().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut local);
        let actions = local.take_actions();
        report(&self.reports, &outcome, RwLockWriteGuard::downgrade(local).state());
        actions
    }

    /// Without any lock, because the algorithm may answer at once.
    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Ask(lock) => {
                    let turn = Turn::new(lock.clone(), self.answers.clone());
                    self.shared.algorithm.ask(&lock, turn);
                }
                Action::Leave(lock) => {
                    let entry = self.inside.remove(&lock).expect("a member leaves what it has entered");
                    drop(ManuallyDrop::into_inner(entry));
                }
            }
        }
    }

    fn tell_hopeless(&self) {
        if let Some(why) = self.shared.algorithm.hopeless() {
            let local = self.shared.read();
            self.reports.hopeless(local.state(), local.asked_for(), &why);
        }
    }
}
