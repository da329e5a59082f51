//! Who is in the group, as a reliable failure detector tells it: crashes take members out, recoveries bring them back.
//!
//! Every change has a number, and equal numbers mean equal rosters: the detectors tell everybody of crashes and
//! recoveries in the same order. LateReports may travel faster in the messages of others than by the own detector: a member that
//! is sent a later roster than its own adopts it, and lets pass by as much of what its detector then has to say.
//!
//! Who has recovered has missed some of the changes, and cannot count like that. It is a newcomer, with no roster, until
//! a member sends it one; from then on the last word of its own detector counts, and must not come later than messages
//! that were sent in consequence.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The members after so many changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// How many changes there were.
    pub number: u64,
    /// Who has crashed and not come back. Everybody else of the group is a member.
    gone: BTreeSet<ProcessId>,
    /// The members that have been away, in the order of their return.
    returned: Vec<ProcessId>,
}

impl Roster {
    /// Whether it is a member.
    pub fn contains(&self, process: ProcessId) -> bool {
        !self.gone.contains(&process)
    }

    /// The member of longest standing, the lowest of them if they are many.
    pub fn senior(&self, n: usize) -> Option<ProcessId> {
        let returned = |process: &ProcessId| self.returned.contains(process);
        let never_away = (0..n).find(|process| self.contains(*process) && !returned(process));
        never_away.or_else(|| self.returned.first().copied())
    }

    fn change(&mut self, process: ProcessId, alive: bool) {
        self.number = self.number.saturating_add(1);
        self.returned.retain(|&other| other != process);
        if alive {
            self.gone.remove(&process);
            self.returned.push(process);
        } else {
            self.gone.insert(process);
        }
    }

    fn names_only(&self, n: usize) -> bool {
        self.gone.iter().chain(&self.returned).all(|&process| process < n)
    }
}

/// What becomes of the news of the own detector when a founder has been sent a later roster than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateReports {
    /// They are in it already, and are let pass.
    Once,
    /// They are always right. Then news that are late undo the roster, count twice, and numbers no longer agree.
    LastWord,
}

/// What one process knows of the members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    me: ProcessId,
    n: usize,
    news: LateReports,
    /// Whether its detector has told it of every change there was, or will.
    counts: bool,
    /// None: a newcomer.
    roster: Option<Roster>,
    /// The last word of the own detector on each process since the own start, true for alive, as far as it counts.
    heard: BTreeMap<ProcessId, bool>,
    /// Of so many changes the own detector is still to tell, though they are in the roster.
    untold: u64,
}

impl Membership {
    /// Of `me`, as a newcomer in a group of `n`.
    pub fn newcomer(me: ProcessId, n: usize, news: LateReports) -> Self {
        Membership { me, n, news, counts: false, roster: None, heard: BTreeMap::new(), untold: 0 }
    }

    /// Of `me`, who starts together with all others.
    pub fn founder(me: ProcessId, n: usize, news: LateReports) -> Self {
        Membership { counts: news == LateReports::Once, roster: Some(Roster::default()), ..Self::newcomer(me, n, news) }
    }

    /// What becomes of the news of the own detector.
    pub fn news(&self) -> LateReports {
        self.news
    }

    /// The roster, unless this is a newcomer.
    pub fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    /// The number of the roster, unless this is a newcomer.
    pub fn number(&self) -> Option<u64> {
        self.roster.as_ref().map(|roster| roster.number)
    }

    /// The own detector says whether `process` is alive; returns whether there is a new roster.
    pub fn hear(&mut self, process: ProcessId, alive: bool) -> bool {
        if process == self.me || process >= self.n {
            return false;
        }
        if !self.counts {
            self.heard.insert(process, alive);
        }
        match &mut self.roster {
            None => {}
            Some(_) if self.untold > 0 => self.untold -= 1,
            Some(roster) if roster.contains(process) != alive => {
                roster.change(process, alive);
                return true;
            }
            Some(_) => {}
        }
        false
    }

