//! Runs that are refused, each with a sentence that says why.

use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::faults::Fault;
use baton_sim::network::Delay;
use baton_sim::run::{Options, run};
use baton_sim::spec::Spec;

fn faults(texts: &[&str]) -> Vec<Fault> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn what_an_algorithm_does_not_assume_is_refused_and_can_be_forced() {
    let refusal = |change: fn(&mut Options), algorithm: &str| {
        let mut options = Options::new(algorithm, 3);
        change(&mut options);
        let refusal = run(&options, None).unwrap_err().to_string();
        options.ignore_assumptions = true;
        options.events_max = 10_000;
        run(&options, None).unwrap();
        refusal
    };
    let forced = "; --ignore-assumptions runs it all the same";
    assert_eq!(
        refusal(|options| options.network.loss = 0.5, "central"),
        format!("`central` assumes that no message is lost, and 0.5 of them would be{forced}")
    );
    assert_eq!(
        refusal(|options| options.network.duplicate = 0.5, "central"),
        format!("`central` assumes that no message arrives twice, and 0.5 of them would{forced}")
    );
    assert_eq!(
        refusal(|options| options.network.delay = Delay::Exponential(1.0), "bully"),
        format!("`bully` assumes a bound on delays, and exp:1 has none{forced}")
    );
    assert_eq!(
        refusal(|options| options.faults = vec!["crash 0 @ 1".parse().unwrap()], "central"),
        format!("`central` assumes that no process crashes, and P0 would{forced}")
    );
    assert_eq!(
        refusal(|options| options.faults = faults(&["crash 3 @ 1", "recover 3 @ 2 without-memory"]), "voting"),
        format!("`voting` assumes that no coordinator forgets, and P3 would{forced}")
    );
    assert_eq!(
        refusal(|options| options.faults = faults(&["crash 3 @ 10", "crash 4 @ 10"]), "voting"),
        format!(
            "`voting` assumes that as many coordinators live in the end as votes are needed, and 1 of 3 would where 2 \
             must{forced}"
        )
    );
    assert_eq!(
        refusal(
            |options| {
                options.params.variant = Some("quorum".into());
                options.faults = faults(&["crash 2 @ 10", "crash 1 @ 20"]);
            },
            "bully"
        ),
        format!(
            "`bully` assumes that a majority of all members lives in the end, and 1 of 3 would where 2 must{forced}"
        )
    );
    assert_eq!(
        refusal(
            |options| {
                options.params.variant = Some("witness".into());
                options.faults = faults(&["crash 3 @ 10"]);
            },
            "bully"
        ),
        format!("`bully` assumes that the witness lives in the end, and 0 of 1 would where 1 must{forced}")
    );
    assert_eq!(
        refusal(|options| options.faults = vec!["partition 0|1 @ 1".parse().unwrap()], "central"),
        format!("`central` assumes that no message is lost, and a partition would lose some{forced}")
    );
}

#[test]
fn faults_that_cannot_strike_are_refused() {
    let refusal = |texts: &[&str]| {
        let faults = texts.iter().map(|text| text.to_string()).collect();
        let spec = Spec { algorithm: "lamport".into(), faults, ignore_assumptions: true, ..Spec::default() };
        spec.options().unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&["recover 1 @ 3", "crash 1 @ 4"]),
        "P1 cannot recover at 3 T, since it is not dead then; let it crash before"
    );
    assert_eq!(
        refusal(&["crash 1 @ 4", "crash 1 @ 3"]),
        "P1 cannot crash at 4 T, since it is dead by then; let it recover in between"
    );
    assert_eq!(
        refusal(&["crash 1 @ 3", "pause 1 @ 4 for 1"]),
        "P1 cannot pause at 4 T, since it is dead then; let it recover before"
    );
    assert_eq!(
        refusal(&["pause 1 @ 3 for 2", "pause 1 @ 5 for 1"]),
        "P1 cannot pause at 5 T, since an earlier pause lasts until 5 T; let that end before"
    );
}

#[test]
fn options_that_mean_nothing_are_refused_with_those_who_use_them() {
    let refusal = |spec: Spec| spec.options().unwrap_err().to_string();
    let of = |algorithm: &str| Spec { algorithm: algorithm.into(), ..Spec::default() };
    let only = |option: &str, algorithm: &str, users: &str| {
        format!("--{option} means nothing for `{algorithm}`: only algorithms for {users} use it; leave it out")
    };
    let three = "mutual exclusion, failure detection, record append";
    assert_eq!(refusal(Spec { entries: Some(1), ..of("bully") }), only("entries", "bully", three));
    assert_eq!(refusal(Spec { think: Some(1.0), ..of("bully") }), only("think", "bully", three));
    for algorithm in ["ring-list", "heartbeat", "record-append"] {
        for (option, spec) in [
            ("hold", Spec { hold: Some(1.0), ..of(algorithm) }),
            ("app-messages", Spec { app_messages: true, ..of(algorithm) }),
            ("store", Spec { store: Some(StoreKind::Fenced), ..of(algorithm) }),
            ("patience", Spec { patience: Some(1.0), ..of(algorithm) }),
        ] {
            assert_eq!(refusal(spec), only(option, algorithm, "mutual exclusion"));
        }
    }
    let users = "mutual exclusion, elections, record append";
    assert_eq!(refusal(Spec { load: Some(Load::All), ..of("phi-accrual") }), only("load", "phi-accrual", users));
    let struck = |spec: Spec| Spec { faults: vec!["crash 2 @ 9".into()], ..spec };
    for (option, spec) in [
        ("load", Spec { load: Some(Load::Solo), ..of("bully") }),
        ("entries", Spec { entries: Some(9), ..of("heartbeat") }),
        ("think", Spec { think: Some(9.0), ..of("heartbeat") }),
    ] {
        assert!(spec.options().is_ok());
        let algorithm = spec.algorithm.clone();
        let reason = "the faults say what happens; leave it out";
        assert_eq!(refusal(struck(spec)), format!("--{option} means nothing for `{algorithm}`: {reason}"));
    }
    let meant = Spec { load: Some(Load::Solo), entries: Some(3), think: Some(1.0), ..of("record-append") };
    assert!(meant.options().is_ok());
}

#[test]
fn nonsense_is_refused_in_one_sentence() {
    let refusal = |change: fn(&mut Options)| {
        let mut options = Options::new("central", 3);
        change(&mut options);
        run(&options, None).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(|options| options.network.loss = 1.5),
        "the probability of loss cannot be 1.5; a probability is between 0 and 1"
    );
    assert_eq!(
        refusal(|options| options.workload.hold = f64::NAN),
        "the hold time cannot be NaN; a time is between 0 and 1,000,000,000 T"
    );
    assert_eq!(
        refusal(|options| options.workload.entries = 0),
        "the number of entries cannot be 0; ask for at least 1"
    );
    assert_eq!(
        refusal(|options| options.faults = vec!["pause 9 @ 1 for 1".parse().unwrap()]),
        "there is no P9 for a fault to strike; the processes are P0 to P3"
    );
    assert!(
        refusal(|options| options.faults = faults(&["crash 9 @ 1"])).starts_with("there is no P9"),
        "before all else"
    );
}
