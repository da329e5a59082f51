//! Runs independent tasks on all cores.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The caller of long work: it hears of the progress, and may cancel the work.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Receives the part of the tasks that are done, from 0 to 1, in the thread of the caller.
    pub progress: &'a dyn Fn(f64),
    /// If true, no further task begins, and the work ends with [`Cancelled`].
    pub cancel: &'a AtomicBool,
}

/// The caller has cancelled the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was cancelled")]
pub struct Cancelled;

/// Runs `work` on each of `tasks`, and returns the results in the order of the tasks.
pub fn map<T: Sync, R: Send>(tasks: &[T], caller: Caller, work: impl Fn(&T) -> R + Sync) -> Result<Vec<R>, Cancelled> {
    let Caller { progress, cancel } = caller;
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                // The last task starts first: callers list the sizes of each contestant from small to large, and no thread
                // should begin a large task when all others are done.
                while let Some(index) = tasks.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
                    if cancel.load(Ordering::Relaxed) || sender.send((index, work(&tasks[index]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let counted = receiver.iter().enumerate();
        counted
            .map(|(done, result)| {
                progress((done + 1) as f64 / tasks.len() as f64);
                result
            })
            .collect()
    });
    if results.len() < tasks.len() {
        return Err(Cancelled);
    }
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_tasks() {
        let (last, cancel) = (Cell::new(0.0), AtomicBool::new(false));
        let caller = Caller { progress: &|part| last.set(part), cancel: &cancel };
        let squares = map(&[1, 2, 3, 4, 5], caller, |task| task * task).unwrap();
        assert_eq!((squares, last.get()), (vec![1, 4, 9, 16, 25], 1.0));
    }

    #[test]
    fn no_task_begins_after_the_caller_has_cancelled() {
        let (begun, cancel) = (AtomicUsize::new(0), AtomicBool::new(false));
        let caller = Caller { progress: &|_| (), cancel: &cancel };
        let tasks = [(); 1_000];
        let results = map(&tasks, caller, |()| {
            begun.fetch_add(1, Ordering::Relaxed);
            cancel.store(true, Ordering::Relaxed);
        });
        assert_eq!(results, Err(Cancelled));
        let threads = thread::available_parallelism().map_or(1, usize::from);
        assert!(begun.into_inner() <= threads, "a thread began a second task");
    }
}
