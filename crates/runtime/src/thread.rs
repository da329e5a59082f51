//! Threads for work that blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::simulation;

/// A thread. Under simulation it is a task.
#[derive(Debug)]
pub struct Thread {
    handle: Option<std::thread::JoinHandle<()>>,
    has_ended: Arc<AtomicBool>,
}

impl Thread {
    /// True if the work has ended or panicked.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_some_and(std::thread::JoinHandle::is_finished) || self.has_ended.load(Ordering::SeqCst)
    }

    /// Waits until the thread has ended. Under simulation it ends later: this thread is also that of the task.
    pub fn join(self) {
        // If the thread panicked, the panic hook has printed the reason.
        let _ = self.handle.map(std::thread::JoinHandle::join);
    }
}

/// Runs a future to its end on a thread of its own, which may block. The future must not need tokio's timers or tasks.
pub fn thread(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<Thread> {
    let has_ended = Arc::new(AtomicBool::new(false));
    if simulation::is_running() {
        let ends = has_ended.clone();
        drop(crate::spawn(async move {
            work.await;
            ends.store(true, Ordering::SeqCst);
        }));
        return Ok(Thread { handle: None, has_ended });
    }
    let handle = std::thread::Builder::new().name(name.to_owned()).spawn(|| futures::executor::block_on(work))?;
    Ok(Thread { handle: Some(handle), has_ended })
}

/// Called by a thread before it uses the disk. Under simulation it takes as long as the disk. Otherwise it returns at once,
/// because the call that follows blocks.
pub async fn before_disk() {
    if let Some(alarm) = simulation::running(|world| world.alarm_for_disk(false)) {
        alarm.await;
    }
}

/// As [`before_disk`], before a whole state is written. A simulation may let that take longer.
pub async fn before_large_write() {
    if let Some(alarm) = simulation::running(|world| world.alarm_for_disk(true)) {
        alarm.await;
    }
}
