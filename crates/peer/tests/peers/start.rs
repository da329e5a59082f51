//! Errors that keep a member from joining.

use std::time::Duration;

use baton_peer::{Awaited, Data, DataError, GroupFile, JoinError, LinkError, Member, Options, PeerGroup};
use baton_proxy::Mesh;
use tokio::net::TcpSocket;

use crate::refusals::at;
use crate::{join_all, listeners, listening, start, within_a_minute};

#[tokio::test]
async fn who_is_missing_is_named() {
    within_a_minute(async {
        // A bound socket that does not listen: no other process can use its port, and connections to it fail.
        let mute = TcpSocket::new_v4().unwrap();
        mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (mut file, mut listeners) = listeners("ricart-agrawala", 3).await;
        file.members[0] = mute.local_addr().unwrap().to_string();
        let group = PeerGroup::new(file).unwrap();
        let options = Options { start_within: Duration::from_millis(200), ..listening(listeners.swap_remove(1)) };
        let error = Member::join(&group, 1, options).await.unwrap_err();
        let JoinError::Incomplete { awaited: Awaited { missing, .. }, .. } = &error else { panic!("{error}") };
        assert_eq!(missing.iter().map(|missing| missing.id).collect::<Vec<_>>(), [0, 2]);
        assert!(matches!(missing[0].last, Some(LinkError::Closed(_))), "{missing:?}");
        assert_eq!(missing[1].last, None);
        let end = format!("2 at {} (has not connected)", group.address(2).unwrap());
        assert!(error.to_string().ends_with(&end), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_member_that_is_not_in_the_file_is_refused() {
    within_a_minute(async {
        let (file, _listeners) = listeners("raymond", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let error = Member::join(&group, 2, Options::default()).await.unwrap_err().to_string();
        assert_eq!(error, "there is no member 2; there are 0 to 1");
    })
    .await;
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    within_a_minute(async {
        let (file, _listeners) = listeners("raymond", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let error = Member::join(&group, 0, Options::default()).await.unwrap_err();
        assert!(matches!(&error, JoinError::Listen { address, .. } if address == group.address(0).unwrap()), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_group_serves_what_its_algorithm_is_for() {
    within_a_minute(async {
        let members = start("raymond", 2).await;
        let error = members[0].election(b"leader").unwrap_err().to_string();
        assert_eq!(error, "`raymond` is an algorithm for mutual exclusion, but this needs one for leader election");
        let error = members[0].detector(b"leader").unwrap_err().to_string();
        assert_eq!(error, "`raymond` is an algorithm for mutual exclusion, but this needs one for failure detection");
    })
    .await;
}

/// Member 0 gives up because member 2 cannot reach it, and starts again. Member 1 has met its first start by then.
#[tokio::test]
async fn a_member_that_starts_again_before_the_beginning_is_accepted() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("raymond", 3).await;
        let mesh = Mesh::start(&file.members, 0).unwrap();
        mesh.cut(2, 0);
        let group = |id| PeerGroup::new(GroupFile { members: mesh.addresses(id), ..file.clone() }).unwrap();
        let mut joining = Vec::new();
        for id in [2, 1] {
            let (group, options) = (group(id), listening(listeners.remove(id)));
            joining.push(tokio::spawn(async move { Member::join(&group, id, options).await.unwrap() }));
        }
        let options = Options { start_within: Duration::from_secs(1), ..listening(listeners.remove(0)) };
        let error = Member::join(&group(0), 0, options).await.unwrap_err();
        let JoinError::Incomplete { awaited: Awaited { missing, .. }, .. } = &error else { panic!("{error}") };
        assert!(missing.iter().any(|missing| missing.id == 2), "{error}");
        assert!(joining.iter().all(|joining| !joining.is_finished()), "the group is not complete");
        let again = at(&file.members[0]).await;
        mesh.heal();
        let mut members = vec![Member::join(&group(0), 0, again).await.unwrap()];
        for joining in joining {
            members.push(joining.await.unwrap());
        }
        for member in &members {
            member.lock(b"a").unwrap().acquire().await.unwrap().release();
        }
    })
    .await;
}

/// All members are connected with member 1, but member 2 is not connected with member 0.
#[tokio::test]
async fn members_that_are_not_connected_with_each_other_are_named() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("raymond", 3).await;
        let mesh = Mesh::start(&file.members, 0).unwrap();
        mesh.cut(2, 0);
        let group = |id| PeerGroup::new(GroupFile { members: mesh.addresses(id), ..file.clone() }).unwrap();
        for id in [2, 0] {
            let (group, options) = (group(id), listening(listeners.remove(id)));
            tokio::spawn(async move { Member::join(&group, id, options).await });
        }
        let options = Options { start_within: Duration::from_secs(1), ..listening(listeners.remove(0)) };
        let error = Member::join(&group(1), 1, options).await.unwrap_err().to_string();
        let sentence = "the group has not begun after 1.0 s; all members are connected with this one, but not with each \
                        other: 0, 2";
        assert_eq!(error, sentence);
    })
    .await;
}

/// The whole group stops, and starts again with its files.
#[tokio::test]
async fn fences_grow_when_the_whole_group_starts_again() {
    within_a_minute(async {
        let folder = tempfile::tempdir().unwrap();
        let (file, listeners) = listeners("raymond", 3).await;
        drop(listeners);
        let group = PeerGroup::new(file).unwrap();
        let start = async || {
            let mut options = Vec::new();
            for id in 0..3 {
                // The folder is free when all tasks of the earlier member have ended.
                let data = loop {
                    match Data::open(folder.path(), id, Duration::from_secs(60)) {
                        Ok(data) => break data,
                        Err(DataError::InUse { .. }) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                };
                options.push(Options { data: Some(data), ..at(group.address(id).unwrap()).await });
            }
            join_all(&group, options).await
        };
        let mut last = 0;
        for generation in 1..4 {
            let members = start().await;
            for member in &members {
                assert_eq!(member.agreed().generation, generation);
                let grant = member.lock(b"a").unwrap().acquire().await.unwrap();
                assert!(last < grant.fence() && grant.fence() < 1 << 53, "{last} {grant:?}");
                assert_eq!(grant.fence() >> 34, generation);
                last = grant.fence();
            }
            assert_eq!(members[0].wait_left() > Duration::from_secs(50), generation == 3, "{generation}");
            if generation == 2 {
                // A client got a lease, and nobody says that it is over.
                members[1].open_for_clients().await.unwrap();
            }
            for member in &members {
                if generation == 1 {
                    member.held_nothing().await.unwrap();
                }
                member.shutdown().await;
            }
        }
    })
    .await;
}
