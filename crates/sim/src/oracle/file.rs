//! Judges a replicated file of record append at the end of a run.

use std::collections::BTreeMap;

use baton_protocol::ProcessId;
use baton_protocol::append::{Slot, read};

/// The records that clients have appended, and the answers that they received.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The client that appended a record, by the content, which is unique.
    appended: BTreeMap<Vec<u8>, ProcessId>,
    /// The answers: content and offset.
    told: Vec<(Vec<u8>, u64)>,
}

/// The slots of a file, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of records that a reader sees.
    pub records: u64,
    /// Number of slots with padding.
    pub padding: u64,
    /// Number of slots that repeat a record.
    pub repeats: u64,
}

impl Files {
    /// `process` appends `data`. No client has appended the same data before.
    pub fn append(&mut self, process: ProcessId, data: Vec<u8>) {
        self.appended.insert(data, process);
    }

    /// The client of `data` was told that its record is at `offset`.
    pub fn told(&mut self, data: Vec<u8>, offset: u64) {
        self.told.push((data, offset));
    }

    /// Returns what is wrong with the files of the live replicas. The files must be equal only if the run is `quiet`,
    /// that is, if no event is left.
    pub fn judge(&self, files: &[(ProcessId, &[Slot])], quiet: bool) -> Option<String> {
        let misplaced = files.iter().find_map(|&(replica, file)| {
            let wrong = |(data, offset): &&(Vec<u8>, u64)| match file.get(*offset as usize) {
                Some(Slot::Record(record)) => record.data != *data,
                Some(Slot::Padding) | None => true,
            };
            let (data, offset) = self.told.iter().find(wrong)?;
            let client = self.appended.get(data)?;
            Some(format!("P{client} was told that its record is at {offset}, and P{replica} does not have it there"))
        });
        let invented = files.iter().find_map(|&(replica, file)| {
            let wrong = |slot: &&Slot| match slot {
                Slot::Record(record) => self.appended.get(&record.data) != Some(&record.client),
                Slot::Padding => false,
            };
            file.iter().find(wrong).map(|_| format!("P{replica} has a record that no client appended"))
        });
        let different = files.windows(2).find_map(|pair| {
            let [(one, file), (other, others)] = pair else { return None };
            (quiet && file != others).then(|| format!("P{one} and P{other} have different files after the last event"))
        });
        let repeated = files.iter().find_map(|&(replica, file)| {
            let mut seen: Vec<&[u8]> = read(file).map(|(_, record)| record.data.as_slice()).collect();
            seen.sort_unstable();
            let twice = seen.windows(2).any(|pair| pair[0] == pair[1]);
            twice.then(|| format!("a reader of P{replica} sees a record twice"))
        });
        misplaced.or(invented).or(different).or(repeated)
    }

    pub fn contents(file: &[Slot]) -> Contents {
        let (all, records) = (file.len() as u64, read(file).count() as u64);
        let padding = file.iter().filter(|slot| **slot == Slot::Padding).count() as u64;
        Contents { records, padding, repeats: all - padding - records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_protocol::append::Record;

    fn record(number: u64, data: u8) -> Slot {
        Slot::Record(Record { client: 0, number, data: vec![data] })
    }

    fn verdict(told: u64, files: &[&[Slot]]) -> Option<String> {
        let mut oracle = Files::default();
        oracle.append(0, vec![7]);
        oracle.told(vec![7], told);
        let files: Vec<_> = (1..).zip(files.iter().copied()).collect();
        oracle.judge(&files, true)
    }

    #[test]
    fn what_was_told_is_there_in_all_and_nothing_else() {
        let (good, other) = ([Slot::Padding, record(1, 7), record(1, 7)], [record(1, 7), Slot::Padding]);
        assert_eq!(verdict(1, &[&good, &good]), None);
        assert_eq!(Files::contents(&good), Contents { records: 1, padding: 1, repeats: 1 });
        let wrong = |told, files: &[&[Slot]]| verdict(told, files).unwrap();
        assert_eq!(wrong(1, &[&good, &other]), "P0 was told that its record is at 1, and P2 does not have it there");
        assert_eq!(wrong(0, &[&[record(1, 7), record(2, 8)]]), "P1 has a record that no client appended");
        assert_eq!(wrong(0, &[&other, &other[..1]]), "P1 and P2 have different files after the last event");
        assert_eq!(wrong(0, &[&[record(1, 7), record(2, 7)]]), "a reader of P1 sees a record twice");
    }
}
