//! Failure detectors may report a crash or a recovery to one process after the other, in any order.
//!
//! After each report all messages arrive before the next report.

use std::collections::VecDeque;

use baton_protocol::election::{Command, Election, Event};
use baton_protocol::registry::{self, About, Params, Visitor};
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start};

#[test]
fn a_ring_agrees_after_a_crash_whatever_the_order_of_the_reports() {
    for n in 3..=6 {
        for (name, variant) in [("chang-roberts", None), ("chang-roberts", Some("descending")), ("ring-list", None)] {
            let failed = orders(n).iter().filter(|crash| !agrees(name, variant, n, crash, None)).count();
            assert_eq!(failed, 0, "{name} {variant:?}: n = {n}, of {} orders", orders(n).len());
        }
    }
}

#[test]
fn a_ring_agrees_after_a_return_whatever_the_order_of_the_reports() {
    for n in 3..=5 {
        for (crash, memory) in orders(n).iter().flat_map(|crash| [(crash, true), (crash, false)]) {
            for back in orders(n) {
                let agreed = agrees("chang-roberts", None, n, crash, Some((&back, memory)));
                assert!(agreed, "n = {n}: crash reported in order {crash:?}, return in {back:?}, memory: {memory}");
            }
        }
    }
}

/// All orders of the processes but the last, which crashes.
fn orders(n: usize) -> Vec<Vec<ProcessId>> {
    let mut orders = vec![vec![]];
    for process in 0..n - 1 {
        let longer = orders.iter().flat_map(|order: &Vec<ProcessId>| {
            (0..=order.len()).map(move |place| [&order[..place], &[process], &order[place..]].concat())
        });
        orders = longer.collect();
    }
    orders
}

/// Whether all processes agree after the crash of the leader, and after its return if there is one.
fn agrees(
    name: &str,
    variant: Option<&str>,
    n: usize,
    crash: &[ProcessId],
    back: Option<(&[ProcessId], bool)>,
) -> bool {
    let params = Params { variant: variant.map(str::to_owned), ..Params::new(n, 1) };
    registry::visit(name, &params, Reported { crash, back }).unwrap()
}

struct Reported<'a> {
    crash: &'a [ProcessId],
    back: Option<(&'a [ProcessId], bool)>,
}

impl Visitor for Reported<'_> {
    type Output = bool;

    fn unsupported(self, about: &'static About) -> bool {
        panic!("{} is no election", about.name)
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> bool {
        let n = group.processes;
        let last = n - 1;
        let processes: Vec<P> = (0..n).map(&group.make).collect();
        let mut ring = Ring { processes, leaders: vec![None; n], down: None, in_flight: VecDeque::new() };
        (0..n).for_each(|process| ring.step(process, Input::Start(Start::Fresh)));
        ring.step(0, Input::Command(Command::Elect));
        ring.settle();
        assert!(ring.follow(last));
        ring.down = Some(last);
        for &process in self.crash {
            ring.step(process, Input::Suspect(last));
            ring.settle();
        }
        let agreed = ring.follow(last - 1);
        let Some((back, memory)) = self.back else { return agreed };
        ring.down = None;
        if !memory {
            ring.processes[last].forget((group.make)(last));
        }
        ring.step(last, Input::Start(Start::Recovered));
        for &process in back {
            ring.step(process, Input::Trust(last));
            ring.settle();
        }
        agreed && ring.follow(last)
    }
}

struct Ring<P: Election> {
    processes: Vec<P>,
    leaders: Vec<Option<ProcessId>>,
    down: Option<ProcessId>,
    in_flight: VecDeque<(ProcessId, ProcessId, P::Message)>,
}

impl<P: Election> Ring<P> {
    fn step(&mut self, at: ProcessId, input: Input<P>) {
        let mut out = Outbox::new(Choices::scripted(Vec::new()));
        self.processes[at].step(input, &mut out);
        for output in out.drain() {
            match output {
                Output::Send { to, message } => self.in_flight.push_back((at, to, message)),
                Output::Event(Event::Elected { leader, .. }) => self.leaders[at] = leader,
                Output::SetTimer { .. } | Output::CancelTimer(_) | Output::Stamp(_) => {}
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some((from, to, message)) = self.in_flight.pop_front() else { return };
            if self.down != Some(to) {
                self.step(to, Input::Message { from, message });
            }
        }
        panic!("messages go round for ever");
    }

    /// Whether all live processes follow `leader`.
    fn follow(&self, leader: ProcessId) -> bool {
        let mut live = (0..self.processes.len()).filter(|&process| self.down != Some(process));
        live.all(|process| self.leaders[process] == Some(leader))
    }
}
