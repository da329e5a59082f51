//! Users of elections: they notice that there is no leader, and wait until all who live agree on one.

use baton_protocol::election::{Command, Election, Event, Rule};
use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event as Traced;

use crate::app::Application;
use crate::oracle::leaders::Leaders;
use crate::queue::Class;
use crate::time::{T, in_t};
use crate::world::Wire;

/// How an election comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionTrigger {
    /// Once the group is quiet its leader crashes, and some notice at once. Where nobody leads yet, nobody crashes, and
    /// those who notice that ask for an election.
    NoLeader(Noticed),
    /// The faults that were asked for; everybody notices them by the failure detector. Where nobody leads at the
    /// start, all ask for an election.
    Faults {
        /// When the last of them is over, and has been noticed.
        over: Ticks,
    },
}

/// Who notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The lowest process.
    ByTheLowest,
    /// One at random.
    ByOne,
    /// All of them.
    ByAll,
}

/// All users of a group.
pub struct ElectionUsers {
    trigger: ElectionTrigger,
    rule: Rule,
    rng: fastrand::Rng,
    /// How long things may take to settle.
    patience: Ticks,
    /// Whom each process believes in, and in which term.
    beliefs: Vec<(Option<ProcessId>, Option<u64>)>,
    leaders: Leaders,
    /// When somebody first had reason to hold an election, and how many messages had been sent by then.
    began: Option<(Ticks, u64)>,
    /// Who noticed first.
    pub noticed: Vec<ProcessId>,
    /// When a belief last changed.
    settled: Ticks,
    agreed: bool,
    /// Since when more than one leads.
    rivals_since: Option<Ticks>,
    /// For how long more than one led, in whatever terms, until they were rivals no more.
    rivals: Ticks,
    /// The first violation.
    pub violation: Option<String>,
}

impl ElectionUsers {
    /// Of so many members, that are to be led by the best according to `rule`.
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
            settled: 0,
            agreed: false,
            rivals_since: None,
            rivals: 0,
            violation: None,
        }
    }

    /// Whom all who live agree on, and in which term.
    pub fn leader(&self) -> (Option<ProcessId>, Option<u64>) {
        let believed = self.beliefs.iter().copied().find(|(leader, _)| leader.is_some());
        believed.filter(|_| self.agreed).unwrap_or_default()
    }

    /// How many messages had been sent when the election began.
    pub fn messages_before(&self) -> u64 {
        self.began.map_or(0, |(_, messages)| messages)
    }

    /// From the first notice to the last change of a belief, or to the arrival of the last message if that is later.
    pub fn time(&self, last_arrival: Ticks) -> Option<Ticks> {
        let (began, _) = self.began?;
        self.agreed.then(|| self.settled.max(last_arrival).saturating_sub(began))
    }

    /// For how long more than one has led, in whatever terms.
    pub fn rivals(&self, now: Ticks) -> Ticks {
        self.rivals + self.rivals_since.map_or(0, |since| now - since)
    }

    fn begin<P: Election>(&mut self, wire: &mut Wire<P, Plan>) {
        let sent = wire.messages().sent;
        self.began.get_or_insert((wire.now(), sent));
    }

    /// Takes the leader away, if there is one, and lets some of the others notice.
    fn vacate<P: Election>(&mut self, noticed: Noticed, wire: &mut Wire<P, Plan>) {
        let leader = (0..self.beliefs.len()).find(|&process| self.beliefs[process].0 == Some(process));
        let mut others: Vec<_> = (0..self.beliefs.len()).filter(|&process| Some(process) != leader).collect();
        match noticed {
            Noticed::ByTheLowest => others.truncate(1),
            Noticed::ByOne => others = self.rng.choice(others).into_iter().collect(),
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

    /// Those who have noticed ask for an election.
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

    /// The last moment at which the outcome may still change.
    fn settle_by(&self) -> Option<Ticks> {
        match self.trigger {
            ElectionTrigger::NoLeader(_) => self.began.map(|(began, _)| began + self.patience),
            ElectionTrigger::Faults { over } => Some(over + self.patience),
        }
    }
}

/// What a user plans.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// To see whether the group is quiet, and then to make it hold an election.
    Look,
    /// To ask for one; the requests of a run are numbered.
    Elect(u64),
    /// Nothing; only time passes.
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
                // Whatever is planned for that very moment happens before anybody is content.
                wire.plan(over + 1, Class::Request, 0, Plan::Wait);
            }
        }
    }

    fn carry_out(&mut self, process: ProcessId, plan: Plan, wire: &mut Wire<P, Plan>) {
        match (plan, self.trigger) {
            (Plan::Look, ElectionTrigger::NoLeader(noticed)) if wire.in_flight() == 0 => self.vacate(noticed, wire),
            (Plan::Look, _) => wire.plan(T, Class::Request, process, Plan::Look),
            (Plan::Elect(req), _) => {
                let now = wire.now();
                if let Some(tracer) = wire.tracer() {
                    tracer.request(now, process, req);
                }
                wire.command(process, Command::Elect, Class::Request);
            }
            (Plan::Wait, _) => {}
        }
    }

    fn event(&mut self, process: ProcessId, event: Event, wire: &mut Wire<P, Plan>) {
        let Event::Elected { leader, term } = event;
        self.beliefs[process] = (leader, term);
        self.settled = wire.now();
        wire.trace(process, || Traced::Elected { leader, term });
        if let Some(detail) = self.leaders.believes(process, leader, term) {
            let detail = format!("{detail}, at {} T", in_t(wire.now()));
            wire.trace(process, || Traced::Violation { property: "safety".into(), detail: detail.clone() });
            self.violation.get_or_insert(detail);
        }
        self.judge(wire);
    }

    fn app_message(&mut self, _: ProcessId, _: &mut Wire<P, Plan>) {}

    fn struck(&mut self, wire: &mut Wire<P, Plan>) {
        self.begin(wire);
        // What strikes may change nothing: who agreed before agrees now.
        self.judge(wire);
    }

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, Plan>) {
        if let Some(belief) = self.beliefs.get_mut(process) {
            *belief = (None, None);
        }
        self.leaders.gone(process);
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
