//! [Raymond](crate::mutex::raymond) with processes that serve themselves first, as often as they like.
//!
//! A process that wants to enter again soon after it has left keeps the token, whoever waits for it. The
//! variant `greedy:B` of the healthy one has a bound.

use crate::mutex::raymond::{self, Raymond};
use crate::registry::{About, Group, Params, SetupError};

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "raymond-greedy",
    summary: "Raymond, each process before its neighbours, without a bound",
    // All but the last, which would bound it.
    variants: raymond::ABOUT.variants.split_at(raymond::ABOUT.variants.len() - 1).0,
    broken: Some("who always wants again keeps the token for ever: LIVE fails, the others starve"),
    ..raymond::ABOUT
};

/// n processes in a tree, the token at P0.
pub fn group(params: &Params) -> Result<Group<Raymond>, SetupError> {
    raymond::group_with(params, raymond::self_first(params, None))
}
