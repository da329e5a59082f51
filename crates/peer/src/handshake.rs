//! The handshake: two members check that they belong to the same group before the first message.
//!
//! Each side sends eight bytes with the name of the program and the version, then a [`Hello`], then its verdict on the
//! other side's Hello. If the handshake fails, both sides learn why. All decisions are pure functions; [`shake_hands`]
//! does the I/O.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::frame::{self, FRAME_BYTES_MAX, FrameError, Greeting, TransferError};
use crate::group::MemberId;
use crate::session::SessionError;

/// The version of the wire format. A member talks only to members of the same version.
pub const VERSION: u16 = 4;

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
    /// The number of members of the group.
    pub members: usize,
    /// The hash of everything that the members must agree on: [`PeerGroup::hash`](crate::PeerGroup::hash).
    pub group_hash: u64,
    /// The sender.
    pub from: MemberId,
    /// The process that the sender expects at the other end.
    pub to: MemberId,
    /// The time of the sender's start, in nanoseconds since 1970. A later start of the same member has a higher number.
    pub incarnation: u64,
    /// The sender counts its calls to this member. An answer has 0 here. See [`Refusal::Late`].
    pub connection: u64,
    /// The generation of the group in which the sender has begun. 0: it has not.
    pub generation: u64,
}

/// Why one member refuses a connection with another. `ours` is the refusing side, `theirs` the refused side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("it runs `{theirs}`, but this group runs `{ours}`")]
    Algorithm { ours: String, theirs: String },
    #[error("it runs {}, but this group runs {}", variant_name(theirs), variant_name(ours))]
    Variant { ours: Option<String>, theirs: Option<String> },
    #[error("its group has {theirs} members, but this one has {ours}")]
    Members { ours: usize, theirs: usize },
    /// The group files differ in something else than addresses.
    #[error("its group file differs in the coordinators, the votes, the delay or in assume_synchronous")]
    GroupFile,
    #[error("there is no member {id}; there are 0 to {}", members.saturating_sub(1))]
    UnknownId { id: MemberId, members: usize },
    /// The answering process is not the one that the refusing side connected to.
    #[error("it is process {found} and not {expected}; is its address at the right place in the group file?")]
    NotWhomICalled { expected: MemberId, found: MemberId },
    /// The connecting process expected another process here.
    #[error(
        "it expected process {called} here, but this is {me}; is the address at the right place in the group file?"
    )]
    NotMe { called: MemberId, me: MemberId },
    /// Of two members, the one with the higher id connects to the other.
    #[error("process {id} must not connect to process {me}: of two members, the one with the higher id connects")]
    NotTheCaller { id: MemberId, me: MemberId },
    /// A later incarnation of a member that has lost its memory, or a second process with the same id.
    #[error(
        "process {id} was started again, or runs twice; what the first start knew is lost, and `{algorithm}` cannot go \
         on without it: restart the whole group"
    )]
    Restarted { id: MemberId, algorithm: String },
    /// An earlier incarnation of a member.
    #[error("process {id} has been started again since, or its clock went back; it takes no part any more")]
    Outdated { id: MemberId },
    /// The group has begun again without the refusing side: another process with its id takes part.
    #[error(
        "it has begun again, in generation {theirs}, and this member is of generation {ours}; it takes no part any more"
    )]
    BegunAgain { ours: u64, theirs: u64 },
    /// An earlier connection was held up in the network, and must not take the place of a later one.
    #[error("process {id} has connected again since")]
    Late { id: MemberId },
    /// This member had sent something that no member may send.
    #[error("process {id} broke the rules of the group: {why}")]
    Faulty { id: MemberId, why: String },
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
    #[error("the other side closed the connection")]
    Left,
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side is another program.
    #[error("it is another program: it began with \"{}\"", .0.escape_ascii())]
    NotBaton([u8; 6]),
    #[error("it speaks version {found}, but this program speaks version {VERSION}")]
    Version { found: u16 },
    #[error("expected {expected}, but received another frame")]
    OutOfPlace { expected: &'static str },
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The message names a process that is not where the message comes from or goes to, or another maker of its id.
    #[error("it sent message {id:#x} from process {from} to process {to}, which is not its business")]
    Foreign { id: u64, from: usize, to: usize },
    #[error("it sent a message for its resource {resource}, which it has not opened")]
    NotOpen { resource: u32 },
    #[error("it opened more than {limit} resources, which is the limit")]
    TooManyResources { limit: usize },
    #[error("the name of its resource has {bytes} bytes; at most {limit} are allowed")]
    LongName { bytes: usize, limit: usize },
    /// This side refused the connection.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The other side refused the connection.
    #[error("refused by the other side: {0}")]
    RefusedByPeer(Refusal),
    #[error("it was not heard of for {:.1} s", .0.as_secs_f64())]
    SilentFor(Duration),
    /// A later connection of the same member has taken over.
    #[error("it has connected again")]
    Replaced,
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
            LinkError::Refused(refusal) | LinkError::RefusedByPeer(refusal) => {
                !matches!(refusal, Refusal::Silent | Refusal::Late { .. })
            }
            LinkError::NotBaton(_) | LinkError::Version { .. } => true,
            error => error.is_fault(),
        }
    }

    /// Whether it tells a member that it cannot join the group. A member that refuses an earlier start of another one goes
    /// on waiting for the later one.
    pub(crate) fn keeps_from_joining(&self) -> bool {
        let is_of_the_other = matches!(self, LinkError::Refused(Refusal::Outdated { .. } | Refusal::Faulty { .. }));
        self.is_final() && !self.is_fault() && !is_of_the_other
    }

    /// Whether this side has begun, and refused a later start of a member.
    pub(crate) fn refuses_restart(&self) -> bool {
        matches!(self, LinkError::Refused(Refusal::Restarted { .. }))
    }

    /// Whether it tells a member of a group that has begun that it takes no part any more.
    pub(crate) fn ends_membership(&self) -> bool {
        match self {
            LinkError::RefusedByPeer(refusal) => matches!(refusal, Refusal::Outdated { .. } | Refusal::Faulty { .. }),
            LinkError::Refused(refusal) => matches!(refusal, Refusal::BegunAgain { .. }),
            _ => false,
        }
    }

    /// Whether the other side has sent something that no member may send.
    pub fn is_fault(&self) -> bool {
        match self {
            LinkError::Frame(_) | LinkError::OutOfPlace { .. } | LinkError::Session(_) | LinkError::Foreign { .. } => {
                true
            }
            LinkError::NotOpen { .. } | LinkError::TooManyResources { .. } | LinkError::LongName { .. } => true,
            LinkError::Closed(_) | LinkError::Left | LinkError::SilentFor(_) | LinkError::Replaced => false,
            LinkError::Refused(_) | LinkError::RefusedByPeer(_) => false,
            LinkError::NotBaton(_) | LinkError::Version { .. } => false,
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
    } else if ours.members != theirs.members {
        Err(Refusal::Members { ours: ours.members, theirs: theirs.members })
    } else if ours.group_hash != theirs.group_hash {
        Err(Refusal::GroupFile)
    } else if theirs.from >= ours.members {
        Err(Refusal::UnknownId { id: theirs.from, members: ours.members })
    } else if theirs.to != ours.from {
        Err(Refusal::NotMe { called: theirs.to, me: ours.from })
    } else {
        Ok(())
    }
}

