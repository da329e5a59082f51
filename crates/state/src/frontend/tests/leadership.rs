//! What begins and ends with a term.

use super::*;

#[test]
fn a_node_leads_when_its_own_lead_is_applied() {
    let mut node = Node::follower(ServerLimits::default());
    node.stream(1);
    node.hears(1, open(9));
    assert_eq!(node.said(), [close(1, Closing::NotLeading)]);
    node.tell(|frontend, _, _| frontend.elected(3));
    assert_eq!(node.proposed, [(3, sessions::Command::Lead { term: 3 }.into())]);
    // The node refuses before its own Lead is applied. The Lead of an earlier term does not count.
    node.stream(2);
    node.hears(2, open(9));
    assert_eq!(node.said(), [close(2, Closing::NotLeading)]);
    node.apply_entry(2, &sessions::Command::Lead { term: 2 }.into());
    assert!(!node.frontend.leads());
    node.apply();
    assert!(node.frontend.leads());
    node.said();
    // An older election changes nothing.
    node.tell(|frontend, _, _| frontend.elected(2));
    assert!(node.frontend.leads() && node.proposed.is_empty() && node.said().is_empty());
}

/// All at once: streams, leases, rounds, calls.
#[test]
fn nothing_outlives_a_term() {
    for why in [Closing::TermEnded, Closing::NotLeading, Closing::Stopping] {
        let mut node = Node::new();
        node.opened(1, 8);
        node.stream(2);
        node.hears(2, open(9));
        node.acquire(1, 1, "a");
        node.hears(1, ToServer::KeepAlive { number: 1 });
        let Some(Output::BeginRound(round)) = node.said().pop() else { panic!("no round") };
        node.tell(|frontend, now_ms, _| frontend.look(now_ms, CallId(5)));
        node.tell(|frontend, _, _| frontend.force(CallId(6), b"a"[..].into(), false, Caller::default()));
        node.said();
        node.tell(|frontend, _, _| match why {
            Closing::TermEnded => frontend.elected(2),
            Closing::NotLeading => frontend.deposed(),
            _ => frontend.stop(),
        });
        let said = node.said();
        let unavailable = |call, why: String| Output::Reply { call: CallId(call), reply: Reply::Unavailable(why) };
        let not_known = Reply::Unknown(format!("{why}; it is not known whether the release was forced"));
        let expected = [
            Output::Note(Note::LeadsNoMore { term: 1 }),
            close(1, why.clone()),
            close(2, why.clone()),
            unavailable(5, why.to_string()),
            Output::Reply { call: CallId(6), reply: not_known },
        ];
        assert_eq!(said, expected);
        assert_eq!(node.frontend.next_wake(), None);
        // A call or a stream that comes now gets the same reason.
        let why = if why == Closing::Stopping { why } else { Closing::NotLeading };
        node.tell(|frontend, now_ms, _| frontend.look(now_ms, CallId(7)));
        node.tell(|frontend, _, _| frontend.force(CallId(8), b"a"[..].into(), false, Caller::default()));
        node.stream(3);
        node.hears(3, open(7));
        let expected = [unavailable(7, why.to_string()), unavailable(8, why.to_string()), close(3, why)];
        assert_eq!(node.said(), expected);
        // The earlier proposals are applied, and no client gets an answer.
        while node.proposed.front().is_some_and(|(term, _)| *term == 1) {
            node.apply();
        }
        node.tell(|frontend, now_ms, _| frontend.round_done(now_ms, round, true));
        assert_eq!(node.said(), []);
    }
}

#[test]
fn a_server_that_stops_leads_no_more() {
    let mut node = Node::new();
    node.tell(|frontend, _, _| frontend.stop());
    node.said();
    node.tell(|frontend, _, _| frontend.elected(2));
    node.tell(|frontend, _, _| frontend.deposed());
    node.tell(|frontend, _, _| frontend.elected(3));
    assert_eq!(node.proposed, []);
    node.stream(1);
    node.hears(1, open(9));
    assert_eq!(node.said(), [close(1, Closing::Stopping)]);
}

/// A Lead counts if it names the term of this node and was also written in that term.
#[test]
fn a_lead_of_one_term_in_an_entry_of_another_does_not_count() {
    let mut node = Node::follower(ServerLimits::default());
    node.tell(|frontend, _, _| frontend.elected(3));
    node.apply_entry(2, &sessions::Command::Lead { term: 3 }.into());
    node.apply_entry(3, &sessions::Command::Lead { term: 4 }.into());
    assert!(!node.frontend.leads());
}

