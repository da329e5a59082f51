//! The resources of one member, by name. Each is made on its first use at any member.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use baton_protocol::detector::{Beater, Detector as DetectorProtocol};
use baton_protocol::election::Election as ElectionProtocol;
use baton_protocol::mutex::Mutex as MutexProtocol;
use baton_protocol::registry::{self, About, Visitor};
use baton_protocol::{Group, Start};

use crate::detector::{Detector, Watch};
use crate::driver::Stats;
use crate::election::{Election, Watchers};
use crate::frame::{self, Envelope};
use crate::group::{GroupError, MemberId, PeerGroup};
use crate::handshake::LinkError;
use crate::lock::{AcquireError, Callers, Lock};
use crate::resource::{AnyResource, Resource};
use crate::wires::{PeerError, Touched, Wires};

/// The longest name of a resource.
pub const NAME_BYTES_MAX: usize = 512;

/// The names of resources that the callers of one member were the first to use. Their number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    pub taken: usize,
    pub max: usize,
}

/// What a program uses of a resource.
#[derive(Clone)]
pub(crate) enum Face {
    Lock(Lock),
    Election(Election),
    Detector(Detector),
}

struct Made {
    resource: Arc<dyn AnyResource>,
    face: Face,
}

/// Makes the resource with this number.
type Make = Box<dyn Fn(u32) -> Made + Send + Sync>;

pub(crate) struct Resources {
    group: PeerGroup,
    wires: Arc<Wires>,
    make: Make,
    resources_max: usize,
    table: RwLock<Table>,
}

struct Table {
    by_name: HashMap<Box<[u8]>, u32>,
    /// By number.
    made: Vec<Made>,
    /// For each other member, its numbers of resources, and ours.
    theirs: Vec<Vec<u32>>,
    /// How many resources the callers of this member opened. It only grows.
    opened: usize,
    suspected: BTreeSet<MemberId>,
}

impl Resources {
    pub fn new(group: &PeerGroup, wires: Arc<Wires>, resources_max: usize) -> Result<Self, GroupError> {
        let maker = Maker { peers: group.clone(), wires: wires.clone() };
        let make = registry::visit(group.about().name, &group.params(), maker)?;
        let table = Table {
            by_name: HashMap::new(),
            made: Vec::new(),
            theirs: vec![Vec::new(); group.members()],
            opened: 0,
            suspected: BTreeSet::new(),
        };
        Ok(Resources { group: group.clone(), wires, make: make?, resources_max, table: RwLock::new(table) })
    }

