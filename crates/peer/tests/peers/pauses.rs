//! A member whose whole process stands still for a while, as under SIGSTOP.

use std::time::Duration;

use baton_peer::{Election, Member, Options, PeerGroup};
use baton_trace::Event;
use tokio::runtime::Builder;

use crate::trace::Sink;
use crate::{listeners, listening, within_a_minute};

async fn knows_a_leader(election: &Election) {
    election.watch_leader().wait_for(|leader| leader.id.is_some()).await.unwrap();
}

/// The other members were silent for as long as this member stood still. It hears of them before it judges them.
#[test]
fn a_member_that_stood_still_suspects_nobody() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (other, paused) = (runtime(), runtime());
    let (mut file, mut listeners) = other.block_on(listeners("bully", 2));
    file.variant = Some("witness".into());
    let group = PeerGroup::new(file).unwrap();
    let sink = Sink::default();
    // A listener belongs to the runtime that made it.
    let second = listeners.pop().unwrap().into_std().unwrap();
    let options = Options { trace: Some(Box::new(sink.clone())), ..Options::default() };
    let stands_still = {
        let group = group.clone();
        std::thread::spawn(move || {
            paused.block_on(within_a_minute(async {
                let listener = tokio::net::TcpListener::from_std(second).unwrap();
                let member = Member::join(&group, 1, Options { listener: Some(listener), ..options }).await.unwrap();
                let election = member.election(b"leader").unwrap();
                knows_a_leader(&election).await;
                // The only thread of this member stands still for longer than a silence may last.
                std::thread::sleep(Duration::from_millis(1500));
                // The other member suspected this one, and trusts it again.
                let heard = member.stats().messages;
                while member.stats().messages == heard || !member.health()[0].connected {
                    tokio::task::yield_now().await;
                }
                member.shutdown().await
            }))
        })
    };
    other.block_on(within_a_minute(async {
        let member = Member::join(&group, 0, listening(listeners.pop().unwrap())).await.unwrap();
        let election = member.election(b"leader").unwrap();
        knows_a_leader(&election).await;
        while !stands_still.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }));
    stands_still.join().unwrap();
    let events: Vec<Event> = sink.read().1.into_iter().map(|record| record.event).collect();
    assert!(!events.contains(&Event::Suspect { peer: 0 }), "{events:#?}");
}
