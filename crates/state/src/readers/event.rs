//! Converts a kept change to an event.

use baton_types::cluster_id::ClusterId;
use baton_types::events::{
    About, ClaimValue, ClaimedLock, Closed, Event, LeaderValue, MemberValue, Name, Position, SessionValue, Who, Why,
};

use crate::frontend::locks::words::mode;
use crate::state::feed::{KeptChange, KeptWhat, Leader, Member, Place};
use crate::state::locks::{Claim, Delay, LockName, Want};
use crate::state::{Cause, sessions};

/// The position of a place in the feed of this cluster.
pub fn position(cluster: ClusterId, Place { index, number }: Place) -> Position {
    Position { cluster: Some(cluster), index, number }
}

pub fn event(cluster: ClusterId, change: &KeptChange) -> Event {
    let KeptChange { place, at_ms, revision, .. } = *change;
    let who = change.who.as_deref().map(who);
    Event {
        position: position(cluster, place),
        at_ms,
        kind: change.kind(),
        revision,
        who,
        by: by(&change.what),
        about: about(&change.what),
    }
}

fn about(what: &KeptWhat) -> About {
    match what {
        KeptWhat::Opened { session: _, ttl_ms } => {
            let after = Some(SessionValue { ttl_ms: *ttl_ms });
            About::Session { before: None, after, why: None, held: Vec::new(), held_count: 0 }
        }
        KeptWhat::Ended(end) => About::Session {
            before: Some(SessionValue { ttl_ms: end.ttl_ms }),
            after: None,
            why: end.cause.as_ref().map(why),
            held: end.held.names.iter().map(name).collect(),
            held_count: end.held.count,
        },
        KeptWhat::Claim { before, after, cause } => {
            let claim = after.as_deref().or(before.as_deref());
            let locks = claim.into_iter().flat_map(|claim| &claim.wants);
            About::Claim {
                acquire: claim.map_or(0, |claim| claim.number),
                owner: claim.map_or(0, |claim| claim.owner.0),
                locks: locks.map(|Want { lock, mode: of }| ClaimedLock { lock: name(lock), mode: mode(*of) }).collect(),
                before: before.as_deref().map(claim_value),
                after: after.as_deref().map(claim_value),
                why: cause.as_ref().map(why),
            }
        }
        KeptWhat::Lock(change) => {
            About::Lock { lock: name(&change.lock), before: change.before.map(closed), after: change.after.map(closed) }
        }
        KeptWhat::Member(change) => About::Member {
            node: change.node,
            before: change.before.as_deref().map(member),
            after: change.after.as_deref().map(member),
        },
        KeptWhat::Leader { before, after } => {
            About::Leader { before: before.as_deref().map(leader), after: Some(leader(after)) }
        }
    }
}

fn who(who: &sessions::Who) -> Who {
    Who {
        session: who.session.0,
        label: who.label.to_string(),
        host: who.host.to_string(),
        pid: who.pid,
        from: who.caller.from.map(|from| from.to_string()),
    }
}

/// The address of the operator who forced the change.
fn by(what: &KeptWhat) -> Option<String> {
    let cause = match what {
        KeptWhat::Claim { cause, .. } => cause.as_ref(),
        KeptWhat::Lock(change) => change.cause.as_ref(),
        _ => None,
    };
    match cause {
        Some(Cause::Forced(by)) => by.from.map(|from| from.to_string()),
        _ => None,
    }
}

fn why(cause: &Cause) -> Why {
    match cause {
        Cause::Released => Why::Released,
        Cause::Cancelled => Why::Cancelled,
        Cause::TimedOut => Why::TimedOut,
        Cause::Closed => Why::Closed,
        Cause::Expired => Why::Expired,
        Cause::Forced(_) => Why::Forced,
        // Only in a peer group, which has no feed.
        Cause::Unavailable => Why::Unknown,
    }
}

fn name(lock: &LockName) -> Name {
    Name(lock.as_bytes().to_vec())
}

fn claim_value(claim: &Claim) -> ClaimValue {
    ClaimValue { fence: claim.fence.map(Into::into), since_ms: claim.since_ms, revoked: claim.revoked }
}

fn closed(delay: Delay) -> Closed {
    Closed { delay_ms: delay.delay_ms, since_ms: delay.since_ms }
}

/// A member as readers see it.
pub fn member(member: &Member) -> MemberValue {
    MemberValue {
        name: member.name.to_string(),
        peer_address: member.peer_address.to_string(),
        client_address: member.client_address.to_string(),
        voter: member.is_voter,
    }
}

/// A leader as readers see it.
pub fn leader(leader: &Leader) -> LeaderValue {
    LeaderValue { node: leader.node, name: leader.name.to_string(), term: leader.term }
}
