//! openraft's network: maps its requests to the wire, and the answers back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::check::Asked;
use super::peer::{Peer, SILENT_MAX};
use super::wire::{Answer, Append, Appended, Candidacy, LinkError, Request, Transfer};
use super::{Peers, commits, snapshots};
use crate::format::record::{self, NodeRecord, Record};
use crate::raft::copies::Meeting;
use crate::raft::edge;
use crate::raft::snapshot::Chunks;
use crate::raft::types::{LogId, Snapshot, TypeConfig, Vote};

/// The most appends to a node that are on their way at a time. Each has at most 1 MiB, unless one entry has more.
const PIPELINE_MAX: usize = 16;

/// Pauses between two attempts to send entries to a node that cannot be reached. Heartbeats do not pause.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// What is wrong with a node that was set back, and what to do.
pub const SET_BACK: &str = "no longer has entries that it had acknowledged to the leader: its data folder was set back or \
                            damaged; it gets no more entries; remove the node, empty its folder, and add it again; if its \
                            newer folder is still there, start it with that one";

type RpcResult<T> = Result<T, RPCError<TypeConfig>>;

/// openraft's connection to one node. All connections to a node share one socket.
pub struct Client {
    peers: Peers,
    peer: Arc<Peer>,
    /// It sends heartbeats only.
    is_heartbeat: bool,
}

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Client;

    async fn new_client(&mut self, target: u64, record: &NodeRecord) -> Client {
        Client { peers: self.clone(), peer: self.get(target, record), is_heartbeat: false }
    }

    async fn new_heartbeat_client(&mut self, target: u64, record: &NodeRecord) -> Client {
        Client { is_heartbeat: true, ..self.new_client(target, record).await }
    }
}

/// A node that is down or refuses to talk is asked again after a pause; a broken connection is opened again at once.
fn failed(error: LinkError) -> RPCError<TypeConfig> {
    match error {
        LinkError::Broken(_) | LinkError::Closed | LinkError::Silent(_) => NetworkError::new(&error).into(),
        _ => Unreachable::new(&error).into(),
    }
}

/// An answer to another question: the other side is faulty.
fn out_of_place<T>(answer: Answer) -> RpcResult<T> {
    Err(failed(match answer {
        Answer::Failed(sentence) => LinkError::Failed(sentence),
        _ => LinkError::Malformed { bytes: 0, expected: "an answer to this request" },
    }))
}

impl Client {
    fn asked(&self, vote: record::Vote) -> Asked {
        Asked { me: self.peers.identity().node, peer: self.peer.id, vote }
    }

