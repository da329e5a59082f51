//! The [generalized algorithm](crate::mutex::generalized) without the check of its sets.
//!
//! By default every process asks all processes, and informs the next process instead of itself. Every two processes ask
//! each other, which some texts give as the whole condition of safety. But a process that does not inform itself does
//! not know, as a voter, that it is inside, and grants other requests. SAFE fails with two processes in six steps.

use crate::ProcessSet;
use crate::Property;
use crate::mutex::generalized::{self, INFORM, REQUEST};
use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::PROCESSES_MAX;

pub const ABOUT: About = About {
    name: "generalized-unchecked",
    summary: "the generalized algorithm with any sets, even unsafe ones",
    variants: &[REQUEST, INFORM, maekawa::YIELD_AT_ONCE],
    broken: Some(Broken {
        breaks: &[Property::Safety, Property::Fence],
        how: "sets that break the condition let two processes in at once: SAFE fails at n = 2",
    }),
    ..generalized::ABOUT
};

/// n clients, and the helpers in their request sets.
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
