//! Heartbeats: the verdicts of the checker, and a second, naive way to count the states.
//!
//! The naive way stores how long ago each process was last heard, and asks a new detector for its opinion on that. The
//! checker stores the detectors themselves, and shifts their times into the past.

use std::collections::HashSet;

use baton_check::{CheckReport, Checker, Faults, Options, Property, Verdict, check};
use baton_protocol::detector::Detector;
use baton_protocol::registry::{About, Params, Visitor, find, visit};
use baton_protocol::{Group, Picture, ProcessId, Ticks};
use baton_sim::replay::replay;
use baton_trace::{Event, Record};
use expect_test::expect;

/// Asserts that a counterexample can be repeated, with the same outcome.
fn heartbeats(params: &Params, options: &Options) -> CheckReport {
    let report = check("heartbeat", params, options).unwrap();
    if let (Some(trace), Some(property), Some(detail)) = (&report.trace, report.property, &report.detail) {
        let replayed = replay(&trace.header, &trace.records).unwrap();
        assert_eq!((replayed.steps, replayed.shown.as_deref()), (trace.records.len(), Some(property.name())));
        assert!(replayed.violations.contains(&(property.name(), detail.clone())), "{:?}", replayed.violations);
    }
    report
}

#[test]
fn a_counterexample_whose_times_do_not_fit_is_refused() {
    let report = heartbeats(&Params::new(2, 1), &slow(4, Options::default()));
    let trace = report.trace.unwrap();
    let place = |wanted: fn(&Event) -> bool| trace.records.iter().position(|record| wanted(&record.event)).unwrap();
    let suspicion = place(|event| matches!(event, Event::Suspect { .. }));
    let refusal = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = trace.records.clone();
        change(&mut records);
        replay(&trace.header, &records).unwrap_err().to_string()
    };
    let told = [
        refusal(&|records| records[suspicion].t -= 1.0),
        refusal(&|records| records[suspicion].t += 1.0),
        refusal(&|records| _ = records.remove(suspicion)),
        refusal(&|records| _ = records.remove(place(|event| matches!(event, Event::Timer { .. })))),
        refusal(&|records| records.iter_mut().for_each(|record| record.t /= 2.0)),
        refusal(&|records| records.truncate(suspicion)),
    ];
    expect![[r#"
        record 8 does not fit: the trace says P0 {"event":"suspect","peer":1}, the processes say that it is not overdue
        record 8 does not fit: the trace says P0 {"event":"suspect","peer":1}, the processes say that P0 first suspects P1
        the trace claims a violation of safety, but its steps do not lead to one
        record 5 does not fit: the trace says P0 {"event":"send","msg":2,"to":1,"kind":"BEAT","bytes":0}, the processes say that this did not happen
        record 2 does not fit: the trace says P1 {"event":"deliver","msg":0,"from":0,"kind":"BEAT"}, the processes say that it is tick 0 or a later one
        the trace is cut off after 8 records; its last one must be `end`
    "#]]
    .assert_eq(&format!("{}\n", told.join("\n")));
}

#[test]
fn a_counterexample_with_impossible_crashes_is_refused() {
    let trace = heartbeats(&Params::new(2, 1), &slow(4, Options::default())).trace.unwrap();
    let (crash, recover) = (Event::Crash, Event::Recover { memory: true });
    // P0 and P1 have sent their first heartbeats, messages 0 and 1. These events follow at P0, at tick 0.
    let refusal = |events: &[&Event], arrives: Option<(usize, u64)>| {
        let mut records = trace.records[..2].to_vec();
        let record = |p: usize, t: f64, event: Event| Record { seq: 0, t, p: Some(p), resource: None, event };
        for &event in events {
            records.push(record(0, 0.0, event.clone()));
            if matches!(event, Event::Recover { .. }) {
                let Event::Send { to, kind, bytes, body, .. } = records[0].event.clone() else { panic!() };
                records.push(record(0, 0.0, Event::Send { msg: 100, to, kind, bytes, body }));
            }
        }
        let arrival =
            |(to, msg): (usize, u64)| record(to, 1.0, Event::Deliver { msg, from: 1 - to, kind: "BEAT".into() });
        records.extend(arrives.map(arrival));
        replay(&trace.header, &records).unwrap_err().to_string()
    };
    let told = [
        refusal(&[&crash, &crash], None),
        refusal(&[&recover], None),
        refusal(&[&crash, &recover], Some((0, 1))),
        refusal(&[&crash, &recover], Some((1, 0))),
        refusal(&[&crash, &recover], Some((1, 100))),
    ];
    expect![[r#"
        record 0 does not fit: the trace says P0 {"event":"crash"}, the processes say that P0 is down
        record 0 does not fit: the trace says P0 {"event":"recover","memory":true}, the processes say that P0 is not down
        record 0 does not fit: the trace says P0 {"event":"deliver","msg":1,"from":1,"kind":"BEAT"}, the processes say that this message is not in flight
        record 0 does not fit: the trace says P1 {"event":"deliver","msg":0,"from":0,"kind":"BEAT"}, the processes say that this message is not in flight
        the trace is cut off after 6 records; its last one must be `end`
    "#]].assert_eq(&format!("{}\n", told.join("\n")));
}

fn crashes(crash: u8) -> Options {
    Options { faults: Faults { crash, ..Faults::NONE }, ..Options::default() }
}

fn slow(delay: Ticks, options: Options) -> Options {
    Options { delay: Some(delay), ignore_assumptions: true, ..options }
}

fn only(property: Property, options: Options) -> Options {
    Options { properties: Some(vec![property]), ..options }
}

#[track_caller]
fn assert_holds(report: &CheckReport) {
    assert!((report.result, report.complete) == (Verdict::Holds, true), "{report:?}");
    assert_eq!(report.properties, [Property::Safety, Property::Liveness]);
    assert!(report.reached.entries > 0 && (report.reached.suspicions > 0) == (report.faults.crash > 0));
}

/// "Synchronous: D known, no mistakes, detection between D and P + 2D after the crash."
#[test]
fn where_the_bound_is_right_nobody_errs_and_nobody_is_late() {
    let cases = [
        (2, 1, 0, 20),
        (2, 2, 0, 118),
        (3, 1, 0, 144),
        (3, 2, 0, 7_154),
        (2, 1, 1, 1_196),
        (2, 2, 1, 10_642),
        (3, 1, 1, 6_162),
        (2, 1, 2, 12_368),
    ];
    for (n, delay_max, crash, states) in cases {
        let report = heartbeats(&Params::new(n, delay_max), &crashes(crash));
        assert_holds(&report);
        assert_eq!(report.states, states, "n = {n}, D = {delay_max}, {crash} crashes");
        assert_eq!((report.delays, report.entries), (Some((delay_max, delay_max)), 0));
    }
}

/// A detector waits for a heartbeat exactly as long as its timeout says. A longer timeout delays the detection of a
/// crash by the same time.
#[test]
fn who_waits_for_longer_is_as_accurate_and_as_much_later() {
    for variant in ["timeout:2", "timeout:1.5+period:3", "period:1", "period:2+timeout:3"] {
        let params = Params { variant: Some(variant.into()), ..Params::new(2, 2) };
        assert_holds(&heartbeats(&params, &crashes(1)));
    }
}

/// "D is a guess: too small -> the living are suspected." The difference between the delays decides, and no delay is
/// below one tick. Up to D + 2 ticks, the next heartbeat arrives at the latest at the time of the check, and deliveries
/// come first.
#[test]
fn the_living_are_suspected_where_delays_differ_by_more_than_is_allowed_for() {
    for (delay_max, variant) in [(1, "period:10"), (2, "period:10"), (1, "period:3"), (1, "timeout:3")] {
        let params = Params { variant: Some(variant.into()), ..Params::new(2, delay_max) };
        let allowed = if variant == "timeout:3" { 3 } else { delay_max };
        assert_holds(&heartbeats(&params, &slow(allowed + 2, Options::default())));
        let report = heartbeats(&params, &slow(allowed + 3, Options::default()));
        assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Safety)), "{variant}");
        assert_eq!(report.detail.as_deref(), Some("P0 suspects P1, which is alive"));
    }
    let report = heartbeats(&Params::new(2, 1), &slow(4, Options::default()));
    assert_eq!(report.steps, Some(18), "10 ticks to the second beat, 3 in which it is still on its way");
    assert!(report.counterexample.unwrap().contains(&"18  P0 suspects P1".to_owned()));
}

