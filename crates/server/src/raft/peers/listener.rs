//! The listener for other nodes: takes their connections, and passes their requests to Raft.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use baton_runtime::{Instant, JoinSet, sleep, timeout};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, poll};
use openraft::Raft;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::coop::unconstrained;
use tracing::{debug, info, warn};

use super::guard::Guard;
use super::heard::Heard;
use super::link::{self, Link, Reader, Writer};
use super::peer::SILENT_MAX;
use super::transport::{Listener, Stream};
use super::wire::{
    self, Answer, Append, Appended, Call, Candidacy, Confirmed, Greeting, Hello, Installed, LinkError, Purpose,
    Refusal, Reply, Request, Verdict,
};
use super::{in_ms, lock, snapshots};
use crate::clock::boot_ms;
use crate::format;
use crate::format::record::{self, Record};
use crate::limiter::Limiter;
use crate::raft::copies::{self, Meeting};
use crate::raft::edge;
use crate::raft::errors::MemberError;
use crate::raft::freshness::Sent;
use crate::raft::group::Group;
use crate::raft::log_store::Fatal;
use crate::raft::machine::Machine;
use crate::raft::node::node_status;
use crate::raft::snapshot::Chunks;
use crate::raft::types::{LogEntry, LogId, Snapshot, TypeConfig, Vote};
use crate::raft::votes::{Refused, Votes};
use crate::state::State;
use crate::store::{Disk, Files, Identity, Received, Snapshots, Unreadable, adopt};

/// Each other node needs two connections at a time. More than that is for restarts and for people who look around.
const CONNECTIONS_MAX: usize = 64;
/// Further connections are told that there is no place, but only so many at a time.
const REFUSALS_MAX: usize = 16;
/// The most requests of a connection that Raft works on at a time.
const RUNNING_MAX: usize = 256;
/// A connection without a request for this long is closed. The other side closes it earlier.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// After a process has ended, its connections are closed within this time.
const ENDS_MAX: Duration = Duration::from_millis(100);
/// The time after which the leader answers a node that asks for a change of its record.
const UPDATE_MAX: Duration = Duration::from_millis(500);
/// Before the next try, when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An answer that Raft works on.
type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What the listener needs of its node.
pub struct Door {
    pub group: Group,
    pub guard: Guard,
    pub snapshots: Snapshots,
    pub disk: Arc<dyn Disk>,
    pub files: Files,
    pub votes: Arc<Votes>,
    pub fatal: Fatal,
    /// `Node::shutdown` waits until it is dropped.
    pub alive: mpsc::Sender<()>,
    pub limiter: Mutex<Limiter>,
    /// Held while a snapshot is restored and installed. A restored snapshot is a whole state in memory, so only one exists
    /// at a time, even if a new leader sends its own while that of the last one is being restored.
    pub installing: tokio::sync::Mutex<()>,
}

/// Takes connections until the task is dropped.
pub async fn listen(mut listener: Box<dyn Listener>, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // Frees the tasks that have ended.
        while connections.try_join_next().is_some() {}
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Any program can use up what it takes to accept one.
                if lock(&door.limiter).say("accept", Instant::now()).is_some() {
                    warn!("a connection of another node could not be accepted: {error}");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let door = door.clone();
        match (places.clone().try_acquire_owned(), refusals.clone().try_acquire_owned()) {
            (Ok(place), _) => connections.spawn(async move {
                let _place = place;
                let ended = door.serve(stream).await;
                door.note(ended, address);
            }),
            (Err(_), Ok(place)) => connections.spawn(async move {
                let _place = place;
                let ended = link::accept(stream, async |_| Err(Refusal::Busy)).await;
                door.note(ended.map(drop), address);
            }),
            // Too many to answer each of them.
            (Err(_), Err(_)) => door.note(Err(LinkError::Refused(Refusal::Busy)), address),
        }
    }
}

impl Door {
    /// Logs why a connection has ended.
    fn note(&self, ended: Result<(), LinkError>, address: SocketAddr) {
        let error = match ended {
            Ok(()) | Err(LinkError::Closed | LinkError::Broken(_) | LinkError::Silent(_)) => {
                debug!(%address, "a connection of another node has ended");
                return;
            }
            Err(error) => error,
        };
        let kind = match error {
            LinkError::NotBaton(_) | LinkError::Malformed { .. } => "garbage",
            LinkError::Refused(Refusal::Busy) => "busy",
            _ => "refused",
        };
        if let Some(quiet) = lock(&self.limiter).say(kind, Instant::now()) {
            let more = if quiet == 0 { String::new() } else { format!(" ({quiet} more since the last such line)") };
            let who = match kind {
                "garbage" => "something that is no node of a cluster has called the peer address",
                _ => "a connection of another node is refused",
            };
            self.group.peers.warn(&format!("{who}, from {address}: {error}{more}"));
        }
    }

