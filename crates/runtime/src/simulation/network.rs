//! A network in memory: connections of bytes between machines, as TCP has them.
//!
//! Bytes of one direction arrive in order, each piece after a random delay; different connections overtake each other. A
//! direction between two machines can be cut: then its bytes wait, as TCP sends them again, and the other direction goes
//! on. A connection can break after any byte. Either end may not notice.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::alarms::Alarm;
use super::hosts::HostId;
use super::{Nanos, Wires, World, running};

/// The number of a connection.
pub type Connection = u64;

/// Bytes that a direction has between its ends. A writer waits when it is full.
const WINDOW_BYTES: usize = 256 << 10;

/// Connections that wait to be accepted.
const BACKLOG_MAX: usize = 128;

/// The part of TCP that is repeated: bytes that were lost arrive this much later, at most.
const AGAIN: Nanos = 200_000_000;

pub(super) struct Network {
    rng: fastrand::Rng,
    /// How long a piece is on its way: usually, and seldom.
    usual: Nanos,
    rare: Nanos,
    listening: BTreeMap<SocketAddr, Listening>,
    directions: BTreeMap<Way, Direction>,
    connections: Connection,
    /// How many cuts each direction between two machines has.
    cuts: BTreeMap<(HostId, HostId), u32>,
    /// Machines that vanish without a word.
    silent: Vec<HostId>,
    traced: Option<Vec<u8>>,
    bytes: u64,
    suffered: Suffered,
}

/// What the faults of a network have done, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suffered {
    /// A piece was on its way for longer than usual.
    pub late: u64,
    /// A piece arrives before an earlier one between the same machines, on another connection.
    pub overtook: u64,
    /// A reader had to wait because of a cut, with bytes on their way.
    pub waited: u64,
    /// A reader had to wait for bytes that [`Wires::hold`] keeps back.
    pub held: u64,
    /// A connection broke at the byte that [`Wires::break_after`] named: at both ends, or at one.
    pub broken: u64,
    pub broken_one_way: u64,
}

/// A direction of a connection. The flag is true for the bytes of the end that dialled.
type Way = (Connection, bool);

struct Listening {
    host: HostId,
    dialled: VecDeque<(Connection, SocketAddr)>,
    acceptor: Option<Waker>,
}

struct Direction {
    from: HostId,
    to: HostId,
    /// Pieces and when they arrive.
    pieces: VecDeque<(Nanos, Vec<u8>)>,
    held: usize,
    /// Nothing arrives before this moment.
    held_until: Nanos,
    last_at: Nanos,
    /// After all pieces: the end.
    ends: Option<(Nanos, End)>,
    /// The connection breaks when this many further bytes were read.
    breaks_after: Option<usize>,
    breaks_one_way: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// From when on a write fails.
    refuses_at: Option<Nanos>,
    has_reader: bool,
    has_writer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// The other machine has vanished. Nobody says so.
    Silence,
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was reset")
}

impl Network {
    pub fn new(rng: fastrand::Rng) -> Network {
        Network {
            rng,
            usual: 500_000,
            rare: 500_000,
            listening: BTreeMap::new(),
            directions: BTreeMap::new(),
            connections: 0,
            cuts: BTreeMap::new(),
            silent: Vec::new(),
            traced: None,
            bytes: 0,
            suffered: Suffered::default(),
        }
    }

    fn delay(&mut self) -> Nanos {
        match self.rng.u8(..16) {
            0 if self.rare > self.usual => {
                self.suffered.late += 1;
                self.rng.u64(self.usual..self.rare)
            }
            _ => self.rng.u64(self.usual / 10..=self.usual),
        }
    }

    fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }

    /// Makes both directions of a connection.
    fn connect(&mut self, from: HostId, to: HostId) -> Connection {
        self.connections += 1;
        let direction = |from, to| Direction {
            from,
            to,
            pieces: VecDeque::new(),
            held: 0,
            held_until: 0,
            last_at: 0,
            ends: None,
            breaks_after: None,
            breaks_one_way: false,
            reader: None,
            writer: None,
            refuses_at: None,
            has_reader: true,
            has_writer: true,
        };
        self.directions.insert((self.connections, true), direction(from, to));
        self.directions.insert((self.connections, false), direction(to, from));
        self.connections
    }

    /// The writer of a direction says no more.
    fn end(&mut self, now: Nanos, way: Way, end: End) {
        let at = now + self.delay();
        if let Some(direction) = self.directions.get_mut(&way) {
            let end = match self.silent.contains(&direction.from) {
                true => End::Silence,
                false => end,
            };
            direction.last_at = direction.last_at.max(at);
            direction.ends.get_or_insert((direction.last_at, end));
            direction.reader.take().into_iter().for_each(Waker::wake);
        }
    }

    fn write(&mut self, now: Nanos, way: Way, bytes: &[u8], waker: &Waker) -> Poll<io::Result<usize>> {
        let at = now + self.delay();
        let is_part = self.rng.u8(..16) == 0;
        let part = self.rng.usize(1..=bytes.len().max(1));
        let Some(direction) = self.directions.get_mut(&way) else { return Poll::Ready(Err(reset())) };
        if direction.refuses_at.is_some_and(|at| at <= now) {
            return Poll::Ready(Err(reset()));
        }
        let room = WINDOW_BYTES - direction.held;
        if room == 0 && !bytes.is_empty() {
            direction.writer = Some(waker.clone());
            return Poll::Pending;
        }
        let count = bytes.len().min(room).min(if is_part { part } else { usize::MAX });
        direction.last_at = direction.last_at.max(at);
        direction.pieces.push_back((direction.last_at, bytes[..count].to_vec()));
        let arrives_at = direction.last_at.max(direction.held_until);
        direction.held += count;
        direction.reader.take().into_iter().for_each(Waker::wake);
        self.bytes += count as u64;
        let ends = (direction.from, direction.to);
        let (from, to) = (ends.0.0 as u64, ends.1.0 as u64);
        if let Some(trace) = &mut self.traced {
            for number in [now, way.0, u64::from(way.1), from, to, count as u64] {
                trace.extend_from_slice(&number.to_le_bytes());
            }
            trace.extend_from_slice(&bytes[..count]);
        }
        let is_later = |on: &Direction| on.pieces.back().is_some_and(|(at, _)| on.held_until.max(*at) > arrives_at);
        let is_overtaken = |on: &Direction| (on.from, on.to) == ends && is_later(on);
        self.suffered.overtook += u64::from(self.directions.values().any(is_overtaken));
        Poll::Ready(Ok(count))
    }

    /// Reads what has arrived. `Err` is the moment until which nothing arrives, if it is known.
    fn read(&mut self, now: Nanos, way: Way, into: &mut ReadBuf<'_>) -> Result<io::Result<()>, Option<Nanos>> {
        let Some(direction) = self.directions.get(&way) else { return Ok(Err(reset())) };
        let is_cut = self.is_cut(direction.from, direction.to);
        let Some(direction) = self.directions.get_mut(&way) else { return Ok(Err(reset())) };
        if direction.breaks_after == Some(0) {
            match direction.breaks_one_way {
                true => self.suffered.broken_one_way += 1,
                false => self.suffered.broken += 1,
            }
            return Ok(Err(reset()));
        }
        if is_cut {
            self.suffered.waited += u64::from(direction.held > 0);
            return Err(None);
        }
        let arrives = |at: Nanos| at.max(direction.held_until);
        if let Some((at, piece)) = direction.pieces.front_mut() {
            if arrives(*at) > now {
                self.suffered.held += u64::from(direction.held_until > *at);
                return Err(Some(arrives(*at)));
            }
            let most = direction.breaks_after.unwrap_or(usize::MAX);
            let count = piece.len().min(into.remaining()).min(most);
            into.put_slice(&piece[..count]);
            piece.drain(..count);
            if piece.is_empty() {
                direction.pieces.pop_front();
            }
            direction.held -= count;
            direction.breaks_after = direction.breaks_after.map(|left| left - count);
            direction.writer.take().into_iter().for_each(Waker::wake);
            return Ok(Ok(()));
        }
        match direction.ends {
            Some((at, _)) if arrives(at) > now => Err(Some(arrives(at))),
            Some((_, End::Closed)) => Ok(Ok(())),
            Some((_, End::Silence)) | None => Err(None),
        }
    }

    /// The reader of a direction is gone: writes fail soon.
    fn refuse(&mut self, now: Nanos, way: Way) {
        let at = now + self.delay();
        if let Some(direction) = self.directions.get_mut(&way) {
            direction.has_reader = false;
            if !self.silent.contains(&direction.to) {
                direction.refuses_at.get_or_insert(at);
            }
            direction.writer.take().into_iter().for_each(Waker::wake);
        }
        self.forget(way.0);
    }

    /// Removes a connection that has no ends any more.
    fn forget(&mut self, connection: Connection) {
        let ways = [(connection, true), (connection, false)];
        let has_end = |way: &Way| self.directions.get(way).is_some_and(|on| on.has_reader || on.has_writer);
        if !ways.iter().any(has_end) {
            ways.iter().for_each(|way| drop(self.directions.remove(way)));
        }
    }

    pub fn dies(&mut self, host: HostId, silent: bool) {
        if silent {
            self.silent.push(host);
        }
    }

    pub fn is_dead(&mut self, host: HostId) {
        self.silent.retain(|silent| *silent != host);
    }
}

