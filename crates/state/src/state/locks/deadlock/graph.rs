//! The graph of a search: its reduction, and the cycle.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use crate::state::locks::lock::Lock;
use crate::state::locks::{Claim, LockName, Mode, Ticket};
use crate::state::{OwnerId, SessionId};

/// An owner of the cycle, and the lock that it waits for.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub owner: OwnerId,
    pub session: SessionId,
    pub lock: LockName,
}

/// A claim, as far as it stands in the visited lines.
struct Asker {
    owner: OwnerId,
    session: SessionId,
    several: bool,
    /// True if it holds, or is granted during the reduction.
    granted: bool,
    /// Each line that it stands in, and its position there.
    places: Vec<(usize, usize)>,
}

/// The claims at a lock that the search needs, in order. The first `granted` of them hold it, or held it before they finished.
struct Line {
    lock: LockName,
    permits: usize,
    /// The claim, as its index in the graph, and its mode.
    askers: Vec<(usize, Mode)>,
    granted: usize,
    /// Number of granted claims that have not finished (`held`), and how many of those are shared.
    held: usize,
    shared: usize,
    /// How far the search has visited the line: for claims that are not shared, and for shared ones.
    looked_at: [usize; 2],
}

#[derive(Default)]
struct Owner {
    /// Its claims that waited before the reduction.
    waits: Vec<usize>,
    /// Number of those claims that are not granted yet.
    wanting: usize,
    /// The lines and modes of its holds.
    holds: Vec<(usize, Mode)>,
    /// The owners that it acts for, and the owners that act for it.
    parents: Vec<OwnerId>,
    children: Vec<OwnerId>,
    /// Number of children that have not finished.
    children_left: usize,
    finished: bool,
}

impl Owner {
    fn can_finish(&self) -> bool {
        self.wanting == 0 && self.children_left == 0
    }
}

/// How the search for a cycle has reached an owner.
#[derive(Clone, Copy)]
enum Way {
    /// A claim waits for the owner at a line.
    Waits { asker: usize, line: usize },
    /// The owner's parent waits for it.
    Parent(OwnerId),
}

#[derive(Default)]
pub struct Graph {
    lines: Vec<Line>,
    askers: Vec<Asker>,
    by_ticket: BTreeMap<Ticket, usize>,
    owners: BTreeMap<OwnerId, Owner>,
}

impl Graph {
    /// Adds a lock, whose claims follow with [`Graph::add`]. `lock` is none if it does not exist yet.
    pub fn add_line(&mut self, name: &LockName, lock: Option<&Lock>, claims: &[&Claim]) {
        self.lines.push(Line::new(name, lock, claims));
    }

    pub fn knows(&self, owner: OwnerId) -> bool {
        self.owners.contains_key(&owner)
    }

    /// The child acts for the parent.
    pub fn add_kinship(&mut self, parent: OwnerId, child: OwnerId) {
        self.owners.entry(child).or_default().parents.push(parent);
        let parent = self.owners.entry(parent).or_default();
        parent.children.push(child);
        parent.children_left += 1;
    }

