//! Errors that keep a member from joining.

use std::time::Duration;

use baton_peer::{JoinError, LinkError, Member, Options, PeerGroup};
use tokio::net::TcpSocket;

use crate::{listeners, listening, start, within_a_minute};

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
        let JoinError::Incomplete { missing, .. } = &error else { panic!("{error}") };
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