    async fn serve(&self, stream: Stream) -> Result<(), LinkError> {
        let Link { mut reader, mut writer, theirs } = link::accept(stream, |theirs| self.judge(theirs)).await?;
        match theirs.purpose {
            Purpose::Introduction => Ok(()),
            Purpose::Calls => {
                let heard = self.group.peers.heard(theirs.node);
                heard.greeted(self.group.id(), &theirs);
                let _connected = heard.connected();
                self.answer(reader, writer, &theirs, &heard).await
            }
            Purpose::Snapshot => {
                let installed = self.install(&mut reader, &theirs).await;
                let answer: Installed = installed.as_ref().map(|vote| *vote).map_err(ToString::to_string);
                writer.send(wire::encode(&answer)).await?;
                installed.map(drop)
            }
        }
    }

    /// Decides whether this node talks to another. A node without data becomes part of the other's cluster first.
    async fn judge(&self, theirs: Hello) -> Greeting {
        self.check_start(&theirs).await?;
        let mut adopted = self.group.adopted.lock().await;
        let is_empty = match self.group.raft.is_initialized().await {
            Ok(is_initialized) => !is_initialized,
            Err(stopped) => return Err(Refusal::Failed(stopped.to_string())),
        };
        let ours = self.group.peers.identity();
        let formats = self.group.peers.formats();
        if let Verdict::Adopt { cluster } = wire::judge(ours, formats, is_empty, &theirs)? {
            let (disk, files) = (self.disk.clone(), self.files.clone());
            let identity = Identity { cluster, ..ours };
            let written = baton_runtime::spawn_blocking(move || adopt(&*disk, &files, identity)).await;
            let failed =
                |error: &dyn std::fmt::Display| Refusal::Failed(format!("IDENTITY cannot be written: {error}"));
            written.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
            self.group.peers.set_cluster(cluster);
            *adopted = Some(cluster);
        }
        if theirs.purpose == Purpose::Introduction && theirs.joins && theirs.is_empty && theirs.node != ours.node {
            self.group.peers.announce(&theirs);
        }
        Ok(self.group.peers.hello(theirs.node, theirs.purpose, is_empty))
    }

    /// Refuses a second process of a node while the first answers at the address of the node.
    async fn check_start(&self, theirs: &Hello) -> Result<(), Refusal> {
        let (peers, node) = (&self.group.peers, theirs.node);
        let is_introduction = theirs.purpose == Purpose::Introduction;
        if node == self.group.id() && theirs.start != peers.start_number() {
            peers.meet(Meeting::Heard);
            return if is_introduction { Ok(()) } else { Err(Refusal::Copy { node }) };
        }
        let Some(address) = peers.recorded(node).filter(|_| !is_introduction) else { return Ok(()) };
        let known = peers.heard(node);
        if known.start_number() == theirs.start {
            return Ok(());
        }
        let ours = peers.hello(0, Purpose::Introduction, false);
        match timeout(copies::ANSWER_MAX, peers.introduce(&address, &ours)).await {
            Ok(Ok(there)) if there.node == node && there.start != theirs.start => {
                Err(Refusal::Second { node, address })
            }
            Ok(Ok(there)) if there.node == node => Ok(()),
            _ if known.start_number() == 0 || !known.is_talking(SILENT_MAX) => Ok(()),
            // Perhaps this node does not reach that address. The connections of a process that has just ended end now.
            _ => {
                sleep(ENDS_MAX).await;
                match known.is_talking(SILENT_MAX) {
                    true => Err(Refusal::Failed(format!("it talks with another process that has the id {node}"))),
                    false => Ok(()),
                }
            }
        }
    }

