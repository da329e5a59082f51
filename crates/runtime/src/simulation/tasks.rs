//! Tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::hosts::HostId;
use super::{World, running};
use crate::JoinError;

/// A place in the table, and a number that no other task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId {
    number: u64,
    place: usize,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    number: u64,
    host: HostId,
    /// None while it is polled.
    work: Option<Work>,
    waker: TaskRef,
    is_aborted: bool,
}

/// Two forms of the waker of one task.
#[derive(Clone)]
pub(super) struct TaskRef {
    state: Arc<Wakes>,
    waker: Waker,
}

#[derive(Default)]
pub(super) struct Tasks {
    places: Vec<Option<Task>>,
    free: Vec<usize>,
    ever: u64,
}

impl Tasks {
    fn add(&mut self, host: HostId, ready: &Arc<Ready>, work: Work) -> TaskId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.ever += 1;
        let id = TaskId { number: self.ever, place };
        let state = Arc::new(Wakes { task: id, is_ready: AtomicBool::new(true), ready: ready.clone() });
        let waker = TaskRef { waker: state.clone().into(), state };
        self.places[place] = Some(Task { number: id.number, host, work: Some(work), waker, is_aborted: false });
        id
    }

    fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        self.places.get_mut(id.place)?.as_mut().filter(|task| task.number == id.number)
    }

    pub fn get(&self, id: TaskId) -> Option<(HostId, TaskRef)> {
        let task = self.places.get(id.place)?.as_ref().filter(|task| task.number == id.number)?;
        Some((task.host, task.waker.clone()))
    }

    fn remove(&mut self, id: TaskId) -> Option<Work> {
        self.task(id)?;
        self.free.push(id.place);
        self.places[id.place].take().and_then(|task| task.work)
    }

    /// Removes the tasks of a machine, the oldest first. The caller drops them when nothing here is borrowed.
    pub fn take_of(&mut self, host: HostId) -> Vec<Work> {
        let is_of = |(place, task): (usize, &Option<Task>)| {
            let task = task.as_ref().filter(|task| task.host == host)?;
            Some(TaskId { number: task.number, place })
        };
        let mut ids: Vec<TaskId> = self.places.iter().enumerate().filter_map(is_of).collect();
        ids.sort();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    pub fn count_of(&self, host: HostId) -> usize {
        self.places.iter().flatten().filter(|task| task.host == host).count()
    }

    pub fn take_all(&mut self) -> Vec<Work> {
        self.free.clear();
        std::mem::take(&mut self.places).into_iter().flatten().filter_map(|task| task.work).collect()
    }
}

/// The tasks that are ready, in the order of their numbers. The order in which they were woken would not repeat: tokio's
/// watch channel wakes its receivers in random order.
#[derive(Default)]
pub(super) struct Ready(Mutex<Vec<TaskId>>);

impl Ready {
    fn tasks(&self) -> MutexGuard<'_, Vec<TaskId>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, task: TaskId) {
        let mut tasks = self.tasks();
        if let Err(place) = tasks.binary_search(&task) {
            tasks.insert(place, task);
        }
    }

    /// Any of them.
    pub fn take(&self, rng: &mut fastrand::Rng) -> Option<TaskId> {
        let mut tasks = self.tasks();
        match tasks.len() {
            0 => None,
            1 => tasks.pop(),
            count => Some(tasks.remove(rng.usize(..count))),
        }
    }
}

struct Wakes {
    task: TaskId,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.ready.put(self.task);
        }
    }
}

/// Polls a task that is ready.
pub(super) fn poll(world: &World, id: TaskId, waker: &TaskRef) {
    let mut work = {
        let mut tasks = world.tasks.borrow_mut();
        let Some(task) = tasks.task(id) else { return };
        let is_aborted = task.is_aborted;
        let Some(work) = task.work.take() else { return };
        if is_aborted {
            tasks.remove(id);
            drop(tasks);
            drop(work);
            return;
        }
        work
    };
    waker.state.is_ready.store(false, Ordering::Relaxed);
    let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker.waker))));
    if let Err(panic) = &polled {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        world.panics.borrow_mut().push(said.unwrap_or_else(|| "a task panicked".to_owned()));
    }
    let mut tasks = world.tasks.borrow_mut();
    match (polled, tasks.task(id)) {
        (Ok(Poll::Pending), Some(task)) => task.work = Some(work),
        _ => {
            tasks.remove(id);
            drop(tasks);
            drop(work);
        }
    }
}

/// Starts a task of the machine whose task runs.
pub(crate) fn spawn<F>(future: F) -> Handle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let slot = Arc::new(Mutex::new(Slot { result: None, waker: None, has_ended: false }));
    let ends = Ends(slot.clone());
    let work: Work = Box::pin(async move {
        let ends = ends;
        let result = future.await;
        ends.tell(Ok(result));
    });
    let task = running(|world| {
        if world.hosts.borrow()[world.current.get().0].is_dying {
            return None;
        }
        let id = world.tasks.borrow_mut().add(world.current.get(), &world.ready, work);
        world.ready.put(id);
        Some(id)
    });
    Handle { slot, task: task.flatten() }
}

#[derive(Debug)]
struct Slot<T> {
    result: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
    has_ended: bool,
}

/// Tells the handle of a task how it ended.
struct Ends<T>(Arc<Mutex<Slot<T>>>);

impl<T> Ends<T> {
    fn tell(&self, result: Result<T, JoinError>) {
        let waker = {
            let mut slot = lock(&self.0);
            if std::mem::replace(&mut slot.has_ended, true) {
                return;
            }
            slot.result = Some(result);
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        let is_panic = std::thread::panicking();
        self.tell(Err(if is_panic { JoinError::Panicked } else { JoinError::Cancelled }));
    }
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task. It goes on if the handle is dropped.
#[derive(Debug)]
pub struct Handle<T> {
    slot: Arc<Mutex<Slot<T>>>,
    task: Option<TaskId>,
}

impl<T> Handle<T> {
    /// The task ends as soon as it would be polled the next time.
    pub fn abort(&self) {
        let Some(id) = self.task else { return };
        let waker = running(|world| {
            let mut tasks = world.tasks.borrow_mut();
            let task = tasks.task(id)?;
            task.is_aborted = true;
            Some(task.waker.waker.clone())
        });
        waker.flatten().into_iter().for_each(Waker::wake);
    }

    pub fn has_ended(&self) -> bool {
        lock(&self.slot).has_ended
    }

    pub fn take(&mut self) -> Option<Result<T, JoinError>> {
        lock(&self.slot).result.take()
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let mut slot = lock(&self.slot);
        match slot.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
