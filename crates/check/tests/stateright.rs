//! An independent oracle: stateright explores the same models, and must find the same numbers of states.

use baton_check::{LinkOrder, Options, Property, Verdict, check};
use baton_protocol::Group;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{About, Params, Visitor, visit};
use stateright::{Checker, Model};

mod adapter;
use adapter::Adapter;

struct Count {
    order: LinkOrder,
    entries: u32,
    timers: u32,
}

impl Visitor for Count {
    type Output = usize;

    fn unsupported(self, about: &'static About) -> usize {
        panic!("{} is not for mutual exclusion", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> usize {
        let model = Adapter { group, order: self.order, entries: self.entries, timers: self.timers };
        let checker = model.checker().spawn_bfs().join();
        checker.assert_properties();
        checker.unique_state_count()
    }
}

#[track_caller]
fn assert_same_count(algorithm: &str, params: &Params, order: LinkOrder, entries: u32, timers: u32) {
    let counted = visit(algorithm, params, Count { order, entries, timers }).unwrap();
    let properties = Some(vec![Property::Safety, Property::Deadlock]);
    let options = Options { order: Some(order), entries, timers, properties, ..Options::default() };
    let report = check(algorithm, params, &options).unwrap();
    assert_eq!((report.result, report.states), (Verdict::Holds, counted), "{algorithm}, {order}, n = {}", params.n);
}

#[test]
fn both_come_to_the_same_numbers() {
    let sizes: [(&str, &[(usize, u32)]); 10] = [
        ("central", &[(2, 2), (3, 1)]),
        ("lamport", &[(2, 1), (2, 2)]),
        ("ricart-agrawala", &[(2, 2), (3, 1)]),
        ("carvalho-roucairol", &[(2, 2), (3, 1)]),
        ("maekawa", &[(2, 2), (3, 1)]),
        ("suzuki-kasami", &[(2, 2), (3, 1)]),
        ("singhal", &[(2, 2), (3, 1)]),
        ("raymond", &[(2, 2), (3, 2)]),
        ("naimi-trehel", &[(2, 2), (3, 2)]),
        ("token-ring", &[(2, 2), (3, 2)]),
    ];
    for (algorithm, sizes) in sizes {
        for &(n, entries) in sizes {
            assert_same_count(algorithm, &Params::new(n, 1), LinkOrder::Fifo, entries, 0);
            if algorithm != "lamport" {
                assert_same_count(algorithm, &Params::new(n, 1), LinkOrder::Unordered, entries, 0);
            }
        }
    }
}

#[test]
fn both_go_into_every_branch_of_a_choice() {
    let voters = |coordinators| Params { coordinators: Some(coordinators), ..Params::new(2, 1) };
    assert_same_count("voting", &voters(1), LinkOrder::Unordered, 2, 1);
    assert_same_count("voting", &voters(2), LinkOrder::Unordered, 1, 1);
}
