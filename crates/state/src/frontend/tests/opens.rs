//! Open on a stream: in time, too late, by another client.

use baton_types::frames::{EndReason, Malformed, Part};

use super::*;

#[test]
fn a_session_is_told_that_it_is_open_when_its_open_is_applied_and_is_heard_from_then_on() {
    let mut node = Node::new();
    node.stream(1);
    assert!(node.listens(1));
    node.hears(1, open(9));
    assert!(!node.listens(1));
    assert_eq!(node.said(), []);
    node.apply();
    let opened = ToClient::Opened { session: 9, ttl_ms: TTL_MS, cluster: Some(CLUSTER), closed_ms: 0 };
    assert_eq!(node.said(), [say(1, opened), Output::Listen(StreamId(1))]);
    assert!(node.listens(1));
}

/// The client counts its lease from the Open that is answered. So the answer to an earlier Open must not come on a
/// later stream.
#[test]
fn an_open_answers_the_stream_that_it_came_by_and_no_other() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, open(9));
    node.stream(2);
    node.hears(2, ToServer::Open(Open { attempt: 2, ..first(9) }));
    // The first Open is late by now.
    node.apply();
    assert_eq!(node.said(), [close(1, Closing::Replaced)]);
    node.apply();
    let opened = ToClient::Opened { session: 9, ttl_ms: TTL_MS, cluster: Some(CLUSTER), closed_ms: 0 };
    assert_eq!(node.said(), [say(2, opened), Output::Listen(StreamId(2))]);
    // No answer goes to the first stream if its client is gone.
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, open(9));
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1)));
    node.apply();
    assert_eq!(node.said(), []);
    assert_eq!(node.frontend.leases().sessions(), 1);
}

#[test]
fn a_later_stream_takes_the_place_of_an_earlier_one() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.stream(2);
    node.hears(2, ToServer::Open(resume(9, 2)));
    assert_eq!(node.said(), []);
    node.apply();
    let opened = ToClient::Opened { session: 9, ttl_ms: TTL_MS, cluster: Some(CLUSTER), closed_ms: 0 };
    assert_eq!(node.said(), [close(1, Closing::Replaced), say(2, opened), Output::Listen(StreamId(2))]);
    // Frames on the earlier stream have no effect, and its end changes nothing.
    node.acquire(1, 1, "a");
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1)));
    assert_eq!(node.proposed, []);
    node.acquire(2, 1, "a");
    node.apply();
    assert_eq!(node.said(), [answer(2, 1, Answer::Granted { fence: 1 })]);
}

#[test]
fn a_late_open_does_not_evict_the_live_stream() {
    for late in [first(9), resume(9, 1)] {
        let mut node = Node::new();
        node.stream(1);
        node.stream(2);
        node.hears(2, ToServer::Open(Open { attempt: 2, ..first(9) }));
        node.apply();
        node.said();
        node.hears(1, ToServer::Open(late));
        assert_eq!(node.said(), [close(1, Closing::Replaced)]);
        assert!(node.listens(2) && node.proposed.is_empty());
    }
}

/// A client older than 0.2.0 does not count its connections. Its newest stream is the one that came last.
#[test]
fn the_streams_of_a_client_that_does_not_count_its_attempts_replace_each_other() {
    let mut node = Node::new();
    let old = |resume| ToServer::Open(Open { attempt: 0, secret: None, resume, ..first(9) });
    node.stream(1);
    node.hears(1, old(false));
    node.apply();
    node.stream(2);
    node.hears(2, old(true));
    node.said();
    node.apply();
    assert_eq!(node.said()[0], close(1, Closing::Replaced));
    assert!(node.listens(2));
}

#[test]
fn a_late_first_open_after_the_close_does_not_bring_the_session_back() {
    let mut node = Node::new();
    node.opened(2, 9);
    node.stream(1);
    node.request(2, 1, frames::Operation::Close);
    // While the Close is on its way.
    node.hears(1, open(9));
    assert_eq!(node.said(), [close(1, Closing::Ending)]);
    assert_eq!(node.proposed.len(), 1);
    node.apply();
    let (closed, gone) = (node.said(), node.state.counts().sessions);
    assert_eq!((closed.len(), gone), (3, 0), "{closed:?}");
    assert_eq!(closed[0], answer(2, 1, frames::Answer::Closed));
    assert_eq!(end_reason(&closed), EndReason::Closed);
    // And afterwards, also at another leader.
    node.stream(3);
    node.hears(3, open(9));
    assert_eq!(end_reason(&node.said()), EndReason::Unknown);
    node.tell(|frontend, _, _| frontend.elected(2));
    node.apply();
    node.said();
    node.stream(4);
    node.hears(4, open(9));
    assert_eq!(end_reason(&node.said()), EndReason::Unknown);
    assert_eq!(node.proposed, []);
}

