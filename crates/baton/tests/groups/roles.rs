//! A member is killed or stopped, in each role that a member can have: no two clients are inside at once, and no client
//! waits without being told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_client::{Client, Guard};
use baton_protocol::registry::Family;
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::group::Group;
use crate::{LONG, healthy, is_full, is_wanted};

const SIZE: usize = 5;
/// Short, so that a client of a lost member soon stops to believe that it holds the lock.
const TTL: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Holder,
    Waiter,
    Bystander,
    /// Member 0 carries the first helper, and is the first root of a tree.
    Coordinator,
    /// A node of the tree that is neither root nor leaf.
    Inner,
}

const ROLES: [Role; 5] = [Role::Holder, Role::Waiter, Role::Bystander, Role::Coordinator, Role::Inner];

impl Role {
    fn member(self) -> usize {
        match self {
            Role::Coordinator => 0,
            Role::Inner => 1,
            Role::Holder => 2,
            Role::Waiter => 3,
            Role::Bystander => 4,
        }
    }
}

/// A client that waits, and what happened to it.
#[derive(Debug)]
enum News {
    /// The client with this number got in, and is out again.
    Served(usize),
    /// The client with this number was told that its wait has no hope for now.
    Told(usize, String),
}

/// The clients, and how many of them believe that they are inside.
#[derive(Clone)]
struct Clients {
    inside: Arc<AtomicUsize>,
    news: mpsc::UnboundedSender<News>,
}

impl Clients {
    /// Waits for the lock, goes in and out. A session that ends with its member is not an error here.
    async fn wait(self, number: usize, client: Client) {
        let Ok(session) = client.session().ttl(TTL).open().await else { return };
        let news = self.news.clone();
        let told = move |why: &baton_client::Hopeless| drop(news.send(News::Told(number, why.message.clone())));
        if let Ok(guard) = session.lock("work").on_hopeless(told).acquire().await {
            assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two clients are inside");
            tokio::task::yield_now().await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            // The member may be gone.
            let _ = guard.release().await;
            let _ = self.news.send(News::Served(number));
        }
    }

    /// Stays inside until the guard is lost.
    async fn hold(self, guard: Guard) {
        guard.lost().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn fault(algorithm: &str, role: Role, signal: Signal) {
    let mut group = Group::start(algorithm, SIZE, 1).await;
    let (news, mut heard) = mpsc::unbounded_channel();
    let clients = Clients { inside: Arc::new(AtomicUsize::new(0)), news };
    let holder = group.client(Role::Holder.member()).await.session().ttl(TTL).open().await.unwrap();
    let guard = holder.lock("work").acquire().await.unwrap();
    clients.inside.fetch_add(1, Ordering::SeqCst);
    let waiter = Role::Waiter.member();
    let mut waiting = JoinSet::new();
    waiting.spawn(clients.clone().wait(waiter, group.client(waiter).await));
    let queue = group.client(waiter).await;
    while queue.get_lock("work").await.unwrap().is_none_or(|lock| lock.waiters.is_empty()) {
        tokio::task::yield_now().await;
    }
    // Before its first request the member writes to its file. If it were killed now, it would not have asked its group.
    let session = group.client(waiter).await.session().ttl(TTL).open().await.unwrap();
    session.lock("later").acquire().await.unwrap().release().await.unwrap();

    let victim = role.member();
    group.signal(victim, signal);
    let survivors: Vec<usize> = (0..SIZE).filter(|&id| id != victim).collect();
    for &id in survivors.iter().filter(|&&id| id != waiter && id != Role::Holder.member()) {
        waiting.spawn(clients.clone().wait(id, group.client(id).await));
    }
    // A holder that is well leaves. A holder whose member is gone stays inside until it knows that it lost the lock.
    let mut holding = JoinSet::new();
    if role == Role::Holder {
        holding.spawn(clients.clone().hold(guard));
    } else {
        clients.inside.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }
    let mut open: Vec<usize> = survivors.iter().copied().filter(|&id| id != Role::Holder.member()).collect();
    let mut told = Vec::new();
    while !open.is_empty() {
        match heard.recv().await.expect("the clients live") {
            News::Served(id) => open.retain(|&other| other != id),
            News::Told(id, why) => {
                assert!(why.contains(&format!("process {victim}")), "{algorithm}, {role:?}: {why}");
                open.retain(|&other| other != id);
                told.push(id);
            }
        }
    }
    // The member is gone for longer than the lease of its client.
    holding.join_all().await;
    if signal == Signal::SIGSTOP {
        group.signal(victim, Signal::SIGCONT);
        // Now every client of a survivor is served.
        waiting.join_all().await;
    } else {
        waiting.shutdown().await;
    }
    println!("{algorithm}, {role:?}, {signal}: told {told:?}");
    group.end().await;
}

async fn faults(algorithm: &str, roles: &[Role]) {
    for &role in roles {
        for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
            let name = format!("{algorithm}, {role:?}, {signal}");
            timeout(LONG, fault(algorithm, role, signal)).await.unwrap_or_else(|_| panic!("{name}: it hangs"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_are_inside_and_no_client_waits_untold_when_a_member_dies_or_stops() {
    if is_full() {
        for about in healthy(Family::Mutex) {
            faults(about.name, &ROLES).await;
        }
    } else {
        for algorithm in ["central", "raymond", "ricart-agrawala"].into_iter().filter(|name| is_wanted(name)) {
            faults(algorithm, &[Role::Holder]).await;
        }
    }
}
