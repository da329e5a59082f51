//! Saves messages that only tell a commit index, and wake-ups for them.
//!
//! After each commit openraft wants to send an append without entries, so that followers apply what is committed. Under load
//! the next entries follow at once, and carry the commit index, too. Then the append without entries would double the
//! messages, and on the leader each commit would wake a task per follower, and for them another thread. So for a while after
//! entries were sent, only new entries count. No client waits for the commit index: only followers apply later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use baton_runtime::{Instant, timeout_at};
use futures::stream::unfold;
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use openraft::raft::AppendEntriesRequest;

use crate::raft::types::TypeConfig;

type Append = AppendEntriesRequest<TypeConfig>;

/// How long after entries no append without entries is sent. Below the interval of heartbeats, which tell the commit index,
/// too.
pub const HOLD: Duration = Duration::from_millis(10);

/// Leaves out appends without entries that are followed by another append within `hold` after the last entries. The last
/// append before the end of the stream is never held back. `log_end`: the index of the last entry of the log, which may be
/// called inside any wake-up.
pub fn thin_out(
    appends: impl Stream<Item = Append> + Unpin + Send,
    hold: Duration,
    log_end: impl Fn() -> Option<u64> + Send + Sync + 'static,
) -> impl Stream<Item = Append> + Send {
    let filter = Arc::new(Filter { task: AtomicWaker::new(), sent: AtomicU64::new(ALL), log_end });
    let appends = Filtered { appends, waker: Waker::from(filter.clone()), filter };
    unfold((appends.fuse(), Sent::Nothing), move |(mut appends, mut sent)| async move {
        loop {
            let next = match &sent {
                Sent::Nothing => appends.next().await,
                Sent::Entries { hold_until, .. } => match timeout_at(*hold_until, appends.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        appends.get_ref().filter.sent.store(ALL, Ordering::SeqCst);
                        match std::mem::replace(&mut sent, Sent::Nothing) {
                            Sent::Entries { held: Some(append), .. } => return Some((append, (appends, sent))),
                            _ => continue,
                        }
                    }
                },
            };
            match (next, &mut sent) {
                (Some(append), Sent::Entries { held, .. }) if append.entries.is_empty() => *held = Some(append),
                (Some(append), _) => {
                    if let Some(last) = append.entries.last() {
                        appends.get_ref().filter.sent.store(last.log_id.index, Ordering::SeqCst);
                        sent = Sent::Entries { hold_until: Instant::now() + hold, held: None };
                    }
                    return Some((append, (appends, sent)));
                }
                (None, Sent::Entries { held, .. }) => {
                    return held.take().map(|append| (append, (appends, Sent::Nothing)));
                }
                (None, Sent::Nothing) => return None,
            }
        }
    })
}

/// What was sent lately.
enum Sent {
    Nothing,
    Entries {
        hold_until: Instant,
        /// It only tells a commit index.
        held: Option<Append>,
    },
}

/// The value of `Filter::sent` that lets all wake-ups pass.
const ALL: u64 = u64::MAX;

/// Passes a wake-up on only if the log has entries that were not sent. The rest is found when the hold ends.
struct Filter<F> {
    task: AtomicWaker,
    /// The index of the last entry that was sent, or [`ALL`].
    sent: AtomicU64,
    log_end: F,
}

impl<F: Fn() -> Option<u64> + Send + Sync + 'static> Wake for Filter<F> {
    fn wake(self: Arc<Self>) {
        let sent = self.sent.load(Ordering::SeqCst);
        if sent == ALL || (self.log_end)() > Some(sent) {
            self.task.wake();
        }
    }
}

/// A stream whose wake-ups go through a filter.
struct Filtered<S, F> {
    appends: S,
    filter: Arc<Filter<F>>,
    waker: Waker,
}

impl<S: Stream + Unpin, F> Stream for Filtered<S, F> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.filter.task.register(task.waker());
        let Filtered { appends, waker, .. } = &mut *self;
        appends.poll_next_unpin(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::stream::select;
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
            let mut appends = Box::pin(thin_out(UnboundedReceiverStream::new(appends), hold, || None));
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

    /// Counts wake-ups.
    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_commit_index_wakes_no_task_until_there_are_new_entries() {
        let (commits, told) = mpsc::unbounded_channel();
        let (entries, written) = mpsc::unbounded_channel();
        let appends = select(UnboundedReceiverStream::new(told), UnboundedReceiverStream::new(written));
        let log = Arc::new(AtomicU64::new(2));
        let log_end = log.clone();
        let hour = Duration::from_secs(3600);
        let mut appends = Box::pin(thin_out(appends, hour, move || Some(log_end.load(Ordering::SeqCst))));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut next = || appends.poll_next_unpin(&mut Context::from_waker(&waker)).map(commit);

        entries.send(append(1, true)).unwrap();
        assert_eq!(next(), Poll::Ready(Some(1)));
        assert_eq!(next(), Poll::Pending);
        commits.send(append(2, false)).unwrap();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "entry 2 was sent, and the log ends there");
        log.store(3, Ordering::SeqCst);
        entries.send(append(2, true)).unwrap();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert_eq!(next(), Poll::Ready(Some(2)));
    }

    #[tokio::test]
    async fn a_commit_index_whose_wake_up_was_left_out_is_sent_when_the_hold_ends() {
        let (send, appends) = mpsc::unbounded_channel();
        let mut appends = Box::pin(thin_out(UnboundedReceiverStream::new(appends), HOLD, || Some(2)));
        send.send(append(1, true)).unwrap();
        assert_eq!(commit(appends.next().await), Some(1));
        let began = Instant::now();
        let tell = async {
            tokio::task::yield_now().await;
            send.send(append(2, false)).unwrap();
        };
        let (passed, ()) = tokio::join!(appends.next(), tell);
        assert_eq!(commit(passed), Some(2));
        assert!(began.elapsed() >= HOLD);
        // No entries were sent since, so nothing is held.
        send.send(append(3, false)).unwrap();
        assert_eq!(appends.next().now_or_never().map(commit), Some(Some(3)));
    }
}
