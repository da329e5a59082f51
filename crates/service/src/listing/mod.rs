//! What people see of the state: locks and sessions, page by page. Pure.

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

/// Which locks are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListLocks {
    /// Only locks whose names begin with these bytes.
    pub prefix: Vec<u8>,
    /// With the history of each lock.
    pub history: bool,
    /// Also locks that are only remembered.
    pub all: bool,
    /// Where the page before it ended; empty for the first one.
    pub page: Vec<u8>,
}

/// The locks that are asked for, by name: one page of them.
pub fn locks(state: &State, moment: &Moment<'_>, request: &ListLocks) -> Result<Page<Lock>, BadPage> {
    let ListLocks { ref prefix, ref page, history, all } = *request;
    let from = lock_place(page, |place| place.name.starts_with(prefix))?;
    let views = pages::locks_from(state, prefix, from.as_ref());
    let (items, next) = pages::locks(views, from, &Wanted { history, all }, moment, PAGE_BYTES_MAX);
    Ok(Page { items, next: next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes()) })
}

/// One lock, if there is anything to say of it: one page of that.
pub fn lock(state: &State, moment: &Moment<'_>, name: &LockName, page: &[u8]) -> Result<Page<Lock>, BadPage> {
    let from = lock_place(page, |place| place.name == name.as_bytes())?;
    let view = state.lock(name.as_bytes()).into_iter();
    let (items, next) = pages::locks(view, from, &Wanted { history: true, all: true }, moment, PAGE_BYTES_MAX);
    Ok(Page { items, next: next.map_or_else(Vec::new, |next| Token::Lock(next).to_bytes()) })
}

/// All sessions, by id: one page of them.
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
