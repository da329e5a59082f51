//! The file layer: everything that the store needs from a disk. Tests use a fake disk instead.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::error::OpenError;

/// The process that has locked this file owns the folder.
const LOCK: &str = "LOCK";

/// A folder of files, and the rules of durability.
///
/// Bytes are durable once their file is synced. The creation, renaming and removal of a file are durable once the
/// folder is synced.
pub trait Disk: Send + Sync + 'static {
    fn list(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Creates a file of `length` zeros with reserved space. Replaces a file of the same name.
    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>>;
    fn length(&self, name: &str) -> io::Result<u64>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces a file that has the name `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all creations, renamings and removals durable.
    fn sync_folder(&self) -> io::Result<()>;
    fn free_bytes(&self) -> io::Result<u64>;
    /// Whether the folder is still at the path where it was opened. Writes to a removed folder are lost, and another
    /// process may have made a new folder at the same path.
    fn is_there(&self) -> bool;
}

/// An open file. It stays the same file when another file takes its name.
pub trait DiskFile: Send + Sync {
    fn length(&self) -> io::Result<u64>;
    /// Returns fewer bytes if the file ends before.
    fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>>;
    /// Writes all bytes. The file grows if necessary.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all writes to the file durable.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the file system. Only this process uses it while this value lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The lock file. The system unlocks it when the process ends, however it ends.
    lock: File,
}

impl Folder {
    /// Locks the folder. Creates it if it does not exist.
    pub fn open(path: impl Into<PathBuf>) -> Result<Folder, OpenError> {
        let path = path.into();
        if path.exists() && !path.is_dir() {
            return Err(OpenError::NotAFolder);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(OpenError::Folder)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK));
        let lock = lock.map_err(OpenError::io("open", LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path, lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse),
            Err(TryLockError::Error(source)) => Err(OpenError::io("lock", LOCK)(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A file whose name is not UTF-8 is not ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path.join(name))
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(self.path.join(name))?;
        match fallocate(&file, FallocateFlags::empty(), 0, i64::try_from(length).unwrap_or(i64::MAX)) {
            Ok(()) => {}
            // Some file systems cannot reserve space. There, a full disk is noticed only by a later write.
            Err(Errno::EOPNOTSUPP) => file.set_len(length)?,
            // Nothing to reserve.
            Err(Errno::EINVAL) if length == 0 => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Box::new(file))
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path.join(name))?.len())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = nix::sys::statvfs::statvfs(&self.path)?;
        Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
    }

    fn is_there(&self) -> bool {
        let file = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let ours = self.lock.metadata().map(file);
        let there = std::fs::metadata(self.path.join(LOCK)).map(file);
        matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        // The length may come from a damaged file. It must not decide how much memory is allocated.
        let rest = self.length()?.saturating_sub(offset);
        let mut bytes = vec![0; length.min(usize::try_from(rest).unwrap_or(usize::MAX))];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Replaces a whole file atomically: after a power cut at any moment, the name has either the old content or the
/// complete new content.
pub(crate) fn replace(disk: &dyn Disk, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = format!("{name}{TEMPORARY}");
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let file = disk.create(&temporary, length as u64)?;
    let mut offset = 0;
    for part in parts {
        file.write_at(part, offset)?;
        offset += part.len() as u64;
    }
    file.sync()?;
    disk.rename(&temporary, name)?;
    disk.sync_folder()
}

/// The ending of the names of unfinished files.
pub(crate) const TEMPORARY: &str = ".tmp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_once_and_is_free_again_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/on/demand");
        let first = Folder::open(&path).unwrap();
        let refused = Folder::open(&path).unwrap_err();
        assert!(matches!(refused, OpenError::InUse), "{refused}");
        drop(first);
        Folder::open(&path).unwrap();
    }

    #[test]
    fn a_folder_that_was_removed_is_not_there_even_if_another_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = Folder::open(&path).unwrap();
        assert!(first.is_there());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(!first.is_there());
        let second = Folder::open(&path).unwrap();
        assert_eq!((first.is_there(), second.is_there()), (false, true));
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"").unwrap();
        assert!(matches!(Folder::open(&file), Err(OpenError::NotAFolder)));
        assert!(matches!(Folder::open(file.join("below")), Err(OpenError::Folder(_))));
    }

    #[test]
    fn a_lock_file_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(LOCK)).unwrap();
        let why = Folder::open(folder.path()).unwrap_err().to_string();
        assert_eq!(why, format!("cannot open {LOCK}: Is a directory (os error 21)"));
    }

    #[test]
    fn files_are_made_read_named_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Folder::open(folder.path()).unwrap();
        disk.create("a", 5).unwrap().write_at(b"xy", 1).unwrap();
        assert_eq!(disk.read("a").unwrap(), b"\0xy\0\0");
        replace(&disk, "b", &[b"one", b"", b"two"]).unwrap();
        assert_eq!(disk.read("b").unwrap(), b"onetwo");
        let file = disk.open("b").unwrap();
        file.write_at(b"O", 0).unwrap();
        assert_eq!((file.read_at(1, 3).unwrap(), file.read_at(4, 9).unwrap()), (b"net".to_vec(), b"wo".to_vec()));
        assert_eq!((file.read_at(7, 1).unwrap(), disk.length("b").unwrap()), (Vec::new(), 6));
        disk.rename("b", "a").unwrap();
        assert_eq!(disk.read("a").unwrap(), b"Onetwo");
        disk.remove("a").unwrap();
        disk.create("empty", 0).unwrap();
        let mut names = disk.list().unwrap();
        names.sort();
        assert_eq!(names, ["LOCK", "empty"]);
        assert!(disk.free_bytes().unwrap() > 0);
    }
}