#[test]
fn a_late_first_open_does_not_bring_an_expired_session_back() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.stream(2);
    node.after(TTL_MS + 1);
    node.said();
    assert_eq!(node.proposed.len(), 1, "its end is on the way");
    node.stream(3);
    node.hears(3, ToServer::Open(Open { attempt: 2, ..first(9) }));
    assert_eq!(node.said(), [close(3, Closing::Ending)]);
    node.apply();
    let note = Note::Expired { session: SessionId(9), label: "label 9".to_owned(), host: "host".to_owned() };
    assert_eq!(node.said().pop(), Some(Output::Note(note)));
}

/// A resumed session whose end is on its way gets Ended, and no Opened before it.
#[test]
fn a_condemned_session_is_not_told_that_it_is_open() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.after(TTL_MS + 1);
    node.stream(2);
    node.hears(2, ToServer::Open(resume(9, 2)));
    // In the log, the Open may come first.
    node.proposed.swap(0, 1);
    let under_way: Vec<UnderWay> = node.frontend.under_way.drain(..).rev().collect();
    node.frontend.under_way.extend(under_way);
    node.apply();
    assert_eq!(node.said(), [close(1, Closing::Replaced)]);
    assert!(!node.listens(2));
    node.apply();
    let said = node.said();
    assert_eq!(end_reason(&said[..2]), EndReason::Expired);
}

#[test]
fn a_session_that_is_not_there_is_not_resumed() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, ToServer::Open(resume(9, 1)));
    // Only the log can decide: this node may be deposed without knowing it.
    node.apply();
    assert_eq!(end_reason(&node.said()), EndReason::Unknown);
}

#[test]
fn only_the_secret_takes_a_session_up() {
    let mut node = Node::new();
    node.opened(1, 9);
    for wrong in [None, secret(2)] {
        for open in [resume(9, u64::MAX), first(9)] {
            node.stream(2);
            node.hears(2, ToServer::Open(Open { secret: wrong, ..open }));
            assert_eq!(end_reason(&node.said()), EndReason::WrongSecret);
        }
    }
    assert!(node.proposed.is_empty() && node.listens(1));
    // The attempts of a client with a wrong secret do not count.
    node.stream(3);
    node.hears(3, ToServer::Open(resume(9, 2)));
    node.apply();
    assert!(node.listens(3));
}

#[test]
fn a_thief_does_not_overtake_the_open_that_begins_a_session() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, open(9));
    node.stream(2);
    node.hears(2, ToServer::Open(Open { secret: secret(2), ..resume(9, u64::MAX) }));
    assert_eq!(end_reason(&node.said()), EndReason::WrongSecret);
    node.apply();
    assert!(node.listens(1));
}

/// A stranger's Open of an unknown session must not affect the client that begins the session later.
#[test]
fn a_thief_of_a_session_that_is_not_there_does_not_make_its_client_late() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, ToServer::Open(Open { secret: secret(2), ..resume(9, u64::MAX) }));
    node.stream(2);
    node.hears(2, open(9));
    node.apply();
    assert_eq!(end_reason(&node.said()), EndReason::Unknown);
    node.apply();
    assert!(node.listens(2));
}

/// Two clients chose the same number. When the second Open came, this node did not know the first one.
#[test]
fn who_comes_second_with_another_secret_gets_nothing() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, ToServer::Open(Open { secret: None, ..first(9) }));
    let (_, command) = node.proposed.pop_front().unwrap();
    let Command::Sessions(sessions::Command::Open(open)) = command else { panic!("{command:?}") };
    let other = sessions::Open { secret_hash: Some([3; 32]), ..open.clone() };
    node.state.apply(7, 0, &sessions::Command::Open(other).into(), &mut Outcome::default());
    node.apply_entry(1, &sessions::Command::Open(open).into());
    assert_eq!(end_reason(&node.said()), EndReason::WrongSecret);
}

