//! Converts the feed of changes.

use baton_types::cluster_id::ClusterId;
use baton_types::events::{
    About, ClaimValue, ClaimedLock, Closed, Event, Kind, Kinds, LeaderValue, Listing, MemberValue, Name, Position,
    SessionValue, Start, Told, Watch, Who, Why,
};

use super::frames::{mode, mode_to_wire};
use crate::v1;

impl From<Position> for v1::Position {
    fn from(position: Position) -> Self {
        let Position { cluster, index, number } = position;
        v1::Position { cluster_id: ClusterId::to_wire(cluster), index, number }
    }
}

impl From<v1::Position> for Position {
    fn from(position: v1::Position) -> Self {
        let v1::Position { cluster_id, index, number } = position;
        Position { cluster: ClusterId::new(cluster_id), index, number }
    }
}

pub fn watch_to_wire(watch: &Watch) -> v1::WatchRequest {
    let Watch { kinds, prefix, start, is_over_at_end } = watch;
    let (from, start) = match *start {
        Start::Position(position) => (Some(position.into()), v1::WatchStart::Now),
        Start::Now => (None, v1::WatchStart::Now),
        Start::Listing => (None, v1::WatchStart::Listing),
        Start::Oldest => (None, v1::WatchStart::Oldest),
    };
    // All kinds of this version are told as none, so that a newer server sends all of its own.
    let kinds = if *kinds == Kinds::default() { Vec::new() } else { kinds.iter().map(number).collect() };
    v1::WatchRequest { kinds, prefix: prefix.clone(), from, start: start.into(), no_follow: *is_over_at_end }
}

/// Fails with a sentence if a kind or the start is unknown.
pub fn from_watch(request: v1::WatchRequest) -> Result<Watch, String> {
    let v1::WatchRequest { kinds, prefix, from, start, no_follow } = request;
    let kind = |number: i32| {
        let kind = u32::try_from(number).ok().and_then(Kind::from_number);
        kind.ok_or_else(|| format!("this server knows no kind of change with the number {number}"))
    };
    let kinds = kinds.into_iter().map(kind).collect::<Result<Vec<Kind>, String>>()?;
    let start = match (from, v1::WatchStart::try_from(start)) {
        (Some(position), _) => Start::Position(position.into()),
        (None, Ok(v1::WatchStart::Now)) => Start::Now,
        (None, Ok(v1::WatchStart::Listing)) => Start::Listing,
        (None, Ok(v1::WatchStart::Oldest)) => Start::Oldest,
        (None, Err(_)) => return Err(format!("this server knows no start with the number {start}")),
    };
    Ok(Watch { kinds: Kinds::of(kinds), prefix, start, is_over_at_end: no_follow })
}

pub fn told_to_wire(told: Told) -> v1::WatchResponse {
    use v1::watch_response::Told as Wire;
    let told = match told {
        Told::Gone { oldest } => Wire::Gone(v1::Gone { oldest: Some(oldest.into()) }),
        Told::Listing(Listing { locks, sessions, members, leader, next }) => Wire::Listing(v1::FeedListing {
            locks: locks.into_iter().map(Into::into).collect(),
            sessions: sessions.into_iter().map(Into::into).collect(),
            members: members.into_iter().map(|(node, value)| member(node, value)).collect(),
            leader: leader.map(Into::into),
            next: next.map(Into::into),
        }),
        Told::Events { events, next } => {
            let events = events.into_iter().map(Into::into).collect();
            Wire::Events(v1::Events { events, next: Some(next.into()) })
        }
        Told::TooSlow { next } => Wire::TooSlow(v1::TooSlow { next: Some(next.into()) }),
    };
    v1::WatchResponse { told: Some(told) }
}

