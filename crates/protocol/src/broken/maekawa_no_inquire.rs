//! [Maekawa](crate::mutex::maekawa) as it would be with REQUEST, GRANT and RELEASE alone.
//!
//! Votes are not asked back, so requests that each have some votes wait for each other for ever. Three processes that
//! vote for themselves first are enough, with the sets {0, 1}, {1, 2}, {2, 0}: six steps.

use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError};
use crate::topology::quorum::Construction;

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "maekawa-no-inquire",
    summary: "Maekawa without a way to ask a vote back",
    variants: &Construction::VARIANTS,
    broken: Some("three requests wait for each other's votes: LIVE fails at n = 3"),
    ..maekawa::ABOUT
};

/// n equal processes and their voting sets.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::NoInquire)
}
