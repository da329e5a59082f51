//! The state in pieces, as a snapshot holds it: each module has pieces of its own. Only what does not follow from the rest is
//! written. Whatever is `Serialize` here is written to disk: see `format` before changing it.

use serde::{Deserialize, Serialize};

use super::{State, locks, sessions};

/// A piece of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// What belongs to no module.
    State {
        /// The time of the latest entry.
        now_ms: u64,
        /// See [`State::revision`].
        revision: u64,
    },
    /// Of the sessions.
    Sessions(sessions::Record),
    /// Of the locks.
    Locks(locks::Record),
}

impl State {
    /// All of it, in pieces. The same state always gives the same pieces in the same order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let own = Record::State { now_ms: self.now_ms, revision: self.revision };
        std::iter::once(own)
            .chain(self.sessions.records().map(Record::Sessions))
            .chain(self.locks.records().map(Record::Locks))
    }

    /// The state that these pieces are of, or a sentence about why they are of none. Whatever they say, it does not panic, nor does
    /// a state that it gives.
    pub fn restore<E: From<String>>(records: impl IntoIterator<Item = Result<Record, E>>) -> Result<State, E> {
        let mut state = State::default();
        // A state without one of these would begin to count anew.
        let mut heads = [("time and revision", 0), ("the term", 0), ("the counters of the locks", 0)];
        for record in records {
            let record = record?;
            match &record {
                Record::State { .. } => heads[0].1 += 1,
                Record::Sessions(sessions::Record::Term(_)) => heads[1].1 += 1,
                Record::Locks(locks::Record::Counters { .. }) => heads[2].1 += 1,
                Record::Sessions(_) | Record::Locks(_) => {}
            }
            match record {
                Record::State { now_ms, revision } => (state.now_ms, state.revision) = (now_ms, revision),
                Record::Sessions(record) => state.sessions.restore(record)?,
                Record::Locks(record) => state.locks.restore(record)?,
            }
        }
        if let Some((what, count)) = heads.into_iter().find(|(_, count)| *count != 1) {
            return Err(format!("the pieces of a state tell {what} once; these do so {count} times").into());
        }
        state.locks.restored();
        state.check()?;
        Ok(state)
    }
}
