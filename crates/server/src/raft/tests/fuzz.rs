//! Arbitrary words of a peer. No panic, and the node goes on. `PROPTEST_CASES=5000` runs more of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use baton_runtime::{sleep, timeout};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::cluster::{LONG, MOMENT, Seat, fill_sessions, simulate};
use super::words::{STRANGER, ask, dial, goes_on, send_snapshot};
use super::*;
use crate::format::record::{self, Membership, Payload, Record};
use crate::format::snapshot::SnapshotMeta;
use crate::raft::peers::link::{self, Link};
use crate::raft::peers::wire::{
    self, Announcement, Answer, Append, Appended, Call, Candidacy, Confirmed, Greeting, Installed, Purpose, Reply,
    Request, SnapshotFrame, Transfer,
};

/// The id of the peer where it is a member.
const MEMBER: u64 = 2;

/// The same cases in each run, so that a run fails for its own change only. `PROPTEST_CASES` draws others.
fn config(few: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let rng_seed = if cases.is_some() { RngSeed::Random } else { RngSeed::Fixed(28) };
    ProptestConfig { failure_persistence: None, rng_seed, ..ProptestConfig::with_cases(cases.unwrap_or(few)) }
}

/// A number near one of the node, or any.
#[derive(Clone, Copy, Debug)]
enum Number {
    Near(i64),
    Any(u64),
}

impl Number {
    fn resolve(self, near: u64) -> u64 {
        match self {
            Number::Near(distance) => near.saturating_add_signed(distance),
            Number::Any(number) => number,
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        6 => Just(Number::Near(0)),
        8 => (-3_i64..4).prop_map(Number::Near),
        1 => prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63), Just((1 << 32) + 3), 0..5_u64].prop_map(Number::Any),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Vote_ {
    term: Number,
    /// Most often the peer itself; else this node, or another.
    node: u8,
    is_usual: bool,
}

fn vote() -> impl Strategy<Value = Vote_> {
    (number(), 0..12_u8, 0..12_u8).prop_map(|(term, node, usual)| Vote_ { term, node, is_usual: usual > 0 })
}

#[derive(Clone, Copy, Debug)]
struct Id {
    index: Number,
    /// None: the one in the log of the node.
    term: Option<Number>,
}

fn id() -> impl Strategy<Value = Option<Id>> {
    option::weighted(0.9, (number(), option::weighted(0.4, number())).prop_map(|(index, term)| Id { index, term }))
}

#[derive(Clone, Debug)]
enum Words {
    Append { vote: Vote_, previous: Option<Id>, commit: Option<Id>, entries: Vec<(u8, u8)> },
    Vote { vote: Vote_, last: Option<Id>, is_transfer: bool, is_pre_vote: bool },
    Transfer { from: Vote_, last: Option<Id>, to: u8 },
    Snapshot { vote: Vote_, last: Option<Id>, at: Option<Id>, has_voters: bool },
}

fn words() -> impl Strategy<Value = Words> {
    let entries = vec((0..8_u8, 0..8_u8), 0..6);
    prop_oneof![
        6 => (vote(), id(), id(), entries)
            .prop_map(|(vote, previous, commit, entries)| Words::Append { vote, previous, commit, entries }),
        3 => (vote(), id(), any::<bool>(), any::<bool>())
            .prop_map(|(vote, last, is_transfer, is_pre_vote)| Words::Vote { vote, last, is_transfer, is_pre_vote }),
        1 => (vote(), id(), 0..4_u8).prop_map(|(from, last, to)| Words::Transfer { from, last, to }),
        2 => (vote(), id(), id(), 0..8_u8)
            .prop_map(|(vote, last, at, voters)| Words::Snapshot { vote, last, at, has_voters: voters > 0 }),
    ]
}

/// The members in the memberships that a peer sends. The node goes on asking them at these addresses.
type Members = BTreeMap<u64, NodeRecord>;

/// What the node is like when a peer says something.
struct Now {
    me: u64,
    peer: u64,
    vote: record::Vote,
    /// The log, as far as the node has it.
    ids: BTreeMap<u64, u64>,
    members: Membership,
}

impl Now {
    /// None if Raft or its state machine has stopped.
    async fn of(node: &Node, peer: u64, members: &Members) -> Option<Now> {
        node.raft.with_state_machine(|_| Box::pin(async {})).await.ok()?;
        let state = node.raft.with_raft_state(|state| {
            let end = state.log_ids.last().map_or(0, |last| last.index + 1);
            // A snapshot may have had any index.
            let ids = (end.saturating_sub(64)..end)
                .filter_map(|index| Some((index, state.log_ids.get(index)?.leader_id.term)));
            (record::Vote::from(*state.vote_ref()), ids.collect())
        });
        let (vote, ids) = state.await.ok()?;
        let members = Membership { configs: vec![members.keys().copied().collect()], nodes: members.clone() };
        Some(Now { me: node.id(), peer, vote, ids, members })
    }

