//! [Maekawa](crate::mutex::maekawa) as published in 1985.
//!
//! When a better request displaces the best one in a voter's queue, the displaced request gets no POSTPONE. Its process
//! believes that it can still win, and keeps the votes that other voters inquire about. LIVE fails with four processes
//! on the 2 x 2 grid: in 14 steps if three of them request, in 19 if all do. Sanders (1987) found this.

use crate::Property;
use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::topology::quorum::Construction;

pub const ABOUT: About = About {
    name: "maekawa-1985",
    summary: "Maekawa as published, without POSTPONE to the request that a better one displaces",
    variants: &Construction::VARIANTS,
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "a displaced request keeps its votes and blocks the better one: LIVE fails at n = 4",
    }),
    ..maekawa::ABOUT
};

pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::Paper1985)
}
