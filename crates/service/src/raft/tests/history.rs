//! What a leader says, compared with the log of this node.

use super::*;

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
