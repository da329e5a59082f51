//! Links: a message arrives after its send, at its receiver, and as the algorithm assumes: once, in order.

use std::collections::BTreeSet;

use baton_protocol::ProcessId;
use baton_trace::Event;
use rustc_hash::FxHashMap;

use super::{Found, JudgedProperty, Place, Rules};
use crate::oracle::Finding;

pub struct Links {
    fifo: bool,
    once: bool,
    is_real: bool,
    sent: FxHashMap<u64, Sent>,
    /// For each link: how many messages were sent, and the last one sent of those that have arrived.
    links: FxHashMap<(ProcessId, ProcessId), (u64, Option<Arrived>)>,
    crashed: BTreeSet<ProcessId>,
    /// Number of messages whose send is missing, because the trace of their sender is cut off.
    unsent: u64,
}

struct Sent {
    from: ProcessId,
    to: ProcessId,
    is_app: bool,
    /// Counts the messages of the link.
    number: u64,
    place: Place,
    arrived: Option<Place>,
}

#[derive(Clone, Copy)]
struct Arrived {
    msg: u64,
    number: u64,
    place: Place,
}

const NAME: &str = "links";

impl Links {
    pub fn new(rules: &Rules) -> Self {
        Links {
            fifo: rules.fifo,
            once: rules.about.assumes.no_duplicates,
            is_real: rules.is_real,
            sent: FxHashMap::default(),
            links: FxHashMap::default(),
            crashed: BTreeSet::new(),
            unsent: 0,
        }
    }

    pub fn see(&mut self, p: ProcessId, event: &Event, place: Place, found: &mut Found) {
        match event {
            Event::Send { msg, to, .. } => self.send(*msg, p, *to, false, place, found),
            Event::AppSend { msg, to } => self.send(*msg, p, *to, true, place, found),
            Event::Deliver { msg, from, .. } => self.arrive(*msg, *from, p, false, place, found),
            Event::AppDeliver { msg, from } => self.arrive(*msg, *from, p, true, place, found),
            Event::Crash => {
                self.crashed.insert(p);
            }
            Event::Recover { .. } => {
                self.crashed.remove(&p);
            }
            _ => {}
        }
    }

    fn send(&mut self, msg: u64, from: ProcessId, to: ProcessId, is_app: bool, place: Place, found: &mut Found) {
        if from == to {
            found.add(NAME, format!("P{from} sends message {msg} to itself"), [place]);
        }
        let (number, _) = self.links.entry((from, to)).or_default();
        *number += 1;
        let sent = Sent { from, to, is_app, number: *number, place, arrived: None };
        if let Some(earlier) = self.sent.insert(msg, sent) {
            found.add(NAME, format!("message {msg} is sent twice"), [earlier.place, place]);
        }
    }

    fn arrive(&mut self, msg: u64, from: ProcessId, to: ProcessId, is_app: bool, place: Place, found: &mut Found) {
        let Some(sent) = self.sent.get_mut(&msg) else {
            if self.is_real && self.crashed.contains(&from) {
                self.unsent += 1;
            } else {
                found.add(NAME, format!("message {msg} of P{from} arrives at P{to}, and was not sent before"), [place]);
            }
            return;
        };
        if (sent.from, sent.to, sent.is_app) != (from, to, is_app) {
            let detail =
                format!("message {msg} of P{from} arrives at P{to}, and was sent by P{} to P{}", sent.from, sent.to);
            return found.add(NAME, detail, [sent.place, place]);
        }
        if let Some(earlier) = sent.arrived {
            if self.once {
                found.add(NAME, format!("message {msg} of P{from} arrives twice at P{to}"), [earlier, place]);
            }
            return;
        }
        sent.arrived = Some(place);
        if is_app || !self.fifo {
            return;
        }
        let arrived = Arrived { msg, number: sent.number, place };
        let (_, last) = self.links.entry((from, to)).or_default();
        match last {
            Some(last) if last.number > arrived.number => {
                let detail = format!(
                    "message {msg} of P{from} arrives at P{to} after message {}, which was sent later",
                    last.msg
                );
                found.add(NAME, detail, [sent.place, last.place, place]);
            }
            _ => *last = Some(arrived),
        }
    }

    pub fn verdict(self, found: &mut Found) -> JudgedProperty {
        let once = if self.once { ", once" } else { "" };
        let fifo = if self.fifo { ", in the order of the sends" } else { "" };
        let unsent = match self.unsent {
            0 => String::new(),
            unsent => format!("; {unsent} of a crashed process could not be judged, since their sends are missing"),
        };
        found.verdict(NAME, true, format!("messages arrive after their sends{once}{fifo}{unsent}"), Finding::held())
    }
}
