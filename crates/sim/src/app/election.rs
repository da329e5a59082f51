//! Users of elections: they notice that the leader is gone, and wait until all who live agree on another.

use baton_protocol::election::{Election, Event};
use baton_protocol::{ProcessId, Ticks};
use baton_trace::Event as Traced;

use crate::time::{T, in_t};
use crate::world::{Application, Wire};

/// How an election comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The leader, the highest of all, crashes at time T and the lowest process notices at once.
    OneNotices,
    /// It crashes and all notice at once.
    AllNotice,
    /// The faults that were asked for; everybody notices crashes by the failure detector.
    Faults {
        /// When the last of them is over, and has been noticed.
        over: Ticks,
    },
}

/// All users of a group.
pub struct ElectionUsers {
    occasion: Occasion,
    beliefs: Vec<Option<ProcessId>>,
    /// When somebody first had reason to hold an election, and how many messages had been sent by then.
    began: Option<(Ticks, u64)>,
    /// When a belief last changed.
    settled: Option<Ticks>,
    agreed: bool,
    /// The first violation.
    pub violation: Option<String>,
}

impl ElectionUsers {
    /// Of so many processes.
    pub fn new(processes: usize, occasion: Occasion) -> Self {
        ElectionUsers {
            occasion,
            beliefs: vec![None; processes],
            began: None,
            settled: None,
            agreed: false,
            violation: None,
        }
    }

    /// Whom all who live agree on.
    pub fn leader(&self) -> Option<ProcessId> {
        self.agreed.then(|| self.beliefs.iter().copied().flatten().max()).flatten()
    }

    /// How many messages had been sent when the election began.
    pub fn messages_before(&self) -> u64 {
        self.began.map_or(0, |(_, messages)| messages)
    }

    /// From the first notice to the last change of a belief.
    pub fn time(&self) -> Option<Ticks> {
        let (began, _) = self.began?;
        self.settled.map(|settled| settled.saturating_sub(began))
    }

    fn judge<P: Election>(&mut self, wire: &mut Wire<P, ()>) {
        let live = |&process: &ProcessId| wire.is_up(process);
        let all = || 0..self.beliefs.len();
        let highest = all().filter(live).max();
        self.agreed = self.began.is_some() && all().filter(live).all(|process| self.beliefs[process] == highest);
        let leaders: Vec<_> = all().filter(live).filter(|&process| self.beliefs[process] == Some(process)).collect();
        if let [one, other, ..] = leaders[..]
            && self.violation.is_none()
        {
            let detail = format!("P{one} and P{other} both lead, at {} T", in_t(wire.now()));
            wire.trace_all(|| Traced::Violation { property: "safety".into(), detail: detail.clone() });
            self.violation = Some(detail);
        }
    }
}

impl<P: Election> Application<P> for ElectionUsers {
    type Plan = ();

    fn start(&mut self, wire: &mut Wire<P, ()>) {
        if !matches!(self.occasion, Occasion::Faults { .. }) {
            wire.plan_crash(T, self.beliefs.len() - 1);
        }
    }

    fn carry_out(&mut self, _: ProcessId, (): (), _: &mut Wire<P, ()>) {}

    fn event(&mut self, process: ProcessId, event: Event, wire: &mut Wire<P, ()>) {
        let Event::Elected { leader, term } = event;
        self.beliefs[process] = leader;
        self.settled = Some(wire.now());
        wire.trace(process, || Traced::Elected { leader, term });
        self.judge(wire);
    }

    fn app_message(&mut self, _: ProcessId, _: &mut Wire<P, ()>) {}

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<P, ()>) {
        self.beliefs[process] = None;
        let sent = wire.messages().sent;
        self.began.get_or_insert((wire.now(), sent));
        let notice = match self.occasion {
            Occasion::OneNotices => 0..1,
            Occasion::AllNotice => 0..process,
            Occasion::Faults { .. } => 0..0,
        };
        for observer in notice {
            wire.suspect(observer, process);
        }
        self.judge(wire);
    }

    fn recovered(&mut self, _: ProcessId, wire: &mut Wire<P, ()>) {
        let sent = wire.messages().sent;
        self.began.get_or_insert((wire.now(), sent));
        self.judge(wire);
    }

    fn finished(&self, now: Ticks) -> bool {
        match self.occasion {
            Occasion::OneNotices | Occasion::AllNotice => self.agreed,
            Occasion::Faults { over } => self.agreed && now >= over,
        }
    }
}
