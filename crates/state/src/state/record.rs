//! The state as a list of records, for snapshots.

use super::modules::Modules;
use super::{Record, State, feed, sessions};

/// The record of data that belongs to no module, in words.
pub(super) const HEAD: &str = "time and revision";

impl State {
    /// All records. Equal states give equal records in the same order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let own = Record::State { now_ms: self.now_ms, revision: self.revision };
        std::iter::once(own)
            .chain(self.sessions.records().map(Record::Sessions))
            .chain(self.modules.records())
            .chain(self.cluster.record().map(Record::Cluster))
            .chain(self.feed.records().map(Record::Feed))
    }

    /// Builds a state from its records. Fails with a sentence if they do not form a valid state. No input can make this
    /// panic, nor make the resulting state panic later.
    pub fn restore<E: From<String>>(records: impl IntoIterator<Item = Result<Record, E>>) -> Result<State, E> {
        let mut state = State::default();
        // Without one of these, the state would begin to count again.
        let mut feed = feed::Restoring::default();
        let mut heads: Vec<(&str, usize)> =
            [HEAD, sessions::HEAD].into_iter().chain(Modules::heads()).map(|head| (head, 0)).collect();
        for record in records {
            let record = record?;
            if let Some(is) = record.head() {
                heads.iter_mut().filter(|(head, _)| *head == is).for_each(|(_, count)| *count += 1);
            }
            match record {
                Record::State { now_ms, revision } => (state.now_ms, state.revision) = (now_ms, revision),
                Record::Sessions(record) => state.sessions.restore(record)?,
                Record::Cluster(record) => state.cluster = record.into(),
                Record::Feed(record) => feed.add(&mut state.feed, record)?,
                of_module => state.modules.restore(of_module)?,
            }
        }
        if let Some((what, count)) = heads.into_iter().find(|(_, count)| *count != 1) {
            return Err(format!("a snapshot must have {what} once; this one has it {count} times").into());
        }
        state.modules.restored(state.cluster.closed_ms().is_some());
        state.check()?;
        Ok(state)
    }
}
