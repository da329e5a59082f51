//! Members that do not fit the group, members that start again, and members that are gone. Each side is told why.

use baton_peer::{GroupFile, JoinError, LinkError, Member, Options, PeerError, PeerGroup, Refusal, Warning};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::{join_all, listeners, listening, start, within_a_minute};

/// Starts a group of three, with the warnings of each member.
async fn warned(algorithm: &str, change: impl FnOnce(&mut GroupFile)) -> (Vec<Member>, Vec<mpsc::Receiver<Warning>>) {
    let (mut file, listeners) = listeners(algorithm, 3).await;
    change(&mut file);
    let (mut options, mut warnings) = (Vec::new(), Vec::new());
    for listener in listeners {
        let (notice, noticed) = mpsc::channel(64);
        options.push(Options { warnings: Some(notice), ..listening(listener) });
        warnings.push(noticed);
    }
    (join_all(&PeerGroup::new(file).unwrap(), options).await, warnings)
}

/// A free port, which the other members do not know.
async fn elsewhere() -> Options {
    listening(TcpListener::bind("127.0.0.1:0").await.unwrap())
}

/// Listens at the address of a member that was dropped, as soon as its tasks have ended.
pub async fn at(address: &str) -> Options {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listening(listener),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn all_enter(members: &[Member]) {
    for member in members {
        member.lock(b"a").unwrap().acquire().await.unwrap().release();
    }
}

#[tokio::test]
async fn a_member_with_another_group_is_refused_and_both_know_why() {
    within_a_minute(async {
        let (members, mut warnings) = warned("ricart-agrawala", |_| {}).await;
        let group = members[0].group().file().clone();
        let mut four = group.members.clone();
        four.push("127.0.0.1:1".into());
        let of = |algorithm: &str| GroupFile { algorithm: algorithm.into(), ..group.clone() };
        let cases = [
            (of("lamport"), "it runs `lamport`, but this group runs `ricart-agrawala`"),
            (GroupFile { members: four, ..group.clone() }, "its group has 4 members, but this one has 3"),
            (
                GroupFile { delay_max_ms: 7, ..group.clone() },
                "its group file differs in the coordinators, the votes, the delay or in assume_synchronous",
            ),
        ];
        for (file, sentence) in cases {
            let error = Member::join(&PeerGroup::new(file).unwrap(), 2, elsewhere().await).await.unwrap_err();
            let JoinError::Refused { peer: 0 | 1, error: LinkError::Refused(_), .. } = &error else {
                panic!("{error}")
            };
            let told = warnings[0].recv().await.unwrap().to_string();
            assert!(told.ends_with(sentence), "{told}");
        }
        all_enter(&members).await;
    })
    .await;
}

#[tokio::test]
async fn a_member_with_another_variant_is_refused_and_both_know_why() {
    within_a_minute(async {
        let (members, mut warnings) = warned("token-ring", |_| {}).await;
        let file = GroupFile { variant: Some("parked".into()), ..members[0].group().file().clone() };
        let error = Member::join(&PeerGroup::new(file).unwrap(), 2, elsewhere().await).await.unwrap_err().to_string();
        assert!(error.ends_with("it runs the default variant, but this group runs variant `parked`"), "{error}");
        let told = warnings[0].recv().await.unwrap().to_string();
        assert!(told.ends_with("it runs variant `parked`, but this group runs the default variant"), "{told}");
        all_enter(&members).await;
    })
    .await;
}

#[tokio::test]
async fn the_second_member_with_one_id_is_refused_and_the_first_goes_on() {
    within_a_minute(async {
        let (members, mut warnings) = warned("ricart-agrawala", |_| {}).await;
        // Each member has heard from each other one that it has begun.
        all_enter(&members).await;
        let error = Member::join(members[0].group(), 2, elsewhere().await).await.unwrap_err().to_string();
        let sentence = "process 2 was started again, or runs twice; what the first start knew is lost, and \
                        `ricart-agrawala` cannot go on without it: restart the whole group";
        assert!(error.ends_with(sentence), "{error}");
        let told = warnings[0].recv().await.unwrap().to_string();
        assert!(told.ends_with(sentence), "{told}");
        all_enter(&members).await;
    })
    .await;
}

/// Whether the others call it or it calls the others: a member that has lost its memory is told why it may not join.
#[tokio::test]
async fn a_restarted_member_is_refused_by_the_others() {
    within_a_minute(async {
        for id in [0, 2] {
            let mut members = start("ricart-agrawala", 3).await;
            all_enter(&members).await;
            let group = members[0].group().clone();
            drop(members.remove(id));
            let error = Member::join(&group, id, at(group.address(id).unwrap()).await).await.unwrap_err();
            let JoinError::Refused { error: LinkError::RefusedByPeer(refusal), .. } = &error else { panic!("{error}") };
            assert_eq!(*refusal, Refusal::Restarted { id, algorithm: "ricart-agrawala".into() });
        }
    })
    .await;
}

/// The member is dropped without a word. Its locks and grants live longer.
#[tokio::test]
async fn callers_of_a_dropped_member_are_told() {
    within_a_minute(async {
        let mut members = start("suzuki-kasami", 2).await;
        let grant = members[0].lock(b"a").unwrap().acquire().await.unwrap();
        let lock = members[1].lock(b"a").unwrap();
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.map(drop) }
        });
        crate::requests(&members[1], 1).await;
        let locks = (members[0].lock(b"a").unwrap(), lock);
        members.clear();
        assert_eq!(waiting.await.unwrap().unwrap_err(), PeerError::Left.into());
        drop(grant);
        for lock in [locks.0, locks.1] {
            assert_eq!(lock.acquire().await.unwrap_err(), PeerError::Left.into());
        }
    })
    .await;
}
