//! Challenges: break it in as few steps as you can. A test asks the checker for the shortest way to each violation.

use baton_protocol::Property;
use baton_sim::spec::Spec;
use serde::Serialize;

use crate::distance;
use crate::hand::RulesRequest;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Challenge {
    pub id: &'static str,
    pub title: &'static str,
    pub text: &'static str,
    pub algorithm: &'static str,
    pub n: usize,
    pub variant: Option<&'static str>,
    pub rules: RulesRequest,
    pub property: Property,
    /// The lamp that shows the violation, and its state then.
    pub lamp: (&'static str, &'static str),
    /// Number of requests of each process that are enough.
    pub entries: u32,
    /// The least number of actions.
    pub steps: usize,
}

impl Challenge {
    /// The question how far the violation is from the start.
    pub fn question(&self) -> distance::Request {
        distance::Request {
            spec: Spec {
                algorithm: self.algorithm.into(),
                n: Some(self.n),
                variant: self.variant.map(Into::into),
                ..Spec::default()
            },
            rules: self.rules.clone(),
            actions: Vec::new(),
            property: Some(self.property.name().into()),
            entries: Some(self.entries),
        }
    }
}

/// From the easiest to the hardest: first what is broken on purpose, then what is healthy on a worse network.
pub fn challenges() -> Vec<Challenge> {
    let broken = |id, title, text, n, property, steps| Challenge {
        id,
        title,
        text,
        algorithm: id,
        n,
        variant: None,
        rules: RulesRequest::default(),
        property,
        lamp: lamp(property),
        entries: 1,
        steps,
    };
    let healthy = |id, algorithm, title, text, n, rules, property, steps| Challenge {
        algorithm,
        rules,
        ..broken(id, title, text, n, property, steps)
    };
    let rules = RulesRequest::default;
    vec![
        broken(
            "no-lock",
            "No lock at all",
            "Every process that requests enters at once. Let two of them meet.",
            2,
            Property::Safety,
            2,
        ),
        broken(
            "permission-ring-original",
            "Two requests swallow each other",
            "A request travels round the ring, and a process that wants to enter swallows the requests of others. Make \
             both processes wait for ever.",
            2,
            Property::Deadlock,
            4,
        ),
        broken(
            "ricart-agrawala-time-only",
            "Times without names",
            "Ricart and Agrawala order requests by (time, process). This version compares only times. Let both \
             processes enter.",
            2,
            Property::Safety,
            6,
        ),
        broken(
            "ricart-agrawala-current-clock",
            "The wrong time",
            "A waiting process should defer requests that are later than its own request. This one compares them with its \
             clock of now, which has moved on. Let both processes enter.",
            2,
            Property::Safety,
            6,
        ),
        broken(
            "maekawa-no-inquire",
            "Nobody gives a vote back",
            "Maekawa's voters ask a vote back when a better request comes. These do not. Make all three processes wait \
             for ever.",
            3,
            Property::Deadlock,
            6,
        ),
        broken(
            "generalized-unchecked",
            "Asked, but not informed",
            "Request and inform sets that no rule has checked: a process grants requests while it is inside itself.",
            2,
            Property::Safety,
            6,
        ),
        broken(
            "raymond-asks-once",
            "The token does not come back",
            "One REQUEST stands for a whole queue. Here no new one follows the token when it goes on and others still \
             wait. Make a process wait for ever.",
            3,
            Property::Deadlock,
            8,
        ),
        Challenge {
            rules: RulesRequest { crashes: 1, recoveries: 1, recover_when_told: true, ..rules() },
            ..broken(
                "token-ring-last-word",
                "The token is never replaced",
                "One process may crash and recover. Every process believes its own detector more than the messages of \
                 others. Lose the token for good.",
                3,
                Property::Deadlock,
                12,
            )
        },
        broken(
            "suzuki-kasami-no-outdated-check",
            "An old request comes late",
            "The holder of the token does not notice that a request has been served already. Make a process wait for \
             ever.",
            3,
            Property::Deadlock,
            14,
        ),
        Challenge {
            entries: 2,
            ..broken(
                "singhal-1989",
                "A request that is known already",
                "A process asks only those that it believes to be asking. The token may tell a process of a request before \
                 the request itself arrives. Make a process wait for ever. One process must ask twice.",
                3,
                Property::Deadlock,
                15,
            )
        },
        Challenge {
            rules: RulesRequest { fifo: Some(true), ..rules() },
            ..broken(
                "maekawa-1985",
                "Displaced, and not told",
                "A voter's best waiting request gives way to a better one, and its process is not told. So it keeps votes \
                 that it should return. Make three processes wait for ever.",
                4,
                Property::Deadlock,
                14,
            )
        },
        broken(
            "maekawa-yield-unseen",
            "A vote that is given back before it comes",
            "A process returns a grant that it has not received yet. When the grant arrives, the process counts it. Let \
             two processes enter.",
            4,
            Property::Safety,
            14,
        ),
        Challenge {
            rules: RulesRequest { crashes: 1, ..rules() },
            ..broken(
                "chang-roberts-no-resend",
                "An id that is lost with the dead",
                "One process may crash. An id that was on its way to the dead process is not sent again. Leave the others \
                 without a leader for ever.",
                3,
                Property::Liveness,
                5,
            )
        },
        Challenge {
            rules: RulesRequest { crashes: 1, ..rules() },
            ..broken(
                "bully-late-leads",
                "A leader that has resigned",
                "P1 leads as long as a witness, P2, consents. One process may crash. P0 believes that P1 leads even if P1 \
                 has resigned before. Let P0 follow P1 for ever, although P1 does not lead.",
                2,
                Property::Liveness,
                7,
            )
        },
        healthy(
            "central-loss",
            "central",
            "One lost message",
            "The central server assumes that no message is lost. The network may lose one.",
            2,
            RulesRequest { losses: 1, ..rules() },
            Property::Deadlock,
            2,
        ),
        healthy(
            "lamport-unordered",
            "lamport",
            "Messages overtake each other",
            "Lamport's algorithm assumes links that keep the order of messages. These do not. Let two processes enter.",
            2,
            RulesRequest { fifo: Some(false), ..rules() },
            Property::Safety,
            4,
        ),
        healthy(
            "central-elected-suspicion",
            "central-elected",
            "A coordinator that is not dead",
            "A detector may err once: it reports a process as crashed that is alive.",
            2,
            RulesRequest { mistakes: 1, ..rules() },
            Property::Safety,
            3,
        ),
        healthy(
            "token-ring-suspicion",
            "token-ring",
            "Two tokens",
            "The ring makes a new token when the holder of the old one has crashed. A detector may err once.",
            2,
            RulesRequest { mistakes: 1, ..rules() },
            Property::Safety,
            4,
        ),
        healthy(
            "ricart-agrawala-suspicion",
            "ricart-agrawala",
            "No answer needed from the dead",
            "A process does not wait for the replies of crashed processes. A detector may err once.",
            2,
            RulesRequest { mistakes: 1, ..rules() },
            Property::Safety,
            5,
        ),
        healthy(
            "central-duplicate",
            "central",
            "A message arrives twice",
            "The central server assumes that no message arrives twice. The network may copy one.",
            2,
            RulesRequest { duplicates: 1, ..rules() },
            Property::Safety,
            5,
        ),
        healthy(
            "token-ring-duplicate",
            "token-ring",
            "A copy of the token",
            "The network may copy one message, and the token is a message.",
            2,
            RulesRequest { duplicates: 1, ..rules() },
            Property::Safety,
            6,
        ),
        healthy(
            "central-order",
            "central",
            "First come is not first asked",
            "The server serves in order of arrival. One process requests and tells another one, which requests too. Let \
             the second be served first.",
            2,
            RulesRequest { app_messages: 1, ..rules() },
            Property::Order,
            6,
        ),
        healthy(
            "maekawa-order",
            "maekawa",
            "Voters who have not heard",
            "Maekawa's voters serve the best request that they know. One process requests and tells another one, which \
             requests too. Let the second be served first.",
            3,
            RulesRequest { app_messages: 1, ..rules() },
            Property::Order,
            6,
        ),
        healthy(
            "bully-deadline",
            "bully",
            "A deadline that ends too early",
            "The bully waits for answers until a deadline, and assumes that every answer arrives before it. By hand a \
             timer may fire at any moment. Make two leaders.",
            3,
            rules(),
            Property::Safety,
            2,
        ),
        healthy(
            "heartbeat-slow",
            "heartbeat",
            "Silent, but not dead",
            "A process suspects another one if it hears no heartbeat for more than P + D by its own clock. By hand a \
             message may take any time. Make a process suspect a live one.",
            2,
            rules(),
            Property::Safety,
            2,
        ),
        healthy(
            "chang-roberts-suspicion",
            "chang-roberts",
            "A ring that skips a living process",
            "Each process skips the processes that it believes to be dead. A detector may err once. Elect two leaders.",
            2,
            RulesRequest { mistakes: 1, ..rules() },
            Property::Safety,
            4,
        ),
    ]
}