    /// Another member has sent its roster; returns whether there is a new one here.
    pub fn adopt(&mut self, theirs: Roster) -> bool {
        let newer = self.number().is_none_or(|number| theirs.number > number);
        if !newer || !theirs.contains(self.me) || !theirs.names_only(self.n) {
            return false;
        }
        if self.counts {
            self.untold += self.number().map_or(0, |number| theirs.number - number);
        }
        // Who does not count gives its own detector the last word on whom it has spoken of.
        let mut roster = theirs;
        for (&process, &alive) in &self.heard {
            if roster.contains(process) != alive {
                roster.change(process, alive);
            }
        }
        self.roster = Some(roster);
        true
    }

    /// Whether `process` is a member; nobody is for a newcomer.
    pub fn contains(&self, process: ProcessId) -> bool {
        self.roster.as_ref().is_some_and(|roster| roster.contains(process))
    }

    /// Whether this is the member of longest standing.
    pub fn leads(&self) -> bool {
        self.roster.as_ref().and_then(|roster| roster.senior(self.n)) == Some(self.me)
    }

    /// All other members, round the ids from the own one on.
    pub fn others(&self) -> impl Iterator<Item = ProcessId> {
        (1..self.n).map(|distance| (self.me + distance) % self.n).filter(|&other| self.contains(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_skipped_and_who_returns_is_the_last_to_lead() {
        let mut p1 = Membership::founder(1, 4, LateReports::Once);
        assert!(!p1.leads() && p1.others().eq([2, 3, 0]));
        assert!(p1.hear(0, false) && !p1.hear(0, false));
        assert!(p1.leads() && p1.others().eq([2, 3]));
        assert!(p1.hear(0, true) && p1.hear(2, false));
        assert!(p1.leads() && p1.others().eq([3, 0]) && p1.number() == Some(3));
        let mut p3 = Membership::founder(3, 4, LateReports::Once);
        for (process, alive) in [(0, false), (0, true), (1, false), (2, false)] {
            assert!(!p3.leads() && p3.hear(process, alive));
        }
        assert!(p3.leads());
        assert!(!p3.hear(3, false) && !p3.hear(4, false));
    }

    #[test]
    fn a_newcomer_learns_the_roster_and_corrects_it_by_what_it_has_heard_since() {
        let mut member = Membership::founder(0, 4, LateReports::Once);
        member.hear(1, false);
        member.hear(3, false);
        member.hear(1, true);
        let mut p1 = Membership::newcomer(1, 4, LateReports::Once);
        assert!(p1.others().next().is_none() && !p1.leads());
        assert!(!p1.hear(2, false) && p1.number().is_none());
        assert!(p1.adopt(member.roster().unwrap().clone()));
        assert_eq!((p1.number(), p1.others().collect()), (Some(4), Vec::from([0])));
        member.hear(2, false);
        assert_eq!(p1.roster(), member.roster());
        assert!(!p1.adopt(member.roster().unwrap().clone()));
    }

    #[test]
    fn news_that_come_later_than_the_roster_that_tells_of_them_count_once() {
        let mut p0 = Membership::founder(0, 3, LateReports::Once);
        assert!(p0.hear(1, false) && p0.hear(1, true));
        for (news, in_the_end) in [(LateReports::Once, 2), (LateReports::LastWord, 4)] {
            let mut p2 = Membership::founder(2, 3, news);
            assert!(p2.hear(1, false) && p2.adopt(p0.roster().unwrap().clone()));
            p2.hear(1, true);
            assert_eq!(p2.number(), Some(in_the_end));
        }
        let mut late = Membership::founder(2, 3, LateReports::Once);
        assert!(late.adopt(p0.roster().unwrap().clone()));
        assert!(!late.hear(1, false) && !late.hear(1, true) && late.roster() == p0.roster());
        assert!(late.hear(1, false) && late.number() == Some(3), "what comes after that is news again");
    }

    #[test]
    fn a_roster_without_oneself_or_with_strangers_is_not_adopted() {
        let mut member = Membership::founder(0, 9, LateReports::Once);
        member.hear(1, false);
        assert!(!Membership::newcomer(1, 9, LateReports::Once).adopt(member.roster().unwrap().clone()));
        member.hear(1, true);
        member.hear(8, false);
        assert!(!Membership::newcomer(1, 3, LateReports::Once).adopt(member.roster().unwrap().clone()));
        assert!(Membership::newcomer(1, 9, LateReports::Once).adopt(member.roster().unwrap().clone()));
    }
}
