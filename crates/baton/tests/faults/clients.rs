//! The load of a round: clients that lock, work and unlock, and record what they see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_client::{AcquireError, Client, Guard, Owner, ReleaseError, Session, SessionState};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::history::{Claim, End, History, Hold, HoldEnd, Micros, Queue, Sight};
use crate::judge::{Rule, Violation};

/// Short, so that a leader that is stopped for longer costs these clients their sessions.
pub const SHORT: Duration = Duration::from_secs(2);
/// Longer than any round, so that these clients lose nothing.
pub const STEADY: Duration = Duration::from_secs(600);
/// How long one listing may take.
const LISTING_MAX: Duration = Duration::from_secs(1);
const LISTING_EVERY: Duration = Duration::from_millis(50);

/// What the clients of a round share.
pub struct Recorder {
    began: Instant,
    history: Mutex<History>,
    /// The resource behind each lock remembers the highest fence that it has seen.
    store: Mutex<HashMap<String, u64>>,
    violations: Mutex<Vec<Violation>>,
    /// The latest call of a claim that was granted.
    granted: watch::Sender<Micros>,
    /// The latest listing.
    sight: watch::Sender<Sight>,
    /// Sessions that were lost.
    lost: watch::Sender<u64>,
    stop: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub fn new() -> Arc<Recorder> {
        Arc::new(Recorder {
            began: Instant::now(),
            history: Mutex::default(),
            store: Mutex::default(),
            violations: Mutex::default(),
            granted: watch::Sender::new(0),
            sight: watch::Sender::default(),
            lost: watch::Sender::new(0),
            stop: watch::Sender::new(false),
        })
    }

    pub fn now(&self) -> Micros {
        u64::try_from(self.began.elapsed().as_micros()).expect("a round is short")
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// The clients finish what they have begun, and end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn lost_sessions(&self) -> u64 {
        *self.lost.borrow()
    }

    /// Waits until a lock is granted for which a client asked after `since`. Returns how long after `since` that was.
    pub async fn granted_after(&self, since: Micros) -> Duration {
        // The sender lives as long as `self`.
        let _ = self.granted.subscribe().wait_for(|called| *called >= since).await;
        Duration::from_micros(self.now() - since)
    }

    /// The longest time without a grant since then.
    pub fn longest_pause(&self, since: Micros) -> Duration {
        let history = lock(&self.history);
        let holds = history.claims.iter().filter_map(Claim::hold).map(|hold| hold.at);
        let mut times: Vec<Micros> = holds.filter(|&at| at > since).chain([since, self.now()]).collect();
        times.sort_unstable();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        Duration::from_micros(longest.unwrap_or_default())
    }

    /// Waits until a listing shows this owner.
    async fn shown(&self, lock: &str, owner: u64) {
        let shows = |sight: &Sight| sight.locks.get(lock).is_some_and(|queue| queue.shows(owner));
        let _ = self.sight.subscribe().wait_for(shows).await;
    }

    /// All that was seen so far, and the violations that clients found themselves.
    pub fn history(&self) -> (History, Vec<Violation>) {
        (lock(&self.history).clone(), lock(&self.violations).clone())
    }

    fn call(&self, client: usize, name: &str, owner: u64, is_steady: bool) -> usize {
        let mut history = lock(&self.history);
        let called = self.now();
        history.claims.push(Claim { client, lock: name.to_owned(), owner, called, is_steady, end: End::Waits });
        history.claims.len() - 1
    }

    fn end(&self, claim: usize, end: End) {
        lock(&self.history).claims[claim].end = end;
    }

    /// A write of a client that believes in its hold. The store refuses it if it has seen a higher fence.
    fn write(&self, name: &str, fence: u64) -> Result<(), u64> {
        let mut store = lock(&self.store);
        let highest = store.entry(name.to_owned()).or_default();
        if fence < *highest {
            return Err(*highest);
        }
        *highest = fence;
        Ok(())
    }
}

/// One client. It uses the servers in its own order.
pub struct Worker {
    pub recorder: Arc<Recorder>,
    pub number: usize,
    pub addresses: Vec<String>,
    pub ttl: Duration,
    pub locks: Vec<String>,
    pub random: fastrand::Rng,
    /// The longest time for which it holds a lock.
    pub work_max: Duration,
    /// Whether it gives up some requests.
    pub is_fickle: bool,
}

impl Worker {
    fn is_steady(&self) -> bool {
        self.ttl == STEADY
    }

    /// Locks, works and unlocks until it is told to stop. Opens a new session if one is lost.
    pub async fn run(mut self) {
        let turn = self.number % self.addresses.len();
        self.addresses.rotate_left(turn);
        let client = Client::lazy(&self.addresses).expect("the addresses are right");
        while !self.recorder.is_stopped() {
            let label = format!("client {}", self.number);
            let Ok(session) = client.session().ttl(self.ttl).label(label).open().await else {
                sleep(LISTING_EVERY).await;
                continue;
            };
            while !self.recorder.is_stopped() && session.state() != SessionState::Lost {
                let pause = Duration::from_micros(self.random.u64(..5_000));
                self.turn(&session).await;
                sleep(pause).await;
            }
            if session.state() == SessionState::Lost {
                self.recorder.lost.send_modify(|lost| *lost += 1);
            } else {
                // The session holds nothing.
                let _ = session.close().await;
            }
        }
    }

