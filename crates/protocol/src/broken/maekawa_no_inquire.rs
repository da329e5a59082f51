//! [Maekawa](crate::mutex::maekawa) with REQUEST, GRANT and RELEASE alone.
//!
//! Voters do not ask for their votes back, so requests that each have some votes wait for each other for ever. With the
//! voting sets {0, 1}, {1, 2}, {2, 0} each of three processes has its own vote and waits for another: LIVE fails in six
//! steps.

use crate::Property;
use crate::mutex::maekawa::{self, Deadlocks, Maekawa};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::topology::quorum::Construction;

pub const ABOUT: About = About {
    name: "maekawa-no-inquire",
    summary: "Maekawa without a way to ask a vote back",
    variants: &Construction::VARIANTS,
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "three requests wait for each other's votes: LIVE fails at n = 3",
    }),
    ..maekawa::ABOUT
};

pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    maekawa::group_with(params, Deadlocks::NoInquire)
}
