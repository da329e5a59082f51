//! Beginnings in virtual time: members start late, are killed and started again, stop, run twice, and lose their links at
//! any moment. The real handshake and the real conversation carry what they say.
//!
//! `BATON_BEGINNING_SEEDS=100000 cargo test -p baton-peer --lib simulated` runs more of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use tokio_util::bytes::BytesMut;

use super::{Agreed, Beginning, Entry, List, Past, Stage, Statement, Work};
use crate::frame::{self, Cutter, Frame, Greeting, Item, decode_exactly};
use crate::group::MemberId;
use crate::handshake::{Hello, LinkError, Met, Shake, Side, check_answer, check_caller, hello_of};
use crate::session::Session;

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
}

struct Process {
    id: MemberId,
    incarnation: u64,
    file: usize,
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
    fn new(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let members = [2, 3, 5][random.usize(..3)];
        let files =
            (0..members).map(|_| Past { generation: 0, ttl_max_ms: 60, held_nothing: true, group: 0 }).collect();
        let mut world = World {
            random,
            now: 0,
            members,
            queue: BinaryHeap::new(),
            scheduled: 0,
            files,
            files_of: (0..members).map(|id| vec![id]).collect(),
            processes: Vec::new(),
            connections: Vec::new(),
            cut: vec![vec![false; members]; members],
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
        // A second start of each member in a new folder would be another group.
        let doubled = world.random.usize(..members);
        for _ in 0..world.random.usize(..8) {
            let (at, id) = (world.random.u64(from..until), world.random.usize(..members));
            let b = (id + world.random.usize(1..members)) % members;
            let event = match world.random.u8(..10) {
                0..4 => Event::Kill { id },
                4 => Event::Stop { id },
                5 => Event::Double { id: doubled },
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
                    let file = self.random.choice(self.files_of[id].clone()).unwrap();
                    self.start(id, file);
                }
            }
            Event::Double { id } => {
                for process in self.runs(id) {
                    // Others may meet the double at any time.
                    self.gone.entry(self.processes[process].incarnation).or_insert(END);
                }
                // A process cannot use the folder of another one that runs.
                let file = self.files.len();
                self.files.push(Past { generation: 0, ttl_max_ms: 60, held_nothing: true, group: 0 });
                self.files_of[id].push(file);
                self.start(id, file);
            }
            Event::Kill { id } => self.runs(id).into_iter().for_each(|process| self.gone(process)),
            Event::Stop { id } => {
                for process in self.runs(id) {
                    let (file, keeps) = (self.processes[process].file, self.random.bool());
                    if self.processes[process].has_lease && !keeps {
                        self.processes[process].has_lease = false;
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
            Event::Call { process, peer } => self.call(process, peer),
            Event::Arrive { connection, side } => self.arrive(connection, side),
            Event::Break { connection, side } => self.close(connection, side),
            Event::Synced { process } => self.synced(process),
            Event::Grant { process } => {
                let Process { runs: true, file, .. } = self.processes[process] else { return };
                self.files[file].held_nothing = false;
                self.processes[process].has_lease = true;
            }
        }
    }

    fn runs(&self, id: MemberId) -> Vec<usize> {
        (0..self.processes.len()).filter(|&at| self.processes[at].runs && self.processes[at].id == id).collect()
    }

    fn ids(&self, connection: usize) -> [MemberId; 2] {
        [0, 1].map(|side| self.processes[self.connections[connection][side].process].id)
    }

    fn start(&mut self, id: MemberId, file: usize) {
        let incarnation = 1000 * self.now + self.processes.len() as u64 + 1;
        let beginning = Beginning::new(id, self.members, Entry { incarnation, past: self.files[file] }, false);
        let mut sessions: Vec<Session> = (0..self.members).map(|_| Session::default()).collect();
        sessions.iter_mut().for_each(|session| session.say(&beginning.statement()).unwrap());
        let process = self.processes.len();
        self.processes.push(Process {
            id,
            incarnation,
            file,
            runs: true,
            said: beginning.statement(),
            beginning,
            writing: VecDeque::new(),
            synced_at: 0,
            sessions,
            connections: vec![None; self.members],
            calls: 0,
            begun: None,
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

    /// What was written before arrives first.
    fn hang_up(&mut self, connection: usize, side: usize) {
        let at = self.connections[connection][side].busy_until + self.random.u64(..20);
        self.at(at, Event::Break { connection, side });
    }

    /// The link is cut: both sides notice at different times, and what was on its way is lost.
    fn lose(&mut self, connection: usize) {
        self.owed.retain(|&(_, told_on)| told_on != connection);
        for side in [0, 1] {
            self.connections[connection][side].incoming.clear();
            self.after(60, Event::Break { connection, side });
        }
    }

    /// Of two members, the one with the higher id calls.
    fn call(&mut self, process: usize, peer: MemberId) {
        if !self.processes[process].runs {
            return;
        }
        self.after(40, Event::Call { process, peer });
        let id = self.processes[process].id;
        let Some(called) = self.random.choice(self.runs(peer)) else { return };
        if self.processes[process].connections[peer].is_some() || self.cut[id][peer] {
            return;
        }
        self.processes[process].calls += 1;
        let (calls, incarnation) = (self.processes[process].calls, self.processes[process].incarnation);
        let generation = self.processes[process].beginning.generation();
        let ours = Hello { incarnation, connection: calls, generation, ..hello_of(self.members, id, peer) };
        let Process { incarnation, ref beginning, .. } = self.processes[called];
        let generation = beginning.generation();
        let answer = Hello { incarnation, generation, ..hello_of(self.members, peer, usize::MAX) };
        let side = |process, ours: &Hello, side| End {
            process,
            ours: ours.clone(),
            theirs: None,
            shake: Some(Shake::new(side, ours.clone())),
            resumed: false,
            open: true,
            cutter: Cutter::new(),
            buffer: BytesMut::new(),
            incoming: VecDeque::new(),
            busy_until: 0,
        };
        let connection = self.connections.len();
        self.connections.push([side(process, &ours, Side::Caller), side(called, &answer, Side::Called)]);
        // While it shakes hands, the caller makes no other call.
        self.processes[process].connections[peer] = Some(connection);
        self.write(connection, 0, &Greeting::Hello(ours));
    }

    fn write(&mut self, connection: usize, side: usize, value: &impl serde::Serialize) {
        let mut bytes = Vec::new();
        frame::encode_to(&mut bytes, value).unwrap();
        self.send(connection, side, bytes);
    }

    fn send(&mut self, connection: usize, side: usize, bytes: Vec<u8>) {
        let [a, b] = self.ids(connection);
        if bytes.is_empty() || self.cut[a][b] || !self.connections[connection][1 - side].open {
            return;
        }
        let slow = if self.random.u8(..10) == 0 { 50 } else { 5 };
        let at = (self.now + self.random.u64(1..=slow)).max(self.connections[connection][1 - side].busy_until);
        let to = &mut self.connections[connection][1 - side];
        to.incoming.push_back(bytes);
        to.busy_until = at;
        self.at(at, Event::Arrive { connection, side: 1 - side });
    }

    /// This side uses the connection no longer.
    fn close(&mut self, connection: usize, side: usize) {
        let End { process, open: true, .. } = self.connections[connection][side] else { return };
        self.connections[connection][side].open = false;
        let peer = self.ids(connection)[1 - side];
        let process = &mut self.processes[process];
        if process.runs && process.connections[peer] == Some(connection) {
            process.connections[peer] = None;
        }
        self.hang_up(connection, 1 - side);
    }

    fn arrive(&mut self, connection: usize, side: usize) {
        let end = &mut self.connections[connection][side];
        let Some(bytes) = end.incoming.pop_front().filter(|_| end.open) else { return };
        end.buffer.extend_from_slice(&bytes);
        while self.connections[connection][side].open {
            let End { cutter, buffer, shake, process, .. } = &mut self.connections[connection][side];
            let (process, shakes) = (*process, shake.is_some());
            let Some(frame) = cutter.cut(buffer).unwrap() else { break };
            let step = if shakes { self.shake(connection, side, &frame) } else { self.talk(connection, side, &frame) };
            match step {
                Ok(()) => self.look(process),
                Err(error) => self.failed(connection, side, process, &error),
            }
        }
    }

    fn failed(&mut self, connection: usize, side: usize, process: usize, error: &LinkError) {
        assert!(!error.is_fault(), "{error}");
        self.close(connection, side);
        let has_begun = self.processes[process].begun.is_some();
        match error {
            error if error.refuses_restart() => {
                let id = self.ids(connection)[1 - side];
                self.refuses_restart(process, id);
                self.processes[process].beginning.refused_restart(id);
                self.look(process);
            }
            error if error.ends_membership() => self.gone(process),
            error if !has_begun && error.keeps_from_joining() => {
                self.refused += 1;
                self.gone(process);
            }
            _ => {}
        }
    }

    fn refuses_restart(&mut self, process: usize, id: MemberId) {
        let list = self.processes[process].beginning.statement().list;
        let earlier = list[id].map(|entry| entry.incarnation);
        let mut of_list = self.processes.iter().filter(|process| Some(process.incarnation) == earlier);
        if of_list.all(|process| !process.runs && process.begun.is_none()) {
            self.lost.push((process, id));
        }
    }

    /// A greeting arrives. As `link` and `reception` do it.
    fn shake(&mut self, connection: usize, side: usize, frame: &[u8]) -> Result<(), LinkError> {
        let greeting = decode_exactly(frame, "a greeting").unwrap();
        let End { process, ours, shake, .. } = &mut self.connections[connection][side];
        let beginning = &self.processes[*process].beginning;
        let check = if side == 0 { check_answer } else { check_caller };
        let judge = |theirs: &Hello| check(ours, theirs).and_then(|()| beginning.judge(theirs).map(drop));
        let shaken = shake.as_mut().unwrap().receive(greeting, judge);
        shaken.answers.iter().for_each(|answer| self.write(connection, side, answer));
        let Some(theirs) = shaken.outcome.transpose()? else { return Ok(()) };
        self.connections[connection][side].shake = None;
        self.connections[connection][side].theirs = Some(theirs.clone());
        self.begin(connection, side, &theirs)
    }

    fn begin(&mut self, connection: usize, side: usize, theirs: &Hello) -> Result<(), LinkError> {
        let process = self.connections[connection][side].process;
        let peer = theirs.from;
        self.processes[process].beginning.judge(theirs).map_err(LinkError::Refused)?;
        if let Some(earlier) = self.processes[process].connections[peer].replace(connection)
            && earlier != connection
        {
            let side = usize::from(self.connections[earlier][1].process == process);
            self.connections[earlier][side].open = false;
            self.hang_up(earlier, 1 - side);
        }
        let met = self.processes[process].beginning.meet(theirs).map_err(LinkError::Refused)?;
        self.look(process);
        if !self.processes[process].runs {
            return Ok(());
        }
        if met == Met::Later {
            self.processes[process].sessions[peer].begin_anew();
        }
        let received = self.processes[process].sessions[peer].received();
        self.write(connection, side, &Frame::Resume { received });
        Ok(())
    }

    /// A frame arrives after the handshake. As `link` and `member` do it.
    fn talk(&mut self, connection: usize, side: usize, frame: &[u8]) -> Result<(), LinkError> {
        let End { process, theirs, resumed, .. } = &mut self.connections[connection][side];
        let (at, peer) = (*process, theirs.as_ref().unwrap().from);
        let process = &mut self.processes[at];
        if process.connections[peer] != Some(connection) {
            return Ok(());
        }
        match decode_exactly(frame, "a frame")? {
            Frame::Resume { received } => {
                assert!(!std::mem::replace(resumed, true));
                process.sessions[peer].resume(received)?;
                self.fill(at, peer);
            }
            Frame::Statement(statement) => {
                if let (Stage::Begun { .. }, Some(entry)) = (statement.stage, statement.list[peer]) {
                    self.heard_begun.entry((process.incarnation, entry.incarnation)).or_insert(self.now);
                }
                process.beginning.hear(peer, statement).unwrap();
            }
            Frame::Item { number, item: Item::Open { name } } => {
                assert!(process.beginning.takes_items(), "an item before the beginning");
                if process.sessions[peer].receive(number, frame.len())? {
                    let generation = process.begun.map(|begun| begun.generation);
                    assert_eq!(name, generation.unwrap().to_le_bytes(), "an item of another generation");
                    self.items += 1;
                }
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    /// Does what a step of the beginning asks for.
    fn look(&mut self, at: usize) {
        if !self.processes[at].runs {
            return;
        }
        let statement = self.processes[at].beginning.statement();
        if let Stage::Ready { .. } = statement.stage
            && self.ready.iter().all(|(list, _)| *list != statement.list)
        {
            self.ready.push((statement.list.clone(), self.now));
        }
        if self.processes[at].said != statement {
            self.processes[at].said = statement.clone();
            self.strike(statement.stage);
            for peer in 0..self.members {
                self.processes[at].sessions[peer].say(&statement).unwrap();
                self.fill(at, peer);
            }
        }
        for peer in self.processes[at].beginning.take_outdated() {
            if let Some(connection) = self.processes[at].connections[peer] {
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
            self.begins(at, agreed, statement.list.clone());
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
        self.write_file(at, work.past);
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

    fn begins(&mut self, at: usize, agreed: Agreed, list: List) {
        self.processes[at].begun = Some(agreed);
        self.begins.push((self.processes[at].incarnation, list.clone(), self.now));
        let earlier = self.begun.entry(agreed.generation).or_insert_with(|| list.clone());
        assert_eq!(*earlier, list, "two beginnings of generation {}", agreed.generation);
        for entry in list.iter().flatten() {
            let Some(process) = self.processes.iter().find(|process| process.incarnation == entry.incarnation) else {
                panic!("a member that nobody started")
            };
            let file = self.files[process.file];
            assert!(file.generation >= agreed.generation, "process {} did not write", process.id);
            assert!(entry.past.generation < agreed.generation);
        }
        // The clients of earlier generations may believe in their leases, whether their member lives or not.
        let is_earlier = |process: &&Process| process.begun.is_some_and(|begun| begun.generation < agreed.generation);
        let lease = self.processes.iter().filter(is_earlier).find(|process| process.has_lease);
        if let Some(process) = lease {
            assert!(agreed.wait_ms >= 60, "a client of process {} may have a lease", process.id);
        }
        let me = self.processes[at].id;
        for peer in (0..self.members).filter(|&peer| peer != me) {
            let item = Item::Open { name: &agreed.generation.to_le_bytes() };
            self.processes[at].sessions[peer].push(item).unwrap();
            self.fill(at, peer);
        }
        self.after(100, Event::Grant { process: at });
    }

    /// The member is told that the group can never begin.
    fn ends(&mut self, at: usize) {
        self.torn += 1;
        // A process ended, or got a double, after a member had said READY with a list, and before all had begun with it and
        // had heard that this process had begun.
        let is_torn = |(list, ready): &(List, u64)| {
            let incarnations = || list.iter().flatten().map(|entry| entry.incarnation);
            let has_begun = |incarnation: u64, before: u64| {
                let begins = self.begins.iter().find(|(of, with, _)| *of == incarnation && with == list);
                begins.is_some_and(|&(_, _, at)| at < before)
            };
            let knows = |incarnation, of, before: u64| {
                incarnation == of || self.heard_begun.get(&(incarnation, of)).is_some_and(|&at| at < before)
            };
            let is_lost = |lost: u64| {
                let at = self.gone.get(&lost).copied().filter(|at| at >= ready);
                at.is_some_and(|at| !incarnations().all(|other| has_begun(other, at) && knows(other, lost, at)))
            };
            self.begun.values().any(|begun| begun == list) && incarnations().any(is_lost)
        };
        assert!(self.ready.iter().any(is_torn), "process {} ended without a reason", self.processes[at].id);
        // The processes that have begun with it hear that it ends, if they can talk.
        for connection in self.processes[at].connections.clone().into_iter().flatten() {
            let side = usize::from(self.connections[connection][1].process == at);
            let [ours, theirs] = [side, 1 - side].map(|side| &self.connections[connection][side]);
            let (other, incarnation) = (&self.processes[theirs.process], self.processes[at].incarnation);
            let list = other.beginning.statement().list;
            let has_begun = other.begun.is_some() && list.iter().flatten().any(|e| e.incarnation == incarnation);
            let can_talk = [ours, theirs].iter().all(|end| end.open && end.resumed);
            if has_begun && can_talk && other.connections[self.processes[at].id] == Some(connection) {
                self.owed.push((theirs.process, connection));
            }
        }
        self.gone(at);
    }

    fn fill(&mut self, at: usize, peer: MemberId) {
        let Some(Some(connection)) = self.processes[at].connections.get(peer).copied() else { return };
        let side = usize::from(self.connections[connection][1].process == at);
        if self.connections[connection][side].resumed {
            let mut out = BytesMut::new();
            self.processes[at].sessions[peer].fill(&mut out, usize::MAX);
            self.send(connection, side, out.to_vec());
        }
    }

    /// Whether the whole group runs. Whoever does not was told.
    fn judge(&self) -> bool {
        // Of two processes with one id, one may be connected with no process of the group. It is no part of the group, and
        // ends when its `start_within` is over. If it has begun with earlier starts of the others, it ends when it calls the
        // present ones. Process 0 calls nobody.
        let generation = |at: usize| self.processes[at].begun.map_or(0, |begun| begun.generation);
        let is_in = |connection: &usize| {
            self.connections[*connection].iter().any(|end| self.processes[end.process].begun.is_some())
        };
        let is_alone = |at: usize| !self.processes[at].connections.iter().flatten().any(is_in);
        let is_other = |at: usize| self.runs(self.processes[at].id).into_iter().any(|o| generation(o) > generation(at));
        let calls = |at: usize| self.processes[at].begun.is_some() && self.processes[at].id > 0;
        let is_no_part = |at: usize| is_alone(at) && is_other(at) && !calls(at);
        let runs = (0..self.processes.len()).filter(|&at| self.processes[at].runs && !is_no_part(at));
        let runs = runs.map(|at| &self.processes[at]);
        let runs: Vec<_> = runs.collect();
        for process in &runs {
            assert!(process.begun.is_some(), "process {} waits for ever", process.id);
        }
        for &(process, _) in &self.owed {
            let Process { id, runs, .. } = self.processes[process];
            assert!(!runs, "process {id} goes on, although a process of its list has ended");
        }
        for &(process, lost) in &self.lost {
            let Process { id, runs, .. } = self.processes[process];
            assert!(!runs, "process {id} goes on, although process {lost} was started again before it had begun");
        }
        let lists: Vec<_> = runs.iter().map(|process| process.beginning.statement()).collect();
        assert!(lists.windows(2).all(|pair| pair[0] == pair[1]), "two groups");
        let is_whole = runs.len() == self.members;
        assert!(is_whole || self.refused > 0, "somebody is missing without a word");
        is_whole
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
            let mut world = World::new(seed);
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
