//! Backups: the file, how it is made, and how a data folder is made of it.
//!
//! A backup has the state without the secret of the cluster. It is written in the records of a snapshot, so a later
//! version reads it as it reads a snapshot.
//!
//! ```text
//! file  = head, chunk*, end
//! head  = "baton backup 1 cluster 0123456789abcdef term T entry N made MS", a blank, CRC-32C of the text in hexadecimal, newline
//! chunk = length u32, CRC-32C of length and payload u32, payload
//! end   = 0 u32, CRC-32C of all before u32
//! ```
//!
//! Each byte is checked, and nothing follows the end. So a file that is cut short or changed anywhere is refused.

use std::io::{self, Read};

use baton_types::cluster_id::ClusterId;
use crc32c::{crc32c, crc32c_append};

use crate::format::snapshot;
use crate::state::State;
use crate::store::{Unreadable, line};

/// The version of the file's layout. The chunks say their own versions.
const VERSION: u32 = 1;
const BEGINS: &str = "baton backup ";
/// A head is shorter.
const HEAD_BYTES_MAX: usize = 256;

/// What a backup is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub cluster: ClusterId,
    /// Term and index of the last entry that the backup contains.
    pub term: u64,
    pub index: u64,
    /// When the backup was made, in milliseconds since 1970.
    pub made_ms: u64,
}

/// A backup that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub about: About,
    /// Without the secret of the cluster.
    pub(crate) state: State,
    /// Of the file.
    pub bytes: u64,
}

/// Why a file is no backup that this version can restore. The caller adds the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum BadBackup {
    #[error("it is not a backup of baton")]
    Foreign,
    #[error(
        "a newer version wrote it ({what}), and this is baton {}; use the version that wrote it, or a newer one",
        env!("CARGO_PKG_VERSION")
    )]
    Newer { what: String },
    #[error("it is cut short: it ends at byte {at}; use another backup")]
    Cut { at: u64 },
    #[error("it is damaged before byte {at}: {what}; use another backup")]
    Damaged { at: u64, what: String },
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Gives the file for this state to `write`, piece by piece. Only one piece is in memory at a time.
pub fn write<E>(about: About, state: &State, mut write: impl FnMut(Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let (mut crc, state) = (0, state.without_secret());
    for piece in std::iter::once(about.head()).chain(snapshot::chunks(&state).map(sealed)) {
        crc = crc32c_append(crc, &piece);
        write(piece)?;
    }
    write([0_u32.to_le_bytes(), crc.to_le_bytes()].concat())
}

/// A chunk with its length and its checksum.
fn sealed(chunk: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(chunk.len()).expect("a chunk is longer than 64 KiB by at most one record").to_le_bytes();
    let crc = crc32c_append(crc32c(&length), &chunk).to_le_bytes();
    [&length[..], &crc, &chunk].concat()
}

impl About {
    fn head(&self) -> Vec<u8> {
        let About { cluster, term, index, made_ms } = self;
        let text = format!("{BEGINS}{VERSION} cluster {cluster} term {term} entry {index} made {made_ms}");
        line::encode(&text).into_bytes()
    }

    /// Of the text of a head, without its checksum.
    fn parse(text: &str) -> Option<About> {
        let mut words = text.split(' ');
        let mut after = |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let cluster = after("cluster")?.parse().ok()?;
        let mut number = |name: &str| after(name)?.parse().ok();
        let about = About { cluster, term: number("term")?, index: number("entry")?, made_ms: number("made")? };
        words.next().is_none().then_some(about)
    }
}

impl Backup {
    /// Reads a whole file, and checks all of it.
    pub fn read(file: impl Read) -> Result<Backup, BadBackup> {
        let mut reading = Reading { file, at: 0, crc: 0 };
        let about = reading.head()?;
        let mut chunks = Vec::new();
        while let Some(chunk) = reading.chunk()? {
            chunks.push(chunk);
        }
        let state = snapshot::restore(&chunks).map_err(|why| reading.unreadable(why))?;
        Ok(Backup { about, state, bytes: reading.at })
    }

    /// The fence of the last grant in it; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.state.last_fence()
    }

    /// Numbers of its sessions, and of its locks that are held, waited for or closed.
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.state.counts();
        (counts.sessions, counts.used)
    }
}

struct Reading<File> {
    file: File,
    /// The number of bytes that were read.
    at: u64,
    /// Their checksum.
    crc: u32,
}

impl<File: Read> Reading<File> {
    fn head(&mut self) -> Result<About, BadBackup> {
        let mut head = Vec::new();
        while head.last() != Some(&b'\n') {
            // Without a line this is another file, and of a backup only its beginning is left.
            let begins = &BEGINS.as_bytes()[..head.len().min(BEGINS.len())];
            if !head.starts_with(begins) || head.len() >= HEAD_BYTES_MAX {
                return Err(BadBackup::Foreign);
            }
            head.extend(self.bytes(1)?);
        }
        let text = line::decode(&head).ok_or_else(|| self.damaged("its first line is not as it was written"))?;
        let (version, rest) =
            text.strip_prefix(BEGINS).and_then(|text| text.split_once(' ')).ok_or(BadBackup::Foreign)?;
        match version.parse::<u32>() {
            Ok(version) if version > VERSION => Err(BadBackup::Newer { what: format!("backup format {version}") }),
            Ok(VERSION) => About::parse(rest).ok_or_else(|| self.damaged("its first line says something else")),
            _ => Err(self.damaged("its first line says no version")),
        }
    }

    /// None after the end.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>, BadBackup> {
        let all = self.crc;
        let length = self.number()?;
        if length == 0 {
            if self.number()? != all {
                return Err(self.damaged("its checksum is wrong"));
            }
            return match self.file.read(&mut [0])? {
                0 => Ok(None),
                _ => Err(self.damaged("more bytes follow its end")),
            };
        }
        let crc = self.number()?;
        let chunk = self.bytes(length as usize)?;
        match crc32c_append(crc32c(&length.to_le_bytes()), &chunk) == crc {
            true => Ok(Some(chunk)),
            false => Err(self.damaged("the checksum of a part is wrong")),
        }
    }

    fn number(&mut self) -> Result<u32, BadBackup> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were read")))
    }

    /// Exactly as many bytes. A damaged length does not decide how much memory is taken: the file does.
    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, BadBackup> {
        let mut bytes = Vec::new();
        self.file.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        self.crc = crc32c_append(self.crc, &bytes);
        if bytes.len() < length {
            return Err(BadBackup::Cut { at: self.at });
        }
        Ok(bytes)
    }

    fn damaged(&self, what: &str) -> BadBackup {
        BadBackup::Damaged { at: self.at, what: what.to_owned() }
    }

    fn unreadable(&self, why: Unreadable) -> BadBackup {
        match why {
            Unreadable::Newer { version } => BadBackup::Newer { what: format!("data format {version}") },
            Unreadable::Malformed(what) => BadBackup::Damaged { at: self.at, what },
        }
    }
}

#[cfg(test)]
mod tests;
