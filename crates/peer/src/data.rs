//! The file of a member: which beginnings of its group it has seen. It makes the fences of a group grow when the group is
//! stopped and started again, and tells the next start whether clients may still believe in their leases.
//!
//! The content is pure; [`Data`] writes it, and keeps a second process with the same id out of the folder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::beginning::{Agreed, GENERATION_MAX, Past};
use crate::group::{MemberId, fnv};

const MAGIC: [u8; 8] = *b"batongrp";
const VERSION: u16 = 2;
/// Magic, version, member, group, generation, longest lease, mark, checksum.
const BYTES: usize = 8 + 2 + 8 + 8 + 8 + 8 + 1 + 4;

/// Why a member cannot use its folder. Nothing in the folder has changed.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot use the folder {}: {source}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("the folder {} is in use: another process of member {id} runs", folder.display())]
    InUse { folder: PathBuf, id: MemberId },
    #[error("cannot read {}: {why}", file.display())]
    Unreadable { file: PathBuf, why: String },
    #[error("cannot write {}: {source}", file.display())]
    Unwritable { file: PathBuf, source: io::Error },
}

/// Why bytes are not the content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("it is no file of a group's member")]
    Foreign,
    #[error("it has version {found}, but this program knows only version {VERSION}")]
    Version { found: u16 },
    #[error("it is the file of member {found}; give each member its own")]
    Member { found: u64 },
    #[error("it is damaged; restore it, or remove it when no client has a lease of this group any more")]
    Broken,
}

pub fn encode(id: MemberId, past: &Past) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((id as u64).to_le_bytes());
    bytes.extend(past.group.to_le_bytes());
    bytes.extend(past.generation.to_le_bytes());
    bytes.extend(past.ttl_max_ms.to_le_bytes());
    bytes.push(u8::from(past.held_nothing));
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

pub fn decode(id: MemberId, bytes: &[u8]) -> Result<Past, Damage> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(Damage::Broken)?;
    if *magic != MAGIC {
        return Err(Damage::Foreign);
    }
    let (version, rest) = rest.split_first_chunk().ok_or(Damage::Broken)?;
    match u16::from_le_bytes(*version) {
        VERSION => {}
        found => return Err(Damage::Version { found }),
    }
    let (found, rest) = rest.split_first_chunk().ok_or(Damage::Broken)?;
    let (group, rest) = rest.split_first_chunk().ok_or(Damage::Broken)?;
    let (generation, rest) = rest.split_first_chunk().ok_or(Damage::Broken)?;
    let (ttl_max_ms, rest) = rest.split_first_chunk().ok_or(Damage::Broken)?;
    let &[held_nothing, a, b, c, d] = rest else { return Err(Damage::Broken) };
    let generation = u64::from_le_bytes(*generation);
    let is_sound = crc32c::crc32c(&bytes[..BYTES - 4]) == u32::from_le_bytes([a, b, c, d]);
    if !is_sound || held_nothing > 1 || generation > GENERATION_MAX {
        return Err(Damage::Broken);
    }
    let found = u64::from_le_bytes(*found);
    if found != id as u64 {
        return Err(Damage::Member { found });
    }
    let (ttl_max_ms, group) = (u64::from_le_bytes(*ttl_max_ms), u64::from_le_bytes(*group));
    Ok(Past { generation, ttl_max_ms, held_nothing: held_nothing == 1, group })
}

/// The file of one member. Its process alone has it.
#[derive(Debug)]
pub struct Data {
    id: MemberId,
    folder: PathBuf,
    file: PathBuf,
    /// Locked as long as the process runs.
    _lock: File,
    /// What the file said at the start.
    found: Option<Past>,
    ttl_max_ms: u64,
    writing: Mutex<()>,
}

/// The name of a folder for the members that use this group file. It comes from the path of the file, and not from its
/// content: a group whose addresses change must not forget its earlier beginnings.
pub fn folder_name(group_file: &Path) -> io::Result<String> {
    let path = fs::canonicalize(group_file)?;
    Ok(format!("{:016x}", fnv(path.as_os_str().as_encoded_bytes())))
}

