//! Checks the words of a peer before Raft sees them. Everything here is pure.
//!
//! openraft trusts its peers: it ends the node, or saves a vote that stops the cluster for good, if a peer says what no
//! correct node says. So each rule below keeps one of its assumptions. `own` is always the last vote of this node.

use crate::format::record::{LogId, Vote};
use crate::format::snapshot::SnapshotMeta;
use crate::raft::peers::wire::{Candidacy, Transfer};

/// A peer's term may be this much above our own. It is saved, and all further terms are above it, so the numbers must not run
/// out. Even with an election each millisecond, a node that was away for 49 days is within.
const TERM_AHEAD_MAX: u64 = 1 << 32;

/// All terms and indices are below this, so adding to them never overflows.
const NUMBER_END: u64 = 1 << 63;

/// Why the words of a peer do not reach Raft. The subject is the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("it sent {words} with the vote of node {node}, but it is node {from}")]
    OtherNode { words: &'static str, node: u64, from: u64 },
    #[error("it sent {words} with a vote that no majority has granted; only an elected leader sends that")]
    NotElected { words: &'static str },
    #[error("it sent {words} with a vote that a majority has granted; only a node that is not elected yet sends that")]
    Elected { words: &'static str },
    #[error(
        "it sent {words} of term {term}, but this node knows of term {own} at most, and a term may be {TERM_AHEAD_MAX} above \
         that; its data folder is damaged, or it is no node of this cluster"
    )]
    TermTooHigh { words: &'static str, term: u64, own: u64 },
    #[error("it sent {words} with the number {number}; terms and indices are below {NUMBER_END}")]
    NumberTooHigh { words: &'static str, number: u64 },
    #[error("it sent {words} of term {term} with entry {} of term {}; no entry there can have that term", id.index, id.term)]
    LaterTerm { words: &'static str, term: u64, id: LogId },
    #[error("it sent entry {} of term {} after entry {} of term {}; terms never fall", id.index, id.term, before.index, before.term)]
    TermFalls { id: LogId, before: LogId },
    #[error("it sent entry {index} where entry {expected} is expected")]
    Gap { index: u64, expected: u64 },
    #[error(
        "it says that entry {} of term {} is committed, but it sent entry {} of term {}", commit.index, commit.term,
        id.index, id.term
    )]
    OtherCommitted { commit: LogId, id: LogId },
    #[error("it sent entry {index} with a membership without voters")]
    NoVoters { index: u64 },
    #[error("it sent a snapshot of nothing")]
    EmptySnapshot,
    #[error("it sent a snapshot up to entry {last}, with the members as of another entry after it")]
    LaterMembers { last: u64 },
    #[error(
        "it leads in term {term}, but this node follows another leader of that term; a term has one leader, so the data folder of a \
             voter was set back to an older copy"
    )]
    TwoLeaders { term: u64 },
    #[error("it asks for an election, but it is not the leader that this node follows")]
    NotLeader,
    #[error("it asks for an election, but this node has no vote in the cluster")]
    NoVote,
    #[error("it answered {words} with a vote for node {} in term {}, which does not fit to the request of term {asked}", vote.node, vote.term)]
    OutOfPlace { words: &'static str, vote: Vote, asked: u64 },
}

/// True if Raft accepts a message with this vote: only then it matters what the message says. The same as openraft's order
/// of votes.
pub fn is_acceptable(vote: Vote, own: Vote) -> bool {
    match vote.term == own.term {
        false => vote.term > own.term,
        true if vote.node == own.node => vote.committed >= own.committed,
        true => vote.committed && !own.committed,
    }
}

/// Checks the vote of any request.
pub fn vote(from: u64, own: Vote, vote: Vote) -> Result<(), Unfit> {
    sender("a request", from, own, vote)
}

