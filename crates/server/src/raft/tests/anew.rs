//! A cluster begins anew: a node without its majority, or a folder that was restored from a backup.

use std::collections::BTreeSet;

use baton_types::cluster_id::ClusterId;
use baton_types::limits::{FENCE_ANEW_MAX, FENCE_FROM_MAX};

use super::*;
use crate::backup::{About, Backup, write as write_backup};
use crate::raft::anew::{Anew, Replayed};
use crate::raft::edge;
use crate::raft::restore::{begun_anew, write};
use crate::state::cluster;
use crate::store::fake::Operation as DiskOperation;

const MADE_MS: u64 = 1_700_000_000_000;
const RAISE: u64 = 1 << 32;
const BY_TIME: u64 = MADE_MS / 1_000 * (1 << 20);
const DRAWN_END: u64 = 1 << 20;

/// The disk of a stopped node: a session of 10 s holds a lock with fence 1, and the cluster has a secret.
async fn used() -> FakeDisk {
    let disk = FakeDisk::default();
    let node = start(&disk).await;
    let found = cluster::Command::Found { secret: cluster::Secret([1; 32]), max_ttl_ms: 20_000 };
    for entry in [entry_of(found), open_session(7), acquire(7, 1, "lock")] {
        node.propose(entry).await.unwrap();
    }
    assert_eq!((node.state().last_fence(), node.state().cluster().max_ttl_ms()), (1, 20_000));
    node.shutdown().await;
    disk
}

async fn replayed(disk: &FakeDisk) -> Replayed {
    Replayed::of(&mut Parts::open(Arc::new(disk.clone()), options()).unwrap()).await.unwrap()
}

async fn backup(disk: &FakeDisk) -> Backup {
    let Replayed { state, last, .. } = replayed(disk).await;
    let last = last.unwrap();
    let about = About { cluster: ClusterId::MIN, term: last.term, index: last.index, made_ms: MADE_MS };
    let mut file = Vec::new();
    let written: Result<(), ()> = write_backup(about, &state, |piece| {
        file.extend(piece);
        Ok(())
    });
    written.unwrap();
    Backup::read(&file[..]).unwrap()
}

fn restored(backup: &Backup, now_ms: u64) -> (FakeDisk, Restored) {
    let disk = FakeDisk::default();
    let state = begun_anew(backup, Anew::default(), now_ms).unwrap();
    let restored = write(Arc::new(disk.clone()), backup.about, &state).unwrap();
    (disk, restored)
}

/// Nothing is left of the sessions, nothing is granted, and the next fence is this one.
fn assert_begun_anew(state: &State, fence_from: u64, closed_ms: u64) {
    let counts = state.counts();
    assert_eq!((counts.sessions, counts.holders, counts.waiters), (0, 0, 0));
    assert_eq!((state.last_fence() + 1, state.cluster().closed_ms()), (fence_from, Some(closed_ms)));
    let secret = state.cluster().secret().expect("it has a secret");
    assert_ne!(*secret, cluster::Secret([1; 32]));
}

#[tokio::test]
async fn a_restored_folder_is_another_cluster_that_grants_higher_fences_after_the_wait() {
    let used = used().await;
    let backup = backup(&used).await;
    let (disk, made) = restored(&backup, MADE_MS);
    let of = |disk: &FakeDisk| Parts::open(Arc::new(disk.clone()), options()).unwrap().identity;
    assert_ne!((of(&disk).cluster, of(&disk).node), (of(&used).cluster, of(&used).node));
    assert_eq!((made.cluster.get(), made.node), (of(&disk).cluster, of(&disk).node));
    let first = made.fence_from;
    assert!((BY_TIME..BY_TIME + DRAWN_END).contains(&first), "{first}");
    assert_eq!(made.closed_ms, 20_000);

    let node = start(&disk).await;
    assert_begun_anew(&node.state(), first, 20_000);
    assert!(node.status().term > backup.about.term && node.status().applied > backup.about.index);
    let waited = |from_ms, to_ms| entry_of(cluster::Command::Waited { from_ms, to_ms });
    for entry in [open_session(8), acquire(8, 1, "lock"), waited(20_000, 9_000)] {
        node.propose(entry).await.unwrap();
    }
    assert_eq!(node.state().counts().holders, 0);
    node.shutdown().await;

    // A restart repeats nothing, and forgets nothing.
    let node = start(&disk).await;
    assert_eq!((node.state().cluster().closed_ms(), node.state().counts().waiters), (Some(9_000), 1));
    node.propose(waited(9_000, 0)).await.unwrap();
    assert_eq!((node.state().last_fence(), node.state().counts().holders), (first, 1));
    node.shutdown().await;
}