    fn vote(&self, said: Vote_, committed: bool) -> record::Vote {
        let node = match said.node {
            0 => self.me,
            1 => 7,
            2 => self.vote.node,
            _ => self.peer,
        };
        record::Vote { term: said.term.resolve(self.vote.term), node, committed: committed == said.is_usual }
    }

    fn id(&self, said: Option<Id>) -> Option<record::LogId> {
        let Id { index, term } = said?;
        let index = index.resolve(self.ids.keys().next_back().copied().unwrap_or(0));
        let ours = self.ids.get(&index).copied().unwrap_or(self.vote.term);
        Some(record::LogId { term: term.map_or(ours, |term| term.resolve(ours)), index })
    }

    fn records(&self, previous: Option<record::LogId>, entries: &[(u8, u8)], term: u64) -> Vec<u8> {
        let mut records = Vec::new();
        let mut index = previous.map_or(0, |id| id.index.saturating_add(1));
        for (kind, step) in entries {
            let payload = match kind {
                0 => Payload::Membership(self.members.clone()),
                1 => Payload::Membership(Membership::default()),
                2 => Payload::Blank,
                _ => Payload::Commands(open_session(index)),
            };
            // As in the log of the node, or of the leader's term; seldom another.
            let ours = self.ids.get(&index).copied();
            let entry_term = match step {
                0 => term.saturating_sub(1),
                1..4 => ours.unwrap_or(term),
                _ => term,
            };
            let id = record::LogId { term: entry_term, index };
            Record::Entry { id, payload: &payload.encode() }.encode_to(&mut records);
            index = index.saturating_add(1);
        }
        records
    }
}

/// Says one thing. The node may refuse it, and close the connection. Then the next words need another.
async fn say(node: &Node, seat: &Seat, open: &mut Option<Link>, now: &Now, words: &Words) {
    let purpose = if let Words::Snapshot { .. } = words { Purpose::Snapshot } else { Purpose::Calls };
    let mut link = match open.take() {
        Some(link) if purpose == Purpose::Calls => link,
        _ => dial(node, seat, now.peer, purpose).await,
    };
    let answer = match words {
        Words::Append { vote, previous, commit, entries } => {
            let (vote, previous, commit) = (now.vote(*vote, true), now.id(*previous), now.id(*commit));
            let records = now.records(previous, entries, vote.term);
            let confirmed = commit.map(|commit| Confirmed { ms_ago: commit.term, commit: commit.index });
            let answered = previous.map(|previous| previous.index);
            ask(
                &mut link,
                Request::Append(Append { vote, previous, commit, confirmed, answered, known: None, records: &records }),
            )
            .await
        }
        Words::Vote { vote, last, is_transfer, is_pre_vote } => {
            let candidacy = Candidacy { vote: now.vote(*vote, false), last: now.id(*last), is_transfer: *is_transfer };
            let request = if *is_pre_vote { Request::PreVote(candidacy) } else { Request::Vote(candidacy) };
            ask(&mut link, request).await
        }
        Words::Transfer { from, last, to } => {
            let to = [now.me, now.me, now.peer, 7][usize::from(*to)];
            let transfer = Transfer { from: now.vote(*from, true), to, last: now.id(*last) };
            ask(&mut link, Request::Transfer(transfer)).await
        }
        Words::Snapshot { vote, last, at, has_voters } => {
            let membership = if *has_voters { now.members.clone() } else { Membership::default() };
            let meta = SnapshotMeta { last: now.id(*last), membership, membership_at: now.id(*at) };
            // The node may close the connection in the middle of it.
            let _ = send_snapshot(&mut link, now.vote(*vote, true), meta).await;
            return;
        }
    };
    assert!(!matches!(answer, Err(LinkError::Silent(_))), "{words:?}");
    if answer.is_ok() {
        *open = Some(link);
    }
}

async fn status(node: &Node, seat: &Seat) -> Answer {
    let mut link = dial(node, seat, STRANGER, Purpose::Calls).await;
    ask(&mut link, Request::Status).await.expect("the node answers")
}

fn fast() -> Timing {
    let ms = Duration::from_millis;
    Timing { heartbeat: ms(5), election_min: ms(15), election_max: ms(30) }
}

fn is_voter(node: &Node, voters: &[u64]) -> bool {
    node.group.metrics().membership_config.voter_ids().collect::<BTreeSet<u64>>() == voters.iter().copied().collect()
}

/// A stranger talks to a node that is alone. It may depose it, and may even append to its log: only secrets could prevent that.
/// But it can end neither the node nor its work.
async fn hear_a_stranger(said: Vec<Words>) {
    let mut seat = Seat::new("lone");
    seat.timing = fast();
    let fatal = seat.catches_fatal();
    let node = seat.open(Beginning::Alone).await;
    leads(&node).await;
    fill_sessions(&[&node], 1..4).await;
    let (itself, mut open) = ([(node.id(), seat.record())].into(), None);
    for words in &said {
        let now = Now::of(&node, STRANGER, &itself).await.expect("Raft goes on");
        say(&node, &seat, &mut open, &now, words).await;
    }
    assert!(Now::of(&node, STRANGER, &itself).await.is_some(), "Raft goes on");
    assert!(matches!(status(&node, &seat).await, Answer::Status(_)));
    assert_eq!(fatal.try_recv(), Err(mpsc::TryRecvError::Empty), "a stranger does not end the node");
    if is_voter(&node, &[node.id()]) {
        goes_on(&node, 1000).await;
    }
    timeout(LONG, node.shutdown()).await.unwrap();
}

#[derive(Clone, Debug)]
enum Reaction {
    Right,
    Voted(Vote_, Option<Id>, bool),
    Appended(Option<Vote_>),
    Other,
}

fn reaction() -> impl Strategy<Value = Reaction> {
    prop_oneof![
        4 => Just(Reaction::Right),
        3 => (vote(), id(), any::<bool>()).prop_map(|(vote, last, granted)| Reaction::Voted(vote, last, granted)),
        3 => option::weighted(0.8, vote()).prop_map(Reaction::Appended),
        1 => Just(Reaction::Other),
    ]
}

impl Reaction {
    fn answer(&self, now: &Now, request: &Request<'_>) -> Answer {
        match (self, request) {
            (Reaction::Voted(vote, last, granted), Request::Vote(_) | Request::PreVote(_)) => {
                Answer::Voted { vote: now.vote(*vote, false), last: now.id(*last), granted: *granted }
            }
            (Reaction::Appended(None), Request::Append(_) | Request::Heartbeat(_)) => {
                Answer::Appended(Appended::Conflict)
            }
            (Reaction::Appended(Some(vote)), Request::Append(_) | Request::Heartbeat(_)) => {
                Answer::Appended(Appended::HigherVote(now.vote(*vote, true)))
            }
            (Reaction::Other, _) => Answer::Failed("no".to_owned()),
            (_, Request::Append(_) | Request::Heartbeat(_)) => Answer::Appended(Appended::Success),
            (_, Request::Round { .. }) => Answer::Follows(true),
            (_, Request::Vote(candidacy) | Request::PreVote(candidacy)) => {
                Answer::Voted { vote: candidacy.vote, last: None, granted: true }
            }
            _ => Answer::Failed("no".to_owned()),
        }
    }

