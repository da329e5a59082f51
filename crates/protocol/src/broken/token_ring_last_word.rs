//! The [token ring](crate::mutex::token_ring) in which each process believes a late report of its own detector, even if
//! an adopted roster already contains the change.
//!
//! INQUIRE may bring a roster with a recovery before the own detector reports this recovery. The latest report of the
//! own detector was the crash, so the process takes the recovered member out again and counts one change too many. When
//! its detector reports the recovery, the process counts another change. Now its roster number is higher than all
//! others: it answers no INQUIRE, and a lost token is never replaced.

use crate::Property;
use crate::mutex::token_ring::{self, TokenRing};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::roster::LateReports;

pub const ABOUT: About = About {
    name: "token-ring-last-word",
    summary: "the token ring where each process believes late reports of its own detector",
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "a late report of a recovery is counted twice: LIVE fails, a lost token is not replaced",
    }),
    ..token_ring::ABOUT
};

pub fn group(params: &Params) -> Result<Group<TokenRing>, SetupError> {
    token_ring::group_with(params, LateReports::LastWord)
}
