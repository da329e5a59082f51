//! The connections to all other members: how they are made, and the tasks that read and write them.
//!
//! Of two members, the one with the higher id connects to the other, and retries until the other one accepts. A member
//! goes on listening for the whole run, so that a process that connects later learns why it is refused.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_protocol::ProcessId;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::frame::{self, Envelope, Frame};
use crate::group::{GroupError, PeerGroup};
use crate::handshake::{Hello, LinkError, Roster, Side, check_answer, hang_up, shake_hands};
use crate::options::{Warning, Warnings};

/// The pause between two attempts grows from the first to the second of these.
const RETRY_AFTER: Duration = Duration::from_millis(10);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(500);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after the system failed to accept a connection, e.g. for want of file descriptors.
const ACCEPT_AFTER: Duration = Duration::from_millis(100);

/// How many handshakes may run at once. Further connections wait.
const HANDSHAKES_MAX: usize = 512;

/// How many frames to one member may wait to be written.
pub(crate) const OUTGOING_MAX: usize = 8192;

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("`{algorithm}` is an algorithm for {found}, but this needs one for {needed}")]
    Family { algorithm: &'static str, found: &'static str, needed: &'static str },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    /// One of the two members refused the connection.
    #[error("no connection with process {peer} at {address}: {error}")]
    Refused { peer: ProcessId, address: String, error: LinkError },
    /// Some members did not connect in time.
    #[error("the group is not complete after {waited:?}; missing: {}", missing_text(missing))]
    Incomplete { waited: Duration, missing: Vec<Missing> },
}

/// A member that is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub id: ProcessId,
    pub address: String,
    /// The error of the last attempt. None if the missing member has to connect, not this one.
    pub last: Option<LinkError>,
}

fn missing_text(missing: &[Missing]) -> String {
    let texts: Vec<String> = missing
        .iter()
        .map(|Missing { id, address, last }| match last {
            Some(error) => format!("{id} at {address} ({error})"),
            None => format!("{id} at {address} (has not connected)"),
        })
        .collect();
    texts.join(", ")
}

/// The connections to all other members.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub streams: Vec<(ProcessId, TcpStream)>,
    /// Accepts and refuses late connections until dropped.
    pub listening: JoinSet<()>,
}

/// A new connection with this member, or a failed attempt.
type Outcome = (ProcessId, Result<TcpStream, LinkError>);

/// Upper limit for a time given by the user, so that `Instant` does not overflow.
const START_WITHIN_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Waits until there is a connection to every other member.
pub(crate) async fn assemble(
    group: &PeerGroup,
    id: ProcessId,
    listener: TcpListener,
    start_within: Duration,
    warnings: &Warnings,
) -> Result<Assembled, JoinError> {
    let ours = greeting(group, id);
    let deadline = Instant::now() + start_within.min(START_WITHIN_MAX);
    let (outcome, mut outcomes) = mpsc::channel(group.processes());
    let reception = Reception {
        ours: ours.clone(),
        roster: Arc::new(Mutex::new(Roster::new(group.processes()))),
        outcome: outcome.clone(),
        warnings: warnings.clone(),
    };
    let mut listening = JoinSet::new();
    listening.spawn(listen(listener, reception));
    let mut calling = JoinSet::new();
    for to in 0..id {
        let address = group.address(to)?.to_string();
        calling.spawn(call(Hello { to, ..ours.clone() }, address, outcome.clone()));
    }

    let mut streams: Vec<Option<TcpStream>> = group.file().members.iter().map(|_| None).collect();
    let mut last: Vec<Option<LinkError>> = vec![None; group.processes()];
    while (0..group.processes()).any(|other| other != id && streams[other].is_none()) {
        match timeout_at(deadline, outcomes.recv()).await {
            Ok(Some((peer, Ok(stream)))) => streams[peer] = Some(stream),
            Ok(Some((peer, Err(error)))) if error.is_final() => {
                return Err(JoinError::Refused { peer, address: group.address(peer)?.to_string(), error });
            }
            Ok(Some((peer, Err(error)))) => last[peer] = Some(error),
            // `outcome` is still alive here, so the channel never closes.
            Ok(None) | Err(_) => {
                let absent = |other: &ProcessId| *other != id && streams[*other].is_none();
                let missing = (0..group.processes()).filter(absent).map(|id| Missing {
                    id,
                    address: group.file().members[id].clone(),
                    last: last[id].clone(),
                });
                return Err(JoinError::Incomplete { waited: start_within, missing: missing.collect() });
            }
        }
    }
    let streams = streams.into_iter().enumerate().filter_map(|(peer, stream)| Some((peer, stream?))).collect();
    Ok(Assembled { streams, listening })
}

/// This member's Hello. The caller sets `to`.
pub(crate) fn greeting(group: &PeerGroup, id: ProcessId) -> Hello {
    Hello {
        algorithm: group.about().name.to_string(),
        variant: group.file().variant.clone(),
        processes: group.processes(),
        group_hash: group.hash(),
        from: id,
        to: id,
        incarnation: fastrand::u64(..),
    }
}

