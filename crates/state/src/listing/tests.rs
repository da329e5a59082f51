//! All pages together equal the listing in one piece, wherever they end and whatever changes in between.

use baton_api::v1;
use baton_types::views::{Lock, Session};
use prost::Message;

use super::moment::Moment;
use super::pages::*;
use super::token::*;
use crate::state::locks::{Acquire, Mode, Operation};
use crate::state::sessions::{self, Open};
use crate::state::{self, Caller, Command, Outcome, OwnerId, Request, RequestNumber, SessionId};
use crate::state::{LockView, SessionView, State};

const EVERYTHING: Wanted = Wanted { history: true, all: true };
/// From one part per page to everything at once.
const BUDGETS: [usize; 8] = [0, 1, 60, 150, 400, 1_000, 5_000, usize::MAX];

fn with_moment<T>(show: impl FnOnce(&Moment<'_>) -> T) -> T {
    show(&Moment { now_ms: 1_000_000, expires_in_ms: &|session| session.0 })
}

/// A state whose commands come one millisecond after the other.
#[derive(Default)]
struct Told {
    state: State,
    now_ms: u64,
}

impl Told {
    fn tell(&mut self, command: &Command) {
        self.now_ms += 1;
        self.state.apply(self.now_ms, self.now_ms, command, &mut Outcome::default());
    }

    fn open(&mut self, session: u64) {
        let (label, host) = (format!("label of {session}"), "host".to_owned());
        let session = SessionId(session);
        let (secret_hash, caller) = (None, Caller::default());
        let open = Open { session, ttl_ms: 10_000, label, host, pid: 9, resume: false, secret_hash, caller };
        self.tell(&sessions::Command::Open(open).into());
    }

    fn request(&mut self, session: u64, number: RequestNumber, operation: Operation) {
        let (session, seen, missing) = (SessionId(session), number - 1, Vec::new());
        let (caller, operation) = (Caller::default(), state::Operation::Locks(operation));
        self.tell(&Command::Request(Request { session, number, seen, missing, caller, operation }));
    }

    /// Each acquire has an owner of its own.
    fn acquire(&mut self, session: u64, number: RequestNumber, lock: &str, mode: Mode) {
        let acquire = Acquire::one(lock, mode, OwnerId(session * 100_000 + number));
        self.request(session, number, Operation::Acquire(Acquire { lock_delay_ms: 50, ..acquire }));
    }

    fn release(&mut self, session: u64, number: RequestNumber, acquire: RequestNumber) {
        self.request(session, number, Operation::Release { acquire });
    }

    fn cancel(&mut self, session: u64, number: RequestNumber, acquire: RequestNumber) {
        self.request(session, number, Operation::Cancel { acquire });
    }

    fn end(&mut self, session: u64) {
        self.tell(&sessions::Command::Expire { session: SessionId(session), term: 0 }.into());
    }
}

/// A few locks of every kind: held by one and by many, waited for, closed, remembered.
fn random_state(random: &mut fastrand::Rng) -> State {
    let mut told = Told::default();
    let mut numbers = [0; 8];
    (1..8).for_each(|session| told.open(session));
    for _ in 0..random.usize(..200) {
        let session = random.usize(1..8);
        numbers[session] += 1;
        let number = numbers[session];
        match random.u8(..8) {
            0 | 1 if number > 1 => told.release(session as u64, number, random.u64(1..number)),
            2 if number > 1 && random.u8(..10) == 0 => told.end(session as u64),
            _ => {
                let which = random.usize(..12);
                let mode = [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 5 }][which % 3];
                let name = format!("{}{which}", ["a", "b", "b/"][which / 4]);
                told.acquire(session as u64, number, &name, mode);
            }
        }
    }
    told.state
}

