//! [Suzuki-Kasami](crate::mutex::suzuki_kasami) without the check that tells an outdated request from a new one.
//!
//! The token may overtake a REQUEST. When this REQUEST arrives, it has been served already. Still the idle holder sends
//! the token to its sender, which does not want it. The sender may have received all pending requests before the token,
//! and gets no further message. Then the token stays there until the sender wants to enter itself. LIVE fails with
//! three processes in 14 steps, on FIFO links in 19.

use crate::Property;
use crate::mutex::suzuki_kasami::{self, Outdated, SuzukiKasami};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "suzuki-kasami-no-outdated-check",
    summary: "Suzuki-Kasami where every request gets the token, even one that was served already",
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "an outdated request takes the token to a process that does not want it: LIVE fails at n = 3",
    }),
    ..suzuki_kasami::ABOUT
};

pub fn group(params: &Params) -> Result<Group<SuzukiKasami>, SetupError> {
    suzuki_kasami::group_with(params, Outdated::Served)
}
