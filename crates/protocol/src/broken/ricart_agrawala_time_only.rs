//! [Ricart-Agrawala](crate::mutex::ricart_agrawala) with requests compared by time alone, as prose often has it.
//!
//! Time alone is no total order: when two requests bear the same time, neither process defers the other's, each gets
//! its REPLY, and both enter. Two processes and six steps are enough.

use crate::mutex::ricart_agrawala::{self, Precedence, RicartAgrawala};
use crate::registry::{About, Group, Params, SetupError};

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "ricart-agrawala-time-only",
    summary: "Ricart-Agrawala without ids to break ties",
    broken: Some("two requests with equal times let each other in: SAFE fails at n = 2"),
    ..ricart_agrawala::ABOUT
};

/// n equal processes.
pub fn group(params: &Params) -> Result<Group<RicartAgrawala>, SetupError> {
    ricart_agrawala::group_with(params, Precedence::TimeOnly)
}