#[tokio::test]
async fn the_same_backup_restored_twice_gives_different_fences() {
    let backup = backup(&used().await).await;
    let fences = [0, 0, 1_000, 2_000].map(|later_ms| restored(&backup, MADE_MS + later_ms).1.fence_from);
    assert_ne!(fences[0], fences[1], "both in the same millisecond");
    assert!(fences[0].max(fences[1]) < fences[2] && fences[2] < fences[3], "a later one has higher fences: {fences:?}");
    // By a clock that is wrong, only the fences of the backup count.
    let first = restored(&backup, 0).1.fence_from;
    assert!((1 + RAISE..1 + RAISE + DRAWN_END).contains(&first), "{first}");
}

/// The cluster of the backup began anew just before, so its fences are above the seconds since 1970.
#[tokio::test]
async fn fences_differ_also_if_those_of_the_backup_are_above_the_time() {
    let mut backup = backup(&used().await).await;
    backup.state = begun_anew(&backup, Anew::default(), MADE_MS).unwrap();
    let last = backup.state.last_fence();
    let fences = [0, 0, 1_000, 2_000].map(|later_ms| restored(&backup, MADE_MS + later_ms).1.fence_from);
    assert_ne!(fences[0], fences[1], "both in the same millisecond");
    assert!(fences[0].max(fences[1]) < fences[2] && fences[2] < fences[3], "a later one has higher fences: {fences:?}");
    assert!(fences[0] >= last + RAISE, "{fences:?}");
}

#[tokio::test]
async fn a_cluster_with_the_highest_floor_can_begin_anew() {
    let mut backup = backup(&used().await).await;
    let highest = Anew { fence_from: Some(FENCE_FROM_MAX), wait_ms: None };
    backup.state = begun_anew(&backup, highest, MADE_MS).unwrap();
    let last = backup.state.last_fence();
    assert_eq!(last + 1, FENCE_FROM_MAX);
    let first = restored(&backup, MADE_MS).1.fence_from;
    assert!((last + RAISE..last + RAISE + DRAWN_END).contains(&first), "{first}");

    let raise = Anew { fence_from: Some(FENCE_ANEW_MAX), wait_ms: None };
    backup.state = begun_anew(&backup, raise, MADE_MS).unwrap();
    let told = begun_anew(&backup, Anew::default(), MADE_MS).unwrap_err();
    let last = FENCE_ANEW_MAX - 1;
    assert!(told.contains(&format!("the last fence is {last}")) && !told.contains("clock"), "{told}");
}

#[tokio::test]
async fn the_operator_chooses_only_higher_fences() {
    let backup = backup(&used().await).await;
    let begun = |fence_from| {
        let anew = Anew { fence_from: Some(fence_from), wait_ms: Some(5) };
        begun_anew(&backup, anew, 0).map(|state| (state.last_fence() + 1, state.cluster().closed_ms()))
    };
    assert_eq!(begun(RAISE + 1), Ok((RAISE + 1, Some(5))));
    let told = begun(RAISE).unwrap_err();
    assert!(told.contains("--fence-from 4294967296 is too low: the fences must go on from 4294967297"), "{told}");
    let told = begun_anew(&backup, Anew::default(), u64::MAX).unwrap_err();
    assert!(told.contains("check the clock of this machine"), "{told}");
}

/// A folder that is half restored must not be taken for a server's: its fences or its wait could be missing.
#[tokio::test]
async fn a_restore_that_is_interrupted_anywhere_leaves_a_folder_that_is_refused() {
    let backup = backup(&used().await).await;
    let state = begun_anew(&backup, Anew::default(), MADE_MS).unwrap();
    let (mut done, mut refused) = (0, 0);
    for end in 0.. {
        let disk = FakeDisk::default();
        let mut operations = 0;
        disk.before_each(move |_, _: &DiskOperation| {
            operations += 1;
            if operations > end { Err(std::io::Error::other("it is interrupted")) } else { Ok(()) }
        });
        let is_complete = write(Arc::new(disk.clone()), backup.about, &state).is_ok();
        disk.before_each(|_, _| Ok(()));
        let is_untouched = disk.names().iter().all(|name| name.ends_with(".tmp"));
        match Parts::open(Arc::new(disk.clone()), Options { warn: Arc::new(|_| ()), ..options() }) {
            Ok(_) if is_untouched => assert!(!is_complete, "{end}"),
            Ok(parts) => {
                assert_begun_anew(&parts.shared.read().state, state.last_fence() + 1, 20_000);
                done += 1;
            }
            Err(error) => {
                assert!(!is_complete, "{end}: {error}");
                refused += 1;
            }
        }
        if is_complete {
            break;
        }
    }
    assert!(done > 0 && refused > 2, "{done} {refused}");
}

