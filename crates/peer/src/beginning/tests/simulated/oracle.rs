//! What must be true of each beginning, of each end, and when all faults are over.

use super::{Event, FAULTS_UNTIL, Process, World, new_file};
use crate::beginning::{Agreed, List};
use crate::frame::Item;
use crate::group::MemberId;

impl World {
    pub fn refuses_restart(&mut self, process: usize, id: MemberId) {
        let list = self.processes[process].beginning.statement().list;
        let earlier = list[id].map(|entry| entry.incarnation);
        let mut of_list = self.processes.iter().filter(|process| Some(process.incarnation) == earlier);
        if of_list.all(|process| !process.runs && process.begun.is_none()) {
            self.lost.push((process, id));
        }
    }

    pub fn begins(&mut self, at: usize, agreed: Agreed, list: List) {
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
        for process in self.processes.iter().filter(is_earlier).filter(|process| process.has_lease) {
            let wait_ms = new_file(process.id).ttl_max_ms;
            assert!(agreed.wait_ms >= wait_ms, "a client of process {} may have a lease", process.id);
        }
        let me = self.processes[at].id;
        for peer in (0..self.members).filter(|&peer| peer != me) {
            let item = Item::Open { name: &agreed.generation.to_le_bytes() };
            self.processes[at].sessions[peer].push(item).unwrap();
            self.fill(at, peer);
        }
        let opens = self.now + agreed.wait_ms;
        self.processes[at].opens = Some(opens);
        let granted = opens + self.random.u64(..100);
        self.at(granted, Event::Grant { process: at });
        self.at(opens, Event::Over { generation: agreed.generation });
        if me == self.forgetful && me > 0 && self.now < FAULTS_UNTIL && self.random.u8(..4) == 0 {
            self.after(60, Event::Replace { process: at });
        }
    }

    /// The member is told that the group can never begin.
    pub fn ends(&mut self, at: usize) {
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
            let can_talk = [ours, theirs].iter().all(|end| end.open && end.resumed) && !self.is_cut(connection);
            if has_begun && can_talk && other.connections[self.processes[at].id] == Some(connection) {
                self.owed.push((theirs.process, connection));
            }
        }
        self.gone(at);
    }

    /// Whether the whole group runs. A process that does not run must have been told.
    pub fn judge(&self) -> bool {
        // Of two processes with one id, one may be connected with no process of the group. It is no part of the group, and
        // ends when its `start_within` is over. If it has begun with earlier starts of the others, it ends when it calls one
        // that has begun without it. A process calls those with lower ids.
        let generation = |at: usize| self.processes[at].begun.map_or(0, |begun| begun.generation);
        let is_in = |connection: &usize| {
            self.connections[*connection].iter().any(|end| self.processes[end.process].begun.is_some())
        };
        let is_alone = |at: usize| !self.processes[at].connections.iter().flatten().any(is_in);
        let is_later = |id: MemberId, at| self.runs(id).into_iter().any(|other| generation(other) > generation(at));
        let is_other = |at: usize| is_later(self.processes[at].id, at);
        let has_begun = |at: usize| self.processes[at].begun.is_some();
        let calls_later = |at: usize| has_begun(at) && (0..self.processes[at].id).any(|id| is_later(id, at));
        let is_no_part = |at: usize| is_alone(at) && is_other(at) && !calls_later(at);
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
