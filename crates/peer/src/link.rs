//! One connection to every other member: how they come about, and who reads and writes them.
//!
//! Of two members the one with the higher id calls, again and again until the other is there. Who is called goes on
//! listening for the whole run, so that whoever calls later is told why it is not wanted.

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

/// The pause between two calls grows from the first to the second of these.
const RETRY_AFTER: Duration = Duration::from_millis(10);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(500);

/// How long a call may ring.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after the system refused to accept a connection, e.g. for want of file descriptors.
const ACCEPT_AFTER: Duration = Duration::from_millis(100);

/// How many callers may be in their handshake at once; further ones wait.
const HANDSHAKES_MAX: usize = 512;

/// How many frames to one member may wait to be written.
pub(crate) const OUTGOING_MAX: usize = 8192;

/// Why a member could not join its group.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The group itself.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The group is for something else.
    #[error("`{algorithm}` is an algorithm for {found}, and this needs one for {needed}")]
    Family {
        /// What the group runs.
        algorithm: &'static str,
        /// What that is for.
        found: &'static str,
        /// What is needed.
        needed: &'static str,
    },
    /// It cannot listen at its address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Some member will not have it, or it will not have some member.
    #[error("no connection with process {peer} at {address}: {error}")]
    Refused {
        /// Which member.
        peer: ProcessId,
        /// Where.
        address: String,
        /// Why.
        error: LinkError,
    },
    /// Not everybody came.
    #[error("the group is not complete after {waited:?}; missing: {}", missing_text(missing))]
    Incomplete {
        /// How long it waited.
        waited: Duration,
        /// Who is not there.
        missing: Vec<Missing>,
    },
}

/// A member that did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub id: ProcessId,
    /// Where it should be.
    pub address: String,
    /// What came of the last call, if it is for us to call.
    pub last: Option<LinkError>,
}

fn missing_text(missing: &[Missing]) -> String {
    let texts: Vec<String> = missing
        .iter()
        .map(|Missing { id, address, last }| match last {
            Some(error) => format!("{id} at {address} ({error})"),
            None => format!("{id} at {address} (has not called)"),
        })
        .collect();
    texts.join(", ")
}

/// All members are connected.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub streams: Vec<(ProcessId, TcpStream)>,
    /// Listens until dropped.
    pub listening: JoinSet<()>,
}

/// A connection has come about, or a call to this member came to nothing.
type Outcome = (ProcessId, Result<TcpStream, LinkError>);

/// Clocks cannot count for ever.
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
            // We have a sender ourselves, so there is always one left.
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

/// What this member says of itself; to whom is filled in later.
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

/// Calls one member until there is a connection or a reason not to try again.
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
    let mut stream = connecting.map_err(|_| LinkError::Closed("nobody answers".into()))??;
    stream.set_nodelay(true)?;
    match shake_hands(&mut stream, Side::Caller, ours, |theirs| check_answer(ours, theirs)).await {
        Ok(_) => Ok(stream),
        Err(error) => {
            hang_up(&mut stream).await;
            Err(error)
        }
    }
}

/// What it takes to answer callers.
#[derive(Clone)]
struct Reception {
    ours: Hello,
    roster: Arc<Mutex<Roster>>,
    outcome: mpsc::Sender<Outcome>,
    warnings: Warnings,
}

/// Answers callers for as long as the member runs.
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
                // Nobody waits for it only if the start has failed meanwhile.
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

/// What comes from another member.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message(Envelope),
    Done,
    /// The last thing that comes.
    Closed(LinkError),
}

/// A connection in use. Dropping it lets the writer finish and close its direction.
#[derive(Debug)]
pub(crate) struct Link {
    outgoing: mpsc::Sender<Vec<u8>>,
    reader: AbortHandle,
}

impl Link {
    /// Lets two tasks have the connection: one reads into `arrivals`, the other writes what [`send`](Link::send) is given.
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

    /// Has the frame written, without waiting for it.
    pub fn send(&self, frame: Vec<u8>) -> Result<(), LinkError> {
        self.outgoing.try_send(frame).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LinkError::TooSlow { frames: OUTGOING_MAX },
            mpsc::error::TrySendError::Closed(_) => LinkError::Closed("it can no longer be written to".into()),
        })
    }

    /// Reads no more from it.
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

/// Writes until nothing more will come. A failure needs no report: the reader of the same connection meets it too.
async fn write(sink: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    let mut sink = BufWriter::new(sink);
    while let Some(frame) = queue.recv().await {
        if sink.write_all(&frame).await.is_err() {
            return;
        }
        // Frames that wait already go out together.
        if queue.is_empty() && sink.flush().await.is_err() {
            return;
        }
    }
    // The other side notices the end either way.
    let _ = sink.shutdown().await;
}
