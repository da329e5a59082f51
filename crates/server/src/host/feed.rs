//! The shell of the readers of the feed: it owns the pure machine, wakes the readers, and makes their listings. A reader
//! holds no change: its client takes the next ones when it has room. So a slow client holds nothing back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_types::events::{Kind, Listing, Position, Start, Told, Watch};
use tokio::sync::Notify;

use super::{Host, Shell};
use crate::clock;
use crate::listing::{self, ListLocks, Moment};
use crate::readers::{self, Begin, Next, ReaderId, Readers, Refusal};
use crate::replica::Replica;
use crate::state::State;
use crate::state::feed::Place;

/// A position of the future may be one that another node has applied already. This node waits so long for it.
const NOT_YET_MAX: Duration = Duration::from_secs(2);
const NOT_YET_EVERY: Duration = Duration::from_millis(20);
/// The most listings that are being read. Each keeps a copy of the state.
const LISTINGS_MAX: usize = 64;
/// After readers were woken, the next ones wait at least so long, and longer if they were many: then each gets more at
/// once.
const PACE_MIN: Duration = Duration::from_millis(4);
const PACE_OF_READER: Duration = Duration::from_micros(300);
/// How often slow readers are cut.
const CUT_EVERY: Duration = Duration::from_secs(1);

/// Why a reader gets nothing, or nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("this server is a member of a peer group, which keeps no changes")]
    PeerGroup,
    #[error("position {position} is of the future: this server has applied the log up to entry {applied}")]
    Future { position: Position, applied: u64 },
    #[error("{LISTINGS_MAX} readers are beginning with a listing; try again later")]
    TooManyListings,
    /// It has been told where to go on.
    #[error("the reader was too slow")]
    TooSlow,
    #[error("the server is stopping")]
    Stopping,
}

/// All readers of this node.
#[derive(Default)]
pub(super) struct Feeds(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    readers: Readers,
    seats: HashMap<ReaderId, Seat>,
    is_stopped: bool,
}

struct Seat {
    wake: Arc<Notify>,
    /// What the reader is listed before it follows.
    listing: Option<Box<Unlisted>>,
    /// The reader was cut, and could go on here.
    cut: Option<Place>,
}

/// What is left of a listing.
struct Unlisted {
    state: State,
    next: Place,
    prefix: Vec<u8>,
    /// What is still to come: locks, sessions, the cluster.
    locks: Option<Vec<u8>>,
    sessions: Option<Vec<u8>>,
    has_cluster: bool,
}

impl Feeds {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: no code panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all readers.
    pub fn stop(&self) {
        let mut inner = self.inner();
        inner.is_stopped = true;
        inner.seats.values().for_each(|seat| seat.wake.notify_one());
    }
}

/// One reader. Dropping it ends the reading.
pub struct FeedReader<R: Replica> {
    id: ReaderId,
    shell: Arc<Shell<R>>,
    wake: Arc<Notify>,
    /// What it is told first: where it begins.
    first: Option<Told>,
    is_over: bool,
}

impl<R: Replica> Drop for FeedReader<R> {
    fn drop(&mut self) {
        let mut inner = self.shell.feeds.inner();
        inner.readers.goes(self.id);
        inner.seats.remove(&self.id);
        if let (true, Some(signal)) = (inner.seats.is_empty(), self.shell.replica().changed()) {
            signal.want(false);
        }
    }
}

impl<R: Replica> Host<R> {
    /// Begins to read the feed.
    pub async fn watch(&self, watch: Watch) -> Result<FeedReader<R>, WatchError> {
        let until = Instant::now() + NOT_YET_MAX;
        loop {
            match self.begin_to_watch(&watch)? {
                Ok(reader) => return Ok(reader),
                Err(applied) => match watch.start {
                    Start::Position(position) if Instant::now() >= until => {
                        return Err(WatchError::Future { position, applied });
                    }
                    _ => tokio::time::sleep(NOT_YET_EVERY).await,
                },
            }
        }
    }

