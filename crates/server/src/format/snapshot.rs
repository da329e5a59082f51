//! Snapshots, in chunks. The first chunk is the meta. Each further chunk contains whole records of the state, one after
//! the other. Every chunk begins with its version: the one in which its newest kind of record appeared.

use serde::{Deserialize, Serialize};

use super::record::{LogId, Membership, encode};
use super::{OLDEST_READ, check_version, decode};
use crate::state::{self, State};
use crate::store::Unreadable;

/// A chunk ends with the record that makes it reach this size. So it is larger by at most one record.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotMeta {
    /// The last entry that the snapshot contains.
    pub last: Option<LogId>,
    /// The members of the group at that entry.
    pub membership: Membership,
    /// The entry that set this membership.
    pub membership_at: Option<LogId>,
}

impl SnapshotMeta {
    /// The first chunk of a snapshot.
    pub fn encode(&self) -> Vec<u8> {
        // The version in which the meta has this form.
        let mut chunk = vec![2];
        chunk.extend(encode(self));
        chunk
    }

    pub fn decode(chunk: &[u8]) -> Result<SnapshotMeta, Unreadable> {
        decode("meta of a snapshot", body(chunk)?)
    }
}

/// The further chunks of a snapshot of this state. Only one chunk is in memory at a time.
pub(crate) fn chunks(state: &State) -> impl Iterator<Item = Vec<u8>> + '_ {
    pack_since(state.records(), state::Record::format)
}

/// `since` is [`state::Record::format`], except in tests.
pub(super) fn pack_since(
    records: impl Iterator<Item = state::Record>,
    since: fn(&state::Record) -> u8,
) -> impl Iterator<Item = Vec<u8>> {
    let mut records = records.peekable();
    std::iter::from_fn(move || {
        records.peek()?;
        let mut chunk = vec![OLDEST_READ];
        while chunk.len() < CHUNK_BYTES
            && let Some(record) = records.next()
        {
            chunk[0] = chunk[0].max(since(&record));
            chunk = postcard::to_extend(&record, chunk).expect("a piece can be encoded, and a vector grows");
        }
        Some(chunk)
    })
}

/// Restores the state from the further chunks.
pub(crate) fn restore<Chunk: AsRef<[u8]>>(chunks: &[Chunk]) -> Result<State, Unreadable> {
    restore_each(chunks.iter().map(Ok))
}

/// Restores the state from the further chunks, one after the other.
pub(crate) fn restore_each<Chunk: AsRef<[u8]>>(
    chunks: impl Iterator<Item = std::io::Result<Chunk>>,
) -> Result<State, Unreadable> {
    let read = |error: std::io::Error| Unreadable::Malformed(format!("it cannot be read: {error}"));
    State::restore(chunks.flat_map(|chunk| match chunk.map_err(read).and_then(|chunk| pieces(chunk.as_ref())) {
        Ok(pieces) => pieces.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

fn pieces(chunk: &[u8]) -> Result<Vec<state::Record>, Unreadable> {
    let mut rest = body(chunk)?;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let wrong = |error| Unreadable::Malformed(format!("it contains no valid part of the state: {error}"));
        let (piece, after) = postcard::take_from_bytes(rest).map_err(wrong)?;
        pieces.push(piece);
        rest = after;
    }
    Ok(pieces)
}

/// A chunk without its version.
fn body(chunk: &[u8]) -> Result<&[u8], Unreadable> {
    let (version, body) = chunk.split_first().ok_or_else(|| Unreadable::Malformed("a chunk is empty".to_owned()))?;
    check_version(*version)?;
    Ok(body)
}
