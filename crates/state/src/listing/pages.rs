//! Listings in pages, so that each answer is short enough for any transport, and quick to make. Pure functions.
//!
//! A page is filled with parts until its bytes are used up. The parts of a lock are its head, its holders and its
//! waiters. The parts of a session are its head and the locks that it holds or waits for. The token of a page names the
//! last part, and the next page begins after it. A page can end within a lock or a session; the next page then repeats
//! the head, without history. The state changes between pages, so a token names the last part, and is not a count.

use baton_types::views::{Holder, Lock, Past, Session, Waiter};

use super::moment::Moment;
use super::token::{AfterInLock, AfterInSession, LockPlace, SessionPlace};
use crate::state::{LockView, SessionId, SessionView, Standing, State};

/// The most bytes of a page. A gRPC client accepts 4 MiB by default. A page is far smaller, because it occupies a
/// thread while it is made.
pub const PAGE_BYTES_MAX: usize = 1 << 18;
/// The most bytes of the numbers in a part, in any transport, without its names and labels.
const PART_BYTES: usize = 96;
/// The most bytes of the encoded length of a name.
const NAME_BYTES: usize = 6;
/// A skipped lock counts as this many bytes, because checking it takes time, although nothing is shown.
pub(super) const PASSED_OVER_BYTES: usize = 64;

pub struct Wanted {
    /// Includes the history of each lock.
    pub history: bool,
    /// Includes locks that are only remembered.
    pub all: bool,
}

/// The remaining bytes of a page.
struct Room {
    left: usize,
    is_untouched: bool,
}

impl Room {
    fn new(bytes_max: usize) -> Self {
        Room { left: bytes_max, is_untouched: true }
    }

    /// Whether this many bytes fit. The first part always fits, so that each page makes progress.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = std::mem::take(&mut self.is_untouched) || bytes <= self.left;
        self.use_up(bytes);
        fits
    }

    fn use_up(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// The most bytes that a part takes in any transport.
trait Part {
    fn cost(&self) -> usize;
}

/// Without its holders and waiters, which are separate parts.
impl Part for Lock {
    fn cost(&self) -> usize {
        PART_BYTES + self.name.len() + self.history.iter().map(Part::cost).sum::<usize>()
    }
}

impl Part for Past {
    fn cost(&self) -> usize {
        PART_BYTES + self.label.len()
    }
}

impl Part for Holder {
    fn cost(&self) -> usize {
        PART_BYTES + self.label.len() + self.host.len()
    }
}

impl Part for Waiter {
    fn cost(&self) -> usize {
        PART_BYTES + self.label.len()
    }
}

/// Without the names of its locks, which are separate parts.
impl Part for Session {
    fn cost(&self) -> usize {
        PART_BYTES + self.label.len() + self.host.len()
    }
}

/// The locks whose names begin with this prefix, in order of name, from where the last page ended.
pub fn locks_from<'a>(
    state: &'a State,
    prefix: &'a [u8],
    from: Option<&LockPlace>,
) -> impl Iterator<Item = LockView<'a>> + use<'a> {
    let (first, is_first_shown) = match from {
        None => (prefix.to_vec(), false),
        Some(LockPlace { name, after }) => (name.clone(), *after == AfterInLock::All),
    };
    let views = state.locks_from(&first);
    let was_shown = move |view: &LockView<'_>| is_first_shown && view.name().as_bytes() == first;
    views.skip_while(was_shown).take_while(move |view| view.name().as_bytes().starts_with(prefix))
}

/// The sessions, in order of id, from where the last page ended.
pub fn sessions_from(state: &State, from: Option<SessionPlace>) -> impl Iterator<Item = SessionView<'_>> {
    let was_shown =
        move |view: &SessionView<'_>| from.is_some_and(|from| view.id == from.id && from.after == AfterInSession::All);
    state.sessions_from(from.map_or(SessionId(0), |from| from.id)).skip_while(was_shown)
}

