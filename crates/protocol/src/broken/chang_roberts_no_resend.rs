//! [Chang-Roberts](crate::election::chang_roberts) in which a process that learns that the ring has changed sends only
//! its own id again.
//!
//! A higher id that the process forwarded to a dead process is lost. Its starter waits for it for ever: the starter
//! itself sent nothing to the dead process and has no reason to start again. LIVE fails with three processes and one
//! crash.

use crate::Property;
use crate::election::chang_roberts::{self, ChangRoberts, Change};
use crate::election::guarded::Guarded;
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "chang-roberts-no-resend",
    summary: "Chang-Roberts where no process sends an id again that was lost with a dead process",
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "a process waits for ever for its id, lost with a dead process: LIVE fails at n = 3 after one crash",
    }),
    ..chang_roberts::ABOUT
};

/// n processes on a ring; no process leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    chang_roberts::group_with(params, Change::OwnIdOnly)
}