/// Takes the connections that are dialled to an address.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
}

/// Listens at an address of the machine whose task runs.
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    let listening = running(|world| {
        let mut network = world.network.borrow_mut();
        if network.listening.contains_key(&address) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{address} is in use")));
        }
        let host = world.current.get();
        network.listening.insert(address, Listening { host, dialled: VecDeque::new(), acceptor: None });
        Ok(Listener { address })
    });
    listening.unwrap_or_else(|| Err(io::Error::other("no simulation runs")))
}

impl Listener {
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub async fn accept(&mut self) -> io::Result<(Reader, Writer, SocketAddr)> {
        let address = self.address;
        let (connection, from) = std::future::poll_fn(|cx| {
            let polled = running(|world| {
                let mut network = world.network.borrow_mut();
                let listening = network.listening.get_mut(&address)?;
                let dialled = listening.dialled.pop_front();
                if dialled.is_none() {
                    listening.acceptor = Some(cx.waker().clone());
                }
                dialled
            });
            polled.flatten().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        Ok((Reader::new((connection, true)), Writer { way: (connection, false) }, from))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let dialled = running(|world| {
            let mut network = world.network.borrow_mut();
            network.listening.remove(&self.address).map(|listening| listening.dialled)
        });
        for (connection, _) in dialled.flatten().unwrap_or_default() {
            drop((Reader::new((connection, true)), Writer { way: (connection, false) }));
        }
    }
}

/// Connects the machine whose task runs to an address.
pub async fn dial(address: SocketAddr) -> io::Result<(Reader, Writer)> {
    let way = |world: &World| {
        let mut network = world.network.borrow_mut();
        let delay = 2 * network.delay();
        Alarm::new(world.now.get() + delay)
    };
    running(way).ok_or_else(|| io::Error::other("no simulation runs"))?.await;
    loop {
        let tried = running(|world| {
            let from = world.current.get();
            let mut network = world.network.borrow_mut();
            let to = network.listening.get(&address).map(|listening| listening.host);
            let Some(to) = to else {
                return Some(Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused")));
            };
            // The system calls again until the caller gives up.
            if network.is_cut(from, to) || network.is_cut(to, from) {
                return None;
            }
            if network.listening[&address].dialled.len() >= BACKLOG_MAX {
                return None;
            }
            let connection = network.connect(from, to);
            let from = SocketAddr::from(([127, 1, 0, from.0 as u8], 40_000 + (connection % 20_000) as u16));
            if let Some(listening) = network.listening.get_mut(&address) {
                listening.dialled.push_back((connection, from));
                listening.acceptor.take().into_iter().for_each(Waker::wake);
            }
            Some(Ok(connection))
        });
        if let Some(dialled) = tried.flatten() {
            let connection = dialled?;
            return Ok((Reader::new((connection, false)), Writer { way: (connection, true) }));
        }
        crate::sleep(Duration::from_nanos(AGAIN)).await;
    }
}

/// The end of a connection that reads.
#[derive(Debug)]
pub struct Reader {
    way: Way,
    alarm: Option<Alarm>,
}

impl Reader {
    fn new(way: Way) -> Reader {
        Reader { way, alarm: None }
    }

    pub fn connection(&self) -> Connection {
        self.way.0
    }
}

impl AsyncRead for Reader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let way = self.way;
        loop {
            let read = running(|world| {
                let mut network = world.network.borrow_mut();
                let read = network.read(world.now.get(), way, into);
                if read.is_err()
                    && let Some(direction) = network.directions.get_mut(&way)
                {
                    direction.reader = Some(cx.waker().clone());
                }
                read
            });
            match read {
                Some(Ok(read)) => return Poll::Ready(read),
                Some(Err(Some(at))) => {
                    if self.alarm.as_ref().is_none_or(|alarm| alarm.at() != at) {
                        self.alarm = Some(Alarm::new(at));
                    }
                    if let Some(alarm) = &mut self.alarm {
                        ready!(Pin::new(alarm).poll(cx));
                    }
                }
                Some(Err(None)) | None => return Poll::Pending,
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let way = self.way;
        running(|world| world.network.borrow_mut().refuse(world.now.get(), way));
    }
}

/// The end of a connection that writes.
#[derive(Debug)]
pub struct Writer {
    way: Way,
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |world: &World| world.network.borrow_mut().write(world.now.get(), self.way, bytes, cx.waker());
        running(write).unwrap_or_else(|| Poll::Ready(Err(reset())))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        running(|world| world.network.borrow_mut().end(world.now.get(), self.way, End::Closed));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let way = self.way;
        running(|world| {
            let mut network = world.network.borrow_mut();
            network.end(world.now.get(), way, End::Closed);
            if let Some(direction) = network.directions.get_mut(&way) {
                direction.has_writer = false;
            }
            network.forget(way.0);
        });
    }
}

impl Wires<'_> {
    /// How long bytes are on their way: usually at most, and in one of 16 cases at most.
    pub fn set_delays(&self, usual: Duration, rare: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut network = self.0.network.borrow_mut();
        (network.usual, network.rare) = (nanos(usual), nanos(rare));
    }

    /// From now on nothing of the one machine reaches the other, until a [`Wires::join`] for each cut.
    pub fn cut(&self, from: HostId, to: HostId) {
        *self.0.network.borrow_mut().cuts.entry((from, to)).or_default() += 1;
    }

    pub fn join(&self, from: HostId, to: HostId) {
        self.join_within(from, to, AGAIN);
    }

    /// Like [`Wires::join`]. What was lost meanwhile is there at once.
    pub fn release(&self, from: HostId, to: HostId) {
        self.join_within(from, to, 1);
    }

    fn join_within(&self, from: HostId, to: HostId, most: Nanos) {
        let mut network = self.0.network.borrow_mut();
        let cuts = network.cuts.entry((from, to)).or_default();
        *cuts = cuts.saturating_sub(1);
        if *cuts > 0 {
            return;
        }
        let now = self.0.now.get();
        let again = now + network.rng.u64(..most);
        let wakers: Vec<Waker> = network
            .directions
            .values_mut()
            .filter(|on| (on.from, on.to) == (from, to))
            .flat_map(|on| {
                // What was lost meanwhile is sent again.
                on.pieces.iter_mut().for_each(|(at, _)| *at = (*at).max(again));
                on.last_at = on.last_at.max(again);
                on.ends = on.ends.map(|(at, end)| (at.max(again), end));
                [on.reader.take(), on.writer.take()]
            })
            .flatten()
            .collect();
        drop(network);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        let cuts = self.0.network.borrow().cuts.clone();
        for ((from, to), count) in cuts {
            (0..count).for_each(|_| self.join(from, to));
        }
    }

    /// The open connections between two machines, in the order in which they began.
    pub fn connections(&self) -> Vec<Connection> {
        let network = self.0.network.borrow();
        network.directions.iter().filter(|((_, dialled), _)| *dialled).map(|((connection, _), _)| *connection).collect()
    }

    /// The newest open connection that one machine has dialled to another.
    pub fn newest(&self, from: HostId, to: HostId) -> Option<Connection> {
        let network = self.0.network.borrow();
        let dialled = |((_, dialled), on): &(&Way, &Direction)| *dialled && (on.from, on.to) == (from, to);
        network.directions.iter().filter(dialled).map(|((connection, _), _)| *connection).next_back()
    }

    /// Bytes that a machine has sent and nobody has read.
    pub fn unread_bytes(&self, from: HostId) -> usize {
        let network = self.0.network.borrow();
        network.directions.values().filter(|on| on.from == from).map(|on| on.held).sum()
    }

    /// Bytes of the end that dialled arrive only after this time, although those of other connections arrive.
    pub fn hold(&self, connection: Connection, duration: Duration) {
        let until = self.0.now.get() + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(direction) = self.0.network.borrow_mut().directions.get_mut(&(connection, true)) {
            direction.held_until = direction.held_until.max(until);
        }
    }

    /// The connection breaks when this many further bytes of the one direction were read. If it is `one_way`, only this
    /// reader notices at once.
    pub fn break_after(&self, connection: Connection, dialled: bool, bytes: usize, one_way: bool) {
        let mut network = self.0.network.borrow_mut();
        let mut wakers = Vec::new();
        for (way, bytes) in [((connection, dialled), bytes), ((connection, !dialled), 0)] {
            if one_way && way.1 != dialled {
                continue;
            }
            if let Some(direction) = network.directions.get_mut(&way) {
                if direction.breaks_after.is_none() {
                    (direction.breaks_after, direction.breaks_one_way) = (Some(bytes), one_way);
                }
                wakers.extend(direction.reader.take());
            }
        }
        drop(network);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// From now on all bytes are noted, with the moments and the connections.
    pub fn trace(&self) {
        self.0.network.borrow_mut().traced = Some(Vec::new());
    }

    /// What was noted.
    pub fn traced(&self) -> Vec<u8> {
        self.0.network.borrow_mut().traced.take().unwrap_or_default()
    }

    pub fn suffered(&self) -> Suffered {
        self.0.network.borrow().suffered
    }

    /// How many bytes were sent.
    pub fn bytes(&self) -> u64 {
        self.0.network.borrow().bytes
    }
}
