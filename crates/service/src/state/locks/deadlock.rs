//! Whether a request would wait for itself.
//!
//! The vertices are owners. An owner that waits for nothing can finish: it gives back all that it has, those who stand in
//! line for that get it, and if one of them then waits for nothing more its owner can finish too. This reduction of the graph is
//! needed because of permits: where several hold one, a waiter needs one of them to finish, not all, and a cycle alone is
//! no deadlock. A new claim waits for itself if it is not granted even when all who can finish have finished. It is the
//! only one that can: before it, everybody could finish, and nobody waits behind it yet.
//!
//! A claim that waits with a time-out counts as one that waits for ever, a closed lock as one that will open.
//!
//! Work: none for an owner for whom nobody can be waiting (that is nearly every request). Otherwise each lock from which the new
//! claim can be reached is looked at once, and each claim at it a constant number of times, with a logarithm for finding
//! owners: O(n log n) for n places in lines, whatever they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::limits::CYCLE_SHOWN_MAX;
use super::lock::Lock;
use super::{Claim, LockName, Locks, Mode, Ticket, WaitFor};
use crate::state::sessions::Sessions;
use crate::state::{OwnerId, SessionId};

/// Up to this many holds of an owner are looked at one by one, to see that no claim waits for them. For owners with more the graph
/// is built.
const HOLDS_LOOKED_AT_MAX: usize = 64;

impl Locks {
    /// The cycle that this claim would close if it waited, beginning with itself.
    pub(super) fn cycle(&self, sessions: &Sessions, new: &Claim) -> Option<Vec<WaitFor>> {
        if self.nobody_can_wait_for(new) {
            return None;
        }
        let mut graph = Graph::around(self, new);
        graph.reduce();
        let steps = graph.cycle(new.owner)?;
        let in_words =
            |Step { owner, session, lock }| WaitFor { owner, label: sessions.label(session).to_owned(), lock };
        Some(steps.into_iter().take(CYCLE_SHOWN_MAX).map(in_words).collect())
    }

    fn nobody_can_wait_for(&self, new: &Claim) -> bool {
        let wanted = |name: &LockName| new.wants.iter().any(|want| want.lock == *name);
        let is_waited_for = |claim: &Claim| {
            claim.wants.iter().any(|want| wanted(&want.lock) || self.locks[&want.lock].next_waiter().is_some())
        };
        let mut holds = self.holds_of(new.owner);
        self.waits_of(new.owner).next().is_none()
            && !holds.by_ref().take(HOLDS_LOOKED_AT_MAX).any(is_waited_for)
            && holds.next().is_none()
    }
}

/// A step of a cycle.
struct Step {
    owner: OwnerId,
    session: SessionId,
    lock: LockName,
}

/// A claim, as far as it stands in the lines that are looked at.
struct Asker {
    owner: OwnerId,
    session: SessionId,
    several: bool,
    /// It holds, or would after the reduction.
    granted: bool,
    /// Its line and its position there, for each.
    places: Vec<(usize, usize)>,
}

/// All claims at a lock, in order; the first `granted` of them hold it or have held it.
struct Line {
    lock: LockName,
    permits: usize,
    /// The claim, as its index in the graph, and its mode.
    askers: Vec<(usize, Mode)>,
    granted: usize,
    /// How many of those granted have not finished, and how many of them share.
    held: usize,
    shared: usize,
    /// How far it has been looked at for a claim that shares, and for one that does not.
    looked_at: [usize; 2],
}

#[derive(Default)]
struct Owner {
    /// Its claims that waited before the reduction.
    waits: Vec<usize>,
    /// How many of them are not granted yet.
    wanting: usize,
    /// Where it holds something: the line and the mode.
    holds: Vec<(usize, Mode)>,
    finished: bool,
}

struct Graph {
    lines: Vec<Line>,
    askers: Vec<Asker>,
    by_ticket: BTreeMap<Ticket, usize>,
    owners: BTreeMap<OwnerId, Owner>,
    /// The new claim.
    new: usize,
}

