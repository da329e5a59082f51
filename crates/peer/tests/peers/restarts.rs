//! Members that start again in groups that bear it: failure detection, and Chang-Roberts without a guard.

use baton_peer::{GroupFile, LinkError, Member, Options, PeerError, PeerGroup, Refusal};
use baton_trace::Event;

use crate::cuts::Field;
use crate::refusals::at;
use crate::trace::Sink;
use crate::{join_all, listeners, listening, start_with, within_a_minute};

const NAME: &[u8] = b"a";

#[tokio::test]
async fn a_detector_trusts_a_member_that_starts_again() {
    within_a_minute(async {
        let mut members = start_with("heartbeat", 3, |file| file.delay_max_ms = 10).await;
        let mut suspected = members[0].detector(NAME).unwrap().watch_suspected();
        let group = members[0].group().clone();
        // Whether the member calls the others, or they call it.
        for id in [2, 1] {
            drop(members.remove(id));
            suspected.wait_for(|suspected| suspected.contains(&id)).await.unwrap();
            let again = Member::join(&group, id, at(group.address(id).unwrap()).await).await.unwrap();
            members.insert(id, again);
            suspected.wait_for(|suspected| !suspected.contains(&id)).await.unwrap();
            // The new incarnation has the detector, since the others have it.
            let mut theirs = members[id].detector(NAME).unwrap().watch_suspected();
            theirs.wait_for(|suspected| suspected.is_empty()).await.unwrap();
        }
    })
    .await;
}

/// A beat that comes late says nothing. So beats to a member that is gone do not pile up, and the detector goes on.
#[tokio::test]
async fn beats_to_a_member_that_is_gone_are_not_kept() {
    within_a_minute(async {
        let mut members = start_with("heartbeat", 3, |file| file.delay_max_ms = 10).await;
        members.iter().for_each(|member| drop(member.detector(NAME).unwrap()));
        drop(members.pop());
        let health = || members[0].health().into_iter().find(|health| health.id == 2).unwrap();
        while health().connected {
            tokio::task::yield_now().await;
        }
        let (backlog, sent) = (health().backlog_bytes, members[0].stats().messages);
        while members[0].stats().messages < sent + 20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(health().backlog_bytes, backlog);
        let mut watch = members[0].detector(NAME).unwrap().watch_suspected();
        watch.wait_for(|suspected| suspected.iter().eq([&2])).await.unwrap();
    })
    .await;
}

/// The member starts again so soon that nobody has noticed its silence. It is suspected and trusted all the same.
#[tokio::test]
async fn a_plain_ring_goes_on_with_a_member_that_starts_again() {
    within_a_minute(async {
        let (mut file, listeners) = listeners("chang-roberts", 3).await;
        file.assume_synchronous = true;
        let group = PeerGroup::new(file).unwrap();
        let sink = Sink::default();
        let options = |(id, listener)| match id {
            0 => Options { trace: Some(Box::new(sink.clone())), ..listening(listener) },
            _ => listening(listener),
        };
        let mut members = join_all(&group, listeners.into_iter().enumerate().map(options).collect()).await;
        let elections: Vec<_> = members.iter().map(|member| member.election(NAME).unwrap()).collect();
        elections[0].elect();
        for election in &elections {
            election.watch_leader().wait_for(|leader| leader.id == Some(2)).await.unwrap();
        }
        drop(members.pop());
        // A member that serves no longer knows no leader, not even itself.
        assert_eq!(elections[2].watch_leader().borrow().id, None);
        drop(elections);
        members.push(Member::join(&group, 2, at(group.address(2).unwrap()).await).await.unwrap());
        let elections: Vec<_> = members.iter().map(|member| member.election(NAME).unwrap()).collect();
        elections[2].elect();
        for election in &elections {
            election.watch_leader().wait_for(|leader| leader.id == Some(2)).await.unwrap();
        }
        for member in &members {
            member.shutdown().await;
        }
        let told: Vec<Event> = sink.read().1.into_iter().map(|record| record.event).collect();
        let at = |wanted: Event| told.iter().position(|event| *event == wanted);
        let (suspect, trust) = (at(Event::Suspect { peer: 2 }), at(Event::Trust { peer: 2 }));
        assert!(suspect.is_some() && suspect < trust, "suspected {suspect:?}, trusted {trust:?}");
    })
    .await;
}

/// The first incarnation was only cut off. When it is back, another one has taken its place.
#[tokio::test]
async fn an_older_incarnation_that_comes_back_is_told_to_stop() {
    within_a_minute(async {
        let field = Field::with("heartbeat", 3, 0, |file| file.delay_max_ms = 10, |_, options| options).await;
        let mut suspected = field.members[0].detector(NAME).unwrap().watch_suspected();
        field.mesh.unplug(2);
        suspected.wait_for(|suspected| suspected.contains(&2)).await.unwrap();
        // The new incarnation reaches the others without a proxy.
        let members = (0..3).map(|id| field.members[id].group().address(id).unwrap().to_string()).collect();
        let direct = PeerGroup::new(GroupFile { members, ..field.members[0].group().file().clone() }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let again = Member::join(&direct, 2, listening(listener)).await.unwrap();
        suspected.wait_for(|suspected| !suspected.contains(&2)).await.unwrap();
        field.mesh.heal();
        let failed = field.members[2].failed().await;
        let PeerError::Refused { error: LinkError::RefusedByPeer(refusal), .. } = &failed else { panic!("{failed}") };
        assert_eq!(*refusal, Refusal::Outdated { id: 2 });
        let sentence = "process 2 has been started again since, or its clock went back; it takes no part any more";
        assert!(failed.to_string().ends_with(sentence), "{failed}");
        assert!(!suspected.borrow().contains(&2));
        again.shutdown().await;
    })
    .await;
}
