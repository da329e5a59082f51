//! What the clients of a round did and saw, in times of one clock: microseconds since the round began.

use std::collections::BTreeMap;

pub type Micros = u64;

#[derive(Clone, Debug, Default)]
pub struct History {
    pub claims: Vec<Claim>,
    /// One after the other: each was asked for after the one before was answered.
    pub sights: Vec<Sight>,
}

/// One request for an exclusive lock, from the call of the client to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub client: usize,
    pub lock: String,
    /// A different one for each claim. The service shows it in listings.
    pub owner: u64,
    /// Before the client asked.
    pub called: Micros,
    /// The lease of the session is longer than the round, so no fault excuses a loss.
    pub is_steady: bool,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The client waited when the history ended.
    Waits,
    NotGranted {
        why: String,
        /// The client gave up, or lost a session with a short lease.
        is_excused: bool,
    },
    Granted(Hold),
}

/// A hold as its client believed in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub fence: u64,
    /// After the client received the grant. The client believed in the hold at this moment.
    pub at: Micros,
    /// The last moment at which the client is known to have believed in the hold.
    pub until: Micros,
    pub end: HoldEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The client waited for the answer to its release when the history ended.
    Open,
    /// The service confirmed the release before this moment.
    Released(Micros),
    /// The session was lost.
    Lost(String),
    /// The service refused the release although the session is alive.
    Denied(String),
}

/// One linearizable listing of all locks that are held or waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    pub asked: Micros,
    pub answered: Micros,
    /// A lock that is not here is free, and no client waits for it.
    pub locks: BTreeMap<String, Queue>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Owner and fence.
    pub holder: Option<(u64, u64)>,
    /// Owners, in the order of the queue.
    pub waiters: Vec<u64>,
}

impl Queue {
    pub fn shows(&self, owner: u64) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == owner) || self.waiters.contains(&owner)
    }
}

impl Claim {
    pub fn hold(&self) -> Option<&Hold> {
        match &self.end {
            End::Granted(hold) => Some(hold),
            End::Waits | End::NotGranted { .. } => None,
        }
    }
}
