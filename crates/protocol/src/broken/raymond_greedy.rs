//! [Raymond](crate::mutex::raymond) with processes that serve themselves first, without a bound.
//!
//! A process that wants to enter again soon after leaving keeps the token, although neighbours wait for it. The variant
//! `greedy:B` of the correct algorithm has a bound.

use crate::Property;
use crate::mutex::raymond::{self, AfterToken, Raymond};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "raymond-greedy",
    summary: "Raymond's algorithm where each process serves itself first, without a bound",
    // All variants except the last, `greedy:B`, which is the bound.
    variants: raymond::ABOUT.variants.split_at(raymond::ABOUT.variants.len() - 1).0,
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "a process that always wants to enter again keeps the token for ever: LIVE fails, the others starve",
    }),
    ..raymond::ABOUT
};

pub fn group(params: &Params) -> Result<Group<Raymond>, SetupError> {
    raymond::group_with(params, raymond::self_first(params, None), AfterToken::AsksAgain)
}
