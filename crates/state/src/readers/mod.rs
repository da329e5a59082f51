//! The readers of the feed on one node: who is told what, and when. A pure machine between the transports and the state.
//!
//! **How to drive it.** Every call gets the feed of the state that this node has applied, and the index of the last entry
//! in it. Never give an older one than before. Where a reader begins is [`begin`]; then [`Readers::comes`] makes it known. Ask
//! for its next changes with [`Readers::next`] whenever its client can take some. After [`Next::Nothing`] wait until
//! [`Readers::applied`] names the reader. Call that a while after entries were applied: once for many entries is enough.
//!
//! - A reader costs nothing but its place in the feed. The machine keeps no change for it, so a reader that does not read
//!   holds back nothing. When the changes at its place are not kept any more, or it has not read for [`SLOW_MS`], it is told
//!   that it was too slow, and where to go on.
//! - A reader that has read everything is found by its prefix, so changes that it does not want cost nothing.
//! - A reader needs no leader: any node tells what it has applied.

mod event;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_types::cluster_id::ClusterId;
use baton_types::events::{Kinds, Position, Start, Watch};
use baton_types::name::NAME_BYTES_MAX;

use crate::state::feed::{Feed, KeptChange, Place};
pub use event::{event, leader, member, position};

/// The most readers of a node.
pub const READERS_MAX: usize = 1_024;
/// A reader for which there are changes must ask for them within this time.
pub const SLOW_MS: u64 = 30_000;
/// The most changes that a reader gets at once, and the size at which it gets no further one.
pub const BATCH_MAX: usize = 256;
pub const BATCH_BYTES_MAX: usize = 64 << 10;
/// The most changes that are looked at for one reader at once.
const LOOKED_AT_MAX: usize = 4_096;
/// A reader that wants none of so many entries is told how far it can go on.
const PROGRESS_ENTRIES: u64 = 8_192;

/// The shell chooses the numbers, and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(pub u64);

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this place.
    At(Place),
    /// With a listing of the state. `gone`: because it cannot begin where it wanted to.
    Listing { gone: bool },
    /// The node has not applied so many entries. It may do so soon, if it lags behind the one that gave the position.
    NotYet,
}

/// Why nobody can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the cluster keeps no changes yet: it begins when all members have been upgraded and one leads")]
    NotKept,
    #[error("the prefix has {bytes} bytes, and a name of a lock has at most {NAME_BYTES_MAX}: no lock has such a name")]
    Prefix { bytes: usize },
    #[error("{READERS_MAX} readers follow the changes of this server; it takes no more: ask another server")]
    TooMany,
}

/// Where this reader begins on this node.
pub fn begin(watch: &Watch, cluster: ClusterId, feed: &Feed, applied: u64) -> Result<Begin, Refusal> {
    if watch.prefix.len() > NAME_BYTES_MAX {
        return Err(Refusal::Prefix { bytes: watch.prefix.len() });
    }
    let first = feed.first().ok_or(Refusal::NotKept)?;
    let end = Place::after_entry(applied);
    Ok(match watch.start {
        Start::Now => Begin::At(end),
        Start::Oldest => Begin::At(first),
        Start::Listing => Begin::Listing { gone: false },
        Start::Position(Position { cluster: other, index, number }) => {
            let place = Place { index, number };
            match () {
                () if other.is_some_and(|other| other != cluster) || place < first => Begin::Listing { gone: true },
                () if place > end => Begin::NotYet,
                () => Begin::At(place),
            }
        }
    })
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// These changes, in order; there may be none. The reader goes on at `next`.
    Changes { changes: Vec<KeptChange>, next: Place },
    /// There is nothing for it now.
    Nothing,
    /// It was too slow. It could go on at this place, if the changes there are still kept. The reader is gone.
    TooSlow { next: Place },
    /// It wanted only what was there when it began, and has got it. The reader is gone.
    Over,
}

#[derive(Clone, Debug)]
struct Reader {
    kinds: Kinds,
    prefix: Box<[u8]>,
    /// Everything before this place was told, or is not for this reader.
    next: Place,
    /// How far it knows that it can go on.
    told: Place,
    /// It reads only up to this place.
    end: Option<Place>,
    /// It has read everything, and is named by `applied` when there is more.
    is_idle: bool,
    /// When it asked for the last time, or was named after it was idle.
    since_ms: u64,
}

impl Reader {
    fn wants(&self, change: &KeptChange) -> bool {
        let is_named = || change.locks().any(|lock| lock.as_bytes().starts_with(&self.prefix));
        self.kinds.has(change.kind()) && (self.prefix.is_empty() || is_named())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Readers {
    readers: BTreeMap<ReaderId, Reader>,
    /// The readers of each prefix.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<ReaderId>>,
    /// Number of prefixes of each length.
    lengths: BTreeMap<usize, usize>,
    /// Idle readers know of everything before this place.
    seen: Place,
    /// When idle readers are told how far they can go on.
    progress: Place,
}

impl Readers {
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// A reader comes, and begins at this place. `applied`: the last entry that the node has applied.
    pub fn comes(&mut self, now_ms: u64, id: ReaderId, watch: &Watch, at: Place, applied: u64) -> Result<(), Refusal> {
        if self.readers.len() >= READERS_MAX {
            return Err(Refusal::TooMany);
        }
        if self.is_empty() {
            // No idle reader needs what was applied before.
            self.seen = Place::after_entry(applied);
        }
        let prefix: Box<[u8]> = watch.prefix.as_slice().into();
        let end = watch.is_over_at_end.then(|| Place::after_entry(applied));
        let reader = Reader {
            kinds: watch.kinds,
            prefix: prefix.clone(),
            next: at,
            told: at,
            end,
            is_idle: false,
            since_ms: now_ms,
        };
        self.readers.insert(id, reader);
        let of_prefix = self.prefixes.entry(prefix.clone()).or_default();
        if of_prefix.is_empty() {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        of_prefix.insert(id);
        Ok(())
    }

    /// Its client is gone.
    pub fn goes(&mut self, id: ReaderId) {
        let Some(Reader { prefix, .. }) = self.readers.remove(&id) else { return };
        let Some(of_prefix) = self.prefixes.get_mut(&prefix) else { return };
        of_prefix.remove(&id);
        if of_prefix.is_empty() {
            self.prefixes.remove(&prefix);
            if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&prefix.len());
                }
            }
        }
    }

