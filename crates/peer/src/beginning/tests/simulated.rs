//! Beginnings in virtual time: members start late, are killed and started again, stop, run twice, and lose their links at
//! any moment. The real handshake and the real conversation carry what they say.
//!
//! `BATON_BEGINNING_SEEDS=100000 cargo test -p baton-peer --lib simulated` runs more of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use tokio_util::bytes::BytesMut;

use self::mistakes::Mistake;
use super::{Agreed, Beginning, Entry, List, Past, Stage, Statement, Work};
use crate::frame::Cutter;
use crate::group::MemberId;
use crate::handshake::{Hello, Shake};
use crate::session::Session;

mod mistakes;
mod oracle;
mod wires;

const SEEDS: u64 = 400;

/// Times in milliseconds. Most faults happen before the first one; members are started again until the second one.
const FAULTS_UNTIL: u64 = 300;
const SUPERVISED_UNTIL: u64 = 4_000;
const END: u64 = 6_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start {
        id: MemberId,
    },
    /// Another process with an id that runs already.
    Double {
        id: MemberId,
    },
    Kill {
        id: MemberId,
    },
    /// A signal stops the member. Its client may have a lease.
    Stop {
        id: MemberId,
    },
    Cut {
        a: MemberId,
        b: MemberId,
    },
    Mend,
    /// The process can talk to nobody. Another process has its id, and all others start again.
    Replace {
        process: usize,
    },
    /// It can talk again, when the others have begun without it.
    Rejoin {
        process: usize,
    },
    Call {
        process: usize,
        peer: MemberId,
    },
    /// The oldest bytes arrive at this side of a connection.
    Arrive {
        connection: usize,
        side: usize,
    },
    /// This side notices that the connection is broken.
    Break {
        connection: usize,
        side: usize,
    },
    Synced {
        process: usize,
    },
    /// A client gets its first lease.
    Grant {
        process: usize,
    },
    /// The leases of generations before this one are over.
    Over {
        generation: u64,
    },
}

/// The file of a member that has none yet.
fn new_file(id: MemberId) -> Past {
    Past { generation: 0, ttl_max_ms: 40 + 10 * id as u64, held_nothing: true, group: 0 }
}

struct Process {
    id: MemberId,
    incarnation: u64,
    file: usize,
    /// What its file said at its start.
    read: Past,
    runs: bool,
    beginning: Beginning,
    /// One after the other; and when the last of them is durable.
    writing: VecDeque<Work>,
    synced_at: u64,
    said: Statement,
    sessions: Vec<Session>,
    /// By peer.
    connections: Vec<Option<usize>>,
    calls: u64,
    begun: Option<Agreed>,
    /// When its clients may get leases.
    opens: Option<u64>,
    has_lease: bool,
}

/// One side of a connection.
struct End {
    process: usize,
    ours: Hello,
    theirs: Option<Hello>,
    shake: Option<Shake>,
    resumed: bool,
    open: bool,
    cutter: Cutter,
    buffer: BytesMut,
    /// What is on its way to this side, and when the last of it arrives.
    incoming: VecDeque<Vec<u8>>,
    busy_until: u64,
}

