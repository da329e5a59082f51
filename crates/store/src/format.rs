//! The files FORMAT (marks a complete folder of ours, with its version) and WRITER (the release that wrote it).

use std::path::Path;

use super::disk::{self, Disk};
use super::error::OpenError;
use super::files::Files;
use super::line;
use super::version::{OLDEST_READ, Unreadable, VERSION};

pub(super) const FILE: &str = "FORMAT";
/// The release in this file appears in the error for a folder of an unknown version. Nothing else depends on it.
const WRITER: &str = "WRITER";
const RELEASE: &str = concat!("baton ", env!("CARGO_PKG_VERSION"));

/// The version of the folder, or none if the folder is not ours yet.
pub(super) fn read(disk: &dyn Disk, names: &[String]) -> Result<Option<u32>, OpenError> {
    if !names.iter().any(|name| name == FILE) {
        return Ok(None);
    }
    let bytes = disk.read(FILE).map_err(OpenError::io("read", FILE))?;
    match decode(&bytes) {
        Some(version) if version > VERSION => Err(newer(disk, version)),
        Some(found) if found < OLDEST_READ => Err(OpenError::TooOld { found }),
        Some(version) => Ok(Some(version)),
        _ => {
            let what = "it does not say which format the folder has".to_owned();
            Err(OpenError::Damaged { file: FILE.to_owned(), offset: 0, what })
        }
    }
}

/// Whether a server has used this folder.
pub fn is_folder_of_ours(path: &Path) -> bool {
    path.join(FILE).is_file()
}

/// While this file is there, the folder is being made of a backup.
const RESTORING: &str = "RESTORING";

/// From now on the folder is refused, until [`end_restore`] returns.
pub fn begin_restore(disk: &dyn Disk) -> Result<(), OpenError> {
    disk::replace(disk, RESTORING, &[b"baton restore\n"]).map_err(OpenError::io("write", RESTORING))
}

pub fn end_restore(disk: &dyn Disk) -> Result<(), OpenError> {
    disk.remove(RESTORING).and_then(|()| disk.sync_folder()).map_err(OpenError::io("remove", RESTORING))
}

/// Fails if the folder is only partly made of a backup.
pub fn refuse_unfinished(disk: &dyn Disk) -> Result<(), OpenError> {
    let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
    match names.iter().any(|name| name == RESTORING) {
        true => {
            Err(OpenError::Refused { why: "a restore into it was interrupted; empty it, and restore again".to_owned() })
        }
        false => Ok(()),
    }
}

/// Fails if opening the folder would change its version.
pub fn refuse_older(disk: &dyn Disk) -> Result<(), OpenError> {
    let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
    match read(disk, &names)? {
        Some(found) if found < VERSION => Err(OpenError::Older { found }),
        _ => Ok(()),
    }
}

/// Marks the folder as complete and of the current version.
pub(super) fn write(disk: &dyn Disk) -> Result<(), OpenError> {
    disk::replace(disk, FILE, &[encode(VERSION).as_bytes()]).map_err(OpenError::io("write", FILE))
}

/// From now on the folder must have the file.
pub(super) fn expect(files: &Files) {
    files.insert(FILE, encode(VERSION).len() as u64);
}

/// Writes the release of this program to WRITER.
pub(super) fn sign(disk: &dyn Disk) -> Result<(), OpenError> {
    if writer(disk).as_deref() == Some(RELEASE) {
        return Ok(());
    }
    disk::replace(disk, WRITER, &[format!("{RELEASE}\n").as_bytes()]).map_err(OpenError::io("write", WRITER))
}

pub(super) fn unreadable(disk: &dyn Disk, file: &str, why: Unreadable) -> OpenError {
    match why {
        Unreadable::Newer { version } => newer(disk, version),
        Unreadable::Malformed(what) => OpenError::Damaged { file: file.to_owned(), offset: 0, what },
    }
}

fn newer(disk: &dyn Disk, found: u32) -> OpenError {
    // This release did not write the newer bytes. So a WRITER file that names this release is out of date.
    OpenError::Newer { found, writer: writer(disk).filter(|writer| writer != RELEASE) }
}

/// The release that wrote the folder, if WRITER is readable.
fn writer(disk: &dyn Disk) -> Option<String> {
    let text = String::from_utf8(disk.read(WRITER).ok()?).ok()?;
    let release = text.strip_suffix('\n')?;
    let version = release.strip_prefix("baton ").filter(|version| (1..=40).contains(&version.len()))?;
    let sound = version.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    sound.then(|| release.to_owned())
}

fn encode(version: u32) -> String {
    line::encode(&format!("baton data format {version}"))
}

fn decode(bytes: &[u8]) -> Option<u32> {
    let version = line::decode(bytes)?.strip_prefix("baton data format ")?.parse().ok()?;
    // Any difference from what that version writes is damage.
    (encode(version).as_bytes() == bytes).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeDisk;

    #[test]
    fn a_newer_version_is_refused_by_name_and_what_says_nothing_is_damaged() {
        let disk = FakeDisk::default();
        let names = [FILE.to_owned()];
        assert_eq!(read(&disk, &[]).unwrap(), None);
        write(&disk).unwrap();
        assert_eq!(read(&disk, &names).unwrap(), Some(VERSION));
        disk.put(FILE, encode(2).into_bytes());
        assert_eq!(read(&disk, &names).unwrap(), Some(2));
        disk.put(FILE, encode(1).into_bytes());
        let why = read(&disk, &names).unwrap_err().to_string();
        let this = env!("CARGO_PKG_VERSION");
        assert_eq!(why, format!("it has data format 1; this is baton {this}, which reads formats 2 to 4"));

        disk.put(FILE, encode(VERSION + 1).into_bytes());
        for (writer, by, with) in [
            ("baton 9.4.0\n", "baton 9.4.0", "baton 9.4.0"),
            ("baton \0\n", "a newer version", "the version that wrote it"),
            (&format!("{RELEASE}\n"), "a newer version", "the version that wrote it"),
        ] {
            disk.put(WRITER, writer.into());
            assert_eq!(
                read(&disk, &names).unwrap_err().to_string(),
                format!(
                    "it has data format 5, written by {by}; this is baton {this}, which reads formats 2 to 4: start it with \
                     {with} or a newer version, or restore a backup that this version wrote"
                )
            );
        }
        for wrong in ["", "baton data format 1", "baton data format 2 00000000\n", "hello"] {
            disk.put(FILE, wrong.into());
            assert!(matches!(read(&disk, &names), Err(OpenError::Damaged { .. })), "{wrong:?}");
        }
    }
}
