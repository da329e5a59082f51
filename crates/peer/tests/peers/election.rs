//! Members elect a leader, or watch each other.

use baton_peer::{Election, Member};

use crate::{start_with, within_a_minute};

const NAME: &[u8] = b"leader";

fn elections(members: &[Member]) -> Vec<Election> {
    members.iter().map(|member| member.election(NAME).unwrap()).collect()
}

async fn follows(election: &Election, leader: usize) {
    election.watch_leader().wait_for(|now| now.id == Some(leader)).await.expect("it runs");
}

#[tokio::test]
async fn the_next_highest_leads_when_the_leader_has_left() {
    within_a_minute(async {
        for (algorithm, variant) in [("bully", None), ("bully", Some("quorum")), ("ring-list", Some("witness"))] {
            let members = start_with(algorithm, 3, |file| {
                file.variant = variant.map(str::to_owned);
                file.assume_synchronous = variant.is_none();
            })
            .await;
            let elections = elections(&members);
            // A ring holds its first election when a member asks for it.
            elections[0].elect();
            for election in &elections {
                follows(election, 2).await;
            }
            members[2].shutdown().await;
            for election in &elections[..2] {
                follows(election, 1).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_election_can_be_asked_for() {
    within_a_minute(async {
        let members = start_with("bully", 3, |file| file.assume_synchronous = true).await;
        let elections = elections(&members);
        for election in &elections {
            follows(election, 2).await;
        }
        let announced = || members[2].stats().messages_by_kind.get("COORDINATOR").copied();
        let before = announced();
        elections[0].elect();
        while announced() == before {
            tokio::task::yield_now().await;
        }
        follows(&elections[0], 2).await;
    })
    .await;
}

#[tokio::test]
async fn a_detector_suspects_a_member_that_has_left() {
    within_a_minute(async {
        for algorithm in ["heartbeat", "phi-accrual"] {
            let members = start_with(algorithm, 3, |file| file.delay_max_ms = 10).await;
            let suspected: Vec<_> =
                members.iter().map(|member| member.detector(NAME).unwrap().watch_suspected()).collect();
            members[1].shutdown().await;
            for watch in [&suspected[0], &suspected[2]] {
                watch.clone().wait_for(|suspected| suspected.iter().eq([&1])).await.unwrap();
            }
        }
    })
    .await;
}