    /// Answers the requests of another node until the connection ends. Raft gets them in the order in which they
    /// arrive.
    async fn answer(
        &self,
        mut reader: Reader,
        mut writer: Writer,
        theirs: &Hello,
        heard: &Heard,
    ) -> Result<(), LinkError> {
        let mut running = FuturesUnordered::new();
        let mut sent = Sent::default();
        loop {
            let mut answered = tokio::select! {
                biased;
                // Answers first: there are only as many as requests, so requests wait for a short time only.
                Some(reply) = running.next() => Some(reply),
                frame = timeout(IDLE_MAX, reader.next()), if running.len() < RUNNING_MAX => {
                    let frame = frame.unwrap_or(Err(LinkError::Silent(IDLE_MAX)))?;
                    if heard.start_number() != theirs.start {
                        return Err(LinkError::Replaced);
                    }
                    heard.now();
                    let Call { id, request } = wire::decode(&frame, "a request")?;
                    let mut is_fresh = None;
                    if let Request::Append(append) | Request::Heartbeat(append) = &request {
                        is_fresh = fresh(append, &mut sent);
                    }
                    let checked = self.check_vote(theirs, &request)?;
                    if let (Ok(()), Request::Append(append) | Request::Heartbeat(append)) = (&checked, &request) {
                        // Not of a leader whose words are refused: this node does not follow it.
                        heard.append_now();
                        self.follow(append.vote).await;
                    }
                    let work = match checked {
                        Ok(()) => self.work(theirs, request, is_fresh)?,
                        Err(sentence) => now(Answer::Failed(sentence)),
                    };
                    let mut work = work.map(move |answer| Reply { id, answer });
                    // The first poll puts the request into Raft's queue, so the order is kept.
                    match poll!(&mut work) {
                        Poll::Ready(reply) => Some(reply),
                        Poll::Pending => {
                            running.push(work);
                            None
                        }
                    }
                }
            };
            let any = answered.is_some();
            while let Some(reply) = answered {
                if let Answer::Appended(_) = reply.answer {
                    sent.note(reply.id, boot_ms());
                }
                writer.feed(wire::encode(&reply)).await?;
                // All answers that are there go out together.
                answered = match running.is_empty() {
                    true => None,
                    false => running.next().now_or_never().flatten(),
                };
            }
            if any {
                writer.flush().await?;
            }
        }
    }

    /// Refuses a vote of another node or process than the one that leads in the term, or has this node's vote of it. Fails if
    /// the vote is impossible.
    fn check_vote(&self, theirs: &Hello, request: &Request<'_>) -> Result<Result<(), Refused>, LinkError> {
        let vote = match request {
            Request::Append(append) | Request::Heartbeat(append) => append.vote,
            Request::Round { vote } => *vote,
            Request::Vote(candidacy) | Request::PreVote(candidacy) => candidacy.vote,
            Request::Transfer(transfer) => transfer.from,
            Request::Status | Request::Announced | Request::Update { .. } | Request::Remarks => return Ok(Ok(())),
        };
        Ok(self.guard.vote(theirs.node, vote)?.and_then(|()| self.votes.check(vote, theirs.start)))
    }

    /// Lets Raft follow a new leader before its words are compared with the log: then the vote in the log is that of Raft,
    /// no append of an earlier leader changes the log after the comparison, and the log has learnt all that Raft calls
    /// committed, which it otherwise learns when the entries are applied.
    async fn follow(&self, vote: record::Vote) {
        if !self.guard.is_new(vote) {
            return;
        }
        let nothing =
            AppendEntriesRequest { vote: vote.into(), prev_log_id: None, leader_commit: None, entries: Vec::new() };
        // If Raft refuses the leader or has stopped, it also refuses the next words.
        let _answer = heartbeat(&self.group.raft, nothing, vote).await;
        let committed = self.group.raft.with_raft_state(|state| {
            let members = state.membership_state.committed().log_id().as_ref();
            members.max(state.local_committed()).copied()
        });
        // While Raft installs a snapshot, the log still has the entries that the snapshot replaces. They were not committed.
        if let Ok(Some(committed)) = committed.await
            && self.guard.history.has(committed.into())
        {
            self.guard.history.settle(committed.index);
        }
    }

