//! A group that is stopped and started again, with clients that still believe in their leases.

use std::path::Path;
use std::time::Duration;

use baton_client::Client;
use baton_member::{bind, serve};
use baton_peer::{Data, DataError, GroupFile, Member, Options, PeerGroup};
use baton_types::limits::ServerLimits;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

const LONG: Duration = Duration::from_secs(60);
const TTL_MAX: Duration = Duration::from_secs(3);

struct Group {
    members: Vec<Member>,
    clients: Vec<Client>,
    servers: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Group {
    /// Starts three members that have their files in this folder.
    async fn start(folder: &Path) -> Group {
        let (listeners, group) = prepare().await;
        let mut joining = JoinSet::new();
        for (id, listener) in listeners.into_iter().enumerate() {
            let options =
                Options { listener: Some(listener), data: Some(data(folder, id).await), ..Options::default() };
            let group = group.clone();
            joining.spawn(async move { Member::join(&group, id, options).await.unwrap() });
        }
        let mut members = joining.join_all().await;
        members.sort_by_key(Member::id);
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        let limits = ServerLimits { ttl_ms_max: TTL_MAX.as_millis() as u64, ..ServerLimits::default() };
        for member in &members {
            let port = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let server = serve(member.clone(), port, limits, 100).await.unwrap();
            clients.push(Client::connect([server.address().to_string()]).await.unwrap());
            let (stop, stopped) = oneshot::channel::<()>();
            servers.push((stop, tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.unwrap() })));
        }
        Group { members, clients, servers }
    }

    /// Stops all members, as a signal does.
    async fn stop(self) {
        for (stop, served) in self.servers {
            drop(stop);
            served.await.unwrap();
        }
        for member in &self.members {
            member.shutdown().await;
        }
    }
}

async fn prepare() -> (Vec<TcpListener>, PeerGroup) {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    (listeners, PeerGroup::new(GroupFile::new("raymond", addresses)).unwrap())
}

/// The folder is free when all tasks of the earlier member have ended.
async fn data(folder: &Path, id: usize) -> Data {
    loop {
        match Data::open(folder, id, TTL_MAX) {
            Ok(data) => return data,
            Err(DataError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_lease_of_a_stopped_group_is_over_before_the_next_grant() {
    tokio::time::timeout(LONG, async {
        let folder = tempfile::tempdir().unwrap();
        let group = Group::start(folder.path()).await;
        let session = group.clients[0].session().ttl(TTL_MAX).open().await.unwrap();
        let old = session.lock("a").acquire().await.unwrap();
        let old_fence = old.fence().unwrap();
        group.stop().await;
        assert_eq!(old.fence(), Ok(old_fence), "the client still believes in its lease");

        let group = Group::start(folder.path()).await;
        let session = group.clients[1].session().ttl(TTL_MAX).open().await.unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let waiting = session.lock("a").on_hopeless(move |why| drop(tell.send(why.message.clone())));
        let new = waiting.acquire().await.unwrap();
        assert!(old.fence().is_err(), "two clients hold the lock");
        assert!(new.fence().unwrap() > old_fence);
        let why = told.recv().await.unwrap();
        assert!(why.starts_with("waiting because the group was started again: clients of its earlier start"), "{why}");
        new.release().await.unwrap();
        group.stop().await;

        // Now no client holds anything.
        let group = Group::start(folder.path()).await;
        assert!(group.members.iter().all(|member| member.wait_left().is_zero()));
        assert_eq!(group.members[0].agreed().generation, 3);
        group.stop().await;
    })
    .await
    .expect("all is answered");
}

/// The file of another group says nothing about the leases of this one.
#[tokio::test]
async fn a_member_with_the_file_of_another_group_does_not_begin() {
    tokio::time::timeout(LONG, async {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&folder, &other] {
            Group::start(folder.path()).await.stop().await;
        }
        drop(data(other.path(), 1).await);
        std::fs::copy(other.path().join("member-1"), folder.path().join("member-1")).unwrap();
        let before = std::fs::read(folder.path().join("member-2")).unwrap();
        let (members, group) = prepare().await;
        let mut joining = JoinSet::new();
        for (id, listener) in members.into_iter().enumerate() {
            let data = Some(data(folder.path(), id).await);
            let options = Options { listener: Some(listener), data, ..Options::default() };
            let group = group.clone();
            joining.spawn(async move { Member::join(&group, id, options).await.unwrap_err().to_string() });
        }
        let sentence = "the file of process 1 (--data) belongs to another group than the file of process 0";
        for error in joining.join_all().await {
            assert!(error.starts_with(sentence), "{error}");
        }
        assert_eq!(std::fs::read(folder.path().join("member-2")).unwrap(), before);
    })
    .await
    .expect("all are told");
}

#[tokio::test]
async fn a_longer_ttl_than_the_group_waits_for_is_refused() {
    tokio::time::timeout(LONG, async {
        let folder = tempfile::tempdir().unwrap();
        let group = Group::start(folder.path()).await;
        let refused = group.clients[0].session().ttl(TTL_MAX * 2).open().await.unwrap_err().to_string();
        let sentence = "the TTL of the session is 6 s (--ttl), but this member allows at most 3 s (its --max-ttl)";
        assert!(refused.contains(sentence), "{refused}");
        group.clients[0].session().ttl(TTL_MAX).open().await.unwrap();
        group.stop().await;
    })
    .await
    .expect("all is answered");
}

/// The disk is full for a moment when the first client asks.
#[tokio::test]
async fn a_member_grants_when_its_file_can_be_written_again() {
    tokio::time::timeout(LONG, async {
        let folder = tempfile::tempdir().unwrap();
        let group = Group::start(folder.path()).await;
        // The new content is written next to the file first.
        let obstacle = folder.path().join("member-0.new");
        std::fs::create_dir(&obstacle).unwrap();
        let session = group.clients[0].session().ttl(TTL_MAX).open().await.unwrap();
        let refused = session.lock("a").acquire().await.unwrap_err().to_string();
        assert!(refused.contains("cannot write "), "{refused}");
        std::fs::remove_dir(&obstacle).unwrap();
        session.lock("a").acquire().await.unwrap().release().await.unwrap();
        group.stop().await;
    })
    .await
    .expect("all is answered");
}
