//! The checker starts after a list of actions, and says how far a violation is from there.

use baton_check::{CheckError, CheckReport, Faults, Options, Property, Verdict, check};
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Params, Visitor};
use baton_protocol::{Group, Protocol};
use baton_sim::replay::replay;
use baton_sim::stage::{Action, Effect, Rules, Stage, Wish};

fn request(process: usize) -> Action {
    Action::User { process, wish: Wish::Request }
}

/// In each state takes an action that brings the violation one step nearer, until the violation happens.
struct Downhill<'a> {
    params: &'a Params,
    options: Options,
    rules: Rules,
}

impl Downhill<'_> {
    fn distance(&self, algorithm: &str, after: Vec<Action>) -> (Option<usize>, CheckReport) {
        let report = check(algorithm, self.params, &Options { after, ..self.options.clone() }).unwrap();
        (report.steps.filter(|_| report.result == Verdict::Violated), report)
    }

    /// Returns the actions, and the findings of the oracles on the way.
    fn go<P: Protocol>(self, about: &'static About, mut stage: Stage<P>) -> (Vec<Action>, Vec<&'static str>) {
        stage.start();
        let (mut actions, mut found) = (Vec::new(), Vec::new());
        let (far, _) = self.distance(about.name, Vec::new());
        for left in (0..far.unwrap()).rev() {
            let longer = |action: &Action| [actions.as_slice(), std::slice::from_ref(action)].concat();
            let enabled = stage.enabled(&self.rules);
            let reports = enabled.iter().map(|action| self.distance(about.name, longer(action)));
            let reports: Vec<_> = reports.collect();
            assert!(reports.iter().all(|(steps, _)| steps.is_none_or(|steps| steps >= left)), "{actions:?}");
            let nearer = reports.iter().position(|(steps, _)| *steps == Some(left));
            let nearer = nearer.unwrap_or_else(|| panic!("{} steps are left after {actions:?}", left + 1));
            let trace = reports[nearer].1.trace.as_ref().unwrap();
            assert!(replay(&trace.header, &trace.records).is_ok(), "the trace begins with the actions");
            found.extend(stage.apply(&enabled[nearer]).unwrap().into_iter().filter_map(|effect| match effect {
                Effect::Violated { property, .. } => Some(property),
                _ => None,
            }));
            actions.push(enabled[nearer].clone());
        }
        (actions, found)
    }
}

impl Visitor for Downhill<'_> {
    type Output = (Vec<Action>, Vec<&'static str>);

    fn unsupported(self, about: &'static About) -> Self::Output {
        panic!("{} is not for this test", about.name)
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.go(about, Stage::mutex(group))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.go(about, Stage::election(group))
    }
}

fn downhill(algorithm: &str, params: &Params, options: Options, rules: Rules) -> (Vec<Action>, Vec<&'static str>) {
    registry::visit(algorithm, params, Downhill { params, options, rules }).unwrap()
}

#[test]
fn each_action_on_the_way_to_a_violation_brings_it_nearer_by_one() {
    let options = Options { properties: Some(vec![Property::Safety]), ..Options::default() };
    let (actions, found) = downhill("ricart-agrawala-time-only", &Params::new(2, 1), options, Rules::default());
    assert_eq!((actions.len(), found), (6, vec!["safety"]));
}

/// One deadline ends too early. Time passes by itself where a message has to travel.
#[test]
fn the_steps_of_an_election_are_counted_from_the_end_of_the_list() {
    let suspect = Faults { suspect: 1, ..Faults::NONE };
    let options = Options { faults: suspect, ..Options::default() };
    let report = |actions: &[Action]| {
        let report =
            check("bully", &Params::new(3, 1), &Options { after: actions.to_vec(), ..options.clone() }).unwrap();
        assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Safety)));
        report
    };
    let way = [Action::Crash { process: 2 }, Action::Suspect { by: 0, of: 2 }, Action::Deliver { message: 0 }];
    let steps: Vec<_> = (0..=way.len()).map(|taken| report(&way[..taken]).steps).collect();
    // The model starts with the crash. The suspicion by P0 is a detour. A tick passes before the message arrives.
    assert_eq!(steps, [Some(6), Some(6), Some(7), Some(5)]);
    let trace = report(&way).trace.unwrap();
    assert!(replay(&trace.header, &trace.records).is_ok());
}

