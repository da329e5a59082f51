//! A group driven by hand: what the actions mean, and that everything that is said to be possible is.

use baton_protocol::append::Append;
use baton_protocol::detector::{Detector, Watcher, heartbeat, phi_accrual};
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::mutex::central;
use baton_protocol::mutex::ricart_agrawala::{self, RicartAgrawala};
use baton_protocol::registry::{self, About, Params, Visitor};
use baton_protocol::{Group, ProcessId, Protocol};
use baton_sim::stage::{Action, Effect, Refused, Rules, Stage, Wish};

/// Everything that can go wrong does.
fn all_faults(fifo: bool) -> Rules {
    Rules {
        fifo,
        losses: 5,
        duplicates: 5,
        crashes: 3,
        recoveries: 3,
        mistakes: 3,
        app_messages: 3,
        ..Rules::default()
    }
}

/// Takes a random walk, and asserts what is true of every state on it.
struct Walk {
    seed: u64,
    steps: usize,
}

impl Walk {
    fn go<P: Protocol>(&self, about: &About, mut stage: Stage<P>) -> usize {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let rules = all_faults(self.seed.is_multiple_of(2));
        stage.start();
        for step in 0..self.steps {
            let Some(action) = random.choice(stage.enabled(&rules)) else { return step };
            let mut again = stage.clone();
            let place = format!("{}, seed {}, step {step}: {action}", about.name, self.seed);
            let effects = stage.apply(&action).unwrap_or_else(|why| panic!("{place}: {why}"));
            assert_sound(&stage, &place);
            assert_eq!(again.apply(&action).as_ref(), Ok(&effects), "{place}: a clone does something else");
            assert_eq!(again.enabled(&rules), stage.enabled(&rules), "{place}: a clone can do something else");
        }
        self.steps
    }
}

fn assert_sound<P: Protocol>(stage: &Stage<P>, place: &str) {
    for process in (0..stage.processes().len()).filter(|&process| !stage.is_up(process)) {
        assert!(stage.in_flight().iter().all(|message| message.to != process), "{place}: a message to P{process}");
        assert!(stage.timers().all(|(owner, ..)| owner != process), "{place}: a timer of P{process}");
        assert!(!stage.inside().contains(&process), "{place}: P{process} is inside");
        assert!(!stage.waiting().contains(&process), "{place}: P{process} waits");
    }
}

impl Visitor for Walk {
    type Output = usize;