    /// Sends an append, behind all earlier ones. The future resolves with the last entry that the node now has.
    fn append(
        &self,
        rpc: AppendEntriesRequest<TypeConfig>,
    ) -> impl Future<Output = RpcResult<StreamAppendResult<TypeConfig>>> + Send + use<> {
        let (peers, peer) = (self.peers.clone(), self.peer.clone());
        let (vote, previous) = (record::Vote::from(rpc.vote), rpc.prev_log_id);
        let last = rpc.entries.last().map(|entry| entry.log_id).or(previous);
        let is_heartbeat = self.is_heartbeat && rpc.entries.is_empty();
        let asked = self.asked(vote);
        let lost = peer.with_progress(|progress| progress.lost(vote));
        let is_quiet = !peers.may_append(vote.term);
        let call = (lost.is_none() && !is_quiet).then(|| {
            let records = records(rpc.entries);
            let commit = rpc.leader_commit.map(record::LogId::from);
            let previous = previous.map(record::LogId::from);
            let (answered, confirmed) = (peer.answered(), peers.confirmed());
            let known = previous.and_then(|previous| peers.last_commands(previous.index));
            let append = Append { vote, previous, commit, confirmed, answered, known, records: &records };
            // openraft gives up on a heartbeat by itself. Entries have as long as the connection lives: the disk of the
            // other node may be slow, and the heartbeats show whether the node is there.
            match is_heartbeat {
                true => peer.call(Request::Heartbeat(append), SILENT_MAX),
                false => peer.call(Request::Append(append), Duration::MAX),
            }
        });
        async move {
            if is_quiet {
                return Err(Unreachable::from_string("no majority confirms that this node leads, so it pauses").into());
            }
            let Some(call) = call else { return Err(ask_again(&peers, &peer, vote).await) };
            let appended = match call.await.map_err(failed)? {
                Answer::Appended(appended) => appended,
                other => {
                    peer.set_refuses(if let Answer::Failed(sentence) = &other { Some(sentence) } else { None });
                    return out_of_place(other);
                }
            };
            peer.set_refuses(None);
            match appended {
                // The node may not have it on disk yet.
                Appended::Success if is_heartbeat => Ok(Ok(last)),
                Appended::Success => {
                    peer.with_progress(|progress| progress.acknowledge(vote, last.map(record::LogId::from)));
                    Ok(Ok(last))
                }
                Appended::HigherVote(higher) => {
                    meet_copy(&peers, vote, higher);
                    let higher = asked.higher(higher).map_err(|unfit| failed(unfit.into()))?;
                    Ok(Err(StreamAppendError::HigherVote(Vote::from(higher))))
                }
                Appended::Conflict => {
                    let entry = previous.map(record::LogId::from);
                    let was_lost = peer.with_progress(|progress| progress.lost(vote).is_some());
                    if peer.with_progress(|progress| progress.conflict(vote, entry)) {
                        if !was_lost {
                            peers.warn(&set_back_sentence(&peer));
                        }
                        return Err(set_back(&peer));
                    }
                    // The beginning of the log conflicts with nothing.
                    match previous {
                        Some(previous) => Ok(Err(StreamAppendError::Conflict(previous))),
                        None => out_of_place(Answer::Appended(Appended::Conflict)),
                    }
                }
            }
        }
    }

    /// Sends an append of a stream. If the next entry for the node cannot be read, the append has no entries. Then the
    /// stream ends, and openraft finds out that the node needs a snapshot: while a stream is open, openraft purges none
    /// of its entries.
    fn append_next(
        &self,
        rpc: AppendEntriesRequest<TypeConfig>,
    ) -> impl Future<Output = RpcResult<StreamAppendResult<TypeConfig>>> + Send + use<> {
        let next = rpc.prev_log_id.map_or(0, |previous| previous.index.saturating_add(1));
        let is_possible = !rpc.entries.is_empty() || self.peers.can_read(next);
        let sent = is_possible.then(|| self.append(rpc));
        async move {
            match sent {
                Some(sent) => sent.await,
                None => Err(Unreachable::from_string(format!("entry {next} cannot be read")).into()),
            }
        }
    }

