//! The calm futures of a group that is driven by hand: no fault happens, no user acts, and every message arrives before the
//! next timer fires. Timers fire in any order, so the order of a real clock is among them.

use std::collections::HashSet;

use baton_protocol::Protocol;
use baton_sim::stage::{Action, Rules, Stage};

/// Calm futures with more states than this are not looked at to the end.
const STATES_MAX: usize = 1_000;

/// Whether `is_wrong` holds in every state of all calm futures. False if there are too many states to tell. `fifo`: whether
/// links keep the order of messages.
pub fn always<P: Protocol>(stage: &Stage<P>, fifo: bool, is_wrong: impl Fn(&Stage<P>) -> bool) -> bool {
    let rules = Rules { fifo, ..Rules::default() };
    let mut seen = HashSet::from([stage.fingerprint()]);
    let mut ahead = vec![stage.clone()];
    while let Some(stage) = ahead.pop() {
        if !is_wrong(&stage) || seen.len() > STATES_MAX {
            return false;
        }
        let messages_wait = !stage.in_flight().is_empty();
        for action in stage.enabled(&rules) {
            let is_next = match action {
                Action::Deliver { .. } => true,
                Action::Timer { .. } => !messages_wait,
                _ => false,
            };
            let mut later = stage.clone();
            if is_next && later.apply(&action).is_ok() && seen.insert(later.fingerprint()) {
                ahead.push(later);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::hand::{self, LampState};

    /// The lamp of liveness after these actions.
    fn liveness(spec: Value, actions: &[Value]) -> (LampState, String) {
        let request = json!({"spec": spec, "rules": {"crashes": 1}, "actions": actions});
        let answer = hand::drive(&serde_json::from_value(request).unwrap()).unwrap();
        assert_eq!(answer.refused, None);
        let lamp = answer.lamps.iter().find(|lamp| lamp.property == "liveness").unwrap();
        (lamp.state, lamp.detail.clone())
    }

    /// P0 knows of no leader, and waits for an answer of P1, which is down. At its deadline it leads.
    #[test]
    fn an_election_that_a_timer_mends_is_not_stuck() {
        let actions = [json!({"crash": {"process": 1}}), json!({"suspect": {"by": 0, "of": 1}})];
        assert_eq!(liveness(json!({"algorithm": "bully", "n": 2}), &actions).0, LampState::Holds);
    }

    /// RESIGN overtakes LEADS. Timers run for ever, and none of them tells P0 that P1 does not lead.
    #[test]
    fn an_election_that_no_timer_mends_is_stuck_and_the_repaired_one_is_not() {
        let deliver = |message: u64| json!({"deliver": {"message": message}});
        let suspect = |by: usize| json!({"suspect": {"by": by, "of": 2}});
        let crash = json!({"crash": {"process": 2}});
        let actions = [deliver(0), deliver(1), crash, suspect(1), suspect(0), deliver(4), deliver(2)];
        let after = |algorithm: &str, actions: &[Value]| {
            liveness(json!({"algorithm": algorithm, "n": 2, "variant": "witness"}), actions)
        };
        let why = "P0 believes that P1 leads, although too few processes are up";
        assert_eq!(after("bully-late-leads", &actions), (LampState::Stuck, why.into()));
        assert_eq!(after("bully-late-leads", &actions[..6]).0, LampState::Holds, "LEADS is on its way");
        assert_eq!(after("bully", &actions).0, LampState::Holds);
    }
}
