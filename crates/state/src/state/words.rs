//! The words of the log: commands, effects and answers. Each module has its own; the enums here list the modules. Every
//! `Serialize` type here is written to disk: read `format` before you change it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{RequestNumber, SessionId, cluster, locks, sessions};

/// What Raft replicates: commands that are applied together, and a time for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970 on the node that proposed the entry. The state takes the maximum of all entries as its
    /// time, and makes no decision with it.
    pub now_ms: u64,
    /// Usually one.
    pub commands: Vec<Command>,
}

impl Entry {
    /// The command that a front end proposed in this entry: it proposes one at a time, and the node may put commands of
    /// the cluster before a `Lead`. None for an entry of the node itself, or of a version that proposed several at once.
    pub fn of_frontend(&self) -> Option<&Command> {
        let is_of_node = |command: &Command| matches!(command, Command::Cluster(command) if !command.is_of_timer());
        match &self.commands[..] {
            [command] => Some(command).filter(|command| !is_of_node(command)),
            [before @ .., command] if command.is_lead() && before.iter().all(is_of_node) => Some(command),
            _ => None,
        }
    }
}

/// One change of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Sessions(sessions::Command),
    /// A client's request, applied once.
    Request(Request),
    Locks(locks::Command),
    /// Of data format 3.
    Cluster(cluster::Command),
}

impl Command {
    /// Whether a node begins to lead with this command.
    pub fn is_lead(&self) -> bool {
        matches!(self, Command::Sessions(sessions::Command::Lead { .. }))
    }
}

/// The principal that asks, and its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub principal: Principal,
    /// The address of the connection; none if there was no connection, or if it is not known.
    pub from: Option<SocketAddr>,
}

/// The identity on whose behalf a request is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// The client has not named an identity.
    #[default]
    Anonymous,
    /// The client has proved this identity.
    Named(Box<str>),
}

/// A request of a client within its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub session: SessionId,
    pub number: RequestNumber,
    /// The client has seen every answer up to this number, except the missing ones.
    pub seen: RequestNumber,
    /// Ascending, below the request's own number and not above `seen`. These requests have no answer yet, or their
    /// answers were lost on the way.
    pub missing: Vec<RequestNumber>,
    pub caller: Caller,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Ends the session with all its claims.
    Close,
    Locks(locks::Operation),
}

/// An action for the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Opened {
        session: SessionId,
        /// The TTL of the session's first Open.
        ttl_ms: u64,
    },
    Answer {
        session: SessionId,
        number: RequestNumber,
        answer: Answer,
    },
    Ended {
        session: SessionId,
        reason: sessions::EndReason,
    },
    Locks(locks::Effect),
    Cluster(cluster::Effect),
}

/// The answer to a request. It never changes, however often the client repeats the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Closed,
    /// The request is refused before any module sees it.
    Refused(sessions::Refusal),
    Locks(locks::Answer),
}

impl Answer {
    /// The answer as this version keeps it, in few bytes. An older version may have kept more.
    pub(super) fn shortened(self) -> Self {
        match self {
            Answer::Locks(answer) => Answer::Locks(answer.shortened()),
            answer => answer,
        }
    }
}

impl From<locks::Answer> for Answer {
    fn from(answer: locks::Answer) -> Self {
        Answer::Locks(answer)
    }
}

impl From<locks::Effect> for Effect {
    fn from(effect: locks::Effect) -> Self {
        Effect::Locks(effect)
    }
}

impl From<locks::Command> for Command {
    fn from(command: locks::Command) -> Self {
        Command::Locks(command)
    }
}

impl From<cluster::Effect> for Effect {
    fn from(effect: cluster::Effect) -> Self {
        Effect::Cluster(effect)
    }
}

impl From<cluster::Command> for Command {
    fn from(command: cluster::Command) -> Self {
        Command::Cluster(command)
    }
}

impl From<sessions::Command> for Command {
    fn from(command: sessions::Command) -> Self {
        Command::Sessions(command)
    }
}

impl Operation {
    /// Fails with a sentence if the operation is invalid.
    pub fn check(&self, number: RequestNumber) -> Result<(), String> {
        match self {
            Operation::Close => Ok(()),
            Operation::Locks(operation) => operation.check(number).map_err(|invalid| invalid.to_string()),
        }
    }

    /// Whether the operation ends a claim or the session. It is never refused because space is low.
    pub fn frees(&self) -> bool {
        match self {
            Operation::Close => true,
            Operation::Locks(operation) => operation.frees(),
        }
    }

