//! The handshake: two members check that they belong to the same group before the first message.
//!
//! Each side sends eight bytes with the name of the program and the version, then a [`Hello`], then its verdict on the
//! other side's Hello. If the handshake fails, both sides learn why. All decisions are pure functions; [`shake_hands`]
//! does the I/O.

use std::time::Duration;

use baton_protocol::ProcessId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::frame::{self, FRAME_BYTES_MAX, Frame, FrameError, TransferError};

/// The version of the wire format. A member talks only to members of the same version.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"baton\0";

/// Time limit for the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The sender's view of itself and of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The name of the algorithm in the registry.
    pub algorithm: String,
    /// The variant of the algorithm. None: the default variant.
    pub variant: Option<String>,
    /// The number of processes in the group.
    pub processes: usize,
    /// The hash of everything that the members must agree on: [`PeerGroup::hash`](crate::PeerGroup::hash).
    pub group_hash: u64,
    /// The sender.
    pub from: ProcessId,
    /// The process that the sender expects at the other end.
    pub to: ProcessId,
    /// A random number, new at every start of a process.
    pub incarnation: u64,
}

/// Why one member refuses a connection with another. `ours` is the refusing side, `theirs` the refused side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("it runs `{theirs}`, but this group runs `{ours}`")]
    Algorithm { ours: String, theirs: String },
    #[error("it runs {}, but this group runs {}", variant_name(theirs), variant_name(ours))]
    Variant { ours: Option<String>, theirs: Option<String> },
    #[error("its group has {theirs} processes, but this one has {ours}")]
    Processes { ours: usize, theirs: usize },
    /// The group files differ in something else.
    #[error("its group file differs in the members, the coordinators, the votes or the delay; all need the same file")]
    GroupFile,
    #[error("there is no member {id}; there are 0 to {}", processes.saturating_sub(1))]
    UnknownId { id: ProcessId, processes: usize },
    /// The answering process is not the one that the refusing side connected to.
    #[error("it is process {found} and not {expected}; is its address at the right place in the group file?")]
    NotWhomICalled { expected: ProcessId, found: ProcessId },
    /// The connecting process expected another process here.
    #[error(
        "it expected process {called} here, but this is {me}; is the address at the right place in the group file?"
    )]
    NotMe { called: ProcessId, me: ProcessId },
    /// Of two members, the one with the higher id connects to the other.
    #[error("process {id} must not connect to process {me}: of two members, the one with the higher id connects")]
    NotTheCaller { id: ProcessId, me: ProcessId },
    /// This process, with the same incarnation, is already connected.
    #[error("process {id} is already connected")]
    AlreadyConnected { id: ProcessId },
    /// This member was connected before, as another incarnation. The restarted process has lost its memory.
    #[error("process {id} was restarted; a group runs only with the processes it began with: restart the whole group")]
    Restarted { id: ProcessId },
    #[error("it did not finish the handshake in time")]
    Silent,
}

fn variant_name(variant: &Option<String>) -> String {
    variant.as_ref().map_or("the default variant".to_string(), |name| format!("variant `{name}`"))
}

/// Why a connection failed or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("no connection: {0}")]
    Closed(String),
    #[error("the other side has left")]
    Left,
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side is another program.
    #[error("it began with {0:02x?}, but a member of a group begins with {MAGIC:02x?}")]
    NotBaton([u8; 6]),
    #[error("it speaks version {found}, but this program speaks version {VERSION}")]
    Version { found: u16 },
    #[error("expected {expected}, but received another frame")]
    OutOfPlace { expected: &'static str },
    /// Another process made the id of this message.
    #[error("message {id:#x} was not made by process {from}, which sent it")]
    Foreign { id: u64, from: ProcessId },
    /// This side refused the connection.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The other side refused the connection.
    #[error("refused by the other side: {0}")]
    RefusedByPeer(Refusal),
    /// The other side reads more slowly than this side writes.
    #[error("it is too slow: {frames} frames wait to be sent, which is the limit")]
    TooSlow { frames: usize },
}

impl From<TransferError> for LinkError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Io(error) => error.into(),
            TransferError::Frame(error) => LinkError::Frame(error),
        }
    }
}

impl From<std::io::Error> for LinkError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => LinkError::Left,
            _ => LinkError::Closed(error.to_string()),
        }
    }
}