    /// The inner error is the last applied entry, if that is too early.
    fn begin_to_watch(&self, watch: &Watch) -> Result<Result<FeedReader<R>, u64>, WatchError> {
        let (shell, cluster) = (self.shell.clone(), self.cluster_id());
        let mut inner = shell.feeds.inner();
        if inner.is_stopped {
            return Err(WatchError::Stopping);
        }
        let (feed, applied) = shell.replica().feed().ok_or(WatchError::PeerGroup)?;
        let (at, applied, first, listing) = match readers::begin(watch, cluster, &feed, applied)? {
            Begin::NotYet => return Ok(Err(applied)),
            Begin::At(place) => {
                // Otherwise a reader whose connection breaks before the first change would not know where to go on.
                let next = readers::position(cluster, place);
                (place, applied, Some(Told::Events { events: Vec::new(), next }), None)
            }
            Begin::Listing { gone } => {
                if inner.seats.values().filter(|seat| seat.listing.is_some()).count() >= LISTINGS_MAX {
                    return Err(WatchError::TooManyListings);
                }
                let (state, _, applied) = shell.replica().for_backup().ok_or(WatchError::PeerGroup)?;
                let oldest = state.feed().first().unwrap_or_default();
                let gone = gone.then(|| Told::Gone { oldest: readers::position(cluster, oldest) });
                let next = Place::after_entry(applied);
                (next, applied, gone, Some(Box::new(Unlisted::new(state, next, watch))))
            }
        };
        if let Some(signal) = shell.replica().changed() {
            signal.want(true);
        }
        let (id, wake) = (ReaderId(shell.next_id()), Arc::new(Notify::new()));
        inner.readers.comes(clock::boot_ms(), id, watch, at, applied)?;
        inner.seats.insert(id, Seat { wake: wake.clone(), listing, cut: None });
        drop(inner);
        Ok(Ok(FeedReader { id, shell, wake, first, is_over: false }))
    }

    /// Wakes readers for which there is something, and cuts slow ones. Never returns.
    pub(super) async fn feed_readers(&self) {
        let shell = &self.shell;
        let Some(signal) = shell.replica().changed() else { return std::future::pending().await };
        loop {
            // An error means that the time is over.
            let _ = tokio::time::timeout(CUT_EVERY, signal.given()).await;
            let woken = self.wake_readers();
            tokio::time::sleep(PACE_MIN + PACE_OF_READER * woken).await;
        }
    }

    /// Returns how many were woken.
    fn wake_readers(&self) -> u32 {
        let mut inner = self.shell.feeds.inner();
        if inner.seats.is_empty() {
            return 0;
        }
        let Some((feed, applied)) = self.shell.replica().feed() else { return 0 };
        let now_ms = clock::boot_ms();
        let wakes = inner.readers.applied(now_ms, &feed, applied);
        for (id, place) in inner.readers.cut(now_ms) {
            if let Some(seat) = inner.seats.get_mut(&id) {
                (seat.cut, seat.listing) = (Some(place), None);
            }
        }
        wakes.iter().filter_map(|id| inner.seats.get(id)).for_each(|seat| seat.wake.notify_one());
        u32::try_from(wakes.len()).unwrap_or(u32::MAX)
    }
}

