//! The node with the desk in front of it, and the three loops that keep them going.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::desk::Desk;
use crate::clock;
use crate::raft::{Leadership, Node, Options, Pending, ProposeError};
use crate::state::{Command, Entry};
use crate::store::{Disk, FREE_BYTES_MIN, Folder, OpenError};

/// How often the disk is looked at: whether the folder is there, and how much space is free.
const DISK_EVERY: Duration = Duration::from_secs(1);

/// How long to wait after a round that failed.
const ROUND_AGAIN: Duration = Duration::from_millis(50);

/// See the module.
pub struct Service {
    /// The state, replicated and kept.
    pub node: Node,
    /// The streams and the leases.
    pub desk: Arc<Desk>,
    /// When it began, on the clock that leases are measured by.
    started_ms: u64,
    data: PathBuf,
    /// How much more can be written there, when it was last looked at.
    free_bytes: AtomicU64,
}

impl Service {
    /// Opens a data folder, makes it if there is none, and returns once the node leads. Clients reach it at this address.
    pub async fn open(data: &Path, client_address: String) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(Folder::open(data)?), data, client_address).await
    }

    /// The same on any disk, of this name.
    pub async fn open_on(disk: Arc<dyn Disk>, data: &Path, client_address: String) -> Result<Self, OpenError> {
        let desk = Arc::new(Desk::default());
        let told = Arc::clone(&desk);
        let on_apply: crate::raft::OnApply = Box::new(move |_, applied| told.applied(&applied.outcome.effects));
        let mut options = Options { on_apply, ..Options::default() };
        options.record.client_address = client_address;
        let node = Node::open(disk, options).await?;
        let (started_ms, data, free_bytes) = (clock::boot_ms(), data.to_owned(), AtomicU64::new(u64::MAX));
        let service = Service { node, desk, started_ms, data, free_bytes };
        service.look_at_space();
        let mut leadership = service.node.leadership();
        let leads = leadership.wait_for(|leadership| matches!(leadership, Leadership::Leads { .. })).await.is_ok();
        if leads { Ok(service) } else { Err(OpenError::Raft("the node stopped before it led".to_owned())) }
    }

    /// Where its data is.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// How long it has run.
    pub fn uptime_ms(&self) -> u64 {
        clock::boot_ms().saturating_sub(self.started_ms)
    }

    /// Why only what frees something is let through, if the disk is so full.
    pub fn low_space(&self) -> Option<String> {
        let free = self.free_bytes.load(Ordering::Relaxed);
        let too_little = || {
            let data = self.data.display();
            format!("too little free space in {data} of the server: {free} bytes, and {FREE_BYTES_MIN} are needed")
        };
        (free < FREE_BYTES_MIN).then(too_little)
    }

    pub(super) fn look_at_space(&self) {
        // A disk that cannot say how much room it has is written to until it fails.
        self.free_bytes.store(self.node.free_bytes().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Proposes a command, in the order of the calls. What follows from it comes back to the desk, too.
    pub async fn propose(&self, command: Command) -> Result<Pending, ProposeError> {
        self.node.propose(entry(command)).await
    }

    /// Proposes a command, in the order of the calls. What follows from it comes back to the desk only.
    pub async fn submit(&self, command: Command) -> Result<(), ProposeError> {
        self.node.submit(entry(command)).await
    }

    /// Keeps everything going. Does not return while the node runs, and its data is there. If data is gone, says what.
    pub async fn run(&self) -> Option<String> {
        tokio::select! {
            () = self.follow_leadership() => None,
            () = self.keep_time() => None,
            () = self.acknowledge() => None,
            what = self.watch_disk() => Some(what),
        }
    }

    /// Leases start anew in full whenever this node begins to lead. No stream outlives a term: what was proposed in it and
    /// lost is never answered, and only a client that comes anew asks again.
    async fn follow_leadership(&self) {
        let mut leadership = self.node.leadership();
        loop {
            let now = *leadership.borrow_and_update();
            self.desk.state().leases.step_down();
            self.desk.end_streams("another term has begun");
            if let Leadership::Leads { term } = now {
                let pending = self.node.state().pending_timers();
                self.desk.state().leases.lead(clock::boot_ms(), term, &pending);
                self.desk.rearmed.notify_one();
            }
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }

    /// Proposes what time brings about, when it does.
    async fn keep_time(&self) {
        loop {
            let now = clock::boot_ms();
            let due = self.desk.state().leases.due(now);
            let mut pending = Vec::with_capacity(due.len());
            for command in due {
                pending.push((self.propose(command.clone()).await, command));
            }
            for (proposed, command) in pending {
                let applied = match proposed {
                    Ok(proposed) => proposed.await.is_ok(),
                    Err(_) => false,
                };
                self.desk.state().leases.outcome(clock::boot_ms(), &command, applied);
            }
            // The clock of leases goes on while the machine sleeps and timers do not: look again every second at least.
            let next = self.desk.state().leases.next_wake();
            let wait = next.map_or(1_000, |next| next.saturating_sub(clock::boot_ms()).min(1_000));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
                () = self.desk.rearmed.notified() => {}
            }
        }
    }

    /// Acknowledges keep-alives: a round that began after they arrived serves all that waited when it began.
    async fn acknowledge(&self) {
        loop {
            let round = self.desk.state().leases.begin_round();
            let Some(round) = round else {
                self.desk.kept_alive.notified().await;
                continue;
            };
            let led = self.node.read_index().await.is_ok();
            self.desk.round_done(round, led);
            if !led {
                // Those who wait stay in line for the next round, which need not fail at once again.
                tokio::time::sleep(ROUND_AGAIN).await;
            }
        }
    }

    /// Returns when the data folder, or a file that must be in it, is gone; and says which.
    async fn watch_disk(&self) -> String {
        loop {
            if let Some(what) = self.node.missing() {
                return what;
            }
            self.look_at_space();
            tokio::time::sleep(DISK_EVERY).await;
        }
    }
}

fn entry(command: Command) -> Entry {
    Entry { now_ms: clock::wall_ms(), commands: vec![command] }
}
