//! Acquires: granted, refused, given up, revoked, closed.

use super::*;

#[test]
fn a_time_out_cancels_and_the_user_never_hears_of_a_grant_after_it() {
    let mut driver = Driver::opened();
    driver.acquire(&Wish { timeout_ms: Some(500), ..wish("a") });
    driver.said();
    assert_eq!(driver.session.next_wake(), Some(1_000_500));
    driver.after(500).says(expect![[r#"
        Refused { acquire: 1, refusal: Refused(Refusal { code: TimedOut, message: "the lock was not granted within the time-out", cycle: [] }) }
        > 2 (seen 0): cancel 1
    "#]]);
    driver.answer(1, granted(40));
    assert_eq!(driver.session.lock_state(driver.now, 1), LockState::Lost);
    driver.answer(2, Answer::Cancelled(CancelOutcome::Released));
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

/// The server answers such a request at once, so the client has no time-out that could come before the answer.
#[test]
fn an_acquire_that_does_not_wait_is_refused_by_the_server_alone() {
    let mut driver = Driver::opened();
    driver.acquire(&Wish { timeout_ms: Some(0), ..wish("a") });
    driver.after(0);
    driver.answer(1, refused(RefusalCode::NotAvailable));
    driver.says(expect![[r#"
        > 1 (seen 0): acquire a
        Refused { acquire: 1, refusal: Refused(Refusal { code: NotAvailable, message: "no", cycle: [] }) }
    "#]]);
}

#[test]
fn what_the_server_could_not_take_back_is_asked_for_again() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.give_up(1);
    driver.give_up(1);
    driver.give_up(2);
    driver.answer(3, refused(RefusalCode::LowSpace));
    driver.answer(4, refused(RefusalCode::TooManyRequests));
    driver.says(expect![[r#"
        > 2 (seen 1): acquire b
        > 3 (seen 1): release 1
        > 4 (seen 1): cancel 2
    "#]]);
    driver.after(3_000);
    driver.answer(5, Answer::Released);
    driver.answer(6, Answer::Cancelled(CancelOutcome::Removed));
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
    driver.answer(2, refused(RefusalCode::NotHolder));
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=2 resume=true
        > 2 (seen 1): release 1
        Released { acquire: 1, result: Err(NotHeld("no")) }
    "#]]);
}

#[test]
fn a_lock_that_is_given_up_without_a_connection_is_released_on_the_next_one() {
    let mut driver = Driver::holding();
    driver.disconnected();
    driver.give_up(1);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.answer(2, Answer::Released);
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=2 resume=true
        > 2 (seen 1): release 1
        Released { acquire: 1, result: Ok(()) }
    "#]]);
}

#[test]
fn a_revoked_lock_is_lost_and_released_when_its_user_has_stopped() {
    let mut driver = Driver::holding();
    driver.hear(ToClient::Revoked { acquire: 1 });
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
    driver.hear(ToClient::Revoked { acquire: 1 });
    driver.answer(1, granted(40));
    driver.says(expect![[r#"
        > 1 (seen 0): acquire a
        Refused { acquire: 1, refusal: Lost(Revoked) }
        > 2 (seen 1): release 1
    "#]]);
}

#[test]
fn only_a_waiting_acquire_is_told_that_its_wait_is_hopeless() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    let why = Hopeless { process: 3, message: "m".into() };
    for acquire in [1, 2, 3] {
        driver.hear(ToClient::Hopeless { acquire, why: why.clone() });
    }
    driver.give_up(2);
    driver.hear(ToClient::Hopeless { acquire: 2, why });
    driver.says(expect![[r#"
        > 2 (seen 1): acquire b
        Hopeless { acquire: 2, why: Hopeless { process: 3, message: "m" } }
        > 3 (seen 1): cancel 2
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
    driver.answer(3, frames::Answer::Closed);
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=2 resume=true
        > 3 (seen 2): close
        Released { acquire: 1, result: Ok(()) }
        Disconnect
        Finished { confirmed: true }
    "#]]);
}

/// The Close replaces a Release that is not answered yet, and a Cancel.
#[test]
fn a_close_confirms_what_was_given_up_before_it() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    driver.give_up(1);
    driver.give_up(2);
    driver.said();
    driver.close();
    driver.answer(5, frames::Answer::Closed);
    driver.says(expect![[r#"
        Lost(Closed)
        > 5 (seen 4): close
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
    driver.after(8_999).says(expect![""]);
    driver.after(1).says(expect![[r#"
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
    driver.answer(1, frames::Answer::Closed);
    driver.says(expect![[r#"
        Refused { acquire: 1, refusal: Refused(Refusal { code: Invalid, message: "the server answered an acquire by Closed, which makes no sense", cycle: [] }) }
        > 2 (seen 1): cancel 1
    "#]]);
}

#[test]
fn a_deadlock_shows_its_cycle() {
    let mut driver = Driver::opened();
    driver.acquire(&wish("a"));
    driver.said();
    let cycle = vec![Wait { owner: 7, label: "x".into(), lock: "a".into() }];
    let refusal = Refusal { cycle, ..Refusal::new(RefusalCode::Deadlock, "") };
    driver.answer(1, frames::Answer::Refused(refusal.clone()));
    driver.says(expect![[r#"
        Refused { acquire: 1, refusal: Refused(Refusal { code: Deadlock, message: "", cycle: [Wait { owner: 7, label: "x", lock: [97] }] }) }
    "#]]);
    expect![[r#"the request would wait for itself: 0000000000000007 (x) waits for "a""#]]
        .assert_eq(&NotGranted::Refused(refusal).to_string());
}

#[test]
fn a_session_is_settled_when_the_server_has_taken_back_all_that_was_given_up() {
    let mut driver = Driver::holding();
    driver.acquire(&wish("b"));
    assert!(driver.session.is_settled(), "nothing was given up");
    driver.give_up(1);
    driver.give_up(2);
    driver.answer(3, Answer::Released);
    driver.answer(4, refused(RefusalCode::TooManyRequests));
    assert!(!driver.session.is_settled(), "the cancel is asked for again");
    driver.after(3_000);
    driver.answer(5, Answer::Cancelled(CancelOutcome::Removed));
    assert!(driver.session.is_settled());
    // The end of the session settles the rest.
    let mut driver = Driver::holding();
    driver.give_up(1);
    driver.hear(ToClient::Ended { reason: EndReason::Expired, message: String::new() });
    assert!(driver.session.is_settled());
}
