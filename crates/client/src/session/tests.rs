//! One test for each rule. The driver writes down everything that the session says.

use baton_proto::v1::{self, answer, cancelled, client_frame, request::Operation, server_frame};
use expect_test::{Expect, expect};

use super::*;

/// A session, its clock, and what it said since the last look.
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
        let config = Config { session: 9, ttl_ms, label, host, pid: 1, open_patience_ms };
        let mut driver = Driver { session: Session::new(config), now: 1_000_000, log: String::new() };
        driver.session.start();
        driver.drain();
        driver
    }

    /// Everything said is taken at once, as the shell does it.
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

    /// At time 1,000,000, with a deadline at 1,000,000 + 9,000 - 180, and lost 450 before that.
    fn opened() -> Self {
        let mut driver = Driver::new();
        driver.connected();
        driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 9_000 }));
        driver.said();
        driver
    }

    /// Holds a lock by acquire 1.
    fn holding() -> Self {
        let mut driver = Driver::opened();
        driver.acquire(&wish("a"));
        driver.answer(1, answer::Answer::Granted(v1::Granted { fence: 40 }));
        driver.said();
        driver
    }

    fn hear(&mut self, frame: server_frame::Frame) {
        self.session.receive(self.now, v1::ServerFrame { frame: Some(frame) });
        self.drain();
    }

    fn answer(&mut self, number: u64, answer: answer::Answer) {
        self.hear(server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) }));
    }

    fn alive(&mut self, number: u64) {
        self.hear(server_frame::Frame::Alive(v1::Alive { number }));
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
        self.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 9_000 }));
    }

    fn said(&mut self) -> String {
        std::mem::take(&mut self.log)
    }

    fn says(&mut self, expected: Expect) {
        expected.assert_eq(&self.said());
    }
}

fn in_words(output: Output) -> String {
    let frame = match output {
        Output::Send(frame) => frame.frame.unwrap(),
        Output::Event(event) => return format!("{event:?}"),
        other => return format!("{other:?}"),
    };
    match frame {
        client_frame::Frame::Open(open) => format!("> open {} resume={}", open.session, open.resume),
        client_frame::Frame::KeepAlive(alive) => format!("> keep-alive {}", alive.number),
        client_frame::Frame::Request(v1::Request { number, seen, missing, operation }) => {
            let operation = match operation.unwrap() {
                Operation::Acquire(acquire) => format!("acquire {}", String::from_utf8(acquire.name).unwrap()),
                Operation::Release(release) => format!("release {}", release.acquire),
                Operation::Cancel(cancel) => format!("cancel {}", cancel.acquire),
                Operation::Close(_) => "close".to_owned(),
            };
            let missing = if missing.is_empty() { String::new() } else { format!(" but {missing:?}") };
            format!("> {number} (seen {seen}{missing}): {operation}")
        }
    }
}

fn granted(fence: u64) -> answer::Answer {
    answer::Answer::Granted(v1::Granted { fence })
}

fn cancelled(outcome: cancelled::Outcome) -> answer::Answer {
    answer::Answer::Cancelled(v1::Cancelled { outcome: outcome.into() })
}

fn refused(refusal: v1::Refusal) -> answer::Answer {
    answer::Answer::Refused(v1::Refused { refusal: refusal.into(), message: "no".into(), cycle: Vec::new() })
}