/// The disk of a node whose cluster has two other voters, and a change of members that was never finished.
async fn one_of_three() -> FakeDisk {
    let disk = used().await;
    let mut parts = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    let (node, last) = (parts.identity.node, parts.log.get_log_state().await.unwrap().last_log_id.unwrap());
    let [old, new]: [BTreeSet<u64>; 2] = [[node, 8, 9].into(), [node, 9, 10].into()];
    let record = |name: &str| NodeRecord { name: name.to_owned(), ..NodeRecord::default() };
    let nodes = [(node, record("a")), (8, record("b")), (9, record("c")), (10, record("d"))].into();
    let members = edge::membership(crate::format::record::Membership { configs: vec![old, new], nodes }).unwrap();
    let id = LogId::new_term_index(last.leader_id.term, last.index + 1);
    let (done, durable) = TypeConfig::oneshot();
    parts.log.append([LogEntry::new_membership(id, members)], IOFlushed::signal(done)).await.unwrap();
    durable.await.unwrap().unwrap();
    disk
}

fn anew() -> Options {
    let anew = Some(Anew { fence_from: Some(1 << 51), wait_ms: None });
    Options { anew, ..options() }
}

#[tokio::test]
async fn a_node_without_its_majority_begins_a_new_cluster_alone() {
    let disk = one_of_three().await;
    let identity = Parts::open(Arc::new(disk.clone()), options()).unwrap().identity;
    let refused = Node::open(Arc::new(disk.clone()), options()).await.err().unwrap().to_string();
    assert!(refused.contains("this node has others in its cluster"), "{refused}");

    let node = Node::open(Arc::new(disk.clone()), anew()).await.unwrap();
    leads(&node).await;
    assert_begun_anew(&node.state(), 1 << 51, 20_000);
    let members = node.members().await;
    assert_eq!(
        members.iter().map(|member| (member.id, member.record.name.as_str())).collect::<Vec<_>>(),
        [(identity.node, "a")]
    );
    assert_ne!(node.cluster(), identity.cluster);
    let cluster = node.cluster();
    node.shutdown().await;

    let node = start(&disk).await;
    assert_begun_anew(&node.state(), 1 << 51, 20_000);
    assert_eq!(node.cluster(), cluster);
    node.shutdown().await;
}

#[tokio::test]
async fn a_beginning_that_is_interrupted_anywhere_is_repeated() {
    let mut begun = 0;
    for end in 0.. {
        let disk = one_of_three().await;
        let mut operations = 0;
        disk.before_each(move |_, _: &DiskOperation| {
            operations += 1;
            if operations > end { Err(std::io::Error::other("it is interrupted")) } else { Ok(()) }
        });
        let quiet = || Options { fatal: Arc::new(|_| ()), warn: Arc::new(|_| ()), ..anew() };
        let mut parts = Parts::open(Arc::new(disk.clone()), quiet());
        let is_complete = match &mut parts {
            Ok(parts) => {
                let (disk, peers): (Arc<dyn Disk>, _) = (Arc::new(disk.clone()), nobody(parts.identity));
                let (anew, record) = (anew().anew.unwrap(), NodeRecord::default());
                crate::raft::anew::begin_anew(anew, parts, &disk, (&peers, &record)).await.is_ok()
            }
            Err(_) => false,
        };
        drop(parts);
        disk.before_each(|_, _| Ok(()));
        // What is there is the old cluster, which this node cannot serve alone, or the new one.
        match Node::open(Arc::new(disk.clone()), Options { warn: Arc::new(|_| ()), ..options() }).await {
            Err(error) => {
                assert!(!is_complete && error.to_string().contains("others in its cluster"), "{end}: {error}");
                let node = Node::open(Arc::new(disk.clone()), quiet()).await.unwrap();
                leads(&node).await;
                assert_begun_anew(&node.state(), 1 << 51, 20_000);
                node.shutdown().await;
            }
            Ok(node) => {
                leads(&node).await;
                assert_begun_anew(&node.state(), 1 << 51, 20_000);
                node.shutdown().await;
                begun += 1;
            }
        }
        if is_complete {
            break;
        }
    }
    assert!(begun > 0);
}

#[tokio::test]
async fn an_empty_folder_cannot_begin_anew() {
    let refused = Node::open(Arc::new(FakeDisk::default()), anew()).await.err().unwrap().to_string();
    assert_eq!(refused, "it has no data; start the server without --force-new-cluster");
}

#[tokio::test]
async fn a_floor_that_is_not_above_the_last_fence_is_refused() {
    let disk = used().await;
    let from = |fence_from| {
        let (disk, wishes) = (disk.clone(), Wishes { fence_from: Some(fence_from), ..Wishes::default() });
        async move { Node::open(Arc::new(disk), Options { wishes, ..options() }).await }
    };
    let refused = from(1).await.err().unwrap().to_string();
    assert_eq!(refused, "its last fence is 1, so --fence-from 1 is too low; start the server without it");
    assert_eq!(replayed(&disk).await.state.last_fence(), 1);
    let node = from(100).await.unwrap();
    leads(&node).await;
    let mut raised = false;
    while !raised {
        raised = node.with_state(|state| state.last_fence() == 99);
        baton_runtime::sleep(MOMENT).await;
    }
    node.shutdown().await;
}