    /// Fails if the request is malformed: the connection cannot be used any more. `fresh`: see [`fresh`].
    fn work(&self, from: &Hello, request: Request<'_>, fresh: Option<(u64, u64)>) -> Result<Work, LinkError> {
        let (raft, start, from) = (self.group.raft.clone(), from.start, from.node);
        Ok(match request {
            Request::Append(append) => self.append(from, append, fresh)?,
            Request::Heartbeat(append) => self.heartbeat(from, append, fresh)?,
            Request::Round { vote } => Box::pin(async move {
                let ours = raft.with_raft_state(|state| record::Vote::from(*state.vote_ref())).await;
                ours.map_or_else(stopped, |ours| Answer::Follows(vote.committed && ours == vote))
            }),
            Request::Vote(candidacy) => {
                let request = vote_request(self.guard.candidacy(from, candidacy)?);
                let voted = self.votes.clone().cast(raft, request, start);
                Box::pin(async move { voted.await.map_or_else(Answer::Failed, answer_vote) })
            }
            Request::PreVote(candidacy) => {
                let request = vote_request(self.guard.candidacy(from, candidacy)?);
                Box::pin(async move { raft.pre_vote(request).await.map_or_else(stopped, answer_vote) })
            }
            Request::Transfer(transfer) => {
                if let Err(sentence) = self.guard.transfer(from, &transfer)? {
                    return Ok(now(Answer::Transferred(Err(sentence))));
                }
                let wire::Transfer { from, to, last } = transfer;
                let rpc = TransferLeaderRequest::new(Vote::from(from), to, last.map(LogId::from));
                Box::pin(async move {
                    let taken = raft.handle_transfer_leader(rpc).await;
                    taken.map_or_else(stopped, |taken| Answer::Transferred(taken.map_err(|why| why.to_string())))
                })
            }
            Request::Status => now(Answer::Status(node_status(&self.group))),
            Request::Announced => now(Answer::Announced(self.group.peers.announced())),
            Request::Remarks => now(Answer::Remarks(self.group.remarks().into_iter().collect())),
            Request::Update { record } => {
                let group = self.group.clone();
                Box::pin(async move {
                    // The change goes on after the time limit. The connection must not wait for it.
                    let updated = timeout(UPDATE_MAX, group.update(from, record)).await;
                    let answer = updated.unwrap_or(Err(MemberError::NotYet { ms: in_ms(UPDATE_MAX) }));
                    Answer::Updated(answer.map_err(|refused| refused.to_string()))
                })
            }
        })
    }

    fn append(&self, from: u64, append: Append<'_>, fresh: Option<(u64, u64)>) -> Result<Work, LinkError> {
        let known = append.known;
        let mut rpc = match append_request(append) {
            Ok(rpc) => rpc,
            Err(newer @ Unreadable::Newer { .. }) => {
                // To go without the entry would be wrong, and the leader would send it for ever.
                let sentence = format!("an entry of the leader cannot be read: {newer}");
                (self.fatal)(&format!("{sentence}; start this node with the version of the leader"));
                return Ok(now(Answer::Failed(sentence)));
            }
            Err(Unreadable::Malformed(sentence)) => return Err(LinkError::Entries(sentence)),
        };
        self.guard.append(from, known, &mut rpc)?;
        let (raft, peers, history) = (self.group.raft.clone(), self.group.peers.clone(), self.guard.history.clone());
        let (vote, last) = (rpc.vote, rpc.entries.last().map_or(rpc.prev_log_id, |last| Some(last.log_id)));
        Ok(Box::pin(unconstrained(async move {
            let answer = appended(&raft, rpc).await;
            if let Answer::Appended(Appended::Success) = &answer {
                history.agree(vote.into(), last.map(record::LogId::from));
            }
            peers.received(&answer, fresh);
            answer
        })))
    }

    fn heartbeat(&self, from: u64, append: Append<'_>, fresh: Option<(u64, u64)>) -> Result<Work, LinkError> {
        let (vote, known) = (append.vote, append.known);
        let mut rpc = append_request(append).map_err(|why| LinkError::Entries(why.to_string()))?;
        if !rpc.entries.is_empty() {
            return Err(LinkError::Entries("a heartbeat has entries".to_owned()));
        }
        self.guard.append(from, known, &mut rpc)?;
        let (raft, peers) = (self.group.raft.clone(), self.group.peers.clone());
        Ok(Box::pin(unconstrained(async move {
            let answer = heartbeat(&raft, rpc, vote).await;
            peers.received(&answer, fresh);
            answer
        })))
    }

