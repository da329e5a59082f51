//! [Maekawa](crate::mutex::maekawa) that yields at once, without a look at whether it has the grant that it gives back.
//!
//! An INQUIRE may overtake its GRANT. Whoever answers it with RELINQUISH at once lets the voter grant another request, and
//! then takes the old GRANT, when it comes, for a vote: both have it, and both may enter. Links that keep the order never
//! show it.

use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Group, Params, SetupError};
use crate::topology::quorum::Construction;

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "maekawa-yield-unseen",
    summary: "Maekawa in which who waits gives back even a grant that has yet to come",
    variants: &Construction::VARIANTS,
    broken: Some("an INQUIRE that overtakes its GRANT makes one vote count for two: SAFE fails"),
    ..maekawa::ABOUT
};

/// n equal processes and their voting sets.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::YieldUnseen)
}
