//! The links to the other members: a task for each, which connects, reads, writes and beats, and opens the connection
//! again whenever it breaks.
//!
//! Of two members, the one with the higher id connects to the other. A member goes on listening for the whole run.
//!
//! A broken connection loses nothing: see `session`. So the members of a group notice only that a message takes longer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::bytes::{Buf, BytesMut};

use crate::beginning::Statement;
use crate::frame::{self, Cutter, Frame, Item, decode_exactly};
use crate::group::MemberId;
use crate::handshake::{Hello, LinkError, Met, Refusal, Side, check_answer, hang_up, shake_hands};
use crate::resources::NAME_BYTES_MAX;
use crate::session::Session;
use crate::wires::Touched;

/// The pause between two attempts grows from the first to the second of these.
const RETRY_AFTER: Duration = Duration::from_millis(10);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(500);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How many bytes are written and read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// While so many bytes wait to be written, no further acknowledgement is added. Items alone never fill the buffer so far,
/// so acknowledgements do not wait for them.
const CONTROL_BYTES_MAX: usize = 4 * CHUNK_BYTES;

/// How often a member that leaves reads what the peer has sent.
const LEAVE_READS_MAX: usize = 64;

/// How often a link beats, and after which silence it is taken for broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub beat_every: Duration,
    pub silent_after: Duration,
}

/// The link to one other member.
#[derive(Debug)]
pub(crate) struct Link {
    pub peer: MemberId,
    inner: Mutex<Inner>,
    /// Notified when the socket takes no more bytes: the task of the link goes on writing.
    blocked: Notify,
    /// Notified when a later start of the peer has taken the place of the connected one.
    outdated: Notify,
    /// Bytes that the peer has not acknowledged, for callers that do not want to take the lock.
    backlog: AtomicUsize,
    /// How often this member has called the peer.
    calls: AtomicU64,
    /// Whether messages for the peer are kept while it is not connected.
    keeps: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    connection: Option<Arc<TcpStream>>,
    /// The bytes that go to this connection next.
    out: BytesMut,
    heard: Instant,
    /// Why there is no connection.
    last_error: Option<LinkError>,
    left: bool,
}

/// What one member knows of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHealth {
    pub id: MemberId,
    pub connected: bool,
    /// How long ago the last byte of the member arrived.
    pub not_heard_for: Duration,
    /// Bytes that the member has not acknowledged.
    pub backlog_bytes: usize,
    /// Whether the member has said that it leaves the group.
    pub left: bool,
    /// Why there is no connection, as far as this member knows.
    pub last_error: Option<LinkError>,
}

/// What the owner of a link does with it.
pub(crate) trait Owner: Send + Sync + 'static {
    /// The member's Hello to `peer`.
    fn hello(&self, peer: MemberId) -> Hello;
    fn judge(&self, theirs: &Hello) -> Result<(), Refusal>;
    /// Both sides have accepted the connection. No item of the peer is being delivered.
    fn meets(&self, theirs: &Hello) -> Result<Met, Refusal>;
    /// This member has refused a later start of a member, because the group has begun, and has said so.
    fn refused_restart(&self, peer: MemberId);
    /// A later incarnation of the peer appears: the owner begins a new conversation with it.
    fn restarted(&self, peer: MemberId);
    /// A statement about the beginning of the group has arrived.
    fn hears(&self, peer: MemberId, statement: Statement) -> Result<(), LinkError>;
    /// An item has arrived. The owner notes in `touched` which links have something to write.
    fn item(&self, peer: MemberId, item: Item<'_>, touched: &mut Touched) -> Result<(), LinkError>;
    /// Everything that has arrived together was delivered: writes to the links.
    fn flush(&self, touched: &mut Touched);
    /// The peer asks whether a caller of this member is inside of this resource.
    fn is_inside(&self, name: &[u8]) -> bool;
    /// The peer answers that question.
    fn hears_inside(&self, peer: MemberId, name: &[u8], inside: bool);
    /// The peer has sent something that no member may send.
    fn condemn(&self, peer: MemberId, error: &LinkError);
    /// The connection is open.
    fn connected(&self, peer: MemberId);
    /// The connection is broken, or an attempt to open one failed.
    fn broken(&self, peer: MemberId, error: &LinkError);
    /// The peer's backlog has changed.
    fn backlog(&self, peer: MemberId, bytes: usize);
}