/// The shell sees only the latest state, so it may miss that the node lost its majority for a moment.
#[test]
fn a_node_that_is_told_again_that_it_leads_begins_anew() {
    let leads = |term| move |frontend: &mut Frontend, _, _: &State| frontend.told(Leadership::Leads { term });
    let mut node = Node::follower(ServerLimits::default());
    node.tell(leads(3));
    node.apply();
    node.said();
    node.opened(1, 9);
    node.tell(leads(3));
    assert_eq!(node.said(), [Output::Note(Note::LeadsNoMore { term: 3 }), close(1, Closing::NotLeading)]);
    assert!(!node.frontend.leads());
    assert_eq!(node.proposed, [(3, sessions::Command::Lead { term: 3 }.into())]);
    node.tell(leads(3));
    node.apply();
    assert!(!node.frontend.leads(), "another Lead is in the log");
    node.apply();
    assert!(node.frontend.leads());
    node.tell(|frontend, _, _| frontend.told(Leadership::DoesNotLead { leader: Some(2) }));
    assert!(!node.frontend.leads());
}

/// A leader without a majority is deposed, and elected again in the same term when the majority answers. Its proposals are
/// not lost meanwhile, and an older `Lead` may be applied before them.
#[test]
fn an_older_lead_of_the_same_term_does_not_count() {
    let mut node = Node::follower(ServerLimits::default());
    let again = |frontend: &mut Frontend, _, _: &State| {
        frontend.deposed();
        frontend.elected(3);
    };
    node.tell(|frontend, _, _| frontend.elected(3));
    node.tell(again);
    assert_eq!(node.proposed.len(), 2);
    node.apply();
    assert!(!node.frontend.leads(), "a second Lead is under way");
    node.apply();
    assert!(node.frontend.leads());
    node.stream(1);
    node.hears(1, open(9));
    node.tell(again);
    node.tell(again);
    node.said();
    // The Open of the stream that has ended, and the first of two Leads.
    node.apply();
    node.apply();
    assert!(!node.frontend.leads() && node.said().is_empty());
    node.apply();
    assert!(node.frontend.leads() && node.proposed.is_empty());
}

/// Otherwise the node would wait for the lost `Lead` for ever.
#[test]
fn a_lost_lead_is_not_waited_for() {
    let mut node = Node::follower(ServerLimits::default());
    node.tell(|frontend, _, _| frontend.elected(3));
    node.proposed.clear();
    node.tell(|frontend, _, _| frontend.deposed());
    node.tell(|frontend, now_ms, _| frontend.lost(now_ms, 3, true));
    node.tell(|frontend, _, _| frontend.elected(3));
    node.apply();
    assert!(node.frontend.leads());
}

/// The log refuses proposals for a moment, for example because its lease is over. The term goes on, and so do the `Lead`s
/// that are in the log already.
#[test]
fn a_refused_proposal_does_not_hide_an_older_lead() {
    for refused_lead in [true, false] {
        let mut node = Node::follower(ServerLimits::default());
        node.tell(|frontend, _, _| frontend.elected(3));
        node.tell(|frontend, _, _| frontend.deposed());
        node.tell(|frontend, _, _| frontend.elected(3));
        if refused_lead {
            node.proposed.pop_back();
        }
        node.tell(|frontend, now_ms, _| frontend.lost(now_ms, 3, refused_lead));
        node.after(LEAD_AGAIN_MS);
        let leads = node.proposed.len();
        assert_eq!(leads, if refused_lead { 2 } else { 3 });
        for _ in 1..leads {
            node.apply();
            assert!(!node.frontend.leads(), "another Lead is in the log");
        }
        node.apply();
        assert!(node.frontend.leads());
    }
}

/// This node applies entries of the next leader before it learns that it was deposed.
#[test]
fn an_entry_of_a_later_term_answers_nothing_that_was_proposed_before() {
    let mut node = Node::new();
    node.stream(1);
    node.hears(1, open(9));
    let (_, same) = node.proposed.pop_front().unwrap();
    node.apply_entry(2, &same);
    let said = node.said();
    assert!(!said.iter().any(|output| matches!(output, Output::Say { .. })), "{said:?}");
    assert_eq!(node.frontend.leases().sessions(), 0);
}

/// Otherwise an answer would go to a stream or a call that asked for something else.
#[test]
fn a_shell_that_changes_the_order_of_the_proposals_is_found_out() {
    let force = |node: &mut Node, call, lock: &[u8]| {
        let lock = lock.into();
        node.tell(|frontend, _, _| frontend.force(CallId(call), lock, false, Caller::default()));
    };
    for both_force in [true, false] {
        let mut node = Node::new();
        if both_force {
            force(&mut node, 4, b"b");
        } else {
            node.stream(1);
            node.hears(1, open(9));
        }
        force(&mut node, 5, b"a");
        node.proposed.swap(0, 1);
        node.apply();
        let said = node.said();
        assert_eq!(said[0], Output::Note(Note::OutOfOrder { term: 1 }));
        let is_answer = |output: &Output| match output {
            Output::Say { .. } => true,
            Output::Reply { reply, .. } => !matches!(reply, Reply::Unknown(_)),
            _ => false,
        };
        assert!(!said.iter().any(is_answer), "{said:?}");
        // The node begins anew, with another Lead after everything that it has proposed.
        node.apply();
        assert!(!node.frontend.leads());
        node.after(LEAD_AGAIN_MS);
        node.apply();
        assert!(node.frontend.leads());
    }
}