#[test]
fn a_stream_has_to_say_whose_it_is_in_time() {
    let mut node = Node::new();
    node.stream(1);
    assert_eq!(node.frontend.next_wake(), Some(node.now_ms + OPEN_WITHIN_MS));
    node.after(OPEN_WITHIN_MS - 1);
    assert_eq!(node.said(), []);
    node.after(1);
    assert_eq!(node.said(), [close(1, Closing::NoOpen)]);
    assert_eq!(node.frontend.next_wake(), None);
    // A stream that has sent Open, or is gone, has no time limit any more.
    node.opened(2, 9);
    node.stream(3);
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(3)));
    node.hears(2, ToServer::KeepAlive { number: 1 });
    node.said();
    node.after(OPEN_WITHIN_MS - 1);
    assert_eq!(node.said(), []);
}

#[test]
fn an_open_that_makes_no_sense_is_told_so() {
    let wrong = [
        Open { ttl_ms: 999, ..first(9) },
        Open { label: "x".repeat(257), ..first(9) },
        Open { session: 0, ..first(9) },
        Open { session: 1 << 63, ..first(9) },
    ];
    for open in wrong {
        let mut node = Node::new();
        node.stream(1);
        node.hears(1, ToServer::Open(open));
        assert_eq!(end_reason(&node.said()), EndReason::Invalid);
        assert_eq!(node.proposed, []);
    }
    // A session that exists may have any number.
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, ToServer::Open(Open { session: 1 << 63, ..resume(9, 1) }));
    assert_eq!(node.proposed.len(), 1);
}

#[test]
fn whoever_breaks_the_rules_of_a_stream_is_hung_up_on() {
    let protocol = |stream, what: &str| close(stream, Closing::Protocol(what.to_owned()));
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, ToServer::KeepAlive { number: 1 });
    assert_eq!(node.said(), [protocol(1, "the first frame of a stream must be Open")]);
    node.opened(2, 9);
    node.hears(2, open(9));
    assert_eq!(node.said(), [protocol(2, "a stream carries one session, so it has only one Open")]);
    node.stream(3);
    node.hears(3, ToServer::Open(resume(9, 3)));
    node.hears(3, ToServer::KeepAlive { number: 1 });
    assert_eq!(node.said(), [protocol(3, "a client must wait for the answer to its Open")]);
    node.apply_all();
    assert_eq!(node.said(), []);
    let malformed = |part| Err(Malformed { part, what: "nonsense".to_owned() });
    let tell = |node: &mut Node, stream, part| {
        node.tell(|frontend, now_ms, state| frontend.hears(now_ms, state, StreamId(stream), malformed(part)));
    };
    node.stream(4);
    tell(&mut node, 4, Part::Open);
    assert_eq!(end_reason(&node.said()), EndReason::Invalid);
    // The frame does not concern a session, which may live on.
    node.stream(6);
    tell(&mut node, 6, Part::Unknown);
    assert_eq!(node.said(), [protocol(6, "nonsense")]);
    node.stream(5);
    node.hears(5, ToServer::Open(resume(9, 5)));
    node.apply();
    node.said();
    tell(&mut node, 5, Part::Request(3));
    assert_eq!(refusal(&node.said()), RefusalCode::Invalid);
    assert!(node.listens(5));
    tell(&mut node, 5, Part::Unknown);
    assert_eq!(node.said(), [protocol(5, "nonsense")]);
    // A frame on an unknown stream has no effect.
    node.hears(77, open(3));
    assert!(node.said().is_empty() && node.proposed.is_empty());
}

#[test]
fn an_open_for_another_cluster_is_refused_and_its_session_goes_on() {
    let mut node = Node::new();
    node.opened(1, 9);
    let other = ClusterId::new(CLUSTER.get() + 1);
    for (stream, open) in [(2, first(8)), (3, resume(9, 2))] {
        node.stream(stream);
        node.hears(stream, ToServer::Open(Open { cluster: other, ..open }));
        let refused = ToClient::OtherCluster { cluster: CLUSTER };
        assert_eq!(node.said(), [say(stream, refused), close(stream, Closing::OtherCluster)]);
    }
    assert_eq!(node.proposed, []);
    node.stream(4);
    node.hears(4, ToServer::Open(Open { cluster: Some(CLUSTER), ..resume(9, 2) }));
    node.apply();
    let opened = ToClient::Opened { session: 9, ttl_ms: TTL_MS, cluster: Some(CLUSTER), closed_ms: 0 };
    assert_eq!(node.said(), [close(1, Closing::Replaced), say(4, opened), Output::Listen(StreamId(4))]);
}