/// A delay of one tick too much is enough to detect a crash later than P + 2D.
#[test]
fn a_slow_network_makes_detection_late_before_it_makes_it_wrong() {
    let report = heartbeats(&Params::new(2, 1), &slow(2, crashes(1)));
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Liveness)));
    let detail = "P1 does not suspect P0, which has been dead for more than 12 ticks";
    assert_eq!((report.steps, report.detail.as_deref()), (Some(19), Some(detail)));
    let safety = heartbeats(&Params::new(2, 1), &only(Property::Safety, slow(2, crashes(1))));
    assert_eq!((safety.result, safety.complete), (Verdict::Holds, true));
}

/// "A lost beat is a mistake unless P + D leaves room for the next one, that is, unless D > P."
#[test]
fn a_lost_beat_is_a_mistake_unless_there_is_room_for_the_next() {
    let loss = |variant: &str| {
        let params = Params { variant: Some(variant.into()), ..Params::new(2, 1) };
        let faults = Faults { loss: 1, ..Faults::NONE };
        heartbeats(&params, &Options { faults, ignore_assumptions: true, ..Options::default() })
    };
    let report = loss("period:3");
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Safety)));
    assert_holds(&loss("period:3+timeout:4"));
}

/// Both copies of a duplicated heartbeat arrive within D.
#[test]
fn beats_may_arrive_twice() {
    let faults = Faults { duplicate: 2, crash: 1, ..Faults::NONE };
    assert_holds(&heartbeats(&Params::new(2, 2), &Options { faults, ..Options::default() }));
}