impl Data {
    /// Opens the file of member `id`. The folder is made if it is missing, and the file at the first beginning. A client's
    /// lease lasts at most `ttl_max`.
    pub fn open(folder: &Path, id: MemberId, ttl_max: Duration) -> Result<Data, DataError> {
        let cannot = |source| DataError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => cannot(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")),
            _ => cannot(error),
        })?;
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join(format!("lock-{id}")));
        let lock = lock.map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::InUse { folder: folder.to_owned(), id }),
            Err(TryLockError::Error(source)) => return Err(cannot(source)),
        }
        let file = folder.join(format!("member-{id}"));
        let unreadable = |why: String| DataError::Unreadable { file: file.clone(), why };
        let found = match fs::read(&file) {
            Ok(bytes) => Some(decode(id, &bytes).map_err(|damage| unreadable(damage.to_string()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let ttl_max_ms = u64::try_from(ttl_max.as_millis()).unwrap_or(u64::MAX);
        Ok(Data { id, folder: folder.to_owned(), file, _lock: lock, found, ttl_max_ms, writing: Mutex::default() })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the member tells the others about its past. Leases from before and leases from now on may differ in length.
    pub fn past(&self) -> Past {
        let found = self.found.unwrap_or(Past { generation: 0, ttl_max_ms: 0, held_nothing: true, group: 0 });
        Past { ttl_max_ms: found.ttl_max_ms.max(self.ttl_max_ms), ..found }
    }

    /// All leases from earlier are over.
    pub(crate) fn later(&self, agreed: Agreed, held_nothing: bool) -> Past {
        let Agreed { generation, group, .. } = agreed;
        Past { generation, ttl_max_ms: self.ttl_max_ms, held_nothing, group }
    }

    /// Replaces the file. When this returns, the new content survives a crash of the machine.
    pub fn write(&self, past: &Past) -> Result<(), DataError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let replace = || {
            let new = self.file.with_extension("new");
            let mut file = File::create(&new)?;
            file.write_all(&encode(self.id, past))?;
            file.sync_all()?;
            fs::rename(&new, &self.file)?;
            File::open(&self.folder)?.sync_all()
        };
        replace().map_err(|source| DataError::Unwritable { file: self.file.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAST: Past = Past { generation: 7, ttl_max_ms: 60_000, held_nothing: false, group: 99 };
    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn the_file_says_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let data = Data::open(&folder.path().join("a/b"), 2, TTL).unwrap();
        assert_eq!(data.past(), Past { generation: 0, ttl_max_ms: 10_000, held_nothing: true, group: 0 });
        data.write(&PAST).unwrap();
        drop(data);
        let data = Data::open(&folder.path().join("a/b"), 2, TTL).unwrap();
        assert_eq!(data.past(), PAST, "the longer lease counts");
        let agreed = Agreed { generation: 8, wait_ms: 0, group: 99 };
        let later = Past { generation: 8, ttl_max_ms: 10_000, held_nothing: true, group: 99 };
        assert_eq!(data.later(agreed, true), later);
    }

    #[test]
    fn a_group_file_has_the_same_folder_when_its_content_or_its_path_in_a_command_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("group.toml"), folder.path().join("other.toml"));
        let link = folder.path().join("link.toml");
        fs::write(&file, "members = [\"a:1\"]").unwrap();
        fs::write(&other, "members = [\"a:1\"]").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let name = folder_name(&file).unwrap();
        fs::write(&file, "members = [\"b:1\"]").unwrap();
        assert_eq!(folder_name(&file).unwrap(), name);
        assert_eq!(folder_name(&link).unwrap(), name);
        assert_ne!(folder_name(&other).unwrap(), name);
    }

    #[test]
    fn a_second_process_with_the_same_id_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = Data::open(folder.path(), 1, TTL).unwrap();
        Data::open(folder.path(), 0, TTL).unwrap();
        let error = Data::open(folder.path(), 1, TTL).unwrap_err().to_string();
        assert!(error.ends_with("is in use: another process of member 1 runs"), "{error}");
        drop(first);
        Data::open(folder.path(), 1, TTL).unwrap();
    }

    #[test]
    fn a_file_instead_of_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "content").unwrap();
        let error = Data::open(&file, 0, TTL).unwrap_err().to_string();
        assert_eq!(error, format!("cannot use the folder {}: it is not a folder", file.display()));
        assert_eq!(fs::read(&file).unwrap(), b"content");
    }

    /// Each file is refused with one sentence, and stays as it was.
    #[test]
    fn a_damaged_file_is_refused_and_not_changed() {
        let good = encode(0, &PAST);
        let mut cases: Vec<(Vec<u8>, Damage)> =
            (0..good.len()).map(|length| (good[..length].to_vec(), Damage::Broken)).collect();
        for at in 10..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x40;
            cases.push((bytes, Damage::Broken));
        }
        cases.push((b"something else, and longer than the file of a member".to_vec(), Damage::Foreign));
        let newer = [&MAGIC[..], &3u16.to_le_bytes(), &good[10..]].concat();
        cases.push((newer, Damage::Version { found: 3 }));
        cases.push((encode(2, &PAST), Damage::Member { found: 2 }));
        cases.push(([&good[..], &[0]].concat(), Damage::Broken));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("member-0");
        for (bytes, damage) in cases {
            fs::write(&file, &bytes).unwrap();
            let error = Data::open(folder.path(), 0, TTL).unwrap_err().to_string();
            assert_eq!(error, format!("cannot read {}: {damage}", file.display()));
            assert_eq!(fs::read(&file).unwrap(), bytes);
        }
        assert_eq!(decode(0, &good), Ok(PAST));
    }
}
