//! [Suzuki-Kasami](crate::mutex::suzuki_kasami) without the check that tells an outdated request from a new one.
//!
//! A REQUEST that the token has overtaken, and that is served already, makes the idle holder send the token to somebody who
//! does not want it. That process may have heard all requests before, which the token has yet to serve, and hears
//! nothing more: the token is stranded there until its new holder happens to want it. Three processes and 14 steps
//! are enough, 19 if links keep the order of messages.

use crate::mutex::suzuki_kasami::{self, Outdated, SuzukiKasami};
use crate::registry::{About, Group, Params, SetupError};

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "suzuki-kasami-no-outdated-check",
    summary: "Suzuki-Kasami with the token sent to whoever asks, served already or not",
    broken: Some(
        "an outdated request takes the token to one that does not want it, where it stays: LIVE fails at n = 3",
    ),
    ..suzuki_kasami::ABOUT
};

/// n processes, the token at P0.
pub fn group(params: &Params) -> Result<Group<SuzukiKasami>, SetupError> {
    suzuki_kasami::group_with(params, Outdated::Served)
}
