//! The state as a list of records, for snapshots. Each module has its own records. Only data that cannot be derived is
//! written. Every `Serialize` type here is written to disk: read `format` before you change it.

use serde::{Deserialize, Serialize};

use super::{State, cluster, locks, sessions};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Data that belongs to no module.
    State {
        /// The time of the latest entry.
        now_ms: u64,
        revision: u64,
    },
    Sessions(sessions::Record),
    Locks(locks::Record),
    /// Of data format 3.
    Cluster(cluster::Record),
}

impl State {
    /// All records. Equal states give equal records in the same order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let own = Record::State { now_ms: self.now_ms, revision: self.revision };
        std::iter::once(own)
            .chain(self.sessions.records().map(Record::Sessions))
            .chain(self.locks.records().map(Record::Locks))
            .chain(self.cluster.record().map(Record::Cluster))
    }

    /// Builds a state from its records. Fails with a sentence if they do not form a valid state. No input can make this
    /// panic, nor make the resulting state panic later.
    pub fn restore<E: From<String>>(records: impl IntoIterator<Item = Result<Record, E>>) -> Result<State, E> {
        let mut state = State::default();
        // Without one of these, the state would begin to count again.
        let mut heads = [("time and revision", 0), ("the term", 0), ("the counters of the locks", 0)];
        for record in records {
            let record = record?;
            match &record {
                Record::State { .. } => heads[0].1 += 1,
                Record::Sessions(sessions::Record::Term(_)) => heads[1].1 += 1,
                Record::Locks(locks::Record::Counters { .. }) => heads[2].1 += 1,
                Record::Sessions(_) | Record::Locks(_) | Record::Cluster(_) => {}
            }
            match record {
                Record::State { now_ms, revision } => (state.now_ms, state.revision) = (now_ms, revision),
                Record::Sessions(record) => state.sessions.restore(record)?,
                Record::Locks(record) => state.locks.restore(record)?,
                Record::Cluster(record) => state.cluster = record.into(),
            }
        }
        if let Some((what, count)) = heads.into_iter().find(|(_, count)| *count != 1) {
            return Err(format!("a snapshot must have {what} once; this one has it {count} times").into());
        }
        state.locks.restored(state.cluster.closed_ms().is_some());
        state.check()?;
        Ok(state)
    }
}