/// The listing in one piece, made without the code for pages.
fn unpaged_locks(state: &State, prefix: &[u8], wanted: &Wanted) -> Vec<Lock> {
    let views = state.locks().filter(|view| view.name().as_bytes().starts_with(prefix));
    let views = views.filter(|view| wanted.all || view.is_used());
    with_moment(|moment| {
        let whole = |view: LockView<'_>| Lock {
            holders: view.holders().map(|holder| moment.holder(holder)).collect(),
            waiters: view.waiters().map(|waiter| moment.waiter(waiter)).collect(),
            ..moment.lock(view, wanted.history)
        };
        views.map(whole).collect()
    })
}

fn unpaged_sessions(state: &State) -> Vec<Session> {
    with_moment(|moment| {
        let whole = |view: SessionView<'_>| Session {
            holds: view.holds().map(|name| name.as_bytes().to_vec()).collect(),
            waits: view.waits().map(|name| name.as_bytes().to_vec()).collect(),
            ..moment.session(view)
        };
        state.sessions().map(whole).collect()
    })
}

/// One page. The place is encoded as a token and decoded again, as on the wire.
fn page_of_locks(
    state: &State,
    prefix: &[u8],
    from: Option<LockPlace>,
    wanted: &Wanted,
    bytes_max: usize,
) -> (Vec<Lock>, Option<LockPlace>) {
    let views = locks_from(state, prefix, from.as_ref());
    let (page, next) = with_moment(|moment| locks(views, from, wanted, moment, bytes_max));
    let next = next.map(|next| match Token::from_bytes(&Token::Lock(next).to_bytes()) {
        Ok(Token::Lock(next)) => next,
        other => panic!("{other:?}"),
    });
    (page, next)
}

/// All pages joined, and their number. Checks the length of each page.
fn paged_locks(state: &State, prefix: &[u8], wanted: &Wanted, bytes_max: usize) -> (Vec<Lock>, usize) {
    let (mut whole, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let (page, next) = page_of_locks(state, prefix, from, wanted, bytes_max);
        pages += 1;
        assert!(pages < 10_000, "the listing does not get on");
        let parts: usize = page.iter().map(|lock| 1 + lock.holders.len() + lock.waiters.len()).sum();
        let locks = page.iter().cloned().map(Into::into).collect();
        let bytes = v1::ListLocksResponse { locks, next_page: Vec::new(), age_ms: None }.encoded_len();
        // One part always fits, and so does the repeated head of its lock.
        assert!(bytes <= bytes_max || parts <= 2, "{bytes} > {bytes_max}");
        join_locks(&mut whole, page);
        from = next;
        if from.is_none() {
            return (whole, pages);
        }
    }
}

/// As the .proto file says.
fn join_locks(whole: &mut Vec<Lock>, page: Vec<Lock>) {
    for piece in page {
        match whole.last_mut() {
            Some(last) if last.name == piece.name => {
                assert!(piece.history.is_empty(), "history comes once");
                last.holders.extend(piece.holders);
                last.waiters.extend(piece.waiters);
            }
            _ => whole.push(piece),
        }
    }
}

fn paged_sessions(state: &State, bytes_max: usize) -> (Vec<Session>, usize) {
    let (mut whole, mut from, mut pages) = (Vec::<Session>::new(), None, 0);
    loop {
        let (page, next) = with_moment(|moment| sessions(sessions_from(state, from), from, moment, bytes_max));
        pages += 1;
        assert!(pages < 10_000, "the listing does not get on");
        let parts: usize = page.iter().map(|session| 1 + session.holds.len() + session.waits.len()).sum();
        let sessions = page.iter().cloned().map(Into::into).collect();
        let bytes = v1::ListSessionsResponse { sessions, next_page: Vec::new(), age_ms: None }.encoded_len();
        assert!(bytes <= bytes_max || parts <= 2, "{bytes} > {bytes_max}");
        for piece in page {
            match whole.last_mut() {
                Some(last) if last.id == piece.id => {
                    last.holds.extend(piece.holds);
                    last.waits.extend(piece.waits);
                }
                _ => whole.push(piece),
            }
        }
        from = next;
        if from.is_none() {
            return (whole, pages);
        }
    }
}

