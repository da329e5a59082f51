//! The rules of Raft that the simulator relies on.

use super::*;

/// Nodes and the messages between them. The test decides what arrives. Everything that is written is synced at once.
struct Group {
    nodes: Vec<Raft>,
    wire: Vec<(NodeId, NodeId, Message)>,
    rounds: Vec<(u64, bool)>,
    lost: Vec<(NodeId, u64)>,
    now: Micros,
}

impl Group {
    fn new(nodes: usize) -> Self {
        let nodes = (0..nodes).map(|id| Raft::new(id, nodes, id as u64)).collect();
        Group { nodes, wire: Vec::new(), rounds: Vec::new(), lost: Vec::new(), now: 0 }
    }

    /// Node 0 leads in term 1, and all nodes know it.
    fn led(nodes: usize) -> Self {
        let mut group = Group::new(nodes);
        group.campaign(0);
        group.deliver(|_, _| true);
        assert!(group.nodes[0].leads());
        group
    }

    fn step(&mut self, node: NodeId, step: impl FnOnce(&mut Raft, Micros)) {
        let raft = &mut self.nodes[node];
        step(raft, self.now);
        raft.flush(self.now);
        while let Some(output) = raft.poll() {
            match output {
                Output::Send { to, message } => self.wire.push((node, to, message)),
                Output::Sync(sync) => raft.synced(sync),
                Output::RoundDone { round, led } => self.rounds.push((round, led)),
                Output::Lost { term } => self.lost.push((node, term)),
            }
        }
    }

    fn campaign(&mut self, node: NodeId) {
        self.step(node, |raft, now| raft.campaign(now));
    }

    /// Delivers messages until there are none. Those that do not pass are lost.
    fn deliver(&mut self, passes: impl Fn(NodeId, NodeId) -> bool) {
        for _ in 0..10_000 {
            if self.wire.is_empty() {
                return;
            }
            let (from, to, message) = self.wire.remove(0);
            if passes(from, to) {
                self.step(to, |raft, now| raft.receive(now, from, message));
            }
        }
        panic!("the nodes talk for ever");
    }

    fn propose(&mut self, node: NodeId, command: u32) {
        let term = self.nodes[node].term();
        self.step(node, |raft, _| assert!(raft.propose(term, command)));
    }

    fn commands(&self, node: NodeId) -> Vec<u32> {
        self.nodes[node].committed().iter().filter_map(|entry| entry.command).collect()
    }

    /// Time passes, and the leader sends heartbeats.
    fn beat(&mut self, node: NodeId) {
        self.now += HEARTBEAT;
        self.step(node, |raft, now| raft.tick(now));
    }
}

#[test]
fn a_majority_elects_a_leader_and_commits() {
    let mut group = Group::led(3);
    group.propose(0, 7);
    group.deliver(|from, to| from != 2 && to != 2);
    group.beat(0);
    group.deliver(|from, to| from != 2 && to != 2);
    assert_eq!([0, 1, 2].map(|node| group.commands(node)), [vec![7], vec![7], vec![]]);
    // Node 2 gets what it lacks.
    group.beat(0);
    group.deliver(|_, _| true);
    group.beat(0);
    group.deliver(|_, _| true);
    assert_eq!(group.commands(2), [7]);
}

#[test]
fn a_node_votes_once_in_a_term_also_after_a_restart() {
    let mut group = Group::new(3);
    group.campaign(0);
    group.deliver(|_, to| to == 2);
    group.nodes[2].restart(0);
    group.campaign(1);
    group.deliver(|_, to| to != 0);
    assert!(!group.nodes[1].leads(), "node 2 voted for node 0 in term 1");
}

#[test]
fn a_node_whose_log_lacks_entries_is_not_elected() {
    let mut group = Group::led(3);
    group.propose(0, 7);
    group.deliver(|from, to| from != 2 && to != 2);
    group.campaign(2);
    group.deliver(|_, _| true);
    assert!(!group.nodes[2].leads());
    assert_eq!(group.lost, [(0, 1)]);
}

