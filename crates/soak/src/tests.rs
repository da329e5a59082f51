//! One client session against the state, without log and network: the frames go directly between them.

use std::collections::BTreeSet;

use baton_client::session::{Config, Event, Mode, Output, Session, Wish};
use baton_state::frontend::{Modules, words};
use baton_state::state::locks::{self, Acquire, Operation};
use baton_state::state::sessions::{self, Open, limits};
use baton_state::state::{self, Caller, Command, Effect, Outcome, OwnerId, Request, SessionId, State};
use baton_types::frames::{ToClient, ToServer};

const OURS: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

struct Pair {
    session: Session,
    state: State,
    events: Vec<Event>,
    /// One of this many frames, on average, breaks the connection in its own direction.
    breaks: Option<u64>,
    cut_up: bool,
    cut_down: bool,
    rng: fastrand::Rng,
}

impl Pair {
    /// A connected pair. The other session holds the lock "slow".
    fn new(seed: u64) -> Self {
        let (label, host, ttl_ms) = ("ours".into(), String::new(), 10_000);
        let (secret, open_patience_ms) = (None, ttl_ms);
        let config = Config { session: OURS.0, ttl_ms, label, host, pid: 1, secret, open_patience_ms };
        let mut pair = Pair {
            session: Session::new(config),
            state: State::default(),
            events: Vec::new(),
            breaks: None,
            cut_up: false,
            cut_down: false,
            rng: fastrand::Rng::with_seed(seed),
        };
        let open = Open {
            session: OTHER,
            ttl_ms: 10_000,
            label: String::new(),
            host: String::new(),
            pid: 2,
            resume: false,
            secret_hash: None,
            caller: Caller::default(),
        };
        pair.apply(&sessions::Command::Open(open).into());
        pair.other(1, slow());
        pair.session.start();
        pair.session.connected(0);
        pair.talk();
        pair
    }

    fn apply(&mut self, command: &Command) -> Vec<Effect> {
        let mut outcome = Outcome::default();
        self.state.apply(0, 0, command, &mut outcome);
        outcome.effects.into_vec()
    }

    fn other(&mut self, number: u64, operation: Operation) -> Vec<Effect> {
        let (seen, missing, operation) = (number - 1, Vec::new(), state::Operation::Locks(operation));
        let caller = Caller::default();
        self.apply(&Command::Request(Request { session: OTHER, number, seen, missing, caller, operation }))
    }

    /// Exchanges frames until both sides are done. Makes a new connection whenever one breaks.
    fn talk(&mut self) {
        self.talk_on_this_connection();
        while self.cut_up || self.cut_down {
            self.reconnect();
            self.talk_on_this_connection();
        }
    }

    fn reconnect(&mut self) {
        (self.cut_up, self.cut_down) = (false, false);
        self.session.disconnected(0);
        self.session.connected(0);
    }

    fn talk_on_this_connection(&mut self) {
        while let Some(output) = self.session.poll() {
            match output {
                Output::Send(frame) => self.say(frame),
                Output::Event(event) => self.events.push(event),
                Output::Connect { .. } | Output::Disconnect => {}
            }
        }
    }

    fn say(&mut self, said: ToServer) {
        let caller = Caller::default();
        let command: Command = match said {
            ToServer::Open(open) => sessions::Command::Open(words::open(open, caller).unwrap()).into(),
            ToServer::Request(request) => {
                Command::Request(words::request(&Modules::default(), OURS, request, caller).unwrap())
            }
            ToServer::KeepAlive { .. } => panic!("time stands still"),
        };
        if let Command::Request(Request { number, seen, ref missing, .. }) = command {
            assert_eq!(limits::check_seen(number, seen, missing), Ok(()));
        }
        self.cut_up |= self.breaks();
        if !self.cut_up {
            let effects = self.apply(&command);
            self.tell(&effects);
        }
    }

    fn tell(&mut self, effects: &[Effect]) {
        for said in effects.iter().filter_map(told) {
            self.cut_down |= self.breaks();
            if !self.cut_down {
                self.session.receive(0, said);
            }
        }
    }

    fn breaks(&mut self) -> bool {
        self.breaks.is_some_and(|breaks| self.rng.u64(..breaks) == 0)
    }

    /// Acquires for a new owner, so that nothing is a deadlock.
    fn acquire(&mut self, name: &str) -> u64 {
        let (name, mode, owner) = (name.into(), Mode::Exclusive, self.rng.u64(..));
        let acquire =
            self.session.acquire(0, &Wish { name, mode, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 });
        self.talk();
        acquire
    }
}

