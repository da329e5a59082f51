//! [Ricart-Agrawala](crate::mutex::ricart_agrawala) where a waiting process compares a request with its clock of now, as
//! some lecture notes describe it.
//!
//! It must compare the stamp of its own request. The clock of now has moved beyond the time of every request that has
//! arrived, so a waiting process never defers a REPLY, and two waiting processes let each other in. With two
//! processes ORDER fails in five steps and SAFE in six.

use crate::Property;
use crate::mutex::ricart_agrawala::{self, Precedence, RicartAgrawala};
use crate::registry::{About, Broken, Group, Params, SetupError};

pub const ABOUT: About = About {
    name: "ricart-agrawala-current-clock",
    summary: "Ricart-Agrawala where a waiting process compares requests with its clock of now",
    broken: Some(Broken {
        breaks: &[Property::Safety, Property::Order, Property::Fence],
        how: "a waiting process defers no reply: SAFE and ORDER fail at n = 2",
    }),
    ..ricart_agrawala::ABOUT
};

pub fn group(params: &Params) -> Result<Group<RicartAgrawala>, SetupError> {
    ricart_agrawala::group_with(params, Precedence::CurrentClock)
}
