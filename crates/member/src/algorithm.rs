//! The interface to the mutual exclusion algorithm of the group.

use std::num::NonZeroU64;
use std::time::Duration;

use baton_state::state::locks::LockName;
use baton_types::cluster_id::ClusterId;
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

    /// For each of these locks that the member has asked for: why the group cannot let the member in, if it is known that
    /// no client of the other members holds the lock. What was found out longer than `waited` ago does not count. The
    /// member looks again and again.
    fn hopeless<'a>(
        &self,
        locks: impl Iterator<Item = &'a LockName>,
        waited: Duration,
    ) -> Vec<(&'a LockName, Hopeless)>;

    /// The same for all members of the group, and for no other group.
    fn group_id(&self) -> ClusterId;

    /// The group, for `baton status`.
    fn group(&self) -> Group;

    /// Returns a sentence if the member can no longer serve.
    fn failure(&self) -> Option<String>;

    /// Leaves the group. Entries that are not left keep their locks: a client may still believe in its lease.
    /// `held_nothing`: no client of this member has a lease, and none will get one.
    fn shutdown(&self, held_nothing: bool) -> impl Future<Output = ()> + Send;
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