    /// Takes and returns one lock.
    async fn turn(&mut self, session: &Session) {
        let name = self.locks[self.random.usize(..self.locks.len())].clone();
        let patience = Duration::from_millis(self.random.u64(1..300));
        let how = if self.is_fickle { self.random.u8(..10) } else { 9 };
        let owner = Owner::new().expect("random numbers");
        let claim = self.recorder.call(self.number, &name, owner.to_raw(), self.is_steady());
        let acquire = session.lock(&name).owner(&owner);
        let acquired = match how {
            0 => acquire.timeout(patience).acquire().await,
            1 => match timeout(patience, acquire.acquire()).await {
                Ok(acquired) => acquired,
                Err(_) => Err(AcquireError::TimedOut { name: name.clone().into_bytes() }),
            },
            _ => acquire.acquire().await,
        };
        match acquired {
            Err(error) => {
                let is_excused = matches!(error, AcquireError::TimedOut { .. } | AcquireError::Lost(_));
                self.recorder.end(claim, End::NotGranted { why: error.to_string(), is_excused });
            }
            Ok(guard) => {
                let until = Instant::now() + self.work_max.mul_f64(self.random.f64());
                self.recorder.hold(claim, &name, session, guard, |_| Instant::now() >= until).await;
            }
        }
    }
}

impl Recorder {
    /// Works under a lock that was granted until `is_done`, and releases it.
    async fn hold(
        &self,
        claim: usize,
        name: &str,
        session: &Session,
        guard: Guard,
        is_done: impl Fn(&Recorder) -> bool,
    ) {
        let at = self.now();
        let fence = match guard.fence() {
            Ok(fence) => fence,
            Err(loss) => {
                let why = loss.to_string();
                return self.end(claim, End::NotGranted { why, is_excused: true });
            }
        };
        let called = lock(&self.history).claims[claim].called;
        self.granted.send_if_modified(|latest| std::mem::replace(latest, called.max(*latest)) < called);
        let mut hold = Hold { fence, at, until: at, end: HoldEnd::Open };
        loop {
            self.end(claim, End::Granted(hold.clone()));
            // First the time, then the question: the client believed in the hold at that time.
            let now = self.now();
            if let Err(loss) = guard.fence() {
                hold.end = HoldEnd::Lost(loss.to_string());
                return self.end(claim, End::Granted(hold));
            }
            hold.until = now;
            self.try_write(name, fence, &guard);
            if is_done(self) {
                break;
            }
            sleep(Duration::from_millis(2)).await;
        }
        self.end(claim, End::Granted(hold.clone()));
        hold.end = match guard.release().await {
            Ok(()) => HoldEnd::Released(self.now()),
            Err(ReleaseError::NotHeld(why)) if session.state() != SessionState::Lost => HoldEnd::Denied(why),
            Err(error) => HoldEnd::Lost(error.to_string()),
        };
        self.end(claim, End::Granted(hold));
    }

    /// The lease may end between the look and the write. Then the store is right to refuse, and the client knows by now.
    fn try_write(&self, name: &str, fence: u64, guard: &Guard) {
        if let Err(highest) = self.write(name, fence)
            && guard.fence().is_ok()
        {
            let text = format!("{name}: a write with fence {fence} came after one with fence {highest}");
            lock(&self.violations).push(Violation { rule: Rule::Overlap, text });
        }
    }

    /// Takes a lock and keeps it until the clients are told to stop, then returns it. Returns once a listing shows the
    /// claim, with a task for the rest.
    pub async fn keep(
        self: &Arc<Self>,
        number: usize,
        addresses: &[String],
        name: &str,
    ) -> tokio::task::JoinHandle<()> {
        let client = Client::lazy(addresses).expect("the addresses are right");
        let owner = Owner::new().expect("random numbers");
        let (recorder, name, raw) = (Arc::clone(self), name.to_owned(), owner.to_raw());
        let seen = name.clone();
        let task = tokio::spawn(async move {
            let label = format!("client {number}");
            let session = loop {
                // The cluster may have no leader at the moment.
                if let Ok(session) = client.session().ttl(STEADY).label(&label).open().await {
                    break session;
                }
            };
            let claim = recorder.call(number, &name, raw, true);
            match session.lock(&name).owner(&owner).acquire().await {
                Ok(guard) => recorder.hold(claim, &name, &session, guard, Recorder::is_stopped).await,
                Err(error) => recorder.end(claim, End::NotGranted { why: error.to_string(), is_excused: false }),
            }
            let _ = session.close().await;
        });
        self.shown(&seen, raw).await;
        task
    }

    /// Lists all locks again and again, at one node after the other, until the clients are told to stop.
    pub async fn watch(self: Arc<Self>, addresses: Vec<String>) {
        let clients: Vec<Client> =
            addresses.iter().map(|address| Client::lazy([address]).expect("the address is right")).collect();
        for client in clients.iter().cycle() {
            if self.is_stopped() {
                return;
            }
            self.look(client).await;
            sleep(LISTING_EVERY).await;
        }
    }

    /// One listing. A node that is cut off or down gives none.
    pub async fn look(&self, client: &Client) {
        let asked = self.now();
        let Ok(Ok(locks)) = timeout(LISTING_MAX, client.locks().collect()).await else { return };
        let queue = |lock: baton_client::views::Lock| {
            let holder = lock.holders.first().map(|holder| (holder.owner, holder.fence));
            let waiters = lock.waiters.iter().map(|waiter| waiter.owner).collect();
            (String::from_utf8_lossy(&lock.name).into_owned(), Queue { holder, waiters })
        };
        let sight = Sight { asked, answered: self.now(), locks: locks.into_iter().map(queue).collect() };
        lock(&self.history).sights.push(sight.clone());
        self.sight.send_replace(sight);
    }
}
