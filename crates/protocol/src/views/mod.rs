//! Views: any algorithm goes on after crashes, because it runs within a view and is made anew in the next.
//!
//! The members agree who is present. One more process, the source, publishes views: VIEW(epoch, members with their
//! sessions), each with the next epoch. A member that gets a view with a higher epoch, which names its present session,
//! stops the algorithm and sends READY(epoch, the critical section that it is in) to the lowest member. When all members
//! are ready, the lowest member sends START(epoch, the critical section that somebody is in). With START each member makes
//! a fresh instance of the same processes. A process whose member is absent runs at another member, so the algorithm
//! never notices an absence. (In an election the absent are suspected instead.)
//!
//! A critical section survives its view: no request reaches the new instance before its holder has sent FREE(epoch) to all
//! members. Requests survive, too: members ask again for the callers that wait.
//!
//! A session ends with a crash of its member, or when the member's detector suspects the source. The second is the end of
//! a lease: over sockets, the driver gives this suspicion at the member's own deadline. The member stops, its user hears
//! [`Lost`](crate::mutex::Event::Lost), and it sends OUT(session). When it trusts the source again, or after a crash, it
//! sends JOIN with its next session.
//!
//! - Assumes: what the algorithm assumes of links; no message is lost, except from or to a crashed process. The source
//!   never crashes. The detector of the source reports crashes without mistakes, and it reports a live member only after
//!   that member has suspected the source, as leases do. Members know the number of their session after a crash.
//! - Promises: SAFE, LIVE and growing fences, over crashes, returns and wrong exclusions. ORDER only within a view, so it
//!   is not promised.
//! - Invariants: among the READYs of a view there is at most one hold. When a member has started a view, no process is
//!   inside with a fence of an earlier one, unless START lists it.
//! - Costs: a view of m members takes 3m - 2 messages, and 3T until all have started.
//! - Fences: the epoch, then a count of grants ([`Fence`](crate::Fence)). Each message carries the highest count that its sender knows.
//!   The algorithm's own fences are not used. When an epoch has no count left, a member asks for the next view.

mod instance;
mod member;
mod message;
mod source;
mod user;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::instance::Plan;
pub use self::message::{Hold, Message, View};
pub use self::user::{Believer, Caller, User};

use self::member::Member;
use self::source::Source;
use crate::broken::views::Mistake;
use crate::election::Election;
use crate::mutex::Mutex;
use crate::registry::{About, Assumes, Crashes, Group, Overlap, Params, SetupError, Variant};
use crate::{Counter, Input, Outbox, PerProperty, Picture, ProcessId, Protocol};

/// A process of a group with views. `U` is the kind of its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Viewed<P: Protocol, U> {
    Member(Member<P, U>),
    /// The process after the last client.
    Source(Source),
}

/// A timer of a process that a member carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer<T> {
    pub process: ProcessId,
    pub timer: T,
}

impl<T: core::fmt::Debug> core::fmt::Debug for Timer<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "P{} {:?}", self.process, self.timer)
    }
}

