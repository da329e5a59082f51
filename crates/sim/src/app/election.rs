//! Users of elections: they notice that there is no leader, and wait until all live processes agree on one.

use baton_protocol::election::{Command, Election, Event, Rule};
use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event as Traced;

use crate::app::Application;
use crate::metrics::Messages;
use crate::oracle::leaders::Leaders;
use crate::queue::Class;
use crate::report::Side;
use crate::time::{T, in_t};
use crate::world::Wire;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionTrigger {
    /// Once no message is in flight, the leader crashes, and the processes of [`Noticed`] suspect it at once. If there
    /// is no leader yet, no process crashes, and these processes call an election.
    NoLeader(Noticed),
    /// The faults of the options; the processes notice them by the failure detector. If there is no leader at the
    /// start, all processes call an election.
    Faults {
        /// When the last fault is over and has been noticed.
        over: Ticks,
    },
}

/// The processes that notice that there is no leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The process with the lowest number, except the leader.
    ByTheLowest,
    /// A random process.
    ByOne,
    /// This process.
    By(ProcessId),
    /// All processes except the leader.
    ByAll,
}

pub struct ElectionUsers {
    trigger: ElectionTrigger,
    rule: Rule,
    rng: fastrand::Rng,
    /// How long the live processes may take to agree.
    patience: Ticks,
    /// The leader that each process believes in, and the term.
    beliefs: Vec<(Option<ProcessId>, Option<u64>)>,
    leaders: Leaders,
    /// When a process first had a reason to hold an election, and the messages sent before.
    began: Option<(Ticks, Messages)>,
    /// The processes that noticed first.
    pub noticed: Vec<ProcessId>,
    /// When the belief of each process last changed.
    settled: Vec<Ticks>,
    agreed: bool,
    /// Since when more than one process leads.
    rivals_since: Option<Ticks>,
    /// For how long more than one process led, in any terms, without the time since `rivals_since`.
    rivals: Ticks,
    pub violation: Option<String>,
}

impl ElectionUsers {
    /// The members should elect the best process according to `rule`.
    pub fn new(members: usize, rule: Rule, trigger: ElectionTrigger, patience: Ticks, seed: u64) -> Self {
        ElectionUsers {
            trigger,
            rule,
            rng: fastrand::Rng::with_seed(seed),
            patience,
            beliefs: vec![(None, None); members],
            leaders: Leaders::default(),
            began: None,
            noticed: Vec::new(),
            settled: vec![0; members],
            agreed: false,
            rivals_since: None,
            rivals: 0,
            violation: None,
        }
    }

    /// The leader that all live processes agree on, and its term.
    pub fn leader(&self) -> (Option<ProcessId>, Option<u64>) {
        let believed = self.beliefs.iter().copied().find(|(leader, _)| leader.is_some());
        believed.filter(|_| self.agreed).unwrap_or_default()
    }

    /// The leader that the live processes of each side agree on, if cuts still divide the live members.
    pub fn sides<P: Election>(&self, wire: &Wire<P, Plan>) -> Vec<Side> {
        let sides = wire.sides(self.beliefs.len()).into_iter().map(|processes| {
            let mut beliefs = processes.iter().map(|&process| self.beliefs[process]);
            let first = beliefs.next().unwrap_or_default();
            let (leader, term) = if beliefs.all(|belief| belief == first) { first } else { (None, None) };
            let time = leader.and_then(|_| self.since_began(&processes)).map(in_t);
            Side { processes, leader, term, time }
        });
        sides.collect()
    }

    /// A live process that does not believe in the process that should lead, in words.
    pub fn why_no_agreement<P: Election>(&self, wire: &Wire<P, Plan>) -> Option<String> {
        let live = || (0..self.beliefs.len()).filter(|&process| wire.is_up(process));
        let best = self.rule.best(live())?;
        live().find_map(|process| match self.beliefs[process] {
            (Some(leader), _) if leader == best => None,
            (Some(leader), _) if !wire.is_up(leader) => {
                Some(format!("P{process} still follows P{leader}, which is dead"))
            }
            (Some(leader), _) if leader == process => Some(format!("P{process} leads, and P{best} should")),
            (Some(leader), _) => Some(format!("P{process} follows P{leader}, and P{best} should lead")),
            (None, _) => Some(format!("P{process} has no leader, and P{best} should lead")),
        })
    }

    /// The messages before the election began.
    pub fn messages_before(&self) -> Messages {
        self.began.as_ref().map(|(_, messages)| messages.clone()).unwrap_or_default()
    }

    /// From the first notice to the last change of a belief, or to the arrival of the last message if that is later.
    pub fn time(&self, last_arrival: Ticks) -> Option<Ticks> {
        let &(began, _) = self.began.as_ref()?;
        let all: Vec<ProcessId> = (0..self.settled.len()).collect();
        let settled = self.since_began(&all)?;
        self.agreed.then(|| settled.max(last_arrival.saturating_sub(began)))
    }

    /// From the first notice to the last change of a belief of one of these processes.
    fn since_began(&self, processes: &[ProcessId]) -> Option<Ticks> {
        let &(began, _) = self.began.as_ref()?;
        let last = processes.iter().map(|&process| self.settled[process]).max()?;
        Some(last.saturating_sub(began))
    }

    /// For how long more than one process has led, in any terms.
    pub fn rivals(&self, now: Ticks) -> Ticks {
        self.rivals + self.rivals_since.map_or(0, |since| now - since)
    }

    /// The processes that lead now, if there is more than one.
    pub fn rivals_now(&self) -> Vec<ProcessId> {
        if self.leaders.count() > 1 { self.leaders.leading().collect() } else { Vec::new() }
    }

