//! Record append: every append gets an offset, and no two appends get the same one. The files are not in the trace.

use std::collections::BTreeMap;

use baton_protocol::{ProcessId, Property};
use baton_trace::Event;

use super::{Found, JudgedProperty, Place, Rules};
use crate::oracle::Finding;

#[derive(Default)]
pub struct AppendWatch {
    /// The append that each process waits for, and where it began.
    pending: BTreeMap<ProcessId, (u64, Place)>,
    /// The process that was told each offset, and the record that told it.
    told: BTreeMap<u64, (ProcessId, Place)>,
}

impl AppendWatch {
    pub fn see(&mut self, p: ProcessId, event: &Event, place: Place, found: &mut Found) {
        match event {
            Event::Append { req } => {
                if let Some((earlier, since)) = self.pending.insert(p, (*req, place)) {
                    let detail = format!("P{p} makes append {req}, and was not told the offset of append {earlier}");
                    found.add("liveness", detail, [since, place]);
                }
            }
            Event::Appended { req, offset } => {
                if self.pending.remove(&p).is_none_or(|(pending, _)| pending != *req) {
                    found.add(
                        "safety",
                        format!("P{p} is told the offset of append {req}, which it does not wait for"),
                        [place],
                    );
                }
                if let Some((other, earlier)) = self.told.insert(*offset, (p, place)) {
                    found.add("safety", format!("P{other} and P{p} were both told offset {offset}"), [earlier, place]);
                }
            }
            // The user no longer waits.
            Event::Crash => {
                self.pending.remove(&p);
            }
            _ => {}
        }
    }

    pub fn verdicts(self, rules: &Rules, found: &mut Found) -> Vec<JudgedProperty> {
        let promised = |property| rules.promises.include(property);
        let waiting = self.pending.first_key_value();
        let answered = match (waiting, rules.excuse()) {
            (None, _) => Finding::held(),
            (Some((p, _)), Some(excuse)) => Finding::unchecked(format!("P{p} waits at the end, but {excuse}")),
            (Some((p, (_, since))), None) => {
                found.add("liveness", format!("P{p} has appended, and waits at the end"), [*since]);
                Finding::held()
            }
        };
        let different =
            format!("no two of {} appends have the same offset; the files are not in the trace", self.told.len());
        let all = "every append got its offset, or its process crashed".to_owned();
        vec![
            found.verdict("safety", promised(Property::Safety), different, Finding::held()),
            found.verdict("liveness", promised(Property::Liveness), all, answered),
        ]
    }
}
