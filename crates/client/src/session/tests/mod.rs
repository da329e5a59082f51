//! One test for each rule. The driver records every output of the session as text.

mod claims;
mod connection;
mod lease;

use baton_types::frames::{self, EndReason, Request, Secret, ToClient, ToServer};
use baton_types::locks::{Answer, CancelOutcome, Operation};
use baton_types::refusal::{Refusal, RefusalCode};
use expect_test::{Expect, expect};

use super::*;

const SECRET: Secret = Secret([5; 32]);

/// A session, its clock, and its outputs since the last check.
struct Driver {
    session: Session,
    now: Millis,
    log: String,
}

fn wish(name: &str) -> Wish {
    Wish { name: name.into(), mode: Mode::Exclusive, owner: 7, parent: None, timeout_ms: None, lock_delay_ms: 0 }
}

impl Driver {
    fn new() -> Self {
        Driver::with(9_000, 9_000)
    }

    fn with(ttl_ms: u64, open_patience_ms: u64) -> Self {
        let (label, host) = ("test".into(), "here".into());
        let config = Config { session: 9, ttl_ms, label, host, pid: 1, secret: Some(SECRET), open_patience_ms };
        let mut driver = Driver { session: Session::new(config), now: 1_000_000, log: String::new() };
        driver.session.start();
        driver.drain();
        driver
    }

    /// Takes all outputs at once, as the real driver does.
    fn drain(&mut self) {
        while let Some(output) = self.session.poll() {
            self.log.push_str(&in_words(output));
            self.log.push('\n');
        }
    }

    fn acquire(&mut self, wish: &Wish) {
        self.session.acquire(self.now, wish);
        self.drain();
    }

    fn give_up(&mut self, acquire: AcquireNumber) {
        self.session.give_up(self.now, acquire);
        self.drain();
    }

    fn close(&mut self) {
        self.session.close(self.now);
        self.drain();
    }

    fn connected(&mut self) {
        self.session.connected(self.now);
        self.drain();
    }

    fn disconnected(&mut self) {
        self.session.disconnected(self.now);
        self.drain();
    }

    /// A session opened at 1,000,000 with its deadline at 1,000,000 + 9,000 - 180. It is lost 450 ms before the
    /// deadline.
    fn opened() -> Self {
        let mut driver = Driver::new();
        driver.connected();
        driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
        driver.said();
        driver
    }

    fn holding() -> Self {
        let mut driver = Driver::opened();
        driver.acquire(&wish("a"));
        driver.answer(1, granted(40));
        driver.said();
        driver
    }

    fn hear(&mut self, said: ToClient) {
        self.session.receive(self.now, said);
        self.drain();
    }

    fn answer(&mut self, number: u64, answer: impl Into<frames::Answer>) {
        self.hear(ToClient::Answer { number, answer: answer.into() });
    }

    fn alive(&mut self, number: u64) {
        self.hear(ToClient::Alive { number });
    }

    fn after(&mut self, ms: u64) -> &mut Self {
        self.now += ms;
        self.session.tick(self.now);
        self.drain();
        self
    }

    fn reconnect(&mut self) {
        self.disconnected();
        self.connected();
        self.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    }

    fn said(&mut self) -> String {
        std::mem::take(&mut self.log)
    }

    fn says(&mut self, expected: Expect) {
        expected.assert_eq(&self.said());
    }
}

fn in_words(output: Output) -> String {
    let said = match output {
        Output::Send(said) => said,
        Output::Event(event) => return format!("{event:?}"),
        Output::Connect { another: true } => return "Connect to another".to_owned(),
        Output::Connect { another: false } => return "Connect".to_owned(),
        Output::Disconnect => return "Disconnect".to_owned(),
    };
    match said {
        ToServer::Open(open) => {
            assert_eq!(open.secret, Some(SECRET));
            format!("> open {} attempt={} resume={}", open.session, open.attempt, open.resume)
        }
        ToServer::KeepAlive { number } => format!("> keep-alive {number}"),
        ToServer::Request(Request { number, seen, missing, operation }) => {
            let operation = match operation {
                frames::Operation::Locks(Operation::Acquire(acquire)) => {
                    format!("acquire {}", String::from_utf8(acquire.name).unwrap())
                }
                frames::Operation::Locks(Operation::Release { acquire }) => format!("release {acquire}"),
                frames::Operation::Locks(Operation::Cancel { acquire }) => format!("cancel {acquire}"),
                frames::Operation::Close => "close".to_owned(),
                #[allow(unreachable_patterns, reason = "only tests have another module")]
                other => format!("{other:?}"),
            };
            let missing = if missing.is_empty() { String::new() } else { format!(" but {missing:?}") };
            format!("> {number} (seen {seen}{missing}): {operation}")
        }
    }
}

fn granted(fence: u64) -> Answer {
    Answer::Granted { fence }
}

fn refused(code: RefusalCode) -> frames::Answer {
    frames::Answer::Refused(Refusal::new(code, "no"))
}
