//! The same model through this checker or through stateright, for `cargo xtask bench`: prints one JSON object with the
//! distinct states, the seconds and the most memory that the process has used.
//!
//! `cargo run --release --example against_stateright -- baton|stateright ALGORITHM N ENTRIES THREADS STATES_MAX`

use std::time::Instant;

use baton_check::{LinkOrder, Options, Property, check};
use baton_protocol::Group;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{About, Params, Visitor, visit};
use serde_json::json;
use stateright::{Checker, Model};

#[path = "../tests/adapter/mod.rs"]
mod adapter;
use adapter::Adapter;

struct Stateright {
    entries: u32,
    threads: usize,
    limit: usize,
}

impl Visitor for Stateright {
    type Output = usize;

    fn unsupported(self, about: &'static About) -> usize {
        panic!("{} is not for mutual exclusion", about.name)
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> usize {
        let model = Adapter { group, order: LinkOrder::Unordered, entries: self.entries, timers: 0 };
        model.checker().threads(self.threads).target_state_count(self.limit).spawn_bfs().join().unique_state_count()
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checker, algorithm, n, entries, threads, limit] = &args[..] else { panic!("six arguments, not {args:?}") };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (params, entries) = (Params::new(number(n), 1), number(entries) as u32);
    let (threads, limit) = (number(threads), number(limit));
    let started = Instant::now();
    let states = if checker == "baton" {
        let properties = Some(vec![Property::Safety, Property::Deadlock]);
        let order = Some(LinkOrder::Unordered);
        let options =
            Options { order, entries, timers: 0, properties, threads: Some(threads), limit, ..Options::default() };
        check(algorithm, &params, &options).expect("a model").states
    } else {
        visit(algorithm, &params, Stateright { entries, threads, limit }).expect("a model")
    };
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", json!({"checker": checker, "states": states, "seconds": seconds, "memory_kib": memory_kib()}));
}

fn memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