#[test]
fn a_session_opens_first_and_then_asks_in_order() {
    let mut driver = Driver::new();
    driver.acquire(&wish("a"));
    driver.acquire(&wish("b"));
    driver.says(expect![[r#"
        Connect
    "#]]);
    driver.connected();
    driver.says(expect![[r#"
        > open 9 resume=false
    "#]]);
    driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 9_000 }));
    driver.says(expect![[r#"
        Opened
        > 1 (seen 0): acquire a
        > 2 (seen 0): acquire b
    "#]]);
}

#[test]
fn after_a_reconnect_what_is_unanswered_is_sent_again_in_order_of_number() {
    let mut driver = Driver::opened();
    for name in ["a", "b", "c"] {
        driver.acquire(&wish(name));
    }
    driver.answer(1, granted(40));
    driver.answer(3, granted(41));
    driver.said();
    driver.reconnect();
    driver.acquire(&wish("d"));
    driver.says(expect![[r#"
        Connect
        > open 9 resume=true
        > 2 (seen 1): acquire b
        > 4 (seen 3 but [2]): acquire d
    "#]]);
    driver.answer(2, granted(42));
    driver.give_up(1);
    driver.says(expect![[r#"
        Granted { acquire: 2, fence: 42 }
        > 5 (seen 3): release 1
    "#]]);
}

#[test]
fn a_request_tells_what_was_seen_of_all_before_it() {
    let mut driver = Driver::opened();
    ["a", "b", "c", "d"].iter().for_each(|name| driver.acquire(&wish(name)));
    driver.answer(2, granted(40));
    driver.answer(4, granted(41));
    driver.said();
    driver.give_up(2);
    driver.answer(1, granted(42));
    driver.give_up(4);
    driver.says(expect![[r#"
        > 5 (seen 4 but [1, 3]): release 2
        Granted { acquire: 1, fence: 42 }
        > 6 (seen 4 but [3]): release 4
    "#]]);
    driver.reconnect();
    driver.says(expect![[r#"
        Connect
        > open 9 resume=true
        > 3 (seen 2): acquire c
        > 5 (seen 4 but [3]): release 2
        > 6 (seen 4 but [3]): release 4
    "#]]);
}

#[test]
fn what_is_missing_is_told_as_far_as_the_server_takes_it() {
    let mut driver = Driver::opened();
    let many = MISSING_MAX as u64;
    // All odd numbers are missing, and that is more than can be told.
    (1..=2 * many + 9).for_each(|_| driver.acquire(&wish("a")));
    (1..=many + 4).for_each(|half| driver.answer(2 * half, granted(half)));
    let odd = |below: u64| (1..below).step_by(2).collect::<Vec<u64>>();
    assert_eq!(driver.session.seen_before(2 * many), (2 * many - 2, odd(2 * many - 2)));
    assert_eq!(driver.session.seen_before(2 * many + 1), (2 * many, odd(2 * many)));
    assert_eq!(driver.session.seen_before(2 * many + 9), (2 * many, odd(2 * many)));
    assert_eq!(odd(2 * many).len(), MISSING_MAX);
    driver.answer(1, granted(0));
    assert_eq!(driver.session.seen_before(2 * many + 9).0, 2 * many + 2);
}

#[test]
fn what_was_meant_for_a_broken_connection_is_not_sent_on_the_next_one() {
    let mut driver = Driver::opened();
    driver.session.acquire(driver.now, &wish("a"));
    driver.disconnected();
    driver.says(expect![[r#"
        Connect
    "#]]);
}

#[test]
fn a_keep_alive_goes_out_every_third_of_the_ttl_and_counts_from_when_it_was_sent() {
    let mut driver = Driver::opened();
    assert_eq!(driver.session.next_wake(), Some(1_003_000));
    driver.after(3_000).says(expect![[r#"
        > keep-alive 1
    "#]]);
    assert_eq!(driver.session.deadline(), Some(1_008_820));
    driver.now += 500;
    driver.alive(1);
    assert_eq!(driver.session.deadline(), Some(1_003_000 + 9_000 - 180));
    driver.after(2_500);
    driver.after(3_000);
    driver.says(expect![[r#"
        > keep-alive 2
        Connect
        AtRisk
    "#]]);
}

#[test]
fn acknowledgements_in_any_order_never_set_the_deadline_back() {
    let mut driver = Driver::opened();
    driver.after(3_000);
    driver.after(2_999);
    driver.alive(1);
    driver.after(1);
    driver.after(2_999);
    assert_eq!(driver.session.deadline(), Some(1_003_000 + 8_820));
    driver.alive(2);
    driver.alive(1);
    driver.alive(77);
    assert_eq!(driver.session.deadline(), Some(1_006_000 + 8_820));
}

#[test]
fn a_silent_connection_is_given_up_while_there_is_time_for_another() {
    let mut driver = Driver::opened();
    driver.after(3_000);
    driver.said();
    assert_eq!(driver.session.next_wake(), Some(1_004_500));
    driver.after(2_999);
    driver.says(expect![[r#"
        AtRisk
    "#]]);
    driver.after(1).says(expect![[r#"
        Connect
    "#]]);
    driver.connected();
    driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 9_000 }));
    driver.says(expect![[r#"
        > open 9 resume=true
        Confirmed
    "#]]);
    assert_eq!(driver.session.deadline(), Some(1_006_000 + 8_820));
}

#[test]
fn a_lock_is_held_then_at_risk_then_lost_whether_or_not_anybody_ticks() {
    let driver = Driver::holding();
    let at = |ms: u64| {
        let now = driver.now + ms;
        (driver.session.lock_state(now, 1), driver.session.fence(now, 1))
    };
    assert_eq!(at(4_499), (LockState::Held, Some(40)));
    assert_eq!(at(4_500), (LockState::AtRisk, Some(40)));
    assert_eq!(at(8_369), (LockState::AtRisk, Some(40)));
    assert_eq!(at(8_370), (LockState::Lost, None));
    assert_eq!(driver.session.loss(driver.now + 8_370), Some(Loss::Unacknowledged));
    assert_eq!(driver.session.loss(driver.now + 8_369), None);
}

#[test]
fn who_wakes_in_time_is_told_of_the_loss_before_the_deadline_and_has_time_to_stop() {
    for (ttl_ms, time_to_stop) in [(1_000, 50), (6_000, 300), (10_000, 500), (20_000, 1_000), (86_400_000, 1_000)] {
        let mut driver = Driver::with(ttl_ms, ttl_ms);
        driver.connected();
        driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms }));
        while driver.session.state(driver.now) != SessionState::Lost {
            driver.now = driver.session.next_wake().unwrap();
            driver.after(0);
        }
        assert!(driver.said().contains("Lost(Unacknowledged)"));
        let deadline = driver.session.deadline().unwrap();
        assert_eq!((deadline - driver.now, deadline), (time_to_stop, 1_000_000 + ttl_ms - ttl_ms / 50), "{ttl_ms}");
    }
}

#[test]
fn until_a_session_is_opened_each_server_has_its_share_of_the_time() {
    let mut driver = Driver::with(9_000, 500);
    driver.connected();
    driver.after(499).says(expect![[r#"
        Connect
        > open 9 resume=false
    "#]]);
    driver.after(1).says(expect![[r#"
        Connect
    "#]]);
    driver.connected();
    driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 9_000 }));
    driver.disconnected();
    driver.connected();
    driver.said();
    driver.after(2_999).says(expect![""]);
    driver.after(1).says(expect![[r#"
        Connect
    "#]]);
}

#[test]
fn the_first_thing_after_waking_is_lost_and_an_alive_revives_nothing() {
    let mut driver = Driver::holding();
    driver.after(3_000);
    driver.said();
    // A pause, then at once an acknowledgement that would have been good for longer.
    driver.now += 5_370;
    driver.alive(1);
    driver.says(expect![[r#"
        Lost(Unacknowledged)
    "#]]);
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
    assert_eq!(driver.session.deadline(), Some(1_008_820));
    driver.acquire(&wish("b"));
    driver.says(expect![[r#"
        Refused { acquire: 2, refusal: Lost(Unacknowledged) }
    "#]]);
}

#[test]
fn a_lost_session_gives_back_what_is_left_on_its_connection_and_no_sooner_than_its_user_has_stopped() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.said();
    driver.after(8_820).says(expect![[r#"
        Lost(Unacknowledged)
        Refused { acquire: 2, refusal: Lost(Unacknowledged) }
        > 3 (seen 1): cancel 2
    "#]]);
    // A grant after the deadline is not a grant.
    driver.answer(2, granted(50));
    driver.answer(3, cancelled(cancelled::Outcome::Released));
    driver.says(expect![""]);
    assert_eq!(driver.session.fence(driver.now, 2), None);
    driver.give_up(1);
    driver.answer(4, answer::Answer::Released(v1::Released {}));
    driver.answer(5, answer::Answer::Closed(v1::Closed {}));
    driver.says(expect![[r#"
        > 4 (seen 3): release 1
        Released { acquire: 1, result: Ok(()) }
        > 5 (seen 4): close
        Disconnect
        Finished { confirmed: true }
    "#]]);
}

#[test]
fn a_lost_session_does_not_connect_again() {
    let mut driver = Driver::holding();
    driver.disconnected();
    driver.after(8_820).says(expect![[r#"
        Connect
        Lost(Unacknowledged)
        Disconnect
        Finished { confirmed: false }
    "#]]);
    driver.connected();
    driver.give_up(1);
    driver.says(expect![[r#"
        Disconnect
        Released { acquire: 1, result: Err(Unconfirmed(Unacknowledged)) }
    "#]]);
    assert_eq!(driver.session.next_wake(), None);
}

#[test]
fn an_ended_session_is_lost_at_once_and_so_is_all_that_it_wanted() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.said();
    driver.hear(server_frame::Frame::Ended(v1::Ended {
        reason: v1::ended::Reason::Expired.into(),
        message: String::new(),
    }));
    driver.says(expect![[r#"
        Lost(Ended("its lease ended"))
        Refused { acquire: 2, refusal: Lost(Ended("its lease ended")) }
        Disconnect
        Finished { confirmed: true }
    "#]]);
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
}

#[test]
fn a_first_answer_that_comes_too_late_opens_nothing() {
    let mut driver = Driver::new();
    driver.connected();
    driver.said();
    driver.now += 2_000;
    driver.hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: 2_000 }));
    driver.says(expect![[r#"
        Opened
        Lost(Unacknowledged)
        > 1 (seen 0): close
    "#]]);
}

#[test]
fn a_time_out_cancels_and_the_user_never_hears_of_a_grant_after_it() {
    let mut driver = Driver::opened();
    driver.acquire(&Wish { timeout_ms: Some(500), ..wish("a") });
    driver.said();
    assert_eq!(driver.session.next_wake(), Some(1_000_500));
    driver.after(500).says(expect![[r#"
        Refused { acquire: 1, refusal: TimedOut }
        > 2 (seen 0): cancel 1
    "#]]);
    driver.answer(1, granted(40));
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
    driver.answer(2, cancelled(cancelled::Outcome::Released));
    driver.says(expect![""]);
    assert_eq!(driver.session.next_wake(), Some(1_003_000));
}

#[test]
fn a_grant_before_the_time_out_is_a_grant() {
    let mut driver = Driver::opened();
    driver.acquire(&Wish { timeout_ms: Some(500), ..wish("a") });
    driver.after(499);
    driver.answer(1, granted(40));
    driver.said();
    driver.after(1).says(expect![""]);
    assert_eq!(driver.session.fence(driver.now, 1), Some(40));
}

#[test]
fn what_the_server_could_not_take_back_is_asked_for_again() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.give_up(1);
    driver.give_up(1);
    driver.give_up(2);
    driver.answer(3, refused(v1::Refusal::LowSpace));
    driver.answer(4, refused(v1::Refusal::TooManyRequests));
    driver.says(expect![[r#"
        > 2 (seen 1): acquire b
        > 3 (seen 1): release 1
        > 4 (seen 1): cancel 2
    "#]]);
    driver.after(3_000);
    driver.answer(5, answer::Answer::Released(v1::Released {}));
    driver.answer(6, cancelled(cancelled::Outcome::Removed));
    driver.says(expect![[r#"
        > keep-alive 1
        > 5 (seen 4 but [2]): release 1
        > 6 (seen 4 but [2]): cancel 2
        Released { acquire: 1, result: Ok(()) }
    "#]]);
}

#[test]
fn a_release_is_sent_once_and_again_on_the_next_connection() {
    let mut driver = Driver::holding();
    driver.give_up(1);
    driver.said();
    driver.reconnect();
    driver.answer(2, refused(v1::Refusal::NotHolder));
    driver.says(expect![[r#"
        Connect
        > open 9 resume=true
        > 2 (seen 1): release 1
        Released { acquire: 1, result: Err(NotHeld("no")) }
    "#]]);
}

#[test]
fn a_revoked_lock_is_lost_and_released_when_its_user_has_stopped() {
    let mut driver = Driver::holding();
    driver.hear(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 }));
    driver.says(expect![[r#"
        Revoked { acquire: 1 }
    "#]]);
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
    assert_eq!(driver.session.lock_loss(driver.now, 1), Some(Loss::Revoked));
    assert_eq!(driver.session.state(driver.now), SessionState::Alive);
    driver.give_up(1);
    driver.says(expect![[r#"
        > 2 (seen 1): release 1
    "#]]);
}

#[test]
fn what_was_revoked_before_its_grant_was_known_is_given_back() {
    let mut driver = Driver::opened();
    driver.acquire(&wish("a"));
    driver.hear(server_frame::Frame::Revoked(v1::Revoked { acquire: 1 }));
    driver.answer(1, granted(40));
    driver.says(expect![[r#"
        > 1 (seen 0): acquire a
        Refused { acquire: 1, refusal: Lost(Revoked) }
        > 2 (seen 1): release 1
    "#]]);
}

#[test]
fn a_close_ends_everything_at_once_for_the_user_and_is_repeated_until_it_is_answered() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.close();
    driver.says(expect![[r#"
        > 2 (seen 1): acquire b
        Lost(Closed)
        Refused { acquire: 2, refusal: Lost(Closed) }
        > 3 (seen 2): close
    "#]]);
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
    driver.give_up(1);
    driver.reconnect();
    driver.answer(3, answer::Answer::Closed(v1::Closed {}));
    driver.says(expect![[r#"
        Connect
        > open 9 resume=true
        > 3 (seen 2): close
        Released { acquire: 1, result: Ok(()) }
        Disconnect
        Finished { confirmed: true }
    "#]]);
}

#[test]
fn a_close_that_nobody_answers_ends_with_the_lease() {
    let mut driver = Driver::holding();
    driver.close();
    driver.give_up(1);
    driver.said();
    driver.after(9_000).says(expect![[r#"
        Released { acquire: 1, result: Err(Unconfirmed(Closed)) }
        Disconnect
        Finished { confirmed: false }
    "#]]);
}

#[test]
fn an_answer_that_makes_no_sense_leaves_nothing_behind() {
    let mut driver = Driver::opened();
    driver.acquire(&wish("a"));
    driver.said();
    driver.answer(1, answer::Answer::Closed(v1::Closed {}));
    driver.says(expect![[r#"
        Refused { acquire: 1, refusal: Other { kind: Invalid, message: "the server answered an acquire by Some(Closed(Closed)), which makes no sense" } }
        > 2 (seen 1): cancel 1
    "#]]);
}

#[test]
fn a_deadlock_shows_its_cycle() {
    let mut driver = Driver::opened();
    driver.acquire(&wish("a"));
    driver.said();
    let cycle = vec![v1::Wait { owner: 7, label: "x".into(), lock: "a".into() }];
    let refusal = v1::Refusal::Deadlock.into();
    driver.answer(1, answer::Answer::Refused(v1::Refused { refusal, message: String::new(), cycle }));
    driver.says(expect![[r#"
        Refused { acquire: 1, refusal: Deadlock { cycle: [Wait { owner: 7, label: "x", lock: [97] }] } }
    "#]]);
    let cycle = vec![Wait { owner: 7, label: "x".into(), lock: "a".into() }];
    expect![[r#"the request would wait for itself: 0000000000000007 (x) waits for "a""#]]
        .assert_eq(&Refusal::Deadlock { cycle }.to_string());
}
