//! Listings in pages, so that each answer is short enough for gRPC, and the table is read for a short time only. Pure.
//!
//! A page is filled with parts until its bytes are used up. The parts of a lock are its head, its holders and its waiters;
//! those of a session are its head, the locks it holds and those it waits for. Where a page ends, its token says after
//! which part the next page begins: a page can end within a lock or a session, and the next page then repeats the head,
//! without history. The table changes between pages, so a token names what was shown, and counts nothing.

mod token;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use baton_proto::{Message, v1};

use super::inspect::Moment;
use crate::table::{HolderView, LockView, SessionView, Table, WaiterView};

pub use token::{AfterInLock, AfterInSession, BadPage, Claim, LockPlace, SessionPlace, Token};

/// The most bytes of a page. A client of gRPC takes 4 MiB if nothing else is said.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// What the key and the length of a part cost besides the part itself, at most.
const FRAME_BYTES: usize = 6;
/// What a lock costs that the listing passes over: looking at it takes time, though nothing is shown.
const PASSED_OVER_BYTES: usize = 64;

/// What is asked of a listing of locks.
pub struct Wanted {
    /// With the history of each lock.
    pub history: bool,
    /// Also locks that are only remembered.
    pub all: bool,
}

/// The bytes that are left of a page.
struct Room {
    left: usize,
    is_untouched: bool,
}

impl Room {
    fn new(bytes_max: usize) -> Self {
        Room { left: bytes_max, is_untouched: true }
    }

    /// Whether so many bytes more may be used. The first time they may in any case, so that each page gets on.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = std::mem::take(&mut self.is_untouched) || bytes <= self.left;
        self.use_up(bytes);
        fits
    }

    fn use_up(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

fn cost(part: &impl Message) -> usize {
    part.encoded_len() + FRAME_BYTES
}

/// The locks whose names begin with this prefix, by name, from where a listing has come to.
pub fn locks_from<'a>(
    table: &'a Table,
    prefix: &'a [u8],
    from: Option<&LockPlace>,
) -> impl Iterator<Item = LockView<'a>> + use<'a> {
    let (first, is_first_shown) = match from {
        None => (prefix.to_vec(), false),
        Some(LockPlace { name, after }) => (name.clone(), *after == AfterInLock::All),
    };
    let was_shown = move |view: &LockView<'_>| match view.name().as_bytes().cmp(&first) {
        Ordering::Less => true,
        Ordering::Equal => is_first_shown,
        Ordering::Greater => false,
    };
    let has_prefix = move |view: &LockView<'_>| view.name().as_bytes().starts_with(prefix);
    table.locks().skip_while(was_shown).take_while(has_prefix)
}

/// The sessions, by id, from where a listing has come to.
pub fn sessions_from(table: &Table, from: Option<SessionPlace>) -> impl Iterator<Item = SessionView<'_>> {
    let was_shown = move |view: &SessionView<'_>| {
        from.is_some_and(|from| view.id < from.id || view.id == from.id && from.after == AfterInSession::All)
    };
    table.sessions().skip_while(was_shown)
}

/// A page of these locks, which are in order and begin with the one that `from` names, or after it; and where the next page
/// begins, if there is one.
pub fn locks<'a>(
    views: impl Iterator<Item = LockView<'a>>,
    from: Option<LockPlace>,
    wanted: &Wanted,
    moment: &Moment<'_>,
    bytes_max: usize,
) -> (Vec<v1::Lock>, Option<LockPlace>) {
    let mut room = Room::new(bytes_max);
    let (mut page, mut place) = (Vec::new(), from);
    for view in views {
        let name = Vec::from(view.name());
        let begun = place.as_ref().filter(|place| place.name == name).map(|place| place.after);
        if begun.is_none() && !wanted.all && !view.is_used() {
            if !room.take(PASSED_OVER_BYTES) {
                return (page, place);
            }
            place = Some(LockPlace { name, after: AfterInLock::All });
            continue;
        }
        let (lock, after) = lock(view, begun, wanted, moment, &mut room);
        page.extend(lock);
        let Some(after) = after else { return (page, place) };
        place = Some(LockPlace { name, after });
        if after != AfterInLock::All {
            return (page, place);
        }
    }
    (page, None)
}

