//! The [permission ring](crate::mutex::permission_ring) as it was first described: a process that wants to enter
//! swallows the requests of others.
//!
//! The loser is said to try again, but it never learns that it lost: two processes are stuck after four steps. In the
//! variant `retry` the loser tries again after the longest time that a request may take round the ring. That does not
//! help: while two processes want to enter, each swallows all requests of the other, for ever.

use crate::Property;
use crate::Ticks;
use crate::mutex::permission_ring::{self, PermissionRing, Rivalry};
use crate::registry::{About, Broken, Group, Params, SetupError, Variant};

pub const ABOUT: About = About {
    name: "permission-ring-original",
    summary: "the permission ring where a process that wants to enter swallows the requests of others",
    variants: &[Variant { name: "retry", summary: "a loser tries again after a timeout" }],
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "two processes swallow each other's requests, and every retry: LIVE fails at n = 2",
    }),
    ..permission_ring::ABOUT
};

pub fn group(params: &Params) -> Result<Group<PermissionRing>, SetupError> {
    let round = params.delay_max.saturating_mul(params.n as Ticks).max(1);
    let retry_after = params.has("retry").then_some(round);
    permission_ring::group_with(params, Rivalry::Swallow { retry_after })
}
