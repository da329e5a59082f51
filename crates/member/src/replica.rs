//! The replica of a member: one task applies the entries of the front end and the answers of the group, in order.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use baton_server::clock;
use baton_server::host::Reports;
use baton_server::replica::{Leadership, Replica, Role, Status};
use baton_state::state::locks::{self, LockName};
use baton_state::state::{Command, Entry, Outcome, State, What};
use baton_types::cluster_id::ClusterId;
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
    /// Its result: whether the member is inside of no lock.
    task: JoinHandle<bool>,
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

    fn cluster_id(&self) -> ClusterId {
        self.shared.algorithm.group_id()
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
        let mut held_nothing = false;
        if let Some(Running { task, stop }) = self.running.lock().await.take() {
            drop(stop);
            // An error means that the task panicked, which was reported already.
            held_nothing = task.await.unwrap_or(false);
        }
        self.shared.algorithm.shutdown(held_nothing).await;
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
    ) -> bool {
        let mut ticks = tokio::time::interval(HOPELESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => return self.inside.is_empty(),
                _ = ticks.tick() => self.tell_all_hopeless(),
                Some(answer) = answered.recv() => self.answered(answer),
                count = submitted.recv_many(&mut batch, BATCH) => {
                    // The host is gone.
                    if count == 0 {
                        return self.inside.is_empty();
                    }
                    batch.drain(..).for_each(|entry| self.apply(&entry));
                }
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        entry.commands.iter().for_each(|command| self.tell_why_it_ends(entry.now_ms, command));
        let mut waiting = Vec::new();
        let report = |reports: &Reports<MemberReplica<A>>, outcome: &Outcome, state: &State| {
            waiting = new_waits(outcome);
            reports.applied(TERM, entry, outcome, state);
        };
        let actions = self.change(|local| local.apply(entry), report);
        self.act(actions);
        // The first look asks the other members, so a short wait learns why it is in vain.
        self.tell_hopeless(waiting.iter(), Duration::ZERO);
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

    fn tell_all_hopeless(&self) {
        let asked: Vec<LockName> = self.shared.read().asked_for().cloned().collect();
        self.tell_hopeless(asked.iter(), 4 * HOPELESS_EVERY);
    }

    fn tell_hopeless<'a>(&self, locks: impl Iterator<Item = &'a LockName>, waited: Duration) {
        for (lock, why) in self.shared.algorithm.hopeless(locks, waited) {
            self.reports.hopeless(self.shared.read().state(), [lock], &why);
        }
    }

    /// A wait that reaches its time-out while the group cannot go on is refused for that reason, because a time-out would
    /// say that another client holds the lock.
    fn tell_why_it_ends(&mut self, now_ms: u64, command: &Command) {
        let &Command::Locks(locks::Command::CancelWait { session, number }) = command else { return };
        let Some((lock, since_ms)) = self.shared.read().waits_for(session, number) else { return };
        // Times are cut to milliseconds.
        let waited = Duration::from_millis(clock::wall_ms().saturating_sub(since_ms) + 1);
        let why = self.shared.algorithm.hopeless(std::iter::once(&lock), waited).pop();
        if let Some((_, why)) = why {
            let why = format!("the group cannot grant the lock: {}", why.message);
            let change = |local: &mut Local| local.cannot_wait(now_ms, session, number, why);
            let actions = self.change(change, |reports, outcome, state| reports.admitted(outcome, state));
            self.act(actions);
        }
    }
}

/// The locks that somebody has begun to wait for.
fn new_waits(outcome: &Outcome) -> Vec<LockName> {
    let begun = outcome.changes.iter().filter_map(|change| match &change.what {
        What::Locks(locks::What::Claim { before: None, after: Some(claim) }) if !claim.holds() => Some(&claim.wants),
        _ => None,
    });
    begun.flatten().map(|want| want.lock.clone()).collect()
}
