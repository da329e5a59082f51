//! The judge of a [guard](super::guarded). It gives each term to one process only, and no later term while that process
//! may still lead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Rule;
use crate::{Picture, ProcessId, ProcessSet, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Judge {
    rule: Rule,
    /// The latest term that this judge consented to.
    pub(super) given: u64,
    /// The process that got that consent.
    to: Option<ProcessId>,
    /// Whether `to` may lead: it has not resigned, and the judge does not suspect it.
    stands: bool,
    /// Candidates that wait until `to` stops leading, with the terms that they ask for. Empty unless `stands`.
    waiting: BTreeMap<ProcessId, u64>,
    pub(super) suspected: ProcessSet,
    memory: Memory,
}

/// A message of the judge, and its receiver.
pub(super) type Ruling = (ProcessId, Verdict);

/// Each with the term that it is about.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Consent(u64),
    Refuse(u64),
    StepDown(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Memory {
    /// Newly made, before the first start.
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
        // A late ASK of a crashed candidate must not get a consent that blocks others. A live candidate gets WHO when
        // it is trusted again, and asks again. A judge without its memory never consents.
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
            // A candidate that asks for a later term has given up its earlier one.
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

    pub(super) fn view(&self) -> Picture {
        Picture::new()
            .pointer("consented to", self.to.filter(|_| self.stands))
            .field("given", self.given)
            .numbers("waiting", self.waiting.clone())
            .set("suspected", self.suspected.iter())
    }

    /// If no process may lead, consents to the best waiting candidate. Refuses the waiting candidates whose terms are
    /// now too low.
    fn fill(&mut self) -> Vec<Ruling> {
        let best = self.rule.best(self.waiting.keys().copied()).filter(|_| !self.stands);
        let Some((best, term)) = best.and_then(|best| self.waiting.remove_entry(&best)) else { return Vec::new() };
        (self.given, self.to, self.stands) = (term, Some(best), true);
        let late = self.waiting.extract_if(.., |_, asked| *asked <= term);
        let refusals = late.map(|(other, _)| (other, Verdict::Refuse(term)));
        [(best, Verdict::Consent(term))].into_iter().chain(refusals).collect()
    }
}