impl<P: Protocol, U: User<P>> Protocol for Viewed<P, U> {
    type Message = Message<P::Message>;
    type Timer = Timer<P::Timer>;
    type Command = P::Command;
    type Event = P::Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        let source = match self {
            Viewed::Member(member) => return member.step(input, out),
            Viewed::Source(source) => source,
        };
        let view = match input {
            Input::Message { from, message } => source.on_message(from, message),
            Input::Suspect(client) => source.on_suspect(client),
            Input::Trust(client) => source.on_trust(client),
            _ => None,
        };
        if let Some(view) = view {
            let members: Vec<ProcessId> = view.members.iter().map(|(member, _)| *member).collect();
            out.multicast(members, Message::View(view));
        }
    }

    fn view(&self) -> Picture {
        match self {
            Viewed::Member(member) => member.view(),
            Viewed::Source(source) => source.view(),
        }
    }

    fn forget(&mut self, fresh: Self) {
        match (self, fresh) {
            (Viewed::Member(member), Viewed::Member(fresh)) => member.forget(fresh),
            (this, fresh) => *this = fresh,
        }
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Viewed::Member(member) = self {
            member.counters(visit);
        }
    }

    const HAS_INVARIANT: bool = true;

    fn broken_invariant(live: &[(ProcessId, &Self)]) -> Option<String> {
        let members = || {
            live.iter().filter_map(|(id, process)| match process {
                Viewed::Member(member) => Some((*id, member)),
                Viewed::Source(_) => None,
            })
        };
        if let Some(two) = members().find_map(|(_, member)| member.two_holds()) {
            return Some(two);
        }
        let inside = members().filter_map(|(id, member)| Some(Hold { process: id, fence: member.user.hold()? }));
        inside.into_iter().find_map(|hold| {
            let without = |(_, member): &(ProcessId, &Member<P, U>)| {
                member.started().is_some_and(|(epoch, listed)| epoch > hold.fence.epoch && listed != Some(hold))
            };
            let (id, member) = members().find(without)?;
            let (epoch, _) = member.started()?;
            let Hold { process, fence } = hold;
            Some(format!(
                "P{process} is inside since view {}, and P{id} has started view {epoch} without it",
                fence.epoch
            ))
        })
    }
}

/// The family of the counts of grants in one epoch. Numbers of processes are far smaller.
fn counts_of(epoch: u64) -> Counter {
    Counter::Number((epoch as usize).saturating_add(1 << 32))
}

/// A variant of every mutual exclusion and every election.
pub const VIEWS: Variant =
    Variant { name: "views", summary: "survives crashes: one more process publishes views, and each view starts anew" };

/// The facts about an algorithm that runs in views.
pub const fn about(of: About) -> About {
    let assumes = Assumes { crashes: Crashes::ButSource, overlap: Overlap::Any, ..of.assumes };
    let promises = PerProperty { order: false, ..of.promises };
    About { assumes, promises, ..of }
}

/// Whether the group is asked to run in views.
pub fn are_wanted(params: &Params) -> bool {
    params.has(VIEWS.name)
}

/// A group for mutual exclusion that runs in views.
pub fn mutex<P: Mutex>(params: &Params, group: Group<P>) -> Result<Group<Viewed<P, Caller>>, SetupError> {
    if group.lease.is_some() {
        return Err(SetupError::Exclusive { one: VIEWS.name, other: "lease" });
    }
    if !group.rests {
        let reason = "a token that never rests leaves no step at which a view could end; add the variant parked";
        return Err(SetupError::Value { what: "a variant", value: VIEWS.name.to_string(), reason: reason.to_string() });
    }
    carry(params, group, true, None)
}

/// A group for elections that runs in views.
pub fn election<P: Election>(params: &Params, group: Group<P>) -> Result<Group<Viewed<P, Believer>>, SetupError> {
    if let Some(guard) = params.one_of(&["quorum", "witness"])? {
        return Err(SetupError::Exclusive { one: VIEWS.name, other: guard });
    }
    carry(params, group, false, None)
}

/// Also used by the broken groups, which make one mistake.
pub fn carry<P: Protocol, U: User<P>>(
    params: &Params,
    group: Group<P>,
    replaces: bool,
    mistake: Option<Mistake>,
) -> Result<Group<Viewed<P, U>>, SetupError> {
    // Each view names all members to all members.
    params.at_most_quadratic()?;
    let Group { clients, processes, make, topology, elects, drift, .. } = group;
    let plan = Plan { clients, processes, make: Arc::from(make), replaces, elects, mistake };
    let mut viewed = Group::new(clients, clients + 1, move |me| {
        if me == clients {
            return Viewed::Source(Source::new(clients, mistake));
        }
        Viewed::Member(Member::new(me, plan.clone()))
    });
    (viewed.topology, viewed.elects, viewed.drift) = (topology, elects, drift);
    // Without leases the source may be wrong about a live member.
    viewed.source = (mistake != Some(Mistake::BelievesSuspicion)).then_some(clients);
    Ok(viewed)
}