    fn unsupported(self, about: &'static About) -> usize {
        panic!("{} is of a family that no stage has", about.name)
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> usize {
        self.go(about, Stage::mutex(group))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> usize {
        self.go(about, Stage::election(group))
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> usize {
        self.go(about, Stage::append(group))
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> usize {
        self.go(about, Stage::detector(Watcher::group(group, 1)))
    }
}

#[test]
fn whatever_is_enabled_is_not_refused_and_the_dead_have_nothing() {
    for about in registry::ALGORITHMS {
        let walks = (0..10).map(|seed| {
            let walk = Walk { seed, steps: 150 };
            registry::visit(about.name, &Params::new(3, 1), walk).unwrap_or_else(|why| panic!("{}: {why}", about.name))
        });
        let steps: usize = walks.fold(0, usize::saturating_add);
        assert!(steps > 300, "{}: {steps} steps", about.name);
    }
}

/// Two processes that have started.
fn two() -> Stage<RicartAgrawala> {
    let mut stage = Stage::mutex(ricart_agrawala::group(&Params::new(2, 1)).unwrap());
    stage.start();
    stage
}

fn request(process: ProcessId) -> Action {
    Action::User { process, wish: Wish::Request }
}

fn release(process: ProcessId) -> Action {
    Action::User { process, wish: Wish::Release }
}

/// Applies actions that must be possible; returns the effects of the last.
fn go<P: Protocol>(stage: &mut Stage<P>, actions: &[Action]) -> Vec<String> {
    let mut told = Vec::new();
    for action in actions {
        let effects = stage.apply(action).unwrap_or_else(|why| panic!("{action}: {why}"));
        told = effects.iter().map(Effect::to_string).collect();
    }
    told
}

#[test]
fn a_message_of_the_crashed_arrives_until_its_sender_is_back() {
    let mut stage = two();
    go(&mut stage, &[request(1), Action::Crash { process: 1 }]);
    let mut delivered = stage.clone();
    let told = go(&mut delivered, &[Action::Deliver { message: 0 }]);
    assert_eq!(told, ["P0 gets REQUEST {time: 1} from P1", "P0 -> P1 REPLY {time: 1, request: 1} is lost"]);
    let told = go(&mut stage, &[Action::Recover { process: 1, memory: true }]);
    assert_eq!(told, ["P1 is up again", "P1 -> P0 REQUEST {time: 1} is lost"]);
    assert_eq!(stage.apply(&Action::Deliver { message: 0 }), Err(Refused::NoMessage { message: 0 }));
}

#[test]
fn who_crashes_inside_is_inside_no_more_and_must_be_ready_before_it_asks_again() {
    let mut stage = two();
    go(&mut stage, &[request(1), Action::Deliver { message: 0 }, Action::Deliver { message: 1 }]);
    assert!(stage.inside().contains(&1));
    go(&mut stage, &[Action::Crash { process: 1 }, Action::Suspect { by: 0, of: 1 }]);
    assert!(stage.inside().is_empty() && stage.suspects(0, 1));
    let granted = go(&mut stage, &[request(0)]);
    assert_eq!(granted, ["P0 granted, fence 131072"], "nobody else is inside");
    go(&mut stage, &[Action::Recover { process: 1, memory: true }]);
    assert_eq!(stage.apply(&release(1)), Err(Refused::NotInside { process: 1 }));
    assert_eq!(stage.apply(&request(1)), Err(Refused::CatchingUp { process: 1 }));
    assert!(stage.is_catching_up(1) && !stage.enabled(&Rules::default()).contains(&request(1)));
    go(&mut stage, &[Action::Trust { by: 0, of: 1 }]);
    let welcome = stage.in_flight()[0].id;
    let told = go(&mut stage, &[Action::Deliver { message: welcome }]);
    assert_eq!(told, ["P1 gets WELCOME {time: 2} from P0", "P1 is ready"]);
    assert!(stage.enabled(&Rules::default()).contains(&request(1)));
}

/// P = 10 and D = 1: a beat at 0, 10, 20..., and a suspicion when the clock shows more than 11 since the last beat.
#[test]
fn the_clock_of_a_detector_goes_on_with_its_timer_and_no_other() {
    let mut stage = Stage::detector(Watcher::group(heartbeat::group(&Params::new(3, 1)).unwrap(), 1));
    let told: Vec<String> = stage.start().iter().map(Effect::to_string).collect();
    assert_eq!(told[..3], ["P0 -> P1 BEAT {start: 1}", "P0 -> P2 BEAT {start: 1}", "P0 sets Beat to 10"]);
    let fire = |process, name: &str| Action::Timer { process, name: name.into() };
    let told = go(&mut stage, &[fire(0, "Beat")]);
    assert_eq!(told, ["P0 -> P1 BEAT {start: 1}", "P0 -> P2 BEAT {start: 1}", "P0 sets Deadline to 2"]);
    // Message 2 is the first beat of P1. P0 hears it at 10 of its own clock.
    let told = go(&mut stage, &[Action::Deliver { message: 2 }]);
    assert_eq!(told, ["P0 gets BEAT {start: 1} from P1"], "the deadline of P2 comes first");
    let told = go(&mut stage, &[fire(0, "Deadline")]);
    let mistake = "VIOLATES safety: P0 suspects P2, which is alive";
    assert_eq!(told, ["P0 suspects P2", mistake, "P0 sets Beat to 8"]);
    assert!(stage.suspects(0, 2) && !stage.suspects(0, 1) && !stage.suspects(1, 2), "P1 has its own clock");
    let told = go(&mut stage, &[Action::Deliver { message: 4 }]);
    assert_eq!(told, ["P0 gets BEAT {start: 1} from P2", "P0 trusts P2 again"]);
}

/// The rhythm of a process begins anew when it has recovered: phi does not learn from the time in which it was down.
#[test]
fn a_detector_learns_a_new_rhythm_after_a_recovery() {
    let mut stage = Stage::detector(Watcher::group(phi_accrual::group(&Params::new(2, 1)).unwrap(), 1));
    stage.start();
    let fire = |process, name: &str| Action::Timer { process, name: name.into() };
    let part = |stage: &Stage<Watcher<_>>, name: &str| {
        let picture = stage.processes()[0].view();
        let part = picture.parts.into_iter().find(|part| part.name == name).unwrap();
        serde_json::to_value(part).unwrap()["value"].as_str().unwrap().to_owned()
    };
    let deliver_all = |stage: &mut Stage<Watcher<_>>| {
        while let Some(message) = stage.in_flight().first().map(|envelope| envelope.id) {
            go(stage, &[Action::Deliver { message }]);
        }
    };
    deliver_all(&mut stage);
    go(&mut stage, &[Action::Crash { process: 1 }, fire(0, "Beat"), fire(0, "Deadline")]);
    assert!(stage.suspects(0, 1) && stage.unnoticed().is_none());
    go(&mut stage, &[fire(0, "Beat"), Action::Recover { process: 1, memory: false }]);
    let again = stage.in_flight().last().unwrap().id;
    let told = go(&mut stage, &[Action::Deliver { message: again }]);
    assert_eq!(told, ["P0 gets BEAT {start: 2} from P1", "P0 trusts P1 again"]);
    assert_eq!((part(&stage, "clock"), part(&stage, "last beat")), ("20".into(), "P1: 20".into()));
    assert_eq!(part(&stage, "mean"), "P1: 10", "the time in which P1 was down does not count");
}

#[test]
fn a_picture_of_many_detectors_has_those_with_the_earliest_deadlines() {
    let mut stage = Stage::detector(Watcher::group(heartbeat::group(&Params::new(20, 1)).unwrap(), 1));
    stage.start();
    go(&mut stage, &[Action::Timer { process: 0, name: "Beat".into() }]);
    // All but P7 to P10 are heard at 10.
    let heard = |from: ProcessId| from > 0 && !(7..=10).contains(&from);
    let to_p0 = stage.in_flight().iter().filter(|beat| beat.to == 0 && heard(beat.from));
    let beats: Vec<Action> = to_p0.map(|beat| Action::Deliver { message: beat.id }).collect();
    go(&mut stage, &beats);
    let picture = stage.processes()[0].view();
    let deadlines = serde_json::to_value(picture.parts.last()).unwrap()["value"].as_str().unwrap().to_owned();
    assert!(deadlines.contains("P7: 11, P8: 11, P9: 11, P10: 11, P11: 21"), "{deadlines}");
    assert!(deadlines.ends_with(", 3 more") && deadlines.matches(':').count() == 16, "{deadlines}");
}

/// In a group of detectors no report comes from elsewhere.
#[test]
fn a_detector_decides_by_itself() {
    let mut stage = Stage::detector(Watcher::group(heartbeat::group(&Params::new(2, 1)).unwrap(), 1));
    stage.start();
    go(&mut stage, &[Action::Crash { process: 1 }]);
    assert_eq!(stage.unnoticed(), Some((0, 1)));
    let rules = Rules { recoveries: 1, mistakes: 1, recover_when_told: true, ..Rules::default() };
    let recovery = Action::Recover { process: 1, memory: true };
    let is_report = |action: &Action| matches!(action, Action::Suspect { .. } | Action::Trust { .. });
    assert!(!stage.enabled(&rules).iter().any(is_report) && !stage.allows(&recovery, &rules));
    assert_eq!(stage.apply(&Action::Suspect { by: 0, of: 1 }), Err(Refused::Detects));
    let fire = |name: &str| Action::Timer { process: 0, name: name.into() };
    go(&mut stage, &[fire("Beat"), fire("Deadline")]);
    assert!(stage.unnoticed().is_none() && stage.allows(&recovery, &rules));
}

#[test]
fn on_fifo_links_a_copy_keeps_the_place_of_its_original() {
    let mut stage = two();
    let app = |from, to| Action::App { from, to };
    go(&mut stage, &[request(0), app(0, 1), Action::Duplicate { message: 0 }, Action::Crash { process: 0 }]);
    let fifo = Rules { fifo: true, ..Rules::default() };
    let arrivals = |stage: &Stage<_>| {
        let enabled = stage.enabled(&fifo).into_iter();
        enabled.filter(|action| matches!(action, Action::Deliver { .. })).collect::<Vec<_>>()
    };
    let deliver = |message| Action::Deliver { message };
    assert_eq!(arrivals(&stage), [deliver(0), deliver(1), deliver(2)], "a message of the application waits for none");
    // The forgery is sent last on the same link, and has to wait for the original and the copy.
    go(&mut stage, &[Action::Forge { from: 0, to: 1, like: 0 }]);
    assert_eq!(arrivals(&stage), [deliver(0), deliver(1), deliver(2)]);
    go(&mut stage, &[deliver(0), deliver(2)]);
    assert_eq!(arrivals(&stage), [deliver(1), deliver(3)]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_sentence() {
    let mut stage = two();
    let refusals = [
        (request(2), "there is no P2"),
        (Action::User { process: 0, wish: Wish::Elect }, "the algorithm has no such command"),
        (release(0), "P0 is not inside"),
        (Action::Recover { process: 0, memory: true }, "P0 is not down"),
        (Action::Drop { message: 7 }, "message #7 is not in flight"),
        (Action::Timer { process: 0, name: "Answer".into() }, "P0 has no timer Answer running"),
        (Action::App { from: 1, to: 1 }, "P1 cannot send to itself"),
        (Action::Suspect { by: 1, of: 1 }, "P1 does not watch itself"),
    ];
    for (action, sentence) in refusals {
        assert_eq!(stage.apply(&action).unwrap_err().to_string(), sentence);
    }
    go(&mut stage, &[request(0)]);
    assert_eq!(stage.apply(&request(0)).unwrap_err().to_string(), "P0 is already waiting");
    go(&mut stage, &[Action::Crash { process: 0 }]);
    assert_eq!(stage.apply(&request(0)).unwrap_err().to_string(), "P0 is down");
    // The coordinator is P2.
    let mut coordinated = Stage::mutex(central::group(&Params::new(2, 1)).unwrap());
    let refused = coordinated.apply(&request(2)).unwrap_err();
    assert_eq!(refused.to_string(), "P2 is a helper, and only P0 to P1 may request");
}
