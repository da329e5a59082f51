//! The feed: the newest changes, for readers that follow what happens.
//!
//! - A change has a place: the index of its entry in the log, and its number within the entry. It is the same on every node,
//!   because all nodes apply the same entries.
//! - The newest changes are kept: [`CHANGES_MAX`] of them, and at most [`BYTES_MAX`] bytes by [`KeptChange::bytes`]. All
//!   nodes must keep the same, so these are constants. They are in snapshots too.
//! - A kept change shares its values with the state, so keeping it costs little. Only readers and snapshots encode it.
//! - The feed begins with the first `Leads` of a cluster: before that, a member may read only older data formats. It begins
//!   anew when the cluster begins anew. The feed of a state without `Leads` is empty and costs nothing.

mod change;
mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

pub use change::{KeptChange, KeptWhat};
pub use record::Record;
pub(in crate::state) use record::Restoring;

use super::{Change, Outcome, What};

/// The most changes that are kept.
pub const CHANGES_MAX: usize = 65_536;
/// The most bytes that the kept changes take, by [`KeptChange::bytes`].
pub const BYTES_MAX: usize = 16 << 20;
/// The end of a session names at most this many of the locks that it held.
pub const HELD_MAX: usize = 64;

/// The place of a change: its entry, and its number within the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub index: u64,
    pub number: u32,
}

impl Place {
    /// The place right after the last change of an entry.
    pub fn after_entry(index: u64) -> Place {
        Place { index: index.saturating_add(1), number: 0 }
    }

    /// The place right after this one.
    pub fn next(self) -> Place {
        match self.number.checked_add(1) {
            Some(number) => Place { number, ..self },
            None => Place::after_entry(self.index),
        }
    }
}

/// The node that leads, or led last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub node: u64,
    pub name: Box<str>,
    pub term: u64,
}

/// A member of the cluster, as its membership says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: Box<str>,
    pub peer_address: Box<str>,
    pub client_address: Box<str>,
    pub is_voter: bool,
}

pub type Members = BTreeMap<u64, Arc<Member>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// Every change from this place on is kept. None: no change is kept yet.
    first: Option<Place>,
    kept: Vector<KeptChange>,
    /// Of all kept changes.
    bytes: usize,
    leader: Option<Arc<Leader>>,
    /// None: not told yet.
    members: Option<Arc<Members>>,
}

impl Feed {
    /// Every change from this place on is kept. None if no change is kept yet.
    pub fn first(&self) -> Option<Place> {
        self.first
    }

    pub fn is_on(&self) -> bool {
        self.first.is_some()
    }

    /// The node that leads, or led last; none if the feed has not begun.
    pub fn leader(&self) -> Option<&Arc<Leader>> {
        self.leader.as_ref()
    }

    /// None if the feed has not begun.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_deref()
    }

    /// Number of kept changes.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The size of all kept changes, by [`KeptChange::bytes`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The newest kept change.
    pub fn last(&self) -> Option<&KeptChange> {
        self.kept.last()
    }

    /// The kept changes from this place on, in order.
    pub fn from(&self, place: Place) -> impl Iterator<Item = &KeptChange> {
        let at = self.kept.binary_search_by(|change| change.place.cmp(&place)).unwrap_or_else(|at| at);
        self.kept.focus().narrow(at..).into_iter()
    }

    /// A node begins to lead. The first time, the feed begins here.
    pub(super) fn leads(&mut self, index: u64, leader: &Leader, outcome: &mut Outcome) {
        let is_same = self.leader.as_deref() == Some(leader);
        if self.first.is_none() {
            self.first = Some(Place { index, number: outcome.changes.len() as u32 });
        }
        if !is_same {
            let after = Arc::new(leader.clone());
            let before = self.leader.replace(after.clone());
            outcome.change(index, None, What::Leader { before, after });
        }
    }

    /// The membership is this one from the entry at `index` on. The first one is only noted.
    pub(super) fn members_are(&mut self, index: u64, members: BTreeMap<u64, Member>, outcome: &mut Outcome) {
        if !self.is_on() {
            return;
        }
        let before = self.members.take();
        let same =
            |node: &u64, member: &Member| before.as_ref()?.get(node).filter(|before| ***before == *member).cloned();
        let shared = |(node, member)| (node, same(&node, &member).unwrap_or_else(|| Arc::new(member)));
        let after: Members = members.into_iter().map(shared).collect();
        if let Some(before) = &before {
            let mut nodes: Vec<u64> = before.keys().chain(after.keys()).copied().collect();
            nodes.sort_unstable();
            nodes.dedup();
            for node in nodes {
                let (before, after) = (before.get(&node).cloned(), after.get(&node).cloned());
                if before != after {
                    outcome.change(index, None, What::Member { node, before, after });
                }
            }
        }
        self.members = Some(Arc::new(after));
    }

    /// Keeps these changes, and forgets the oldest ones beyond the limits.
    pub(super) fn keep(&mut self, at_ms: u64, changes: &[Change]) {
        if !self.is_on() {
            return;
        }
        changes.iter().filter_map(|change| KeptChange::new(at_ms, change)).for_each(|change| self.push(change));
    }

    fn push(&mut self, change: KeptChange) {
        self.bytes += change.bytes();
        self.kept.push_back(change);
        while self.kept.len() > CHANGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.first = Some(oldest.place.next());
        }
    }

    /// Returns a sentence about the first inconsistency.
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(first) = self.first else {
            return match *self == Feed::default() {
                true => Ok(()),
                false => Err("the feed keeps changes, but has not begun".to_owned()),
            };
        };
        if self.kept.len() > CHANGES_MAX || self.bytes > BYTES_MAX {
            return Err(format!("the feed keeps {} changes with {} bytes, which is too much", self.len(), self.bytes));
        }
        let places = self.kept.iter().map(|change| change.place);
        if !places.clone().is_sorted_by(|earlier, later| earlier < later)
            || places.min().is_some_and(|least| least < first)
        {
            return Err("the kept changes are not in order".to_owned());
        }
        match self.kept.iter().map(KeptChange::bytes).sum::<usize>() == self.bytes {
            true => Ok(()),
            false => Err(format!("the kept changes do not have {} bytes", self.bytes)),
        }
    }
}