/// Connects to one member. Retries until there is a connection or a final error.
async fn call(ours: Hello, address: String, outcome: mpsc::Sender<Outcome>) {
    let mut pause = RETRY_AFTER;
    loop {
        let attempt = call_once(&ours, &address).await;
        let ended = match &attempt {
            Ok(_) => true,
            Err(error) => error.is_final(),
        };
        if outcome.send((ours.to, attempt)).await.is_err() || ended {
            return;
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(RETRY_AFTER_MAX);
    }
}

async fn call_once(ours: &Hello, address: &str) -> Result<TcpStream, LinkError> {
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let mut stream = connecting.map_err(|_| LinkError::Closed("it does not answer".into()))??;
    stream.set_nodelay(true)?;
    match shake_hands(&mut stream, Side::Caller, ours, |theirs| check_answer(ours, theirs)).await {
        Ok(_) => Ok(stream),
        Err(error) => {
            hang_up(&mut stream).await;
            Err(error)
        }
    }
}

/// The state for answering connections.
#[derive(Clone)]
struct Reception {
    ours: Hello,
    roster: Arc<Mutex<Roster>>,
    outcome: mpsc::Sender<Outcome>,
    warnings: Warnings,
}

/// Answers connections as long as the member runs.
async fn listen(listener: TcpListener, reception: Reception) {
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES_MAX => match accepted {
                Ok((stream, from)) => {
                    handshakes.spawn(reception.clone().answer(stream, from));
                }
                Err(error) => {
                    reception.warnings.tell(Warning::CannotAccept(error.to_string()));
                    sleep(ACCEPT_AFTER).await;
                }
            },
            Some(_) = handshakes.join_next() => {}
        }
    }
}

impl Reception {
    async fn answer(self, mut stream: TcpStream, from: std::net::SocketAddr) {
        let mut admitted = None;
        let judge = |theirs: &Hello| {
            let mut roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
            roster.admit(&self.ours, theirs)?;
            admitted = Some(theirs.from);
            Ok(())
        };
        let shaken = match stream.set_nodelay(true) {
            Ok(()) => shake_hands(&mut stream, Side::Called, &self.ours, judge).await,
            Err(error) => Err(error.into()),
        };
        match shaken {
            Ok(theirs) => {
                // The receiver is gone only if the start has failed.
                let _ = self.outcome.send((theirs.from, Ok(stream))).await;
            }
            Err(error) => {
                if let Some(id) = admitted {
                    self.roster.lock().unwrap_or_else(PoisonError::into_inner).forget(id);
                }
                self.warnings.tell(Warning::Refused { from, error });
                hang_up(&mut stream).await;
            }
        }
    }
}

/// What another member sent.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message(Envelope),
    Done,
    /// Always the last arrival of a member.
    Closed(LinkError),
}

/// A connection in use. After a drop, the writer still writes the queued frames and then closes its direction.
#[derive(Debug)]
pub(crate) struct Link {
    outgoing: mpsc::Sender<Vec<u8>>,
    reader: AbortHandle,
}

impl Link {
    /// Starts two tasks for the connection: one reads into `arrivals`, the other writes the frames of
    /// [`send`](Link::send).
    pub fn open(
        peer: ProcessId,
        stream: TcpStream,
        arrivals: mpsc::Sender<(ProcessId, Arrival)>,
        tasks: &mut JoinSet<()>,
    ) -> Link {
        let (source, sink) = stream.into_split();
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        let reader = tasks.spawn(read(peer, source, arrivals));
        tasks.spawn(write(sink, queue));
        Link { outgoing, reader }
    }

    /// Queues the frame for writing. Does not wait.
    pub fn send(&self, frame: Vec<u8>) -> Result<(), LinkError> {
        self.outgoing.try_send(frame).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LinkError::TooSlow { frames: OUTGOING_MAX },
            mpsc::error::TrySendError::Closed(_) => LinkError::Closed("it can no longer be written to".into()),
        })
    }

    pub fn stop_reading(&self) {
        self.reader.abort();
    }
}

async fn read(peer: ProcessId, source: OwnedReadHalf, arrivals: mpsc::Sender<(ProcessId, Arrival)>) {
    let mut source = BufReader::new(source);
    loop {
        let arrival = match frame::read(&mut source).await {
            Ok(Frame::Message(envelope)) => Arrival::Message(envelope),
            Ok(Frame::Done) => Arrival::Done,
            Ok(Frame::Hello(_) | Frame::Verdict(_)) => Arrival::Closed(LinkError::OutOfPlace { expected: "a message" }),
            Err(error) => Arrival::Closed(error.into()),
        };
        let last = matches!(arrival, Arrival::Closed(_));
        if arrivals.send((peer, arrival)).await.is_err() || last {
            return;
        }
    }
}

/// Writes until the link is dropped. Does not report errors, because the reader of the same connection meets them too.
async fn write(sink: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    let mut sink = BufWriter::new(sink);
    while let Some(frame) = queue.recv().await {
        if sink.write_all(&frame).await.is_err() {
            return;
        }
        // Flush only when no other frame waits, so that waiting frames go out together.
        if queue.is_empty() && sink.flush().await.is_err() {
            return;
        }
    }
    // Ignore an error: the other side notices the end anyway.
    let _ = sink.shutdown().await;
}
