//! The front end together with the state. The test decides when a proposal is applied.

mod closed;
#[cfg(feature = "test-module")]
mod counter;
mod gate;
mod held_back;
mod leadership;
mod limits;
mod opens;
mod requests;
mod rounds;
mod several;

use std::collections::VecDeque;

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{self, EndReason, Open, Request, Secret, ToClient, ToServer};
use baton_types::limits::{SECRET_BYTES, ServerLimits};
use baton_types::locks::{Acquire, Answer, Mode, Operation};
use baton_types::refusal::{Refusal, RefusalCode};

use super::*;
use crate::state::locks::{Grants, LockName};
use crate::state::{self, Caller, Outcome, State, sessions};

pub const TTL_MS: u64 = 10_000;

/// A node, and all outputs of its front end since the test last looked.
pub struct Node {
    pub frontend: Frontend,
    pub state: State,
    pub grants: Grants,
    pub now_ms: u64,
    index: u64,
    pub proposed: VecDeque<(u64, Command)>,
    pub said: Vec<Output>,
}

impl Node {
    pub fn follower(limits: ServerLimits) -> Self {
        let (proposed, said) = (VecDeque::new(), Vec::new());
        let mut frontend = Frontend::new(limits);
        frontend.belongs_to(CLUSTER);
        Node { frontend, state: State::default(), grants: Grants::ByState, now_ms: 1_000, index: 0, proposed, said }
    }

    /// A leader in term 1.
    pub fn leader(limits: ServerLimits) -> Self {
        let mut node = Node::follower(limits);
        node.tell(|frontend, _, _| frontend.elected(1));
        node.apply_all();
        assert_eq!(node.said(), [Output::Note(Note::Leads { term: 1, sessions: 0 })]);
        node
    }

    pub fn new() -> Self {
        Node::leader(ServerLimits::default())
    }

    /// A member of a peer group.
    pub fn member() -> Self {
        let mut node = Node::new();
        node.grants = Grants::ByGroup;
        node.frontend.serves_a_group();
        node
    }

    pub fn tell(&mut self, tell: impl FnOnce(&mut Frontend, u64, &State)) {
        tell(&mut self.frontend, self.now_ms, &self.state);
        while let Some(output) = self.frontend.poll() {
            match output {
                Output::Propose { term, command } => self.proposed.push_back((term, command)),
                output => self.said.push(output),
            }
        }
    }

    pub fn apply(&mut self) {
        let (term, command) = self.proposed.pop_front().expect("something was proposed");
        self.apply_entry(term, &command);
    }

    pub fn apply_entry(&mut self, term: u64, command: &Command) {
        self.index += 1;
        let mut outcome = Outcome::default();
        self.state.apply_by(self.grants, self.index, self.now_ms, command, &mut outcome);
        self.tell(|frontend, now_ms, state| frontend.applied(now_ms, state, term, command, &outcome));
    }

    /// Applies all proposals, also those that are held back.
    pub fn apply_all(&mut self) {
        loop {
            while !self.proposed.is_empty() {
                self.apply();
            }
            if self.frontend.held_back.next_wake().is_none() {
                return;
            }
            self.after(HELD_BACK_MS);
        }
    }

    pub fn said(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.said)
    }

    /// Opens a stream on a connection of its own.
    pub fn stream(&mut self, stream: u64) {
        self.stream_on(stream, stream);
    }

    pub fn stream_on(&mut self, stream: u64, connection: u64) {
        let (stream, connection) = (StreamId(stream), ConnectionId(connection));
        self.tell(|frontend, now_ms, _| frontend.stream_opens(now_ms, stream, connection, Caller::default()));
    }

    pub fn hears(&mut self, stream: u64, said: ToServer) {
        self.tell(|frontend, now_ms, state| frontend.hears(now_ms, state, StreamId(stream), Ok(said)));
    }

    pub fn request(&mut self, stream: u64, number: u64, operation: impl Into<frames::Operation>) {
        let (seen, missing) = (number - 1, Vec::new());
        self.hears(stream, ToServer::Request(Request { number, seen, missing, operation: operation.into() }));
    }

    pub fn acquire(&mut self, stream: u64, number: u64, name: &str) {
        self.request(stream, number, acquire(name));
    }

    /// Opens a session on a stream, and discards the outputs.
    pub fn opened(&mut self, stream: u64, session: u64) {
        self.stream(stream);
        self.hears(stream, open(session));
        self.apply_all();
        let closed_ms = self.state.cluster().closed_ms().unwrap_or(0);
        let opened = ToClient::Opened { session, ttl_ms: TTL_MS, cluster: Some(CLUSTER), closed_ms };
        assert_eq!(self.said(), [say(stream, opened), Output::Listen(StreamId(stream))]);
    }

    pub fn listens(&self, stream: u64) -> bool {
        self.frontend.listens(StreamId(stream))
    }

    pub fn after(&mut self, ms: u64) {
        self.now_ms += ms;
        self.tell(|frontend, now_ms, _| frontend.tick(now_ms));
    }
}

/// Each acquire has an owner of its own, so that there is no deadlock.
pub fn acquire(name: &str) -> Operation {
    let (name, mode, owner) = (name.as_bytes().to_vec(), Mode::Exclusive, fastrand::u64(..));
    Operation::Acquire(Acquire { name, mode, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 })
}

/// The cluster of every node in these tests.
pub const CLUSTER: ClusterId = ClusterId::MIN;

pub fn secret(byte: u8) -> Option<Secret> {
    Some(Secret([byte; SECRET_BYTES]))
}

/// The first Open of a session, with secret 1.
pub fn first(session: u64) -> Open {
    let (label, host) = (format!("label {session}"), "host".to_owned());
    Open { session, attempt: 1, ttl_ms: TTL_MS, label, host, pid: 7, resume: false, secret: secret(1), cluster: None }
}

pub fn open(session: u64) -> ToServer {
    ToServer::Open(first(session))
}

pub fn resume(session: u64, attempt: u64) -> Open {
    Open { resume: true, attempt, ..first(session) }
}

pub fn say(stream: u64, said: ToClient) -> Output {
    Output::Say { stream: StreamId(stream), said }
}

pub fn close(stream: u64, why: Closing) -> Output {
    Output::Close { stream: StreamId(stream), why }
}

pub fn answer(stream: u64, number: u64, answer: impl Into<frames::Answer>) -> Output {
    say(stream, ToClient::Answer { number, answer: answer.into() })
}

/// The refusal in the last output.
pub fn refusal(said: &[Output]) -> RefusalCode {
    match said {
        [
            ..,
            Output::Say {
                said: ToClient::Answer { answer: frames::Answer::Refused(Refusal { code, .. }), .. }, ..
            },
        ] => *code,
        other => panic!("{other:?}"),
    }
}

/// The end reason, if the last two outputs end a session and its stream.
pub fn end_reason(said: &[Output]) -> EndReason {
    match said {
        [.., Output::Say { said: ToClient::Ended { reason, .. }, .. }, Output::Close { why: Closing::Ended, .. }] => {
            *reason
        }
        other => panic!("{other:?}"),
    }
}