    fn installed(&self, now: &Now, asked: record::Vote) -> Installed {
        match self {
            Reaction::Voted(vote, ..) | Reaction::Appended(Some(vote)) => Ok(now.vote(*vote, true)),
            Reaction::Other => Err("no".to_owned()),
            _ => Ok(asked),
        }
    }
}

type Reactions = Arc<Mutex<VecDeque<Reaction>>>;

/// Answers one connection of the node, as the member.
async fn react(node: Arc<Node>, stream: Stream, (members, reactions): (Members, Reactions)) -> Result<(), LinkError> {
    let hello = |purpose| Hello { node: MEMBER, ..node.group.peers.hello(node.id(), purpose, false) };
    let mut link = link::accept(stream, async |theirs: Hello| Ok(hello(theirs.purpose))).await?;
    let mut begun = None;
    loop {
        let frame = link.reader.next().await?;
        let next = || reactions.lock().unwrap().pop_front().unwrap_or(Reaction::Right);
        let Some(now) = Now::of(&node, MEMBER, &members).await else { return Ok(()) };
        if link.theirs.purpose == Purpose::Snapshot {
            match wire::decode(&frame, "a part of a snapshot")? {
                SnapshotFrame::Begin { vote, .. } => begun = Some(vote),
                SnapshotFrame::End { .. } => {
                    link.writer.send(wire::encode(&next().installed(&now, begun.unwrap()))).await?;
                }
                SnapshotFrame::Part { .. } => {}
            }
            continue;
        }
        let Call { id, request } = wire::decode(&frame, "a request")?;
        let answer = next().answer(&now, &request);
        link.writer.send(wire::encode(&Reply { id, answer })).await?;
    }
}

/// A member talks to a node of a group of two, and answers it. It may end the node only with other committed entries.
async fn hear_a_member(said: Vec<Words>, reactions: Vec<Reaction>) {
    let other = Seat::new("two");
    let mut listener = other.listen(other.address).unwrap();
    let mut seat = Seat::new("one");
    seat.timing = fast();
    let fatal = seat.catches_fatal();
    let node = Arc::new(seat.open(Beginning::Waits).await);
    let reactions: Reactions = Arc::new(Mutex::new(reactions.into()));
    let members: Members = [(node.id(), seat.record()), (MEMBER, other.record())].into();
    let voters = [node.id(), MEMBER];
    let answering = {
        let (node, members, reactions) = (node.clone(), members.clone(), reactions.clone());
        baton_runtime::spawn(async move {
            let mut links = baton_runtime::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                links.spawn(react(node.clone(), stream, (members.clone(), reactions.clone())));
            }
        })
    };
    node.initialize(members.clone()).await.unwrap();
    let (mut said, mut open) = (said.into_iter(), None);
    // As long as it votes, it goes on to ask the other node.
    let all_is_said = async {
        loop {
            let now = Now::of(&node, MEMBER, &members).await;
            if let Ok(why) = fatal.try_recv() {
                assert!(why.contains("set back to an older copy"), "{why}");
                return;
            }
            let now = now.expect("Raft goes on");
            match said.next() {
                Some(words) => say(&node, &seat, &mut open, &now, &words).await,
                None if reactions.lock().unwrap().is_empty() || !is_voter(&node, &voters) => return,
                None => sleep(MOMENT).await,
            }
        }
    };
    timeout(LONG, all_is_said).await.expect("it answers, and asks");
    assert!(matches!(status(&node, &seat).await, Answer::Status(_)));
    answering.abort();
    timeout(LONG, node.shutdown()).await.unwrap();
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn a_lone_node_goes_on_whatever_a_stranger_says(seed in any::<u64>(), said in vec(words(), 1..20)) {
        simulate(seed, hear_a_stranger(said));
    }
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn a_node_goes_on_whatever_the_other_member_says_and_answers(
        seed in any::<u64>(),
        said in vec(words(), 0..20),
        reactions in vec(reaction(), 0..16),
    ) {
        simulate(seed, hear_a_member(said, reactions));
    }
}

