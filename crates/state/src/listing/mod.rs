//! Listings of locks and sessions for people, page by page. Pure functions.

mod moment;
mod pages;
mod token;

#[cfg(test)]
mod tests;

use baton_types::views::{Lock, Page, Session};

pub use moment::Moment;
use pages::{PAGE_BYTES_MAX, Wanted};
pub use token::BadPage;
use token::{LockPlace, Token};

use crate::state::State;
use crate::state::locks::LockName;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListLocks {
    /// Only locks whose names begin with these bytes.
    pub prefix: Vec<u8>,
    /// Includes the history of each lock.
    pub history: bool,
    /// Includes locks that are only remembered.
    pub all: bool,
    /// The token from the page before; empty for the first page.
    pub page: Vec<u8>,
}

/// One page of the matching locks, in order of name.
pub fn locks(state: &State, moment: &Moment<'_>, request: &ListLocks) -> Result<Page<Lock>, BadPage> {
    let ListLocks { ref prefix, ref page, history, all } = *request;
    let from = lock_place(page, |place| place.name.starts_with(prefix))?;
    let views = pages::locks_from(state, prefix, from.as_ref());
    let (items, next) = pages::locks(views, from, &Wanted { history, all }, moment, PAGE_BYTES_MAX);
    Ok(Page { items, next: next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes()) })
}

/// One page about one lock. The page is empty if nothing is known of the lock.
pub fn lock(state: &State, moment: &Moment<'_>, name: &LockName, page: &[u8]) -> Result<Page<Lock>, BadPage> {
    let from = lock_place(page, |place| place.name == name.as_bytes())?;
    let view = state.lock(name.as_bytes()).into_iter();
    let (items, next) = pages::locks(view, from, &Wanted { history: true, all: true }, moment, PAGE_BYTES_MAX);
    Ok(Page { items, next: next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes()) })
}

/// One page of all sessions, in order of id.
pub fn sessions(state: &State, moment: &Moment<'_>, page: &[u8]) -> Result<Page<Session>, BadPage> {
    let from = match page {
        [] => None,
        page => match Token::from_bytes(page)? {
            Token::Session(place) => Some(place),
            Token::Lock(_) => return Err(BadPage),
        },
    };
    let views = pages::sessions_from(state, from);
    let (items, next) = pages::sessions(views, from, moment, PAGE_BYTES_MAX);
    Ok(Page { items, next: next.map_or_else(Vec::new, |next| Token::Session(next).to_bytes()) })
}

fn lock_place(page: &[u8], is_of_this_listing: impl FnOnce(&LockPlace) -> bool) -> Result<Option<LockPlace>, BadPage> {
    match page {
        [] => Ok(None),
        page => match Token::from_bytes(page)? {
            Token::Lock(place) if is_of_this_listing(&place) => Ok(Some(place)),
            Token::Lock(_) | Token::Session(_) => Err(BadPage),
        },
    }
}
