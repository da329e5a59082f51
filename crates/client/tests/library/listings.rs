//! Calls that read the state of the service.

use super::*;

#[tokio::test]
async fn pages_are_put_together_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let b = v1::Lock { holders: [held("b", 1).holders, held("b", 2).holders].concat(), ..waited_for("b", 3) };
    let [a, b, c] = [with_history("a"), by_permits(b), lock("c")].map(views::Lock::from);
    assert_eq!(b.waiters[0].mode, Mode::Permit { of: 3 });
    let locks = client.locks().prefix(b"\xff").history(true).collect().await.unwrap();
    assert_eq!(locks, [a.clone(), b.clone(), c.clone()]);
    let asked: Vec<_> = server.listings.lock().unwrap().drain(..).collect();
    let request = |page: &[u8]| v1::ListLocksRequest {
        prefix: b"\xff".to_vec(),
        page: page.to_vec(),
        history: true,
        all: false,
        local: false,
    };
    assert_eq!(asked, [request(b""), request(b"2"), request(b"3"), request(b"4")]);
    // Page by page: a lock is returned when no later page can continue it.
    let mut listing = client.locks().all(true);
    assert_eq!(listing.next().await.unwrap(), Some(vec![a]));
    assert_eq!(listing.next().await.unwrap(), Some(vec![b, c]));
    assert_eq!(listing.next().await.unwrap(), None);
    assert_eq!(listing.next().await.unwrap(), None);
    assert!(server.listings.lock().unwrap().iter().all(|request| request.all && !request.history));

    let a = v1::Lock { waiters: waited_for("a", 2).waiters, ..by_permits(held("a", 1)) };
    assert_eq!(client.get_lock("a").await.unwrap(), Some(a.into()));
    let sessions = client.list_sessions().await.unwrap();
    let holds: Vec<(u64, Vec<Vec<u8>>)> = sessions.into_iter().map(|session| (session.id, session.holds)).collect();
    assert_eq!(holds, [(5, vec![b"a".to_vec(), b"b".to_vec()]), (6, vec![b"c".to_vec()])]);
}

#[tokio::test]
async fn the_service_can_be_looked_at() {
    let server = Server::start().await;
    let client = server.client().await;
    let names: Vec<Vec<u8>> = client.list_locks().await.unwrap().into_iter().map(|lock| lock.name).collect();
    assert_eq!(names, [b"a", b"b", b"c"]);
    assert_eq!(client.get_lock("b").await.unwrap(), None);
    assert_eq!(client.force_release("a", true).await.unwrap()[0].fence, 1);
    assert!(matches!(client.force_release("", true).await, Err(CallError::InvalidName(_))));
    let error = client.status().await.unwrap_err();
    assert_eq!(error.to_string(), "the server refused: not today");
    assert!(matches!(error, CallError::Refused(Refusal { code: RefusalCode::Invalid, .. })), "{error:?}");
}

#[tokio::test]
async fn a_local_read_says_how_old_it_may_be() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut listing = client.locks().local(true);
    assert_eq!(listing.age(), None, "nothing was read yet");
    while listing.next().await.unwrap().is_some() {}
    assert_eq!(listing.age(), Some(Duration::from_millis(40)), "the age of the oldest page");
    assert!(server.listings.lock().unwrap().iter().all(|request| request.local));
    let lock = client.get_lock_locally("a").await.unwrap();
    assert_eq!((lock.value.is_some(), lock.age), (true, Some(Duration::from_millis(20))));
    let sessions = client.list_sessions_locally().await.unwrap();
    assert_eq!((sessions.value.len(), sessions.age), (2, None), "the server does not know the age of one page");
    assert_eq!(
        client.get_lock_locally("").await.unwrap_err().to_string(),
        client.get_lock("").await.unwrap_err().to_string()
    );
}
