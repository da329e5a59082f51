//! Finds the claims that can matter to a new claim, without reading whole lines.
//!
//! A hold is *contended* if another claim stands in the line of one of its locks. Other holds do not matter, because
//! nobody waits for them. Most claims that wait or are contended are *plain*: the only such claim of their owner, for one
//! lock, without parent and children. A plain claim leads a search to no other line, and finishes as soon as it is
//! granted. The index of a line has the others, the *tangled* claims ([`Locks::is_tangled`]). A search visits only those,
//! and:
//!
//! - claims that are tangled only because of the new claim (`guests`);
//! - the first claim behind each visited shared one that wants the lock for itself alone. Even if it is plain, it can
//!   keep later shared claims from joining the earlier one, so a cycle can go over it. The plain claims after it, up to
//!   the next visited claim, wait for nothing else, and a shortest cycle begins with the first.
//!
//! A path back to the new claim's owner is looked for from both ends, in turns with a growing limit, so the cost is that
//! of the cheaper end:
//!
//! - [`Search::waiting_for_new`]: the owners that could wait for the owner, directly or through others. If none of them
//!   stands in a line of the new claim, there is no cycle. This is so for nearly every request: the owner has nothing
//!   that others wait for.
//! - [`Search::around`]: everything that the new claim could depend on.
//!
//! If a cycle is possible, the graph is built of what the cheaper end has found. From the first end this is exact only
//! if no owner has a parent (or else other owners could be stuck already), and if no owner in it waits in two lines,
//! because the order of the second end's visits decides between cycles of one length.
//!
//! Work: O(n log n) for n visits, counted in `visited`, of tangled claims and pairs of parent and child. n does not
//! depend on plain claims. It is at most a small multiple of the cheaper end; of the second end in the case just named.
//! The front end refuses an acquire whose search would take more than [`VISITS_MAX`] visits, before it is in the log.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::graph::{Graph, Step};
use crate::state::OwnerId;
#[cfg(doc)]
use crate::state::locks::limits::VISITS_MAX;
use crate::state::locks::{Claim, LockName, Locks, Mode, Ticket, Want, names};

/// The first limit of visits of each end.
const FIRST_LIMIT: usize = 64;

/// Claims of a lock, in order.
type InLine<'a> = BTreeMap<Ticket, &'a Claim>;

pub struct Search<'a> {
    locks: &'a Locks,
    new: &'a Claim,
    /// The holds that the new claim makes contended, because they are alone at one of its locks.
    alone: SmallVec<[&'a Claim; 1]>,
    /// The claims that can be tangled only because of the new claim: those of its owner, of its parent, and of the
    /// owners of `alone`. If an owner has more than two, the index has them.
    guests: BTreeMap<&'a LockName, InLine<'a>>,
    /// If no owner has a parent.
    no_parents: bool,
    /// Number of claims and children that were visited.
    pub visited: usize,
    /// The search gives up after this number of visits.
    visits_max: usize,
    /// Number of visits that are left to this attempt.
    left: usize,
}

#[derive(Debug)]
struct TooManyVisits;

/// The owners that could wait for the owner of the new claim.
struct Waiting {
    owners: BTreeSet<OwnerId>,
    /// True if one of them stands in a line of the new claim.
    are_waited_for: bool,
}

impl<'a> Search<'a> {
    pub fn new(locks: &'a Locks, new: &'a Claim) -> Self {
        let no_parents = locks.children.is_empty() && new.kinship().is_none();
        let lines = new.wants.iter().filter_map(|want| locks.locks.get(&want.lock)).map(|lock| &lock.line);
        let alone = lines.filter(|line| line.len() == 1).flat_map(|line| line.last()).map(AsRef::as_ref);
        let alone: SmallVec<[&Claim; 1]> = alone.filter(|claim| claim.holds()).collect();
        let owners = [Some(new.owner), new.kinship().map(|(parent, _)| parent)].into_iter().flatten();
        let owners = owners.chain(alone.iter().map(|claim| claim.owner));
        let mut guests: BTreeMap<&LockName, InLine<'_>> = BTreeMap::new();
        for claim in owners.flat_map(|owner| locks.relevant_of(owner).take(2)).chain(alone.iter().copied()) {
            for want in &claim.wants {
                guests.entry(&want.lock).or_default().insert(claim.ticket, claim);
            }
        }
        Search { locks, new, alone, guests, no_parents, visited: 0, visits_max: usize::MAX, left: 0 }
    }

