//! What the state keeps of unseen answers is limited in bytes, because a refusal shows a cycle shortened.

use baton_state::state::locks::{self, Acquire, LockName, Mode, Refusal, WaitFor};
use baton_state::state::sessions::limits::{LABEL_BYTES_MAX, REQUESTS_MAX};
use baton_state::state::sessions::{self, Kept, Open};
use baton_state::state::{Answer, Caller, Effect, OwnerId, Record, State};

use crate::records::again;
use crate::script::{Script, request, session};

/// The most bytes that a snapshot has of one kept answer.
const KEPT_BYTES_MAX: usize = 1_536;

/// A name of this length. Names with different numbers differ.
fn name(number: u64, bytes: usize) -> LockName {
    let mut name = vec![0xff; bytes];
    name[..8].copy_from_slice(&number.to_be_bytes());
    LockName::from(&name)
}

fn acquire(owner: u64, lock: LockName) -> locks::Operation {
    locks::Operation::Acquire(Acquire::one(lock.as_bytes(), Mode::Exclusive, OwnerId(owner)))
}

/// A session in which each of these owners holds its lock and waits for the next one's, except the last owner.
/// Returns also the number of the next request.
fn chain(owners: u64, label: &str, names: impl Fn(u64) -> LockName) -> (Script, u64) {
    let mut script = Script::default();
    let (session, ttl_ms, label, host) = (session("a"), 10_000, label.to_owned(), String::new());
    let (pid, resume, secret_hash, caller) = (1, false, None, Caller::default());
    script.apply(
        &sessions::Command::Open(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller }).into(),
    );
    let holds = (1..=owners).map(|owner| acquire(owner, names(owner)));
    let waits = (1..owners).map(|owner| acquire(owner, names(owner + 1)));
    for (number, operation) in (1..).zip(holds.chain(waits)) {
        script.apply(&request(session, number, owners.min(number - 1), operation));
    }
    (script, 2 * owners)
}

/// Closes the cycle of the chain with this request, which is refused.
fn refused(script: &mut Script, owners: u64, number: u64, first: LockName) -> Vec<WaitFor> {
    let effects = script.apply(&request(session("a"), number, owners, acquire(owners, first)));
    match &effects[..] {
        [Effect::Answer { answer: Answer::Locks(locks::Answer::Refused(Refusal::Deadlock(cycle))), .. }] => {
            cycle.clone()
        }
        other => panic!("{other:?}"),
    }
}

fn encoded_bytes(state: &State) -> usize {
    state.records().map(|record| postcard::to_stdvec(&record).expect("written").len()).sum()
}

#[test]
fn a_session_full_of_long_refusals_keeps_a_megabyte_and_a_half() {
    const OWNERS: u64 = 40;
    let long = |number| name(number, locks::limits::NAME_BYTES_MAX);
    let (mut script, first) = chain(OWNERS, &"é".repeat(LABEL_BYTES_MAX / 2), long);
    let before = encoded_bytes(&script.state);
    let refusals = REQUESTS_MAX as u64 - (OWNERS - 1);
    for number in first..first + refusals {
        refused(&mut script, OWNERS, number, long(1));
    }
    let full = request(session("a"), first + refusals, OWNERS, acquire(OWNERS, long(1)));
    let too_many = Answer::Refused(sessions::Refusal::TooManyRequests { limit: REQUESTS_MAX as u32 });
    assert!(matches!(&script.apply(&full)[..], [Effect::Answer { answer, .. }] if *answer == too_many));
    let kept = encoded_bytes(&script.state) - before;
    assert!(kept <= refusals as usize * KEPT_BYTES_MAX, "{kept} bytes for {refusals} refusals");
    assert_eq!(again(&script.state), script.state);
}

fn texts(cycle: &[WaitFor]) -> Vec<(&str, &[u8])> {
    cycle.iter().map(|step| (step.label.as_str(), step.lock.as_bytes())).collect()
}

#[test]
fn a_short_cycle_is_shown_in_full() {
    let (label, long) = ("x".repeat(LABEL_BYTES_MAX), |number| name(number, 250));
    let (mut script, number) = chain(2, &label, long);
    let (one, two) = (long(1), long(2));
    let cycle = refused(&mut script, 2, number, long(1));
    assert_eq!(texts(&cycle), [(label.as_str(), one.as_bytes()), (label.as_str(), two.as_bytes())]);
}

/// The labels have the same share as the names, because both are longer than their share: 1,024 bytes for 8 texts.
#[test]
fn long_names_and_labels_end_with_an_ellipsis() {
    let (mut script, number) = chain(4, &"é".repeat(128), |number| name(number, 512));
    let cycle = refused(&mut script, 4, number, name(1, 512));
    let label = format!("{}…", "é".repeat(62));
    let shown = |number| [&name(number, 125).as_bytes()[..125], "…".as_bytes()].concat();
    let owners: Vec<u64> = cycle.iter().map(|step| step.owner.0).collect();
    assert_eq!(owners, [4, 1, 2, 3]);
    for (step, waits_for) in cycle.iter().zip([1, 2, 3, 4]) {
        assert_eq!((step.label.as_str(), step.lock.as_bytes()), (label.as_str(), &shown(waits_for)[..]));
    }
}

/// Only texts above their share are cut.
#[test]
fn short_labels_leave_their_room_to_long_names() {
    let (mut script, number) = chain(4, "web", |number| name(number, 512));
    let cycle = refused(&mut script, 4, number, name(1, 512));
    let lengths: Vec<(usize, usize)> =
        texts(&cycle).into_iter().map(|(label, lock)| (label.len(), lock.len())).collect();
    assert_eq!(lengths, [(3, (1_024 - 4 * 3) / 4); 4]);
}

/// Every answer that an older version kept is still there after an upgrade, in few bytes.
#[test]
fn a_snapshot_of_an_older_version_gives_short_answers() {
    let (mut script, number) = chain(3, "a", |number| name(number, 100));
    let shown = refused(&mut script, 3, number, name(1, 100));
    let mut records: Vec<Record> = script.state.records().collect();
    let kept = records.iter_mut().find_map(|record| match record {
        Record::Sessions(sessions::Record::Session(session)) => session.requests.get_mut(&number),
        _ => None,
    });
    let kept: &mut Kept = kept.expect("the refusal is kept");
    let long = WaitFor { label: "x".repeat(256), lock: name(1, 512), ..shown[0].clone() };
    let refusal = Refusal::Deadlock(vec![long; 100]);
    kept.answer = Some(locks::Answer::Refused(refusal).into());
    let before = records.iter().map(|record| postcard::to_stdvec(record).expect("written").len()).sum::<usize>();
    script.state = State::restore(records.into_iter().map(Ok::<_, String>)).expect("a state");
    assert!(before > 70_000 && encoded_bytes(&script.state) < 3_000, "{before}");
    let cycle = refused(&mut script, 3, number, name(1, 100));
    assert_eq!(cycle.len(), 32);
    assert!(cycle.iter().all(|step| step.label.ends_with('…') && step.lock.as_bytes().ends_with("…".as_bytes())));
    assert_eq!(again(&script.state), script.state);
}