struct World {
    /// A mistake that the oracle must find.
    mistake: Option<Mistake>,
    random: fastrand::Rng,
    now: u64,
    members: usize,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    /// What is durable, and for each id its files.
    files: Vec<Past>,
    files_of: Vec<Vec<usize>>,
    processes: Vec<Process>,
    connections: Vec<[End; 2]>,
    cut: Vec<Vec<bool>>,
    /// A process that can talk to nobody.
    apart: Option<usize>,
    /// Only this member may run twice, or lose its file: if all files are new, the group is another one.
    forgetful: MemberId,
    /// The list of each generation that began, and when a member first said READY with a list.
    begun: BTreeMap<u64, List>,
    /// Which incarnation began with which list, and when.
    begins: Vec<(u64, List, u64)>,
    ready: Vec<(List, u64)>,
    /// A process that has begun, and the connection on which another process of its list tells that it ends.
    owed: Vec<(usize, usize)>,
    /// A process that has begun, and has refused a later start of a member whose earlier start never began.
    lost: Vec<(usize, MemberId)>,
    /// When the first incarnation heard that the second one had begun.
    heard_begun: BTreeMap<(u64, u64), u64>,
    /// When each incarnation ended, or got a double.
    gone: BTreeMap<u64, u64>,
    torn: u64,
    refused: u64,
    items: u64,
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let members = [2, 3, 5][random.usize(..3)];
        let forgetful = random.usize(..members);
        let mut world = World {
            mistake,
            random,
            now: 0,
            members,
            queue: BinaryHeap::new(),
            scheduled: 0,
            files: (0..members).map(new_file).collect(),
            files_of: (0..members).map(|id| vec![id]).collect(),
            processes: Vec::new(),
            connections: Vec::new(),
            cut: vec![vec![false; members]; members],
            apart: None,
            forgetful,
            begun: BTreeMap::new(),
            begins: Vec::new(),
            ready: Vec::new(),
            owed: Vec::new(),
            lost: Vec::new(),
            heard_begun: BTreeMap::new(),
            gone: BTreeMap::new(),
            torn: 0,
            refused: 0,
            items: 0,
        };
        let late = [5, 50, FAULTS_UNTIL - 100][world.random.usize(..3)];
        for id in 0..members {
            let after = world.random.u64(..late);
            world.at(after, Event::Start { id });
        }
        // Many faults come together, soon after the last member has started.
        let (from, until) = [(0, FAULTS_UNTIL), (late, late + 100)][world.random.usize(..2)];
        for _ in 0..world.random.usize(..8) {
            let (at, id) = (world.random.u64(from..until), world.random.usize(..members));
            let b = (id + world.random.usize(1..members)) % members;
            let event = match world.random.u8(..10) {
                0..4 => Event::Kill { id },
                4 => Event::Stop { id },
                5 => Event::Double { id: forgetful },
                _ => Event::Cut { a: id, b },
            };
            world.at(at, event);
        }
        world.at(FAULTS_UNTIL + 100, Event::Mend);
        world
    }

    fn at(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.queue.push(Reverse((at.max(self.now), self.scheduled, event)));
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn after(&mut self, max: u64, event: Event) {
        let at = self.now + self.random.u64(..=max);
        self.at(at, event);
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, event))) = self.queue.pop()
            && at < END
        {
            self.now = at;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start { id } => {
                if self.runs(id).is_empty() && self.now < SUPERVISED_UNTIL {
                    if id == self.forgetful && self.random.u8(..8) == 0 {
                        self.files_of[id] = vec![self.files.len()];
                        self.files.push(new_file(id));
                    }
                    let file = self.random.choice(self.files_of[id].clone()).unwrap();
                    self.start(id, file);
                }
            }
            Event::Double { id } => {
                let earlier = self.runs(id).pop();
                self.double(id);
                if let Some(earlier) = earlier.filter(|_| self.apart.is_none() && self.random.bool()) {
                    self.part(earlier);
                }
            }
            Event::Kill { id } => self.runs(id).into_iter().for_each(|process| self.gone(process)),
            Event::Stop { id } => {
                for process in self.runs(id) {
                    let (file, keeps) = (self.processes[process].file, self.random.bool());
                    let Process { has_lease, opens, .. } = &mut self.processes[process];
                    *has_lease &= keeps;
                    if !*has_lease && opens.is_some_and(|opens| opens <= self.now) {
                        self.files[file].held_nothing = true;
                    }
                    self.gone(process);
                }
            }
            Event::Cut { a, b } => {
                (self.cut[a][b], self.cut[b][a]) = (true, true);
                for connection in 0..self.connections.len() {
                    let ids = self.ids(connection);
                    if ids == [a, b] || ids == [b, a] {
                        self.lose(connection);
                    }
                }
            }
            Event::Mend => self.cut = vec![vec![false; self.members]; self.members],
            Event::Rejoin { process } => drop(self.apart.take_if(|apart| *apart == process)),
            Event::Replace { process } => self.replace(process),
            Event::Call { process, peer } => self.call(process, peer),
            Event::Arrive { connection, side } => self.arrive(connection, side),
            Event::Break { connection, side } => self.close(connection, side),
            Event::Synced { process } => self.synced(process),
            Event::Grant { process } => {
                let Process { runs: true, file, .. } = self.processes[process] else { return };
                self.files[file].held_nothing = false;
                self.processes[process].has_lease = true;
            }
            Event::Over { generation } => {
                let is_earlier = |begun: Agreed| begun.generation < generation;
                let earlier = self.processes.iter_mut().filter(|process| process.begun.is_some_and(is_earlier));
                earlier.for_each(|process| process.has_lease = false);
            }
        }
    }

    fn runs(&self, id: MemberId) -> Vec<usize> {
        (0..self.processes.len()).filter(|&at| self.processes[at].runs && self.processes[at].id == id).collect()
    }

    fn double(&mut self, id: MemberId) {
        for process in self.runs(id) {
            // Others may meet the double at any time.
            self.gone.entry(self.processes[process].incarnation).or_insert(END);
        }
        // A process cannot use the folder of another one that runs.
        let file = self.files.len();
        self.files.push(new_file(id));
        self.files_of[id].push(file);
        self.start(id, file);
    }

    /// The process can talk to nobody for a while.
    fn part(&mut self, process: usize) {
        self.apart = Some(process);
        self.at(self.now + 1_500, Event::Rejoin { process });
        let is_apart = |connection: &usize| self.connections[*connection].iter().any(|end| end.process == process);
        let connections: Vec<usize> = (0..self.connections.len()).filter(is_apart).collect();
        connections.into_iter().for_each(|connection| self.lose(connection));
    }

    fn replace(&mut self, process: usize) {
        let Process { id, runs: true, .. } = self.processes[process] else { return };
        match self.apart {
            // The earlier one takes its place.
            Some(other) if self.runs(id).contains(&other) => {}
            _ => self.double(id),
        }
        self.part(process);
        (0..self.members).filter(|&other| other != id).for_each(|id| self.after(30, Event::Kill { id }));
    }

    fn ids(&self, connection: usize) -> [MemberId; 2] {
        [0, 1].map(|side| self.processes[self.connections[connection][side].process].id)
    }

    fn start(&mut self, id: MemberId, file: usize) {
        let incarnation = 1000 * self.now + self.processes.len() as u64 + 1;
        let past = if self.makes(Mistake::ReadsNoFile) { new_file(id) } else { self.files[file] };
        let beginning = Beginning::new(id, self.members, Entry { incarnation, past }, false);
        let mut sessions: Vec<Session> = (0..self.members).map(|_| Session::default()).collect();
        sessions.iter_mut().for_each(|session| session.say(&beginning.statement()).unwrap());
        let process = self.processes.len();
        self.processes.push(Process {
            id,
            incarnation,
            file,
            read: past,
            runs: true,
            said: beginning.statement(),
            beginning,
            writing: VecDeque::new(),
            synced_at: 0,
            sessions,
            connections: vec![None; self.members],
            calls: 0,
            begun: None,
            opens: None,
            has_lease: false,
        });
        (0..id).for_each(|peer| self.after(10, Event::Call { process, peer }));
    }

    /// The process ends. A supervisor starts it again later.
    fn gone(&mut self, process: usize) {
        self.processes[process].runs = false;
        let Process { id, incarnation, .. } = self.processes[process];
        self.gone.entry(incarnation).or_insert(self.now);
        for connection in 0..self.connections.len() {
            for side in [0, 1] {
                if self.connections[connection][side].process == process {
                    self.close(connection, side);
                }
            }
        }
        let after = if self.random.bool() { 20 } else { 400 };
        self.after(after, Event::Start { id });
    }

    /// Does what a step of the beginning asks for.
    fn look(&mut self, at: usize) {
        if !self.processes[at].runs {
            return;
        }
        if let Some(mistake) = self.mistake {
            let Process { beginning, read, .. } = &mut self.processes[at];
            mistakes::distort(mistake, beginning, *read);
        }
        let statement = mistakes::said(self.mistake, &self.processes[at].beginning);
        if let Stage::Ready { .. } = statement.stage
            && self.ready.iter().all(|(list, _)| *list != statement.list)
        {
            self.ready.push((statement.list.clone(), self.now));
        }
        let is_silent = statement.stage == Stage::Ended && self.makes(Mistake::EndsSilently);
        if self.processes[at].said != statement && !is_silent {
            self.processes[at].said = statement.clone();
            self.strike(statement.stage);
            for peer in 0..self.members {
                self.processes[at].sessions[peer].say(&statement).unwrap();
                self.fill(at, peer);
            }
        }
        for peer in self.processes[at].beginning.take_outdated() {
            if let Some(connection) = self.processes[at].connections[peer]
                && !self.makes(Mistake::KeepsOutdated)
            {
                let side = usize::from(self.connections[connection][1].process == at);
                self.close(connection, side);
            }
        }
        if let Some(work) = self.processes[at].beginning.take_work() {
            let synced_at = self.processes[at].synced_at.max(self.now + self.random.u64(..=30));
            self.processes[at].writing.push_back(work);
            self.processes[at].synced_at = synced_at;
            self.at(synced_at, Event::Synced { process: at });
        }
        if self.processes[at].begun.is_none()
            && let Some(agreed) = self.processes[at].beginning.begun()
        {
            let wait_ms = if self.makes(Mistake::DoesNotWait) { 0 } else { agreed.wait_ms };
            self.begins(at, Agreed { wait_ms, ..agreed }, statement.list.clone());
        }
        if self.processes[at].beginning.ended().is_some() {
            self.ends(at);
        }
    }

    /// The most delicate moment is when some members are READY or have begun, and others have not.
    fn strike(&mut self, stage: Stage) {
        if self.now < FAULTS_UNTIL && stage != Stage::Gathering && self.random.u8(..6) == 0 {
            let id = self.random.usize(..self.members);
            let b = (id + self.random.usize(1..self.members)) % self.members;
            self.after(5, Event::Cut { a: id, b });
            self.after(15, Event::Kill { id });
            self.after(25, Event::Start { id });
        }
    }

    fn synced(&mut self, at: usize) {
        let Some(work) = self.processes[at].writing.pop_front() else { return };
        if !self.processes[at].runs {
            // Killed in the middle: the new content may be in the file, or the old one.
            if self.random.bool() {
                self.processes[at].writing.clear();
            } else {
                self.write_file(at, work.past);
            }
            return;
        }
        if !self.makes(Mistake::DoesNotWrite) {
            self.write_file(at, work.past);
        }
        self.processes[at].beginning.written(work);
        self.look(at);
    }

    fn write_file(&mut self, at: usize, past: Past) {
        let file = self.processes[at].file;
        // A later start of the member has the file.
        if self.processes.iter().skip(at + 1).all(|later| later.file != file) {
            self.files[file] = past;
        }
    }
}

#[derive(Debug, Default)]
struct Totals {
    whole: u64,
    torn: u64,
    refused: u64,
    later_generations: u64,
    waits: u64,
    lost: u64,
}

#[test]
fn a_group_begins_once_whatever_happens_before_during_and_after() {
    let seeds = std::env::var("BATON_BEGINNING_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let mut totals = Totals::default();
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, None);
            world.run();
            (world.judge(), world)
        });
        let Ok((is_whole, world)) = outcome else { panic!("seed {seed}") };
        assert!(!is_whole || world.items > 0);
        totals.whole += u64::from(is_whole);
        totals.torn += u64::from(world.torn > 0);
        totals.refused += u64::from(world.refused > 0);
        totals.later_generations += u64::from(world.begun.len() > 1);
        totals.lost += u64::from(!world.lost.is_empty());
        totals.waits += u64::from(world.processes.iter().any(|process| process.begun.is_some_and(|b| b.wait_ms > 0)));
    }
    eprintln!("{seeds} seeds: {totals:?}");
    let rarest = [totals.whole, totals.torn, totals.refused, totals.later_generations, totals.waits, totals.lost];
    assert!(rarest.into_iter().all(|count| count > seeds / 400), "the faults are too tame: {totals:?}");
}
