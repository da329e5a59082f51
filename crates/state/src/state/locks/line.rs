//! The line of a lock: its claims, in ascending order of their tickets.
//!
//! A line may have 100,000 claims, so every change of it costs at most a logarithm of its length, also while a reader has
//! a clone of it, and also in the middle. Two indices say which claims matter to a search for deadlocks.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::Mode;
use super::claim::{Claim, Ticket};

/// Most locks have one claim at a time, and there may be a million locks, so a single claim needs no allocation.
#[derive(Clone, Debug, Default)]
pub enum Line {
    #[default]
    Empty,
    One(Place),
    /// Boxed, so that it has the size of a pointer.
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
pub struct Place {
    claim: Arc<Claim>,
    is_tangled: bool,
    is_exclusive: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Many {
    claims: OrdMap<Ticket, Arc<Claim>>,
    tangled: OrdSet<Ticket>,
    exclusive: OrdSet<Ticket>,
}

impl Line {
    /// The claims, in one of two forms.
    fn parts(&self) -> (Option<&Place>, Option<&Many>) {
        match self {
            Line::Empty => (None, None),
            Line::One(place) => (Some(place), None),
            Line::Many(many) => (None, Some(many)),
        }
    }

    pub fn len(&self) -> usize {
        let (one, many) = self.parts();
        usize::from(one.is_some()) + many.map_or(0, |many| many.claims.len())
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Line::Empty)
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Arc<Claim>> {
        let (one, many) = self.parts();
        let one = one.filter(|place| place.claim.ticket == ticket).map(|place| &place.claim);
        one.or_else(|| many?.claims.get(&ticket))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Claim>> {
        let (one, many) = self.parts();
        one.into_iter().map(|place| &place.claim).chain(many.into_iter().flat_map(|many| many.claims.values()))
    }

    /// The claims with a ticket above this one.
    pub fn after(&self, ticket: Ticket) -> impl Iterator<Item = &Arc<Claim>> {
        let (one, many) = self.parts();
        let one = one.map(|place| &place.claim).filter(|claim| claim.ticket > ticket);
        let above = (Bound::Excluded(ticket), Bound::Unbounded);
        one.into_iter().chain(many.into_iter().flat_map(move |many| many.claims.range(above).map(|(_, claim)| claim)))
    }

    /// The last claim with a ticket below this one.
    pub fn before(&self, ticket: Ticket) -> Option<&Arc<Claim>> {
        let (one, many) = self.parts();
        let one = one.map(|place| &place.claim).filter(|claim| claim.ticket < ticket);
        one.or_else(|| many?.claims.range(..ticket).next_back().map(|(_, claim)| claim))
    }

    pub fn last(&self) -> Option<&Arc<Claim>> {
        let (one, many) = self.parts();
        one.map(|place| &place.claim).or_else(|| many?.claims.get_max().map(|(_, claim)| claim))
    }

    /// Number of claims with a ticket of at most this one. Counts them, so it is for readers only.
    pub fn up_to(&self, ticket: Ticket) -> usize {
        let (one, many) = self.parts();
        let one = one.is_some_and(|place| place.claim.ticket <= ticket);
        usize::from(one) + many.map_or(0, |many| many.claims.range(..=ticket).count())
    }

    /// Adds a claim that is not tangled yet, and wants the lock in this mode. Its ticket must be new in the line.
    pub fn push(&mut self, claim: Arc<Claim>, mode: Mode) {
        let place = Place { claim, is_tangled: false, is_exclusive: is_exclusive(mode) };
        *self = match std::mem::take(self) {
            Line::Empty => Line::One(place),
            Line::One(first) => {
                let mut many = Box::<Many>::default();
                many.push(first);
                many.push(place);
                Line::Many(many)
            }
            Line::Many(mut many) => {
                many.push(place);
                Line::Many(many)
            }
        };
    }

    /// Replaces the claim with this ticket, and returns it.
    pub fn replace(&mut self, claim: Arc<Claim>) -> Arc<Claim> {
        let at = match self {
            Line::Many(many) => many.claims.get_mut(&claim.ticket),
            Line::One(place) if place.claim.ticket == claim.ticket => Some(&mut place.claim),
            _ => None,
        };
        std::mem::replace(at.expect(IN_LINE), claim)
    }

    pub fn remove(&mut self, ticket: Ticket) -> Arc<Claim> {
        match std::mem::take(self) {
            Line::Many(mut many) => {
                let claim = many.claims.remove(&ticket).expect(IN_LINE);
                many.tangled.remove(&ticket);
                many.exclusive.remove(&ticket);
                // A single remaining claim stays in the map, because others may come soon.
                if !many.claims.is_empty() {
                    *self = Line::Many(many);
                }
                claim
            }
            Line::One(place) if place.claim.ticket == ticket => place.claim,
            _ => panic!("{IN_LINE}"),
        }
    }

    /// Whether the claim with this ticket is in the index of tangled claims: see [`Locks::is_tangled`].
    ///
    /// [`Locks::is_tangled`]: super::Locks::is_tangled
    pub fn is_tangled(&self, ticket: Ticket) -> bool {
        match self {
            Line::Empty => false,
            Line::One(place) => place.is_tangled && place.claim.ticket == ticket,
            Line::Many(many) => many.tangled.contains(&ticket),
        }
    }

    /// Changes the index of tangled claims.
    pub fn set_tangled(&mut self, ticket: Ticket, is_tangled: bool) {
        match self {
            Line::Many(many) if is_tangled => drop(many.tangled.insert(ticket)),
            Line::Many(many) => drop(many.tangled.remove(&ticket)),
            Line::One(place) if place.claim.ticket == ticket => place.is_tangled = is_tangled,
            _ => panic!("{IN_LINE}"),
        }
    }

    /// The tangled claims with a ticket above the first and up to the second of these.
    pub fn tangled(&self, above: Ticket, up_to: Ticket) -> impl Iterator<Item = &Arc<Claim>> {
        let range = (Bound::Excluded(above), Bound::Included(up_to));
        let (one, many) = self.parts();
        let one = one.filter(|place| place.is_tangled).map(|place| &place.claim);
        let one = one.filter(move |claim| above < claim.ticket && claim.ticket <= up_to);
        // A range that ends before it begins is invalid.
        let many = many.filter(|_| above < up_to).into_iter();
        one.into_iter().chain(many.flat_map(move |many| many.tangled.range(range).map(|ticket| &many.claims[ticket])))
    }

    /// The first claim with a ticket above this one that wants the lock for itself alone.
    pub fn exclusive_after(&self, ticket: Ticket) -> Option<&Arc<Claim>> {
        let (one, many) = self.parts();
        let one = one.filter(|place| place.is_exclusive && place.claim.ticket > ticket).map(|place| &place.claim);
        one.or_else(|| {
            let many = many?;
            let next = many.exclusive.range((Bound::Excluded(ticket), Bound::Unbounded)).next()?;
            many.claims.get(next)
        })
    }
}

impl Many {
    fn push(&mut self, place: Place) {
        let ticket = place.claim.ticket;
        if place.is_tangled {
            self.tangled.insert(ticket);
        }
        if place.is_exclusive {
            self.exclusive.insert(ticket);
        }
        self.claims.insert(ticket, place.claim);
    }
}

const IN_LINE: &str = "a claim is in the line of each of its locks";

/// Whether a claim in this mode shares the lock with no other claim.
fn is_exclusive(mode: Mode) -> bool {
    mode != Mode::Shared && mode.permits() == 1
}

// Equality ignores whether a single claim is stored alone or in a map. The indices follow from all claims of the state.
impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Line {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::locks::Acquire;
    use crate::state::{OwnerId, SessionId};

    fn claim(ticket: Ticket, since_ms: u64) -> Arc<Claim> {
        let Acquire { wants, owner, parent, .. } = Acquire::one("lock", Mode::Exclusive, OwnerId(1));
        let (session, number, lock_delay_ms) = (SessionId(1), ticket, 0);
        let (revision, timeout_ms, fence, revoked) = (0, None, None, false);
        Arc::new(Claim {
            ticket,
            revision,
            session,
            number,
            owner,
            parent,
            wants,
            timeout_ms,
            lock_delay_ms,
            since_ms,
            fence,
            revoked,
        })
    }

    /// A claim, its mode, and whether it is tangled.
    type Model = Vec<(Arc<Claim>, Mode, bool)>;

    fn assert_same(line: &Line, model: &Model) {
        let claims = || model.iter().map(|(claim, ..)| claim);
        assert_eq!((line.len(), line.is_empty()), (model.len(), model.is_empty()));
        assert!(line.iter().eq(claims()));
        assert_eq!(line.last(), claims().next_back());
        for ticket in 0..=claims().next_back().map_or(1, |last| last.ticket + 1) {
            assert!(line.after(ticket).eq(claims().filter(|claim| claim.ticket > ticket)));
            assert_eq!(line.before(ticket), claims().rfind(|claim| claim.ticket < ticket));
            assert_eq!(line.get(ticket), claims().find(|claim| claim.ticket == ticket));
            assert_eq!(line.up_to(ticket), claims().filter(|claim| claim.ticket <= ticket).count());
            let next = model.iter().find(|(claim, mode, _)| claim.ticket > ticket && is_exclusive(*mode));
            assert_eq!(line.exclusive_after(ticket), next.map(|(claim, ..)| claim));
            let tangled = |above: Ticket, up_to: Ticket| {
                let within = move |claim: &Claim| above < claim.ticket && claim.ticket <= up_to;
                model.iter().filter(move |(claim, _, tangled)| *tangled && within(claim)).map(|(claim, ..)| claim)
            };
            assert!(line.tangled(ticket, Ticket::MAX).eq(tangled(ticket, Ticket::MAX)));
            assert!(line.tangled(3, ticket).eq(tangled(3, ticket)));
            assert_eq!(line.is_tangled(ticket), tangled(0, ticket).any(|claim| claim.ticket == ticket));
        }
    }

    #[test]
    fn a_line_is_a_list_of_claims_whatever_its_length() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut line, mut model, mut last_ticket) = (Line::default(), Model::new(), 0);
        for round in 0..1_000 {
            let longest = if round % 250 < 200 { 6 } else { 40 };
            let at = random.usize(..model.len().max(1));
            match random.u32(..8) {
                0..4 if model.len() < longest => {
                    last_ticket += random.u64(1..3);
                    let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 1 }, Mode::Permit { of: 2 }];
                    let (mode, is_tangled) = (modes[random.usize(..4)], random.bool());
                    line.push(claim(last_ticket, 0), mode);
                    line.set_tangled(last_ticket, is_tangled);
                    model.push((claim(last_ticket, 0), mode, is_tangled));
                }
                4 if !model.is_empty() => {
                    let new = claim(model[at].0.ticket, random.u64(..));
                    assert_eq!(line.replace(new.clone()), std::mem::replace(&mut model[at].0, new));
                }
                5 if !model.is_empty() => {
                    model[at].2 = random.bool();
                    line.set_tangled(model[at].0.ticket, model[at].2);
                }
                // Claims leave at the front more often than elsewhere, as in a real line.
                6 if !model.is_empty() => assert_eq!(line.remove(model[at].0.ticket), model.remove(at).0),
                _ if !model.is_empty() => assert_eq!(line.remove(model[0].0.ticket), model.remove(0).0),
                _ => {}
            }
            assert_same(&line, &model);
        }
    }

    /// A reader has a clone of the line while it changes.
    #[test]
    fn a_change_of_a_long_line_copies_few_claims() {
        let copied = |waiters: u64, change: &dyn Fn(&mut Line)| {
            let mut line = Line::default();
            (1..=waiters).for_each(|ticket| line.push(claim(ticket, 0), Mode::Exclusive));
            let claims: Vec<Arc<Claim>> = line.iter().cloned().collect();
            let read = line.clone();
            change(&mut line);
            assert_eq!(read.len() as u64, waiters);
            claims.iter().filter(|claim| Arc::strong_count(claim) > 2).count()
        };
        let changes: [&dyn Fn(&mut Line); 4] = [
            &|line| line.push(claim(1_000_000, 0), Mode::Exclusive),
            &|line| drop(line.remove(1)),
            &|line| drop(line.remove(500)),
            &|line| drop(line.replace(claim(500, 1))),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            for waiters in [1_000, 10_000] {
                let copied = copied(waiters, change);
                assert!(copied <= 64, "change {number} of a line of {waiters} copied {copied} claims");
            }
        }
    }

    #[test]
    fn two_lines_are_the_same_if_their_claims_are() {
        let (mut one, mut other) = (Line::default(), Line::default());
        one.push(claim(3, 0), Mode::Exclusive);
        one.push(claim(2, 0), Mode::Exclusive);
        assert!(one.iter().eq([&claim(2, 0), &claim(3, 0)]));
        other.push(claim(3, 0), Mode::Exclusive);
        assert_ne!(one, other);
        one.remove(2);
        assert_eq!(one, other);
    }
}
