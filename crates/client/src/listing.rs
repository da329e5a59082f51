//! Puts listings together. A listing comes in pages, and a lock or session may continue on the next page.

use std::time::Duration;

use baton_api::v1;
use baton_types::views::Lock;

use crate::client::Client;
use crate::error::CallError;

/// An item that may come in several pieces on consecutive pages. The pieces must be joined in their order: only the
/// first piece of a lock has the number of permits, which decides the modes of the waiters.
pub(crate) trait Piece {
    /// Whether this piece and the piece before it belong to the same item.
    fn continues(&self, before: &Self) -> bool;
    fn append(&mut self, next: Self);
}

impl Piece for v1::Lock {
    fn continues(&self, before: &Self) -> bool {
        self.name == before.name
    }

    fn append(&mut self, next: Self) {
        self.holders.extend(next.holders);
        self.waiters.extend(next.waiters);
    }
}

impl Piece for v1::Session {
    fn continues(&self, before: &Self) -> bool {
        self.id == before.id
    }

    fn append(&mut self, next: Self) {
        self.holds.extend(next.holds);
        self.waits.extend(next.waits);
    }
}

/// Adds the pieces of a page to the items of the pages before.
pub(crate) fn join<T: Piece>(whole: &mut Vec<T>, page: impl IntoIterator<Item = T>) {
    for piece in page {
        match whole.last_mut() {
            Some(last) if piece.continues(last) => last.append(piece),
            _ => whole.push(piece),
        }
    }
}

/// What one server has applied, without asking the others whether that is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local<T> {
    pub value: T,
    /// How old the state may be, at most. `None` if the server does not know, because it has not heard of a leader yet.
    pub age: Option<Duration>,
}

/// The age of a listing: that of its oldest page. Unknown if that of any page is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Age {
    pages: u32,
    known: u32,
    oldest_ms: u64,
}

impl Age {
    pub(crate) fn add(&mut self, age_ms: Option<u64>) {
        self.pages += 1;
        self.known += u32::from(age_ms.is_some());
        self.oldest_ms = self.oldest_ms.max(age_ms.unwrap_or_default());
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        (self.pages > 0 && self.known == self.pages).then(|| Duration::from_millis(self.oldest_ms))
    }
}

/// A listing of locks, ordered by name. By default it shows locks that are held, waited for or closed, without history.
///
/// ```no_run
/// # async fn example(client: &baton_client::Client) -> Result<(), baton_client::CallError> {
/// let mut listing = client.locks().prefix("reports/");
/// while let Some(locks) = listing.next().await? {
///     locks.iter().for_each(|lock| println!("{}", baton_client::name::shown(&lock.name).0));
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a listing is asked for by `next` or `collect`"]
#[derive(Clone, Debug)]
pub struct ListLocks {
    client: Client,
    request: v1::ListLocksRequest,
    /// The last lock so far. The next page may continue it.
    unfinished: Option<v1::Lock>,
    is_over: bool,
    age: Age,
}

impl ListLocks {
    pub(crate) fn new(client: Client) -> Self {
        let request = v1::ListLocksRequest::default();
        ListLocks { client, request, unfinished: None, is_over: false, age: Age::default() }
    }

    /// Lists only locks whose names begin with this prefix.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.request.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Whether each lock comes with its history. Default: false.
    pub fn history(mut self, history: bool) -> Self {
        self.request.history = history;
        self
    }

    /// Whether the listing includes free locks that the service only remembers. Default: false.
    pub fn all(mut self, all: bool) -> Self {
        self.request.all = all;
        self
    }

    /// Whether the listing shows what the answering server has applied, without asking the others whether that is
    /// current. Works without a leader, too. Default: false.
    pub fn local(mut self, local: bool) -> Self {
        self.request.local = local;
        self
    }

    /// For a [local](ListLocks::local) listing: how old the pages so far were, at most, when they were read. `None` if
    /// there is none yet, or if the server does not know, because it has not heard of a leader yet.
    pub fn age(&self) -> Option<Duration> {
        self.age.get()
    }

    /// Returns the next locks, one page at a time, and `None` after the last lock. Each lock comes once and complete,
    /// in its state at the time of its page. After an error, the next call requests the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<Lock>>, CallError> {
        while !self.is_over {
            let page = self.client.locks_page(&self.request).await?;
            self.is_over = page.next_page.is_empty();
            self.age.add(page.age_ms);
            self.request.page = page.next_page;
            let mut locks = Vec::from_iter(self.unfinished.take());
            join(&mut locks, page.locks);
            if !self.is_over {
                self.unfinished = locks.pop();
            }
            if !locks.is_empty() {
                return Ok(Some(locks.into_iter().map(Lock::from).collect()));
            }
        }
        Ok(None)
    }

    /// Returns all locks of the listing.
    pub async fn collect(mut self) -> Result<Vec<Lock>, CallError> {
        let mut all = Vec::new();
        while let Some(locks) = self.next().await? {
            all.extend(locks);
        }
        Ok(all)
    }
}