/// Checks an append. Returns what of it is known to be committed: openraft would apply beyond the entries that it has if the
/// term of `commit` were wrong, so this is an entry of the append itself, or one before it.
pub fn append(
    from: u64,
    own: Vote,
    vote: Vote,
    (previous, commit): (Option<LogId>, Option<LogId>),
    entries: impl Iterator<Item = LogId>,
) -> Result<Option<LogId>, Unfit> {
    let words = "an append";
    leader(words, from, own, vote)?;
    let mut last = previous;
    let fits = |id: LogId, commit: Option<LogId>| match commit {
        Some(commit) if commit.index == id.index && commit != id => Err(Unfit::OtherCommitted { commit, id }),
        _ => Ok(()),
    };
    if let Some(previous) = previous {
        entry(words, vote.term, previous)?;
        fits(previous, commit)?;
    }
    for id in entries {
        entry(words, vote.term, id)?;
        fits(id, commit)?;
        let expected = last.map_or(0, |last| last.index + 1);
        if id.index != expected {
            return Err(Unfit::Gap { index: id.index, expected });
        }
        if let Some(before) = last.filter(|before| before.term > id.term) {
            return Err(Unfit::TermFalls { id, before });
        }
        last = Some(id);
    }
    let Some(commit) = commit else { return Ok(None) };
    entry(words, vote.term, commit)?;
    // Both are entries of one log: the later one has no lower term.
    let in_order = |commit: LogId, id: LogId| match commit.index < id.index {
        true => commit.term <= id.term,
        false => commit.term >= id.term,
    };
    match [previous, last].into_iter().flatten().find(|id| !in_order(commit, *id)) {
        Some(id) => Err(Unfit::OtherCommitted { commit, id }),
        None => Ok(last.map(|last| if commit.index < last.index { commit } else { last })),
    }
}

/// Checks the beginning of a snapshot.
pub fn snapshot(from: u64, own: Vote, vote: Vote, meta: &SnapshotMeta) -> Result<(), Unfit> {
    let words = "a snapshot";
    leader(words, from, own, vote)?;
    let last = meta.last.ok_or(Unfit::EmptySnapshot)?;
    entry(words, vote.term, last)?;
    if meta.membership_at.is_some_and(|at| at.index > last.index || at.term > last.term) {
        return Err(Unfit::LaterMembers { last: last.index });
    }
    match meta.membership.configs.is_empty() {
        true => Err(Unfit::NoVoters { index: last.index }),
        false => Ok(()),
    }
}

/// Checks a request for a vote, or for whether this node would vote.
pub fn candidacy(from: u64, own: Vote, Candidacy { vote, last, .. }: &Candidacy) -> Result<(), Unfit> {
    let words = "a candidacy";
    sender(words, from, own, *vote)?;
    if vote.committed {
        return Err(Unfit::Elected { words });
    }
    match *last {
        // A candidate begins a term above that of its last entry.
        Some(id) if id.term >= vote.term => Err(Unfit::LaterTerm { words, term: vote.term, id }),
        Some(id) => number(words, id.index),
        None => Ok(()),
    }
}

/// Checks that the leader itself asks for an election. `votes`: this node has a vote.
pub fn transfer(from: u64, own: Vote, me: (u64, bool), transfer: &Transfer) -> Result<(), Unfit> {
    let words = "a transfer";
    leader(words, from, own, transfer.from)?;
    if transfer.from != own {
        return Err(Unfit::NotLeader);
    }
    if let Some(last) = transfer.last {
        entry(words, transfer.from.term, last)?;
    }
    let (me, votes) = me;
    match transfer.to == me && !votes {
        true => Err(Unfit::NoVote),
        false => Ok(()),
    }
}

/// A question of this node, whose answer has a vote.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub me: u64,
    pub peer: u64,
    /// The vote in the question.
    pub vote: Vote,
}

impl Asked {
    /// Checks the answer to a candidacy. Returns the vote for Raft. `is_binding`: it was no pre-vote.
    pub fn voted(self, vote: Vote, last: Option<LogId>, granted: bool, is_binding: bool) -> Result<Vote, Unfit> {
        let words = "a candidacy";
        self.term(words, vote)?;
        if let Some(last) = last {
            entry(words, vote.term, last)?;
        }
        match granted {
            true if is_binding && vote != self.vote => Err(self.out_of_place(words, vote)),
            // A node that would vote has not voted yet.
            true if !is_acceptable(self.vote, vote) => Err(self.out_of_place(words, vote)),
            true => Ok(vote),
            false => Ok(self.not_mine(vote)),
        }
    }

    /// Checks the vote of a node that refuses an append.
    pub fn higher(self, vote: Vote) -> Result<Vote, Unfit> {
        let words = "an append";
        self.term(words, vote)?;
        // A vote that was granted is above all others of its term.
        match vote.term > self.vote.term {
            true => Ok(self.not_mine(vote)),
            false => Err(self.out_of_place(words, vote)),
        }
    }

    /// Checks the answer to a snapshot. The node has installed it if the vote is that of the request.
    pub fn installed(self, vote: Vote) -> Result<Vote, Unfit> {
        let words = "a snapshot";
        self.term(words, vote)?;
        match vote == self.vote || vote.term > self.vote.term {
            true => Ok(self.not_mine(vote)),
            false => Err(self.out_of_place(words, vote)),
        }
    }