    /// The cycle that the new claim would close if it waited, beginning with itself.
    pub fn cycle(&mut self) -> Option<Vec<Step>> {
        self.cycle_with_limit(FIRST_LIMIT)
    }

    /// `limit` is the first limit of visits of each end.
    pub(super) fn cycle_with_limit(&mut self, limit: usize) -> Option<Vec<Step>> {
        let graph = self.graph(limit).expect("the number of visits has no limit");
        graph?.solve(self.new)
    }

    /// Whether the search takes more than this number of visits.
    pub fn takes_more_than(&mut self, visits_max: usize) -> bool {
        self.visits_max = visits_max;
        self.graph(FIRST_LIMIT).is_err()
    }

    /// The graph that shows whether there is a cycle; none if there cannot be one.
    fn graph(&mut self, mut limit: usize) -> Result<Option<Graph>, TooManyVisits> {
        loop {
            self.begin_attempt(limit)?;
            if let Some(waiting) = self.waiting_for_new() {
                if !waiting.are_waited_for {
                    return Ok(None);
                }
                if let Some(graph) = self.among(&waiting.owners) {
                    return Ok(Some(graph));
                }
                limit = usize::MAX;
            }
            self.begin_attempt(limit)?;
            if let Some(graph) = self.around() {
                return Ok(Some(graph));
            }
            limit = limit.saturating_mul(2);
        }
    }

    fn begin_attempt(&mut self, limit: usize) -> Result<(), TooManyVisits> {
        self.left = limit.min(self.visits_max - self.visited);
        if self.left == 0 { Err(TooManyVisits) } else { Ok(()) }
    }

    /// The same, found from the second end only.
    #[cfg(test)]
    pub(super) fn cycle_around(&mut self) -> Option<Vec<Step>> {
        self.left = usize::MAX;
        self.around()?.solve(self.new)
    }

    /// Fails if the limit of this attempt is reached.
    fn visit(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        self.visited += 1;
        Some(())
    }

    /// The claims of an owner that another claim could wait for, once the new claim waits.
    fn relevant_of(&self, owner: OwnerId) -> impl Iterator<Item = &'a Claim> + use<'a> {
        // One of them may be contended at another lock already. Then it comes twice.
        let alone: SmallVec<[&Claim; 1]> = self.alone.iter().copied().filter(|claim| claim.owner == owner).collect();
        self.locks.relevant_of(owner).chain(alone)
    }

    /// The owner of the new claim, all owners with a claim behind one of theirs in a line, and all their ancestors. None
    /// if the limit is reached.
    fn waiting_for_new(&mut self) -> Option<Waiting> {
        let new = self.new;
        let mut owners = BTreeSet::from([new.owner]);
        let mut to_visit: Vec<OwnerId> = vec![new.owner];
        let mut are_waited_for = false;
        // The claims behind this ticket are visited.
        let mut visited_from: BTreeMap<&LockName, Ticket> = BTreeMap::new();
        while let Some(owner) = to_visit.pop() {
            let of_new = new.kinship().filter(|(_, child)| *child == owner).map(|(parent, _)| parent);
            for parent in self.locks.parents_of(owner).chain(of_new) {
                self.visit()?;
                to_visit.extend(owners.insert(parent).then_some(parent));
            }
            for claim in self.relevant_of(owner) {
                self.visit()?;
                for Want { lock: name, .. } in &claim.wants {
                    are_waited_for |= new.wants.iter().any(|want| want.lock == *name);
                    // No holder waits.
                    let from = claim.ticket.max(self.locks.locks[name].held_to);
                    let up_to = visited_from.entry(name).or_insert(Ticket::MAX);
                    for behind in self.tangled(name, from, *up_to) {
                        self.visit()?;
                        to_visit.extend(owners.insert(behind.owner).then_some(behind.owner));
                    }
                    *up_to = from.min(*up_to);
                }
            }
        }
        Some(Waiting { owners, are_waited_for })
    }

    /// The tangled claims of a lock with a ticket above the first and up to the second of these.
    fn tangled(&self, name: &LockName, above: Ticket, up_to: Ticket) -> impl Iterator<Item = &'a Claim> + use<'a> {
        let line = self.locks.locks.get(name).map(|lock| &lock.line);
        let guests: SmallVec<[&Claim; 2]> =
            self.guests.get(name).into_iter().flat_map(InLine::values).copied().collect();
        let guests = guests.into_iter().filter(move |claim| above < claim.ticket && claim.ticket <= up_to);
        line.into_iter().flat_map(move |line| line.tangled(above, up_to)).map(AsRef::as_ref).chain(guests)
    }