impl Link {
    pub fn new(peer: MemberId) -> Self {
        let inner = Inner {
            session: Session::default(),
            connection: None,
            out: BytesMut::new(),
            heard: Instant::now(),
            last_error: None,
            left: false,
        };
        Link {
            peer,
            inner: Mutex::new(inner),
            blocked: Notify::new(),
            outdated: Notify::new(),
            backlog: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            keeps: AtomicBool::new(true),
        }
    }

    /// Adds an item to the conversation. [`flush`](Link::flush) writes it. Returns the backlog in bytes.
    pub fn send(&self, item: Item<'_>) -> Result<usize, frame::FrameError> {
        let mut inner = self.inner();
        inner.session.push(item)?;
        Ok(self.tell_backlog(&inner))
    }

    /// The newest statement about the beginning of the group. Items that are sent later come behind it.
    pub fn say(&self, statement: &Statement) -> Result<(), frame::FrameError> {
        let mut inner = self.inner();
        inner.session.say(statement)?;
        inner.flush(&self.blocked);
        Ok(())
    }

    /// Asks the peer whether a caller of it is inside of this resource. The question or its answer may be lost.
    pub fn ask_inside(&self, name: &[u8]) {
        self.control(&Frame::IsInside { name });
    }

    /// Sends a frame that is not part of the conversation, if there is a connection and not much waits to be written.
    fn control(&self, frame: &Frame<'_>) {
        let mut inner = self.inner();
        if inner.connection.is_some() && inner.out.len() < CONTROL_BYTES_MAX {
            inner.control(frame);
            inner.flush(&self.blocked);
        }
    }

    /// Begins a new conversation, with these resources. Nothing else can come before them.
    pub fn restart<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Result<usize, frame::FrameError> {
        let mut inner = self.inner();
        inner.session.begin_anew();
        names.map(|name| Item::Open { name }).try_for_each(|item| inner.session.push(item))?;
        Ok(self.tell_backlog(&inner))
    }

    /// Called under the lock, so that no older number replaces a newer one.
    fn tell_backlog(&self, inner: &Inner) -> usize {
        let backlog = inner.session.backlog();
        self.backlog.store(backlog, Ordering::Relaxed);
        backlog
    }

    /// Writes as much as the socket takes now. The task of the link writes the rest.
    pub fn flush(&self) {
        self.inner().flush(&self.blocked);
    }

