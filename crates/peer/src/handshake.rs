//! How two members make sure that they belong together before the first message.
//!
//! Each sends eight bytes that tell the program and the version, then a [`Hello`], then its verdict on the other's.
//! Both learn why it failed, if it did. All decisions are pure functions; [`shake_hands`] does the talking.

use std::time::Duration;

use baton_protocol::ProcessId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::frame::{self, FRAME_BYTES_MAX, Frame, FrameError, TransferError};

/// The version of what goes over the wire. A member talks to members of the same version only.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"baton\0";

/// How long the other side may take over the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Who I am, and what I believe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// As the registry calls it.
    pub algorithm: String,
    /// How it is run, if not in the default way.
    pub variant: Option<String>,
    /// How many there are in the group.
    pub processes: usize,
    /// Of everything that members must agree on.
    pub group_hash: u64,
    /// Who I am.
    pub from: ProcessId,
    /// Who I think you are.
    pub to: ProcessId,
    /// Drawn anew at every start of a process.
    pub incarnation: u64,
}

/// Why one member will not talk to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// They run different algorithms.
    #[error("it runs `{theirs}`, and this group `{ours}`")]
    Algorithm {
        /// What the refusing side runs.
        ours: String,
        /// What the refused side runs.
        theirs: String,
    },
    /// They run different variants.
    #[error("it runs {}, and this group {}", variant_name(theirs), variant_name(ours))]
    Variant {
        /// What the refusing side runs.
        ours: Option<String>,
        /// What the refused side runs.
        theirs: Option<String>,
    },
    /// Their groups differ in size.
    #[error("its group has {theirs} processes, and this one {ours}")]
    Processes {
        /// How many the refusing side counts.
        ours: usize,
        /// How many the refused side counts.
        theirs: usize,
    },
    /// Their group files differ in something else.
    #[error("its group file differs in the members, the coordinators, the votes or the delay; all need the same file")]
    GroupFile,
    /// There is no such process.
    #[error("there is no process {id}; there are 0 to {}", processes.saturating_sub(1))]
    UnknownId {
        /// Who it says it is.
        id: ProcessId,
        /// How many there are.
        processes: usize,
    },
    /// It is not whom the refusing side called.
    #[error("it is process {found} and not {expected}; is its address at the right place in the group file?")]
    NotWhomICalled {
        /// Who should be there.
        expected: ProcessId,
        /// Who is.
        found: ProcessId,
    },
    /// It called somebody else.
    #[error("it called process {called}, and this is {me}; is the address at the right place in the group file?")]
    NotMe {
        /// Whom it called.
        called: ProcessId,
        /// Who answered.
        me: ProcessId,
    },
    /// The lower id waits for the call of the higher one.
    #[error("process {id} does not call process {me}: of two members the one with the higher id calls")]
    NotTheCaller {
        /// Who called.
        id: ProcessId,
        /// Who was called.
        me: ProcessId,
    },
    /// There is a connection to this very process already.
    #[error("process {id} has its one connection already")]
    AlreadyConnected {
        /// Who called again.
        id: ProcessId,
    },
    /// The member has been here before, with a memory that is gone now.
    #[error(
        "process {id} has been started anew; a group runs only with the processes it began with: start all of it anew"
    )]
    Restarted {
        /// Who it is.
        id: ProcessId,
    },
    /// It took too long over the handshake.
    #[error("it did not finish the handshake in time")]
    Silent,
}

fn variant_name(variant: &Option<String>) -> String {
    variant.as_ref().map_or("the default variant".to_string(), |name| format!("variant `{name}`"))
}

