//! Malformed words of a peer: what a node that breaks the rules can say. It must not end this node, nor raise its term beyond use.

use baton_runtime::timeout;

use super::cluster::{LONG, Seat, all, applied, fill_sessions, leader, simulated, stop, trio};
use super::*;
use crate::format::record::{self, Record};
use crate::format::snapshot::{self, SnapshotMeta};
use crate::raft::peers::link::{self, Link};
use crate::raft::peers::wire::{
    self, Answer, Append, Appended, Call, Candidacy, Installed, Purpose, Reply, Request, SnapshotFrame,
};

/// The id of a node that no member knows.
pub(super) const STRANGER: u64 = 99;

/// Opens a connection as the node `from`.
pub(super) async fn dial(node: &Node, seat: &Seat, from: u64, purpose: Purpose) -> Link {
    let ours = Hello { node: from, ..node.group.peers.hello(node.id(), purpose, false) };
    link::dial(&Simulated, &seat.address.to_string(), &ours).await.unwrap()
}

/// Opens a connection as another member, which lives.
async fn dial_as(other: &Node, seat: &Seat, to: u64) -> Link {
    let ours = other.group.peers.hello(to, Purpose::Calls, false);
    link::dial(&Simulated, &seat.address.to_string(), &ours).await.unwrap()
}

/// The answer; an error if the node closes the connection instead.
pub(super) async fn ask(link: &mut Link, request: Request<'_>) -> Result<Answer, LinkError> {
    link.writer.send(wire::encode(&Call { id: 7, request })).await?;
    let frame = timeout(LONG, link.reader.next()).await.expect("it answers, or closes the connection")?;
    Ok(wire::decode::<Reply>(&frame, "an answer")?.answer)
}

pub(super) async fn send_snapshot(
    link: &mut Link,
    vote: record::Vote,
    meta: SnapshotMeta,
) -> Result<Installed, LinkError> {
    let chunks: Vec<Vec<u8>> = snapshot::chunks(&State::default()).collect();
    let crc = chunks.iter().fold(0, |crc, bytes| crc32c::crc32c_append(crc, bytes));
    let end = wire::encode(&SnapshotFrame::End { chunks: chunks.len() as u64, crc });
    let part = |bytes: Vec<u8>| wire::encode(&SnapshotFrame::Part { bytes: &bytes, ends_chunk: true });
    let begin = wire::encode(&SnapshotFrame::Begin { vote, meta });
    for frame in [begin].into_iter().chain(chunks.into_iter().map(part)).chain([end]) {
        // A node that refuses the beginning answers and closes the connection, and then a write fails.
        if link.writer.send(frame).await.is_err() {
            break;
        }
    }
    let frame = timeout(LONG, link.reader.next()).await.expect("it answers, or closes the connection")?;
    wire::decode(&frame, "an answer to a snapshot")
}

fn vote(term: u64, node: u64, committed: bool) -> record::Vote {
    record::Vote { term, node, committed }
}

fn id(term: u64, index: u64) -> Option<record::LogId> {
    Some(record::LogId { term, index })
}

/// A node that is alone, leads, and listens.
async fn lone() -> (Seat, Node) {
    let seat = Seat::new("lone");
    let node = seat.open(Beginning::Alone).await;
    leads(&node).await;
    (seat, node)
}

/// The node still works: it leads, and applies an entry.
pub(super) async fn goes_on(node: &Node, session: u64) {
    timeout(LONG, async {
        leads(node).await;
        fill_sessions(&[node], session..session + 1).await;
    })
    .await
    .expect("the node leads, and applies an entry");
}

#[test]
fn a_snapshot_above_the_term_of_its_vote_is_refused_and_the_node_goes_on() {
    simulated(async || {
        let (seat, node) = lone().await;
        let mut link = dial(&node, &seat, STRANGER, Purpose::Snapshot).await;
        let meta = SnapshotMeta { last: id(900, 1000), ..SnapshotMeta::default() };
        let answer = send_snapshot(&mut link, vote(50, STRANGER, true), meta).await;
        assert!(!matches!(answer, Ok(Ok(_))), "{answer:?}");
        goes_on(&node, 1).await;
        stop([node]).await;
    });
}

#[test]
fn a_vote_with_the_highest_term_is_refused_and_not_saved() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..5).await;
        let leads = leader(&all(&nodes)).await;
        let (node, other) = (&nodes[leads], &nodes[(leads + 1) % 3]);
        let mut link = dial_as(other, &seats[leads], node.id()).await;
        let candidacy = Candidacy { vote: vote(u64::MAX, other.id(), false), last: id(50, 1000), is_transfer: true };
        let answer = ask(&mut link, Request::Vote(candidacy)).await;
        assert!(answer.is_err(), "{answer:?}");
        assert!(node.status().term < 1000, "{:?}", node.status());
        fill_sessions(&all(&nodes), 5..10).await;
        stop(nodes).await;
    });
}

#[test]
fn a_stranger_with_the_flag_of_a_transfer_does_not_depose_a_healthy_leader() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..5).await;
        let leads = leader(&all(&nodes)).await;
        let term = nodes[leads].status().term;
        for (node, seat) in nodes.iter().zip(&seats) {
            let mut link = dial(node, seat, STRANGER, Purpose::Calls).await;
            let candidacy =
                Candidacy { vote: vote(term + 1, STRANGER, false), last: id(term, 1000), is_transfer: true };
            let answer = ask(&mut link, Request::Vote(candidacy)).await.unwrap();
            let Answer::Voted { vote, granted, .. } = answer else { panic!("{answer:?}") };
            assert_eq!((vote.term, granted), (term, false));
        }
        fill_sessions(&all(&nodes), 5..10).await;
        assert_eq!((leader(&all(&nodes)).await, nodes[leads].status().term), (leads, term));
        stop(nodes).await;
    });
}