/// Figure 8 of the paper: an entry of an earlier term on a majority may still be removed.
#[test]
fn an_entry_of_an_earlier_term_is_committed_only_with_one_of_the_leaders_term() {
    let mut group = Group::led(5);
    group.propose(0, 7);
    group.wire.clear();
    // Node 0 leads again, in the next term. Its log: the first entry of term 1, the command, the first of term 2.
    group.campaign(0);
    let (term, length) = (group.nodes[0].term(), 2);
    for from in 1..3 {
        group.step(0, |raft, now| raft.receive(now, from, Message::Voted { term, granted: true }));
    }
    assert!(group.nodes[0].leads());
    let committed = group.nodes[0].committed().len();
    for from in 1..3 {
        let appended = Message::Appended { term, matched: Ok(length), sent_at: 0 };
        group.step(0, |raft, now| raft.receive(now, from, appended));
    }
    assert_eq!(group.nodes[0].committed().len(), committed, "a majority has entry 2, but it is of term 1");
    for from in 1..3 {
        let appended = Message::Appended { term, matched: Ok(length + 1), sent_at: 0 };
        group.step(0, |raft, now| raft.receive(now, from, appended));
    }
    assert_eq!(group.nodes[0].committed().len(), length + 1);
}

#[test]
fn a_follower_removes_what_an_earlier_leader_did_not_commit() {
    let mut group = Group::led(3);
    group.propose(0, 7);
    group.wire.clear();
    group.campaign(1);
    group.deliver(|from, to| from != 0 && to != 0);
    group.propose(1, 8);
    group.deliver(|_, _| true);
    group.beat(1);
    group.deliver(|_, _| true);
    group.beat(1);
    group.deliver(|_, _| true);
    assert_eq!([0, 1, 2].map(|node| group.commands(node)), [vec![8], vec![8], vec![8]]);
    assert_eq!(group.lost, [(0, 1)]);
}

#[test]
fn a_round_needs_a_majority_of_answers_to_what_was_sent_after_it_began() {
    let mut group = Group::led(3);
    group.beat(0);
    let early = std::mem::take(&mut group.wire);
    group.now += 1;
    group.step(0, |raft, now| raft.begin_round(now, 1));
    let late = std::mem::replace(&mut group.wire, early);
    while group.nodes[0].apply_next().is_some() {}
    group.deliver(|_, _| true);
    group.step(0, |raft, _| raft.end_rounds());
    assert_eq!(group.rounds, [], "these answers are to heartbeats that were sent before");
    group.wire = late;
    group.deliver(|from, to| from != 2 && to != 2);
    assert_eq!(group.rounds, [(1, true)]);
    // A node that leads no more.
    group.now += 1;
    group.step(0, |raft, now| raft.begin_round(now, 2));
    group.campaign(1);
    group.deliver(|from, _| from == 1);
    assert_eq!(group.rounds, [(1, true), (2, false)]);
}

#[test]
fn a_round_waits_until_the_first_entry_of_the_term_is_applied() {
    let mut group = Group::led(1);
    group.step(0, |raft, now| raft.begin_round(now, 1));
    assert_eq!(group.rounds, []);
    while group.nodes[0].apply_next().is_some() {}
    group.step(0, |raft, _| raft.end_rounds());
    assert_eq!(group.rounds, [(1, true)]);
}

/// The leader goes on in the same term when a majority answers again.
#[test]
fn a_leader_without_a_majority_says_that_it_does_not_lead() {
    let mut group = Group::led(3);
    let leads = Leadership::Leads { term: 1 };
    for _ in 0..4 {
        group.beat(0);
        group.wire.clear();
    }
    assert_eq!(group.nodes[0].leadership(group.now), leads);
    group.beat(0);
    assert_eq!(group.nodes[0].leadership(group.now), Leadership::DoesNotLead { term: 1, leader: None });
    // It sends nothing for a while, and then again.
    group.wire.clear();
    for _ in 0..PROBE / HEARTBEAT - 1 {
        group.beat(0);
        assert_eq!(group.wire, []);
    }
    group.beat(0);
    group.deliver(|from, to| from != 2 && to != 2);
    assert_eq!(group.nodes[0].leadership(group.now), leads);
}

#[test]
fn a_leader_hands_over() {
    let mut group = Group::led(3);
    group.step(0, |raft, _| assert!(raft.hand_over()));
    group.deliver(|_, _| true);
    let leaders: Vec<NodeId> = (0..3).filter(|node| group.nodes[*node].leads()).collect();
    assert!(matches!(leaders[..], [1 | 2]), "{leaders:?}");
}