fn samples() -> Vec<Vec<u8>> {
    let vote = record::Vote { term: 3, node: 2, committed: true };
    let id = Some(record::LogId { term: 3, index: 300 });
    let mut records = Vec::new();
    let membership = Membership { configs: vec![[1, 2].into()], nodes: BTreeMap::from([(1, NodeRecord::default())]) };
    for (index, payload) in
        [Payload::Blank, Payload::Commands(open_session(1)), Payload::Membership(membership.clone())]
            .into_iter()
            .enumerate()
    {
        let id = record::LogId { term: 3, index: index as u64 + 301 };
        Record::Entry { id, payload: &payload.encode() }.encode_to(&mut records);
    }
    let append =
        Append { vote, previous: id, commit: id, confirmed: None, answered: Some(9), known: None, records: &records };
    let hello = nobody(Identity { cluster: 7, node: 1 }).hello(2, Purpose::Calls, false);
    let greetings: [Greeting; 2] = [Ok(hello.clone()), Err(Refusal::Busy)];
    let meta = SnapshotMeta { last: id, membership, membership_at: id };
    let candidacy = Candidacy { vote, last: id, is_transfer: true };
    let announcement = Announcement { node: 4, record: hello.record.clone(), formats: (2, 2) };
    let requests = [
        Request::Append(append),
        Request::Vote(candidacy),
        Request::Transfer(Transfer { from: vote, to: 1, last: id }),
        Request::Update { record: hello.record.clone() },
    ];
    let answers = [
        Answer::Appended(Appended::HigherVote(vote)),
        Answer::Voted { vote, last: id, granted: true },
        Answer::Announced(vec![announcement]),
        Answer::Remarks(vec![(1, "is slow".to_owned())]),
    ];
    let frames = [
        SnapshotFrame::Begin { vote, meta },
        SnapshotFrame::Part { bytes: &records, ends_chunk: true },
        SnapshotFrame::End { chunks: 3, crc: 7 },
    ];
    let mut samples = vec![wire::encode(&hello).to_vec(), records.clone()];
    samples.extend(greetings.iter().map(|greeting| wire::encode(greeting).to_vec()));
    samples.extend(requests.into_iter().map(|request| wire::encode(&Call { id: 5, request }).to_vec()));
    samples.extend(answers.into_iter().map(|answer| wire::encode(&Reply { id: 5, answer }).to_vec()));
    samples.extend(frames.iter().map(|frame| wire::encode(frame).to_vec()));
    samples
}

