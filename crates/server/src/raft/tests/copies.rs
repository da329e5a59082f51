//! Two processes with one id: a data folder was copied.

use std::time::Duration;

use baton_runtime::{sleep, timeout};

use super::cluster::{LONG, Seat, agree, all, cut_off, fill_sessions, heal, leader, seats, simulated, stop};
use super::forming::{formed, list, until, waiting};
use super::*;
use crate::format::record;
use crate::raft::peers::{Answer, Append, Candidacy, LinkError, Request};

/// A follower of three that never wants to lead, and the id of a stopped member. All others are stopped, too.
async fn follower() -> (Vec<Seat>, Node, u64) {
    let patient = Duration::from_secs(3600);
    let mut seats = seats(3);
    for seat in &mut seats[1..] {
        seat.timing = Timing { election_min: patient, election_max: patient * 2, ..seat.timing };
    }
    let mut nodes = formed(&seats).await;
    fill_sessions(&all(&nodes), 1..5).await;
    agree(&all(&nodes), 4).await;
    let (follower, other) = (nodes.remove(1), nodes[1].id());
    stop(nodes).await;
    (seats, follower, other)
}

/// What a process with this id, and this number of its start, hears from a node.
async fn ask(seat: &Seat, node: &Node, (id, start): (u64, u64), request: Request<'_>) -> Answer {
    let peers = another_start(Identity { cluster: node.cluster(), node: id }, start);
    let peer = peers.get(node.id(), &seat.record());
    let answered = timeout(LONG, async {
        loop {
            match peer.call(request.clone(), LONG).await {
                // Another start of this id was heard of a moment ago.
                Err(LinkError::RefusedByPeer(_)) => sleep(Duration::from_millis(20)).await,
                answered => return answered.unwrap(),
            }
        }
    });
    let answered = answered.await.unwrap();
    peers.clear();
    answered
}

fn vote(term: u64, node: u64) -> Request<'static> {
    let (vote, last) = (record::Vote { term, node, committed: false }, record::LogId { term: term - 1, index: 1000 });
    Request::Vote(Candidacy { vote, last: Some(last), is_transfer: true })
}

fn granted(answer: &Answer) -> bool {
    matches!(answer, Answer::Voted { granted: true, .. })
}

#[test]
fn a_vote_of_a_term_goes_to_one_start_of_a_node_even_after_a_restart_of_the_voter() {
    simulated(async || {
        let (seats, mut voter, candidate) = follower().await;
        // (start, term, whether the voter is restarted before, whether it votes). A restarted process asks in a new term.
        let asks = [
            (1, 50, false, true),
            (2, 50, false, false),
            (2, 50, true, false),
            (1, 50, true, true),
            (2, 50, true, false),
            (2, 51, false, true),
            (1, 51, true, false),
        ];
        for (start, term, is_restarted, votes) in asks {
            if is_restarted {
                stop([voter]).await;
                voter = seats[1].open(Beginning::Waits).await;
            }
            let answer = ask(&seats[1], &voter, (candidate, start), vote(term, candidate)).await;
            assert_eq!(granted(&answer), votes, "start {start} in term {term}: {answer:?}");
        }
        stop([voter]).await;
    });
}

/// The term in which a node leads, as it believes.
fn leads_in(node: &Node) -> Option<u64> {
    let metrics = node.group.metrics();
    (metrics.state == openraft::ServerState::Leader).then_some(metrics.current_term)
}

/// The data folder of a node, copied while the node runs, with another seat.
fn copy_of(original: &Seat, seat: Seat) -> Seat {
    Seat { name: original.name.clone(), disk: original.disk.copy(), advertises: false, ..seat }
}

async fn ends(copy: &Node) -> String {
    timeout(LONG, copy.copied()).await.expect("the copy ends")
}

fn goes_on(node: &Node) -> bool {
    node.copied.borrow().is_none()
}

#[test]
fn an_append_of_a_second_start_in_a_term_is_refused() {
    simulated(async || {
        let (seats, follower, leader) = follower().await;
        let vote = record::Vote { term: 50, node: leader, committed: true };
        let append =
            Append { vote, previous: None, commit: None, confirmed: None, answered: None, known: None, records: &[] };
        let lead = async |start| ask(&seats[1], &follower, (leader, start), Request::Append(append)).await;
        assert!(matches!(lead(1).await, Answer::Appended(_)));
        let Answer::Failed(refused) = lead(2).await else { panic!("two processes lead in term 50") };
        let expected =
            format!("another process with its id, node {leader}, asked for votes or led in term 50; one of the");
        assert!(refused.starts_with(&expected), "{refused}");
        // Nor does it vote for the second in that term.
        assert!(matches!(ask(&seats[1], &follower, (leader, 2), self::vote(50, leader)).await, Answer::Failed(_)));
        stop([follower]).await;
    });
}

