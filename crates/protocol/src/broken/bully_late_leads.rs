//! [Bully](crate::election::bully) behind a [guard](crate::election::guarded) whose members believe a late LEADS.
//!
//! A leader that loses its judges resigns, and its RESIGN may overtake its LEADS of the same term. A member that
//! believes this LEADS follows a process that does not lead. It learns the truth only when some process leads again.

use crate::Property;
use crate::election::Rule;
use crate::election::bully::{self, Bully};
use crate::election::guarded::{self, Guarded, Late};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "bully-late-leads",
    summary: "bully behind a guard (default: witness) whose members believe LEADS even after RESIGN",
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "a member follows a leader that has resigned, for ever: LIVE fails at n = 2 if the witness crashes",
    }),
    ..bully::ABOUT
};

/// n processes behind a guard. The highest leads at the start, as after an election.
pub fn group(params: &Params) -> Result<Group<Guarded<Bully>>, SetupError> {
    let (n, delay_max) = (params.n, params.delay_max);
    let variant = params.variant.clone().or_else(|| Some(guarded::WITNESS.name.into()));
    let params = Params { variant, ..params.clone() };
    guarded::group_with(&params, Rule::Highest, Late::Believed, move |me| Bully::new(me, n, delay_max))
}
