use super::*;
use crate::link::Delay;

const NONE: Conditions = Conditions {
    delay: Delay { min: Duration::ZERO, max: Duration::ZERO },
    hold_forward: false,
    hold_backward: false,
    cut: false,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn late(min: u64, max: u64) -> Conditions {
    Conditions { delay: Delay { min: ms(min), max: ms(max) }, ..NONE }
}

fn lane() -> Lane {
    Lane::new(7, 0, Direction::Forward)
}

/// When each of many chunks, which all arrive at 0, may be written.
fn dues(mut lane: Lane, conditions: &Conditions) -> Vec<Duration> {
    for _ in 0..CHUNKS_MAX {
        lane.arrived(ms(0), b"x");
    }
    let mut now = ms(0);
    let mut dues = Vec::new();
    while let Step::Rest(Some(due)) = lane.decide(now, conditions) {
        dues.push(due);
        now = now.max(due);
        while lane.decide(now, conditions) == Step::Write(b"x") {
            lane.wrote(1);
        }
    }
    dues
}

#[test]
fn bytes_pass_at_once_and_the_end_after_them() {
    let mut lane = lane();
    assert_eq!(lane.decide(ms(0), &NONE), Step::Rest(None));
    lane.arrived(ms(0), b"abc");
    lane.arrived(ms(0), b"");
    assert!(!lane.reads(&NONE), "there is nothing after the end");
    assert_eq!(lane.decide(ms(0), &NONE), Step::Write(b"abc"));
    lane.wrote(2);
    assert_eq!(lane.decide(ms(0), &NONE), Step::Write(b"c"));
    lane.wrote(1);
    assert_eq!(lane.decide(ms(0), &NONE), Step::Finish);
}

#[test]
fn a_full_lane_stops_reading_until_a_chunk_is_written() {
    let mut lane = lane();
    for _ in 0..CHUNKS_MAX {
        assert!(lane.reads(&NONE));
        lane.arrived(ms(0), b"x");
    }
    assert!(!lane.reads(&NONE));
    lane.wrote(1);
    assert!(lane.reads(&NONE));
}

#[test]
fn a_held_lane_neither_reads_nor_writes_nor_ends_and_the_other_direction_goes_on() {
    let held = Conditions { hold_forward: true, ..NONE };
    let mut forward = lane();
    forward.arrived(ms(0), b"abc");
    assert_eq!(forward.decide(ms(0), &held), Step::Rest(None));
    assert!(!forward.reads(&held));
    assert_eq!(forward.decide(ms(0), &NONE), Step::Write(b"abc"), "nothing is lost");
    forward.wrote(3);
    forward.arrived(ms(0), b"");
    assert_eq!(forward.decide(ms(0), &held), Step::Rest(None));

    let mut backward = Lane::new(7, 0, Direction::Backward);
    backward.arrived(ms(0), b"abc");
    assert_eq!(backward.decide(ms(0), &held), Step::Write(b"abc"));
    assert!(backward.reads(&held));
}

#[test]
fn each_hold_is_new_once() {
    let held = Conditions { hold_forward: true, ..NONE };
    let mut lane = lane();
    let seen = [&NONE, &held, &held, &NONE, &held].map(|conditions| lane.is_newly_held(conditions));
    assert_eq!(seen, [false, true, false, false, true]);
}

#[test]
fn a_chunk_is_late_by_a_time_in_the_range_and_never_overtakes() {
    let conditions = late(10, 20);
    let mut lane = lane();
    for at in 0..30 {
        lane.arrived(ms(at), &[at as u8]);
    }
    for at in 0..30 {
        let Step::Rest(Some(due)) = lane.decide(ms(0), &conditions) else { panic!("not late") };
        assert!(due >= ms(at + 10) && due <= ms(at + 20), "{due:?}");
        assert_eq!(lane.decide(due, &conditions), Step::Write(&[at as u8]));
        lane.wrote(1);
    }
}

#[test]
fn a_shorter_delay_holds_for_chunks_that_wait() {
    let mut lane = lane();
    lane.arrived(ms(5), b"abc");
    assert_eq!(lane.decide(ms(100), &late(3_600_000, 3_600_000)), Step::Rest(Some(ms(3_600_005))));
    assert_eq!(lane.decide(ms(100), &late(200, 200)), Step::Rest(Some(ms(205))));
    assert_eq!(lane.decide(ms(100), &NONE), Step::Write(b"abc"));
    let longest = Delay { min: Duration::MAX, max: Duration::MAX };
    assert_eq!(lane.decide(ms(100), &Conditions { delay: longest, ..NONE }), Step::Rest(Some(Duration::MAX)));
}

#[test]
fn a_seed_gives_the_same_delays_again_and_each_direction_connection_and_seed_has_its_own() {
    let range = late(0, 1_000_000);
    let same = dues(lane(), &range);
    assert!(same.len() > 2);
    assert_eq!(same, dues(lane(), &range));
    let others = [
        Lane::new(7, 0, Direction::Backward),
        Lane::new(7, 1, Direction::Forward),
        Lane::new(8, 0, Direction::Forward),
    ];
    for other in others {
        assert_ne!(same, dues(other, &range));
    }
}
