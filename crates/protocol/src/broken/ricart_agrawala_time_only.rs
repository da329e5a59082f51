//! [Ricart-Agrawala](crate::mutex::ricart_agrawala) with requests compared by time alone, as many texts describe it.
//!
//! Time alone is no total order. If two requests have equal times, neither process defers its REPLY to the other, and
//! both enter. SAFE fails with two processes in six steps.

use crate::Property;
use crate::mutex::ricart_agrawala::{self, Precedence, RicartAgrawala};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "ricart-agrawala-time-only",
    summary: "Ricart-Agrawala without ids to break ties",
    broken: Some(Broken {
        breaks: &[Property::Safety, Property::Fence],
        how: "two requests with equal times let each other in: SAFE fails at n = 2",
    }),
    ..ricart_agrawala::ABOUT
};

pub fn group(params: &Params) -> Result<Group<RicartAgrawala>, SetupError> {
    ricart_agrawala::group_with(params, Precedence::TimeOnly)
}
