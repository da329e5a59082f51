//! The file FORMAT: that the folder is one of ours, complete, and of which version.

use super::disk::{self, Disk};
use super::error::OpenError;

const FILE: &str = "FORMAT";
const KNOWN: u32 = 1;

/// Is the folder one of ours (it has the file), of a version that we know?
pub(super) fn read(disk: &dyn Disk, names: &[String]) -> Result<bool, OpenError> {
    if !names.iter().any(|name| name == FILE) {
        return Ok(false);
    }
    let bytes = disk.read(FILE).map_err(OpenError::io("read", FILE))?;
    match parse(&bytes) {
        Some(found) if found > KNOWN => Err(OpenError::Newer { found, known: KNOWN }),
        Some(KNOWN) => Ok(true),
        _ => {
            let what = "it does not say which format the folder has".to_owned();
            Err(OpenError::Damaged { file: FILE.to_owned(), offset: 0, what })
        }
    }
}

/// Says that the folder is one of ours.
pub(super) fn write(disk: &dyn Disk) -> Result<(), OpenError> {
    disk::replace(disk, FILE, &[text(KNOWN).as_bytes()]).map_err(OpenError::io("write", FILE))
}

fn text(version: u32) -> String {
    let says = format!("baton data format {version}");
    format!("{says} {:08x}\n", crc32c::crc32c(says.as_bytes()))
}

fn parse(bytes: &[u8]) -> Option<u32> {
    let says = std::str::from_utf8(bytes).ok()?;
    let version = says.strip_prefix("baton data format ")?.split(' ').next()?.parse().ok()?;
    // Whatever is not exactly what that version writes is damaged.
    (text(version) == says).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::Folder;

    #[test]
    fn a_newer_version_is_refused_and_so_is_what_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Folder::open(folder.path()).unwrap();
        let names = [FILE.to_owned()];
        assert!(!read(&disk, &[]).unwrap());
        write(&disk).unwrap();
        assert!(read(&disk, &names).unwrap());
        disk::replace(&disk, FILE, &[text(KNOWN + 1).as_bytes()]).unwrap();
        assert!(matches!(read(&disk, &names), Err(OpenError::Newer { found: 2, known: 1 })));
        for wrong in ["", "baton data format 1", "baton data format 2 00000000\n", "hello"] {
            disk::replace(&disk, FILE, &[wrong.as_bytes()]).unwrap();
            assert!(matches!(read(&disk, &names), Err(OpenError::Damaged { .. })), "{wrong:?}");
        }
    }
}
