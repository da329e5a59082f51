//! Between real sockets an algorithm sends the same messages as in the simulator.

use std::collections::BTreeMap;

use baton_peer::{GroupFile, Member, Options as PeerOptions, PeerGroup};
use baton_protocol::registry::{ALGORITHMS, Family};
use baton_sim::app::mutex::Load;
use baton_sim::report::Report;
use baton_sim::run::{Options, run};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

const MEMBERS: usize = 5;
const ENTRIES: usize = 25;

type Counts = BTreeMap<&'static str, u64>;

/// All members of a group, in this process.
async fn join_all(algorithm: &str, variant: Option<&str>) -> Vec<Member> {
    let mut listeners = Vec::new();
    for _ in 0..MEMBERS {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let file = GroupFile { variant: variant.map(String::from), ..GroupFile::new(algorithm, addresses) };
    // A member acknowledges at least once in this time.
    let group = PeerGroup::new(GroupFile { delay_max_ms: 20, ..file }).unwrap();
    let mut joining = JoinSet::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let group = group.clone();
        let options = PeerOptions { listener: Some(listener), ..PeerOptions::default() };
        joining.spawn(async move { Member::join(&group, id, options).await.unwrap() });
    }
    let mut members = joining.join_all().await;
    members.sort_by_key(Member::id);
    members
}

/// Waits until no message is on its way. All members run on one thread, so a look at all of them is a look at one
/// moment; and a member acknowledges a message in the same step in which it handles it, or later.
async fn settle(members: &[Member]) {
    for _ in 0..10_000 {
        let is_quiet = |member: &Member| member.health().iter().all(|peer| peer.backlog_bytes == 0);
        if members.iter().all(is_quiet) {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("messages are on their way for ever");
}

/// One request at a time, as `solo` in the simulator.
async fn between_sockets(algorithm: &'static str, variant: Option<&str>) -> Counts {
    let members = join_all(algorithm, variant).await;
    for turn in 0..ENTRIES {
        let grant = members[turn % MEMBERS].lock(b"parity").unwrap().acquire().await.unwrap();
        grant.release();
        settle(&members).await;
    }
    let mut counts = Counts::new();
    for member in &members {
        for (kind, count) in member.stats().messages_by_kind {
            *counts.entry(kind).or_default() += count;
        }
    }
    let mut leaving: JoinSet<_> =
        members.into_iter().map(|member| async move { drop(member.shutdown().await) }).collect();
    while leaving.join_next().await.is_some() {}
    counts
}

fn simulated(algorithm: &str, variant: Option<&str>) -> Counts {
    let mut options = Options::new(algorithm, MEMBERS);
    options.params.variant = variant.map(String::from);
    options.workload.load = Load::Solo;
    options.workload.entries = ENTRIES as u64;
    let Ok(Report::Mutex(report)) = run(&options, None) else { panic!("{algorithm} does not run") };
    assert_eq!(report.entries, ENTRIES as u64, "{algorithm}");
    report.messages_by_kind
}

/// Exactly as many messages of each kind, those within one member included. `voting` chooses its coordinators at
/// random, but asks the same number of them every time, and each of them votes, since no other request is on its way.
#[tokio::test]
async fn sockets_and_simulator_send_the_same_messages() {
    let locks = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    let mut cases: Vec<(&'static str, Option<&'static str>)> =
        locks.map(|about| (about.name, (about.name == "token-ring").then_some("parked"))).collect();
    assert!(cases.len() >= 14, "{cases:?}");
    cases.push(("voting", Some("ask-all")));
    let mut groups = JoinSet::new();
    for (algorithm, variant) in cases {
        groups.spawn(async move { (algorithm, variant, between_sockets(algorithm, variant).await) });
    }
    let mut wrong = Vec::new();
    for (algorithm, variant, counts) in groups.join_all().await {
        assert!(!counts.is_empty(), "{algorithm}");
        let simulated = simulated(algorithm, variant);
        if counts != simulated {
            wrong.push(format!("{algorithm} {variant:?}\n  sockets:   {counts:?}\n  simulator: {simulated:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
