//! Mutual exclusion: safety, liveness, order, fences, and whether requests, entries and exits fit together.

use std::collections::{BTreeMap, VecDeque};

use baton_protocol::{ProcessId, Property};
use baton_trace::Event;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Ended, Found, JudgedProperty, Place, Rules};
use crate::oracle::Finding;
use crate::oracle::causality::{Causality, Past};
use crate::oracle::mutex::MutexJudge;

/// The name of the rule that requests, entries and exits fit together.
const PAIRS: &str = "pairs";

pub struct MutexWatch {
    judge: MutexJudge,
    /// Which requests happened before which events. None in large groups.
    requests: Option<Known>,
    /// Which exits happened before which events. None if messages alone do not keep stays apart.
    exits: Option<Known>,
    users: Vec<User>,
    /// Every request of the resource.
    made: FxHashSet<u64>,
    /// The entry with the highest fence.
    highest: Option<(u64, Place)>,
    /// The last exit, if no process has crashed since: the process, how many exits it had then, and where.
    last_exit: Option<(ProcessId, u32, Place)>,
    /// Whether a process sent an application message.
    told: bool,
}

/// The user of one process. A process may have requests of several callers, and serves one after the other.
#[derive(Clone, Default)]
struct User {
    current: Option<Current>,
    /// Requests that were made while another was the current one.
    queued: VecDeque<(u64, Place)>,
}

#[derive(Clone, Copy)]
struct Current {
    req: u64,
    requested: Place,
    /// Where the process entered. None: it waits.
    entered: Option<Place>,
}

/// Counts events of each client, and which of them each process and message knows.
struct Known {
    causality: Causality,
    carried: FxHashMap<u64, Past>,
}

impl Known {
    fn new(rules: &Rules) -> Option<Self> {
        (rules.clients <= Causality::CLIENTS_MAX)
            .then(|| Known { causality: Causality::new(rules.processes, rules.clients), carried: FxHashMap::default() })
    }

    fn see(&mut self, p: ProcessId, event: &Event) {
        match event {
            Event::Send { msg, .. } | Event::AppSend { msg, .. } => {
                self.carried.insert(*msg, self.causality.of(p));
            }
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                if let Some(past) = self.carried.get(msg) {
                    self.causality.receive(p, past);
                }
            }
            _ => {}
        }
    }
}

impl MutexWatch {
    pub fn new(rules: &Rules) -> Self {
        let requests = Known::new(rules);
        MutexWatch {
            judge: MutexJudge::new(rules.clients, requests.is_some()),
            requests,
            // In virtual time the order of the records is the order of time, so messages need not show it.
            exits: if rules.is_real && rules.without_timers { Known::new(rules) } else { None },
            users: vec![User::default(); rules.clients],
            made: FxHashSet::default(),
            highest: None,
            last_exit: None,
            told: false,
        }
    }

    pub fn see(&mut self, p: ProcessId, event: &Event, place: Place, found: &mut Found) {
        for known in [&mut self.requests, &mut self.exits].into_iter().flatten() {
            known.see(p, event);
        }
        let is_users = matches!(
            event,
            Event::Request { .. }
                | Event::Enter { .. }
                | Event::Exit { .. }
                | Event::Lost { .. }
                | Event::Cancel { .. }
        );
        if p >= self.users.len() {
            if is_users {
                found.add(PAIRS, format!("P{p} is a helper, and uses the critical section"), [place]);
            }
            return;
        }
        match event {
            Event::AppSend { .. } => self.told = true,
            Event::Request { req, .. } => self.request(p, *req, place, found),
            Event::Enter { req, fence } => self.enter(p, *req, *fence, place, found),
            Event::Exit { req } | Event::Lost { req } => self.exit(p, *req, place, found),
            Event::Cancel { req } => self.cancel(p, *req, place, found),
            Event::Crash => {
                self.judge.see(p, event, None);
                self.users[p] = User::default();
                self.last_exit = None;
            }
            _ => {}
        }
    }

    fn request(&mut self, p: ProcessId, req: u64, place: Place, found: &mut Found) {
        if !self.made.insert(req) {
            found.add(PAIRS, format!("P{p} makes request {req}, which was made before"), [place]);
        }
        self.users[p].queued.push_back((req, place));
        self.next(p);
    }

    /// The next request of the process becomes its current one, unless it has one.
    fn next(&mut self, p: ProcessId) {
        let user = &mut self.users[p];
        if user.current.is_none()
            && let Some((req, requested)) = user.queued.pop_front()
        {
            user.current = Some(Current { req, requested, entered: None });
            let past = self.requests.as_mut().map(|requests| requests.causality.request(p));
            self.judge.see(p, &Event::request(req), past);
        }
    }

    fn enter(&mut self, p: ProcessId, req: u64, fence: u64, place: Place, found: &mut Found) {
        if let Some(Current { req: inside, entered: Some(entered), .. }) = self.users[p].current {
            let detail = format!("P{p} enters for request {req}, and has not left for request {inside}");
            found.add(PAIRS, detail, [entered, place]);
            self.leave(p);
        }
        match self.users[p].current {
            Some(current) if current.req == req => {}
            Some(current) => {
                let detail = format!("P{p} enters for request {req}, and waits for request {}", current.req);
                found.add(PAIRS, detail, [current.requested, place]);
            }
            None => found.add(PAIRS, format!("P{p} enters for request {req}, which it has not made"), [place]),
        }
        self.check_handover(p, place, found);
        let inside: Vec<Place> =
            self.users.iter().filter_map(|user| user.current.and_then(|current| current.entered)).collect();
        for (property, detail) in self.judge.see(p, &Event::Enter { req, fence }, None) {
            let requested = self.users[p].current.map(|current| current.requested);
            let shown = match property {
                "safety" => inside.clone(),
                "fence" => self.highest.map(|(_, place)| place).into_iter().collect(),
                _ => requested.into_iter().collect(),
            };
            found.add(property, detail, shown.into_iter().chain([place]));
        }
        if self.highest.is_none_or(|(highest, _)| fence > highest) {
            self.highest = Some((fence, place));
        }
        if let Some(current) = &mut self.users[p].current {
            current.entered = Some(place);
        }
    }

