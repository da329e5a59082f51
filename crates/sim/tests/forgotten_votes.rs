//! How often two clients are in the critical section when coordinators forget their votes: the protocol itself, run
//! many times, against the closed form. Also what fences are worth then.

use std::collections::VecDeque;

use baton_protocol::mutex::voting::{self, Voting};
use baton_protocol::mutex::{Command, Event};
use baton_protocol::registry::Params;
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Protocol};
use baton_theory::voting::{Ask, violation_probability};

const COORDINATORS: usize = 8;
const VOTES: usize = 5;
const TRIALS: u32 = 40_000;

fn group(variant: &str) -> Group<Voting> {
    let mut params = Params::new(2, 1_000);
    params.coordinators = Some(COORDINATORS);
    params.votes = Some(VOTES);
    params.variant = Some(variant.into());
    voting::group(&params).unwrap()
}

/// Runs one attempt of a client, with its requests and their answers. Returns whether the client enters. Later messages
/// of the client are not delivered.
fn enters(client: ProcessId, processes: &mut [Voting], out: &mut Outbox<Voting>) -> bool {
    processes[client].step(Input::Command(Command::Acquire), out);
    let asked: Vec<_> = out.drain().filter_map(sent).collect();
    let mut answers = Vec::new();
    for (to, message) in asked {
        processes[to].step(Input::Message { from: client, message }, out);
        answers.extend(out.drain().filter_map(sent).map(|(_, answer)| (to, answer)));
    }
    let mut entered = false;
    for (from, message) in answers {
        processes[client].step(Input::Message { from, message }, out);
        entered |= out.drain().any(|output| matches!(output, Output::Event(Event::Granted { .. })));
    }
    entered
}

fn sent(output: Output<Voting>) -> Option<(ProcessId, voting::Message)> {
    match output {
        Output::Send { to, message } => Some((to, message)),
        _ => None,
    }
}

/// The first client has exactly m votes, because it asks m coordinators only. Then every coordinator forgets with
/// probability p.
fn violations(second: &str, p: f64, seed: u64) -> f64 {
    let (first, second) = (group("ask-m"), group(second));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = Outbox::new(Choices::seeded(seed));
    let mut both = 0;
    for _ in 0..TRIALS {
        let mut processes: Vec<Voting> = (0..first.processes).map(&first.make).collect();
        processes[1] = (second.make)(1);
        assert!(enters(0, &mut processes, &mut out));
        for coordinator in first.clients..first.processes {
            if rng.f64() < p {
                processes[coordinator] = (first.make)(coordinator);
            }
        }
        both += u32::from(enters(1, &mut processes, &mut out));
    }
    f64::from(both) / f64::from(TRIALS)
}

/// Tolerates four standard deviations of the mean.
#[test]
fn two_are_inside_as_often_as_the_closed_form_says() {
    for (variant, ask, formula) in [("ask-all", Ask::All, 0.2627), ("ask-m", Ask::Some, 0.01186)] {
        let expected = violation_probability(COORDINATORS, VOTES, 0.2, ask);
        assert!((expected - formula).abs() < 1e-4, "{variant}: {expected}");
        let found = violations(variant, 0.2, 1);
        let deviation = (expected * (1.0 - expected) / f64::from(TRIALS)).sqrt();
        assert!((found - expected).abs() < 4.0 * deviation, "{variant}: {found}, where {expected} was expected");
        assert_eq!(violations(variant, 0.0, 1), 0.0, "{variant}: a coordinator that remembers votes once");
    }
}

/// The client requests, and chooses its voters by this script. Delivers all messages until none is left. Returns the
/// fence with which the client enters.
fn entry(client: ProcessId, voters: [usize; 2], processes: &mut [Voting]) -> Option<u64> {
    let mut out = Outbox::new(Choices::scripted(voters.to_vec()));
    let mut granted = None;
    let mut inputs = VecDeque::from([(client, Input::Command(Command::Acquire))]);
    while let Some((at, input)) = inputs.pop_front() {
        processes[at].step(input, &mut out);
        for output in out.drain() {
            match output {
                Output::Send { to, message } => inputs.push_back((to, Input::Message { from: at, message })),
                Output::Event(Event::Granted { fence }) => granted = Some(fence),
                _ => {}
            }
        }
    }
    granted
}

/// Whether a store accepts each of these writes. It refuses a fence below the highest fence so far.
fn accepts(fences: &[u64]) -> Vec<bool> {
    let accepted = |(place, fence): (usize, &u64)| fences[..place].iter().all(|earlier| fence >= earlier);
    fences.iter().enumerate().map(accepted).collect()
}

/// P1 enters with the votes of c0 and c1. c1 forgets its vote. P0 enters with the votes of c1 and c2.
fn two_entries(variant: &str) -> (u64, u64) {
    let mut params = Params::new(2, 1_000);
    (params.coordinators, params.variant) = (Some(3), Some(variant.into()));
    let group = voting::group(&params).unwrap();
    let mut processes: Vec<Voting> = (0..group.processes).map(&group.make).collect();
    let first = entry(1, [0, 1], &mut processes).unwrap();
    processes[3].forget((group.make)(3));
    (first, entry(0, [1, 1], &mut processes).unwrap())
}

#[test]
fn a_late_write_is_refused_only_if_fences_are_stored_with_the_voters() {
    // The first holder is paused, the second writes, the first resumes and writes.
    let late_write = |(first, second)| accepts(&[second, first]);
    assert_eq!(two_entries("ask-m"), ((1 << 16) + 1, 1 << 16), "number 1 twice, and the id decides");
    assert_eq!(late_write(two_entries("ask-m")), [true, true]);
    assert_eq!(two_entries("stored-fence"), ((1 << 16) + 1, 2 << 16));
    assert_eq!(late_write(two_entries("stored-fence")), [true, false]);
}
