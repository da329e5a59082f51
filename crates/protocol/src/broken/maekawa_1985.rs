//! [Maekawa](crate::mutex::maekawa) as published in 1985.
//!
//! A request that is the best at a voter learns nothing when a still better one comes. It goes on hoping, and so keeps
//! the votes that others ask it for. Sanders (1987) found it. It takes four processes on the 2 x 2 grid: 14 steps if
//! three of them ask, 19 if all do.

use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError};
use crate::topology::quorum::Construction;

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "maekawa-1985",
    summary: "Maekawa as published, without POSTPONE to the request that a better one displaces",
    variants: &Construction::VARIANTS,
    broken: Some("a displaced request keeps its votes and blocks the better one: LIVE fails at n = 4"),
    ..maekawa::ABOUT
};

/// n equal processes and their voting sets.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::Paper1985)
}