/// The parts of a lock after this one, as far as there is room; and the last part that was shown, if any was.
fn lock(
    view: LockView<'_>,
    after: Option<AfterInLock>,
    wanted: &Wanted,
    moment: &Moment<'_>,
    room: &mut Room,
) -> (Option<v1::Lock>, Option<AfterInLock>) {
    let mut lock = moment.lock(view, wanted.history && after.is_none());
    let mut shown = after;
    if after.is_some() {
        room.use_up(cost(&lock));
    } else if room.take(cost(&lock)) {
        shown = Some(AfterInLock::Head);
    } else {
        return (None, None);
    }
    for part in claims(view, after.unwrap_or(AfterInLock::Head)) {
        let fits = match part {
            Part::Holder(holder) => {
                let holder = moment.holder(holder);
                let fits = room.take(cost(&holder));
                lock.holders.extend(fits.then_some(holder));
                fits
            }
            Part::Waiter(waiter) => {
                let waiter = moment.waiter(waiter);
                let fits = room.take(cost(&waiter));
                lock.waiters.extend(fits.then_some(waiter));
                fits
            }
        };
        if !fits {
            return (Some(lock), shown);
        }
        shown = Some(part.place());
    }
    // Whatever was to be continued may be gone.
    let has_news = after.is_none() || !lock.holders.is_empty() || !lock.waiters.is_empty();
    (has_news.then_some(lock), Some(AfterInLock::All))
}

/// A holder or a waiter.
#[derive(Clone, Copy)]
enum Part<'a> {
    Holder(HolderView<'a>),
    Waiter(WaiterView<'a>),
}

impl Part<'_> {
    fn place(&self) -> AfterInLock {
        match *self {
            Part::Holder(HolderView { session, acquire, since_ms, .. }) => {
                AfterInLock::Holder(Claim { session, acquire, since_ms })
            }
            Part::Waiter(WaiterView { session, acquire, since_ms, .. }) => {
                AfterInLock::Waiter(Claim { session, acquire, since_ms })
            }
        }
    }
}

/// The holders and then the waiters, each in the order of time, after the one that was shown last. If that one is gone
/// meanwhile, those that are younger.
fn claims(view: LockView<'_>, after: AfterInLock) -> impl Iterator<Item = Part<'_>> {
    let parts = move || view.holders().map(Part::Holder).chain(view.waiters().map(Part::Waiter));
    let is_there = after != AfterInLock::Head && parts().any(|part| part.place() == after);
    let was_shown = move |part: &Part<'_>| match is_there {
        true => part.place() != after,
        false => part.place().order() <= after.order(),
    };
    parts().skip_while(was_shown).skip(usize::from(is_there))
}

/// A page of these sessions, which are in order and begin with the one that `from` names, or after it; and where the next
/// page begins, if there is one.
pub fn sessions<'a>(
    views: impl Iterator<Item = SessionView<'a>>,
    from: Option<SessionPlace>,
    moment: &Moment<'_>,
    bytes_max: usize,
) -> (Vec<v1::Session>, Option<SessionPlace>) {
    let mut room = Room::new(bytes_max);
    let (mut page, mut place) = (Vec::new(), from);
    for view in views {
        let begun = place.filter(|place| place.id == view.id).map(|place| place.after);
        let (session, after) = session(view, begun, moment, &mut room);
        page.extend(session);
        let Some(after) = after else { return (page, place) };
        place = Some(SessionPlace { id: view.id, after });
        if after != AfterInSession::All {
            return (page, place);
        }
    }
    (page, None)
}

/// The parts of a session after this one, as far as there is room; and the last part that was shown, if any was.
fn session(
    view: SessionView<'_>,
    after: Option<AfterInSession>,
    moment: &Moment<'_>,
    room: &mut Room,
) -> (Option<v1::Session>, Option<AfterInSession>) {
    let mut session = moment.session(view);
    let mut shown = after;
    if after.is_some() {
        room.use_up(cost(&session));
    } else if room.take(cost(&session)) {
        shown = Some(AfterInSession::Head);
    } else {
        return (None, None);
    }
    for (place, name) in names(view).filter(|(place, _)| Some(*place) > after) {
        let name = Vec::from(name);
        if !room.take(name.len() + FRAME_BYTES) {
            return (Some(session), shown);
        }
        match place {
            AfterInSession::Hold(_) => session.holds.push(name),
            _ => session.waits.push(name),
        }
        shown = Some(place);
    }
    let has_news = after.is_none() || !session.holds.is_empty() || !session.waits.is_empty();
    (has_news.then_some(session), Some(AfterInSession::All))
}

/// The locks that a session holds and then those that it waits for, numbered in the order in which it asked for them.
fn names(view: SessionView<'_>) -> impl Iterator<Item = (AfterInSession, &str)> {
    let holds = (1..).zip(view.holds()).map(|(number, name)| (AfterInSession::Hold(number), name));
    let waits = (1..).zip(view.waits()).map(|(number, name)| (AfterInSession::Wait(number), name));
    holds.chain(waits)
}
