//! A disk in memory that loses unsynced data, tears writes and fails, for tests and simulations.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk::{Disk, DiskFile};

/// A disk in memory. Clones share the same disk.
#[derive(Clone, Default)]
pub struct FakeDisk(Arc<Mutex<Inner>>);

/// Called before each operation. If it returns an error, the operation fails with this error.
type Before = Box<dyn FnMut(&Inner, &Operation) -> io::Result<()> + Send>;

/// An operation of the disk, except reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create(String),
    Write(String),
    Sync(String),
    Rename(String),
    Remove(String),
    SyncFolder,
}

impl Operation {
    /// The file that it changes.
    pub fn name(&self) -> Option<&str> {
        match self {
            Operation::Create(name)
            | Operation::Write(name)
            | Operation::Sync(name)
            | Operation::Rename(name)
            | Operation::Remove(name) => Some(name),
            Operation::SyncFolder => None,
        }
    }
}

#[derive(Default)]
pub struct Inner {
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    names_synced: BTreeMap<String, usize>,
    /// Changes of names since the last sync of the folder, in order: the name, and the file that has it from then on.
    names_unsynced: Vec<Vec<(String, Option<usize>)>>,
    before: Option<Before>,
    /// True if the disk reports that it has no free space.
    full: bool,
}

#[derive(Clone, Default)]
struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// A small generator of pseudo-random numbers (SplitMix64), so that a seed reproduces a run.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }
}

impl Inner {
    fn file(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
    }

    fn name(&mut self, changes: Vec<(String, Option<usize>)>) {
        for (name, file) in &changes {
            match file {
                Some(file) => self.names.insert(name.clone(), *file),
                None => self.names.remove(name),
            };
        }
        self.names_unsynced.push(changes);
    }

    fn ask(&mut self, operation: Operation) -> io::Result<()> {
        let Some(mut before) = self.before.take() else { return Ok(()) };
        let result = before(self, &operation);
        self.before = Some(before);
        result
    }

    /// The content after a power cut at this moment. With seed 0 all unsynced changes are lost. With another seed some
    /// changes of names and some pieces of some writes survive.
    pub fn after_power_cut(&self, seed: u64) -> FakeDisk {
        let mut random = Random(seed);
        let mut names = self.names_synced.clone();
        for changes in &self.names_unsynced {
            if seed == 0 || random.below(2) == 0 {
                continue;
            }
            for (name, file) in changes {
                match file {
                    Some(file) => names.insert(name.clone(), *file),
                    None => names.remove(name),
                };
            }
        }
        let files = self.files.iter().map(|file| file.after_power_cut(seed, &mut random)).collect();
        let names_synced = names.clone();
        FakeDisk(Arc::new(Mutex::new(Inner { files, names, names_synced, ..Inner::default() })))
    }
}

impl Contents {
    fn after_power_cut(&self, seed: u64, random: &mut Random) -> Contents {
        let mut bytes = self.synced.clone();
        if seed != 0 {
            // The new length of a file may survive without its bytes.
            if random.below(2) == 0 {
                bytes.resize(self.now.len(), 0);
            }
            for (offset, written) in &self.unsynced {
                let mut start = 0;
                while start < written.len() {
                    // Single bytes, small pieces, sectors, or the whole write.
                    let piece = [1, 16, 512, written.len()][random.below(4)].min(written.len() - start);
                    let (from, to) = (offset + start, offset + start + piece);
                    if random.below(2) == 0 && to <= bytes.len() {
                        bytes[from..to].copy_from_slice(&written[start..start + piece]);
                    }
                    start += piece;
                }
            }
        }
        Contents { now: bytes.clone(), synced: bytes, unsynced: Vec::new() }
    }
}

