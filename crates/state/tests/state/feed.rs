//! The feed: what is kept of each change, for how long, and that it says everything that happens.

use std::collections::BTreeMap;

use baton_state::state::feed::{BYTES_MAX, CHANGES_MAX, KeptChange, KeptWhat, Leader, Member, Place};
use baton_state::state::locks::{Claim, Delay, LockName};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{Caller, Command, Outcome, Record, RequestNumber, SessionId, State, cluster};
use expect_test::expect;
use proptest::prelude::*;

use crate::actions::{SESSIONS, World, action, open};
use crate::compare::apply;
use crate::model::Model;
use crate::records::again;
use crate::script::check;

#[test]
fn a_claim_is_told_from_the_queue_to_its_end() {
    check(expect![[r#"
        leads 7 one
        open a
            a open, ttl 10000 ms
        open b ttl 5000
            b open, ttl 5000 ms
        acquire a 1 deploy x delay 50
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 100
            b 1 waits, at most 100 ms
        acquire b 2 deploy x
            b 2: deadlock: B -> deploy
        cancel-wait b 1
            b 1: the lock was not granted within the time-out
        cancel b 3 2
            b 3: Cancelled(Nothing)
        acquire b 4 deploy x
        force deploy
            deploy forced: a (fence 1, since 4)
            a 1 revoked
        release a 2 1
            a 2: Released
            b 4: granted, fence 2
        force deploy now
            deploy forced: b (fence 2, since 11)
            b 4 revoked
        acquire a 3 deploy x
            a 3: granted, fence 3
        acquire a 4 pool p2 delay 30
            a 4: granted, fence 4
        acquire b 5 pool,deploy:x p2
        expire a
            a ended, Expired
            pool closed, generation 1, 30 ms
        end-delay pool 1
            b 5: granted, fence 5
        end-delay deploy 2
        close b 6
            b 6: Closed
            b ended, Closed
        leads 8 two
        feed
            101.0 leader nothing -> node 7 one in term 7
            102.0 session-opened a ttl 10000 ms
            103.0 session-opened b ttl 5000 ms
            104.0 granted a a 1 (deploy x): nothing -> fence 1 since 4
            105.0 queued b b 1 (deploy x): nothing -> waits since 5, at most 100 ms
            107.0 cancelled b b 1 (deploy x): waits since 5, at most 100 ms -> nothing, TimedOut
            109.0 queued b b 4 (deploy x): nothing -> waits since 9
            110.0 revoked a a 1 (deploy x): fence 1 since 4 -> fence 1 since 4, revoked, forced by Caller { principal: Anonymous, from: None }
            111.0 released a a 1 (deploy x): fence 1 since 4, revoked -> nothing, Released
            111.1 granted b b 4 (deploy x): waits since 9 -> fence 2 since 11
            112.0 forced b b 4 (deploy x): fence 2 since 11 -> nothing, forced by Caller { principal: Anonymous, from: None }
            113.0 granted a a 3 (deploy x): nothing -> fence 3 since 13
            114.0 granted a a 4 (pool p2): nothing -> fence 4 since 14
            115.0 queued b b 5 (pool p2, deploy x): nothing -> waits since 15
            116.0 expired a a 3 (deploy x): fence 3 since 13 -> nothing, Expired
            116.1 expired a a 4 (pool p2): fence 4 since 14 -> nothing, Expired
            116.2 lock-closed a pool: open -> generation 1, 30 ms, Expired
            116.3 session-ended a held 2 [deploy, pool], Expired
            117.0 lock-opened pool: generation 1, 30 ms -> open
            117.1 granted b b 5 (pool p2, deploy x): waits since 15 -> fence 5 since 17
            119.0 released b b 5 (pool p2, deploy x): fence 5 since 17 -> nothing, Closed
            119.1 session-ended b held 2 [pool, deploy], Closed
            120.0 leader node 7 one in term 7 -> node 8 two in term 8
    "#]]);
}

fn leads(node: u64) -> Command {
    cluster::Command::Leads(Leader { node, name: "a".into(), term: node }).into()
}

fn kept(state: &State) -> Vec<KeptChange> {
    state.feed().from(Place::default()).cloned().collect()
}

fn open_labelled(session: u64, label: &str) -> Command {
    let (label, host) = (label.to_owned(), "host".to_owned());
    let (secret_hash, caller) = (None, Caller::default());
    let open =
        Open { session: SessionId(session), ttl_ms: 10_000, label, host, pid: 7, resume: false, secret_hash, caller };
    sessions::Command::Open(open).into()
}

#[test]
fn a_state_that_no_node_has_said_to_lead_keeps_nothing() {
    let mut state = State::default();
    apply(&mut state, 1, 1, &open_labelled(1, "x"));
    assert_eq!((state.feed().first(), state.feed().len()), (None, 0));
    assert!(!state.records().any(|record| matches!(record, Record::Feed(_))), "older nodes read its snapshots");
    apply(&mut state, 2, 2, &leads(7));
    apply(&mut state, 3, 3, &open_labelled(2, "x"));
    assert_eq!(state.feed().first(), Some(Place { index: 2, number: 0 }));
    assert_eq!(kept(&state).iter().map(|change| change.place.index).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn the_oldest_changes_go_when_there_are_too_many() {
    let mut state = State::default();
    apply(&mut state, 0, 0, &leads(7));
    for index in 1..CHANGES_MAX as u64 {
        apply(&mut state, index, 1, &open_labelled(index, "x"));
    }
    assert_eq!((state.feed().len(), state.feed().first()), (CHANGES_MAX, Some(Place { index: 0, number: 0 })));
    apply(&mut state, 1 << 40, 1, &open_labelled(1 << 40, "x"));
    assert_eq!((state.feed().len(), state.feed().first()), (CHANGES_MAX, Some(Place { index: 0, number: 1 })));
    assert_eq!(state.feed().from(Place::default()).next().map(|change| change.place.index), Some(1));
    let before_last = Place { index: (1 << 40) - 1, number: 9 };
    assert_eq!(state.feed().from(before_last).count(), 1);
    assert_eq!(state.check(), Ok(()));
    assert_eq!(again(&state), state);
}

#[test]
fn the_oldest_changes_go_when_they_are_too_large() {
    let mut state = State::default();
    apply(&mut state, 0, 0, &leads(7));
    let long = "x".repeat(256);
    for index in 1..60_000 {
        apply(&mut state, index, 1, &open_labelled(index, &long));
        assert!(state.feed().bytes() <= BYTES_MAX);
    }
    assert!(state.feed().len() < 60_000 && state.feed().bytes() > BYTES_MAX - 1_000);
    assert_eq!(state.check(), Ok(()));
}

#[test]
fn a_cluster_that_begins_anew_forgets_the_positions_of_before() {
    let mut state = State::default();
    apply(&mut state, 1, 1, &leads(7));
    apply(&mut state, 2, 1, &open_labelled(1, "x"));
    let anew = cluster::Command::BeginAnew { secret: cluster::Secret([1; 32]), fence_from: 1, wait_ms: Some(0) };
    apply(&mut state, 3, 1, &anew.into());
    assert_eq!((state.feed().first(), state.feed().leader()), (None, None));
    apply(&mut state, 4, 1, &leads(8));
    assert_eq!(state.feed().first(), Some(Place { index: 4, number: 0 }));
}

#[test]
fn members_are_told_apart_by_what_has_changed() {
    let member = |name: &str, is_voter| Member {
        name: name.into(),
        peer_address: "p:1".into(),
        client_address: "c:1".into(),
        is_voter,
    };
    let mut state = State::default();
    let mut outcome = Outcome::default();
    let members = |list: &[(u64, Member)]| list.iter().cloned().collect::<BTreeMap<u64, Member>>();
    state.members_are(1, members(&[(1, member("a", true))]), &mut outcome);
    assert_eq!(state.feed().members(), None, "the feed has not begun");
    apply(&mut state, 2, 1, &leads(1));
    state.members_are(2, members(&[(1, member("a", true))]), &mut outcome);
    assert!(outcome.changes.is_empty(), "the first membership is where the feed begins");
    state.members_are(3, members(&[(1, member("a", true)), (2, member("b", false))]), &mut outcome);
    state.members_are(4, members(&[(2, member("b", true))]), &mut Outcome::default());
    let told: Vec<(u64, u64, bool, bool)> = kept(&state)
        .iter()
        .filter_map(|change| match &change.what {
            KeptWhat::Member(of) => Some((change.place.index, of.node, of.before.is_some(), of.after.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(3, 2, false, true), (4, 1, true, false), (4, 2, true, true)]);
    assert_eq!(again(&state), state);
}

/// A snapshot must not be believed: whatever its records say, the state is refused or sound.
#[test]
fn broken_records_of_the_feed_are_refused() {
    let mut state = State::default();
    apply(&mut state, 1, 1, &leads(7));
    apply(&mut state, 2, 1, &open_labelled(1, "x"));
    apply(&mut state, 3, 1, &open_labelled(2, "y"));
    let records: Vec<Record> = state.records().collect();
    let refused = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = records.clone();
        change(&mut records);
        State::restore(records.into_iter().map(Ok::<_, String>)).unwrap_err()
    };
    let first = records.iter().position(|record| matches!(record, Record::Feed(_))).unwrap();
    assert_eq!(refused(&|records| drop(records.remove(first))), "the feed keeps changes, but has not begun");
    assert_eq!(refused(&|records| records.insert(first, records[first].clone())), "the feed begins twice");
    assert_eq!(refused(&|records| records.push(records[first + 1].clone())), "the kept changes are not in order");
    let is_who = |record: &Record| matches!(record, Record::Feed(baton_state::state::feed::Record::Who(_)));
    assert_eq!(refused(&|records| records.retain(|record| !is_who(record))), "a change names the unknown session 0");
}

/// What a reader knows who has begun with a listing and followed the feed.
#[derive(Default, PartialEq, Debug)]
struct Known {
    sessions: BTreeMap<SessionId, u64>,
    claims: BTreeMap<(SessionId, RequestNumber), Claim>,
    delays: BTreeMap<LockName, Delay>,
}

impl Known {
    fn listing(state: &State) -> Known {
        let claims = |view: baton_state::state::SessionView<'_>| view.claims().cloned().collect::<Vec<_>>();
        Known {
            sessions: state.sessions().map(|view| (view.id, view.session.ttl_ms)).collect(),
            claims: state.sessions().flat_map(claims).map(|claim| ((claim.session, claim.number), claim)).collect(),
            delays: state.locks().filter_map(|lock| Some((lock.name().clone(), lock.delay()?))).collect(),
        }
    }

    fn follow(&mut self, change: &KeptChange) {
        match &change.what {
            KeptWhat::Opened { session, ttl_ms } => {
                assert_eq!(self.sessions.insert(*session, *ttl_ms), None);
                assert_eq!(change.who.as_ref().map(|who| who.session), Some(*session));
            }
            KeptWhat::Ended(end) => assert_eq!(self.sessions.remove(&end.session), Some(end.ttl_ms)),
            KeptWhat::Claim { before, after, .. } => {
                let claim = after.as_ref().or(before.as_ref()).unwrap();
                let key = (claim.session, claim.number);
                let known = match after {
                    Some(after) => self.claims.insert(key, Claim::clone(after)),
                    None => self.claims.remove(&key),
                };
                assert_eq!(known.as_ref(), before.as_deref());
            }
            KeptWhat::Lock(of) => {
                let known = match of.after {
                    Some(after) => self.delays.insert(of.lock.clone(), after),
                    None => self.delays.remove(&of.lock),
                };
                assert_eq!(known, of.before);
            }
            KeptWhat::Member(_) | KeptWhat::Leader { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A listing and the changes after it say what the state is, at every moment and after every restart.
    #[test]
    fn a_listing_and_the_feed_equal_the_state(actions in prop::collection::vec(action(), 1..80), from in 0..40_usize) {
        let (mut state, mut model, mut world) = (State::default(), Model::default(), World::default());
        apply(&mut state, 0, 0, &leads(1));
        for session in 0..SESSIONS {
            apply(&mut state, session + 1, 0, &open(session));
            model.apply(session + 1, 0, &open(session));
        }
        let mut reader = None;
        for (number, action) in (1..).zip(&actions) {
            let index = 100 + 3 * number as u64;
            if number == from {
                reader = Some((Known::listing(&state), Place::after_entry(index - 3)));
            }
            let Some(command) = world.command(action, &model) else {
                let read = again(&state);
                prop_assert_eq!(&read, &state);
                state = read;
                continue;
            };
            apply(&mut state, index, index, &command);
            model.apply(index, index, &command);
            world.sent.push(command);
            if let Some((known, place)) = &mut reader {
                for change in state.feed().from(*place) {
                    prop_assert_eq!(change.place.index, index);
                    known.follow(change);
                }
                *place = Place::after_entry(index);
                prop_assert_eq!(&*known, &Known::listing(&state));
            }
            prop_assert_eq!(state.check(), Ok(()));
        }
    }
}