    fn begin<P: Election>(&mut self, wire: &mut Wire<P, Plan>) {
        self.began.get_or_insert_with(|| (wire.now(), wire.messages().clone()));
    }

    /// Crashes the leader, if there is one, and lets some of the other processes notice.
    fn vacate<P: Election>(&mut self, noticed: Noticed, wire: &mut Wire<P, Plan>) {
        let leader = (0..self.beliefs.len()).find(|&process| self.beliefs[process].0 == Some(process));
        let mut others: Vec<_> = (0..self.beliefs.len()).filter(|&process| Some(process) != leader).collect();
        match noticed {
            Noticed::ByTheLowest => others.truncate(1),
            Noticed::ByOne => others = self.rng.choice(others).into_iter().collect(),
            Noticed::By(process) => others.retain(|other| *other == process),
            Noticed::ByAll => {}
        }
        self.noticed = others;
        match leader {
            Some(leader) => wire.plan_crash(0, leader),
            None => {
                self.begin(wire);
                self.elect(wire);
            }
        }
    }

    /// The processes that have noticed call an election.
    fn elect<P: Election>(&mut self, wire: &mut Wire<P, Plan>) {
        for (req, &process) in self.noticed.iter().enumerate() {
            wire.plan(0, Class::Request, process, Plan::Elect(req as u64));
        }
    }

    fn judge<P: Election>(&mut self, wire: &mut Wire<P, Plan>) {
        let live = || (0..self.beliefs.len()).filter(|&process| wire.is_up(process));
        let best = self.rule.best(live());
        let beliefs: Vec<_> = live().map(|process| self.beliefs[process]).collect();
        let alike = beliefs.iter().all(|belief| belief.0 == best && *belief == beliefs[0]);
        self.agreed = self.began.is_some() && best.is_some() && alike;
        let rivals = self.leaders.count() > 1;
        match self.rivals_since {
            Some(since) if !rivals => {
                self.rivals += wire.now() - since;
                self.rivals_since = None;
            }
            None if rivals => self.rivals_since = Some(wire.now()),
            _ => {}
        }
    }

    /// When the patience of the users ends.
    fn settle_by(&self) -> Option<Ticks> {
        match self.trigger {
            ElectionTrigger::NoLeader(_) => self.began.as_ref().map(|(began, _)| began + self.patience),
            ElectionTrigger::Faults { over } => Some(over + self.patience),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// Check whether no message is in flight, and then trigger the election.
    Look,
    /// Call an election. The requests of a run are numbered.
    Elect(u64),
    /// Do nothing; keeps the run going until this time.
    Wait,
}

impl<P: Election> Application<P> for ElectionUsers {
    type Plan = Plan;

    fn start(&mut self, wire: &mut Wire<P, Plan>) {
        match self.trigger {
            ElectionTrigger::NoLeader(_) => wire.plan(T, Class::Request, 0, Plan::Look),
            ElectionTrigger::Faults { over } => {
                if wire.in_flight() == 0 && self.leaders.count() == 0 {
                    self.noticed = (0..self.beliefs.len()).collect();
                    self.elect(wire);
                }
                // One tick later, so that everything planned for this moment happens before the run can end.
                wire.plan(over + 1, Class::Request, 0, Plan::Wait);
            }
        }
    }

    fn carry_out(&mut self, process: ProcessId, plan: Plan, wire: &mut Wire<P, Plan>) {
        match (plan, self.trigger) {
            (Plan::Look, ElectionTrigger::NoLeader(noticed)) if wire.in_flight() == 0 => self.vacate(noticed, wire),
            (Plan::Look, _) => wire.plan(T, Class::Request, process, Plan::Look),
            (Plan::Elect(req), _) => {
                wire.trace(process, || Traced::request(req));
                wire.command(process, Command::Elect, Class::Request);
            }
            (Plan::Wait, _) => {}
        }
    }

    fn event(&mut self, process: ProcessId, event: Event, wire: &mut Wire<P, Plan>) {
        let Event::Elected { leader, term } = event;
        self.beliefs[process] = (leader, term);
        self.settled[process] = wire.now();
        let event = Traced::Elected { leader, term };
        let found = self.leaders.see(process, &event);
        wire.trace(process, || event);
        if let Some(detail) = found {
            let detail = format!("{detail}, at {} T", in_t(wire.now()));
            wire.trace(process, || Traced::Violation { property: "safety".into(), detail: detail.clone() });
            self.violation.get_or_insert(detail);
        }
        self.judge(wire);
    }

    fn app_message(&mut self, _: ProcessId, _: &mut Wire<P, Plan>) {}

    fn struck(&mut self, wire: &mut Wire<P, Plan>) {
        self.begin(wire);
        // A fault may change no belief. The processes then still agree, and no event would say so.
        self.judge(wire);
    }

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if let Some(belief) = self.beliefs.get_mut(process) {
            *belief = (None, None);
        }
        self.leaders.see(process, &Traced::Crash);
        if let ElectionTrigger::NoLeader(_) = self.trigger {
            for &observer in &self.noticed {
                wire.suspect(observer, process);
            }
        }
        self.judge(wire);
    }

    fn recovered(&mut self, _: ProcessId, wire: &mut Wire<P, Plan>) {
        self.judge(wire);
    }

    fn finished(&self, wire: &Wire<P, Plan>) -> bool {
        let over = match self.trigger {
            ElectionTrigger::NoLeader(_) => self.began.is_some(),
            ElectionTrigger::Faults { over } => wire.now() > over,
        };
        let too_late = self.settle_by().is_some_and(|by| wire.now() > by);
        over && (self.agreed || too_late) && wire.in_flight() == 0
    }
}