impl FakeDisk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// From now on, calls `before` before each operation.
    pub fn before_each(&self, before: impl FnMut(&Inner, &Operation) -> io::Result<()> + Send + 'static) {
        self.lock().before = Some(Box::new(before));
    }

    /// Ends [`FakeDisk::before_each`].
    pub fn ask_no_more(&self) {
        self.lock().before = None;
    }

    pub fn after_power_cut(&self, seed: u64) -> FakeDisk {
        self.lock().after_power_cut(seed)
    }

    /// How many bytes of the files are not synced.
    pub fn unsynced(&self) -> usize {
        self.lock().files.iter().flat_map(|file| &file.unsynced).map(|(_, bytes)| bytes.len()).sum()
    }

    /// True if the files have the same names and the same bytes.
    pub fn has_the_files_of(&self, other: &FakeDisk) -> bool {
        let files = |inner: &Inner| -> BTreeMap<String, Vec<u8>> {
            inner.names.iter().map(|(name, file)| (name.clone(), inner.files[*file].now.clone())).collect()
        };
        let ours = files(&self.lock());
        ours == files(&other.lock())
    }

    /// The same files and the same unsynced changes on another disk, on which no open file of this one writes.
    pub fn fork(&self) -> FakeDisk {
        let Inner { files, names, names_synced, names_unsynced, full, .. } = &*self.lock();
        let (files, names, names_synced) = (files.clone(), names.clone(), names_synced.clone());
        let inner =
            Inner { files, names, names_synced, names_unsynced: names_unsynced.clone(), before: None, full: *full };
        FakeDisk(Arc::new(Mutex::new(inner)))
    }

    /// The same files on another disk, all synced.
    pub fn copy(&self) -> FakeDisk {
        let inner = self.lock();
        let files = inner.names.iter().map(|(name, file)| (name.clone(), inner.files[*file].now.clone()));
        let copy = FakeDisk::default();
        for (name, bytes) in files {
            copy.put(&name, bytes);
        }
        copy
    }

    /// Creates a synced file with these bytes.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut inner = self.lock();
        let file = inner.files.len();
        inner.files.push(Contents { now: bytes.clone(), synced: bytes, unsynced: Vec::new() });
        inner.names.insert(name.to_owned(), file);
        inner.names_synced.insert(name.to_owned(), file);
    }

    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// In alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }
}

impl Disk for FakeDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let inner = self.lock();
        Ok(inner.files[inner.file(name)?].now.clone())
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock();
        inner.ask(Operation::Create(name.to_owned()))?;
        let file = inner.files.len();
        inner.files.push(Contents { now: vec![0; length as usize], ..Contents::default() });
        inner.name(vec![(name.to_owned(), Some(file))]);
        Ok(Box::new(FakeFile { disk: self.clone(), name: name.to_owned(), file }))
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        let inner = self.lock();
        Ok(inner.files[inner.file(name)?].now.len() as u64)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.lock().file(name)?;
        Ok(Box::new(FakeFile { disk: self.clone(), name: name.to_owned(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.ask(Operation::Rename(to.to_owned()))?;
        let file = inner.file(from)?;
        inner.name(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.ask(Operation::Remove(name.to_owned()))?;
        inner.file(name)?;
        inner.name(vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut inner = self.lock();
        inner.ask(Operation::SyncFolder)?;
        inner.names_synced = inner.names.clone();
        inner.names_unsynced.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(if self.lock().full { 0 } else { u64::MAX })
    }

    fn is_there(&self) -> bool {
        true
    }
}

struct FakeFile {
    disk: FakeDisk,
    name: String,
    file: usize,
}

impl DiskFile for FakeFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].now.len() as u64)
    }

    fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let inner = self.disk.lock();
        let bytes = &inner.files[self.file].now;
        let rest = &bytes[bytes.len().min(offset as usize)..];
        Ok(rest[..rest.len().min(length)].to_vec())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.ask(Operation::Write(self.name.clone()))?;
        let file = &mut inner.files[self.file];
        let start = offset as usize;
        if file.now.len() < start + bytes.len() {
            file.now.resize(start + bytes.len(), 0);
        }
        file.now[start..start + bytes.len()].copy_from_slice(bytes);
        file.unsynced.push((start, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        let asked = inner.ask(Operation::Sync(self.name.clone()));
        let file = &mut inner.files[self.file];
        let unsynced = std::mem::take(&mut file.unsynced);
        // Linux behaves like this: after a failed sync, nothing is left to write, but the lost bytes can still be read.
        asked?;
        file.synced.resize(file.now.len(), 0);
        for (start, bytes) in unsynced {
            file.synced[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}
