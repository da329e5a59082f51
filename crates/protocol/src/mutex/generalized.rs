//! Sanders, "The information structure of distributed mutual exclusion algorithms" (1987): one algorithm for any
//! request and inform sets.
//!
//! Process i sends REQUEST to its request set R_i and enters when all of R_i have sent GRANT. When it leaves, it sends
//! RELEASE to its inform set I_i, a part of R_i. A member of I_i believes from its GRANT to the RELEASE that i is
//! inside, and grants nothing meanwhile. A member of R_i outside I_i grants without remembering the grant. Deadlocks
//! are resolved as in [Maekawa's algorithm](super::maekawa), and by the same code.
//!
//! | R_i | I_i | algorithm |
//! |---|---|---|
//! | {coordinator} | {coordinator} | central server |
//! | all processes | {i} | Ricart and Agrawala |
//! | voting set of i | voting set of i | Maekawa |
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes.
//! - Promises: SAFE, LIVE and growing fences. ORDER depends on the sets: no later request overtakes a request of i if
//!   its process has i in its request set.
//! - Invariants: for all i and j, (a) I_i meets I_j, or (b) i is in R_j, j is in R_i, and each of the two is in its own
//!   inform set. `group` refuses other sets. In case (b) the process with the smaller stamp enters first: it grants the
//!   other only after it has left, and a process that requests after granting has the larger stamp.
//! - Costs: 2|R_i \ {i}| + |I_i \ {i}| messages an entry without competition; 2T from request to grant.
//! - Fences: the highest fence reported with a GRANT, plus 1. In case (a) a process in both inform sets learns the
//!   earlier fence before it grants again. In case (b) the earlier process itself grants the later one after it has
//!   left. The stamp of the request would not do: in case (a) entries do not happen in the order of stamps.
//!
//! Trap: that i and j ask each other is not enough for (b). A process that does not inform itself grants requests while
//! it is inside: see [`generalized_unchecked`](crate::broken::generalized_unchecked).

use super::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError, Variant};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::{Construction, PROCESSES_MAX};
use crate::views::VIEWS;

pub const ABOUT: About = About {
    name: "generalized",
    summary: "any request and inform sets that keep every two processes apart",
    variants: &[
        Variant { name: "maekawa", summary: "ask and inform a voting set (the default)" },
        Variant { name: "central", summary: "ask and inform one coordinator, process n" },
        Variant { name: "ricart-agrawala", summary: "ask all processes, inform only itself" },
        REQUEST,
        INFORM,
        maekawa::YIELD_AT_ONCE,
        VIEWS,
    ],
    ..maekawa::ABOUT
};

/// The request sets.
pub const REQUEST: Variant = Variant {
    name: "request:SETS",
    summary: "request set of each client, as in 0,1|1,2|2,0; ids from n on are helpers",
};

/// The inform sets.
pub const INFORM: Variant =
    Variant { name: "inform:SETS", summary: "inform set of each client (default: its request set)" };

/// n clients, and the helpers in their request sets.
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