    /// Adds the next claim of the last line.
    pub fn add(&mut self, claim: &Claim) {
        let line = self.lines.len() - 1;
        let position = self.lines[line].askers.len();
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

    /// The cycle that the new claim closes, if it does.
    pub fn solve(mut self, new: &Claim) -> Option<Vec<Step>> {
        self.reduce();
        self.cycle(self.by_ticket[&new.ticket], new.owner)
    }

    /// Lets every owner finish that can. The owner of the new claim cannot finish before the new claim is granted.
    fn reduce(&mut self) {
        let can_finish = |(&id, owner): (&OwnerId, &Owner)| owner.can_finish().then_some(id);
        let mut finishing: Vec<OwnerId> = self.owners.iter().filter_map(can_finish).collect();
        // A closed lock opens by itself, and may then be free for its first waiter.
        self.advance((0..self.lines.len()).collect(), &mut finishing);
        while let Some(id) = finishing.pop() {
            let owner = self.owners.get_mut(&id).expect("every owner that finishes is in the graph");
            owner.finished = true;
            let (holds, parents) = (std::mem::take(&mut owner.holds), std::mem::take(&mut owner.parents));
            for id in parents {
                let parent = self.owners.get_mut(&id).expect("a parent is in the graph");
                parent.children_left -= 1;
                finishing.extend(parent.can_finish().then_some(id));
            }
            for (index, mode) in holds {
                let line = &mut self.lines[index];
                line.held -= 1;
                line.shared -= usize::from(mode == Mode::Shared);
                self.advance(vec![index], &mut finishing);
            }
        }
    }

    /// Grants these lines to as many claims as possible. If a claim stands in other lines, too, checks those lines
    /// next.
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
                if owner.can_finish() {
                    finishing.push(self.askers[asker].owner);
                }
                self.askers[asker].granted = true;
                self.askers[asker].places = places;
            }
        }
    }

    /// The next claim of this line, if it is the next one in all its lines and all admit it.
    fn grantable(&self, index: usize) -> Option<usize> {
        let line = &self.lines[index];
        let &(asker, _) = line.askers.get(line.granted)?;
        let is_free = |&(at, position): &(usize, usize)| self.lines[at].is_free_for(position);
        self.askers[asker].places.iter().all(is_free).then_some(asker)
    }

    /// The shortest path from the new claim to its own owner, among the owners that cannot finish.
    fn cycle(&mut self, new: usize, start: OwnerId) -> Option<Vec<Step>> {
        if self.askers[new].granted {
            return None;
        }
        let mut reached = BTreeMap::new();
        let mut waiting = VecDeque::from([new]);
        while let Some(asker) = waiting.pop_front() {
            for (line, position) in self.askers[asker].places.clone() {
                for blocker in self.blockers(line, position) {
                    self.reach(blocker, Way::Waits { asker, line }, start, &mut reached, &mut waiting);
                    if reached.contains_key(&start) {
                        return Some(self.way_back(&reached, start));
                    }
                }
            }
        }
        None
    }

    /// Marks an owner and its descendants as reached, if they cannot finish. Queues the claims that they wait with. The
    /// search ends at `start`.
    fn reach(
        &self,
        owner: OwnerId,
        way: Way,
        start: OwnerId,
        reached: &mut BTreeMap<OwnerId, Way>,
        waiting: &mut VecDeque<usize>,
    ) {
        let mut ways: SmallVec<[(OwnerId, Way); 1]> = SmallVec::from_iter([(owner, way)]);
        while let Some((id, way)) = ways.pop() {
            let owner = &self.owners[&id];
            if owner.finished || reached.contains_key(&id) {
                continue;
            }
            reached.insert(id, way);
            if id == start {
                return;
            }
            waiting.extend(owner.waits.iter().filter(|waits| !self.askers[**waits].granted));
            ways.extend(owner.children.iter().map(|child| (*child, Way::Parent(id))));
        }
    }

    /// The owners that the claim at this position waits for. These are the owners of earlier claims that conflict with
    /// it, and of earlier claims of several locks that still wait, because it does not overtake them. Omits owners that
    /// were returned before for a claim with the same kind of mode. A claim of several locks waits for no owner at a
    /// line that admits it, for example because a permit is left.
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

    /// The waits of the cycle. A parent that waits for its child is no step, because no lock is involved.
    fn way_back(&self, reached: &BTreeMap<OwnerId, Way>, start: OwnerId) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut owner = start;
        while let Some(&way) = reached.get(&owner) {
            owner = match way {
                Way::Parent(parent) => parent,
                Way::Waits { asker, line } => {
                    let Asker { owner, session, .. } = self.askers[asker];
                    steps.push(Step { owner, session, lock: self.lines[line].lock.clone() });
                    owner
                }
            };
            if owner == start {
                break;
            }
        }
        steps.reverse();
        steps
    }
}

impl Line {
    /// The line of a lock, still without its askers. A lock that does not exist yet, or is not in use, is free.
    fn new(name: &LockName, lock: Option<&Lock>, claims: &[&Claim]) -> Self {
        let held = claims.iter().take_while(|claim| claim.holds()).count();
        let shared = claims.iter().take(held).filter(|claim| claim.mode(name) == Mode::Shared).count();
        let in_use = lock.filter(|lock| lock.in_use()).map(|lock| lock.permits);
        let permits = in_use.or_else(|| Some(claims.first()?.mode(name).permits())).unwrap_or(1) as usize;
        let (lock, askers, looked_at) = (name.clone(), Vec::with_capacity(claims.len()), [0; 2]);
        Line { lock, permits, askers, granted: held, held, shared, looked_at }
    }

    /// Whether the claim at this position is the next one, and the lock admits it.
    fn is_free_for(&self, position: usize) -> bool {
        let shares = self.askers[position].1 == Mode::Shared && self.shared == self.held;
        self.granted == position && (shares || self.held < self.permits)
    }
}
