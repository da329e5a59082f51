//! One connection through the proxy: carries out what `lane` and `link` decide.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::counters::Counters;
use crate::lane::{CHUNK_BYTES_MAX, Lane, Step};
use crate::link::{Allowance, Birth, Direction, End, Link};

/// How long a cut connection waits for its ends to close too.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// What the connections of a proxy share.
pub(crate) struct Shared {
    pub(crate) target: String,
    pub(crate) seed: u64,
    pub(crate) started: Instant,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) counters: watch::Sender<Counters>,
}

impl Shared {
    /// Asks or tells the link something that the other connections need not hear of.
    fn quietly<T>(&self, call: impl FnOnce(&mut Link) -> T) -> T {
        let mut result = None;
        self.link.send_if_modified(|link| {
            result = Some(call(link));
            false
        });
        result.expect("the closure has run")
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(change);
    }
}

pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// Accepted connections are numbered from 0; each number has delays of its own.
    pub(crate) number: u64,
    pub(crate) birth: Birth,
}

impl Connection {
    pub(crate) async fn run(self, mut dialler: TcpStream) {
        let mut target = match self.dial().await {
            Ok(Ok(target)) => target,
            Ok(Err(_)) => {
                self.shared.count(|counters| {
                    counters.open -= 1;
                    counters.unreachable += 1;
                });
                return reset(dialler);
            }
            Err(end) => {
                self.count_end(Err(end));
                return finish(end, dialler, None).await;
            }
        };
        // Small frames must not wait for acknowledgements of earlier ones.
        let _ = (dialler.set_nodelay(true), target.set_nodelay(true));
        let ended = self.carry_both(&mut dialler, &mut target).await;
        self.shared.quietly(|link| link.leave(self.number));
        // Counted first: a test that reads the end of the stream may ask for the counters at once.
        self.count_end(ended);
        if let Err(end) = ended {
            finish(end, dialler, Some(target)).await;
        }
    }

    /// Dials the target, when the link lets bytes pass in at least one direction.
    async fn dial(&self) -> Result<io::Result<TcpStream>, End> {
        let (mut flows, mut ends) = (self.shared.link.subscribe(), self.shared.link.subscribe());
        let dialled = async {
            // The sender of this channel lives as long as `self`.
            let _ = flows.wait_for(|link| !link.conditions().is_silent()).await;
            TcpStream::connect(&self.shared.target).await
        };
        let ended = async {
            match ends.wait_for(|link| link.fate(self.birth).is_some()).await {
                Ok(link) => link.fate(self.birth).unwrap_or(End::Cut),
                Err(_) => End::Cut,
            }
        };
        tokio::select! {
            biased;
            end = ended => Err(end),
            dialled = dialled => Ok(dialled),
        }
    }

    async fn carry_both(&self, dialler: &mut TcpStream, target: &mut TcpStream) -> Result<(), End> {
        let (from_dialler, to_dialler) = dialler.split();
        let (from_target, to_target) = target.split();
        tokio::try_join!(
            self.carry(Direction::Forward, from_dialler, to_target),
            self.carry(Direction::Backward, from_target, to_dialler),
        )?;
        Ok(())
    }

    /// Passes the bytes of one direction on, until the sender closes its end and all its bytes have passed.
    ///
    /// Every chunk is written after a look at the link that is later than the reading of the chunk. So no byte passes
    /// that was sent after a command forbade it.
    async fn carry(&self, direction: Direction, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), End> {
        let mut lane = Lane::new(self.shared.seed, self.number, direction);
        let mut link = self.shared.link.subscribe();
        let mut buffer = vec![0; CHUNK_BYTES_MAX];
        loop {
            let now_link = *link.borrow_and_update();
            let conditions = now_link.conditions();
            if let Some(end) = now_link.fate(self.birth) {
                return Err(end);
            }
            if lane.is_newly_held(&conditions) {
                self.shared.count(|counters| counters.held += 1);
            }
            let (mut bytes, mut until) = (&[][..], None);
            match lane.decide(self.shared.started.elapsed(), &conditions) {
                Step::Write(due) => bytes = &due[..self.allowed(&now_link, direction, due.len())?],
                Step::Rest(due) => until = due,
                Step::Finish => return to.shutdown().await.map_err(|_| End::Broken),
            }
            tokio::select! {
                biased;
                changed = link.changed() => changed.map_err(|_| End::Cut)?,
                written = to.write(bytes), if !bytes.is_empty() => {
                    let count = written.map_err(|_| End::Broken)?;
                    lane.wrote(count);
                    self.passed(direction, count)?;
                }
                read = from.read(&mut buffer), if lane.reads(&conditions) => {
                    let count = read.map_err(|_| End::Broken)?;
                    lane.arrived(self.shared.started.elapsed(), &buffer[..count]);
                }
                () = self.until(until), if until.is_some() => {}
            }
        }
    }

    fn allowed(&self, link: &Link, direction: Direction, bytes: usize) -> Result<usize, End> {
        if !link.has_limit(direction) {
            return Ok(bytes);
        }
        match self.shared.quietly(|link| link.allow(self.number, direction, bytes)) {
            Allowance::Bytes(allowed) => Ok(allowed),
            Allowance::Cut => Err(End::CutAfter),
        }
    }

    fn passed(&self, direction: Direction, bytes: usize) -> Result<(), End> {
        self.shared.count(|counters| counters.passed(direction, bytes as u64));
        match self.shared.quietly(|link| link.passed(self.number, direction, bytes)) {
            true => Err(End::CutAfter),
            false => Ok(()),
        }
    }

    /// A time that the clock cannot show never comes.
    async fn until(&self, time: Option<Duration>) {
        match time.and_then(|time| self.shared.started.checked_add(time)) {
            Some(instant) => sleep_until(instant).await,
            None => pending().await,
        }
    }

    fn count_end(&self, ended: Result<(), End>) {
        self.shared.count(|counters| {
            counters.open -= 1;
            match ended {
                Ok(()) => counters.finished += 1,
                Err(End::Cut) => counters.cut += 1,
                Err(End::CutAfter) => {
                    counters.cut += 1;
                    counters.cut_after += 1;
                }
                Err(End::Reset) => counters.reset += 1,
                Err(End::Broken) => counters.broken += 1,
            }
        });
    }
}

/// Closes a stream with a reset.
pub(crate) fn reset(stream: TcpStream) {
    // Without the option, the drop still closes the stream.
    let _ = stream.set_zero_linger();
}

async fn finish(end: End, dialler: TcpStream, target: Option<TcpStream>) {
    match end {
        End::Cut | End::CutAfter => {
            tokio::join!(close(Some(dialler)), close(target));
        }
        End::Reset | End::Broken => {
            reset(dialler);
            target.into_iter().for_each(reset);
        }
    }
}

/// Closes a stream in good order: the other end receives all bytes that were written, then the end of the stream. A
/// plain drop would reset the stream if there are bytes to read, and written bytes might be lost.
async fn close(stream: Option<TcpStream>) {
    let Some(mut stream) = stream else { return };
    let _ = stream.shutdown().await;
    let mut thrown_away = vec![0; CHUNK_BYTES_MAX];
    let closed = async { while let Ok(1..) = stream.read(&mut thrown_away).await {} };
    let _ = timeout(CLOSING_MAX, closed).await;
}