    /// Receives a snapshot, and installs it. Returns this node's vote.
    async fn install(&self, reader: &mut Reader, theirs: &Hello) -> Result<record::Vote, LinkError> {
        let (from, start) = (theirs.node, theirs.start);
        let (vote, meta) = snapshots::begin(reader).await?;
        self.guard.snapshot(from, vote, &meta)?;
        let (last, checked) = (meta.last, edge::meta(meta.clone()).map_err(LinkError::Failed)?);
        let received = snapshots::receive(reader, self.snapshots.clone(), self.alive.clone()).await?;
        info!(index = last.map(|last| last.index), "a snapshot of another node has arrived");
        let _one_at_a_time = self.installing.lock().await;
        let state = self.restore(received).await?;
        // The log has grown meanwhile.
        self.votes.check(vote, start).map_err(LinkError::Failed)?;
        self.follow(vote).await;
        self.guard.snapshot(from, vote, &meta)?;
        if last.is_some_and(|last| self.guard.history.has_agreed(vote, last)) {
            // Raft has got these entries from the same leader, and expects no snapshot of them.
            return Ok(vote);
        }
        if let Some(last) = last.filter(|last| self.guard.history.has(*last)) {
            return self.confirm(vote, last).await;
        }
        self.drop_conflicting(vote, last).await?;
        let snapshot = Snapshot { meta: checked, snapshot: Chunks::Restored(Box::new(state)) };
        let installed = self.group.raft.install_full_snapshot(Vote::from(vote), snapshot).await;
        let theirs = installed.map_err(|stopped| LinkError::Failed(stopped.to_string()))?.vote.into();
        if theirs == vote {
            self.guard.history.agree(vote, last);
        }
        Ok(theirs)
    }

    /// The log has the last entry of a snapshot, so it has all entries of the leader up to there, and perhaps newer ones. To
    /// install the snapshot would set Raft's log back, which openraft asserts against in debug builds. Returns when the
    /// entries are on disk: only then Raft answers an append after them.
    async fn confirm(&self, vote: record::Vote, last: record::LogId) -> Result<record::Vote, LinkError> {
        let (vote_of_raft, prev_log_id) = (vote.into(), Some(last.into()));
        let rpc = AppendEntriesRequest { vote: vote_of_raft, prev_log_id, leader_commit: None, entries: Vec::new() };
        match appended(&self.group.raft, rpc).await {
            Answer::Appended(Appended::Success) => {
                self.guard.history.agree(vote, Some(last));
                Ok(vote)
            }
            Answer::Appended(Appended::HigherVote(theirs)) => Ok(theirs),
            Answer::Failed(why) => Err(LinkError::Failed(why)),
            _ => Err(LinkError::Failed("the log has changed while the snapshot arrived".to_owned())),
        }
    }

    /// Removes entries that the leader cannot have, because their terms are above that of a later entry in its snapshot. openraft
    /// asserts in debug builds that there are none, and would not open a log in which they are left after a crash. To Raft this
    /// is an append that conflicts with the first of them.
    async fn drop_conflicting(&self, vote: record::Vote, last: Option<record::LogId>) -> Result<(), LinkError> {
        let conflict = last.and_then(|last| {
            let first = self.guard.history.first_above(last.term).filter(|index| *index < last.index)?;
            Some(LogId::new_term_index(last.term, first))
        });
        if conflict.is_none() {
            return Ok(());
        }
        let rpc =
            AppendEntriesRequest { vote: vote.into(), prev_log_id: conflict, leader_commit: None, entries: Vec::new() };
        match self.group.raft.append_entries(rpc).await {
            Ok(_) => Ok(()),
            Err(stopped) => Err(LinkError::Failed(stopped.to_string())),
        }
    }

    /// Decodes a snapshot. Raft sees it only afterwards: it would stop if it could not install the snapshot.
    async fn restore(&self, received: Received) -> Result<State, LinkError> {
        let alive = self.alive.clone();
        // A large state takes long, and this thread has other tasks.
        let restored = baton_runtime::spawn_blocking(move || {
            let restored = format::snapshot::restore_each(received);
            // The folder is in use until here.
            drop(alive);
            restored
        });
        let why = match restored.await {
            Ok(Ok(state)) => return Ok(state),
            Ok(Err(why)) => why,
            Err(error) => Unreadable::Malformed(error.to_string()),
        };
        let sentence = format!("a snapshot of the leader cannot be restored: {why}");
        if let Unreadable::Newer { .. } = why {
            (self.fatal)(&format!("{sentence}; start this node with the version of the leader"));
        }
        Err(LinkError::Failed(sentence))
    }
}

fn now(answer: Answer) -> Work {
    Box::pin(std::future::ready(answer))
}

/// Raft does not answer any more.
fn stopped(why: impl std::fmt::Display) -> Answer {
    Answer::Failed(why.to_string())
}