#[test]
fn a_deadlock_comes_nearer_with_the_requests_that_lead_to_it() {
    let params = Params::new(3, 1);
    let options = Options { properties: Some(vec![Property::Deadlock]), ..Options::default() };
    let steps = |after: &[Action]| {
        let options = Options { after: after.to_vec(), ..options.clone() };
        check("maekawa-no-inquire", &params, &options).unwrap().steps
    };
    let far = steps(&[]).unwrap();
    assert_eq!(steps(&[request(0), request(1), request(2)]), Some(far - 3));
}

/// The quickest way is a copy of the GRANT, in 4 steps. Once the REQUEST has arrived twice there may be no further copy, and
/// it takes longer until P0 is granted what it has not asked for.
#[test]
fn a_copy_in_the_list_is_a_step_only_where_it_arrives() {
    let faults = Faults { duplicate: 1, ..Faults::NONE };
    let properties = Some(vec![Property::Safety]);
    let options = Options { faults, properties, ignore_assumptions: true, ..Options::default() };
    let steps = |after: &[Action]| {
        check("central", &Params::new(2, 1), &Options { after: after.to_vec(), ..options.clone() }).unwrap().steps
    };
    let list = [request(0), Action::Duplicate { message: 0 }, Action::Deliver { message: 0 }];
    let steps: Vec<_> = (0..=list.len()).map(|taken| steps(&list[..taken])).collect();
    assert_eq!(steps, [Some(4), Some(3), Some(3), Some(5)]);
}

#[test]
fn faults_of_the_list_are_among_those_that_there_may_be() {
    let params = Params::new(2, 1);
    let lossy = |loss, after| {
        let faults = Faults { loss, ..Faults::NONE };
        let properties = Some(vec![Property::Deadlock]);
        check(
            "central",
            &params,
            &Options { faults, properties, ignore_assumptions: true, after, ..Options::default() },
        )
    };
    let lost = || vec![request(0), Action::Drop { message: 0 }];
    let report = lossy(1, lost()).unwrap();
    assert_eq!((report.result, report.steps, report.property), (Verdict::Violated, Some(0), Some(Property::Deadlock)));
    let refusal = lossy(0, lost()).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "action 2 of the list, `drop #0`: it cannot happen there within the limits of requests and faults"
    );
    let beyond = [lost(), vec![request(1)]].concat();
    let refusal = lossy(1, beyond).unwrap_err().to_string();
    assert_eq!(refusal, "action 3 of the list, `request 1`: deadlock is violated before this action");
}

/// In elections time passes by itself. The message of P0 to the crashed P2 must not stop it.
#[test]
fn a_message_to_a_crashed_process_does_not_stop_time() {
    let after = vec![
        Action::Crash { process: 2 },
        Action::Suspect { by: 0, of: 2 },
        Action::Deliver { message: 0 },
        Action::Deliver { message: 2 },
    ];
    let (faults, properties) = (Faults { crash: 1, ..Faults::NONE }, Some(vec![Property::Safety]));
    check("bully", &Params::new(3, 1), &Options { properties, faults, after, ..Options::default() }).unwrap();
}

#[test]
fn what_a_list_cannot_have_is_refused() {
    let refusal = |algorithm: &str, properties, after: Vec<Action>| {
        let options = Options { properties, after, ..Options::default() };
        check(algorithm, &Params::new(3, 1), &options).unwrap_err()
    };
    let safety = || Some(vec![Property::Safety]);
    let told = |after: Vec<Action>| refusal("raymond", safety(), after).to_string();
    assert_eq!(
        told(vec![request(1), Action::Forge { from: 0, to: 1, like: 0 }]),
        "action 2 of the list, `forge 0->1 #0`: the checker has no forgeries"
    );
    assert_eq!(
        told(vec![Action::Deliver { message: 4 }]),
        "action 1 of the list, `deliver #4`: message #4 is not in flight"
    );
    let liveness = refusal("raymond", Some(vec![Property::Liveness]), vec![request(1)]);
    assert!(matches!(liveness, CheckError::FromTheStart { property: Property::Liveness, .. }), "{liveness}");
    let beats = refusal("heartbeat", safety(), vec![request(1)]);
    assert!(matches!(beats, CheckError::FromTheStart { .. }), "{beats}");
    let elected = refusal("bully", safety(), vec![Action::Suspect { by: 0, of: 2 }]);
    assert_eq!(
        elected.to_string(),
        "action 1 of the list, `suspect 0 2`: without further crashes the model starts with a crashed leader: begin with `crash 2`"
    );
}
