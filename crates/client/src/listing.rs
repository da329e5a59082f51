//! Listings come in pages, and a lock or a session can be continued on the next one: here they are put together again.

use baton_api::v1;
use baton_types::views::Lock;

use crate::client::Client;
use crate::error::CallError;

/// What a page can have in pieces. Consecutive pieces of one thing are that thing. They are put together as they came: only the
/// first piece of a lock has the number of permits, without which its waiters' modes cannot be told.
pub(crate) trait Piece {
    /// Whether it is of the same thing as the piece before it.
    fn continues(&self, before: &Self) -> bool;
    /// Takes in the next piece.
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

/// Adds the pieces of a page to what the pages before it had.
pub(crate) fn join<T: Piece>(whole: &mut Vec<T>, page: impl IntoIterator<Item = T>) {
    for piece in page {
        match whole.last_mut() {
            Some(last) if piece.continues(last) => last.append(piece),
            _ => whole.push(piece),
        }
    }
}

/// A listing of locks, by name. It shows those that are held, waited for or closed, without their history, unless it is
/// told otherwise.
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
    /// The last lock so far, which the next page may continue.
    unfinished: Option<v1::Lock>,
    is_over: bool,
}

impl ListLocks {
    pub(crate) fn new(client: Client) -> Self {
        ListLocks { client, request: v1::ListLocksRequest::default(), unfinished: None, is_over: false }
    }

    /// Only locks whose names begin with this.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.request.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Whether each lock has its history.
    pub fn history(mut self, history: bool) -> Self {
        self.request.history = history;
        self
    }

    /// Whether locks are listed, too, that are only remembered.
    pub fn all(mut self, all: bool) -> Self {
        self.request.all = all;
        self
    }

    /// The next locks, as many as come at a time; none after the last. Each lock comes once and whole, as it was when its
    /// page was asked for. After an error the same page is asked for again.
    pub async fn next(&mut self) -> Result<Option<Vec<Lock>>, CallError> {
        while !self.is_over {
            let page = self.client.locks_page(&self.request).await?;
            self.is_over = page.next_page.is_empty();
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

    /// All of them at once.
    pub async fn collect(mut self) -> Result<Vec<Lock>, CallError> {
        let mut all = Vec::new();
        while let Some(locks) = self.next().await? {
            all.extend(locks);
        }
        Ok(all)
    }
}
