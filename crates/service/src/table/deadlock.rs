//! Whether a request would wait for itself.
//!
//! The vertices are owners. An owner that waits for nothing can finish: it gives back all that it has, those who wait in
//! line for that get it, and if one of them then waits for nothing more its owner can finish too. This reduction of the graph is
//! needed because of permits: where several hold one, a waiter needs one of them to finish, not all, and a cycle alone is
//! no deadlock. A new request waits for itself if it is not granted even when all who can finish have finished. It is the
//! only one that can: before it, everybody could finish, and nobody waits behind it yet.
//!
//! A request that waits with a time-out counts as one that waits for ever, a closed lock as one that will open.
//!
//! Work: none for an owner for whom nobody can be waiting (that is nearly every request). Otherwise each lock from which the new
//! request can be reached is looked at once, and each of its holders and waiters a constant number of times, with a
//! logarithm for finding their owners: O(n log n) for n holders and waiters, whatever they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::limits::CYCLE_SHOWN_MAX;
use super::lock::{Claim, Lock};
use super::locks::{LockId, Locks};
use super::{Mode, OwnerId, SessionId, Table, WaitFor};

/// So many of an owner's holds are looked at to see that nobody waits for them. Owners with more take the long way.
const HOLDS_LOOKED_AT_MAX: usize = 64;

impl Table {
    /// The cycle that this acquire would close if it waited for this lock, beginning with itself.
    pub(super) fn cycle(&self, lock: LockId, wish: &Claim) -> Option<Vec<WaitFor>> {
        if nobody_can_wait_for(&self.locks, wish.owner, lock) {
            return None;
        }
        let mut graph = Graph::around(&self.locks, lock, wish);
        graph.reduce();
        let steps = graph.cycle(wish.owner)?;
        let in_words = |(lock, asker): (LockId, Asker)| WaitFor {
            owner: asker.owner,
            label: self.sessions.get(&asker.session).map(|session| session.label.to_string()).unwrap_or_default(),
            lock: self.locks.get(lock).map(|lock| lock.name.to_string()).unwrap_or_default(),
        };
        Some(steps.into_iter().take(CYCLE_SHOWN_MAX).map(in_words).collect())
    }
}

fn nobody_can_wait_for(locks: &Locks, owner: OwnerId, wanted: LockId) -> bool {
    let mut holds = locks.holds_of(owner);
    let waited_for = |id: LockId| id == wanted || locks.get(id).is_some_and(|lock| !lock.waiters.is_empty());
    locks.waits_of(owner).next().is_none()
        && !holds.by_ref().take(HOLDS_LOOKED_AT_MAX).any(waited_for)
        && holds.next().is_none()
}

/// Somebody in the line for a lock.
#[derive(Clone, Copy)]
struct Asker {
    owner: OwnerId,
    session: SessionId,
    mode: Mode,
}

impl From<&Claim> for Asker {
    fn from(claim: &Claim) -> Self {
        Asker { owner: claim.owner, session: claim.session, mode: claim.mode }
    }
}

/// All who hold a lock or wait for it, in order; the first `granted` of them hold it or have held it.
struct Line {
    lock: LockId,
    permits: usize,
    askers: Vec<Asker>,
    granted: usize,
    /// How many of those granted have not finished, and how many of them share.
    held: usize,
    shared: usize,
    /// So many from the first on have been looked at for somebody who shares, and for somebody who does not.
    looked_at: [usize; 2],
}

#[derive(Default)]
struct Owner {
    /// Where it waits, as line and position; those granted meanwhile are in `holds`, too.
    waits: Vec<(usize, usize)>,
    /// How many of them are not granted yet.
    wanting: usize,
    holds: Vec<(usize, Mode)>,
    finished: bool,
}

struct Graph {
    /// The first is of the lock that is wanted; the last asker in it is the new one.
    lines: Vec<Line>,
    owners: BTreeMap<OwnerId, Owner>,
}

impl Graph {
    /// All on whom the new request could depend.
    fn around(locks: &Locks, wanted: LockId, wish: &Claim) -> Self {
        let mut graph = Graph { lines: Vec::new(), owners: BTreeMap::new() };
        let mut to_visit = vec![wanted];
        let mut visited = BTreeSet::from([wanted]);
        while let Some(id) = to_visit.pop() {
            let Some(lock) = locks.get(id) else { continue };
            let mut line = Line::new(id, lock);
            if id == wanted {
                line.askers.push(wish.into());
            }
            let index = graph.lines.len();
            for (position, asker) in line.askers.iter().enumerate() {
                let known = graph.owners.contains_key(&asker.owner);
                let owner = graph.owners.entry(asker.owner).or_default();
                if position < line.granted {
                    owner.holds.push((index, asker.mode));
                } else {
                    owner.waits.push((index, position));
                    owner.wanting += 1;
                }
                // The new request does not gain by its own owner's other ones: that does not finish before it.
                if !known && asker.owner != wish.owner {
                    to_visit.extend(locks.waits_of(asker.owner).filter(|&id| visited.insert(id)));
                }
            }
            graph.lines.push(line);
        }
        graph
    }

