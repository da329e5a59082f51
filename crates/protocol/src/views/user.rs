//! What views do for the user of a member: keep its wish over a change of views, and tell it what it has lost.

use core::fmt::Debug;
use core::hash::Hash;

use super::counts_of;
use crate::election::{self, Election};
use crate::mutex::{self, Mutex};
use crate::{Counter, Fence, Picture, ProcessId, Protocol};

/// What a user must know of the member's present view.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub epoch: u64,
    /// Whether the algorithm runs, and takes commands.
    pub takes_commands: bool,
    /// Whether this member carries the lowest id of the view.
    pub is_lowest: bool,
    /// In an election: the member that leads in this view.
    pub best: Option<ProcessId>,
    /// The fence of the next grant. None if the epoch has no more.
    pub fence: Option<Fence>,
}

/// What a member does for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted<P: Protocol> {
    Nothing,
    /// Passes this command to the algorithm.
    Command(P::Command),
    /// Tells all members that the hold of an earlier view is over.
    Free,
}

/// What becomes of an event of the algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<P: Protocol> {
    Nothing,
    /// The user hears this event; it takes the next fence.
    Granted(P::Event),
    /// The epoch has no fence left for this grant.
    NoFence,
}

pub trait User<P: Protocol>: Clone + Eq + Hash + Debug + Default + Send + Sync + 'static {
    fn command(&mut self, command: P::Command, now: Now) -> Wanted<P>;

    /// The algorithm has an event for this user.
    fn event(&mut self, event: P::Event, now: Now) -> Heard<P>;

    /// The algorithm runs anew, or a hold of an earlier view is over.
    fn resume(&mut self, now: Now) -> Wanted<P>;

    /// The algorithm has stopped. If the session is over, the user loses what it has. Returns what it loses.
    fn stop(&mut self, session_is_over: bool) -> Option<P::Event>;

    /// What the user holds, from whatever view.
    fn hold(&self) -> Option<Fence> {
        None
    }

    /// At the end of each step: what the user hears, in addition to the grants.
    fn settle(&mut self) -> Option<P::Event> {
        None
    }

    fn view(&self) -> Picture;

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let _ = visit;
    }
}

/// The user of a mutual exclusion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Caller {
    #[default]
    Idle,
    Waiting,
    /// In the critical section, maybe since an earlier view.
    Inside(Fence),
}

impl<P: Mutex> User<P> for Caller {
    fn command(&mut self, command: mutex::Command, now: Now) -> Wanted<P> {
        match (command, *self) {
            (mutex::Command::Acquire, Caller::Idle) => {
                *self = Caller::Waiting;
                <Self as User<P>>::resume(self, now)
            }
            (mutex::Command::Release, Caller::Inside(fence)) => {
                *self = Caller::Idle;
                if fence.epoch == now.epoch { Wanted::Command(command) } else { Wanted::Free }
            }
            _ => Wanted::Nothing,
        }
    }

    fn event(&mut self, event: mutex::Event, now: Now) -> Heard<P> {
        match (event, now.fence) {
            (mutex::Event::Granted { .. }, None) => Heard::NoFence,
            (mutex::Event::Granted { .. }, Some(fence)) => {
                *self = Caller::Inside(fence);
                Heard::Granted(mutex::Event::Granted { fence: fence.number() })
            }
            (mutex::Event::Lost, _) => Heard::Nothing,
        }
    }

    fn resume(&mut self, now: Now) -> Wanted<P> {
        match self {
            Caller::Waiting if now.takes_commands => Wanted::Command(mutex::Command::Acquire),
            _ => Wanted::Nothing,
        }
    }

    fn stop(&mut self, session_is_over: bool) -> Option<mutex::Event> {
        let lost = session_is_over && matches!(self, Caller::Inside(_));
        lost.then(|| {
            *self = Caller::Idle;
            mutex::Event::Lost
        })
    }

    fn hold(&self) -> Option<Fence> {
        match self {
            Caller::Inside(fence) => Some(*fence),
            _ => None,
        }
    }

    fn view(&self) -> Picture {
        Picture::new().state(self)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Caller::Inside(fence) = self {
            visit(counts_of(fence.epoch), &mut fence.count);
        }
    }
}

/// The user of an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Believer {
    leader: Option<ProcessId>,
    term: Option<u64>,
    /// What the user has heard last.
    told: Option<(ProcessId, Option<u64>)>,
    /// The user has called an election, and no instance has got the call yet.
    calls: bool,
}

impl<P: Election> User<P> for Believer {
    fn command(&mut self, _: election::Command, now: Now) -> Wanted<P> {
        self.calls = !now.takes_commands;
        if now.takes_commands { Wanted::Command(election::Command::Elect) } else { Wanted::Nothing }
    }

    /// Only the best member leads in a view, so the epoch is a term. An algorithm with timers of its own may elect another
    /// member when the best one is silent. That one waits for the next view.
    fn event(&mut self, event: election::Event, now: Now) -> Heard<P> {
        let election::Event::Elected { leader, .. } = event;
        self.leader = leader.filter(|_| leader == now.best);
        self.term = self.leader.map(|_| now.epoch);
        Heard::Nothing
    }

    /// The lowest member calls an election, because the leader of the view before may be gone.
    fn resume(&mut self, now: Now) -> Wanted<P> {
        let calls = core::mem::take(&mut self.calls) || (now.is_lowest && now.epoch > 1);
        if calls { Wanted::Command(election::Command::Elect) } else { Wanted::Nothing }
    }

    fn stop(&mut self, _: bool) -> Option<election::Event> {
        (self.leader, self.term) = (None, None);
        None
    }

    fn settle(&mut self) -> Option<election::Event> {
        let believed = self.leader.map(|leader| (leader, self.term));
        let is_new = core::mem::replace(&mut self.told, believed) != believed;
        is_new.then_some(election::Event::Elected { leader: self.leader, term: self.term })
    }

    fn view(&self) -> Picture {
        Picture::new().pointer("leader", self.leader).field("term", self.term)
    }
}