/// Decodes bytes as everything that they could be. Returns how often that worked.
fn decode_all(bytes: &[u8]) -> usize {
    let calls = wire::decode::<Call<'_>>(bytes, "a request").ok();
    let appended = calls.as_ref().and_then(|call| match &call.request {
        Request::Append(append) => Some(append.records),
        _ => None,
    });
    let mut rest = appended.unwrap_or(bytes);
    let mut read = 0;
    while let Ok((record, after)) = Record::read(rest) {
        if let Record::Entry { payload, .. } = record {
            // Membership and commands are checked, too.
            let _ = edge::checked(payload);
        }
        (rest, read) = (after, read + 1);
        if rest.is_empty() {
            break;
        }
    }
    let decoded = [
        calls.is_some(),
        wire::decode::<Reply>(bytes, "an answer").is_ok(),
        wire::decode::<SnapshotFrame<'_>>(bytes, "a part of a snapshot").is_ok(),
        wire::decode::<Installed>(bytes, "an answer to a snapshot").is_ok(),
        wire::decode_start::<Hello>(bytes, "a Hello").is_ok(),
        wire::decode_start::<Greeting>(bytes, "an answer to a Hello").is_ok(),
        SnapshotMeta::decode(bytes).is_ok_and(|meta| edge::meta(meta).is_ok()),
        crate::format::snapshot::restore(&[bytes]).is_ok(),
    ];
    read + decoded.into_iter().filter(|worked| *worked).count()
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn bytes_that_are_changed_cut_or_random_never_panic(
        sample in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in option::weighted(0.3, any::<prop::sample::Index>()),
        random in option::weighted(0.2, vec(any::<u8>(), 0..200)),
    ) {
        let samples = samples();
        let mut bytes = sample.get(&samples).clone();
        let is_whole = changes.is_empty() && cut.is_none() && random.is_none();
        changes.iter().for_each(|(at, value)| *at.get_mut(&mut bytes) ^= value);
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let decoded = decode_all(random.as_ref().unwrap_or(&bytes));
        prop_assert!(!is_whole || decoded > 0);
    }
}