    async fn campaign(
        &self,
        rpc: VoteRequest<TypeConfig>,
        (request, is_binding): (impl FnOnce(Candidacy) -> Request<'static>, bool),
        option: &RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        let VoteRequest { vote, last_log_id, leadership_transfer: is_transfer } = rpc;
        let candidacy = Candidacy { vote: vote.into(), last: last_log_id.map(record::LogId::from), is_transfer };
        let asked = self.asked(candidacy.vote);
        match self.peer.call(request(candidacy), option.soft_ttl()).await.map_err(failed)? {
            Answer::Voted { vote, last, granted } => {
                let checked = asked.voted(vote, last, granted, is_binding);
                let vote = checked.map_err(|unfit| failed(unfit.into()))?;
                Ok(VoteResponse::new(Vote::from(vote), last.map(LogId::from), granted))
            }
            other => out_of_place(other),
        }
    }
}

/// Another node may have a vote for this one that this process never asked for: another process with its id did.
fn meet_copy(peers: &Peers, ours: record::Vote, theirs: record::Vote) {
    if theirs.node == peers.identity().node && theirs.term != ours.term {
        peers.meet(Meeting::Heard);
    }
}

fn set_back_sentence(peer: &Peer) -> String {
    format!("{} {SET_BACK}", peer.label())
}

/// Asks a node that was set back how long its log is: its complete folder may be back. It gets entries with the next append.
async fn ask_again(peers: &Peers, peer: &Peer, vote: record::Vote) -> RPCError<TypeConfig> {
    match peer.call(Request::Status, SILENT_MAX).await {
        Ok(Answer::Status(status)) if peer.with_progress(|progress| progress.reaches(vote, status.last_log)) => {
            let sentence = format!("{} has again what it had acknowledged, and gets entries again", peer.label());
            peers.warn(&sentence);
            NetworkError::from_string(sentence).into()
        }
        _ => set_back(peer),
    }
}

fn set_back(peer: &Peer) -> RPCError<TypeConfig> {
    Unreachable::from_string(set_back_sentence(peer)).into()
}

/// The entries as records of the log.
fn records(entries: Vec<crate::raft::types::LogEntry>) -> Vec<u8> {
    let mut records = Vec::new();
    for entry in entries {
        let (id, payload) = (entry.log_id.into(), edge::encoded(entry.payload));
        Record::Entry { id, payload: &payload }.encode_to(&mut records);
    }
    records
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = Chunks;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<TypeConfig>> {
        Ok(self.append(rpc).await?.into())
    }

    /// Sends the next appends before the answers to earlier ones arrive. The answers come in order.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _: RPCOption,
    ) -> BoxFuture<'s, RpcResult<BoxStream<'s, RpcResult<StreamAppendResult<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let peers = self.peers.clone();
        let appends = commits::thin_out(input, commits::HOLD, move || peers.log_end());
        let answers = appends.map(|rpc| self.append_next(rpc)).buffered(PIPELINE_MAX);
        // The first answer that is no success ends the stream, and drops the rest.
        let answers = answers.scan(false, |ended, answer| {
            let next = (!*ended).then_some(answer);
            *ended = !matches!(next, Some(Ok(Ok(_))));
            std::future::ready(next)
        });
        std::future::ready(Ok(answers.boxed())).boxed()
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> RpcResult<VoteResponse<TypeConfig>> {
        self.campaign(rpc, (Request::Vote, true), &option).await
    }

    // openraft's default would grant the pre-vote without sending a message.
    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        self.campaign(rpc, (Request::PreVote, false), &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let (wire_vote, last) = (record::Vote::from(vote), snapshot.meta.last_log_id);
        if self.peer.with_progress(|progress| progress.lost(wire_vote)).is_some() {
            return Err(set_back(&self.peer).into());
        }
        let sent = tokio::select! {
            biased;
            closed = cancel => return Err(closed.into()),
            sent = snapshots::send(&self.peer, wire_vote, snapshot, option.hard_ttl()) => sent,
        };
        let theirs = sent.map_err(failed)?;
        meet_copy(&self.peers, wire_vote, theirs);
        let theirs = self.asked(wire_vote).installed(theirs).map_err(|unfit| failed(unfit.into()))?;
        if theirs == wire_vote {
            self.peer.with_progress(|progress| progress.acknowledge(wire_vote, last.map(record::LogId::from)));
        }
        Ok(SnapshotResponse::new(Vote::from(theirs)))
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<TransferLeaderResponse<TypeConfig>> {
        let last = rpc.last_log_id().copied().map(record::LogId::from);
        let transfer = Transfer { from: (*rpc.from_leader()).into(), to: *rpc.to_node_id(), last };
        match self.peer.call(Request::Transfer(transfer), option.soft_ttl().max(SILENT_MAX)).await.map_err(failed)? {
            Answer::Transferred(Ok(())) => Ok(Ok(())),
            // openraft only logs it. If the node does not take over, the others elect a leader.
            Answer::Transferred(Err(sentence)) => Err(failed(LinkError::Failed(sentence))),
            other => out_of_place(other),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::successors(Some(PAUSE), |pause| Some((*pause * 2).min(PAUSE_MAX)))))
    }
}
