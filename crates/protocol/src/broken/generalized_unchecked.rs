//! The [generalized algorithm](crate::mutex::generalized) with sets that nobody has checked.
//!
//! Unless told otherwise, everybody asks everybody, and tells the next process instead of itself. Every two ask each other,
//! which is sometimes given as the whole condition; but a process that does not tell itself does not know, as a
//! voter, that it is inside. Two processes and six steps are enough.

use crate::ProcessSet;
use crate::mutex::generalized::{self, INFORM, REQUEST};
use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::PROCESSES_MAX;

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "generalized-unchecked",
    summary: "the generalized algorithm with any sets, even such as cannot work",
    variants: &[REQUEST, INFORM, maekawa::YIELD_AT_ONCE],
    broken: Some("sets that break the condition let two in at once: SAFE fails at n = 2"),
    ..generalized::ABOUT
};

/// n clients, and whoever else they ask.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    params.at_most(PROCESSES_MAX, "every two sets are compared")?;
    let n = params.n;
    let tells_next = || InformationStructure {
        inform: (0..n).map(|i| ProcessSet::of(n, [(i + 1) % n])).collect(),
        ..InformationStructure::ricart_agrawala(n)
    };
    let sets = InformationStructure::given(params)?.unwrap_or_else(tells_next);
    Ok(maekawa::group_of(sets, Deadlocks::repaired(params)))
}
