//! The interface to the mutual exclusion algorithm of the group.

use std::num::NonZeroU64;

use baton_service::state::locks::LockName;
use baton_types::frames::Hopeless;
use baton_types::views::Group;
use tokio::sync::mpsc;

/// A mutual exclusion algorithm between the members of a group, one critical section for each lock.
pub trait Algorithm: Send + Sync + 'static {
    /// An entry into the critical section. Dropping it leaves.
    type Entry: Send + 'static;

    /// Asks to enter, without waiting. The member asks for a lock only when its last turn for this lock is over and its
    /// last entry is left.
    fn ask(&self, lock: &LockName, turn: Turn<Self::Entry>);

    /// The process without which the group cannot go on, if it is silent.
    fn hopeless(&self) -> Option<Hopeless>;

    /// The group, for `baton status`.
    fn group(&self) -> Group;

    /// Returns a sentence if the member can no longer serve.
    fn failure(&self) -> Option<String>;

    /// Leaves the group. Entries that are not left keep their locks: a client may still believe in its lease.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

/// The answer to one question of a member, on any thread. A turn that is dropped counts as refused.
pub struct Turn<E>(Option<(LockName, mpsc::UnboundedSender<Answer<E>>)>);

/// The group's answer for a lock: the entry and its fence, or why the group cannot let the member in.
pub(crate) struct Answer<E> {
    pub lock: LockName,
    pub entered: Result<(NonZeroU64, E), String>,
}

impl<E> Turn<E> {
    pub(crate) fn new(lock: LockName, answers: mpsc::UnboundedSender<Answer<E>>) -> Self {
        Turn(Some((lock, answers)))
    }

    /// The member may enter. Also returns at once if the member has stopped; the entry is then left.
    pub fn granted(mut self, fence: NonZeroU64, entry: E) {
        self.answer(Ok((fence, entry)));
    }

    /// The group cannot take the request now. The first waiter of the lock hears this sentence.
    pub fn refused(mut self, why: String) {
        self.answer(Err(why));
    }

    fn answer(&mut self, entered: Result<(NonZeroU64, E), String>) {
        if let Some((lock, answers)) = self.0.take() {
            // The send fails only if the member has stopped.
            let _ = answers.send(Answer { lock, entered });
        }
    }
}

impl<E> Drop for Turn<E> {
    fn drop(&mut self) {
        self.answer(Err("the peer group did not answer".to_owned()));
    }
}
