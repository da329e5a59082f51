//! Elections: at most one leader at a time or in each term, and agreement at the end.

use std::collections::BTreeSet;

use baton_protocol::{ProcessId, Property};
use baton_trace::Event;

use super::{Found, JudgedProperty, Place, Rules};
use crate::oracle::Finding;
use crate::oracle::leaders::Leaders;

pub struct ElectionWatch {
    leaders: Leaders,
    /// What each client last reported. None before its first report.
    beliefs: Vec<Option<Belief>>,
    crashed: BTreeSet<ProcessId>,
    /// Number of reports.
    reports: u64,
}

#[derive(Clone, Copy)]
struct Belief {
    leader: Option<ProcessId>,
    term: Option<u64>,
    place: Place,
}

impl ElectionWatch {
    pub fn new(rules: &Rules) -> Self {
        ElectionWatch {
            leaders: Leaders::default(),
            beliefs: vec![None; rules.clients],
            crashed: BTreeSet::new(),
            reports: 0,
        }
    }

    pub fn see(&mut self, p: ProcessId, event: &Event, place: Place, found: &mut Found) {
        match event {
            Event::Elected { leader, term } => {
                self.reports += 1;
                let belief = Belief { leader: *leader, term: *term, place };
                if let Some(detail) = self.leaders.see(p, event) {
                    found.add("safety", detail, self.rivals(p, belief).chain([place]));
                }
                if let Some(own) = self.beliefs.get_mut(p) {
                    *own = Some(belief);
                }
            }
            Event::Crash => {
                self.crashed.insert(p);
                self.leaders.see(p, event);
                if let Some(belief) = self.beliefs.get_mut(p) {
                    *belief = None;
                }
            }
            Event::Recover { .. } => {
                self.crashed.remove(&p);
            }
            _ => {}
        }
    }

    /// The reports of other processes that contradict a report of `p`.
    fn rivals(&self, p: ProcessId, new: Belief) -> impl Iterator<Item = Place> {
        let others = self.beliefs.iter().enumerate().filter(move |(other, _)| *other != p);
        others.filter_map(move |(other, belief)| {
            let Belief { leader, term, place } = (*belief)?;
            let contradicts = match new.term {
                Some(_) => term == new.term && leader != new.leader,
                None => leader == Some(other),
            };
            contradicts.then_some(place)
        })
    }

    pub fn verdicts(self, rules: &Rules, found: &mut Found) -> Vec<JudgedProperty> {
        let promised = |property| rules.promises.include(property);
        let disagreement = self.disagreement();
        let agreement = match (disagreement, rules.excuse()) {
            (None, _) => Finding::held(),
            (Some(detail), Some(excuse)) => Finding::unchecked(format!("{detail} at the end, but {excuse}")),
            (Some(detail), None) if rules.is_guarded || rules.is_cut => Finding::unchecked(format!(
                "{detail} at the end; too few processes may be up and connected to elect one"
            )),
            (Some(detail), None) => Finding::violated(format!("{detail} at the end")),
        };
        let one = format!("at most one leader at a time, or in each term; {} reports of a leader", self.reports);
        let agree = "the live processes agree on a live leader at the end".to_owned();
        vec![
            found.verdict("safety", promised(Property::Safety), one, Finding::held()),
            found.verdict("liveness", promised(Property::Liveness), agree, agreement),
        ]
    }

    /// How the live processes differ in their beliefs. None if they agree.
    fn disagreement(&self) -> Option<String> {
        let live = || (0..self.beliefs.len()).filter(|process| !self.crashed.contains(process));
        let belief = |process: ProcessId| self.beliefs[process].and_then(|belief| Some((belief.leader?, belief.term)));
        let first = live().next()?;
        if let Some(other) = live().find(|other| belief(*other) != belief(first)) {
            return Some(format!("P{first} and P{other} do not believe in the same leader"));
        }
        match belief(first) {
            None => Some("no process has a leader".to_owned()),
            Some((leader, _)) if self.crashed.contains(&leader) => Some(format!("the leader P{leader} has crashed")),
            Some(_) => None,
        }
    }
}
