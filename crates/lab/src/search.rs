//! A breadth-first search over the actions by hand. It is much slower than the checker. The lab uses it where the model
//! of the checker has a clock, and by hand there is none.

use std::collections::HashSet;

use baton_protocol::{Property, Protocol};
use baton_sim::stage::{Action, Effect, Rules, Stage};

use crate::hand::{Driven, begins_election};

pub struct Searched {
    /// Different states so far.
    pub states: usize,
    pub end: End,
}

pub enum End {
    /// A shortest way to a violation, from the state of the group.
    Found { property: Property, way: Vec<Action> },
    /// There is no violation.
    Complete,
    /// Time or states are over. There is no violation within `depth` actions.
    Over { depth: usize },
}

/// A state on the way.
struct Node<P: Protocol> {
    stage: Stage<P>,
    /// Whether an election has ever begun.
    has_begun: bool,
    /// The place of the last action in the list of all actions. None: the beginning.
    last: Option<usize>,
}

/// Looks for the nearest violation of `property`, or of any property, under `rules`.
pub fn search<P: Protocol>(
    driven: &Driven<P>,
    rules: &Rules,
    property: Option<Property>,
    states_max: usize,
    is_over: impl Fn() -> bool,
) -> Searched {
    let has_begun = driven.log.iter().any(|entry| entry.action.as_ref().is_some_and(begins_election));
    let mut level = vec![Node { stage: driven.stage.clone(), has_begun, last: None }];
    let mut seen = HashSet::from([driven.stage.fingerprint()]);
    // Each action with the place of the one before it.
    let mut actions: Vec<(Action, Option<usize>)> = Vec::new();
    let mut depth = 0;
    while !level.is_empty() {
        let mut next = Vec::new();
        for node in level {
            if is_over() || seen.len() >= states_max {
                return Searched { states: seen.len(), end: End::Over { depth } };
            }
            for action in node.stage.enabled(rules) {
                let mut stage = node.stage.clone();
                // What is enabled is not refused.
                let Ok(effects) = stage.apply(&action) else { continue };
                let has_begun = node.has_begun || begins_election(&action);
                let is_stuck = || driven.stuck_at(&stage, has_begun).is_some();
                if let Some(property) = violated(&effects, property).or_else(|| stuck(property).filter(|_| is_stuck()))
                {
                    let mut way = vec![action];
                    let mut before = node.last;
                    while let Some((action, earlier)) = before.and_then(|place| actions.get(place)) {
                        way.push(action.clone());
                        before = *earlier;
                    }
                    way.reverse();
                    return Searched { states: seen.len(), end: End::Found { property, way } };
                }
                if seen.insert(stage.fingerprint()) {
                    actions.push((action, node.last));
                    next.push(Node { stage, has_begun, last: Some(actions.len() - 1) });
                }
            }
        }
        level = next;
        depth += 1;
    }
    Searched { states: seen.len(), end: End::Complete }
}

fn violated<P: Protocol>(effects: &[Effect<P>], asked: Option<Property>) -> Option<Property> {
    let mut found = effects.iter().filter_map(|effect| match effect {
        Effect::Violated { property, .. } => property.parse().ok(),
        _ => None,
    });
    found.find(|property| asked.is_none_or(|asked| asked == *property))
}

/// The property that a group violates when it is stuck, if it is asked for.
fn stuck(asked: Option<Property>) -> Option<Property> {
    match asked {
        None => Some(Property::Liveness),
        Some(Property::Deadlock | Property::Liveness) => asked,
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hand::{self, Driver};

    struct Look {
        states_max: usize,
    }

    impl Driver for Look {
        type Output = Searched;

        fn drive<P: Protocol>(self, driven: Driven<P>) -> Searched {
            search(&driven, &driven.rules, None, self.states_max, || false)
        }
    }

    #[test]
    fn a_search_ends_at_a_violation_at_the_last_state_or_at_its_limit() {
        let look = |request: serde_json::Value, states_max| {
            let request = serde_json::from_value(request).unwrap();
            hand::visit(&request, Look { states_max }).unwrap().unwrap().end
        };
        let found = look(json!({"spec": {"algorithm": "no-lock", "n": 2}}), usize::MAX);
        assert!(matches!(found, End::Found { property: Property::Safety, way } if way.len() == 2));
        let endless = look(json!({"spec": {"algorithm": "chang-roberts", "n": 2}}), 2_000);
        assert!(matches!(endless, End::Over { depth } if depth > 3));
    }
}
