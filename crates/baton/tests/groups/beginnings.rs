//! Groups that begin while a link is down and a member starts again, and groups that begin a second time.

use std::time::Duration;

use baton_client::ClusterId;
use baton_peer::Data;
use fastrand::Rng;
use nix::sys::signal::Signal;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::group::Group;
use crate::{LONG, SEED, is_full, number};

/// As long as `--max-ttl` below.
const TTL: Duration = Duration::from_secs(2);

/// Member 2 cannot reach member 0, which gives up and starts again. By then, member 1 has met its first start.
async fn restart_before_the_beginning(algorithm: &str) {
    let mut group = Group::prepare(algorithm, 3, 1).await;
    group.mesh.cut(2, 0);
    group.members = vec![group.spawn(0, &["--start-within", "1s"]), group.spawn(1, &[]), group.spawn(2, &[])];
    loop {
        let (status, complaint) = group.members[0].ends().await;
        assert_eq!(status.code(), Some(2), "{complaint}");
        // Member 1 has met this start of member 0.
        if complaint.contains("; missing: 2 at ") {
            break;
        }
        assert!(complaint.contains("; missing: 1 at "), "{complaint}");
        group.members[0] = group.spawn(0, &["--start-within", "1s"]);
    }
    // It waits for the others, although it has met member 0.
    assert!(group.members[1].last("member").is_null(), "{algorithm}: member 1 has begun");
    group.members[0] = group.spawn(0, &[]);
    group.mesh.heal();
    group.complete().await;
    // The lock goes around, and the oracles judge the traces.
    let mut fences = Vec::new();
    for id in [1, 2, 0] {
        let session = group.client(id).await.session().ttl(TTL).open().await.unwrap();
        let guard = session.lock("work").acquire().await.unwrap();
        fences.push(guard.fence().unwrap());
        guard.release().await.unwrap();
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    group.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_may_start_again_before_the_group_begins() {
    for algorithm in ["central", "raymond", "voting"] {
        timeout(LONG, restart_before_the_beginning(algorithm)).await.expect(algorithm);
    }
}

/// Two live processes with id 2. Of those that start before the beginning, the later one takes part. Afterwards the one
/// that the group began with goes on.
async fn twins() {
    let mut group = Group::prepare("ricart-agrawala", 3, 1).await;
    // Member 1 is missing, so the group cannot begin while process 0 meets both.
    let mut first = group.spawn(2, &[]);
    let zero = group.spawn(0, &[]);
    first.complains("; missing: 1 at ").await;
    let later = group.spawn_twin(2).await;
    let (status, complaint) = first.ends().await;
    assert_eq!(status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("process 2 has been started again since"), "{complaint}");
    group.members = vec![zero, group.spawn(1, &[]), later];
    group.complete().await;
    let before = go_around(&mut group).await;
    let mut third = group.spawn(2, &[]);
    let (status, complaint) = third.ends().await;
    assert_eq!(status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("process 2 was started again, or runs twice"), "{complaint}");
    let after = go_around(&mut group).await;
    assert!([before, after].concat().is_sorted_by(|a, b| a < b));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_live_processes_with_one_id_takes_part_and_the_other_one_is_told() {
    timeout(LONG, twins()).await.unwrap();
}

/// The id of the group and its generation, which all members have.
async fn cluster_id(group: &mut Group) -> ClusterId {
    let mut ids = Vec::new();
    for id in 0..group.size() {
        ids.push(group.client(id).await.status().await.unwrap().cluster_id.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    ids[0]
}

/// All members are killed while a client holds a lock. It still believes in its lease when the group begins again.
async fn second_beginning(algorithm: &str, signal: Signal) {
    let mut group = Group::prepare(algorithm, 3, 1).await;
    group.spawn_all(&["--max-ttl", "2s"]);
    group.complete().await;
    let holder = group.client(2).await.session().ttl(TTL).open().await.unwrap();
    let old = holder.lock("work").acquire().await.unwrap();
    let fence = old.fence().unwrap();
    let before = cluster_id(&mut group).await;
    for id in 0..3 {
        group.signal(id, signal);
    }
    for member in &mut group.members {
        member.ends().await;
    }
    group.spawn_all(&["--max-ttl", "2s"]);
    group.complete().await;
    let after = cluster_id(&mut group).await;
    let of_before = group.client(0).await.of_cluster(before);
    let told = of_before.status().await.unwrap_err().to_string();
    assert!(
        told.contains(&format!("belongs to cluster {after}, but this client must talk to cluster {before}")),
        "{told}"
    );
    let session = group.client(1).await.session().ttl(TTL).open().await.unwrap();
    let new = session.lock("work").acquire().await.unwrap();
    assert!(old.fence().is_err(), "{algorithm}: two clients hold the lock");
    assert!(fence < new.fence().unwrap() && fence < 1 << 53);
    new.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_begins_again_waits_for_the_leases_of_its_earlier_clients() {
    timeout(LONG, second_beginning("raymond", Signal::SIGKILL)).await.unwrap();
    timeout(LONG, second_beginning("voting", Signal::SIGTERM)).await.unwrap();
}

/// A member without clients has lost its file. All wait once, and not at every later start.
async fn lost_file_of_a_member_without_clients() {
    const OPTIONS: &[&str] = &["--max-ttl", "1s"];
    let mut group = Group::prepare("raymond", 3, 1).await;
    // The last member may be a moment behind the others, so it may stop before its wait is over.
    for round in 0..6 {
        group.members = vec![group.spawn(0, OPTIONS), group.spawn(1, OPTIONS), group.spawn_without_clients(2)];
        group.complete().await;
        for id in 0..2 {
            let session = group.client(id).await.session().ttl(Duration::from_secs(1)).open().await.unwrap();
            session.lock("work").acquire().await.unwrap().release().await.unwrap();
        }
        for id in 0..3 {
            group.stop(id);
            group.members[id].ends().await;
        }
        if round == 0 {
            std::fs::remove_file(group.folder().join("member-2")).unwrap();
            continue;
        }
        let held_nothing = Data::open(group.folder(), 2, TTL).unwrap().past().held_nothing;
        if held_nothing {
            return;
        }
    }
    panic!("the group would wait at every start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_clients_that_stops_says_that_no_client_held_anything() {
    timeout(LONG, lost_file_of_a_member_without_clients()).await.unwrap();
}

/// The lock goes around. Returns its fences.
async fn go_around(group: &mut Group) -> Vec<u64> {
    let mut fences = Vec::new();
    for id in 0..group.size() {
        let session = group.client(id).await.session().ttl(TTL).open().await.unwrap();
        let guard = session.lock("work").acquire().await.unwrap();
        fences.push(guard.fence().unwrap());
        guard.release().await.unwrap();
    }
    fences
}

/// A member is killed and started again before the group begins, or as soon as another one says that the group is
/// complete. Then it may have begun or not, and so may the third one.
async fn restarts_at_the_beginning(seed: u64, rounds: usize) {
    let mut random = Rng::with_seed(seed);
    let mut group = Group::prepare("suzuki-kasami", 3, seed).await;
    let (mut fences, mut outcomes) = (Vec::new(), [0, 0]);
    for round in 0..rounds {
        group.spawn_all(&["--max-ttl", "2s"]);
        let mut victim = random.usize(..3);
        if random.bool() {
            let mut begun = JoinSet::new();
            for (id, member) in group.members.iter().enumerate() {
                let begins = member.begins();
                begun.spawn(async move { begins.await.then_some(id) });
            }
            let first = begun.join_next().await.unwrap().unwrap().expect("a member begins");
            victim = (first + random.usize(1..3)) % 3;
        }
        group.signal(victim, Signal::SIGKILL);
        group.members[victim].ends().await;
        group.members[victim] = group.spawn(victim, &["--max-ttl", "2s"]);
        if group.members[victim].begins().await {
            group.complete().await;
            fences.extend(go_around(&mut group).await);
            outcomes[0] += 1;
        } else {
            let (status, complaint) = group.members[victim].ends().await;
            assert_eq!(status.code(), Some(2), "{complaint}");
            assert!(complaint.contains("was started again, or runs twice"), "{complaint}");
            outcomes[1] += 1;
        }
        for id in 0..3 {
            group.stop(id);
            let (status, complaint) = group.members[id].ends().await;
            assert!(status.code().is_some(), "round {round}: {status}: {complaint}");
        }
    }
    group.spawn_all(&["--max-ttl", "2s"]);
    group.complete().await;
    fences.extend(go_around(&mut group).await);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    println!("seed {seed}: {outcomes:?} rounds with and without a group, fences {fences:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_starts_again_at_the_beginning_is_in_the_group_or_told() {
    let rounds = if is_full() { 100 } else { 4 };
    timeout(LONG * 10, restarts_at_the_beginning(number(SEED, 1), rounds)).await.unwrap();
}
