//! Runs independent tasks on all cores, with a progress line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::progress::Progress;

/// Runs `work` on each of `tasks`, and returns the results in the order of the tasks.
pub fn map<T: Sync, R: Send>(tasks: &[T], what: &'static str, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let progress = Progress::bar(what);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                // The largest tasks are at the end. They start first, so that no thread is still busy with one when all
                // others are done.
                while let Some(index) = tasks.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((index, work(&tasks[index]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let counted = receiver.iter().enumerate();
        counted
            .map(|(done, result)| {
                progress.at((done + 1) as f64 / tasks.len() as f64);
                result
            })
            .collect()
    });
    progress.finish();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
