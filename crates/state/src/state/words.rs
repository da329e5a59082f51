//! The words of the log that belong to no module. Every `Serialize` type here is written to disk: read `format` before you
//! change it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Command, Effect, Operation, RequestNumber, SessionId, cluster, sessions};

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
    /// If the session has this many requests without a seen answer, this operation is refused.
    pub(super) fn requests_max(&self) -> usize {
        match (self, self.frees()) {
            (Operation::Close, _) => usize::MAX,
            (_, true) => 2 * sessions::limits::REQUESTS_MAX,
            (_, false) => sessions::limits::REQUESTS_MAX,
        }
    }

    /// Distinguishes a request from another one with the same number. The state keeps it on disk beside the answer, so
    /// it must stay the same for every operation that a client may repeat after an upgrade. So it is computed from the
    /// fields, not from their encoding.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = Fingerprint::default();
        self.hash(&mut hash);
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
    use crate::state::locks::{self, Acquire, Mode, Want};

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
