//! The proxy of one link: its listener, and the commands.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::connection::{Connection, Shared, reset};
use crate::counters::Counters;
use crate::link::{Conditions, Direction, Link};
use crate::plan::{Plan, Spell, Weather};

/// More connections wait in the queue of the listener.
const CONNECTIONS_MAX: usize = 1024;
/// Before the next try, when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Ends its task when it is dropped.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A proxy for one link. See the [crate] for what the commands do. Dropping it ends all its connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    weather: Mutex<Option<Task>>,
    _acceptor: Task,
}

impl Proxy {
    /// Starts a proxy to `target` (`host:port`) on a free port of 127.0.0.1. The target may be started later.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn start(target: impl ToString, seed: u64) -> io::Result<Proxy> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Proxy::with_listener(TcpListener::from_std(listener)?, target, seed)
    }

    /// Starts a proxy to `target` (`host:port`) that accepts at `listener`.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn with_listener(listener: TcpListener, target: impl ToString, seed: u64) -> io::Result<Proxy> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: target.to_string(),
            seed,
            started: Instant::now(),
            link: watch::Sender::new(Link::default()),
            counters: watch::Sender::new(Counters::default()),
        });
        let acceptor = Task(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Ok(Proxy { address, shared, weather: Mutex::new(None), _acceptor: acceptor })
    }

    /// Where to dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `host:port` of the listening process.
    pub fn target(&self) -> &str {
        &self.shared.target
    }

    /// What was commanded, without the weather.
    pub fn conditions(&self) -> Conditions {
        self.shared.link.borrow().commanded()
    }

    /// Replaces what the other commands set. Weather and `cut_after` stay.
    pub fn set(&self, conditions: Conditions) {
        self.shared.link.send_modify(|link| link.set(conditions));
    }

    fn change(&self, change: impl FnOnce(&mut Conditions)) {
        self.shared.link.send_modify(|link| {
            let mut conditions = link.commanded();
            change(&mut conditions);
            link.set(conditions);
        });
    }

    /// Each chunk of bytes arrives later, by a time in this range that is drawn from the seed. The order stays. Bytes
    /// that are inside the proxy obey too: a shorter delay lets them pass earlier.
    pub fn delay(&self, range: RangeInclusive<Duration>) {
        self.change(|conditions| conditions.delay = range.into());
    }

    /// All bytes wait, as if the cable were pulled. Nothing is lost: [`heal`](Self::heal) lets them pass. The end of a
    /// stream waits too.
    pub fn hold(&self) {
        self.change(|conditions| Direction::BOTH.into_iter().for_each(|direction| conditions.hold(direction)));
    }

    /// The bytes of one direction wait. The other direction is as before.
    pub fn cut_one_way(&self, direction: Direction) {
        self.change(|conditions| conditions.hold(direction));
    }

    /// Closes all connections in good order: both ends read what was passed on, then the end of the stream. Until the
    /// link is healed, new connections are accepted and reset at once.
    pub fn cut(&self) {
        self.change(|conditions| conditions.cut = true);
    }

    /// Closes the open connections, once, like [`cut`](Self::cut).
    pub fn close(&self) {
        self.shared.link.send_modify(Link::close);
    }

    /// Resets the open connections, once: both ends get `ECONNRESET`.
    pub fn reset(&self) {
        self.shared.link.send_modify(Link::reset);
    }

    /// Closes a connection when it has passed on exactly so many bytes of this direction, so maybe in the middle of a
    /// frame. This happens once, to the first connection with bytes. If that connection ends earlier, the next
    /// connection with bytes goes on counting. A second call replaces the first.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.link.send_modify(|link| link.cut_after(direction, bytes));
    }

    /// Faults happen at random from now on, in the order of [`Plan::new`] with the seed of this proxy. Commands hold
    /// besides them.
    pub fn weather(&self, weather: Weather) {
        let mut number = 0;
        self.shared.link.send_modify(|link| number = link.start_weather(weather.delay));
        let plan = Plan::new(self.shared.seed, weather);
        let task = Task(tokio::spawn(rage(Arc::clone(&self.shared), number, plan)));
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Ends `hold`, `cut_one_way` and `cut`. The delay, the weather and `cut_after` stay.
    pub fn reopen(&self) {
        self.change(|conditions| *conditions = Conditions { delay: conditions.delay, ..Conditions::default() });
    }

    /// Ends all faults and delays, and the weather. Bytes that wait pass now. Closed connections stay closed.
    pub fn heal(&self) {
        // A task of the weather that is not ended yet has a number that the link no longer obeys.
        self.shared.link.send_modify(Link::heal);
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn counters(&self) -> Counters {
        *self.shared.counters.borrow()
    }

    /// Waits until the counters are as `is` asks. Waits for ever if they never are: add a timeout.
    pub async fn wait_until(&self, is: impl FnMut(&Counters) -> bool) -> Counters {
        let mut counters = self.shared.counters.subscribe();
        // The sender lives as long as `self`.
        *counters.wait_for(is).await.expect("the proxy has its counters")
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((dialler, _)) => {
                    admit(&shared, number, dialler, &mut connections);
                    number += 1;
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn admit(shared: &Arc<Shared>, number: u64, dialler: TcpStream, connections: &mut JoinSet<()>) {
    let birth = shared.link.borrow().accept();
    shared.count(|counters| {
        counters.accepted += 1;
        match birth {
            Some(_) => counters.open += 1,
            None => counters.refused += 1,
        }
    });
    match birth {
        Some(birth) => {
            connections.spawn(Connection { shared: Arc::clone(shared), number, birth }.run(dialler));
        }
        None => reset(dialler),
    }
}

/// Lets the faults of a plan happen, until this weather is over.
async fn rage(shared: Arc<Shared>, weather: u64, plan: Plan) {
    for Spell { after, fault, lasts } in plan {
        sleep(after).await;
        let mut goes_on = false;
        shared.link.send_modify(|link| goes_on = link.begin(weather, fault));
        if !goes_on {
            return;
        }
        shared.count(|counters| counters.faults += 1);
        sleep(lasts).await;
        shared.link.send_modify(|link| link.end(weather));
    }
}