/// The frame that our session gets for an effect, if any.
fn told(effect: &Effect) -> Option<ToClient> {
    match *effect {
        Effect::Opened { session: OURS, ttl_ms } => {
            Some(ToClient::Opened { session: OURS.0, ttl_ms, cluster: None, closed_ms: 0 })
        }
        Effect::Answer { session: OURS, number, ref answer } => {
            Some(ToClient::Answer { number, answer: Modules::answer(answer) })
        }
        Effect::Ended { session: OURS, reason } => {
            let (reason, message) = words::ended(reason, false);
            Some(ToClient::Ended { reason, message: message.to_owned() })
        }
        Effect::Locks(locks::Effect::Revoked { session: OURS, acquire }) => Some(ToClient::Revoked { acquire }),
        _ => None,
    }
}

/// The other session's acquire.
fn slow() -> Operation {
    Operation::Acquire(Acquire::one("slow", locks::Mode::Exclusive, OwnerId(2)))
}

/// An acquire may wait as long as it likes, and its session goes on with other requests. The answer arrives although a
/// connection broke.
#[test]
fn one_acquire_that_waits_does_not_stop_its_session() {
    let mut pair = Pair::new(0);
    let slow = pair.acquire("slow");
    pair.events.clear();
    for _ in 0..5_000 {
        let fast = pair.acquire("fast");
        pair.session.give_up(0, fast);
        pair.talk();
        let events = std::mem::take(&mut pair.events);
        let is_served = matches!(events[..], [Event::Granted { .. }, Event::Released { result: Ok(()), .. }]);
        assert!(is_served, "acquire {fast}: {events:?}");
    }
    // The answer goes to a connection that is already broken.
    let said = pair.other(2, Operation::Release { acquire: 1 });
    assert!(matches!(said[1], Effect::Answer { session: OURS, number, .. } if number == slow), "{said:?}");
    pair.reconnect();
    pair.talk();
    assert_eq!(pair.events, [Event::Granted { acquire: slow, fence: 5_002 }]);
    assert_eq!(pair.session.fence(0, slow), Some(5_002));
}

/// Connections break all the time, at any moment. When they no longer break, every acquire that was not given up has
/// been granted exactly once, every release is confirmed, and nothing is left behind.
#[test]
fn whatever_gets_lost_is_done_once() {
    for seed in 0..100 {
        let mut pair = Pair::new(seed);
        pair.breaks = Some(15);
        let (mut wanted, mut other, mut held) = (BTreeSet::new(), 1, Some(1));
        for _ in 0..300 {
            match pair.rng.u8(..9) {
                0 => {
                    other += 1;
                    // The other session may still wait for the lock itself.
                    let operation = held.map_or_else(slow, |acquire| Operation::Cancel { acquire });
                    held = if held.is_none() { Some(other) } else { None };
                    let effects = pair.other(other, operation);
                    pair.tell(&effects);
                }
                1..=4 => {
                    let name = ["slow", "fast", "faster"][pair.rng.usize(..3)];
                    wanted.insert(pair.acquire(name));
                }
                _ => {
                    if let Some(acquire) = wanted.iter().copied().nth(pair.rng.usize(..wanted.len().max(1))) {
                        wanted.remove(&acquire);
                        pair.session.give_up(0, acquire);
                    }
                }
            }
            pair.talk();
        }
        pair.breaks = None;
        if let Some(acquire) = held {
            let effects = pair.other(other + 1, Operation::Cancel { acquire });
            pair.tell(&effects);
        }
        pair.talk();
        // The remaining acquires are granted one after the other, and given up.
        while let Some(acquire) = wanted.iter().copied().find(|acquire| pair.session.fence(0, *acquire).is_some()) {
            wanted.remove(&acquire);
            pair.session.give_up(0, acquire);
            pair.talk();
        }
        assert_eq!(wanted, BTreeSet::new(), "seed {seed}: these were never granted");
        let (mut granted, mut released) = (BTreeSet::new(), BTreeSet::new());
        for event in &pair.events {
            match event {
                Event::Opened => {}
                Event::Granted { acquire, .. } => assert!(granted.insert(*acquire), "seed {seed}: {event:?} twice"),
                Event::Released { acquire, result: Ok(()) } => assert!(released.insert(*acquire), "seed {seed}"),
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert_eq!(granted, released, "seed {seed}");
        assert!(granted.len() > 30, "seed {seed}: only {} were granted", granted.len());
        let counts = pair.state.counts();
        assert_eq!((counts.holders, counts.waiters), (0, 0), "seed {seed}");
    }
}
