//! A cluster that begins anew: restored from a backup, or on a node whose majority is lost for good.

use std::sync::Arc;

use baton_types::durations;
use baton_types::limits::FENCE_ANEW_MAX;
use openraft::RaftLogReader;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use tracing::warn;

use super::edge;
use super::governing::draw_secret;
use super::listed::check_silent;
use super::log_store::LogStore;
use super::node::{NAME, Parts};
use super::peers::Peers;
use super::types::{Encoded, LogEntry, LogId, Payload, TypeConfig, Vote};
use crate::clock;
use crate::format::record::{self, Membership, NodeRecord};
use crate::state::{Command, Entry, Outcome, State, cluster};
use crate::store::{Disk, OpenError, adopt};

/// The part of the log that is lost granted fewer fences.
const FENCES_LOST_MAX: u64 = 1 << 32;

/// As many fences begin in each second since 1970. A cluster that grants fewer has lower fences than one that begins anew
/// later, even from the same backup.
const FENCES_PER_SECOND: u64 = 1 << 20;

/// As many first fences are drawn from, so that two beginnings from one state differ also at the same time. It is as much
/// as a second is worth, so that a beginning that is a second later still has higher fences.
const FENCES_DRAWN: u64 = FENCES_PER_SECOND;

/// Why a folder without entries cannot begin a new cluster.
pub(crate) const NO_DATA: &str = "it has no data; start the server without --force-new-cluster";

/// How a cluster begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anew {
    /// The first fence, exactly. None: one that is surely above all fences of before, and differs each time.
    pub fence_from: Option<u64>,
    /// For how long nothing is granted. None: until every lease of before must have ended.
    pub wait_ms: Option<u64>,
}

impl Anew {
    /// The command for a cluster that was in this state at the time `then_ms`. Fails with a sentence if the operator wants
    /// lower fences, or if there are none left.
    pub(super) fn command(self, state: &State, then_ms: u64, now_ms: u64) -> Result<cluster::Command, String> {
        let no_random = |error| format!("the system gave no random number: {error}");
        let drawn = baton_runtime::random_u64().map_err(no_random)? % FENCES_DRAWN;
        let last = state.last_fence();
        let (by_time, by_last) = (fences_in(now_ms), last.saturating_add(FENCES_LOST_MAX));
        let least = by_time.max(by_last);
        let fence_from = match self.fence_from {
            Some(from) if from < least => {
                return Err(format!(
                    "--fence-from {from} is too low: the fences must go on from {least} or higher, so that they never go back"
                ));
            }
            Some(from) => from,
            // Also where the last fence is above the time, a later beginning has higher fences.
            None => {
                let later = by_last.saturating_add(fences_in(now_ms.saturating_sub(then_ms)));
                by_time.max(later).saturating_add(drawn)
            }
        };
        if fence_from > FENCE_ANEW_MAX {
            let why = match by_last > FENCE_ANEW_MAX {
                true => format!("the last fence is {last}, so too few are left"),
                false => "check the clock of this machine".to_owned(),
            };
            return Err(format!(
                "the fences would go on from {fence_from}, and they must not begin above {FENCE_ANEW_MAX}; {why}"
            ));
        }
        let secret = draw_secret().map_err(no_random)?;
        Ok(cluster::Command::BeginAnew { secret, fence_from, wait_ms: self.wait_ms })
    }
}

/// How many fences this time is worth.
fn fences_in(time_ms: u64) -> u64 {
    let fences = u128::from(time_ms) * u128::from(FENCES_PER_SECOND) / 1_000;
    u64::try_from(fences).unwrap_or(u64::MAX)
}

/// What the folder of a node that does not run says, with all entries of its log, also those that no majority has
/// confirmed.
#[derive(Debug)]
pub(super) struct Replayed {
    pub state: State,
    pub membership: Membership,
    /// The last entry.
    pub last: Option<record::LogId>,
}