/// All leases start again, with their full TTL.
#[test]
fn a_new_leader_takes_up_what_the_state_has() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.after(TTL_MS - 10);
    node.tell(|frontend, _, _| frontend.elected(2));
    node.apply();
    assert_eq!(node.said().pop(), Some(Output::Note(Note::Leads { term: 2, sessions: 1 })));
    node.after(TTL_MS);
    assert_eq!(node.proposed, []);
    node.after(1);
    let expire = sessions::Command::Expire { session: SessionId(9), term: 2 };
    assert_eq!(node.proposed, [(2, expire.into())]);
}

/// The node does not know which earlier proposals are applied. Those that are come before the new Lead.
#[test]
fn after_a_proposal_was_lost_the_node_leads_anew_in_its_term() {
    let mut node = Node::new();
    node.opened(1, 8);
    let (a, b) = (acquire("a"), acquire("b"));
    node.request(1, 1, a.clone());
    node.request(1, 2, b.clone());
    let (_, kept) = node.proposed.pop_front().unwrap();
    node.proposed.clear();
    // A loss in another term changes nothing.
    node.tell(|frontend, now_ms, _| frontend.lost(now_ms, 7, false));
    assert!(node.frontend.leads());
    node.tell(|frontend, now_ms, _| frontend.lost(now_ms, 1, false));
    assert_eq!(node.said(), [Output::Note(Note::LeadsNoMore { term: 1 }), close(1, Closing::TermEnded)]);
    node.apply_entry(1, &kept);
    assert_eq!(node.said(), []);
    assert_eq!(node.frontend.next_wake(), Some(node.now_ms + LEAD_AGAIN_MS));
    node.after(LEAD_AGAIN_MS - 1);
    assert_eq!(node.proposed, []);
    node.after(1);
    assert_eq!(node.proposed.len(), 1);
    // Another loss leads to another Lead. Both are applied in the end, and only the last one counts.
    node.tell(|frontend, now_ms, _| frontend.lost(now_ms, 1, false));
    node.after(LEAD_AGAIN_MS);
    assert_eq!(node.proposed.len(), 2);
    node.apply();
    assert!(!node.frontend.leads());
    node.apply();
    assert!(node.frontend.leads());
    node.said();
    node.stream(2);
    node.hears(2, ToServer::Open(resume(8, 2)));
    node.apply();
    assert!(node.listens(2));
    node.said();
    node.request(2, 1, a);
    node.request(2, 2, b);
    node.apply_all();
    let said = node.said();
    assert_eq!(said, [answer(2, 1, Answer::Granted { fence: 1 }), answer(2, 2, Answer::Granted { fence: 2 })]);
}

/// The other leader may have ended sessions. This node must not acknowledge their keep-alives after it leads again.
#[test]
fn an_entry_of_a_later_term_deposes() {
    for leads in [true, false] {
        let mut node = Node::new();
        if !leads {
            node.tell(|frontend, _, _| frontend.elected(2));
            node.said();
        }
        let open = words::open(first(8), Caller::default()).unwrap();
        node.apply_entry(3, &sessions::Command::Open(open).into());
        let said = if leads { vec![Output::Note(Note::LeadsNoMore { term: 1 })] } else { vec![] };
        assert_eq!(node.said(), said);
        node.proposed.clear();
        // A late Lead of this node changes nothing.
        node.apply_entry(2, &sessions::Command::Lead { term: 2 }.into());
        assert!(!node.frontend.leads());
    }
}

/// The follower applies entries of other leaders.
#[test]
fn a_follower_says_nothing() {
    let mut node = Node::follower(ServerLimits::default());
    let open = words::open(first(9), Caller::default()).unwrap();
    node.apply_entry(1, &sessions::Command::Open(open).into());
    node.tell(|frontend, _, _| frontend.elected(2));
    let late = words::open(first(8), Caller::default()).unwrap();
    node.apply_entry(1, &sessions::Command::Open(late).into());
    assert_eq!(node.said(), []);
    node.apply();
    assert_eq!(node.said(), [Output::Note(Note::Leads { term: 2, sessions: 2 })]);
}