/// A page of these locks, and where it ended, if another page follows. `views` are in order of name, and begin with the
/// lock that `from` names, or after it.
pub fn locks<'a>(
    views: impl Iterator<Item = LockView<'a>>,
    from: Option<LockPlace>,
    wanted: &Wanted,
    moment: &Moment<'_>,
    bytes_max: usize,
) -> (Vec<Lock>, Option<LockPlace>) {
    let mut room = Room::new(bytes_max);
    let (mut page, mut place) = (Vec::new(), from);
    for view in views {
        let name = view.name().as_bytes().to_vec();
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

/// The parts of a lock after this one, as far as there is room; and the last part that was shown, if any.
fn lock(
    view: LockView<'_>,
    after: Option<AfterInLock>,
    wanted: &Wanted,
    moment: &Moment<'_>,
    room: &mut Room,
) -> (Option<Lock>, Option<AfterInLock>) {
    let mut lock = moment.lock(view, wanted.history && after.is_none());
    let mut shown = after;
    if after.is_some() {
        room.use_up(lock.cost());
    } else if room.take(lock.cost()) {
        shown = Some(AfterInLock::Head);
    } else {
        return (None, None);
    }
    let after_ticket = if let Some(AfterInLock::Claim(ticket)) = after { ticket } else { 0 };
    for standing in view.line_after(after_ticket) {
        let (ticket, fits) = match standing {
            Standing::Holder(holder) => {
                let (ticket, holder) = (holder.ticket, moment.holder(holder));
                let fits = room.take(holder.cost());
                lock.holders.extend(fits.then_some(holder));
                (ticket, fits)
            }
            Standing::Waiter(waiter) => {
                let (ticket, waiter) = (waiter.ticket, moment.waiter(waiter));
                let fits = room.take(waiter.cost());
                lock.waiters.extend(fits.then_some(waiter));
                (ticket, fits)
            }
        };
        if !fits {
            return (Some(lock), shown);
        }
        shown = Some(AfterInLock::Claim(ticket));
    }
    // The parts that were still to be shown may be gone by now.
    let has_more = after.is_none() || !lock.holders.is_empty() || !lock.waiters.is_empty();
    (has_more.then_some(lock), Some(AfterInLock::All))
}

/// A page of these sessions, and where it ended, if another page follows. `views` are in order of id, and begin with
/// the session that `from` names, or after it.
pub fn sessions<'a>(
    views: impl Iterator<Item = SessionView<'a>>,
    from: Option<SessionPlace>,
    moment: &Moment<'_>,
    bytes_max: usize,
) -> (Vec<Session>, Option<SessionPlace>) {
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

/// The parts of a session after this one, as far as there is room; and the last part that was shown, if any.
fn session(
    view: SessionView<'_>,
    after: Option<AfterInSession>,
    moment: &Moment<'_>,
    room: &mut Room,
) -> (Option<Session>, Option<AfterInSession>) {
    let mut session = moment.session(view);
    let mut shown = after;
    if after.is_some() {
        room.use_up(session.cost());
    } else if room.take(session.cost()) {
        shown = Some(AfterInSession::Head);
    } else {
        return (None, None);
    }
    for (place, name, holds) in names(view, after) {
        if !room.take(name.len() + NAME_BYTES) {
            return (Some(session), shown);
        }
        if holds { &mut session.holds } else { &mut session.waits }.push(name.to_vec());
        shown = Some(place);
    }
    let has_more = after.is_none() || !session.holds.is_empty() || !session.waits.is_empty();
    (has_more.then_some(session), Some(AfterInSession::All))
}

/// The names of the locks that a session holds or waits for, after the last one that was shown, in the order of its
/// acquires; and whether it holds the lock.
fn names(view: SessionView<'_>, after: Option<AfterInSession>) -> impl Iterator<Item = (AfterInSession, &[u8], bool)> {
    let from = if let Some(AfterInSession::Name { acquire, .. }) = after { acquire } else { 0 };
    let names = view.claims_from(from).flat_map(|claim| {
        let place = |lock| AfterInSession::Name { acquire: claim.number, lock };
        (0..).zip(&claim.wants).map(move |(lock, want)| (place(lock), want.lock.as_bytes(), claim.holds()))
    });
    names.skip_while(move |(place, _, _)| Some(*place) <= after)
}
