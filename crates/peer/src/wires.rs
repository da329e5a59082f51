//! What the drivers of all resources share: the links, the trace, the ids of messages, and the limit on what is
//! unacknowledged.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baton_protocol::ProcessId;
use baton_trace::{DropReason, Event};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::frame::{self, Envelope, FrameError, Item};
use crate::group::{MEMBERS_MAX, MemberId};
use crate::journal::Journal;
use crate::link::Link;

/// Why a member can serve no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The protocol sends a message that is too long for a frame.
    #[error("cannot send {kind}: {error}")]
    Unsendable { kind: &'static str, error: FrameError },
    #[error(
        "process {peer} has not acknowledged {bytes} bytes, which is the limit (--backlog); this member stops, since \
         it must not drop a message"
    )]
    Backlog { peer: MemberId, bytes: usize },
    /// Another member refuses this one for good.
    #[error("process {peer} no longer takes this member: {error}")]
    Refused { peer: MemberId, error: crate::handshake::LinkError },
    #[error(transparent)]
    Ended(#[from] crate::beginning::Ended),
    /// The member's file cannot be written.
    #[error("{0}")]
    Data(String),
    #[error("this member stops because of a fault of its own: a task of the link with process {peer} panicked")]
    Panicked { peer: MemberId },
    #[error("the member has left the group")]
    Left,
}

/// A set of members whose links have something to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched([u64; MEMBERS_MAX / 64]);

impl Touched {
    fn insert(&mut self, member: MemberId) {
        self.0[member / 64] |= 1 << (member % 64);
    }

    fn take(&mut self) -> impl Iterator<Item = MemberId> + use<> {
        let words = std::mem::take(&mut self.0);
        words
            .into_iter()
            .enumerate()
            .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }

    fn is_empty(&self) -> bool {
        self.0 == [0; MEMBERS_MAX / 64]
    }
}

pub(crate) struct Wires {
    pub me: MemberId,
    /// By member; none for this one.
    pub links: Vec<Option<Arc<Link>>>,
    journal: Option<Mutex<Journal>>,
    ids: AtomicU64,
    requests: AtomicU64,
    /// The generation of the group; 0 before it begins.
    generation: AtomicU64,
    backlog_max: usize,
    /// A member with more than half of `backlog_max`, plus 1; or 0.
    congested: AtomicUsize,
    pub runtime: Handle,
    /// Why the member serves no longer.
    pub failed: watch::Sender<Option<PeerError>>,
}

impl Wires {
    /// Called inside a runtime, whose tasks then wait for timers.
    pub fn new(me: MemberId, members: usize, journal: Option<Journal>, backlog_max: usize) -> Self {
        Wires {
            me,
            links: (0..members).map(|peer| (peer != me).then(|| Arc::new(Link::new(peer)))).collect(),
            journal: journal.map(Mutex::new),
            ids: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            backlog_max,
            congested: AtomicUsize::new(0),
            runtime: Handle::current(),
            failed: watch::Sender::new(None),
        }
    }

    /// Called before the first resource is made.
    pub fn begin(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// An id for a message, unique in the run.
    pub fn next_id(&self) -> u64 {
        frame::unique_id(self.me, self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a request, unique in the run.
    pub fn next_request(&self) -> u64 {
        frame::unique_id(self.me, self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a message to the member that carries `envelope.to`. [`flush`](Wires::flush) writes it.
    ///
    /// Detectors and elections send to a dead member again and again, until the backlog would be full. So messages to a
    /// member that is not connected are lost if they are beats, which say nothing when they come late, or if their sender
    /// suspects the member. A guarded election bears that as it bears a partition, and asks again when it trusts the
    /// member.
    pub fn send(&self, envelope: Envelope<'_>, kind: &'static str, touched: &mut Touched) {
        let peer = envelope.to % self.links.len();
        if self.links[peer].as_ref().is_some_and(|link| link.loses()) {
            let lost = || Event::Drop { msg: envelope.id, reason: DropReason::Partition };
            return self.journal(envelope.resource, envelope.from, lost);
        }
        self.send_item(peer, Item::Message(envelope), kind, touched);
    }

    /// Tells all other members that this member has made its processes of a resource.
    pub fn open(&self, name: &[u8], touched: &mut Touched) {
        for peer in (0..self.links.len()).filter(|&peer| peer != self.me) {
            self.send_item(peer, Item::Open { name }, "OPEN", touched);
        }
    }

    /// Begins a new conversation with a later incarnation of a member, which knows none of these resources.
    pub fn restart<'a>(&self, peer: MemberId, names: impl Iterator<Item = &'a [u8]>) {
        let link = self.links[peer].as_ref().expect("no member starts itself again");
        match link.restart(names) {
            Ok(backlog) => self.look_at_backlog(peer, backlog),
            Err(error) => self.fail(PeerError::Unsendable { kind: "OPEN", error }),
        }
    }

    fn send_item(&self, peer: MemberId, item: Item<'_>, kind: &'static str, touched: &mut Touched) {
        let link = self.links[peer].as_ref().expect("a process sends no message to its own member over a link");
        match link.send(item) {
            Ok(backlog) => {
                touched.insert(peer);
                self.look_at_backlog(peer, backlog);
            }
            Err(error) => self.fail(PeerError::Unsendable { kind, error }),
        }
    }

    /// Writes to all links that have something to write.
    pub fn flush(&self, touched: &mut Touched) {
        if touched.is_empty() {
            return;
        }
        touched.take().filter_map(|peer| self.links[peer].as_ref()).for_each(|link| link.flush());
    }

    pub fn look_at_backlog(&self, peer: MemberId, backlog: usize) {
        if backlog >= self.backlog_max {
            self.fail(PeerError::Backlog { peer, bytes: backlog });
        }
        let is_much = |bytes: usize| bytes > self.backlog_max / 2;
        if is_much(backlog) {
            self.congested.store(peer + 1, Ordering::Relaxed);
        } else if self.congested.load(Ordering::Relaxed) == peer + 1 {
            let other = self.links.iter().flatten().find(|link| is_much(link.backlog()));
            self.congested.store(other.map_or(0, |link| link.peer + 1), Ordering::Relaxed);
        }
    }

    /// A member that has not acknowledged more than half of the limit.
    pub fn congested(&self) -> Option<MemberId> {
        self.congested.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The first error counts.
    pub fn fail(&self, error: PeerError) {
        self.failed.send_if_modified(|failed| {
            let is_first = failed.is_none();
            failed.get_or_insert(error);
            is_first
        });
    }

    /// Writes an event to the trace, if there is one.
    pub fn journal(&self, resource: u32, process: ProcessId, event: impl FnOnce() -> Event) {
        if let Some(journal) = &self.journal {
            journal.lock().unwrap_or_else(PoisonError::into_inner).write(resource, process, event());
        }
    }

    /// The group is complete: the trace begins.
    pub fn journal_begin(&self) {
        if let Some(journal) = &self.journal {
            journal.lock().unwrap_or_else(PoisonError::into_inner).begin();
        }
    }

    /// The events of the next resource have this name.
    pub fn journal_name(&self, name: &[u8]) {
        if let Some(journal) = &self.journal {
            journal.lock().unwrap_or_else(PoisonError::into_inner).name(name);
        }
    }

    /// Ends the trace.
    pub fn journal_end(&self, reason: &str) {
        if let Some(journal) = &self.journal {
            journal.lock().unwrap_or_else(PoisonError::into_inner).end(reason);
        }
    }
}
