//! What algorithms promise, and what drivers judge runs and models by.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::Serialize;

/// Something that holds or is violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// At most one in the critical section; at most one leader; nobody who lives is suspected. Also broken by a grant to
    /// one that has not asked.
    Safety,
    /// It never happens that somebody waits and nothing can happen: a part of liveness that needs no infinite runs.
    Deadlock,
    /// Every request is granted; all who live agree on a leader; who has crashed is suspected by all who live.
    Liveness,
    /// If request A happened before request B, A is granted first.
    Order,
    /// Fences grow from grant to grant.
    Fence,
    /// Somebody enters, leads, or beats, at all; two wait at once; and who crashes is suspected by somebody. The checker always
    /// checks it: a model in which nothing happens proves nothing.
    Reachability,
}

impl Property {
    /// All that can be asked for.
    pub const ALL: [Property; 5] =
        [Property::Safety, Property::Deadlock, Property::Liveness, Property::Order, Property::Fence];

    /// What the command line, reports and traces call it.
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

/// No property has this name.
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

/// A value for each property that algorithms promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerProperty<T> {
    /// For [`Property::Safety`].
    pub safety: T,
    /// For [`Property::Liveness`], and so for [`Property::Deadlock`].
    pub liveness: T,
    /// For [`Property::Order`].
    pub order: T,
    /// For [`Property::Fence`].
    pub fence: T,
}

impl<T> PerProperty<T> {
    /// Each value with its property.
    pub fn each(&self) -> [(Property, &T); 4] {
        [
            (Property::Safety, &self.safety),
            (Property::Liveness, &self.liveness),
            (Property::Order, &self.order),
            (Property::Fence, &self.fence),
        ]
    }

    /// The value for a property, if it is one that algorithms promise.
    pub fn of(&self, property: Property) -> Option<&T> {
        let property = if property == Property::Deadlock { Property::Liveness } else { property };
        self.each().into_iter().find(|(known, _)| *known == property).map(|(_, value)| value)
    }
}

/// What an algorithm promises while its assumptions hold.
pub type Promises = PerProperty<bool>;

impl Promises {
    /// All of them.
    pub const ALL: Promises = PerProperty { safety: true, liveness: true, order: true, fence: true };

    /// Whether a property is among them.
    pub fn include(&self, property: Property) -> bool {
        self.of(property).is_some_and(|promised| *promised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_promises_to_serve_everybody_promises_that_nobody_is_stuck() {
        let promises = Promises { order: false, ..Promises::ALL };
        assert!(promises.include(Property::Liveness) && promises.include(Property::Deadlock));
        assert!(!promises.include(Property::Order) && !promises.include(Property::Reachability));
        assert!(!Promises { liveness: false, ..promises }.include(Property::Deadlock));
    }
}