#[test]
fn pages_of_any_size_are_the_listing_in_one_piece() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..150 {
        let state = random_state(&mut random);
        for bytes_max in BUDGETS {
            for (history, all) in [(false, false), (true, false), (false, true), (true, true)] {
                let wanted = Wanted { history, all };
                for prefix in [&b""[..], b"b", b"b/", b"nothing"] {
                    let (locks, _) = paged_locks(&state, prefix, &wanted, bytes_max);
                    assert_eq!(locks, unpaged_locks(&state, prefix, &wanted), "{prefix:?} {bytes_max}");
                }
            }
            assert_eq!(paged_sessions(&state, bytes_max).0, unpaged_sessions(&state), "{bytes_max}");
        }
    }
}

#[test]
fn without_room_each_page_has_one_part() {
    let mut told = Told::default();
    (1..=3).for_each(|session| told.open(session));
    told.acquire(1, 1, "a", Mode::Shared);
    told.acquire(2, 1, "a", Mode::Shared);
    told.acquire(3, 1, "a", Mode::Exclusive);
    told.acquire(1, 2, "b", Mode::Exclusive);
    // The head of a, its two holders and its waiter, the head of b and its holder.
    assert_eq!(paged_locks(&told.state, b"", &EVERYTHING, 0).1, 6);
    // Three heads, three locks that are held and one that is waited for.
    assert_eq!(paged_sessions(&told.state, 0).1, 7);
    assert_eq!(paged_locks(&told.state, b"", &EVERYTHING, usize::MAX).1, 1);
    assert_eq!(paged_locks(&State::default(), b"", &EVERYTHING, 0), (vec![], 1));
}

/// One lock with this many waiters, each of a session of its own.
fn crowd(waiters: u64) -> Told {
    let mut told = Told::default();
    told.open(1);
    told.acquire(1, 1, "hot", Mode::Exclusive);
    for session in 2..2 + waiters {
        told.open(session);
        told.acquire(session, 1, "hot", Mode::Exclusive);
    }
    told
}

#[test]
fn thousands_of_waiters_come_in_pages_that_grpc_takes() {
    let state = crowd(30_000).state;
    let (locks, pages) = paged_locks(&state, b"", &EVERYTHING, PAGE_BYTES_MAX);
    assert!(pages > 1, "{pages}");
    assert_eq!(locks, unpaged_locks(&state, b"", &EVERYTHING));
    let (sessions, pages) = paged_sessions(&state, PAGE_BYTES_MAX);
    assert!(pages > 1, "{pages}");
    assert_eq!(sessions, unpaged_sessions(&state));
}

#[test]
fn a_page_looks_at_no_more_locks_than_it_shows_or_has_bytes_for() {
    let mut told = Told::default();
    told.open(1);
    for lock in 0..10_000 {
        told.acquire(1, 2 * lock + 1, &format!("{lock:05}"), Mode::Exclusive);
        // The second half is only remembered.
        if lock >= 5_000 {
            told.release(1, 2 * lock + 2, 2 * lock + 1);
        }
    }
    let looked_at = |from: Option<LockPlace>| {
        let mut looked_at = 0;
        let views = locks_from(&told.state, b"", from.as_ref()).inspect(|_| looked_at += 1);
        let wanted = Wanted { history: false, all: false };
        let (page, next) = with_moment(|moment| locks(views, from, &wanted, moment, 10_000));
        (looked_at, page.len(), next)
    };
    let (looked, shown, next) = looked_at(None);
    assert!(shown > 10 && looked <= shown + 1, "{looked} for {shown}");
    assert!(next.is_some());
    let remembered = LockPlace { name: b"06000".to_vec(), after: AfterInLock::All };
    let (looked, shown, next) = looked_at(Some(remembered));
    assert_eq!((looked, shown), (10_000 / PASSED_OVER_BYTES + 1, 0));
    assert!(next.is_some_and(|next| next.name > b"06000".to_vec()), "an empty page gets on, too");
}

