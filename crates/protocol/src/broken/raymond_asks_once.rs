//! [Raymond](crate::mutex::raymond) where a process does not ask again after it has sent the token away, as some lecture
//! notes describe it.
//!
//! One REQUEST stands for all processes in the queue, so it is used up when the token has come. If others still wait when
//! the token goes on, a REQUEST must follow it. Without it they wait for ever: LIVE fails with three processes in eight
//! steps.

use crate::Property;
use crate::mutex::raymond::{self, AfterToken, Greed, Raymond};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "raymond-asks-once",
    summary: "Raymond's algorithm where no request follows the token for those that still wait",
    // All variants except the last, `greedy:B`.
    variants: raymond::ABOUT.variants.split_at(raymond::ABOUT.variants.len() - 1).0,
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "nobody brings the token back to those that still wait when it goes on: LIVE fails at n = 3",
    }),
    ..raymond::ABOUT
};

pub fn group(params: &Params) -> Result<Group<Raymond>, SetupError> {
    raymond::group_with(params, Greed::None, AfterToken::Waits)
}
