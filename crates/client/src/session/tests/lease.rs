//! The lease: how long the client believes in its locks, and what it does afterwards.

use super::*;

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
        Connect to another
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
        driver.hear(ToClient::Opened { session: 9, ttl_ms, cluster: None, closed_ms: 0 });
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
fn the_first_thing_after_waking_is_lost_and_an_alive_revives_nothing() {
    let mut driver = Driver::holding();
    driver.after(3_000);
    driver.said();
    // After a pause, an acknowledgement arrives at once that would have moved the deadline.
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
    // After the loss a grant does not count.
    driver.answer(2, granted(50));
    driver.answer(3, Answer::Cancelled(CancelOutcome::Released));
    driver.says(expect![""]);
    assert_eq!(driver.session.fence(driver.now, 2), None);
    driver.give_up(1);
    driver.answer(4, Answer::Released);
    driver.answer(5, frames::Answer::Closed);
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
    assert!(!driver.session.is_finished());
    driver.after(8_820).says(expect![[r#"
        Connect
        Lost(Unacknowledged)
        Disconnect
        Finished { confirmed: false }
    "#]]);
    assert!(driver.session.is_finished());
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
    driver.hear(ToClient::Ended { reason: EndReason::Expired, message: String::new() });
    driver.says(expect![[r#"
        Lost(Ended("the lease of the session expired, because no keep-alive came in time"))
        Refused { acquire: 2, refusal: Lost(Ended("the lease of the session expired, because no keep-alive came in time")) }
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
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 2_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        Opened
        Lost(Unacknowledged)
        > 1 (seen 0): close
    "#]]);
}
