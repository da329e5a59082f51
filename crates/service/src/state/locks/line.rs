//! The line of a lock: its claims, in ascending order of their tickets.

use std::collections::VecDeque;
use std::ops::Index;
use std::sync::Arc;

use super::claim::{Claim, Ticket};

/// Most locks have one claim at a time, and there may be a million locks, so a single claim needs no allocation.
#[derive(Clone, Debug, Default)]
pub enum Line {
    #[default]
    Empty,
    One(Arc<Claim>),
    /// New claims join at the end, and most claims leave at the front. Boxed, so that it has the size of a pointer.
    #[expect(clippy::box_collection)]
    Many(Box<VecDeque<Arc<Claim>>>),
}

impl Line {
    /// The claims as two slices, because a ring buffer may wrap.
    fn parts(&self) -> (&[Arc<Claim>], &[Arc<Claim>]) {
        match self {
            Line::Empty => (&[], &[]),
            Line::One(claim) => (std::slice::from_ref(claim), &[]),
            Line::Many(claims) => claims.as_slices(),
        }
    }

    pub fn len(&self) -> usize {
        let (first, second) = self.parts();
        first.len() + second.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, at: usize) -> Option<&Arc<Claim>> {
        let (first, second) = self.parts();
        first.get(at).or_else(|| second.get(at - first.len()))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Claim>> {
        let (first, second) = self.parts();
        first.iter().chain(second)
    }

    /// The claims from this position on.
    pub fn from(&self, start: usize) -> impl Iterator<Item = &Arc<Claim>> {
        let (first, second) = self.parts();
        let split = start.min(first.len());
        first[split..].iter().chain(&second[start - split..])
    }

    /// Number of claims with a ticket of at most this one.
    pub fn up_to(&self, ticket: Ticket) -> usize {
        let (first, second) = self.parts();
        let is_before = |claim: &Arc<Claim>| claim.ticket <= ticket;
        first.partition_point(is_before) + second.partition_point(is_before)
    }

    /// The position of the claim with this ticket, if it is in the line.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        let at = self.up_to(ticket).checked_sub(1)?;
        (self[at].ticket == ticket).then_some(at)
    }

    /// Adds a claim at the end. The caller keeps the order of the tickets, or sorts later.
    pub fn push(&mut self, claim: Arc<Claim>) {
        *self = match std::mem::take(self) {
            Line::Empty => Line::One(claim),
            Line::One(first) => Line::Many(Box::new(VecDeque::from([first, claim]))),
            Line::Many(mut claims) => {
                claims.push_back(claim);
                Line::Many(claims)
            }
        };
    }

    pub fn replace(&mut self, at: usize, claim: Arc<Claim>) {
        match self {
            Line::Many(claims) => claims[at] = claim,
            Line::One(first) if at == 0 => *first = claim,
            _ => panic!("there is no claim {at} in the line"),
        }
    }

    pub fn remove(&mut self, at: usize) -> Arc<Claim> {
        match std::mem::take(self) {
            Line::Many(mut claims) => {
                let claim = claims.remove(at).expect("the position is in the line");
                // A single remaining claim stays in the ring, because others may come soon.
                if !claims.is_empty() {
                    *self = Line::Many(claims);
                }
                claim
            }
            Line::One(claim) if at == 0 => claim,
            _ => panic!("there is no claim {at} in the line"),
        }
    }

    /// Sorts claims that were pushed in any order.
    pub fn sort(&mut self) {
        if let Line::Many(claims) = self {
            claims.make_contiguous().sort_unstable_by_key(|claim| claim.ticket);
        }
    }
}

impl Index<usize> for Line {
    type Output = Arc<Claim>;

    fn index(&self, at: usize) -> &Arc<Claim> {
        self.get(at).expect("the position is in the line")
    }
}

// Equality ignores whether a single claim is stored alone or in a ring.
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
        let Acquire { wants, owner, parent, .. } =
            Acquire::one("lock", crate::state::locks::Mode::Exclusive, OwnerId(1));
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

    fn assert_same(line: &Line, model: &[Arc<Claim>]) {
        assert_eq!((line.len(), line.is_empty()), (model.len(), model.is_empty()));
        assert!(line.iter().eq(model));
        assert!(line.iter().rev().eq(model.iter().rev()));
        assert!((0..model.len()).all(|at| line[at] == model[at]) && line.get(model.len()).is_none());
        assert!((0..=model.len()).all(|start| line.from(start).eq(&model[start..])));
        for ticket in 0..=model.last().map_or(1, |last| last.ticket + 1) {
            assert_eq!(line.up_to(ticket), model.iter().filter(|claim| claim.ticket <= ticket).count());
            assert_eq!(line.position(ticket), model.iter().position(|claim| claim.ticket == ticket));
        }
    }

    #[test]
    fn a_line_is_a_list_of_claims_whatever_its_length() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut line, mut model, mut last_ticket) = (Line::default(), Vec::new(), 0);
        for _ in 0..3_000 {
            let at = random.usize(..model.len().max(1));
            match random.u32(..8) {
                0..4 if model.len() < 12 => {
                    last_ticket += random.u64(1..3);
                    line.push(claim(last_ticket, 0));
                    model.push(claim(last_ticket, 0));
                }
                4 if !model.is_empty() => {
                    model[at] = claim(model[at].ticket, random.u64(..));
                    line.replace(at, model[at].clone());
                }
                // Claims leave at the front more often than elsewhere, as in a real line.
                5 if !model.is_empty() => assert_eq!(line.remove(at), model.remove(at)),
                _ if !model.is_empty() => assert_eq!(line.remove(0), model.remove(0)),
                _ => {}
            }
            assert_same(&line, &model);
        }
    }

    #[test]
    fn two_lines_are_the_same_if_their_claims_are() {
        let (mut one, mut other) = (Line::default(), Line::default());
        one.push(claim(3, 0));
        one.push(claim(2, 0));
        one.sort();
        assert_same(&one, &[claim(2, 0), claim(3, 0)]);
        other.push(claim(3, 0));
        assert_ne!(one, other);
        one.remove(0);
        assert_eq!(one, other);
    }
}