impl Replayed {
    pub async fn of(parts: &mut Parts) -> Result<Replayed, OpenError> {
        let (mut replayed, next) = {
            let replica = parts.shared.read();
            let membership = edge::written(replica.membership.membership());
            let last = replica.applied.map(record::LogId::from);
            (Replayed { state: replica.state.clone(), membership, last }, last.map_or(0, |id| id.index + 1))
        };
        let failed = |why: String| OpenError::Raft(why);
        let entries = parts.log.get_log_reader().await.try_get_log_entries(next..).await;
        for entry in entries.map_err(|error| failed(error.to_string()))? {
            replayed.last = Some(entry.log_id().into());
            match entry.payload {
                Payload::Blank => {}
                Payload::Membership(membership) => replayed.membership = edge::written(&membership),
                Payload::Normal(encoded) => {
                    let index = entry.log_id.index;
                    let Entry { now_ms, commands } =
                        encoded.decode().map_err(|why| failed(format!("entry {index} cannot be read: {why}")))?;
                    for command in &commands {
                        replayed.state.apply(index, now_ms, command, &mut Outcome::default());
                    }
                }
            }
        }
        Ok(replayed)
    }
}

/// Makes the node the only member of a new cluster, unless another member of the old one answers. The order of the writes: a node that ends in between has the id of
/// the new cluster and the members of the old one, so it serves nothing until it begins anew once more.
pub(super) async fn begin_anew(
    anew: Anew,
    parts: &mut Parts,
    disk: &Arc<dyn Disk>,
    (peers, record): (&Peers, &NodeRecord),
) -> Result<(), OpenError> {
    let refused = |why: String| OpenError::Refused { why };
    if parts.log.is_empty() {
        return Err(refused(NO_DATA.to_owned()));
    }
    let Replayed { mut state, membership, last } = Replayed::of(parts).await?;
    let now_ms = clock::wall_ms();
    let command = Command::from(anew.command(&state, now_ms, now_ms).map_err(refused)?);
    let node = parts.identity.node;
    let others = membership.nodes.iter().filter(|(id, record)| **id != node && !record.peer_address.is_empty());
    let others: Vec<String> = others.map(|(_, record)| record.peer_address.clone()).collect();
    check_silent(peers, &others).await?;
    let record = record.or(&membership.nodes.get(&node).cloned().unwrap_or_default());
    let record = record.or(&NodeRecord { name: NAME.to_owned(), ..NodeRecord::default() });

    let before = parts.identity.cluster;
    parts.identity = parts.identity.of_no_cluster();
    adopt(&**disk, &parts.files, parts.identity).map_err(OpenError::io("write", "IDENTITY"))?;

    let index = last.map_or(0, |last| last.index + 1);
    let voted = parts.log.vote().map_or(0, |vote| vote.term);
    let term = voted.max(last.map_or(0, |last| last.term)).max(state.term()) + 1;
    let members = Membership { configs: vec![[node].into()], nodes: [(node, record)].into() };
    let members = edge::membership(members).map_err(OpenError::Raft)?;
    let entry = Entry { now_ms, commands: vec![command.clone()] };
    let entries = [
        LogEntry::new_membership(LogId::new_term_index(term, index), members),
        LogEntry::new_normal(LogId::new_term_index(term, index + 1), Encoded::from(entry)),
    ];
    append(&mut parts.log, Vote::new(term, node), entries).await.map_err(OpenError::io("write", "the log"))?;

    state.apply(index + 1, now_ms, &command, &mut Outcome::default());
    warn!(
        "this node begins a new cluster, {:016x} instead of {before:016x}, and is its only member; all sessions have ended, \
         the fences go on from {}, and nothing is granted for {}; stop all other nodes of the old cluster for good",
        parts.identity.cluster,
        state.last_fence() + 1,
        durations::shown(state.cluster().closed_ms().unwrap_or(0))
    );
    Ok(())
}

/// The entries are durable together: all of them, or none.
async fn append(log: &mut LogStore, vote: Vote, entries: [LogEntry; 2]) -> std::io::Result<()> {
    log.save_vote(&vote).await?;
    let (done, durable) = TypeConfig::oneshot();
    log.append(entries, IOFlushed::signal(done)).await?;
    durable.await.map_err(std::io::Error::other)?
}