/// Two appends of a node that calls itself the leader of term 50. The node refuses the first one, because it lacks the entry
/// before it. With the second one it has fewer entries than the first one called committed.
#[test]
fn the_commit_index_of_a_refused_append_is_not_used_later() {
    simulated(async || {
        let seat = Seat::new("new");
        let node = seat.open(Beginning::Waits).await;
        let mut link = dial(&node, &seat, STRANGER, Purpose::Calls).await;
        let mut append = async |previous, commit, entry: record::LogId, payload: record::Payload| {
            let mut records = Vec::new();
            Record::Entry { id: entry, payload: &payload.encode() }.encode_to(&mut records);
            let vote = vote(50, STRANGER, true);
            let append =
                Append { vote, previous, commit, confirmed: None, answered: None, known: None, records: &records };
            ask(&mut link, Request::Append(append)).await.unwrap()
        };
        let entry = |term, index| record::LogId { term, index };
        let refused = append(id(40, 1000), id(40, 1001), entry(40, 1001), record::Payload::Blank).await;
        assert_eq!(refused, Answer::Appended(Appended::Conflict));
        let membership =
            record::Membership { configs: vec![[STRANGER].into()], nodes: [(STRANGER, NodeRecord::default())].into() };
        let accepted = append(None, None, entry(50, 0), record::Payload::Membership(membership)).await;
        assert_eq!(accepted, Answer::Appended(Appended::Success));
        node.raft.with_state_machine(|_| Box::pin(async {})).await.expect("the state machine goes on");
        assert_eq!(node.applied(), None);
        stop([node]).await;
    });
}

/// Node `a` has applied entries that the others lost: the folder of `b` was set back while `c` was away. The others go on and
/// replace these entries, so the state of `a` differs from theirs.
#[test]
fn a_node_ends_before_entries_that_it_has_applied_are_replaced() {
    simulated(async || {
        let (mut seats, mut nodes) = trio().await;
        let index = fill_sessions(&all(&nodes), 1..20).await;
        applied(&all(&nodes), index).await;
        let c = (leader(&all(&nodes)).await + 1) % 3;
        let (a, b) = ((c + 1) % 3, (c + 2) % 3);
        stop([nodes.remove(c)]).await;
        let early = seats[b].disk.copy();
        let index = fill_sessions(&all(&nodes), 20..60).await;
        applied(&all(&nodes), index).await;
        let stopped = (nodes[0].id(), nodes[1].id());
        stop(nodes).await;
        seats[b].disk = early;
        let others = [seats[b].open(Beginning::Waits).await, seats[c].open(Beginning::Waits).await];
        assert!(others.iter().any(|node| node.id() == stopped.0 || node.id() == stopped.1));
        fill_sessions(&[&others[0], &others[1]], 120..220).await;
        let fatal = seats[a].catches_fatal();
        let back = seats[a].open(Beginning::Waits).await;
        let sessions = back.state().counts().sessions;
        let why = told(&fatal).await;
        assert!(why.contains("was set back to an older copy"), "{why}");
        assert_eq!(back.state().counts().sessions, sessions, "nothing of the others was applied");
        stop(others.into_iter().chain([back])).await;
    });
}

/// A leader of term 9 has appended an entry at this node only. The next leader's log, and so its snapshot, goes on in term 5.
#[test]
fn a_snapshot_replaces_entries_of_a_later_term_that_were_never_committed() {
    simulated(async || {
        let seat = Seat::new("new");
        let node = seat.open(Beginning::Waits).await;
        let nodes = [(STRANGER, NodeRecord::default())].into();
        let membership = record::Membership { configs: vec![[STRANGER].into()], nodes };
        let mut records = Vec::new();
        let payload = record::Payload::Membership(membership.clone()).encode();
        Record::Entry { id: record::LogId { term: 9, index: 0 }, payload: &payload }.encode_to(&mut records);
        let (vote9, none) = (vote(9, STRANGER, true), None);
        let append = Append {
            vote: vote9,
            previous: none,
            commit: none,
            confirmed: None,
            answered: None,
            known: None,
            records: &records,
        };
        let mut link = dial(&node, &seat, STRANGER, Purpose::Calls).await;
        let answer = ask(&mut link, Request::Append(append)).await.unwrap();
        assert_eq!(answer, Answer::Appended(Appended::Success));

        let meta = SnapshotMeta { last: id(5, 100), membership, membership_at: id(5, 50) };
        let mut link = dial(&node, &seat, STRANGER, Purpose::Snapshot).await;
        let refused = send_snapshot(&mut link, vote9, meta.clone()).await.unwrap().unwrap_err();
        assert!(refused.contains("as the same leader it has sent entry 0 of term 9 before"), "{refused}");
        let mut link = dial(&node, &seat, STRANGER, Purpose::Snapshot).await;
        let installed = send_snapshot(&mut link, vote(10, STRANGER, true), meta).await.unwrap();
        assert_eq!(installed, Ok(vote(10, STRANGER, true)));
        assert_eq!(node.applied().map(record::LogId::from), id(5, 100));
        stop([node]).await;
    });
}
