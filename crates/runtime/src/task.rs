//! Tasks.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::simulation::{self, Handle};
use crate::thread::before_disk;

/// Why a task has no result.
#[derive(Debug)]
pub enum JoinError {
    System(tokio::task::JoinError),
    /// It was aborted.
    Cancelled,
    Panicked,
}

impl JoinError {
    pub fn is_panic(&self) -> bool {
        match self {
            JoinError::System(error) => error.is_panic(),
            JoinError::Cancelled => false,
            JoinError::Panicked => true,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::System(error) => error.fmt(f),
            JoinError::Cancelled => f.write_str("the task was aborted"),
            JoinError::Panicked => f.write_str("the task panicked"),
        }
    }
}

impl std::error::Error for JoinError {}

/// A task. It goes on if the handle is dropped.
#[derive(Debug)]
pub struct JoinHandle<T>(Kind<T>);

#[derive(Debug)]
enum Kind<T> {
    System(tokio::task::JoinHandle<T>),
    Simulated(Handle<T>),
}

impl<T> JoinHandle<T> {
    pub fn abort(&self) {
        match &self.0 {
            Kind::System(handle) => handle.abort(),
            Kind::Simulated(handle) => handle.abort(),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Kind::System(handle) => Pin::new(handle).poll(cx).map_err(JoinError::System),
            Kind::Simulated(handle) => handle.poll(cx),
        }
    }
}

/// Starts a task. Must be called inside tokio's runtime or a simulation.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    JoinHandle(match simulation::is_running() {
        true => Kind::Simulated(simulation::spawn(future)),
        false => Kind::System(tokio::spawn(future)),
    })
}

/// Runs work that blocks, on a thread for such work. The work must wait for the disk or compute, and for nothing else.
pub fn spawn_blocking<T, W>(work: W) -> JoinHandle<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    JoinHandle(match simulation::is_running() {
        true => Kind::Simulated(simulation::spawn(async move {
            before_disk().await;
            work()
        })),
        false => Kind::System(tokio::task::spawn_blocking(work)),
    })
}

/// Like [`spawn_blocking`], for work that also waits for other tasks. It must not need tokio's timers or tasks.
pub fn spawn_on_thread<W>(work: W) -> JoinHandle<W::Output>
where
    W: Future + Send + 'static,
    W::Output: Send + 'static,
{
    JoinHandle(match simulation::is_running() {
        true => Kind::Simulated(simulation::spawn(work)),
        false => Kind::System(tokio::task::spawn_blocking(|| futures::executor::block_on(work))),
    })
}

/// Tasks that are aborted when the set is dropped.
#[derive(Debug)]
pub struct JoinSet<T>(Set<T>);

#[derive(Debug)]
enum Set<T> {
    System(tokio::task::JoinSet<T>),
    Simulated(VecDeque<Handle<T>>),
}

impl<T: Send + 'static> JoinSet<T> {
    pub fn new() -> JoinSet<T> {
        JoinSet(match simulation::is_running() {
            true => Set::Simulated(VecDeque::new()),
            false => Set::System(tokio::task::JoinSet::new()),
        })
    }

    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        match &mut self.0 {
            Set::System(tasks) => drop(tasks.spawn(future)),
            Set::Simulated(tasks) => tasks.push_back(simulation::spawn(future)),
        }
    }

    /// The result of a task that has ended, if there is one.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        match &mut self.0 {
            Set::System(tasks) => tasks.try_join_next().map(|joined| joined.map_err(JoinError::System)),
            Set::Simulated(tasks) => {
                let place = tasks.iter().position(Handle::has_ended)?;
                tasks.remove(place)?.take()
            }
        }
    }

    /// Aborts all tasks, and returns when they have ended.
    pub async fn shutdown(&mut self) {
        match &mut self.0 {
            Set::System(tasks) => tasks.shutdown().await,
            Set::Simulated(tasks) => tasks.drain(..).for_each(|task| task.abort()),
        }
    }
}

impl<T: Send + 'static> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<T> Drop for Set<T> {
    fn drop(&mut self) {
        if let Set::Simulated(tasks) = self {
            tasks.iter().for_each(Handle::abort);
        }
    }
}