impl Graph {
    /// All on whom the new claim could depend.
    fn around(locks: &Locks, new: &Claim) -> Self {
        let (lines, askers, by_ticket, owners) = (Vec::new(), Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut graph = Graph { lines, askers, by_ticket, owners, new: 0 };
        let wanted = |claim: &Claim| claim.wants.iter().map(|want| want.lock.clone()).collect::<Vec<_>>();
        let mut to_visit = wanted(new);
        let mut visited: BTreeSet<LockName> = to_visit.iter().cloned().collect();
        while let Some(name) = to_visit.pop() {
            let lock = locks.get(name.as_bytes()).map(|(_, lock)| lock);
            let mut claims: Vec<&Claim> =
                lock.into_iter().flat_map(|lock| lock.line.iter()).map(AsRef::as_ref).collect();
            claims.extend(new.wants.iter().any(|want| want.lock == name).then_some(new));
            let index = graph.lines.len();
            graph.lines.push(Line::new(&name, lock, &claims));
            for (position, claim) in claims.into_iter().enumerate() {
                let known = graph.owners.contains_key(&claim.owner);
                graph.add(index, position, claim);
                // The new claim does not gain by its owner's other ones: that does not finish before it. Those can be granted
                // without that, or they would have been refused.
                if !known && claim.owner != new.owner {
                    let depends_on = locks.waits_of(claim.owner).flat_map(wanted);
                    to_visit.extend(depends_on.filter(|name| visited.insert(name.clone())));
                }
            }
        }
        graph.new = graph.by_ticket[&new.ticket];
        graph
    }

    /// A claim stands at this position of this line, which is the last one so far.
    fn add(&mut self, line: usize, position: usize, claim: &Claim) {
        let owner = self.owners.entry(claim.owner).or_default();
        let asker = *self.by_ticket.entry(claim.ticket).or_insert_with(|| {
            let (several, granted) = (claim.wants_several(), claim.holds());
            let Claim { owner: id, session, .. } = *claim;
            self.askers.push(Asker { owner: id, session, several, granted, places: Vec::new() });
            if !granted {
                owner.waits.push(self.askers.len() - 1);
                owner.wanting += 1;
            }
            self.askers.len() - 1
        });
        self.askers[asker].places.push((line, position));
        let mode = claim.mode(&self.lines[line].lock);
        self.lines[line].askers.push((asker, mode));
        if claim.holds() {
            owner.holds.push((line, mode));
        }
    }

    /// Lets everybody finish who can. The owner of the new claim cannot before that is granted.
    fn reduce(&mut self) {
        let can_finish = |(&id, owner): (&OwnerId, &Owner)| (owner.wanting == 0).then_some(id);
        let mut finishing: Vec<OwnerId> = self.owners.iter().filter_map(can_finish).collect();
        // A closed lock opens whoever finishes, and may then be free for the first in line.
        self.advance((0..self.lines.len()).collect(), &mut finishing);
        while let Some(id) = finishing.pop() {
            let owner = self.owners.get_mut(&id).expect("whoever finishes is in the graph");
            owner.finished = true;
            for (index, mode) in std::mem::take(&mut owner.holds) {
                let line = &mut self.lines[index];
                line.held -= 1;
                line.shared -= usize::from(mode == Mode::Shared);
                self.advance(vec![index], &mut finishing);
            }
        }
    }

    /// Grants these locks to as many claims as can have them now, and then whatever comes after those elsewhere.
    fn advance(&mut self, mut lines: Vec<usize>, finishing: &mut Vec<OwnerId>) {
        while let Some(index) = lines.pop() {
            while let Some(asker) = self.grantable(index) {
                let places = std::mem::take(&mut self.askers[asker].places);
                let owner = self.owners.get_mut(&self.askers[asker].owner).expect("every asker has an owner");
                for &(at, position) in &places {
                    let line = &mut self.lines[at];
                    let mode = line.askers[position].1;
                    line.granted += 1;
                    line.held += 1;
                    line.shared += usize::from(mode == Mode::Shared);
                    owner.holds.push((at, mode));
                    if at != index {
                        lines.push(at);
                    }
                }
                owner.wanting -= 1;
                if owner.wanting == 0 {
                    finishing.push(self.askers[asker].owner);
                }
                self.askers[asker].granted = true;
                self.askers[asker].places = places;
            }
        }
    }

    /// The next claim of this line, if it is the next of all its lines and all admit it.
    fn grantable(&self, index: usize) -> Option<usize> {
        let line = &self.lines[index];
        let &(asker, _) = line.askers.get(line.granted)?;
        let is_free = |&(at, position): &(usize, usize)| self.lines[at].is_free_for(position);
        self.askers[asker].places.iter().all(is_free).then_some(asker)
    }

    /// The shortest way from the new claim to its own owner, among those who cannot finish.
    fn cycle(&mut self, start: OwnerId) -> Option<Vec<Step>> {
        if self.askers[self.new].granted {
            return None;
        }
        // Which owner was reached over which claim, at which line.
        let mut reached: BTreeMap<OwnerId, (usize, usize)> = BTreeMap::new();
        let mut waiting = VecDeque::from([self.new]);
        while let Some(asker) = waiting.pop_front() {
            for (line, position) in self.askers[asker].places.clone() {
                for blocker in self.blockers(line, position) {
                    if self.owners[&blocker].finished || reached.contains_key(&blocker) {
                        continue;
                    }
                    reached.insert(blocker, (asker, line));
                    if blocker == start {
                        return Some(self.way_back(&reached, start));
                    }
                    waiting.extend(self.owners[&blocker].waits.iter().filter(|waits| !self.askers[**waits].granted));
                }
            }
        }
        None
    }

    /// The owners of claims before this position for which it waits, without those given before to a claim that waits alike: those
    /// that conflict with it, and those that wait for another lock, too, and are not overtaken. A claim of several locks waits
    /// for nobody where it could go in: there may be a permit left.
    fn blockers(&mut self, line: usize, position: usize) -> Vec<OwnerId> {
        let line = &mut self.lines[line];
        if line.is_free_for(position) {
            return Vec::new();
        }
        let mode = line.askers[position].1;
        let from = &mut line.looked_at[usize::from(mode == Mode::Shared)];
        let range = *from..position.max(*from);
        *from = range.end;
        let blocks = |&(asker, other): &(usize, Mode)| {
            let asker = &self.askers[asker];
            (!other.shares_with(mode) || asker.several && !asker.granted).then_some(asker.owner)
        };
        line.askers[range].iter().filter_map(blocks).collect()
    }

    fn way_back(&self, reached: &BTreeMap<OwnerId, (usize, usize)>, start: OwnerId) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut owner = start;
        while let Some(&(asker, line)) = reached.get(&owner) {
            let Asker { owner: before, session, .. } = self.askers[asker];
            steps.push(Step { owner: before, session, lock: self.lines[line].lock.clone() });
            owner = before;
            if owner == start {
                break;
            }
        }
        steps.reverse();
        steps
    }
}

impl Line {
    /// The line of a lock, still without its askers. A lock that is not there yet, or is not in use, is free.
    fn new(name: &LockName, lock: Option<&Lock>, claims: &[&Claim]) -> Self {
        let held = lock.map_or(0, |lock| lock.held);
        let shared = claims.iter().take(held).filter(|claim| claim.mode(name) == Mode::Shared).count();
        let in_use = lock.filter(|lock| lock.in_use()).map(|lock| lock.permits);
        let permits = in_use.or_else(|| Some(claims.first()?.mode(name).permits())).unwrap_or(1) as usize;
        let (lock, askers, looked_at) = (name.clone(), Vec::with_capacity(claims.len()), [0; 2]);
        Line { lock, permits, askers, granted: held, held, shared, looked_at }
    }

    /// Whether the claim at this position is the next, and could have the lock.
    fn is_free_for(&self, position: usize) -> bool {
        let shares = self.askers[position].1 == Mode::Shared && self.shared == self.held;
        self.granted == position && (shares || self.held < self.permits)
    }
}