/// None for a message of a newer server that this version does not know.
pub fn told_from_wire(response: v1::WatchResponse) -> Option<Told> {
    use v1::watch_response::Told as Wire;
    Some(match response.told? {
        Wire::Gone(v1::Gone { oldest }) => Told::Gone { oldest: oldest?.into() },
        Wire::Listing(v1::FeedListing { locks, sessions, members, leader, next }) => Told::Listing(Listing {
            locks: locks.into_iter().map(Into::into).collect(),
            sessions: sessions.into_iter().map(Into::into).collect(),
            members: members.into_iter().map(|member| (member.node, member.into())).collect(),
            leader: leader.map(Into::into),
            next: next.map(Into::into),
        }),
        Wire::Events(v1::Events { events, next }) => {
            Told::Events { events: events.into_iter().filter_map(event).collect(), next: next?.into() }
        }
        Wire::TooSlow(v1::TooSlow { next }) => Told::TooSlow { next: next?.into() },
    })
}

fn number(kind: Kind) -> i32 {
    i32::try_from(kind.number()).unwrap_or_default()
}

impl From<Event> for v1::Event {
    fn from(event: Event) -> Self {
        let Event { position, at_ms, kind, revision, who, by, about } = event;
        v1::Event {
            position: Some(position.into()),
            at_ms,
            kind: number(kind),
            revision,
            who: who.map(Into::into),
            by: by.unwrap_or_default(),
            about: Some(about.into()),
        }
    }
}

/// None if this version does not know such events.
fn event(event: v1::Event) -> Option<Event> {
    let v1::Event { position, at_ms, kind, revision, who, by, about } = event;
    Some(Event {
        position: position?.into(),
        at_ms,
        kind: Kind::from_number(u32::try_from(kind).ok()?)?,
        revision,
        who: who.map(Into::into),
        by: Some(by).filter(|by| !by.is_empty()),
        about: about?.into(),
    })
}

impl From<Who> for v1::EventWho {
    fn from(who: Who) -> Self {
        let Who { session, label, host, pid, from } = who;
        v1::EventWho { session, label, host, pid, from: from.unwrap_or_default() }
    }
}

impl From<v1::EventWho> for Who {
    fn from(who: v1::EventWho) -> Self {
        let v1::EventWho { session, label, host, pid, from } = who;
        Who { session, label, host, pid, from: Some(from).filter(|from| !from.is_empty()) }
    }
}

fn why_to_wire(why: Why) -> i32 {
    let why = match why {
        Why::Released => v1::EventWhy::Released,
        Why::Cancelled => v1::EventWhy::Cancelled,
        Why::TimedOut => v1::EventWhy::TimedOut,
        Why::Closed => v1::EventWhy::Closed,
        Why::Expired => v1::EventWhy::Expired,
        Why::Forced => v1::EventWhy::Forced,
        Why::Unknown => v1::EventWhy::Unspecified,
    };
    why.into()
}

fn why(why: i32) -> Why {
    match v1::EventWhy::try_from(why) {
        Ok(v1::EventWhy::Released) => Why::Released,
        Ok(v1::EventWhy::Cancelled) => Why::Cancelled,
        Ok(v1::EventWhy::TimedOut) => Why::TimedOut,
        Ok(v1::EventWhy::Closed) => Why::Closed,
        Ok(v1::EventWhy::Expired) => Why::Expired,
        Ok(v1::EventWhy::Forced) => Why::Forced,
        Ok(v1::EventWhy::Unspecified) | Err(_) => Why::Unknown,
    }
}

impl From<About> for v1::event::About {
    fn from(about: About) -> Self {
        use v1::event::About as Wire;
        match about {
            About::Session { before, after, why, held, held_count } => Wire::Session(v1::SessionChange {
                before_ttl_ms: before.map(|value| value.ttl_ms),
                after_ttl_ms: after.map(|value| value.ttl_ms),
                why: why.map(why_to_wire),
                held: held.into_iter().map(|name| name.0).collect(),
                held_count,
            }),
            About::Claim { acquire, owner, locks, before, after, why } => Wire::Claim(v1::ClaimChange {
                acquire,
                owner,
                locks: locks.into_iter().map(Into::into).collect(),
                before: before.map(Into::into),
                after: after.map(Into::into),
                why: why.map(why_to_wire),
            }),
            About::Lock { lock, before, after } => {
                let (before, after) = (before.map(Into::into), after.map(Into::into));
                Wire::Lock(v1::LockChange { name: lock.0, before, after })
            }
            About::Member { node, before, after } => Wire::Member(v1::MemberChange {
                node,
                before: before.map(|value| member(node, value)),
                after: after.map(|value| member(node, value)),
            }),
            About::Leader { before, after } => {
                Wire::Leader(v1::LeaderChange { before: before.map(Into::into), after: after.map(Into::into) })
            }
        }
    }
}