impl LinkError {
    /// Whether another attempt would fail, too.
    pub fn is_final(&self) -> bool {
        match self {
            LinkError::Refused(refusal) | LinkError::RefusedByPeer(refusal) => *refusal != Refusal::Silent,
            LinkError::NotBaton(_) | LinkError::Version { .. } | LinkError::Frame(_) => true,
            LinkError::OutOfPlace { .. } | LinkError::Foreign { .. } => true,
            LinkError::Closed(_) | LinkError::Left | LinkError::TooSlow { .. } => false,
        }
    }
}

/// The first bytes on a connection, in both directions. Every version begins like this.
pub fn preamble(version: u16) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&MAGIC);
    bytes[6..].copy_from_slice(&version.to_le_bytes());
    bytes
}

pub fn check_preamble(bytes: [u8; 8]) -> Result<(), LinkError> {
    let [magic @ .., low, high] = bytes;
    match u16::from_le_bytes([low, high]) {
        _ if magic != MAGIC => Err(LinkError::NotBaton(magic)),
        VERSION => Ok(()),
        found => Err(LinkError::Version { found }),
    }
}

/// Whether both sides run the same algorithm in the same group.
pub fn check_group(ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    if ours.algorithm != theirs.algorithm {
        Err(Refusal::Algorithm { ours: ours.algorithm.clone(), theirs: theirs.algorithm.clone() })
    } else if ours.variant != theirs.variant {
        Err(Refusal::Variant { ours: ours.variant.clone(), theirs: theirs.variant.clone() })
    } else if ours.processes != theirs.processes {
        Err(Refusal::Processes { ours: ours.processes, theirs: theirs.processes })
    } else if ours.group_hash != theirs.group_hash {
        Err(Refusal::GroupFile)
    } else if theirs.from >= ours.processes {
        Err(Refusal::UnknownId { id: theirs.from, processes: ours.processes })
    } else if theirs.to != ours.from {
        Err(Refusal::NotMe { called: theirs.to, me: ours.from })
    } else {
        Ok(())
    }
}

/// Whether `theirs` comes from the process that this side connected to.
pub fn check_answer(ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    if theirs.from < ours.processes && theirs.from != ours.to {
        return Err(Refusal::NotWhomICalled { expected: ours.to, found: theirs.from });
    }
    check_group(ours, theirs)
}

/// The processes that have connected to this one, with their incarnations. A process stays in the roster after its
/// connection is closed, so that each process can connect only once.
#[derive(Clone, Debug)]
pub struct Roster {
    seen: Vec<Option<u64>>,
}

impl Roster {
    pub fn new(processes: usize) -> Self {
        Roster { seen: vec![None; processes] }
    }

    /// Adds the connecting process, if it is a member that is not in the roster yet.
    pub fn admit(&mut self, ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
        check_group(ours, theirs)?;
        let id = theirs.from;
        if id <= ours.from {
            return Err(Refusal::NotTheCaller { id, me: ours.from });
        }
        match self.seen[id] {
            Some(incarnation) if incarnation == theirs.incarnation => Err(Refusal::AlreadyConnected { id }),
            Some(_) => Err(Refusal::Restarted { id }),
            None => {
                self.seen[id] = Some(theirs.incarnation);
                Ok(())
            }
        }
    }