/// The sessions of the waiters on the first page and on the later pages. `happens` is called in between.
fn waiters_around(told: &mut Told, happens: impl FnOnce(&mut Told, &LockPlace)) -> (Vec<u64>, Vec<u64>) {
    let waiters = |locks: Vec<Lock>| -> Vec<u64> {
        locks.iter().flat_map(|lock| &lock.waiters).map(|waiter| waiter.session).collect()
    };
    let (first, next) = page_of_locks(&told.state, b"", None, &EVERYTHING, 800);
    let next = next.expect("not all of it fits");
    happens(told, &next);
    let (rest, end) = page_of_locks(&told.state, b"", Some(next), &EVERYTHING, usize::MAX);
    assert_eq!(end, None);
    (waiters(first), waiters(rest))
}

#[test]
fn the_next_page_goes_on_after_the_last_one_although_the_queue_has_moved() {
    let mut told = crowd(20);
    let (first, rest) = waiters_around(&mut told, |told, _| {
        told.release(1, 2, 1);
        told.release(2, 2, 1);
    });
    assert!(first.len() > 2, "{first:?}");
    assert_eq!([first, rest].concat(), (2..22).collect::<Vec<u64>>());
}

#[test]
fn the_next_page_goes_on_although_the_last_one_is_gone() {
    let mut told = crowd(20);
    let (first, rest) = waiters_around(&mut told, |told, next| {
        let AfterInLock::Claim(ticket) = next.after else { panic!("{next:?}") };
        // The tickets and the sessions of the crowd have the same numbers.
        told.cancel(ticket, 2, 1);
    });
    assert_eq!([first, rest].concat(), (2..22).collect::<Vec<u64>>());
}

#[test]
fn a_lock_that_is_gone_is_not_gone_on_with() {
    let mut told = crowd(20);
    told.acquire(1, 2, "later", Mode::Exclusive);
    let (first, next) = page_of_locks(&told.state, b"", None, &EVERYTHING, 800);
    assert_eq!(first.len(), 1);
    (2..22).for_each(|session| told.end(session));
    told.release(1, 3, 1);
    let (rest, end) = page_of_locks(&told.state, b"", next, &EVERYTHING, usize::MAX);
    assert_eq!(rest.iter().map(|lock| &*lock.name).collect::<Vec<_>>(), [b"later"]);
    assert_eq!(end, None);
}

#[test]
fn locks_that_come_and_go_between_pages_leave_the_others_alone() {
    let mut told = Told::default();
    told.open(1);
    let names = ["b", "d", "f", "h"];
    (1..).zip(names).for_each(|(number, name)| told.acquire(1, number, name, Mode::Exclusive));
    let (first, next) = page_of_locks(&told.state, b"", None, &EVERYTHING, 500);
    let shown = first.last().map(|lock| lock.name.clone()).expect("something is shown");
    assert!(shown > b"b".to_vec() && shown < b"h".to_vec(), "{shown:?}");
    told.acquire(1, 5, "a", Mode::Exclusive);
    told.acquire(1, 6, "g", Mode::Exclusive);
    told.acquire(1, 7, "i", Mode::Exclusive);
    let (rest, _) = page_of_locks(&told.state, b"", next, &EVERYTHING, usize::MAX);
    let mut whole = first;
    join_locks(&mut whole, rest);
    let names: Vec<_> = whole.iter().map(|lock| str::from_utf8(&lock.name).unwrap()).collect();
    assert_eq!(names, ["b", "d", "f", "g", "h", "i"]);
    assert!(whole.iter().all(|lock| lock.holders.len() == 1));
}
