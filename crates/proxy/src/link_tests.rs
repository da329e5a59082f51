use super::*;

const FORWARD: Direction = Direction::Forward;
const BACKWARD: Direction = Direction::Backward;

fn born(link: &Link) -> Birth {
    link.accept().expect("the link is not cut")
}

fn cut() -> Conditions {
    Conditions { cut: true, ..Conditions::default() }
}

#[test]
fn a_cut_ends_older_connections_and_refuses_new_ones_until_the_link_is_healed() {
    let mut link = Link::default();
    let old = born(&link);
    assert_eq!(link.fate(old), None);
    link.set(cut());
    assert_eq!(link.fate(old), Some(End::Cut));
    assert_eq!(link.accept(), None);
    link.heal();
    assert_eq!(link.fate(old), Some(End::Cut), "a connection that has not looked in time is cut too");
    let new = born(&link);
    assert_eq!(link.fate(new), None);
}

#[test]
fn closes_and_resets_end_older_connections_only() {
    for (command, end) in [(Link::close as fn(&mut Link), End::Cut), (Link::reset, End::Reset)] {
        let mut link = Link::default();
        let old = born(&link);
        command(&mut link);
        assert_eq!(link.fate(old), Some(end));
        assert_eq!(link.fate(born(&link)), None);
    }
}

#[test]
fn a_limit_cuts_after_exactly_so_many_bytes() {
    let mut link = Link::default();
    link.cut_after(FORWARD, 10);
    assert!(link.has_limit(FORWARD) && !link.has_limit(BACKWARD));
    assert_eq!(link.allow(0, BACKWARD, 100), Allowance::Bytes(100));
    assert_eq!(link.allow(0, FORWARD, 4), Allowance::Bytes(4));
    assert!(!link.passed(0, FORWARD, 4));
    assert_eq!(link.allow(0, FORWARD, 100), Allowance::Bytes(6));
    assert!(!link.passed(0, FORWARD, 5), "the socket took only a part");
    assert_eq!(link.allow(0, FORWARD, 95), Allowance::Bytes(1));
    assert!(link.passed(0, FORWARD, 1));
    assert!(!link.has_limit(FORWARD), "once");
    assert_eq!(link.allow(1, FORWARD, 100), Allowance::Bytes(100));
}

#[test]
fn a_limit_of_zero_cuts_before_the_next_byte() {
    let mut link = Link::default();
    link.cut_after(FORWARD, 0);
    assert_eq!(link.allow(0, FORWARD, 4), Allowance::Cut);
    assert!(!link.has_limit(FORWARD));
}

#[test]
fn one_connection_has_a_limit_and_leaves_the_rest_to_the_next() {
    let mut link = Link::default();
    link.cut_after(FORWARD, 10);
    assert_eq!(link.allow(0, FORWARD, 4), Allowance::Bytes(4));
    assert_eq!(link.allow(1, FORWARD, 100), Allowance::Bytes(100), "it is not the limit of this connection");
    assert!(!link.passed(1, FORWARD, 100));
    assert!(!link.passed(0, FORWARD, 4));
    link.leave(1);
    assert_eq!(link.allow(1, FORWARD, 100), Allowance::Bytes(100));
    link.leave(0);
    assert_eq!(link.allow(1, FORWARD, 100), Allowance::Bytes(6));
    link.heal();
    assert!(!link.has_limit(FORWARD));
    assert!(!link.passed(1, FORWARD, 6));
}

#[test]
fn commands_and_weather_hold_side_by_side() {
    let delay = |ms| Delay { min: Duration::from_millis(ms), max: Duration::from_millis(2 * ms) };
    let mut link = Link::default();
    link.set(Conditions { hold_forward: true, delay: delay(1), ..Conditions::default() });
    let weather = link.start_weather(delay(10));
    assert!(link.begin(weather, Fault::CutOneWay(BACKWARD)));
    assert!(link.conditions().is_silent());
    assert_eq!(link.conditions().delay, delay(11));
    link.end(weather);
    assert!(link.conditions().holds(FORWARD) && !link.conditions().holds(BACKWARD));
    assert_eq!(link.conditions().delay, delay(11));
    assert_eq!(link.commanded().delay, delay(1));
    link.heal();
    assert_eq!(link.conditions(), Conditions::default());
}

#[test]
fn every_fault_of_the_weather_does_what_the_command_does() {
    let mut link = Link::default();
    let weather = link.start_weather(Delay::default());
    let old = born(&link);
    assert!(link.begin(weather, Fault::Hold));
    assert!(link.conditions().is_silent());
    link.end(weather);
    assert!(link.begin(weather, Fault::CutAfter(BACKWARD, 3)));
    assert_eq!(link.allow(0, BACKWARD, 9), Allowance::Bytes(3));
    assert_eq!(link.fate(old), None);
    assert!(link.begin(weather, Fault::Cut));
    assert_eq!((link.fate(old), link.accept()), (Some(End::Cut), None));
    link.end(weather);
    let old = born(&link);
    assert!(link.begin(weather, Fault::Reset));
    assert_eq!(link.fate(old), Some(End::Reset));
}

#[test]
fn a_weather_that_is_over_changes_nothing() {
    let mut link = Link::default();
    let first = link.start_weather(Delay::default());
    let second = link.start_weather(Delay::default());
    assert!(!link.begin(first, Fault::Hold));
    assert!(link.begin(second, Fault::Hold));
    link.end(first);
    assert!(link.conditions().is_silent());
    link.heal();
    assert!(!link.begin(second, Fault::Hold));
    assert_eq!(link.conditions(), Conditions::default());
}
