//! The settings of a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::anew::Anew;
use super::compaction::Pause;
use super::governing::Wishes;
use super::log_store::{Fatal, Warn, complain, end_process};
use super::machine::OnApply;
use super::peers::{FORMATS, Listener, Tcp, Transport};
use super::receipt::OnLost;
use super::retention::Keep;
use crate::format::record::NodeRecord;
use crate::store::SEGMENT_BYTES;

pub struct Options {
    /// Name and addresses of this node. If the membership says otherwise, the node has its record there changed. An
    /// empty field stays as it is there. A node that has no peer address there gets that of `listener`.
    pub record: NodeRecord,
    pub segment_bytes: usize,
    /// The node makes a snapshot after this many bytes of log, or after as many bytes as the last snapshot has,
    /// whichever is more.
    pub snapshot_after_bytes: u64,
    /// The pause after a snapshot that could not be written.
    pub snapshot_pause: Pause,
    /// Called for every applied entry, with the state after it. At a start, also called for the entries of the log that
    /// are applied again.
    pub on_apply: OnApply,
    /// Called if an entry from [`Node::submit`](super::Node::submit) is not in the log, or may not be.
    pub on_lost: OnLost,
    /// Called when the disk or the state can no longer be trusted.
    pub fatal: Fatal,
    /// Called with a warning when an action failed and will be tried again.
    pub warn: Warn,
    /// Takes the connections of other nodes. None: this node is a group of one.
    pub listener: Option<Box<dyn Listener>>,
    /// Connects to other nodes.
    pub transport: Arc<dyn Transport>,
    pub beginning: Beginning,
    /// Peer addresses of other nodes of the cluster that this node should join or form. A node with data of another
    /// cluster than theirs is not started.
    pub others: Vec<String>,
    pub timing: Timing,
    /// How much of the log stays behind a snapshot if the group has other members.
    pub keep: Keep,
    /// Addresses of other nodes that this node reaches at another address, for example through a proxy.
    pub routes: BTreeMap<String, String>,
    pub wishes: Wishes,
    /// The node leaves its cluster, and begins another one with its data, alone. None: it goes on in its cluster.
    pub anew: Option<Anew>,
    /// The oldest and the newest data format that this node says it reads. Only tests set it.
    #[doc(hidden)]
    pub formats: (u8, u8),
}

/// What a node does with a new folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// It becomes a group of one, and leads.
    #[default]
    Alone,
    /// It waits until it has found the others of its list ([`Node::form`](super::Node::form)), or until another group
    /// takes it in.
    Waits,
}

/// How fast a group notices that its leader is gone. All nodes of a group should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat: Duration,
    /// A follower waits for this long without a leader before it wants to lead; chosen at random each time.
    pub election_min: Duration,
    pub election_max: Duration,
}

impl Timing {
    /// For a node without others. It wakes up less often.
    pub(super) const SLOW: Timing = Timing {
        heartbeat: Duration::from_millis(200),
        election_min: Duration::from_millis(1000),
        election_max: Duration::from_millis(2000),
    };
}

impl Default for Timing {
    fn default() -> Timing {
        let ms = Duration::from_millis;
        Timing { heartbeat: ms(50), election_min: ms(250), election_max: ms(500) }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            record: NodeRecord::default(),
            segment_bytes: SEGMENT_BYTES,
            snapshot_after_bytes: 8 << 20,
            snapshot_pause: Pause::default(),
            on_apply: Box::new(|_, _, _| {}),
            on_lost: Arc::new(|_, _| {}),
            fatal: end_process(),
            warn: complain(),
            listener: None,
            transport: Arc::new(Tcp),
            beginning: Beginning::default(),
            others: Vec::new(),
            timing: Timing::default(),
            keep: Keep::default(),
            routes: BTreeMap::new(),
            wishes: Wishes::default(),
            anew: None,
            formats: FORMATS,
        }
    }
}
