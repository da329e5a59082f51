//! The [token ring](crate::mutex::token_ring) in which every process believes its own detector, whatever others say.
//!
//! INQUIRE may bring the news of a recovery before the own detector does. Who then takes the recovered for dead, since
//! that was the last word of its detector, counts one change more, and one again when the detector comes round. Its
//! number is now ahead of everybody else's: it answers no INQUIRE, and a token that is lost is never made anew.

use crate::mutex::token_ring::{self, TokenRing};
use crate::registry::{About, Group, Params, SetupError};
use crate::roster::LateReports;

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "token-ring-last-word",
    summary: "the token ring, each process with its own detector against the rosters of others",
    broken: Some("late news of a recovery are counted twice: LIVE fails, a lost token is not made anew"),
    ..token_ring::ABOUT
};

/// n processes in a ring, the token at P0.
pub fn group(params: &Params) -> Result<Group<TokenRing>, SetupError> {
    token_ring::group_with(params, LateReports::LastWord)
}