async fn appended(raft: &Raft<TypeConfig, Machine>, rpc: AppendEntriesRequest<TypeConfig>) -> Answer {
    match raft.append_entries(rpc).await {
        Ok(AppendEntriesResponse::Success) => Answer::Appended(Appended::Success),
        Ok(AppendEntriesResponse::Conflict) => Answer::Appended(Appended::Conflict),
        Ok(AppendEntriesResponse::HigherVote(vote)) => Answer::Appended(Appended::HigherVote(vote.into())),
        Ok(AppendEntriesResponse::PartialSuccess(_)) => Answer::Failed("only a part was written".to_owned()),
        Err(why) => stopped(why),
    }
}

/// Answers when Raft has handled the heartbeat, whether or not anything is on disk by then.
async fn heartbeat(
    raft: &Raft<TypeConfig, Machine>,
    rpc: AppendEntriesRequest<TypeConfig>,
    vote: record::Vote,
) -> Answer {
    let mut appended = pin!(appended(raft, rpc));
    if let Poll::Ready(answer) = poll!(&mut appended) {
        return answer;
    }
    // Raft's core handles this call after the append. A refusal is there by then, unless a snapshot is being installed; then
    // the next append is refused. An acceptance may wait for the disk.
    let ours = raft.with_raft_state(|state| record::Vote::from(*state.vote_ref())).await;
    match (poll!(&mut appended), ours) {
        (Poll::Ready(answer), _) => answer,
        (Poll::Pending, Ok(ours)) if ours == vote => Answer::Appended(Appended::Success),
        (Poll::Pending, Ok(ours)) => Answer::Appended(Appended::HigherVote(ours)),
        (Poll::Pending, Err(why)) => stopped(why),
    }
}

/// When a majority had confirmed the leader, or an earlier moment, and what the leader knew to be committed.
fn fresh(append: &Append<'_>, sent: &mut Sent) -> Option<(u64, u64)> {
    let Confirmed { ms_ago, commit } = append.confirmed?;
    let made = sent.at(append.answered?)?;
    // Two times are rounded down.
    Some((made.checked_sub(ms_ago.saturating_add(2))?, commit))
}

fn append_request(append: Append<'_>) -> Result<AppendEntriesRequest<TypeConfig>, Unreadable> {
    let Append { vote, previous, commit, mut records, .. } = append;
    let mut entries = Vec::new();
    let mut next = previous.map_or(0, |id| id.index.saturating_add(1));
    while !records.is_empty() {
        let (record, rest) = Record::read(records)?;
        let Record::Entry { id, payload } = record else { return Err("a record is no entry".to_owned().into()) };
        if id.index != next {
            return Err(format!("entry {} follows, but entry {next} is expected", id.index).into());
        }
        next = id.index.saturating_add(1);
        let payload = edge::checked(payload).map_err(|why| format!("entry {}: {why}", id.index))?;
        entries.push(LogEntry { log_id: id.into(), payload });
        records = rest;
    }
    let prev_log_id = previous.map(LogId::from);
    Ok(AppendEntriesRequest { vote: vote.into(), prev_log_id, leader_commit: commit.map(LogId::from), entries })
}

fn vote_request(candidacy: Candidacy) -> VoteRequest<TypeConfig> {
    let Candidacy { vote, last, is_transfer } = candidacy;
    VoteRequest { vote: vote.into(), last_log_id: last.map(LogId::from), leadership_transfer: is_transfer }
}

fn answer_vote(response: VoteResponse<TypeConfig>) -> Answer {
    let VoteResponse { vote, vote_granted: granted, last_log_id } = response;
    Answer::Voted { vote: vote.into(), last: last_log_id.map(record::LogId::from), granted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(first: u64, version: Option<u8>) -> Result<usize, String> {
        let mut records = Vec::new();
        for index in first..first + 3 {
            let payload = record::Payload::Blank.encode();
            Record::Entry { id: record::LogId { term: 1, index }, payload: &payload }.encode_to(&mut records);
        }
        if let Some(version) = version {
            records[0] = version;
        }
        let vote = record::Vote { term: 1, node: 1, committed: true };
        let previous = Some(record::LogId { term: 1, index: 4 });
        append_request(Append {
            vote,
            previous,
            commit: None,
            confirmed: None,
            answered: None,
            known: None,
            records: &records,
        })
        .map(|rpc| rpc.entries.len())
        .map_err(|why| why.to_string())
    }

    #[test]
    fn entries_of_a_newer_version_and_gaps_are_refused_with_a_sentence() {
        assert_eq!(append(5, None), Ok(3));
        assert_eq!(append(6, None), Err("entry 6 follows, but entry 5 is expected".to_owned()));
        assert_eq!(append(5, Some(9)), Err("a newer version wrote it, with data format 9".to_owned()));
    }
}