    /// Its client reads what the caller has for it.
    pub fn reads(&mut self, now_ms: u64, id: ReaderId) {
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.since_ms = now_ms;
        }
    }

    /// The client of a reader can take something. None if the reader is gone.
    pub fn next(&mut self, now_ms: u64, id: ReaderId, feed: &Feed, applied: u64) -> Option<Next> {
        let reader = self.readers.get_mut(&id)?;
        reader.since_ms = now_ms;
        if reader.is_idle {
            return Some(Next::Nothing);
        }
        if feed.first().is_none_or(|first| reader.next < first) {
            let next = reader.next;
            self.goes(id);
            return Some(Next::TooSlow { next });
        }
        let end = reader.end.unwrap_or(Place::after_entry(applied));
        let (mut changes, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let mut next = end;
        for change in feed.from(reader.next).take_while(|change| change.place < end) {
            if looked_at == LOOKED_AT_MAX || changes.len() == BATCH_MAX || bytes >= BATCH_BYTES_MAX {
                next = change.place;
                break;
            }
            looked_at += 1;
            if reader.wants(change) {
                bytes += change.bytes();
                changes.push(change.clone());
            }
        }
        let has_more = next < end;
        let is_news = !changes.is_empty() || has_more || next.index >= reader.told.index + PROGRESS_ENTRIES;
        reader.next = reader.next.max(next);
        Some(match is_news {
            true => {
                reader.told = reader.next;
                Next::Changes { changes, next: reader.next }
            }
            false if reader.end.is_some() => {
                self.goes(id);
                Next::Over
            }
            false => {
                reader.is_idle = true;
                Next::Nothing
            }
        })
    }

    /// Entries were applied. Returns the readers for which there is something now.
    pub fn applied(&mut self, now_ms: u64, feed: &Feed, applied: u64) -> Vec<ReaderId> {
        let mut wakes = Vec::new();
        let seen = std::mem::replace(&mut self.seen, Place::after_entry(applied));
        if self.is_empty() {
            return wakes;
        }
        if feed.first().is_none_or(|first| seen < first) {
            // Changes are gone that idle readers have not seen.
            self.wake_all(now_ms, seen, &mut wakes);
            return wakes;
        }
        for change in feed.from(seen) {
            self.find(now_ms, change, &mut wakes);
        }
        if self.seen > self.progress {
            let is_due = self.progress != Place::default();
            self.progress = Place::after_entry(applied.saturating_add(PROGRESS_ENTRIES));
            if is_due {
                self.wake_all(now_ms, seen, &mut wakes);
            }
        }
        wakes
    }

    /// Cuts the readers that have not asked for too long, although there is something for them. Returns them, and where
    /// each could go on.
    pub fn cut(&mut self, now_ms: u64) -> Vec<(ReaderId, Place)> {
        let is_slow = |reader: &Reader| !reader.is_idle && now_ms.saturating_sub(reader.since_ms) >= SLOW_MS;
        let slow = self.readers.iter().filter(|(_, reader)| is_slow(reader));
        let slow: Vec<_> = slow.map(|(id, reader)| (*id, reader.next)).collect();
        slow.iter().for_each(|(id, _)| self.goes(*id));
        slow
    }

    /// Finds the idle readers that want this change.
    fn find(&mut self, now_ms: u64, change: &KeptChange, wakes: &mut Vec<ReaderId>) {
        let mut wake = |ids: &BTreeSet<ReaderId>, readers: &mut BTreeMap<ReaderId, Reader>| {
            for id in ids {
                let Some(reader) = readers.get_mut(id) else { continue };
                if reader.is_idle && change.place >= reader.next && reader.kinds.has(change.kind()) {
                    // What came before is not for this reader.
                    (reader.is_idle, reader.next, reader.since_ms) = (false, change.place, now_ms);
                    wakes.push(*id);
                }
            }
        };
        if let Some(ids) = self.prefixes.get(&[][..]) {
            wake(ids, &mut self.readers);
        }
        for lock in change.locks() {
            let name = lock.as_bytes();
            for (&length, _) in self.lengths.range(1..=name.len()) {
                if let Some(ids) = self.prefixes.get(&name[..length]) {
                    wake(ids, &mut self.readers);
                }
            }
        }
    }

    /// Wakes the idle readers, which have seen everything before this place.
    fn wake_all(&mut self, now_ms: u64, seen: Place, wakes: &mut Vec<ReaderId>) {
        for (id, reader) in self.readers.iter_mut().filter(|(_, reader)| reader.is_idle) {
            (reader.is_idle, reader.next, reader.since_ms) = (false, reader.next.max(seen), now_ms);
            wakes.push(*id);
        }
    }
}