    pub fn backlog(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Whether messages for the peer are kept while it is not connected. Default: true.
    pub fn keep(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Whether a message for the peer is lost now.
    pub fn loses(&self) -> bool {
        !self.keeps.load(Ordering::Relaxed) && self.inner().connection.is_none()
    }

    pub fn health(&self) -> PeerHealth {
        let inner = self.inner();
        PeerHealth {
            id: self.peer,
            connected: inner.connection.is_some(),
            not_heard_for: inner.heard.elapsed(),
            backlog_bytes: inner.session.backlog(),
            left: inner.left,
            last_error: inner.last_error.clone(),
        }
    }

    /// Tells the peer that this member leaves, if there is a connection, and closes it.
    pub fn leave(&self) {
        let mut inner = self.inner();
        if inner.connection.is_some() {
            inner.control(&Frame::Leave);
            inner.flush(&self.blocked);
        }
        // A socket that is closed with unread bytes discards what was written to it.
        let has_more = |stream: &Arc<TcpStream>| matches!(stream.try_read(&mut [0; 4096]), Ok(1..));
        // A peer that floods must not keep this member from leaving.
        (0..LEAVE_READS_MAX).all(|_| inner.connection.as_ref().is_some_and(has_more));
        inner.connection = None;
    }

    /// Closes the connection without a word.
    pub fn hang_up(&self) {
        self.inner().connection = None;
    }

    /// Whether the peer has acknowledged everything, or is gone.
    pub fn is_quiet(&self, silent_after: Duration) -> bool {
        let inner = self.inner();
        let is_gone = inner.left || (inner.connection.is_none() && inner.heard.elapsed() > silent_after);
        inner.session.backlog() == 0 || is_gone
    }

    /// A later start of the peer takes part, so the connection with the earlier one is closed.
    pub fn outdate(&self) {
        self.outdated.notify_one();
    }

    /// A silence of the peer counts from now on.
    pub fn excuse_silence(&self) {
        self.inner().heard = Instant::now();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: no code panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disconnect(&self, error: &LinkError) {
        let mut inner = self.inner();
        inner.connection = None;
        inner.out.clear();
        inner.last_error = Some(error.clone());
    }
}

impl Inner {
    /// Tells the peer how far its items have arrived, unless much waits to be written already.
    fn acknowledge(&mut self) {
        if self.out.len() < CONTROL_BYTES_MAX {
            let beat = self.session.beat();
            self.control(&beat);
        }
    }

    fn control(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame::encode_to(&mut bytes, frame).expect("a frame of a number or a name is short");
        self.out.extend_from_slice(&bytes);
    }

    fn flush(&mut self, blocked: &Notify) {
        let Some(connection) = self.connection.clone() else { return };
        loop {
            self.session.fill(&mut self.out, CHUNK_BYTES);
            if self.out.is_empty() {
                return;
            }
            match connection.try_write(&self.out) {
                Ok(written) => self.out.advance(written),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return blocked.notify_one(),
                // Reading meets the same error, and ends the connection.
                Err(_) => return,
            }
        }
    }
}

/// Runs the link until its task is aborted. `accepted` has the connections that the peer makes.
pub(crate) async fn run(
    link: Arc<Link>,
    owner: Arc<impl Owner>,
    address: Option<String>,
    pace: Pace,
    mut accepted: mpsc::Receiver<(TcpStream, Hello)>,
) {
    let mut next = None;
    loop {
        let (stream, theirs) = match next.take() {
            Some(connection) => connection,
            None => match connect(&link, &*owner, address.as_deref(), &mut accepted).await {
                Some(connection) => connection,
                None => return,
            },
        };
        let error = match talk(&link, &*owner, stream, &theirs, pace, &mut accepted).await {
            Ended::Replaced(connection) => {
                next = Some(connection);
                LinkError::Replaced
            }
            Ended::Broken(error) => error,
        };
        link.disconnect(&error);
        if error.is_fault() {
            owner.condemn(link.peer, &error);
        }
        owner.broken(link.peer, &error);
    }
}

/// Waits for a connection: calls the peer at `address`, or waits until it calls. None: the member stops.
async fn connect(
    link: &Link,
    owner: &impl Owner,
    address: Option<&str>,
    accepted: &mut mpsc::Receiver<(TcpStream, Hello)>,
) -> Option<(TcpStream, Hello)> {
    let Some(address) = address else { return accepted.recv().await };
    let mut pause = RETRY_AFTER;
    loop {
        match call(link, owner, address).await {
            Ok(connection) => return Some(connection),
            Err(error) => {
                link.disconnect(&error);
                owner.broken(link.peer, &error);
            }
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(RETRY_AFTER_MAX);
    }
}

async fn call(link: &Link, owner: &impl Owner, address: &str) -> Result<(TcpStream, Hello), LinkError> {
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let mut stream = connecting.map_err(|_| LinkError::Closed("it does not answer".into()))??;
    stream.set_nodelay(true)?;
    let connection = link.calls.fetch_add(1, Ordering::Relaxed);
    let ours = Hello { connection, ..owner.hello(link.peer) };
    let judge = |theirs: &Hello| check_answer(&ours, theirs).and_then(|()| owner.judge(theirs));
    match shake_hands(&mut stream, Side::Caller, &ours, judge).await {
        Ok(theirs) => Ok((stream, theirs)),
        Err(error) => {
            hang_up(&mut stream).await;
            if error.refuses_restart() {
                owner.refused_restart(link.peer);
            }
            Err(error)
        }
    }
}

/// Why a connection is no longer in use.
enum Ended {
    Broken(LinkError),
    Replaced((TcpStream, Hello)),
}

/// Uses a connection until it breaks.
async fn talk(
    link: &Link,
    owner: &impl Owner,
    stream: TcpStream,
    theirs: &Hello,
    pace: Pace,
    accepted: &mut mpsc::Receiver<(TcpStream, Hello)>,
) -> Ended {
    let stream = Arc::new(stream);
    let begun = tokio::select! {
        begun = begin(link, owner, &stream, theirs, pace) => begun,
        connection = later(owner, accepted) => return Ended::Replaced(connection),
    };
    // Items may have come together with the beginning.
    let begun = begun.and_then(|mut reader| reader.deliver(link, owner).map(|()| reader));
    let mut reader = match begun {
        Ok(reader) => reader,
        Err(error) => return Ended::Broken(error),
    };
    let mut beats = interval(pace.beat_every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut blocked, mut beaten) = (false, Instant::now());
    loop {
        let step = tokio::select! {
            readable = stream.readable() => readable.map_err(LinkError::from).and_then(|()| reader.read(link, owner)),
            () = link.blocked.notified() => { blocked = true; Ok(()) }
            writable = stream.writable(), if blocked => {
                blocked = false;
                writable.map_err(LinkError::from).map(|()| link.flush())
            }
            _ = beats.tick() => {
                // This process itself stood still: it has not yet read what the peer said meanwhile.
                if std::mem::replace(&mut beaten, Instant::now()).elapsed() > pace.silent_after / 2 {
                    link.excuse_silence();
                }
                beat(link, pace)
            }
            () = link.outdated.notified() => Err(LinkError::Refused(Refusal::Outdated { id: link.peer })),
            connection = later(owner, accepted) => return Ended::Replaced(connection),
        };
        if let Err(error) = step {
            return Ended::Broken(error);
        }
    }
}

/// The next connection of the peer that may take the place of the present one.
async fn later(owner: &impl Owner, accepted: &mut mpsc::Receiver<(TcpStream, Hello)>) -> (TcpStream, Hello) {
    loop {
        match accepted.recv().await {
            Some((stream, theirs)) if owner.judge(&theirs).is_ok() => return (stream, theirs),
            Some(_) => {}
            // The member stops.
            None => std::future::pending().await,
        }
    }
}

/// Agrees with the peer where the conversation goes on.
async fn begin<'a>(
    link: &Link,
    owner: &impl Owner,
    stream: &'a Arc<TcpStream>,
    theirs: &Hello,
    pace: Pace,
) -> Result<Reader<'a>, LinkError> {
    let met = owner.meets(theirs).map_err(LinkError::Refused)?;
    if met == Met::Later {
        owner.restarted(link.peer);
    }
    let mut first = Vec::new();
    let received = link.inner().session.received();
    frame::encode_to(&mut first, &Frame::Resume { received }).expect("a frame of a number is short");
    let resume = async {
        write_all(stream, &first).await?;
        let mut reader = Reader { stream, buffer: BytesMut::with_capacity(CHUNK_BYTES), cutter: Cutter::new() };
        let received = reader.resume().await?;
        Ok::<_, LinkError>((reader, received))
    };
    let (reader, received) =
        timeout(pace.silent_after, resume).await.unwrap_or_else(|_| Err(LinkError::SilentFor(pace.silent_after)))?;
    {
        let mut inner = link.inner();
        inner.heard = Instant::now();
        (inner.last_error, inner.left) = (None, false);
        inner.session.resume(received)?;
        inner.out.clear();
        inner.connection = Some(stream.clone());
        inner.flush(&link.blocked);
    }
    owner.connected(link.peer);
    Ok(reader)
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> Result<(), LinkError> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Acknowledges what has arrived, and notices a peer that is silent.
fn beat(link: &Link, pace: Pace) -> Result<(), LinkError> {
    let mut inner = link.inner();
    if inner.heard.elapsed() > pace.silent_after {
        return Err(LinkError::SilentFor(pace.silent_after));
    }
    inner.acknowledge();
    inner.flush(&link.blocked);
    Ok(())
}

/// Reads the frames of one connection.
struct Reader<'a> {
    stream: &'a TcpStream,
    buffer: BytesMut,
    cutter: Cutter,
}

impl Reader<'_> {
    /// Reads the first frame.
    async fn resume(&mut self) -> Result<u64, LinkError> {
        loop {
            if let Some(bytes) = self.cutter.cut(&mut self.buffer)? {
                return match decode_exactly(&bytes, "a frame")? {
                    Frame::Resume { received } => Ok(received),
                    _ => Err(LinkError::OutOfPlace { expected: "where the conversation goes on" }),
                };
            }
            self.stream.readable().await?;
            self.fill()?;
        }
    }

    /// Reads what there is. Returns false if there is nothing.
    fn fill(&mut self) -> Result<bool, LinkError> {
        self.buffer.reserve(CHUNK_BYTES);
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(LinkError::Left),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what there is, and delivers it.
    fn read(&mut self, link: &Link, owner: &impl Owner) -> Result<(), LinkError> {
        if !self.fill()? {
            return Ok(());
        }
        link.inner().heard = Instant::now();
        self.deliver(link, owner)
    }

    /// Delivers the frames that were read.
    fn deliver(&mut self, link: &Link, owner: &impl Owner) -> Result<(), LinkError> {
        let mut touched = Touched::default();
        let outcome = self.deliver_unflushed(link, owner, &mut touched);
        owner.flush(&mut touched);
        outcome
    }

    fn deliver_unflushed(&mut self, link: &Link, owner: &impl Owner, touched: &mut Touched) -> Result<(), LinkError> {
        while let Some(bytes) = self.cutter.cut(&mut self.buffer)? {
            match decode_exactly(&bytes, "a frame")? {
                Frame::Item { number, item } => {
                    let is_new = {
                        let mut inner = link.inner();
                        let is_new = inner.session.receive(number, bytes.len())?;
                        if inner.session.owes_acknowledgement() {
                            inner.acknowledge();
                            inner.flush(&link.blocked);
                        }
                        is_new
                    };
                    if is_new {
                        owner.item(link.peer, item, touched)?;
                    }
                }
                Frame::Beat { received } => {
                    let mut inner = link.inner();
                    inner.session.acknowledge(received)?;
                    let backlog = link.tell_backlog(&inner);
                    drop(inner);
                    owner.backlog(link.peer, backlog);
                }
                Frame::Leave => link.inner().left = true,
                Frame::Statement(statement) => owner.hears(link.peer, statement)?,
                Frame::IsInside { name } => {
                    if name.len() > NAME_BYTES_MAX {
                        return Err(LinkError::LongName { bytes: name.len(), limit: NAME_BYTES_MAX });
                    }
                    let inside = owner.is_inside(name);
                    link.control(&Frame::Inside { name, inside });
                }
                Frame::Inside { name, inside } => owner.hears_inside(link.peer, name, inside),
                Frame::Resume { .. } => return Err(LinkError::OutOfPlace { expected: "a message" }),
            }
        }
        Ok(())
    }
}
