//! Counts how often each fault took effect. A fault that never happens tests nothing: a disk that is to fail fails only if
//! somebody writes to it, and a partition loses nothing while nobody speaks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a fault of the shipped engine has done, or what was judged of it.
pub type Effect = &'static str;

/// All that faults of the shipped engine do, and what is judged only in some runs. `tests/raft.rs` waits for each of them.
pub const ALL: [Effect; 53] = [
    "a node dies at a poll",
    "a node hands the leadership over and ends",
    "a node dies with unsynced bytes",
    "pieces of unsynced bytes survive",
    "all nodes die at once",
    "a majority dies at once with unsynced bytes",
    "a disk is slow",
    "a node dies while its disk is slow",
    "an operation of a disk fails",
    "a node ends because its disk fails",
    "a client is refused because a disk is full",
    "a leader with a full disk is replaced",
    "a node dies while it writes its snapshot",
    "a node dies while it receives a snapshot",
    "the leader dies while another node receives a snapshot",
    "a connection breaks at a byte",
    "a connection breaks one way",
    "bytes are late",
    "bytes overtake those of another connection",
    "bytes wait for the end of a cut",
    "a node is isolated",
    "a node is deaf",
    "a node is mute",
    "the nodes are split",
    "a link is cut one way",
    "a leader hears old answers",
    "a leader hears held answers after another node leads",
    "a snapshot is held on its way",
    "a node is paused",
    "a paused leader is replaced",
    "clocks drift 10 ms apart",
    "another node leads after a transfer",
    "a node begins late",
    "a node dies before the cluster begins",
    "a member is removed",
    "a member is added",
    "a member is promoted",
    "a learner is disturbed",
    "a member loses its folder and joins",
    "a member loses its folder and begins with the list",
    "a snapshot of another node arrives",
    "a folder is set back",
    "a copied folder runs",
    "a process ends because of a misused folder",
    "all disks are slow under a leader",
    "a majority goes on without a node",
    "a follower carries a stream",
    "a read succeeds",
    "a listing has what clients hold",
    "a majority of disks has an applied entry",
    "a majority of disks has the votes for a leader",
    "what is durable is judged while voters change",
    "a promotion is judged",
];

/// Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects(Arc<Mutex<BTreeMap<Effect, u64>>>);

impl Effects {
    pub fn add(&self, effect: Effect) {
        debug_assert!(ALL.contains(&effect), "{effect:?} is not in the list");
        *self.counts().entry(effect).or_default() += 1;
    }

    pub fn all(&self) -> BTreeMap<Effect, u64> {
        self.counts().clone()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Effect, u64>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
