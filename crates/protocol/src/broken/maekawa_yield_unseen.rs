//! [Maekawa](crate::mutex::maekawa) with `yield-at-once`, but a process returns a grant even if the GRANT has not
//! arrived.
//!
//! An INQUIRE may overtake its GRANT. If the process answers RELINQUISH at once, the voter grants another request. When
//! the old GRANT arrives, the process counts it as a vote. Now two processes have the same vote, and both may enter. On
//! FIFO links this never happens.

use crate::Property;
use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::topology::quorum::Construction;

pub const ABOUT: About = About {
    name: "maekawa-yield-unseen",
    summary: "Maekawa where a waiting process returns even a grant that has not arrived",
    variants: &Construction::VARIANTS,
    broken: Some(Broken {
        breaks: &[Property::Safety],
        how: "an INQUIRE that overtakes its GRANT makes one vote count for two: SAFE fails",
    }),
    ..maekawa::ABOUT
};

pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::YieldUnseen)
}
