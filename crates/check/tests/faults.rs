//! Protocols with one fault each. The checker must find every fault.

use baton_check::{CheckError, CheckReport, Checker, Faults, LinkOrder, Options, Property, Verdict};
use baton_protocol::mutex::{Command, Event};
use baton_protocol::registry::{About, Assumes, Crashes, Family, Params, Promises, Visitor};
use baton_protocol::{Counter, Group, Input, Outbox, Picture, ProcessId, Protocol, Start};
use expect_test::{Expect, expect};
use serde::{Deserialize, Serialize};

/// A central server, P2, and its two clients, with a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Clerk {
    fault: Fault,
    me: ProcessId,
    busy: bool,
    waiting: Vec<ProcessId>,
    grants: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    None,
    /// The server never answers.
    Silent,
    /// The server drops requests that arrive while a client is in the critical section.
    Forgetful,
    /// The server grants every request at once.
    Generous,
    /// The fences fall from grant to grant.
    Backwards,
    /// The server begins with a grant that no client has requested.
    Eager,
    /// The server answers a release as if it were a request.
    Confused,
    /// Shows no counters.
    Secretive,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Message {
    Request,
    Grant(u64),
    Release,
}

impl baton_protocol::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request => "REQUEST",
            Message::Grant(_) => "GRANT",
            Message::Release => "RELEASE",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Message::Grant(fence) = self {
            visit(Counter::Fence, fence);
        }
    }
}

const CLERK: ProcessId = 2;

impl Protocol for Clerk {
    type Message = Message;
    type Timer = std::convert::Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(_) if self.fault == Fault::Eager && self.me == 0 => out.emit(Event::Granted { fence: 0 }),
            Input::Command(Command::Acquire) => out.send(CLERK, Message::Request),
            Input::Command(Command::Release) => out.send(CLERK, Message::Release),
            Input::Message { message: Message::Grant(fence), .. } => out.emit(Event::Granted { fence }),
            Input::Message { from, message: Message::Request } => self.on_request(from, out),
            Input::Message { from, message: Message::Release } => {
                self.busy = false;
                if self.fault == Fault::Confused {
                    self.waiting.push(from);
                }
                self.serve(out);
            }
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new().queue("waiting", self.waiting.iter().copied()).field("busy", self.busy)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if self.fault != Fault::Secretive {
            visit(Counter::Fence, &mut self.grants);
        }
    }
}

impl Clerk {
    fn on_request(&mut self, from: ProcessId, out: &mut Outbox<Self>) {
        match self.fault {
            Fault::Silent => return,
            Fault::Forgetful if self.busy => return,
            Fault::Generous => self.busy = false,
            _ => {}
        }
        self.waiting.push(from);
        self.serve(out);
    }

    fn serve(&mut self, out: &mut Outbox<Self>) {
        if !self.busy && !self.waiting.is_empty() {
            self.busy = true;
            self.grants += 1;
            let fence = if self.fault == Fault::Backwards { 100 - self.grants } else { self.grants };
            out.send(self.waiting.remove(0), Message::Grant(fence));
        }
    }
}

static ABOUT: About = ABOUT_CLERK;

const ABOUT_CLERK: About = About {
    name: "clerk",
    family: Family::Mutex,
    way: None,
    summary: "a central server with faults",
    assumes: Assumes { fifo: true, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

fn run(fault: Fault, options: &Options) -> Result<CheckReport, CheckError> {
    let make = move |me| Clerk { fault, me, busy: false, waiting: Vec::new(), grants: 0 };
    let group = Group::new(2, 3, make);
    Checker { params: &Params::new(2, 1), options }.mutex(&ABOUT, group)
}

#[track_caller]
fn assert_found(fault: Fault, options: &Options, property: Property, transcript: Expect) {
    let report = run(fault, options).unwrap();
    transcript.assert_eq(&format!("{}\n", report.counterexample.expect("a counterexample").join("\n")));
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(property)));
}

#[test]
fn without_a_fault_nothing_is_found() {
    let report = run(Fault::None, &Options { entries: 2, ..Options::default() }).unwrap();
    assert_eq!((report.result, report.order), (Verdict::Holds, LinkOrder::Fifo));
}

