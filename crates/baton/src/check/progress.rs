//! A line that tells how far a check has come, on a terminal only.

use std::sync::Arc;

use baton_check::Watch;
use baton_check::explore::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// The line.
pub struct Bar {
    name: String,
    line: ProgressBar,
}

impl Bar {
    /// For the check of `name`. Where there is no terminal nothing is shown.
    pub fn new(name: String) -> Self {
        let line = ProgressBar::new_spinner();
        line.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Bar { name, line }
    }

    /// Who tells of the progress.
    pub fn watch(&self) -> Watch {
        let (name, line) = (self.name.clone(), self.line.clone());
        Watch(Arc::new(move |progress: &Progress| {
            let Progress { states, depth, queue, seconds } = *progress;
            let rate = states as f64 / seconds.max(1e-9);
            line.set_message(format!(
                "{name}: {states} states, {rate:.0} states/s, {depth} deep, {queue} in the queue"
            ));
            line.tick();
        }))
    }

    /// Takes the line away.
    pub fn finish(self) {
        self.line.finish_and_clear();
    }
}