/// Why a connection did not come about, or came to an end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is none, or none any more.
    #[error("no connection: {0}")]
    Closed(String),
    /// The other side closed it.
    #[error("the other side has left")]
    Left,
    /// What came over it made no sense.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side is some other program.
    #[error("it began with {0:02x?}, and a member of a group begins with {MAGIC:02x?}")]
    NotBaton([u8; 6]),
    /// The other side is another version of this one.
    #[error("it speaks version {found}, and this program version {VERSION}")]
    Version {
        /// What it speaks.
        found: u16,
    },
    /// A frame that has no place here.
    #[error("expected {expected}, and there came another frame")]
    OutOfPlace {
        /// What should have come.
        expected: &'static str,
    },
    /// A message whose id was made by somebody else.
    #[error("message {id:#x} was not made by process {from}, which sent it")]
    Foreign {
        /// Of the message.
        id: u64,
        /// Who sent it.
        from: ProcessId,
    },
    /// This side did not want it.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The other side did not want it.
    #[error("refused by the other side: {0}")]
    RefusedByPeer(Refusal),
    /// The other side reads more slowly than this one writes.
    #[error("it has not read {frames} frames, and more are not kept")]
    TooSlow {
        /// How many wait.
        frames: usize,
    },
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
    /// Whether trying again is of no use.
    pub fn is_final(&self) -> bool {
        match self {
            LinkError::Refused(refusal) | LinkError::RefusedByPeer(refusal) => *refusal != Refusal::Silent,
            LinkError::NotBaton(_) | LinkError::Version { .. } | LinkError::Frame(_) => true,
            LinkError::OutOfPlace { .. } | LinkError::Foreign { .. } => true,
            LinkError::Closed(_) | LinkError::Left | LinkError::TooSlow { .. } => false,
        }
    }
}

/// The first bytes on a connection, in both directions, whatever the version.
pub fn preamble(version: u16) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&MAGIC);
    bytes[6..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Whether this is the preamble of a member of our version.
pub fn check_preamble(bytes: [u8; 8]) -> Result<(), LinkError> {
    let [magic @ .., low, high] = bytes;
    match u16::from_le_bytes([low, high]) {
        _ if magic != MAGIC => Err(LinkError::NotBaton(magic)),
        VERSION => Ok(()),
        found => Err(LinkError::Version { found }),
    }
}

/// Whether the two run the same algorithm in the same group.
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

/// Whether the one that answered, `theirs`, is the one that we called.
pub fn check_answer(ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    if theirs.from < ours.processes && theirs.from != ours.to {
        return Err(Refusal::NotWhomICalled { expected: ours.to, found: theirs.from });
    }
    check_group(ours, theirs)
}

/// Which of the processes that call this one have been connected, and as which incarnation. A place once taken
/// stays taken after the connection is closed: a process may come once.
#[derive(Clone, Debug)]
pub struct Roster {
    seen: Vec<Option<u64>>,
}

impl Roster {
    /// Nobody has called.
    pub fn new(processes: usize) -> Self {
        Roster { seen: vec![None; processes] }
    }

    /// Gives the caller its place, if it is a member whose place is free.
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

    /// The handshake with this process failed after all: its place is free again.
    pub fn forget(&mut self, id: ProcessId) {
        self.seen[id] = None;
    }
}

/// Which side of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It called, and speaks first.
    Caller,
    /// It was called.
    Called,
}

/// Greets the other side and judges its greeting with `judge`. Returns its greeting if both are content.
///
/// Whoever refuses keeps the connection until the other side has closed it, or closing it would take the refusal back.
pub async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    side: Side,
    ours: &Hello,
    judge: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> Result<Hello, LinkError> {
    let outcome = timeout(HANDSHAKE_TIMEOUT, exchange(stream, side, ours, judge)).await;
    outcome.unwrap_or(Err(LinkError::Refused(Refusal::Silent)))
}

/// Ends a connection whose handshake failed, so that the other side still gets to read what was written.
pub async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let linger = async {
        stream.shutdown().await?;
        let mut rest = stream.take(FRAME_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whatever goes wrong here, the connection is closed next.
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

    /// Process `from` of three calls or answers `to`.
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
        assert_eq!(variant.to_string(), "it runs variant `ask-all`, and this group the default variant");
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