impl<R: Replica> FeedReader<R> {
    /// What the reader is told next. None at its end.
    pub async fn next(&mut self) -> Option<Result<Told, WatchError>> {
        if self.is_over {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        loop {
            match self.try_next() {
                Some(Ok(told)) => return Some(Ok(told)),
                Some(Err(None)) => {
                    self.is_over = true;
                    return None;
                }
                Some(Err(Some(why))) => {
                    self.is_over = true;
                    return Some(Err(why));
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// None if there is nothing now. The error is why the reading ends.
    fn try_next(&mut self) -> Option<Result<Told, Option<WatchError>>> {
        let (shell, now_ms) = (self.shell.clone(), clock::boot_ms());
        let cluster = shell.replica().cluster_id();
        let mut inner = shell.feeds.inner();
        if inner.is_stopped {
            return Some(Err(Some(WatchError::Stopping)));
        }
        let seat = inner.seats.get_mut(&self.id)?;
        if let Some(place) = seat.cut.take() {
            return Some(Ok(Told::TooSlow { next: readers::position(cluster, place) }));
        }
        if let Some(mut unlisted) = seat.listing.take() {
            inner.readers.reads(now_ms, self.id);
            drop(inner);
            let (part, is_last) = unlisted.part(&shell, cluster);
            if !is_last
                && let Some(seat) = shell.feeds.inner().seats.get_mut(&self.id).filter(|seat| seat.cut.is_none())
            {
                seat.listing = Some(unlisted);
            }
            return Some(Ok(Told::Listing(part)));
        }
        let (feed, applied) = shell.replica().feed()?;
        let next = inner.readers.next(now_ms, self.id, &feed, applied);
        drop(inner);
        match next {
            Some(Next::Changes { changes, next }) => {
                let events = changes.iter().map(|change| readers::event(cluster, change)).collect();
                Some(Ok(Told::Events { events, next: readers::position(cluster, next) }))
            }
            Some(Next::Nothing) => None,
            Some(Next::TooSlow { next }) => Some(Ok(Told::TooSlow { next: readers::position(cluster, next) })),
            Some(Next::Over) => Some(Err(None)),
            // It was told so before.
            None => Some(Err(Some(WatchError::TooSlow))),
        }
    }
}

impl Unlisted {
    fn new(state: State, next: Place, watch: &Watch) -> Unlisted {
        let wants = |kinds: &[Kind]| kinds.iter().any(|kind| watch.kinds.has(*kind));
        let of_sessions = [Kind::SessionOpened, Kind::SessionEnded];
        let of_cluster = [Kind::Member, Kind::Leader];
        let is_of_lock = |kind: &Kind| !of_sessions.contains(kind) && !of_cluster.contains(kind);
        let is_whole = watch.prefix.is_empty();
        Unlisted {
            state,
            next,
            prefix: watch.prefix.clone(),
            locks: watch.kinds.iter().any(|kind| is_of_lock(&kind)).then(Vec::new),
            sessions: (is_whole && wants(&of_sessions)).then(Vec::new),
            has_cluster: is_whole && wants(&of_cluster),
        }
    }

    /// The next part, and whether it is the last one.
    fn part<R: Replica>(&mut self, shell: &Shell<R>, cluster: baton_types::cluster_id::ClusterId) -> (Listing, bool) {
        let expires_in_ms =
            |session| shell.inner().frontend.leases().expires_in(session, clock::boot_ms()).unwrap_or(0);
        let moment = Moment { now_ms: clock::wall_ms(), expires_in_ms: &expires_in_ms };
        let mut part = Listing::default();
        // The pages are of this very state, so their tokens are sound.
        if let Some(page) = self.locks.take() {
            let request = ListLocks { prefix: self.prefix.clone(), page, ..ListLocks::default() };
            if let Ok(page) = listing::locks(&self.state, &moment, &request) {
                part.locks = page.items;
                self.locks = Some(page.next).filter(|next| !next.is_empty());
            }
        } else if let Some(page) = self.sessions.take()
            && let Ok(page) = listing::sessions(&self.state, &moment, &page)
        {
            part.sessions = page.items;
            self.sessions = Some(page.next).filter(|next| !next.is_empty());
        }
        let is_last = self.locks.is_none() && self.sessions.is_none();
        if is_last {
            if self.has_cluster {
                let members = self.state.feed().members().into_iter().flatten();
                part.members = members.map(|(node, member)| (*node, readers::member(member))).collect();
                part.leader = self.state.feed().leader().map(|leader| readers::leader(leader));
            }
            part.next = Some(readers::position(cluster, self.next));
        }
        (part, is_last)
    }
}