fn lamp(property: Property) -> (&'static str, &'static str) {
    match property {
        Property::Deadlock | Property::Liveness => (Property::Liveness.name(), "stuck"),
        other => (other.name(), "violated"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::time::Duration;

    use baton_check::Verdict;
    use baton_protocol::Protocol;
    use baton_protocol::registry::ALGORITHMS;
    use baton_sim::stage::Action;

    use super::*;
    use crate::hand::{self, Driven, Driver, LampState};
    use crate::jobs::Stop;
    use crate::search::{End, search};

    /// Against hanging only: on a slow machine the checker may take longer than a page waits.
    const PATIENCE: Duration = Duration::from_secs(600);

    #[test]
    fn the_checker_knows_the_shortest_way_and_it_works_by_hand() {
        let mut wrong = String::new();
        for challenge in challenges() {
            let question = challenge.question();
            let answer = distance::distance_within(PATIENCE, &question, &Stop::default()).unwrap();
            if (answer.result, answer.steps) != (Verdict::Violated, Some(challenge.steps)) {
                writeln!(wrong, "{}: {:?}, not {} steps: {}", challenge.id, answer.steps, challenge.steps, answer.text)
                    .unwrap();
                continue;
            }
            let by_hand = |actions: &[Action]| {
                let (spec, rules) = (question.spec.clone(), question.rules.clone());
                let driven = hand::drive(&hand::Request { spec, rules, actions: actions.to_vec() }).unwrap();
                assert_eq!(driven.refused, None, "{}: {actions:?}", challenge.id);
                let (property, _) = challenge.lamp;
                driven.lamps.iter().find(|lamp| lamp.property == property).unwrap().state
            };
            let expected = if challenge.lamp.1 == "stuck" { LampState::Stuck } else { LampState::Violated };
            assert_eq!(by_hand(&answer.way), expected, "{}", challenge.id);
            let before = &answer.way[..answer.way.len() - 1];
            assert_eq!(by_hand(before), LampState::Holds, "{}: the last action is what breaks it", challenge.id);
        }
        assert_eq!(wrong, "");
    }

    /// No number of steps by hand shows what these break.
    const NO_CHALLENGES: [&str; 1] = [
        // A process waits for ever only in an endless run: others enter again and again.
        "raymond-greedy",
    ];

    #[test]
    fn whatever_is_broken_on_purpose_is_a_challenge() {
        let broken = ALGORITHMS.iter().filter(|about| about.broken.is_some()).map(|about| about.name);
        let challenged: BTreeSet<&str> = challenges().iter().map(|challenge| challenge.algorithm).collect();
        let missing: Vec<&str> = broken.filter(|name| !challenged.contains(name)).collect();
        assert_eq!(missing, NO_CHALLENGES);
    }

    #[test]
    fn ids_are_unique() {
        let ids: BTreeSet<&str> = challenges().iter().map(|challenge| challenge.id).collect();
        assert_eq!(ids.len(), challenges().len());
    }

    /// Looks for a violation without the checker.
    struct ByHand<'c>(&'c Challenge);

    impl Driver for ByHand<'_> {
        type Output = usize;

        fn drive<P: Protocol>(self, driven: Driven<P>) -> usize {
            let found = search(&driven, &driven.rules, Some(self.0.property), usize::MAX, || false);
            let End::Found { way, .. } = found.end else { panic!("{}: there is no violation", self.0.id) };
            way.len()
        }
    }

    /// Two searches that share no code: the checker on its model, and all actions by hand. The long ones would take too
    /// many states by hand.
    #[test]
    fn no_shorter_way_exists_by_hand() {
        for challenge in challenges().iter().filter(|challenge| challenge.steps <= 6) {
            let question = challenge.question();
            let request = hand::Request { spec: question.spec, rules: question.rules, actions: Vec::new() };
            let shortest = hand::visit(&request, ByHand(challenge)).unwrap().unwrap();
            assert_eq!(shortest, challenge.steps, "{}", challenge.id);
        }
    }
}
