//! The messages of views, around those of the carried algorithm.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::counts_of;
use crate::clock::Stamp;
use crate::{Counter, Fence, ProcessId};

/// The members of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct View {
    pub epoch: u64,
    /// The members in ascending order, each with its session.
    pub members: Vec<(ProcessId, u64)>,
}

/// A critical section that a process entered in an earlier view and has not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hold {
    pub process: ProcessId,
    pub fence: Fence,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<M> {
    /// Source to members: this view begins.
    View(View),
    /// Member to source: this session is over.
    Out { session: u64 },
    /// Member to source: take this session of mine into the next view.
    Join { session: u64 },
    /// Member to source: this epoch has no fence left for me; begin the next one.
    Renew { epoch: u64 },
    /// Member to the lowest member: I have stopped, and hold this.
    Ready { epoch: u64, hold: Option<Fence> },
    /// Lowest member to the others: all members have stopped, and one of them may still be inside.
    Start { epoch: u64, hold: Option<Hold> },
    /// Member to all members: I have left the critical section that I entered in an earlier view.
    Free { epoch: u64 },
    /// A message of the carried algorithm.
    Carried {
        epoch: u64,
        /// The process of the algorithm that sends it. Its member may have another id.
        from: ProcessId,
        to: ProcessId,
        /// The highest count of grants in this view that the sender's member knows.
        count: u64,
        message: M,
    },
}

impl<M> Message<M> {
    /// The epoch of a message between members. None for messages from and to the source.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Message::Ready { epoch, .. } | Message::Start { epoch, .. } | Message::Free { epoch } => Some(*epoch),
            Message::Carried { epoch, .. } => Some(*epoch),
            Message::View(_) | Message::Out { .. } | Message::Join { .. } | Message::Renew { .. } => None,
        }
    }
}

impl<M: crate::Message> crate::Message for Message<M> {
    fn kind(&self) -> &'static str {
        match self {
            Message::View(_) => "VIEW",
            Message::Out { .. } => "OUT",
            Message::Join { .. } => "JOIN",
            Message::Renew { .. } => "RENEW",
            Message::Ready { .. } => "READY",
            Message::Start { .. } => "START",
            Message::Free { .. } => "FREE",
            Message::Carried { message, .. } => message.kind(),
        }
    }

    fn request(&self, _: ProcessId, _: ProcessId) -> Option<Stamp> {
        match self {
            Message::Carried { from, to, message, .. } => message.request(*from, *to),
            _ => None,
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Ready { hold: Some(fence), .. } | Message::Start { hold: Some(Hold { fence, .. }), .. } => {
                visit(counts_of(fence.epoch), &mut fence.count);
            }
            Message::Carried { epoch, from, count, message, .. } => {
                visit(counts_of(*epoch), count);
                message.counters(*from, visit);
            }
            _ => {}
        }
    }
}