    fn term(self, words: &'static str, vote: Vote) -> Result<(), Unfit> {
        term(words, vote.term, self.vote.term)
    }

    fn out_of_place(self, words: &'static str, vote: Vote) -> Unfit {
        Unfit::OutOfPlace { words, vote, asked: self.vote.term }
    }

    /// The vote for Raft. The other node may have voted for this node in a later term that this process does not know, because
    /// the folder of this node was set back. With that vote openraft would lead, or be a candidate, in a term for which this
    /// process never asked. So Raft gets the later term as a vote for the other node. Nobody is elected by it: the other node
    /// has given its own vote of that term away.
    fn not_mine(self, vote: Vote) -> Vote {
        match vote.node == self.me && vote.term > self.vote.term {
            true => Vote { node: self.peer, committed: false, ..vote },
            false => vote,
        }
    }
}

/// Words of an elected leader.
fn leader(words: &'static str, from: u64, own: Vote, vote: Vote) -> Result<(), Unfit> {
    sender(words, from, own, vote)?;
    match vote.committed {
        false => Err(Unfit::NotElected { words }),
        true => one_leader(own, vote),
    }
}

/// Two elected leaders of one term: the folder of a voter was set back, so that it has voted twice.
pub fn one_leader(own: Vote, vote: Vote) -> Result<(), Unfit> {
    match vote.committed && own.committed && own.term == vote.term && own.node != vote.node {
        true => Err(Unfit::TwoLeaders { term: own.term }),
        false => Ok(()),
    }
}

/// The vote is that of the sender, and its term is not too high.
fn sender(words: &'static str, from: u64, own: Vote, vote: Vote) -> Result<(), Unfit> {
    if vote.node != from {
        return Err(Unfit::OtherNode { words, node: vote.node, from });
    }
    term(words, vote.term, own.term)
}

fn term(words: &'static str, term: u64, own: u64) -> Result<(), Unfit> {
    match term > own.saturating_add(TERM_AHEAD_MAX) {
        true => Err(Unfit::TermTooHigh { words, term, own }),
        false => number(words, term),
    }
}

/// An entry of a log whose node is in term `term`, or has been.
fn entry(words: &'static str, term: u64, id: LogId) -> Result<(), Unfit> {
    number(words, id.index)?;
    match id.term > term {
        true => Err(Unfit::LaterTerm { words, term, id }),
        false => Ok(()),
    }
}

