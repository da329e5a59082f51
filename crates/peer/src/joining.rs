//! Waiting until the group begins, and what a member waits for until then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::beginning::{Agreed, Ended};
use crate::data::DataError;
use crate::group::{GroupError, MemberId, PeerGroup};
use crate::handshake::LinkError;
use crate::shared::{Shared, TIME_MAX};

/// How often the member looks what it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    /// One of the two members refused the connection.
    #[error("no connection with process {peer} at {address}: {error}")]
    Refused { peer: MemberId, address: String, error: LinkError },
    #[error("the group has not begun after {:.1} s; {awaited}", waited.as_secs_f64())]
    Incomplete { waited: Duration, awaited: Awaited },
    /// The group can never begin.
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error(transparent)]
    Data(#[from] Arc<DataError>),
}

/// A member that is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub id: MemberId,
    pub address: String,
    /// The error of the last attempt. None if the missing member has to connect, not this one.
    pub last: Option<LinkError>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { id, address, last } = self;
        match last {
            Some(error) => write!(f, "{id} at {address} ({error})"),
            None => write!(f, "{id} at {address} (has not connected)"),
        }
    }
}

/// What a member waits for before its group begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    pub missing: Vec<Missing>,
    /// Connected with this member, but not with all others.
    pub incomplete: Vec<MemberId>,
}

impl Awaited {
    /// Member `me` waits for all others.
    pub fn all(group: &PeerGroup, me: MemberId) -> Awaited {
        let others = group.file().members.iter().cloned().enumerate().filter(|(id, _)| *id != me);
        let missing = others.map(|(id, address)| Missing { id, address, last: None }).collect();
        Awaited { missing, incomplete: Vec::new() }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.missing[..], &self.incomplete[..]) {
            ([], []) => f.write_str("all members are connected, but have not yet agreed that the group begins"),
            ([], ids) => {
                write!(f, "all members are connected with this one, but not with each other: {}", list(ids))
            }
            (missing, _) => write!(f, "missing: {}", list(missing)),
        }
    }
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Shared {
    /// Waits until the group begins, and says meanwhile what it waits for.
    pub async fn complete(
        &self,
        start_within: Duration,
        awaited: Option<watch::Sender<Awaited>>,
    ) -> Result<Agreed, JoinError> {
        let deadline = Instant::now() + start_within.min(TIME_MAX);
        let (mut met, mut begun) = (self.met.subscribe(), self.begun.subscribe());
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match &*begun.borrow_and_update() {
                Some(Ok(agreed)) => return Ok(*agreed),
                Some(Err(why)) => {
                    self.wires.links.iter().flatten().for_each(|link| link.leave());
                    return Err(why.clone().into());
                }
                None => {}
            }
            let standing = met.borrow_and_update().clone();
            for (peer, standing) in standing.iter().enumerate() {
                if let Some(error) = standing.last.clone().filter(|error| error.keeps_from_joining()) {
                    return Err(JoinError::Refused { peer, address: self.address(peer), error });
                }
            }
            tokio::select! {
                _ = met.changed() => {}
                _ = begun.changed() => {}
                _ = looks.tick(), if awaited.is_some() => {
                    let now = self.awaited();
                    awaited.as_ref().inspect(|awaited| {
                        awaited.send_if_modified(|told| std::mem::replace(told, now.clone()) != now);
                    });
                }
                () = sleep_until(deadline) => {
                    return Err(JoinError::Incomplete { waited: start_within, awaited: self.awaited() });
                }
            }
        }
    }

    fn awaited(&self) -> Awaited {
        let standing = self.met.borrow().clone();
        let is_missing = |id: MemberId| id != self.wires.me && (!standing[id].connected || standing[id].last.is_some());
        let missing = (0..standing.len()).filter(|&id| is_missing(id));
        let missing = missing.map(|id| Missing { id, address: self.address(id), last: standing[id].last.clone() });
        Awaited { missing: missing.collect(), incomplete: self.beginning().incomplete() }
    }

    fn address(&self, id: MemberId) -> String {
        self.group.file().members[id].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_waits_for_is_one_sentence() {
        let missing = |id, last| Missing { id, address: format!("h:{id}"), last };
        let says = |missing, incomplete| Awaited { missing, incomplete }.to_string();
        let refused = LinkError::Closed("refused".into());
        assert_eq!(
            says(vec![missing(0, Some(refused)), missing(2, None)], vec![1]),
            "missing: 0 at h:0 (no connection: refused), 2 at h:2 (has not connected)"
        );
        let apart = "all members are connected with this one, but not with each other: 0, 2";
        assert_eq!(says(vec![], vec![0, 2]), apart);
        let agreeing = "all members are connected, but have not yet agreed that the group begins";
        assert_eq!(says(vec![], vec![]), agreeing);
    }
}
