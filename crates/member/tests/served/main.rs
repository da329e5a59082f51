//! Clients of real servers, each over a member of a group. The group is a fake: a queue for each lock, in this process.

mod group;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_client::{AcquireError, Hopeless, Refusal, RefusalCode, views};
use baton_server::server::ServeError;
use baton_state::frontend::ConnectionId;
use baton_types::cluster_id::ClusterId;
use baton_types::frames::{Open, Request, ToClient, ToServer};
use baton_types::locks::{Acquire, Mode, Operation};

use group::{Member, Network};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_clients_of_all_members_exclude_each_other() {
    const CLIENTS: usize = 6;
    const ENTRIES: usize = 20;
    let network = Network::default();
    let members = [Member::start(&network, 0).await, Member::start(&network, 1).await];
    let inside = Arc::new(AtomicUsize::new(0));
    let clients = (0..CLIENTS).map(|client| {
        let (session, inside) = (members[client % 2].client().session().open(), inside.clone());
        tokio::spawn(async move {
            let session = session.await.unwrap();
            let mut fences = Vec::new();
            for _ in 0..ENTRIES {
                let guard = session.lock("counter").acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two clients hold the lock");
                fences.push(guard.fence().unwrap());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
            fences
        })
    });
    let mut fences = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        let own = tokio::time::timeout(LONG, client).await.expect("all are served").unwrap();
        assert!(own.is_sorted());
        fences.extend(own);
    }
    fences.sort_unstable();
    assert_eq!(fences, (1..=(CLIENTS * ENTRIES) as u64).collect::<Vec<_>>(), "each grant is one entry of the group");
}

#[tokio::test]
async fn a_listing_shows_the_fence_of_the_group() {
    let network = Network::default();
    network.starts_with_fence(u64::MAX - 1);
    let member = Member::start(&network, 0).await;
    let client = member.client();
    let session = client.session().label("one").open().await.unwrap();
    let guard = session.lock("a").acquire().await.unwrap();
    assert_eq!(guard.fence(), Ok(u64::MAX));
    let lock = client.get_lock("a").await.unwrap().unwrap();
    let holders: Vec<_> = lock.holders.iter().map(|holder| (holder.label.as_str(), holder.fence)).collect();
    assert_eq!(holders, [("one", u64::MAX)]);
    guard.release().await.unwrap();
    let lock = client.get_lock("a").await.unwrap().unwrap();
    assert_eq!((lock.holders.len(), lock.history[0].fence), (0, u64::MAX));
}

#[tokio::test]
async fn a_group_refuses_with_a_sentence_what_it_cannot_do() {
    let member = Member::start(&Network::default(), 0).await;
    let session = member.client().session().open().await.unwrap();
    let shared = session.lock("a").shared().acquire().await.unwrap_err();
    let permit = session.semaphore("a", 3).acquire().await.unwrap_err();
    for (error, says) in [(shared, "cannot be shared"), (permit, "no permits")] {
        let AcquireError::Refused(Refusal { code: RefusalCode::Unsupported, message, .. }) = &error else {
            panic!("{error}")
        };
        assert!(message.ends_with(says), "{message}");
    }
}

