//! The file VOTED: to which start of a node this node has given its vote of a term.
//!
//! The log has the vote, but not the start of the process that got it. Two processes with one id could both get it
//! otherwise. The file has two places in different blocks, so a write that a power cut tears leaves the other place as it
//! was. Each place has its line twice, so that a damaged byte is healed.

use std::io;

use super::disk::{self, Disk, DiskFile};
use super::error::OpenError;
use super::files::Files;
use super::line;

pub(crate) const FILE: &str = "VOTED";
/// Disks lose whole blocks of this size. One lost block leaves the other place intact.
const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: usize = 2 * BLOCK_BYTES;
const LINE_BYTES: usize =
    "baton vote term 01234567890123456789 node 01234567890123456789 start 0123456789abcdef 01234567\n".len();

/// A vote, and the start of the process that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    pub term: u64,
    pub node: u64,
    pub start: u64,
}

/// The file, open for writing.
pub struct Voted(Box<dyn DiskFile>);

impl Voted {
    /// Opens or creates the file. Returns what its two places say, too; that is durable.
    pub fn open(disk: &dyn Disk, files: &Files) -> Result<(Voted, [Option<Cast>; 2]), OpenError> {
        let names = disk.list().map_err(OpenError::io("list", "the data folder"))?;
        if !names.iter().any(|name| name == FILE) {
            disk::replace(disk, FILE, &[&[0; FILE_BYTES]]).map_err(OpenError::io("write", FILE))?;
        }
        let bytes = disk.read(FILE).map_err(OpenError::io("read", FILE))?;
        if bytes.len() != FILE_BYTES {
            let what = format!("it has {} bytes and should have {FILE_BYTES}", bytes.len());
            return Err(OpenError::Damaged { file: FILE.to_owned(), offset: 0, what });
        }
        let voted = Voted(disk.open(FILE).map_err(OpenError::io("open", FILE))?);
        let casts = [0, 1].map(|place| read(&bytes[place * BLOCK_BYTES..]));
        // What was read may be only in the memory of the operating system, and one of two lines may be damaged.
        let written = (0..).zip(casts).try_for_each(|(place, cast)| cast.map_or(Ok(()), |cast| voted.put(place, cast)));
        written.and_then(|()| voted.0.sync()).map_err(OpenError::io("write", FILE))?;
        files.insert(FILE, FILE_BYTES as u64);
        Ok((voted, casts))
    }

    /// Replaces what a place (0 or 1) says. It is durable when this returns.
    pub fn write(&self, place: usize, cast: Cast) -> io::Result<()> {
        self.put(place, cast)?;
        self.0.sync()
    }

    fn put(&self, place: usize, cast: Cast) -> io::Result<()> {
        self.0.write_at(encode(cast).repeat(2).as_bytes(), (place * BLOCK_BYTES) as u64)
    }
}

fn encode(Cast { term, node, start }: Cast) -> String {
    line::encode(&format!("baton vote term {term:020} node {node:020} start {start:016x}"))
}

/// None if nothing was written, or if a power cut interrupted the write: then nothing has followed from it.
fn read(place: &[u8]) -> Option<Cast> {
    [0, LINE_BYTES].into_iter().find_map(|at| decode(place.get(at..at + LINE_BYTES)?))
}

fn decode(bytes: &[u8]) -> Option<Cast> {
    let (term, rest) = line::decode(bytes)?.strip_prefix("baton vote term ")?.split_once(" node ")?;
    let (node, start) = rest.split_once(" start ")?;
    let start = u64::from_str_radix(start, 16).ok()?;
    Some(Cast { term: term.parse().ok()?, node: node.parse().ok()?, start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeDisk;

    fn cast(term: u64) -> Cast {
        Cast { term, node: u64::MAX / term, start: u64::MAX - term }
    }

    fn reopened(disk: &FakeDisk) -> [Option<Cast>; 2] {
        Voted::open(disk, &Files::default()).unwrap().1
    }

    #[test]
    fn a_power_cut_during_a_write_leaves_the_other_place_as_it_was() {
        for (seed, after) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
            let disk = FakeDisk::default();
            let (voted, casts) = Voted::open(&disk, &Files::default()).unwrap();
            assert_eq!(casts, [None, None]);
            voted.write(0, cast(1)).unwrap();
            voted.write(1, cast(2)).unwrap();
            voted.put(0, cast(3)).unwrap();
            if after {
                voted.0.sync().unwrap();
            }
            let [torn, kept] = reopened(&disk.after_power_cut(seed));
            assert_eq!(kept, Some(cast(2)));
            match after {
                true => assert_eq!(torn, Some(cast(3))),
                false => assert!([None, Some(cast(1)), Some(cast(3))].contains(&torn), "{torn:?}"),
            }
        }
    }

    #[test]
    fn any_damaged_byte_is_healed() {
        let disk = FakeDisk::default();
        let (voted, _) = Voted::open(&disk, &Files::default()).unwrap();
        voted.write(1, cast(u64::MAX)).unwrap();
        let sound = disk.read(FILE).unwrap();
        for at in BLOCK_BYTES..BLOCK_BYTES + 2 * LINE_BYTES {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x40;
            disk.open(FILE).unwrap().write_at(&damaged, 0).unwrap();
            assert_eq!(reopened(&disk), [None, Some(cast(u64::MAX))]);
            assert_eq!(disk.read(FILE).unwrap(), sound, "byte {at}");
        }
        disk::replace(&disk, FILE, &[&sound[1..]]).unwrap();
        let refused = Voted::open(&disk, &Files::default()).err().unwrap().to_string();
        assert!(refused.starts_with("VOTED is damaged at byte 0: it has 8191 bytes"), "{refused}");
    }
}
