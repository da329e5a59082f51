//! Connections: what the session sends on each connection, and when it wants another one.

use baton_types::limits::MISSING_MAX;

use super::super::engine::LAST_NUMBERS;
use super::*;

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
        > open 9 attempt=1 resume=false
    "#]]);
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
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
        > open 9 attempt=2 resume=true
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
        > open 9 attempt=2 resume=true
        > 3 (seen 2): acquire c
        > 5 (seen 4 but [3]): release 2
        > 6 (seen 4 but [3]): release 4
    "#]]);
}

#[test]
fn what_is_missing_is_told_as_far_as_the_server_takes_it() {
    let mut driver = Driver::opened();
    let many = MISSING_MAX as u64;
    // All odd numbers are missing, which is more than one request can report.
    (1..=2 * many + 9).for_each(|_| driver.acquire(&wish("a")));
    (1..=many + 4).for_each(|half| driver.answer(2 * half, granted(half)));
    let odd = |below: u64| (1..below).step_by(2).collect::<Vec<u64>>();
    assert_eq!(driver.session.engine.seen_before(2 * many), (2 * many - 2, odd(2 * many - 2)));
    assert_eq!(driver.session.engine.seen_before(2 * many + 1), (2 * many, odd(2 * many)));
    assert_eq!(driver.session.engine.seen_before(2 * many + 9), (2 * many, odd(2 * many)));
    assert_eq!(odd(2 * many).len(), MISSING_MAX);
    driver.answer(1, granted(0));
    assert_eq!(driver.session.engine.seen_before(2 * many + 9).0, 2 * many + 2);
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

/// Otherwise the lock of a client that ends while its server is stopped stays closed until the lease ends.
#[test]
fn a_close_that_a_silent_server_does_not_answer_is_sent_to_another_one() {
    let mut driver = Driver::holding();
    driver.session.set_alternatives(true);
    driver.after(1_000).close();
    driver.says(expect![[r#"
        Lost(Closed)
        > 2 (seen 1): close
    "#]]);
    assert_eq!(driver.session.next_wake(), Some(driver.now + 1_500));
    driver.after(1_499).says(expect![""]);
    driver.after(1).says(expect![[r#"
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        > open 9 attempt=2 resume=true
        > 2 (seen 1): close
    "#]]);
    // The next one opens the session, and falls silent.
    driver.after(1_499).says(expect![""]);
    driver.after(1).says(expect![[r#"
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.said();
    driver.answer(2, frames::Answer::Closed);
    driver.says(expect![[r#"
        Disconnect
        Finished { confirmed: true }
    "#]]);
}

#[test]
fn a_close_does_not_wait_longer_than_the_keep_alive_before_it() {
    let mut driver = Driver::opened();
    driver.session.set_alternatives(true);
    driver.after(3_000);
    driver.after(1_400).close();
    driver.said();
    driver.after(100).says(expect![[r#"
        Connect to another
    "#]]);
}

#[test]
fn with_other_servers_a_silent_one_is_given_up_after_a_sixth_of_the_lease() {
    let mut driver = Driver::opened();
    driver.session.set_alternatives(true);
    driver.after(3_000);
    driver.said();
    driver.after(1_499).says(expect![""]);
    driver.after(1).says(expect![[r#"
        Connect to another
        AtRisk
    "#]]);
    // The second one is silent too, and there is time for a third.
    driver.connected();
    driver.said();
    driver.after(1_500).says(expect![[r#"
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        > open 9 attempt=3 resume=true
        Confirmed
    "#]]);
    // A short lease leaves a working server enough time.
    let patience = |ttl_ms| {
        let mut driver = Driver::with(ttl_ms, ttl_ms);
        driver.session.set_alternatives(true);
        driver.connected();
        driver.hear(ToClient::Opened { session: 9, ttl_ms, cluster: None, closed_ms: 0 });
        driver.session.patience_ms()
    };
    assert_eq!([1_000, 1_500, 600, 60_000, 600_000].map(patience), [300, 300, 200, 10_000, 10_000]);
}

#[test]
fn a_session_that_moves_to_the_leader_goes_on_there() {
    let mut driver = Driver::opened();
    driver.acquire(&wish("a"));
    driver.said();
    driver.session.moves(driver.now);
    driver.drain();
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=2 resume=true
        > 1 (seen 0): acquire a
    "#]]);
    driver.disconnected();
    driver.said();
    // Without a connection there is nothing to replace.
    driver.session.moves(driver.now);
    driver.drain();
    driver.says(expect![""]);
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
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        > open 9 attempt=2 resume=true
        Confirmed
    "#]]);
    assert_eq!(driver.session.deadline(), Some(1_006_000 + 8_820));
}

#[test]
fn until_a_session_is_opened_each_server_has_its_share_of_the_time() {
    let mut driver = Driver::with(9_000, 500);
    driver.connected();
    driver.after(499).says(expect![[r#"
        Connect
        > open 9 attempt=1 resume=false
    "#]]);
    driver.after(1).says(expect![[r#"
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.disconnected();
    driver.connected();
    driver.said();
    driver.after(2_999).says(expect![""]);
    driver.after(1).says(expect![[r#"
        Connect to another
    "#]]);
}

#[test]
fn a_server_has_half_of_the_time_to_live_to_open_a_session_and_a_late_answer_is_followed_by_a_keep_alive() {
    let mut driver = Driver::new();
    driver.connected();
    driver.after(4_499);
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=1 resume=false
        Opened
        > keep-alive 1
    "#]]);
    let mut driver = Driver::new();
    driver.connected();
    driver.said();
    driver.after(4_500).says(expect![[r#"
        Connect to another
    "#]]);
}

#[test]
fn another_server_is_wanted_after_one_that_was_of_no_use_and_not_after_one_that_worked() {
    let mut driver = Driver::new();
    driver.connected();
    driver.disconnected();
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=1 resume=false
        Connect to another
    "#]]);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.disconnected();
    driver.says(expect![[r#"
        > open 9 attempt=2 resume=false
        Opened
        Connect
    "#]]);
    // An answer for another session.
    driver.connected();
    driver.hear(ToClient::Opened { session: 8, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.disconnected();
    driver.says(expect![[r#"
        > open 9 attempt=3 resume=true
        Connect to another
    "#]]);
}

#[test]
fn a_session_survives_a_silent_server_if_another_one_answers() {
    let mut driver = Driver::with(10_000, 10_000);
    driver.connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 10_000, cluster: None, closed_ms: 0 });
    driver.after(3_333);
    driver.after(3_333).says(expect![[r#"
        Connect
        > open 9 attempt=1 resume=false
        Opened
        > keep-alive 1
        Connect to another
        AtRisk
    "#]]);
    driver.connected();
    driver.after(2_633);
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 10_000, cluster: None, closed_ms: 0 });
    driver.says(expect![[r#"
        > open 9 attempt=2 resume=true
        Confirmed
    "#]]);
    assert_eq!(driver.session.state(driver.now), SessionState::Alive);
}

/// The machine that began the session is gone, or has given it up. Nothing tells when the server will be back.
#[test]
fn the_session_of_another_machine_is_closed_however_long_that_takes() {
    let mut driver = Driver::new();
    driver.said();
    let config = driver.session.engine.config.clone();
    driver.session = Session::closing(config, driver.now);
    driver.session.start();
    driver.after(3_600_000).connected();
    driver.after(2_999);
    driver.says(expect![[r#"
        Connect
        > open 9 attempt=4611686018427387905 resume=true
    "#]]);
    driver.after(1).says(expect![[r#"
        Connect to another
    "#]]);
    driver.after(3_600_000).connected();
    driver.hear(ToClient::Opened { session: 9, ttl_ms: 9_000, cluster: None, closed_ms: 0 });
    driver.answer(LAST_NUMBERS, frames::Answer::Closed);
    driver.says(expect![[r#"
        > open 9 attempt=4611686018427387906 resume=true
        > 4611686018427387904 (seen 4611686018427387903): close
        Disconnect
        Finished { confirmed: true }
    "#]]);
}
