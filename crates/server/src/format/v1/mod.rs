//! Data format 1: frozen copies of its types, and the upgrade to format 2.
//!
//! The types are for reading only. They do not depend on openraft or on `state`, so an old folder stays readable when
//! those change. Names and comments are from the code that wrote the data, where they say more than the fields.

mod raft;
mod table;
#[cfg(test)]
mod tests;
mod upgrade;
mod words;

use super::snapshot::{SnapshotMeta, pack};
use super::{VERSION, decode};
use crate::store::{Unreadable, Upgrade};

/// Upgrades each older data format to the current one, for the store.
pub(crate) struct FromOlder;

impl Upgrade for FromOlder {
    fn frame(&self, version: u32, payload: &[u8]) -> Result<Vec<u8>, Unreadable> {
        check(version)?;
        let mut frame = Vec::new();
        let mut rest = payload;
        while !rest.is_empty() {
            let wrong = |error| Unreadable::Malformed(format!("it contains no valid record of format 1: {error}"));
            let (record, after) = postcard::take_from_bytes(rest).map_err(wrong)?;
            upgrade::record(record, &mut frame)?;
            rest = after;
        }
        Ok(frame)
    }

    /// In format 1 a snapshot is one chunk: the length of the meta, the meta, the table.
    fn snapshot(&self, version: u32, chunks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Unreadable> {
        check(version)?;
        let bytes = chunks.concat();
        let short = || Unreadable::Malformed("it is cut short".to_owned());
        let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (meta, table) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let meta: raft::SnapshotMeta = decode("meta of a snapshot of format 1", meta)?;
        let table: table::Table = decode("table of format 1", table)?;
        let meta = SnapshotMeta::from(meta).encode();
        Ok(std::iter::once(meta).chain(pack(upgrade::table(table)?.into_iter())).collect())
    }
}

fn check(version: u32) -> Result<(), Unreadable> {
    match version {
        1 => Ok(()),
        newer if newer > u32::from(VERSION) => Err(Unreadable::Newer { version: newer }),
        never => Err(Unreadable::Malformed(format!("data format {never} cannot be upgraded"))),
    }
}
