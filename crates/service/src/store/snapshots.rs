//! Snapshots: each is a file of its own, written whole, then named.

use std::io;
use std::sync::Arc;

use super::disk::{self, Disk};
use super::error::OpenError;

const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".baton";
const MAGIC: &[u8; 8] = b"BATSNAP1";
/// Magic, length of the payload, its CRC-32C, and the CRC-32C of all that.
const HEADER_BYTES: usize = 24;

/// The snapshots of a data folder. The newest counts; others are left-overs.
#[derive(Clone)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
}

impl Snapshots {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Snapshots {
        Snapshots { disk }
    }

    /// Keeps a snapshot of all up to this index. When it returns, the snapshot is durable and older ones are gone.
    pub fn save(&self, index: u64, payload: &[&[u8]]) -> io::Result<()> {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        let crc = payload.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&(length as u64).to_le_bytes());
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&header[..20]);
        header[20..24].copy_from_slice(&crc.to_le_bytes());

        let parts: Vec<&[u8]> = std::iter::once(&header[..]).chain(payload.iter().copied()).collect();
        disk::replace(&*self.disk, &name(index), &parts)?;
        for (other, name) in self.list()? {
            if other < index {
                self.disk.remove(&name)?;
            }
        }
        self.disk.sync_folder()
    }

    /// The newest snapshot, if there is one, and up to which index it is. If it is damaged, an older one is no substitute.
    pub fn newest(&self) -> Result<Option<(u64, Vec<u8>)>, OpenError> {
        let all = self.list().map_err(OpenError::io("list", "the data folder"))?;
        let newest = all.into_iter().map(|(index, _)| index).max();
        newest.map(|index| Ok((index, self.read(index)?))).transpose()
    }

    /// The snapshot of all up to this index.
    pub fn read(&self, index: u64) -> Result<Vec<u8>, OpenError> {
        let name = name(index);
        let mut bytes = self.disk.read(&name).map_err(OpenError::io("read", &name))?;
        match check(&bytes) {
            Ok(()) => {
                bytes.drain(..HEADER_BYTES);
                Ok(bytes)
            }
            Err((offset, what)) => Err(OpenError::Damaged { file: name, offset, what: what.to_owned() }),
        }
    }

    fn list(&self) -> io::Result<Vec<(u64, String)>> {
        let index = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok();
        Ok(self.disk.list()?.into_iter().filter_map(|name| Some((index(&name)?, name))).collect())
    }
}

fn name(index: u64) -> String {
    format!("{PREFIX}{index:020}{SUFFIX}")
}

fn check(bytes: &[u8]) -> Result<(), (u64, &'static str)> {
    let header = bytes.get(..HEADER_BYTES).ok_or((bytes.len() as u64, "it is shorter than a snapshot's header"))?;
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let length = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    if &header[..8] != MAGIC || crc32c::crc32c(&header[..20]) != u32_at(20) {
        return Err((0, "the header of the snapshot does not match its checksum"));
    }
    let payload = &bytes[HEADER_BYTES..];
    if payload.len() as u64 != length {
        return Err((bytes.len() as u64, "the snapshot is not as long as its header says"));
    }
    if crc32c::crc32c(payload) != u32_at(16) {
        return Err((HEADER_BYTES as u64, "the snapshot does not match its checksum"));
    }
    Ok(())
}