#[test]
fn a_copy_that_was_elected_while_the_leader_was_cut_off_ends_when_they_meet() {
    simulated(async || {
        let seats = seats(3);
        let mut nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let leads = leader(&all(&nodes)).await;
        let gone = (leads + 1) % 3;
        let lead = nodes[leads].id();
        cut_off(&seats, leads);
        // The copy runs in the place of another member.
        stop([nodes.remove(gone)]).await;
        let place = Seat { address: seats[gone].address, host: seats[gone].host, ..Seat::new("copy") };
        let copy = copy_of(&seats[leads], place).open(Beginning::Waits).await;
        until("the copy leads", async || leads_in(&copy).is_some()).await;
        heal();
        let original = nodes.iter().find(|node| node.id() == lead).unwrap();
        let sentence = async {
            let mut ends = Box::pin(ends(&copy));
            loop {
                if let Ok(sentence) = timeout(Duration::from_millis(1), &mut ends).await {
                    return sentence;
                }
                let (one, other) = (leads_in(original), leads_in(&copy));
                assert!(one.is_none() || one != other, "two leaders in term {one:?}");
            }
        };
        let sentence = sentence.await;
        assert!(sentence.contains(&format!("({lead}) answers at")) || sentence.contains("refuses"), "{sentence}");
        stop([copy]).await;
        fill_sessions(&all(&nodes), 20..40).await;
        agree(&all(&nodes), 39).await;
        assert!(nodes.iter().all(goes_on));
        stop(nodes).await;
    });
}

#[test]
fn a_copy_elsewhere_finds_the_original_at_its_recorded_address_and_ends() {
    simulated(async || {
        let seats = seats(3);
        let nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let copy = copy_of(&seats[1], Seat::new("copy")).open(Beginning::Waits).await;
        let (sentence, id) = (ends(&copy).await, nodes[1].id());
        let expected = format!(
            "another process with the id of this node ({id}) answers at {}, the address of this node in the cluster: the data folder \
         of one is a copy",
            seats[1].address
        );
        assert!(sentence.starts_with(&expected), "{sentence}");
        stop([copy]).await;
        fill_sessions(&all(&nodes), 1..10).await;
        agree(&all(&nodes), 9).await;
        assert!(nodes.iter().all(goes_on));
        stop(nodes).await;
    });
}

#[test]
fn a_copy_that_does_not_reach_the_original_is_refused_by_the_others_and_ends() {
    simulated(async || {
        let seats = seats(3);
        let nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let routes = [(seats[1].address.to_string(), "127.0.0.1:1".to_owned())].into();
        // Even if it says that it has moved.
        let seat = Seat { routes, ..copy_of(&seats[1], Seat::new("copy")) };
        let copy = Seat { advertises: true, ..seat }.open(Beginning::Waits).await;
        let (sentence, id) = (ends(&copy).await, nodes[1].id());
        let expected = format!(
            "another member refuses this process, and says about it: another process with its id, node {id}, answers at {}, the \
         address of that node in the cluster",
            seats[1].address
        );
        assert!(sentence.starts_with(&expected), "{sentence}");
        stop([copy]).await;
        let known = |node: &Node| node.group.metrics().membership_config.get_node(&id).cloned();
        assert!(nodes.iter().all(|node| known(node) == Some(seats[1].record())), "its record is as it was");
        fill_sessions(&all(&nodes), 1..10).await;
        agree(&all(&nodes), 9).await;
        assert!(nodes.iter().all(goes_on));
        stop(nodes).await;
    });
}

#[test]
fn empty_folders_that_were_copied_form_no_cluster() {
    simulated(async || {
        let mut seats = seats(2);
        stop([seats[0].open(Beginning::Waits).await]).await;
        seats[1].disk = seats[0].disk.copy();
        let nodes = waiting(&seats).await;
        let id = nodes[0].id();
        let formed = timeout(LONG, nodes[0].form(list(&seats))).await.unwrap().unwrap_err().to_string();
        let expected = format!("has the id of this node ({id}), so one of the two data folders is a copy of the other");
        assert!(formed.contains(&expected), "{formed}");
        let joined = timeout(LONG, nodes[1].join(seats[0].address.to_string())).await.unwrap().unwrap_err().to_string();
        assert!(joined.contains("so the data folder of this node is a copy"), "{joined}");
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_is_started_again_is_no_copy() {
    simulated(async || {
        let seats = seats(3);
        let mut nodes = formed(&seats).await;
        for round in 0..3 {
            stop([nodes.remove(0)]).await;
            nodes.push(seats[round % 3].open(Beginning::Waits).await);
            agree(&all(&nodes), 0).await;
        }
        assert!(nodes.iter().all(goes_on));
        stop(nodes).await;
    });
}
