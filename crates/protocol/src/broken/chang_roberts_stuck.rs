//! [Chang-Roberts](crate::election::chang_roberts) without one of four rules for a ring that changes.
//!
//! Each was missing in our own first version, and found missing by trying every moment of a crash and of the news of it: a
//! message is lost with the dead, or an announcement comes from an earlier election, and somebody waits for ever. One
//! crash is enough.

use crate::election::chang_roberts::{self, ChangRoberts, Omits};
use crate::election::guarded::Guarded;
use crate::registry::{About, Group, Params, SetupError, Variant};

const RULES: [(Variant, Omits); 4] = [
    (
        Variant {
            name: "no-resending",
            summary: "a higher id that may be lost with the dead is not sent again (default)",
        },
        Omits::Resending,
    ),
    (
        Variant { name: "no-telling", summary: "whose successor is dead does not tell the next one of the leader" },
        Omits::Telling,
    ),
    (
        Variant { name: "no-repeating", summary: "a leader lets those ask in vain who have not heard of it" },
        Omits::Repeating,
    ),
    (
        Variant { name: "no-distinguishing", summary: "an announcement ends whatever election goes on at its sender" },
        Omits::Distinguishing,
    ),
];

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "chang-roberts-stuck",
    summary: "Chang-Roberts without one of the rules for a ring that changes",
    variants: &[RULES[0].0, RULES[1].0, RULES[2].0, RULES[3].0],
    broken: Some("a message that is lost with the dead, or comes late, is waited for: LIVE fails after one crash"),
    ..chang_roberts::ABOUT
};

/// n processes on a ring, none of which leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    let omitted = params.one_of(&RULES.map(|(rule, _)| rule.name))?;
    let rule = RULES.iter().find(|(rule, _)| Some(rule.name) == omitted).unwrap_or(&RULES[0]);
    chang_roberts::group_with(params, rule.1)
}