/// A detector that never suspects a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Blind;

impl Detector for Blind {
    fn period(&self) -> Ticks {
        2
    }

    fn watch(&mut self, _: Ticks) {}

    fn beat(&mut self, _: Ticks) {}

    fn deadline(&self) -> Ticks {
        Ticks::MAX
    }

    fn view(&self, now: Ticks) -> Picture {
        Picture::new().field("suspected", self.suspects(now))
    }

    fn recede(&mut self, _: Ticks) -> bool {
        true
    }
}

/// The blind detector makes no mistakes, but without any suspicion accuracy proves nothing.
#[test]
fn who_suspects_nobody_is_found_out() {
    let params = Params::new(2, 1);
    let blind = |options: Options| {
        let checker = Checker { params: &params, options: &options };
        checker.detector(find("heartbeat").unwrap(), Group::new(2, 2, |_| Blind)).unwrap()
    };
    let all = blind(crashes(1));
    assert_eq!((all.result, all.property), (Verdict::Violated, Some(Property::Liveness)));
    let safety = blind(only(Property::Safety, crashes(1)));
    assert_eq!((safety.result, safety.property), (Verdict::Violated, Some(Property::Reachability)));
    assert_eq!(blind(only(Property::Safety, crashes(0))).result, Verdict::Holds);
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Whole {
    processes: Vec<Process>,
    /// Sender, receiver, and ticks in flight.
    beats: Vec<(ProcessId, ProcessId, Ticks)>,
    /// Whether a process has sent heartbeats or checked a deadline at this instant.
    turn: bool,
    crashes: u8,
    recoveries: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    up: bool,
    changes: u8,
    /// Ticks since the last crash or recovery.
    since: Ticks,
    /// Ticks until the next heartbeat. None if the process is down.
    next: Option<Ticks>,
    /// Ticks since the process last heard each other process, and which processes it suspects.
    silence: Vec<Ticks>,
    suspects: Vec<bool>,
}

struct Counter {
    crashes: u8,
    delay: Ticks,
}

struct Rules {
    n: usize,
    period: Ticks,
    delay: Ticks,
    /// A process is suspected after this many ticks of silence.
    too_long: Ticks,
    noticed_after: Ticks,
}

impl Rules {
    fn others(&self, at: ProcessId) -> impl Iterator<Item = ProcessId> + use<> {
        (0..self.n).filter(move |&peer| peer != at)
    }

    fn beat(&self, state: &mut Whole, at: ProcessId) {
        state.beats.extend(self.others(at).map(|peer| (at, peer, 0)));
        state.beats.sort_unstable();
        state.processes[at].next = Some(self.period);
    }

    fn nexts(&self, state: &Whole) -> Vec<Whole> {
        let mut nexts = Vec::new();
        for index in 0..state.beats.len() {
            let (from, to, age) = state.beats[index];
            if age > 0 && !state.turn {
                let mut next = state.clone();
                next.beats.remove(index);
                if state.processes[to].up {
                    (next.processes[to].silence[from], next.processes[to].suspects[from]) = (0, false);
                }
                nexts.push(next);
            }
        }
        if state.beats.iter().all(|&(_, _, age)| age < self.delay) {
            let due = self.what_is_due(state);
            if due.is_empty() { nexts.push(self.tick(state)) } else { nexts.extend(due) }
        }
        nexts.extend(self.faults(state));
        nexts
    }

    fn what_is_due(&self, state: &Whole) -> Vec<Whole> {
        let mut nexts = Vec::new();
        for (at, process) in state.processes.iter().enumerate() {
            if process.next == Some(0) {
                let mut next = Whole { turn: true, ..state.clone() };
                self.beat(&mut next, at);
                nexts.push(next);
            }
            for peer in self.others(at) {
                if !process.suspects[peer] && process.silence[peer] >= self.too_long {
                    let mut next = Whole { turn: true, ..state.clone() };
                    next.processes[at].suspects[peer] = true;
                    nexts.push(next);
                }
            }
        }
        nexts
    }

    fn tick(&self, state: &Whole) -> Whole {
        let mut next = Whole { turn: false, ..state.clone() };
        next.beats.iter_mut().for_each(|(_, _, age)| *age += 1);
        for (at, process) in next.processes.iter_mut().enumerate() {
            process.since = (process.since + 1).min(self.noticed_after + 1);
            process.next = process.next.map(|next| next - 1);
            for peer in self.others(at).filter(|_| process.up) {
                process.silence[peer] = (process.silence[peer] + 1).min(self.too_long);
            }
        }
        next
    }

    fn faults(&self, state: &Whole) -> Vec<Whole> {
        let mut nexts = Vec::new();
        for (at, process) in state.processes.iter().enumerate() {
            let mut next = state.clone();
            let changes = process.changes + 1;
            let (silence, suspects) = (vec![0; self.n], vec![false; self.n]);
            next.processes[at] = Process { up: !process.up, changes, since: 0, next: None, silence, suspects };
            if process.up && state.crashes > 0 {
                next.crashes -= 1;
                nexts.push(next);
            } else if !process.up && state.recoveries > 0 {
                next.recoveries -= 1;
                next.beats.retain(|&(from, to, _)| from != at && to != at);
                self.beat(&mut next, at);
                nexts.push(next);
            }
        }
        nexts
    }
}

impl Visitor for Counter {
    type Output = usize;

    fn unsupported(self, about: &'static About) -> usize {
        panic!("{} is of a family that this test does not know", about.name)
    }

    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) -> usize {
        let (n, mut detector) = (group.processes, (group.make)(0));
        detector.watch(0);
        let too_long = (0..).find(|&silence| detector.suspects(silence)).unwrap();
        let (period, delay) = (detector.period(), self.delay);
        let rules = Rules { n, period, delay, too_long, noticed_after: period + 2 * delay };
        let since = rules.noticed_after + 1;
        let (silence, suspects) = (vec![0; n], vec![false; n]);
        let process = Process { up: true, changes: 0, since, next: None, silence, suspects };
        let (crashes, recoveries) = (self.crashes, self.crashes);
        let mut start = Whole { processes: vec![process; n], beats: Vec::new(), turn: false, crashes, recoveries };
        (0..n).for_each(|at| rules.beat(&mut start, at));
        let mut seen = HashSet::from([start.clone()]);
        let mut waiting = vec![start];
        while let Some(state) = waiting.pop() {
            waiting.extend(rules.nexts(&state).into_iter().filter(|next| seen.insert(next.clone())));
        }
        seen.len()
    }
}

#[test]
fn both_ways_of_counting_come_to_the_same() {
    for (n, delay_max, crash, variant) in [
        (2, 1, 0, "period:10"),
        (2, 3, 0, "period:2"),
        (3, 1, 0, "period:10"),
        (3, 2, 0, "period:3"),
        (2, 1, 1, "period:10"),
        (2, 2, 1, "period:10"),
        (3, 1, 1, "period:4"),
        (2, 1, 2, "period:3"),
        (2, 1, 2, "period:10"),
    ] {
        let params = Params { variant: Some(variant.into()), ..Params::new(n, delay_max) };
        let report = heartbeats(&params, &crashes(crash));
        assert_holds(&report);
        let counted = visit("heartbeat", &params, Counter { crashes: crash, delay: delay_max }).unwrap();
        assert_eq!(report.states, counted, "n = {n}, D = {delay_max}, {crash} crashes, {variant}");
    }
}
