//! At most one leader: in each term if the algorithm has terms, otherwise at each time.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::ProcessId;
use baton_trace::Event;

#[derive(Clone, Debug, Default)]
pub struct Leaders {
    leading: BTreeSet<ProcessId>,
    terms: BTreeMap<u64, ProcessId>,
}

impl Leaders {
    /// An event of `process`. Returns what is wrong, if anything.
    pub fn see(&mut self, process: ProcessId, event: &Event) -> Option<String> {
        match event {
            Event::Elected { leader, term } => self.believes(process, *leader, *term),
            Event::Crash => {
                self.leading.remove(&process);
                None
            }
            _ => None,
        }
    }

    /// `process` believes in this leader from now on.
    fn believes(&mut self, process: ProcessId, leader: Option<ProcessId>, term: Option<u64>) -> Option<String> {
        self.leading.remove(&process);
        let other = match (leader, term) {
            (Some(leader), Some(term)) => {
                let first = *self.terms.entry(term).or_insert(leader);
                (first != leader).then(|| format!("P{first} and P{leader} both lead in term {term}"))
            }
            (Some(leader), None) if leader == process => {
                self.leading.first().map(|other| format!("P{other} and P{process} both lead"))
            }
            _ => None,
        };
        if leader == Some(process) {
            self.leading.insert(process);
        }
        other
    }

    /// The processes that believe themselves the leader, in any terms.
    pub fn leading(&self) -> impl Iterator<Item = ProcessId> {
        self.leading.iter().copied()
    }

    /// Number of processes that believe themselves the leader, in any terms.
    pub fn count(&self) -> usize {
        self.leading.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_terms_one_at_a_time_may_lead() {
        let mut leaders = Leaders::default();
        assert_eq!(leaders.believes(1, Some(1), None), None);
        assert_eq!(leaders.believes(0, Some(1), None), None);
        assert_eq!(leaders.believes(2, Some(2), None), Some("P1 and P2 both lead".into()));
        leaders.see(1, &Event::Crash);
        assert_eq!(leaders.believes(2, Some(2), None), None);
    }

    #[test]
    fn with_terms_one_in_each_may() {
        let mut leaders = Leaders::default();
        assert_eq!(leaders.believes(1, Some(1), Some(1)), None);
        assert_eq!(leaders.believes(2, Some(2), Some(2)), None);
        assert_eq!(leaders.count(), 2);
        assert_eq!(leaders.believes(0, Some(0), Some(2)), Some("P2 and P0 both lead in term 2".into()));
    }
}
