//! Saves messages that only tell a commit index.
//!
//! After each commit openraft sends an append without entries, so that followers apply what is committed. Under load the
//! next entries follow at once, and carry the commit index, too. Then the append without entries would double the
//! messages. So it waits a little for the next entries. No client waits for it: only followers apply later.

use std::time::Duration;

use baton_runtime::{Instant, timeout_at};
use futures::stream::unfold;
use futures::{Stream, StreamExt};
use openraft::raft::AppendEntriesRequest;

use crate::raft::types::TypeConfig;

type Append = AppendEntriesRequest<TypeConfig>;

/// The longest time that an append without entries waits. Below the interval of heartbeats, which tell the commit index,
/// too.
pub const HOLD: Duration = Duration::from_millis(10);

/// Leaves out appends without entries that are followed by another append within `hold`. The last append before the end
/// of the stream is never held back.
pub fn thin_out(
    appends: impl Stream<Item = Append> + Unpin + Send,
    hold: Duration,
) -> impl Stream<Item = Append> + Send {
    unfold((appends.fuse(), None), move |(mut appends, mut held): (_, Option<(Append, Instant)>)| async move {
        loop {
            let next = match &held {
                None => appends.next().await,
                Some((_, until)) => timeout_at(*until, appends.next()).await.unwrap_or_default(),
            };
            match next {
                Some(append) if append.entries.is_empty() => {
                    let until = held.map_or_else(|| Instant::now() + hold, |(_, until)| until);
                    held = Some((append, until));
                }
                Some(append) => return Some((append, (appends, None))),
                None => return held.map(|(append, _)| (append, (appends, None))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use openraft::entry::RaftEntry;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::raft::types::{LogEntry, LogId, Vote};

    /// An append that tells this commit index, with or without an entry.
    fn append(commit: u64, has_entry: bool) -> Append {
        let id = LogId::new_term_index(1, commit);
        let entries = Vec::from_iter(has_entry.then(|| LogEntry::new_blank(LogId::new_term_index(1, commit + 1))));
        Append { vote: Vote::new_committed(1, 1), prev_log_id: Some(id), leader_commit: Some(id), entries }
    }

    fn commit(append: Option<Append>) -> Option<u64> {
        append.map(|append| append.leader_commit.unwrap().index)
    }

    #[tokio::test]
    async fn an_append_without_entries_waits_for_the_next_one_but_not_for_ever() {
        for (hold, expected) in [(Duration::from_secs(3600), vec![1, 3, 5]), (Duration::ZERO, vec![1, 2, 3, 4, 5])] {
            let (send, appends) = mpsc::unbounded_channel();
            let mut appends = Box::pin(thin_out(UnboundedReceiverStream::new(appends), hold));
            let mut passed = Vec::new();
            for (number, has_entry) in [(1, true), (2, false), (3, true), (4, false), (5, false)] {
                send.send(append(number, has_entry)).unwrap();
                // With no time to wait, each of them passes before the next one comes.
                if hold.is_zero() {
                    passed.extend(commit(appends.next().await));
                }
            }
            // The end waits for nothing.
            drop(send);
            while let Some(append) = appends.next().await {
                passed.extend(commit(Some(append)));
            }
            assert_eq!(passed, expected);
        }
    }
}
