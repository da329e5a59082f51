//! The properties that algorithms promise. Simulator and checker judge runs and models by them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::Serialize;

use crate::ProcessId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// At most one process in the critical section; at most one leader; no live process suspected. A grant to a process
    /// that has not requested also violates safety.
    Safety,
    /// There is no state in which a process waits and nothing can happen. It is a part of liveness that finite runs can
    /// show.
    Deadlock,
    /// Every request is granted; all live processes agree on a leader; every crashed process is suspected by all live
    /// processes.
    Liveness,
    /// If request A happened before request B, A is granted first.
    Order,
    /// Fences grow from grant to grant.
    Fence,
    /// A process enters, leads, or hears a heartbeat; two processes wait at the same time; a crashed process is
    /// suspected. Always checked, because a model in which nothing happens proves nothing.
    Reachability,
}

impl Property {
    /// All properties that a user can request.
    pub const ALL: [Property; 5] =
        [Property::Safety, Property::Deadlock, Property::Liveness, Property::Order, Property::Fence];

    /// The name on the command line, in reports and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Property::Safety => "safety",
            Property::Deadlock => "deadlock",
            Property::Liveness => "liveness",
            Property::Order => "order",
            Property::Fence => "fence",
            Property::Reachability => "reachability",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no property `{0}`; there are {known}", known = Property::ALL.map(Property::name).join(", "))]
pub struct UnknownProperty(String);

impl FromStr for Property {
    type Err = UnknownProperty;

    fn from_str(name: &str) -> Result<Self, UnknownProperty> {
        let found = Property::ALL.into_iter().find(|property| property.name() == name);
        found.ok_or_else(|| UnknownProperty(name.to_string()))
    }
}

/// What is wrong with an entry: `entering` enters, and `other` is inside. Simulator and checker use the same text, and
/// also those of [`overtaking`] and [`falling_fence`], so that a replay of a counterexample repeats what the checker said.
pub fn two_inside(entering: ProcessId, other: ProcessId) -> String {
    format!("P{entering} and P{other} are in the critical section at once")
}

/// What is wrong with an entry that violates ORDER.
pub fn overtaking(entering: ProcessId, overtaken: ProcessId) -> String {
    format!("P{entering} enters, and the request of P{overtaken}, which happened before, still waits")
}

/// What is wrong with an entry whose fence is not above the highest fence before.
pub fn falling_fence(entering: ProcessId, fence: u64, highest: u64) -> String {
    format!("P{entering} enters with fence {fence}, after an entry with fence {highest}")
}

/// What is wrong with an entry of a process that has not requested.
pub fn uninvited(entering: ProcessId) -> String {
    format!("P{entering} was granted without a request")
}

/// A value for each property that algorithms promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerProperty<T> {
    pub safety: T,
    /// Also for [`Property::Deadlock`].
    pub liveness: T,
    pub order: T,
    pub fence: T,
}

impl<T> PerProperty<T> {
    pub fn each(&self) -> [(Property, &T); 4] {
        [
            (Property::Safety, &self.safety),
            (Property::Liveness, &self.liveness),
            (Property::Order, &self.order),
            (Property::Fence, &self.fence),
        ]
    }

    /// None for [`Property::Reachability`], which no algorithm promises.
    pub fn of(&self, property: Property) -> Option<&T> {
        let property = if property == Property::Deadlock { Property::Liveness } else { property };
        self.each().into_iter().find(|(known, _)| *known == property).map(|(_, value)| value)
    }
}

/// What an algorithm promises while its assumptions hold.
pub type Promises = PerProperty<bool>;

impl Promises {
    pub const ALL: Promises = PerProperty { safety: true, liveness: true, order: true, fence: true };

    pub fn include(&self, property: Property) -> bool {
        self.of(property).is_some_and(|promised| *promised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_of_liveness_includes_freedom_from_deadlock() {
        let promises = Promises { order: false, ..Promises::ALL };
        assert!(promises.include(Property::Liveness) && promises.include(Property::Deadlock));
        assert!(!promises.include(Property::Order) && !promises.include(Property::Reachability));
        assert!(!Promises { liveness: false, ..promises }.include(Property::Deadlock));
    }
}