/// The server counts its grants for ever, so the states are finitely many only if the checker knows of that counter.
#[test]
fn an_algorithm_that_shows_no_counters_gets_a_hint_instead_of_a_verdict_on_liveness() {
    let cyclic = |fault, limit| {
        let properties = Some(vec![Property::Liveness]);
        run(fault, &Options { properties, limit, ..Options::default() }).unwrap().cyclic.unwrap()
    };
    let secretive = cyclic(Fault::Secretive, 1_000);
    assert_eq!(secretive.result, Verdict::Limit);
    assert!(secretive.hint.unwrap().contains("`Protocol::counters`"), "{secretive:?}");
    let known = cyclic(Fault::None, 1_000);
    assert_eq!((known.result, known.hint), (Verdict::Holds, None));
    let limited = cyclic(Fault::None, 10);
    assert_eq!((limited.result, limited.hint), (Verdict::Limit, None), "it shows its counter");
}

#[test]
fn one_that_is_never_answered_waits_for_ever() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P0 -> P2 REQUEST
            deadlock: P0 waits, and nothing can happen
    "#]];
    assert_found(Fault::Silent, &Options::default(), Property::Deadlock, transcript);
}

#[test]
fn one_that_is_forgotten_waits_for_ever() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P0 -> P2 REQUEST
        4   P1 -> P2 REQUEST
        5   P2 -> P0 GRANT 1; P0 enters (fence 1)
        6   P0 leaves
        7   P0 -> P2 RELEASE
            deadlock: P1 waits, and nothing can happen
    "#]];
    assert_found(Fault::Forgetful, &Options::default(), Property::Deadlock, transcript);
}

#[test]
fn two_that_are_let_in_are_seen() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P0 -> P2 REQUEST
        4   P1 -> P2 REQUEST
        5   P2 -> P0 GRANT 1; P0 enters (fence 1)
        6   P2 -> P1 GRANT 2; P1 enters (fence 2)
            safety: P1 and P0 are in the critical section at once
    "#]];
    assert_found(Fault::Generous, &Options::default(), Property::Safety, transcript);
    let blind = Options { properties: Some(vec![Property::Deadlock]), ..Options::default() };
    assert_eq!(run(Fault::Generous, &blind).unwrap().result, Verdict::Holds, "safety was not asked for");
}

#[test]
fn fences_that_fall_are_seen() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P0 -> P2 REQUEST
        4   P1 -> P2 REQUEST
        5   P2 -> P0 GRANT 99; P0 enters (fence 99)
        6   P0 leaves
        7   P0 -> P2 RELEASE
        8   P2 -> P1 GRANT 98; P1 enters (fence 98)
            fence: P1 enters with fence 98, after an entry with fence 99
    "#]];
    assert_found(Fault::Backwards, &Options::default(), Property::Fence, transcript);
}

#[test]
fn a_grant_that_nobody_asked_for_is_seen() {
    let transcript = expect![[r#"
        1   P0 asks
        2   P0 -> P2 REQUEST
        3   P2 -> P0 GRANT 1; P0 enters (fence 1)
        4   P0 leaves
        5   P0 -> P2 RELEASE
        6   P2 -> P0 GRANT 2; P0 enters (fence 2)
            safety: P0 was granted without a request
    "#]];
    assert_found(Fault::Confused, &Options::default(), Property::Safety, transcript);
    let report = run(Fault::Eager, &Options::default()).unwrap();
    assert_eq!((report.property, report.steps), (Some(Property::Safety), Some(0)));
}

#[test]
fn a_model_in_which_nobody_enters_proves_nothing() {
    let blind = Options { properties: Some(vec![Property::Safety]), ..Options::default() };
    let report = run(Fault::Silent, &blind).unwrap();
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Reachability)));
    assert_eq!((report.complete, report.steps, report.counterexample), (true, None, None));
}

/// In any model of mutual exclusion two processes can wait at the same time. If they never do, no property was tested,
/// even if each of them enters.
#[test]
fn a_model_in_which_two_never_wait_at_once_proves_nothing() {
    let gate = |waits| Gate { waits, ..Gate::default() };
    let deadlock = Options { properties: Some(vec![Property::Deadlock]), ..Options::default() };
    let report = pass(gate(false), &deadlock);
    assert_eq!((report.result, report.property), (Verdict::Violated, Some(Property::Reachability)));
    assert!(report.reached.entries > 0 && report.reached.waiting_together == 0 && report.complete);
    assert_eq!((report.steps, report.counterexample), (None, None));
    let report = pass(gate(true), &deadlock);
    assert_eq!(report.result, Verdict::Holds, "{:#?}", report.counterexample);
    // A missing verdict stays missing.
    let limited = Options { limit: 3, ..deadlock };
    assert_eq!(pass(gate(false), &limited).result, Verdict::Limit);
}

