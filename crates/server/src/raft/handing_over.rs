//! Hands the leadership over to another node: because the user asks for it, because this node stops, or because its disk is
//! nearly full (see [`super::space`]).

use std::time::Duration;

use baton_runtime::{Instant, sleep, timeout};
use futures::future::join_all;
use openraft::alias::InstantOf;
use openraft::async_runtime::WatchReceiver;

use super::errors::MemberError;
use super::group::{Group, Metrics, known, name};
use super::members::is_voter;
use super::peers::in_ms;
use super::types::TypeConfig;

/// A node that is further behind, in entries, cannot take over, and does not count among those that answer.
const LAG_MAX: u64 = 5000;

impl Group {
    /// Hands the leadership over to another voter, and returns when it leads.
    pub async fn transfer(&self, to: u64) -> Result<(), MemberError> {
        let metrics = self.leading()?;
        known(&metrics, to)?;
        if to == metrics.id {
            return Err(MemberError::Leads { name: name(&metrics, to) });
        }
        if !is_voter(&metrics, to) {
            return Err(MemberError::NotVoter { name: name(&metrics, to) });
        }
        self.check_health(to, Duration::ZERO).await?;
        self.raft.trigger().transfer_leader(to).await.map_err(|_| MemberError::Stopped)?;
        // If the node does not take over, the others elect a leader within this time.
        let limit = self.timing.election_max * 2;
        // Not the server's part of the metrics: openraft tells that part first, and `leading` reads the whole.
        let mut watched = self.raft.metrics();
        let taken = timeout(limit, async {
            while watched.borrow_watched().current_leader != Some(to) {
                watched.changed().await.map_err(|_| MemberError::Stopped)?;
            }
            Ok(())
        });
        taken.await.unwrap_or(Err(MemberError::NoTransfer { name: name(&metrics, to), ms: in_ms(limit) }))
    }

    /// Hands the leadership over before this node stops: to a voter with room if possible, and of these to the one that has
    /// most of the log.
    pub async fn hand_over(&self) -> Result<(), MemberError> {
        let metrics = self.leading()?;
        let others = metrics.membership_config.voter_ids().filter(|id| *id != metrics.id);
        let asked = others.map(|id| async move { (id, self.check_health(id, Duration::ZERO).await.is_ok()) });
        let healthy = join_all(asked).await.into_iter().filter(|(_, is_healthy)| *is_healthy);
        let with_room = self.with_room(&metrics).await;
        // As of now: before the questions, this leader may not have known what each has.
        let metrics = self.leading()?;
        match healthy.min_by_key(|(id, _)| (!with_room.contains(id), lag(&metrics, *id).unwrap_or(u64::MAX))) {
            Some((to, _)) => self.transfer(to).await,
            None => Err(MemberError::Alone),
        }
    }

    /// Refuses a node that the group would have to wait for.
    pub(super) async fn check_health(&self, id: u64, patience: Duration) -> Result<(), MemberError> {
        self.becomes_healthy(id, patience, |metrics| lag(metrics, id), LAG_MAX).await
    }

    /// Returns when the node has answered a question that was sent after this call began, gets entries, and lacks few enough.
    /// `behind` counts them; none if this leader does not know yet. Fails if that takes too long.
    pub(super) async fn becomes_healthy(
        &self,
        id: u64,
        patience: Duration,
        behind: impl Fn(&Metrics) -> Option<u64>,
        behind_max: u64,
    ) -> Result<(), MemberError> {
        let began = Instant::now();
        loop {
            let metrics = self.leading()?;
            let follows = self.follows(id, known(&metrics, id)?).await;
            let metrics = self.leading()?;
            let heard_ms_ago = self.peers.last_heard(id).map(in_ms);
            let health = match self.gets_nothing(id).filter(|_| follows) {
                Some(why) => Err(MemberError::GetsNothing { name: name(&metrics, id), why }),
                None => health(name(&metrics, id), follows, heard_ms_ago, behind(&metrics), behind_max),
            };
            if health.is_ok() || began.elapsed() >= patience {
                return health;
            }
            sleep(self.timing.heartbeat).await;
        }
    }
}

fn health(
    name: String,
    follows: bool,
    heard_ms_ago: Option<u64>,
    behind: Option<u64>,
    behind_max: u64,
) -> Result<(), MemberError> {
    match (heard_ms_ago, behind) {
        (None, _) | (Some(_), None) => Err(MemberError::NeverHeard { name }),
        (Some(ms), _) if !follows => Err(MemberError::Silent { name, ms }),
        (_, Some(behind)) if behind > behind_max => Err(MemberError::Lags { name, behind }),
        _ => Ok(()),
    }
}

/// The entries that a node does not have yet. None if this node does not lead, or has heard nothing of the other since it
/// leads.
fn lag(metrics: &Metrics, id: u64) -> Option<u64> {
    Some(next(metrics.last_log_index).saturating_sub(matched(metrics, id)?))
}

/// How many entries a node has, counted from the beginning of the log. None as for [`lag`].
pub(super) fn matched(metrics: &Metrics, id: u64) -> Option<u64> {
    let matched = metrics.replication.as_ref()?.get(&id)?;
    if matched.is_none() {
        acknowledged(metrics, id)?;
    }
    Some(next(matched.map(|id| id.index)))
}

pub(super) fn next(index: Option<u64>) -> u64 {
    index.map_or(0, |index| index.saturating_add(1))
}

/// When this leader sent the last message that the node has acknowledged, as openraft believes.
fn acknowledged(metrics: &Metrics, id: u64) -> Option<InstantOf<TypeConfig>> {
    Some(*(*metrics.heartbeat.as_ref()?.get(&id)?)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use openraft::type_config::TypeConfigExt;

    use super::*;
    use crate::raft::types::LogId;

    #[test]
    fn a_leader_that_never_heard_of_a_node_does_not_know_how_far_it_is_behind() {
        let heard = Some(TypeConfig::now().into());
        let lag = |matched: Option<u64>, heard| {
            let mut metrics = Metrics::new_initial(1);
            metrics.last_log_index = Some(9);
            metrics.replication = Some(BTreeMap::from([(2, matched.map(|index| LogId::new_term_index(1, index)))]));
            metrics.heartbeat = Some(BTreeMap::from([(2, heard)]));
            lag(&metrics, 2)
        };
        assert_eq!(lag(None, None), None);
        assert_eq!(lag(None, heard), Some(10), "it has nothing yet");
        assert_eq!((lag(Some(7), heard), lag(Some(9), heard)), (Some(2), Some(0)));
    }

    #[test]
    fn the_group_does_not_wait_for_a_node_that_is_silent_or_lags() {
        let health = |follows, heard_ms_ago, lag| {
            health("b".to_owned(), follows, heard_ms_ago, lag, LAG_MAX).map_err(|refused| refused.to_string())
        };
        assert_eq!(health(true, Some(7), Some(LAG_MAX)), Ok(()));
        let never = "b has not answered this leader yet; start it, or remove it if its address is wrong";
        assert_eq!(health(false, None, Some(0)), Err(never.to_owned()));
        assert_eq!(health(true, Some(0), None), Err(never.to_owned()));
        let silent = "b does not answer this leader, and was last heard of 7 ms ago; start it, or remove it";
        assert_eq!(health(false, Some(7), Some(LAG_MAX + 1)), Err(silent.to_owned()));
        let lags = "b is 5001 entries behind; wait until it has them";
        assert_eq!(health(true, Some(0), Some(LAG_MAX + 1)), Err(lags.to_owned()));
    }
}
