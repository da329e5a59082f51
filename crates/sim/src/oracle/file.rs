//! A replicated file that records are appended to: what must be true of it when all is quiet.

use std::collections::BTreeMap;

use baton_protocol::ProcessId;
use baton_protocol::append::{Slot, read};

/// What clients have asked for and were told.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// By content, which is unique: who appended it.
    appended: BTreeMap<Vec<u8>, ProcessId>,
    /// What was told: the content and where it is.
    told: Vec<(Vec<u8>, u64)>,
}

/// What is in the file that is neither padding nor there for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// How many records a reader sees.
    pub records: u64,
    /// How many slots are padding.
    pub padding: u64,
    /// How many hold a record for another time.
    pub repeats: u64,
}

impl Files {
    /// `process` appends `data`, which nobody has appended before.
    pub fn append(&mut self, process: ProcessId, data: Vec<u8>) {
        self.appended.insert(data, process);
    }

    /// It was told where that is.
    pub fn told(&mut self, data: Vec<u8>, offset: u64) {
        self.told.push((data, offset));
    }

    /// What is wrong with the files of the replicas that live; only when all is quiet need they be equal.
    pub fn judge(&self, files: &[(ProcessId, &[Slot])], quiet: bool) -> Option<String> {
        let misplaced = files.iter().find_map(|&(replica, file)| {
            let wrong = |(data, offset): &&(Vec<u8>, u64)| match file.get(*offset as usize) {
                Some(Slot::Record(record)) => record.data != *data,
                Some(Slot::Padding) | None => true,
            };
            let (data, offset) = self.told.iter().find(wrong)?;
            let client = self.appended.get(data)?;
            Some(format!("what P{client} was told to be at {offset} is not there at P{replica}"))
        });
        let invented = files.iter().find_map(|&(replica, file)| {
            let wrong = |slot: &&Slot| match slot {
                Slot::Record(record) => self.appended.get(&record.data) != Some(&record.client),
                Slot::Padding => false,
            };
            file.iter().find(wrong).map(|_| format!("P{replica} has a record that nobody appended"))
        });
        let different = files.windows(2).find_map(|pair| {
            let [(one, file), (other, others)] = pair else { return None };
            (quiet && file != others).then(|| format!("P{one} and P{other} differ when all is quiet"))
        });
        let repeated = files.iter().find_map(|&(replica, file)| {
            let mut seen: Vec<&[u8]> = read(file).map(|(_, record)| record.data.as_slice()).collect();
            seen.sort_unstable();
            let twice = seen.windows(2).any(|pair| pair[0] == pair[1]);
            twice.then(|| format!("a reader of P{replica} sees a record twice"))
        });
        misplaced.or(invented).or(different).or(repeated)
    }

    /// What is in a file.
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
        assert_eq!(wrong(1, &[&good, &other]), "what P0 was told to be at 1 is not there at P2");
        assert_eq!(wrong(0, &[&[record(1, 7), record(2, 8)]]), "P1 has a record that nobody appended");
        assert_eq!(wrong(0, &[&other, &other[..1]]), "P1 and P2 differ when all is quiet");
        assert_eq!(wrong(0, &[&[record(1, 7), record(2, 7)]]), "a reader of P1 sees a record twice");
    }
}