    /// The graph of these owners, who could wait for the owner of the new claim. All others can finish. None if it would
    /// not be exact.
    fn among(&mut self, owners: &BTreeSet<OwnerId>) -> Option<Graph> {
        if !self.no_parents {
            return None;
        }
        self.left = self.visits_max - self.visited;
        let new = self.new;
        let mut lines: BTreeMap<&LockName, InLine<'_>> = BTreeMap::new();
        for &owner in owners {
            let mut waits_at = None;
            for claim in self.relevant_of(owner) {
                self.visit()?;
                for want in &claim.wants {
                    let is_other =
                        !claim.holds() && waits_at.replace(&want.lock).is_some_and(|lock| *lock != want.lock);
                    if is_other && owner != new.owner {
                        return None;
                    }
                    lines.entry(&want.lock).or_default().insert(claim.ticket, claim);
                }
            }
        }
        let mut graph = Graph::default();
        // `around` visits the lines of the new claim in this order.
        let own = new.wants.iter().rev().map(|want| &want.lock);
        let own: Vec<_> = own.map(|name| (name, lines.remove(name).unwrap_or_default())).collect();
        for (name, claims) in own.into_iter().chain(lines) {
            self.add_line(&mut graph, name, claims)?.into_iter().for_each(|claim| graph.add(claim));
        }
        Some(graph)
    }

    /// The graph of all lines and owners that the new claim could depend on. None if the limit is reached.
    fn around(&mut self) -> Option<Graph> {
        let (locks, new) = (self.locks, self.new);
        let mut graph = Graph::default();
        let mut to_visit = names(new).into_vec();
        let mut visited: BTreeSet<LockName> = to_visit.iter().cloned().collect();
        while let Some(name) = to_visit.pop() {
            let mut claims = InLine::new();
            for claim in self.tangled(&name, 0, Ticket::MAX) {
                self.visit()?;
                claims.insert(claim.ticket, claim);
            }
            for claim in self.add_line(&mut graph, &name, claims)? {
                let known = graph.knows(claim.owner);
                graph.add(claim);
                // The other claims of the new claim's owner do not matter: this owner cannot finish before the new claim
                // is granted. If no owner has a parent, these other claims can be granted without it, or they would have
                // been refused.
                if known || self.no_parents && claim.owner == new.owner {
                    continue;
                }
                for owner in self.add_descendants(&mut graph, claim.owner)? {
                    for waits in locks.waits_of(owner) {
                        self.visit()?;
                        to_visit.extend(names(waits).into_iter().filter(|name| visited.insert(name.clone())));
                    }
                }
            }
        }
        Some(graph)
    }

    /// Adds a line to the graph, without its claims. Returns them: these, the exclusive ones that can be between two of
    /// them, and the new claim if it wants this lock.
    fn add_line(&mut self, graph: &mut Graph, name: &LockName, mut claims: InLine<'a>) -> Option<Vec<&'a Claim>> {
        let lock = self.locks.locks.get(name);
        let is_shared = |claim: &&&Claim| claim.mode(name) == Mode::Shared;
        let shared: Vec<Ticket> = claims.values().filter(is_shared).map(|claim| claim.ticket).collect();
        for ticket in shared {
            self.visit()?;
            let exclusive = lock.and_then(|lock| lock.line.exclusive_after(ticket));
            claims.extend(exclusive.map(|claim| (claim.ticket, claim.as_ref())));
        }
        let new = self.new.wants.iter().any(|want| want.lock == *name).then_some(self.new);
        let claims: Vec<&Claim> = claims.into_values().chain(new).collect();
        graph.add_line(name, lock.map(AsRef::as_ref), &claims);
        Some(claims)
    }

    /// Adds the descendants of an owner that is new in the graph. Returns the owner and its descendants that are new,
    /// too.
    fn add_descendants(&mut self, graph: &mut Graph, owner: OwnerId) -> Option<SmallVec<[OwnerId; 1]>> {
        let (locks, new) = (self.locks, self.new);
        let mut family = SmallVec::from_iter([owner]);
        let mut at = 0;
        while let Some(&parent) = family.get(at) {
            at += 1;
            let of_new = new.kinship().filter(|kinship| kinship.0 == parent && !locks.children.contains_key(kinship));
            for child in locks.children_of(parent).chain(of_new.map(|(_, child)| child)) {
                self.visit()?;
                if !graph.knows(child) {
                    family.push(child);
                }
                graph.add_kinship(parent, child);
            }
        }
        Some(family)
    }
}
