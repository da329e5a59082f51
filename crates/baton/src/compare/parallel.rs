//! Independent work on all cores, with a line that says how far it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

/// `work` on each of `tasks`; the results are in the order of the tasks, whoever was first. On a terminal, a line shows
/// the progress.
pub fn map<T: Sync, R: Send>(tasks: &[T], what: &'static str, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Drawn on standard error, and only if that is a terminal.
    let progress = ProgressBar::new(tasks.len() as u64).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}, {elapsed}") {
        progress.set_style(style);
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                // From the end, since the largest are there: nobody should be left alone with them.
                while let Some(index) = tasks.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((index, work(&tasks[index]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().inspect(|_| progress.inc(1)).collect()
    });
    progress.finish_and_clear();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