fn with_a_crash(property: Property) -> Options {
    let faults = Faults { crash: 1, ..Faults::NONE };
    Options { properties: Some(vec![property]), faults, ..Options::default() }
}

/// A gate asserts that it gets no command before it is ready.
#[test]
fn who_comes_back_is_asked_nothing_before_it_is_ready() {
    let crash = with_a_crash(Property::Deadlock);
    let report = pass(Gate { waits: true, opens: true, ..Gate::default() }, &crash);
    assert_eq!(report.result, Verdict::Holds, "{:#?}", report.counterexample);
    let report = pass(Gate { waits: true, opens: false, ..Gate::default() }, &crash);
    expect![[r#"
        1   P0 crashes
        2   P1 suspects P0
        3   P0 recovers
        4   P1 trusts P0 again
            deadlock: P0 waits, and nothing can happen
    "#]]
    .assert_eq(&format!("{}\n", report.counterexample.expect("a counterexample").join("\n")));
}

/// If a timer fires again and again there is no deadlock, but a process may wait for ever.
#[test]
fn who_comes_back_and_is_never_ready_starves() {
    let gate = |opens| Gate { waits: true, opens, rings: true, ..Gate::default() };
    assert_eq!(pass(gate(true), &with_a_crash(Property::Liveness)).result, Verdict::Holds);
    assert_eq!(pass(gate(false), &with_a_crash(Property::Deadlock)).result, Verdict::Holds);
    let report = pass(gate(false), &with_a_crash(Property::Liveness));
    expect![[r#"
        1   P0 crashes
        2   P1 suspects P0
        3   P0 recovers
        4   P1 trusts P0 again
            and from here on, again and again:
        5   P1 timer Ring
            liveness: P0 waits for ever, while others enter again and again or messages go round
    "#]]
    .assert_eq(&format!("{}\n", report.counterexample.expect("a counterexample").join("\n")));
    assert!(report.trace.expect("a trace").header.workload.cycle_from.is_some());
}

/// Grants every request. After a recovery it is shut until it opens again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Gate {
    /// Whether a process waits for a timer before it enters.
    waits: bool,
    /// Whether the gate opens again after a recovery.
    opens: bool,
    /// Whether a timer keeps firing for ever.
    rings: bool,
    shut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    Enter,
    Open,
    Ring,
}

impl Protocol for Gate {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Recovered) => {
                self.shut = true;
                if self.opens {
                    out.set_timer(Timer::Open, 1);
                }
            }
            Input::Timer(Timer::Open) => self.shut = false,
            Input::Start(Start::Fresh) | Input::Timer(Timer::Ring) if self.rings => out.set_timer(Timer::Ring, 1),
            Input::Command(Command::Acquire) => {
                assert!(!self.shut, "it is asked before it is ready");
                match self.waits {
                    true => out.set_timer(Timer::Enter, 1),
                    false => out.emit(Event::Granted { fence: 1 }),
                }
            }
            Input::Timer(Timer::Enter) => out.emit(Event::Granted { fence: 1 }),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new().field("shut", self.shut)
    }

    fn is_ready(&self) -> bool {
        !self.shut
    }
}

static GATE: About = About {
    name: "gate",
    assumes: Assumes { crashes: Crashes::Detected, ..Assumes::LOSSLESS },
    summary: "a gate that opens late",
    ..ABOUT_CLERK
};

fn pass(gate: Gate, options: &Options) -> CheckReport {
    let group = Group::new(2, 2, move |_| gate.clone());
    Checker { params: &Params::new(2, 1), options }.mutex(&GATE, group).unwrap()
}

#[test]
fn a_weaker_network_than_assumed_is_refused_unless_asked_for_twice() {
    let unordered = Options { order: Some(LinkOrder::Unordered), ..Options::default() };
    assert_eq!(
        run(Fault::None, &unordered).unwrap_err().to_string(),
        "`clerk` assumes links that keep the order of messages, and these do not; --ignore-assumptions checks it \
         all the same"
    );
    let report = run(Fault::None, &Options { ignore_assumptions: true, entries: 2, ..unordered }).unwrap();
    assert_eq!(report.order, LinkOrder::Unordered);
}
