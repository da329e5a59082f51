//! Guarded elections while links break and members are cut off: at most one leader per term, and in the end all agree.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_peer::{Election, Leader, Options};
use baton_trace::Event;
use tokio::time::sleep;

use crate::cuts::{Field, STORM};
use crate::trace::Sink;
use crate::within_a_minute;

/// Waits until these members follow one leader with one term, and the leader is as `is` asks.
async fn agree(elections: &[&Election], is: impl Fn(usize) -> bool) -> Leader {
    loop {
        let believed: Vec<Leader> = elections.iter().map(|election| *election.watch_leader().borrow()).collect();
        if believed.iter().all(|leader| *leader == believed[0] && leader.id.is_some_and(&is)) {
            return believed[0];
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn at_most_one_leads_in_each_term(algorithm: &str, guard: &str, seed: u64) {
    let sinks: Vec<Sink> = (0..3).map(|_| Sink::default()).collect();
    let option = |id: usize, options| Options { trace: Some(Box::new(sinks[id].clone())), ..options };
    let change = |file: &mut baton_peer::GroupFile| {
        file.variant = Some(guard.to_string());
        file.delay_max_ms = 20;
    };
    let field = Field::with(algorithm, 3, seed, change, option).await;
    let elections: Vec<Election> = field.members.iter().map(|member| member.election(b"leader").unwrap()).collect();
    field.mesh.weather(STORM);
    elections[0].elect();
    let all: Vec<&Election> = elections.iter().collect();
    let first = agree(&all, |_| true).await;
    let cut_off = first.id.unwrap();
    // The others notice the silence, and elect without the leader.
    field.mesh.cut_off(cut_off);
    let others: Vec<&Election> = (0..3).filter(|&id| id != cut_off).map(|id| &elections[id]).collect();
    let second = agree(&others, |leader| leader != cut_off).await;
    assert!(second.term > first.term, "{algorithm}: {first:?}, {second:?}");
    field.mesh.bring_back(cut_off);
    agree(&all, |_| true).await;
    field.mesh.heal();
    let counters = field.mesh.counters();
    assert!(counters.cut > 10 && counters.reset > 5, "{counters:?}");
    let last = agree(&all, |_| true).await;
    assert!(last.term >= second.term, "{algorithm}: {second:?}, {last:?}");
    for member in &field.members {
        member.shutdown().await;
    }
    let mut leaders = BTreeMap::new();
    for record in sinks.iter().flat_map(|sink| sink.read().1) {
        if let Event::Elected { leader: Some(leader), term } = record.event {
            let known = *leaders.entry(term.expect("a guard counts terms")).or_insert(leader);
            assert_eq!(known, leader, "{algorithm} with {guard}: two leaders in term {term:?}");
        }
    }
    assert!(leaders.len() >= 2, "{leaders:?}");
}

async fn both_guards(algorithm: &str) {
    within_a_minute(async {
        tokio::join!(
            at_most_one_leads_in_each_term(algorithm, "quorum", 1),
            at_most_one_leads_in_each_term(algorithm, "witness", 2)
        );
    })
    .await;
}

#[tokio::test]
async fn at_most_one_leads_in_each_term_bully() {
    both_guards("bully").await;
}

#[tokio::test]
async fn at_most_one_leads_in_each_term_ring_list() {
    both_guards("ring-list").await;
}

#[tokio::test]
async fn at_most_one_leads_in_each_term_chang_roberts() {
    both_guards("chang-roberts").await;
}