    /// The clocks of two machines cannot show that one stay was over before the other. A chain of messages does.
    fn check_handover(&mut self, p: ProcessId, place: Place, found: &mut Found) {
        let (Some(exits), Some((other, count, left))) = (&self.exits, self.last_exit) else { return };
        if other != p && exits.causality.of(p).of(other) < count {
            let detail = format!("P{p} enters, and no chain of messages leads there from the exit of P{other}");
            found.add("safety", detail, [left, place]);
        }
    }

    fn exit(&mut self, p: ProcessId, req: u64, place: Place, found: &mut Found) {
        match self.users[p].current {
            Some(Current { req: inside, entered: Some(_), .. }) if inside == req => {}
            _ => found.add(PAIRS, format!("P{p} leaves for request {req}, and has not entered for it"), [place]),
        }
        if let Some(exits) = &mut self.exits {
            let count = exits.causality.request(p).of(p);
            self.last_exit = Some((p, count, place));
        }
        self.leave(p);
        self.next(p);
    }

    fn leave(&mut self, p: ProcessId) {
        if let Some(Current { req, entered: Some(_), .. }) = self.users[p].current {
            self.users[p].current = None;
            self.judge.see(p, &Event::Exit { req }, None);
            self.next(p);
        }
    }

    fn cancel(&mut self, p: ProcessId, req: u64, place: Place, found: &mut Found) {
        let user = &mut self.users[p];
        match user.current {
            Some(current) if current.req == req && current.entered.is_none() => {
                user.current = None;
                self.judge.see(p, &Event::Cancel { req }, None);
                self.next(p);
            }
            _ => match user.queued.iter().position(|(queued, _)| *queued == req) {
                Some(index) => {
                    user.queued.remove(index);
                }
                None => found.add(PAIRS, format!("P{p} cancels request {req}, which does not wait"), [place]),
            },
        }
    }

    pub fn verdicts(self, rules: &Rules, found: &mut Found) -> Vec<JudgedProperty> {
        let waiting = self.waiting();
        let liveness = match (waiting.first_key_value(), rules.excuse()) {
            (None, _) => Finding::held(),
            (Some((p, _)), Some(excuse)) => {
                let others = match waiting.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                Finding::unchecked(format!("P{p}{others} waits at the end, but {excuse}"))
            }
            (Some((p, since)), None) => {
                found.add("liveness", format!("P{p} has requested, and waits at the end"), [*since]);
                Finding::held()
            }
        };
        self.unfinished(rules, waiting.is_empty(), found);
        let order = match self.requests {
            Some(_) => self.finding(Property::Order, rules),
            None => Finding::unchecked(format!("happened-before is kept for up to {} clients", Causality::CLIENTS_MAX)),
        };
        let alone = match self.exits {
            Some(_) => "at most one process is inside, and messages hand over from exit to entry",
            None => "at most one process is inside",
        };
        let each = [
            (Property::Safety, alone, self.finding(Property::Safety, rules)),
            (Property::Liveness, "every request was entered or cancelled, or its process crashed", liveness),
            (Property::Order, "a request that happened before another is granted before it", order),
            (Property::Fence, "fences grow from entry to entry", self.finding(Property::Fence, rules)),
        ];
        let judged = each.into_iter().map(|(property, checked, otherwise)| {
            let counts = rules.promises.include(property);
            found.verdict(property.name(), counts, checked.to_owned(), otherwise)
        });
        let mut judged: Vec<JudgedProperty> = judged.collect();
        judged.push(found.verdict(PAIRS, true, "requests, entries and exits fit together".to_owned(), Finding::held()));
        judged
    }

    /// The verdict if there is no violation.
    fn finding(&self, property: Property, rules: &Rules) -> Finding {
        let trusted = rules.about.broken.is_none() && rules.promises.include(property);
        match self.judge.shows(property, trusted, self.told) {
            true => Finding::held(),
            false => Finding::untested(self.judge.why_untested(property, self.told)),
        }
    }

    /// The processes that wait, and where they requested.
    fn waiting(&self) -> BTreeMap<ProcessId, Place> {
        let waits = |(p, user): (ProcessId, &User)| {
            let current = user.current.filter(|current| current.entered.is_none());
            current.map(|current| (p, current.requested)).or_else(|| Some((p, user.queued.front()?.1)))
        };
        self.users.iter().enumerate().filter_map(waits).collect()
    }

    /// In a run that has done all that was planned, every process has left.
    fn unfinished(&self, rules: &Rules, is_served: bool, found: &mut Found) {
        if rules.ended != Ended::Complete || !is_served {
            return;
        }
        for (p, user) in self.users.iter().enumerate() {
            if let Some(Current { req, entered: Some(entered), .. }) = user.current {
                found.add(PAIRS, format!("P{p} has entered for request {req}, and never leaves"), [entered]);
            }
        }
    }
}