    /// The resource with this name, for a caller of this member.
    pub fn open(&self, name: &[u8]) -> Result<Face, AcquireError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(AcquireError::LongName { bytes: name.len(), limit: NAME_BYTES_MAX });
        }
        let known = |table: &Table| table.by_name.get(name).map(|&number| table.made[number as usize].face.clone());
        if let Some(face) = known(&self.read()) {
            return Ok(face);
        }
        let mut table = self.write();
        if let Some(face) = known(&table) {
            return Ok(face);
        }
        if let Some(error) = self.wires.failed.borrow().clone() {
            return Err(error.into());
        }
        if let Some(peer) = self.wires.congested() {
            return Err(AcquireError::Congested { peer });
        }
        if table.opened >= self.resources_max {
            return Err(AcquireError::TooManyResources { limit: self.resources_max });
        }
        table.opened += 1;
        let number = self.add(&mut table, name);
        Ok(table.made[number as usize].face.clone())
    }

    /// Another member has made its processes of a resource. Its next number stands for this one.
    pub fn opened_by(&self, peer: MemberId, name: &[u8]) -> Result<(), LinkError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(LinkError::LongName { bytes: name.len(), limit: NAME_BYTES_MAX });
        }
        let mut table = self.write();
        let number = match table.by_name.get(name) {
            Some(&number) => number,
            None => {
                // Every member may open `resources_max` at the same time as the others.
                let limit = self.resources_max.saturating_mul(self.group.members());
                if table.made.len() >= limit {
                    return Err(LinkError::TooManyResources { limit });
                }
                self.add(&mut table, name)
            }
        };
        table.theirs[peer].push(number);
        Ok(())
    }

    /// Passes a message of another member to its resource.
    pub fn deliver(&self, peer: MemberId, envelope: &Envelope<'_>, touched: &mut Touched) -> Result<(), LinkError> {
        let &Envelope { from, to, id, resource, .. } = envelope;
        let is_theirs = from < self.group.processes() && self.group.carrier(from) == peer;
        if !is_theirs || frame::maker_of(id) != peer {
            return Err(LinkError::Foreign { id, from, to });
        }
        let resource = {
            let table = self.read();
            let number = table.theirs[peer].get(resource as usize).ok_or(LinkError::NotOpen { resource })?;
            table.made[*number as usize].resource.clone()
        };
        resource.deliver(envelope, touched)
    }

    /// A later incarnation of a member begins: it knows no resource, and all of them are new to it.
    pub fn restarted(&self, peer: MemberId) {
        let mut table = self.write();
        table.theirs[peer].clear();
        let mut names: Vec<_> = table.by_name.iter().map(|(name, &number)| (number, name.clone())).collect();
        names.sort_unstable();
        self.wires.restart(peer, names.iter().map(|(_, name)| &**name));
        for made in &table.made {
            let processes = self.group.carried_by(peer);
            processes.for_each(|process| made.resource.restarted(process));
        }
        // The member was down for a moment at least. If it is suspected already, the first report that it is heard of
        // tells its processes.
        if self.group.bears_wrong_suspicions() && !table.suspected.contains(&peer) {
            self.tell_suspicion(&table, peer, true);
            self.tell_suspicion(&table, peer, false);
        }
    }

    /// A member is silent, or is heard of again.
    pub fn suspect(&self, peer: MemberId, suspected: bool) {
        let mut table = self.write();
        let is_new = if suspected { table.suspected.insert(peer) } else { table.suspected.remove(&peer) };
        if is_new {
            // First, so that what the processes send now is treated as what they send later.
            self.wires.links[peer].iter().for_each(|link| link.keep(!suspected));
            self.tell_suspicion(&table, peer, suspected);
        }
    }

    /// The member serves no longer.
    pub fn stop(&self, error: &PeerError) {
        let resources: Vec<_> = self.read().made.iter().map(|made| made.resource.clone()).collect();
        resources.into_iter().for_each(|resource| resource.stop(error));
    }

    /// Whether a caller of this member is inside of this resource.
    pub fn is_inside(&self, name: &[u8]) -> bool {
        let resource = {
            let table = self.read();
            table.by_name.get(name).map(|&number| table.made[number as usize].resource.clone())
        };
        resource.is_some_and(|resource| resource.is_inside())
    }

    pub fn names(&self) -> Names {
        Names { taken: self.read().opened, max: self.resources_max }
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.read().made.iter().for_each(|made| stats.add(&made.resource.stats()));
        stats
    }

    /// Makes the resource. The other members learn of it in the order of numbers, because the table is locked. Lock
    /// order: the table, then a resource, then a link.
    fn add(&self, table: &mut Table, name: &[u8]) -> u32 {
        let number = u32::try_from(table.made.len()).expect("the limits on resources are far lower");
        let mut touched = Touched::default();
        self.wires.journal_name(name);
        self.wires.open(name, &mut touched);
        let made = (self.make)(number);
        made.resource.clone().start(Start::Fresh);
        let suspected = table.suspected.iter().flat_map(|&peer| self.group.carried_by(peer));
        suspected.for_each(|process| made.resource.clone().suspect(process, true));
        table.made.push(made);
        table.by_name.insert(name.into(), number);
        self.wires.flush(&mut touched);
        number
    }

    fn tell_suspicion(&self, table: &Table, peer: MemberId, suspected: bool) {
        for made in &table.made {
            let processes = self.group.carried_by(peer);
            processes.for_each(|process| made.resource.clone().suspect(process, suspected));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // A poisoned lock is harmless: no code panics in the middle of a change.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Visits the registry for the function that makes resources, whatever the algorithm is.
struct Maker {
    peers: PeerGroup,
    wires: Arc<Wires>,
}

impl Visitor for Maker {
    type Output = Result<Make, GroupError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(GroupError::Unsupported { algorithm: about.name })
    }

    fn mutex<P: MutexProtocol>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Ok(Box::new(move |number| {
            let resource = Resource::new(number, &group, &self.peers, self.wires.clone(), Callers::default());
            Made { face: Face::Lock(Lock::new(resource.clone())), resource }
        }))
    }

    fn election<P: ElectionProtocol>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Ok(Box::new(move |number| {
            let resource = Resource::new(number, &group, &self.peers, self.wires.clone(), Watchers::default());
            Made { face: Face::Election(Election::new(resource.clone())), resource }
        }))
    }

    fn detector<D: DetectorProtocol>(self, _: &'static About, group: Group<D>) -> Self::Output {
        let (me, processes) = (self.wires.me, group.processes);
        let make = group.make;
        let period = make(me).period();
        let beaters = Group::new(processes, processes, move |id| Beater::new(id, processes, period));
        Ok(Box::new(move |number| {
            let watch = Watch::new(me, processes, &make);
            let resource = Resource::new(number, &beaters, &self.peers, self.wires.clone(), watch);
            Made { face: Face::Detector(Detector::new(&*resource)), resource }
        }))
    }
}