    /// If the session has this many requests without a seen answer, this operation is refused.
    pub(super) fn requests_max(&self) -> usize {
        let frees = match self {
            Operation::Close => return usize::MAX,
            Operation::Locks(operation) => operation.frees(),
        };
        if frees { 2 * sessions::limits::REQUESTS_MAX } else { sessions::limits::REQUESTS_MAX }
    }

    /// Distinguishes a request from another one with the same number. The state keeps it on disk beside the answer, so
    /// it must stay the same for every operation that a client may repeat after an upgrade. So it is computed from the
    /// fields, not from their encoding.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = Fingerprint::default();
        match self {
            Operation::Close => hash.number(0),
            Operation::Locks(operation) => {
                hash.number(1);
                operation.fingerprint(&mut hash);
            }
        }
        hash.0
    }
}

/// FNV-1a, 64 bits, but over words instead of bytes, with high bits mixed down. It is small, and a few lines define it
/// for ever. It protects a client from its own mistakes, not from attacks.
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x0100_0000_01b3);
        self.0 ^= self.0 >> 32;
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::OwnerId;
    use crate::state::locks::{Acquire, Mode, Want};

    fn acquire(wants: &[(&[u8], Mode)]) -> Acquire {
        let want = |&(lock, mode): &(&[u8], Mode)| Want { lock: lock.into(), mode };
        let (wants, owner) = (wants.iter().map(want).collect(), OwnerId(7));
        Acquire { wants, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 }
    }

    fn fingerprint(operation: locks::Operation) -> u64 {
        Operation::Locks(operation).fingerprint()
    }

    /// These values are on disk: a request that is repeated after an upgrade must have the same fingerprint as before.
    /// If a value changes here, the server refuses the retries of clients. Add values, change none.
    #[test]
    fn fingerprints_stay_the_same_for_ever() {
        let one = acquire(&[(b"deploy", Mode::Exclusive)]);
        let all = Acquire {
            parent: Some(OwnerId(9)),
            timeout_ms: Some(500),
            lock_delay_ms: 700,
            ..acquire(&[(b"deploy", Mode::Exclusive), (b"caf\xe9", Mode::Shared), (b"pool", Mode::Permit { of: 3 })])
        };
        assert_eq!(Operation::Close.fingerprint(), 0xaf63_bd4c_2962_0a93);
        assert_eq!(fingerprint(locks::Operation::Acquire(one)), 0xf91d_578d_cf40_7a84);
        assert_eq!(fingerprint(locks::Operation::Acquire(all)), 0x8ee9_e0c9_ca29_5988);
        assert_eq!(fingerprint(locks::Operation::Release { acquire: 5 }), 0xac20_927e_52bb_490a);
        assert_eq!(fingerprint(locks::Operation::Cancel { acquire: 5 }), 0xac21_727e_52bb_0695);
    }

    /// Each differs from the first in one field.
    #[test]
    fn whatever_is_asked_is_in_the_fingerprint() {
        let first = || acquire(&[(b"ab", Mode::Exclusive), (b"c", Mode::Shared)]);
        let acquires = [
            first(),
            acquire(&[(b"c", Mode::Shared), (b"ab", Mode::Exclusive)]),
            acquire(&[(b"ab", Mode::Exclusive)]),
            acquire(&[(b"a", Mode::Exclusive), (b"bc", Mode::Shared)]),
            acquire(&[(b"ab", Mode::Shared), (b"c", Mode::Exclusive)]),
            acquire(&[(b"ab", Mode::Permit { of: 1 }), (b"c", Mode::Shared)]),
            acquire(&[(b"ab", Mode::Permit { of: 2 }), (b"c", Mode::Shared)]),
            Acquire { owner: OwnerId(8), ..first() },
            Acquire { parent: Some(OwnerId(0)), ..first() },
            Acquire { parent: Some(OwnerId(7)), ..first() },
            Acquire { timeout_ms: Some(0), ..first() },
            Acquire { timeout_ms: Some(7), ..first() },
            Acquire { lock_delay_ms: 7, ..first() },
        ];
        let speaks = [0, 1].into_iter().flat_map(|acquire| {
            [locks::Operation::Release { acquire }, locks::Operation::Cancel { acquire }].map(fingerprint)
        });
        let mut fingerprints = vec![Operation::Close.fingerprint()];
        fingerprints.extend(acquires.map(|acquire| fingerprint(locks::Operation::Acquire(acquire))));
        fingerprints.extend(speaks);
        let count = fingerprints.len();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), count);
    }
}
