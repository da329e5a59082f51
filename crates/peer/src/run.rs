//! Whole runs of one member, from joining to leaving, for the command line.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use baton_protocol::ProcessId;
use baton_protocol::registry::Crashes;
use serde::Serialize;
use tokio::time::sleep;

use crate::driver::{PeerError, Stats, Status};
use crate::election::{ElectionPeer, Leader};
use crate::group::PeerGroup;
use crate::link::JoinError;
use crate::mutex::{AcquireError, MutexPeer};
use crate::options::Options;

/// What a client does in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// How often the client enters the critical section.
    pub entries: u64,
    /// How long the client stays in the critical section.
    pub hold: Duration,
}

/// The result of a run at one member. For the whole group, add up the reports of all members, helpers included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberReport {
    pub id: ProcessId,
    pub entries: u64,
    /// How many messages the member sent, for its own entries and for those of other members.
    pub messages: u64,
    /// The same by kind.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    pub bytes: u64,
    /// The member's messages for each of its entries. None if it did not enter.
    pub messages_per_entry: Option<f64>,
    /// The fences of its entries, in order.
    pub fences: Vec<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A member is lost that the algorithm cannot do without.
    #[error("process {peer} is gone, and `{algorithm}` cannot go on without it; restart the whole group")]
    Lost { peer: ProcessId, algorithm: &'static str },
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Joins the group as member `id`. If that is a client, it enters as often as `turns` says. Then it goes on answering
/// the other members until all clients are done.
pub async fn run_turns(
    group: &PeerGroup,
    id: ProcessId,
    turns: Turns,
    options: Options,
) -> Result<MemberReport, RunError> {
    let peer = MutexPeer::join(group, id, options).await?;
    let outcome = take_turns(&peer, group, id, turns).await;
    let stats = peer.shutdown().await;
    Ok(report(id, outcome?, stats?))
}

/// Joins the group as member `id` and takes part in elections until `stop` resolves. Calls `on_change` whenever this
/// member learns of another leader.
pub async fn run_election(
    group: &PeerGroup,
    id: ProcessId,
    options: Options,
    stop: impl Future<Output = ()>,
    mut on_change: impl FnMut(Leader),
) -> Result<Stats, RunError> {
    let peer = ElectionPeer::join(group, id, options).await?;
    let mut leader = peer.watch_leader();
    let watch = async {
        // The channel closes only when the member stops.
        while leader.changed().await.is_ok() {
            let now = *leader.borrow_and_update();
            on_change(now);
        }
    };
    tokio::select! {
        () = stop => {}
        () = watch => {}
    }
    Ok(peer.shutdown().await?)
}

async fn take_turns(peer: &MutexPeer, group: &PeerGroup, id: ProcessId, turns: Turns) -> Result<Vec<u64>, RunError> {
    let (clients, about) = (group.clients(), group.about());
    let lost = |peer| RunError::Lost { peer, algorithm: about.name };
    let mut status = peer.watch_status();
    let mut fences = Vec::new();
    if id < clients {
        for _ in 0..turns.entries {
            let grant = tokio::select! {
                grant = peer.acquire() => grant?,
                stalled = status.wait_for(|status| who_stalls(status, clients, about.assumes.crashes).is_some()) => {
                    let stalled = stalled.map_err(|_| AcquireError::Gone)?;
                    return Err(lost(who_stalls(&stalled, clients, about.assumes.crashes).unwrap_or(id)));
                }
            };
            fences.push(grant.fence());
            sleep(turns.hold).await;
            grant.release();
        }
        peer.announce_done().await;
    }
    let over = |status: &Status| all_done(status, clients, id) || who_deserted(status, clients).is_some();
    let deserter = who_deserted(&*status.wait_for(over).await.map_err(|_| AcquireError::Gone)?, clients);
    if let Some(peer) = deserter {
        return Err(lost(peer));
    }
    if id >= clients {
        // All clients are done, so a helper may leave now. Announcing it avoids a warning at the other members.
        peer.announce_done().await;
    }
    Ok(fences)
}

/// A lost member without which waiting clients may wait for ever.
fn who_stalls(status: &Status, clients: usize, crashes: Crashes) -> Option<ProcessId> {
    status.lost.iter().copied().find(|&lost| match crashes {
        Crashes::Never => true,
        Crashes::Coordinators => lost < clients,
        Crashes::Detected | Crashes::Final | Crashes::ButOne | Crashes::Any => false,
    })
}

/// A client that left before it was done.
fn who_deserted(status: &Status, clients: usize) -> Option<ProcessId> {
    status.lost.iter().copied().find(|lost| *lost < clients && !status.done.contains(lost))
}

fn all_done(status: &Status, clients: usize, me: ProcessId) -> bool {
    (0..clients).all(|client| client == me || status.done.contains(&client))
}

fn report(id: ProcessId, fences: Vec<u64>, stats: Stats) -> MemberReport {
    MemberReport {
        id,
        entries: stats.entries,
        messages: stats.messages,
        messages_per_entry: (stats.entries > 0).then(|| stats.messages as f64 / stats.entries as f64),
        messages_by_kind: stats.messages_by_kind,
        bytes: stats.bytes,
        fences,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(done: &[ProcessId], lost: &[ProcessId]) -> Status {
        Status { done: done.iter().copied().collect(), lost: lost.to_vec() }
    }

    #[test]
    fn whose_loss_stalls_depends_on_the_algorithm() {
        let helper_lost = status(&[], &[3]);
        assert_eq!(who_stalls(&helper_lost, 3, Crashes::Never), Some(3));
        assert_eq!(who_stalls(&helper_lost, 3, Crashes::Coordinators), None);
        assert_eq!(who_stalls(&status(&[], &[1]), 3, Crashes::Coordinators), Some(1));
        assert_eq!(who_stalls(&status(&[], &[1]), 3, Crashes::Detected), None);
        assert_eq!(who_stalls(&status(&[1], &[]), 3, Crashes::Never), None);
    }

    #[test]
    fn a_run_is_over_when_all_other_clients_are_done() {
        assert!(!all_done(&status(&[0], &[]), 3, 1));
        assert!(all_done(&status(&[0, 2], &[]), 3, 1));
        assert!(!all_done(&status(&[0, 2], &[]), 3, 3), "a helper waits for all");
        assert_eq!(who_deserted(&status(&[0], &[0, 3]), 3), None);
        assert_eq!(who_deserted(&status(&[0], &[2]), 3), Some(2));
    }
}
