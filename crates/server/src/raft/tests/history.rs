//! What a leader says, compared with the log of this node.

use super::*;
use crate::format::record::{self, NodeRecord};
use crate::raft::history::{Contradiction, History};

fn id(term: u64, index: u64) -> record::LogId {
    record::LogId { term, index }
}

fn leader(term: u64) -> record::Vote {
    record::Vote { term, node: 2, committed: true }
}

/// The index of a committed entry that the leader of this term contradicts.
fn decided(history: &History, term: u64, ids: &[record::LogId]) -> Option<u64> {
    match history.compare(leader(term), 1, ids.iter().copied()) {
        Ok(()) => None,
        Err(Contradiction::Decided { theirs, .. }) => Some(theirs.index),
        Err(itself) => panic!("{itself}"),
    }
}

#[tokio::test]
async fn a_leader_must_have_what_is_committed_or_purged_here() {
    let disk = FakeDisk::default();
    let Parts { mut log, mut machine, history, .. } = Parts::open(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(decided(&history, 1, &[id(1, 0), id(1, 7)]), None, "this node has nothing yet");
    fill(&mut log, &mut machine, 0..30).await;
    log.save_vote(&Vote::new(3, 1)).await.unwrap();
    append_uncommitted(&mut log, 3, 30..40).await;
    assert_eq!(decided(&history, 4, &[id(1, 0), id(1, 29), id(4, 30), id(4, 99)]), None, "the rest may be replaced");
    assert_eq!(decided(&history, 4, &[id(1, 0), id(2, 29)]), Some(29));
    assert_eq!(decided(&history, 4, &[id(0, 7)]), Some(7));
    assert_eq!(decided(&history, 4, &[id(0, 99)]), Some(99), "it is after entry 29, and of an earlier term");
    assert_eq!(decided(&history, 2, &[id(2, 29)]), None, "Raft refuses a vote below the last one");
    assert_eq!(
        decided(&history, 3, &[id(2, 29)]),
        Some(29),
        "a leader of this term, for which this node may not have voted"
    );

    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    log.purge(LogId::new_term_index(1, 20)).await.unwrap();
    assert_eq!(decided(&history, 4, &[id(1, 3), id(1, 20), id(1, 21)]), None);
    assert_eq!(decided(&history, 4, &[id(2, 20)]), Some(20), "the last purged entry is known");
    assert_eq!(decided(&history, 4, &[id(2, 3)]), Some(3), "no entry before it is of a later term");
    drop((log, history, machine));

    // After a start the snapshot counts, too: the disk may not say yet what was committed last.
    let Parts { history, .. } = Parts::open(Arc::new(disk), options()).unwrap();
    assert_eq!(decided(&history, 4, &[id(2, 29)]), Some(29));
    assert_eq!(decided(&history, 4, &[id(4, 30)]), None);
}

#[tokio::test]
async fn a_membership_is_committed_when_the_next_one_is_in_the_log() {
    let disk = FakeDisk::default();
    let Parts { mut log, history, .. } = Parts::open(Arc::new(disk), options()).unwrap();
    let members = |index| {
        let nodes = std::collections::BTreeMap::from([(1, NodeRecord::default())]);
        let members = openraft::Membership::new(vec![[1].into()], nodes).unwrap();
        LogEntry::new_membership(LogId::new_term_index(1, index), members)
    };
    append_uncommitted(&mut log, 1, 0..5).await;
    log.append([members(5)], IOFlushed::Noop).await.unwrap();
    append_uncommitted(&mut log, 1, 6..8).await;
    assert_eq!(decided(&history, 2, &[id(2, 5)]), None);
    log.append([members(8)], IOFlushed::Noop).await.unwrap();
    assert_eq!(decided(&history, 2, &[id(2, 5)]), Some(5));
    assert_eq!(decided(&history, 2, &[id(2, 6)]), None);
    // The last one is replaced.
    log.truncate_after(Some(LogId::new_term_index(1, 7))).await.unwrap();
    log.append([members(8)], IOFlushed::Noop).await.unwrap();
    assert_eq!((decided(&history, 2, &[id(2, 5)]), decided(&history, 2, &[id(2, 8)])), (Some(5), None));
}

#[tokio::test]
async fn a_leader_may_not_take_back_what_this_node_has_acknowledged_to_it() {
    let Parts { mut log, history, .. } = Parts::open(Arc::new(FakeDisk::default()), options()).unwrap();
    log.save_vote(&Vote::new_committed(3, 2)).await.unwrap();
    append_uncommitted(&mut log, 3, 0..10).await;
    let compared = |term, ids: &[record::LogId]| history.compare(leader(term), 1, ids.iter().copied());
    assert_eq!(compared(3, &[id(2, 7)]), Ok(()), "nothing is acknowledged yet");
    history.agree(leader(3), Some(id(3, 8)));
    history.agree(leader(3), Some(id(3, 4)));
    history.agree(leader(2), Some(id(2, 9)));
    assert_eq!(compared(3, &[id(3, 7), id(3, 8), id(3, 9)]), Ok(()));
    let before = Err(Contradiction::Itself { ours: id(3, 8), theirs: id(2, 9) });
    assert_eq!(compared(3, &[id(2, 9)]), before, "after entry 8, and of an earlier term");
    assert_eq!(compared(3, &[id(2, 8)]), Err(Contradiction::Itself { ours: id(3, 8), theirs: id(2, 8) }));
    assert_eq!(compared(4, &[id(2, 8)]), Ok(()), "another leader may");
    assert!(history.has_agreed(leader(3), id(3, 8)) && !history.has_agreed(leader(3), id(3, 9)));
    assert!(!history.has_agreed(leader(4), id(3, 8)));
}

#[tokio::test]
async fn committed_entries_are_never_removed_and_the_node_ends() {
    for last in [Some(LogId::new_term_index(1, 10)), None] {
        let (fatal, said) = hook();
        let settings = Options { fatal, ..options() };
        let Parts { mut log, mut machine, .. } = Parts::open(Arc::new(FakeDisk::default()), settings).unwrap();
        fill(&mut log, &mut machine, 0..12).await;
        append_uncommitted(&mut log, 1, 12..20).await;
        log.truncate_after(Some(LogId::new_term_index(1, 11))).await.unwrap();
        log.truncate_after(last).await.unwrap_err();
        let first = last.map_or(0, |last| last.index + 1);
        let why = said.try_recv().unwrap();
        assert!(
            why.starts_with(&format!("entries {first} to 11 are committed here, and another node replaces")),
            "{why}"
        );
        log.save_vote(&Vote::new(9, 1)).await.unwrap_err();
        let entries = log.get_log_reader().await.try_get_log_entries(..).await.unwrap();
        assert_eq!(entries.len(), 12, "nothing committed is removed");
    }
}
