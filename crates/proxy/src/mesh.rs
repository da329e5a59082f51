//! The proxies of a whole group.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::link::Direction;
use crate::{Counters, Proxy, Weather, mix};

/// A proxy for every ordered pair of members: what one dials to reach the other. A group uses both proxies of a pair,
/// or one of them if only one of the two members dials. Commands for two members go to both proxies.
pub struct Mesh {
    /// The address at which each member really listens.
    targets: Vec<String>,
    /// By the number of the dialling member, then of the other one. There is none from a member to itself.
    links: Vec<Vec<Option<Proxy>>>,
    /// Members that are cut off or unplugged.
    gone: Mutex<Vec<bool>>,
}

impl Mesh {
    /// `targets` are the addresses (`host:port`) at which the members listen. The members may be started later.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn start(targets: &[impl ToString], seed: u64) -> io::Result<Mesh> {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let size = targets.len();
        let link = |from: usize, to: usize| match from == to {
            true => Ok(None),
            false => Proxy::start(&targets[to], mix(seed, (from * size + to) as u64)).map(Some),
        };
        let links = (0..size)
            .map(|from| (0..size).map(|to| link(from, to)).collect::<io::Result<Vec<_>>>())
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Mesh { targets, links, gone: Mutex::new(vec![false; size]) })
    }

    pub fn size(&self) -> usize {
        self.targets.len()
    }

    /// The addresses for the group file of `member`: its own real one, and proxies to all others.
    pub fn addresses(&self, member: usize) -> Vec<String> {
        let own = || self.targets[member].clone();
        self.links[member]
            .iter()
            .map(|link| link.as_ref().map_or_else(own, |link| link.address().to_string()))
            .collect()
    }

    /// The proxy that `from` dials to reach `to`.
    ///
    /// # Panics
    ///
    /// Panics if the two are the same, or not in the group.
    pub fn link(&self, from: usize, to: usize) -> &Proxy {
        self.links[from][to].as_ref().expect("two different members")
    }

    pub fn links(&self) -> impl Iterator<Item = &Proxy> {
        self.links.iter().flatten().flatten()
    }

    /// The two proxies between two members.
    fn between(&self, one: usize, other: usize) -> [&Proxy; 2] {
        [self.link(one, other), self.link(other, one)]
    }

    fn others(&self, member: usize) -> impl Iterator<Item = usize> {
        (0..self.size()).filter(move |&other| other != member)
    }

    fn gone(&self) -> MutexGuard<'_, Vec<bool>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts all connections between two members, whoever dials.
    pub fn cut(&self, one: usize, other: usize) {
        self.between(one, other).into_iter().for_each(Proxy::cut);
    }

    /// All bytes between two members wait.
    pub fn hold(&self, one: usize, other: usize) {
        self.between(one, other).into_iter().for_each(Proxy::hold);
    }

    /// Resets the open connections between two members.
    pub fn reset(&self, one: usize, other: usize) {
        self.between(one, other).into_iter().for_each(Proxy::reset);
    }

    /// The bytes from one member to another wait. Bytes in the other direction pass.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        self.link(from, to).cut_one_way(Direction::Forward);
        self.link(to, from).cut_one_way(Direction::Backward);
    }

    /// Cuts a member off from all others.
    pub fn cut_off(&self, member: usize) {
        self.gone()[member] = true;
        self.others(member).for_each(|other| self.cut(member, other));
    }

    /// Pulls the cable of a member: all its connections are silent, and stay open.
    pub fn unplug(&self, member: usize) {
        self.gone()[member] = true;
        self.others(member).for_each(|other| self.hold(member, other));
    }

    /// Reopens the links of a member, except those to members that are themselves cut off or unplugged. Delays and
    /// weather stay.
    pub fn bring_back(&self, member: usize) {
        let mut gone = self.gone();
        gone[member] = false;
        for other in self.others(member).filter(|&other| !gone[other]) {
            self.between(member, other).into_iter().for_each(Proxy::reopen);
        }
    }

    /// Random faults on every link, from the seed of each link.
    pub fn weather(&self, weather: Weather) {
        self.links().for_each(|link| link.weather(weather));
    }

    /// Heals every link.
    pub fn heal(&self) {
        self.gone().fill(false);
        self.links().for_each(Proxy::heal);
    }

    /// The sum over all links.
    pub fn counters(&self) -> Counters {
        self.links().map(Proxy::counters).fold(Counters::default(), |sum, next| sum + next)
    }
}