/// Whether `theirs` comes from the process that this side connected to.
pub fn check_answer(ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    if theirs.from < ours.members && theirs.from != ours.to {
        return Err(Refusal::NotWhomICalled { expected: ours.to, found: theirs.from });
    }
    check_group(ours, theirs)
}

/// The incarnation of every other member with which this member has talked, and the members that broke the rules. A
/// member stays here after its connection is closed, so that a later start of it is noticed. Before the group begins, a
/// later start takes the place of the earlier one.
#[derive(Clone, Debug)]
pub struct Incarnations {
    /// The incarnation, and the number of its latest connection.
    seen: Vec<Option<(u64, u64)>>,
    /// Another member has met this incarnation. Earlier ones take no part any more.
    at_least: Vec<u64>,
    faulty: Vec<Option<String>>,
    /// Whether the algorithm bears a member that starts again.
    bears_restarts: bool,
    /// The group has begun.
    frozen: bool,
}

/// Which incarnation of a member begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    First,
    /// The one that was met before. The conversation goes on.
    Again,
    /// A later one. The conversation begins anew.
    Later,
}

impl Incarnations {
    pub fn new(members: usize, bears_restarts: bool) -> Self {
        Incarnations {
            seen: vec![None; members],
            at_least: vec![0; members],
            faulty: vec![None; members],
            bears_restarts,
            frozen: false,
        }
    }

