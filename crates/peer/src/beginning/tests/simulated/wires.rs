//! Connections: the real handshake, and then the real conversation.

use std::collections::VecDeque;

use tokio_util::bytes::BytesMut;

use super::mistakes::{self, Mistake};
use super::{End, Event, Process, World};
use crate::beginning::Stage;
use crate::frame::{self, Cutter, Frame, Greeting, Item, decode_exactly};
use crate::group::MemberId;
use crate::handshake::{Hello, LinkError, Met, Shake, Side, check_answer, check_caller, hello_of};

impl World {
    /// What was written before arrives first.
    pub fn hang_up(&mut self, connection: usize, side: usize) {
        let at = self.connections[connection][side].busy_until + self.random.u64(..20);
        self.at(at, Event::Break { connection, side });
    }

    /// The link is cut: both sides notice at different times, and what was on its way is lost.
    pub fn lose(&mut self, connection: usize) {
        self.owed.retain(|&(_, told_on)| told_on != connection);
        for side in [0, 1] {
            self.connections[connection][side].incoming.clear();
            self.after(60, Event::Break { connection, side });
        }
    }

    /// Of two members, the one with the higher id calls.
    pub fn call(&mut self, process: usize, peer: MemberId) {
        if !self.processes[process].runs {
            return;
        }
        self.after(40, Event::Call { process, peer });
        let id = self.processes[process].id;
        let Some(called) = self.random.choice(self.runs(peer)) else { return };
        let is_apart = self.apart == Some(process) || self.apart == Some(called);
        if self.processes[process].connections[peer].is_some() || self.cut[id][peer] || is_apart {
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

    pub fn is_cut(&self, connection: usize) -> bool {
        let [a, b] = self.ids(connection);
        self.cut[a][b] || self.connections[connection].iter().any(|end| self.apart == Some(end.process))
    }

    pub fn write(&mut self, connection: usize, side: usize, value: &impl serde::Serialize) {
        let mut bytes = Vec::new();
        frame::encode_to(&mut bytes, value).unwrap();
        self.send(connection, side, bytes);
    }

    pub fn send(&mut self, connection: usize, side: usize, bytes: Vec<u8>) {
        if bytes.is_empty() || self.is_cut(connection) || !self.connections[connection][1 - side].open {
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
    pub fn close(&mut self, connection: usize, side: usize) {
        let End { process, open: true, .. } = self.connections[connection][side] else { return };
        self.connections[connection][side].open = false;
        let peer = self.ids(connection)[1 - side];
        let process = &mut self.processes[process];
        if process.runs && process.connections[peer] == Some(connection) {
            process.connections[peer] = None;
        }
        self.hang_up(connection, 1 - side);
    }

    pub fn arrive(&mut self, connection: usize, side: usize) {
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

    pub fn failed(&mut self, connection: usize, side: usize, process: usize, error: &LinkError) {
        assert!(!error.is_fault(), "{error}");
        self.close(connection, side);
        let has_begun = self.processes[process].begun.is_some();
        match error {
            error if error.refuses_restart() => {
                let id = self.ids(connection)[1 - side];
                self.refuses_restart(process, id);
                if !self.makes(Mistake::GoesOnWithoutTheLost) {
                    self.processes[process].beginning.refused_restart(id);
                    self.look(process);
                }
            }
            error if error.ends_membership() => self.gone(process),
            error if !has_begun && error.keeps_from_joining() => {
                self.refused += 1;
                self.gone(process);
            }
            _ => {}
        }
    }

    /// A greeting arrives. As `link` and `reception` do it.
    pub fn shake(&mut self, connection: usize, side: usize, frame: &[u8]) -> Result<(), LinkError> {
        let mut greeting = decode_exactly(frame, "a greeting").unwrap();
        if let (Greeting::Hello(hello), true) = (&mut greeting, self.makes(Mistake::JudgesNoGeneration)) {
            hello.generation = 0;
        }
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

    pub fn begin(&mut self, connection: usize, side: usize, theirs: &Hello) -> Result<(), LinkError> {
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
    pub fn talk(&mut self, connection: usize, side: usize, frame: &[u8]) -> Result<(), LinkError> {
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
                if let Some(statement) = mistakes::heard(self.mistake, &process.beginning, statement) {
                    process.beginning.hear(peer, statement).unwrap();
                }
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

    pub fn fill(&mut self, at: usize, peer: MemberId) {
        let Some(Some(connection)) = self.processes[at].connections.get(peer).copied() else { return };
        let side = usize::from(self.connections[connection][1].process == at);
        if self.connections[connection][side].resumed {
            let mut out = BytesMut::new();
            self.processes[at].sessions[peer].fill(&mut out, usize::MAX);
            self.send(connection, side, out.to_vec());
        }
    }
}