    /// Removes the process, because its handshake failed after `admit`.
    pub fn forget(&mut self, id: ProcessId) {
        self.seen[id] = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This side connected, and speaks first.
    Caller,
    /// This side accepted the connection.
    Called,
}

/// Sends `ours`, reads the other side's Hello and judges it with `judge`. Returns the other side's Hello if both sides
/// accept.
///
/// After a refusal call [`hang_up`], so that the other side can read the refusal before the connection is closed.
pub async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    side: Side,
    ours: &Hello,
    judge: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> Result<Hello, LinkError> {
    let outcome = timeout(HANDSHAKE_TIMEOUT, exchange(stream, side, ours, judge)).await;
    outcome.unwrap_or(Err(LinkError::Refused(Refusal::Silent)))
}

/// Ends a connection whose handshake failed. Waits until the other side has closed it: closing a socket with unread
/// data would discard what this side has written.
pub async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let linger = async {
        stream.shutdown().await?;
        let mut rest = stream.take(FRAME_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Ignore errors: the connection is closed next.
    let _ = timeout(HANDSHAKE_TIMEOUT, linger).await;
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    side: Side,
    ours: &Hello,
    judge: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> Result<Hello, LinkError> {
    if side == Side::Caller {
        stream.write_all(&preamble(VERSION)).await?;
        frame::write(stream, &Frame::Hello(ours.clone())).await?;
    }
    let mut found = [0; 8];
    stream.read_exact(&mut found).await?;
    if side == Side::Called {
        stream.write_all(&preamble(VERSION)).await?;
    }
    check_preamble(found)?;
    let Frame::Hello(theirs) = frame::read(stream).await? else {
        return Err(LinkError::OutOfPlace { expected: "a greeting" });
    };
    if side == Side::Called {
        let answer = Hello { to: theirs.from, ..ours.clone() };
        frame::write(stream, &Frame::Hello(answer)).await?;
    }
    let verdict = judge(&theirs);
    frame::write(stream, &Frame::Verdict(verdict.clone())).await?;
    verdict.map_err(LinkError::Refused)?;
    match frame::read(stream).await? {
        Frame::Verdict(Ok(())) => Ok(theirs),
        Frame::Verdict(Err(refusal)) => Err(LinkError::RefusedByPeer(refusal)),
        _ => Err(LinkError::OutOfPlace { expected: "a verdict" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Hello of process `from` of three, to process `to`.
    fn hello(from: ProcessId, to: ProcessId) -> Hello {
        Hello {
            algorithm: "central".into(),
            variant: None,
            processes: 3,
            group_hash: 9,
            from,
            to,
            incarnation: 100 + from as u64,
        }
    }

    #[test]
    fn a_preamble_tells_the_program_and_the_version() {
        assert_eq!(check_preamble(preamble(VERSION)), Ok(()));
        assert_eq!(check_preamble(preamble(7)), Err(LinkError::Version { found: 7 }));
        assert_eq!(check_preamble(*b"GET / HT"), Err(LinkError::NotBaton(*b"GET / ")));
    }

    #[test]
    fn every_difference_has_its_refusal() {
        let ours = hello(0, 1);
        let refusal = |change: fn(&mut Hello)| {
            let mut theirs = hello(1, 0);
            change(&mut theirs);
            check_group(&ours, &theirs).unwrap_err()
        };
        let algorithm = refusal(|theirs| theirs.algorithm = "voting".into());
        assert_eq!(algorithm, Refusal::Algorithm { ours: "central".into(), theirs: "voting".into() });
        let variant = refusal(|theirs| theirs.variant = Some("ask-all".into()));
        assert_eq!(variant.to_string(), "it runs variant `ask-all`, but this group runs the default variant");
        assert_eq!(refusal(|theirs| theirs.processes = 4), Refusal::Processes { ours: 3, theirs: 4 });
        assert_eq!(refusal(|theirs| theirs.group_hash = 0), Refusal::GroupFile);
        assert_eq!(refusal(|theirs| theirs.from = 3), Refusal::UnknownId { id: 3, processes: 3 });
        assert_eq!(refusal(|theirs| theirs.to = 2), Refusal::NotMe { called: 2, me: 0 });
        assert_eq!(check_group(&ours, &hello(1, 0)), Ok(()));
    }

    #[test]
    fn the_answer_must_come_from_whom_one_called() {
        assert_eq!(check_answer(&hello(2, 0), &hello(0, 2)), Ok(()));
        let refusal = Refusal::NotWhomICalled { expected: 0, found: 1 };
        assert_eq!(check_answer(&hello(2, 0), &hello(1, 2)), Err(refusal));
    }

    #[test]
    fn a_place_is_given_once() {
        let (ours, mut roster) = (hello(1, 2), Roster::new(3));
        assert_eq!(roster.admit(&ours, &hello(0, 1)), Err(Refusal::NotTheCaller { id: 0, me: 1 }));
        assert_eq!(roster.admit(&ours, &hello(1, 1)), Err(Refusal::NotTheCaller { id: 1, me: 1 }));
        assert_eq!(roster.admit(&ours, &hello(2, 1)), Ok(()));
        assert_eq!(roster.admit(&ours, &hello(2, 1)), Err(Refusal::AlreadyConnected { id: 2 }));
        let restarted = Hello { incarnation: 1, ..hello(2, 1) };
        assert_eq!(roster.admit(&ours, &restarted), Err(Refusal::Restarted { id: 2 }));
        roster.forget(2);
        assert_eq!(roster.admit(&ours, &restarted), Ok(()));
    }
}