    /// Whether a connection with the sender of `theirs` may be used. Changes nothing: see [`meet`](Self::meet).
    pub fn judge(&self, theirs: &Hello) -> Result<Met, Refusal> {
        let id = theirs.from;
        if let Some(why) = &self.faulty[id] {
            return Err(Refusal::Faulty { id, why: why.clone() });
        }
        match self.seen[id] {
            _ if theirs.incarnation < self.at_least[id] => Err(Refusal::Outdated { id }),
            None => Ok(Met::First),
            Some((seen, _)) if seen > theirs.incarnation => Err(Refusal::Outdated { id }),
            Some((seen, latest)) if seen == theirs.incarnation => {
                if theirs.connection < latest {
                    Err(Refusal::Late { id })
                } else {
                    Ok(Met::Again)
                }
            }
            Some(_) if self.bears_restarts || !self.frozen => Ok(Met::Later),
            Some(_) => Err(Refusal::Restarted { id, algorithm: theirs.algorithm.clone() }),
        }
    }

    /// Both sides have accepted the connection.
    pub fn meet(&mut self, theirs: &Hello) -> Result<Met, Refusal> {
        let met = self.judge(theirs)?;
        self.seen[theirs.from] = Some((theirs.incarnation, theirs.connection));
        Ok(met)
    }

    /// The incarnation of this member that was met last, unless another member has met a later one.
    pub fn of(&self, id: MemberId) -> Option<u64> {
        self.seen[id].map(|(incarnation, _)| incarnation).filter(|&incarnation| incarnation >= self.at_least[id])
    }

    /// Another member has met this incarnation. Returns whether this member has met an earlier one.
    pub fn hear_of(&mut self, id: MemberId, incarnation: u64) -> bool {
        let is_earlier = self.of(id).is_some_and(|met| met < incarnation);
        self.at_least[id] = self.at_least[id].max(incarnation);
        is_earlier
    }

    /// The group begins: unless the algorithm bears it, a member that starts again is refused from now on.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// The member broke the rules: nothing that it says is believed from now on.
    pub fn condemn(&mut self, id: MemberId, why: String) {
        self.faulty[id] = Some(why);
    }
}

