//! The judge of a [guard](super::guarded): gives each term to one process only, and none while another may lead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Rule;
use crate::{Picture, ProcessId, ProcessSet, Start};

/// Gives each term to one process only, and none while another that it gave one to may lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Judge {
    rule: Rule,
    /// The latest term that it gave consent to.
    pub(super) given: u64,
    /// To whom.
    to: Option<ProcessId>,
    /// Whether that one may lead: it has not resigned, and is not suspected.
    stands: bool,
    /// Who waits for its end, and for which term; nobody waits if it does not stand.
    waiting: BTreeMap<ProcessId, u64>,
    pub(super) suspected: ProcessSet,
    memory: Memory,
}

/// What a judge tells a process.
pub(super) type Ruling = (ProcessId, Verdict);

/// Of a term.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Consent(u64),
    Refuse(u64),
    StepDown(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Memory {
    /// As made, before any start.
    Blank,
    Whole,
    Lost,
}

impl Judge {
    pub(super) fn new(n: usize, rule: Rule) -> Self {
        let (waiting, suspected) = (BTreeMap::new(), ProcessSet::none(n + 1));
        Judge { rule, given: 0, to: None, stands: false, waiting, suspected, memory: Memory::Blank }
    }

    pub(super) fn start(&mut self, start: Start) {
        self.suspected.clear();
        self.memory = match (start, self.memory) {
            (Start::Fresh, _) | (Start::Recovered, Memory::Whole) => Memory::Whole,
            (Start::Recovered, Memory::Blank | Memory::Lost) => Memory::Lost,
        };
    }

    pub(super) fn on_ask(&mut self, from: ProcessId, term: u64) -> Vec<Ruling> {
        let own = self.to == Some(from);
        // What comes late from the dead must not hold the office. If it lives it is asked WHO, and asks again.
        if self.memory != Memory::Whole || self.suspected.contains(from) {
            Vec::new()
        } else if term == self.given && own {
            self.stands = true;
            let better = self.waiting.keys().any(|&other| self.rule.prefers(other, from));
            let again = better.then_some((from, Verdict::StepDown(term)));
            [(from, Verdict::Consent(term))].into_iter().chain(again).collect()
        } else if term <= self.given {
            Vec::from([(from, Verdict::Refuse(self.given))])
        } else {
            // Who asks for a later term has given up the one that it had.
            self.stands &= !own;
            self.waiting.insert(from, term);
            match self.to {
                Some(to) if self.stands && self.rule.prefers(from, to) => {
                    Vec::from([(to, Verdict::StepDown(self.given))])
                }
                _ => self.fill(),
            }
        }
    }

    pub(super) fn on_resign(&mut self, from: ProcessId, term: u64) -> Vec<Ruling> {
        self.stands &= (self.given, self.to) != (term, Some(from));
        if self.waiting.get(&from).is_some_and(|asked| *asked <= term) {
            self.waiting.remove(&from);
        }
        self.fill()
    }

    pub(super) fn on_suspect(&mut self, process: ProcessId) -> Vec<Ruling> {
        self.suspected.insert(process);
        self.stands &= self.to != Some(process);
        self.waiting.remove(&process);
        self.fill()
    }

    pub(super) fn on_trust(&mut self, process: ProcessId) {
        self.suspected.remove(process);
    }

    /// What a drawing shows of it.
    pub(super) fn view(&self) -> Picture {
        Picture::new()
            .pointer("consented to", self.to.filter(|_| self.stands))
            .field("given", self.given)
            .numbers("waiting", self.waiting.clone())
            .set("suspected", self.suspected.iter())
    }

    /// If nobody is in office, consents to the best of those who wait. The others hear which term is gone.
    fn fill(&mut self) -> Vec<Ruling> {
        let best = self.rule.best(self.waiting.keys().copied()).filter(|_| !self.stands);
        let Some((best, term)) = best.and_then(|best| self.waiting.remove_entry(&best)) else { return Vec::new() };
        (self.given, self.to, self.stands) = (term, Some(best), true);
        let late = self.waiting.extract_if(.., |_, asked| *asked <= term);
        let refusals = late.map(|(other, _)| (other, Verdict::Refuse(term)));
        [(best, Verdict::Consent(term))].into_iter().chain(refusals).collect()
    }
}
