//! One client hand in hand with the table: nothing between them but the words that they say.

use baton_client::session::{Config, Event, MISSING_MAX, Mode, Output, Session, Wish};
use baton_proto::v1;
use baton_service::table::{self, Command, Effect, Operation, OwnerId, SessionId, Table, limits};

use super::wire::{self, Asked};

const OURS: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

struct Pair {
    session: Session,
    table: Table,
    events: Vec<Event>,
}

impl Pair {
    /// Connected, and the other session holds the lock "slow".
    fn new() -> Self {
        let config = Config { session: OURS.0, ttl_ms: 10_000, label: "ours".into(), host: String::new(), pid: 1 };
        let mut pair = Pair { session: Session::new(config), table: Table::default(), events: Vec::new() };
        let (label, host) = (String::new(), String::new());
        pair.apply(&Command::Open { session: OTHER, ttl_ms: 10_000, label, host, pid: 2, resume: false });
        let (lock, mode, owner) = ("slow".into(), table::Mode::Exclusive, OwnerId(2));
        pair.other(1, Operation::Acquire { lock, mode, owner, timeout_ms: None, lock_delay_ms: 0 });
        pair.session.start();
        pair.session.connected(0);
        pair.talk();
        pair
    }

    fn apply(&mut self, command: &Command) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.table.apply(0, command, &mut effects);
        effects
    }

    fn other(&mut self, number: u64, operation: Operation) -> Vec<Effect> {
        self.apply(&Command::Request { session: OTHER, number, seen: number - 1, missing: Vec::new(), operation })
    }

    /// Until neither has anything more to say.
    fn talk(&mut self) {
        while let Some(output) = self.session.poll() {
            match output {
                Output::Send(frame) => self.say(frame),
                Output::Event(event) => self.events.push(event),
                Output::Connect | Output::Disconnect => {}
            }
        }
    }

    fn say(&mut self, frame: v1::ClientFrame) {
        let Asked::Command(command) = wire::asked(OURS, frame) else { panic!("time stands still") };
        if let Command::Request { number, seen, ref missing, .. } = command {
            assert_eq!(limits::check_seen(number, seen, missing), Ok(()));
        }
        for (session, frame) in self.apply(&command).iter().filter_map(wire::told) {
            assert_eq!(session, OURS);
            self.session.receive(0, frame);
        }
    }

    fn acquire(&mut self, name: &str) -> u64 {
        let (name, mode) = (name.to_owned(), Mode::Exclusive);
        let acquire = self.session.acquire(0, &Wish { name, mode, owner: 1, timeout_ms: None, lock_delay_ms: 0 });
        self.talk();
        acquire
    }
}

/// However long it waits and however much its session does meanwhile; its answer comes, though a connection broke.
#[test]
fn one_acquire_that_waits_does_not_stop_its_session() {
    let mut pair = Pair::new();
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
    // The answer goes to a connection that is broken by then.
    let said = pair.other(2, Operation::Release { acquire: 1 });
    assert!(matches!(said[1], Effect::Answer { session: OURS, number, .. } if number == slow), "{said:?}");
    pair.session.disconnected(0);
    pair.session.connected(0);
    pair.talk();
    assert_eq!(pair.events, [Event::Granted { acquire: slow, fence: 5_002 }]);
    assert_eq!(pair.session.fence(0, slow), Some(5_002));
}

/// What the one says at most the other takes.
#[test]
fn client_and_table_agree_on_how_many_answers_can_be_missing() {
    assert_eq!(MISSING_MAX, limits::MISSING_MAX);
}
