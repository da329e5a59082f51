//! Sanders, "The information structure of distributed mutual exclusion algorithms" (1987): one algorithm for any
//! request and inform sets.
//!
//! Assumes: nothing of the order of messages. None may be lost, nobody may crash.
//!
//! Process i asks its request set R_i and enters when all have granted; when it leaves it tells its inform set I_i, a
//! part of R_i. A process that i will tell takes i to be inside, from its grant until it is told, and grants nothing
//! meanwhile; to one that will not tell it, it grants without remembering. Deadlocks are resolved as
//! [Maekawa's](super::maekawa) are, and by the same code: that is the algorithm for R_i = I_i = voting set. With one
//! coordinator as R_i = I_i it is the central server, with R_i = all and I_i = {i} it is Ricart and Agrawala's.
//!
//! Invariants: for all i and j, I_i meets I_j, or i and j ask each other and tell themselves; this is checked when the group
//! is made. In the second case the one with the smaller stamp enters first: it grants the other only after it has left,
//! and whoever asks after granting has the larger stamp.
//! Costs: 2|R_i \ {i}| + |I_i \ {i}| messages an entry if nobody competes; 2T from request to grant.
//! Fences: the highest reported with a grant, and one more. In the first case a process in both inform sets hears of the
//! earlier fence before it grants again. In the second the earlier of the two itself grants the later one after leaving.
//! (The request's stamp would not do: where sets only meet, entries do not happen in the order of stamps.)
//!
//! ORDER depends on the sets: a request cannot be overtaken by later ones of processes that ask its own process.

use super::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError, Variant};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::{Construction, PROCESSES_MAX};

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "generalized",
    summary: "any sets of processes to ask and to tell that keep every two apart",
    variants: &[
        Variant { name: "maekawa", summary: "ask and tell a voting set (the default)" },
        Variant { name: "central", summary: "ask and tell one coordinator, process n" },
        Variant { name: "ricart-agrawala", summary: "ask everybody, tell oneself" },
        REQUEST,
        INFORM,
        maekawa::YIELD_AT_ONCE,
    ],
    ..maekawa::ABOUT
};

/// The variant that gives the request sets.
pub const REQUEST: Variant =
    Variant { name: "request:SETS", summary: "whom to ask, by client, as in 0,1|1,2|2,0; ids from n on are helpers" };

/// The variant that gives the inform sets.
pub const INFORM: Variant =
    Variant { name: "inform:SETS", summary: "whom to tell, by client; those asked, if it is left out" };

/// n clients, and whoever else they ask.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    params.at_most(PROCESSES_MAX, "every two sets are compared")?;
    let preset = params.one_of(&["maekawa", "central", "ricart-agrawala", "request"])?;
    let sets = match (InformationStructure::given(params)?, preset) {
        (Some(given), _) => given,
        (None, Some("central")) => InformationStructure::central(params.n),
        (None, Some("ricart-agrawala")) => InformationStructure::ricart_agrawala(params.n),
        (None, _) => InformationStructure::of_quorums(Construction::best(params.n).quorums(params.n)?),
    };
    sets.check()?;
    Ok(maekawa::group_of(sets, Deadlocks::repaired(params)))
}
