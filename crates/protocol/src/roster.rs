//! A roster is a numbered list of the members of a ring. It follows the reports of failure detectors that make no
//! mistakes: a crash removes a member, a recovery brings it back.
//!
//! The group starts with roster 0, in which every process is a member. Each crash or recovery makes the next roster.
//! Detectors report crashes and recoveries to all processes in the same order, so equal numbers mean equal rosters.
//!
//! A process learns of a new roster in two ways: from its own detector, or from a message of a member whose detector
//! was faster. In the second case the process adopts the later roster. Its own detector will report the same changes
//! later, and the process must ignore these reports, or it would count each change twice ([`LateReports`]). So it
//! ignores as many reports as the roster number grew by.
//!
//! A recovered process has missed reports and cannot count them. It is a newcomer: it has no roster until a member
//! sends it one. From then on the latest report of its own detector about a process overrules the roster. If this
//! report were old, the roster would become wrong. So the report of a change must reach a newcomer no later than
//! the messages that other members send because of this change. (The simulator refuses recoveries
//! with detectors that report at different times; views need no such condition.)

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The members after `number` changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// Crashes and recoveries since the start of the group.
    pub number: u64,
    /// Processes that crashed and have not recovered. All other processes of the group are members.
    gone: BTreeSet<ProcessId>,
    /// Members that crashed and recovered, in the order of their recoveries.
    returned: Vec<ProcessId>,
}

impl Roster {
    pub fn contains(&self, process: ProcessId) -> bool {
        !self.gone.contains(&process)
    }

    /// The member that has been in the group for the longest time: the lowest id that never crashed, else the member
    /// that recovered first.
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

/// What a founder (a process that has not crashed since the start) does with a late report: its own detector reports a
/// change that an adopted roster already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateReports {
    /// Ignores it: the change is counted already.
    Once,
    /// Believes it. For example, a late report of a crash removes a member whose recovery is already in the roster.
    /// This counts as another change, so equal numbers no longer mean equal rosters. Broken on purpose:
    /// [`token_ring_last_word`](crate::broken::token_ring_last_word).
    LastWord,
}

/// The roster of one process, and the reports of its own detector that are still to come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    me: ProcessId,
    n: usize,
    late_reports: LateReports,
    /// Whether this process can count late reports: its detector reports every change since the start of the group.
    /// True for a founder, except with [`LateReports::LastWord`]; false for a newcomer.
    counts: bool,
    /// `None` at a newcomer.
    roster: Option<Roster>,
    /// The latest report of this process's detector about each process: whether it is alive. Empty if `counts`.
    heard: BTreeMap<ProcessId, bool>,
    /// Number of changes in the roster that this process's detector has not reported yet.
    untold: u64,
}

impl Membership {
    /// For a process that has recovered, or has not started yet: it has no roster.
    pub fn newcomer(me: ProcessId, n: usize, late_reports: LateReports) -> Self {
        Membership { me, n, late_reports, counts: false, roster: None, heard: BTreeMap::new(), untold: 0 }
    }

    /// For a process that starts together with the whole group: roster 0.
    pub fn founder(me: ProcessId, n: usize, late_reports: LateReports) -> Self {
        Membership {
            counts: late_reports == LateReports::Once,
            roster: Some(Roster::default()),
            ..Self::newcomer(me, n, late_reports)
        }
    }

    pub fn late_reports(&self) -> LateReports {
        self.late_reports
    }

    /// `None` at a newcomer.
    pub fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    pub fn number(&self) -> Option<u64> {
        self.roster.as_ref().map(|roster| roster.number)
    }

    /// This process's detector reports that `process` is alive, or that it crashed. Returns whether this makes a new
    /// roster.
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

    /// Another member has sent its roster, `theirs`. Adopts a later roster, unless this process is no member of it
    /// or it names a process that does not exist. Returns whether `theirs` was adopted.
    pub fn adopt(&mut self, theirs: Roster) -> bool {
        let newer = self.number().is_none_or(|number| theirs.number > number);
        if !newer || !theirs.contains(self.me) || !theirs.names_only(self.n) {
            return false;
        }
        if self.counts {
            self.untold += self.number().map_or(0, |number| theirs.number - number);
        }
        // A process that cannot count the reports believes the latest report of its own detector about each process.
        let mut roster = theirs;
        for (&process, &alive) in &self.heard {
            if roster.contains(process) != alive {
                roster.change(process, alive);
            }
        }
        self.roster = Some(roster);
        true
    }

    /// Always false at a newcomer.
    pub fn contains(&self, process: ProcessId) -> bool {
        self.roster.as_ref().is_some_and(|roster| roster.contains(process))
    }

    /// Whether this process is the [senior](Roster::senior) member.
    pub fn leads(&self) -> bool {
        self.roster.as_ref().and_then(|roster| roster.senior(self.n)) == Some(self.me)
    }

    /// All other members, in ring order, beginning with the successor.
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
    fn reports_that_come_later_than_the_roster_that_tells_of_them_count_once() {
        let mut p0 = Membership::founder(0, 3, LateReports::Once);
        assert!(p0.hear(1, false) && p0.hear(1, true));
        for (late_reports, in_the_end) in [(LateReports::Once, 2), (LateReports::LastWord, 4)] {
            let mut p2 = Membership::founder(2, 3, late_reports);
            assert!(p2.hear(1, false) && p2.adopt(p0.roster().unwrap().clone()));
            p2.hear(1, true);
            assert_eq!(p2.number(), Some(in_the_end));
        }
        let mut late = Membership::founder(2, 3, LateReports::Once);
        assert!(late.adopt(p0.roster().unwrap().clone()));
        assert!(!late.hear(1, false) && !late.hear(1, true) && late.roster() == p0.roster());
        assert!(late.hear(1, false) && late.number() == Some(3), "later reports count again");
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