impl From<v1::event::About> for About {
    fn from(about: v1::event::About) -> Self {
        use v1::event::About as Wire;
        let session = |ttl_ms| SessionValue { ttl_ms };
        match about {
            Wire::Session(v1::SessionChange { before_ttl_ms, after_ttl_ms, why: of, held, held_count }) => {
                About::Session {
                    before: before_ttl_ms.map(session),
                    after: after_ttl_ms.map(session),
                    why: of.map(why),
                    held: held.into_iter().map(Name).collect(),
                    held_count,
                }
            }
            Wire::Claim(v1::ClaimChange { acquire, owner, locks, before, after, why: of }) => About::Claim {
                acquire,
                owner,
                locks: locks.into_iter().map(Into::into).collect(),
                before: before.map(Into::into),
                after: after.map(Into::into),
                why: of.map(why),
            },
            Wire::Lock(v1::LockChange { name, before, after }) => {
                About::Lock { lock: Name(name), before: before.map(Into::into), after: after.map(Into::into) }
            }
            Wire::Member(v1::MemberChange { node, before, after }) => {
                About::Member { node, before: before.map(Into::into), after: after.map(Into::into) }
            }
            Wire::Leader(v1::LeaderChange { before, after }) => {
                About::Leader { before: before.map(Into::into), after: after.map(Into::into) }
            }
        }
    }
}

impl From<ClaimedLock> for v1::ClaimedLock {
    fn from(ClaimedLock { lock, mode }: ClaimedLock) -> Self {
        let permits = if let baton_types::locks::Mode::Permit { of } = mode { of } else { 0 };
        v1::ClaimedLock { name: lock.0, mode: mode_to_wire(mode).into(), permits }
    }
}

impl From<v1::ClaimedLock> for ClaimedLock {
    fn from(claimed: v1::ClaimedLock) -> Self {
        let mode = mode(claimed.mode(), claimed.permits).unwrap_or_default();
        ClaimedLock { lock: Name(claimed.name), mode }
    }
}

impl From<ClaimValue> for v1::ClaimValue {
    fn from(ClaimValue { fence, since_ms, revoked }: ClaimValue) -> Self {
        v1::ClaimValue { fence, since_ms, revoked }
    }
}

impl From<v1::ClaimValue> for ClaimValue {
    fn from(v1::ClaimValue { fence, since_ms, revoked }: v1::ClaimValue) -> Self {
        ClaimValue { fence, since_ms, revoked }
    }
}

impl From<Closed> for v1::LockClosed {
    fn from(Closed { delay_ms, since_ms }: Closed) -> Self {
        v1::LockClosed { delay_ms, since_ms }
    }
}

impl From<v1::LockClosed> for Closed {
    fn from(v1::LockClosed { delay_ms, since_ms }: v1::LockClosed) -> Self {
        Closed { delay_ms, since_ms }
    }
}

fn member(node: u64, value: MemberValue) -> v1::FeedMember {
    let MemberValue { name, peer_address, client_address, voter } = value;
    v1::FeedMember { node, name, peer_address, client_address, voter }
}

impl From<v1::FeedMember> for MemberValue {
    fn from(member: v1::FeedMember) -> Self {
        let v1::FeedMember { node: _, name, peer_address, client_address, voter } = member;
        MemberValue { name, peer_address, client_address, voter }
    }
}

impl From<LeaderValue> for v1::FeedLeader {
    fn from(LeaderValue { node, name, term }: LeaderValue) -> Self {
        v1::FeedLeader { node, name, term }
    }
}

impl From<v1::FeedLeader> for LeaderValue {
    fn from(v1::FeedLeader { node, name, term }: v1::FeedLeader) -> Self {
        LeaderValue { node, name, term }
    }
}