fn number(words: &'static str, number: u64) -> Result<(), Unfit> {
    match number >= NUMBER_END {
        true => Err(Unfit::NumberTooHigh { words, number }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Membership;

    const ME: u64 = 1;

    fn id(term: u64, index: u64) -> LogId {
        LogId { term, index }
    }

    fn vote(term: u64, node: u64, committed: bool) -> Vote {
        Vote { term, node, committed }
    }

    /// An append of node 2, which leads in term 7, to this node, which has voted for node 3 in term 5.
    fn appended(previous: Option<LogId>, commit: Option<LogId>, entries: &[LogId]) -> Result<Option<LogId>, Unfit> {
        append(2, vote(5, 3, false), vote(7, 2, true), (previous, commit), entries.iter().copied())
    }

    #[test]
    fn an_append_is_a_part_of_a_log_that_its_leader_may_have() {
        assert_eq!(appended(None, None, &[]), Ok(None), "a heartbeat");
        assert_eq!(appended(Some(id(4, 9)), None, &[id(4, 10), id(7, 11)]), Ok(None));
        assert_eq!(appended(None, None, &[id(0, 0), id(1, 1)]), Ok(None));
        let later = |id| Err(Unfit::LaterTerm { words: "an append", term: 7, id });
        assert_eq!(appended(Some(id(8, 9)), None, &[]), later(id(8, 9)));
        assert_eq!(appended(Some(id(4, 9)), None, &[id(4, 10), id(8, 11)]), later(id(8, 11)));
        assert_eq!(appended(Some(id(4, 9)), Some(id(8, 12)), &[]), later(id(8, 12)));
        let falls = Err(Unfit::TermFalls { id: id(3, 10), before: id(4, 9) });
        assert_eq!(appended(Some(id(4, 9)), None, &[id(3, 10)]), falls);
        assert_eq!(appended(Some(id(4, 9)), None, &[id(4, 11)]), Err(Unfit::Gap { index: 11, expected: 10 }));
        let high = |number| Err(Unfit::NumberTooHigh { words: "an append", number });
        assert_eq!(appended(Some(id(4, u64::MAX)), None, &[]), high(u64::MAX));
        assert_eq!(appended(None, Some(id(4, NUMBER_END)), &[]), high(NUMBER_END));
        assert_eq!(appended(Some(id(4, NUMBER_END - 1)), None, &[id(4, NUMBER_END)]), high(NUMBER_END));
    }

    #[test]
    fn no_more_is_committed_than_an_append_has() {
        let committed = |commit| appended(Some(id(4, 9)), Some(commit), &[id(5, 10), id(5, 11)]);
        for commit in [id(3, 7), id(4, 8), id(4, 9), id(5, 10), id(5, 11)] {
            assert_eq!(committed(commit), Ok(Some(commit)));
        }
        assert_eq!(committed(id(6, 20)), Ok(Some(id(5, 11))), "the rest comes with its entries");
        assert_eq!(appended(None, Some(id(6, 20)), &[]), Ok(None));
        let other = |commit, id| Err(Unfit::OtherCommitted { commit, id });
        assert_eq!(committed(id(4, 10)), other(id(4, 10), id(5, 10)));
        assert_eq!(committed(id(3, 9)), other(id(3, 9), id(4, 9)));
        assert_eq!(committed(id(5, 8)), other(id(5, 8), id(4, 9)), "before an entry of an earlier term");
        // openraft would apply up to entry 1000, which this node does not have.
        assert_eq!(committed(id(4, 1000)), other(id(4, 1000), id(5, 11)));
    }

    #[test]
    fn only_a_leader_itself_speaks_as_leader() {
        let own = vote(5, 3, true);
        let from = |from, vote| append(from, own, vote, (None, None), [].into_iter()).map(drop);
        assert_eq!(from(2, vote(7, 2, true)), Ok(()));
        assert_eq!(from(2, vote(4, 2, true)), Ok(()), "Raft refuses a leader of an earlier term by itself");
        assert_eq!(from(2, vote(7, 3, true)), Err(Unfit::OtherNode { words: "an append", node: 3, from: 2 }));
        assert_eq!(from(2, vote(7, 2, false)), Err(Unfit::NotElected { words: "an append" }));
        assert_eq!(from(2, vote(5, 2, true)), Err(Unfit::TwoLeaders { term: 5 }));
        assert_eq!(from(2, vote(5 + TERM_AHEAD_MAX, 2, true)), Ok(()));
        let term = 6 + TERM_AHEAD_MAX;
        assert_eq!(from(2, vote(term, 2, true)), Err(Unfit::TermTooHigh { words: "an append", term, own: 5 }));
        let almost = vote(NUMBER_END - 1, 3, false);
        let next = append(2, almost, vote(NUMBER_END, 2, true), (None, None), [].into_iter());
        assert_eq!(next, Err(Unfit::NumberTooHigh { words: "an append", number: NUMBER_END }));
    }

    #[test]
    fn a_snapshot_belongs_to_a_log_that_its_leader_may_have() {
        let with = |last, membership_at, configs: &[u64]| {
            let configs = configs.iter().map(|voter| [*voter].into()).collect();
            let meta =
                SnapshotMeta { last, membership: Membership { configs, ..Membership::default() }, membership_at };
            snapshot(2, vote(5, 3, false), vote(7, 2, true), &meta)
        };
        let last = Some(id(6, 9));
        assert_eq!(with(last, Some(id(4, 3)), &[2]), Ok(()));
        let words = "a snapshot";
        assert_eq!(with(Some(id(8, 9)), None, &[2]), Err(Unfit::LaterTerm { words, term: 7, id: id(8, 9) }));
        assert_eq!(with(last, Some(id(4, 10)), &[2]), Err(Unfit::LaterMembers { last: 9 }));
        assert_eq!(with(last, Some(id(7, 3)), &[2]), Err(Unfit::LaterMembers { last: 9 }));
        assert_eq!(with(last, None, &[]), Err(Unfit::NoVoters { index: 9 }));
        assert_eq!(with(None, None, &[2]), Err(Unfit::EmptySnapshot));
    }

    #[test]
    fn a_candidate_asks_for_itself_and_for_a_term_after_its_log() {
        let asks =
            |vote, last| candidacy(2, super::tests::vote(5, 3, true), &Candidacy { vote, last, is_transfer: false });
        let words = "a candidacy";
        assert_eq!(asks(vote(6, 2, false), Some(id(5, 9))), Ok(()));
        assert_eq!(asks(vote(6, 2, true), None), Err(Unfit::Elected { words }));
        assert_eq!(asks(vote(6, 4, false), None), Err(Unfit::OtherNode { words, node: 4, from: 2 }));
        assert_eq!(asks(vote(6, 2, false), Some(id(6, 9))), Err(Unfit::LaterTerm { words, term: 6, id: id(6, 9) }));
        let number = u64::MAX;
        assert_eq!(asks(vote(6, 2, false), Some(id(5, number))), Err(Unfit::NumberTooHigh { words, number }));
        assert_eq!(asks(vote(number, 2, false), None), Err(Unfit::TermTooHigh { words, term: number, own: 5 }));
    }

    #[test]
    fn only_the_present_leader_asks_a_voter_for_an_election() {
        let own = vote(5, 2, true);
        let asks = |from, vote, to, votes| {
            transfer(from, own, (ME, votes), &Transfer { from: vote, to, last: Some(id(5, 9)) })
        };
        assert_eq!(asks(2, own, ME, true), Ok(()));
        assert_eq!(asks(2, own, 3, false), Ok(()), "another node takes over");
        assert_eq!(asks(2, own, ME, false), Err(Unfit::NoVote));
        assert_eq!(asks(2, vote(6, 2, true), ME, true), Err(Unfit::NotLeader));
        assert_eq!(asks(2, vote(4, 2, true), ME, true), Err(Unfit::NotLeader));
        assert_eq!(asks(3, own, ME, true), Err(Unfit::OtherNode { words: "a transfer", node: 2, from: 3 }));
        assert_eq!(asks(2, vote(5, 2, false), ME, true), Err(Unfit::NotElected { words: "a transfer" }));
    }

    #[test]
    fn an_answer_fits_to_the_request() {
        let asked = Asked { me: ME, peer: 2, vote: vote(7, ME, false) };
        let out_of_place = |words, vote| Err(Unfit::OutOfPlace { words, vote, asked: 7 });
        // A vote, or a pre-vote, is given.
        assert_eq!(asked.voted(asked.vote, Some(id(6, 9)), true, true), Ok(asked.vote));
        assert_eq!(asked.voted(vote(6, 3, true), None, true, false), Ok(vote(6, 3, true)));
        let words = "a candidacy";
        assert_eq!(asked.voted(vote(6, 3, true), None, true, true), out_of_place(words, vote(6, 3, true)));
        assert_eq!(asked.voted(vote(8, 3, true), None, true, false), out_of_place(words, vote(8, 3, true)));
        // It is refused.
        assert_eq!(asked.voted(vote(8, 3, true), Some(id(8, 9)), false, true), Ok(vote(8, 3, true)));
        assert_eq!(asked.voted(vote(6, 2, false), None, false, true), Ok(vote(6, 2, false)));
        let later = Err(Unfit::LaterTerm { words, term: 6, id: id(7, 9) });
        assert_eq!(asked.voted(vote(6, 2, false), Some(id(7, 9)), false, true), later);
        let (term, own) = (u64::MAX, 7);
        let high = |words| Err(Unfit::TermTooHigh { words, term, own });
        assert_eq!(asked.voted(vote(term, 3, true), None, false, true), high(words));

        let asked = Asked { vote: vote(7, ME, true), ..asked };
        assert_eq!(asked.higher(vote(8, 3, false)), Ok(vote(8, 3, false)));
        for lower in [vote(7, 3, true), vote(7, ME, true), vote(6, 3, true)] {
            assert_eq!(asked.higher(lower), out_of_place("an append", lower));
        }
        assert_eq!(asked.higher(vote(term, 3, true)), high("an append"));
        assert_eq!(asked.installed(asked.vote), Ok(asked.vote));
        assert_eq!(asked.installed(vote(8, 3, true)), Ok(vote(8, 3, true)));
        assert_eq!(asked.installed(vote(6, 3, true)), out_of_place("a snapshot", vote(6, 3, true)));
        assert_eq!(asked.installed(vote(term, 3, true)), high("a snapshot"));
    }

    /// Otherwise this node would lead in a term for which it never asked, or no longer knows that it did.
    #[test]
    fn an_answer_does_not_make_this_node_a_leader_or_a_candidate() {
        let asked = Asked { me: ME, peer: 2, vote: vote(7, ME, true) };
        assert_eq!(asked.higher(vote(9, ME, true)), Ok(vote(9, 2, false)));
        assert_eq!(asked.installed(vote(9, ME, false)), Ok(vote(9, 2, false)));
        let asked = Asked { vote: vote(7, ME, false), ..asked };
        assert_eq!(asked.voted(vote(9, ME, true), None, false, true), Ok(vote(9, 2, false)));
        assert_eq!(
            asked.voted(vote(6, ME, false), None, false, true),
            Ok(vote(6, ME, false)),
            "it has not voted since"
        );
    }
}