    /// Lets everybody finish who can. The owner of the new request cannot before that is granted.
    fn reduce(&mut self) {
        let can_finish = |(&id, owner): (&OwnerId, &Owner)| (owner.wanting == 0).then_some(id);
        let mut finishing: Vec<OwnerId> = self.owners.iter().filter_map(can_finish).collect();
        // A closed lock opens whoever finishes, and may then be free for the first in line.
        for index in 0..self.lines.len() {
            self.advance(index, &mut finishing);
        }
        while let Some(id) = finishing.pop() {
            let Some(owner) = self.owners.get_mut(&id) else { continue };
            owner.finished = true;
            for (index, mode) in std::mem::take(&mut owner.holds) {
                let line = &mut self.lines[index];
                line.held -= 1;
                line.shared -= usize::from(mode == Mode::Shared);
                self.advance(index, &mut finishing);
            }
        }
    }

    /// Grants a lock to as many as can have it now.
    fn advance(&mut self, index: usize, finishing: &mut Vec<OwnerId>) {
        let line = &mut self.lines[index];
        while let Some(&asker) = line.askers.get(line.granted) {
            let shares = asker.mode == Mode::Shared && line.shared == line.held;
            if !shares && line.held >= line.permits {
                break;
            }
            line.granted += 1;
            line.held += 1;
            line.shared += usize::from(asker.mode == Mode::Shared);
            if let Some(owner) = self.owners.get_mut(&asker.owner) {
                owner.holds.push((index, asker.mode));
                owner.wanting -= 1;
                if owner.wanting == 0 {
                    finishing.push(asker.owner);
                }
            }
        }
    }

    /// The shortest way from the new request to its own owner, among those who cannot finish.
    fn cycle(&mut self, start: OwnerId) -> Option<Vec<(LockId, Asker)>> {
        let wanted = self.lines.first()?;
        let new = wanted.askers.len() - 1;
        if wanted.granted > new {
            return None;
        }
        // Who was reached over which request: a line and a position in it.
        let mut reached: BTreeMap<OwnerId, (usize, usize)> = BTreeMap::new();
        let mut requests = VecDeque::from([(0, new)]);
        while let Some((index, position)) = requests.pop_front() {
            for blocker in self.lines[index].blockers(position) {
                if self.owners.get(&blocker).is_none_or(|owner| owner.finished) || reached.contains_key(&blocker) {
                    continue;
                }
                reached.insert(blocker, (index, position));
                if blocker == start {
                    return Some(self.way_back(&reached, start));
                }
                let waits = &self.owners[&blocker].waits;
                requests.extend(waits.iter().filter(|&&(index, position)| position >= self.lines[index].granted));
            }
        }
        None
    }

    fn way_back(&self, reached: &BTreeMap<OwnerId, (usize, usize)>, start: OwnerId) -> Vec<(LockId, Asker)> {
        let mut steps = Vec::new();
        let mut owner = start;
        while let Some(&(index, position)) = reached.get(&owner) {
            let line = &self.lines[index];
            let asker = line.askers[position];
            steps.push((line.lock, asker));
            owner = asker.owner;
            if owner == start {
                break;
            }
        }
        steps.reverse();
        steps
    }
}

impl Line {
    fn new(id: LockId, lock: &Lock) -> Self {
        let holders = lock.holders.iter().map(|holder| Asker::from(&holder.claim));
        let waiters = lock.waiters.iter().map(|waiter| Asker::from(&waiter.claim));
        let shared = lock.holders.iter().filter(|holder| holder.claim.mode == Mode::Shared).count();
        Line {
            lock: id,
            permits: lock.permits as usize,
            askers: holders.chain(waiters).collect(),
            granted: lock.holders.len(),
            held: lock.holders.len(),
            shared,
            looked_at: [0; 2],
        }
    }

    /// The owners before this position that conflict with it, without those given before to somebody who waits alike.
    fn blockers(&mut self, position: usize) -> Vec<OwnerId> {
        let mode = self.askers[position].mode;
        let from = &mut self.looked_at[usize::from(mode == Mode::Shared)];
        let range = *from..position.max(*from);
        *from = range.end;
        self.askers[range].iter().filter(|asker| !asker.mode.shares_with(mode)).map(|asker| asker.owner).collect()
    }
}
