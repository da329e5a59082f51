//! A fake group of two members: one queue for each lock, which all members share.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_client::{Client, Hopeless, views};
use baton_member::{Algorithm, MemberReplica, Turn};
use baton_server::host::{Host, NeverLed, Reports};
use baton_server::server::{ServeError, Server, bind};
use baton_state::state::locks::LockName;
use baton_types::cluster_id::ClusterId;
use baton_types::limits::ServerLimits;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long an acquire with time-out 0 waits: longer than any test.
const TRY_MS: u64 = 60_000;

#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Sections>>);

#[derive(Default)]
struct Sections {
    sections: HashMap<LockName, Section>,
    first_fence: u64,
    refuses: Option<String>,
}

#[derive(Default)]
struct Section {
    is_entered: bool,
    fence: u64,
    queue: VecDeque<Turn<Entry>>,
}

pub struct Entry {
    network: Network,
    lock: LockName,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.network.section(&self.lock, |section| section.is_entered = false);
        self.network.admit(&self.lock);
    }
}

impl Network {
    pub fn starts_with_fence(&self, fence: u64) {
        self.sections().first_fence = fence;
    }

    pub fn refuses(&self, why: &str) {
        self.sections().refuses = Some(why.to_owned());
    }

    /// Enters a free lock, for the test itself.
    pub fn enter(&self, lock: &str) -> Entry {
        let lock = LockName::from(lock);
        assert!(!self.section(&lock, |section| std::mem::replace(&mut section.is_entered, true)));
        Entry { network: self.clone(), lock }
    }

    /// Number of members that wait to enter.
    pub fn waiting(&self, lock: &str) -> usize {
        self.section(&LockName::from(lock), |section| section.queue.len())
    }

    pub fn is_entered(&self, lock: &str) -> bool {
        self.section(&LockName::from(lock), |section| section.is_entered)
    }

    fn sections(&self) -> MutexGuard<'_, Sections> {
        self.0.lock().unwrap()
    }

    fn section<T>(&self, lock: &LockName, change: impl FnOnce(&mut Section) -> T) -> T {
        let mut sections = self.sections();
        let fence = sections.first_fence;
        change(sections.sections.entry(lock.clone()).or_insert_with(|| Section { fence, ..Section::default() }))
    }

    /// Lets in the next member, if the section is free.
    fn admit(&self, lock: &LockName) {
        let next = self.section(lock, |section| {
            let turn = if section.is_entered { None } else { section.queue.pop_front() }?;
            section.is_entered = true;
            section.fence += 1;
            Some((turn, section.fence))
        });
        if let Some((turn, fence)) = next {
            let entry = Entry { network: self.clone(), lock: lock.clone() };
            turn.granted(NonZeroU64::new(fence).unwrap(), entry);
        }
    }
}

/// One member's end of the group.
pub struct Queue {
    network: Network,
    id: u64,
    tells: Arc<Mutex<Tells>>,
}

#[derive(Default)]
pub struct Tells {
    hopeless: Option<Hopeless>,
    failure: Option<String>,
}

impl Algorithm for Queue {
    type Entry = Entry;

    fn ask(&self, lock: &LockName, turn: Turn<Entry>) {
        let refuses = self.network.sections().refuses.clone();
        match refuses {
            Some(why) => turn.refused(why),
            None => {
                self.network.section(lock, |section| section.queue.push_back(turn));
                self.network.admit(lock);
            }
        }
    }

    fn hopeless<'a>(&self, locks: impl Iterator<Item = &'a LockName>, _: Duration) -> Vec<(&'a LockName, Hopeless)> {
        let why = self.tells.lock().unwrap().hopeless.clone();
        locks.filter_map(|lock| Some((lock, why.clone()?))).collect()
    }

    fn group_id(&self) -> ClusterId {
        ClusterId::MIN
    }

    fn group(&self) -> views::Group {
        let peers = vec![views::Peer { id: 1 - self.id, connected: true, not_heard_ms: 0, backlog_bytes: 0 }];
        let (algorithm, variant) = ("queue".to_owned(), String::new());
        views::Group { algorithm, variant, member: self.id, members: 2, serves: true, names: 3, names_max: 4, peers }
    }

    fn failure(&self) -> Option<String> {
        self.tells.lock().unwrap().failure.clone()
    }

    async fn shutdown(&self, _held_nothing: bool) {}
}

/// A member without a server.
pub async fn host(network: &Network, id: u64, try_ms: u64, tells: Arc<Mutex<Tells>>) -> Host<MemberReplica<Queue>> {
    let queue = Queue { network: network.clone(), id, tells };
    let start = async |reports: Reports<_>| Ok::<_, NeverLed>(MemberReplica::start(queue, try_ms, reports));
    let host = Host::start(ServerLimits::default(), start).await.unwrap();
    host.until_leads().await.unwrap();
    host
}

/// A member and its server.
pub struct Member {
    address: SocketAddr,
    tells: Arc<Mutex<Tells>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Member {
    pub async fn start(network: &Network, id: u64) -> Self {
        Member::with_try(network, id, TRY_MS).await
    }

    /// An acquire with time-out 0 waits `try_ms`.
    pub async fn with_try(network: &Network, id: u64, try_ms: u64) -> Self {
        let tells = Arc::<Mutex<Tells>>::default();
        let host = host(network, id, try_ms, tells.clone()).await;
        let port = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = port.1;
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(host, port, 100, ServerLimits::default().streams);
        let served = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Member { address, tells, stop: Mutex::new(Some(stop)), served }
    }

    pub fn client(&self) -> Client {
        Client::lazy([self.address.to_string()]).unwrap()
    }

    pub fn is_hopeless(&self, why: Option<Hopeless>) {
        self.tells.lock().unwrap().hopeless = why;
    }

    pub fn fails(&self, why: &str) {
        self.tells.lock().unwrap().failure = Some(why.to_owned());
    }

    pub fn stop(&self) {
        self.stop.lock().unwrap().take();
    }

    pub async fn ends(self) -> Result<(), ServeError> {
        self.served.await.unwrap()
    }
}