/// Whether the process that connects may do so. Of two members, the one with the higher id connects.
pub fn check_caller(ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    check_group(ours, theirs)?;
    let id = theirs.from;
    if id > ours.from { Ok(()) } else { Err(Refusal::NotTheCaller { id, me: ours.from }) }
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
    judge: impl FnMut(&Hello) -> Result<(), Refusal>,
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

/// One side of a handshake, after the preambles. Pure.
#[derive(Debug)]
pub struct Shake {
    side: Side,
    ours: Hello,
    /// The other side's Hello, and this side's verdict.
    judged: Option<(Hello, Result<(), Refusal>)>,
}

/// What follows from a greeting.
#[derive(Debug)]
pub struct Shaken {
    /// This side writes these first.
    pub answers: Vec<Greeting>,
    /// None: the other side's verdict must come first.
    pub outcome: Option<Result<Hello, LinkError>>,
}

impl Shake {
    /// The caller then writes its Hello.
    pub fn new(side: Side, ours: Hello) -> Self {
        Shake { side, ours, judged: None }
    }

    /// A greeting of the other side has arrived.
    pub fn receive(&mut self, greeting: Greeting, judge: impl FnOnce(&Hello) -> Result<(), Refusal>) -> Shaken {
        match (greeting, self.judged.take()) {
            (Greeting::Hello(theirs), None) => {
                let verdict = judge(&theirs);
                let hello = Greeting::Hello(Hello { to: theirs.from, ..self.ours.clone() });
                let answer = (self.side == Side::Called).then_some(hello);
                let answers = answer.into_iter().chain([Greeting::Verdict(verdict.clone())]).collect();
                self.judged = Some((theirs, verdict));
                Shaken { answers, outcome: None }
            }
            (Greeting::Verdict(theirs), Some((hello, ours))) => {
                Shaken { answers: Vec::new(), outcome: Some(conclude(hello, ours, theirs)) }
            }
            (_, judged) => {
                let expected = if judged.is_none() { "a greeting" } else { "a verdict" };
                Shaken { answers: Vec::new(), outcome: Some(Err(LinkError::OutOfPlace { expected })) }
            }
        }
    }

    /// The connection breaks before the other side's verdict is here.
    fn broken(&self, error: TransferError) -> LinkError {
        match &self.judged {
            Some((_, Err(refusal))) => LinkError::Refused(refusal.clone()),
            _ => error.into(),
        }
    }
}

/// If each side refuses the other one, this side's reason counts, except that a process must hear that it is outdated.
fn conclude(hello: Hello, ours: Result<(), Refusal>, theirs: Result<(), Refusal>) -> Result<Hello, LinkError> {
    match (ours, theirs) {
        (Ok(()), Ok(())) => Ok(hello),
        (Ok(()), Err(refusal)) | (Err(_), Err(refusal @ Refusal::Outdated { .. })) => {
            Err(LinkError::RefusedByPeer(refusal))
        }
        (Err(refusal), _) => Err(LinkError::Refused(refusal)),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    side: Side,
    ours: &Hello,
    mut judge: impl FnMut(&Hello) -> Result<(), Refusal>,
) -> Result<Hello, LinkError> {
    if side == Side::Caller {
        stream.write_all(&preamble(VERSION)).await?;
        frame::write(stream, &Greeting::Hello(ours.clone())).await?;
    }
    let mut found = [0; 8];
    stream.read_exact(&mut found).await?;
    if side == Side::Called {
        stream.write_all(&preamble(VERSION)).await?;
    }
    check_preamble(found)?;
    let mut shake = Shake::new(side, ours.clone());
    let mut expected = "a greeting";
    loop {
        let greeting = frame::read(stream, std::mem::replace(&mut expected, "a verdict")).await;
        let greeting = greeting.map_err(|error| shake.broken(error))?;
        let Shaken { answers, outcome } = shake.receive(greeting, &mut judge);
        for answer in &answers {
            frame::write(stream, answer).await?;
        }
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

/// The Hello of process `from` to process `to`, for tests.
#[cfg(test)]
pub(crate) fn hello_of(members: usize, from: MemberId, to: MemberId) -> Hello {
    let incarnation = 100 + from as u64;
    Hello {
        algorithm: "central".into(),
        variant: None,
        members,
        group_hash: 9,
        from,
        to,
        incarnation,
        connection: 0,
        generation: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(from: MemberId, to: MemberId) -> Hello {
        hello_of(3, from, to)
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
        assert_eq!(refusal(|theirs| theirs.members = 4), Refusal::Members { ours: 3, theirs: 4 });
        assert_eq!(refusal(|theirs| theirs.group_hash = 0), Refusal::GroupFile);
        assert_eq!(refusal(|theirs| theirs.from = 3), Refusal::UnknownId { id: 3, members: 3 });
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
    fn the_member_with_the_higher_id_connects() {
        assert_eq!(check_caller(&hello(1, 2), &hello(2, 1)), Ok(()));
        assert_eq!(check_caller(&hello(1, 0), &hello(0, 1)), Err(Refusal::NotTheCaller { id: 0, me: 1 }));
        assert_eq!(check_caller(&hello(1, 1), &hello(1, 1)), Err(Refusal::NotTheCaller { id: 1, me: 1 }));
    }

    #[test]
    fn a_member_comes_back_only_as_the_same_incarnation() {
        let later = Hello { incarnation: 500, ..hello(2, 1) };
        let mut met = Incarnations::new(3, false);
        assert_eq!(met.judge(&hello(2, 1)), Ok(Met::First));
        assert_eq!(met.meet(&hello(2, 1)), Ok(Met::First));
        assert_eq!(met.judge(&later), Ok(Met::Later), "the group has not begun");
        met.freeze();
        assert_eq!(met.meet(&hello(2, 1)), Ok(Met::Again));
        assert_eq!(met.meet(&later), Err(Refusal::Restarted { id: 2, algorithm: "central".into() }));
        assert_eq!(met.meet(&hello(2, 1)), Ok(Met::Again), "the first one goes on");

        let mut met = Incarnations::new(3, false);
        met.meet(&later).unwrap();
        assert_eq!(met.meet(&hello(2, 1)), Err(Refusal::Outdated { id: 2 }), "the group has not begun");

        let mut met = Incarnations::new(3, true);
        met.freeze();
        met.meet(&hello(2, 1)).unwrap();
        assert_eq!(met.meet(&later), Ok(Met::Later));
        assert_eq!(met.meet(&hello(2, 1)), Err(Refusal::Outdated { id: 2 }));
    }

    #[test]
    fn a_member_that_broke_the_rules_does_not_come_back() {
        let mut met = Incarnations::new(3, true);
        met.meet(&hello(2, 1)).unwrap();
        met.condemn(2, "it sent item 5 where item 3 is next".into());
        let refusal = met.meet(&hello(2, 1)).unwrap_err().to_string();
        assert_eq!(refusal, "process 2 broke the rules of the group: it sent item 5 where item 3 is next");
    }
}