#[tokio::test]
async fn a_try_finds_out_whether_the_lock_is_free_in_the_whole_group() {
    let network = Network::default();
    let members = [Member::start(&network, 0).await, Member::with_try(&network, 1, 10).await];
    let here = members[0].client().session().open().await.unwrap();
    let there = members[1].client().session().open().await.unwrap();
    let guard = here.try_lock("a").await.unwrap().expect("it is free");
    assert!(there.try_lock("a").await.unwrap().is_none());
    guard.release().await.unwrap();
    // The other member asked in vain. It leaves when its turn comes, so this try succeeds, too.
    assert!(here.try_lock("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_waiting_client_is_told_for_whom_it_waits_and_goes_on_waiting() {
    let network = Network::default();
    let members = [Member::start(&network, 0).await, Member::start(&network, 1).await];
    let here = members[0].client().session().open().await.unwrap();
    let there = members[1].client().session().open().await.unwrap();
    let holds = there.lock("a").acquire().await.unwrap();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let waits = here.lock("a").on_hopeless(move |why| heard.send(why.clone()).unwrap());
    let waits = tokio::spawn(waits.acquire());
    let message = "waiting for process 1, not heard of for 4.2 s".to_owned();
    let why = Hopeless { process: 1, message };
    members[0].is_hopeless(Some(why.clone()));
    let told = tokio::time::timeout(LONG, hears.recv()).await.expect("it is told");
    assert_eq!(told, Some(why));
    members[0].is_hopeless(None);
    holds.release().await.unwrap();
    tokio::time::timeout(LONG, waits).await.expect("it is served").unwrap().unwrap().release().await.unwrap();
}

/// A time-out would say that another client holds the lock.
#[tokio::test]
async fn a_try_at_a_group_that_cannot_go_on_hears_why() {
    let network = Network::default();
    let members = [Member::start(&network, 0).await, Member::with_try(&network, 1, 10).await];
    let here = members[0].client().session().open().await.unwrap();
    let there = members[1].client().session().open().await.unwrap();
    let guard = here.lock("a").acquire().await.unwrap();
    members[1].is_hopeless(Some(Hopeless { process: 0, message: "waiting for process 0".to_owned() }));
    let error = there.try_lock("a").await.unwrap_err();
    let message = "the group cannot grant the lock: waiting for process 0".to_owned();
    assert_eq!(error, AcquireError::Refused(Refusal::new(RefusalCode::Unavailable, message)));
    members[1].is_hopeless(None);
    assert!(there.try_lock("a").await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_member_tells_its_group() {
    let network = Network::default();
    let member = Member::start(&network, 1).await;
    let status = member.client().status().await.unwrap();
    let peers = vec![views::Peer { id: 0, connected: true, not_heard_ms: 0, backlog_bytes: 0 }];
    let (algorithm, variant) = ("queue".to_owned(), String::new());
    let group = views::Group { algorithm, variant, member: 1, members: 2, serves: true, names: 3, names_max: 4, peers };
    assert_eq!(status.group, Some(group));
    assert_eq!((status.node, status.role.as_str(), status.term, status.free_bytes), (1, "member", 1, None));
}

#[tokio::test]
async fn a_client_hears_why_the_group_cannot_take_its_request() {
    let network = Network::default();
    let member = Member::start(&network, 0).await;
    network.refuses("9 MiB for member 1 are not acknowledged");
    let session = member.client().session().open().await.unwrap();
    let error = session.lock("a").acquire().await.unwrap_err();
    let message = "9 MiB for member 1 are not acknowledged".to_owned();
    assert_eq!(error, AcquireError::Refused(Refusal::new(RefusalCode::Unavailable, message)));
}

#[tokio::test]
async fn a_member_that_can_serve_no_longer_says_why() {
    let member = Member::start(&Network::default(), 0).await;
    member.fails("member 1 has another version");
    let served = tokio::time::timeout(LONG, member.ends()).await.expect("it ends");
    assert!(matches!(&served, Err(ServeError::Failed(why)) if why == "member 1 has another version"), "{served:?}");
}

/// The client may believe in its lease for some time after its member has stopped.
#[tokio::test]
async fn a_member_that_stops_does_not_leave_what_its_clients_hold() {
    let network = Network::default();
    let member = Member::start(&network, 0).await;
    let session = member.client().session().open().await.unwrap();
    let guard = session.lock("held").acquire().await.unwrap();
    session.lock("released").acquire().await.unwrap().release().await.unwrap();
    member.stop();
    tokio::time::timeout(LONG, member.ends()).await.expect("it ends").unwrap();
    assert_eq!([network.is_entered("held"), network.is_entered("released")], [true, false]);
    drop(guard);
}

/// A client that waits is not told of a grant any more, so the member must not keep the lock for it.
#[tokio::test]
async fn a_member_that_stops_leaves_what_no_client_has_heard_of() {
    let network = Network::default();
    let entry = network.enter("a");
    let host = group::host(&network, 0, 10, Arc::default()).await;
    let (mut stream, mut heard) = host.stream(ConnectionId(1), None);
    let (label, host_name, secret) = (String::new(), String::new(), None);
    let open = Open {
        session: 1,
        attempt: 1,
        ttl_ms: 60_000,
        label,
        host: host_name,
        pid: 0,
        resume: false,
        secret,
        cluster: None,
    };
    stream.hears(Ok(ToServer::Open(open))).await;
    assert_eq!(
        heard.recv().await,
        Some(Ok(ToClient::Opened { session: 1, ttl_ms: 60_000, cluster: Some(ClusterId::MIN), closed_ms: 0 }))
    );
    let (name, mode, parent, timeout_ms) = (b"a".to_vec(), Mode::Exclusive, None, None);
    let operation = Operation::Acquire(Acquire { name, mode, owner: 1, parent, timeout_ms, lock_delay_ms: 0 });
    stream
        .hears(Ok(ToServer::Request(Request { number: 1, seen: 0, missing: Vec::new(), operation: operation.into() })))
        .await;
    until(|| network.waiting("a") == 1).await;
    host.stop();
    drop(entry);
    assert!(network.is_entered("a"), "the group lets the member in");
    until(|| !network.is_entered("a")).await;
    host.shutdown().await;
}

/// Waits until it is so, for a bounded time.
async fn until(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.expect("it becomes so");
}

/// A client that dies without a word: its member counts its lease, and then leaves.
#[tokio::test]
async fn a_member_leaves_when_the_lease_of_its_client_ends() {
    let network = Network::default();
    let members = [Member::start(&network, 0).await, Member::start(&network, 1).await];
    let client = members[0].client();
    let dies = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = client.session().ttl(Duration::from_secs(1)).open().await.unwrap();
            std::mem::forget(session.lock("a").acquire().await.unwrap());
            std::mem::forget(session);
        });
        runtime.shutdown_background();
    });
    dies.await.unwrap();
    assert!(network.is_entered("a"));
    let session = members[1].client().session().open().await.unwrap();
    let guard = session.lock("a").timeout(LONG).acquire().await.unwrap();
    assert_eq!(guard.fence(), Ok(2));
}
