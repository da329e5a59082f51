//! [Chang-Roberts](crate::election::chang_roberts) in which who learns that the ring has changed sends its own id only.
//!
//! A higher id that it has passed on to the dead is lost, and the one whose id it was waits for it for ever, since that
//! has sent nothing to the dead itself and sees no reason to begin anew. Three processes and one crash are enough.

use crate::election::chang_roberts::{self, ChangRoberts, Change};
use crate::election::guarded::Guarded;
use crate::registry::{About, Group, Params, SetupError};

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "chang-roberts-no-resend",
    summary: "Chang-Roberts in which nobody sends again what others have lost with the dead",
    broken: Some("an id that is lost with the dead is waited for: LIVE fails at n = 3 after one crash"),
    ..chang_roberts::ABOUT
};

/// n processes on a ring, none of which leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    chang_roberts::group_with(params, Change::OwnIdOnly)
}
